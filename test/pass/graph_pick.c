/* What a program makes of elements that are taken of rows, and added to them, has the bits of eager ops:
 * with -0, infinities and NaN, labels from the end, and sizes that are symbols. */
#include "common/same.h"
#include "common/unit.h"
#include "run/program.h"
#include "tapir/tapir.h"

#include <math.h>

enum { ROWS = 37, WIDTH = 23 };

typedef struct net {
    const char *name;
    void (*fn)(tp_tensor *x, tp_tensor *index, tp_tensor **out); /* two results */
    int64_t index[2];                                            /* its shape */
    bool symbol;                                                 /* the rows are one */
} net;

static tp_tensor *number(tp_tensor *x, double v)
{
    return tp_scalar_like(x, v);
}

/* Labels are not counted from the end. */
static void entropy(tp_tensor *x, tp_tensor *index, tp_tensor **out)
{
    tp_tensor *from_end = tp_add(index, tp_scalar_like(index, WIDTH));
    tp_tensor *label = tp_where(tp_lt(index, tp_scalar_like(index, 0)), from_end, index);
    out[0] = tp_cross_entropy(x, tp_squeeze(label, 1));
    out[1] = tp_grad(out[0], x);
}

/* Rows of their own weights, some of them -0. */
static void weighted(tp_tensor *x, tp_tensor *index, tp_tensor **out)
{
    tp_tensor *own = tp_take_along(tp_log_softmax(x, 1), index, 1);
    tp_tensor *weight = tp_mul(tp_sum(x, TP_DIMS(1), true), number(x, -0.0));
    out[0] = tp_sum(tp_mul(own, tp_detach(weight)), TP_ALL, false);
    out[1] = tp_grad(out[0], x);
}

static void chain(tp_tensor *x, tp_tensor *index, tp_tensor **out)
{
    tp_tensor *row = tp_reduce_max(x, TP_DIMS(1), true);
    tp_tensor *h = tp_where(tp_lt(x, number(x, 0)), tp_mul(x, row), tp_neg(x));
    out[0] = tp_take_along(tp_cast(tp_add(h, x), TP_F64), index, 1);
    out[1] = tp_sum(
        tp_neg(tp_put_along_add(tp_mul(x, number(x, 0)), index, tp_take_along(x, index, 1), 1)),
        TP_DIMS(1), false);
}

/* Elements of columns; several of each. */
static void columns(tp_tensor *x, tp_tensor *index, tp_tensor **out)
{
    out[0] = tp_take_along(tp_exp(tp_sub(x, tp_sum(x, TP_DIMS(0), true))), index, 0);
    out[1] = tp_grad(tp_sum(tp_mul(out[0], out[0]), TP_ALL, false), x);
}

/* Sums of what one number was put into, or taken away from, and of all of it. */
static void sums(tp_tensor *x, tp_tensor *index, tp_tensor **out)
{
    tp_tensor *zeros = tp_broadcast(number(x, 0), TP_DIMS(tp_dim(x, 0), tp_dim(x, 1)));
    tp_tensor *put = tp_put_along_add(zeros, index, tp_take_along(x, index, 1), 1);
    out[0] = tp_add(tp_sum(put, TP_DIMS(1), false), tp_sum(tp_neg(put), TP_DIMS(1), false));
    out[1] = tp_add(tp_mul(x, number(x, -0.0)), put);
}

/* Nothing else looks at the index. */
static void unread(tp_tensor *x, tp_tensor *index, tp_tensor **out)
{
    tp_tensor *zeros = tp_broadcast(number(x, 0), TP_DIMS(tp_dim(x, 0), tp_dim(x, 1)));
    tp_tensor *put = tp_put_along_add(zeros, index, tp_slice(x, 1, 0, 1, 1), 1);
    out[0] = tp_sum(put, TP_DIMS(1), false);
    out[1] = tp_sum(tp_neg(put), TP_DIMS(1), true);
}

static const net nets[] = {
    {"unread",               unread,   {ROWS, 1},     true },
    {"entropy",              entropy,  {ROWS, 1},     false},
    {"entropy, any number",  entropy,  {ROWS, 1},     true },
    {"weighted",             weighted, {ROWS, 1},     false},
    {"weighted, any number", weighted, {ROWS, 1},     true },
    {"chain",                chain,    {ROWS, 1},     true },
    {"chain, a few",         chain,    {ROWS, 3},     false},
    {"columns",              columns,  {1, WIDTH},    false},
    {"columns, a few",       columns,  {5, WIDTH},    false},
    {"sums",                 sums,     {ROWS, 1},     true },
    {"sums, a few",          sums,     {ROWS, 2},     false},
    {"sums of fewer rows",   sums,     {ROWS - 4, 1}, false},
};

