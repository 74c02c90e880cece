/* A call is one node to gradients: the bits of a left fold with the sums of the inside first,
 * eagerly and in graphs; second gradients; what is refused. */
#include "common/unit.h"
#include "ir/check.h"
#include "ir/graph_def.h"
#include "op/call.h"
#include "tapir/capture.h"
#include "tapir/graph.h"
#include "tapir/nn.h"
#include "tapir/random.h"

enum { N = 7, FUNCTION = 5 };

typedef void (*inside)(tp_tensor *const *in, tp_tensor **out);

static bool untied; /* a call is then what it computes, and no node */

static void call(inside f, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    tp_tensor *inner[4];
    f(in, inner);
    memcpy(out, inner, (size_t)n_out * sizeof *out);
    if (!untied)
        assert_true(tpi_call_tie(tp_ctx_of(in[0]), TPI_AT(__FILE__, __LINE__), FUNCTION, n_in,
                                 in, n_out, inner, out));
}

static tp_tensor *draw(tp_ctx *tp, tp_dtype dtype)
{
    return tp_uniform(tp, dtype, TP_DIMS(N, N), -1, 1);
}

/* The same values as another leaf. */
static tp_tensor *leaf(tp_tensor *t)
{
    const bool was = tp_recording(tp_ctx_of(t), false);
    tp_tensor *copy = tp_mul(t, tp_scalar_like(t, 1));
    tp_recording(tp_ctx_of(t), was);
    return tp_require_grad(copy);
}

static bool same_bits(const tp_tensor *a, const tp_tensor *b)
{
    assert_int_equal(tp_count(a), tp_count(b));
    assert_int_equal(tp_dtype_of(a), tp_dtype_of(b));
    const void *p = tp_data(a), *q = tp_data(b);
    assert_true(p && q);
    return memcmp(p, q, (size_t)tp_count(a) * tp_dtype_size(tp_dtype_of(a))) == 0;
}

static void expect_same(tp_ctx *tp, tp_tensor *want, tp_tensor *got, const char *what)
{
    assert_string_equal(tp_error_message(tp), "");
    const uint32_t *a = tp_data(tp_contiguous(want)), *b = tp_data(tp_contiguous(got));
    assert_true(a && b);
    assert_int_equal(tp_dtype_of(want), TP_F32);
    assert_int_equal(tp_count(want), tp_count(got));
    for (int64_t i = 0; i < tp_count(want); i++)
        if (a[i] != b[i])
            fail_msg("%s, element %d: expected %08x, got %08x (bits, seed 3)", what, (int)i,
                     (unsigned)a[i], (unsigned)b[i]);
}

/* ---- order ------------------------------------------------------------------------------------ */

/* in: x, w, and the matrix that products use; out: two values that use all of them more than once. */
static void parts_of_two(tp_tensor *const *in, tp_tensor **out)
{
    tp_tensor *x = in[0], *w = in[1];
    tp_tensor *h = tp_tanh(tp_add(tp_matmul(x, in[2]), w));
    tp_tensor *k = tp_sin(tp_add(tp_matmul(h, in[2]), tp_mul(x, w)));
    out[0] = tp_mul(k, h);
    out[1] = tp_add(tp_mul(w, h), tp_exp(tp_mul(w, x)));
}

static void two_values(tp_tensor *const *in, tp_tensor **out)
{
    parts_of_two((tp_tensor *[]){in[0], in[1], in[1]}, out);
}

/* Uses x and w before the call and, twice, after it. */
static tp_tensor *after(tp_tensor *const *r, tp_tensor *x, tp_tensor *w)
{
    tp_tensor *y = tp_mul(tp_sin(r[0]), w);
    y = tp_add(y, tp_mul(tp_mul(r[1], x), w));
    y = tp_add(y, tp_mul(r[0], tp_cos(x)));
    return tp_sum(y, TP_ALL, false);
}

static tp_tensor *loss_of(tp_tensor *x, tp_tensor *w)
{
    tp_tensor *before = tp_mul(tp_exp(x), tp_sigmoid(w)), *r[2];
    call(two_values, 2, (tp_tensor *[]){x, w}, 2, r);
    return tp_add(after(r, x, w), tp_sum(before, TP_ALL, false));
}

/* The gradients of loss_of from parts that know nothing of calls: what comes after, what is
 * inside and what comes before have leaves of their own. What products give comes last. */
static void by_hand(tp_tensor *x, tp_tensor *w, tp_tensor *dx[2])
{
    tp_tensor *xs[3], *ws[3], *r[2], *dr[2], *d[3][3];
    tp_tensor *within[3] = {leaf(x), leaf(w), leaf(w)};
    for (int i = 0; i < 3; i++) {
        xs[i] = leaf(x);
        ws[i] = leaf(w);
    }
    tp_tensor *before = tp_mul(tp_exp(xs[0]), tp_sigmoid(ws[0]));
    tp_grads(tp_sum(before, TP_ALL, false), NULL, 2, (tp_tensor *[]){xs[0], ws[0]}, d[0]);
    parts_of_two(within, r);
    tp_tensor *outer[2] = {leaf(r[0]), leaf(r[1])};
    tp_tensor *late[4] = {outer[0], outer[1], xs[2], ws[2]}, *dlate[4];
    tp_grads(after(outer, xs[2], ws[2]), NULL, 4, late, dlate);
    memcpy(dr, dlate, sizeof dr);
    memcpy(d[2], dlate + 2, 2 * sizeof *dlate);
    /* one sweep from both results: sum(r0 * dr0) + sum(r1 * dr1), whose gradients are dr */
    tp_tensor *both = tp_add(tp_sum(tp_mul(r[0], tp_detach(dr[0])), TP_ALL, false),
                             tp_sum(tp_mul(r[1], tp_detach(dr[1])), TP_ALL, false));
    tp_grads(both, NULL, 3, within, d[1]);
    for (int i = 0; i < 2; i++)
        dx[i] = tp_add(tp_add(d[2][i], d[1][i]), d[0][i]);
    dx[1] = tp_add(dx[1], d[1][2]);
}

