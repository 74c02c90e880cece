/* tp_vmap: what is shared, per-sample gradients, gradients through it, blocks that each sample goes through in its own
 * way, what takes one sample after the other, captured functions, graphs and programs, and what it refuses. */
#include "common/caught.h"
#include "samples.h"

/* ---- networks ------------------------------------------------------------------------------------- */

typedef struct net {
    tp_tensor *w, *b;
} net;

static net net_of(tp_ctx *tp)
{
    return (net){tp_param(numbers(tp, 2, (int64_t[]){4, 3}, 0.1), "w"),
                 tp_param(numbers(tp, 1, (int64_t[]){3}, 0.2), "b")};
}

static tp_tensor *loss_of(const net *s, tp_tensor *x)
{
    tp_tensor *row = tp_linear(tp_unsqueeze(x, 0), s->w, s->b);
    return tp_mean(tp_square(tp_tanh(row)), TP_ALL, false);
}

static void loss(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    out[0] = loss_of(user, in[0]);
}

static void weight_gradient(void *user, int n_in, tp_tensor *const *in, int n_out,
                            tp_tensor **out)
{
    const net *s = user;
    (void)n_in, (void)n_out;
    out[0] = tp_grad(loss_of(s, in[0]), s->w);
}

static void weights_are_shared(void **state)
{
    tp_ctx *tp = *state;
    net s = net_of(tp);
    tp_tensor *x = numbers(tp, 2, (int64_t[]){5, 4}, 0);
    expect_same(tp_vmap_apply(loss, &s, 1, &x, NULL), each(loss, &s, x));
}

static void gradients_are_per_sample(void **state)
{
    tp_ctx *tp = *state;
    net s = net_of(tp);
    tp_tensor *x = numbers(tp, 2, (int64_t[]){5, 4}, 0);
    tp_tensor *dw = tp_vmap_apply(weight_gradient, &s, 1, &x, NULL);
    assert_int_equal(tp_rank(dw), 3);
    expect_same(dw, each(weight_gradient, &s, x));
}

static void gradients_go_through_it(void **state)
{
    tp_ctx *tp = *state;
    net s = net_of(tp);
    tp_tensor *x = tp_require_grad(numbers(tp, 2, (int64_t[]){5, 4}, 0));
    tp_tensor *all = tp_sum(tp_vmap_apply(loss, &s, 1, &x, NULL), TP_ALL, false);
    tp_tensor *one = tp_sum(each(loss, &s, x), TP_ALL, false);
    tp_tensor *xs[3] = {x, s.w, s.b}, *got[3], *want[3];
    assert_int_equal(tp_grads(all, NULL, 3, xs, got), TP_OK);
    assert_int_equal(tp_grads(one, NULL, 3, xs, want), TP_OK);
    expect_same(got[0], want[0]);
    for (int k = 1; k < 3; k++) { /* sums over samples, in another order */
        tp_tensor *off = tp_reduce_max(tp_abs(tp_sub(got[k], want[k])), TP_ALL, false);
        assert_true(tp_item(off) < 1e-6);
    }
}

/* What is read is not computed again: it stays one tensor, through which gradients go. */
static void what_was_computed_is_shared(void **state)
{
    tp_ctx *tp = *state;
    net s = net_of(tp);
    tp_tensor *w = s.w, *x = numbers(tp, 2, (int64_t[]){5, 4}, 0);
    s.w = tp_mul(tp_exp(w), 0.25);
    tp_tensor *y = tp_vmap_apply(loss, &s, 1, &x, NULL);
    expect_same(y, each(loss, &s, x));
    tp_tensor *dw = tp_grad(tp_sum(y, TP_ALL, false), w);
    assert_false(tp_failed(dw));
    assert_true(tp_item(tp_reduce_max(tp_abs(dw), TP_ALL, false)) > 1e-4);
}

typedef struct hidden {
    tp_tensor *w, *made_of_w;
} hidden;

