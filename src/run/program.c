/* Programs: made of a graph for given names, and run. */
#include "base/env.h"
#include "base/float_mode.h"
#include "ir/body.h"
#include "op/fused.h"
#include "pass/leave.h"
#include "pass/optimize.h"
#include "pass/prune.h"
#include "plan/budget.h"
#include "plan/cut.h"
#include "run/patch.h"
#include "run/tiles.h"
#include "run/trial.h"

#include <string.h>

/* Where programs are linked, those of fused composites are. */
__attribute__((used)) static tp_tensor *(*const fused)(tp_ctx *ctx, tpi_at at,
                                                       const tpi_fused_call *c) = tpi_fused_run;

/* ---- making ------------------------------------------------------------------------------------ */

static void program_free(tpi_owned *o)
{
    tp_program *p = (tp_program *)o;
    tpi_mem *m = &p->ctx->mem;
    while (p->runners)
        tp_runner_free(p->runners);
    tpi_build_free(p->c.build);
    for (int i = 0; i < p->n_commits; i++)
        tpi_unref(p->commits[i].variable);
    tpi_cuts_free(p->cuts);
    tpi_tiles_free(p->tiles);
    tpi_plan_free(p->plan);
    if (p->watch)
        p->watch->free(m, p->watch);
    if (p->c.source.mem)
        tpi_str_free(&p->c.source);
    tpi_give_back(m, p->memory.arena, p->memory.arena_size);
    tpi_buf_unref(p->ctx, p->constants.packed);
    tp_graph_free(p->graph);
    tpi_bump lists = p->lists; /* p is in it */
    tpi_bump_free(&lists);
}

void tp_program_free(tp_program *p)
{
    if (!p)
        return;
    tpi_object_remove(&p->owned);
    program_free(&p->owned);
}

static tp_tensor *named(tp_graph *g, tpi_at at, const char *what, const char *name)
{
    tp_tensor *t = name ? tpi_graph_by_name(g, name, strlen(name)) : NULL;
    if (!t)
        tpi_fail_status(g->ctx, at, what, TP_E_NAME, "the graph has no node \"%s\"",
                        name ? name : "(null)");
    return t;
}

static bool is_fed(void *user, const tp_tensor *t)
{
    const tp_program *p = user;
    for (int i = 0; i < p->n_feeds; i++)
        if (p->feeds[i] == t)
            return true;
    return false;
}

/* Constants of a graph that lie in `from` move to *copy, which is made when the first one is met. */
static bool move_constants(tp_graph *g, tpi_buf *from, tpi_buf **copy)
{
    bool ok = true;
    for (int i = 0; i < g->n_nodes && ok; i++) {
        const tp_tensor *node = g->nodes[i];
        tpi_body *bodies[2];
        const int n = tpi_is_block(node) ? tpi_bodies_of(node, bodies) : 0;
        for (int k = 0; k < n && ok; k++)
            ok = move_constants(bodies[k]->graph, from, copy);
        if (!tpi_constant_of(node) || node->in[0]->buf != from)
            continue;
        *copy = *copy ? *copy : tpi_buf_copy(g->ctx, from);
        ok = *copy;
        if (!ok)
            break;
        tp_tensor *t = node->in[0];
        t->data = (char *)(*copy)->data + (t->data - (char *)from->data);
        t->buf = *copy;
        (*copy)->refs++;
        from->refs--; /* it is the variable's too */
    }
    return ok;
}

static bool unlend(tp_ctx *ctx, tpi_buf *b)
{
    tpi_buf *copy = NULL;
    bool ok = true;
    for (tpi_owned *o = ctx->objects.next; o != &ctx->objects && ok; o = o->next)
        if (o->free == program_free)
            ok = move_constants(((tp_program *)o)->graph, b, &copy);
    tpi_buf_unref(ctx, copy);
    b->lent = !ok;
    return ok;
}