static void test_order(void **state)
{
    tp_ctx *tp = *state;
    tp_seed(tp, 3);
    tp_tensor *x = tp_require_grad(draw(tp, TP_F32)), *w = tp_param(draw(tp, TP_F32), "w");
    tp_tensor *in[2] = {x, w}, *want[2], *got[2], *flat[2];
    by_hand(x, w, want);
    tp_grads(loss_of(x, w), NULL, 2, in, got);
    expect_same(tp, want[0], got[0], "dx");
    expect_same(tp, want[1], got[1], "dw");
    assert_int_equal(tp_backward(loss_of(x, w)), TP_OK);
    expect_same(tp, want[0], tp_grad_of(x), "tp_grad_of x");
    expect_same(tp, want[1], tp_grad_of(w), "tp_grad_of w");
    untied = true; /* the order matters, or nothing is tested here */
    tp_grads(loss_of(x, w), NULL, 2, in, flat);
    untied = false;
    assert_false(same_bits(flat[0], got[0]));
    assert_false(same_bits(flat[1], got[1]));
    /* of one leaf alone */
    expect_same(tp, want[1], tp_grad(loss_of(x, w), w), "dw alone");
    expect_same(tp, want[0], tp_grad(loss_of(x, w), x), "dx alone");
}

/* Graph and eager: bits of first gradients, and of second ones, in both engines. */
static tp_tensor *steep(tp_tensor *(*loss)(tp_tensor *x, tp_tensor *w), tp_tensor *x,
                        tp_tensor *w)
{
    tp_tensor *dx[2];
    tp_grads(loss(x, w), NULL, 2, (tp_tensor *[]){x, w}, dx);
    return tp_add(tp_sum(tp_square(dx[0]), TP_ALL, false),
                  tp_sum(tp_square(dx[1]), TP_ALL, false));
}

static void same_in_graph(tp_ctx *tp, tp_tensor *(*loss)(tp_tensor *x, tp_tensor *w))
{
    tp_seed(tp, 3);
    tp_tensor *x = tp_require_grad(draw(tp, TP_F32)), *w = tp_param(draw(tp, TP_F32), "w");
    tp_tensor *in[2] = {x, w}, *want[4];
    tp_grads(loss(x, w), NULL, 2, in, want);
    tp_grads(steep(loss, x, w), NULL, 2, in, want + 2);
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *sx = tp_placeholder(g, "x", TP_F32, TP_DIMS(N, N)), *d[4];
    tp_tensor *sin[2] = {sx, w};
    tp_grads(loss(sx, w), NULL, 2, sin, d);
    tp_grads(steep(loss, sx, w), NULL, 2, sin, d + 2);
    static const char *const names[] = {"dx", "dw", "ddx", "ddw"};
    for (int i = 0; i < 4; i++)
        tp_name(d[i], names[i]);
    assert_int_equal(tp_graph_verify(g), TP_OK);
    assert_string_equal(tp_error_message(tp), "");
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_C};
    for (int e = 0; e < 2; e++) {
        const tp_compile_options options = {.engine = engines[e]};
        tp_program *p = tp_graph_compile(g, TP_NAMES("x"), 4, names, &options);
        tp_tensor *out[4];
        assert_int_equal(tp_program_run(p, &x, out), TP_OK);
        for (int i = 0; i < 4; i++)
            expect_same(tp, want[i], out[i], names[i]);
    }
    /* the same after printing and reading, which keeps calls */
    char *text = tp_graph_text(g);
    assert_non_null(strstr(text, " = call %"));
    assert_non_null(strstr(text, " {function=5} : bool[]"));
    assert_non_null(strstr(text, " = result %"));
    tp_graph *back = tp_graph_parse(tp, text, strlen(text));
    assert_string_equal(tp_error_message(tp), "");
    assert_non_null(back);
    assert_int_equal(tp_graph_verify(back), TP_OK);
    char *again = tp_graph_text(back);
    assert_string_equal(text, again);
    tp_free(tp, text);
    tp_free(tp, again);
}

static void test_graph(void **state)
{
    same_in_graph(*state, loss_of);
}

/* ---- nested calls ----------------------------------------------------------------------------- */

static void small(tp_tensor *const *in, tp_tensor **out)
{
    out[0] = tp_add(tp_mul(tp_sin(in[0]), in[1]), tp_mul(in[0], tp_exp(in[1])));
}

