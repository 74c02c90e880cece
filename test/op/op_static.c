/* Moves, joins, indices, contractions and windows in a graph whose batch and length are symbols:
 * the reference and the C program give the bits of the eager ops, for two sets of sizes, forward
 * and backward; indices out of range fail the run. */
#include "op_random.h"
#include "tapir/graph.h"
#include "tapir/indexing.h"
#include "tapir/nn.h"

typedef struct inputs {
    tp_tensor *x, *w, *image, *filter, *index, *along; /* [n, l, 6]  [6, 4]  [n, 4, h, 7] ... */
} inputs;

typedef tp_tensor *(*op_case)(const inputs *in);

#define OP(name, e)                                                                            \
    static tp_tensor *name(const inputs *in)                                                   \
    {                                                                                          \
        return e;                                                                              \
    }
#define WINDOW(...) (&(tp_window){__VA_ARGS__})
#define PAIR(a, b) 2, ((tp_tensor *[]){(a), (b)})

OP(reshaped, tp_square(tp_reshape(in->x, TP_DIMS(-1, 2, 3))))
OP(turned, tp_square(tp_reshape(tp_transpose(in->x, TP_DIMS(2, 0, 1)), TP_DIMS(6, -1))))
OP(flipped, tp_add(tp_flip(in->x, TP_DIMS(0, 2)), in->x))
OP(plain_flip, tp_flip(in->x, TP_DIMS(0, 2)))
OP(flip_twice, tp_flip(tp_flip(tp_slice(in->x, 2, 1, TP_END, 2), TP_DIMS(0, 2)), TP_DIMS(2, 1)))
OP(head, tp_square(tp_slice(in->x, 1, 0, 3, 1)))
OP(picked, tp_square(tp_slice(in->x, 1, -1, 0, -2)))
OP(tail, tp_square(tp_slice(in->x, 1, 2, TP_END, 1)))
OP(thinned, tp_square(tp_slice(in->x, 1, 1, TP_END, 2)))
OP(backwards, tp_mul(tp_slice(in->x, 1, -1, TP_END, -1), tp_slice(in->x, 2, 4, 3, -1)))
OP(first_row, tp_square(tp_select(in->x, 1, 0)))
OP(last_column, tp_square(tp_select(in->x, 2, -1)))
OP(stretched, tp_square(tp_broadcast(tp_slice(in->x, 2, 1, 2, 1), 3, in->x->shape)))
OP(padded, tp_square(tp_pad(in->x, TP_DIMS(0, 2, 1), (int64_t[]){1, 0, 3}, 0.5)))
OP(joined, tp_square(tp_concat(PAIR(in->x, tp_slice(in->x, 1, 1, TP_END, 1)), 1)))
OP(stacked, tp_square(tp_stack(PAIR(in->x, tp_flip(in->x, TP_DIMS(1))), 2)))
OP(gathered, tp_square(tp_gather(in->x, in->index, 1)))
OP(taken, tp_square(tp_take_along(in->x, in->along, 2)))
OP(added, tp_square(tp_scatter_add(in->x, in->index, tp_gather(in->x, in->index, 1), 1)))
OP(replaced,
   tp_square(tp_scatter(in->x, in->index, tp_square(tp_gather(in->x, in->index, 1)), 1)))
OP(put, tp_square(tp_put_along_add(in->x, in->along, tp_take_along(in->x, in->along, 2), 2)))
OP(marked, tp_mul(tp_one_hot(in->index, 6, TP_F32), tp_reduce_max(in->x, TP_DIMS(0, 1), false)))
OP(times, tp_square(tp_matmul(in->x, in->w)))
OP(scores, tp_square(tp_matmul(in->x, tp_swap(in->x, 1, 2))))
OP(conv, tp_square(tp_conv(in->image, in->filter,
                           WINDOW(.stride = {2, 1}, .pad_lo = {1, 1}, .pad_hi = {0, 2},
                                  .groups = 2))))
OP(conv_plain, tp_square(tp_conv(in->image, tp_reshape(in->filter, TP_DIMS(3, 4, 3, 3)), NULL)))
OP(greatest, tp_square(tp_max_pool(in->image, WINDOW(.kernel = {2, 3}, .pad_lo = {1, 0}))))
OP(average, tp_square(tp_avg_pool(in->image, WINDOW(.kernel = {3, 2}, .stride = {1, 2},
                                                    .pad_hi = {1, 1}))))

#define ROW(f)                                                                                 \
    {                                                                                          \
#f, f                                                                                  \
    }
