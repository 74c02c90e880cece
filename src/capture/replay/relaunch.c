#include "capture/replay/relaunch.h"

#include "base/float_mode.h"
#include "capture/run/direct.h"
#include "op/op.h"

#include <string.h>

enum { OWN = -1 };

/* A result: a tensor from outside, or a new one with a value. */
typedef struct outcome {
    int32_t ext, value; /* one of them; the other is -1 */
    bool taped;
} outcome;

struct tpi_relaunch {
    tpi_flow *w; /* without nodes */
    tpi_launches *l;
    int n_out;
    outcome *results;
    tp_tensor *
        *forms; /* by result: of what type and sizes; a reference; NULL: it is from outside */
    int64_t
        *offset;   /* by value that a launch makes: in the memory of a call; OWN: of its own */
    int64_t bytes; /* of that memory */
};

/* ---- life -------------------------------------------------------------------------------- */

static void relaunch_free(tpi_relaunch *k)
{
    tpi_mem *m = &k->l->ctx->mem;
    const size_t n_out = (size_t)k->n_out;
    for (int i = 0; i < k->n_out && k->forms; i++)
        tpi_unref(k->forms[i]);
    tpi_give_back(m, k->results, n_out * sizeof *k->results);
    tpi_give_back(m, k->forms, n_out * sizeof(tp_tensor *));
    tpi_give_back(m, k->offset, (size_t)k->l->n_values * sizeof *k->offset);
    tpi_launches_free(k->l);
    tpi_flow_free(k->w);
    tpi_give_back(m, k, sizeof *k);
}

void tpi_relaunches_free(tp_function *f)
{
    tpi_pure *p = &f->pure;
    for (int i = 0; i < p->n_relaunches; i++)
        relaunch_free(p->relaunches[i]);
    tpi_give_back(&f->ctx->mem, p->relaunches,
                  (size_t)p->relaunches_size * sizeof(tpi_relaunch *));
    p->relaunches = NULL;
    p->n_relaunches = p->relaunches_size = 0;
    p->launch_bytes = 0;
}

/* ---- recording --------------------------------------------------------------------------- */

bool tpi_may_relaunch(const tp_function *f)
{
    const tpi_pure *p = &f->pure;
    return p->rolls && !f->options.check && p->launch_tries < TPI_MAX_LAUNCH_TRIES &&
           p->n_relaunches < TPI_MAX_RELAUNCHES && p->launch_bytes < TPI_MAX_LAUNCH_BYTES;
}

tpi_trace *tpi_relaunch_begin(const tp_function *f, int n_in, tp_tensor *const *in)
{
    for (int i = 0; i < n_in; i++)
        if (!(in[i]->flags & TPI_CONTIGUOUS) || tpi_is_wrapped(in[i]))
            return NULL;
    tpi_trace *t = tpi_trace_new(f->ctx, f->ctx->caller.seq, n_in, in);
    if (t && !(t->launches = tpi_launches_new(f->ctx))) {
        tpi_trace_free(t);
        return NULL;
    }
    return t;
}

/* One line of ops, of which no gradient can be asked from outside? */
static bool is_plain(const tpi_trace *t)
{
    const tpi_item *ret = &t->items[t->n - 1];
    for (int i = 0; i < t->n - 1; i++)
        if (t->items[i].kind == TPI_STEP_LOOK || tpi_is_draw(t->items[i].op))
            return false;
    for (int i = 0; i < ret->n_in && t->recording; i++)
        if (!ret->seen[i])
            return false;
    return true;
}

/* Is the memory of each tensor from outside its own? Of which one it was is not seen otherwise. */
static bool is_apart(const tpi_trace *t)
{
    for (int i = 0; i < t->n_origins; i++)
        for (int k = 0; k < i; k++)
            if (t->origins[i].tensor->buf == t->origins[k].tensor->buf)
                return false;
    return true;
}

