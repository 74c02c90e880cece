/* What blocks refuse, on concrete and on symbolic tensors: the error names the line and the cure, and
 * what comes after it works. */
#include "common/unit.h"
#include "tapir/control.h"
#include "tapir/tapir.h"

#include <inttypes.h>

/* Of each test: the values blocks work on, all concrete or all symbolic. */
typedef struct bed {
    tp_ctx *tp;
    tp_graph *g;              /* NULL: concrete */
    tp_tensor *x, *v, *s, *k; /* [3, 4], [4], [] f32; [] i64 */
    tp_tensor *yes;           /* [] bool; true when concrete */
} bed;

static bed bed_new(tp_ctx *tp, bool symbolic)
{
    bed b = {.tp = tp};
    if (symbolic) {
        b.g = tp_graph_new(tp);
        b.x = tp_placeholder(b.g, "x", TP_F32, TP_DIMS(3, 4));
        b.v = tp_placeholder(b.g, "v", TP_F32, TP_DIMS(4));
        b.s = tp_placeholder(b.g, "s", TP_F32, TP_SCALAR);
        b.k = tp_placeholder(b.g, "k", TP_I64, TP_SCALAR);
    } else {
        b.x = tp_full(tp, TP_F32, TP_DIMS(3, 4), 0.5);
        b.v = tp_full(tp, TP_F32, TP_DIMS(4), 0.25);
        b.s = tp_scalar(tp, TP_F32, 1);
        b.k = tp_scalar(tp, TP_I64, 2);
    }
    b.yes = tp_gt(b.s, tp_scalar_like(b.s, 0));
    return b;
}

static tp_tensor *counts_down(tp_tensor *k)
{
    return tp_gt(k, tp_scalar_like(k, 0));
}

static tp_tensor *less(tp_tensor *k)
{
    return tp_sub(k, tp_scalar_like(k, 1));
}

/* The context's error: of this line of this file, and with this in its text. It is cleared, and a
 * block after it works. */
static void refused(const bed *b, int line, tp_status status, const char *text)
{
    char place[100];
    const char *message = tp_error_message(b->tp);
    snprintf(place, sizeof place, "control_errors.c:%d: ", line);
    if (tp_error(b->tp) != status || !strstr(message, place) || !strstr(message, text))
        fail_msg("%s: expected %s at line %d, \"%s\"; got %s \"%s\"",
                 b->g ? "symbolic" : "concrete", tp_status_name(status), line, text,
                 tp_status_name(tp_error(b->tp)), message);
    tp_clear_error(b->tp);
    tp_tensor *t = b->v, *n = b->k;
    tp_while (counts_down(n), &t, &n) {
        t = tp_neg(t);
        n = less(n);
    }
    assert_false(tp_failed(t));
    assert_int_equal(tp_error(b->tp), TP_OK);
    assert_int_equal(tp_is_symbolic(t), b->g != NULL);
}

/* A failed variable keeps the error. */
static void sticks(const tp_tensor *t, const char *text)
{
    assert_true(tp_failed(t));
    if (!strstr(tp_error_text(t), text))
        fail_msg("expected \"%s\" in \"%s\"", text, tp_error_text(t));
}

#define EACH_WAY(name)                                                                         \
    static void name##_in(const bed *b);                                                       \
    static void name(void **state)                                                             \
    {                                                                                          \
        for (int symbolic = 0; symbolic < 2; symbolic++) {                                     \
            const bed b = bed_new(*state, symbolic);                                           \
            name##_in(&b);                                                                     \
        }                                                                                      \
    }                                                                                          \
    static void name##_in(const bed *b)

/* ---- leaving ------------------------------------------------------------------------------- */

EACH_WAY(left_by_break)
{
    tp_tensor *v = b->v, *k = b->k;
    const int line = __LINE__ + 1;
    tp_while (counts_down(k), &v, &k) {
        v = tp_neg(v);
        if (tp_rank(v) == 1)
            break;
    }
    tp_neg(b->x); /* noticed here, or at the next block */
    tp_if (b->yes, &k) {
        k = less(k);
    }
    refused(b, line, TP_E_STATE, "break, goto or return");
    v = b->v;
    const int for_line = __LINE__ + 1;
    tp_for (3, &v) {
        v = tp_full(b->tp, TP_F32, TP_DIMS(4), 1);
        break;
    }
    tp_if (b->yes, &k) {
        k = b->k;
    }
    refused(b, for_line, TP_E_STATE, "break, goto or return");
}