/* w is used by two calls within, and beside them. */
static void nested(tp_tensor *const *in, tp_tensor **out)
{
    tp_tensor *x = in[0], *w = in[1], *a, *b;
    call(small, 2, (tp_tensor *[]){x, w}, 1, &a);
    tp_tensor *t = tp_mul(tp_tanh(a), w);
    call(small, 2, (tp_tensor *[]){tp_add(t, x), w}, 1, &b);
    out[0] = tp_mul(tp_add(b, a), w);
}

static tp_tensor *nested_loss(tp_tensor *x, tp_tensor *w)
{
    tp_tensor *y, *z;
    call(nested, 2, (tp_tensor *[]){x, w}, 1, &y);
    call(nested, 2, (tp_tensor *[]){y, w}, 1, &z); /* of a recorded operand */
    return tp_sum(tp_mul(tp_add(z, y), w), TP_ALL, false);
}

/* The parts of `nested` with leaves of their own, from dy to dx and dw. */
static void nested_by_hand(tp_tensor *x, tp_tensor *w, tp_tensor *dy, tp_tensor **y,
                           tp_tensor **dx, tp_tensor **dw)
{
    tp_tensor *in1[2] = {leaf(x), leaf(w)}, *in2[2], *a, *b, *d1[2], *d2[2], *d3[3], *d4[3];
    small(in1, &a);
    tp_tensor *leaves[3] = {leaf(a), leaf(w), leaf(x)};
    tp_tensor *sum = tp_add(tp_mul(tp_tanh(leaves[0]), leaves[1]), leaves[2]);
    in2[0] = leaf(sum);
    in2[1] = leaf(w);
    small(in2, &b);
    tp_tensor *ends[3] = {leaf(b), leaf(a), leaf(w)};
    *y = tp_mul(tp_add(ends[0], ends[1]), ends[2]);
    if (!dy)
        return;
    tp_grads(*y, dy, 3, ends, d4);
    tp_grads(b, d4[0], 2, in2, d2);
    tp_grads(sum, d2[0], 3, leaves, d3);
    tp_grads(a, tp_add(d4[1], d3[0]), 2, in1, d1);
    *dw = tp_add(tp_add(tp_add(d4[2], d2[1]), d3[1]), d1[1]);
    *dx = tp_add(d3[2], d1[0]);
}

static void test_nested(void **state)
{
    tp_ctx *tp = *state;
    tp_seed(tp, 3);
    tp_tensor *x = tp_require_grad(draw(tp, TP_F32)), *w = tp_param(draw(tp, TP_F32), "w");
    tp_tensor *y, *z, *dx[2] = {0}, *dw[2] = {0}, *last[3];
    nested_by_hand(x, w, NULL, &y, NULL, NULL);
    nested_by_hand(y, w, NULL, &z, NULL, NULL);
    tp_tensor *end[3] = {leaf(z), leaf(y), leaf(w)};
    tp_grads(tp_sum(tp_mul(tp_add(end[0], end[1]), end[2]), TP_ALL, false), NULL, 3, end, last);
    nested_by_hand(y, w, last[0], &z, &dx[1], &dw[1]);
    nested_by_hand(x, w, tp_add(last[1], dx[1]), &y, &dx[0], &dw[0]);
    tp_tensor *want = tp_add(tp_add(last[2], dw[1]), dw[0]);
    tp_tensor *in[2] = {x, w}, *got[2];
    tp_grads(nested_loss(x, w), NULL, 2, in, got);
    expect_same(tp, dx[0], got[0], "dx");
    expect_same(tp, want, got[1], "dw");
    assert_int_equal(tp_backward(nested_loss(x, w)), TP_OK);
    expect_same(tp, want, tp_grad_of(w), "tp_grad_of w");
    same_in_graph(tp, nested_loss);
}

/* ---- products inside calls and outside: one right matrix, one product ------------------------- */

enum { STEPS = 3 };

static void cell(tp_tensor *const *in, tp_tensor **out)
{
    out[0] = tp_tanh(tp_add(tp_matmul(in[0], in[1]), in[0]));
}

/* A cell for each step, of which the second is called by another call, and a product outside. */
static void two_cells(tp_tensor *const *in, tp_tensor **out)
{
    call(cell, 2, in, 1, out);
    call(cell, 2, (tp_tensor *[]){out[0], in[1]}, 1, out);
}

static tp_tensor *cells_loss(tp_tensor *x, tp_tensor *w)
{
    tp_tensor *h;
    call(cell, 2, (tp_tensor *[]){x, w}, 1, &h);
    call(two_cells, 2, (tp_tensor *[]){h, w}, 1, &h);
    tp_tensor *y = tp_matmul(h, w);
    return tp_add(tp_sum(tp_mul(y, tp_sin(y)), TP_ALL, false),
                  tp_sum(tp_square(w), TP_ALL, false));
}

static tp_tensor *from(tp_tensor *y, tp_tensor *dy, tp_tensor *x)
{
    tp_tensor *dx;
    tp_grads(y, dy, 1, &x, &dx);
    return dx;
}

