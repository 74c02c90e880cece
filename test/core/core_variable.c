/* Variables, names, and writing to a variable through any view. */
#include "common/unit.h"
#include "core/variable.h"
#include "tapir/graph.h"

static tp_tensor *view(tp_tensor *of, int rank, const int64_t *shape, const int64_t *stride,
                       int64_t offset)
{
    tp_tensor *t = tpi_tensor(of->ctx, TPI_AT(NULL, 0), (tp_dtype)of->dtype, rank, shape);
    tpi_tensor_share(t, of, offset);
    memcpy(t->stride, stride, (size_t)rank * sizeof *stride);
    tpi_note_contiguous(t);
    return t;
}

static tp_tensor *assign(tp_tensor *var, tp_tensor *value)
{
    return tpi_assign_concrete(TPI_AT("user.c", 1), var, value);
}

static void state_of_its_own(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *init = tp_arange(tp, TP_F32, 3, 0, 1);
    char name[] = "w";
    tp_tensor *w = tp_variable(init, name);
    name[0] = 'x';
    assert_false(tp_failed(w));
    assert_string_equal(tp_name_of(w), "w");
    assert_null(tp_name_of(init));
    assert_ptr_not_equal(tp_data(w), tp_data(init));
    assert_int_equal(w->flags & (TPI_VARIABLE | TPI_REQUIRES | TPI_LEAF), TPI_VARIABLE);
    const uint32_t version = w->buf->version;
    assert_ptr_equal(assign(w, tp_full(tp, TP_F32, TP_DIMS(3), 7)), w);
    assert_true(((const float *)tp_data(w))[2] == 7);
    assert_true(((const float *)tp_data(init))[2] == 2);
    assert_int_equal(w->buf->version, version + 1);

    const tp_tensor *p = tp_param(init, "p");
    assert_int_equal(p->flags & (TPI_VARIABLE | TPI_REQUIRES | TPI_LEAF),
                     TPI_VARIABLE | TPI_REQUIRES | TPI_LEAF);
    assert_true(tp_failed(tp_param(tp_arange(tp, TP_I32, 3, 0, 1), "p")));
    EXPECT_ERROR(tp, TP_E_DTYPE, "tp_param: a gradient is asked of floats only, not of i32");
    assert_true(tp_failed(tp_variable(NULL, "p")));
    assert_true(tp_failed(tp_param(NULL, "p")));
    tp_variable(init, NULL);
    EXPECT_ERROR(tp, TP_E_NULL, "tp_variable: the name is NULL");
    tp_variable(init, "");
    EXPECT_ERROR(tp, TP_E_NAME, "tp_variable: the name is empty");
}

static void refused(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_full(tp, TP_F32, TP_DIMS(2, 3), 1), *w = tp_variable(x, "w");
    tp_tensor *v = tp_full(tp, TP_F32, TP_DIMS(3, 2), 1);
    assert_true(tp_failed(assign(x, x)));
    EXPECT_ERROR(tp, TP_E_STATE,
                 "user.c:1: assign: the target is no variable: its value never changes "
                 "(tp_variable makes one)");
    assert_true(tp_failed(assign(w, v)));
    EXPECT_ERROR(tp, TP_E_SHAPE, "assign: sizes differ: variable [2, 3], value [3, 2]");
    assert_true(tp_failed(assign(w, tp_full(tp, TP_F64, TP_DIMS(2, 3), 1))));
    EXPECT_ERROR(tp, TP_E_DTYPE,
                 "assign: the variable is f32, the value f64: tp_cast converts it");
    tp_tensor *wide = view(w, 2, (int64_t[]){5, 3}, (int64_t[]){0, 1}, 0);
    assert_true(tp_failed(assign(wide, tp_full(tp, TP_F32, TP_DIMS(5, 3), 1))));
    assert_int_equal(tp_error(tp), TP_E_STATE);
    tp_clear_error(tp);
    assert_int_equal(w->buf->version, 0);
}

static void through_views(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *w = tp_variable(tp_arange(tp, TP_I32, 6, 0, 1), "w");
    const int64_t six[] = {6}, three[] = {3}, two_three[] = {2, 3};
    /* The odd elements, from the back. */
    tp_tensor *odd = view(w, 1, three, (int64_t[]){-2}, 5);
    assert_ptr_equal(assign(odd, tp_arange(tp, TP_I32, 3, 10, 1)), odd);
    const int32_t a[] = {0, 12, 2, 11, 4, 10};
    assert_memory_equal(tp_data(w), a, sizeof a);
    /* Reversed onto itself: the value is a view of the target's memory. */
    tp_tensor *back = view(w, 1, six, (int64_t[]){-1}, 5);
    assign(w, back);
    const int32_t b[] = {10, 4, 11, 2, 12, 0};
    assert_memory_equal(tp_data(w), b, sizeof b);
    /* Gaps on both sides, other memory. */
    tp_tensor *x = tp_arange(tp, TP_I32, 6, 0, 1);
    tp_tensor *t = view(x, 2, two_three, (int64_t[]){1, 2}, 0);
    tp_tensor *u = view(w, 2, two_three, (int64_t[]){1, 2}, 0);
    assign(u, t);
    assert_memory_equal(tp_data(w), tp_data(x), 24);
    /* Shifted by one: an overlap of a row with itself. */
    const int64_t five[] = {5}, one[] = {1};
    assign(view(w, 1, five, one, 1), view(w, 1, five, one, 0));
    const int32_t c[] = {0, 0, 1, 2, 3, 4};
    assert_memory_equal(tp_data(w), c, sizeof c);
    /* From a row to every second place of the same memory. */
    assign(view(w, 1, three, (int64_t[]){2}, 0), view(w, 1, three, one, 0));
    const int32_t d[] = {0, 0, 0, 2, 1, 4};
    assert_memory_equal(tp_data(w), d, sizeof d);
    assert_int_equal(w->buf->version, 5);
    tp_tensor *none = tp_variable(tp_full(tp, TP_I32, TP_DIMS(0, 2), 0), "none");
    assert_ptr_equal(assign(none, tp_full(tp, TP_I32, TP_DIMS(0, 2), 0)), none);
    assert_int_equal(tp_error(tp), TP_OK);
}

static void names(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_full(tp, TP_F32, TP_DIMS(2), 1);
    assert_ptr_equal(tp_name(x, "x"), x);
    assert_ptr_equal(tp_name(x, "another"), x);
    assert_string_equal(tp_name_of(x), "another");
    assert_true(tp_failed(tp_name(NULL, "x")));
    assert_true(tp_failed(tp_name(x, NULL)));
    EXPECT_ERROR(tp, TP_E_NULL, "tp_name: the name is NULL");
    assert_true(tp_failed(tp_name(x, "")));
    EXPECT_ERROR(tp, TP_E_NAME, "tp_name: the name is empty");

    tp_graph *g = tp_graph_new(tp);
    tp_tensor *p = tp_placeholder(g, "p", TP_F32, TP_DIMS(2));
    tp_tensor *q = tp_placeholder(g, "q", TP_F32, TP_DIMS(2));
    assert_ptr_equal(tp_name(p, "p"), p);
    assert_true(tp_failed(tp_name(p, "q")));
    EXPECT_ERROR(tp, TP_E_NAME,
                 "tp_name: the node has the name \"p\" and keeps it; it cannot be \"q\" too");
    assert_string_equal(tp_name_of(q), "q");
    tp_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(state_of_its_own),
        CASE(refused),
        CASE(through_views),
        CASE(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
