/* From a loop nest of the plan to instructions over its tiles (tile_space.c).
 *
 * A full value is an array of the tile's shape, a row value one of its kept part. Every node becomes
 * an instruction in program order, which is an order in which all that it reads is there. Operands
 * in memory are read where they lie when that is an array of the tile's shape, taken as one number
 * when they are the same all over it, and gathered otherwise. */
#include "op/reduction.h"
#include "run/tile_space.h"

#include <string.h>

enum { MAX_ALIGN = 64 };

typedef tpi_tile_builder builder;
typedef tpi_tile_reading reading;

/* A value of the nest: where it is, and what will still read it. */
typedef struct held {
    int slot, spread; /* of a row value: spread over the tile; 0: not yet */
    int uses, wide_uses;
    bool in_memory; /* it is computed there; else a kept one is moved there at the end */
} held;

static size_t size_of(const tp_tensor *t)
{
    return tp_dtype_size((tp_dtype)t->dtype);
}

/* ---- slots ---------------------------------------------------------------------------------------------- */

static int new_slot(builder *b, tpi_tile_slot s)
{
    b->n->slots[b->n->n_slots] = s;
    return b->n->n_slots++;
}

static int fixed_slot(builder *b, const void *p)
{
    return new_slot(b, (tpi_tile_slot){.buffer = TPI_TILE_FIXED, .fixed = p});
}

/* Memory of a node of the plan, at strides over the axes. */
static int memory_slot(builder *b, const tpi_value *root, int64_t offset, const int64_t *stride)
{
    const tpi_value *holder = root->over < 0 ? root : &b->plan->values[root->over];
    const int64_t size = (int64_t)size_of(root->node);
    tpi_tile_slot s = {.buffer = b->plan->first_buffer + holder->buffer,
                       .offset = offset * size};
    bool moves = false;
    for (int a = 0; a < b->n->n_outer; a++) {
        s.step[a] = stride[a] * size;
        moves |= s.step[a] != 0;
    }
    s.chunk = b->n->n_chunk > b->n->chunk ? stride[b->chunk_axis] * size : 0;
    s.part = b->n->n_part > b->n->part ? stride[b->kept] * size : 0;
    if (moves || s.chunk != 0 || s.part != 0)
        b->n->moving[b->n->n_moving++] = b->n->n_slots;
    return new_slot(b, s);
}

static bool stands_still(const builder *b, int slot)
{
    bool still = true;
    for (int i = 0; i < b->n->n_moving && still; i++)
        still = b->n->moving[i] != slot;
    return still;
}

static size_t scratch_bytes(const builder *b, bool wide, size_t size)
{
    const tpi_nest *n = b->n;
    const int64_t count = n->chunk * n->per_chunk * (wide ? n->part * n->per_part : 1);
    return ((size_t)count * size + MAX_ALIGN - 1) / MAX_ALIGN * MAX_ALIGN;
}

/* `fresh`: for what is done once, so that nothing else is ever there. So are row values beside parts,
 * which are done before them or after them, whatever the order here. */
static int take_scratch(builder *b, bool fresh, bool wide, size_t size)
{
    const size_t bytes = scratch_bytes(b, wide, size);
    const bool apart = fresh || (!wide && b->n->columns);
    for (int i = b->n_free - 1; i >= 0 && !apart; i--)
        if (b->free_bytes[i] == bytes) {
            const int slot = b->free[i];
            b->n_free--;
            b->free[i] = b->free[b->n_free];
            b->free_bytes[i] = b->free_bytes[b->n_free];
            return slot;
        }
    const int64_t at = (int64_t)b->n->scratch;
    b->n->scratch += bytes;
    return new_slot(b, (tpi_tile_slot){.buffer = TPI_TILE_SCRATCH, .offset = at});
}

static void free_scratch(builder *b, int slot, bool wide, size_t size)
{
    if (!wide && b->n->columns)
        return;
    b->free[b->n_free] = slot;
    b->free_bytes[b->n_free++] = scratch_bytes(b, wide, size);
}

