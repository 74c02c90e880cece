/* Blocks: the statements of tapir/control.h, and their run on concrete tensors. */
#include "control/open_block.h"
#include "op/call.h"
#include "op/turn_values.h"

#include <stdarg.h>
#include <string.h>

enum { MAX_VARS = 64 };

/* ---- life ------------------------------------------------------------------------------------ */

static void block_free(tp_block *b)
{
    tpi_mem *m = &b->ctx->mem;
    for (int i = 0; i < b->n && b->is_loop; i++)
        tpi_unref(b->before[i]);
    for (int i = 0; i < b->n_each; i++) {
        tpi_unref(b->each[i].xs);
        if (!b->symbolic)
            tpi_unref(b->each[i].rows);
        tpi_unref(b->each[i].row);
    }
    for (int i = 0; i < b->n_emit; i++) {
        for (int k = 0; k < b->emit[i].n; k++)
            tpi_unref(b->emit[i].items[k]);
        tpi_give_back(m, b->emit[i].items, (size_t)b->emit[i].size * sizeof(tp_tensor *));
    }
    for (int i = 0; i < b->n_writes; i++)
        tpi_unref(b->writes[i].variable);
    tpi_unref(b->pred);
    tpi_give_back(m, b->each, (size_t)b->each_size * sizeof *b->each);
    tpi_give_back(m, b->emit, (size_t)b->emit_size * sizeof *b->emit);
    tpi_give_back(m, b->writes, (size_t)b->writes_size * sizeof *b->writes);
    const size_t n = (size_t)b->n;
    tpi_give_back(m, b->vars, n * sizeof *b->vars);
    tpi_give_back(m, b->before, 2 * n * sizeof *b->before);
    tpi_give_back(m, b->strays, n * sizeof *b->strays);
    tpi_give_back(m, b, sizeof *b);
}

/* The scope of the turn that is open ends, and what the turn set in the context. */
static void close_scope(tp_block *b)
{
    tp_ctx *ctx = b->ctx;
    if (b->scopes < 0)
        return;
    ctx->caller.scope_floor = b->floor;
    ctx->caller.function = b->function;
    while (ctx->caller.n_scopes >= b->scopes)
        tp_scope_end(ctx);
    b->scopes = -1;
}

static bool open_scope(tp_block *b)
{
    tp_ctx *ctx = b->ctx;
    if (tp_scope_begin(ctx) != TP_OK)
        return false;
    b->floor = ctx->caller.scope_floor;
    b->function = ctx->caller.function;
    b->scopes = ctx->caller.scope_floor = ctx->caller.n_scopes;
    ctx->caller.function = b->what;
    memset(b->strays, 0, (size_t)b->n * sizeof *b->strays);
    return true;
}

static bool is_listed(const tp_block *b, tp_tensor **place)
{
    for (int i = 0; i < b->n; i++)
        if (b->vars[i] == place)
            return true;
    return false;
}

static bool ends_with_scope(const tp_block *b, const tp_tensor *t)
{
    const tp_ctx *ctx = b->ctx;
    for (int32_t k = ctx->caller.scopes[b->scopes - 1].mark; k < ctx->caller.n_owned; k++)
        if (ctx->caller.owned[k] == t)
            return true;
    return false;
}

/* Variables of blocks outside may hold what was made in the turn, though this block does not list
 * them. It lives on, so that nothing else is ever taken for it, and is refused when it leaves that
 * block; of a block in a graph it becomes a node of its body, which nobody outside may read. */
static void keep_strays(tp_block *b, const tpi_body *body)
{
    for (tp_block *o = b->outer; o; o = o->outer)
        for (int i = 0; i < o->n; i++) {
            tp_tensor **place = o->vars[i];
            if (is_listed(b, place) || !ends_with_scope(b, *place))
                continue;
            if (body)
                *place = tpi_graph_lift(body->graph, b->at, *place);
            tp_keep(*place);
            o->strays[i] = (tpi_stray){*place, b->at.line};
        }
}

/* Closes b, the innermost. */
static void unlink_block(tp_block *b)
{
    close_scope(b);
    b->ctx->caller.blocks = b->outer;
    if (b->symbolic)
        b->ctx->tracing = b->traced;
}

