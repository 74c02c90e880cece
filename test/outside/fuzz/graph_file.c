/* Files of graphs from anyone. A mutated file hardly ever has the right hash, so each input is
 * tried twice: as it is, and sealed with the size and hash that it should have. What loads is run
 * by the reference executor. */
#include "base/hash.h"
#include "ir/body.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void *alloc(void *user, size_t size)
{
    (void)user;
    void *p = NULL;
    if (size > (size_t)1 << 20 ||
        /* also bounds the time a run takes */ posix_memalign(&p, 64, size ? size : 1) != 0)
        return NULL;
    return p;
}

static void release(void *user, void *p, size_t size)
{
    (void)user, (void)size;
    free(p);
}

/* Turns that the loops of g may take, at most: a file may ask for any number of them. */
static double turns(const tp_graph *g, const int64_t *symbols)
{
    double all = 0;
    for (int i = 0; i < g->n_nodes; i++) {
        const tp_tensor *t = g->nodes[i];
        tpi_body *bodies[2];
        if (!tpi_is_block(t))
            continue;
        double times = 1;
        if (t->op == &tpi_op_loop) {
            const tpi_loop_attrs *a = t->attrs;
            times = a->counted ? (double)tpi_dim_eval(g->dims, a->count, symbols) : INFINITY;
        }
        for (int k = tpi_bodies_of(t, bodies) - 1; k >= 0; k--)
            all += times * (1 + turns(bodies[k]->graph, symbols));
    }
    return all;
}

/* All that the newest node needs, with every symbol 2 and every fed element 0. */
static void run(tp_ctx *tp, tp_graph *g)
{
    enum { MOST = 8 };
    const char *names[MOST], *const fetch[] = {"the newest"};
    tp_tensor *feeds[MOST], *out;
    const int64_t twos[MOST] = {2, 2, 2, 2, 2, 2, 2, 2};
    int n = 0;
    if (g->n_nodes == 0 || tpi_dim_n_symbols(g->dims) > MOST || !(turns(g, twos) < 2000))
        return;
    for (int i = 0; i < g->n_nodes; i++) {
        const tp_tensor *t = g->nodes[i];
        int64_t shape[TP_MAX_RANK];
        if (t->op != &tpi_op_placeholder)
            continue;
        for (int k = 0; k < t->rank; k++)
            shape[k] = tpi_dim_eval(g->dims, t->shape[k], twos);
        if (n == MOST)
            return;
        names[n] = t->name;
        feeds[n++] = tp_tensor_new(tp, (tp_dtype)t->dtype, t->rank, shape, NULL);
        if (tp_failed(feeds[n - 1]))
            return;
    }
    tp_tensor *newest = g->nodes[g->n_nodes - 1];
    const char *const own[] = {newest->name};
    if (!newest->name)
        tp_name(newest, fetch[0]);
    const tp_compile_options reference = {.engine = TP_ENGINE_REFERENCE};
    tp_program *p = tp_graph_compile(g, n, names, 1, own[0] ? own : fetch, &reference);
    if (p)
        tp_program_run(p, feeds, &out);
    tp_program_free(p);
}

static void load(const uint8_t *data, size_t size)
{
    const tp_allocator a = {alloc, release, NULL};
    tp_ctx *tp = tp_open(&(tp_options){.allocator = &a});
    tp_graph *g = tp_graph_load_bytes(tp, data, size);
    if (g ? tp_graph_verify(g) != TP_OK : tp_error(tp) == TP_OK)
        abort();
    if (g)
        run(tp, g);
    if (tp_error(tp) == TP_E_BUG)
        abort();
    tp_close(tp);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { HASH_AT = 24, AFTER_HASH = 40 };
    load(data, size);
    if (size < AFTER_HASH)
        return 0;
    uint8_t *sealed = malloc(size);
    if (!sealed)
        return 0;
    uint64_t hash[2];
    tpi_hasher h;
    memcpy(sealed, data, size);
    memcpy(sealed, "tapir graph 001\n", 16);
    for (int i = 0; i < 8; i++)
        sealed[16 + i] = (uint8_t)((uint64_t)size >> 8 * i);
    tpi_hash_begin(&h);
    tpi_hash_add(&h, sealed, HASH_AT);
    tpi_hash_add(&h, sealed + AFTER_HASH, size - AFTER_HASH);
    tpi_hash_end(&h, hash);
    for (int i = 0; i < 16; i++)
        sealed[HASH_AT + i] = (uint8_t)(hash[i / 8] >> 8 * (i % 8));
    load(sealed, size);
    free(sealed);
    return 0;
}
