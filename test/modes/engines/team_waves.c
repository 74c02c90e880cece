/* Steps side by side give the bits of one thread: branches of a graph, the updates of many parameters,
 * graphs drawn by chance; by tiles and compiled, by any number of threads. Handing out work costs
 * nothing here, so that all that can be a wave is one. */
#include "common/unit.h"
#include "plan/cut.h"
#include "run/program.h"
#include "tapir/tapir.h"

#include <stdlib.h>

enum { MOST_FETCHES = 4, STEPS = 2 };

typedef struct net {
    tp_tensor *x;     /* [n, 24] */
    tp_tensor *picks; /* [5] i64 */
    int n_fetches;
    const char *fetches[MOST_FETCHES];
    tp_optimizer *adam;
    unsigned drawn; /* of a graph by chance */
} net;

static void give(net *m, tp_tensor *t)
{
    static const char *const names[MOST_FETCHES] = {"y0", "y1", "y2", "y3"};
    m->fetches[m->n_fetches] = names[m->n_fetches];
    tp_name(t, names[m->n_fetches++]);
}

static tp_tensor *weights(tp_ctx *tp, int64_t rows, int64_t columns)
{
    return tp_normal(tp, TP_F32, TP_DIMS(rows, columns), 0, 0.3);
}

/* ---- graphs ---------------------------------------------------------------------------------- */

/* Chains of products of different lengths, which meet. */
static void branches(tp_ctx *tp, net *m)
{
    tp_tensor *sum = NULL;
    for (int i = 0; i < 5; i++) {
        tp_tensor *h = m->x;
        for (int k = 0; k <= i % 3; k++)
            h = tp_softmax(tp_matmul(h, weights(tp, 24, 24)), 1);
        sum = sum ? tp_add(sum, tp_tanh(h)) : h;
    }
    give(m, sum);
    give(m, tp_sum(tp_exp(m->x), TP_DIMS(0), false));
}

/* Twice one after the other: convolutions, pooling, moves, numbers drawn. */
static void images(tp_ctx *tp, net *m)
{
    tp_tensor *h = tp_reshape(m->x, TP_DIMS(-1, 1, 4, 6));
    for (int i = 0; i < 2; i++) {
        tp_tensor *side[4];
        const tp_window same = {
            .pad_lo = {1, 1},
              .pad_hi = {1, 1}
        };
        const tp_window pool = {
            .kernel = {3, 3},
              .pad_lo = {1, 1},
              .pad_hi = {1, 1},
              .stride = {1, 1}
        };
        const int64_t n = tp_size(h, 1);
        side[0] = tp_conv(h, tp_normal(tp, TP_F32, TP_DIMS(3, n, 3, 3), 0, 1), &same);
        side[1] = tp_conv(h, tp_normal(tp, TP_F32, TP_DIMS(2, n, 1, 1), 0, 1), NULL);
        side[2] = tp_max_pool(h, &pool);
        side[3] = tp_dropout(h, 0.5);
        h = tp_relu(tp_concat(4, side, 1));
    }
    give(m, h);
}

/* A training step: the gradients' products and the updates. */
static void training(tp_ctx *tp, net *m)
{
    tp_tensor *params[12], *h = m->x;
    for (int i = 0; i < 6; i++) {
        char w[] = "w0", b[] = "b0";
        w[1] = b[1] = (char)('0' + i);
        params[2 * i] = tp_param(weights(tp, 24, 24), w);
        params[2 * i + 1] = tp_param(tp_full(tp, TP_F32, TP_DIMS(24), 0.1), b);
        h = tp_tanh(tp_add(tp_matmul(h, params[2 * i]), params[2 * i + 1]));
    }
    m->adam = tp_adam_new(tp, 0.01, &(tp_adam_options){.decay = 0.01}, 12, params);
    tp_tensor *loss = tp_mean(tp_square(h), TP_ALL, false);
    give(m, loss);
    give(m, tp_optimizer_step(m->adam, loss));
}