static void gradient_of_hidden(void *user, int n_in, tp_tensor *const *in, int n_out,
                               tp_tensor **out)
{
    const hidden *h = user;
    (void)n_in, (void)n_out;
    out[0] = tp_grad(tp_sum(tp_mul(in[0], h->made_of_w), TP_ALL, false), h->w);
}

/* The cure: an argument that all samples have, from which the function computes what it needs. */
static void gradient_of_shared(void *user, int n_in, tp_tensor *const *in, int n_out,
                               tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = tp_grad(tp_sum(tp_mul(in[0], tp_exp(in[1])), TP_ALL, false), in[1]);
}

static void a_shared_argument_has_a_gradient_per_sample(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *in[2] = {numbers(tp, 2, (int64_t[]){5, 3}, 0),
                        numbers(tp, 1, (int64_t[]){3}, 0.1)};
    const int axes[] = {0, TP_SHARED};
    tp_tensor *dw =
        tp_vmap_apply(gradient_of_shared, NULL, 2, in, &(tp_vmap_options){.in_axes = axes});
    expect_same(dw, tp_mul(in[0], tp_exp(in[1])));
}

/* Zeros would be wrong. */
static void a_gradient_that_goes_around_is_refused(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = numbers(tp, 2, (int64_t[]){5, 3}, 0);
    hidden h = {.w = tp_require_grad(numbers(tp, 1, (int64_t[]){3}, 0))};
    h.made_of_w = tp_exp(h.w);
    assert_true(tp_failed(tp_vmap_apply(gradient_of_hidden, &h, 1, &x, NULL)));
    EXPECT_ERROR_WITH(tp, TP_E_STATE, "y may depend on it through");
    tp_tensor *made_of_x = tp_mul(numbers(tp, 2, (int64_t[]){5, 3}, 0), h.w);
    h.made_of_w = numbers(tp, 1, (int64_t[]){3}, 0);
    assert_true(tp_failed(tp_vmap_apply(gradient_of_hidden, &h, 1, &made_of_x, NULL)));
    EXPECT_ERROR_WITH(tp, TP_E_STATE, "y may depend on it through");
}

static void axes_from_the_end(void **state)
{
    tp_ctx *tp = *state;
    net s = net_of(tp);
    tp_tensor *x = numbers(tp, 2, (int64_t[]){5, 4}, 0), *turned = tp_swap(x, 0, 1);
    tp_tensor *want = tp_vmap_apply(weight_gradient, &s, 1, &x, NULL);
    const int last = -1, middle = -2;
    const tp_vmap_options opt = {.in_axes = &last, .out_axes = &middle};
    tp_tensor *got = tp_vmap_apply(weight_gradient, &s, 1, &turned, &opt);
    expect_same(got, tp_swap(want, 0, 1));
}

/* ---- blocks: each sample in its own way ------------------------------------------------------------ */

static int executed; /* rows that the kernel below was run for */

static bool count_row(void *user, int n_in, const tp_elements *in, const tp_elements *out)
{
    (void)user, (void)n_in;
    executed++;
    for (int64_t i = 0; i < out->count; i++)
        ((float *)out->data)[i] = ((const float *)in->data)[i] * 0.5f;
    return true;
}

static tp_tensor *half(void *user, int n_in, tp_tensor *const *in)
{
    (void)user, (void)n_in;
    return tp_mul(in[0], 0.5);
}

static const tp_kernel counted_half = {.name = "half", .compute = count_row, .reference = half};

static tp_tensor *halved(tp_tensor *x)
{
    return tp_kernel_apply(&counted_half, NULL, 1, &x, TP_F32, tp_rank(x),
                           (int64_t[]){tp_rank(x) ? tp_dim(x, 0) : 1});
}

/* Halves until the sum is at most 1: as many turns as the sample needs. */
static void shrink(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    tp_tensor *x = in[0];
    (void)user, (void)n_in, (void)n_out;
    tp_while (tp_gt(tp_sum(x, TP_ALL, false), 1), &x) {
        x = halved(x);
    }
    out[0] = x;
}

