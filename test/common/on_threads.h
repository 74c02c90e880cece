/* The main function of a test that does the same on one thread and on several. */
#ifndef TAPIR_ON_THREADS_H
#define TAPIR_ON_THREADS_H

#include "common/unit.h"

static struct {
    void (*run)(int threads);
    int several;
} threads_of_test;

static void test_one_thread(void **state)
{
    (void)state;
    threads_of_test.run(1);
}

static void test_threads(void **state)
{
    (void)state;
    threads_of_test.run(threads_of_test.several);
}

static inline int main_on_threads(void (*run)(int threads), int several)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_thread),
                                              cmocka_unit_test(test_threads)};
    threads_of_test.run = run;
    threads_of_test.several = several;
    return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
