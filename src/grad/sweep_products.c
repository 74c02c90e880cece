/* Products that share a right matrix: what they contribute to it as one tensor. */
#include "grad/sweep.h"
#include "ir/factors.h"
#include "op/add_rows.h"

/* The transpose of a shared matrix, made once: a tpi_product of few rows would take longer to turn
 * it than to use it. NULL where it is not worth it. */
tp_tensor *tpi_sweep_turned(const tpi_sweep *s, const tp_tensor *t, tpi_right_matrix *w)
{
    enum { FEW = 8 };
    if (w->products < 2 || t->graph || s->ctx->caller.recording || t->shape[0] > FEW)
        return NULL;
    if (!w->turned) {
        tp_tensor *view = tp_swap_at(t->file, t->line, t->in[1], -2, -1);
        w->turned = tp_contiguous_at(t->file, t->line, view);
        tpi_ref(w->turned);
    }
    return w->turned;
}

/* Operands that may be right matrices, of a product or of one inside. */
static bool is_matrix(const tpi_sweep *s, const tp_tensor *t)
{
    return t->rank == 2 && s->depends[t->slot];
}

static bool multiplies_inside(const tp_tensor *t, int k);

/* Is w, a node of a body, the right matrix of a product there, or in what is nested in it? */
static bool multiplies(const tpi_body *b, const tp_tensor *w)
{
    bool is = false;
    for (int i = w->index + 1; i < b->graph->n_nodes && !is; i++) {
        const tp_tensor *t = b->graph->nodes[i];
        is = tpi_is_product(t) && t->rank == 2 && t->in[1] == w;
        for (int k = 0; k < t->n_in && tpi_has_inside(t) && !is; k++)
            is = t->in[k] == w && multiplies_inside(t, k);
    }
    return is;
}

/* The same of operand k of a block. What is in a call is seen by its sweep: one may be there. */
static bool multiplies_inside(const tp_tensor *t, int k)
{
    if (t->op->joins)
        return t->op->joins(t, k);
    if (!tpi_is_block(t))
        return true;
    tpi_body *bodies[2];
    const tpi_loop_attrs *loop = tpi_loop_of(t);
    const int n = tpi_bodies_of(t, bodies), turn = loop != NULL;
    const int param = k - (loop ? (int)loop->has_pred : 1) + turn;
    bool is = false;
    for (int j = 0; j < n && param >= turn && !is; j++)
        is = multiplies(bodies[j], bodies[j]->params[param]);
    return is;
}

/* One user more or less, for each place that node t, which is gone through, has among the users. */
static void count_users(tpi_sweep *s, const tp_tensor *t, int more)
{
    if (tpi_sweep_is_product(s, t->slot))
        s->shared[t->in[1]->slot].users += more;
    for (int k = 0; k < t->n_in && tpi_has_results(t); k++)
        if (is_matrix(s, t->in[k]) && multiplies_inside(t, k))
            s->shared[t->in[k]->slot].users += more;
}

bool tpi_sweep_find_products(tpi_sweep *s)
{
    bool some = false;
    for (int i = 0; i < s->nodes.n && !some; i++)
        some = tpi_sweep_is_product(s, i) || tpi_has_results(s->nodes.v[i]);
    if (!some)
        return true;
    s->shared = tpi_take(&s->ctx->mem, (size_t)s->nodes.n * sizeof *s->shared);
    if (!s->shared) {
        tpi_no_memory(s->ctx, s->at, "gradient");
        return false;
    }
    for (int i = 0; i < s->nodes.n; i++)
        s->shared[i] = (tpi_right_matrix){.last = -1};
    for (int i = 0; i < s->nodes.n; i++) {
        const tp_tensor *t = s->nodes.v[i];
        if (!tpi_sweep_goes_through(s, i))
            continue;
        count_users(s, t, 1);
        if (tpi_sweep_is_product(s, i))
            s->shared[t->in[1]->slot].products++;
    }
    return true;
}

bool tpi_sweep_keep(tpi_sweep *s, tpi_at at, int slot, tp_tensor *x, tp_tensor *dy)
{
    tpi_product *p =
        tpi_grow(&s->ctx->mem, s->products, s->n_products, &s->max_products, sizeof *p);
    if (!p) {
        tpi_no_memory(s->ctx, s->at, "gradient");
        return false;
    }
    s->products = p;
    tpi_ref(x);
    tpi_ref(dy);
    p[s->n_products] = (tpi_product){at, x, dy, slot, s->shared[slot].last};
    s->shared[slot].last = s->n_products++;
    return true;
}

bool tpi_sweep_hand_out(tpi_sweep *s, tpi_sweep *inside)
{
    bool ok = true;
    for (int i = 0; i < inside->n_products && ok; i++) {
        const tpi_product *p = &inside->products[i];
        if (p->dy && inside->outer[p->slot])
            ok = tpi_sweep_keep(s, p->at, inside->outside[p->slot], p->x, p->dy);
    }
    return ok;
}