EACH_WAY(left_by_goto)
{
    tp_tensor *v = b->v;
    const int line = __LINE__ + 1;
    tp_if (b->yes, &v) {
        v = tp_neg(v);
        goto out;
    }
out:
    v = b->v;
    tp_for (2, &v) {
        v = tp_neg(v);
    }
    refused(b, line, TP_E_STATE, "break, goto or return");
}

static int return_line;

static tp_tensor *returns(const bed *b)
{
    tp_tensor *v = b->v;
    return_line = __LINE__ + 1;
    tp_for (2, &v) {
        return v;
    }
    return NULL;
}

EACH_WAY(left_by_return)
{
    returns(b);
    tp_tensor *v = b->v;
    tp_if (b->yes, &v) {
        v = tp_neg(v);
    }
    refused(b, return_line, TP_E_STATE, "break, goto or return");
}

/* An inner block that is left spoils the outer one too: its variable may be anything. */
EACH_WAY(left_inside)
{
    tp_tensor *v = b->v, *w = b->v;
    int line = 0;
    tp_for (2, &v) {
        line = __LINE__ + 1;
        tp_for (2, &w) {
            w = tp_neg(w);
            break;
        }
        v = tp_neg(v);
    }
    refused(b, line, TP_E_STATE, "break, goto or return");
}

/* ---- what leaves a block --------------------------------------------------------------------- */

EACH_WAY(used_outside)
{
    tp_tensor *v = b->v, *inner = NULL;
    tp_for (2, &v) {
        inner = tp_mul(v, v);
        v = tp_neg(inner);
    }
    const int line = __LINE__ + 1;
    tp_tensor *y = tp_add(inner, v);
    assert_true(tp_failed(y));
    refused(b, line, TP_E_STATE, "");
    tp_tensor *last = NULL;
    tp_if (b->yes, &v) {
        last = tp_sin(v);
        v = last;
    }
    const int if_line = __LINE__ + 1;
    assert_true(tp_failed(tp_neg(last)) || !b->g);
    if (tp_error(b->tp) != TP_OK)
        refused(b, if_line, TP_E_STATE, "");
}

EACH_WAY(other_side_outside) /* of a side's tensor in the other side */
{
    if (!b->g)
        return; /* only one side runs */
    tp_tensor *v = b->v, *inner = NULL;
    int line = 0;
    tp_if (b->yes, &v) {
        inner = tp_mul(v, v);
        v = tp_neg(inner);
    }
    tp_else
    {
        line = __LINE__ + 1;
        v = tp_neg(inner);
    }
    refused(b, line, TP_E_STATE, "list a variable");
    assert_true(tp_failed(v));
}

/* ---- types and sizes ---------------------------------------------------------------------------- */

EACH_WAY(type_changes)
{
    tp_tensor *v = b->v, *k = b->k;
    int line = __LINE__ + 1;
    tp_while (counts_down(k), &v, &k) {
        v = tp_cast(v, TP_F64);
        k = less(k);
    }
    sticks(v, "type and sizes");
    refused(b, line, TP_E_SHAPE, "variable 0");
    v = b->v;
    line = __LINE__ + 1;
    tp_for (2, &v) {
        v = tp_concat(2, (tp_tensor *[]){v, v}, 0);
    }
    sticks(v, "type and sizes");
    refused(b, line, TP_E_SHAPE, "[8]");
}

EACH_WAY(sides_differ)
{
    tp_tensor *v = b->v, *w = b->v;
    const int line = __LINE__ + 1;
    tp_if (b->yes, &w, &v) {
        v = tp_reshape(v, TP_DIMS(2, 2));
    }
    tp_else
    {
        w = tp_neg(w);
    }
    if (!b->g) {
        assert_false(tp_failed(v)); /* the other side is not known */
        return;
    }
    refused(b, line, TP_E_SHAPE, "variable 1");
    assert_true(tp_failed(v) && tp_failed(w));
}

EACH_WAY(one_side_alone)
{
    tp_tensor *y = NULL;
    const int line = __LINE__ + 1;
    tp_if (b->yes, &y) {
        y = tp_neg(b->v);
    }
    if (!b->g) {
        assert_false(tp_failed(y));
        return;
    }
    refused(b, line, TP_E_NULL, "one side");
    assert_true(tp_failed(y));
}

