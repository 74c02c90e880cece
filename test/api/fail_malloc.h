/* The C library's allocator with a place where it has no more: one allocation of the process fails, whoever
 * asks. Linked into a test, or by LD_PRELOAD into a program, where FAIL_MALLOC_AT=n says which and
 * FAIL_MALLOC_COUNT=path gets the number of allocations at its end. */
#ifndef TAPIR_TEST_FAIL_MALLOC_H
#define TAPIR_TEST_FAIL_MALLOC_H

/* The n-th from now fails; 0: none does. */
void fail_malloc_at(long n);
/* Has it? */
int fail_malloc_reached(void);
/* Blocks that are out. */
long fail_malloc_live(void);

#endif