static bool is_among(const tpi_nodes *l, const tp_tensor *t)
{
    return t->slot >= 0 && t->slot < l->n && l->v[t->slot] == t;
}

/* Does `t` assign what a block assigned? Then it is done whenever the block is run. */
static bool goes_with(const tpi_nodes *needed, const tp_tensor *t)
{
    if (!tpi_assigned_of(t) || !tpi_block_of(t->in[1]))
        return false;
    const tpi_index_attrs *a = t->in[1]->attrs;
    return a->index < tpi_n_writes_of(t->in[1]->in[0]) && is_among(needed, t->in[1]->in[0]);
}

/* Nodes of the user's graph: fetches, then every assign node they need. */
static bool find_roots(tp_program *p, tp_graph *g, tpi_at at, tpi_nodes *roots, int n,
                       const char *const *fetches)
{
    for (int i = 0; i < n; i++) {
        tp_tensor *t = named(g, at, p->what, fetches[i]);
        if (!t)
            return false;
        tpi_nodes_push(roots, t);
    }
    p->n_fetches = n;
    bool ok = !roots->failed, more = true;
    while (ok && more) { /* an assignment may need another block */
        tpi_nodes needed = {.ctx = p->ctx, .way = TPI_WAY_VALUES};
        ok = tpi_collect(&needed, roots->n, roots->v, is_fed, p);
        for (int i = 0; i < needed.n && ok; i++)
            needed.v[i]->slot = i;
        const int before = roots->n;
        roots->n = n;
        for (int i = 0; i < g->n_nodes && ok; i++) {
            tp_tensor *t = g->nodes[i];
            const bool needs = tpi_assigned_of(t) && (p->all_writes || is_among(&needed, t));
            if ((needs || goes_with(&needed, t)) && !is_fed(p, t))
                tpi_nodes_push(roots, t);
        }
        more = roots->n != before;
        tpi_nodes_free(&needed);
    }
    return ok && !roots->failed;
}

/* The variable each assign root writes. */
static bool find_commits(tp_program *p, const tpi_nodes *roots)
{
    const int n = roots->n - p->n_fetches;
    p->commits = tpi_bump_take(&p->lists, (size_t)n, sizeof *p->commits);
    for (int i = 0; i < n && p->commits; i++) {
        const tp_tensor *v = roots->v[p->n_fetches + i];
        while (tpi_assigned_of(v))
            v = v->in[0];
        p->commits[p->n_commits++] = (tpi_commit){
            .variable = v->in[0], .root = p->n_fetches + i, .index = -1, .rest = -1};
        tpi_ref(v->in[0]);
    }
    return p->commits;
}

static bool find_feeds(tp_program *p, tp_graph *g, tpi_at at, int n, const char *const *feeds)
{
    p->n_feeds = n;
    p->feeds = tpi_bump_take(&p->lists, (size_t)n, sizeof *p->feeds);
    p->feed_names = tpi_bump_take(&p->lists, (size_t)n, sizeof *p->feed_names);
    if (!p->feed_names)
        return false;
    for (int i = 0; i < n; i++) {
        p->feeds[i] = named(g, at, p->what, feeds[i]);
        if (!p->feeds[i])
            return false;
        for (int k = 0; k < i; k++)
            if (p->feeds[k] == p->feeds[i]) {
                tpi_fail_status(p->ctx, at, p->what, TP_E_NAME, "\"%s\" is fed twice",
                                feeds[i]);
                return false;
            }
        p->feed_names[i] = tpi_bump_copy(&p->lists, feeds[i], strlen(feeds[i]) + 1, 1);
    }
    return !p->lists.failed;
}

