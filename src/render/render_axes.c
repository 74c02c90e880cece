/* Axes of a loop nest: which run on in every operand and are one, and which a box is cut along. */
#include "kernel/host/team_host.h"
#include "render/render_loops.h"

#include <string.h>

typedef tpi_loops nest;
typedef tpi_reading reading;

static bool runs_on(const nest *n, int a, int b, const int64_t *stride)
{
    if (stride[a] == 0 && stride[b] == 0)
        return true;
    if (stride[a] == 0 || stride[b] == 0)
        return false;
    return tpi_dim_mul(n->plan->graph->dims, stride[b], n->size[b]) == stride[a];
}

/* Joins axis b into a, its outer neighbour. */
static void join(nest *n, int a, int b)
{
    n->size[a] = tpi_dim_mul(n->plan->graph->dims, n->size[a], n->size[b]);
    for (int i = 0; i < n->n_reads; i++)
        n->reads[i].layout.stride[a] = n->reads[i].layout.stride[b];
    for (int i = 0; i < n->k->n_nodes; i++)
        n->out_stride[i][a] = n->out_stride[i][b];
}

static void drop_axis(nest *n, int a)
{
    for (int i = a; i + 1 < n->rank; i++) {
        n->size[i] = n->size[i + 1];
        n->reduced[i] = n->reduced[i + 1];
        for (int k = 0; k < n->k->n_nodes; k++)
            n->out_stride[k][i] = n->out_stride[k][i + 1];
        for (int k = 0; k < n->n_reads; k++)
            n->reads[k].layout.stride[i] = n->reads[k].layout.stride[i + 1];
    }
    n->rank--;
}

/* Outer places and rows keep their axes; rows take in those behind them. */
static bool may_join(const nest *n, int a, int b)
{
    const bool boxed = n->n_outer > 0 || n->row >= 0;
    return n->reduced[a] == n->reduced[b] && (!boxed || b != n->n_outer) && b != n->row;
}

static void join_axes(nest *n)
{
    for (int a = n->rank - 1; a >= 0; a--)
        if (n->size[a] == 1 && a != n->row) {
            drop_axis(n, a);
            n->n_outer -= a < n->n_outer;
            n->row -= a < n->row;
        }
    for (int b = n->rank - 1; b > 0; b--) {
        const int a = b - 1;
        bool joins = may_join(n, a, b);
        for (int i = 0; i < n->k->n_nodes && joins; i++)
            joins = !tpi_loops_is_kept(n, i) || runs_on(n, a, b, n->out_stride[i]);
        for (int i = 0; i < n->n_reads && joins; i++)
            joins = runs_on(n, a, b, n->reads[i].layout.stride);
        if (!joins)
            continue;
        if (a == n->row)
            n->per_row = tpi_dim_mul(n->plan->graph->dims, n->per_row, n->size[b]);
        join(n, a, b);
        drop_axis(n, b);
        n->n_outer -= b < n->n_outer;
        n->row -= b < n->row;
    }
}

/* Strides of every value that has memory. */
static void find_outputs(nest *n)
{
    for (int i = 0; i < n->k->n_nodes; i++) {
        const tpi_value *v = tpi_loops_value_at(n, i);
        if (tpi_loops_is_kept(n, i))
            tpi_domain_strides(n->k, v, v->layout.stride, n->out_stride[i]);
    }
}

/* Every operand that comes from memory. */
static void find_reads(nest *n)
{
    for (int i = 0; i < n->k->n_nodes; i++) {
        const tpi_value *v = tpi_loops_value_at(n, i);
        for (int o = 0; o < v->node->n_in; o++) {
            if (tpi_loops_inner_operand(n, v, o) || tpi_loops_is_literal(n, v, o))
                continue;
            reading *x = &n->reads[n->n_reads++];
            tpi_layout l;
            tpi_operand_layout(n->plan, v->node, o, &l);
            *x = (reading){.node = n->k->nodes[i], .operand = o, .layout = l};
            if (v->node->op->kind != TPI_REDUCE)
                tpi_domain_strides(n->k, v, l.stride, x->layout.stride);
            for (int a = 0; a < n->k->rank; a++)
                if (n->k->shape[a] == 1)
                    x->layout.stride[a] = 0;
        }
    }
}

/* Is it too little to share, whatever the sizes of a run? */
static bool is_small(const nest *n)
{
    double work = TPI_NEST_OP * n->k->n_nodes;
    for (int a = 0; a < n->rank; a++) {
        if (tpi_dim_is_symbolic(n->size[a]))
            return false;
        work *= (double)n->size[a];
    }
    return work < 2 * TPI_PART_WORK;
}