/* Every assignment is one at the end, of a value of its own. */
static bool assigns_all(const tpi_trace *t)
{
    const tpi_launches *l = t->launches;
    int n = 0;
    for (int i = 0; i < t->n; i++)
        n += t->items[i].kind == TPI_STEP_ASSIGN;
    for (int i = 0; i < l->n_assigns; i++)
        for (int k = 0; k < i; k++)
            if (l->assigns[k].value == l->assigns[i].value ||
                l->assigns[k].origin == l->assigns[i].origin)
                return false;
    return n == l->n_assigns;
}

static int find_origin(const tpi_trace *t, const tp_tensor *x)
{
    for (int i = 0; i < t->n_origins; i++)
        if (t->origins[i].tensor == x && t->origins[i].from != TPI_FROM_MADE)
            return i;
    return -1;
}

/* While origins are those of the trace. */
static bool find_results(tpi_relaunch *k, tpi_trace *t, tp_tensor *const *out)
{
    const tpi_item *ret = &t->items[t->n - 1];
    for (int i = 0; i < k->n_out; i++) {
        outcome *x = &k->results[i];
        *x = (outcome){find_origin(t, out[i]), -1, ret->seen[i]};
        if (x->ext >= 0)
            continue;
        tpi_place p;
        if (!tpi_launches_find(k->l, t, out[i], &p) || p.offset ||
            k->l->values[p.value].origin >= 0 ||
            k->l->values[p.value].bytes != tpi_bytes(out[i]))
            return false;
        x->value = p.value;
        tp_tensor *form = tpi_tensor(t->ctx, TPI_AT(NULL, 0), (tp_dtype)out[i]->dtype,
                                     out[i]->rank, out[i]->shape);
        if (!form)
            return false;
        tpi_set_strides(form);
        tpi_disown(form);
        k->forms[i] = form;
    }
    return true;
}

/* Values of launches lie one behind the other, but for those that outlive the call. */
static bool lay_out(tpi_relaunch *k)
{
    const tpi_launches *l = k->l;
    for (int i = 0; i < l->n_values; i++)
        k->offset[i] = 0;
    for (int i = 0; i < l->n_assigns; i++)
        k->offset[l->assigns[i].value] = OWN;
    for (int i = 0; i < k->n_out; i++)
        if (k->results[i].value >= 0)
            k->offset[k->results[i].value] = OWN;
    for (int i = 0; i < l->n_values && k->bytes <= TPI_MAX_LAUNCH_BYTES; i++) {
        if (l->values[i].origin >= 0 || k->offset[i] == OWN)
            continue;
        k->offset[i] = k->bytes;
        k->bytes += ((int64_t)l->values[i].bytes + 63) & ~(int64_t)63;
    }
    return k->bytes <= TPI_MAX_LAUNCH_BYTES;
}

/* Origins become externs, and what is counted by them is counted by these. */
static bool take_origins(tpi_relaunch *k, const tpi_trace *t)
{
    tpi_mem *m = &t->ctx->mem;
    const size_t bytes = (size_t)t->n_origins * sizeof(int32_t);
    int32_t *which = tpi_take(m, bytes);
    bool ok = which;
    for (int i = 0; i < t->n_origins && ok; i++) {
        which[i] = tpi_flow_extern(k->w, &t->origins[i]);
        if (which[i] < 0)
            which[i] = tpi_flow_add_extern(k->w, &t->origins[i]);
        ok = which[i] >= 0;
    }
    for (int i = 0; i < k->l->n_values && ok; i++)
        if (k->l->values[i].origin >= 0)
            k->l->values[i].origin = which[k->l->values[i].origin];
    for (int i = 0; i < k->l->n_assigns && ok; i++) {
        k->l->assigns[i].origin = which[k->l->assigns[i].origin];
        k->w->externs[k->l->assigns[i].origin].assigned = true;
    }
    for (int i = 0; i < k->n_out && ok; i++)
        if (k->results[i].ext >= 0)
            k->results[i].ext = which[k->results[i].ext];
    tpi_give_back(m, which, bytes);
    return ok;
}