static void pop(tp_block *b)
{
    unlink_block(b);
    block_free(b);
}

/* The innermost block, whose end was never reached, is given up. It stays in memory, since the
 * statement may still ask for it. */
static void leave(tp_ctx *ctx, const char *why)
{
    tp_block *b = ctx->caller.blocks;
    unlink_block(b);
    b->over = true;
    b->outer = ctx->left;
    ctx->left = b;
    tpi_fail_status(ctx, b->at, b->what, TP_E_STATE, "the block %s: it has to end at its brace",
                    why ? why : "was left by break, goto or return");
}

static void free_left(tp_ctx *ctx)
{
    while (ctx->left) {
        tp_block *b = ctx->left;
        ctx->left = b->outer;
        block_free(b);
    }
}

static tp_tensor *refuse_variable(tp_ctx *ctx, tpi_at at, const char *what, const char *name)
{
    const tp_block *b = ctx->caller.blocks;
    return tpi_fail(
        ctx, at, what, TP_E_STATE,
        "the variable \"%s\" would be made in the %s of line %d: a new one each time "
        "it runs, but one for all in a graph. Make it before the block",
        name, b->what, b->at.line);
}

/* The statement of a block that was given up asks for it. */
static bool drop(tp_block **at)
{
    tp_block **link = &(*at)->ctx->left;
    while (*link != *at)
        link = &(*link)->outer;
    *link = (*at)->outer;
    block_free(*at);
    *at = NULL;
    return false;
}

/* Blocks inside b that were left are given up; false: b itself was, and *at is NULL, or there is none. */
static bool is_innermost(tp_block **at)
{
    tp_block *b = at ? *at : NULL;
    if (!b)
        return false;
    if (b->over)
        return drop(at);
    while (b->ctx->caller.blocks != b)
        leave(b->ctx, NULL);
    return true;
}

void tp_block_left(tp_block **at)
{
    if (is_innermost(at)) {
        leave((*at)->ctx, NULL);
        drop(at);
    }
}

static tp_ctx *context_of(int n, tp_tensor **const *vars)
{
    tp_ctx *ctx = NULL;
    for (int i = 0; i < n && !ctx; i++)
        ctx = tpi_is_live(*vars[i]) ? (*vars[i])->ctx : NULL;
    return ctx;
}

static void set_all(int n, tp_tensor **const *vars, tp_tensor *t)
{
    for (int i = 0; i < n; i++)
        *vars[i] = t;
}

static tp_block *new_block(tp_ctx *ctx, tpi_at at, const char *what, int n,
                           tp_tensor **const *vars)
{
    tpi_mem *m = &ctx->mem;
    tp_block *b = tpi_take(m, sizeof *b);
    tp_tensor ***places = tpi_take(m, (size_t)n * sizeof *places);
    tp_tensor **before = tpi_take(m, 2 * (size_t)n * sizeof *before);
    tpi_stray *strays = tpi_take(m, (size_t)n * sizeof *strays);
    if (!b || !places || !before || !strays) {
        tpi_give_back(m, b, sizeof *b);
        tpi_give_back(m, places, (size_t)n * sizeof *places);
        tpi_give_back(m, before, 2 * (size_t)n * sizeof *before);
        tpi_give_back(m, strays, (size_t)n * sizeof *strays);
        set_all(n, vars, tpi_no_memory(ctx, at, what));
        return NULL;
    }
    *b = (tp_block){.ctx = ctx, .at = at, .what = what, .n = n, .vars = places, .scopes = -1};
    b->before = before;
    b->then_at = before + n;
    b->strays = strays;
    for (int i = 0; i < n; i++) {
        places[i] = vars[i];
        before[i] = NULL;
    }
    b->outer = ctx->caller.blocks;
    ctx->caller.blocks = b;
    static const tpi_block_rules rules = {leave, free_left, refuse_variable, tpi_block_assign};
    ctx->block_rules = &rules;
    b->traced = ctx->tracing;
    return b;
}

