/* Random attributes for any op. */
#ifndef TAPIR_IR_ANY_H
#define TAPIR_IR_ANY_H

#include "common/unit.h"
#include "ir/check.h"
#include "ir/graph_def.h"

#include <math.h>

static uint64_t seed = 20260;
/* Not 0 for half of the nodes: operands have two axes more, lists this length and numbers near 1,
 * as windows need them. */
static int64_t spatial;
/* Not NULL: half of the sizes are expressions over its symbols. */
static tp_graph *sizes_of;

static int64_t below(int64_t n)
{
    return (int64_t)(unit_random(&seed) % (uint64_t)n);
}

static int64_t any_int(int64_t near)
{
    static const int64_t far[] = {INT64_MIN,     INT64_MAX,       -9,      99,
                                  INT32_MAX,     INT32_MIN,       1 << 20, -(1 << 20),
                                  INT64_MAX - 1, (int64_t)1 << 40};
    return below(8) ? below(near + 3) - 1 : far[below(sizeof far / sizeof *far)];
}

static int64_t any_expression(void)
{
    const int64_t a = tp_symbol(sizes_of, "a"), b = tp_symbol(sizes_of, "b");
    switch (below(9)) {
    case 0:
        return tp_dim_add(sizes_of, a, 1);
    case 1:
        return tp_dim_mul(sizes_of, a, 2);
    case 2:
        return tp_dim_mul(sizes_of, a, b);
    case 3:
        return tp_dim_div(sizes_of, tp_dim_add(sizes_of, a, below(3)), 2);
    case 4:
        return tp_dim_add(sizes_of, a, b);
    case 5:
        return tpi_dim_sub(sizes_of->dims, a, below(2) ? b : 1);
    case 6:
        return b;
    default:
        return a;
    }
}

static int64_t any_size(void)
{
    if (sizes_of)
        return below(2) ? any_expression() : below(4);
    return below(20) ? below(5) : below(2) ? (int64_t)1 << below(62) : below(200000);
}

/* Is it made of any operands and attributes? Blocks have bodies, and outputs are of blocks. */
static bool is_plain(const tpi_op *op)
{
    return op->kind != TPI_SOURCE && op->kind != TPI_BLOCK && op->kind != TPI_PORT && op->n_in;
}

static void fill_attrs(const tpi_op *op, char *attrs)
{
    for (const tpi_attr *a = op->attrs; a && a->name; a++) {
        int64_t v = 0;
        tpi_list l = {0};
        const double doubles[] = {0, 1, -0.5, 1e300, (double)NAN, -(double)INFINITY};
        double d = doubles[below(6)];
        switch (a->type) {
        case TPI_ATTR_INT:
            v = any_int(3);
            if (spatial && below(20))
                v = strcmp(a->name, "groups") == 0 ? 1 + below(2) : below(2);
            break;
        case TPI_ATTR_BOOL:
            v = below(2);
            break;
        case TPI_ATTR_DTYPE:
            v = below(TP_N_DTYPES);
            break;
        case TPI_ATTR_DIM:
            v = any_size();
            break;
        case TPI_ATTR_F64:
            memcpy(attrs + a->offset, &d, sizeof d);
            continue;
        case TPI_ATTR_LIST:
        case TPI_ATTR_DIMS:
            l.n = spatial && below(20) ? spatial : below(8) ? below(5) : below(TP_MAX_RANK + 1);
            const bool rising = below(2), same = spatial && below(20);
            const int64_t base = strstr(a->name, "pad") ? 0 : 1;
            for (int64_t i = 0; i < l.n; i++)
                l.v[i] = base + below(2);
            for (int64_t i = 0; i < l.n && !same; i++)
                l.v[i] = a->type == TPI_ATTR_DIMS ? any_size() : rising ? i : any_int(4);
            memcpy(attrs + a->offset, &l, sizeof l);
            continue;
        case TPI_ATTR_BODY: /* nodes with bodies are made elsewhere */
            break;
        }
        memcpy(attrs + a->offset, &v, sizeof v);
    }
}

#endif
