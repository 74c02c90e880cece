/* Loop nests.
 *
 * Rows (the last axis is reduced, or nothing is): loops over the kept axes around the stages of
 * one row. A stage is one loop over the reduced axes that computes what is new in it, then its
 * reductions, by src/kernel/reduce.h in the order of docs/numerics.md: of the memory they read,
 * of a row of scratch memory, or else of a block buffer of 4096 elements that the loop fills. A
 * full value that a later stage needs is taken from its memory, or kept in a row of scratch
 * memory, or computed again when that is cheap.
 *
 * Columns (the last axis is kept): rows of up to 1024 columns run over the reduced axes, and add
 * to accumulators beside each other.
 *
 * Axes that run on in every operand are joined first. */
#include "codegen/render.h"
#include "kernel/team_host.h"
#include "op/reduction.h"

#include <string.h>

enum { MAX_READS = TPI_MAX_NEST_OPERANDS, BLOCK = 4096, COLUMNS = 1024 };

/* One operand from memory, over the axes of the space. */
typedef struct reading {
    int node, operand; /* who reads what */
    tpi_layout layout; /* strides over the joined axes */
} reading;

typedef struct nest {
    tpi_render *r;
    const tpi_plan *plan;
    const tpi_kernel *k;
    int rank; /* joined axes */
    int64_t size[TP_MAX_RANK];
    bool reduced[TP_MAX_RANK];
    reading reads[MAX_READS];
    int n_reads;
    int n_stages;
    int depth;     /* of indentation */
    int split;     /* the axis that threads share: its places are from..to; -1: none */
    bool any_size; /* one loop: nests that differ in its size only are one function */
    /* by position in k->nodes: */
    int64_t out_stride[TPI_MAX_NEST_NODES][TP_MAX_RANK]; /* of what has memory */
    int home[MAX_READS];        /* stage that computes a full value first; -1: none yet */
    int scratch_row[MAX_READS]; /* number of the row that keeps it for later stages, or -1 */
    int n_scratch;
} nest;

static void line(nest *n)
{
    tpi_str_printf(&n->r->body, "%*s", 4 * n->depth, "");
}

#define PUT(...) tpi_str_printf(&n->r->body, __VA_ARGS__)
#define NAME(node) tpi_render_name(n->r, node)

static void put_size(nest *n, int64_t size)
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

static const tpi_value *value_at(const nest *n, int i)
{
    return &n->plan->values[n->k->nodes[i]];
}

/* Has the value memory? Others than this nest read it. */
static bool is_kept(const nest *n, int i)
{
    return value_at(n, i)->place != TPI_AT_INNER;
}

static const char *type_name(const tpi_value *v)
{
    return tp_dtype_name((tp_dtype)v->node->dtype);
}

/* The value operand o of v is made of, when it is computed in this nest; else NULL. */
static const tpi_value *inner_operand(const nest *n, const tpi_value *v, int o)
{
    const tpi_value *x = &n->plan->values[v->node->in[o]->index];
    const tpi_value *root = &n->plan->values[x->layout.root];
    return root->kernel == v->kernel && root->kernel >= 0 ? root : NULL;
}

static bool is_literal(const nest *n, const tpi_value *v, int o)
{
    const tpi_value *x = &n->plan->values[v->node->in[o]->index];
    return n->plan->values[x->layout.root].place == TPI_AT_LITERAL;
}

/* ---- axes -------------------------------------------------------------------------------------------- */

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

static void join_axes(nest *n)
{
    for (int a = n->rank - 1; a >= 0; a--)
        if (n->size[a] == 1)
            drop_axis(n, a);
    for (int b = n->rank - 1; b > 0; b--) {
        const int a = b - 1;
        bool joins = n->reduced[a] == n->reduced[b];
        for (int i = 0; i < n->k->n_nodes && joins; i++)
            joins = !is_kept(n, i) || runs_on(n, a, b, n->out_stride[i]);
        for (int i = 0; i < n->n_reads && joins; i++)
            joins = runs_on(n, a, b, n->reads[i].layout.stride);
        if (joins) {
            join(n, a, b);
            drop_axis(n, b);
        }
    }
}