/* The next instruction of a phase. */
static tpi_tile_op *add_op(builder *b, tpi_tile_phase phase)
{
    tpi_nest *n = b->n;
    const int at = n->end[phase], end = n->end[TPI_TILE_PHASES - 1];
    memmove(n->ops + at + 1, n->ops + at, (size_t)(end - at) * sizeof *n->ops);
    for (int i = (int)phase; i < TPI_TILE_PHASES; i++)
        n->end[i]++;
    return &n->ops[at];
}

/* When a value is computed. */
static tpi_tile_phase phase_of(const builder *b, bool wide)
{
    return b->n->columns && !wide ? TPI_TILE_AFTER : TPI_TILE_PART;
}

/* ---- operands ---------------------------------------------------------------------------------------------- */

/* One operand of an instruction; `owned` scratch is given back after it; `made`: by the nest. */
typedef struct operand {
    int slot;
    bool scalar, owned, made;
} operand;

/* A number of the text. */
static int literal_slot(builder *b, const tpi_value *v)
{
    const tp_tensor *t = v->node;
    if (t->op->kind != TPI_SHAPE)
        return fixed_slot(b, t->in[0]->data);
    const tpi_list *axes = t->attrs;
    int64_t count = 1, *number = &b->n->numbers[b->n->n_numbers++];
    for (int64_t i = 0; i < axes->n; i++)
        count *= tpi_program_size(b->p, t->in[0]->shape[axes->v[i]]);
    tpi_cast_scalar(TP_I64, (tp_dtype)t->dtype)(number, &count, NULL, NULL);
    return fixed_slot(b, number);
}

/* Are there tiles of columns whose rows are shorter, so that what has been laid out for one tile does not
 * fit all? */
static bool has_narrower(const builder *b)
{
    const tpi_nest *n = b->n;
    return n->columns && n->chunk < n->n_chunk && n->part * n->per_part > 1;
}

/* Are the elements of a box an array of its shape, or all the same one? */
static void look_at_box(const builder *b, bool wide, const int64_t *stride, bool *flat,
                        bool *same)
{
    int64_t s[TP_MAX_RANK], step = 1;
    const tpi_tile_box *box = &b->n->box[wide];
    tpi_tile_strides(b, wide, stride, s);
    *flat = *same = true;
    for (int i = box->rank - 1; i >= 0; i--) {
        if (box->n[i] == 1)
            continue;
        *flat &= s[i] == step;
        *same &= s[i] == 0;
        step *= box->n[i];
    }
    if (wide && has_narrower(b))
        *flat = false;
}

static int add_box(builder *b, bool wide, const int64_t *stride)
{
    tpi_tile_strides(b, wide, stride, b->n->boxes[b->n->n_boxes]);
    return b->n->n_boxes++;
}

static bool same_reading(const builder *b, const reading *x, const reading *y)
{
    return x->root == y->root && x->wide == y->wide && x->offset == y->offset &&
           memcmp(x->stride, y->stride, sizeof(int64_t) * (size_t)b->rank) == 0;
}

/* Brings a reading into the form in which instructions take it. Gathered ones stay to the end. */
static operand load(builder *b, int number)
{
    reading *r = &b->reads[number];
    for (int i = 0; i < number && !r->slot; i++)
        if (b->reads[i].slot && same_reading(b, r, &b->reads[i])) {
            r->slot = b->reads[i].slot;
            r->scalar = b->reads[i].scalar;
        }
    if (r->slot)
        return (operand){r->slot, r->scalar, false, false};
    bool flat, same;
    look_at_box(b, r->wide, r->stride, &flat, &same);
    r->slot = memory_slot(b, r->root, r->offset, r->stride);
    r->scalar = same && !flat;
    if (flat || same)
        return (operand){r->slot, r->scalar, false, false};
    const size_t size = size_of(r->root->node);
    const int from = r->slot;
    const bool once = stands_still(b, from) && !(r->wide && has_narrower(b));
    r->slot = take_scratch(b, once, r->wide, size);
    *add_op(b, once ? TPI_TILE_ONCE : phase_of(b, r->wide)) =
        (tpi_tile_op){.kind = TPI_TILE_GATHER,
                      .wide = r->wide,
                      .size = (uint8_t)size,
                      .y = r->slot,
                      .a = from,
                      .box = add_box(b, r->wide, r->stride)};
    return (operand){r->slot, false, false, false};
}