/* Is the tensor one that the body reaches by itself? */
static bool is_state(const tpi_flow *w, uint64_t seq)
{
    for (int i = 0; i < w->n_externs; i++)
        if (w->externs[i].from == TPI_FROM_STATE && w->externs[i].seq == seq)
            return true;
    return false;
}

/* Two calls had different tensors for an argument, and the body reaches neither by itself, which would be the same in
 * each call (the promise): then it is free. */
static void compare_arguments(tpi_flow *a, tpi_flow *b)
{
    for (int i = 0; i < a->n_args; i++)
        for (int k = 0; k < b->n_args; k++) {
            tpi_extern *x = &a->externs[i], *y = &b->externs[k];
            if (x->arg != y->arg || x->seq == y->seq || is_state(b, x->seq) ||
                is_state(a, y->seq))
                continue;
            x->general = y->general = true;
        }
}

/* Of the same sizes and other tensors, or a new one. */
static tpi_relaunch **place_for(tp_function *f, const tpi_relaunch *k, tp_tensor *const *in)
{
    tpi_pure *p = &f->pure;
    for (int i = 0; i < p->n_relaunches; i++)
        if (tpi_flow_is_for(p->relaunches[i]->w, k->w->n_in, in)) {
            p->launch_bytes -= tpi_launches_bytes(p->relaunches[i]->l);
            relaunch_free(p->relaunches[i]);
            return &p->relaunches[i];
        }
    tpi_relaunch **v = tpi_grow(&f->ctx->mem, p->relaunches, p->n_relaunches,
                                &p->relaunches_size, sizeof(tpi_relaunch *));
    if (!v)
        return NULL;
    p->relaunches = v;
    return &v[p->n_relaunches++];
}

static bool keep(tp_function *f, tpi_relaunch *k, tp_tensor *const *in)
{
    tpi_pure *p = &f->pure;
    for (int i = 0; i < p->n_relaunches; i++)
        compare_arguments(k->w, p->relaunches[i]->w);
    tpi_relaunch **place = place_for(f, k, in);
    if (!place)
        return false;
    *place = k;
    p->launch_bytes += tpi_launches_bytes(k->l);
    return true;
}

/* Takes the launches. */
static tpi_relaunch *relaunch_new(tpi_trace *t, int n_out)
{
    tpi_mem *m = &t->ctx->mem;
    tpi_relaunch *k = tpi_take(m, sizeof *k);
    if (!k)
        return NULL;
    *k = (tpi_relaunch){.l = t->launches, .n_out = n_out};
    t->launches = NULL;
    k->results = tpi_take(m, (size_t)n_out * sizeof *k->results);
    k->forms = tpi_take(m, (size_t)n_out * sizeof(tp_tensor *));
    k->offset = tpi_take(m, (size_t)k->l->n_values * sizeof *k->offset);
    if (k->forms)
        memset(k->forms, 0, (size_t)n_out * sizeof(tp_tensor *));
    return k;
}

static bool fill(tpi_relaunch *k, tp_function *f, tpi_trace *t, tp_tensor *const *out)
{
    if (!k->results || !k->forms || !k->offset || !find_results(k, t, out) || !lay_out(k))
        return false;
    tpi_launches_let_go(k->l);
    k->w = tpi_trace_let_go(t) ? tpi_flow_new(f, t, t->recording) : NULL;
    return k->w && take_origins(k, t);
}

