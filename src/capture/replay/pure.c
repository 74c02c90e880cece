/* Calls of pure functions: which flow they are for, and what becomes of recordings. */
#include "base/hash.h"
#include "capture/replay/blocks.h"
#include "capture/replay/relaunch.h"

#include <string.h>

/* ---- guards ------------------------------------------------------------------------------ */

/* Are the watched bytes as in the copy? */
static bool same_watched(const tp_function *f, const char *copy)
{
    for (int k = -1; k < f->pure.n_called; k++) {
        const tpi_pure *p = tpi_watcher(f, k);
        for (int i = 0; i < p->n_watches; copy += p->watches[i++].n)
            if (memcmp(copy, p->watches[i].bytes, p->watches[i].n) != 0)
                return false;
    }
    return true;
}

enum { GUARDED = TPI_REQUIRES | TPI_LEAF | TPI_VARIABLE | TPI_STATE | TPI_CONTIGUOUS };

/* Type, rank, what a gradient may be asked of. */
static inline bool is_of_kind(const tp_tensor *t, const tpi_extern *e)
{
    const tp_tensor *x = e->tensor;
    return t->dtype == x->dtype && t->rank == x->rank && t->buf && t->status == TP_OK &&
           ((t->flags ^ e->flags) & GUARDED) == 0;
}

static inline bool is_like(const tp_tensor *t, const tpi_extern *e)
{
    bool same = is_of_kind(t, e);
    for (int a = 0; a < t->rank && same; a++)
        same = t->shape[a] == e->tensor->shape[a];
    return same;
}

/* Arguments that are one tensor are so again; none is memory of another, or of the state. */
static bool same_aliases(const tpi_flow *w, tp_tensor *const *in)
{
    for (int i = 0; i < w->n_in; i++) {
        const tpi_extern *e = &w->externs[w->args[i]];
        if (in[i] != in[e->arg])
            return false;
        for (int k = 0; k < w->n_externs; k++) {
            const tpi_extern *x = &w->externs[k];
            const tp_tensor *other = x->from == TPI_FROM_ARG ? in[x->arg] : x->tensor;
            if (k != w->args[i] && other->buf == in[i]->buf)
                return false;
        }
    }
    return true;
}

/* Is it for such arguments, but for their sizes? */
static bool is_for_kinds(const tpi_flow *w, int n_in, tp_tensor *const *in)
{
    if (w->n_in != n_in || w->recording != w->ctx->caller.recording ||
        w->training != w->ctx->caller.training || w->stream != w->ctx->caller.stream)
        return false;
    for (int i = 0; i < n_in; i++)
        if (!is_of_kind(in[i], &w->externs[w->args[i]]))
            return false;
    return same_watched(w->f, w->watched);
}

bool tpi_flow_is_for(const tpi_flow *w, int n_in, tp_tensor *const *in)
{
    bool same = w->n_in == n_in;
    for (int i = 0; i < n_in && same; i++)
        same = tpi_same_shape(in[i], w->externs[w->args[i]].tensor);
    return same && is_for_kinds(w, n_in, in) && same_aliases(w, in);
}

/* Tensors that are themselves, not what is given: the same ones as before. */
bool tpi_flow_same_tensors(const tpi_flow *w, tp_tensor *const *in)
{
    for (int i = 0; i < w->n_externs; i++) {
        const tpi_extern *e = &w->externs[i];
        if (e->from == TPI_FROM_STATE) {
            if (!is_like(e->tensor, e) || e->tensor->buf->assigned)
                return false;
        } else if (e->from == TPI_FROM_ARG) {
            if (!e->general && in[e->arg]->seq != e->seq)
                return false;
            if (in[e->arg]->flags & TPI_STATE && in[e->arg] != e->tensor)
                return false;
        }
    }
    return true;
}

/* The flow for such a call; NULL: there is none yet. */
tpi_flow *tpi_flow_find(const tp_function *f, int n_in, tp_tensor *const *in)
{
    for (int i = 0; i < f->pure.n_flows; i++)
        if (tpi_flow_is_for(f->pure.flows[i], n_in, in))
            return f->pure.flows[i];
    return NULL;
}

/* ---- recordings -------------------------------------------------------------------------- */

