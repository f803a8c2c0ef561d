/* The few atomic operations that tesup uses, by the name of what they are for.
 *
 * Every call names its partner in a comment at the call site, after the model of ring documentation
 * in docs/memory-model.md.  No code outside this file spells a memory order.
 */
#ifndef TESUP_SHM_ATOMICS_H
#define TESUP_SHM_ATOMICS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Publish: everything written before is visible to who observes the value with atomic_observe. */
static inline void atomic_publish(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_release);
}

static inline uint64_t atomic_observe(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_acquire);
}

/* A word that only this side writes, or a statistic that orders nothing. */
static inline uint64_t atomic_peek(const _Atomic uint64_t *word)
{
    return atomic_load_explicit(word, memory_order_relaxed);
}

static inline void atomic_set(_Atomic uint64_t *word, uint64_t value)
{
    atomic_store_explicit(word, value, memory_order_relaxed);
}

/* Single-writer counter: a plain add, no locked instruction. */
static inline void atomic_count(_Atomic uint64_t *word, uint64_t add)
{
    atomic_set(word, atomic_peek(word) + add);
}

/* Store -> load order between two words of different writers (arm/publish).  ThreadSanitizer does
 * not model fences; the tests that run under it cover the acquire/release edges only. */
static inline void atomic_fence_full(void)
{
    atomic_thread_fence(memory_order_seq_cst);
}

/* Copies what the other side may change at any time, so that it can be checked and then used.
 * Without the barrier a compiler may forward the source of a memcpy: reading the copy would become
 * a second read of shared memory, behind the check. */
static inline void memory_copy_once(void *copy, const void *shared, size_t size)
{
    memcpy(copy, shared, size);
    __asm__ __volatile__("" ::: "memory");
}

#if defined(__x86_64__) || defined(__i386__)
#define cpu_relax() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define cpu_relax() __asm__ __volatile__("yield")
#else
#define cpu_relax() ((void)0)
#endif

#endif