static const struct {
    const char *name;
    op_case f;
} cases[] = {
    ROW(reshaped),   ROW(turned),      ROW(flipped),   ROW(flip_twice), ROW(head),
    ROW(picked),     ROW(plain_flip),  ROW(tail),      ROW(thinned),    ROW(backwards),
    ROW(first_row),  ROW(last_column), ROW(stretched), ROW(padded),     ROW(joined),
    ROW(stacked),    ROW(gathered),    ROW(taken),     ROW(added),      ROW(replaced),
    ROW(put),        ROW(marked),      ROW(times),     ROW(scores),     ROW(conv),
    ROW(conv_plain), ROW(greatest),    ROW(average),
};
#undef ROW
enum { N_CASES = sizeof cases / sizeof *cases, N_WANTED = 2, N_OUT = N_CASES * (1 + N_WANTED) };

/* Results and gradients of every case: y, dx, d(image), then the next case. */
static void all_of(tp_ctx *tp, const inputs *in, tp_tensor **out)
{
    for (int i = 0; i < N_CASES; i++) {
        tp_tensor *y = cases[i].f(in), **at = out + i * (1 + N_WANTED);
        at[0] = y;
        if (tp_failed(y) ||
            tp_grads(y, NULL, N_WANTED, (tp_tensor *[]){in->x, in->image}, at + 1) != TP_OK)
            fail_msg("%s: %s", cases[i].name, tp_error_message(tp));
    }
}

static tp_tensor *leaf_f32(tp_ctx *tp, uint64_t *s, int rank, const int64_t *shape)
{
    return tp_require_grad(
        tp_contiguous(tp_detach(tp_cast(random_f64(tp, s, rank, shape), TP_F32))));
}

static const char *const feed_names[] = {"x", "w", "image", "filter", "index", "along"};

typedef struct bed {
    tp_graph *g;
    char names[N_OUT][40];
    const char *fetches[N_OUT];
} bed;

