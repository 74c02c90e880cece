/* Reductions, scans, composites and random ops in a graph whose sizes are symbols: the reference
 * and the C program give the bits of the eager ops, forward and backward, draw the same numbers
 * and leave the same running statistics. */
#include "common/same.h"
#include "op_random.h"
#include "tapir/graph.h"
#include "tapir/nn.h"
#include "tapir/random.h"

typedef struct inputs {
    tp_tensor *x, *image, *scale, *shift,
        *labels;           /* [n, l, 6]  [n, 4, h, 3]  params [4], [4];  [n] */
    tp_tensor *mean, *var; /* variables [4] */
} inputs;

typedef tp_tensor *(*op_case)(const inputs *in);

#define OP(name, e)                                                                            \
    static tp_tensor *name(const inputs *in)                                                   \
    {                                                                                          \
        return e;                                                                              \
    }
#define CLASSES(in) tp_sum((in)->x, TP_DIMS(1), false)

OP(sum_last, tp_square(tp_sum(in->x, TP_DIMS(2), false)))
OP(sum_middle, tp_square(tp_sum(in->x, TP_DIMS(1), true)))
OP(sum_all, tp_square(tp_sum(in->x, TP_ALL, false)))
OP(sum_outer, tp_square(tp_sum(in->image, TP_DIMS(0, 2, 3), false)))
OP(sum_turned, tp_square(tp_sum(tp_swap(in->x, 1, 2), TP_DIMS(2), false)))
OP(sum_square, tp_sum(tp_square(in->x), TP_DIMS(1, 2), false))
OP(mean_turned, tp_square(tp_mean(tp_transpose(in->x, TP_ALL), TP_DIMS(0, 1), true)))
OP(prod_two, tp_prod(in->x, TP_DIMS(0, 2), false))
OP(max_middle, tp_square(tp_reduce_max(in->x, TP_DIMS(1), false)))
OP(min_all, tp_square(tp_reduce_min(in->x, TP_ALL, true)))
OP(max_of_int,
   tp_reduce_max(tp_cast(tp_mul(in->x, tp_scalar_like(in->x, 50)), TP_I16), TP_DIMS(-1), false))
OP(sum_of_int,
   tp_sum(tp_cast(tp_mul(in->x, tp_scalar_like(in->x, 99)), TP_I8), TP_DIMS(1), false))
OP(any_of, tp_reduce_max(tp_gt(in->x, tp_scalar_like(in->x, 0.9)), TP_DIMS(0, 1), false))
OP(places, tp_argmax(in->x, 1, false))
OP(low_places, tp_argmin(tp_swap(in->x, 0, 2), -1, true))
OP(running, tp_square(tp_cumsum(in->x, 1, false, false)))
OP(running_back, tp_square(tp_cumsum(tp_swap(in->x, 1, 2), -1, true, true)))
OP(recurrence, tp_recur(tp_sigmoid(in->x), in->x, 1, false))
OP(softmax, tp_square(tp_softmax(in->x, 2)))
OP(softmax_middle, tp_square(tp_softmax(in->x, 1)))
OP(log_softmax, tp_square(tp_log_softmax(in->x, 1)))
OP(loss, tp_cross_entropy(CLASSES(in), in->labels))
OP(squares, tp_mse(in->x, tp_detach(tp_cumsum(in->x, 0, false, false))))
OP(gelu, tp_gelu(in->x))
OP(silu, tp_silu(in->x))
OP(clip, tp_clip(in->x, -0.5, 0.5))
OP(layer_norm, tp_square(tp_layer_norm(tp_swap(in->image, 1, 3), in->scale, in->shift, 1e-5)))
OP(batch_norm,
   tp_square(tp_batch_norm(in->image, in->scale, in->shift, in->mean, in->var, 1e-5)))
OP(batch_train, tp_square(tp_batch_norm_train(in->image, in->scale, in->shift, in->mean,
                                              in->var, 0.125, 1e-5)))
OP(batch_train_plain, tp_square(tp_batch_norm_train(in->x, NULL, NULL, NULL, NULL, 0, 1e-3)))
OP(noise, tp_mul(in->x, tp_uniform_like(in->x, -1, 2)))
OP(dropout, tp_dropout(in->x, 0.3))
OP(dropout_same, tp_dropout(in->x, 0.3))
OP(noise_normal, tp_mul(in->image, tp_normal_like(in->image, 1, 0.5)))
OP(extent, tp_mul(tp_extent(in->x, TP_DIMS(0, 1), TP_F32), tp_mean(in->x, TP_ALL, false)))

