/* The thread that registers large memory. */
#ifndef TESUP_WORKER_FABRIC_VERBS_REGISTRAR_H
#define TESUP_WORKER_FABRIC_VERBS_REGISTRAR_H

struct verbs_nic;
struct verbs_mr;

/* TS_OK: verbs_mr_on_worked follows, in the loop. An error: do it yourself. */
int verbs_registrar_queue(struct verbs_nic *nic, struct verbs_mr *mr);

/* mr.c: the part without the loop's data, for any thread; and what the loop does then. */
void verbs_mr_register(struct verbs_mr *mr);
void verbs_mr_on_registered(struct verbs_mr *mr);
void verbs_mr_on_worked(struct verbs_mr *mr);

#endif