static tpi_why why_not_argument(const tp_tensor *x)
{
    if (!(x->flags & TPI_CONTIGUOUS))
        return TPI_WHY_gaps;
    return tpi_is_wrapped(x) && x->flags & TPI_VARIABLE ? TPI_WHY_wrapped : TPI_WHY_none;
}

/* It is told once, and counted: such calls may be all that come. */
static void note_crowded(tp_function *f, tpi_at at)
{
    f->pure.crowded_at = at;
    if (f->pure.crowded_out++ == 0)
        tpi_capture_log(f, at, "not replayed: %s", tpi_why_text(TPI_WHY_kinds));
}

static uint64_t hash_sizes(int n_in, tp_tensor *const *in)
{
    uint64_t h = (uint64_t)n_in;
    for (int i = 0; i < n_in; i++)
        h = tpi_hash_step(h, tpi_hash64(in[i]->shape, sizeof(int64_t) * in[i]->rank));
    return h;
}

/* Are there sizes enough, of which others come more often? Of sequences of hundreds of lengths each would get programs of
 * its own, and hardly come again. Counts the call. */
static bool is_rare(tp_function *f, int n_in, tp_tensor *const *in)
{
    tpi_pure *p = &f->pure;
    int such = 0;
    for (int i = 0; i < p->n_flows; i++)
        such += is_for_kinds(p->flows[i], n_in, in);
    if (such < TPI_FLOWS_AT_ONCE)
        return false;
    const uint64_t sizes = hash_sizes(n_in, in);
    struct tpi_rare *r = p->rare;
    for (int i = 0; i < TPI_MAX_RARE; i++) {
        struct tpi_rare *x = &p->rare[i];
        if (x->sizes == sizes || (r->sizes != sizes && x->calls < r->calls))
            r = x;
    }
    if (r->sizes != sizes)
        *r = (struct tpi_rare){.sizes = sizes};
    r->calls++;
    p->rare_calls++;
    return r->calls == 1 || r->calls * TPI_MAX_FLOWS < p->rare_calls;
}

tpi_trace *tpi_pure_begin(tp_function *f, tpi_at at, int n_in, tp_tensor *const *in)
{
    tpi_pure *p = &f->pure;
    if (p->why)
        return NULL;
    const tpi_flow *w = tpi_flow_find(f, n_in, in);
    if (!w && tpi_may_relaunch(f))
        return tpi_relaunch_begin(f, n_in, in);
    if (!w && p->n_flows == TPI_MAX_FLOWS) {
        note_crowded(f, at);
        return NULL;
    }
    if (!w && is_rare(f, n_in, in))
        return NULL;
    if (w && w->why && w->why != TPI_WHY_memory)
        return NULL;
    tpi_trace *t = tpi_trace_new(f->ctx, f->ctx->caller.seq, n_in, in);
    for (int i = 0; i < n_in && t && !t->why; i++) {
        t->why = why_not_argument(in[i]);
        t->why_at = at;
    }
    return t;
}

static void drop_flow(tp_function *f, tpi_flow *w)
{
    tpi_pure *p = &f->pure;
    int i = 0;
    while (p->flows[i] != w)
        i++;
    for (; i + 1 < p->n_flows; i++)
        p->flows[i] = p->flows[i + 1];
    p->n_flows--;
    tpi_basic_blocks_free(w);
    tpi_flow_free(w);
}

void tpi_pure_reset(tp_function *f)
{
    while (f->pure.n_flows)
        drop_flow(f, f->pure.flows[0]);
    tpi_relaunches_free(f);
    memset(f->pure.rare, 0, sizeof f->pure.rare);
    f->pure.rare_calls = 0;
    f->pure.stale = false;
    f->pure.hooks = f->ctx->hooks_changed;
}

static void stop(tp_function *f, tpi_why why, tpi_at at)
{
    tpi_capture_log(f, at, "not replayed: %s", tpi_why_text(why));
    f->pure.why = why;
    f->pure.why_at = at;
    tpi_pure_reset(f);
}

/* Such calls are replayed no longer. */
static void leave_matched(tpi_flow *w, tpi_why why, tpi_at at)
{
    w->why = why;
    w->why_at = at;
    tpi_basic_blocks_free(w);
    tpi_flow_forget_merges(w);
    tpi_capture_log(w->f, at, "not replayed: %s", tpi_why_text(why));
}