/* In a band or microbatch its outer places, and rows; else the outermost axis that is kept, if there is
 * enough to share. */
static void find_box(nest *n)
{
    n->outer = -1;
    if (tpi_loops_in_band(n) || tpi_loops_by_place(n)) {
        n->outer = n->n_outer == 1 ? 0 : -1;
        return;
    }
    for (int a = 0; a < n->rank && n->outer < 0 && !n->r->alone && !is_small(n); a++)
        if (!n->reduced[a]) {
            n->outer = a;
            n->n_outer = 1;
        }
}

void tpi_loops_begin(nest *n, tpi_render *r, int number)
{
    const tpi_kernel *k = &r->plan->kernels[number];
    *n = (nest){
        .r = r, .plan = r->plan, .k = k, .rank = k->rank, .depth = 1, .row = -1, .per_row = 1};
    memcpy(n->size, k->shape, sizeof n->size);
    for (int a = 0; a < k->rank; a++)
        n->reduced[a] = (k->reduced >> a) & 1;
    find_outputs(n);
    find_reads(n);
    if (tpi_loops_in_band(n)) {
        n->n_outer = r->plan->steps[k->step].n_outer;
        n->row = k->row;
        n->rows = k->shape[k->row];
    } else if (tpi_loops_by_place(n)) {
        n->n_outer = 1;
    }
    join_axes(n);
    find_box(n);
}

/* ---- their text ------------------------------------------------------------------------------------------- */

#define PUT(...) tpi_str_printf(&n->r->body, __VA_ARGS__)

void tpi_loops_put_size(nest *n, int64_t size)
{
    const bool plain = !tpi_dim_is_symbolic(size);
    tpi_dims *dims = n->plan->graph->dims;
    const int64_t factor = plain || !n->any_size ? 0 : tpi_dim_factor(dims, size);
    const int64_t rest = factor > 0 ? tpi_dim_div(dims, size, factor) : TPI_NO_DIM;
    if (plain && n->any_size) {
        tpi_render_number(n->r, size);
        return;
    }
    if (rest != TPI_NO_DIM) {
        PUT("(");
        tpi_render_number(n->r, factor);
        PUT(" * (");
        tpi_render_size(n->r, rest);
        PUT("))");
        return;
    }
    PUT("%s", plain ? "" : "(");
    tpi_render_size(n->r, size);
    PUT("%s", plain ? "" : ")");
}

/* The number of outer places. */
static void put_places(nest *n)
{
    if (n->n_outer == 0)
        PUT("1");
    for (int a = 0; a < n->n_outer; a++) {
        PUT("%s", a ? " * " : "");
        tpi_loops_put_size(n, n->size[n->outer < 0 ? a : n->outer]);
    }
}

void tpi_loops_put_box(nest *n, bool columns)
{
    PUT("    int64_t place = 0, o0 = 0, o1 = ");
    put_places(n);
    if (n->row >= 0) {
        PUT(", r0 = 0, r1 = ");
        tpi_loops_put_size(n, n->size[n->row]);
    }
    PUT(";\n    (void)place, (void)o0, (void)o1;\n");
    if (tpi_loops_by_place(n))
        PUT("    if (part && part->places)\n        o1 = part->places, part = 0;\n");
    PUT("    if (part) {\n"
        "        place = part->place, o0 = part->o0, o1 = part->o1;\n");
    if (n->row >= 0) {
        PUT("        r0 = part->r0 * ");
        tpi_loops_put_size(n, n->per_row);
        PUT(", r1 = part->r1 * ");
        tpi_loops_put_size(n, n->per_row);
        PUT(";\n");
    }
    PUT("    } else if (library->threads > 1) {\n"
        "        library->spread(library, " TPI_ALIKE_SELF ", %d.0",
        n->k->n_nodes);
    for (int a = 0; a < n->rank; a++) {
        PUT(" * (double)");
        if (a == 0 && tpi_loops_by_place(n))
            PUT("o1");
        else
            tpi_loops_put_size(n, n->size[a]);
    }
    PUT(", o1, ");
    if (n->row >= 0)
        tpi_loops_put_size(n, n->rows);
    else
        PUT("1");
    PUT(", %d, p, s, scratch, a);\n        return 0;\n    }\n",
        columns || n->rank == 1 ? TPI_LOOPS_COLUMNS : 1);
}
