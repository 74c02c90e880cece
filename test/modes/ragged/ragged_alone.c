/* What each row has: the bits that it has alone, whatever the others are; what offsets are refused, and how it is told;
 * empty rows; gradients that see no padding. */
#include "common/same.h"
#include "common/unit.h"
#include "tapir/tapir.h"

#include <math.h>

/* ---- operands ------------------------------------------------------------------------------------ */

static tp_tensor *numbers(tp_ctx *tp, tp_dtype t, int rank, const int64_t *shape, double from)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= shape[i];
    double *v = malloc((size_t)n * sizeof *v + 1);
    assert_non_null(v);
    for (int64_t i = 0; i < n; i++)
        v[i] = sin(from + (double)i * 1.7) + 1e-3 * (double)i;
    tp_tensor *x = tp_tensor_new(tp, TP_F64, rank, shape, v);
    free(v);
    return tp_cast(x, t);
}

static tp_tensor *whole(tp_ctx *tp, int n, const int64_t *v)
{
    return tp_tensor_new(tp, TP_I64, TP_DIMS(n), v);
}

static void expect_same(tp_tensor *got, tp_tensor *want)
{
    char why[300];
    if (!same_tensors(got, want, SAME_ZEROS_EQUAL, why, sizeof why))
        fail_msg("%s", why);
}

enum { ROWS = 5 };
static const int64_t lengths[ROWS] = {3, 0, 7, 1, 40};

static tp_tensor *row_of(tp_tensor *x, int i)
{
    int64_t from = 0;
    for (int k = 0; k < i; k++)
        from += lengths[k];
    return tp_slice(x, 0, from, from + lengths[i], 1);
}

/* ---- the bits of rows alone ------------------------------------------------------------------------ */

static void sums_are_those_of_rows_alone(void **state)
{
    static const tp_dtype types[] = {TP_F32, TP_F64};
    tp_ctx *tp = *state;
    for (int t = 0; t < 2; t++) {
        tp_tensor *x = numbers(tp, types[t], TP_DIMS(51, 3), 0);
        const tp_ragged r = tp_ragged_of_lengths(x, whole(tp, ROWS, lengths));
        tp_tensor *sum = tp_ragged_sum(r), *mean = tp_ragged_mean(r), *top = tp_ragged_max(r);
        for (int i = 0; i < ROWS; i++) {
            expect_same(tp_select(sum, 0, i), tp_sum(row_of(x, i), TP_DIMS(0), false));
            expect_same(tp_select(mean, 0, i), tp_mean(row_of(x, i), TP_DIMS(0), false));
            expect_same(tp_select(top, 0, i), tp_reduce_max(row_of(x, i), TP_DIMS(0), false));
            tp_ragged one =
                tp_ragged_new(row_of(x, i), whole(tp, 2, (int64_t[]){0, lengths[i]}));
            expect_same(row_of(tp_ragged_softmax(r), i), tp_ragged_softmax(one));
            expect_same(row_of(tp_ragged_softmax(r), i), tp_softmax(row_of(x, i), 0));
            expect_same(row_of(tp_ragged_log_softmax(r), i), tp_log_softmax(row_of(x, i), 0));
            expect_same(tp_select(tp_ragged_logsumexp(r), 0, i),
                        tp_logsumexp(row_of(x, i), TP_DIMS(0), false));
        }
    }
}

/* [t, h, d] as tp_attention has it. */
static tp_tensor *batch_of_one(tp_tensor *x)
{
    return tp_unsqueeze(tp_swap(x, 0, 1), 0);
}

static tp_tensor *attended_alone(tp_tensor *q, tp_tensor *k, tp_tensor *v,
                                 const tp_attention_options *o)
{
    tp_tensor *y = tp_attention(batch_of_one(q), batch_of_one(k), batch_of_one(v), o, NULL);
    return tp_swap(tp_select(y, 0, 0), 0, 1);
}

static tp_tensor *weighed(tp_tensor *y)
{
    return tp_sum(tp_mul(y, tp_sin(y)), TP_ALL, false);
}