/* A row value as an operand of full ones. */
static operand spread(builder *b, int at)
{
    held *h = &b->held[at];
    const tp_tensor *t = tpi_tile_value(b, at)->node;
    if (b->n->chunk * b->n->per_chunk == 1)
        return (operand){h->slot, b->n->per_full != 1, false, true};
    if (!h->spread) {
        h->spread = take_scratch(b, false, true, size_of(t));
        *add_op(b, TPI_TILE_PART) = (tpi_tile_op){
            .kind = TPI_TILE_SPREAD, .size = (uint8_t)size_of(t), .y = h->spread, .a = h->slot};
    }
    return (operand){h->spread, false, false, true};
}

/* `number`: of the operand among all of the nest. */
static operand take_operand(builder *b, const tpi_value *v, int o, int number)
{
    const bool wide = !v->row || v->node->op->kind == TPI_REDUCE;
    const int inner = tpi_tile_inner(b, v, o);
    if (inner >= 0)
        return wide && tpi_tile_value(b, inner)->row
                   ? spread(b, inner)
                   : (operand){b->held[inner].slot, false, false, true};
    if (b->reads[number].root)
        return load(b, number);
    return (operand){literal_slot(b, tpi_tile_memory(b, v, o)), true, false, false};
}

/* The one number as an array of the tile's shape. */
static operand filled(builder *b, operand x, bool wide, size_t size)
{
    const bool fixed =
        !x.made && b->n->slots[x.slot].buffer != TPI_TILE_SCRATCH && stands_still(b, x.slot);
    const operand y = {take_scratch(b, fixed, wide, size), false, !fixed, true};
    *add_op(b, fixed ? TPI_TILE_ONCE : phase_of(b, wide)) = (tpi_tile_op){
        .kind = TPI_TILE_FILL, .wide = wide, .size = (uint8_t)size, .y = y.slot, .a = x.slot};
    return y;
}

/* ---- nodes ---------------------------------------------------------------------------------------------------- */

static void count_uses(builder *b)
{
    for (int i = 0; i < b->k->n_nodes; i++) {
        const tpi_value *v = tpi_tile_value(b, i);
        const bool wide = !v->row || v->node->op->kind == TPI_REDUCE;
        for (int o = 0; o < v->node->n_in; o++) {
            const int x = tpi_tile_inner(b, v, o);
            if (x < 0)
                continue;
            b->held[x].uses++;
            b->held[x].wide_uses += wide && tpi_tile_value(b, x)->row;
        }
    }
}

/* What v was the last to read is free again. */
static void release_operands(builder *b, const tpi_value *v)
{
    const bool wide = !v->row || v->node->op->kind == TPI_REDUCE;
    for (int o = 0; o < v->node->n_in; o++) {
        const int at = tpi_tile_inner(b, v, o);
        if (at < 0)
            continue;
        held *h = &b->held[at];
        const tpi_value *x = tpi_tile_value(b, at);
        const size_t size = size_of(x->node);
        if (--h->uses == 0 && !tpi_tile_kept(b, at))
            free_scratch(b, h->slot, !x->row, size);
        if (wide && x->row && --h->wide_uses == 0 && h->spread)
            free_scratch(b, h->spread, true, size);
    }
}

/* Where the value of a node goes. */
static int result_slot(builder *b, int i)
{
    const tpi_value *v = tpi_tile_value(b, i);
    bool flat = false, same;
    if (tpi_tile_kept(b, i) && !b->aliased)
        look_at_box(b, !v->row, b->out_stride[i], &flat, &same);
    b->held[i].in_memory = flat;
    return flat ? memory_slot(b, v, 0, b->out_stride[i])
                : take_scratch(b, false, !v->row, size_of(v->node));
}

