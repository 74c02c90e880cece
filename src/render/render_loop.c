/* Loop nests.
 *
 * Rows (the last axis is reduced, or nothing is): loops over the kept axes around the stages of
 * one row. A stage is one loop over the reduced axes that computes what is new in it, then its
 * reductions, by src/kernel/text/reduce.h in the order of docs/numerics.md: of the memory they read,
 * of a row of scratch memory, or else of a block buffer of 4096 elements that the loop fills. A
 * full value that a later stage needs is taken from its memory, or kept in a row of scratch
 * memory, or computed again when that is cheap.
 *
 * Columns (the last axis is kept): rows of up to 1024 columns run over the reduced axes, and add
 * to accumulators beside each other.
 *
 * Axes that run on in every operand are joined first. */
#include "op/reduction.h"
#include "render/render_trail.h"

#include <math.h>
#include <string.h>

enum {
    MAX_READS = TPI_MAX_NEST_OPERANDS,
    BLOCK = 4096,
    COLUMNS = TPI_LOOPS_COLUMNS,
    PIECE = 128
};

typedef tpi_loops nest;
typedef tpi_reading reading;

static void line(nest *n)
{
    tpi_str_printf(&n->r->body, "%*s", 4 * n->depth, "");
}

#define PUT(...) tpi_str_printf(&n->r->body, __VA_ARGS__)
#define LINE(...) (line(n), PUT(__VA_ARGS__))
#define NAME(node) tpi_render_name(n->r, node)
#define put_size tpi_loops_put_size