static tp_tensor *numbers(tp_ctx *tp)
{
    static const float odd[] = {-0.0f, INFINITY, 0, -INFINITY, NAN, 1e-44f, -0.0f};
    float v[ROWS * WIDTH];
    for (int i = 0; i < ROWS * WIDTH; i++) {
        v[i] = (float)((i * 7919 + 13) % 1009 - 504) / 97;
        if (i / WIDTH > 8)
            v[i] = i % 5 ? v[i] : odd[i / 5 % (i / WIDTH < 20 ? 3 : 7)];
    }
    return tp_tensor_new(tp, TP_F32, TP_DIMS(ROWS, WIDTH), v);
}

static tp_tensor *indices(tp_ctx *tp, const net *n)
{
    int64_t v[ROWS * WIDTH];
    const bool rows = n->index[1] < WIDTH;
    for (int64_t i = 0; i < n->index[0] * n->index[1]; i++)
        v[i] = rows ? i * 5 % (2 * WIDTH) - WIDTH : i * 5 % (2 * ROWS) - ROWS;
    return tp_tensor_new(tp, TP_I64, 2, n->index, v);
}

static tp_program *program(tp_ctx *tp, const net *n, const tp_compile_options *how)
{
    tp_graph *g = tp_graph_new(tp);
    const int64_t rows = n->symbol ? tp_symbol(g, "n") : ROWS;
    const int64_t taken = n->symbol ? rows : n->index[0];
    tp_tensor *out[2], *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(rows, WIDTH));
    n->fn(x, tp_placeholder(g, "i", TP_I64, TP_DIMS(taken, n->index[1])), out);
    tp_name(out[0], "a");
    tp_name(out[1], "b");
    tp_program *p = tp_graph_compile(g, TP_NAMES("x", "i"), TP_NAMES("a", "b"), how);
    if (!p)
        fail_msg("%s: %s", n->name, tp_error_message(tp));
    return p;
}

static void compare(const net *n, const char *how, const tp_tensor *is, const tp_tensor *be)
{
    const tp_dtype type = tp_dtype_of(be);
    const size_t size = tp_dtype_size(type);
    const char *a = tp_data(is), *b = tp_data(be);
    assert_int_equal(tp_count(is), tp_count(be));
    for (int64_t i = 0; i < tp_count(be); i++, a += size, b += size) {
        if (!same_value(type, a, b, SAME_ZEROS_BITS))
            fail_msg("%s, %s: element %lld is %a, eagerly %a", n->name, how, (long long)i,
                     tpi_load_f64(type, a), tpi_load_f64(type, b));
    }
}

static void check(tp_ctx *tp, const net *n, const char *how, const tp_compile_options *options)
{
    tp_program *p = program(tp, n, options);
    tp_tensor *be[2], *is[2], *in[] = {numbers(tp), indices(tp, n)};
    tp_tensor *x = tp_param(in[0], "x");
    n->fn(x, in[1], be);
    if (tp_program_run(p, in, is) != TP_OK)
        fail_msg("%s, %s: %s", n->name, how, tp_error_message(tp));
    for (int i = 0; i < 2; i++)
        compare(n, how, is[i], be[i]);
    for (int i = 0; i < p->graph->n_nodes && !options->skip_passes; i++) {
        const tp_tensor *t = p->graph->nodes[i];
        if (t->op == &tpi_op_take_along && t->in[0]->op != &tpi_op_placeholder &&
            t->in[0]->op != &tpi_op_broadcast)
            fail_msg("%s, %s: elements are taken late", n->name, how);
    }
}

static void same_bits(void **state)
{
    static const struct {
        const char *name;
        tp_compile_options options;
    } how[] = {
        {"the reference", {.engine = TP_ENGINE_REFERENCE}                   },
        {"tiles",         {.engine = TP_ENGINE_TILES}                       },
        {"C",             {.engine = TP_ENGINE_C}                           },
        {"without it",    {.engine = TP_ENGINE_TILES, .skip_passes = "pick"}},
    };
    for (size_t i = 0; i < sizeof nets / sizeof *nets; i++)
        for (size_t k = 0; k < sizeof how / sizeof *how; k++)
            check(*state, &nets[i], how[k].name, &how[k].options);
}

static void refuses_labels(void **state)
{
    tp_ctx *tp = *state;
    for (int i = 0; i < 2; i++) {
        tp_program *p = program(tp, &nets[i], &(tp_compile_options){.engine = TP_ENGINE_TILES});
        int64_t v[ROWS] = {[5] = WIDTH};
        tp_tensor *out[2],
            *in[] = {numbers(tp), tp_tensor_new(tp, TP_I64, TP_DIMS(ROWS, 1), v)};
        assert_int_equal(tp_program_run(p, in, out), TP_E_VALUE);
        assert_non_null(
            strstr(tp_error_message(tp),
                   "take_along: index 23 at position 5 is out of range for size 23"));
        tp_clear_error(tp);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(same_bits),
        CASE(refuses_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
