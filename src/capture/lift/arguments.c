/* The arguments of a captured function as placeholders of a graph, for who writes it to a file. */
#include "capture/capture_def.h"

#include <stdio.h>

/* A name for a size that varied: that of its argument, with the axis. */
static int64_t symbol_for(tp_graph *g, const char *input, int axis)
{
    char name[80];
    int n = 0;
    for (const char *c = input; *c && n < 60; c++) {
        const bool word = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') || *c == '_' ||
                          (n && *c >= '0' && *c <= '9');
        name[n++] = word ? *c : '_';
    }
    for (int same = 1;; same++) { /* other names may come to the same */
        const int before = tpi_dim_n_symbols(g->dims);
        const int len = snprintf(name + n, sizeof name - (size_t)n, "_dim%d", axis);
        if (same > 1)
            snprintf(name + n + len, sizeof name - (size_t)(n + len), "_%d", same);
        const int64_t symbol = tp_symbol(g, name);
        if (symbol == TPI_NO_DIM || tpi_dim_n_symbols(g->dims) > before)
            return symbol;
    }
}

/* Were these two sizes that varied equal in all calls that are remembered? */
static bool were_equal(const tpi_incoming *x, int a, const tpi_incoming *y, int b)
{
    bool equal = x->varied >> a & 1 && x->shape[a] == y->shape[b];
    for (int i = 0; i < x->n_seen && equal; i++)
        equal = x->seen[i][a] == y->seen[i][b];
    return equal;
}

/* Sizes that were equal are one. */
bool tpi_function_arguments(const tp_function *f, const tpi_step *entry, tpi_at at,
                            const char *what, tp_graph *g, const char *const *names,
                            tp_tensor **in)
{
    for (int i = 0; i < entry->n_in; i++) {
        const tpi_incoming *o = &entry->new[~entry->in[i]];
        int64_t shape[TP_MAX_RANK];
        if (i > ~entry->in[i]) {
            tpi_fail_status(f->ctx, entry->at.file ? entry->at : at, what, TP_E_STATE,
                            "two of the arguments were one tensor: pass different ones");
            return false;
        }
        for (int a = 0; a < o->rank; a++) {
            shape[a] = o->shape[a];
            if (!(o->varied >> a & 1))
                continue;
            int64_t size = TPI_NO_DIM;
            for (int k = 0; k <= i && size == TPI_NO_DIM; k++)
                for (int c = 0; c < (k == i ? a : entry->new[k].rank); c++)
                    if (were_equal(&entry->new[k], c, o, a))
                        size = k == i ? shape[c] : in[k]->shape[c];
            shape[a] = size == TPI_NO_DIM ? symbol_for(g, names[i], a) : size;
        }
        in[i] = tp_placeholder_at(entry->at.file, entry->at.line, g, names[i],
                                  (tp_dtype)o->dtype, o->rank, shape);
        if (in[i]->status != TP_OK)
            return false;
    }
    return true;
}

const tpi_step *tpi_function_entry(const tp_function *f, tpi_at at, const char *what, int n_in)
{
    const tpi_step *found = NULL;
    for (const tpi_step *s = f->forward.top.first; s; s = s->next)
        if (s->n_in == n_in && (!found || s->taken > found->taken))
            found = s;
    if (!found && f->options.eager)
        tpi_fail_status(f->ctx, at, what, TP_E_STATE,
                        "\"%s\" runs eagerly (its options, or TAPIR_EAGER): nothing of it was "
                        "recorded",
                        f->name);
    else if (!found)
        tpi_fail_status(f->ctx, at, what, TP_E_STATE,
                        "\"%s\" has not been called with %d argument(s): call it first",
                        f->name, n_in);
    return found;
}
