/* Inputs that are not given: random numbers from -1 to 1, and 0 for integers. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

static uint32_t next_random(uint64_t *state) /* splitmix64, its upper half */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)((z ^ (z >> 31)) >> 32);
}

/* Sizes of an input; false: one is free, which is refused. */
static bool sizes_of(const model *m, const fixed_dims *d, const ir_node *n, int64_t *shape)
{
    for (int axis = 0; axis < n->is.rank; axis++) {
        const char *word = n->sizes[axis];
        int64_t *size = &shape[axis];
        *size = n->is.shape[axis];
        for (int i = 0; i < d->n && *size < 0; i++)
            if (strcmp(d->v[i].name, word) == 0)
                *size = d->v[i].size;
        if (*size < 0) {
            cli_refuse(
                m->path,
                "the dimension \"%s\" of input \"%s\" %s[%s] is free: give it a size, as in "
                "--dim %s=1",
                word, n->is.name, tp_dtype_name(n->is.dtype), n->dims, word);
            return false;
        }
    }
    return true;
}

static tp_tensor *make_input(model *m, const fixed_dims *d, const char *name)
{
    int64_t shape[TP_MAX_RANK];
    ir_node n;
    if (!ir_port(&n, m->tp, m->graph, name)) {
        cli_no_memory();
        return NULL;
    }
    if (!sizes_of(m, d, &n, shape))
        return NULL;
    const int rank = n.is.rank;
    const tp_dtype dtype = n.is.dtype;
    const bool is_f64 = dtype == TP_F64, is_float = is_f64 || dtype == TP_F32;
    tp_tensor *t = tp_tensor_new(m->tp, is_float ? TP_F64 : dtype, rank, shape, NULL);
    const int64_t count = tp_count(t);
    double *values =
        tp_failed(t) || !is_float ? NULL : malloc((size_t)count * sizeof *values + 1);
    uint64_t state = 1;
    for (int64_t i = 0; i < count && values; i++)
        values[i] = (double)next_random(&state) / 2147483648.0 - 1;
    if (values) {
        t = tp_tensor_new(m->tp, TP_F64, rank, shape, values);
        if (!is_f64)
            t = tp_cast(t, dtype);
    }
    const bool out_of_memory = is_float && !values && !tp_failed(t);
    free(values);
    if (out_of_memory)
        cli_no_memory();
    else if (tp_failed(t))
        cli_refuse_error(m->path, m->tp);
    return out_of_memory || tp_failed(t) ? NULL : t;
}

bool model_make_inputs(model *m, const fixed_dims *d)
{
    bool ok = true;
    for (int i = 0; i < m->n_in && ok; i++)
        if (!m->feeds[i]) {
            m->feeds[i] = make_input(m, d, m->in[i]);
            ok = m->feeds[i];
        }
    return ok;
}
