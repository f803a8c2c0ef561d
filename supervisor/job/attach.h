/* From HELLO to WELCOME. */
#ifndef TESUP_SUPERVISOR_JOB_ATTACH_H
#define TESUP_SUPERVISOR_JOB_ATTACH_H

#include "supervisor/job/ask.h"

/* Takes `socket`; `message` is a WIRE_HELLO. */
void job_attach(struct supervisor *supervisor, int socket, const struct ucred *cred,
                struct wire_message *message);
/* Waits for the worker to be ready, with a deadline. */
void job_attach_wait(struct job *job);
/* It is: make the first channel and tell it. */
void job_attach_start(struct job *job);
/* The worker answered SESSION_ADD or CHANNEL_ADD. */
void job_attach_answered(struct job *job, int status, const char *text);
/* WELCOME with an error; ends the job. */
void job_attach_refuse(struct job *job, int status, const char *text);

/* A refusal to a connection that is no job. */
void job_attach_deny(struct supervisor *supervisor, int socket, uint32_t id, int status,
                     const char *text);

#endif
