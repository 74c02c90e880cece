/* The gradient of a cond: a cond over the same condition.
 *
 *     %5 = cond %p, %x {then=(y = f(x)), other=(y = g(x))}
 *     %9 = cond %p, %taps.., %dy, %sum {then=(sum + dy * f'), other=(sum + dy * g')}
 *
 * Each side adds to the sum so far what its operands get there, which was added up inside first; a
 * side that does not reach an operand leaves its sum, or gives zeros when there is none. What products
 * give an operand is added to its state (op/add_rows.h) likewise. The values
 * that both sides' gradients read of the forward part are further outputs of it: one of the one
 * side and one of the other share an output where types and sizes agree, else the other side
 * gives zeros. */
#include "grad/vjp.h"

#include <string.h>

/* What goes through the cut: tap a of the first side, or b of the second; -1: none. */
typedef struct crossing {
    int tap[2];
    int64_t output; /* of the forward cond */
} crossing;

typedef struct cond_vjp {
    tpi_sweep *s;
    tp_tensor *block;
    tp_tensor *const *cot;
    tpi_vjp side[2];
    int n_open;         /* sides to be closed */
    int n, n_cots;      /* operands without the condition, outputs */
    bool *wanted;       /* by operand: some side gives it something */
    bool *outer;        /* by operand: products with it are joined outside */
    tp_tensor **before; /* by operand: its state outside; NULL: it has no product here */
    tp_tensor **seed[2], **sum[2]; /* params of the scratch bodies: by output, by operand */
    tp_tensor **out[2]; /* the backward outputs, by number, nodes of the scratch bodies */
    int n_out;
    crossing *cross;
    int n_cross;
    void *memory;
    size_t memory_bytes;
} cond_vjp;

static bool no_memory(const cond_vjp *c)
{
    tpi_no_memory(c->s->ctx, TPI_AT(c->block->file, c->block->line), "gradient");
    return false;
}

static bool reserve(cond_vjp *c)
{
    const size_t n = (size_t)c->n, m = (size_t)c->n_cots;
    c->memory_bytes = (7 * n + 2 * m) * sizeof(tp_tensor *) + 2 * n;
    tp_tensor **p = c->memory = tpi_take(&c->s->ctx->mem, c->memory_bytes);
    if (!p)
        return no_memory(c);
    memset(p, 0, c->memory_bytes);
    for (int j = 0; j < 2; j++) {
        c->seed[j] = p;
        c->sum[j] = p + m;
        c->out[j] = p + m + n;
        p += m + 3 * n; /* a sum and a state by operand */
    }
    c->before = p;
    c->wanted = (bool *)(p + n);
    c->outer = c->wanted + n;
    return true;
}

static void done(cond_vjp *c)
{
    tpi_mem *m = &c->s->ctx->mem;
    tpi_give_back(m, c->cross, (size_t)c->n_cross * sizeof *c->cross);
    for (int j = 0; j < c->n_open; j++)
        tpi_vjp_close(&c->side[j]);
    tpi_give_back(m, c->memory, c->memory_bytes);
}

/* ---- the sweeps ------------------------------------------------------------------------------- */

static bool sweep_side(cond_vjp *c, int j, const bool *depends, tpi_seed *seeds)
{
    tpi_vjp *v = &c->side[j];
    tpi_body *bodies[2];
    tpi_bodies_of(c->block, bodies);
    if (!tpi_vjp_open(v, c->s, c->block, bodies[j]))
        return false;
    c->n_open++;
    int n = 0;
    for (int i = 0; i < c->n_cots; i++) {
        if (!c->cot[i])
            continue;
        tp_tensor *p = c->seed[j][i] = tpi_vjp_param(v, c->cot[i], false);
        if (p->status != TP_OK)
            return false;
        seeds[n++] = (tpi_seed){i, p};
    }
    return tpi_sweep_body(v, depends, c->outer, n, seeds);
}

static bool sweep_sides(cond_vjp *c)
{
    tpi_mem *m = &c->s->ctx->mem;
    const size_t seeds_bytes = (size_t)c->n_cots * sizeof(tpi_seed), n = (size_t)c->n;
    tpi_seed *seeds = tpi_take(m, seeds_bytes);
    bool *depends = tpi_take(m, n), ok = seeds && depends;
    if (!ok)
        no_memory(c);
    for (int k = 0; k < c->n && ok; k++) {
        depends[k] = tpi_wants_operand(c->s, c->block, 1 + k);
        c->outer[k] = true;
        for (int i = 0; i < k; i++) /* given twice, it is one matrix outside */
            c->outer[k] = c->outer[k] && c->block->in[1 + i] != c->block->in[1 + k];
    }
    for (int j = 0; j < 2 && ok; j++)
        ok = sweep_side(c, j, depends, seeds);
    tpi_give_back(m, depends, n);
    tpi_give_back(m, seeds, seeds_bytes);
    return ok;
}

