/* What a block of a graph refuses to read: a view of a variable that shows what was assigned since on
 * concrete tensors, and would not here; the value of a variable in C; other graphs. Each error names
 * the line and the cure, and nothing stays behind. */
#include "common/unit.h"
#include "tapir/control.h"
#include "tapir/tapir.h"

/* A graph over x [4] and yes, and a variable q [4]. */
typedef struct bed {
    tp_ctx *tp;
    tp_graph *g;
    tp_tensor *x, *yes, *q;
} bed;

static bed bed_new(tp_ctx *tp)
{
    bed b = {.tp = tp, .g = tp_graph_new(tp)};
    b.x = tp_placeholder(b.g, "x", TP_F32, TP_DIMS(4));
    b.yes = tp_placeholder(b.g, "yes", TP_BOOL, TP_SCALAR);
    b.q = tp_variable(tp_full(tp, TP_F32, TP_DIMS(4), 1), "q");
    return b;
}

static void refused(const bed *b, int line, tp_status status, const char *text)
{
    char place[100];
    const char *message = tp_error_message(b->tp);
    snprintf(place, sizeof place, "state_errors.c:%d: ", line);
    if (tp_error(b->tp) != status || !strstr(message, place) || !strstr(message, text))
        fail_msg("expected %s at line %d, \"%s\"; got %s \"%s\"", tp_status_name(status), line,
                 text, tp_status_name(tp_error(b->tp)), message);
    tp_clear_error(b->tp);
    tp_tensor *t = b->x; /* a block after it works */
    tp_if (b->yes, &t) {
        t = tp_neg(t);
    }
    assert_false(tp_failed(t));
}

/* Ops of the line that says them. */
#define half(q) tp_slice(q, 0, 0, 2, 1)
#define total(t) tp_sum(t, TP_ALL, false)

static const char again[] = "take it from tp_graph_read of the variable now";

#define IN_A_GRAPH(name)                                                                       \
    static void name##_in(const bed *b);                                                       \
    static void name(void **state)                                                             \
    {                                                                                          \
        const bed b = bed_new(*state);                                                         \
        name##_in(&b);                                                                         \
    }                                                                                          \
    static void name##_in(const bed *b)

/* ---- views of variables ---------------------------------------------------------------------- */

IN_A_GRAPH(view_in_a_turn)
{
    int line = 0;
    tp_tensor *v = b->x;
    tp_for (2, &v) {
        tp_tensor *view = tp_flip(half(b->q), TP_DIMS(0));
        v = tp_add(v, total(view));
        tp_assign(b->q, v);
        line = __LINE__ + 1;
        v = tp_add(v, total(view));
    }
    assert_true(tp_failed(v));
    refused(b, line, TP_E_STATE, again);
}

IN_A_GRAPH(
    view_of_outside) /* read after the assignment, and before it: then in the next turn */
{
    int line = 0;
    tp_tensor *v = b->x, *view = half(b->q);
    tp_if (b->yes, &v) {
        tp_assign(b->q, v);
        line = __LINE__ + 1;
        v = tp_add(v, total(view));
    }
    refused(b, line, TP_E_STATE, again);
    v = b->x;
    line = __LINE__ + 1;
    tp_for (2, &v) {
        v = tp_add(v, total(view));
        tp_assign(b->q, v);
    }
    refused(b, line, TP_E_STATE, "make the view in the block");
    v = b->x;
    line = __LINE__ + 1;
    tp_for (2, &v) { /* in sides of an if */
        tp_if (b->yes, &v) {
            v = tp_add(v, total(view));
        }
        tp_else
        {
            tp_assign(b->q, v);
        }
    }
    refused(b, line, TP_E_STATE, "make the view in the block");
    v = b->x;
    tp_if (b->yes, &v) { /* before the assignment it is the same in both */
        v = tp_add(v, total(view));
        tp_assign(b->q, v);
    }
    assert_false(tp_failed(v));
    line = __LINE__ + 1;
    assert_true(tp_failed(tp_mul(view, half(v))));
    refused(b, line, TP_E_STATE, again);
}

IN_A_GRAPH(view_of_a_view)
{
    int line = 0;
    tp_tensor *v = b->x;
    tp_for (2, &v) {
        tp_tensor *view = half(b->q);
        tp_for (2, &v) {
            tp_assign(b->q, v);
            tp_if (b->yes, &v) {
                line = __LINE__ + 1;
                v = tp_add(v, total(tp_detach(view)));
            }
        }
    }
    refused(b, line, TP_E_STATE, again);
}

