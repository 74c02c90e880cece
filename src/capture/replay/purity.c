/* The check mode of pure functions: the C code beside its replay. */
#include "capture/replay/blocks.h"

#include <stdio.h>
#include <string.h>

/* A replay as the nodes that it went through, and what the body did. */
typedef struct comparing {
    tp_function *f;
    const tpi_dry *d;
    tpi_trace *t;
    int32_t n;
    int32_t *nodes; /* in order */
} comparing;

static bool find_nodes(comparing *c)
{
    const tpi_flow *w = c->d->w;
    const tpi_basic_blocks *bs = w->blocks;
    for (int i = 0; i < c->d->n_blocks; i++)
        c->n += bs->v[c->d->blocks[i]].n_nodes;
    c->nodes = tpi_take(&c->f->ctx->mem, (size_t)c->n * sizeof *c->nodes);
    if (!c->nodes)
        return false;
    int32_t *to = c->nodes;
    for (int i = 0; i < c->d->n_blocks; i++) {
        const tpi_basic_block *b = &bs->v[c->d->blocks[i]];
        memcpy(to, b->nodes, (size_t)b->n_nodes * sizeof *to);
        to += b->n_nodes;
    }
    return true;
}

/* Operands from outside become externs; false: one is none. */
static void take_externs(const comparing *c, tpi_trace *t)
{
    const tpi_flow *w = c->d->w;
    for (int i = 0; i < t->n_in; i++) {
        if (t->in[i] >= 0)
            continue;
        const int e = tpi_flow_extern(w, &t->origins[~t->in[i]]);
        t->in[i] = ~(e < 0 ? w->n_externs : e); /* one beyond all */
    }
}

/* Is this what the operand would have been in the replay? The items before have their nodes. */
static bool is_operand(const comparing *c, tpi_source s, int i, tpi_code code)
{
    tpi_code value;
    return tpi_source_value(c->d->w, s, c->t, i, &value) && value == code;
}

static const char *name_of(tpi_step_kind kind, const tpi_op *op, char *room, size_t size)
{
    if (kind == TPI_STEP_OP)
        snprintf(room, size, "%s", op->name);
    else
        snprintf(room, size, "%s",
                 kind == TPI_STEP_ASSIGN ? "an assignment"
                 : kind == TPI_STEP_LOOK ? "a look at a value"
                                         : "the return");
    return room;
}

static tp_tensor *fail_at(const comparing *c, int i, const char *what)
{
    char here[40], there[40];
    const tpi_flow *w = c->d->w;
    const tpi_item *x = &c->t->items[i < c->t->n ? i : c->t->n - 1];
    const tpi_node *n = &w->nodes[c->nodes[i < c->n ? i : c->n - 1]];
    const tpi_at at = x->at.file ? x->at : n->at.file ? n->at : c->f->at;
    return tpi_fail(c->f->ctx, at, c->f->name, TP_E_STATE,
                    "the function is declared pure, but %s: %s here, where a replay has %s of "
                    "line %d. It must do the same after the same values; other bytes that it "
                    "looks at are named by tp_function_watch",
                    what, name_of(x->kind, x->op, here, sizeof here),
                    name_of(n->kind, n->op, there, sizeof there), n->at.line);
}

/* The first that differs, as a failed tensor; NULL: none does. */
static tp_tensor *compare_paths(const comparing *c)
{
    const tpi_flow *w = c->d->w;
    for (int i = 0; i < c->n && i < c->t->n; i++) {
        tpi_item *x = &c->t->items[i];
        const tpi_node *n = &w->nodes[c->nodes[i]];
        x->node = c->nodes[i];
        if (!tpi_flow_same(w, n, c->t, x))
            return fail_at(c, i, "it did something else");
        for (int k = 0; k < x->n_in; k++)
            if (!is_operand(c, n->in[k].source, i, tpi_item_in(c->t, x)[k]))
                return fail_at(c, i, "it used another tensor");
    }
    return c->n == c->t->n
               ? NULL
               : fail_at(c, c->n < c->t->n ? c->n : c->t->n, "it did more, or less");
}

static tp_tensor *fail_bits(const comparing *c, tpi_at at, const char *what, int i)
{
    return tpi_fail(c->f->ctx, at, c->f->name, TP_E_STATE,
                    "the function is declared pure, but %s %d has other bits than in a replay, "
                    "after the same ops: memory that they read was written by C",
                    what, i);
}

static tp_tensor *compare_bits(const comparing *c, tpi_at at, tp_tensor *const *out)
{
    const tpi_dry *d = c->d;
    for (int i = 0; i < d->n_out; i++) {
        const tp_tensor *y = out[i];
        if (!d->results[i] || y->status != TP_OK)
            continue;
        char *now = tpi_bytes(y) == d->bytes[i] ? tpi_take(&c->f->ctx->mem, d->bytes[i]) : NULL;
        if (now)
            tpi_copy_out(y, now);
        const bool same = !now || memcmp(now, d->results[i], d->bytes[i]) == 0;
        tpi_give_back(&c->f->ctx->mem, now, d->bytes[i]);
        if (!same)
            return fail_bits(c, at, "result", i);
    }
    for (int i = 0; i < d->w->n_externs; i++) {
        const tp_tensor *var = d->w->externs[i].tensor;
        if (d->assigned[i] && memcmp(var->data, d->assigned[i], tpi_bytes(var)) != 0)
            return fail_bits(c, at, "variable", i);
    }
    return NULL;
}

void tpi_check_purity(tp_function *f, tpi_at at, tpi_trace *t, int n_out, tp_tensor **out)
{
    comparing c = {.f = f, .d = f->pure.dry, .t = t};
    tp_tensor *failed = NULL;
    if (t && !t->partial && (t->why || t->n) && find_nodes(&c)) {
        take_externs(&c, t);
        failed = t->why ? tpi_fail(f->ctx, t->why_at, f->name, TP_E_STATE,
                                   "the function is declared pure, but in this call %s",
                                   tpi_why_text(t->why))
                        : compare_paths(&c);
        failed = failed ? failed : compare_bits(&c, at, out);
    }
    tpi_give_back(&f->ctx->mem, c.nodes, (size_t)c.n * sizeof *c.nodes);
    tpi_dry_free(f->ctx, f->pure.dry);
    f->pure.dry = NULL;
    tpi_trace_free(t);
    for (int i = 0; i < n_out && failed; i++) {
        tpi_ref(failed);
        tpi_unref(out[i]);
        out[i] = failed;
    }
}