/* The operand's sum so far; NULL: none, or it is that of an earlier operand. */
static tp_tensor *sum_so_far(const cond_vjp *c, int k)
{
    tp_tensor *const *in = c->block->in;
    for (int i = 0; i < k; i++)
        if (c->wanted[i] && in[1 + i] == in[1 + k])
            return NULL;
    return c->s->grad[in[1 + k]->slot];
}

/* What products gave operand k before, and on a side. */
static bool put_states(cond_vjp *c, int k)
{
    c->before[k] = tpi_sweep_state(c->s, TPI_AT(c->block->file, c->block->line), c->block->in[1 + k]->slot);
    if (!c->before[k])
        return false;
    for (int j = 0; j < 2; j++) {
        tpi_vjp *v = &c->side[j];
        tp_tensor *state = tpi_vjp_state(v, k);
        if (state->status != TP_OK)
            return false;
        c->out[j][c->n_out] = v->joined[k] ? v->joined[k] : state;
    }
    c->n_out++;
    return true;
}

/* The outputs of the backward sides. */
static bool make_outputs(cond_vjp *c)
{
    for (int k = 0; k < c->n; k++) {
        c->wanted[k] = c->side[0].dx[k] || c->side[1].dx[k];
        if (!c->wanted[k])
            continue;
        tp_tensor *sum = sum_so_far(c, k);
        if (sum && sum->status != TP_OK)
            return false;
        for (int j = 0; j < 2; j++) {
            tpi_vjp *v = &c->side[j];
            tp_tensor *dx = v->dx[k], *param = sum ? tpi_vjp_param(v, sum, false) : NULL;
            if (param && param->status != TP_OK)
                return false;
            c->sum[j][k] = param;
            tp_tensor *out = !dx     ? param
                             : param ? tp_add_at(v->at.file, v->at.line, param, dx)
                                     : dx;
            if (!out)
                out = tpi_all(v->at, v->work->params[k], 0);
            if (out->status != TP_OK)
                return false;
            c->out[j][c->n_out] = out;
        }
        c->n_out++;
    }
    bool ok = true;
    for (int k = 0; k < c->n && ok; k++)
        ok = !(c->side[0].joined[k] || c->side[1].joined[k]) || put_states(c, k);
    return ok;
}

/* ---- the cut ---------------------------------------------------------------------------------- */

static bool same_type(const tp_tensor *a, const tp_tensor *b)
{
    return a->dtype == b->dtype && tpi_same_shape(a, b);
}

/* The taps of both sides, paired where they can be. */
static bool pair_taps(cond_vjp *c)
{
    const tpi_nodes *a = &c->side[0].taps, *b = &c->side[1].taps;
    c->n_cross = a->n + b->n; /* at most */
    c->cross = tpi_take(&c->s->ctx->mem, (size_t)c->n_cross * sizeof *c->cross);
    if (!c->cross) {
        c->n_cross = 0;
        return no_memory(c);
    }
    int n = 0;
    for (int i = 0; i < a->n; i++)
        c->cross[n++] = (crossing){
            .tap = {i, -1}
        };
    for (int k = 0; k < b->n; k++) {
        int i = 0;
        while (i < a->n && (c->cross[i].tap[1] >= 0 || !same_type(a->v[i], b->v[k])))
            i++;
        if (i < a->n)
            c->cross[i].tap[1] = k;
        else
            c->cross[n++] = (crossing){
                .tap = {-1, k}
            };
    }
    for (int i = n; i < c->n_cross; i++)
        c->cross[i] = (crossing){
            .tap = {-1, -1}
        };
    return true;
}

static bool is_crossing(const crossing *x)
{
    return x->tap[0] >= 0 || x->tap[1] >= 0;
}

/* The forward sides give what crosses. */
static bool append_outputs(cond_vjp *c)
{
    for (int i = 0; i < c->n_cross; i++) {
        crossing *x = &c->cross[i];
        if (!is_crossing(x))
            continue;
        const int one = x->tap[0] >= 0 ? 0 : 1;
        const tp_tensor *like = c->side[one].taps.v[x->tap[one]];
        x->output = c->side[0].from->n_outputs;
        tp_tensor *t[2];
        for (int j = 0; j < 2; j++) {
            tpi_vjp *v = &c->side[j];
            t[j] = x->tap[j] >= 0 ? tpi_vjp_origin(v, x->tap[j])
                                  : tpi_zeros_in(v->from->graph, v->at, like);
            if (t[j]->status != TP_OK)
                return false;
        }
        if (!tpi_body_output(c->side[0].from, t[0]))
            return false;
        if (!tpi_body_output(c->side[1].from, t[1])) {
            c->side[0].from->n_outputs--; /* both or none */
            return false;
        }
    }
    return true;
}

/* ---- the backward cond ------------------------------------------------------------------------ */

/* An operand of the backward cond, and the param for it on a side. */
static bool take(tpi_vjp *v, tpi_body *to, tp_tensor *const *stands_for, tp_tensor *outer,
                 tpi_nodes *in)
{
    tp_tensor *p =
        tpi_body_param(to, v->at, (tp_dtype)outer->dtype, outer->rank, outer->shape, NULL);
    if (p->status != TP_OK)
        return false;
    if (*stands_for)
        tpi_vjp_set(v, *stands_for, p);
    if (in)
        tpi_nodes_push(in, outer);
    return true;
}

