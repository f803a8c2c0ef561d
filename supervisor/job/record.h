/* The records of a job: what its worker has, in the words that told it. */
#ifndef TESUP_SUPERVISOR_JOB_RECORD_H
#define TESUP_SUPERVISOR_JOB_RECORD_H

#include "supervisor/job/job.h"

/* Makes the channel's memfd and eventfds. TS_OK with *handle, or an error with text. */
int job_channel_add(struct job *job, uint32_t slots, uint32_t *handle, char *text,
                    size_t text_size);
/* TS_OK, TS_ERR_NOT_FOUND, TS_ERR_GONE while it is being removed. */
int job_channel_get(struct job *job, uint32_t handle, struct job_channel **channel);
void job_channel_drop(struct job *job, uint32_t handle);

/* Takes the descriptors of a job's WIRE_REGION_ADD or _GPU. TS_OK with *handle, TS_ERR_LIMIT or
 * TS_ERR_NO_MEMORY. */
int job_region_add(struct job *job, struct wire_message *message, uint32_t *handle);
int job_region_get(struct job *job, uint32_t handle, struct job_region **region);
void job_region_drop(struct job *job, uint32_t handle);

int job_remote_add(struct job *job, const struct proto_remote *ask, uint32_t *handle);
int job_remote_get(struct job *job, uint32_t handle, struct job_remote **remote);
void job_remote_drop(struct job *job, uint32_t handle);

void job_records_drop(struct job *job);

#endif