/* Strides of every value that has memory. */
static void find_outputs(nest *n)
{
    for (int i = 0; i < n->k->n_nodes; i++) {
        const tpi_value *v = value_at(n, i);
        if (is_kept(n, i))
            tpi_domain_strides(n->k, v, v->layout.stride, n->out_stride[i]);
    }
}

/* Every operand that comes from memory. */
static void find_reads(nest *n)
{
    for (int i = 0; i < n->k->n_nodes; i++) {
        const tpi_value *v = value_at(n, i);
        for (int o = 0; o < v->node->n_in; o++) {
            if (inner_operand(n, v, o) || is_literal(n, v, o))
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

/* ---- expressions -------------------------------------------------------------------------------------- */

static const reading *find_read(const nest *n, int node, int operand)
{
    for (int i = 0; i < n->n_reads; i++)
        if (n->reads[i].node == node && n->reads[i].operand == operand)
            return &n->reads[i];
    return NULL;
}

/* " + i0 * 40": position over axes from..to-1, whose loop variables are i<axis>. */
static void put_position(nest *n, const int64_t *stride, int from, int to)
{
    for (int a = from; a < to; a++) {
        if (stride[a] == 0)
            continue;
        PUT(" + i%d", a);
        if (stride[a] != 1) {
            PUT(" * ");
            put_size(n, stride[a]);
        }
    }
}

static void put_load(nest *n, const reading *x)
{
    const int over = n->plan->values[x->layout.root].over;
    PUT("v%d[", NAME(over < 0 ? x->layout.root : over));
    put_size(n, x->layout.offset);
    put_position(n, x->layout.stride, 0, n->rank);
    PUT("]");
}

static void put_operand(nest *n, const tpi_value *v, int node, int o)
{
    const tpi_value *x = inner_operand(n, v, o);
    if (x) {
        PUT("x%d", NAME(x->layout.root));
    } else if (is_literal(n, v, o)) {
        const tpi_value *l = &n->plan->values[v->node->in[o]->index];
        tpi_render_literal(n->r, n->plan->values[l->layout.root].node);
    } else {
        put_load(n, find_read(n, node, o));
    }
}

/* const tpk_f32 x7 = tpk_add_f32(x5, v3[i0]); */
static void put_element(nest *n, int node)
{
    const tpi_value *v = &n->plan->values[node];
    const tp_tensor *t = v->node;
    tpi_render_place(n->r, t);
    line(n);
    PUT("const tpk_%s x%d = ", type_name(v), NAME(node));
    if (t->op == &tpi_op_cast)
        PUT("tpk_cast_%s_%s(", tp_dtype_name((tp_dtype)t->in[0]->dtype), type_name(v));
    else
        PUT("tpk_%s_%s(", t->op->name,
            tp_dtype_name((tp_dtype)t->in[t->op == &tpi_op_where]->dtype));
    for (int o = 0; o < t->n_in; o++) {
        PUT("%s", o ? ", " : "");
        put_operand(n, v, node, o);
    }
    PUT(");\n");
}

static const char *reduce_name(const tp_tensor *t)
{
    return t->op == &tpi_op_prod         ? "prod"
           : t->op == &tpi_op_reduce_max ? "max"
           : t->op == &tpi_op_reduce_min ? "min"
                                         : "sum";
}

/* Reductions of floats are the library's. */
static const char *called(const nest *n, const tpi_value *v)
{
    return v->node->dtype >= TP_F32 ? n->r->called : "tpk_";
}

/* The number of elements of one reduction. */
static int64_t count_of(const nest *n)
{
    int64_t count = 1;
    for (int a = 0; a < n->rank; a++)
        if (n->reduced[a])
            count = tpi_dim_mul(n->plan->graph->dims, count, n->size[a]);
    return count;
}

static void put_mean(nest *n, const tpi_value *v, int name)
{
    if (v->node->op == &tpi_op_mean) {
        line(n);
        PUT("x%d /= (tpk_%s)", name, type_name(v));
        put_size(n, count_of(n));
        PUT(";\n");
    }
}

static void put_store(nest *n, int i)
{
    const int node = n->k->nodes[i];
    tpi_render_place(n->r, n->plan->values[node].node);
    line(n);
    PUT("v%d[0", NAME(node));
    put_position(n, n->out_stride[i], 0, n->rank);
    PUT("] = x%d;\n", NAME(node));
}

/* ---- loops ------------------------------------------------------------------------------------------------ */

static void open_loop(nest *n, int axis)
{
    line(n);
    if (axis == n->split) {
        PUT("for (int64_t i%d = from; i%d < to; i%d++) {\n", axis, axis, axis);
    } else {
        PUT("for (int64_t i%d = 0; i%d < ", axis, axis);
        put_size(n, n->size[axis]);
        PUT("; i%d++) {\n", axis);
    }
    n->depth++;
}

/* Before a loop of which each turn writes elements of its own and reads none of another turn's. */
static void put_independent(nest *n)
{
    line(n);
    PUT("TPK_INDEPENDENT\n");
}

static void close_loop(nest *n)
{
    n->depth--;
    line(n);
    PUT("}\n");
}

/* ---- rows --------------------------------------------------------------------------------------------------- */

static bool is_cheap(const nest *n, const tpi_value *v)
{
    bool is = tpi_is_cheap(v->node->op);
    for (int o = 0; o < v->node->n_in && is; o++) {
        const tpi_value *x = inner_operand(n, v, o);
        is = !x || x->row;
    }
    return is;
}

/* Is full value `node` needed in `stage`: by a reduction or the store of that stage, or by a
 * full value that is computed in it? */
static bool needed(const nest *n, int at, int stage, const bool *computed)
{
    const int node = n->k->nodes[at];
    if (node == n->k->root)
        return stage == n->n_stages - 1;
    for (int i = at + 1; i < n->k->n_nodes; i++) {
        const tpi_value *v = value_at(n, i);
        const bool reads =
            v->node->op->kind == TPI_REDUCE ? v->stage == stage : !v->row && computed[i];
        for (int o = 0; o < v->node->n_in && reads; o++) {
            const tpi_value *x = inner_operand(n, v, o);
            if (x && x->layout.root == node)
                return true;
        }
    }
    return false;
}

/* What a stage computes or takes from scratch; later nodes first, since they say what they need. */
static void plan_stage(nest *n, int stage, bool *computed, bool *taken)
{
    for (int i = n->k->n_nodes - 1; i >= 0; i--) {
        const tpi_value *v = value_at(n, i);
        computed[i] = taken[i] = false;
        if (v->row || v->stage > stage || !needed(n, i, stage, computed))
            continue;
        if (n->home[i] < 0)
            n->home[i] = stage;
        computed[i] = n->home[i] == stage || is_cheap(n, v);
        taken[i] = !computed[i];
    }
}

/* Rows of scratch for what a later stage takes, if it has no memory. */
static void plan_scratch(nest *n)
{
    bool computed[MAX_READS], taken[MAX_READS];
    for (int i = 0; i < n->k->n_nodes; i++)
        n->scratch_row[i] = n->home[i] = -1;
    for (int stage = 0; stage < n->n_stages; stage++) {
        plan_stage(n, stage, computed, taken);
        for (int i = 0; i < n->k->n_nodes; i++)
            if (taken[i] && n->scratch_row[i] < 0 && !is_kept(n, i))
                n->scratch_row[i] = n->n_scratch++;
    }
}

static bool reduces_in(const nest *n, int i, int stage)
{
    const tpi_value *v = value_at(n, i);
    return v->node->op->kind == TPI_REDUCE && v->stage == stage;
}

/* Do the elements of a row lie one after the other, in the order in which they are reduced? */
static bool is_whole(const nest *n, const int64_t *stride)
{
    int reduced = 0;
    bool unit = false;
    for (int a = 0; a < n->rank; a++)
        if (n->reduced[a]) {
            reduced++;
            unit = stride[a] == 1;
        }
    return reduced == 1 && unit;
}

/* Where the row begins of memory with these strides. */
static void put_row_address(nest *n, int root, int64_t offset, const int64_t *stride)
{
    PUT("v%d + ", NAME(root));
    put_size(n, offset);
    for (int a = 0; a < n->rank; a++)
        if (!n->reduced[a])
            put_position(n, stride, a, a + 1);
}

/* The same of an operand that is computed here: position `at` in the nest. */
static bool put_inner_row(nest *n, int at, bool write)
{
    const bool scratch = n->scratch_row[at] >= 0;
    const bool memory =
        is_kept(n, at) && !value_at(n, at)->row && is_whole(n, n->out_stride[at]);
    if (write && scratch)
        PUT("t%d", n->scratch_row[at]);
    else if (write && memory)
        put_row_address(n, n->k->nodes[at], 0, n->out_stride[at]);
    return scratch || memory;
}

/* Can the operand be reduced where it lies? Then writes where its row begins. */
static bool put_whole_row(nest *n, int i, bool write)
{
    const tpi_value *v = value_at(n, i), *x = inner_operand(n, v, 0);
    for (int k = 0; x && k < i; k++)
        if (n->k->nodes[k] == x->layout.root)
            return put_inner_row(n, k, write);
    if (is_literal(n, v, 0))
        return false;
    const reading *l = find_read(n, n->k->nodes[i], 0);
    if (!is_whole(n, l->layout.stride))
        return false;
    if (write)
        put_row_address(n, l->layout.root, l->layout.offset, l->layout.stride);
    return true;
}

static bool reduces_blocks(const nest *n, int i, int stage)
{
    return reduces_in(n, i, stage) && !put_whole_row((nest *)n, i, false);
}

/* Row values of this stage, once it is done: its elementwise ones are computed, and all are stored that
 * have memory. */
static void put_row_values(nest *n, int stage)
{
    for (int i = 0; i < n->k->n_nodes; i++) {
        const tpi_value *v = value_at(n, i);
        if (v->row && v->node->op->kind == TPI_ELEMENT && v->stage == stage)
            put_element(n, n->k->nodes[i]);
    }
    for (int i = 0; i < n->k->n_nodes; i++)
        if (value_at(n, i)->row && value_at(n, i)->stage == stage && is_kept(n, i))
            put_store(n, i);
}

/* The body of a stage's innermost loop. `q` is where its elements go in a block or row. */
static void put_full_elements(nest *n, int stage, const bool *computed, const bool *taken)
{
    for (int i = 0; i < n->k->n_nodes; i++) {
        const int node = n->k->nodes[i];
        const tpi_value *v = value_at(n, i);
        if (taken[i] && is_kept(n, i)) {
            line(n);
            PUT("const tpk_%s x%d = v%d[0", type_name(v), NAME(node), NAME(node));
            put_position(n, n->out_stride[i], 0, n->rank);
            PUT("];\n");
        } else if (taken[i]) {
            line(n);
            PUT("const tpk_%s x%d = t%d[at];\n", type_name(v), NAME(node), n->scratch_row[i]);
        } else if (computed[i]) {
            put_element(n, node);
            if (n->scratch_row[i] >= 0 && n->home[i] == stage) {
                line(n);
                PUT("t%d[at] = x%d;\n", n->scratch_row[i], NAME(node));
            }
        }
    }
    for (int i = 0; i < n->k->n_nodes; i++)
        if (reduces_blocks(n, i, stage)) {
            line(n);
            PUT("b%d[q + j] = ", NAME(n->k->nodes[i]));
            put_operand(n, value_at(n, i), n->k->nodes[i], 0);
            PUT(";\n");
        }
    for (int i = 0; i < n->k->n_nodes; i++)
        if (computed[i] && n->home[i] == stage && is_kept(n, i))
            put_store(n, i);
}

static void put_whole_reductions(nest *n, int stage)
{
    for (int i = 0; i < n->k->n_nodes; i++) {
        if (!reduces_in(n, i, stage) || reduces_blocks(n, i, stage))
            continue;
        const tpi_value *v = value_at(n, i);
        const int name = NAME(n->k->nodes[i]);
        tpi_render_place(n->r, v->node);
        line(n);
        PUT("tpk_%s x%d = %sreduce_%s_%s(", type_name(v), name, called(n, v),
            reduce_name(v->node), type_name(v));
        put_whole_row(n, i, true);
        PUT(", ");
        put_size(n, count_of(n));
        PUT(");\n");
        put_mean(n, v, name);
    }
}

static void put_stage_reductions(nest *n, int stage, bool begin)
{
    for (int i = 0; i < n->k->n_nodes; i++) {
        if (!reduces_blocks(n, i, stage))
            continue;
        const tpi_value *v = value_at(n, i);
        const int name = NAME(n->k->nodes[i]);
        const char *op = reduce_name(v->node), *type = type_name(v);
        if (begin) {
            line(n);
            PUT("tpk_%s b%d[%d];\n", type, name, BLOCK);
            line(n);
            PUT("tpk_reduce_%s_acc_%s a%d;\n", op, type, name);
            line(n);
            PUT("a%d.count = 0;\n", name);
            continue;
        }
        line(n);
        PUT("if (q || !a%d.count)\n", name);
        line(n);
        PUT("    tpk_reduce_%s_push_%s(&a%d, %sreduce_%s_block_%s(b%d, q, TPK_LANES(", op, type,
            name, called(n, v), op, type, name);
        put_size(n, count_of(n));
        PUT(")));\n");
        line(n);
        PUT("x%d = tpk_reduce_%s_end_%s(&a%d);\n", name, op, type, name);
        put_mean(n, v, name);
    }
}

static bool has_blocks(const nest *n, int stage)
{
    for (int i = 0; i < n->k->n_nodes; i++)
        if (reduces_blocks(n, i, stage))
            return true;
    return false;
}

/* One stage with reductions: blocks of 4096 elements in their order. */
static void put_blocked_stage(nest *n, int stage, const bool *computed, const bool *taken)
{
    for (int i = 0; i < n->k->n_nodes; i++)
        if (reduces_blocks(n, i, stage)) {
            line(n);
            PUT("tpk_%s x%d;\n", type_name(value_at(n, i)), NAME(n->k->nodes[i]));
        }
    line(n);
    PUT("{\n");
    n->depth++;
    put_stage_reductions(n, stage, true);
    line(n);
    PUT("int64_t q = 0, row = 0;\n");
    line(n);
    PUT("(void)row;\n");
    int opened = 0, inner = -1;
    for (int a = 0; a < n->rank; a++)
        if (n->reduced[a])
            inner = a;
    for (int a = 0; a < n->rank; a++)
        if (n->reduced[a] && a != inner) {
            open_loop(n, a);
            opened++;
        }
    line(n);
    if (inner < 0) {
        PUT("const int64_t m = 1, j = 0, at = 0;\n");
        line(n);
        PUT("(void)at;\n");
        put_full_elements(n, stage, computed, taken);
    } else {
        PUT("for (int64_t base = 0, m; base < ");
        put_size(n, n->size[inner]);
        PUT("; base += m) {\n");
        n->depth++;
        line(n);
        PUT("m = ");
        put_size(n, n->size[inner]);
        PUT(" - base < %d - q ? ", BLOCK);
        put_size(n, n->size[inner]);
        PUT(" - base : %d - q;\n", BLOCK);
        put_independent(n);
        line(n);
        PUT("for (int64_t j = 0; j < m; j++) {\n");
        n->depth++;
        line(n);
        PUT("const int64_t i%d = base + j, at = row + j;\n", inner);
        line(n);
        PUT("(void)i%d, (void)at;\n", inner);
        put_full_elements(n, stage, computed, taken);
        close_loop(n);
    }
    line(n);
    PUT("q += m, row += m;\n");
    line(n);
    PUT("if (q == %d) {\n", BLOCK);
    for (int i = 0; i < n->k->n_nodes; i++)
        if (reduces_blocks(n, i, stage)) {
            const tpi_value *v = value_at(n, i);
            const char *op = reduce_name(v->node), *type = type_name(v);
            line(n);
            PUT("    tpk_reduce_%s_push_%s(&a%d, %sreduce_%s_block_%s(b%d, %d, "
                "TPK_LANES(%d)));\n",
                op, type, NAME(n->k->nodes[i]), called(n, v), op, type, NAME(n->k->nodes[i]),
                BLOCK, BLOCK);
        }
    line(n);
    PUT("    q = 0;\n");
    line(n);
    PUT("}\n");
    if (inner >= 0)
        close_loop(n);
    while (opened--)
        close_loop(n);
    put_stage_reductions(n, stage, false);
    close_loop(n);
}

static void put_plain_stage(nest *n, int stage, const bool *computed, const bool *taken)
{
    bool any = false, rows = false;
    for (int i = 0; i < n->k->n_nodes; i++) {
        any |= computed[i] || taken[i];
        rows |= (taken[i] && !is_kept(n, i)) ||
                (computed[i] && n->scratch_row[i] >= 0 && n->home[i] == stage);
    }
    if (!any)
        return;
    int opened = 0, inner = -1;
    for (int a = 0; a < n->rank; a++)
        if (n->reduced[a] || !n->k->reduced)
            inner = a;
    if (rows) {
        line(n);
        PUT("{\n");
        n->depth++;
        line(n);
        PUT("int64_t row = 0;\n");
    }
    for (int a = 0; a < n->rank; a++)
        if (n->reduced[a] || (!n->k->reduced && a == inner)) {
            if (a == inner)
                put_independent(n);
            open_loop(n, a);
            opened++;
        }
    if (rows) {
        line(n);
        PUT(inner >= 0 ? "const int64_t at = row + i%d;\n" : "const int64_t at = row;\n",
            inner);
    }
    put_full_elements(n, stage, computed, taken);
    for (int i = opened; i > 0; i--) {
        close_loop(n);
        if (rows && i == opened && opened > 1) {
            line(n);
            PUT("row += ");
            put_size(n, n->size[inner]);
            PUT(";\n");
        }
    }
    if (rows)
        close_loop(n);
}

static void put_rows(nest *n)
{
    bool computed[MAX_READS], taken[MAX_READS];
    plan_scratch(n);
    int64_t room = 0; /* scratch rows */
    for (int i = 0; i < n->k->n_nodes; i++)
        if (n->scratch_row[i] >= 0) {
            line(n);
            PUT("tpk_%s *restrict t%d = (tpk_%s *)((char *)scratch + (",
                type_name(value_at(n, i)), n->scratch_row[i], type_name(value_at(n, i)));
            if (n->split >= 0)
                PUT("place * %d + ", n->n_scratch);
            PUT("%d) * ((", n->scratch_row[i]);
            put_size(n, count_of(n));
            PUT(" * 8 + 63) & ~(int64_t)63));\n");
            room++;
        }
    if (room) {
        tpi_str body = n->r->body;
        n->r->body = n->r->scratch;
        PUT("    need = %s%lld * ((", n->split < 0 ? "" : "library->threads * ",
            (long long)room);
        put_size(n, count_of(n));
        PUT(" * 8 + 63) & ~(int64_t)63);\n    most = need > most ? need : most;\n");
        n->r->scratch = n->r->body;
        n->r->body = body;
    }
    int kept = 0;
    for (int a = 0; a < n->rank; a++)
        if (!n->reduced[a] && (n->k->reduced || a + 1 < n->rank)) {
            open_loop(n, a);
            kept++;
        }
    put_row_values(n, -1);
    for (int stage = 0; stage < n->n_stages; stage++) {
        plan_stage(n, stage, computed, taken);
        if (has_blocks(n, stage))
            put_blocked_stage(n, stage, computed, taken);
        else
            put_plain_stage(n, stage, computed, taken);
        put_whole_reductions(n, stage);
        put_row_values(n, stage);
    }
    while (kept--)
        close_loop(n);
}

/* ---- columns ------------------------------------------------------------------------------------------------ */

/* Folds the accumulators of up to 4096 rows into the totals. */
static void put_fold(nest *n)
{
    for (int i = 0; i < n->k->n_nodes; i++) {
        const tpi_value *v = value_at(n, i);
        if (v->node->op->kind != TPI_REDUCE)
            continue;
        const int name = NAME(n->k->nodes[i]);
        line(n);
        PUT("    y%d[j] = first ? a%d[j] : tpk_reduce_%s_step_%s(y%d[j], a%d[j]), a%d[j] = "
            "tpk_reduce_%s_empty_%s;\n",
            name, name, reduce_name(v->node), type_name(v), name, name, name,
            reduce_name(v->node), type_name(v));
    }
}

/* Behind the last column: of a part, when threads share them. */
static void put_columns_end(nest *n, int column, bool shared)
{
    if (column >= 0 && !shared)
        put_size(n, n->size[column]);
    else
        PUT(shared ? "to" : "1");
}

static void put_columns(nest *n)
{
    int column = -1, opened = 0, kept = 0;
    for (int a = 0; a < n->rank; a++)
        if (!n->reduced[a])
            column = a;
    for (int a = 0; a < n->rank; a++)
        if (!n->reduced[a] && a != column) {
            open_loop(n, a);
            kept++;
        }
    const bool shared = column >= 0 && column == n->split;
    line(n);
    PUT("for (int64_t base = %s; base < ", shared ? "from" : "0");
    put_columns_end(n, column, shared);
    PUT("; base += %d) {\n", COLUMNS);
    n->depth++;
    line(n);
    PUT("int64_t m = ");
    put_columns_end(n, column, shared);
    PUT(" - base, rows = 0;\n");
    line(n);
    PUT("int first = 1;\n");
    line(n);
    PUT("m = m < %d ? m : %d;\n", COLUMNS, COLUMNS);
    for (int i = 0; i < n->k->n_nodes; i++) {
        const tpi_value *v = value_at(n, i);
        if (v->node->op->kind != TPI_REDUCE)
            continue;
        const int name = NAME(n->k->nodes[i]);
        line(n);
        PUT("tpk_%s a%d[%d], y%d[%d];\n", type_name(v), name, COLUMNS, name, COLUMNS);
        line(n);
        PUT("for (int64_t j = 0; j < m; j++)\n");
        line(n);
        PUT("    a%d[j] = y%d[j] = tpk_reduce_%s_empty_%s;\n", name, name, reduce_name(v->node),
            type_name(v));
    }
    for (int a = 0; a < n->rank; a++)
        if (n->reduced[a]) {
            open_loop(n, a);
            opened++;
        }
    put_independent(n);
    line(n);
    PUT("for (int64_t j = 0; j < m; j++) {\n");
    n->depth++;
    if (column >= 0) {
        line(n);
        PUT("const int64_t i%d = base + j;\n", column);
        line(n);
        PUT("(void)i%d;\n", column);
    }
    for (int i = 0; i < n->k->n_nodes; i++)
        if (!value_at(n, i)->row)
            put_element(n, n->k->nodes[i]);
    for (int i = 0; i < n->k->n_nodes; i++)
        if (!value_at(n, i)->row && is_kept(n, i))
            put_store(n, i);
    for (int i = 0; i < n->k->n_nodes; i++) {
        const tpi_value *v = value_at(n, i);
        if (v->node->op->kind != TPI_REDUCE)
            continue;
        const int name = NAME(n->k->nodes[i]);
        line(n);
        PUT("a%d[j] = tpk_reduce_%s_step_%s(a%d[j], ", name, reduce_name(v->node), type_name(v),
            name);
        put_operand(n, v, n->k->nodes[i], 0);
        PUT(");\n");
    }
    close_loop(n);
    line(n);
    PUT("if (++rows == %d) {\n", BLOCK);
    n->depth++;
    line(n);
    PUT("for (int64_t j = 0; j < m; j++) {\n");
    put_fold(n);
    line(n);
    PUT("}\n");
    line(n);
    PUT("rows = 0, first = 0;\n");
    close_loop(n);
    while (opened--)
        close_loop(n);
    line(n);
    PUT("if (rows || first)\n");
    line(n);
    PUT("    for (int64_t j = 0; j < m; j++) {\n");
    n->depth++;
    put_fold(n);
    n->depth--;
    line(n);
    PUT("    }\n");
    put_independent(n);
    line(n);
    PUT("for (int64_t j = 0; j < m; j++) {\n");
    n->depth++;
    if (column >= 0) {
        line(n);
        PUT("const int64_t i%d = base + j;\n", column);
    }
    for (int i = 0; i < n->k->n_nodes; i++) {
        const tpi_value *v = value_at(n, i);
        const int name = NAME(n->k->nodes[i]);
        if (v->node->op->kind == TPI_REDUCE) {
            line(n);
            PUT("tpk_%s x%d = y%d[j];\n", type_name(v), name, name);
            put_mean(n, v, name);
        } else if (v->row) {
            put_element(n, n->k->nodes[i]);
        }
    }
    for (int i = 0; i < n->k->n_nodes; i++)
        if (value_at(n, i)->row && is_kept(n, i))
            put_store(n, i);
    close_loop(n);
    close_loop(n);
    while (kept--)
        close_loop(n);
}

/* ---- a nest --------------------------------------------------------------------------------------------------- */

static void put_memories(nest *n)
{
    for (int i = 0; i < n->n_reads; i++) {
        bool seen = n->plan->values[n->reads[i].layout.root].over >= 0; /* the root's */
        for (int k = 0; k < i; k++)
            seen |= n->reads[k].layout.root == n->reads[i].layout.root;
        if (!seen)
            tpi_render_memory(n->r, n->reads[i].layout.root, false);
    }
    for (int i = 0; i < n->k->n_nodes; i++)
        if (is_kept(n, i))
            tpi_render_memory(n->r, n->k->nodes[i], true);
}

/* Is it too little to share, whatever the sizes of a run? */
static bool is_small(const nest *n)
{
    double work = n->k->n_nodes;
    for (int a = 0; a < n->rank; a++) {
        if (tpi_dim_is_symbolic(n->size[a]))
            return false;
        work *= (double)n->size[a];
    }
    return work < 2 * TPI_PART_WORK;
}

/* The outermost axis that is kept; -1: there is none, or nothing to share. */
static int axis_to_split(const nest *n)
{
    for (int a = 0; a < n->rank && !n->r->alone && !is_small(n); a++)
        if (!n->reduced[a])
            return a;
    return -1;
}

/* Which places of the split axis are computed: all of them, by whatever threads there are, or the
 * part that a thread is given. */
static void put_sharing(nest *n, bool columns)
{
    PUT("    int64_t place = 0, from = 0, to = ");
    put_size(n, n->size[n->split]);
    PUT(";\n    (void)place;\n    if (part) {\n"
        "        place = part[0], from = part[1], to = part[2];\n"
        "    } else if (library->threads > 1) {\n"
        "        library->spread(library, " TPI_ALIKE_SELF ", %d.0",
        n->k->n_nodes);
    for (int a = 0; a < n->rank; a++) {
        PUT(" * (double)");
        put_size(n, n->size[a]);
    }
    PUT(", to, %d, p, s, scratch, a);\n        return 0;\n    }\n",
        columns || n->rank == 1 ? COLUMNS : 1);
}

void tpi_render_loop(tpi_render *r, int number)
{
    const tpi_kernel *k = &r->plan->kernels[number];
    nest state = {.r = r, .plan = r->plan, .k = k, .rank = k->rank, .depth = 1}, *n = &state;
    memcpy(n->size, k->shape, sizeof n->size);
    for (int a = 0; a < k->rank; a++)
        n->reduced[a] = (k->reduced >> a) & 1;
    find_outputs(n);
    find_reads(n);
    const bool columns = k->has_reduced && k->reduced && !tpi_reduces_last(k);
    join_axes(n);
    for (int i = 0; i < k->n_nodes; i++) {
        const tpi_value *v = value_at(n, i);
        n->n_stages = v->stage + 1 > n->n_stages ? v->stage + 1 : n->n_stages;
        if (v->node->op->kind == TPI_REDUCE)
            r->texts |=
                1u << (v->node->dtype >= TP_F32 ? TPI_TEXT_reduce : TPI_TEXT_reduce_int);
    }
    n->any_size = n->rank <= 1 && !k->reduced && !r->alone;
    n->split = axis_to_split(n);
    tpi_render_head(r, number);
    if (n->split >= 0)
        put_sharing(n, columns);
    put_memories(n);
    if (columns)
        put_columns(n);
    else
        put_rows(n);
    PUT("    return 0;\n}\n");
}
