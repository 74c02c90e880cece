/* Axis factors of ops: along an axis that is passed through, parts of the result are the results of parts,
 * joined ones that of the joined, and positions in another order give those in that order, bit for bit. Every
 * node is looked at that the cases make, and their gradients; ops that only blocks make have nodes made here. */
#include "case.h"
#include "common/same.h"
#include "ir/body.h"
#include "ir/factors.h"
#include "op/add_rows.h"

#include <stdlib.h>
#include <string.h>

typedef struct look {
    const case_options *o;
    const op_case *c;
    tp_ctx *tp;
    int checked[TPI_N_OPS]; /* axes that are passed, by op */
    int n_wrong;
    char why[500];
} look;

/* A node, and its operands and result as numbers. */
typedef struct shown {
    const tp_tensor *node;
    tp_tensor *in[16], *y;
} shown;

static bool wrong(look *l, const tp_tensor *t, int axis, const char *what, const char *more)
{
    l->n_wrong++;
    snprintf(l->why, sizeof l->why, "factors of %s, axis %d of the result: %s %s", t->op->name,
             axis, what, more);
    return false;
}

/* Attributes in which the size of the result's axis stands, with another size. */
static void set_size(const tp_tensor *t, int axis, int64_t size, void *attrs)
{
    for (const tpi_attr *a = t->op->attrs; a && a->name; a++) {
        char *p = (char *)attrs + a->offset;
        if (strcmp(a->name, "shape") == 0)
            ((tpi_list *)(void *)p)->v[axis] = size;
        else if (strcmp(a->name, "sizes") == 0 && axis >= 2)
            ((tpi_list *)(void *)p)->v[axis - 2] = size;
        else if (strcmp(a->name, "groups") == 0 && axis < 2 &&
                 tpi_passed_from(t, 0, axis) == 1 && *(int64_t *)(void *)p == t->shape[axis])
            *(int64_t *)(void *)p = size;
    }
}

/* The op on positions `index` of the axes that go with `axis`. */
static tp_tensor *of_positions(const shown *s, int axis, tp_tensor *index)
{
    const tp_tensor *t = s->node;
    int64_t attrs[128];
    tp_tensor *in[16];
    for (int k = 0; k < t->n_in; k++) {
        const int from = tpi_passed_from(t, k, axis);
        in[k] = from < 0 ? s->in[k] : tp_gather(s->in[k], index, from);
    }
    if (t->op->attrs_size)
        memcpy(attrs, t->attrs, t->op->attrs_size);
    if (t->op->attrs_size)
        set_size(t, axis, tp_count(index), attrs);
    return tpi_apply(TPI_AT(__FILE__, __LINE__), t->op, t->n_in, in, attrs);
}

static tp_tensor *positions(tp_ctx *tp, int64_t from, int64_t to, int64_t step)
{
    int64_t v[4096];
    const int64_t n = (to - from) / step;
    for (int64_t i = 0; i < n; i++)
        v[i] = from + i * step;
    return tp_tensor_new(tp, TP_I64, 1, &n, v);
}

static bool same(look *l, const tp_tensor *t, int axis, tp_tensor *got, tp_tensor *want,
                 const char *what)
{
    char why[300];
    return same_tensors(got, want, SAME_ZEROS_BITS, why, sizeof why) ||
           wrong(l, t, axis, what, why);
}

static bool check_axis(look *l, const shown *s, int axis)
{
    const tp_tensor *t = s->node;
    const int64_t size = t->shape[axis], half = size / 2;
    for (int k = 0; k < t->n_in; k++) {
        const int from = tpi_passed_from(t, k, axis);
        if (from >= 0 && t->in[k]->shape[from] != size)
            return wrong(l, t, axis, "is passed from an axis of another size", "");
    }
    if (size > 4096)
        return true;
    tp_tensor *part[2], *back = positions(l->tp, size - 1, -1, -1);
    for (int i = 0; i < 2; i++) {
        tp_tensor *index = positions(l->tp, i ? half : 0, i ? size : half, 1);
        part[i] = of_positions(s, axis, index);
        if (!same(l, t, axis, part[i], tp_gather(s->y, index, axis),
                  "a part is not of that part"))
            return false;
    }
    l->checked[t->op->code] += size > 1;
    return same(l, t, axis, tp_concat(2, part, axis), s->y, "parts do not join") &&
           same(l, t, axis, of_positions(s, axis, back), tp_gather(s->y, back, axis),
                "the order does not pass");
}