/* At the end, when nothing reads any more what may lie there. */
static void store_late(builder *b, int i)
{
    const tpi_value *v = tpi_tile_value(b, i);
    const int to = memory_slot(b, v, 0, b->out_stride[i]);
    *add_op(b, phase_of(b, !v->row)) =
        (tpi_tile_op){.kind = TPI_TILE_SCATTER,
                      .wide = !v->row,
                      .size = (uint8_t)size_of(v->node),
                      .y = to,
                      .a = b->held[i].slot,
                      .box = add_box(b, !v->row, b->out_stride[i])};
}

/* A row kernel takes one number at most, and only as its first or second operand. */
static tpi_row_fn choose_row(const tpi_element *f, int n_in, const operand *x, int *keep)
{
    static const int variant[2] = {TPI_ROW_A_SCALAR, TPI_ROW_B_SCALAR};
    *keep = -1;
    for (int o = 0; o < n_in && n_in == 2 && *keep < 0; o++)
        if (x[o].scalar && f->row[variant[o]])
            *keep = o;
    return f->row[*keep < 0 ? TPI_ROW_VECTORS : variant[*keep]];
}

static void put_element(builder *b, int i, int first)
{
    const tpi_value *v = tpi_tile_value(b, i);
    const tp_tensor *t = v->node;
    const tpi_element f = tpi_element_of(b->p->ctx, t);
    operand x[3] = {{0}};
    int keep;
    for (int o = 0; o < t->n_in; o++)
        x[o] = take_operand(b, v, o, first + o);
    tpi_tile_op op = {.kind = f.row[0] ? TPI_TILE_ROW : TPI_TILE_EACH, .wide = !v->row};
    if (f.row[0]) {
        op.row = choose_row(&f, t->n_in, x, &keep);
        for (int o = 0; o < t->n_in; o++)
            if (x[o].scalar && o != keep)
                x[o] = filled(b, x[o], op.wide, size_of(t->in[o]));
    } else {
        op.scalar = f.scalar;
        op.pitch[0] = (uint8_t)size_of(t);
        for (int o = 0; o < t->n_in; o++)
            op.pitch[1 + o] = (uint8_t)(x[o].scalar ? 0 : size_of(t->in[o]));
    }
    op.a = x[0].slot, op.b = x[1].slot, op.c = x[2].slot;
    op.y = b->held[i].slot = result_slot(b, i);
    *add_op(b, phase_of(b, op.wide)) = op;
    for (int o = 0; o < t->n_in; o++)
        if (x[o].owned)
            free_scratch(b, x[o].slot, op.wide, size_of(t->in[o]));
}

/* May the kernel read the operand where it lies? Then it is not gathered. */
static bool reads_in_place(const builder *b, const reading *r, int64_t *stride)
{
    const tpi_nest *n = b->n;
    int64_t s[TP_MAX_RANK], step = 1;
    if (!r->root)
        return false;
    tpi_tile_strides(b, true, r->stride, s);
    const int reduced = b->rank - b->kept;
    const tpi_tile_box *box = &n->box[1];
    if (n->columns) { /* [reduced][chunk, inner] */
        bool flat = reduced == 1;
        for (int i = box->rank - 1; i >= reduced && flat; i--) {
            flat = box->n[i] == 1 || s[i] == step;
            step *= box->n[i];
        }
        *stride = s[0];
        return flat;
    }
    bool flat = box->rank - reduced <= 1; /* [chunk][reduced] */
    for (int i = box->rank - 1; i >= box->rank - reduced && flat; i--) {
        flat = box->n[i] == 1 || s[i] == step;
        step *= box->n[i];
    }
    *stride = box->rank > reduced ? s[0] : n->per_full;
    return flat;
}