/* All left matrices and all gradients of the products, the newest first, and one product of them. */
static tp_tensor *cells_by_hand(tp_tensor *x, tp_tensor *w)
{
    tp_tensor *h[STEPS + 1] = {leaf(x)}, *next, *rows[STEPS + 1], *dy[STEPS + 1];
    for (int i = 0; i < STEPS; i++) {
        cell((tp_tensor *[]){h[i], tp_detach(w)}, &next);
        h[i + 1] = leaf(next);
    }
    tp_tensor *y = leaf(tp_matmul(h[STEPS], w));
    dy[0] = tp_grad(tp_sum(tp_mul(y, tp_sin(y)), TP_ALL, false), y);
    tp_tensor *dh = tp_matmul(dy[0], tp_swap(w, 0, 1));
    for (int i = 0; i < STEPS; i++) {
        tp_tensor *in = h[STEPS - 1 - i], *z = leaf(tp_matmul(in, w));
        rows[i] = h[STEPS - i];
        dy[i + 1] = from(tp_tanh(tp_add(z, in)), dh, z);
        dh = tp_add(dy[i + 1], tp_matmul(dy[i + 1], tp_swap(w, 0, 1)));
    }
    rows[STEPS] = h[0];
    tp_tensor *joined =
        tp_matmul(tp_swap(tp_concat(STEPS + 1, rows, 0), 0, 1), tp_concat(STEPS + 1, dy, 0));
    return tp_add(tp_mul(w, tp_scalar_like(w, 2)), joined);
}

static void test_joined(void **state)
{
    tp_ctx *tp = *state;
    tp_seed(tp, 3);
    tp_tensor *x = tp_require_grad(draw(tp, TP_F32)), *w = tp_param(draw(tp, TP_F32), "w");
    tp_tensor *want = cells_by_hand(x, w);
    expect_same(tp, want, tp_grad(cells_loss(x, w), w), "dw");
    assert_int_equal(tp_backward(cells_loss(x, w)), TP_OK);
    expect_same(tp, want, tp_grad_of(w), "tp_grad_of w");
    same_in_graph(tp, cells_loss);
}

/* ---- quotients of differences ------------------------------------------------------------------ */

static tp_tensor *as_checked(void *user, int n, tp_tensor *const *in)
{
    (void)n;
    return ((tp_tensor * (*)(tp_tensor * x, tp_tensor * w)) user)(in[0], in[1]);
}

static tp_tensor *slope(tp_tensor *(*loss)(tp_tensor *x, tp_tensor *w), tp_tensor *x,
                        tp_tensor *w)
{
    if (!tp_requires_grad(x))
        tp_require_grad(x);
    if (!tp_requires_grad(w))
        tp_require_grad(w);
    const bool was = tp_recording(tp_ctx_of(x), true);
    tp_tensor *y = steep(loss, x, w);
    tp_recording(tp_ctx_of(x), was);
    return y;
}

static tp_tensor *slope_of_loss(tp_tensor *x, tp_tensor *w)
{
    return slope(loss_of, x, w);
}

static tp_tensor *slope_of_nested(tp_tensor *x, tp_tensor *w)
{
    return slope(nested_loss, x, w);
}

static tp_tensor *slope_of_cells(tp_tensor *x, tp_tensor *w)
{
    return slope(cells_loss, x, w);
}

static void test_quotients(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *(*const fs[])(tp_tensor *, tp_tensor *) = {
        loss_of, nested_loss, slope_of_loss, slope_of_nested, cells_loss, slope_of_cells};
    for (int i = 0; i < 6; i++) {
        tp_seed(tp, 3);
        tp_tensor *in[2] = {tp_uniform(tp, TP_F64, TP_DIMS(3, 3), -1, 1),
                            tp_uniform(tp, TP_F64, TP_DIMS(3, 3), -1, 1)};
        double error = 1;
        assert_int_equal(tp_grad_check(as_checked, (void *)fs[i], 2, in, &error), TP_OK);
        if (!(error < (i < 2 || i == 4 ? 1e-7 : 1e-4)))
            fail_msg("function %d: error %g %s (seed 3)", i, error, tp_error_message(tp));
    }
}

/* ---- results ------------------------------------------------------------------------------------ */