/* Did a read have too many values to be a choice? */
static bool is_number(const tpi_flow *w, tpi_at *at)
{
    for (int i = 0; i < w->n_nodes; i++) {
        const tpi_node *n = &w->nodes[i];
        *at = n->at;
        if (n->kind == TPI_STEP_LOOK && n->n_edges > TPI_MAX_OUTCOMES)
            return true;
    }
    return false;
}

static void fail_impure(tp_function *f, tpi_at at, int n_out, tp_tensor **out)
{
    tp_tensor *failed =
        tpi_fail(f->ctx, at, f->name, TP_E_STATE,
                 "the function is declared pure, but it did something else here than in an "
                 "earlier call, after the same values. Other bytes that it looks at are named "
                 "by tp_function_watch");
    for (int i = 0; i < n_out; i++) {
        tpi_ref(failed);
        tpi_unref(out[i]);
        out[i] = failed;
    }
}

/* May it be that only a first call does it, as C code does that makes its variables when they are first needed? */
static bool prepares(tpi_why why)
{
    return why == TPI_WHY_effects || why == TPI_WHY_retained || why == TPI_WHY_outside;
}

void tpi_pure_end(tp_function *f, tpi_at at, tpi_trace *t, tp_tensor *const *in, int n_out,
                  tp_tensor **out)
{
    tpi_pure *p = &f->pure;
    if (t->partial) {
        tpi_trace_free(t);
        return;
    }
    if (p->stale)
        tpi_pure_reset(f);
    if (t->launches) {
        tpi_relaunch_end(f, at, t, in, n_out, out);
        return;
    }
    const bool first = !p->prepared && p->n_flows == 0 && prepares(t->why);
    p->prepared = true;
    if (first || !tpi_trace_let_go(t)) {
        tpi_trace_free(t);
        return;
    }
    tpi_flow *w = tpi_flow_find(f, t->n_args, in);
    if (!w && p->n_flows < TPI_MAX_FLOWS) {
        w = tpi_flow_new(f, t, f->ctx->caller.recording);
        if (w)
            p->flows[p->n_flows++] = w;
    }
    if (!w || t->why) {
        if (w && !w->why)
            leave_matched(w, t->why, t->why_at);
        tpi_trace_free(t);
        return;
    }
    const int joins = w->n_joins, loops = w->n_loops;
    bool impure, known;
    if (!tpi_flow_add(w, t, &impure, &known)) {
        if (w->why == TPI_WHY_changes || w->why == TPI_WHY_length) {
            leave_matched(w, w->why, w->why == TPI_WHY_length ? w->why_at : at);
            return;
        }
        const tpi_at where = w->why_at.file ? w->why_at : at;
        const bool proven = impure && w->why == TPI_WHY_impure;
        drop_flow(f, w);
        if (impure)
            tpi_capture_log(f, where, "%s", tpi_why_text(TPI_WHY_impure));
        if (impure && ++p->impure >= TPI_MAX_IMPURE)
            stop(f, TPI_WHY_impure, where);
        if (proven && f->options.check)
            fail_impure(f, where, n_out, out);
        return;
    }
    if (known) {
        tpi_basic_blocks_limit(w);
        tpi_capture_log(f, at,
                        "each step is known: a new number of turns, or combination of ways");
        return;
    }
    tpi_basic_blocks_make(w);
    tpi_capture_log(f, at, "recording %d: %d blocks, %d joins (%+d), %d loops (%+d)%s",
                    w->n_traces, w->blocks ? w->blocks->n : 0, w->n_joins, w->n_joins - joins,
                    w->n_loops, w->n_loops - loops,
                    t->recurses       ? "; no joins, as it calls itself"
                    : w->caution == 0 ? ""
                    : w->caution == 1 ? "; no loops, which would contradict"
                                      : "; no joins, which would contradict");
    if (w->why)
        tpi_capture_log(f, w->why_at, "not replayed: %s", tpi_why_text(w->why));
    tpi_at where;
    if (is_number(w, &where))
        stop(f, TPI_WHY_read, where);
}