static void one_of_two(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    tp_tensor *x = in[0], *y = NULL;
    (void)user, (void)n_in, (void)n_out;
    tp_if (tp_gt(tp_sum(x, TP_ALL, false), 1), &y) {
        y = halved(x);
    }
    tp_else
    {
        y = tp_add(tp_tanh(x), 1);
    }
    out[0] = y;
}

/* Behind a side of its own a sample has the sizes that it had. */
static void one_after_the_other(void *user, int n_in, tp_tensor *const *in, int n_out,
                                tp_tensor **out)
{
    tp_tensor *x = in[0], *y = in[0];
    (void)user, (void)n_in, (void)n_out;
    for (int i = 0; i < 3; i++)
        tp_if (tp_gt(tp_sum(y, TP_ALL, false), 1), &y) {
            y = halved(tp_mul(y, x));
        }
    out[0] = tp_add(tp_reshape(y, TP_DIMS(1, 2)), x);
}

/* A side of which only the number of rows is known, and a bool. */
static void constant_side(void *user, int n_in, tp_tensor *const *in, int n_out,
                          tp_tensor **out)
{
    tp_ctx *tp = user;
    tp_tensor *x = in[0], *y = NULL, *high = NULL;
    (void)n_in, (void)n_out;
    tp_if (tp_gt(tp_sum(x, TP_ALL, false), 1), &y, &high) {
        y = tp_mul(x, x);
        high = tp_gt(x, 2);
    }
    tp_else
    {
        y = tp_full(tp, TP_F32, TP_DIMS(2), 7);
        high = tp_full(tp, TP_BOOL, TP_DIMS(2), 1);
    }
    out[0] = tp_where(high, tp_grad(y, x), y);
}

static tp_tensor *sized(tp_ctx *tp)
{
    const float v[6][2] = {
        {8,     8    },
        {0.25f, 0.5f },
        {1,     2    },
        {0,     0    },
        {100,   3    },
        {0.5f,  0.75f}
    };
    return tp_tensor_new(tp, TP_F32, TP_DIMS(6, 2), v);
}

static void samples_leave_a_loop_on_their_own(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = sized(tp);
    executed = 0;
    tp_tensor *want = each(shrink, NULL, x);
    const int alone = executed;
    executed = 0;
    expect_same(tp_vmap_apply(shrink, NULL, 1, &x, NULL), want);
    assert_int_equal(executed, alone); /* the sum of turns, no row for a sample that has left */
    assert_true(alone > 6);
}

static void samples_go_to_their_side(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = sized(tp);
    tp_tensor *want = each(one_of_two, NULL, x);
    executed = 0;
    expect_same(tp_vmap_apply(one_of_two, NULL, 1, &x, NULL), want);
    assert_int_equal(executed, 4);
    tp_tensor *low = tp_mul(x, 0.001);
    want = each(one_of_two, NULL, low);
    executed = 0;
    expect_same(tp_vmap_apply(one_of_two, NULL, 1, &low, NULL), want);
    assert_int_equal(executed, 0);
    expect_same(tp_vmap_apply(one_after_the_other, NULL, 1, &x, NULL),
                each(one_after_the_other, NULL, x));
    x = tp_require_grad(x);
    expect_same(tp_vmap_apply(constant_side, tp, 1, &x, NULL), each(constant_side, tp, x));
}

static void running_sum(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    tp_ctx *tp = user;
    tp_tensor *h = tp_scalar(tp, TP_F32, 0), *all = NULL;
    (void)n_in, (void)n_out;
    tp_for (tp_dim(in[0], 0), &h) {
        h = tp_tanh(tp_add(tp_mul(h, 0.5), tp_each(in[0])));
        tp_emit(&all, h);
    }
    out[0] = tp_grad(tp_sum(all, TP_ALL, false), in[0]);
}

static void counted_loops_are_over_all(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = numbers(tp, 2, (int64_t[]){5, 4}, 0);
    tp_tensor *all = tp_vmap_apply(running_sum, tp, 1, &x, NULL);
    tp_tensor *y[5];
    for (int i = 0; i < 5; i++) {
        tp_tensor *one = tp_require_grad(tp_detach(tp_contiguous(tp_select(x, 0, i))));
        running_sum(tp, 1, &one, 1, &y[i]);
    }
    expect_same(all, tp_stack(5, y, 0));
}