/* What it divides by: the number of elements of one mean. */
static int count_slot(builder *b, tp_dtype t)
{
    int64_t *number = &b->n->numbers[b->n->n_numbers++];
    tpi_cast_scalar(TP_I64, t)(number, &b->n->per_full, NULL, NULL);
    return fixed_slot(b, number);
}

/* y = what no row at all gives. */
static void put_empty(builder *b, tpi_tile_phase phase, const tpi_reducers *by, int y)
{
    *add_op(b, phase) =
        (tpi_tile_op){.kind = TPI_TILE_REDUCE, .reduce = by->columns, .y = y, .a = y};
}

/* Adds up, part by part; returns where the sums are. */
static int put_parts(builder *b, const tpi_reducers *by, tpi_tile_op op, size_t size)
{
    const int sum = take_scratch(b, true, false, size);
    put_empty(b, TPI_TILE_BEFORE, by, sum);
    op.reduce = by->more;
    op.rows = TPI_TILE_PART_ROWS;
    op.y = sum;
    *add_op(b, TPI_TILE_PART) = op;
    if (!b->n->folds)
        return sum;
    const int total = take_scratch(b, true, false, size);
    put_empty(b, TPI_TILE_BEFORE, by, total);
    *add_op(b, TPI_TILE_FOLD) = (tpi_tile_op){.kind = TPI_TILE_REDUCE,
                                              .reduce = by->more,
                                              .rows = 1,
                                              .stride = TPI_TILE_COMPACT,
                                              .y = total,
                                              .a = sum};
    put_empty(b, TPI_TILE_FOLD, by, sum);
    return total;
}

/* The plain reduction into `y`, or (y < 0, or it adds up) into scratch memory; returns where. */
static int put_plain(builder *b, int i, int first, int y)
{
    const tpi_value *v = tpi_tile_value(b, i);
    const tp_tensor *t = v->node;
    const size_t size = size_of(t);
    const tpi_reducers by =
        tpi_reducers_of(b->p->ctx, tpi_reduction_code(t->op), (tp_dtype)t->dtype);
    tpi_tile_op op = {.kind = TPI_TILE_REDUCE,
                      .reduce = b->n->columns ? by.columns : by.rows,
                      .rows = TPI_TILE_ALL_ROWS};
    operand x = {0};
    const bool in_place = reads_in_place(b, &b->reads[first], &op.stride);
    if (in_place) {
        x.slot = memory_slot(b, b->reads[first].root, b->reads[first].offset,
                             b->reads[first].stride);
    } else {
        x = take_operand(b, v, 0, first);
        if (x.scalar)
            x = filled(b, x, true, size);
        op.stride = TPI_TILE_COMPACT;
    }
    op.a = x.slot;
    if (!in_place && b->n->n_part > b->n->part) {
        y = put_parts(b, &by, op, size);
    } else {
        op.y = y = y < 0 ? take_scratch(b, false, false, size) : y;
        *add_op(b, b->n->columns && in_place ? TPI_TILE_BEFORE : TPI_TILE_PART) = op;
    }
    if (x.owned)
        free_scratch(b, x.slot, true, size);
    return y;
}

static void put_reduction(builder *b, int i, int first)
{
    const tpi_value *v = tpi_tile_value(b, i);
    const tp_dtype type = (tp_dtype)v->node->dtype;
    const bool mean = v->node->op == &tpi_op_mean;
    int y = -1;
    if (mean || b->n->n_part == b->n->part) /* else it adds up in scratch memory */
        y = result_slot(b, i);
    const int sum = put_plain(b, i, first, mean ? -1 : y);
    if (mean) {
        const tpi_row_fn *row = tpi_rows_of(b->p->ctx, TPI_ELEM_div, (int)type);
        *add_op(b, phase_of(b, false)) = (tpi_tile_op){.kind = TPI_TILE_ROW,
                                                       .row = row[TPI_ROW_B_SCALAR],
                                                       .y = y,
                                                       .a = sum,
                                                       .b = count_slot(b, type)};
        free_scratch(b, sum, false, size_of(v->node));
    } else {
        y = sum;
    }
    b->held[i].slot = y;
}