static void attention_is_that_of_rows_alone(void **state)
{
    static const tp_attention_options options[] = {
        {0},
        {            .causal = true},
        { .scale = 0.3, .softcap = 2},
        {  .before = 3, .after = 2}
    };
    tp_ctx *tp = *state;
    for (int n = 0; n < 8; n++) {
        const tp_attention_options *o = &options[n / 2];
        tp_tensor *of_rows = whole(tp, ROWS, lengths), *got[3];
        tp_tensor *x[3];
        for (int k = 0; k < 3; k++)
            x[k] = tp_require_grad(numbers(tp, TP_F32, TP_DIMS(51, k ? 2 : 4, 8), k));
        const tp_ragged q = tp_ragged_of_lengths(x[0], of_rows);
        const tp_ragged k = {x[1], q.offsets};
        tp_tensor *y = tp_ragged_attention(q, k, x[2], n % 2 ? 60 : 0, o);
        assert_int_equal(tp_grads(weighed(y), NULL, 3, x, got), TP_OK);
        for (int i = 0; i < ROWS; i++) {
            tp_tensor *own[3], *want[3];
            if (lengths[i] == 0)
                continue;
            for (int j = 0; j < 3; j++)
                own[j] = tp_require_grad(tp_contiguous(tp_detach(row_of(x[j], i))));
            tp_tensor *alone = attended_alone(own[0], own[1], own[2], o);
            expect_same(row_of(y, i), alone);
            assert_int_equal(tp_grads(weighed(alone), NULL, 3, own, want), TP_OK);
            for (int j = 0; j < 3; j++)
                expect_same(row_of(got[j], i), want[j]);
        }
    }
}

/* From 256 elements on sums along the last axis have more lanes: rows of less are added up as such, when they are
 * padded to more. */
static void attention_of_long_rows(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = numbers(tp, TP_F32, TP_DIMS(320, 1, 4), 0);
    const tp_ragged r = tp_ragged_of_lengths(x, whole(tp, 2, (int64_t[]){300, 20}));
    tp_tensor *y = tp_ragged_attention(r, r, x, 0, NULL);
    tp_tensor *longer = tp_slice(x, 0, 0, 300, 1), *shorter = tp_slice(x, 0, 300, 320, 1);
    expect_same(tp_slice(y, 0, 0, 300, 1), attended_alone(longer, longer, longer, NULL));
    tp_tensor *padded = tp_pad(shorter, TP_DIMS(0, 0, 0), (int64_t[]){280, 0, 0}, 0);
    tp_tensor *seen = tp_lt(tp_arange(tp, TP_I64, 300, 0, 1), 20);
    tp_tensor *alone =
        attended_alone(padded, padded, padded, &(tp_attention_options){.mask = seen});
    expect_same(tp_slice(y, 0, 300, 320, 1), tp_slice(alone, 0, 0, 20, 1));
}

/* A query without keys gets 0, one of a row with keys what they give. */
static void rows_of_keys_may_be_empty(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_require_grad(numbers(tp, TP_F64, TP_DIMS(4, 1, 2), 0));
    const tp_ragged q = tp_ragged_of_lengths(x, whole(tp, 2, (int64_t[]){1, 3}));
    tp_tensor *keys = numbers(tp, TP_F64, TP_DIMS(2, 1, 2), 1);
    const tp_ragged k = tp_ragged_of_lengths(keys, whole(tp, 2, (int64_t[]){2, 0}));
    tp_tensor *y = tp_ragged_attention(q, k, keys, 0, NULL);
    expect_same(tp_slice(y, 0, 1, 4, 1), tp_full(tp, TP_F64, TP_DIMS(3, 1, 2), 0));
    tp_tensor *dx = tp_grad(weighed(y), x);
    assert_true(tp_truth(tp_all(tp_isfinite(dx), TP_ALL, false)));
}

/* Lengths sorted or not: a row's state stops where it ends. */
static void states_stop_where_rows_end(void **state)
{
    static const int64_t orders[2][3] = {
        {2, 5, 3},
        {5, 3, 2}
    };
    tp_ctx *tp = *state;
    const tp_recurrent w = {.w = numbers(tp, TP_F64, TP_DIMS(3, 8), 1),
                            .r = numbers(tp, TP_F64, TP_DIMS(2, 8), 2)};
    for (int n = 0; n < 2; n++) {
        tp_tensor *x = tp_require_grad(numbers(tp, TP_F64, TP_DIMS(10, 3), 0)), *h = NULL;
        const tp_ragged r = tp_ragged_of_lengths(x, whole(tp, 3, orders[n]));
        const tp_recurrent_options opt = {.batch_first = true, .lengths = tp_ragged_lengths(r)};
        tp_tensor *all = tp_lstm(tp_ragged_pad(r, 0, NAN), &w, &opt, &h, NULL);
        tp_tensor *y = tp_ragged_unpad(all, r);
        int64_t from = 0;
        for (int i = 0; i < 3; from += orders[n][i++]) {
            tp_tensor *own = tp_slice(x, 0, from, from + orders[n][i], 1), *last = NULL;
            tp_tensor *alone = tp_lstm(tp_unsqueeze(own, 1), &w, NULL, &last, NULL);
            expect_same(tp_slice(y, 0, from, from + orders[n][i], 1), tp_select(alone, 1, 0));
            expect_same(tp_select(h, 0, i), tp_select(last, 0, 0));
        }
    }
}