/* ---- one sample after the other -------------------------------------------------------------------- */

static int op_line; /* where the bodies below call the op that they are of */

/* x [1, 2, 5] with weights of the sample's own [3, 2, 2] */
static void own_weights(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    op_line = __LINE__ + 1;
    out[0] = tp_conv(in[0], in[1], NULL);
}

static void own_weights_turned(void *user, int n_in, tp_tensor *const *in, int n_out,
                               tp_tensor **out)
{
    tp_tensor *dy = tp_slice(tp_concat(TP_TENSORS(in[0], in[0]), 1), 1, 0, 3, 1);
    (void)user, (void)n_in, (void)n_out;
    op_line = __LINE__ + 1;
    out[0] = tp_conv_dx(dy, in[1], 1, (int64_t[]){6}, NULL);
}

static void shared_weights(void *user, int n_in, tp_tensor *const *in, int n_out,
                           tp_tensor **out)
{
    (void)n_in, (void)n_out;
    out[0] = tp_grad(tp_sum(tp_square(tp_conv(in[0], user, NULL)), TP_ALL, false), in[0]);
}

static void by_shared_weights(void *user, int n_in, tp_tensor *const *in, int n_out,
                              tp_tensor **out)
{
    (void)n_in, (void)n_out;
    op_line = __LINE__ + 1;
    tp_tensor *y = tp_conv(in[0], user, NULL);
    out[0] = tp_grad(tp_sum(tp_square(y), TP_ALL, false), user);
}

static void own_kernel(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    tp_tensor *row = tp_flatten(in[0], 0);
    (void)user, (void)n_in, (void)n_out;
    op_line = __LINE__ + 1;
    out[0] = tp_kernel_apply(&counted_half, NULL, 1, &row, TP_F32, 1, (int64_t[]){10});
}

/* The rows [2, 2] of both turns are one sum of the matrix [2, 2]. */
static void matrix_in_a_block(void *user, int n_in, tp_tensor *const *in, int n_out,
                              tp_tensor **out)
{
    tp_tensor *h = tp_select(tp_slice(in[0], 2, 0, 2, 1), 0, 0);
    (void)n_in, (void)n_out;
    tp_for (2, &h) {
        op_line = __LINE__ + 1;
        h = tp_matmul(h, user);
    }
    out[0] = tp_grad(tp_sum(tp_square(h), TP_ALL, false), user);
}

static void matrix_in_c(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    tp_tensor *h = tp_select(tp_slice(in[0], 2, 0, 2, 1), 0, 0);
    (void)n_in, (void)n_out;
    for (int i = 0; i < 2; i++)
        h = tp_matmul(h, user);
    out[0] = tp_grad(tp_sum(tp_square(h), TP_ALL, false), user);
}

/* Reads and sets rows at indices of the sample's own. */
static void own_indices(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    tp_tensor *rows = tp_flatten(in[0], 1);
    tp_tensor *order = tp_argsort(tp_select(tp_flatten(in[1], 1), 1, 0), 0, false);
    (void)user, (void)n_in, (void)n_out;
    rows = tp_concat(TP_TENSORS(rows, tp_add(rows, 1), tp_add(rows, 2)), 0);
    out[0] = tp_scatter(tp_mul(rows, 2), order, tp_gather(rows, order, 0), 0);
}