void tpi_block_fail(tp_block *b, tp_tensor *failed)
{
    b->failed = true;
    if (b->ctx->caller.n_scopes == b->scopes)
        tp_keep(failed);
    set_all(b->n, b->vars, failed);
    for (int i = 0; i < b->n_emit; i++)
        *b->emit[i].place = failed;
}

void *tpi_block_room(tp_block *b, void *v, int n, int *size, size_t each)
{
    if (n < *size)
        return v;
    const int more = *size ? *size * 2 : 4;
    void *p = tpi_resize(&b->ctx->mem, v, (size_t)*size * each, (size_t)more * each);
    if (p)
        *size = more;
    else
        tpi_block_fail(b, tpi_no_memory(b->ctx, b->at, b->what));
    return p;
}

/* The block is over, for good or not. */
static bool end_block(tp_block **b)
{
    pop(*b);
    *b = NULL;
    return false;
}

/* The variables outlive the scopes that are open in the block, and what may be theirs. */
static bool stop(tp_block **b, tp_tensor *failed)
{
    tp_ctx *ctx = (*b)->ctx;
    tpi_ref(failed);
    close_scope(*b);
    const bool owned =
        failed->ctx != ctx || failed == &ctx->nil || failed->graph || failed->owned_at >= 0;
    if (owned)
        tpi_unref(failed);
    else if (!tpi_own(failed))
        failed = &ctx->nil;
    tpi_block_fail(*b, failed);
    return end_block(b);
}

/* ---- variables --------------------------------------------------------------------------------- */

/* Holds the variables of a loop as they are now. */
static void hold_before(tp_block *b)
{
    for (int i = 0; i < b->n; i++) {
        tp_tensor *t = *b->vars[i];
        tpi_ref(t);
        tpi_unref(b->before[i]);
        b->before[i] = t;
    }
}

tp_tensor *tpi_refuse_var(const tp_block *b, int i)
{
    const tp_tensor *t = *b->vars[i];
    if (!t || b->strays[i].tensor != t || t->status != TP_OK)
        return tpi_refuse_operand(b->ctx, b->at, b->what, i, t);
    return tpi_refuse_ended(b->ctx, b->at, b->what, t, b->strays[i].line);
}

/* Loops need every variable to have a value; its failure is theirs. */
static tp_tensor *refuse_vars(const tp_block *b)
{
    tp_tensor *failed = NULL;
    for (int i = 0; i < b->n && !failed; i++)
        failed = tpi_refuse_operand(b->ctx, b->at, b->what, i, *b->vars[i]);
    return failed;
}

tp_tensor *tpi_refuse_each(const tp_block *b)
{
    return tpi_fail(b->ctx, b->at, b->what, TP_E_STATE,
                    "a turn assigns what the loop goes over (tp_each): go over a value that is "
                    "computed from the variable before the loop");
}

tp_tensor *tpi_block_value(tpi_at at, tp_tensor *t)
{
    if (t->graph || !(t->flags & TPI_VARIABLE))
        return t;
    tp_ctx *ctx = t->ctx;
    tp_tensor *copy = tpi_apply(at, &tpi_op_copy, TPI_IN(t), NULL);
    if (copy->status != TP_OK || copy->graph || copy->in || ctx->frame)
        return copy;
    /* it says what it is a copy of: a graph that reads it later reads the variable at each run */
    copy->flags |= TPI_CONSTANT; /* to gradients: it was not recorded for them */
    return tpi_record(copy, &tpi_op_copy, 1, &t, NULL, 0) ? copy : tpi_no_memory(ctx, at, NULL);
}

/* Does variable i keep the type it had before this turn? */
static tp_tensor *refuse_change(const tp_block *b, int i)
{
    const tp_tensor *was = b->before[i], *is = *b->vars[i];
    if (was->dtype == is->dtype && tpi_same_shape(was, is))
        return NULL;
    return tpi_fail(
        b->ctx, b->at, b->what, TP_E_SHAPE,
        "variable %d was %s %s and is %s %s after turn %lld: it has to keep its type "
        "and sizes",
        i, tp_dtype_name((tp_dtype)was->dtype), SHAPE(was), tp_dtype_name((tp_dtype)is->dtype),
        SHAPE(is), (long long)b->turn);
}

