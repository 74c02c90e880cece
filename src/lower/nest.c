/* Loop nests: axes, then the statements of each phase.
 *
 * The axes of the plan's space are put in the order kept, folded. One of size 1 goes, and one joins its outer
 * neighbour where both run on in every operand. The program is a region over the kept axes, and in it, phase by phase,
 * a region over the folded ones: what is new in the phase, its folds, and after it what is made of them per row. A full
 * value that a later phase needs is computed again when that is cheap, else it is taken from its memory, or a row. */
#include "lower/nest.h"

#include <string.h>

enum { MAX_ADDRESSES = TPI_MAX_NEST_OPERANDS + 2 * TPI_MAX_NEST_NODES };

/* A node of the nest. */
typedef struct made {
    int value;  /* its statement, in the region that is written; -1 */
    int memory; /* the address of what others read of it; -1 */
    int home;   /* of a full value: the phase that computes it first; -1: none yet */
    int row;    /* the address of its row; -1: none */
    int first;  /* its first operand, among all */
} made;

typedef struct builder {
    tpi_loop *l;
    const tpi_plan *plan;
    const tpi_kernel *k;
    const int64_t *symbols;
    tpi_nest_box *box;
    int order[TP_MAX_RANK]; /* by axis: that of the plan's space */
    int n_phases;
    int region; /* the one that is written */
    made node[TPI_MAX_NEST_NODES];
    int address[TPI_MAX_NEST_OPERANDS]; /* by operand; -1: it is not read from memory */
    int loaded[MAX_ADDRESSES],
        loaded_in[MAX_ADDRESSES]; /* by address: a load, and its region; -1 */
} builder;

static const tpi_value *value_at(const builder *b, int i)
{
    return &b->plan->values[b->k->nodes[i]];
}

static bool is_kept(const builder *b, int i)
{
    return value_at(b, i)->storage != TPI_IN_INNER;
}

static const tpi_value *root_of(const builder *b, const tp_tensor *x)
{
    return &b->plan->values[b->plan->values[x->index].layout.root];
}

