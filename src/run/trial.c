#include "run/trial.h"

#include "run/program.h"

static const double most_work = 3e6; /* operations of one run: some 10 ms */

/* Symbols that passes have added are of turns, which the run tells. `name`: of every feed. */
static bool begin(tp_program *p, const tpi_sample *s, char *name)
{
    p->n_symbols = tpi_dim_n_symbols(p->graph->dims);
    p->symbols = tpi_bump_take(&p->lists, 2 * (size_t)p->n_symbols, sizeof *p->symbols);
    p->feed_names = tpi_bump_take(&p->lists, (size_t)p->n_feeds, sizeof *p->feed_names);
    if (!p->feed_names)
        return false;
    for (int i = 0; i < p->n_feeds; i++)
        p->feed_names[i] = name;
    p->capacity = p->symbols + p->n_symbols;
    for (int i = 0; i < p->n_symbols; i++)
        p->symbols[i] = p->capacity[i] = i < s->n_symbols ? s->symbols[i] : 1;
    return tpi_find_late(p);
}

bool tpi_trial_by_reference(const tpi_trial *t, const tpi_sample *s, tp_tensor **values)
{
    tp_program p = {.ctx = t->g->ctx,
                    .lists = TPI_BUMP(&t->g->ctx->mem),
                    .what = "validate",
                    .graph = t->g,
                    .n_feeds = t->n_feeds,
                    .n_fetches = t->n_roots,
                    .n_roots = t->n_roots,
                    .feeds = (tp_tensor **)t->feeds,
                    .roots = (tp_tensor **)t->roots,
                    .engine = TP_ENGINE_REFERENCE,
                    .used = "none",
                    .may_work = most_work};
    char nameless[] = "";
    const bool ok =
        begin(&p, s, nameless) &&
        tpi_program_run_sized(&p, TPI_AT(NULL, 0), p.symbols, s->feeds, NULL, values);
    tpi_bump_free(&p.lists);
    return ok;
}