/* Every placeholder the program still reads has to be fed. */
static bool all_fed(const tp_program *p, tpi_at at)
{
    tpi_nodes needed = {.ctx = p->ctx};
    bool ok = tpi_collect_run(&needed, p->graph, p->n_roots, p->roots);
    for (int i = 0; i < needed.n && ok; i++) {
        const tp_tensor *t = needed.v[i];
        bool fed = t->op->kind != TPI_SOURCE || t->n_in;
        for (int k = 0; k < p->n_feeds; k++)
            fed |= p->feeds[k] == t;
        if (!fed) {
            tpi_fail_status(p->ctx, at, p->what, TP_E_NAME,
                            "what is fetched needs placeholder \"%s\" %s, which is not fed",
                            t->name ? t->name : "", SHAPE(t));
            ok = false;
        }
    }
    tpi_nodes_free(&needed);
    return ok;
}

/* Of the graph and of the bodies in it. */
static void count_nodes(tp_program *p, const tp_graph *g, int n_roots, tp_tensor *const *roots)
{
    tpi_nodes live = {.ctx = p->ctx};
    if (!tpi_collect_run(&live, g, n_roots, roots))
        live.n = 0;
    p->stats.nodes += live.n;
    for (int i = 0; i < live.n; i++) {
        tpi_body *bodies[2];
        const int n = tpi_is_block(live.v[i]) ? tpi_bodies_of(live.v[i], bodies) : 0;
        for (int k = 0; k < n; k++)
            count_nodes(p, bodies[k]->graph, bodies[k]->n_outputs, bodies[k]->outputs);
    }
    tpi_nodes_free(&live);
}

static tp_graph *optimize(const tp_program *p, const char *skip, const char *stop_after)
{
    const tpi_optimizing how = {.skip = skip, .stop_after = stop_after};
    if (tpi_env(TPI_ENV_VALIDATE))
        return tpi_optimize_validated(p->graph, &how, tpi_trial_by_reference, p->n_feeds,
                                      p->feeds, p->n_roots, p->roots);
    return tpi_optimize(p->graph, &how, p->n_feeds, p->feeds, p->n_roots, p->roots);
}

static bool make(tp_program *p, tp_graph *g, tpi_at at, int n_feeds, const char *const *feeds,
                 int n, const char *const *fetches, const tp_compile_options *opt)
{
    TPI_DEFAULT_FLOAT_MODE;
    const char *skip = opt && opt->skip_passes ? opt->skip_passes : tpi_env(TPI_ENV_SKIP);
    const char *unknown = tpi_unknown_pass(skip);
    if (unknown) {
        tpi_fail_status(p->ctx, at, p->what, TP_E_NAME,
                        "there is no pass \"%s\" to skip: there are %s", unknown,
                        tpi_pass_names);
        return false;
    }
    const char *stop_after = opt ? opt->stop_after : NULL;
    if (stop_after && !tpi_is_stop(stop_after)) {
        tpi_fail_status(p->ctx, at, p->what, TP_E_NAME,
                        "there is no pass \"%s\" to stop after: there are %s", stop_after,
                        tpi_stop_names);
        return false;
    }
    tpi_nodes roots = {.ctx = p->ctx, .room = &p->lists};
    bool ok = find_feeds(p, g, at, n_feeds, feeds) &&
              find_roots(p, g, at, &roots, n, fetches) && find_commits(p, &roots);
    p->n_roots = roots.n;
    p->roots = roots.v;
    if (ok)
        p->graph = tpi_prune(g, opt && opt->freeze, p->n_feeds, p->feeds, p->n_roots, p->roots);
    if (p->graph && p->leaves)
        p->graph = tpi_make_leave(p->graph, p->n_feeds, p->feeds, p->n_roots, p->roots);
    if (ok && opt && opt->freeze && p->n_commits) {
        tpi_fail_status(p->ctx, at, p->what, TP_E_STATE,
                        "what is fetched assigns a variable, but variables are frozen");
        ok = false;
    }
    if (ok && p->graph)
        p->graph = optimize(p, skip, stop_after);
    if (!ok || !p->graph || !all_fed(p, at))
        return false;
    p->n_symbols = tpi_dim_n_symbols(p->graph->dims);
    const size_t n_symbols = (size_t)p->n_symbols;
    p->symbols = tpi_bump_take(&p->lists, 3 * n_symbols, sizeof *p->symbols);
    p->capacity = p->symbols ? p->symbols + n_symbols : NULL;
    p->constants.sizes = p->symbols ? p->capacity + n_symbols : NULL;
    p->engine = opt ? opt->engine : TP_ENGINE_AUTO;
    if (!p->symbols || !tpi_find_late(p) ||
        (p->engine != TP_ENGINE_REFERENCE && !tpi_find_patches(p)))
        return false;
    count_nodes(p, p->graph, p->n_roots, p->roots);
    p->memory_limit = opt ? opt->memory_limit : 0;
    if (p->memory_limit && tpi_program_knows_sizes(p)) {
        const tpi_budget budget = {at, p->what, p->memory_limit, p->symbols};
        p->graph = tpi_budget_fit(&budget, p->graph, tpi_program_fusing(p, skip), p->n_feeds,
                                  p->feeds, p->n_roots, p->roots);
        if (!p->graph)
            return false;
    }
    if (p->engine == TP_ENGINE_REFERENCE)
        return true;
    return tpi_program_plan(p, skip) &&
           (p->engine == TP_ENGINE_TILES || tpi_program_start_c(p));
}