#define EACH(X)                                                                                \
    X(sum_last)                                                                                \
    X(sum_middle)                                                                              \
    X(sum_all)                                                                                 \
    X(sum_outer)                                                                               \
    X(sum_turned)                                                                              \
    X(sum_square)                                                                              \
    X(mean_turned)                                                                             \
    X(prod_two)                                                                                \
    X(max_middle)                                                                              \
    X(min_all)                                                                                 \
    X(max_of_int)                                                                              \
    X(sum_of_int)                                                                              \
    X(any_of)                                                                                  \
    X(places)                                                                                  \
    X(low_places)                                                                              \
    X(running)                                                                                 \
    X(running_back)                                                                            \
    X(recurrence)                                                                              \
    X(softmax)                                                                                 \
    X(softmax_middle)                                                                          \
    X(log_softmax)                                                                             \
    X(loss)                                                                                    \
    X(squares)                                                                                 \
    X(gelu)                                                                                    \
    X(silu)                                                                                    \
    X(clip)                                                                                    \
    X(layer_norm)                                                                              \
    X(batch_norm)                                                                              \
    X(batch_train)                                                                             \
    X(batch_train_plain)                                                                       \
    X(noise)                                                                                   \
    X(dropout)                                                                                 \
    X(dropout_same)                                                                            \
    X(noise_normal)                                                                            \
    X(extent)

static const struct {
    const char *name;
    op_case f;
} cases[] = {
#define ROW(f) {#f, f},
    EACH(ROW)
#undef ROW
};
enum {
    N_CASES = sizeof cases / sizeof *cases,
    N_WANTED = 4, /* gradients: x, image, scale, shift */
    N_EACH = 1 + N_WANTED,
    N_OUT = N_CASES * N_EACH,
    N_FEEDS = 3
};

static void all_of(tp_ctx *tp, const inputs *in, tp_tensor **out)
{
    for (int i = 0; i < N_CASES; i++) {
        tp_tensor *y = cases[i].f(in), **at = out + i * N_EACH;
        at[0] = y;
        tp_tensor *xs[N_WANTED] = {in->x, in->image, in->scale, in->shift};
        if (!tp_failed(y) && tp_dtype_of(y) < TP_F32)
            for (int k = 0; k < N_WANTED; k++)
                at[1 + k] = tp_scalar_like(y, k); /* no gradient through integers */
        else if (tp_failed(y) || tp_grads(y, NULL, N_WANTED, xs, at + 1) != TP_OK)
            fail_msg("%s: %s", cases[i].name, tp_error_message(tp));
    }
}

static tp_tensor *leaf_f32(tp_ctx *tp, uint64_t *s, int rank, const int64_t *shape)
{
    tp_tensor *t = tp_cast(random_f64(tp, s, rank, shape), TP_F32);
    return tp_require_grad(tp_contiguous(tp_detach(t)));
}

static const char *const feed_names[N_FEEDS] = {"x", "image", "labels"};

typedef struct bed {
    tp_graph *g;
    tp_tensor *state[4]; /* mean and var of the graph, and of the eager calls */
    tp_tensor *scale, *shift;
    char names[N_OUT][40];
    const char *fetches[N_OUT];
} bed;

static const char *const state_names[4] = {"mean", "var", "eager_mean", "eager_var"};

