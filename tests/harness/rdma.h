/* Two supervisors over RDMA in the test VM (scripts/rdma-vm): one with rxe0, one with rxe1, so that
 * what they say to each other crosses from device to device; and what the kernel counts of it. */
#ifndef TESUP_TESTS_HARNESS_RDMA_H
#define TESUP_TESTS_HARNESS_RDMA_H

#include "shm/counters.h"
#include "tests/harness/site.h"

enum { RDMA_LEFT, RDMA_RIGHT, RDMA_SIDES };

/* Of rdma_setup and rdma_group_setup. */
extern struct daemon rdma_daemon[RDMA_SIDES];
extern const struct site rdma_site;

/* Group set-up and tear-down of tests that start their own supervisors: the directory, and a
 * failure with the remedy outside the VM. */
int rdma_vm_setup(void **state);
int rdma_vm_teardown(void **state);
/* With both supervisors for the whole group. */
int rdma_group_setup(void **state);
int rdma_group_teardown(void **state);
/* Set-up and tear-down of one test: a fresh pair of supervisors, with the options in *state. */
int rdma_setup(void **state);
int rdma_teardown(void **state);

void rdma_start(struct daemon *daemon, const char *name, unsigned side, const char *options);

/* What a process has of its device. */
struct rdma_objects {
    unsigned qps, cqs, mrs, pds;
};
struct rdma_objects rdma_objects(pid_t pid);
/* Its connected queue pairs: own number and the peer's. */
struct rdma_queue {
    uint32_t number, peer;
};
unsigned rdma_queues(pid_t pid, struct rdma_queue *queues, unsigned room);
/* Of the port, by its name under hw_counters. */
uint64_t rdma_hw_count(unsigned side, const char *name);
/* One end of the cable: its network interface. */
const char *rdma_netdev(unsigned side);

/* Runs the words of a command, which must succeed. */
void rdma_run(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Cuts the cable at one end, or gives back link, address and routes as they were. */
void rdma_cable_cut(unsigned side);
void rdma_cable_join(unsigned side);
void rdma_address_drop(unsigned side);
void rdma_address_give(unsigned side);
/* This end must ask for the other's MAC address, or has it again. */
void rdma_neighbour_drop(unsigned side);
void rdma_neighbour_give(unsigned side);
/* What happens to packets that leave this end: netem's words, as "loss 1%"; NULL: nothing. */
void rdma_disturb(unsigned side, const char *netem);

/* The only endpoint of the first worker to another one, as `tesup status` shows it. */
struct rdma_endpoint {
    char state[16], fabric[16], notify[48];
};
struct rdma_endpoint rdma_endpoint(const struct counters_segment *counters);

#endif