tp_program *tpi_program_new(tp_graph *g, tpi_at at, const tpi_purpose *purpose, int n_feeds,
                            const char *const *feeds, int n, const char *const *fetches,
                            const tp_compile_options *opt)
{
    const char *what = purpose->what;
    if (!fetches || (n_feeds && !feeds)) {
        tpi_fail_status(g->ctx, at, what, TP_E_NULL, "the names of the %s are NULL",
                        fetches ? "feeds" : "fetches");
        return NULL;
    }
    if (n_feeds < 0 || n < 1) {
        tpi_fail_status(g->ctx, at, what, TP_E_VALUE, n < 1 ? "nothing is fetched" : "%d feeds",
                        n_feeds);
        return NULL;
    }
    if (opt && (unsigned)opt->engine > TP_ENGINE_TILES) {
        tpi_fail_status(g->ctx, at, what, TP_E_VALUE, "%d is no engine", (int)opt->engine);
        return NULL;
    }
    if (opt && tpi_is_spoilt(opt->memory_limit)) {
        tpi_fail_spoilt(g->ctx, at, what, TP_E_VALUE, opt->memory_limit);
        return NULL;
    }
    if (opt && opt->memory_limit < 0) {
        tpi_fail_status(g->ctx, at, what, TP_E_VALUE, "a memory limit of %lld bytes",
                        (long long)opt->memory_limit);
        return NULL;
    }
    if (g->ctx->tracing && tpi_graph_within(g->ctx->tracing, g)) {
        tpi_fail_status(g->ctx, at, what, TP_E_STATE,
                        "the block of line %d is still open: compile behind it",
                        g->ctx->tracing->body->at.line);
        return NULL;
    }
    tpi_bump lists = TPI_BUMP(&g->ctx->mem);
    tp_program *p = tpi_bump_take(&lists, 1, sizeof *p);
    if (!p) {
        tpi_no_memory(g->ctx, at, what);
        return NULL;
    }
    p->lists = lists;
    p->wave_ns = TPI_WAVE_NS;
    p->ctx = g->ctx;
    p->ctx->unlend = unlend;
    tpi_heads_reserve(p->ctx); /* runs in a steady state ask for no memory */
    p->what = what;
    p->all_writes = purpose->all_writes;
    p->leaves = purpose->leaves;
    p->used = "none";
    const tpi_paused around = tpi_pause(p->ctx, at);
    const tp_status before = p->ctx->status;
    const bool ok = tpi_streams_add(g) && make(p, g, at, n_feeds, feeds, n, fetches, opt);
    tpi_resume(p->ctx, around);
    if (!ok && before == TP_OK && p->ctx->status == TP_OK)
        tpi_no_memory(p->ctx, at, what);
    if (!ok) {
        program_free(&p->owned);
        return NULL;
    }
    tpi_object_add(p->ctx, &p->owned, program_free);
    return p;
}