static const char *type_name(const tpi_value *v)
{
    return tp_dtype_name((tp_dtype)v->node->dtype);
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

/* The node by whose name the memory goes: the root's, where that is written over it. */
static int memory_of(const nest *n, const reading *x)
{
    const int over = n->plan->values[x->layout.root].over;
    return over < 0 ? x->layout.root : over;
}

static void put_load(nest *n, const reading *x)
{
    PUT("v%d[", NAME(memory_of(n, x)));
    put_size(n, x->layout.offset);
    put_position(n, x->layout.stride, 0, n->rank);
    PUT("]");
}

static void put_operand(nest *n, const tpi_value *v, int node, int o)
{
    const tpi_value *x = tpi_loops_inner_operand(n, v, o);
    if (x) {
        PUT("x%d", NAME(x->layout.root));
    } else if (tpi_loops_is_literal(n, v, o)) {
        const tpi_value *l = &n->plan->values[v->node->in[o]->index];
        tpi_render_literal(n->r, n->plan->values[l->layout.root].node);
    } else {
        put_load(n, find_read(n, node, o));
    }
}

/* Of a max or min of floats, the operand that is a number for which there is a shorter way; -1. */
static int bound_of(const nest *n, const tpi_value *v)
{
    const tp_tensor *t = v->node;
    int found = -1;
    for (int o = 0; o < t->n_in && (t->op == &tpi_op_max || t->op == &tpi_op_min); o++) {
        const tpi_value *x = &n->plan->values[t->in[o]->index];
        const tp_tensor *c = n->plan->values[x->layout.root].node;
        if (t->dtype < TP_F32 || !tpi_loops_is_literal(n, v, o) || c->op->kind == TPI_SHAPE)
            continue;
        const double b = tpi_load_f64((tp_dtype)c->dtype, c->in[0]->data);
        const bool wrong_zero = b == 0 && !signbit(b) != (t->op == &tpi_op_max);
        if (!isnan(b) && !wrong_zero)
            found = o;
    }
    return found;
}

/* const tpk_f32 x7 = tpk_add_f32(x5, v3[i0]); */
static void put_element(nest *n, int node)
{
    const tpi_value *v = &n->plan->values[node];
    const tp_tensor *t = v->node;
    const int bound = bound_of(n, v);
    tpi_render_place(n->r, t);
    LINE("const tpk_%s x%d = ", type_name(v), NAME(node));
    if (t->op == &tpi_op_cast)
        PUT("tpk_cast_%s_%s(", tp_dtype_name((tp_dtype)t->in[0]->dtype), type_name(v));
    else if (bound >= 0)
        PUT("tpk_%s_%s(", t->op == &tpi_op_max ? "at_least" : "at_most", type_name(v));
    else if (tpi_loops_is_exp_down(t))
        PUT("tpk_exp_down_f32(");
    else
        PUT("tpk_%s_%s(", t->op->name,
            tp_dtype_name((tp_dtype)t->in[t->op == &tpi_op_where]->dtype));
    for (int o = 0; o < t->n_in; o++) {
        PUT("%s", o ? ", " : "");
        put_operand(n, v, node, bound == 0 ? 1 - o : o);
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
        LINE("x%d /= (tpk_%s)", name, type_name(v));
        put_size(n, count_of(n));
        PUT(";\n");
    }
}

static void put_store(nest *n, int i)
{
    const int node = n->k->nodes[i];
    tpi_render_place(n->r, n->plan->values[node].node);
    LINE("v%d[0", NAME(node));
    put_position(n, n->out_stride[i], 0, n->rank);
    PUT("] = x%d;\n", NAME(node));
}

/* ---- loops ------------------------------------------------------------------------------------------------ */

static void open_loop(nest *n, int axis)
{
    line(n);
    if (axis == n->outer || axis == n->row) {
        const char c = axis == n->row ? 'r' : 'o';
        PUT("for (int64_t i%d = %c0; i%d < %c1; i%d++) {\n", axis, c, axis, c, axis);
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
    LINE("TPK_INDEPENDENT\n");
}

/* A loop over outer places, whose axes do not run on. */
static void open_places(nest *n)
{
    LINE("for (int64_t o = o0; o < o1; o++) {\n");
    n->depth++;
    for (int a = 0; a < n->n_outer; a++) {
        LINE("const int64_t i%d = o", a);
        for (int b = a + 1; b < n->n_outer; b++) {
            PUT(" / ");
            put_size(n, n->size[b]);
        }
        if (a > 0) {
            PUT(" %% ");
            put_size(n, n->size[a]);
        }
        PUT(";\n");
        LINE("(void)i%d;\n", a);
    }
}

static void close_loop(nest *n)
{
    n->depth--;
    LINE("}\n");
}

/* ---- rows --------------------------------------------------------------------------------------------------- */

static bool is_cheap(const nest *n, const tpi_value *v)
{
    bool is = v->node->op->effort == TPI_CHEAP;
    for (int o = 0; o < v->node->n_in && is; o++) {
        const tpi_value *x = tpi_loops_inner_operand(n, v, o);
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
        const tpi_value *v = tpi_loops_value_at(n, i);
        const bool reads =
            v->node->op->kind == TPI_REDUCE ? v->stage == stage : !v->row && computed[i];
        for (int o = 0; o < v->node->n_in && reads; o++) {
            const tpi_value *x = tpi_loops_inner_operand(n, v, o);
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
        const tpi_value *v = tpi_loops_value_at(n, i);
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
            if (taken[i] && n->scratch_row[i] < 0 && !tpi_loops_is_kept(n, i))
                n->scratch_row[i] = n->n_scratch++;
    }
}

static bool reduces_in(const nest *n, int i, int stage)
{
    const tpi_value *v = tpi_loops_value_at(n, i);
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
    const bool memory = tpi_loops_is_kept(n, at) && !tpi_loops_value_at(n, at)->row &&
                        is_whole(n, n->out_stride[at]);
    if (write && scratch)
        PUT("t%d", n->scratch_row[at]);
    else if (write && memory)
        put_row_address(n, n->k->nodes[at], 0, n->out_stride[at]);
    return scratch || memory;
}

/* Can the operand be reduced where it lies? Then writes where its row begins. */
static bool put_whole_row(nest *n, int i, bool write)
{
    const tpi_value *v = tpi_loops_value_at(n, i), *x = tpi_loops_inner_operand(n, v, 0);
    for (int k = 0; x && k < i; k++)
        if (n->k->nodes[k] == x->layout.root)
            return put_inner_row(n, k, write);
    if (tpi_loops_is_literal(n, v, 0))
        return false;
    const reading *l = find_read(n, n->k->nodes[i], 0);
    if (!is_whole(n, l->layout.stride))
        return false;
    if (write)
        put_row_address(n, memory_of(n, l), l->layout.offset, l->layout.stride);
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
        const tpi_value *v = tpi_loops_value_at(n, i);
        if (v->row && v->node->op->kind == TPI_ELEMENT && v->stage == stage)
            put_element(n, n->k->nodes[i]);
    }
    for (int i = 0; i < n->k->n_nodes; i++)
        if (tpi_loops_value_at(n, i)->row && tpi_loops_value_at(n, i)->stage == stage &&
            tpi_loops_is_kept(n, i))
            put_store(n, i);
}

/* The body of a stage's innermost loop. `q` is where its elements go in a block or row. */
static void put_full_elements(nest *n, int stage, const bool *computed, const bool *taken)
{
    for (int i = 0; i < n->k->n_nodes; i++) {
        const int node = n->k->nodes[i];
        const tpi_value *v = tpi_loops_value_at(n, i);
        if (taken[i] && tpi_loops_is_kept(n, i)) {
            LINE("const tpk_%s x%d = v%d[0", type_name(v), NAME(node), NAME(node));
            put_position(n, n->out_stride[i], 0, n->rank);
            PUT("];\n");
        } else if (taken[i]) {
            LINE("const tpk_%s x%d = t%d[at];\n", type_name(v), NAME(node), n->scratch_row[i]);
        } else if (computed[i]) {
            put_element(n, node);
            if (n->scratch_row[i] >= 0 && n->home[i] == stage) {
                LINE("t%d[at] = x%d;\n", n->scratch_row[i], NAME(node));
            }
        }
    }
    for (int i = 0; i < n->k->n_nodes; i++)
        if (reduces_blocks(n, i, stage)) {
            LINE("b%d[q + j] = ", NAME(n->k->nodes[i]));
            put_operand(n, tpi_loops_value_at(n, i), n->k->nodes[i], 0);
            PUT(";\n");
        }
    for (int i = 0; i < n->k->n_nodes; i++)
        if (computed[i] && n->home[i] == stage && tpi_loops_is_kept(n, i))
            put_store(n, i);
}

static void put_whole_reductions(nest *n, int stage)
{
    for (int i = 0; i < n->k->n_nodes; i++) {
        if (!reduces_in(n, i, stage) || reduces_blocks(n, i, stage))
            continue;
        const tpi_value *v = tpi_loops_value_at(n, i);
        const int name = NAME(n->k->nodes[i]);
        tpi_render_place(n->r, v->node);
        LINE("tpk_%s x%d = %sreduce_%s_%s(", type_name(v), name, called(n, v),
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
        const tpi_value *v = tpi_loops_value_at(n, i);
        const int name = NAME(n->k->nodes[i]);
        const char *op = reduce_name(v->node), *type = type_name(v);
        if (begin) {
            LINE("tpk_%s b%d[%d];\n", type, name, BLOCK);
            LINE("tpk_reduce_%s_acc_%s a%d;\n", op, type, name);
            LINE("a%d.count = 0;\n", name);
            continue;
        }
        LINE("if (q || !a%d.count)\n", name);
        LINE("    tpk_reduce_%s_push_%s(&a%d, %sreduce_%s_block_%s(b%d, q, TPK_LANES(", op,
             type, name, called(n, v), op, type, name);
        put_size(n, count_of(n));
        PUT(")));\n");
        LINE("x%d = tpk_reduce_%s_end_%s(&a%d);\n", name, op, type, name);
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
            LINE("tpk_%s x%d;\n", type_name(tpi_loops_value_at(n, i)), NAME(n->k->nodes[i]));
        }
    LINE("{\n");
    n->depth++;
    put_stage_reductions(n, stage, true);
    LINE("int64_t q = 0, row = 0;\n");
    LINE("(void)row;\n");
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
        LINE("(void)at;\n");
        put_full_elements(n, stage, computed, taken);
    } else {
        PUT("for (int64_t base = 0, m; base < ");
        put_size(n, n->size[inner]);
        PUT("; base += m) {\n");
        n->depth++;
        LINE("m = ");
        put_size(n, n->size[inner]);
        PUT(" - base < %d - q ? ", BLOCK);
        put_size(n, n->size[inner]);
        PUT(" - base : %d - q;\n", BLOCK);
        put_independent(n);
        LINE("for (int64_t j = 0; j < m; j++) {\n");
        n->depth++;
        LINE("const int64_t i%d = base + j, at = row + j;\n", inner);
        LINE("(void)i%d, (void)at;\n", inner);
        put_full_elements(n, stage, computed, taken);
        close_loop(n);
    }
    LINE("q += m, row += m;\n");
    LINE("if (q == %d) {\n", BLOCK);
    for (int i = 0; i < n->k->n_nodes; i++)
        if (reduces_blocks(n, i, stage)) {
            const tpi_value *v = tpi_loops_value_at(n, i);
            const char *op = reduce_name(v->node), *type = type_name(v);
            LINE("    tpk_reduce_%s_push_%s(&a%d, %sreduce_%s_block_%s(b%d, %d, "
                 "TPK_LANES(%d)));\n",
                 op, type, NAME(n->k->nodes[i]), called(n, v), op, type, NAME(n->k->nodes[i]),
                 BLOCK, BLOCK);
        }
    LINE("    q = 0;\n");
    LINE("}\n");
    if (inner >= 0)
        close_loop(n);
    while (opened--)
        close_loop(n);
    put_stage_reductions(n, stage, false);
    close_loop(n);
}

static int last_kept(const nest *n)
{
    int a = n->rank - 1;
    while (a >= 0 && n->reduced[a])
        a--;
    return a;
}

/* The memory of which stage 0 reduces a row, which stage 1 has then in the first cache: while that
 * computes, the next row can be fetched. NULL: none, or rows are short. */
static const reading *row_ahead(const nest *n)
{
    const int last = last_kept(n);
    for (int i = 0; i < n->k->n_nodes && last >= 0; i++) {
        const tpi_value *v = tpi_loops_value_at(n, i);
        if (!reduces_in(n, i, 0) || tpi_loops_inner_operand(n, v, 0) ||
            !put_whole_row((nest *)n, i, false))
            continue;
        const reading *l = find_read(n, n->k->nodes[i], 0);
        const int64_t count = count_of(n);
        if (l->layout.stride[last] && (tpi_dim_is_symbolic(count) || count >= 2 * PIECE))
            return l;
    }
    return NULL;
}

/* Pieces of the row's loop, before each of which its part of the next row is fetched, and of the row that
 * the last stage writes. */
static void open_pieces(nest *n, int axis, const reading *ahead)
{
    int root = 0;
    LINE("for (int64_t from = 0, to; from < ");
    put_size(n, n->size[axis]);
    PUT("; from = to) {\n");
    n->depth++;
    LINE("to = ");
    put_size(n, n->size[axis]);
    PUT(" - from < %d ? ", PIECE);
    put_size(n, n->size[axis]);
    PUT(" : from + %d;\n", PIECE);
    LINE("for (int64_t i = from; i < to; i += 64 / (int64_t)sizeof *v%d) {\n",
         NAME(memory_of(n, ahead)));
    LINE("    __builtin_prefetch(");
    put_row_address(n, memory_of(n, ahead), ahead->layout.offset, ahead->layout.stride);
    PUT(" + ");
    put_size(n, ahead->layout.stride[last_kept(n)]);
    PUT(" + i);\n");
    while (n->k->nodes[root] != n->k->root)
        root++;
    if (n->n_stages > 2 && put_inner_row(n, root, false) && n->scratch_row[root] < 0) {
        LINE("    __builtin_prefetch(");
        put_inner_row(n, root, true);
        PUT(" + i, 1);\n");
    }
    LINE("}\n");
}

static void open_piece(nest *n, int axis)
{
    LINE("for (int64_t i%d = from; i%d < to; i%d++) {\n", axis, axis, axis);
    n->depth++;
}

/* With `late`, what that puts into each turn comes first. */
static void put_plain_stage(nest *n, int stage, const bool *computed, const bool *taken,
                            const tpi_trail *late)
{
    bool any = false, rows = false;
    for (int i = 0; i < n->k->n_nodes; i++) {
        any |= computed[i] || taken[i];
        rows |= (taken[i] && !tpi_loops_is_kept(n, i)) ||
                (computed[i] && n->scratch_row[i] >= 0 && n->home[i] == stage);
    }
    if (!any)
        return;
    int opened = 0, inner = -1;
    for (int a = 0; a < n->rank; a++)
        if (n->reduced[a] || !n->k->reduced)
            inner = a;
    if (rows) {
        LINE("{\n");
        n->depth++;
        LINE("int64_t row = 0;\n");
    }
    const reading *ahead = stage == 1 ? row_ahead(n) : NULL;
    for (int a = 0; a < n->rank; a++)
        if (n->reduced[a] || (!n->k->reduced && a == inner)) {
            if (ahead)
                open_pieces(n, a, ahead);
            if (a == inner)
                put_independent(n);
            if (ahead)
                open_piece(n, a);
            else
                open_loop(n, a);
            opened++;
        }
    if (rows) {
        LINE(inner >= 0 ? "const int64_t at = row + i%d;\n" : "const int64_t at = row;\n",
             inner);
    }
    if (late) {
        LINE("{\n");
        n->depth++;
        tpi_trail_names(n, late);
        put_full_elements(n, n->n_stages - 1, late->computed, late->taken);
        close_loop(n);
    }
    put_full_elements(n, stage, computed, taken);
    if (ahead)
        close_loop(n);
    for (int i = opened; i > 0; i--) {
        close_loop(n);
        if (rows && i == opened && opened > 1) {
            LINE("row += ");
            put_size(n, n->size[inner]);
            PUT(";\n");
        }
    }
    if (rows)
        close_loop(n);
}

/* Is the last stage one that can be done beside the second of the next row, which waits for the multipliers
 * and not for memory? */
static bool is_late_nest(nest *n, tpi_trail *late)
{
    if (n->n_stages != 3 || !row_ahead(n) || has_blocks(n, 1) || has_blocks(n, 2))
        return false;
    plan_stage(n, 2, late->computed, late->taken);
    return tpi_trail_of(n, late);
}

static void put_rows(nest *n)
{
    bool computed[MAX_READS], taken[MAX_READS];
    plan_scratch(n);
    int64_t room = 0; /* scratch rows */
    for (int i = 0; i < n->k->n_nodes; i++)
        if (n->scratch_row[i] >= 0) {
            LINE("tpk_%s *restrict t%d = (tpk_%s *)((char *)scratch + (",
                 type_name(tpi_loops_value_at(n, i)), n->scratch_row[i],
                 type_name(tpi_loops_value_at(n, i)));
            if (tpi_loops_has_box(n))
                PUT("place * %d + ", n->n_scratch);
            PUT("%d) * ((", n->scratch_row[i]);
            put_size(n, count_of(n));
            PUT(" * 8 + 63) & ~(int64_t)63));\n");
            room++;
        }
    if (room) {
        tpi_str body = n->r->body;
        n->r->body = n->r->scratch;
        PUT("    need = %s%lld * ((", tpi_loops_has_box(n) ? "library->threads * " : "",
            (long long)room);
        put_size(n, count_of(n));
        PUT(" * 8 + 63) & ~(int64_t)63);\n    most = need > most ? need : most;\n");
        n->r->scratch = n->r->body;
        n->r->body = n->r->near;
        if (tpi_loops_in_band(n)) {
            PUT("    one = %lld * ((", (long long)room);
            put_size(n, count_of(n));
            PUT(" * 8 + 63) & ~(int64_t)63);\n    each = one > each ? one : each;\n");
        }
        n->r->near = n->r->body;
        n->r->body = body;
    }
    tpi_trail late;
    const bool is_late = is_late_nest(n, &late);
    if (is_late)
        tpi_trail_begin(n, &late);
    const bool places = n->n_outer > 0 && n->outer < 0;
    int kept = places;
    if (places)
        open_places(n);
    for (int a = places ? n->n_outer : 0; a < n->rank; a++)
        if (!n->reduced[a] && (n->k->reduced || a + 1 < n->rank)) {
            open_loop(n, a);
            kept++;
        }
    put_row_values(n, -1);
    for (int stage = 0; stage < n->n_stages; stage++) {
        plan_stage(n, stage, computed, taken);
        if (is_late && stage == 1)
            tpi_trail_first(n);
        if (is_late && stage == n->n_stages - 1)
            tpi_trail_keep(n, &late);
        else if (has_blocks(n, stage))
            put_blocked_stage(n, stage, computed, taken);
        else
            put_plain_stage(n, stage, computed, taken, is_late && stage == 1 ? &late : NULL);
        put_whole_reductions(n, stage);
        put_row_values(n, stage);
    }
    while (kept--)
        close_loop(n);
    if (is_late) {
        LINE("if (late) {\n");
        n->depth++;
        tpi_trail_names(n, &late);
        put_plain_stage(n, n->n_stages - 1, late.computed, late.taken, NULL);
        close_loop(n);
    }
}

/* ---- columns ------------------------------------------------------------------------------------------------ */

/* Folds the accumulators of up to 4096 rows into the totals. */
static void put_fold(nest *n)
{
    for (int i = 0; i < n->k->n_nodes; i++) {
        const tpi_value *v = tpi_loops_value_at(n, i);
        if (v->node->op->kind != TPI_REDUCE)
            continue;
        const int name = NAME(n->k->nodes[i]);
        LINE("    y%d[j] = first ? a%d[j] : tpk_reduce_%s_step_%s(y%d[j], a%d[j]), a%d[j] = "
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
        PUT(shared ? "o1" : "1");
}

/* "int64_t m = ..": how many of a block are left; what they are added up in. */
static void put_columns_begin(nest *n, int column, bool shared)
{
    LINE("for (int64_t base = %s; base < ", shared ? "o0" : "0");
    put_columns_end(n, column, shared);
    PUT("; base += %d) {\n", COLUMNS);
    n->depth++;
    LINE("int64_t m = ");
    put_columns_end(n, column, shared);
    PUT(" - base, rows = 0;\n");
    LINE("int first = 1;\n");
    LINE("m = m < %d ? m : %d;\n", COLUMNS, COLUMNS);
    for (int i = 0; i < n->k->n_nodes; i++) {
        const tpi_value *v = tpi_loops_value_at(n, i);
        if (v->node->op->kind != TPI_REDUCE)
            continue;
        const int name = NAME(n->k->nodes[i]);
        LINE("tpk_%s a%d[%d], y%d[%d];\n", type_name(v), name, COLUMNS, name, COLUMNS);
        LINE("for (int64_t j = 0; j < m; j++)\n");
        LINE("    a%d[j] = y%d[j] = tpk_reduce_%s_empty_%s;\n", name, name,
             reduce_name(v->node), type_name(v));
    }
}

/* The loop over a block's columns, up to its body. */
static void open_columns(nest *n, int column)
{
    put_independent(n);
    LINE("for (int64_t j = 0; j < m; j++) {\n");
    n->depth++;
    if (column < 0)
        return;
    LINE("const int64_t i%d = base + j;\n", column);
    LINE("(void)i%d;\n", column);
}

/* What of a row, or of the results, is kept. */
static void put_columns_stores(nest *n, bool row)
{
    for (int i = 0; i < n->k->n_nodes; i++)
        if (tpi_loops_value_at(n, i)->row == row && tpi_loops_is_kept(n, i))
            put_store(n, i);
}

/* A row of a block: what is added up, and a step of each sum. */
static void put_columns_row(nest *n)
{
    for (int i = 0; i < n->k->n_nodes; i++)
        if (!tpi_loops_value_at(n, i)->row)
            put_element(n, n->k->nodes[i]);
    put_columns_stores(n, false);
    for (int i = 0; i < n->k->n_nodes; i++) {
        const tpi_value *v = tpi_loops_value_at(n, i);
        if (v->node->op->kind != TPI_REDUCE)
            continue;
        const int name = NAME(n->k->nodes[i]);
        LINE("a%d[j] = tpk_reduce_%s_step_%s(a%d[j], ", name, reduce_name(v->node),
             type_name(v), name);
        put_operand(n, v, n->k->nodes[i], 0);
        PUT(");\n");
    }
}

/* Each BLOCK rows are a block of the sums. */
static void put_columns_block(nest *n, int more)
{
    LINE("if ((rows += %d) == %d) {\n", more, BLOCK);
    n->depth++;
    LINE("for (int64_t j = 0; j < m; j++) {\n");
    put_fold(n);
    LINE("}\n");
    LINE("rows = 0, first = 0;\n");
    close_loop(n);
}

/* What is left of the last block; then the sums, and what is computed from them. */
static void put_columns_results(nest *n, int column)
{
    LINE("if (rows || first)\n");
    LINE("    for (int64_t j = 0; j < m; j++) {\n");
    n->depth++;
    put_fold(n);
    n->depth--;
    LINE("    }\n");
    open_columns(n, column);
    for (int i = 0; i < n->k->n_nodes; i++) {
        const tpi_value *v = tpi_loops_value_at(n, i);
        const int name = NAME(n->k->nodes[i]);
        if (v->node->op->kind == TPI_REDUCE) {
            LINE("tpk_%s x%d = y%d[j];\n", type_name(v), name, name);
            put_mean(n, v, name);
        } else if (v->row) {
            put_element(n, n->k->nodes[i]);
        }
    }
    put_columns_stores(n, true);
    close_loop(n);
}

static void put_columns_one_row(nest *n, int column)
{
    open_columns(n, column);
    put_columns_row(n);
    close_loop(n);
    put_columns_block(n, 1);
}

/* Rows together, in order: sums are read and written less often, and memory in longer pieces. */
enum { TOGETHER = 4 };

static bool takes_rows_together(const nest *n, int n_reduced)
{
    bool stores = false;
    for (int i = 0; i < n->k->n_nodes; i++)
        stores |= !tpi_loops_value_at(n, i)->row && tpi_loops_is_kept(n, i);
    return n_reduced == 1 && n->k->n_nodes <= 4 && !stores;
}

static void put_columns_together(nest *n, int axis, int column)
{
    LINE("int64_t q = 0;\n");
    LINE("for (; q + %d <= ", TOGETHER);
    put_size(n, n->size[axis]);
    PUT("; q += %d) {\n", TOGETHER);
    n->depth++;
    open_columns(n, column);
    for (int i = 0; i < TOGETHER; i++) {
        LINE("{\n");
        n->depth++;
        LINE("const int64_t i%d = q + %d;\n", axis, i);
        LINE("(void)i%d;\n", axis);
        put_columns_row(n);
        close_loop(n);
    }
    close_loop(n);
    put_columns_block(n, TOGETHER);
    close_loop(n);
    LINE("for (int64_t i%d = q; i%d < ", axis, axis);
    put_size(n, n->size[axis]);
    PUT("; i%d++) {\n", axis);
    n->depth++;
    put_columns_one_row(n, column);
    close_loop(n);
}

static void put_columns_rows(nest *n, int column)
{
    int opened = 0, axis = -1;
    for (int a = 0; a < n->rank; a++)
        if (n->reduced[a]) {
            axis = a;
            opened++;
        }
    if (takes_rows_together(n, opened)) {
        put_columns_together(n, axis, column);
        return;
    }
    for (int a = 0; a < n->rank; a++)
        if (n->reduced[a])
            open_loop(n, a);
    put_columns_one_row(n, column);
    while (opened--)
        close_loop(n);
}

static void put_columns(nest *n)
{
    int column = -1, kept = 0;
    for (int a = 0; a < n->rank; a++)
        if (!n->reduced[a])
            column = a;
    for (int a = 0; a < n->rank; a++)
        if (!n->reduced[a] && a != column) {
            open_loop(n, a);
            kept++;
        }
    put_columns_begin(n, column, column >= 0 && column == n->outer);
    put_columns_rows(n, column);
    put_columns_results(n, column);
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
        if (tpi_loops_is_kept(n, i))
            tpi_render_memory(n->r, n->k->nodes[i], true);
}

void tpi_render_loop(tpi_render *r, int number)
{
    const tpi_kernel *k = &r->plan->kernels[number];
    const bool columns = k->has_reduced && k->reduced && !tpi_reduces_last(k);
    nest state, *n = &state;
    tpi_loops_begin(n, r, number);
    for (int i = 0; i < k->n_nodes; i++) {
        const tpi_value *v = tpi_loops_value_at(n, i);
        n->n_stages = v->stage + 1 > n->n_stages ? v->stage + 1 : n->n_stages;
        if (v->node->op->kind == TPI_REDUCE)
            r->texts |=
                1u << (v->node->dtype >= TP_F32 ? TPI_TEXT_reduce : TPI_TEXT_reduce_int);
    }
    n->any_size = n->rank <= 1 && !k->reduced && !r->alone;
    tpi_render_head(r, number);
    if (tpi_loops_has_box(n))
        tpi_loops_put_box(n, columns);
    put_memories(n);
    if (columns)
        put_columns(n);
    else
        put_rows(n);
    PUT("    return 0;\n}\n");
}