static void build(tp_ctx *tp, bed *b)
{
    b->g = tp_graph_new(tp);
    const int64_t n = tp_symbol(b->g, "n"), l = tp_symbol(b->g, "l"), h = tp_symbol(b->g, "h");
    const inputs in = {.x = tp_placeholder(b->g, "x", TP_F32, TP_DIMS(n, l, 6)),
                       .w = tp_placeholder(b->g, "w", TP_F32, TP_DIMS(6, 4)),
                       .image = tp_placeholder(b->g, "image", TP_F32, TP_DIMS(n, 4, h, 7)),
                       .filter = tp_placeholder(b->g, "filter", TP_F32, TP_DIMS(6, 2, 3, 3)),
                       .index =
                           tp_placeholder(b->g, "index", TP_I32, TP_DIMS(tp_symbol(b->g, "k"))),
                       .along = tp_placeholder(b->g, "along", TP_I64, TP_DIMS(n, l, 3))};
    tp_tensor *out[N_OUT];
    all_of(tp, &in, out);
    for (int i = 0; i < N_OUT; i++) {
        snprintf(b->names[i], sizeof b->names[i], "%s_%d", cases[i / (1 + N_WANTED)].name,
                 i % (1 + N_WANTED));
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
    const int64_t n = random_int(&s, 1, 3), l = random_int(&s, 3, 6), h = random_int(&s, 3, 7);
    const int64_t k = random_int(&s, 1, 5);
    int32_t index[5];
    int64_t along[3 * 6 * 3];
    for (int i = 0; i < k; i++)
        index[i] = (int32_t)random_int(&s, -l, l - 1);
    for (int i = 0; i < n * l * 3; i++)
        along[i] = random_int(&s, -6, 5);
    feeds[0] = leaf_f32(tp, &s, TP_DIMS(n, l, 6));
    feeds[1] = leaf_f32(tp, &s, TP_DIMS(6, 4));
    feeds[2] = leaf_f32(tp, &s, TP_DIMS(n, 4, h, 7));
    feeds[3] = leaf_f32(tp, &s, TP_DIMS(6, 2, 3, 3));
    feeds[4] = tp_tensor_new(tp, TP_I32, TP_DIMS(k), index);
    feeds[5] = tp_tensor_new(tp, TP_I64, TP_DIMS(n, l, 3), along);
}

static void same_bits(const char *engine, uint64_t seed, const char *name, tp_tensor *y,
                      tp_tensor *want)
{
    if (tp_failed(y))
        fail_msg("seed %" PRIu64 ", %s: %s: %s", seed, engine, name, tp_error_text(y));
    want = tp_contiguous(want);
    y = tp_contiguous(y);
    if (strcmp(SHAPE(y), SHAPE(want)) != 0)
        fail_msg("seed %" PRIu64 ", %s: %s: %s, eager %s", seed, engine, name, SHAPE(y),
                 SHAPE(want));
    const size_t size = tp_dtype_size(tp_dtype_of(y));
    for (int64_t i = 0; i < tp_count(y); i++)
        if (memcmp(y->data + (size_t)i * size, want->data + (size_t)i * size, size) != 0)
            fail_msg("seed %" PRIu64 ", %s: %s %s differs from eager at %" PRId64
                     ": %g, not %g",
                     seed, engine, name, SHAPE(y), i,
                     tpi_load_f64(tp_dtype_of(y), y->data + (size_t)i * size),
                     tpi_load_f64(tp_dtype_of(y), want->data + (size_t)i * size));
}

static void run(tp_ctx *tp, tp_engine engine, const char *name)
{
    static bed b;
    build(tp, &b);
    tp_program *p = tp_graph_compile(b.g, 6, feed_names, N_OUT, b.fetches,
                                     &(tp_compile_options){.engine = engine});
    if (!p || (engine == TP_ENGINE_C && tp_program_wait(p) != TP_OK))
        fail_msg("%s", tp_error_message(tp));
    for (uint64_t seed = 1; seed <= 6; seed++) {
        tp_scope_begin(tp);
        tp_tensor *feeds[6], *out[N_OUT], *want[N_OUT];
        feed(tp, seed * 1001, feeds);
        if (tp_program_run(p, feeds, out) != TP_OK)
            fail_msg("seed %" PRIu64 ", %s: %s", seed, name, tp_error_message(tp));
        assert_string_equal(tp_program_engine(p), name);
        all_of(tp, &(inputs){feeds[0], feeds[1], feeds[2], feeds[3], feeds[4], feeds[5]}, want);
        for (int i = 0; i < N_OUT; i++)
            same_bits(name, seed, b.fetches[i], out[i], want[i]);
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

static void a_bad_index_fails_the_run(void **state)
{
    tp_ctx *tp = *state;
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_C};
    for (int e = 0; e < 2; e++) {
        tp_graph *g = tp_graph_new(tp);
        tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "n"), 2));
        tp_tensor *i = tp_placeholder(g, "i", TP_I64, TP_DIMS(3));
        tp_name(tp_square(tp_gather(tp_flip(x, TP_DIMS(1)), i, 0)), "y");
        const char *const feeds[] = {"x", "i"}, *const fetch = "y";
        tp_program *p = tp_graph_compile(g, 2, feeds, 1, &fetch,
                                         &(tp_compile_options){.engine = engines[e]});
        assert_non_null(p);
        tp_tensor *in[] = {tp_tensor_new(tp, TP_F32, TP_DIMS(4, 2), NULL),
                           tp_tensor_new(tp, TP_I64, TP_DIMS(3), (int64_t[]){3, -4, 4})};
        tp_tensor *out;
        assert_int_equal(tp_program_run(p, in, &out), TP_E_VALUE);
        assert_true(tp_failed(out));
        EXPECT_ERROR(tp, TP_E_VALUE,
                     ": gather: index 4 at position 2 is out of range for size 4");
        in[0] = tp_tensor_new(tp, TP_F32, TP_DIMS(5, 2), NULL);
        assert_int_equal(tp_program_run(p, in, &out), TP_OK);
        tp_program_free(p);
        tp_graph_free(g);
    }
}

/* A coordinate that is out of range is no other place, however far it is. */
static void a_bad_coordinate_fails_the_run(void **state)
{
    tp_ctx *tp = *state;
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_TILES, TP_ENGINE_C};
    static const int64_t bad[][2] = {
        {3,                 0        },
        {0,                 4        },
        {-4,                0        },
        {0,                 -5       },
        {INT64_MIN,         0        },
        {INT64_C(1) << 62,  0        },
        {1,                 INT64_MAX},
        {INT64_MAX / 4 + 1, 0        }
    };
    for (int e = 0; e < 3; e++) {
        tp_graph *g = tp_graph_new(tp);
        tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "n"), 4));
        tp_tensor *i = tp_placeholder(g, "i", TP_I64, TP_DIMS(1, 2));
        tp_name(tp_gather_nd(x, i, 0), "y");
        const char *const feeds[] = {"x", "i"}, *const fetch = "y";
        tp_program *p = tp_graph_compile(g, 2, feeds, 1, &fetch,
                                         &(tp_compile_options){.engine = engines[e]});
        assert_non_null(p);
        tp_tensor *in[] = {tp_arange(tp, TP_F32, 12, 0, 1), NULL}, *out;
        in[0] = tp_reshape(in[0], TP_DIMS(3, 4));
        for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
            in[1] = tp_tensor_new(tp, TP_I64, TP_DIMS(1, 2), bad[k]);
            assert_int_equal(tp_program_run(p, in, &out), TP_E_VALUE);
            EXPECT_ERROR(tp, TP_E_VALUE,
                         ": gather: index 12 at position 0 is out of range for size 12");
        }
        in[1] = tp_tensor_new(tp, TP_I64, TP_DIMS(1, 2), (int64_t[]){-3, -1});
        assert_int_equal(tp_program_run(p, in, &out), TP_OK);
        assert_true(tp_item(out) == 3);
        tp_program_free(p);
        tp_graph_free(g);
    }
}

