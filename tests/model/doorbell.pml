/* Publish, arm, sleep, wake (shm/doorbell.h) between a worker and a job, and no wake-up is lost.
 *
 * The worker delivers N messages through nrx, a ring of ROOM entries, in batches of any size.  The
 * job sleeps on job_bell while nrx is empty; the worker sleeps on nrx_room while it is full: each
 * is producer of one word and consumer of the other, so both roles of the bell are in the model.
 *
 * Stores do not reach memory at once.  Each process has one store buffer per word, drained in any
 * order between words: weaker than TSO (x86) and than the acquire/release of the C code, so what
 * holds here holds there.  A full fence waits until the process's buffers are empty; so does an
 * exchange, which acts on memory (locked on x86).  Whatever a process never fenced may stay
 * buffered as long as an adversary likes, but not for ever.
 *
 * A lost wake-up is a state in which a sleeper waits and nobody will write its eventfd: Spin
 * reports it as an invalid end state.  The deadlines of the real waits are left out on purpose,
 * they would hide it.
 *
 *   -DNO_FENCE_CONSUMER  without D0: Spin must find the lost wake-up
 *   -DNO_FENCE_PRODUCER  without D1: the same
 */
#define N    4 /* messages: the ring goes round twice */
#define ROOM 2

/* Memory.  Counters are small here; wrap-around has its own tests. */
byte tail = 0;     /* worker writes */
byte head = 0;     /* job writes */
bit job_armed = 0; /* job sets; the worker's exchange clears */
bit room_armed = 0;
byte job_fd = 0;   /* eventfds live in the kernel: no store buffer */
byte room_fd = 0;

/* Store buffers: the worker stores tail and room_armed, the job head and job_armed. */
chan buffered_tail = [N] of { byte };
chan buffered_head = [N] of { byte };
chan buffered_job_armed = [2] of { bit };
chan buffered_room_armed = [2] of { bit };

#define WORKER_FENCE (empty(buffered_tail) && empty(buffered_room_armed))
#define JOB_FENCE    (empty(buffered_head) && empty(buffered_job_armed))

#ifdef NO_FENCE_CONSUMER
#define D0(fence) true
#else
#define D0(fence) fence
#endif
#ifdef NO_FENCE_PRODUCER
#define D1(fence) true
#else
#define D1(fence) fence
#endif

/* doorbell_ring: after a publish.  The exchange waits for the buffers, then acts on memory. */
#define RING(armed, fd, fence)                                  \
    D1(fence);                                                  \
    if                                                          \
    :: armed == 0                                               \
    :: else ->                                                  \
        fence;                                                  \
        if                                                      \
        :: atomic { armed == 1 -> armed = 0 } -> fd = 1         \
        :: armed == 0                                           \
        fi                                                      \
    fi

/* doorbell_arm, one more look, and only then sleep; disarm; the caller looks again.  `fd` is what would end
 * the sleep at once: in a worker an edge, which waking takes; in a job the counter of the eventfd, which
 * it empties before it arms. */
#define EMPTY(fd) fd = 0
#define LEAVE(fd) skip
#define ARM_AND_SLEEP(before, buffered_armed, fd, fence, nothing_new, after) \
    before(fd);                                                 \
    buffered_armed!1;                                           \
    D0(fence);                                                  \
    if                                                          \
    :: nothing_new ->                                           \
        atomic { fd > 0 -> after(fd) }                          \
    :: else                                                     \
    fi;                                                         \
    buffered_armed!0

active proctype worker()
{
    byte sent = 0;     /* private tail */
    byte seen = 0;     /* cached head */

    do
    :: sent == N -> break
    :: sent < N ->
        seen = head;
        if
        :: sent - seen == ROOM ->
            ARM_AND_SLEEP(LEAVE, buffered_room_armed, room_fd, WORKER_FENCE, head == seen, EMPTY)
        :: sent - seen < ROOM ->
            sent++;
            if /* a batch: one publish and one fence for both, or for each its own */
            :: sent < N && sent - seen < ROOM -> sent++
            :: true
            fi;
            buffered_tail!sent;
            RING(job_armed, job_fd, WORKER_FENCE)
        fi
    od
}

active proctype job()
{
    byte taken = 0; /* private head */
    byte seen = 0;  /* cached tail */

    do
    :: taken == N -> break
    :: taken < N ->
        seen = tail;
        assert(seen >= taken && seen - taken <= ROOM);
        if
        :: seen == taken ->
            ARM_AND_SLEEP(EMPTY, buffered_job_armed, job_fd, JOB_FENCE, tail == seen, LEAVE)
        :: seen > taken ->
            taken++;
            if
            :: taken < seen -> taken++
            :: true
            fi;
            buffered_head!taken;
            RING(room_armed, room_fd, JOB_FENCE)
        fi
    od;
    assert(tail == N)
}

/* The memory system: takes the oldest store of any word, whenever it likes. */
active proctype memory()
{
end:
    do
    :: atomic { buffered_tail?tail }
    :: atomic { buffered_head?head }
    :: atomic { buffered_job_armed?job_armed }
    :: atomic { buffered_room_armed?room_armed }
    od
}