/* ---- gradients ---------------------------------------------------------------------------------------- */

static void gradients_see_no_padding(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_require_grad(numbers(tp, TP_F64, TP_DIMS(51), 0));
    const tp_ragged r = tp_ragged_of_lengths(x, whole(tp, ROWS, lengths));
    tp_tensor *padded = tp_square(tp_ragged_pad(r, 64, NAN));
    tp_tensor *dx = tp_grad(tp_sum(tp_ragged_unpad(padded, r), TP_ALL, false), x);
    expect_same(dx, tp_mul(2, tp_detach(x)));
}

static void equal_ones_share(void **state)
{
    static const double v[] = {1, 3, 3, 2, 2, -INFINITY, -INFINITY};
    static const double shares[] = {0, 0.5, 0.5, 0.5, 0.5, 1. / 3, 1. / 3};
    tp_ctx *tp = *state;
    tp_tensor *x = tp_require_grad(tp_tensor_new(tp, TP_F64, TP_DIMS(7), v));
    const tp_ragged r = tp_ragged_of_lengths(x, whole(tp, 3, (int64_t[]){3, 2, 2}));
    tp_tensor *dx = tp_grad(tp_sum(tp_ragged_max(r), TP_ALL, false), x);
    expect_same(dx, tp_tensor_new(tp, TP_F64, TP_DIMS(7), shares));
    const tp_ragged turned = {tp_neg(x), r.offsets};
    dx = tp_grad(tp_sum(tp_ragged_min(turned), TP_ALL, false), x);
    expect_same(dx, tp_neg(tp_tensor_new(tp, TP_F64, TP_DIMS(7), shares)));
}

static void empty_rows(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_full(tp, TP_F32, TP_DIMS(0), 1);
    const tp_ragged r = tp_ragged_of_lengths(x, whole(tp, 1, (int64_t[]){0}));
    assert_true(tp_item(tp_ragged_sum(r)) == 0);
    assert_true(isnan(tp_item(tp_ragged_mean(r))));
    assert_true(tp_item(tp_ragged_max(r)) == -INFINITY);
    assert_true(tp_item(tp_ragged_min(r)) == INFINITY);
    assert_true(tp_item(tp_ragged_logsumexp(r)) == -INFINITY);
    const tp_ragged small = {tp_cast(x, TP_I8), r.offsets};
    assert_true(tp_item(tp_ragged_max(small)) == -128);
}

/* ---- offsets that are none -------------------------------------------------------------------------------- */

static void expect_text(tp_ctx *tp, tp_ragged r, const char *words)
{
    if (!tp_failed(r.values) || !tp_failed(r.offsets) || tp_error(tp) != TP_E_VALUE ||
        !strstr(tp_error_message(tp), words))
        fail_msg("\"%s\" is not in \"%s\"", words, tp_error_message(tp));
    tp_clear_error(tp);
}

static void numbers_are_told(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_full(tp, TP_F32, TP_DIMS(7, 2), 1);
#define OFFSETS(...)                                                                           \
    tp_ragged_new(x, whole(tp, sizeof((int64_t[]){__VA_ARGS__}) / 8, (int64_t[]){__VA_ARGS__}))
#define LENGTHS(...)                                                                           \
    tp_ragged_of_lengths(                                                                      \
        x, whole(tp, sizeof((int64_t[]){__VA_ARGS__}) / 8, (int64_t[]){__VA_ARGS__}))
    expect_text(tp, OFFSETS(1, 7), "offsets begin at 1, not at 0");
    expect_text(tp, OFFSETS(0, 5, 3, 7), "row 1 begins at 5 and ends at 3");
    expect_text(tp, OFFSETS(0, 5), "offsets end at 5, and there are 7 elements");
    expect_text(tp, OFFSETS(0, 9), "offsets end at 9, and there are 7 elements");
    expect_text(tp, LENGTHS(8, -1), "row 0 has a length of 8");
    expect_text(tp, LENGTHS(7, -1), "row 1 has a length of -1");
    expect_text(tp, LENGTHS(3, 3), "lengths add up to 6, and there are 7 elements");
    const tp_ragged r = LENGTHS(3, 0, 4);
    expect_text(tp, tp_ragged_join(r, whole(tp, 2, (int64_t[]){0, 2})),
                "offsets end at 2, and there are 3 rows");
    tp_ragged_pad(r, 3, 0);
    assert_non_null(strstr(tp_error_message(tp), "row 2 has 4 elements, and is padded to 3"));
    tp_clear_error(tp);
}