static void test_results(void **state)
{
    tp_ctx *tp = *state;
    tp_seed(tp, 3);
    tp_tensor *x = tp_require_grad(draw(tp, TP_F32)), *c = draw(tp, TP_F32);
    tp_tensor *past = tp_sin(x); /* recorded, an operand, and returned */
    tp_tensor *h = tp_mul(past, x), *whole = tp_cast(h, TP_I32);
    tp_tensor *operands[4] = {x, past, x, c};
    tp_tensor *inner[8] = {h, x, c, whole, h, past, tp_neg(h), NULL}, *out[8];
    const tpi_at at = TPI_AT(__FILE__, 7);
    assert_true(tpi_call_tie(tp, at, FUNCTION, 4, operands, 8, inner, out));
    assert_true(out[0] != h && out[0]->op == &tpi_op_result && out[0]->buf == h->buf);
    assert_true(out[6] != inner[6] && out[6]->in[1] == out[0]->in[1]);
    assert_ptr_equal(out[4], out[0]);
    tp_tensor *both[3] = {h, x, h}; /* one array for both */
    assert_true(tpi_call_tie(tp, at, FUNCTION, 4, operands, 3, both, both));
    assert_true(both[0] == both[2] && both[0]->in[0] == h && both[1] == x);
    assert_ptr_equal(out[1], x);
    assert_ptr_equal(out[2], c);
    assert_ptr_equal(out[3], whole);
    assert_ptr_equal(out[5], past);
    assert_null(out[7]);
    const tp_tensor *node = out[0]->in[1];
    assert_true(node->op == &tpi_op_call && node->n_in == 4 && node->line == 7);
    assert_int_equal(((const tpi_call_attrs *)node->attrs)->function, FUNCTION);

    /* out[6] is not used; x is an operand twice: it gets its contribution once */
    tp_tensor *lx = leaf(x), *lp = leaf(past), *d[2];
    tp_tensor *ones = tp_full(tp, TP_F32, TP_DIMS(N, N), 1);
    tp_grads(tp_mul(lp, lx), ones, 2, (tp_tensor *[]){lx, lp}, d);
    tp_tensor *want = tp_add(d[0], tp_mul(d[1], tp_cos(x)));
    expect_same(tp, want, tp_grad(tp_sum(out[0], TP_ALL, false), x), "dx");
    expect_same(tp, d[1], tp_grad(tp_sum(out[0], TP_ALL, false), past), "d past");
    /* of a result itself, and of what is not on the way */
    expect_same(tp, ones, tp_grad(tp_sum(out[0], TP_ALL, false), out[0]), "d result");
    tp_tensor *zero = tp_grad(tp_sum(tp_mul(x, x), TP_ALL, false), out[0]);
    expect_same(tp, tp_full(tp, TP_F32, TP_DIMS(N, N), 0), zero, "d of another");

    const bool was = tp_recording(tp, false);
    assert_true(tpi_call_tie(tp, at, FUNCTION, 4, operands, 8, inner, out));
    tp_recording(tp, was);
    assert_ptr_equal(out[0], h);
    assert_true(tpi_call_tie(tp, at, FUNCTION, 1, &c, 1, inner, out));
    assert_ptr_equal(out[0], h);
}

/* A failed operand or value does not spread further than it did. */
static void test_failed(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_require_grad(draw(tp, TP_F32));
    tp_tensor *inner[2] = {tp_sin(x), tp_fail(tp, TP_E_VALUE, "no")}, *out[2];
    EXPECT_ERROR(tp, TP_E_VALUE, "no");
    assert_true(tpi_call_tie(tp, TPI_AT(NULL, 0), 1, 1, &x, 2, inner, out));
    assert_true(!tp_failed(out[0]) && out[1] == inner[1]);
    assert_int_equal(tp_error(tp), TP_OK);
}

static void test_refused(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *v = tp_variable(draw(tp, TP_F32), "v");
    tp_tensor *x = tp_require_grad(draw(tp, TP_F32));
    tp_tensor *in[2] = {x, v}, *r;
    call(small, 2, in, 1, &r);
    tp_tensor *y = tp_sum(r, TP_ALL, false);
    tp_tensor *deep = r->in[0]->in[0]; /* within the call */
    assert_true(tp_failed(tp_grad(y, deep)));
    EXPECT_ERROR(tp, TP_E_STATE,
                 "x 0 was computed inside a call, which is one node to "
                 "gradients: let the function return it");
    tp_assign(v, tp_full(tp, TP_F32, TP_DIMS(N, N), 2));
    assert_int_equal(tp_backward(y), TP_E_STATE);
    EXPECT_ERROR(tp, TP_E_STATE,
                 "operand 1 v was assigned after it was used here: take the gradient before "
                 "the assignment");
    /* the sweep that failed has left everything usable */
    call(small, 2, in, 1, &r);
    assert_int_equal(tp_backward(tp_sum(r, TP_ALL, false)), TP_OK);
}

/* ---- hooks ---------------------------------------------------------------------------------------- */

static char trace[200];

static void put(char *text, char c)
{
    const size_t n = strlen(text);
    assert_true(n + 1 < sizeof trace);
    text[n] = c;
    text[n + 1] = 0;
}

static void *begin(tp_ctx *ctx, const tp_tensor *node, tpi_at at)
{
    (void)ctx;
    assert_true(node->op == &tpi_op_call && at.line > 0);
    put(trace, '(');
    return trace;
}

static void end(tp_ctx *ctx, void *begun)
{
    (void)ctx;
    assert_ptr_equal(begun, trace);
    put(trace, ')');
}

static void test_hooks(void **state)
{
    tp_ctx *tp = *state;
    static const tpi_call_hooks hooks = {begin, end};
    tp_seed(tp, 3);
    tp_tensor *x = tp_require_grad(draw(tp, TP_F32)), *w = tp_param(draw(tp, TP_F32), "w");
    tp->call_hooks = &hooks;
    trace[0] = 0;
    tp_tensor *y = nested_loss(x, w);
    assert_string_equal(trace, "");
    assert_int_equal(tp_backward(y), TP_OK);
    assert_string_equal(trace, "(()())(()())");
    trace[0] = 0;
    y = nested_loss(x, w);
    tp_assign(w, draw(tp, TP_F32));
    assert_int_equal(tp_backward(y), TP_E_STATE);
    assert_string_equal(trace, "");
    tp_clear_error(tp);
    tp_tensor *v = tp_variable(draw(tp, TP_F32), "v"), *in[2] = {x, v}, *r;
    call(nested, 2, in, 1, &r);
    tp_assign(v, x);
    assert_int_equal(tp_backward(tp_sum(r, TP_ALL, false)), TP_E_STATE);
    assert_string_equal(trace, "()");
    tp_clear_error(tp);
    tp->call_hooks = NULL;
}

