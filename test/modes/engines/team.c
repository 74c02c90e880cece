/* Any number of threads gives the bits of one: each job below is large enough to be cut, and its
 * sizes divide by nothing. Eager and compiled. */
#include "common/unit.h"
#include "tapir/tapir.h"

typedef tp_tensor *(*job_fn)(tp_tensor *const *x);

typedef struct job {
    const char *name;
    int n_in;
    struct {
        int rank;
        int64_t shape[5];
    } in[2];
    job_fn fn;
} job;

#define JOB(name_, expression)                                                                 \
    static tp_tensor *name_(tp_tensor *const *x)                                               \
    {                                                                                          \
        return expression;                                                                     \
    }
#define WINDOW(...)                                                                            \
    &(tp_window)                                                                               \
    {                                                                                          \
        __VA_ARGS__                                                                            \
    }

JOB(product, tp_matmul(x[0], x[1]))
JOB(turned, tp_matmul(tp_swap(x[0], 0, 1), tp_swap(x[1], 0, 1)))
JOB(chain, tp_tanh(tp_add(tp_mul(x[0], x[0]), tp_exp(x[0]))))
JOB(spread, tp_add(x[0], x[1]))
JOB(columns_of, tp_exp(tp_swap(x[0], 0, 1)))
JOB(rows, tp_sum(x[0], TP_DIMS(1), false))
JOB(columns, tp_reduce_max(x[0], TP_DIMS(0), false))
JOB(norm, tp_softmax(x[0], 1))
JOB(conv, tp_conv(x[0], x[1], WINDOW(.pad_lo = {1, 2}, .pad_hi = {1, 0}, .stride = {2, 1})))
JOB(conv_1d, tp_conv(x[0], x[1], WINDOW(.pad_lo = {3}, .dilation = {2})))
JOB(conv_3d, tp_conv(x[0], x[1], WINDOW(.pad_lo = {1, 1, 1}, .stride = {1, 2, 1})))
JOB(same, tp_conv(x[0], x[1], WINDOW(.pad_lo = {1, 1}, .pad_hi = {1, 1})))
JOB(depthwise, tp_conv(x[0], x[1], WINDOW(.pad_lo = {1, 1}, .pad_hi = {1, 1}, .groups = 33)))
JOB(to_x, tp_conv_dx(x[0], x[1], TP_DIMS(57, 55), WINDOW(.pad_lo = {1, 1}, .stride = {2, 2})))
JOB(to_same, tp_conv_dx(x[0], x[1], TP_DIMS(7, 7), WINDOW(.pad_lo = {1, 1}, .pad_hi = {1, 1})))
JOB(greatest, tp_max_pool(x[0], WINDOW(.kernel = {3, 2}, .pad_lo = {1, 1}, .stride = {2, 1})))
JOB(mean, tp_avg_pool(x[0], WINDOW(.kernel = {2, 3}, .stride = {1, 2})))
JOB(to_w, tp_conv_dw(x[0], x[1], TP_DIMS(3, 3), NULL))
JOB(to_w_groups, tp_conv_dw(x[0], x[1], TP_DIMS(3, 3), WINDOW(.groups = 11)))