/* A run that finds such offsets fails, in each engine, and the next one with good ones does not. */
static void runs_look_at_them(void **state)
{
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_TILES, TP_ENGINE_C};
    static const int64_t offsets[][3] = {
        {0,  3,  7},
        {1,  3,  7},
        {0,  8,  7},
        {0,  -1, 7},
        {0,  3,  6},
        {0,  3,  8},
        {-7, 3,  7}
    };
    static const char *const feeds[] = {"x", "offsets"}, *const fetch[] = {"y"};
    tp_ctx *tp = *state;
    tp_tensor *x = numbers(tp, TP_F32, TP_DIMS(7, 2), 0), *y;
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *in = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "total"), 2));
    tp_tensor *o = tp_placeholder(g, "offsets", TP_I64, TP_DIMS(tp_symbol(g, "n")));
    tp_name(tp_ragged_sum(tp_ragged_new(in, o)), "y");
    for (int e = 0; e < 3; e++) {
        tp_program *p = tp_graph_compile(g, 2, feeds, 1, fetch,
                                         &(tp_compile_options){.engine = engines[e]});
        for (int i = 0; i < 14; i++) {
            const bool good = i / 2 == 0 || i % 2;
            tp_tensor *of[2] = {x, whole(tp, 3, offsets[good ? 0 : i / 2])};
            const tp_status s = tp_program_run(p, of, &y);
            assert_int_equal(s, good ? TP_OK : TP_E_VALUE);
            tp_clear_error(tp);
        }
        tp_program_free(p);
    }
}

/* In graphs: the result of a run, or NULL; the error is cleared. */
static tp_tensor *run(tp_ctx *tp, tp_tensor *y, tp_engine engine, tp_tensor *x, tp_tensor *i)
{
    static const char *const feeds[] = {"x", "i"}, *const fetch[] = {"y"};
    tp_tensor *in[2] = {x, i}, *out = NULL;
    tp_name(y, "y");
    tp_program *p = tp_graph_compile(tp_graph_of(y), 2, feeds, 1, fetch,
                                     &(tp_compile_options){.engine = engine});
    const tp_status s = tp_program_run(p, in, &out);
    assert_true(s == TP_OK || s == TP_E_VALUE);
    tp_clear_error(tp);
    tp_program_free(p);
    return s == TP_OK ? out : NULL;
}

/* What is done to x [7, 2] with offsets or lengths i, in a graph of its own. */
typedef tp_tensor *(*of_two)(tp_tensor *x, tp_tensor *i);

static void expect_runs(tp_ctx *tp, of_two f, tp_tensor *i, const bool *good)
{
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_TILES, TP_ENGINE_C};
    tp_tensor *x = numbers(tp, TP_F32, TP_DIMS(7, 2), 0);
    for (int e = 0; e < 3; e++) {
        tp_graph *g = tp_graph_new(tp);
        const int64_t n = tp_symbol(g, "n");
        tp_tensor *in = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "total"), 2));
        tp_tensor *y =
            run(tp, f(in, tp_placeholder(g, "i", TP_I64, TP_DIMS(n))), engines[e], x, i);
        if (good)
            assert_int_equal(y != NULL, *good);
        tp_graph_free(g);
    }
}

static tp_tensor *padded_to_3(tp_tensor *x, tp_tensor *i)
{
    return tp_ragged_pad(tp_ragged_of_lengths(x, i), 3, 0);
}

static tp_tensor *unpadded_of_3(tp_tensor *x, tp_tensor *i)
{
    tp_tensor *rows = tp_extent(i, TP_ALL, TP_F32);
    tp_tensor *padded = tp_broadcast(rows, TP_DIMS(tp_dim(i, 0), 3));
    return tp_ragged_unpad(padded, tp_ragged_of_lengths(x, i));
}

static tp_tensor *taken_of_padded(tp_tensor *x, tp_tensor *i)
{
    return tp_ragged_of_padded(x, i).values;
}