static void what_goes_one_by_one_is_logged(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *w = tp_param(numbers(tp, 3, (int64_t[]){3, 2, 2}, 0.1), "w"),
              *m = tp_param(numbers(tp, 2, (int64_t[]){2, 2}, 0.1), "m");
    const struct {
        tp_body f;
        tp_tensor *user;
        const char *op; /* NULL: all samples at once */
    } bodies[] = {
        {own_weights,        NULL, "conv"      },
        {own_weights_turned, NULL, "conv_dx"   },
        {shared_weights,     w,    NULL        },
        {by_shared_weights,  w,    "conv_dw"   },
        {own_kernel,         NULL, "own_kernel"},
        {matrix_in_a_block,  m,    "add_rows"  },
        {matrix_in_c,        m,    NULL        },
        {own_indices,        NULL, NULL        },
    };
    tp_tensor *in[2] = {numbers(tp, 4, (int64_t[]){3, 1, 2, 5}, 0),
                        numbers(tp, 4, (int64_t[]){3, 3, 2, 2}, 0.3)};
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        char text[1000], line[200] = "";
        const caught c = catch_begin();
        setenv("TAPIR_LOG", "vmap", 1);
        tp_tensor *y = tp_vmap_apply(bodies[i].f, bodies[i].user, 2, in, NULL), *alone[3];
        unsetenv("TAPIR_LOG");
        catch_end(c, text, sizeof text);
        if (bodies[i].op)
            snprintf(line, sizeof line,
                     "tapir: vmap: %s:%d: %s takes one sample after the other\n", __FILE__,
                     op_line, bodies[i].op);
        const char *rest = text;
        do { /* in a block each turn tells of it */
            if (strncmp(rest, line, strlen(line)) != 0)
                fail_msg("function %d: the log is \"%s\", not \"%s\"", (int)i, text, line);
            rest += strlen(line);
        } while (*line && *rest);
        assert_string_equal(rest, "");
        for (int s = 0; s < 3; s++) {
            tp_tensor *one[2] = {tp_require_grad(tp_contiguous(tp_select(in[0], 0, s))),
                                 tp_select(in[1], 0, s)};
            bodies[i].f(bodies[i].user, 2, one, 1, &alone[s]);
        }
        expect_same(y, tp_stack(3, alone, 0));
    }
}

/* ---- around it ------------------------------------------------------------------------------------------- */

typedef struct outer {
    tp_body f;
    void *user;
} outer;

static void mapped(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const outer *o = user;
    tp_vmap(o->f, o->user, n_in, in, n_out, out, NULL);
}

static void in_functions(tp_ctx *tp, tp_body f, void *user, tp_tensor *x)
{
    outer o = {f, user};
    tp_tensor *want = each(f, user, x);
    for (int pure = 0; pure < 2; pure++) {
        tp_function *c =
            tp_function_new(tp, "mapped", mapped, &o,
                            &(tp_function_options){.pure = pure, .engine = TP_ENGINE_TILES});
        for (int call = 0; call < 4; call++)
            expect_same(tp_function_apply(c, 1, &x), want);
        tp_function_free(c);
    }
}

static void in_captured_functions(void **state)
{
    tp_ctx *tp = *state;
    net s = net_of(tp);
    tp_tensor *x = numbers(tp, 2, (int64_t[]){5, 4}, 0);
    in_functions(tp, loss, &s, x);
    in_functions(tp, weight_gradient, &s, x);
    in_functions(tp, shrink, NULL, sized(tp));
    in_functions(tp, one_of_two, NULL, sized(tp));
}

/* One program for any number of samples, by each engine. */
static void in_programs(tp_ctx *tp, tp_body f, void *user, tp_tensor *x)
{
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_TILES, TP_ENGINE_C};
    tp_graph *g = tp_graph_new(tp);
    const int64_t shape[2] = {tp_symbol(g, "samples"), tp_dim(x, 1)};
    tp_tensor *in = tp_placeholder(g, "x", TP_F32, 2, shape);
    tp_tensor *y = tp_vmap_apply(f, user, 1, &in, NULL);
    if (tp_failed(tp_name(tp_add(y, 0), "y")))
        fail_msg("%s", tp_error_message(tp));
    const char *names[2] = {"x", "y"};
    for (size_t e = 0; e < sizeof engines / sizeof *engines; e++) {
        tp_program *p = tp_graph_compile(g, 1, names, 1, names + 1,
                                         &(tp_compile_options){.engine = engines[e]});
        for (int64_t n = tp_dim(x, 0); n > 0 && p; n -= 2) {
            tp_tensor *part = tp_contiguous(tp_slice(x, 0, 0, n, 1)), *out;
            if (tp_program_run(p, &part, &out) != TP_OK)
                fail_msg("engine %d: %s", (int)engines[e], tp_error_message(tp));
            expect_same(out, tp_add(each(f, user, part), 0));
        }
        assert_non_null(p);
    }
    tp_graph_free(g);
}

