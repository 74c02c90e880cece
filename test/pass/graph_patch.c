/* Steps in which few rows of a table change have the bits of eager ones, and write these rows only where
 * they may: whatever the rate is, with rows named twice or from the end, with -0, infinities and NaN
 * in all of it. A step that fails writes nothing. */
#include "common/same.h"
#include "common/unit.h"
#include "run/program.h"
#include "tapir/tapir.h"

#include <math.h>
#include <stdlib.h>

enum { ROWS = 5000, WIDTH = 4, NAMED = 24, STEPS = 3 };

typedef struct table {
    tp_ctx *tp;
    tp_tensor *w;
    tp_optimizer *sgd;
} table;

typedef struct step {
    const char *name;
    tp_tensor *(*fn)(const table *t, tp_tensor *index, tp_tensor *g);
    bool patched;
    double momentum;
    tp_dtype dtype;
    double rates[STEPS];
    unsigned symbols; /* axes of the index that are, as bits */
} step;

/* Its gradient to the row that index i names is the row i of g. */
static tp_tensor *loss_of(const table *t, tp_tensor *index, tp_tensor *g)
{
    return tp_sum(tp_mul(tp_gather(t->w, index, 0), g), TP_ALL, false);
}

static tp_tensor *slope(const table *t, tp_tensor *index, tp_tensor *g)
{
    return tp_grad(loss_of(t, index, g), t->w);
}

static tp_tensor *read(const table *t, const tp_tensor *index)
{
    return tp_graph_of(index) ? tp_graph_read(tp_graph_of(index), t->w) : t->w;
}

static tp_tensor *by_optimizer(const table *t, tp_tensor *index, tp_tensor *g)
{
    return tp_optimizer_step(t->sgd, loss_of(t, index, g));
}

static tp_tensor *by_hand(const table *t, tp_tensor *index, tp_tensor *g)
{
    tp_tensor *way = tp_mul(slope(t, index, g), tp_scalar_like(g, 0.25));
    tp_tensor *done[] = {tp_assign(t->w, tp_sub(read(t, index), way))};
    return tp_group(1, done);
}

/* What 0 becomes is no 0: all rows change. */
static tp_tensor *by_more(const table *t, tp_tensor *index, tp_tensor *g)
{
    tp_tensor *way = tp_cos(slope(t, index, g));
    tp_tensor *done[] = {tp_assign(t->w, tp_sub(read(t, index), way))};
    return tp_group(1, done);
}

static tp_tensor *is_fetched(const table *t, tp_tensor *index, tp_tensor *g)
{
    tp_tensor *way = tp_mul(tp_scalar_like(g, 0.25), slope(t, index, g));
    return tp_assign(t->w, tp_sub(read(t, index), way));
}

static tp_tensor *is_read(const table *t, tp_tensor *index, tp_tensor *g)
{
    tp_tensor *now = is_fetched(t, index, g);
    return tp_sum(tp_mul(now, tp_scalar_like(g, 2)), TP_ALL, false);
}

static tp_tensor *is_written_twice(const table *t, tp_tensor *index, tp_tensor *g)
{
    tp_tensor *way = tp_mul(tp_scalar_like(g, 0.25), slope(t, index, g));
    tp_assign(t->w, tp_sub(read(t, index), way));
    tp_tensor *done[] = {tp_assign(t->w, tp_sub(read(t, index), way))};
    return tp_group(1, done);
}

static tp_tensor *is_read_twice(const table *t, tp_tensor *index, tp_tensor *g)
{
    tp_tensor *again =
        tp_sum(tp_gather(t->w, tp_div(index, tp_scalar_like(index, 2)), 0), TP_ALL, false);
    tp_tensor *loss = tp_add(loss_of(t, index, g), again);
    tp_tensor *done[] = {tp_assign(t->w, tp_sub(read(t, index), tp_grad(loss, t->w)))};
    return tp_group(1, done);
}

static const step steps[] = {
    {"sgd",                   by_optimizer,     true,  0,   TP_F32, {0.5, 0.1, 0},      0},
    {"sgd, any number",       by_optimizer,     true,  0,   TP_F32, {0.5, 0.1, 0},      1},
    {"sgd, f64",              by_optimizer,     true,  0,   TP_F64, {0.5, -0.0, -0.25}, 3},
    {"sgd, rates below 0",    by_optimizer,     true,  0,   TP_F32, {-0.0, 0.1, -0.25}, 0},
    {"sgd, an infinite rate", by_optimizer,     true,  0,   TP_F32, {0.1, 1e300, 0.1},  0},
    {"sgd with momentum",     by_optimizer,     false, 0.9, TP_F32, {0.5, 0.1, 0},      2},
    {"by hand",               by_hand,          true,  0,   TP_F32, {0},                0},
    {"all rows change",       by_more,          true,  0,   TP_F64, {0},                1},
    {"is fetched",            is_fetched,       false, 0,   TP_F32, {0},                0},
    {"is read",               is_read,          false, 0,   TP_F32, {0},                0},
    {"is written twice",      is_written_twice, false, 0,   TP_F32, {0},                0},
    {"is read twice",         is_read_twice,    false, 0,   TP_F32, {0},                1},
};
enum { N = sizeof steps / sizeof *steps };