EACH_WAY(neither_side)
{
    tp_tensor *y = NULL;
    tp_if (b->yes, &y) {
        tp_neg(b->v);
    }
    assert_true(!y || tp_failed(y));
    tp_clear_error(b->tp);
    assert_true(tp_failed(tp_neg(y)));
    tp_clear_error(b->tp);
}

EACH_WAY(no_value)
{
    tp_tensor *y = NULL, *k = b->k;
    int line = __LINE__ + 1;
    tp_for (2, &k, &y) {
        k = less(k);
        y = k;
    }
    assert_true(tp_failed(y) && tp_failed(k));
    refused(b, line, TP_E_NULL, "");
    k = b->k;
    y = NULL;
    line = __LINE__ + 1;
    tp_while (counts_down(k), &k, &y) {
        k = less(k);
        y = k;
    }
    refused(b, line, TP_E_NULL, "");
    k = b->k;
    line = __LINE__ + 1;
    tp_while (counts_down(k), &k) {
        k = NULL;
    }
    assert_true(tp_failed(k));
    refused(b, line, TP_E_NULL, "");
}

/* ---- conditions and counts ------------------------------------------------------------------------ */

EACH_WAY(bad_condition)
{
    tp_tensor *v = b->v, *k = b->k;
    int line = __LINE__ + 1;
    tp_if (tp_gt(b->v, tp_scalar_like(b->v, 0)), &v) {
        v = tp_neg(v);
    }
    sticks(v, "one bool");
    refused(b, line, TP_E_DTYPE, "one bool");
    v = b->v;
    line = __LINE__ + 1;
    tp_if (b->s, &v) {
        v = tp_neg(v);
    }
    refused(b, line, TP_E_DTYPE, "one bool");
    line = __LINE__ + 1;
    tp_while (k, &k) {
        k = less(k);
    }
    sticks(k, "one bool");
    refused(b, line, TP_E_DTYPE, "one bool");
    k = b->k;
    line = __LINE__ + 1;
    tp_while (NULL, &k) {
        k = less(k);
    }
    refused(b, line, TP_E_NULL, "");
    v = b->v;
    line = __LINE__ + 1;
    tp_if (NULL, &v) {
        v = tp_neg(v);
    }
    refused(b, line, TP_E_NULL, "");
}

EACH_WAY(bad_count)
{
    tp_tensor *v = b->v;
    const int line = __LINE__ + 1;
    tp_for (-1, &v) {
        v = tp_neg(v);
    }
    assert_true(tp_failed(v));
    refused(b, line, TP_E_VALUE, "turns");
}

EACH_WAY(failed_condition) /* the first error stays */
{
    tp_tensor *v = b->v, *bad = tp_matmul(b->x, b->x);
    const int line = __LINE__ - 1;
    tp_if (tp_gt(tp_sum(bad, TP_ALL, false), tp_scalar_like(b->s, 0)), &v) {
        v = tp_neg(v);
    }
    sticks(v, "matmul");
    refused(b, line, TP_E_SHAPE, "matmul");
}

EACH_WAY(fails_inside)
{
    tp_tensor *v = b->v, *k = b->k;
    int line = 0;
    tp_while (counts_down(k), &v, &k) {
        line = __LINE__ + 1;
        v = tp_matmul(b->x, tp_neg(b->x));
        k = less(k);
    }
    sticks(v, "matmul");
    sticks(k, "matmul");
    refused(b, line, TP_E_SHAPE, "matmul");
    v = b->v;
    tp_if (b->yes, &v) {
        line = __LINE__ + 1;
        v = tp_matmul(b->x, tp_neg(b->x));
    }
    sticks(v, "matmul");
    refused(b, line, TP_E_SHAPE, "matmul");
}

static void becomes_symbolic(void **state)
{
    const bed c = bed_new(*state, false), g = bed_new(*state, true);
    tp_tensor *k = c.k;
    int line = __LINE__ + 1;
    tp_while (counts_down(k), &k) {
        k = tp_sub(k, g.k);
    }
    assert_true(tp_failed(k));
    refused(&c, line, TP_E_SYMBOLIC, "tp_graph_read");
    tp_tensor *v = c.v, *ys = NULL;
    tp_for (2, &v) {
        line = __LINE__ + 1;
        tp_emit(&ys, tp_add(v, g.v));
    }
    refused(&c, line, TP_E_SYMBOLIC, "tp_graph_read");
    v = c.v;
    line = __LINE__ + 1;
    tp_for (tp_symbol(g.g, "n"), &v) {
        v = tp_neg(v);
    }
    assert_true(tp_failed(v));
    refused(&c, line, TP_E_SYMBOLIC, "tp_graph_read");
}