void tpi_relaunch_end(tp_function *f, tpi_at at, tpi_trace *t, tp_tensor *const *in, int n_out,
                      tp_tensor *const *out)
{
    tpi_pure *p = &f->pure;
    const bool ok =
        t->launches->whole && !t->why && is_plain(t) && is_apart(t) && assigns_all(t);
    tpi_relaunch *k = ok ? relaunch_new(t, n_out) : NULL;
    const bool kept = k && fill(k, f, t, out) && keep(f, k, in);
    p->launch_tries = kept ? 0 : p->launch_tries + 1;
    if (kept)
        tpi_capture_log(f, at, "recorded: the %d launches of a call of these sizes", k->l->n);
    else
        tpi_capture_log(f, at, "not recorded: it does more than launch programs");
    if (k && !kept)
        relaunch_free(k);
    tpi_trace_free(t);
}

/* ---- a call ------------------------------------------------------------------------------ */

typedef struct relaunching {
    const tpi_relaunch *k;
    const tpi_launches *l;
    tp_ctx *ctx;
    tpi_at at;
    tp_tensor *const *in;
    char *memory, **base; /* base: by value; NULL: it has none */
    tpi_buf **own;        /* by value: its own memory, a reference */
} relaunching;

static tp_tensor *outside(const relaunching *r, int32_t ext)
{
    const tpi_extern *e = &r->k->w->externs[ext];
    return e->from == TPI_FROM_ARG ? r->in[e->arg] : e->tensor;
}

static bool begin(relaunching *r)
{
    tpi_mem *m = &r->ctx->mem;
    const size_t n = (size_t)r->l->n_values;
    r->memory = tpi_take(m, (size_t)r->k->bytes);
    r->base = tpi_take(m, n * sizeof *r->base);
    r->own = tpi_take(m, n * sizeof *r->own);
    if (r->own)
        memset(r->own, 0, n * sizeof *r->own);
    bool ok = r->memory && r->base && r->own;
    for (size_t i = 0; i < n && ok; i++) {
        const tpi_launched *v = &r->l->values[i];
        if (v->origin >= 0) {
            r->base[i] = outside(r, v->origin)->data;
        } else if (r->k->offset[i] == OWN) {
            r->own[i] = tpi_buf_new(r->ctx, v->bytes);
            ok = r->own[i];
            r->base[i] = ok ? r->own[i]->data : NULL;
        } else {
            r->base[i] = r->memory + r->k->offset[i];
        }
    }
    return ok;
}

static void end(relaunching *r)
{
    tpi_mem *m = &r->ctx->mem;
    const size_t n = (size_t)r->l->n_values;
    for (size_t i = 0; i < n && r->own; i++)
        tpi_buf_unref(r->ctx, r->own[i]);
    tpi_give_back(m, r->memory, (size_t)r->k->bytes);
    tpi_give_back(m, r->base, n * sizeof *r->base);
    tpi_give_back(m, r->own, n * sizeof *r->own);
}

static char *elements(const relaunching *r, int32_t place)
{
    const tpi_place p = r->l->places[place];
    return r->base[p.value] + p.offset;
}

static bool launch_program(const relaunching *r, const tpi_launch *x)
{
    const tpi_shared *s = x->program;
    if (!tpi_program_set_sizes(s->program, r->at, r->l->symbols + x->symbol) ||
        !tpi_is_direct(s))
        return false;
    for (int i = 0; i < x->n_in; i++)
        tpi_direct_feed(s, i, elements(r, x->place + i));
    for (int i = 0; i < x->n_out; i++)
        tpi_direct_result(s, i, elements(r, x->place + x->n_in + i));
    return tpi_direct_enter(s);
}

/* By the eager kernel. */
static bool launch_op(const relaunching *r, const tpi_launch *x)
{
    tpi_mem *m = &r->ctx->mem;
    const size_t n = (size_t)x->n_in + 1, bytes = n * (sizeof(tp_tensor) + sizeof(tp_tensor *));
    tp_tensor *v = tpi_take(m, bytes);
    if (!v)
        return false;
    tp_tensor **in = (tp_tensor **)(void *)(v + n);
    for (int i = 0; i < (int)n; i++) {
        v[i] = *r->l->forms[r->l->of[x->form + i]];
        v[i].data = elements(r, x->place + i);
        in[i] = &v[i];
    }
    tpi_run run = {.op = x->op,
                   .ctx = r->ctx,
                   .at = x->at,
                   .n_in = x->n_in,
                   .in = in,
                   .attrs = x->attrs,
                   .out = &v[x->n_in]};
    const bool ok = tpi_run_op(&run);
    tpi_give_back(m, v, bytes);
    return ok;
}