/* ---- lifted and written ---------------------------------------------------------------------------- */

/* Recorded calls that meet a symbolic tensor: all of their past comes along. */
static void test_lifted(void **state)
{
    tp_ctx *tp = *state;
    tp_seed(tp, 3);
    tp_tensor *x = tp_require_grad(draw(tp, TP_F32)), *w = tp_param(draw(tp, TP_F32), "w");
    tp_tensor *r, *in[2] = {x, w}, *want[2], *d[2];
    call(nested, 2, in, 1, &r);
    tp_tensor *s = draw(tp, TP_F32);
    tp_grads(tp_sum(tp_mul(tp_mul(r, r), s), TP_ALL, false), NULL, 2, in, want);
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *p = tp_placeholder(g, "s", TP_F32, TP_DIMS(N, N));
    tp_grads(tp_sum(tp_mul(tp_mul(r, r), p), TP_ALL, false), NULL, 2, in, d);
    tp_name(d[0], "dx");
    tp_name(d[1], "dw");
    assert_int_equal(tp_graph_verify(g), TP_OK);
    int calls = 0, results = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        calls += g->nodes[i]->op == &tpi_op_call;
        results += g->nodes[i]->op == &tpi_op_result;
    }
    assert_int_equal(calls, 3);
    assert_int_equal(results, 3);
    tp_tensor *out[2];
    const tp_feed feed = {"s", s};
    assert_int_equal(tp_graph_run(g, 1, &feed, TP_NAMES("dx", "dw"), out), TP_OK);
    expect_same(tp, want[0], out[0], "dx");
    expect_same(tp, want[1], out[1], "dw");
}

/* A node that stands for a concrete tensor has its place in program order: what is older than a
 * call is so in graphs too, and the order of contributions is that of the eager program. */
static void test_lifted_order(void **state)
{
    tp_ctx *tp = *state;
    tp_seed(tp, 3);
    tp_tensor *w = tp_param(draw(tp, TP_F32), "w"), *s = draw(tp, TP_F32);
    tp_tensor *turned = tp_transpose(w, TP_DIMS(1, 0)), *exp = tp_exp(w), *want, *d, *out;
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *p = tp_placeholder(g, "s", TP_F32, TP_DIMS(N, N)), *xs[2] = {s, p}, *dw[2];
    for (int i = 0; i < 2;
         i++) { /* three contributions to w, the oldest met last in the graph */
        tp_tensor *y = tp_mul(xs[i], tp_sin(w));
        y = tp_add(tp_mul(y, exp), turned);
        dw[i] = tp_grad(tp_sum(tp_mul(y, y), TP_ALL, false), w);
    }
    const uint64_t entry = tp->caller.seq;
    tp_tensor *late = tp_placeholder(g, "late", TP_F32, TP_DIMS(N, N)); /* met by none before */
    tp_tensor *v = tp_neg(tp_add(late, tp_tanh(w)));
    assert_true(v->seq > entry && v->in[0]->in[1]->seq > entry);
    assert_true(v->in[0]->in[1]->in[0]->op == &tpi_op_variable);
    assert_true(v->in[0]->in[1]->in[0]->seq < entry);
    want = dw[0];
    d = tp_name(dw[1], "dw");
    assert_false(tp_failed(d));
    const tp_feed feed = {"s", s};
    assert_int_equal(tp_graph_run(g, 1, &feed, TP_NAMES("dw"), &out), TP_OK);
    expect_same(tp, want, out, "dw");
}

static void test_tape_text(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_require_grad(tp_full(tp, TP_F32, TP_DIMS(2), 1));
    tp_tensor *inner = tp_sin(x), *r;
    assert_true(tpi_call_tie(tp, TPI_AT("a.c", 3), 9, 1, &x, 1, &inner, &r));
    char *text = tp_tape_text(r), *dot = tp_tape_dot(r);
    assert_non_null(strstr(text, "%1 = sin %0 : f32[2]"));
    assert_non_null(strstr(text, "%2 = call %0 {function=9} : bool[] ; a.c:3\n"
                                 "%3 = result %1, %2 : f32[2] ; a.c:3\n"));
    assert_non_null(strstr(dot, "n2 -> n3 [style=dashed"));
    assert_non_null(strstr(dot, "n1 -> n3 [label"));
    tp_free(tp, text);
    tp_free(tp, dot);
}