/* Tensors of two graphs in one block. */
static void two_graphs(void **state)
{
    const bed a = bed_new(*state, true), b = bed_new(*state, true);
    tp_tensor *v = a.v;
    tp_if (b.yes, &v) {
        v = tp_neg(v);
    }
    assert_true(tp_failed(v));
    assert_int_equal(tp_error(a.tp), TP_E_CTX);
    tp_clear_error(a.tp);
    v = a.v;
    tp_for (2, &v) {
        v = tp_add(v, b.v);
    }
    assert_true(tp_failed(v));
    assert_int_equal(tp_error(a.tp), TP_E_CTX);
    tp_clear_error(a.tp);
    v = a.v;
    tp_for (tp_dim(tp_placeholder(b.g, "y", TP_F32, TP_DIMS(tp_symbol(b.g, "m"))), 0), &v) {
        v = tp_neg(v);
    }
    if (!tp_failed(
            v)) /* a size of another graph is no size of this one, unless it has one alike */
        assert_int_equal(tp_graph_verify(a.g), TP_OK);
    tp_clear_error(a.tp);
}

/* ---- elements, stacks, numbers ------------------------------------------------------------------------ */

EACH_WAY(bad_each)
{
    tp_tensor *v = b->v, *k = b->k;
    int line = 0;
    tp_for (2, &v) {
        line = __LINE__ + 1;
        v = tp_add(v, tp_each(b->x)); /* which has three */
    }
    sticks(v, "tp_each");
    refused(b, line, TP_E_SHAPE, "count");
    v = b->v;
    tp_for (2, &v) {
        line = __LINE__ + 1;
        v = tp_add(v, tp_each(b->s));
    }
    refused(b, line, TP_E_SHAPE, "count");
    v = b->v;
    tp_for (2, &v) {
        v = tp_add(v, tp_each(NULL)); /* which belongs to no context */
    }
    assert_true(tp_failed(v));
    tp_clear_error(b->tp);
    tp_while (counts_down(k), &k) {
        k = less(k);
        line = __LINE__ + 1;
        tp_each(b->x);
        break;
    }
    tp_clear_error(b->tp);
    line = __LINE__ + 1;
    assert_true(tp_failed(tp_each(b->x)));
    refused(b, line, TP_E_STATE, "tp_for");
}

EACH_WAY(bad_emit)
{
    tp_tensor *v = b->v, *ys = NULL;
    int line = 0;
    tp_for (3, &v) {
        v = tp_neg(v);
        tp_emit(&ys, v);
        line = __LINE__ + 1;
        tp_emit(&ys, v);
    }
    refused(b, line, TP_E_STATE, "already");
    v = b->v;
    ys = NULL;
    tp_for (3, &v) {
        tp_if (b->yes, &v) {
            v = tp_neg(v);
            line = __LINE__ + 1;
            tp_emit(&ys, v);
        }
    }
    refused(b, line, TP_E_STATE, "another block");
    line = __LINE__ + 1;
    assert_int_equal(tp_emit(&ys, b->v), TP_E_STATE);
    refused(b, line, TP_E_STATE, "no tp_for or tp_while");
    v = b->v;
    tp_for (3, &v) {
        assert_int_equal(tp_emit(&ys, NULL), TP_E_NULL);
        assert_int_equal(tp_emit(NULL, v), TP_E_NULL);
    }
    tp_clear_error(b->tp);
}

static void
uneven_emit(void **state) /* not in every turn: concrete only, C code runs once in a graph */
{
    const bed b = bed_new(*state, false);
    tp_tensor *v = b.v, *ys = NULL;
    int turn = 0;
    const int line = __LINE__ + 1;
    tp_for (3, &v) {
        if (turn++ != 1)
            tp_emit(&ys, v);
    }
    assert_int_equal(tp_error(b.tp), TP_E_STATE);
    assert_true(line > 0);
    tp_clear_error(b.tp);
    turn = 0;
    ys = NULL;
    tp_for (2, &v) {
        tp_emit(&ys, turn++ ? b.s : v); /* elements of two sizes */
    }
    assert_true(tp_failed(ys));
    tp_clear_error(b.tp);
}

