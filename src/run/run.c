/* tp_graph_run: programs kept by the names they are for. */
#include "run/program.h"

#include <string.h>

typedef struct entry {
    struct entry *next;
    tp_program *program;
    size_t size;
    int n_feeds, n;
    char names[]; /* one after the other, NUL-terminated: feeds, fetches */
} entry;

struct tpi_program_cache {
    tp_ctx *ctx;
    entry *first;
};

static void free_cache(struct tpi_program_cache *c)
{
    for (entry *e = c->first, *next; e; e = next) {
        next = e->next;
        tp_program_free(e->program);
        tpi_give_back(&c->ctx->mem, e, e->size);
    }
    tpi_give_back(&c->ctx->mem, c, sizeof *c);
}

/* Walks the names of an entry beside those asked for. */
static bool is_for(const entry *e, int n_feeds, const tp_feed *feeds, int n,
                   const char *const *names)
{
    if (e->n_feeds != n_feeds || e->n != n)
        return false;
    const char *p = e->names;
    for (int i = 0; i < n_feeds + n; i++) {
        if (strcmp(p, i < n_feeds ? feeds[i].name : names[i - n_feeds]) != 0)
            return false;
        p += strlen(p) + 1;
    }
    return true;
}

static entry *add_entry(struct tpi_program_cache *c, tp_graph *g, tpi_at at, int n_feeds,
                        const tp_feed *feeds, int n, const char *const *names)
{
    size_t size = sizeof(entry);
    for (int i = 0; i < n_feeds + n; i++)
        size += strlen(i < n_feeds ? feeds[i].name : names[i - n_feeds]) + 1;
    entry *e = tpi_take(&c->ctx->mem, size);
    const size_t list_bytes = (size_t)n_feeds * sizeof(char *);
    const char **list = tpi_take(&c->ctx->mem, list_bytes);
    if (e)
        e->program = NULL;
    if (e && list) {
        *e = (entry){.size = size, .n_feeds = n_feeds, .n = n};
        char *p = e->names;
        for (int i = 0; i < n_feeds + n; i++) {
            const char *name = i < n_feeds ? feeds[i].name : names[i - n_feeds];
            const size_t len = strlen(name) + 1;
            memcpy(p, name, len);
            if (i < n_feeds)
                list[i] = p;
            p += len;
        }
        e->program = tp_graph_compile_at(at.file, at.line, g, n_feeds, list, n, names, NULL);
    } else {
        tpi_no_memory(c->ctx, at, "tp_graph_run");
    }
    tpi_give_back(&c->ctx->mem, list, list_bytes);
    if (!e || !e->program) {
        tpi_give_back(&c->ctx->mem, e, size);
        return NULL;
    }
    tpi_object_remove(&e->program->owned); /* the graph owns it, not the context */
    e->next = c->first;
    c->first = e;
    return e;
}

static tp_program *program_for(tp_graph *g, tpi_at at, int n_feeds, const tp_feed *feeds, int n,
                               const char *const *names)
{
    struct tpi_program_cache *c = g->programs;
    if (!c) {
        c = tpi_take(&g->ctx->mem, sizeof *c);
        if (!c) {
            tpi_no_memory(g->ctx, at, "tp_graph_run");
            return NULL;
        }
        *c = (struct tpi_program_cache){.ctx = g->ctx};
        g->programs = c;
        g->free_programs = free_cache;
    }
    for (entry *e = c->first; e; e = e->next)
        if (is_for(e, n_feeds, feeds, n, names))
            return e->program;
    entry *e = add_entry(c, g, at, n_feeds, feeds, n, names);
    return e ? e->program : NULL;
}

/* What is wrong with the arguments, or NULL. */
static const char *missing(int n_feeds, const tp_feed *feeds, int n, const char *const *names,
                           tp_tensor **out)
{
    if (!out)
        return "the place for the results is NULL";
    if (n < 1 || !names)
        return "nothing is fetched";
    if (n_feeds < 0 || (n_feeds && !feeds))
        return "the feeds are missing";
    for (int i = 0; i < n_feeds; i++)
        if (!feeds[i].name)
            return "the name of a feed is NULL";
    for (int i = 0; i < n; i++)
        if (!names[i])
            return "the name of a fetch is NULL";
    return NULL;
}

static tp_status run(tp_graph *g, tpi_at at, int n_feeds, const tp_feed *feeds, int n,
                     const char *const *names, tp_tensor **out)
{
    enum { FEW = 32 };
    tp_ctx *ctx = g->ctx;
    const char *what = missing(n_feeds, feeds, n, names, out);
    if (what)
        return tpi_fail_status(ctx, at, "tp_graph_run", TP_E_NULL, "%s", what);
    tp_program *p = program_for(g, at, n_feeds, feeds, n, names);
    if (!p)
        return ctx->status;
    tp_tensor *few[FEW], **values = few;
    const size_t bytes = (size_t)n_feeds * sizeof *values;
    if (n_feeds > FEW)
        values = tpi_take(&ctx->mem, bytes);
    if (!values) {
        tpi_no_memory(ctx, at, "tp_graph_run");
        return TP_E_MEMORY;
    }
    for (int i = 0; i < n_feeds; i++)
        values[i] = feeds[i].value;
    const tp_status status = tp_program_run_at(at.file, at.line, p, values, out);
    if (values != few)
        tpi_give_back(&ctx->mem, values, bytes);
    return status;
}

tp_status tp_graph_run_at(const char *file, int line, tp_graph *g, int n_feeds,
                          const tp_feed *feeds, int n, const char *const *names,
                          tp_tensor **out)
{
    if (!g)
        return TP_E_NULL;
    for (int i = 0; i < n && out; i++)
        out[i] = NULL;
    tpi_aside earlier;
    tpi_error_aside(g->ctx, &earlier);
    const tpi_at at = TPI_AT(file, line);
    const tp_status status = run(g, at, n_feeds, feeds, n, names, out);
    if (status != TP_OK && out && n > 0 && !out[0]) { /* it did not come to a run */
        tp_tensor *failed = tpi_fail(g->ctx, at, "tp_graph_run", status, "%s", g->ctx->error);
        for (int i = 0; i < n; i++)
            out[i] = failed;
    }
    tpi_error_back(g->ctx, &earlier);
    return status;
}

tp_status(tp_graph_run)(tp_graph *g, int n_feeds, const tp_feed *feeds, int n,
                        const char *const *names, tp_tensor **out)
{
    return tp_graph_run_at(NULL, 0, g, n_feeds, feeds, n, names, out);
}