/* ---- numbers ----------------------------------------------------------------------------------- */

static tp_tensor *numbers(tp_ctx *tp, tp_dtype dtype, int rank, const int64_t *shape)
{
    static const double odd[] = {-0.0, INFINITY, -INFINITY, NAN, 1e-44, 0};
    tp_tensor *t = tp_normal(tp, TP_F64, rank, shape, 0, 1);
    double *v = (double *)(void *)t->data; /* nobody else has seen it */
    for (int64_t i = 0; i < tp_count(t); i += 7)
        v[i] = odd[i / 7 % 6];
    return tp_cast(t, dtype);
}

static table table_new(const step *s)
{
    table t = {.tp = tp_open(NULL)};
    tp_seed(t.tp, 5);
    t.w = tp_param(numbers(t.tp, s->dtype, TP_DIMS(ROWS, WIDTH)), "w");
    t.sgd = tp_sgd_new(t.tp, 0.5, &(tp_sgd_options){.momentum = s->momentum}, 1, &t.w);
    return t;
}

/* Rows are named twice, thrice, and from the end. */
static tp_tensor *indices(tp_ctx *tp, int number)
{
    int64_t v[NAMED];
    for (int i = 0; i < NAMED; i++) {
        v[i] = (i % 17 * 211 + number * 3) % ROWS;
        v[i] -= i % 3 == 1 ? ROWS : 0;
    }
    v[5] = 0;
    v[6] = ROWS - 1;
    v[7] = -ROWS;
    return tp_tensor_new(tp, TP_I64, TP_DIMS(4, NAMED / 4), v);
}

/* ---- runs -------------------------------------------------------------------------------------- */

static tp_program *program(const table *t, const step *s, const tp_compile_options *how)
{
    static const char *const fed[] = {"i", "g"}, *const fetched[] = {"done"};
    tp_graph *g = tp_graph_new(t->tp);
    int64_t shape[] = {4, NAMED / 4, WIDTH};
    for (int a = 0; a < 2; a++)
        if ((s->symbols >> a) & 1)
            shape[a] = tp_symbol(g, a ? "b" : "a");
    tp_tensor *index = tp_placeholder(g, "i", TP_I64, 2, shape);
    tp_tensor *done = s->fn(t, index, tp_placeholder(g, "g", s->dtype, 3, shape));
    tp_name(done, "done");
    tp_program *p = tp_graph_compile(g, 2, fed, 1, fetched, how);
    if (!p)
        fail_msg("%s: %s", s->name, tp_error_message(t->tp));
    return p;
}

static void compare(const step *s, int number, const char *how, const tp_tensor *is,
                    const tp_tensor *be)
{
    const size_t size = tp_dtype_size(s->dtype);
    const char *a = tp_data(is), *b = tp_data(be);
    for (int64_t i = 0; i < ROWS * WIDTH; i++)
        if (!same_value(s->dtype, a + (size_t)i * size, b + (size_t)i * size, SAME_ZEROS_BITS))
            fail_msg("%s, %s, step %d: element %lld is %a, eagerly %a", s->name, how, number,
                     (long long)i, tpi_load_f64(s->dtype, a + (size_t)i * size),
                     tpi_load_f64(s->dtype, b + (size_t)i * size));
}

static bool is_patched(const tp_program *p, const table *t)
{
    bool is = false;
    for (int i = 0; i < p->n_commits; i++)
        is |= p->commits[i].variable == t->w && p->commits[i].index >= 0;
    return is;
}

static void check(const step *s, const char *how, const tp_compile_options *options)
{
    const bool patches = options->engine != TP_ENGINE_REFERENCE && !options->skip_passes;
    const table eager = table_new(s), t = table_new(s);
    tp_program *p = program(&t, s, options);
    if (is_patched(p, &t) != (patches && s->patched))
        fail_msg("%s, %s: it is %sa patch", s->name, how, s->patched ? "not " : "");
    const tp_tensor *view = tp_reshape(t.w, TP_DIMS(-1)); /* it shows what is assigned */
    for (int k = 0; k < STEPS; k++) {
        tp_optimizer_set_rate(eager.sgd, s->rates[k]);
        tp_optimizer_set_rate(t.sgd, s->rates[k]);
        tp_tensor *in[] = {indices(t.tp, k),
                           numbers(t.tp, s->dtype, TP_DIMS(4, NAMED / 4, WIDTH))},
                  *out;
        tp_tensor *g = tp_tensor_new(eager.tp, s->dtype, 3, in[1]->shape, tp_data(in[1]));
        tp_tensor *done = s->fn(&eager, indices(eager.tp, k), g);
        if (tp_failed(done) || tp_program_run(p, in, &out) != TP_OK)
            fail_msg("%s, %s: %s", s->name, how, tp_error_message(t.tp));
        compare(s, k, how, t.w, eager.w);
        compare(s, k, "a view", view, eager.w);
    }
    tp_optimizer_free(eager.sgd);
    tp_optimizer_free(t.sgd);
    tp_close(eager.tp);
    tp_close(t.tp);
}