/* What holds for each axis by itself. */
static bool check_uses(look *l, const tp_tensor *t)
{
    int64_t reduced[INT8_MAX] = {0};
    for (int k = 0; k < t->n_in; k++) {
        tpi_factor f[TP_MAX_RANK];
        unsigned seen = 0;
        tpi_factors_of(t, k, f);
        for (int i = 0; i < t->in[k]->rank; i++) {
            const int64_t size = t->in[k]->shape[i];
            const bool own = f[i].id >= 0 && f[i].id < t->rank;
            const bool other = f[i].id >= TP_MAX_RANK;
            if (f[i].id != TPI_NO_FACTOR && !own && !other)
                return wrong(l, t, f[i].id, "is no axis", "");
            if (own && (seen >> f[i].id & 1))
                return wrong(l, t, f[i].id, "has two axes of an operand", "");
            seen |= own ? 1u << f[i].id : 0;
            if (f[i].use == TPI_AXIS_REDUCED ? !other : f[i].use != TPI_AXIS_WHOLE && !own)
                return wrong(l, t, f[i].id, "is used for what it is not", "");
            if (f[i].use == TPI_AXIS_STRETCHED && size != 1)
                return wrong(l, t, f[i].id, "is stretched, and not of size 1", "");
            if (f[i].use != TPI_AXIS_REDUCED)
                continue;
            if (reduced[f[i].id] && reduced[f[i].id] != size + 1)
                return wrong(l, t, f[i].id, "is reduced with an axis of another size", "");
            reduced[f[i].id] = size + 1;
        }
    }
    return true;
}

static bool check_node(look *l, const shown *s)
{
    bool ok = check_uses(l, s->node);
    for (int axis = 0; axis < s->node->rank && ok; axis++)
        if (tpi_passes(s->node, axis))
            ok = check_axis(l, s, axis);
    return ok;
}

/* The op on these, as it stands in a graph. */
static tp_tensor *node_of(tp_graph *g, const tpi_op *op, int n, tp_tensor *const *x,
                          const void *attrs, const tp_tensor *y)
{
    tp_tensor *in[16];
    for (int k = 0; k < n; k++)
        in[k] = tpi_graph_constant(g, TPI_AT(__FILE__, __LINE__), x[k]);
    return tpi_graph_node(g, TPI_AT(__FILE__, __LINE__), op, n, in, attrs, (tp_dtype)y->dtype,
                          y->rank, y->shape);
}

static bool check_op(look *l, const tpi_op *op, int n, tp_tensor *const *x, const void *attrs)
{
    shown s = {.y = tpi_apply(TPI_AT(__FILE__, __LINE__), op, n, x, attrs)};
    memcpy(s.in, x, (size_t)n * sizeof *x);
    s.node = node_of(tp_graph_new(l->tp), op, n, x, attrs, s.y);
    return check_node(l, &s);
}

/* All nodes of a case: its result and the first gradients. */
static void check_case(look *l, const op_case *c)
{
    const char *names[] = {"a", "b", "c", "d", "e", "f"};
    tp_tensor *in[CASE_MAX_IN] = {0}, *x[CASE_MAX_IN];
    case_results r;
    l->tp = tp_open(NULL);
    l->c = c;
    tp_scope_begin(l->tp);
    tp_graph *g = tp_graph_new(l->tp);
    case_draw_operands(l->tp, c, l->o->seed, false, x);
    for (int k = 0; k < c->n_in; k++)
        in[k] = tp_placeholder(g, names[k], c->in[k].dtype, c->in[k].rank, c->in[k].shape);
    case_evaluate(l->tp, c, (case_kind){0}, in, &r);
    const int n = g->n_nodes;
    tp_tensor **value = calloc((size_t)n + 1, sizeof *value);
    for (int i = 0; i < n && value; i++) {
        const tp_tensor *t = g->nodes[i];
        shown s = {.node = t};
        bool known = t->n_in <= 16 && !tpi_is_block(t); /* blocks are looked at elsewhere */
        for (int k = 0; k < c->n_in; k++)
            if (in[k] == t)
                value[i] = x[k];
        if (t->op->kind == TPI_SOURCE) {
            value[i] = value[i] ? value[i] : t->n_in ? t->in[0] : NULL;
            continue;
        }
        for (int k = 0; k < t->n_in && known; k++) {
            s.in[k] = value[t->in[k]->index];
            known = s.in[k];
        }
        for (int k = 0; k < t->rank && known; k++) /* nor is how many it stacked */
            known = !tpi_dim_is_symbolic(t->shape[k]);
        if (!known || t->op->kind == TPI_EFFECT || t->op->kind == TPI_BLOCK || t->n_in == 0)
            continue;                /* what comes out of a block is not known here */
        if (t->op == &tpi_op_result) /* which is its value, where there is no call */
            value[i] = s.in[0];
        else
            s.y = value[i] =
                tpi_apply(TPI_AT(t->file, t->line), t->op, t->n_in, s.in, t->attrs);
        if (s.y && (tp_failed(s.y) || !check_node(l, &s))) {
            case_fail(l->o, c, "%s", tp_failed(s.y) ? tp_error_text(s.y) : l->why);
            break;
        }
    }
    free(value);
    tp_close(l->tp);
}

