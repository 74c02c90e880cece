#include "lower/loop.h"

#include <string.h>

const char *const tpi_fold_name[TPI_N_REDUCES] = {"sum", "prod", "max", "min"};

/* Room for one more behind n; NULL: no memory. */
static void *room(tpi_loop *l, void **v, int n, int *size, size_t each)
{
    void *grown = tpi_bump_grow(l->memory, *v, n, size, each);
    if (!grown)
        return NULL;
    *v = grown;
    return (char *)grown + (size_t)n * each;
}

int tpi_loop_add(tpi_loop *l, tpi_loop_stmt s)
{
    tpi_loop_stmt *to = room(l, (void **)&l->stmt, l->n_stmts, &l->stmts_size, sizeof *to);
    if (!to)
        return 0;
    *to = s;
    return l->n_stmts++;
}

int tpi_loop_add_mem(tpi_loop *l, tpi_loop_mem m)
{
    tpi_loop_mem *to = room(l, (void **)&l->mem, l->n_mems, &l->mems_size, sizeof *to);
    if (!to)
        return 0;
    *to = m;
    return l->n_mems++;
}

static bool same_at(const tpi_loop *l, const tpi_loop_at *a, const tpi_loop_at *b)
{
    return a->mem == b->mem && a->offset == b->offset &&
           memcmp(a->stride, b->stride, sizeof *a->stride * (size_t)l->rank) == 0;
}

int tpi_loop_add_at(tpi_loop *l, const tpi_loop_at *at)
{
    for (int i = 0; i < l->n_ats; i++)
        if (same_at(l, &l->at[i], at))
            return i;
    tpi_loop_at *to = room(l, (void **)&l->at, l->n_ats, &l->ats_size, sizeof *to);
    if (!to)
        return 0;
    *to = *at;
    return l->n_ats++;
}

void tpi_loop_end(tpi_loop *l, int each)
{
    if (!l->memory->failed)
        l->stmt[each].end = l->n_stmts;
}

static int first_of(const tpi_loop *l, tpi_loop_kind kind, int from)
{
    for (int i = from; i < l->n_stmts; i++)
        if (l->stmt[i].kind == kind)
            return i;
    return -1;
}

bool tpi_loop_has_phases(const tpi_loop *l)
{
    return first_of(l, TPI_LOOP_EACH, 1) >= 0;
}

int tpi_loop_first_fold(const tpi_loop *l)
{
    return first_of(l, TPI_LOOP_FOLD, 0);
}