static void stacks(void *user, int n, tp_tensor **v, int n_xs, tp_tensor *const *x, int n_ys,
                   tp_tensor **y)
{
    (void)user, (void)n, (void)n_xs, (void)x, (void)n_ys;
    y[0] = v[0];
}

/* On concrete tensors nothing is stacked, in a graph what has no elements. */
EACH_WAY(no_turns)
{
    tp_tensor *v = b->v, *ys = NULL, *stacked = b->v;
    tp_for (0, &v) {
        tp_emit(&ys, v);
    }
    assert_int_equal(tp_scan(0, NULL, stacks, NULL, 1, &v, 0, NULL, 1, &stacked), TP_OK);
    if (b->g) {
        assert_int_equal(tp_size(ys, 0), 0);
        assert_int_equal(tp_size(stacked, 0), 0);
    } else {
        assert_null(ys);
        assert_null(stacked);
        ys = b->v;
        tp_for (0, &v) {
            tp_emit(&ys, v);
        }
        assert_ptr_equal(ys, b->v);
    }
    assert_int_equal(tp_error(b->tp), TP_OK);
}

EACH_WAY(outside_a_loop)
{
    int line = __LINE__ + 1;
    assert_true(tp_failed(tp_turn(b->tp)));
    refused(b, line, TP_E_STATE, "no tp_for or tp_while");
    line = __LINE__ + 1;
    assert_int_equal(tp_checkpoint(b->tp), TP_E_STATE);
    refused(b, line, TP_E_STATE, "no tp_for or tp_while");
    tp_tensor *v = b->v;
    tp_if (b->yes, &v) {
        line = __LINE__ + 1;
        tp_checkpoint(b->tp);
    }
    refused(b, line, TP_E_STATE, "no tp_for or tp_while");
    assert_true(tp_failed(tp_turn(NULL)));
    assert_int_equal(tp_checkpoint(NULL), TP_E_NULL);
}

/* ---- scopes -------------------------------------------------------------------------------------------- */

EACH_WAY(scope_left_open)
{
    tp_tensor *v = b->v, *k = b->k;
    int line = __LINE__ + 1;
    tp_if (b->yes, &v) {
        tp_scope_begin(b->tp);
        v = tp_neg(v);
    }
    assert_true(tp_failed(v));
    refused(b, line, TP_E_STATE, "scope");
    v = b->v;
    line = __LINE__ + 1;
    tp_for (2, &v) {
        v = tp_neg(v);
        tp_scope_begin(b->tp);
    }
    refused(b, line, TP_E_STATE, "scope");
    line = __LINE__ + 1;
    tp_while (counts_down(k), &k) {
        k = less(k);
        tp_scope_begin(b->tp);
    }
    refused(b, line, TP_E_STATE, "scope");
}

EACH_WAY(scope_of_the_block_ended)
{
    tp_tensor *v = b->v;
    tp_scope_begin(b->tp);
    tp_for (2, &v) {
        assert_int_not_equal(tp_scope_end(b->tp), TP_OK);
        v = tp_neg(v);
    }
    assert_int_equal(tp_error(b->tp), TP_E_STATE);
    tp_clear_error(b->tp);
    assert_false(tp_failed(tp_add(v, v)));
    assert_int_equal(tp_scope_end(b->tp), TP_OK);
}

/* ---- the rest -------------------------------------------------------------------------------------------- */

/* A condition that is symbolic asked in C, in a block: the error names what to write. */
static void truth_of_symbolic(void **state)
{
    const bed b = bed_new(*state, true);
    const int line = __LINE__ + 1;
    assert_false(tp_truth(b.yes));
    assert_int_equal(tp_error(b.tp), TP_E_SYMBOLIC);
    assert_non_null(strstr(tp_error_message(b.tp), "tp_if"));
    refused(&b, line, TP_E_SYMBOLIC, "tp_if");
}

static void
twice_the_same_variable(void **state) /* listed twice: means nothing, and breaks nothing */
{
    for (int symbolic = 0; symbolic < 2; symbolic++) {
        const bed b = bed_new(*state, symbolic);
        tp_tensor *v = b.v;
        tp_for (2, &v, &v) {
            v = tp_neg(v);
        }
        tp_if (b.yes, &v, &v) {
            v = tp_neg(v);
        }
        assert_true(tp_failed(v) || tp_size(v, 0) == 4);
        tp_clear_error(b.tp);
    }
}