/* ---- a turn on concrete tensors ------------------------------------------------------------------ */

/* What a turn was computed from ends at what is older, and at what the loop goes over. */
static bool is_outside(void *user, const tp_tensor *t)
{
    const tp_block *b = user;
    bool outside = t->seq < b->entry;
    for (int i = 0; i < b->n_each && !outside && t->op == &tpi_op_row; i++)
        outside = t->in && t->in[0] == b->each[i].rows;
    return outside;
}

/* To gradients a variable enters a loop, also one of no turns, and each turn, as a node of its own:
 * what else reads the same tensor comes before or after it in every sum. */
static bool enter_variables(tp_block *b)
{
    for (int i = 0; i < b->n; i++) {
        tp_tensor *t = *b->vars[i];
        if (!b->ctx->caller.recording || t->graph || t->dtype < TP_F32 ||
            !(t->flags & TPI_REQUIRES))
            continue;
        *b->vars[i] = tpi_enter_turns(b->at, t);
        if ((*b->vars[i])->status != TP_OK)
            return false;
    }
    return true;
}

/* The variables of a loop as values, which assignments in turns do not change. */
static bool enter_loop(tp_block *b)
{
    bool ok = true;
    for (int i = 0; i < b->n && ok; i++) {
        *b->vars[i] = tpi_block_value(b->at, *b->vars[i]);
        ok = (*b->vars[i])->status == TP_OK;
    }
    return ok && enter_variables(b);
}

static bool begin_turn(tp_block *b)
{
    for (int i = 0; i < b->n_each; i++) {
        tpi_unref(b->each[i].row);
        b->each[i].row = NULL;
    }
    if (b->is_loop)
        hold_before(b);
    b->entry = b->ctx->caller.seq;
    return open_scope(b) && (!b->is_loop || enter_variables(b));
}

/* A scope of the user's is open where the block ends; the failed tensor is of the scope outside. */
static tp_tensor *refuse_scope(tp_block *b)
{
    close_scope(b);
    return tpi_fail(b->ctx, b->at, b->what, TP_E_STATE,
                    "a scope that was begun in the block is still open at its end");
}

/* What the variables are at the end of a turn, or side: of the types that they have to be, and
 * values. NULL, or the failed tensor. */
static tp_tensor *take_values(tp_block *b)
{
    tp_ctx *ctx = b->ctx;
    for (int i = 0; i < b->n; i++) {
        tp_tensor *t = *b->vars[i];
        if (!t && !b->is_loop) {
            b->then_at[i] = NULL;
            continue;
        }
        tp_tensor *failed = tpi_refuse_var(b, i);
        if (!failed && b->is_loop)
            failed = refuse_change(b, i);
        if (failed)
            return failed;
        int k = 0; /* two variables that are one tensor stay one */
        while (k < i && b->then_at[k] != t)
            k++;
        b->then_at[i] = t;
        *b->vars[i] = k < i ? *b->vars[k] : tpi_block_value(b->at, t);
        if ((*b->vars[i])->status != TP_OK)
            return *b->vars[i];
    }
    for (int i = 0; i < b->n_emit; i++) /* to gradients it is handed out last */
        if (b->emit[i].copied && b->emit[i].n > b->turn)
            b->emit[i].items[b->turn]->seq = ctx->caller.seq++;
    return NULL;
}

/* The places of what a turn hands out: variables that have a value, then elements. Returns how many;
 * the first *n_vars are variables. */
static int places_of(tp_block *b, int *n_vars, tp_tensor ***place)
{
    int n = 0;
    for (int i = 0; i < b->n; i++)
        if (*b->vars[i])
            place[n++] = b->vars[i];
    *n_vars = n;
    for (int i = 0; i < b->n_emit; i++)
        if (b->emit[i].n > b->turn)
            place[n++] = &b->emit[i].items[b->turn];
    return n;
}

/* They go to the scope outside, as the results of one call to gradients. Elements have references
 * of their own. */