tp_program *tp_graph_compile_at(const char *file, int line, tp_graph *g, int n_feeds,
                                const char *const *feeds, int n, const char *const *fetches,
                                const tp_compile_options *opt)
{
    static const tpi_purpose purpose = {.what = "tp_graph_compile"};
    return g ? tpi_program_new(g, TPI_AT(file, line), &purpose, n_feeds, feeds, n, fetches, opt)
             : NULL;
}

tp_program *(tp_graph_compile)(tp_graph *g, int n_feeds, const char *const *feeds, int n,
                               const char *const *fetches, const tp_compile_options *opt)
{
    return tp_graph_compile_at(NULL, 0, g, n_feeds, feeds, n, fetches, opt);
}

/* ---- running ----------------------------------------------------------------------------------------- */

/* Does memory of a variable back this value? Then a commit would change it. */
static bool reads_variable(const tp_tensor *t)
{
    return t->flags & TPI_VARIABLE;
}

/* A tensor of its own with the elements of t, one reference; NULL when out of memory. */
static tp_tensor *copy_of(tp_ctx *ctx, tpi_at at, const tp_tensor *t)
{
    tp_tensor *copy = tpi_tensor_new(ctx, at, (tp_dtype)t->dtype, t->rank, t->shape);
    if (copy->status != TP_OK)
        return NULL;
    tpi_copy_out(t, copy->data);
    tpi_disown(copy);
    return copy;
}

/* Values that are the caller's or a variable's memory become copies. */
static bool detach_values(tpi_session *s)
{
    const tp_program *p = s->p;
    for (int i = 0; i < p->n_roots; i++) {
        tp_tensor *v = s->values[i];
        bool own = !reads_variable(v) && v->owned_at < 0 && v->refs == 1;
        if (own && v->buf->refs == 1)
            continue;
        for (int k = 0; k < i; k++)
            own &= s->values[k] != v;
        for (int k = 0; k < p->n_feeds; k++)
            own &= v->buf != s->feeds[k]->buf;
        if (own)
            continue;
        tp_tensor *copy = copy_of(p->ctx, s->at, v);
        if (!copy)
            return false;
        tpi_unref(v);
        s->values[i] = copy;
    }
    return true;
}

static bool check_feeds(const tp_program *p, tpi_at at, tp_tensor *const *feeds)
{
    for (int i = 0; i < p->n_feeds; i++) {
        tp_tensor *bad =
            tpi_refuse_operand(p->ctx, at, "tp_program_run", i, feeds ? feeds[i] : NULL);
        if (bad)
            return false;
        if (feeds[i]->graph) {
            tpi_fail_status(p->ctx, at, "tp_program_run", TP_E_SYMBOLIC,
                            "\"%s\" is fed a symbolic tensor; feed a concrete one",
                            p->feed_names[i]);
            return false;
        }
    }
    return true;
}

/* Who runs it: the C program if it is loaded, else tiles; or node by node, by the ops' plain loops or,
 * when that is not asked for, by their kernels for eager use. */
static bool execute_by(tpi_session *s, bool c)
{
    tp_program *p = s->p;
    c = c && !p->partly;
    const bool tiles = !c && p->tiles && !p->ctx->trap_nan && !p->partly;
    const bool plain = p->engine == TP_ENGINE_REFERENCE ||
                       (p->engine == TP_ENGINE_C && p->c.build && !p->partly);
    p->used = c ? "c" : tiles ? "tiles" : plain ? "reference" : "eager";
    if (!c && !tpi_program_unpack(p)) {
        tpi_no_memory(p->ctx, s->at, "tp_program_run");
        return false;
    }
    return c || tiles ? tpi_execute_plan(s, c) : tpi_execute_reference(s);
}