/* What a block inside leaves in a variable that it does not list is told at the end of the block that
 * does, whatever has been made since; until then it may be used, as in C. */
static void unlisted_variable(void **state)
{
    for (int symbolic = 0; symbolic < 2; symbolic++) {
        const bed b = bed_new(*state, symbolic);
        tp_tensor *v = b.v, *w = b.v;
        int line = 0, made = 0;
        tp_for (2, &v, &w) {
            line = __LINE__ + 1;
            tp_if (b.yes, &v) {
                made = __LINE__ + 1;
                w = tp_exp(v);
                v = tp_neg(v);
            }
            for (int i = 0; i < 20; i++) /* in their place, if they were given back */
                tp_gt(v, tp_scalar_like(v, i));
            v = tp_neg(v);
        }
        char text[200];
        snprintf(text, sizeof text,
                 "of line %d was made inside the block of line %d, which has ended", made,
                 line);
        assert_true(tp_failed(w));
        if (!strstr(tp_error_message(b.tp), text))
            fail_msg("%s, not %s", tp_error_message(b.tp), text);
        tp_clear_error(b.tp);
    }
}

/* A variable of the block outside is a place like any other as long as it is set anew. */
static void variable_for_a_while(void **state)
{
    for (int symbolic = 0; symbolic < 2; symbolic++) {
        const bed b = bed_new(*state, symbolic);
        tp_tensor *v = b.v, *w = b.v;
        tp_for (2, &v, &w) {
            tp_if (b.yes, &v) {
                w = tp_scalar_like(v, 2);
                v = tp_mul(v, w);
            }
            w = tp_exp(v);
        }
        if (tp_failed(v) || tp_failed(w))
            fail_msg("%s", tp_error_message(b.tp));
    }
}

static void nothing_alive(void **state)
{
    (void)state;
    tp_tensor *a = NULL, *c = NULL;
    int runs = 0;
    tp_if (NULL, &a) {
        runs++;
    }
    tp_while (NULL, &a, &c) {
        runs++;
    }
    a = NULL;
    tp_for (3, &a) {
        runs++;
    }
    assert_int_equal(runs, 0);
    assert_true(tp_failed(a) && tp_failed(c));
    assert_true(tp_failed(tp_each(NULL)));
    assert_int_not_equal(tp_emit(&a, NULL), TP_OK);
    assert_int_not_equal(tp_cond(NULL, NULL, NULL, NULL, 0, NULL), TP_OK);
    assert_int_not_equal(tp_while_loop(NULL, NULL, NULL, 0, NULL), TP_OK);
    assert_int_not_equal(tp_scan(1, NULL, NULL, NULL, 0, NULL, 0, NULL, 0, NULL), TP_OK);
}

static void too_many_variables(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *v[65], *one = tp_scalar(tp, TP_BOOL, 1);
    for (int i = 0; i < 65; i++)
        v[i] = tp_scalar(tp, TP_F32, i);
#define EIGHT(n)                                                                               \
    &v[n], &v[(n) + 1], &v[(n) + 2], &v[(n) + 3], &v[(n) + 4], &v[(n) + 5], &v[(n) + 6],       \
        &v[(n) + 7]
    int runs = 0;
    tp_if (one, EIGHT(0), EIGHT(8), EIGHT(16), EIGHT(24), EIGHT(32), EIGHT(40), EIGHT(48),
           EIGHT(56)) {
        v[63] = tp_neg(v[63]);
        runs++;
    }
    assert_int_equal(runs, 1);
    assert_int_equal(tp_error(tp), TP_OK);
    assert_true(tp_item(v[63]) == -63);
    tp_for (2, EIGHT(0), EIGHT(8), EIGHT(16), EIGHT(24), EIGHT(32), EIGHT(40), EIGHT(48),
            EIGHT(56), &v[64]) {
        runs++;
    }
    assert_int_equal(runs, 1);
    assert_int_equal(tp_error(tp), TP_E_VALUE);
    assert_true(tp_failed(v[0]));
    tp_clear_error(tp);
}

