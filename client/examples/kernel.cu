/* A kernel sends: it posts WRITEs with a notification into a lent channel, waits for its own
 * notifications in the mailbox, and takes the completions.  The host only wakes the worker.
 *
 *   nvcc -arch=sm_75 kernel.cu -ltesup
 */
#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>

#include "tesup.h"
#include "tesup_device.cuh"

#define ROUNDS   1000
#define PATIENCE 2000000000LL /* clock ticks, about a second */

struct job {
    void *channel; /* as the device reaches it */
    uint32_t region, remote;
    int rc, rounds;
};

__device__ static int until(int *rc, long long end)
{
    return *rc == TESUP_DEVICE_AGAIN && clock64() < end;
}

__device__ static int round_trip(struct tesup_device *device, const struct job *job, int round)
{
    struct tesup_device_request request = {};
    struct tesup_device_notification note;
    struct tesup_device_cqe completion;
    long long end = clock64() + PATIENCE;
    int rc;

    request.op = TESUP_DEVICE_WRITE;
    request.cookie = (uint64_t)round;
    request.length = 4096;
    request.remote_offset = 4096;
    request.local_region = request.remote_region = job->region;
    request.remote = job->remote;
    request.name = "from a kernel";
    request.name_len = 13;
    do
        rc = tesup_device_post(device, &request);
    while (until(&rc, end));
    if (rc)
        return rc;
    do
        rc = tesup_device_peek(device, &note);
    while (until(&rc, end));
    if (rc)
        return rc;
    tesup_device_release(device, &note);
    do
        rc = tesup_device_poll(device, &completion);
    while (until(&rc, end));
    return rc ? rc : completion.status;
}

__global__ static void sender(struct job *job)
{
    static __device__ struct tesup_device device;
    int rc = tesup_device_open(&device, job->channel);

    for (job->rounds = 0; !rc && job->rounds < ROUNDS; job->rounds++)
        rc = round_trip(&device, job, job->rounds);
    job->rc = rc;
}

/* 0, or what went wrong in *why. */
static int run(struct tesup_session *session, struct job *job, const char **why)
{
    struct tesup_channel *channel = tesup_channel_main(session);
    struct tesup_lent lent;
    cudaStream_t stream;
    void *memory;

    *why = "the session";
    if (tesup_mem_alloc(session, 8192, TESUP_ACCESS_REMOTE_WRITE, &memory, &job->region) ||
        tesup_segment_open(session, tesup_segment_name(session), &job->remote) ||
        tesup_channel_lend(channel, &lent))
        return -1;
    memcpy(memory, "block 17 is there", 18);
    *why = "CUDA";
    if (cudaHostRegister(lent.base, lent.size, cudaHostRegisterMapped) ||
        cudaHostGetDevicePointer(&job->channel, lent.base, 0) || cudaStreamCreate(&stream))
        return -1;
    sender<<<1, 1, 0, stream>>>(job);
    while (cudaStreamQuery(stream) == cudaErrorNotReady)
        tesup_channel_wake(channel);
    if (cudaStreamSynchronize(stream) || cudaHostUnregister(lent.base) || cudaStreamDestroy(stream))
        return -1;
    *why = "the kernel";
    return job->rc || tesup_channel_reclaim(channel) || strcmp((char *)memory + 4096, (char *)memory);
}

int main(void)
{
    struct tesup_session *session;
    const char *why;
    struct job *job;
    int rc;

    if (cudaGetLastError() || cudaHostAlloc((void **)&job, sizeof(*job), cudaHostAllocMapped)) {
        fprintf(stderr, "no GPU: %s\n", cudaGetErrorString(cudaGetLastError()));
        return 77;
    }
    if (tesup_attach(NULL, &session)) {
        fprintf(stderr, "%s\n", tesup_last_error());
        return 1;
    }
    rc = run(session, job, &why);
    if (rc)
        fprintf(stderr, "%s failed (%d): %s\n", why, job->rc, tesup_last_error());
    else
        printf("%d round trips by a kernel\n", job->rounds);
    tesup_detach(session);
    cudaFreeHost(job);
    return rc != 0;
}
