/* Pure functions whose loops C counts while values end them, called with random numbers in random order: a replay that
 * cannot know how often C goes round has to leave it to C.
 *
 *     pure_turns [--seed N] [--count N]     sequences of calls of each function, each with a function of its own */
#include "common/unit.h"
#include <tapir/tapir.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool above(tp_tensor *a, double value)
{
    return tp_truth(tp_gt(a, tp_scalar_like(a, value)));
}

static tp_tensor *times(tp_tensor *a, double value)
{
    return tp_mul(a, tp_scalar_like(a, value));
}

#define BODY(name)                                                                             \
    static void name(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)

/* Two turns, in each a loop that is left by one of two looks. */
BODY(two_looks)
{
    (void)user, (void)n_in, (void)n_out;
    tp_tensor *x = in[0];
    for (int i = 0; i < 2; i++) {
        for (;;) {
            if (above(x, 8)) {
                x = times(x, 0.125);
                break;
            }
            if (!above(x, 1)) {
                x = tp_add(x, tp_scalar_like(x, 3));
                break;
            }
            x = times(x, 1.5);
        }
    }
    out[0] = x;
}

static float two_looks_of(float x)
{
    for (int i = 0; i < 2; i++) {
        while (x > 1 && x <= 8)
            x *= 1.5f;
        x = x > 8 ? x * 0.125f : x + 3;
    }
    return x;
}

/* Two turns, in each a bounded loop. */
BODY(bounded)
{
    (void)user, (void)n_in, (void)n_out;
    tp_tensor *x = in[0];
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 3; k++) {
            if (above(x, 8))
                break;
            x = times(x, 1.5);
        }
        x = times(x, 0.25);
    }
    out[0] = x;
}

static float bounded_of(float x)
{
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < 3 && !(x > 8); k++)
            x *= 1.5f;
        x *= 0.25f;
    }
    return x;
}

/* The same with nothing between the loops, so that all turns look alike. */
BODY(alike)
{
    (void)user, (void)n_in, (void)n_out;
    tp_tensor *x = in[0];
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) {
            x = times(x, 1.5);
            if (above(x, 8))
                break;
        }
    out[0] = x;
}

static float alike_of(float x)
{
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < 2; k++) {
            x *= 1.5f;
            if (x > 8)
                break;
        }
    return x;
}

/* Two turns, in each a branch to a loop that values end, or to a bounded one. */
BODY(either)
{
    (void)user, (void)n_in, (void)n_out;
    tp_tensor *x = in[0];
    for (int i = 0; i < 2; i++) {
        if (above(x, 8)) {
            x = times(x, 0.125);
            while (above(x, 2))
                x = times(x, 0.5);
        } else {
            for (int k = 0; k < 3 && !above(x, 4); k++)
                x = tp_add(x, tp_scalar_like(x, 3));
        }
    }
    out[0] = x;
}

static float either_of(float x)
{
    for (int i = 0; i < 2; i++) {
        if (x > 8) {
            x *= 0.125f;
            while (x > 2)
                x *= 0.5f;
        } else {
            for (int k = 0; k < 3 && !(x > 4); k++)
                x += 3;
        }
    }
    return x;
}

static const struct {
    const char *name;
    tp_body body;
    float (*of)(float);
} functions[] = {
    {"two_looks", two_looks, two_looks_of},
    {"bounded",   bounded,   bounded_of  },
    {"alike",     alike,     alike_of    },
    {"either",    either,    either_of   },
};
enum { N_FUNCTIONS = sizeof functions / sizeof *functions };

static uint64_t pick(uint64_t *seed, uint64_t n)
{
    return (unit_random(seed) >> 20) % n;
}

/* Mostly small, with few bits, so that C and the ops round alike. */
static float draw_number(uint64_t *seed)
{
    const float scales[] = {1, 0.0625f};
    const float n = (float)pick(seed, 64) * scales[pick(seed, 2)];
    return (pick(seed, 4) ? n : n * 4) - 2;
}

/* False: a call gave something else. */
static bool try_calls(int which, uint64_t number, int64_t *called, int64_t *ran)
{
    uint64_t seed = number;
    tp_ctx *tp = tp_open(&(tp_options){.compiler = "/nonexistent/cc"});
    tp_function *f = tp_function_new(tp, functions[which].name, functions[which].body, NULL,
                                     &(tp_function_options){.pure = true});
    const int n = 4 + (int)pick(&seed, 20);
    bool ok = true;
    for (int i = 0; i < n && ok; i++) {
        const float x = draw_number(&seed), expected = functions[which].of(x);
        float y = 0;
        tp_scope_begin(tp);
        tp_tensor *in = tp_scalar(tp, TP_F32, (double)x), *out;
        ok = tp_function_call(f, 1, &in, 1, &out) == TP_OK &&
             tp_read(out, &y, sizeof y) == TP_OK;
        if (!ok)
            printf("%s\n", tp_error_message(tp));
        else if (y != expected)
            printf("call %d of %s with %g: %g, not %g\n", i, functions[which].name, (double)x,
                   (double)y, (double)expected);
        ok = ok && y == expected;
        tp_scope_end(tp);
    }
    *called += tp_function_stats_of(f).calls;
    *ran += tp_function_stats_of(f).user_calls;
    tp_close(tp);
    return ok;
}

int main(int argc, char **argv)
{
    uint64_t seed = 1, count = 250;
    for (int i = 1; i + 1 < argc; i += 2)
        *(strcmp(argv[i], "--seed") == 0 ? &seed : &count) = strtoull(argv[i + 1], NULL, 10);
    int failed = 0;
    for (int k = 0; k < N_FUNCTIONS; k++) {
        int64_t called = 0, ran = 0;
        for (uint64_t i = 0; i < count; i++)
            if (!try_calls(k, seed + i, &called, &ran)) {
                printf("repeat: %s --seed %llu --count 1\n", argv[0],
                       (unsigned long long)(seed + i));
                failed++;
            }
        printf("%s: %llu sequences of calls, the body ran in %lld of %lld\n", functions[k].name,
               (unsigned long long)count, (long long)ran, (long long)called);
        if (count >= 100 && ran > called * 3 / 4) {
            printf("%s: hardly any call is replayed\n", functions[k].name);
            failed++;
        }
    }
    printf("%d failed\n", failed);
    return failed != 0;
}
