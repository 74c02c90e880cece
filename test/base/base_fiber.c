/* Fibers: they go on from where they waited, with what they had in registers, on the stack and as floating-point mode. */
#include "base/fiber.h"

#include "base/float_mode.h"
#include "common/unit.h"

#include <math.h>
#include <string.h>

enum { N = 40, ROUNDS = 25 };

typedef struct walk {
    tpi_fiber *fiber;
    int number, round;
    double sum;
    bool aligned;
} walk;

static uint64_t mix(uint64_t x)
{
    return (x ^ x >> 31) * UINT64_C(0x9E3779B97F4A7C15);
}

/* More values than there are registers, of both kinds, are alive over each wait. */
static void walk_on(void *user)
{
    walk *w = user;
    uint64_t a[12];
    double d[12];
    _Alignas(16) volatile char place[16] = {0};
    w->aligned = (uintptr_t)place % 16 == 0;
    for (int i = 0; i < 12; i++) {
        a[i] = mix((uint64_t)(w->number * 100 + i));
        d[i] = (double)(w->number + i);
    }
    for (w->round = 0; w->round < ROUNDS; w->round++) {
        for (int i = 0; i < 12; i++) {
            a[i] = mix(a[i]);
            d[i] = sqrt(d[i] * d[i] + 1);
        }
        tpi_fiber_wait(w->fiber);
    }
    w->sum = 0;
    for (int i = 0; i < 12; i++)
        w->sum += d[i] + (double)(a[i] >> 40);
}

static double sum_of(int number)
{
    walk alone = {.number = number};
    uint64_t a;
    for (int i = 0; i < 12; i++) {
        a = mix((uint64_t)(number * 100 + i));
        double d = (double)(number + i);
        for (int round = 0; round < ROUNDS; round++) {
            a = mix(a);
            d = sqrt(d * d + 1);
        }
        alone.sum += d + (double)(a >> 40);
    }
    return alone.sum;
}

static void they_go_on(void **state)
{
    (void)state;
    tpi_fiber *idle = NULL;
    static walk w[N];
    for (int times = 0; times < 2; times++) { /* the second time on used stacks */
        for (int i = 0; i < N; i++) {
            w[i] = (walk){.fiber = tpi_fiber_take(&idle), .number = i};
            assert_non_null(w[i].fiber);
            assert_false(tpi_fiber_start(w[i].fiber, walk_on, &w[i]));
            assert_true(w[i].aligned);
        }
        for (int round = 1; round < ROUNDS; round++)
            for (int i = N - 1; i >= 0; i--) {
                assert_int_equal(w[i].round, round - 1);
                assert_false(tpi_fiber_go_on(w[i].fiber));
            }
        for (int i = 0; i < N; i++) {
            assert_true(tpi_fiber_go_on(w[i].fiber));
            assert_true(w[i].sum == sum_of(i));
            tpi_fiber_give_back(&idle, w[i].fiber);
        }
    }
    tpi_fibers_close(&idle, 0);
    assert_null(idle);
}

static void set_mode_and_wait(void *user)
{
    walk *w = user;
    const tpi_float_mode was = tpi_float_mode_begin();
    w->round = tpi_float_mode_is_default(tpi_float_mode_now());
    tpi_fiber_wait(w->fiber);
    w->round += tpi_float_mode_is_default(tpi_float_mode_now());
    tpi_float_mode_end(&was);
    w->number = tpi_float_mode_is_default(tpi_float_mode_now());
}

/* A fiber in the default mode waits, and who goes on has the mode it had. */
static void each_has_its_float_mode(void **state)
{
    (void)state;
#if defined(__SSE2__) || defined(__aarch64__)
#if defined(__SSE2__)
    const tpi_float_mode upward = TPI_FLOAT_DEFAULT | 2 << 13;
#else
    const tpi_float_mode upward = 1 << 22;
#endif
    tpi_fiber *idle = NULL;
    walk w = {.fiber = tpi_fiber_take(&idle), .number = -1};
    const tpi_float_mode was = tpi_float_mode_now();
    assert_non_null(w.fiber);
    tpi_float_mode_set(upward);
    const bool waits = !tpi_fiber_start(w.fiber, set_mode_and_wait, &w);
    const bool back = !tpi_float_mode_is_default(tpi_float_mode_now());
    tpi_float_mode_set(was);
    const bool ends = tpi_fiber_go_on(w.fiber);
    const bool kept = tpi_float_mode_is_default(tpi_float_mode_now());
    assert_true(waits && back && ends && kept);
    assert_int_equal(w.round, 2);
    assert_int_equal(w.number, 0);
    tpi_fiber_give_back(&idle, w.fiber);
    tpi_fibers_close(&idle, 0);
#endif
}

static void use_stack(void *user)
{
    walk *w = user;
    volatile char much[400 << 10];
    memset((char *)much, 7, sizeof much);
    const tpi_stack s = tpi_fiber_stack(w->fiber);
    w->aligned = (const char *)much >= s.low && (const char *)much + sizeof much <= s.high;
    w->sum = much[5];
}

static void a_stack_has_half_a_megabyte(void **state)
{
    (void)state;
    tpi_fiber *idle = NULL;
    walk w = {.fiber = tpi_fiber_take(&idle)};
    assert_non_null(w.fiber);
    assert_true(tpi_fiber_start(w.fiber, use_stack, &w));
    assert_true(w.aligned && w.sum == 7);
    tpi_fiber_give_back(&idle, w.fiber);
    tpi_fibers_close(&idle, 0);
}

static void wait_for_ever(void *user)
{
    walk *w = user;
    volatile char some[64] = {0};
    some[0] = 1;
    tpi_fiber_wait(w->fiber);
    w->round = some[0];
}

static void what_waits_is_closed(void **state)
{
    (void)state;
    tpi_fiber *idle = NULL;
    for (int i = 0; i < N; i++) {
        walk w = {.fiber = tpi_fiber_take(&idle)};
        assert_non_null(w.fiber);
        assert_false(tpi_fiber_start(w.fiber, wait_for_ever, &w));
        tpi_fiber_close(w.fiber);
        assert_int_equal(w.round, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(they_go_on),
        CASE(each_has_its_float_mode),
        CASE(a_stack_has_half_a_megabyte),
        CASE(what_waits_is_closed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