static void in_compiled_programs(void **state)
{
    tp_ctx *tp = *state;
    net s = net_of(tp);
    tp_tensor *x = numbers(tp, 2, (int64_t[]){5, 4}, 0);
    in_programs(tp, loss, &s, x);
    in_programs(tp, weight_gradient, &s, x);
    in_programs(tp, one_of_two, NULL, sized(tp));
    in_programs(tp, one_after_the_other, NULL, sized(tp));
    in_programs(tp, constant_side, tp, tp_require_grad(sized(tp)));
    in_programs(tp, shrink, NULL, sized(tp));
}

/* ---- edges --------------------------------------------------------------------------------------------------- */

static void no_samples(void **state)
{
    tp_ctx *tp = *state;
    net s = net_of(tp);
    tp_tensor *x = tp_full(tp, TP_F32, TP_DIMS(0, 4), 0);
    tp_tensor *y = tp_vmap_apply(loss, &s, 1, &x, NULL);
    assert_false(tp_failed(y));
    assert_int_equal(tp_count(y), 0);
    x = tp_full(tp, TP_F32, TP_DIMS(0, 2), 0);
    y = tp_vmap_apply(shrink, NULL, 1, &x, NULL);
    assert_false(tp_failed(y));
    assert_int_equal(tp_dim(y, 1), 2);
    y = tp_vmap_apply(one_of_two, NULL, 1, &x, NULL);
    assert_false(tp_failed(y));
    assert_int_equal(tp_dim(y, 0), 0);
}

static void constant(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)in, (void)n_out;
    out[0] = user;
}

static void what_is_no_sample_is_repeated(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = numbers(tp, 2, (int64_t[]){5, 4}, 0), *c = numbers(tp, 1, (int64_t[]){3}, 0);
    expect_same(tp_vmap_apply(constant, c, 1, &x, NULL), tp_broadcast(c, TP_DIMS(5, 3)));
}

typedef enum wrong {
    READS,
    ASSIGNS,
    PARTS,
    NOTHING,
    STACKS,
    GOES_BACK,
    FINDS,
    DEEPENS
} wrong;
typedef struct mistake {
    wrong what;
    tp_tensor *v;
} mistake;

static void mistaken(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const mistake *m = user;
    tp_tensor *x = in[0], *ys = NULL;
    (void)n_in, (void)n_out;
    out[0] = m->what == NOTHING ? NULL : x;
    if (m->what == READS)
        out[0] = tp_mul(x, tp_item(tp_sum(x, TP_ALL, false)));
    if (m->what == ASSIGNS)
        out[0] = tp_assign(m->v, x);
    if (m->what == DEEPENS)
        out[0] = tp_reshape(x, TP_DIMS(1, 1, 1, 1, 1, 1, 2, 2));
    if (m->what == FINDS)
        out[0] = tp_nonzero(x);
    if (m->what == PARTS) {
        tp_if (tp_gt(tp_sum(x, TP_ALL, false), 1), &x) {
            x = tp_add(x, tp_uniform_like(x, 0, 1));
        }
        out[0] = x;
    }
    if (m->what == GOES_BACK) {
        tp_while (tp_gt(tp_sum(x, TP_ALL, false), 1), &x) {
            x = tp_mul(tp_tanh(x), 0.5);
        }
        out[0] = tp_grad(tp_sum(x, TP_ALL, false), in[0]);
    }
    if (m->what == STACKS) {
        tp_while (tp_gt(tp_sum(x, TP_ALL, false), 1), &x) {
            x = tp_mul(x, 0.5);
            tp_emit(&ys, x);
        }
        out[0] = ys;
    }
}