/* One element of a constant, at a size: its own size is known, and yet there is nothing to fold. */
static void a_constant_is_cut_where_the_run_says(void **state)
{
    tp_ctx *tp = *state;
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_TILES, TP_ENGINE_C};
    for (int e = 0; e < 3; e++) {
        tp_graph *g = tp_graph_new(tp);
        const int64_t n = tp_symbol(g, "n");
        tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(n));
        tp_tensor *row = tp_graph_read(g, tp_arange(tp, TP_F32, 9, 0, 1));
        tp_tensor *one = tp_slice(row, 0, n, tp_dim_add(g, n, 1), 1);
        tp_name(tp_add(x, one), "y");
        const char *const feed_name = "x", *const fetch = "y";
        tp_program *p = tp_graph_compile(g, 1, &feed_name, 1, &fetch,
                                         &(tp_compile_options){.engine = engines[e]});
        assert_non_null(p);
        for (int64_t size = 1; size < 9; size += 3) {
            tp_tensor *in = tp_tensor_new(tp, TP_F32, TP_DIMS(size), NULL), *out;
            assert_int_equal(tp_program_run(p, &in, &out), TP_OK);
            assert_true(tp_item(tp_slice(out, 0, 0, 1, 1)) == (double)size);
        }
        tp_program_free(p);
        tp_graph_free(g);
    }
}

static void a_slice_that_is_not_there_fails_the_run(void **state)
{
    tp_ctx *tp = *state;
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_C};
    for (int e = 0; e < 2; e++) {
        tp_graph *g = tp_graph_new(tp);
        tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "n"), 2));
        tp_name(tp_square(tp_slice(x, 0, 3, -1, 1)), "y");
        const char *const feed_name = "x", *const fetch = "y";
        tp_program *p = tp_graph_compile(g, 1, &feed_name, 1, &fetch,
                                         &(tp_compile_options){.engine = engines[e]});
        assert_non_null(p);
        tp_tensor *in = tp_tensor_new(tp, TP_F32, TP_DIMS(3, 2), NULL), *out;
        assert_int_not_equal(tp_program_run(p, &in, &out), TP_OK);
        assert_true(tp_failed(out));
        tp_clear_error(tp);
        in = tp_tensor_new(tp, TP_F32, TP_DIMS(6, 2), NULL);
        assert_int_equal(tp_program_run(p, &in, &out), TP_OK);
        assert_int_equal(tp_size(out, 0), 2);
        tp_program_free(p);
        tp_graph_free(g);
    }
}

/* Eager, with memory out at the n-th allocation: nothing crashes, nothing is lost. */
static long with_memory_until(long fail_at)
{
    unit_memory m = {.fail_at = fail_at};
    tp_ctx *tp = unit_open(&m);
    if (!tp)
        return m.calls;
    tp_tensor *feeds[6], *out[3];
    tp_scope_begin(tp);
    feed(tp, 9, feeds);
    const inputs in = {feeds[0], feeds[1], feeds[2], feeds[3], feeds[4], feeds[5]};
    for (int i = 0; i < N_CASES; i++) {
        out[0] = cases[i].f(&in);
        tp_grads(out[0], NULL, N_WANTED, (tp_tensor *[]){in.x, in.image}, out + 1);
    }
    const tp_status status = tp_error(tp);
    /* the last one may be that of a tensor itself, in place of which a dead one is taken (core/tensor.c) */
    const bool survived = status == TP_OK && m.calls == fail_at;
    if (!survived && status != (fail_at && m.calls >= fail_at ? TP_E_MEMORY : TP_OK))
        fail_msg("allocation %ld of %ld fails: %s", fail_at, m.calls, tp_error_message(tp));
    tp_close(tp);
    assert_int_equal(m.bytes, 0);
    return m.calls;
}

static void memory_may_be_out_anywhere(void **state)
{
    (void)state;
    const long calls = with_memory_until(0), step = calls / 300 + 1;
    for (long n = 1; n <= calls; n += step)
        with_memory_until(n);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(reference_runs_give_eager_bits),
        CASE(c_programs_give_eager_bits),
        CASE(a_bad_index_fails_the_run),
        CASE(a_bad_coordinate_fails_the_run),
        CASE(a_constant_is_cut_where_the_run_says),
        CASE(a_slice_that_is_not_there_fails_the_run),
        cmocka_unit_test(memory_may_be_out_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