/* A program reads the values alone: what only the call names is not needed, nor is its token. */
static void test_program(void **state)
{
    tp_ctx *tp = *state;
    static const char text[] = "tapir 1\n"
                               "%0 \"x\" = placeholder : f32[2]\n"
                               "%1 \"unused\" = placeholder : f32[2]\n"
                               "%2 = neg %0 : f32[2]\n"
                               "%3 \"token\" = call %0, %1 {function=1} : bool[]\n"
                               "%4 \"y\" = result %2, %3 : f32[2]\n"
                               "%5 = call %4 {function=2} : bool[]\n"
                               "%6 \"z\" = result %4, %5 : f32[2]\n";
    tp_graph *g = tp_graph_parse(tp, text, strlen(text));
    assert_non_null(g);
    const tp_feed feed = {"x", tp_tensor_new(tp, TP_F32, TP_DIMS(2), (const float[]){3, -4})};
    const tp_feed in_call = {"y", feed.value};
    tp_tensor *out[2];
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_C};
    for (int e = 0; e < 2; e++) {
        const tp_compile_options options = {.engine = engines[e]};
        tp_program *p = tp_graph_compile(g, TP_NAMES("x"), TP_NAMES("y", "z"), &options);
        assert_int_equal(tp_program_run(p, &feed.value, out), TP_OK);
        for (int i = 0; i < 2; i++)
            assert_true(((const float *)tp_data(out[i]))[0] == -3 &&
                        ((const float *)tp_data(out[i]))[1] == 4);
        p = tp_graph_compile(g, TP_NAMES("x", "unused"), TP_NAMES("token"), &options);
        assert_int_equal(tp_program_run(p, (tp_tensor *[]){feed.value, feed.value}, out),
                         TP_OK);
        assert_true(tp_truth(out[0]));
    }
    assert_int_equal(tp_graph_run(g, 1, &in_call, TP_NAMES("z"), out), TP_OK);
    assert_true(((const float *)tp_data(out[0]))[0] == 3);
    static const char bad[] = "tapir 1\n"
                              "%0 \"x\" = placeholder : f32[2]\n"
                              "%1 = const true : bool[]\n"
                              "%2 = result %0, %1 : f32[2]\n";
    assert_null(tp_graph_parse(tp, bad, strlen(bad)));
    assert_non_null(strstr(tp_error_message(tp), "operand 1 is no call"));
    tp_clear_error(tp);
}

/* Text may nest calls deeper than the C stack. */
static void test_depth(void **state)
{
    tp_ctx *tp = *state;
    enum { DEEP = 1200, LINE = 80 };
    for (int deep = 900; deep <= DEEP; deep += 300) {
        char *text = tp_alloc(tp, (DEEP + 2) * 2 * LINE);
        int n = sprintf(text, "tapir 1\n%%0 \"x\" = placeholder : f32[2]\n%%1 \"p\" = "
                              "placeholder : f32[2]\n");
        for (int i = 0; i < deep; i++) { /* each call is inside the next */
            n += sprintf(text + n, "%%%d = call %%0 {function=1} : bool[]\n", 2 * i + 2);
            n += sprintf(text + n, "%%%d%s = result %%%d, %%%d : f32[2]\n", 2 * i + 3,
                         i == deep - 1 ? " \"y\"" : "", i ? 2 * i + 1 : 0, 2 * i + 2);
        }
        tp_graph *g = tp_graph_parse(tp, text, (size_t)n);
        assert_non_null(g);
        tp_tensor *x = tp_graph_find(g, "x");
        tp_tensor *d = tp_grad(tp_sum(tp_graph_find(g, "y"), TP_ALL, false), x);
        assert_int_equal(tp_failed(d), deep == DEEP);
        if (deep == DEEP) {
            assert_int_equal(tp_status_of(d), TP_E_LIMIT);
            assert_non_null(
                strstr(tp_error_message(tp), "calls are nested more than 1000 deep"));
        }
        tp_clear_error(tp);
        tp_free(tp, text);
        tp_graph_free(g);
    }
}

/* Each level's two calls are both around the level below. */
static void test_doubling(void **state)
{
    tp_ctx *tp = *state;
    enum { LEVELS = 40, LINE = 80 };
    char *text = tp_alloc(tp, (6 * LEVELS + 2) * LINE);
    int n = sprintf(text, "tapir 1\n%%0 \"x\" = placeholder : f32[2]\n"), at = 0;
    for (int i = 0; i < LEVELS; i++, at += 5) {
        n += sprintf(text + n, "%%%d = call %%0 {function=1} : bool[]\n", at + 1);
        n += sprintf(text + n, "%%%d = result %%%d, %%%d : f32[2]\n", at + 2, at, at + 1);
        n += sprintf(text + n, "%%%d = call %%0 {function=2} : bool[]\n", at + 3);
        n += sprintf(text + n, "%%%d = result %%%d, %%%d : f32[2]\n", at + 4, at, at + 3);
        n += sprintf(text + n, "%%%d%s = add %%%d, %%%d : f32[2]\n", at + 5,
                     i == LEVELS - 1 ? " \"y\"" : "", at + 2, at + 4);
    }
    tp_graph *g = tp_graph_parse(tp, text, (size_t)n);
    assert_non_null(g);
    assert_true(tp_failed(tp_grad(tp_graph_find(g, "y"), tp_graph_find(g, "x"))));
    EXPECT_ERROR(tp, TP_E_LIMIT, "calls share what is inside them");
    tp_free(tp, text);
}

/* ---- captured functions ------------------------------------------------------------------------------ */

typedef struct world {
    tp_function *small, *nested;
    tp_tensor *w;
} world;

static void small_body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    small(in, out);
}

/* The same as `nested`, of a parameter that is no argument. */
static void nested_body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const world *o = user;
    (void)n_in, (void)n_out;
    tp_tensor *x = in[0], *w = o->w;
    tp_tensor *a = tp_function_apply(o->small, TP_TENSORS(x, w));
    tp_tensor *t = tp_mul(tp_tanh(a), w);
    tp_tensor *b = tp_function_apply(o->small, TP_TENSORS(tp_add(t, x), w));
    out[0] = tp_mul(tp_add(b, a), w);
}