static bool hand_out(tp_block *b)
{
    tp_ctx *ctx = b->ctx;
    const size_t most = (size_t)(b->n + b->n_emit);
    tp_tensor ***place = tpi_take(&ctx->mem, most * sizeof *place);
    tp_tensor **inner = tpi_take(&ctx->mem, most * sizeof *inner);
    tp_tensor **out = tpi_take(&ctx->mem, most * sizeof *out);
    const bool room = place && inner && out;
    int n_vars = 0, n = room ? places_of(b, &n_vars, place) : 0;
    for (int i = 0; i < n; i++) {
        inner[i] = out[i] = *place[i];
        tpi_ref(inner[i]);
    }
    for (int i = 0; i < n; i++)
        tp_keep(inner[i]);
    keep_strays(b, NULL);
    close_scope(b);
    const bool ok = room && tpi_call_tie_turn(ctx, b->at, is_outside, b, n, out);
    for (int i = 0; i < n && ok; i++) {
        if (i >= n_vars) {
            tpi_ref(out[i]);
            tpi_unref(*place[i]);
        }
        *place[i] = out[i];
    }
    for (int i = 0; i < n; i++)
        tpi_unref(inner[i]);
    tpi_give_back(&ctx->mem, place, most * sizeof *place);
    tpi_give_back(&ctx->mem, inner, most * sizeof *inner);
    tpi_give_back(&ctx->mem, out, most * sizeof *out);
    return ok;
}

/* The end of a turn, or of the side of an if. */
static tp_tensor *end_turn(tp_block *b)
{
    if (b->ctx->caller.n_scopes != b->scopes)
        return refuse_scope(b);
    tp_tensor *failed = take_values(b);
    if (failed)
        return failed;
    return hand_out(b) ? NULL : tpi_no_memory(b->ctx, b->at, b->what);
}

/* A tensor of a block that has ended, among the variables and the condition; NULL: none. */
static tp_tensor *refuse_over(const tp_block *b, tp_tensor *pred)
{
    for (int i = -1; i < (b->is_loop ? b->n : 0); i++) {
        const tp_tensor *t = i < 0 ? pred : *b->vars[i];
        const tp_graph *g = t && t->graph ? b->ctx->tracing : NULL;
        if (g && !tpi_graph_within(g, t->graph))
            return tpi_refuse_outside(g, b->at, b->what, t);
        if (t && tpi_is_over(t->graph))
            return tpi_refuse_outside(t->graph, b->at, b->what, t);
    }
    return NULL;
}

/* ---- tp_if ----------------------------------------------------------------------------------------- */

/* The condition as one bool of rank 0, or the failed tensor. */
static tp_tensor *as_pred(tp_ctx *ctx, tpi_at at, const char *what, tp_tensor *pred)
{
    tp_tensor *failed = tpi_refuse_operand(ctx, at, what, 0, pred);
    if (failed)
        return failed;
    bool one = true;
    for (int i = 0; i < pred->rank; i++)
        one &= pred->shape[i] == 1;
    if (pred->dtype != TP_BOOL || !one)
        return tpi_fail(
            ctx, at, what, TP_E_DTYPE,
            "the condition is %s %s, not one bool: compare (tp_gt, ...) or reduce it",
            tp_dtype_name((tp_dtype)pred->dtype), SHAPE(pred));
    if (ctx->tracing && !pred->graph && pred->flags & TPI_VARIABLE)
        pred = tpi_graph_lift(ctx->tracing, at, pred); /* a turn may have assigned it */
    return pred->rank ? tp_reshape_at(at.file, at.line, pred, 0, NULL) : pred;
}

/* What a concrete condition says. The failed tensor, when it shows only now that it has none, or C is not
 * to go on; else NULL. */
static tp_tensor *ask(const tp_block *b, tp_tensor *pred, bool *truth)
{
    *truth = tp_truth_at(b->at.file, b->at.line, pred);
    return pred->status == TP_OK ? tpi_refuse_interrupted(b->ctx, b->at, b->what) : pred;
}