/* The rows of the list, joined; the list is empty then. */
typedef struct joined {
    tpi_at at; /* of the oldest product */
    tp_tensor *x, *dy;
} joined;

static tp_tensor *join(tpi_at at, int n, tp_tensor **rows)
{
    return n == 1 ? rows[0] : tp_concat_at(at.file, at.line, n, rows, 0);
}

static bool join_list(tpi_sweep *s, int slot, joined *j)
{
    tp_ctx *ctx = s->ctx;
    tpi_product *const p = s->products;
    const int last = s->shared[slot].last;
    int n = 0;
    for (int i = last; i >= 0; i = p[i].before)
        n++;
    tp_tensor **rows = tpi_take(&ctx->mem, 2 * (size_t)n * sizeof *rows);
    if (!rows) {
        tpi_no_memory(ctx, s->at, "gradient");
        return false;
    }
    for (int i = last, k = n - 1; i >= 0; i = p[i].before, k--) { /* the newest first */
        rows[k] = p[i].x;
        rows[n + k] = p[i].dy;
    }
    j->at = p[last].at;
    j->x = join(j->at, n, rows);
    j->dy = join(j->at, n, rows + n);
    tpi_ref(j->x);
    tpi_ref(j->dy);
    for (int i = last; i >= 0; i = p[i].before) {
        tpi_unref(p[i].x);
        tpi_unref(p[i].dy);
        p[i].x = p[i].dy = NULL;
    }
    s->shared[slot].last = -1;
    tpi_give_back(&ctx->mem, rows, 2 * (size_t)n * sizeof *rows);
    return true;
}

void tpi_sweep_set_state(tpi_sweep *s, int slot, tp_tensor *state)
{
    tpi_ref(state);
    tpi_unref(s->shared[slot].state);
    s->shared[slot].state = state;
}

tp_tensor *tpi_sweep_state(tpi_sweep *s, tpi_at at, int slot)
{
    const tpi_right_matrix *w = &s->shared[slot];
    tp_tensor *state = w->state;
    if (!state)
        state = tpi_rows_none(at, s->nodes.v[slot]);
    if (w->last >= 0) {
        joined j;
        if (!join_list(s, slot, &j))
            return NULL;
        state = tpi_rows_add(j.at, state, j.x, j.dy);
        tpi_unref(j.x);
        tpi_unref(j.dy);
        tpi_sweep_set_state(s, slot, state);
    }
    return state->status == TP_OK ? state : NULL;
}

/* What all products give the matrix, of which none is left to be met. */
static bool sum_up(tpi_sweep *s, int slot)
{
    tpi_right_matrix *w = &s->shared[slot];
    const tp_tensor *matrix = s->nodes.v[slot];
    if (w->state) {
        const tpi_at at =
            w->last >= 0 ? s->products[w->last].at : TPI_AT(matrix->file, matrix->line);
        tp_tensor *state = tpi_sweep_state(s, at, slot);
        if (!state)
            return false;
        w->sum = tpi_rows_sum(at, state, matrix);
        tpi_ref(w->sum);
        tpi_sweep_set_state(s, slot, NULL);
        return true;
    }
    joined j;
    if (!join_list(s, slot, &j))
        return false;
    tp_tensor *x = tp_swap_at(j.at.file, j.at.line, j.x, -2, -1);
    w->sum = tp_matmul_at(j.at.file, j.at.line, x, j.dy);
    tpi_ref(w->sum);
    tpi_unref(j.x);
    tpi_unref(j.dy);
    return true;
}

static bool sum_up_unused(tpi_sweep *s, int slot)
{
    const tpi_right_matrix *w = &s->shared[slot];
    tp_ctx *ctx = s->ctx;
    if (w->users > 0 || (w->last < 0 && !w->state) || (s->outer[slot] && !w->state))
        return true;
    if (tp_scope_begin(ctx) != TP_OK)
        return false;
    const tp_tensor *matrix = s->nodes.v[slot];
    const tpi_at at = TPI_AT(matrix->file, matrix->line);
    const bool ok = s->outer[slot] ? tpi_sweep_state(s, at, slot) != NULL : sum_up(s, slot);
    tp_scope_end(ctx);
    return ok;
}

bool tpi_sweep_met(tpi_sweep *s, const tp_tensor *t)
{
    const int slot = t->slot;
    bool ok = true;
    count_users(s, t, -1);
    if (tpi_sweep_is_product(s, slot))
        ok = sum_up_unused(s, t->in[1]->slot);
    for (int k = 0; k < t->n_in && tpi_has_results(t) && ok; k++)
        if (is_matrix(s, t->in[k]))
            ok = sum_up_unused(s, t->in[k]->slot);
    return ok;
}