IN_A_GRAPH(what_assign_gave)
{
    int line = 0;
    tp_tensor *v = b->x;
    tp_if (b->yes, &v) {
        tp_tensor *first = tp_assign(b->q, v);
        tp_assign(b->q, tp_neg(v));
        line = __LINE__ + 1;
        v = tp_add(first, v);
    }
    refused(b, line, TP_E_STATE, again);
    tp_tensor *node = tp_graph_read(b->g, b->q);
    tp_assign(b->q, b->x);
    line = __LINE__ + 1;
    assert_true(tp_failed(tp_add(node, b->x)));
    refused(b, line, TP_E_STATE, again);
    assert_false(tp_failed(tp_add(b->q, b->x)));
}

IN_A_GRAPH(gone_over)
{
    tp_tensor *v = total(b->x);
    int line = __LINE__ + 1;
    tp_for (4, &v) {
        v = tp_add(v, tp_each(b->q));
        tp_assign(b->q, tp_add(b->q, v));
    }
    refused(b, line, TP_E_STATE, "tp_each");
    v = total(b->x);
    line = __LINE__ + 1;
    tp_for (2, &v) {
        tp_assign(b->q, tp_add(b->q, v));
        v = tp_add(v, tp_each(half(b->q)));
    }
    refused(b, line + 2, TP_E_STATE, "made before it");
    tp_tensor *one = tp_scalar(b->tp, TP_F32, 1);
    line = __LINE__ + 1;
    tp_for (4, &one) { /* on concrete tensors */
        one = tp_add(one, tp_each(b->q));
        tp_assign(b->q, tp_add(b->q, one));
    }
    refused(b, line, TP_E_STATE, "tp_each");
}

/* ---- values in C --------------------------------------------------------------------------------- */

IN_A_GRAPH(value_in_a_block)
{
    tp_tensor *z = tp_variable(tp_scalar(b->tp, TP_F32, 3), "z"), *v = b->x;
    int line = 0;
    float held = 0;
    tp_for (2, &v) {
        tp_assign(z, tp_add(z, total(v)));
        line = __LINE__ + 1;
        assert_true(tp_item(z) != tp_item(z));
    }
    refused(b, line, TP_E_SYMBOLIC, "when the graph is run");
    v = b->x;
    tp_if (b->yes, &v) {
        line = __LINE__ + 1;
        assert_false(tp_truth(z));
        assert_int_equal(tp_read(z, &held, sizeof held), TP_E_SYMBOLIC);
        assert_null(tp_data(half(b->q)));
    }
    refused(b, line, TP_E_SYMBOLIC, "tp_if");
    assert_true(tp_item(z) == 3);
}

/* ---- other graphs --------------------------------------------------------------------------------- */

IN_A_GRAPH(another_graph)
{
    tp_graph *other = tp_graph_new(b->tp);
    tp_tensor *y = tp_placeholder(other, "y", TP_F32, TP_DIMS(4)), *v = b->x, *t = NULL;
    static const char behind[] = "behind the block";
    int line = 0;
    tp_for (2, &v) {
        line = __LINE__ + 1;
        t = tp_neg(y);
        v = tp_neg(v);
    }
    refused(b, line, TP_E_CTX, behind);
    tp_for (2, &v) {
        line = __LINE__ + 1;
        assert_true(tp_failed(tp_assign(b->q, y)));
        v = tp_neg(v);
    }
    refused(b, line, TP_E_CTX, behind);
    tp_for (2, &v) {
        t = y;
        line = __LINE__ + 1;
        tp_for (2, &t) {
            t = tp_neg(t);
        }
        v = tp_neg(v);
    }
    refused(b, line, TP_E_CTX, behind);
    tp_tensor *out = NULL, *one = tp_full(b->tp, TP_F32, TP_DIMS(4), 1);
    tp_name(tp_neg(y), "t");
    tp_for (2, &v) { /* a run of one is an ordinary value */
        tp_graph_run(other, TP_FEEDS({"y", one}), TP_NAMES("t"), &out);
        v = tp_add(v, out);
    }
    assert_false(tp_failed(v));
    assert_int_equal(tp_error(b->tp), TP_OK);
}