tp_block *tpi_begin_if(tpi_at at, tp_tensor *pred, int n, tp_tensor **const *vars)
{
    static const char what[] = "tp_if";
    tp_ctx *ctx = tpi_is_live(pred) ? pred->ctx : context_of(n, vars);
    if (!ctx) {
        set_all(n, vars, (tp_tensor *)&tpi_nil);
        return NULL;
    }
    tp_tensor *p = as_pred(ctx, at, what, pred);
    if (p->status != TP_OK) {
        set_all(n, vars, p);
        return NULL;
    }
    tp_block *b = new_block(ctx, at, what, n, vars);
    if (!b)
        return NULL;
    b->symbolic = p->graph != NULL;
    if (b->symbolic) {
        b->g = tpi_graph_here(p);
        tp_tensor *over = refuse_over(b, p);
        p = over ? over : tpi_graph_lift(b->g, at, p);
        if (p->status != TP_OK) {
            stop(&b, p);
            return NULL;
        }
        tpi_ref(p);
        b->pred = p;
    } else {
        tp_tensor *failed = ask(b, p, &b->truth);
        if (failed)
            stop(&b, failed);
    }
    return b;
}

/* The variables of a list that a NULL ends; -1: too many. */
#define TAKE_VARS(first, last, vars, n)                                                        \
    do {                                                                                       \
        va_list ap;                                                                            \
        va_start(ap, last);                                                                    \
        for (tp_tensor **v = (first) ? (first) : va_arg(ap, tp_tensor **); v && (n) >= 0;      \
             v = va_arg(ap, tp_tensor **)) {                                                   \
            if ((n) < MAX_VARS)                                                                \
                (vars)[(n)++] = v;                                                             \
            else                                                                               \
                (n) = -1;                                                                      \
        }                                                                                      \
        va_end(ap);                                                                            \
    } while (0)

/* More variables than a block can have: those that were read fail. */
static tp_block *too_many(tpi_at at, const char *what, tp_tensor **const *vars)
{
    tp_ctx *ctx = context_of(MAX_VARS, vars);
    set_all(
        MAX_VARS, vars,
        ctx ? tpi_fail(ctx, at, what, TP_E_VALUE, "a block has at most %d variables", MAX_VARS)
            : (tp_tensor *)&tpi_nil);
    return NULL;
}

tp_block *tp_if_begin(const char *file, int line, tp_tensor *pred, ...)
{
    tp_tensor **vars[MAX_VARS], **none = NULL;
    int n = 0;
    TAKE_VARS(none, pred, vars, n);
    return n < 0 ? too_many(TPI_AT(file, line), "tp_if", vars)
                 : tpi_begin_if(TPI_AT(file, line), pred, n, vars);
}

/* Variables at the beginning of a side: as before the block. */
static bool open_side(tp_block *b, int side)
{
    for (int i = 0; i < b->n; i++) {
        if (side == 0)
            b->before[i] = *b->vars[i];
        else
            b->then_at[i] = *b->vars[i];
        *b->vars[i] = b->before[i];
    }
    return tpi_trace_open(b, side) && open_scope(b);
}

bool tp_if_next(tp_block **at)
{
    if (!is_innermost(at))
        return false;
    tp_block *b = *at;
    tp_ctx *ctx = b->ctx;
    const int stage = b->stage++;
    if (!b->symbolic) {
        if (stage == 0)
            return begin_turn(b) || stop(at, tpi_no_memory(ctx, b->at, b->what));
        tp_tensor *failed = end_turn(b);
        return failed ? stop(at, failed) : end_block(at);
    }
    if (stage > 0) {
        const bool balanced = ctx->caller.n_scopes == b->scopes;
        if (!balanced)
            return stop(at, refuse_scope(b));
        if (!tpi_trace_close(b, stage - 1, NULL))
            return end_block(at);
        keep_strays(b, b->body[stage - 1]);
        close_scope(b);
    }
    if (stage < 2) {
        if (open_side(b, stage))
            return true;
        return b->failed ? end_block(at) : stop(at, tpi_no_memory(ctx, b->at, b->what));
    }
    tpi_trace_finish(b);
    return end_block(at);
}

bool tp_if_side(tp_block *b)
{
    return b && (b->symbolic ? b->stage == 1 : b->truth);
}