static bool launch_all(const relaunching *r)
{
    bool ok = true;
    for (int i = 0; i < r->l->n && ok; i++) {
        const tpi_launch *x = &r->l->v[i];
        ok = !tpi_is_interrupted(r->ctx) &&
             (x->program ? launch_program(r, x) : launch_op(r, x));
    }
    return ok;
}

static tp_tensor *result_of(const relaunching *r, int i)
{
    const outcome *x = &r->k->results[i];
    if (x->ext >= 0)
        return outside(r, x->ext);
    const tp_tensor *form = r->k->forms[i];
    tp_tensor *t = tpi_tensor(r->ctx, r->at, (tp_dtype)form->dtype, form->rank, form->shape);
    if (!t)
        return NULL;
    tpi_set_strides(t);
    t->buf = r->own[x->value];
    t->buf->refs++;
    t->data = t->buf->data;
    return t;
}

static bool make_results(const relaunching *r, tp_tensor **out)
{
    tp_tensor *call = NULL;
    for (int i = 0; i < r->k->n_out; i++) {
        const outcome *x = &r->k->results[i];
        for (int k = 0; k < i && !out[i]; k++)
            if (x->value >= 0 && r->k->results[k].value == x->value)
                out[i] = out[k];
        if (out[i])
            continue;
        out[i] = result_of(r, i);
        if (out[i] && x->taped)
            out[i] = tpi_flow_tape(r->k->w, r->at, r->in, out[i], &call);
        if (!out[i])
            return false;
    }
    return true;
}

static bool may_commit(const relaunching *r)
{
    for (int i = 0; i < r->l->n_assigns; i++)
        if (!tpi_may_write(outside(r, r->l->assigns[i].origin)))
            return false;
    return true;
}

static void commit(const relaunching *r)
{
    for (int i = 0; i < r->l->n_assigns; i++) {
        const tpi_launch_assign *x = &r->l->assigns[i];
        tpi_take_value(outside(r, x->origin), r->own[x->value]);
        r->own[x->value] = NULL;
    }
}

bool tpi_relaunch_call(tpi_relaunch *k, tpi_at at, tp_tensor *const *in, int n_out,
                       tp_tensor **out)
{
    TPI_DEFAULT_FLOAT_MODE;
    tp_ctx *ctx = k->w->ctx;
    relaunching r = {.k = k, .l = k->l, .ctx = ctx, .at = at, .in = in};
    const int32_t mark = ctx->caller.n_owned;
    const bool ok = begin(&r) && launch_all(&r) && make_results(&r, out) && may_commit(&r);
    if (ok)
        commit(&r);
    end(&r);
    if (ok)
        return true;
    if (ctx->status != TP_OK)
        tpi_forget_error(ctx);
    tpi_drop_results(ctx, mark, n_out, out);
    k->w->f->pure.abandoned++;
    tpi_capture_log(k->w->f, at, "replay abandoned: a program or an op fails");
    return false;
}

tpi_relaunch *tpi_relaunch_find(const tp_function *f, int n_in, tp_tensor *const *in, int n_out)
{
    for (int i = 0; i < f->pure.n_relaunches; i++) {
        tpi_relaunch *k = f->pure.relaunches[i];
        if (k->n_out == n_out && tpi_flow_is_for(k->w, n_in, in))
            return tpi_flow_same_tensors(k->w, in) ? k : NULL;
    }
    return NULL;
}