/* What a program is asked for of the graph it is in, not of the block. */
IN_A_GRAPH(graph_of_a_block)
{
    tp_tensor *v = b->x, *inner = NULL, *extra = NULL;
    int line = 0;
    tp_for (2, &v) {
        inner = tp_name(tp_neg(v), "inner");
        tp_graph *g = tp_graph_of(inner);
        assert_ptr_equal(g, b->g);
        extra = tp_placeholder(g, "extra", TP_F32, TP_DIMS(4));
        tp_assign(b->q, inner);
        v = tp_add(tp_graph_read(g, b->q), extra); /* what was assigned */
        line = __LINE__ + 1;
        assert_null(tp_graph_compile(g, TP_NAMES("x"), TP_NAMES("x"), NULL));
    }
    refused(b, line, TP_E_STATE, "behind it");
    line = __LINE__ + 1;
    assert_int_equal(tp_graph_set_outputs(b->g, 1, &inner), TP_E_STATE);
    refused(b, line, TP_E_STATE, "which has ended");
    line = __LINE__ + 1;
    assert_true(tp_failed(tp_graph_read(b->g, inner)));
    refused(b, line, TP_E_STATE, "which has ended");
    line = __LINE__ + 1;
    assert_true(tp_failed(tp_assign(b->q, inner)));
    refused(b, line, TP_E_STATE, "which has ended");
    tp_tensor *one = tp_full(b->tp, TP_F32, TP_DIMS(4), 1), *out = NULL;
    tp_name(v, "v");
    tp_graph_run(b->g, TP_FEEDS({"x", one}, {"extra", one}), TP_NAMES("v"), &out);
    assert_true(tp_item(tp_select(out, 0, 0)) == 1); /* -(-1 + 1) + 1 */
}

/* In a graph and on concrete tensors, in each kind of block, in a function that a block calls too. */
static void make_state(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = tp_variable(tp_full(tp_ctx_of(in[0]), TP_F32, TP_DIMS(4), 0), "state");
}

static void refuse_state(const bed *b, int line, const char *what, int block)
{
    char text[100];
    snprintf(text, sizeof text, "would be made in the %s of line %d", what, block);
    refused(b, line, TP_E_STATE, text);
}

static void make_in_blocks(const bed *b, tp_tensor *x, tp_tensor *yes)
{
    tp_tensor *one = tp_full(b->tp, TP_F32, TP_DIMS(4), 1), *v = x, *go = yes;
    int line = 0, block = __LINE__ + 1;
    tp_for (1, &v) {
        line = __LINE__ + 1;
        v = tp_add(v, tp_variable(one, "state"));
    }
    refuse_state(b, line, "tp_for", block);
    v = x;
    block = __LINE__ + 1;
    tp_if (yes, &v) {
        line = __LINE__ + 1;
        v = tp_param(one, "state");
    }
    refuse_state(b, line, "tp_if", block);
    v = x;
    block = __LINE__ + 1;
    tp_while (go, &go, &v) {
        line = __LINE__ + 1;
        tp_tensor *state = tp_variable(one, "state");
        v = tp_add(v, state);
        go = tp_not(go);
    }
    refuse_state(b, line, "tp_while", block);
    v = x;
    tp_function *f = tp_function_new(b->tp, "f", make_state, NULL, NULL);
    tp_for (1, &v) {
        v = tp_add(v, tp_function_apply(f, 1, &v));
    }
    assert_true(tp_failed(v));
    assert_non_null(strstr(tp_error_message(b->tp), "Make it before the block"));
    tp_clear_error(b->tp);
    v = x;
    tp_tensor *state = tp_variable(one, "state"); /* the cure */
    tp_for (2, &v) {
        v = tp_add(v, state);
        tp_assign(state, v);
    }
    assert_false(tp_failed(v));
}

IN_A_GRAPH(variable_in_a_block)
{
    make_in_blocks(b, b->x, b->yes);
    make_in_blocks(b, tp_full(b->tp, TP_F32, TP_DIMS(4), 2), tp_scalar(b->tp, TP_BOOL, 1));
}

IN_A_GRAPH(freed_in_a_block)
{
    tp_tensor *v = b->x;
    const int line = __LINE__ + 1;
    tp_for (2, &v) {
        tp_graph_free(b->g);
        v = tp_full(b->tp, TP_F32, TP_DIMS(4), 1);
    }
    char place[100];
    snprintf(place, sizeof place, "state_errors.c:%d: ", line);
    assert_non_null(strstr(tp_error_message(b->tp), place));
    assert_non_null(strstr(tp_error_message(b->tp), "freed"));
    tp_clear_error(b->tp);
}

/* The failed tensor outlives the scopes that were left open around it. */
IN_A_GRAPH(scopes_left_open)
{
    tp_tensor *v = b->x, *yes = b->yes;
    tp_while (yes, &v, &yes) {
        tp_scope_begin(b->tp);
        tp_while (yes, &v) {
            tp_scope_begin(b->tp);
        }
    }
    assert_true(tp_failed(v) && tp_failed(yes));
    assert_non_null(strstr(tp_error_text(v), "scope"));
    tp_clear_error(b->tp);
}

static const struct CMUnitTest tests[] = {
    CASE(view_in_a_turn),   CASE(view_of_outside),     CASE(view_of_a_view),
    CASE(what_assign_gave), CASE(gone_over),           CASE(value_in_a_block),
    CASE(another_graph),    CASE(graph_of_a_block),    CASE(freed_in_a_block),
    CASE(scopes_left_open), CASE(variable_in_a_block),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