static void runs_refuse_longer_rows(void **state)
{
    static const bool yes = true, no = false;
    tp_ctx *tp = *state;
    tp_tensor *fits = whole(tp, 3, (int64_t[]){3, 1, 3}),
              *not = whole(tp, 2, (int64_t[]){3, 4});
    expect_runs(tp, padded_to_3, fits, &yes);
    expect_runs(tp, padded_to_3, not, &no);
    expect_runs(tp, unpadded_of_3, fits, &yes);
    expect_runs(tp, unpadded_of_3, not, &no);
    expect_runs(tp, taken_of_padded, whole(tp, 7, (int64_t[]){0, 2, 1, 2, 0, 0, 1}), &yes);
    expect_runs(tp, taken_of_padded, whole(tp, 7, (int64_t[]){0, 2, 1, 3, 0, 0, 1}), &no);
    expect_runs(tp, taken_of_padded, whole(tp, 7, (int64_t[]){0, 2, 1, -1, 0, 0, 1}), &no);
}

#define BY_HAND(name, call)                                                                    \
    static tp_tensor *name(tp_tensor *x, tp_tensor *i)                                         \
    {                                                                                          \
        const tp_ragged r = {x, i};                                                            \
        return call;                                                                           \
    }
BY_HAND(sum_by_hand, tp_ragged_sum(r))
BY_HAND(pad_by_hand, tp_ragged_pad(r, 0, 0))
BY_HAND(softmax_by_hand, tp_ragged_softmax(r))
BY_HAND(take_by_hand, tp_ragged_take(r, tp_argsort(tp_ragged_lengths(r), 0, false)).values)

/* A run gives something, or fails; it reads and writes nothing else (a matter of the sanitizers). */
static void pairs_by_hand(void **state)
{
    static const int64_t offsets[][3] = {
        {0,  8,  7 },
        {0,  -1, 7 },
        {0,  3,  6 },
        {0,  3,  9 },
        {-7, 3,  70},
        {5,  3,  1 }
    };
    static const of_two calls[] = {sum_by_hand, pad_by_hand, softmax_by_hand, take_by_hand};
    tp_ctx *tp = *state;
    for (int i = 0; i < 24; i++)
        expect_runs(tp, calls[i / 6], whole(tp, 3, offsets[i % 6]), NULL);
}

static void sums(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = tp_ragged_sum(tp_ragged_new(in[0], in[1]));
}

static void replays_look_at_them(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = numbers(tp, TP_F32, TP_DIMS(7, 2), 0);
    for (int pure = 0; pure < 2; pure++) {
        tp_function *f =
            tp_function_new(tp, "sums", sums, NULL, &(tp_function_options){.pure = pure});
        for (int i = 0; i < 8; i++) {
            const bool good = i % 4 != 3;
            const int64_t at[3] = {0, good ? i % 7 : 8, 7};
            tp_tensor *y = tp_function_apply(f, 2, (tp_tensor *[]){x, whole(tp, 3, at)});
            assert_int_equal(tp_isfinite(y) && !tp_failed(y) && tp_data(y) != NULL, good);
            assert_int_equal(tp_error(tp), good ? TP_OK : TP_E_VALUE);
            tp_clear_error(tp);
        }
        tp_function_free(f);
    }
}

/* The longest row is that of each run. */
static void offsets_may_be_a_variable(void **state)
{
    static const char *const feeds[] = {"x"}, *const fetch[] = {"y"};
    tp_ctx *tp = *state;
    tp_tensor *x = numbers(tp, TP_F32, TP_DIMS(7, 2), 0), *y;
    tp_tensor *o = tp_variable(whole(tp, 3, (int64_t[]){0, 3, 7}), "o");
    tp_graph *g = tp_graph_new(tp);
    const tp_ragged r = {tp_placeholder(g, "x", TP_F32, TP_DIMS(7, 2)), o};
    tp_name(tp_ragged_pad(r, 0, 0), "y");
    tp_program *p = tp_graph_compile(g, 1, feeds, 1, fetch, NULL);
    for (int i = 3; i > 0; i--) {
        tp_assign(o, whole(tp, 3, (int64_t[]){0, i, 7}));
        assert_int_equal(tp_program_run(p, &x, &y), TP_OK);
        assert_int_equal(tp_size(y, 1), 7 - i);
    }
}

/* ---- rows of rows, groups ------------------------------------------------------------------------------------ */

