/* All that docs/ragged.md has: its lines as they stand there. That nothing is missing here is looked at by
 * tools/check_docs.sh. */
#include <tapir/tapir.h>

#include <math.h>
#include <stdio.h>

static int n_failed;

static void check(bool good, int line)
{
    if (!good)
        fprintf(stderr, "ragged_page.c:%d: not as the page says\n", line);
    n_failed += !good;
}
#define CHECK(x) check((x), __LINE__)

static bool has_shape(const tp_tensor *t, int rank, const int64_t *shape)
{
    bool has = tp_rank(t) == rank;
    for (int i = 0; i < rank && has; i++)
        has = tp_size(t, i) == shape[i];
    return has;
}

static bool has(tp_tensor *t, int64_t n, const int64_t *want)
{
    int64_t got[8];
    bool same = tp_count(t) == n && tp_read(t, got, sizeof *got * (size_t)n) == TP_OK;
    for (int64_t i = 0; i < n && same; i++)
        same = got[i] == want[i];
    return same;
}

static tp_tensor *whole(tp_ctx *tp, int n, const int64_t *v)
{
    return tp_tensor_new(tp, TP_I64, TP_DIMS(n), v);
}

static void by_rows(tp_ctx *tp, tp_tensor *words, tp_tensor *lengths)
{
    tp_params *p = tp_params_new(tp);
    const tp_dense layer = tp_dense_new(p, "layer", 4, 8, NULL);
    const tp_norm_layer norm = tp_layer_norm_new(p, "norm", 8, 0);
    const tp_recurrent cell = {.w = tp_full(tp, TP_F32, TP_DIMS(8, 20), 0.1),
                               .r = tp_full(tp, TP_F32, TP_DIMS(5, 20), 0.1)};

    tp_ragged r = tp_ragged_of_lengths(words, lengths); /* offsets 0, 3, 3, 7 */
    CHECK(has(r.offsets, 4, (int64_t[]){0, 3, 3, 7}));

    r.values = tp_relu(tp_dense_apply(&layer, r.values)); /* [7, 8] */
    r.values = tp_norm_layer_apply(&norm, r.values);

    tp_tensor *sum = tp_ragged_sum(r), *mean = tp_ragged_mean(r);  /* [3, 8] */
    tp_tensor *top = tp_ragged_max(r);                             /* -inf for the empty row */
    tp_tensor *share = tp_ragged_softmax(r);                       /* [7, 8], along each row */
    tp_tensor *away = tp_sub(r.values, tp_ragged_spread(mean, r)); /* [7, 8] */
    CHECK(has_shape(sum, TP_DIMS(3, 8)) && has_shape(mean, TP_DIMS(3, 8)));
    CHECK(tp_item(tp_index(top, "1, 0")) == -INFINITY &&
          isnan(tp_item(tp_index(mean, "1, 0"))));
    CHECK(has_shape(share, TP_DIMS(7, 8)) && has_shape(away, TP_DIMS(7, 8)));

    tp_tensor *some = tp_gt(tp_unsqueeze(tp_ragged_lengths(r), 1), 0);
    mean = tp_where(some, mean, 0);
    CHECK(tp_item(tp_index(mean, "1, 0")) == 0);

    tp_ragged q = {tp_reshape(r.values, TP_DIMS(-1, 2, 4)), r.offsets};
    const tp_attention_options causal = {.causal = true};
    tp_tensor *y = tp_ragged_attention(q, q, q.values, 0, &causal); /* [7, 2, 4] */
    CHECK(has_shape(y, TP_DIMS(7, 2, 4)));

    const tp_recurrent_options opt = {.batch_first = true, .lengths = tp_ragged_lengths(r)};
    tp_tensor *h = NULL, *c = NULL;
    tp_tensor *out = tp_lstm(tp_ragged_pad(r, 0, 0), &cell, &opt, &h, &c); /* [3, 4, 5] */
    r.values = tp_ragged_unpad(out, r);                                    /* [7, 5] */
    CHECK(has_shape(out, TP_DIMS(3, 4, 5)) && has_shape(r.values, TP_DIMS(7, 5)));
    CHECK(has_shape(h, TP_DIMS(3, 5)) && has_shape(c, TP_DIMS(3, 5)));
}

static void rows_of_rows(tp_ctx *tp, tp_tensor *words, tp_tensor *lengths)
{
    tp_tensor *counts = whole(tp, 2, (int64_t[]){1, 2});
    tp_ragged sentences = tp_ragged_of_lengths(words, lengths);                /* 3 sentences */
    tp_ragged texts = tp_ragged_of_lengths(tp_ragged_mean(sentences), counts); /* 2 texts */
    tp_ragged all = tp_ragged_join(sentences, texts.offsets); /* the words of each text */
    CHECK(has(all.offsets, 3, (int64_t[]){0, 3, 7}));

    tp_ragged groups = tp_ragged_bucket(sentences, 6);
    tp_ragged group =
        tp_ragged_take(sentences, tp_slice(groups.values, 0, 0, 1, 1)); /* its first */
    CHECK(has(groups.values, 3, (int64_t[]){2, 0, 1}));
    CHECK(has(groups.offsets, 3, (int64_t[]){0, 1, 3}));
    CHECK(has_shape(group.values, TP_DIMS(4, 4)));
}

static void in_graphs(tp_ctx *tp, tp_tensor *words, tp_tensor *lengths)
{
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "total"), 4));
    tp_tensor *n = tp_placeholder(g, "n", TP_I64, TP_DIMS(tp_symbol(g, "rows")));
    tp_name(tp_ragged_sum(tp_ragged_of_lengths(x, n)), "sums");
    tp_tensor *y;
    tp_graph_run(g, TP_FEEDS({"x", words}, {"n", lengths}), TP_NAMES("sums"), &y);
    CHECK(has_shape(y, TP_DIMS(3, 4)));
    tp_graph_run(g, TP_FEEDS({"x", words}, {"n", whole(tp, 1, (int64_t[]){7})}),
                 TP_NAMES("sums"), &y);
    CHECK(has_shape(y, TP_DIMS(1, 4)) && tp_error(tp) == TP_OK);
    tp_graph_run(g, TP_FEEDS({"x", words}, {"n", whole(tp, 1, (int64_t[]){5})}),
                 TP_NAMES("sums"), &y);
    CHECK(tp_error(tp) == TP_E_VALUE);
    tp_clear_error(tp);
}

int main(void)
{
    tp_ctx *tp = tp_open(NULL);
    tp_tensor *words = tp_normal(tp, TP_F32, TP_DIMS(7, 4), 0, 1);
    tp_tensor *lengths = whole(tp, 3, (int64_t[]){3, 0, 4});
    by_rows(tp, words, lengths);
    rows_of_rows(tp, words, lengths);
    in_graphs(tp, words, lengths);
    if (tp_error(tp) != TP_OK)
        fprintf(stderr, "ragged_page: %s\n", tp_error_message(tp));
    n_failed += tp_error(tp) != TP_OK;
    tp_close(tp);
    return n_failed != 0;
}
