/* The passes, one after the other: see optimize.h. */
#include "pass/optimize.h"

#include "ir/check.h"
#include "pass/keep/recompute.h"

#include <string.h>

static const tpi_pass *const passes[] = {
#define PASS(name) &tpi_pass_##name,
#include "pass/passes.def"
#undef PASS
    NULL};
enum { MAX_ROUNDS = 8 };

bool tpi_list_has(const char *list, const char *name)
{
    const size_t len = strlen(name);
    for (const char *p = list; p && *p;) {
        const size_t n = strcspn(p, ",");
        if (n == len && memcmp(p, name, len) == 0)
            return true;
        p += n + (p[n] == ',');
    }
    return false;
}

static const char no_pass[] = "prune"; /* as a pass to stop after */

/* fuse and bands are the plan's (plan/plan.c, steps.c) */
#define PASS(name) #name ","
const char tpi_pass_names[] =
#include "pass/passes.def"
    "remake,fuse,bands";
const char tpi_stop_names[] = "prune,"
#include "pass/passes.def"
                              "remake";
#undef PASS

bool tpi_is_stop(const char *name)
{
    return !strchr(name, ',') && tpi_list_has(tpi_stop_names, name);
}

const char *tpi_unknown_pass(const char *list)
{
    for (const char *p = list; p && *p;) {
        const size_t n = strcspn(p, ",");
        char name[16] = "";
        if (n < sizeof name)
            memcpy(name, p, n);
        if (!tpi_list_has(tpi_pass_names, name))
            return p;
        p += n + (p[n] == ',');
    }
    return NULL;
}

static tp_graph *no_graph(tp_graph *g)
{
    tp_graph_free(g);
    return NULL;
}

/* In checked builds every pass is held to the rules of the IR. */
static bool keeps_rules(const tp_graph *g, const tpi_pass *pass)
{
#ifdef TPI_CHECKED
    return tpi_verify(g->ctx, pass->name, g->dims, g->n_nodes, g->nodes) == TP_OK;
#else
    (void)g, (void)pass;
    return true;
#endif
}

bool tpi_is_runnable(const tp_graph *g, tpi_rule_error *why)
{
    return tpi_check_turns(g->ctx, g->dims, g->n_nodes, g->nodes, true, why);
}

static const tpi_pass clean = {.name = "recompute", .visit = tpi_keep_node};

tp_graph *tpi_tidy(tp_graph *g, int n_feeds, tp_tensor **feeds, int n_roots, tp_tensor **roots)
{
    int unused = 0;
    return tpi_run_pass(g, &clean, NULL, n_feeds, feeds, n_roots, roots, &unused);
}

tp_graph *tpi_split_loop(tp_graph *g, tp_tensor *loop, int n_feeds, tp_tensor **feeds,
                         int n_roots, tp_tensor **roots)
{
    static const tpi_pass *const needed[] = {&tpi_pass_checkpoint, &tpi_pass_fold,
                                             &tpi_pass_algebra};
    int unused = 0;
    ((tpi_loop_attrs *)loop->attrs)->checkpoint = 1;
    for (size_t i = 0; i < sizeof needed / sizeof *needed && g; i++)
        g = tpi_run_pass(g, needed[i], NULL, n_feeds, feeds, n_roots, roots, &unused);
    return g ? tpi_tidy(g, n_feeds, feeds, n_roots, roots) : NULL;
}

tp_graph *tpi_make_runnable(tp_graph *g, int n_feeds, tp_tensor **feeds, int n_roots,
                            tp_tensor **roots)
{
    tp_ctx *ctx = g->ctx;
    int n_changes = 1;
    while (g && n_changes) {
        n_changes = 0;
        if (!tpi_change_graph(clean.name, tpi_again, g, &n_changes))
            return no_graph(g);
        if (n_changes)
            g = tpi_tidy(g, n_feeds, feeds, n_roots, roots);
    }
    tpi_rule_error why;
    if (!g || tpi_is_runnable(g, &why))
        return g;
    tpi_fail_status(ctx, TPI_AT(NULL, 0), "tp_graph_compile", TP_E_STATE, "%s", why.text);
    return no_graph(g);
}

static tp_graph *optimize_once(tp_graph *g, const tpi_optimizing *how, const tpi_pass *pass,
                               int run, int n_feeds, tp_tensor **feeds, int n_roots,
                               tp_tensor **roots, int *n_changes)
{
    int n = 0;
    g = tpi_run_pass(g, pass, NULL, n_feeds, feeds, n_roots, roots, &n);
    *n_changes += n;
    if (g && !keeps_rules(g, pass))
        return no_graph(g);
    if (g && n && how->witness &&
        !how->witness->after(how->witness, pass, run, g, feeds, roots))
        return no_graph(g);
    return g;
}

tp_graph *tpi_optimize(tp_graph *g, const tpi_optimizing *how, int n_feeds, tp_tensor **feeds,
                       int n_roots, tp_tensor **roots)
{
    const tpi_pass *const *list = how->passes ? how->passes : passes;
    int n_changes = 1, run = 0;
    g = tpi_make_runnable(g, n_feeds, feeds, n_roots, roots);
    if (!g || (how->stop_after && strcmp(how->stop_after, no_pass) == 0))
        return g;
    if (how->witness)
        how->witness->begin(how->witness, g, feeds, roots);
    for (int round = 0; round < MAX_ROUNDS && n_changes; round++) {
        n_changes = 0;
        for (int i = 0; list[i] && g; i++) {
            if (!tpi_list_has(how->skip, list[i]->name)) {
                g = optimize_once(g, how, list[i], run++, n_feeds, feeds, n_roots, roots,
                                  &n_changes);
                if (run == how->most_runs)
                    return g;
            }
            if (how->stop_after && strcmp(how->stop_after, list[i]->name) == 0)
                return g;
        }
        if (!g)
            return NULL;
    }
    if (!how->passes && !tpi_list_has(how->skip, tpi_pass_remake.name)) /* cse would undo it */
        g = optimize_once(g, how, &tpi_pass_remake, run, n_feeds, feeds, n_roots, roots,
                          &n_changes);
    return g;
}