static void rows_of_rows(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *words = numbers(tp, TP_F64, TP_DIMS(9, 2), 0);
    const tp_ragged sentences =
        tp_ragged_of_lengths(words, whole(tp, 4, (int64_t[]){2, 3, 0, 4}));
    const tp_ragged texts =
        tp_ragged_of_lengths(tp_ragged_sum(sentences), whole(tp, 2, (int64_t[]){1, 3}));
    expect_same(tp_select(tp_ragged_sum(texts), 0, 0), tp_select(texts.values, 0, 0));
    const tp_ragged joined = tp_ragged_join(sentences, texts.offsets);
    expect_same(tp_ragged_lengths(joined), whole(tp, 2, (int64_t[]){2, 7}));
    assert_ptr_equal(joined.values, words);
}

static void groups_hold_so_many(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_full(tp, TP_F32, TP_DIMS(51), 1);
    const tp_ragged r = tp_ragged_of_lengths(x, whole(tp, ROWS, lengths));
    const tp_ragged groups = tp_ragged_bucket(r, 14);
    expect_same(groups.values, whole(tp, ROWS, (int64_t[]){4, 2, 0, 3, 1}));
    expect_same(groups.offsets, whole(tp, 4, (int64_t[]){0, 1, 3, 5}));
    const tp_ragged two = tp_ragged_take(r, tp_slice(groups.values, 0, 1, 3, 1));
    expect_same(tp_ragged_lengths(two), whole(tp, 2, (int64_t[]){7, 3}));
}

/* ---- memory -------------------------------------------------------------------------------------------------- */

/* Something of everything, eagerly or in a graph. */
static tp_tensor *of_everything(tp_tensor *x, tp_tensor *of_rows)
{
    const tp_ragged r = tp_ragged_of_lengths(x, of_rows), groups = tp_ragged_bucket(r, 50);
    const tp_ragged turned = tp_ragged_take(r, groups.values),
                    q = {tp_unsqueeze(x, 1), r.offsets};
    tp_tensor *part[] = {tp_unsqueeze(tp_ragged_attention(q, q, q.values, 0, NULL), 0),
                         tp_ragged_softmax(turned), tp_ragged_unpad(tp_ragged_pad(r, 0, 1), r),
                         tp_ragged_spread(tp_ragged_max(r), r)};
    tp_tensor *y = tp_cast(tp_sum(tp_ragged_by_time(r), TP_ALL, false), TP_F32);
    for (int i = 0; i < 4; i++)
        y = tp_add(y, tp_sum(part[i], TP_ALL, false));
    return y;
}

/* An allocation fails: the result is told to have failed, or does without; nothing is left. */
static void memory_may_be_lacking(void **state)
{
    (void)state;
    for (int in_graph = 0; in_graph < 2; in_graph++) {
        bool came = true;
        long n = 0;
        while (came) {
            unit_memory m = {0};
            tp_ctx *tp = unit_open(&m);
            assert_non_null(tp);
            tp_tensor *x = numbers(tp, TP_F32, TP_DIMS(51, 3), 0),
                      *i = whole(tp, ROWS, lengths);
            if (in_graph) {
                tp_graph *g = tp_graph_new(tp);
                x = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "total"), 3));
                i = tp_placeholder(g, "i", TP_I64, TP_DIMS(tp_symbol(g, "rows")));
            }
            const long last = m.fail_once = m.calls + ++n;
            tp_tensor *y = of_everything(x, i);
            came = m.calls >= last;
            m.fail_once = 0;
            if (tp_failed(y) && tp_error(tp) != TP_E_MEMORY &&
                !in_graph) /* a size may be none */
                fail_msg("allocation %ld: %s", n, tp_error_message(tp));
            tp_close(tp);
            assert_int_equal(m.bytes, 0);
        }
        assert_true(n > 1); /* each block, where sanitizers look; else a chunk of many */
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {CASE(sums_are_those_of_rows_alone),
                                              CASE(attention_is_that_of_rows_alone),
                                              CASE(attention_of_long_rows),
                                              CASE(runs_refuse_longer_rows),
                                              CASE(pairs_by_hand),
                                              CASE(rows_of_keys_may_be_empty),
                                              CASE(states_stop_where_rows_end),
                                              CASE(gradients_see_no_padding),
                                              CASE(equal_ones_share),
                                              CASE(empty_rows),
                                              CASE(numbers_are_told),
                                              CASE(runs_look_at_them),
                                              CASE(replays_look_at_them),
                                              CASE(offsets_may_be_a_variable),
                                              CASE(rows_of_rows),
                                              CASE(groups_hold_so_many),
                                              CASE(memory_may_be_lacking)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