static bool execute(tpi_session *s)
{
    TPI_DEFAULT_FLOAT_MODE;
    tp_program *p = s->p;
    bool changed;
    if (tpi_refuse_interrupted(p->ctx, s->at, "tp_program_run"))
        return false;
    if (!check_feeds(p, s->at, s->feeds) || !tpi_bind_sizes(p, s->at, s->feeds, &changed))
        return false;
    if (changed) {
        p->sized = false;
        p->checked = tpi_check_sizes(p, s->at);
        if (!p->checked)
            return false;
    }
    const bool trap = p->ctx->trap_nan; /* it looks at every node */
    const bool wait = p->engine == TP_ENGINE_C && p->c.build && !trap;
    const bool c = !trap && tpi_program_has_c(p, wait ? -1 : 0);
    if (wait && !c) {
        if (!tpi_refuse_interrupted(p->ctx, s->at, "tp_program_run"))
            tpi_fail_status(p->ctx, s->at, "tp_program_run", tpi_build_error(p->c.build), "%s",
                            tpi_build_message(p->c.build));
        return false;
    }
    return execute_by(s, c);
}

/* Hands the fetched values to the open scope; none of them when memory is out. */
static bool own_fetches(const tpi_session *s, tp_tensor **out)
{
    for (int i = 0; i < s->p->n_fetches; i++) {
        tp_tensor *v = s->values[i];
        v->file = s->at.file;
        v->line = s->at.line;
        tpi_ref(v);
        if (!tpi_own(v)) {
            while (i-- > 0) {
                tpi_disown(out[i]);
                tpi_unref(out[i]);
            }
            tpi_no_memory(s->p->ctx, s->at, "tp_program_run");
            return false;
        }
        out[i] = v;
    }
    return true;
}

static tp_status run_alone(tp_program *p, tpi_at at, tp_tensor *const *feeds, tp_tensor **out)
{
    tp_ctx *ctx = p->ctx;
    tpi_positions begins;
    tpi_session s = {.p = p, .at = at, .feeds = feeds, .begins = &begins};
    const size_t bytes = (size_t)p->n_roots * sizeof *s.values;
    const tpi_paused around = tpi_pause(ctx, s.at);
    tpi_aside earlier;
    tpi_error_aside(ctx, &earlier);
    s.values = tpi_positions_note(ctx, &begins) ? tpi_take(&ctx->mem, bytes) : NULL;
    if (s.values)
        memset(s.values, 0, bytes);
    else
        tpi_no_memory(ctx, s.at, "tp_program_run");
    bool ok = s.values && tp_scope_begin(ctx) == TP_OK;
    if (ok) {
        ok = execute(&s) && tpi_check_late_equations(p, at) && detach_values(&s);
        tp_scope_end(ctx);
    }
    for (int i = 0; i < p->n_commits && ok; i++)
        if (!tpi_may_write(p->commits[i].variable)) {
            tpi_no_memory(ctx, s.at, "tp_program_run");
            ok = false;
        }
    ok = ok && own_fetches(&s, out);
    for (int i = 0; i < p->n_commits && ok; i++) /* from here on nothing can fail */
        tpi_commit_now(&p->commits[i], s.values);
    const tp_status status = ok ? TP_OK : ctx->status != TP_OK ? ctx->status : TP_E_MEMORY;
    if (!ok) {
        tpi_positions_back(ctx, &begins);
        tp_tensor *failed =
            tpi_fail(ctx, s.at, "tp_program_run", status, "the run failed: %s", ctx->error);
        for (int i = 0; i < p->n_fetches; i++)
            out[i] = failed;
    }
    for (int i = 0; i < p->n_roots && s.values; i++)
        tpi_unref(s.values[i]);
    tpi_give_back(&ctx->mem, s.values, bytes);
    tpi_positions_free(ctx, &begins);
    tpi_error_back(ctx, &earlier);
    tpi_resume(ctx, around);
    return status;
}

