/* Each row of modes.def in each mode: the same bits as eagerly, whatever the offsets are. */
#include "common/same.h"
#include "common/unit.h"
#include "tapir/tapir.h"

#include <math.h>
#include <unistd.h>

enum { MOST_ROWS = 6, N_OFFSETS = 4, MAX_OUT = 3 };
/* The last ones have empty rows, whose mean is no number. */
static const int64_t all_lengths[N_OFFSETS][MOST_ROWS + 1] = {
    {2,  1, 4, 3,  -1},
    {5,  1, 1, -1},
    {1, 2, 3, 2,  1,   6, -1},
    {0,  3,   0,  2, -1}
};

/* ---- rows of the table -------------------------------------------------------------------------- */

static tp_tensor *all_rows(tp_ragged r)
{
    tp_tensor *n = tp_extent(tp_ragged_lengths(r), TP_ALL, TP_I64);
    return tp_stack(2, (tp_tensor *[]){tp_sub(n, n), n}, 0);
}

static tp_tensor *attended(tp_ragged r, int64_t most)
{
    tp_tensor *heads = tp_reshape(r.values, TP_DIMS(-1, 2, 2));
    r.values = heads;
    return tp_ragged_attention(r, r, tp_sin(heads), most,
                               &(tp_attention_options){.causal = true});
}

static tp_tensor *through_lstm(tp_ragged r, tp_tensor *w)
{
    const tp_recurrent of = {.w = w, .r = tp_slice(w, 0, 0, 1, 1)};
    const tp_recurrent_options opt = {.batch_first = true, .lengths = tp_ragged_lengths(r)};
    return tp_ragged_unpad(tp_lstm(tp_ragged_pad(r, 6, 0), &of, &opt, NULL, NULL), r);
}

typedef struct row {
    const char *what;
    bool grads;
    tp_tensor *(*of)(tp_ragged r, tp_tensor *w);
} row;

enum { NONE, GRADS };
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define ROW(what, grads, expression)                                                           \
    static tp_tensor *JOIN(row_, __LINE__)(tp_ragged r, tp_tensor * w)                         \
    {                                                                                          \
        (void)w;                                                                               \
        return expression;                                                                     \
    }
#include "modes.def"
#undef ROW
static const row rows[] = {
#define ROW(what, grads, expression) {what, grads, JOIN(row_, __LINE__)},
#include "modes.def"
#undef ROW
};
enum { N_ROWS = sizeof rows / sizeof *rows };

/* ---- operands ---------------------------------------------------------------------------------------- */

static tp_tensor *numbers(tp_ctx *tp, int64_t n, double from)
{
    double v[128];
    assert_true(n * 4 <= 128);
    for (int i = 0; i < 4 * (int)n; i++)
        v[i] = sin(from + i * 1.7) + 0.01 * i;
    return tp_tensor_new(tp, TP_F64, TP_DIMS(n, 4), v);
}

static void operands(tp_ctx *tp, int which, tp_tensor **values, tp_tensor **lengths)
{
    int64_t n = 0, total = 0;
    for (; all_lengths[which][n] >= 0; n++)
        total += all_lengths[which][n];
    *values = numbers(tp, total, which);
    *lengths = tp_tensor_new(tp, TP_I64, TP_DIMS(n), all_lengths[which]);
}

/* Of values that require a gradient: y, its gradient, and that of a sum of the gradient's squares. */
static void evaluate(const row *of, tp_tensor *values, tp_tensor *lengths, tp_tensor *w,
                     tp_tensor **out)
{
    const tp_ragged r = tp_ragged_of_lengths(values, lengths);
    out[0] = of->of(r, w);
    if (!of->grads)
        return;
    out[1] = tp_grad(tp_sum(tp_mul(out[0], tp_cos(out[0])), TP_ALL, false), values);
    out[2] = tp_grad(tp_sum(tp_square(out[1]), TP_ALL, false), values);
}

static int n_out(const row *of)
{
    return of->grads ? MAX_OUT : 1;
}

static void expect(const row *of, const char *mode, int which, tp_tensor **got,
                   tp_tensor **want)
{
    char why[300];
    for (int k = 0; k < n_out(of); k++)
        if (!same_tensors(got[k], want[k], SAME_ZEROS_BITS, why, sizeof why))
            fail_msg("%s, %s, offsets %d, result %d: %s", of->what, mode, which, k, why);
}

/* Offsets with an empty row are only for what has numbers for these. */
static bool is_meant(const row *of, int which)
{
    return which < N_OFFSETS - 1 || !(strstr(of->what, "mean") || strstr(of->what, "max") ||
                                      strstr(of->what, "min") || strstr(of->what, "logsumexp"));
}

static void eagerly(tp_ctx *tp, const row *of, int which, tp_tensor *w, tp_tensor **out)
{
    tp_tensor *values, *lengths;
    operands(tp, which, &values, &lengths);
    evaluate(of, tp_require_grad(values), lengths, w, out);
    for (int k = 0; k < n_out(of); k++)
        if (tp_failed(out[k]))
            fail_msg("%s, eagerly, offsets %d: %s", of->what, which, tp_error_text(out[k]));
}

