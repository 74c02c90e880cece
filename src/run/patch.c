/* See patch.h.
 *
 *     %1 = scatter %w, %i, %rows          %2 = assign %w, %1
 *     %1 = scatter (sub %w, %z), ...      with a number %z that is mostly 0
 *
 * Where nobody else reads %1, it need not be there: when the run has succeeded, the rows are written to
 * the variable itself, and %z is taken away from all of it first, unless it is +0. The roots of
 * the program are then %rows, %i and %z. A gather of %w by %i, which the run does too, has looked
 * whether %i is in range. */
#include "run/patch.h"

#include "core/copy.h"
#include "core/variable.h"
#include "op/sizes.h"

#include <string.h>

typedef struct patch {
    tp_tensor *assign, *scatter, *variable, *rest; /* rest NULL: there is none */
} patch;

static bool is_along_rows(const tp_tensor *t)
{
    return tpi_attr_int(t, "axis") == 0;
}

static bool sets_slices(const tpi_op *op)
{
    return op->slices && op->updates == TPI_UPDATES_BY_SETTING;
}

/* Does it only wait for its operands? */
static bool is_group(const tp_tensor *t)
{
    return t->op->kind == TPI_EFFECT && !tpi_assigned_of(t);
}

/* The index, however it is shaped. */
static const tp_tensor *index_of(const tp_tensor *t)
{
    const tp_tensor *index = t->in[1];
    return index->op->in_order ? index->in[0] : index;
}

/* Is what commit c assigns of that form? */
static bool has_form(const tp_program *p, const tpi_commit *c, patch *found)
{
    tp_tensor *assign = p->roots[c->root], *scatter = assign->in[1];
    if (!tpi_assigned_of(assign) || !sets_slices(scatter->op) || !is_along_rows(scatter) ||
        scatter->in[1]->rank != 1)
        return false;
    tp_tensor *base = scatter->in[0], *rest = NULL;
    if (base->op == &tpi_op_sub && base->dtype >= TP_F32 && tpi_is_number(base->in[1])) {
        rest = base->in[1];
        base = base->in[0];
    }
    *found = (patch){assign, scatter, base, rest};
    return tpi_variable_of(base) == c->variable && c->variable->flags & TPI_CONTIGUOUS;
}

/* Who reads the nodes: the new value nobody but its assignment, and that only groups. */
static bool is_read_once(const tp_program *p, const tpi_nodes *live, const patch *x)
{
    int uses = 0;
    bool checked = false;
    for (int i = 0; i < p->n_roots; i++)
        uses += p->roots[i] == x->assign || p->roots[i] == x->scatter;
    for (int i = 0; i < live->n; i++) {
        const tp_tensor *t = live->v[i];
        for (int k = 0; k < t->n_in; k++)
            uses += t->in[k] == x->scatter || (t->in[k] == x->assign && !is_group(t));
        checked |= tpi_reads_slices(t->op) && is_along_rows(t) &&
                   index_of(t) == index_of(x->scatter) && t->in[0] == x->variable;
    }
    return uses == 2 && checked;
}

static bool is_last_write(const tp_program *p, const tpi_commit *c)
{
    int n = 0;
    for (int i = 0; i < p->n_commits; i++)
        n += p->commits[i].variable == c->variable;
    return n == 1;
}

/* Groups read the variable in place of its assignment, which is done whatever they read. */
static void leave_groups(const tpi_nodes *live, const patch *x)
{
    for (int i = 0; i < live->n; i++) {
        tp_tensor *t = live->v[i];
        for (int k = 0; k < t->n_in && is_group(t); k++) {
            if (t->in[k] != x->assign)
                continue;
            tpi_ref(x->variable);
            t->in[k] = x->variable;
            tpi_unref(x->assign);
        }
    }
}

/* The roots of the patch, behind those that are there. */
static bool take_roots(tp_program *p, tpi_commit *c, const patch *x)
{
    enum { MORE = 2 };
    const size_t n = (size_t)p->n_roots;
    tp_tensor **roots = tpi_bump_take(&p->lists, n + MORE, sizeof *roots);
    if (!roots)
        return false;
    memcpy(roots, p->roots, n * sizeof *roots);
    p->roots = roots;
    p->roots[c->root] = x->scatter->in[2];
    c->index = p->n_roots++;
    p->roots[c->index] = x->scatter->in[1];
    if (x->rest) {
        c->rest = p->n_roots++;
        p->roots[c->rest] = x->rest;
    }
    return true;
}

bool tpi_find_patches(tp_program *p)
{
    bool ok = true;
    for (int i = 0; i < p->n_commits && ok; i++) {
        tpi_commit *c = &p->commits[i];
        patch x;
        if (!has_form(p, c, &x) || !is_last_write(p, c))
            continue;
        tpi_nodes live = {.ctx = p->ctx};
        ok = tpi_collect_run(&live, p->graph, p->n_roots, p->roots);
        if (ok && is_read_once(p, &live, &x)) {
            ok = take_roots(p, c, &x);
            if (ok)
                leave_groups(&live, &x);
        }
        tpi_nodes_free(&live);
    }
    return ok;
}

/* ---- commits ----------------------------------------------------------------------------------- */

static void take_away(const tp_tensor *var, const tp_tensor *rest)
{
    const double zero = 0;
    const int64_t n = tpi_count(var);
    if (memcmp(rest->data, &zero, tp_dtype_size((tp_dtype)rest->dtype)) == 0)
        return;
    if (var->dtype == TP_F64) {
        double *w = (double *)(void *)var->data, z = *(const double *)(const void *)rest->data;
        for (int64_t i = 0; i < n; i++)
            w[i] -= z;
    } else {
        float *w = (float *)(void *)var->data, z = *(const float *)(const void *)rest->data;
        for (int64_t i = 0; i < n; i++)
            w[i] -= z;
    }
}

/* Both may be views of what else is fetched. */
static void put_rows(const tp_tensor *var, const tp_tensor *index, const tp_tensor *rows)
{
    const size_t each = tp_dtype_size((tp_dtype)var->dtype);
    const int64_t size = var->shape[0], n = index->shape[0];
    const int64_t *at = (const int64_t *)(const void *)index->data;
    for (int64_t i = 0; i < n; i++, at += index->stride[0]) {
        const int64_t to = *at < 0 ? *at + size : *at;
        tpi_copy_strided(each, var->rank - 1, var->shape + 1,
                         var->data + to * var->stride[0] * (int64_t)each, var->stride + 1,
                         rows->data + i * rows->stride[0] * (int64_t)each, rows->stride + 1);
    }
}

void tpi_commit_now(const tpi_commit *c, tp_tensor *const *values)
{
    if (c->index < 0) {
        tpi_move_in(c->variable, values[c->root], true);
    } else {
        if (c->rest >= 0)
            take_away(c->variable, values[c->rest]);
        put_rows(c->variable, values[c->index], values[c->root]);
    }
    c->variable->buf->version++;
}