/* The position in the nest of what operand o of v is made of; -1: it comes from elsewhere. Nodes ascend. */
static int inner(const builder *b, const tpi_value *v, int o)
{
    const int root = b->plan->values[v->node->in[o]->index].layout.root;
    if (b->plan->values[root].kernel != v->kernel)
        return -1;
    int low = 0, high = b->k->n_nodes - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (b->k->nodes[middle] < root)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- axes ------------------------------------------------------------------------------------------------ */

static int64_t now(const builder *b, int64_t size)
{
    return b->symbols ? tpi_dim_eval_stride(b->plan->graph->dims, size, b->symbols) : size;
}

/* The memory of a node: that of the result of this nest which is written over it, if one is. */
static int memory_of(builder *b, const tpi_value *root, bool written)
{
    const bool under = !written && root->over >= 0;
    const int node = under ? root->over : (int)(root - b->plan->values);
    int i = 0;
    while (i < b->l->n_mems && b->l->mem[i].node != node)
        i++;
    if (i == b->l->n_mems)
        return tpi_loop_add_mem(
            b->l, (tpi_loop_mem){.type = root->node->dtype, .written = written, .node = node});
    b->l->mem[i].written |= written;
    return i;
}

static int put_address(builder *b, int mem, int64_t offset, const int64_t *stride)
{
    tpi_loop *l = b->l;
    tpi_loop_at at = {.mem = mem, .offset = now(b, offset)};
    for (int a = 0; a < l->rank; a++)
        at.stride[a] = l->size[a] == 1 ? 0 : now(b, stride[b->order[a]]);
    return tpi_loop_add_at(l, &at);
}

static void read_operand(builder *b, const tpi_value *v, int o, int number)
{
    const tpi_value *root = root_of(b, v->node->in[o]);
    tpi_layout own;
    int64_t stride[TP_MAX_RANK];
    b->address[number] = -1;
    if (inner(b, v, o) >= 0 || root->storage == TPI_IN_LITERAL)
        return;
    tpi_operand_layout(b->plan, v->node, o, &own);
    if (v->node->op->kind == TPI_REDUCE)
        memcpy(stride, own.stride, sizeof stride);
    else
        tpi_domain_strides(b->k, v, own.stride, stride);
    b->address[number] = put_address(b, memory_of(b, root, false), own.offset, stride);
}

static void find_addresses(builder *b)
{
    int number = 0;
    for (int i = 0; i < b->k->n_nodes; i++) {
        const tpi_value *v = value_at(b, i);
        b->node[i] = (made){.value = -1, .memory = -1, .home = -1, .row = -1, .first = number};
        for (int o = 0; o < v->node->n_in; o++)
            read_operand(b, v, o, number++);
        if (is_kept(b, i)) {
            int64_t stride[TP_MAX_RANK];
            tpi_domain_strides(b->k, v, v->layout.stride, stride);
            b->node[i].memory = put_address(b, memory_of(b, v, true), 0, stride);
        }
        b->n_phases = v->phase + 1 > b->n_phases ? v->phase + 1 : b->n_phases;
    }
}

static void find_axes(builder *b)
{
    const tpi_kernel *k = b->k;
    int row = -1;
    for (int folded = 0; folded < 2; folded++)
        for (int a = 0; a < k->rank; a++)
            if ((int)((k->reduced >> a) & 1) == folded) {
                row = b->box && b->box->row == a ? b->l->rank : row;
                b->l->kept += !folded;
                b->l->size[b->l->rank] = now(b, k->shape[a]);
                b->order[b->l->rank++] = a;
            }
    if (b->box)
        b->box->row = row, b->box->per_row = 1;
}

static void drop_axis(builder *b, int a)
{
    tpi_loop *l = b->l;
    l->rank--;
    l->kept -= a < l->kept;
    for (int i = a; i < l->rank; i++) {
        l->size[i] = l->size[i + 1];
        for (int k = 0; k < l->n_ats; k++)
            l->at[k].stride[i] = l->at[k].stride[i + 1];
    }
    if (b->box) {
        b->box->n_outer -= a < b->box->n_outer;
        b->box->row -= a < b->box->row;
    }
}

/* Outer places and rows keep their axes; rows take in those behind them. */
static bool may_join(const builder *b, int a)
{
    const tpi_nest_box *x = b->box;
    const bool boxed = x && (x->n_outer > 0 || x->row >= 0);
    return a + 1 != b->l->kept && !(boxed && a + 1 == x->n_outer) && !(x && a + 1 == x->row);
}

/* Of sizes that come out as none, since memory is out or the expression is too long, no program is made. */
static int64_t times(builder *b, int64_t x, int64_t y)
{
    const int64_t product = tpi_dim_mul(b->l->dims, x, y);
    b->l->memory->failed |= product == TPI_NO_DIM;
    return product;
}

/* Does the axis behind `a` end where the next step along `a` begins? */
static bool runs_on(const builder *b, int a, const int64_t *stride)
{
    const int64_t step = stride[a + 1], n = b->l->size[a + 1];
    if (step == 0 || stride[a] == 0)
        return step == stride[a];
    if (tpi_dim_is_symbolic(step) || tpi_dim_is_symbolic(n))
        return tpi_dim_mul(b->l->dims, step, n) == stride[a];
    return step * n == stride[a];
}

static void join_axes(builder *b)
{
    tpi_loop *l = b->l;
    for (int a = l->rank - 1; a >= 0; a--)
        if (l->size[a] == 1 && !(b->box && b->box->row == a))
            drop_axis(b, a);
    for (int a = l->rank - 2; a >= 0; a--) {
        bool joins = may_join(b, a);
        for (int i = 0; i < l->n_ats && joins; i++)
            joins = runs_on(b, a, l->at[i].stride);
        if (!joins)
            continue;
        if (b->box && a == b->box->row)
            b->box->per_row = times(b, b->box->per_row, l->size[a + 1]);
        l->size[a + 1] = times(b, l->size[a], l->size[a + 1]);
        if (b->box && a == b->box->row)
            b->box->row++; /* it is dropped, and the one behind it is the row */
        drop_axis(b, a);
    }
}

/* ---- what a phase computes ------------------------------------------------------------------------------- */

/* Each full value of a phase is computed in it, or taken from where an earlier phase left it. */
typedef struct phase {
    bool computed[TPI_MAX_NEST_NODES], taken[TPI_MAX_NEST_NODES];
} phase;

/* Is it as cheap to compute again as to keep? */
static bool is_cheap(const builder *b, const tpi_value *v)
{
    bool is = v->node->op->effort == TPI_CHEAP;
    for (int o = 0; o < v->node->n_in && is; o++) {
        const int x = inner(b, v, o);
        is = x < 0 || value_at(b, x)->row;
    }
    return is;
}

/* Is full value i needed in phase `at`: by a fold or the store of that phase, or by a full value that is computed in
 * it? */
static bool is_needed(const builder *b, int i, int at, const phase *s)
{
    if (b->k->nodes[i] == b->k->root)
        return at == b->n_phases - 1;
    for (int k = i + 1; k < b->k->n_nodes; k++) {
        const tpi_value *v = value_at(b, k);
        const bool reads =
            v->node->op->kind == TPI_REDUCE ? v->phase == at : !v->row && s->computed[k];
        for (int o = 0; o < v->node->n_in && reads; o++)
            if (inner(b, v, o) == i)
                return true;
    }
    return false;
}

/* Later nodes first, since they say what they need. */
static void find_phase(builder *b, int at, phase *s)
{
    for (int i = b->k->n_nodes - 1; i >= 0; i--) {
        const tpi_value *v = value_at(b, i);
        s->computed[i] = s->taken[i] = false;
        if (v->row || v->phase > at || !is_needed(b, i, at, s))
            continue;
        if (b->node[i].home < 0)
            b->node[i].home = at;
        s->computed[i] = b->node[i].home == at || is_cheap(b, v);
        s->taken[i] = !s->computed[i];
    }
}

/* ---- statements ------------------------------------------------------------------------------------------ */

static int add(builder *b, tpi_loop_stmt s)
{
    return tpi_loop_add(b->l, s);
}

static int open_region(builder *b, int from, int to)
{
    const int each = add(b, (tpi_loop_stmt){.kind = TPI_LOOP_EACH});
    for (int a = from; a < to; a++)
        add(b, (tpi_loop_stmt){.kind = TPI_LOOP_AXIS, .number = a, .size = b->l->size[a]});
    b->region = each;
    return each;
}

/* Rows for what a later phase takes, if it has no memory. */
static void add_rows(builder *b)
{
    tpi_loop_at at = {0};
    phase s;
    b->l->count = 1;
    for (int a = b->l->rank - 1; a >= b->l->kept; a--) {
        at.stride[a] = b->l->count;
        b->l->count = times(b, b->l->count, b->l->size[a]);
    }
    for (int k = 0; k < b->n_phases; k++) {
        find_phase(b, k, &s);
        for (int i = 0; i < b->k->n_nodes; i++) {
            const tp_tensor *t = value_at(b, i)->node;
            if (!s.taken[i] || b->node[i].row >= 0 || is_kept(b, i))
                continue;
            at.mem = tpi_loop_add_mem(
                b->l,
                (tpi_loop_mem){.type = t->dtype, .row = true, .node = -1, .size = b->l->count});
            b->node[i].row = tpi_loop_add_at(b->l, &at);
            add(b, (tpi_loop_stmt){.kind = TPI_LOOP_ROW, .type = t->dtype, .number = at.mem});
        }
    }
}

static int add_load(builder *b, int address, const tp_tensor *t)
{
    if (b->loaded[address] >= 0 && b->loaded_in[address] == b->region)
        return b->loaded[address];
    b->loaded_in[address] = b->region;
    b->loaded[address] = add(
        b,
        (tpi_loop_stmt){.kind = TPI_LOOP_LOAD, .type = t->dtype, .number = address, .node = t});
    return b->loaded[address];
}

/* The product of some sizes of its operand, or a number. */
static int add_literal(builder *b, const tp_tensor *t)
{
    tpi_loop_stmt s = {.kind = TPI_LOOP_CONST, .type = t->dtype, .node = t};
    if (t->op->kind == TPI_SHAPE) {
        const tpi_list *axes = t->attrs;
        s.kind = TPI_LOOP_COUNT;
        s.size = 1;
        for (int64_t i = 0; i < axes->n; i++)
            s.size = times(b, s.size, now(b, t->in[0]->shape[axes->v[i]]));
    } else {
        memcpy(&s.size, t->in[0]->data, tp_dtype_size((tp_dtype)t->dtype));
    }
    return add(b, s);
}

static int operand(builder *b, int i, int o)
{
    const tpi_value *v = value_at(b, i);
    const int x = inner(b, v, o), address = b->address[b->node[i].first + o];
    if (x >= 0)
        return b->node[x].value;
    if (address >= 0)
        return add_load(b, address, v->node->in[o]);
    return add_literal(b, root_of(b, v->node->in[o])->node);
}

static void add_op(builder *b, int i)
{
    const tp_tensor *t = value_at(b, i)->node;
    tpi_loop_stmt s = {
        .kind = TPI_LOOP_OP, .type = t->dtype, .op = t->op, .in = {-1, -1, -1},
                   .node = t
    };
    for (int o = 0; o < t->n_in; o++)
        s.in[o] = operand(b, i, o);
    b->node[i].value = add(b, s);
}

static void add_store(builder *b, int i, int address)
{
    const tp_tensor *t = value_at(b, i)->node;
    add(b, (tpi_loop_stmt){
               .kind = TPI_LOOP_STORE,
               .type = t->dtype,
               .in = {b->node[i].value, -1, -1},
               .number = address,
               .node = t
    });
}

/* Reductions of phase `at`. */
static bool folds_in(const builder *b, int i, int at)
{
    const tpi_value *v = value_at(b, i);
    return v->node->op->kind == TPI_REDUCE && v->phase == at;
}

static void add_fold(builder *b, int i)
{
    const tp_tensor *t = value_at(b, i)->node;
    const bool last = !b->k->reduced || tpi_reduces_last(b->k);
    const tpi_loop_stmt s = {
        .kind = TPI_LOOP_FOLD,
        .type = t->dtype,
        .fold = (uint8_t)t->op->fold,
        .order = last ? TPI_ORDER_lanes : TPI_ORDER_blocks,
        .in = {operand(b, i, 0), -1, -1},
        .node = t
    };
    b->node[i].value = add(b, s);
}

/* A mean is the sum divided by how many there are. */
static void add_by_count(builder *b, int i)
{
    const tp_tensor *t = value_at(b, i)->node;
    const int count =
        add(b, (tpi_loop_stmt){.kind = TPI_LOOP_COUNT, .type = t->dtype, .size = b->l->count});
    b->node[i].value = add(b, (tpi_loop_stmt){
                                  .kind = TPI_LOOP_OP,
                                  .type = t->dtype,
                                  .op = t->op->by_count,
                                  .in = {b->node[i].value, count, -1},
                                  .node = t
    });
}

/* What is stored is stored at the end: it may be written over what is read. */
static void add_full(builder *b, int at)
{
    phase s;
    find_phase(b, at, &s);
    for (int i = 0; i < b->k->n_nodes; i++) {
        made *m = &b->node[i];
        if (s.taken[i])
            m->value = add_load(b, m->row < 0 ? m->memory : m->row, value_at(b, i)->node);
        else if (s.computed[i])
            add_op(b, i);
        if (s.computed[i] && m->row >= 0 && m->home == at)
            add_store(b, i, m->row);
    }
    for (int i = 0; i < b->k->n_nodes; i++)
        if (folds_in(b, i, at))
            add_fold(b, i);
    for (int i = 0; i < b->k->n_nodes; i++)
        if (s.computed[i] && b->node[i].home == at && is_kept(b, i))
            add_store(b, i, b->node[i].memory);
}

/* Values of the row that are there after phase `at`, -1: before all. */
static void add_row_values(builder *b, int at)
{
    for (int i = 0; i < b->k->n_nodes; i++) {
        const tpi_value *v = value_at(b, i);
        if (folds_in(b, i, at) && v->node->op->by_count)
            add_by_count(b, i);
        else if (v->row && v->node->op->kind == TPI_ELEMENT && v->phase == at)
            add_op(b, i);
    }
    for (int i = 0; i < b->k->n_nodes; i++)
        if (value_at(b, i)->row && value_at(b, i)->phase == at && is_kept(b, i))
            add_store(b, i, b->node[i].memory);
}

static void add_statements(builder *b)
{
    const bool folds = b->k->reduced || b->k->n_reductions;
    const int whole = open_region(b, 0, b->l->kept);
    if (folds) {
        add_rows(b);
        add_row_values(b, -1);
    }
    for (int k = 0; k < b->n_phases; k++) {
        const int each = folds ? open_region(b, b->l->kept, b->l->rank) : whole;
        add_full(b, k);
        tpi_loop_end(b->l, each);
        b->region = whole;
        if (folds)
            add_row_values(b, k);
    }
    tpi_loop_end(b->l, whole);
}

bool tpi_lower_nest(tpi_bump *memory, const tpi_plan *plan, const tpi_kernel *k,
                    const int64_t *symbols, tpi_nest_box *box, tpi_loop *out)
{
    builder b = {.l = out, .plan = plan, .k = k, .symbols = symbols, .box = box};
    *out = (tpi_loop){.memory = memory, .dims = plan->graph->dims};
    find_axes(&b);
    find_addresses(&b);
    join_axes(&b);
    for (int i = 0; i < MAX_ADDRESSES; i++)
        b.loaded[i] = -1;
    if (!memory->failed)
        add_statements(&b);
    return !memory->failed;
}