/* Picks of rows: those of two tasks are out of range in the second step, of which the later one takes
 * longer; the first in program order is told of. */
static void picking(tp_ctx *tp, net *m)
{
    tp_tensor *sum = NULL;
    for (int i = 0; i < 4; i++) {
        tp_tensor *rows = tp_gather(weights(tp, i == 1 ? 9 : 30, 24), m->picks, 0);
        if (i == 2)
            rows = tp_gather(weights(tp, 9, 240), m->picks, 0);
        if (i == 2)
            rows = tp_softmax(tp_matmul(rows, weights(tp, 240, 24)), 1);
        rows = tp_tanh(rows);
        sum = sum ? tp_add(sum, rows) : rows;
    }
    give(m, sum);
    give(m, tp_neg(m->x));
}

static unsigned draw(net *m, unsigned below)
{
    m->drawn = m->drawn * 1664525u + 1013904223u;
    return (m->drawn >> 8) % below;
}

/* Ops of values drawn among those before, late ones more often. */
static void by_chance(tp_ctx *tp, net *m)
{
    enum { N = 40 };
    tp_tensor *v[N];
    tp_tensor *const square = tp_matmul(tp_swap(m->x, 0, 1), m->x);
    for (int i = 0; i < N; i++) {
        tp_tensor *a = i ? v[draw(m, (unsigned)i)] : square,
                  *b = i ? v[i - 1 - (int)draw(m, (unsigned)(i < 6 ? i : 6))] : square;
        switch (draw(m, 7)) {
        case 0:
            v[i] = tp_tanh(tp_matmul(a, b));
            break;
        case 1:
            v[i] = tp_softmax(tp_add(a, b), 1);
            break;
        case 2:
            v[i] = tp_mul(tp_swap(a, 0, 1), b);
            break;
        case 3:
            v[i] = tp_tanh(tp_cumsum(a, 0, false, false));
            break;
        case 4:
            v[i] = tp_sub(a, tp_mean(b, TP_DIMS(0), true));
            break;
        case 5:
            v[i] = tp_tanh(tp_matmul(a, weights(tp, 24, 24)));
            break;
        default:
            v[i] = tp_concat(
                2, (tp_tensor *[]){tp_slice(a, 0, 0, 11, 1), tp_slice(b, 0, 5, 18, 1)}, 0);
        }
    }
    for (int i = 0; i < 3; i++)
        give(m, tp_mul(v[N - 1 - i], v[draw(m, N)]));
}

/* ---- runs ------------------------------------------------------------------------------------ */

typedef struct job {
    const char *name;
    void (*make)(tp_ctx *tp, net *m);
    bool none; /* of its steps there may be no two that do not depend on each other */
} job;

/* What a run said: the elements, or the error. */
typedef struct said {
    float *v;
    int64_t n;
    char error[300];
} said;

static void take(said *to, tp_ctx *tp, const tp_tensor *t)
{
    if (tp_failed(t)) {
        snprintf(to->error, sizeof to->error, "%s", tp_error_text(t));
        tp_clear_error(tp);
        return;
    }
    const int64_t n = tp_count(t);
    to->v = realloc(to->v, (size_t)(to->n + n) * sizeof *to->v);
    assert_non_null(to->v);
    assert_int_equal(tp_read(t, to->v + to->n, (size_t)n * sizeof *to->v), TP_OK);
    to->n += n;
}

