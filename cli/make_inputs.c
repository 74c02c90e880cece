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
static bool sizes_of(const model *m, const fixed_dims *d, const char *name, const ir_node *n,
                     int *rank, int64_t *shape)
{
    char word[100];
    for (*rank = 0; *rank < TP_MAX_RANK; ++*rank) {
        int64_t *size = &shape[*rank];
        if (!ir_axis(n->dims, *rank, size, word, sizeof word))
            return true;
        for (int i = 0; i < d->n && *size < 0; i++)
            if (strcmp(d->v[i].name, word) == 0)
                *size = d->v[i].size;
        if (*size < 0) {
            cli_refuse(
                m->path,
                "the dimension \"%s\" of input \"%s\" %s[%s] is free: give it a size, as in "
                "--dim %s=1",
                word, name, n->dtype, n->dims, word);
            return false;
        }
    }
    return true;
}

static tp_tensor *make_input(model *m, const fixed_dims *d, const char *name, const ir *v)
{
    int64_t shape[TP_MAX_RANK];
    int rank;
    const ir_node *n = ir_find(v, name);
    if (!n || !sizes_of(m, d, name, n, &rank, shape))
        return NULL;
    const bool is_f64 = strcmp(n->dtype, "f64") == 0, is_float = n->dtype[0] == 'f';
    tp_dtype dtype = TP_BOOL;
    while (dtype < TP_N_DTYPES && strcmp(tp_dtype_name(dtype), n->dtype) != 0)
        dtype++;
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
    ir v;
    bool ok = ir_read(&v, m->tp, m->graph);
    if (!ok)
        cli_no_memory();
    for (int i = 0; i < m->n_in && ok; i++)
        if (!m->feeds[i]) {
            m->feeds[i] = make_input(m, d, m->in[i], &v);
            ok = m->feeds[i];
        }
    ir_free(&v);
    return ok;
}
