/* Scopes, tapes of a million nodes, and what gradients mean. */
#include "common/unit.h"
#include "tapir/tapir.h"

static tp_tensor *number(tp_ctx *tp, double v)
{
    return tp_scalar(tp, TP_F64, v);
}

/* ---- scopes ------------------------------------------------------------------------------ */

static void deep(void **state)
{
    tp_ctx *tp = *state;
    const size_t before = tp_memory_bytes(tp);
    tp_tensor *kept = NULL;
    for (int i = 0; i < 100; i++) {
        tp_scope_begin(tp);
        number(tp, i);
        if (i == 99)
            kept = number(tp, 42);
    }
    for (int i = 0; i < 100; i++) {
        tp_keep(kept); /* one level at a time */
        assert_int_equal(tp_scope_end(tp), TP_OK);
        assert_true(tp_item(kept) == 42);
    }
    assert_int_equal(tp_scope_end(tp), TP_E_STATE);
    tp_clear_error(tp);
    assert_true(tp_memory_bytes(tp) > before);
}

/* An allocator that counts what it has given. */
static void *count_alloc(void *user, size_t size)
{
    *(size_t *)user += size;
    return aligned_alloc(64, (size + 63) / 64 * 64);
}

static void count_release(void *user, void *p, size_t size)
{
    *(size_t *)user -= size;
    free(p);
}

static void trimmed(void **state)
{
    (void)state;
    enum { BYTES = 8 << 20 };
    size_t given = 0;
    tp_ctx *tp = tp_open(&(tp_options){
        .allocator = &(tp_allocator){count_alloc, count_release, &given}
    });
    assert_non_null(tp);
    tp_scope_begin(tp);
    tp_full(tp, TP_F32, TP_DIMS(BYTES / 4), 1);
    assert_in_range(given, BYTES, 2 * BYTES);
    tp_scope_end(tp);
    tp_trim(tp);
    assert_in_range(given, 0, BYTES / 8);
    tp_close(tp);
    assert_int_equal(given, 0);
}

static void odd_orders(void **state)
{
    tp_ctx *tp = *state;
    tp_scope_begin(tp);
    tp_tensor *a = number(tp, 1);
    tp_scope_begin(tp);
    tp_tensor *b = number(tp, 2), *c = tp_add(a, b);
    tp_keep(a); /* older than the open scope: nothing */
    tp_retain(b);
    tp_retain(b);
    tp_keep(b);
    tp_release(b);
    tp_keep(c);
    tp_keep(c); /* kept already */
    tp_retain(c);
    tp_scope_end(tp);
    assert_true(tp_item(a) == 1 && tp_item(b) == 2 && tp_item(c) == 3);
    tp_scope_end(tp);
    assert_true(tp_item(b) == 2 && tp_item(c) == 3); /* still retained */
    tp_release(c);
    tp_release(b);
    /* many, kept from the middle, in random order */
    uint64_t seed = 5;
    tp_tensor *kept[300];
    int n = 0;
    tp_scope_begin(tp);
    tp_scope_begin(tp);
    for (int i = 0; i < 900; i++) {
        tp_tensor *t = number(tp, i);
        if (unit_random(&seed) % 3 == 0 && n < 300)
            kept[n++] = tp_keep(t);
    }
    tp_scope_end(tp);
    for (int i = 1; i < n; i++)
        assert_true(tp_item(kept[i]) > tp_item(kept[i - 1]));
    tp_scope_end(tp);
    /* scopes open at the close, with an error inside */
    tp_scope_begin(tp);
    tp_scope_begin(tp);
    tp_retain(tp_add(number(tp, 1), tp_full(tp, TP_I32, TP_DIMS(3), 2)));
    tp_tensor *bad = tp_matmul(number(tp, 1), number(tp, 2));
    assert_true(tp_failed(bad));
    tp_keep(bad);
    tp_scope_end(tp);
    assert_true(tp_failed(bad) && *tp_error_text(bad));
    tp_clear_error(tp);
}

/* ---- a long tape ------------------------------------------------------------------------- */