static const job jobs[] = {
    {"product 301 x 257 x 403",    2, {{2, {301, 257}}, {2, {257, 403}}},              product    },
    {"product of few rows",        2, {{2, {3, 1031}}, {2, {1031, 2051}}},             product    },
    {"product of few columns",     2, {{2, {5003, 301}}, {2, {301, 3}}},               product    },
    {"batch of products",          2, {{3, {19, 67, 71}}, {3, {19, 71, 73}}},          product    },
    {"few products",               2, {{3, {3, 167, 171}}, {3, {3, 171, 173}}},        product    },
    {"product of turned operands", 2, {{2, {257, 301}}, {2, {403, 257}}},              turned     },
    {"elementwise",                1, {{2, {701, 903}}},                               chain      },
    {"broadcast",                  2, {{2, {701, 903}}, {2, {701, 1}}},                spread     },
    {"a turned operand",           1, {{2, {701, 903}}},                               columns_of },
    {"sums of rows",               1, {{2, {1501, 903}}},                              rows       },
    {"maxima of columns",          1, {{2, {1501, 903}}},                              columns    },
    {"softmax",                    1, {{2, {1501, 903}}},                              norm       },
    {"conv",                       2, {{4, {3, 13, 57, 55}}, {4, {21, 13, 3, 3}}},     conv       },
    {"conv of one image",          2, {{4, {1, 13, 57, 55}}, {4, {21, 13, 3, 3}}},     conv       },
    {"conv, one axis",             2, {{3, {5, 13, 1057}}, {3, {21, 13, 3}}},          conv_1d    },
    {"conv, three axes",           2, {{5, {2, 5, 13, 27, 25}}, {5, {7, 5, 3, 3, 3}}}, conv_3d    },
    {"conv of few rows",           2, {{4, {1, 259, 7, 7}}, {4, {141, 259, 3, 3}}},    same       },
    {"depthwise conv",             2, {{4, {2, 33, 57, 55}}, {4, {33, 1, 3, 3}}},      depthwise  },
    {"depthwise conv of few rows", 2, {{4, {1, 33, 7, 555}}, {4, {33, 1, 3, 3}}},      depthwise  },
    {"conv_dx",                    2, {{4, {2, 21, 28, 27}}, {4, {21, 13, 3, 3}}},     to_x       },
    {"conv_dx of few rows",        2, {{4, {1, 141, 7, 7}}, {4, {141, 259, 3, 3}}},    to_same    },
    {"max_pool",                   1, {{4, {2, 67, 57, 55}}},                          greatest   },
    {"avg_pool of one image",      1, {{4, {1, 67, 57, 55}}},                          mean       },
    {"conv_dw",                    2, {{4, {3, 13, 57, 55}}, {4, {3, 21, 55, 53}}},    to_w       },
    {"conv_dw in groups",          2, {{4, {3, 22, 37, 35}}, {4, {3, 33, 35, 33}}},    to_w_groups},
};
enum { N_JOBS = sizeof jobs / sizeof *jobs, N_WAYS = 3 };

/* `frozen`: the last operand is a constant, which products and convolutions pack. */
static tp_tensor *compiled(tp_ctx *tp, const job *j, tp_tensor *const *x, bool frozen)
{
    static const char *const names[] = {"a", "b"}, *const fetch[] = {"y"};
    const int n_fed = frozen && j->n_in > 1 ? j->n_in - 1 : j->n_in;
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *in[2] = {x[0], x[1]}, *y = NULL;
    for (int k = 0; k < n_fed; k++)
        in[k] = tp_placeholder(g, names[k], TP_F32, j->in[k].rank, j->in[k].shape);
    tp_name(j->fn(in), "y");
    tp_program *p = tp_graph_compile(g, n_fed, names, 1, fetch,
                                     &(tp_compile_options){.engine = TP_ENGINE_C});
    if (p)
        tp_program_run(p, x, &y);
    return y;
}

static void run(const job *j, int threads, const tp_tensor **expect, tp_ctx *keep)
{
    static const char *const how[N_WAYS] = {"eager", "compiled", "compiled, with a constant"};
    tp_ctx *tp = threads == 1 ? keep : tp_open(&(tp_options){.seed = 5, .threads = threads});
    tp_seed(tp, 5);
    tp_tensor *x[2] = {NULL, NULL};
    for (int k = 0; k < j->n_in; k++)
        x[k] = tp_normal(tp, TP_F32, j->in[k].rank, j->in[k].shape, 0, 1);
    tp_tensor *y[N_WAYS] = {j->fn(x), compiled(tp, j, x, false), compiled(tp, j, x, true)};
    if (tp_error(tp) != TP_OK)
        fail_msg("%s: %s", j->name, tp_error_message(tp));
    for (int i = 0; i < N_WAYS; i++) {
        if (!*expect)
            *expect = y[i];
        const float *a = tp_data(y[i]), *b = tp_data((tp_tensor *)*expect);
        const int64_t n = tp_count(y[i]);
        for (int64_t e = 0; e < n; e++)
            if (memcmp(&a[e], &b[e], sizeof *a) != 0)
                fail_msg("%s, %s, %d threads: element %lld is %a, eager with one thread %a",
                         j->name, how[i], threads, (long long)e, (double)a[e], (double)b[e]);
    }
    if (tp != keep)
        tp_close(tp);
}

static void same_bits(void **unused)
{
    (void)unused;
    static const int threads[] = {1, 2, 7, 64};
    tp_ctx *probe = tp_open(NULL);
    const bool more = tp_threads(probe, 2) && probe->pool;
    tp_close(probe);
    if (!more) {
        print_message("skipped: libpthreadpool is not installed\n");
        skip();
    }
    for (int i = 0; i < N_JOBS; i++) {
        tp_ctx *one = tp_open(NULL);
        const tp_tensor *expect = NULL;
        for (size_t t = 0; t < sizeof threads / sizeof *threads; t++)
            run(&jobs[i], threads[t], &expect, one);
        tp_close(one);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
