#include "run/trial.h"

#include "run/program.h"

static const double most_work = 3e6; /* operations of one run: some 10 ms */

/* Symbols that passes have added are of turns, which the run tells. `name`: of every feed. */
static bool begin(tp_program *p, const tpi_sample *s, char *name)
{
    tpi_mem *m = &p->ctx->mem;
    p->n_symbols = tpi_dim_n_symbols(p->graph->dims);
    p->symbols = tpi_take(m, (size_t)p->n_symbols * 2 * sizeof *p->symbols);
    p->feed_names = tpi_take(m, (size_t)p->n_feeds * sizeof *p->feed_names);
    if (!p->symbols || !p->feed_names)
        return false;
    for (int i = 0; i < p->n_feeds; i++)
        p->feed_names[i] = name;
    p->capacity = p->symbols + p->n_symbols;
    for (int i = 0; i < p->n_symbols; i++)
        p->symbols[i] = p->capacity[i] = i < s->n_symbols ? s->symbols[i] : 1;
    return tpi_find_late(p);
}

static void end(tp_program *p)
{
    tpi_mem *m = &p->ctx->mem;
    tpi_give_back(m, p->late, (size_t)p->n_symbols * sizeof *p->late);
    tpi_give_back(m, p->feed_names, (size_t)p->n_feeds * sizeof *p->feed_names);
    tpi_give_back(m, p->symbols, (size_t)p->n_symbols * 2 * sizeof *p->symbols);
}

bool tpi_trial_by_reference(const tpi_trial *t, const tpi_sample *s, tp_tensor **values)
{
    tp_program p = {.ctx = t->g->ctx,
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
    end(&p);
    return ok;
}