static void mistakes_are_told(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = numbers(tp, 2, (int64_t[]){5, 4}, 3), *two[2] = {x, sized(tp)};
    mistake m = {.v = tp_variable(tp_full(tp, TP_F32, TP_DIMS(4), 0), "v")};
    static const struct {
        wrong what;
        tp_status status;
        const char *part;
    } told[] = {
        {READS,     TP_E_SYMBOLIC, "symbolic"                          },
        {ASSIGNS,   TP_E_STATE,    "assigns a variable"                },
        {NOTHING,   TP_E_NULL,     "result 0 was not set"              },
        {STACKS,    TP_E_STATE,    "samples may have different numbers"},
        {GOES_BACK, TP_E_STATE,    "samples may have different numbers"},
        {FINDS,     TP_E_STATE,    "samples may have different numbers"},
        {PARTS,     TP_E_STATE,    "samples go different ways in it"   },
        {DEEPENS,   TP_E_AXIS,     "more than 8 axes"                  },
    };
    for (size_t i = 0; i < sizeof told / sizeof *told; i++) {
        m.what = told[i].what;
        tp_vmap_apply(mistaken, &m, 1, &x, &(tp_vmap_options){.same_draws = m.what == PARTS});
        EXPECT_ERROR_WITH(tp, told[i].status, told[i].part);
    }
    const int shared = TP_SHARED, outside = 2;
    tp_vmap_apply(loss, &m, 1, &x, &(tp_vmap_options){.in_axes = &shared});
    EXPECT_ERROR_WITH(tp, TP_E_AXIS, "how many samples");
    tp_vmap_apply(loss, &m, 1, &x, &(tp_vmap_options){.in_axes = &outside});
    EXPECT_ERROR_WITH(tp, TP_E_AXIS, "argument 0 is [5, 4]: there is no axis 2");
    tp_vmap_apply(constant, x, 1, &x, &(tp_vmap_options){.out_axes = (int[]){3}});
    EXPECT_ERROR_WITH(tp, TP_E_AXIS, "axis 3 is none of it");
    tp_vmap_apply(loss, &m, 2, two, NULL);
    EXPECT_ERROR_WITH(tp, TP_E_SHAPE, "not as many");
    tp_vmap_apply(NULL, NULL, 1, &x, NULL);
    EXPECT_ERROR_WITH(tp, TP_E_NULL, "the function is NULL");
    assert_int_equal(tp_vmap(loss, NULL, 1, &x, 0, NULL, NULL), TP_E_NULL);
    tp_clear_error(tp);
}

/* Gradients of the user's own: of the square, 100. */
static void square_of_one(void *user, int n_in, tp_tensor *const *in, int n_out,
                          tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = tp_square(in[0]);
}

static void hundred(void *user, const tp_vjp *v)
{
    (void)user;
    v->din[0] = tp_mul(v->dout[0], 100);
}

static const tp_custom hundred_square = {
    .name = "hundred", .forward = square_of_one, .backward = hundred};

static tp_tensor *hundred_times(void *user, tp_tensor *g)
{
    (void)user;
    return tp_mul(g, 100);
}

static tp_tensor *square(void *user, int n_in, tp_tensor *const *in)
{
    (void)user, (void)n_in;
    return tp_square(in[0]);
}

static bool compute_square(void *user, int n_in, const tp_elements *in, const tp_elements *out)
{
    (void)user, (void)n_in;
    for (int64_t i = 0; i < out->count; i++)
        ((float *)out->data)[i] = ((const float *)in->data)[i] * ((const float *)in->data)[i];
    return true;
}

typedef enum own_way { CUSTOM, STRAIGHT, HOOKED, KERNEL, WAYS } own_way;
typedef struct owner {
    own_way way;
    bool asks; /* for the gradient, in the function */
    tp_hook *hook;
} owner;

static void with_its_own(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    static const tp_kernel kernel = {
        .name = "square", .compute = compute_square, .reference = square};
    const owner *o = user;
    tp_tensor *x = in[0], *y = NULL;
    (void)n_out;
    if (o->way == CUSTOM)
        y = tp_custom_apply(&hundred_square, NULL, n_in, in);
    if (o->way == STRAIGHT)
        y = tp_straight_through(tp_square(x), x);
    if (o->way == HOOKED)
        y = tp_square(tp_hooked(x, o->hook));
    if (o->way == KERNEL)
        y = tp_kernel_apply(&kernel, NULL, 1, &x, TP_F32, 1, (int64_t[]){4});
    out[0] = o->asks ? tp_grad(tp_sum(y, TP_ALL, false), x) : y;
}