static void build(tp_ctx *tp, bed *b)
{
    b->g = tp_graph_new(tp);
    for (int i = 0; i < 4; i++)
        b->state[i] = tp_variable(tp_full(tp, TP_F32, TP_DIMS(4), i % 2), state_names[i]);
    b->scale = tp_param(tp_arange(tp, TP_F32, 4, 0.5, 0.25), "scale");
    b->shift = tp_param(tp_arange(tp, TP_F32, 4, -1, 0.75), "shift");
    const int64_t n = tp_symbol(b->g, "n"), l = tp_symbol(b->g, "l"), h = tp_symbol(b->g, "h");
    const inputs in = {.x = tp_placeholder(b->g, "x", TP_F32, TP_DIMS(n, l, 6)),
                       .image = tp_placeholder(b->g, "image", TP_F32, TP_DIMS(n, 4, h, 3)),

                       .scale = b->scale,
                       .shift = b->shift,
                       .labels = tp_placeholder(b->g, "labels", TP_I32, TP_DIMS(n)),
                       .mean = b->state[0],
                       .var = b->state[1]};
    tp_tensor *out[N_OUT];
    all_of(tp, &in, out);
    for (int i = 0; i < N_OUT; i++) {
        snprintf(b->names[i], sizeof b->names[i], "%s_%d", cases[i / N_EACH].name, i % N_EACH);
        b->fetches[i] = b->names[i];
        if (tp_name_of(out[i])) /* zeros that are shared */
            b->fetches[i] = tp_name_of(out[i]);
        else
            tp_name(out[i], b->names[i]);
    }
    assert_int_equal(tp_error(tp), TP_OK);
}

static void feed(tp_ctx *tp, uint64_t seed, tp_tensor **feeds)
{
    uint64_t s = seed;
    const int64_t n = random_int(&s, 1, 5), h = random_int(&s, 1, 40);
    const int64_t l = random_int(&s, 0, 2) ? random_int(&s, 1, 60) : random_int(&s, 200, 1500);
    int32_t labels[5];
    for (int i = 0; i < n; i++)
        labels[i] = (int32_t)random_int(&s, 0, 5);
    feeds[0] = leaf_f32(tp, &s, TP_DIMS(n, l, 6));
    feeds[1] = leaf_f32(tp, &s, TP_DIMS(n, 4, h, 3));
    feeds[2] = tp_tensor_new(tp, TP_I32, TP_DIMS(n), labels);
}

static void same_bits(const char *engine, uint64_t seed, const char *name, tp_tensor *y,
                      tp_tensor *want)
{
    char why[400];
    if (!same_tensors(y, want, SAME_ZEROS_BITS, why, sizeof why))
        fail_msg("seed %" PRIu64 ", %s: %s: %s (eager)", seed, engine, name, why);
}

static void run(tp_ctx *tp, tp_engine engine, const char *name)
{
    static bed b;
    build(tp, &b);
    tp_program *p = tp_graph_compile(b.g, N_FEEDS, feed_names, N_OUT, b.fetches,
                                     &(tp_compile_options){.engine = engine});
    if (!p || (engine == TP_ENGINE_C && tp_program_wait(p) != TP_OK))
        fail_msg("%s", tp_error_message(tp));
    for (uint64_t seed = 1; seed <= 8; seed++) {
        tp_scope_begin(tp);
        tp_tensor *feeds[N_FEEDS], *out[N_OUT], *want[N_OUT];
        feed(tp, seed * 1001, feeds);
        tp_seed(tp, seed);
        if (tp_program_run(p, feeds, out) != TP_OK)
            fail_msg("seed %" PRIu64 ", %s: %s", seed, name, tp_error_message(tp));
        assert_string_equal(tp_program_engine(p), name);
        const uint64_t drawn = tp->random_at;
        tp_seed(tp, seed);
        all_of(
            tp,
            &(inputs){feeds[0], feeds[1], b.scale, b.shift, feeds[2], b.state[2], b.state[3]},
            want);
        assert_int_equal(tp->random_at, drawn);
        for (int i = 0; i < N_OUT; i++)
            same_bits(name, seed, b.fetches[i], out[i], want[i]);
        same_bits(name, seed, "running mean", b.state[0], b.state[2]);
        same_bits(name, seed, "running variance", b.state[1], b.state[3]);
        assert_true(tp_item(tp_reduce_max(b.state[0], TP_ALL, false)) != 0);
        tp_scope_end(tp);
    }
    tp_program_free(p);
    tp_graph_free(b.g);
}

static void reference_runs_give_eager_bits(void **state)
{
    run(*state, TP_ENGINE_REFERENCE, "reference");
}

static void c_programs_give_eager_bits(void **state)
{
    run(*state, TP_ENGINE_C, "c");
}

int main(void)
{
    static const struct CMUnitTest tests[] = {CASE(reference_runs_give_eager_bits),
                                              CASE(c_programs_give_eager_bits)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