static tp_tensor *function_loss(world *o, tp_tensor *x)
{
    tp_tensor *y = tp_function_apply(o->nested, 1, &x);
    tp_tensor *z = tp_function_apply(o->nested, 1, &y);
    return tp_sum(tp_mul(tp_add(z, y), o->w), TP_ALL, false);
}

static void test_functions(void **state)
{
    tp_ctx *tp = *state;
    tp_seed(tp, 3);
    tp_tensor *x = tp_require_grad(draw(tp, TP_F32));
    world o = {.w = tp_param(draw(tp, TP_F32), "w")};
    tp_tensor *in[2] = {x, o.w}, *want[2], *want_second[2];
    tp_grads(nested_loss(x, o.w), NULL, 2, in, want);
    tp_grads(steep(nested_loss, x, o.w), NULL, 2, in, want_second);
    static const struct {
        const char *name;
        tp_function_options options;
    } modes[] = {
        {"eager",     {.eager = true}                },
        {"reference", {.engine = TP_ENGINE_REFERENCE}},
        {"auto",      {.engine = TP_ENGINE_AUTO}     },
    };
    for (int m = 0; m < 3; m++) {
        char what[40];
        o.small = tp_function_new(tp, "small", small_body, NULL, &modes[m].options);
        o.nested = tp_function_new(tp, "nested", nested_body, &o, &modes[m].options);
        for (int i = 0; i < 4; i++) { /* recorded, then matched */
            snprintf(what, sizeof what, "%s, call %d", modes[m].name, i);
            tp_zero_grad(x);
            tp_zero_grad(o.w);
            assert_int_equal(tp_backward(function_loss(&o, x)), TP_OK);
            expect_same(tp, want[0], tp_grad_of(x), what);
            expect_same(tp, want[1], tp_grad_of(o.w), what);
            tp_tensor *dx[2], *second[2];
            tp_grads(function_loss(&o, x), NULL, 2, in, dx);
            tp_tensor *y = tp_add(tp_sum(tp_square(dx[0]), TP_ALL, false),
                                  tp_sum(tp_square(dx[1]), TP_ALL, false));
            tp_grads(y, NULL, 2, in, second);
            expect_same(tp, want_second[0], second[0], what);
            expect_same(tp, want_second[1], second[1], what);
        }
        tp_graph *g = tp_graph_new(tp); /* w is met inside first */
        tp_tensor *p = tp_placeholder(g, "x", TP_F32, TP_DIMS(N, N)), *out[2];
        tp_tensor *sin[2] = {p, o.w}, *d[2];
        tp_grads(function_loss(&o, p), NULL, 2, sin, d);
        tp_name(d[0], "dx");
        tp_name(d[1], "dw");
        const tp_feed feed = {"x", x};
        assert_int_equal(tp_graph_run(g, 1, &feed, TP_NAMES("dx", "dw"), out), TP_OK);
        snprintf(what, sizeof what, "%s, symbolic", modes[m].name);
        expect_same(tp, want[0], out[0], what);
        expect_same(tp, want[1], out[1], what);
        tp_function_free(o.nested);
        tp_function_free(o.small);
    }
}

/* ---- memory ---------------------------------------------------------------------------------------- */

/* Fails one allocation after the other, forward and backward. */
static void test_memory(void **state)
{
    tp_ctx *tp = *state;
    unit_memory *m = tp->mem.user.user;
    tp_seed(tp, 3);
    tp_tensor *x = tp_require_grad(draw(tp, TP_F32)), *w = tp_param(draw(tp, TP_F32), "w");
    bool done = false;
    for (long at = 1; !done && at < 5000; at++) {
        tp_scope_begin(tp);
        tp_tensor *inner[2], *out[2], *in[2] = {x, w};
        two_values(in, inner);
        tp_tensor *y = tp_add(nested_loss(x, w), cells_loss(x, w));
        assert_int_equal(tp_error(tp), TP_OK);
        m->fail_at = m->calls + at;
        bool ok = tpi_call_tie(tp, TPI_AT(NULL, 0), FUNCTION, 2, in, 2, inner, out);
        assert_int_equal(ok, !tp_failed(out[0]) && !tp_failed(out[1]));
        y = tp_add(y, after(out, x, w));
        const tp_status status = tp_backward(y);
        done = m->calls < m->fail_at;
        m->fail_at = 0;
        assert_int_equal(status, done ? TP_OK : TP_E_MEMORY);
        tp_clear_error(tp);
        tp_zero_grad(x);
        tp_zero_grad(w);
        tp_scope_end(tp);
    }
    assert_true(done);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(test_order),     CASE(test_graph),   CASE(test_nested),       CASE(test_joined),
        CASE(test_quotients), CASE(test_results), CASE(test_failed),       CASE(test_refused),
        CASE(test_hooks),     CASE(test_lifted),  CASE(test_lifted_order), CASE(test_tape_text),
        CASE(test_program),   CASE(test_depth),   CASE(test_doubling),     CASE(test_functions),
        CASE(test_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