static void with_its_own_inside(void *user, int n_in, tp_tensor *const *in, int n_out,
                                tp_tensor **out)
{
    tp_vmap(with_its_own, user, n_in, in, n_out, out, NULL);
}

/* A gradient of the user's own is one of one sample: the function may ask for it, who stands around may not. */
static void own_gradients_are_of_one_sample(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = numbers(tp, 2, (int64_t[]){5, 4}, 0), *v;
    tp_tensor *marked = tp_require_grad(numbers(tp, 2, (int64_t[]){5, 4}, 0));
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *in = tp_placeholder(g, "x", TP_F32, TP_DIMS(5, 4));
    tp_tensor *args[] = {marked, in, tp_unsqueeze(x, 0)}; /* the last one is symbolic inside */
    owner o = {.hook = tp_hook_new(tp, hundred_times, NULL)};
    const float want[WAYS] = {100, 1, 200, 2}; /* times x, but for the first two */
    for (o.way = CUSTOM; o.way < WAYS; o.way++) {
        const bool kernel = o.way == KERNEL;
        o.asks = true;
        v = tp_scalar(tp, TP_F32, want[o.way]);
        v = o.way < HOOKED ? tp_broadcast(v, TP_DIMS(5, 4)) : tp_mul(v, x);
        expect_same(tp_vmap_apply(with_its_own, &o, 1, &x, NULL), v);
        o.asks = kernel; /* whose gradient is that of others when it is asked outside */
        for (int i = 0; i < 3; i++) {
            const tp_body f = i < 2 ? with_its_own : with_its_own_inside;
            tp_tensor *arg = args[i];
            assert_true(tp_failed(tp_vmap_apply(f, &o, 1, &arg, NULL)));
            EXPECT_ERROR_WITH(tp, TP_E_STATE, "its own gradient is one of one sample");
            o.asks = false;
            tp_no_grad(tp) assert_false(tp_failed(tp_vmap_apply(f, &o, 1, &arg, NULL)));
            o.asks = kernel;
        }
    }
    o = (owner){.way = KERNEL};
    v = tp_vmap_apply(with_its_own, &o, 1, &marked, NULL);
    expect_same(tp_grad(tp_sum(v, TP_ALL, false), marked), tp_mul(x, 2));
    tp_graph_free(g);
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

static void all_of_it(tp_ctx *tp, tp_tensor **y)
{
    net s = net_of(tp);
    tp_tensor *x = numbers(tp, 2, (int64_t[]){3, 4}, 0), *z = sized(tp);
    y[0] = tp_vmap_apply(weight_gradient, &s, 1, &x, NULL);
    y[1] = tp_vmap_apply(shrink, NULL, 1, &z, NULL);
    y[2] = tp_vmap_apply(one_of_two, NULL, 1, &z, NULL);
}

static void memory_runs_out(void **state)
{
    (void)state;
    unit_no_memory(all_of_it, 3);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(weights_are_shared),
        CASE(gradients_are_per_sample),
        CASE(axes_from_the_end),
        CASE(gradients_go_through_it),
        CASE(a_shared_argument_has_a_gradient_per_sample),
        CASE(what_was_computed_is_shared),
        CASE(a_gradient_that_goes_around_is_refused),
        CASE(samples_leave_a_loop_on_their_own),
        CASE(samples_go_to_their_side),
        CASE(counted_loops_are_over_all),
        CASE(what_goes_one_by_one_is_logged),
        CASE(in_captured_functions),
        CASE(in_compiled_programs),
        CASE(no_samples),
        CASE(what_is_no_sample_is_repeated),
        CASE(mistakes_are_told),
        CASE(own_gradients_are_of_one_sample),
        cmocka_unit_test(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