static void long_tape(tp_ctx *tp, int n)
{
    tp_scope_begin(tp);
    tp_tensor *x = tp_require_grad(number(tp, 0)), *one = number(tp, 1), *y = x;
    for (int i = 0; i < n; i++) {
        tp_scope_begin(tp);
        y = tp_keep(tp_add(y, one));
        tp_scope_end(tp);
    }
    assert_true(tp_item(y) == n);
    assert_int_equal(tp_backward(y), TP_OK);
    assert_true(tp_item(tp_grad_of(x)) == 1);
    tp_tensor *again = tp_grad(tp_mul(y, y), x);
    assert_true(tp_item(again) == 2.0 * n);
    tp_scope_end(tp); /* a chain dies without recursion */
}

static void million(void **state)
{
    tp_ctx *tp = *state;
#if defined TPI_STRESS || defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    const int n = 30000;
#else
    const int n = 1000000;
#endif
    long_tape(tp, n);
    const size_t after = tp_memory_bytes(tp); /* the list of a scope's tensors stays as long */
    long_tape(tp, n);
#ifdef TPI_STRESS
    (void)after;
#else
    assert_int_equal(tp_memory_bytes(tp), after);
#endif
}

/* ---- what gradients mean ----------------------------------------------------------------- */

static void adds_up(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_param(number(tp, 3), "x");
    assert_true(tp_item(tp_grad_of(x)) == 0); /* nothing was added yet */
    for (int i = 1; i <= 3; i++) {
        assert_int_equal(tp_backward(tp_mul(x, x)), TP_OK);
        assert_true(tp_item(tp_grad_of(x)) == 6.0 * i);
    }
    tp_tensor *y = tp_mul(x, x);
    tp_backward(y); /* the same tape twice */
    tp_backward(y);
    assert_true(tp_item(tp_grad_of(x)) == 30);
    tp_zero_grad(x);
    assert_true(tp_item(tp_grad_of(x)) == 0);
    /* used many ways at once */
    tp_tensor *z = tp_add(tp_mul(x, x), tp_sub(tp_mul(x, number(tp, 5)), x));
    tp_backward(z);
    assert_true(tp_item(tp_grad_of(x)) == 10);
}

/* What tp_grad_of gave stays what it was until its scope ends. */
static void sums_so_far(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_param(number(tp, 3), "x");
    tp_tensor *none = tp_grad_of(x);
    tp_backward(tp_mul(x, x));
    tp_scope_begin(tp);
    tp_tensor *one = tp_grad_of(x);
    tp_backward(tp_mul(x, x));
    tp_tensor *two = tp_grad_of(x);
    tp_zero_grad(x);
    tp_tensor *again = tp_grad_of(x);
    for (int i = 0; i < 5000; i++) {
        tp_scope_begin(tp);
        tp_neg(two);
        tp_scope_end(tp);
    }
    assert_true(tp_item(none) == 0 && tp_item(one) == 6 && tp_item(two) == 12);
    assert_true(tp_item(again) == 0);
    tp_scope_end(tp);
    assert_true(tp_failed(one) && tp_failed(two));
    assert_true(tp_grad_of(x) == again && tp_item(again) == 0);
}

/* A concrete y depends on no node: zeros of its sizes, in its graph. */
static void of_concrete(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *w = tp_param(number(tp, 3), "w"), *y = tp_mul(w, w);
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F64, TP_DIMS(tp_symbol(g, "n"))), *dx[2];
    assert_int_equal(tp_grads(y, NULL, 2, (tp_tensor *[]){x, w}, dx), TP_OK);
    assert_true(tp_item(dx[1]) == 6);
    tp_tensor *sum = x;
    tp_for (2, &sum) {
        sum = tp_add(sum, tp_grad(number(tp, 1), sum));
    }
    tp_tensor *out[2];
    tp_name(dx[0], "dx");
    tp_name(sum, "sum");
    const double five[] = {1, 2, 3, 4, 5};
    const tp_feed feed = {"x", tp_tensor_new(tp, TP_F64, TP_DIMS(5), five)};
    assert_int_equal(tp_graph_run(g, 1, &feed, TP_NAMES("dx", "sum"), out), TP_OK);
    double got[2][5], zeros[5] = {0};
    tp_read(out[0], got[0], sizeof zeros);
    tp_read(out[1], got[1], sizeof zeros);
    assert_memory_equal(got[0], zeros, sizeof zeros);
    assert_memory_equal(got[1], five, sizeof five);
}