/* ---- loops ------------------------------------------------------------------------------------------ */

static tp_block *begin_loop(tpi_at at, const char *what, int n, tp_tensor **const *vars)
{
    tp_ctx *ctx = context_of(n, vars);
    if (!ctx) {
        set_all(n, vars, (tp_tensor *)&tpi_nil);
        return NULL;
    }
    tp_block *b = new_block(ctx, at, what, n, vars);
    if (!b)
        return NULL;
    b->is_loop = true;
    b->began = ctx->caller.seq;
    tp_tensor *failed = refuse_vars(b);
    if (failed)
        stop(&b, failed);
    return b;
}

/* The graph the loop is part of: of the condition, or of a variable; NULL: none. */
static tp_graph *graph_of(const tp_block *b, const tp_tensor *pred)
{
    tp_graph *g = pred ? tpi_graph_here(pred) : NULL;
    for (int i = 0; i < b->n && !g; i++)
        g = tpi_graph_here(*b->vars[i]);
    for (int i = 0; i < b->n && !g && b->ctx->tracing; i++) /* a turn may assign it */
        g = (*b->vars[i])->flags & (TPI_VARIABLE | TPI_REQUIRES) ? b->ctx->tracing : NULL;
    /* what is stacked in it, or set by its turns, may be of one sample */
    return g || !tpi_is_transformed(b->ctx->tracing) ? g : b->ctx->tracing;
}

static bool open_loop(tp_block **at, tp_graph *g)
{
    tp_block *b = *at;
    tp_tensor *over = refuse_over(b, b->pred);
    if (over)
        return stop(at, over);
    b->symbolic = true;
    b->g = g;
    hold_before(b);
    if (tpi_trace_open(b, 0) && open_scope(b))
        return true;
    return b->failed ? end_block(at) : stop(at, tpi_no_memory(b->ctx, b->at, b->what));
}

/* The one turn of a loop in a graph has run. */
static bool close_loop(tp_block **at, tp_tensor *pred)
{
    tp_block *b = *at;
    tp_ctx *ctx = b->ctx;
    if (ctx->caller.n_scopes != b->scopes)
        return stop(at, refuse_scope(b));
    if (!tpi_trace_close(b, 0, pred))
        return end_block(at);
    keep_strays(b, b->body[0]);
    close_scope(b);
    tpi_trace_finish(b);
    return end_block(at);
}

/* All turns on concrete tensors are over: what was stacked is made one tensor. */
static bool finish_turns(tp_block **at)
{
    tp_block *b = *at;
    tp_tensor *failed = NULL;
    for (int i = 0; i < b->n_emit && !failed; i++) {
        tpi_emit *e = &b->emit[i];
        if (e->n != b->turn) {
            failed = tpi_fail(b->ctx, b->at, b->what, TP_E_STATE,
                              "a turn gave no element to what tp_emit stacks");
            break;
        }
        for (int k = 0; b->back && k < e->n / 2; k++) {
            tp_tensor *t = e->items[k];
            e->items[k] = e->items[e->n - 1 - k];
            e->items[e->n - 1 - k] = t;
        }
        *e->place = e->n ? tpi_apply(b->at, &tpi_op_stack, e->n, e->items, NULL)
                         : (tp_tensor *)&tpi_nil;
        failed = (*e->place)->status != TP_OK ? *e->place : NULL;
    }
    return failed ? stop(at, failed) : end_block(at);
}

/* Ends the turn that has run, and begins the next if there is one. */
static bool next_turn(tp_block **at, bool more)
{
    tp_block *b = *at;
    tp_tensor *failed = NULL;
    if (b->stage++ > 0) {
        failed = end_turn(b);
        b->turn++;
    } else if (!enter_loop(b)) {
        failed = tpi_no_memory(b->ctx, b->at, b->what);
    }
    if (failed)
        return stop(at, failed);
    if (!more)
        return finish_turns(at);
    failed = tpi_refuse_turn(b->ctx, b->at, b->what, b->turn);
    if (failed)
        return stop(at, failed);
    return begin_turn(b) || stop(at, tpi_no_memory(b->ctx, b->at, b->what));
}