/* An open block at the end of everything. */
static void left_open_at_close(void **state)
{
    (void)state;
    for (int symbolic = 0; symbolic < 2; symbolic++) {
        tp_ctx *tp = tp_open(NULL);
        const bed b = bed_new(tp, symbolic);
        tp_tensor *v = b.v;
        tp_for (3, &v) {
            v = tp_neg(v);
            break;
        }
        tp_close(tp);
    }
}

/* A graph that is freed while a block of it is open. */
static void freed_inside(void **state)
{
    const bed b = bed_new(*state, true);
    tp_tensor *v = b.v;
    tp_for (3, &v) {
        v = tp_neg(v);
        tp_graph_free(b.g);
    }
    assert_true(tp_failed(v));
    assert_int_not_equal(tp_error(b.tp), TP_OK);
    tp_clear_error(b.tp);
}

/* A scope that is ended around an open block that was left. */
static void left_in_a_scope(void **state)
{
    for (int symbolic = 0; symbolic < 2; symbolic++) {
        const bed b = bed_new(*state, symbolic);
        tp_tensor *v = b.v;
        tp_scope_begin(b.tp);
        const int line = __LINE__ + 1;
        tp_for (3, &v) {
            v = tp_neg(v);
            break;
        }
        tp_scope_end(b.tp);
        tp_scope_end(b.tp);
        tp_if (b.yes, &v) {
            v = b.v;
        }
        assert_true(line > 0);
        assert_int_equal(tp_error(b.tp), TP_E_STATE);
        tp_clear_error(b.tp);
    }
}

/* A size that only a turn would refuse, in a loop of no turns. */
static void no_turn_refuses(void **state)
{
    tp_ctx *tp = *state;
    for (int engine = TP_ENGINE_REFERENCE; engine <= TP_ENGINE_TILES; engine++) {
        tp_graph *g = tp_graph_new(tp);
        const int64_t n = tp_symbol(g, "n"), m = tp_symbol(g, "m");
        tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(n, 4));
        tp_tensor *w = tp_placeholder(g, "w", TP_F32, TP_DIMS(m, 4));
        tp_tensor *h =
            tp_mul(tp_placeholder(g, "h", TP_F32, TP_DIMS(4)), tp_scalar(tp, TP_F32, 1));
        tp_for (n, &h) {
            tp_tensor *few = tp_swap(tp_slice(w, 0, 5, m, 1), 0, 1);
            h = tp_add(tp_each(x), tp_add(h, tp_sum(few, TP_DIMS(1), false)));
        }
        tp_name(h, "y");
        const tp_compile_options o = {.engine = (tp_engine)engine};
        tp_program *p = tp_graph_compile(g, TP_NAMES("x", "w", "h"), TP_NAMES("y"), &o);
        for (int64_t turns = 0; turns < 2; turns++) {
            tp_tensor *y, *feeds[] = {tp_full(tp, TP_F32, TP_DIMS(turns, 4), 0),
                                      tp_full(tp, TP_F32, TP_DIMS(3, 4), 0),
                                      tp_full(tp, TP_F32, TP_DIMS(4), 0)};
            assert_int_equal(tp_program_run(p, feeds, &y), turns ? TP_E_SHAPE : TP_OK);
            tp_clear_error(tp);
        }
        tp_program_free(p);
        tp_graph_free(g);
    }
}

static const struct CMUnitTest tests[] = {
    CASE(left_by_break),      CASE(left_by_goto),
    CASE(left_by_return),     CASE(left_inside),
    CASE(used_outside),       CASE(other_side_outside),
    CASE(type_changes),       CASE(sides_differ),
    CASE(one_side_alone),     CASE(neither_side),
    CASE(no_value),           CASE(bad_condition),
    CASE(bad_count),          CASE(failed_condition),
    CASE(fails_inside),       CASE(becomes_symbolic),
    CASE(two_graphs),         CASE(bad_each),
    CASE(bad_emit),           CASE(uneven_emit),
    CASE(no_turns),           CASE(outside_a_loop),
    CASE(scope_left_open),    CASE(scope_of_the_block_ended),
    CASE(truth_of_symbolic),  CASE(twice_the_same_variable),
    CASE(unlisted_variable),  CASE(variable_for_a_while),
    CASE(nothing_alive),      CASE(too_many_variables),
    CASE(left_open_at_close), CASE(freed_inside),
    CASE(left_in_a_scope),    CASE(no_turn_refuses),
};

int main(void)
{
    return cmocka_run_group_tests(tests, NULL, NULL);
}