tp_status tp_program_run_at(const char *file, int line, tp_program *p, tp_tensor *const *feeds,
                            tp_tensor **out)
{
    static const char what[] = "tp_program_run";
    const tpi_at at = TPI_AT(file, line);
    if (!p)
        return TP_E_NULL;
    if (!out)
        return tpi_fail_status(p->ctx, at, what, TP_E_NULL,
                               "the place for the results is NULL");
    if (p->n_commits && tpi_is_shared(p->ctx, NULL)) /* it assigns */
        return tpi_fail_all(tpi_fail_shared(p->ctx, at, what), p->n_fetches, out);
    uintptr_t was;
    if (tpi_enter(p->ctx, &was)) {
        const tp_status status = run_alone(p, at, feeds, out);
        if (tpi_leave(p->ctx, was))
            return status;
    }
    return tpi_fail_all(tpi_refuse_crowd(p->ctx, at, what), p->n_fetches, out);
}

/* Does the program take these sizes? */
static bool take_sizes(tp_program *p, tpi_at at, const int64_t *symbols)
{
    for (int i = 0; i < p->n_symbols; i++) {
        if (p->late[i] || (p->checked && p->symbols[i] == symbols[i]))
            continue;
        p->symbols[i] = symbols[i];
        p->sized = p->checked = false;
    }
    p->checked = p->checked || tpi_check_sizes(p, at);
    return p->checked;
}

bool tpi_program_set_sizes(tp_program *p, tpi_at at, const int64_t *symbols)
{
    return take_sizes(p, at, symbols) && (p->sized || tpi_program_lay_out(p, at));
}

bool tpi_program_run_sized(tp_program *p, tpi_at at, const int64_t *symbols,
                           tp_tensor *const *feeds, const tpi_draws *draws, tp_tensor **values)
{
    TPI_DEFAULT_FLOAT_MODE;
    tp_ctx *ctx = p->ctx;
    tpi_session s = {.p = p, .at = at, .feeds = feeds, .values = values, .draws = draws};
    for (int i = 0; i < p->n_roots; i++)
        values[i] = NULL;
    if (!take_sizes(p, at, symbols) || tp_scope_begin(ctx) != TP_OK)
        return false;
    const bool ok = execute_by(&s, p->c.entry) && detach_values(&s);
    tp_scope_end(ctx);
    for (int i = 0; i < p->n_roots && !ok; i++) {
        tpi_unref(values[i]);
        values[i] = NULL;
    }
    return ok;
}

tp_status(tp_program_run)(tp_program *p, tp_tensor *const *feeds, tp_tensor **out)
{
    return tp_program_run_at(NULL, 0, p, feeds, out);
}

tp_status tp_program_wait(tp_program *p)
{
    TPI_DEFAULT_FLOAT_MODE;
    if (!p)
        return TP_E_NULL;
    if (tpi_program_has_c(p, -1))
        return TP_OK;
    if (tpi_refuse_interrupted(p->ctx, TPI_AT(NULL, 0), "tp_program_wait"))
        return TP_E_STOPPED;
    const tp_tensor *t = p->plan ? tpi_late_refuser(p) : NULL;
    if (t)
        return tpi_fail_status(p->ctx, TPI_AT(t->file, t->line), t->op->name, TP_E_COMPILER,
                               "it may refuse sizes that only a loop's run tells: the program "
                               "is run node by node");
    return tpi_fail_status(p->ctx, TPI_AT(NULL, 0), "tp_program_wait",
                           p->c.build ? tpi_build_error(p->c.build) : TP_E_COMPILER, "%s",
                           p->c.build ? tpi_build_message(p->c.build)
                           : p->plan  ? "the program is for the tile engine"
                                      : "the program is for the reference engine");
}

const char *tp_program_engine(const tp_program *p)
{
    return p ? p->used : "none";
}

const char *tp_program_source(tp_program *p)
{
    return p ? p->c.source.text : NULL;
}