static void same_bits(void **unused)
{
    (void)unused;
    static const struct {
        const char *name;
        tp_compile_options options;
    } how[] = {
        {"the reference",   {.engine = TP_ENGINE_REFERENCE}                     },
        {"tiles",           {.engine = TP_ENGINE_TILES}                         },
        {"C",               {.engine = TP_ENGINE_C}                             },
        {"without patches", {.engine = TP_ENGINE_TILES, .skip_passes = "sparse"}},
    };
    for (int i = 0; i < N; i++)
        for (size_t k = 0; k < sizeof how / sizeof *how; k++)
            check(&steps[i], how[k].name, &how[k].options);
}

/* An index out of range: nothing is written, and the error is that of the eager step. */
static void failure_writes_nothing(void **unused)
{
    (void)unused;
    const table t = table_new(&steps[0]), old = table_new(&steps[0]);
    tp_program *p = program(&t, &steps[0], &(tp_compile_options){.engine = TP_ENGINE_TILES});
    int64_t v[NAMED] = {[3] = ROWS};
    tp_tensor *in[] = {tp_tensor_new(t.tp, TP_I64, TP_DIMS(4, NAMED / 4), v),
                       tp_full(t.tp, TP_F32, TP_DIMS(4, NAMED / 4, WIDTH), 1)},
              *out;
    assert_int_equal(tp_program_run(p, in, &out), TP_E_VALUE);
    assert_non_null(strstr(tp_error_message(t.tp),
                           "gather: index 5000 at position 3 is out of range for size 5000"));
    compare(&steps[0], 0, "a failed step", t.w, old.w);
    tp_optimizer_free(t.sgd);
    tp_optimizer_free(old.sgd);
    tp_close(t.tp);
    tp_close(old.tp);
}

/* Rows and indices that are views of what else is fetched: their elements have gaps between them. */
static void views_are_put(void **unused)
{
    (void)unused;
    static const char *const fed[] = {"x", "i"}, *const fetched[] = {"done", "y", "j", "old"};
    const table t = table_new(&steps[0]), eager = table_new(&steps[0]);
    tp_graph *g = tp_graph_new(t.tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(WIDTH, 4)), *y = tp_neg(x);
    tp_tensor *i = tp_placeholder(g, "i", TP_I64, TP_DIMS(4, 3)), *j = tp_abs(i);
    tp_tensor *index = tp_reshape(tp_slice(j, 1, 1, 2, 1), TP_DIMS(4)), *w = read(&t, i);
    tp_tensor *old = tp_gather(w, index, 0);
    tp_tensor *done = tp_assign(t.w, tp_scatter(w, index, tp_transpose(y, TP_DIMS(1, 0)), 0));
    done = tp_group(1, &done);
    tp_name(y, "y"), tp_name(j, "j"), tp_name(old, "old"), tp_name(done, "done");
    const tp_compile_options options = {.engine = TP_ENGINE_TILES};
    tp_program *p = tp_graph_compile(g, 2, fed, 4, fetched, &options);
    assert_non_null(p);
    assert_true(p->commits[0].index >= 0);

    float v[WIDTH][4];
    for (int k = 0; k < WIDTH * 4; k++)
        v[k / 4][k % 4] = (float)k;
    const int64_t named[4][3] = {
        {0, -7,   1},
        {2, 4999, 3},
        {4, 0,    5},
        {6, -7,   8}
    };
    tp_tensor *in[] = {tp_tensor_new(t.tp, TP_F32, TP_DIMS(WIDTH, 4), v),
                       tp_tensor_new(t.tp, TP_I64, TP_DIMS(4, 3), named)},
              *out[4];
    assert_int_equal(tp_program_run(p, in, out), TP_OK);
    float *want = (float *)(void *)eager.w->data;
    for (int k = 0; k < 4; k++)
        for (int c = 0; c < WIDTH; c++)
            want[llabs(named[k][1]) * WIDTH + c] = -v[c][k];
    compare(&steps[0], 0, "rows with gaps", t.w, eager.w);
    tp_optimizer_free(t.sgd);
    tp_optimizer_free(eager.sgd);
    tp_close(t.tp);
    tp_close(eager.tp);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_bits),
        cmocka_unit_test(views_are_put),
        cmocka_unit_test(failure_writes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