/* ---- modes -------------------------------------------------------------------------------------------- */

static tp_graph *graph_of(tp_ctx *tp, const row *of, tp_tensor *w, bool grads)
{
    static const char *const names[] = {"y", "dy", "ddy"};
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *out[MAX_OUT];
    tp_tensor *values = tp_placeholder(g, "values", TP_F64, TP_DIMS(tp_symbol(g, "total"), 4));
    tp_tensor *lengths = tp_placeholder(g, "lengths", TP_I64, TP_DIMS(tp_symbol(g, "rows")));
    const row plain = {of->what, of->grads && grads, of->of};
    evaluate(&plain, values, lengths, w, out);
    for (int k = 0; k < n_out(&plain); k++)
        tp_name(out[k], names[k]);
    if (tp_error(tp) != TP_OK)
        fail_msg("%s, in a graph: %s", of->what, tp_error_message(tp));
    return g;
}

static void in_graphs(void **state)
{
    static const char *const feeds[] = {"values", "lengths"}, *const names[] = {"y", "dy",
                                                                                "ddy"};
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_TILES, TP_ENGINE_C};
    static const char *const called[] = {"reference", "tiles", "c"};
    tp_ctx *tp = *state;
    tp_tensor *w = numbers(tp, 4, 9);
    for (int i = 0; i < N_ROWS; i++)
        for (int e = 0; e < 3; e++) {
            const row *of = &rows[i];
            tp_graph *g = graph_of(tp, of, w, true);
            tp_program *p = tp_graph_compile(g, 2, feeds, n_out(of), names,
                                             &(tp_compile_options){.engine = engines[e]});
            for (int k = 0; k < N_OFFSETS; k++) {
                tp_tensor *in[2], *got[MAX_OUT] = {NULL}, *want[MAX_OUT] = {NULL};
                if (!is_meant(of, k))
                    continue;
                eagerly(tp, of, k, w, want);
                operands(tp, k, &in[0], &in[1]);
                tp_program_run(p, in, got);
                expect(of, called[e], k, got, want);
                assert_string_equal(tp_program_engine(p), called[e]);
            }
            tp_program_free(p);
            tp_graph_free(g);
        }
}

typedef struct body {
    const row *of;
    tp_tensor *w;
} body;

static void captured(void *user, int n_in, tp_tensor *const *in, int n, tp_tensor **out)
{
    const body *b = user;
    (void)n_in, (void)n;
    evaluate(b->of, in[0], in[1], b->w, out);
}

static void in_functions(void **state)
{
    tp_ctx *tp = *state;
    body b = {.w = numbers(tp, 4, 9)};
    for (int i = 0; i < 2 * N_ROWS; i++) {
        const bool pure = i % 2;
        const tp_function_options opt = {.pure = pure, .engine = TP_ENGINE_TILES};
        const row *of = b.of = &rows[i / 2];
        tp_function *f = tp_function_new(tp, "row", captured, &b, &opt);
        for (int turn = 0; turn < 3 * N_OFFSETS; turn++) {
            const int k = turn % N_OFFSETS;
            tp_tensor *in[2], *got[MAX_OUT] = {NULL}, *want[MAX_OUT] = {NULL};
            if (!is_meant(of, k))
                continue;
            eagerly(tp, of, k, b.w, want);
            operands(tp, k, &in[0], &in[1]);
            tp_require_grad(in[0]);
            tp_function_call(f, 2, in, n_out(of), got);
            expect(of, pure ? "in a pure function" : "in a captured function", k, got, want);
        }
        tp_function_free(f);
    }
}

static void as_models(void **state)
{
    static const char *const in_names[] = {"values", "lengths"}, *const names[] = {"y"};
    tp_ctx *tp = *state;
    tp_tensor *w = numbers(tp, 4, 9);
    for (int i = 0; i < N_ROWS; i++) {
        const row of = {rows[i].what, false, rows[i].of};
        tp_graph *g = graph_of(tp, &of, w, false);
        if (tp_onnx_save(g, "ragged_modes.onnx", 2, in_names, 1, names) != TP_OK)
            fail_msg("%s, written: %s", of.what, tp_error_message(tp));
        tp_graph *read = tp_onnx_load(tp, "ragged_modes.onnx", NULL);
        if (!read)
            fail_msg("%s, read: %s", of.what, tp_error_message(tp));
        for (int k = 0; k < N_OFFSETS; k++) {
            tp_tensor *in[2], *got[MAX_OUT] = {NULL}, *want[MAX_OUT] = {NULL};
            if (!is_meant(&of, k))
                continue;
            eagerly(tp, &of, k, w, want);
            operands(tp, k, &in[0], &in[1]);
            tp_graph_run(read, TP_FEEDS({"values", in[0]}, {"lengths", in[1]}), TP_NAMES("y"),
                         got);
            expect(&of, "as a model", k, got, want);
        }
        tp_graph_free(g);
        tp_graph_free(read);
    }
    unlink("ragged_modes.onnx");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {CASE(in_graphs), CASE(in_functions),
                                              CASE(as_models)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