/* The params of one side; in[] are the operands, which the first side fills. */
static bool take_params(cond_vjp *c, int j, tpi_body *to, tpi_nodes *in)
{
    tpi_vjp *v = &c->side[j];
    tp_tensor *const *outer = c->block->in;
    bool ok = true;
    for (int k = 0; k < c->n && ok; k++) {
        const bool needed = c->side[0].need[c->side[0].work->params[k]->index] ||
                            c->side[1].need[c->side[1].work->params[k]->index];
        ok = !needed || take(v, to, &v->work->params[k], outer[1 + k], in);
    }
    for (int i = 0; i < c->n_cross && ok; i++) {
        const crossing *x = &c->cross[i];
        tp_tensor *none = NULL;
        if (!is_crossing(x))
            continue;
        tp_tensor *value = tpi_output_of(c->block, x->output);
        ok = value->status == TP_OK &&
             take(v, to, x->tap[j] >= 0 ? &v->taps.v[x->tap[j]] : &none, value, in);
    }
    for (int i = 0; i < c->n_cots && ok; i++)
        ok = !c->cot[i] || take(v, to, &c->seed[j][i], c->cot[i], in);
    for (int k = 0; k < c->n && ok; k++)
        ok = !c->sum[j][k] || take(v, to, &c->sum[j][k], c->s->grad[outer[1 + k]->slot], in);
    for (int k = 0; k < c->n && ok; k++)
        ok = !c->before[k] || take(v, to, &v->state[k], c->before[k], in);
    return ok;
}

static tpi_body *make_side(cond_vjp *c, int j, tpi_nodes *in)
{
    tpi_vjp *v = &c->side[j];
    tpi_body *to = tpi_body_new(v->g, v->at);
    if (!to || !take_params(c, j, to, in) || !tpi_vjp_fill(v, to))
        return NULL;
    bool ok = true;
    for (int i = 0; i < c->n_out && ok; i++)
        ok = tpi_body_output(to, tpi_vjp_made(v, c->out[j][i]));
    to->closed = true;
    return ok ? to : NULL;
}

static bool give(cond_vjp *c, tp_tensor *back)
{
    int n = 0;
    for (int k = 0; k < c->n; k++) {
        if (!c->wanted[k])
            continue;
        tp_tensor *dx = tpi_output_of(back, n);
        if (dx->status != TP_OK)
            return false;
        const int slot = c->block->in[1 + k]->slot;
        if (c->sum[0][k] || !c->s->grad[slot]) {
            tpi_set_sum(c->s, c->block, 1 + k, dx);
        } else { /* an operand that comes twice */
            tpi_ref(dx);
            tpi_sweep_fold(c->s, c->block, slot, dx);
        }
        n++;
    }
    for (int k = 0; k < c->n; k++) {
        if (!c->before[k])
            continue;
        tp_tensor *state = tpi_output_of(back, n++);
        if (state->status != TP_OK)
            return false;
        tpi_sweep_set_state(c->s, c->block->in[1 + k]->slot, state);
    }
    return true;
}

static bool make_node(cond_vjp *c)
{
    const tpi_vjp *v = &c->side[0];
    tpi_nodes in = {.ctx = c->s->ctx};
    tpi_nodes_push(&in, c->block->in[0]);
    tpi_cond_attrs attrs = {.then = make_side(c, 0, &in)};
    attrs.other = attrs.then ? make_side(c, 1, NULL) : NULL;
    bool ok = attrs.then && attrs.other;
    if (ok && in.failed)
        ok = no_memory(c);
    tp_tensor *back = ok ? tpi_cond_node(v->g, v->at, &attrs, in.n, in.v) : NULL;
    ok = ok && back->status == TP_OK && give(c, back);
    tpi_nodes_free(&in);
    return ok;
}

static bool cut(cond_vjp *c)
{
    bool *kept = tpi_take(&c->s->ctx->mem, (size_t)c->n), ok = kept != NULL;
    if (!ok)
        no_memory(c);
    else if (c->n)
        memset(kept, 0, (size_t)c->n);
    for (int j = 0; j < 2 && ok; j++)
        ok = tpi_vjp_cut(&c->side[j], kept, c->n_out, c->out[j]);
    tpi_give_back(&c->s->ctx->mem, kept, (size_t)c->n);
    return ok;
}

bool tpi_cond_back(tpi_sweep *s, tp_tensor *block, tp_tensor *const *cot)
{
    cond_vjp c = {.s = s,
                  .block = block,
                  .cot = cot,
                  .n = block->n_in - 1,
                  .n_cots = tpi_n_outputs_of(block)};
    bool ok = reserve(&c) && sweep_sides(&c) && make_outputs(&c);
    if (ok && c.n_out)
        ok = cut(&c) && pair_taps(&c) && append_outputs(&c) && make_node(&c);
    done(&c);
    return ok;
}