static void constants(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_param(number(tp, 3), "x");
    assert_true(tp_item(tp_grad(tp_mul(x, tp_detach(x)), x)) == 3);
    const bool was = tp_recording(tp, false);
    tp_tensor *off = tp_mul(x, x);
    tp_recording(tp, was);
    assert_false(tp_requires_grad(off));
    assert_int_equal(tp_backward(off), TP_E_STATE);
    tp_clear_error(tp);
    assert_true(tp_item(tp_grad(tp_mul(off, x), x)) == 9);
    /* none through integers */
    tp_tensor *whole = tp_cast(tp_cast(x, TP_I32), TP_F64);
    assert_false(tp_requires_grad(whole));
    assert_true(tp_item(tp_grad(tp_mul(whole, x), x)) == 3);
}

/* x^5, differentiated five times. */
static void of_gradients(void **state)
{
    tp_ctx *tp = *state;
    static const double want[] = {80, 160, 240, 240, 120};
    tp_tensor *x = tp_require_grad(number(tp, 2));
    tp_tensor *y = tp_mul(tp_mul(tp_mul(tp_mul(x, x), x), x), x);
    for (int i = 0; i < 5; i++) {
        y = tp_grad(y, x);
        if (tp_item(y) != want[i])
            fail_msg("derivative %d is %g, not %g", i + 1, tp_item(y), want[i]);
    }
}

static void assigned_since(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *w = tp_param(number(tp, 3), "weight"), *x = tp_require_grad(number(tp, 2));
    const int line = __LINE__ + 1;
    tp_tensor *y = tp_mul(w, x);
    tp_assign(w, number(tp, 4));
    assert_int_equal(tp_backward(y), TP_E_STATE);
    char place[60];
    snprintf(place, sizeof place, "scope.c:%d: mul: operand 0 weight was assigned", line);
    if (!strstr(tp_error_message(tp), place))
        fail_msg("\"%s\" does not say \"%s\"", tp_error_message(tp), place);
    tp_clear_error(tp);
    assert_true(tp_item(tp_grad_of(w)) == 0 && tp_item(tp_grad_of(x)) == 0);
    /* an op whose rule does not look at the operand goes on */
    y = tp_add(w, x);
    tp_assign(w, number(tp, 5));
    assert_int_equal(tp_backward(y), TP_OK);
    assert_true(tp_item(tp_grad_of(w)) == 1);
    /* through a view of the variable */
    tp_tensor *v = tp_param(tp_full(tp, TP_F64, TP_DIMS(2, 2), 1), "v");
    y = tp_mul(tp_select(v, 0, 1), tp_select(v, 0, 0));
    tp_assign(tp_select(v, 0, 1), tp_full(tp, TP_F64, TP_DIMS(2), 7));
    assert_int_equal(tp_backward(y), TP_E_STATE);
    tp_clear_error(tp);
}

/* Plain C decides: recursion by hand over a list, a loop until a value is reached. */
static tp_tensor *fold(tp_tensor *w, const double *v, int n)
{
    tp_ctx *tp = tp_ctx_of(w);
    return n == 0 ? number(tp, 1) : tp_add(number(tp, v[0]), tp_mul(w, fold(w, v + 1, n - 1)));
}

static void through_c(void **state)
{
    tp_ctx *tp = *state;
    /* 2 + w (3 + w (5 + w)): 3 + 10 w + 3 w^2 at w = 2 */
    tp_tensor *w = tp_require_grad(number(tp, 2));
    tp_tensor *y = fold(w, (const double[]){2, 3, 5}, 3);
    assert_true(tp_item(y) == 36 && tp_item(tp_grad(y, w)) == 35);
    int rounds = 0;
    for (y = w; tp_truth(tp_lt(y, number(tp, 1000))); rounds++)
        y = tp_mul(y, w);
    assert_int_equal(rounds, 9); /* 2^10 */
    assert_true(tp_item(tp_grad(y, w)) == 10 * 512.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(deep),         CASE(trimmed),        CASE(odd_orders),  CASE(million),
        CASE(adds_up),      CASE(sums_so_far),    CASE(of_concrete), CASE(constants),
        CASE(of_gradients), CASE(assigned_since), CASE(through_c),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