static void put_nodes(builder *b)
{
    int first = 0;
    count_uses(b);
    b->n->work = (double)b->k->n_nodes * (double)b->n->per_full;
    for (int a = 0; a < b->kept; a++)
        b->n->work *= (double)b->size[a];
    for (int i = 0; i < b->k->n_nodes; i++) {
        const tpi_value *v = tpi_tile_value(b, i);
        if (v->node->op->kind == TPI_REDUCE)
            put_reduction(b, i, first);
        else
            put_element(b, i, first);
        release_operands(b, v);
        first += v->node->n_in;
    }
    for (int i = 0; i < b->k->n_nodes; i++)
        if (tpi_tile_kept(b, i) && !b->held[i].in_memory)
            store_late(b, i);
}

/* ---- the whole ----------------------------------------------------------------------------------------------- */

static size_t slots_of(const tpi_kernel *k)
{
    return 3 + 5 * (size_t)k->n_nodes + 3 * (size_t)k->n_operands + 2 * (size_t)k->n_reductions;
}

/* At most so many of each, so that one block of memory does. */
static tpi_nest *nest_alloc(tpi_mem *m, const tpi_kernel *k)
{
    const size_t nodes = (size_t)k->n_nodes, operands = (size_t)k->n_operands;
    const size_t slots = slots_of(k),
                 ops = 2 + 3 * nodes + 2 * operands + 5 * (size_t)k->n_reductions,
                 boxes = nodes + operands, numbers = nodes + operands;
    const size_t bytes = sizeof(tpi_nest) + slots * (sizeof(tpi_tile_slot) + sizeof(int)) +
                         ops * sizeof(tpi_tile_op) + boxes * sizeof(int64_t[TP_MAX_RANK]) +
                         numbers * sizeof(int64_t);
    tpi_nest *n = tpi_take(m, bytes);
    if (!n)
        return NULL;
    memset(n, 0, sizeof *n);
    n->bytes = bytes;
    n->slots = (tpi_tile_slot *)(n + 1);
    n->ops = (tpi_tile_op *)(n->slots + slots);
    n->boxes = (int64_t(*)[TP_MAX_RANK])(n->ops + ops);
    n->numbers = (int64_t *)(n->boxes + boxes);
    n->moving = (int *)(n->numbers + numbers);
    return n;
}

void tpi_nest_free(tpi_mem *m, tpi_nest *n)
{
    if (n)
        tpi_give_back(m, n, n->bytes);
}

tpi_nest *tpi_nest_new(const tp_program *p, const tpi_plan *plan, const tpi_kernel *k)
{
    tpi_mem *m = &p->ctx->mem;
    const size_t nodes = (size_t)k->n_nodes, operands = (size_t)k->n_operands;
    const size_t slots = slots_of(k);
    const size_t bytes = operands * sizeof(reading) + nodes * sizeof(int64_t[TP_MAX_RANK]) +
                         nodes * sizeof(held) + slots * (sizeof(size_t) + sizeof(int));
    builder b = {.p = p, .plan = plan, .k = k, .n = nest_alloc(m, k)};
    b.reads = tpi_take(m, bytes);
    if (b.n && b.reads) {
        b.out_stride = (int64_t(*)[TP_MAX_RANK])(b.reads + operands);
        b.free_bytes = (size_t *)(b.out_stride + nodes);
        b.held = (held *)(b.free_bytes + slots);
        b.free = (int *)(b.held + nodes);
        memset(b.held, 0, nodes * sizeof *b.held);
        fixed_slot(&b, b.n);
        tpi_tile_space(&b);
        if (!b.n->empty)
            put_nodes(&b);
    } else {
        tpi_nest_free(m, b.n);
        b.n = NULL;
    }
    tpi_give_back(m, b.reads, bytes);
    return b.n;
}