tp_block *tpi_begin_while(tpi_at at, int n, tp_tensor **const *vars)
{
    return begin_loop(at, "tp_while", n, vars);
}

tp_block *tp_while_begin(const char *file, int line, tp_tensor **var, ...)
{
    tp_tensor **vars[MAX_VARS];
    int n = 0;
    TAKE_VARS(var, var, vars, n);
    return n < 0 ? too_many(TPI_AT(file, line), "tp_while", vars)
                 : tpi_begin_while(TPI_AT(file, line), n, vars);
}

bool tp_while_next(tp_block **at, tp_tensor *pred)
{
    if (!is_innermost(at))
        return false;
    tp_block *b = *at;
    tp_tensor *p = refuse_vars(b); /* first: the condition is of them */
    if (!p)
        p = as_pred(b->ctx, b->at, b->what, pred);
    if (p->status != TP_OK)
        return stop(at, p);
    tp_graph *g = b->stage == 0 ? graph_of(b, p) : NULL;
    if (b->symbolic)
        return close_loop(at, p);
    if (g) {
        p = tpi_graph_lift(g, b->at, p);
        if (p->status != TP_OK)
            return stop(at, p);
        tpi_ref(p);
        b->pred = p;
        b->stage++;
        return open_loop(at, g);
    }
    if (p->graph)
        return stop(at,
                    tpi_fail(b->ctx, b->at, b->what, TP_E_SYMBOLIC,
                             "the condition became symbolic after turn %lld: make a variable "
                             "symbolic before the loop (tp_graph_read)",
                             (long long)b->turn));
    bool more;
    tp_tensor *failed = ask(b, p, &more);
    if (!failed && b->ctx->frame) /* what was pending may have failed by now */
        failed = refuse_vars(b);
    return failed ? stop(at, failed) : next_turn(at, more);
}

tp_block *tpi_begin_for(tpi_at at, bool back, int64_t count, int n, tp_tensor **const *vars)
{
    tp_block *b = begin_loop(at, "tp_for", n, vars);
    if (!b)
        return NULL;
    b->counted = true;
    b->back = back;
    b->count = count;
    if (tpi_is_spoilt_size(count))
        stop(&b, tpi_fail_spoilt(b->ctx, at, b->what, TP_E_VALUE, count));
    else if (count < 0 && !tpi_dim_is_symbolic(count))
        stop(&b,
             tpi_fail(b->ctx, at, b->what, TP_E_VALUE,
                      "%lld is no number of turns: pass 0 or more, or a symbolic size as it is "
                      "(tp_dim_add and the like compute with those)",
                      (long long)count));
    return b;
}

tp_block *tp_for_begin(const char *file, int line, int back, int64_t count, ...)
{
    tp_tensor **vars[MAX_VARS], **none = NULL;
    int n = 0;
    TAKE_VARS(none, count, vars, n);
    return n < 0 ? too_many(TPI_AT(file, line), "tp_for", vars)
                 : tpi_begin_for(TPI_AT(file, line), back, count, n, vars);
}

bool tp_for_next(tp_block **at)
{
    if (!is_innermost(at))
        return false;
    tp_block *b = *at;
    if (b->symbolic)
        return close_loop(at, NULL);
    const bool sized = tpi_dim_is_symbolic(b->count);
    tp_graph *g = b->stage == 0 ? graph_of(b, NULL) : NULL;
    if (sized && !g && b->ctx->tracing)
        g = b->ctx->tracing;
    if (sized && !g)
        return stop(at, tpi_fail(b->ctx, b->at, b->what, TP_E_SYMBOLIC,
                                 "the count is symbolic and no variable is: make one symbolic "
                                 "before the loop (tp_graph_read)"));
    if (g) {
        if (sized && !tpi_dim_is_size(g->dims, b->count))
            return stop(at, tpi_fail(b->ctx, b->at, b->what, TP_E_SHAPE,
                                     "the count is no size of the variables' graph"));
        b->stage++;
        return open_loop(at, g);
    }
    return next_turn(at, (b->stage == 0 ? b->turn : b->turn + 1) < b->count);
}