/* Ops that blocks and other ops make, on numbers. */
static bool check_others(look *l)
{
    l->tp = tp_open(NULL);
    tp_tensor *x = tp_uniform(l->tp, TP_F32, TP_DIMS(5, 4), -1, 1);
    tp_tensor *y = tp_uniform(l->tp, TP_F32, TP_DIMS(5, 3), -1, 1);
    tp_tensor *w = tp_uniform(l->tp, TP_F32, TP_DIMS(4, 3), -1, 1);
    tp_tensor *none = tpi_rows_none(TPI_AT(NULL, 0), w);
    tp_tensor *state = tpi_rows_add(TPI_AT(NULL, 0), none, x, y);
    tp_tensor *rows[] = {state, x, y}, *two[] = {x, tp_neg(x)};
    struct {
        tpi_list shape;
    } taken = {
        {2, {5, 4}}
    };
    const tpi_index_attrs third = {2};
    tp_tensor *wide = tp_exp(tp_cast(x, TP_F64)), *keys = tp_cast(tp_mul(wide, 1e9), TP_I64);
    const bool ok =
        check_op(l, &tpi_op_gamma, 2, (tp_tensor *[]){wide, keys}, NULL) &&
        check_op(l, &tpi_op_gamma_slope, 2, (tp_tensor *[]){wide, tp_square(wide)}, NULL) &&
        check_op(l, &tpi_op_add_rows, 3, rows, NULL) &&
        check_op(l, &tpi_op_stack, 2, two, NULL) && check_op(l, &tpi_op_enter, 1, &x, NULL) &&
        check_op(l, &tpi_op_row, 1, &x, &third) && check_op(l, &tpi_op_assume, 1, &x, &taken);
    tp_close(l->tp);
    return ok;
}

/* Rules that are wrong are found: each op that passes not all axes, with a rule by which it does. */
static bool finds_mutants(look *l)
{
    int n_found = 0;
    l->tp = tp_open(NULL);
    tp_tensor *x = tp_uniform(l->tp, TP_F32, TP_DIMS(5, 4), -1, 1);
    const int64_t along[3] = {1};
    const struct {
        tpi_list axes;
    } both =
        {
            {2, {0, 1}}
    },
      turned = {{2, {1, 0}}};
    tpi_op wrong[] = {tpi_op_cumsum, tpi_op_flip, tpi_op_transpose};
    const void *attrs[] = {along, &both, &turned};
    const int n = sizeof wrong / sizeof *wrong, before = l->n_wrong;
    for (int i = 0; i < n; i++) {
        wrong[i].factors = tpi_same_factors;
        n_found += !check_op(l, &wrong[i], 1, &x, attrs[i]) && strstr(l->why, wrong[i].name);
    }
    l->n_wrong = before;
    tp_close(l->tp);
    if (n_found < n)
        printf("%d of %d wrong rules are found\n", n_found, n);
    return n_found == n;
}

/* Does every op tell its factors, and is there a node that proves it for each that passes axes? */
static int unproved(const look *l)
{
    int n = 0;
    for (int i = 0; i < TPI_N_OPS; i++) {
        const tpi_op *op = tpi_ops[i];
        const bool by_kind = op->kind == TPI_ELEMENT || op->kind == TPI_REDUCE;
        const bool any = op->n_in != 0 && op->kind != TPI_SOURCE;
        const bool whole =
            op->factors == tpi_whole_factors || op->kind == TPI_EFFECT || op == &tpi_op_result;
        if (any && !by_kind && !op->factors)
            printf("op %s has no factors\n", op->name), n++;
        else if (any && !whole && !l->checked[i])
            printf("the factors of %s are proved by no case\n", op->name), n++;
    }
    return n;
}

int case_mode_factors(const case_options *o, op_case *cases, int n)
{
    look l = {.o = o};
    int looked_at = 0;
    for (int i = 0; i < n; i++)
        if (case_wanted(o, &cases[i]) && cases[i].fails == TP_OK) {
            check_case(&l, &cases[i]);
            looked_at++;
        }
    if (!check_others(&l))
        printf("%s\n", l.why);
    const bool good = finds_mutants(&l) && l.n_wrong == 0 && (o->only || unproved(&l) == 0);
    return good ? looked_at : 0;
}