static void run(const job *j, unsigned seed, tp_engine engine, int threads, said *to)
{
    tp_ctx *tp = tp_open(&(tp_options){.seed = 5, .threads = threads});
    tp_graph *g = tp_graph_new(tp);
    net m = {.drawn = seed};
    m.x = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "n"), 24));
    m.picks = tp_placeholder(g, "picks", TP_I64, TP_DIMS(5));
    j->make(tp, &m);
    static const char *const names[] = {"x", "picks"};
    tp_program *p = tp_graph_compile(g, 2, names, m.n_fetches, m.fetches,
                                     &(tp_compile_options){.engine = engine});
    if (!p)
        fail_msg("%s: %s", j->name, tp_error_message(tp));
    p->wave_ns = 0;
    for (int i = 0; i < STEPS; i++) {
        const int64_t picks[] = {0, 8, 3, i ? 9 : 1, 2};
        tp_tensor *const in[] = {tp_normal(tp, TP_F32, TP_DIMS(7 + i, 24), 0, 1),
                                 tp_tensor_new(tp, TP_I64, TP_DIMS(5), picks)};
        tp_tensor *out[MOST_FETCHES];
        tp_program_run(p, in, out);
        for (int k = 0; k < m.n_fetches; k++)
            if (tp_failed(out[k]) || tp_dtype_of(out[k]) == TP_F32)
                take(to, tp, out[k]);
        const bool waves = p->cuts && p->cuts->n_waves;
        if (waves != (threads > 1) && !j->none)
            fail_msg("%s, %d threads: %s waves", j->name, threads, waves ? "with" : "no");
    }
    tp_optimizer_free(m.adam);
    tp_close(tp);
}

static void compare(const job *j, unsigned seed, tp_engine engine, int threads, const said *is,
                    const said *be)
{
    char how[200];
    snprintf(how, sizeof how, "%s (seed %u), %s, %d threads", j->name, seed,
             engine == TP_ENGINE_C ? "C" : "tiles", threads);
    if (strcmp(is->error, be->error) != 0)
        fail_msg("%s: \"%s\", with one thread \"%s\"", how, is->error, be->error);
    if (is->n != be->n)
        fail_msg("%s: %lld elements, with one thread %lld", how, (long long)is->n,
                 (long long)be->n);
    for (int64_t i = 0; i < is->n; i++)
        if (memcmp(&is->v[i], &be->v[i], sizeof *is->v) != 0)
            fail_msg("%s: element %lld is %a, with one thread %a", how, (long long)i,
                     (double)is->v[i], (double)be->v[i]);
}

static void check(const job *j, unsigned seed, tp_engine engine, const said *be)
{
    static const int threads[] = {2, 7, 64};
    for (size_t i = 0; i < sizeof threads / sizeof *threads; i++) {
        said is = {NULL, 0, ""};
        run(j, seed, engine, threads[i], &is);
        compare(j, seed, engine, threads[i], &is, be);
        free(is.v);
    }
}

static void same_bits(void **unused)
{
    (void)unused;
    static const job jobs[] = {
        {"branches", branches, false},
        {"images",   images,   false},
        {"training", training, false},
        {"picking",  picking,  false},
    };
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
        said one = {NULL, 0, ""};
        run(&jobs[i], 0, TP_ENGINE_TILES, 1, &one);
        check(&jobs[i], 0, TP_ENGINE_TILES, &one);
        check(&jobs[i], 0, TP_ENGINE_C, &one);
        assert_int_equal(one.error[0] != '\0', jobs[i].make == picking);
        free(one.v);
    }
}

static void same_bits_by_chance(void **unused)
{
    (void)unused;
    static const job any = {"by chance", by_chance, true};
    for (unsigned seed = 1; seed <= 24; seed++) {
        said one = {NULL, 0, ""};
        run(&any, seed, TP_ENGINE_TILES, 1, &one);
        check(&any, seed, seed % 6 ? TP_ENGINE_TILES : TP_ENGINE_C, &one);
        assert_string_equal(one.error, "");
        free(one.v);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits),
        cmocka_unit_test(same_bits_by_chance),
    };
    tp_ctx *probe = tp_open(NULL);
    const bool more = tp_threads(probe, 2) && probe->pool;
    tp_close(probe);
    if (!more) {
        puts("skipped: libpthreadpool is not installed");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
