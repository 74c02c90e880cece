/* From a loop program to instructions over its tiles (tile_space.c).
 *
 * A full value, of an inner region, is an array of the tile's shape, a row value one of its kept part. Every
 * statement becomes an instruction, one that computes once more what is there already becomes none: a
 * tile has all its values at once, so there are no rows of scratch. Operands in memory are read where they
 * lie when that is an array of the tile's shape, taken as one number when they are the same all over it, and
 * gathered otherwise. */
#include "lower/nest.h"
#include "op/reduction.h"
#include "run/tile_space.h"

#include <string.h>

enum { MAX_ALIGN = 64 };

/* The value of a statement: where it is, and what will still read it. */
typedef struct held {
    int same;         /* the first statement that gives this value */
    bool wide;        /* a full value */
    bool kept;        /* others than the nest read it; */
    int memory;       /* at this address, -1 */
    int slot, spread; /* of a row value: spread over the tile; 0: not yet */
    bool scalar;      /* of an operand: one number */
    int uses, wide_uses;
    bool in_memory; /* it is computed there; else a kept one is moved there at the end */
} held;

typedef struct builder {
    tp_ctx *ctx;
    const tpi_plan *plan;
    const tpi_loop *l;
    tpi_nest *n;
    bool aliased; /* a result is written over an operand */
    held *held;   /* by statement */
    int *free;    /* slots of scratch that nothing reads any more */
    size_t *free_bytes;
    int n_free;
} builder;

static size_t size_of(const tpi_loop_stmt *s)
{
    return tp_dtype_size((tp_dtype)s->type);
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

static int memory_slot(builder *b, int address)
{
    const tpi_loop_at *at = &b->l->at[address];
    const tpi_loop_mem *mem = &b->l->mem[at->mem];
    const int64_t size = (int64_t)tp_dtype_size((tp_dtype)mem->type);
    tpi_tile_slot s = {.buffer = b->plan->first_buffer + b->plan->values[mem->node].buffer,
                       .offset = at->offset * size};
    bool moves = false;
    for (int a = 0; a < b->n->n_outer; a++) {
        s.step[a] = at->stride[a] * size;
        moves |= s.step[a] != 0;
    }
    s.chunk = b->n->n_chunk > b->n->chunk ? at->stride[b->n->n_outer] * size : 0;
    s.part = b->n->n_part > b->n->part ? at->stride[b->l->kept] * size : 0;
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

/* The next instruction of a moment. */
static tpi_tile_op *add_op(builder *b, tpi_tile_moment moment)
{
    tpi_nest *n = b->n;
    const int at = n->end[moment], end = n->end[TPI_TILE_MOMENTS - 1];
    memmove(n->ops + at + 1, n->ops + at, (size_t)(end - at) * sizeof *n->ops);
    for (int i = (int)moment; i < TPI_TILE_MOMENTS; i++)
        n->end[i]++;
    return &n->ops[at];
}

/* When a value is computed. */
static tpi_tile_moment moment_of(const builder *b, bool wide)
{
    return b->n->columns && !wide ? TPI_TILE_AFTER : TPI_TILE_PART;
}

/* ---- operands ---------------------------------------------------------------------------------------------- */

/* One operand of an instruction; `owned` scratch is given back after it; `made`: by the nest. */
typedef struct operand {
    int slot;
    bool scalar, owned, made;
} operand;

/* A number of the text, or a size as an element. */
static int number_slot(builder *b, const tpi_loop_stmt *s)
{
    int64_t *number = &b->n->numbers[b->n->n_numbers++];
    if (s->kind == TPI_LOOP_CONST)
        *number = s->size;
    else
        tpi_cast_scalar(TP_I64, (tp_dtype)s->type)(number, &s->size, NULL, NULL);
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
    tpi_tile_strides(b->l, b->n, wide, stride, s);
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
    tpi_tile_strides(b->l, b->n, wide, stride, b->n->boxes[b->n->n_boxes]);
    return b->n->n_boxes++;
}

/* Brings an operand in memory into the form in which instructions take it. Gathered ones stay to the end. */
static void load(builder *b, int at)
{
    const tpi_loop_stmt *s = &b->l->stmt[at];
    held *h = &b->held[at];
    bool flat, same;
    look_at_box(b, h->wide, b->l->at[s->number].stride, &flat, &same);
    h->slot = memory_slot(b, s->number);
    h->scalar = same && !flat;
    if (flat || same)
        return;
    const int from = h->slot;
    const bool once = stands_still(b, from) && !(h->wide && has_narrower(b));
    h->slot = take_scratch(b, once, h->wide, size_of(s));
    *add_op(b, once ? TPI_TILE_ONCE : moment_of(b, h->wide)) =
        (tpi_tile_op){.kind = TPI_TILE_GATHER,
                      .wide = h->wide,
                      .size = (uint8_t)size_of(s),
                      .y = h->slot,
                      .a = from,
                      .box = add_box(b, h->wide, b->l->at[s->number].stride)};
}

/* A row value as an operand of full ones. */
static operand spread(builder *b, int at)
{
    held *h = &b->held[at];
    const size_t size = size_of(&b->l->stmt[at]);
    if (b->n->chunk * b->n->per_chunk == 1)
        return (operand){h->slot, b->n->per_full != 1, false, true};
    if (!h->spread) {
        h->spread = take_scratch(b, false, true, size);
        *add_op(b, TPI_TILE_PART) = (tpi_tile_op){
            .kind = TPI_TILE_SPREAD, .size = (uint8_t)size, .y = h->spread, .a = h->slot};
    }
    return (operand){h->spread, false, false, true};
}

static bool is_made(const tpi_loop_stmt *s)
{
    return s->kind == TPI_LOOP_OP || s->kind == TPI_LOOP_FOLD;
}

/* The value of statement `at` as an operand. */
static operand take_operand(builder *b, int at, bool wide)
{
    const int from = b->held[at].same;
    const tpi_loop_stmt *s = &b->l->stmt[from];
    held *h = &b->held[from];
    if (is_made(s))
        return wide && !h->wide ? spread(b, from) : (operand){h->slot, false, false, true};
    if (!h->slot && s->kind == TPI_LOOP_LOAD)
        load(b, from);
    else if (!h->slot)
        h->slot = number_slot(b, s), h->scalar = true;
    return (operand){h->slot, h->scalar, false, false};
}

/* The one number as an array of the tile's shape. */
static operand filled(builder *b, operand x, bool wide, size_t size)
{
    const bool fixed =
        !x.made && b->n->slots[x.slot].buffer != TPI_TILE_SCRATCH && stands_still(b, x.slot);
    const operand y = {take_scratch(b, fixed, wide, size), false, !fixed, true};
    *add_op(b, fixed ? TPI_TILE_ONCE : moment_of(b, wide)) = (tpi_tile_op){
        .kind = TPI_TILE_FILL, .wide = wide, .size = (uint8_t)size, .y = y.slot, .a = x.slot};
    return y;
}

/* ---- nodes ---------------------------------------------------------------------------------------------------- */

/* Do two statements give one value? A load gives what was stored there last. */
static bool are_same(const builder *b, const tpi_loop_stmt *x, const tpi_loop_stmt *y)
{
    bool same = x->kind == y->kind && x->type == y->type && x->op == y->op &&
                x->number == y->number && x->size == y->size;
    for (int o = 0; o < 3 && same && x->kind == TPI_LOOP_OP; o++)
        same = x->in[o] < 0 || y->in[o] < 0 ? x->in[o] == y->in[o]
                                            : b->held[x->in[o]].same == b->held[y->in[o]].same;
    return same;
}

static int first_same(const builder *b, int at)
{
    const tpi_loop_stmt *s = &b->l->stmt[at];
    for (int i = at - 1; i > 0 && s->kind != TPI_LOOP_FOLD; i--) {
        const tpi_loop_stmt *x = &b->l->stmt[i];
        if (s->kind == TPI_LOOP_LOAD && x->kind == TPI_LOOP_STORE && x->number == s->number)
            return b->held[x->in[0]].same;
        if (b->held[i].wide == b->held[at].wide && are_same(b, x, s))
            return b->held[i].same;
    }
    return at;
}

/* Which statements give one value, which are full, and which are stored. */
static void find_values(builder *b)
{
    const tpi_loop *l = b->l;
    const bool phases = tpi_loop_has_phases(l);
    int inner = 0; /* where the inner region ends */
    for (int i = 1; i < l->n_stmts; i++) {
        const tpi_loop_stmt *s = &l->stmt[i];
        held *h = &b->held[i];
        inner = s->kind == TPI_LOOP_EACH ? s->end : inner;
        h->memory = -1;
        h->wide = (!phases || i < inner) && s->kind != TPI_LOOP_FOLD;
        h->same = tpi_loop_is_value(s) ? first_same(b, i) : i;
        b->aliased |=
            s->kind == TPI_LOOP_LOAD && h->same == i && l->mem[l->at[s->number].mem].written;
        if (s->kind != TPI_LOOP_STORE || l->mem[l->at[s->number].mem].row)
            continue;
        held *x = &b->held[b->held[s->in[0]].same];
        x->memory = x->kept ? x->memory : s->number;
        x->kept = true;
    }
}

/* Is statement i an instruction? `wide`: of full values. */
static bool is_done(const builder *b, int i, bool *wide)
{
    *wide = b->held[i].wide || b->l->stmt[i].kind == TPI_LOOP_FOLD;
    return is_made(&b->l->stmt[i]) && b->held[i].same == i;
}

static void count_uses(builder *b)
{
    bool wide;
    for (int i = 1; i < b->l->n_stmts; i++)
        for (int o = 0; o < 3 && b->l->stmt[i].in[o] >= 0 && is_done(b, i, &wide); o++) {
            held *x = &b->held[b->held[b->l->stmt[i].in[o]].same];
            x->uses++;
            x->wide_uses += wide && !x->wide;
        }
}

/* What statement i was the last to read is free again. */
static void release_operands(builder *b, int i, bool wide)
{
    const tpi_loop_stmt *s = &b->l->stmt[i];
    for (int o = 0; o < 3 && s->in[o] >= 0; o++) {
        const int at = b->held[s->in[o]].same;
        held *h = &b->held[at];
        const size_t size = size_of(&b->l->stmt[at]);
        if (!is_made(&b->l->stmt[at]))
            continue;
        if (--h->uses == 0 && !h->kept)
            free_scratch(b, h->slot, h->wide, size);
        if (wide && !h->wide && --h->wide_uses == 0 && h->spread)
            free_scratch(b, h->spread, true, size);
    }
}

/* Where the value of statement i goes. */
static int result_slot(builder *b, int i)
{
    held *h = &b->held[i];
    bool flat = false, same;
    if (h->kept && !b->aliased)
        look_at_box(b, h->wide, b->l->at[h->memory].stride, &flat, &same);
    h->in_memory = flat;
    return flat ? memory_slot(b, h->memory)
                : take_scratch(b, false, h->wide, size_of(&b->l->stmt[i]));
}

/* At the end, when nothing reads any more what may lie there. */
static void store_late(builder *b, const tpi_loop_stmt *s)
{
    const held *h = &b->held[b->held[s->in[0]].same];
    const int to = memory_slot(b, s->number);
    *add_op(b, moment_of(b, h->wide)) =
        (tpi_tile_op){.kind = TPI_TILE_SCATTER,
                      .wide = h->wide,
                      .size = (uint8_t)size_of(s),
                      .y = to,
                      .a = h->slot,
                      .box = add_box(b, h->wide, b->l->at[s->number].stride)};
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

static void put_element(builder *b, int i)
{
    const tpi_loop_stmt *s = &b->l->stmt[i];
    const bool wide = b->held[i].wide;
    operand x[3] = {{0}};
    size_t size[3];
    int n_in = 0, keep;
    for (; n_in < 3 && s->in[n_in] >= 0; n_in++) {
        x[n_in] = take_operand(b, s->in[n_in], wide);
        size[n_in] = size_of(&b->l->stmt[s->in[n_in]]);
    }
    const tpi_element f = tpi_element_of(
        b->ctx, s->op, (tp_dtype)b->l->stmt[s->in[s->op->call_dtype]].type, (tp_dtype)s->type);
    tpi_tile_op op = {.kind = f.row[0] ? TPI_TILE_ROW : TPI_TILE_EACH, .wide = wide};
    if (f.row[0]) {
        op.row = choose_row(&f, n_in, x, &keep);
        for (int o = 0; o < n_in; o++)
            if (x[o].scalar && o != keep)
                x[o] = filled(b, x[o], wide, size[o]);
    } else {
        op.scalar = f.scalar;
        op.pitch[0] = (uint8_t)size_of(s);
        for (int o = 0; o < n_in; o++)
            op.pitch[1 + o] = (uint8_t)(x[o].scalar ? 0 : size[o]);
    }
    op.a = x[0].slot, op.b = x[1].slot, op.c = x[2].slot;
    op.y = b->held[i].slot = result_slot(b, i);
    *add_op(b, moment_of(b, wide)) = op;
    for (int o = 0; o < n_in; o++)
        if (x[o].owned)
            free_scratch(b, x[o].slot, wide, size[o]);
}

/* May the kernel read the operand where it lies? Then it is not gathered. */
static bool reads_in_place(const builder *b, int at, int64_t *stride)
{
    const tpi_nest *n = b->n;
    const tpi_loop_stmt *x = &b->l->stmt[b->held[at].same];
    int64_t s[TP_MAX_RANK], step = 1;
    if (x->kind != TPI_LOOP_LOAD)
        return false;
    tpi_tile_strides(b->l, b->n, true, b->l->at[x->number].stride, s);
    const int folded = b->l->rank - b->l->kept;
    const tpi_tile_box *box = &n->box[1];
    if (n->columns) { /* [folded][chunk, inner] */
        bool flat = folded == 1;
        for (int i = box->rank - 1; i >= folded && flat; i--) {
            flat = box->n[i] == 1 || s[i] == step;
            step *= box->n[i];
        }
        *stride = s[0];
        return flat;
    }
    bool flat = box->rank - folded <= 1; /* [chunk][folded] */
    for (int i = box->rank - 1; i >= box->rank - folded && flat; i--) {
        flat = box->n[i] == 1 || s[i] == step;
        step *= box->n[i];
    }
    *stride = box->rank > folded ? s[0] : n->per_full;
    return flat;
}

/* y = what no row at all gives. */
static void put_empty(builder *b, tpi_tile_moment moment, const tpi_reducers *by, int y)
{
    *add_op(b, moment) =
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

static void put_fold(builder *b, int i)
{
    const tpi_loop_stmt *s = &b->l->stmt[i];
    const bool parts = b->n->n_part > b->n->part; /* it adds up in scratch memory */
    const size_t size = size_of(s);
    const tpi_reducers by = tpi_reducers_of(b->ctx, s->fold, (tp_dtype)s->type);
    tpi_tile_op op = {.kind = TPI_TILE_REDUCE,
                      .reduce = b->n->columns ? by.columns : by.rows,
                      .rows = TPI_TILE_ALL_ROWS};
    operand x = {0};
    int y = parts ? -1 : result_slot(b, i);
    const bool in_place = reads_in_place(b, s->in[0], &op.stride);
    if (in_place) {
        x.slot = memory_slot(b, b->l->stmt[b->held[s->in[0]].same].number);
    } else {
        x = take_operand(b, s->in[0], true);
        if (x.scalar)
            x = filled(b, x, true, size);
        op.stride = TPI_TILE_COMPACT;
    }
    op.a = x.slot;
    if (!in_place && parts) {
        y = put_parts(b, &by, op, size);
    } else {
        op.y = y = y < 0 ? take_scratch(b, false, false, size) : y;
        *add_op(b, b->n->columns && in_place ? TPI_TILE_BEFORE : TPI_TILE_PART) = op;
    }
    if (x.owned)
        free_scratch(b, x.slot, true, size);
    b->held[i].slot = y;
}

static void put_statements(builder *b)
{
    bool wide;
    int n = 0;
    count_uses(b);
    for (int i = 1; i < b->l->n_stmts; i++) {
        if (!is_done(b, i, &wide))
            continue;
        if (b->l->stmt[i].kind == TPI_LOOP_FOLD)
            put_fold(b, i);
        else
            put_element(b, i);
        release_operands(b, i, wide);
        n++;
    }
    b->n->work = (double)n * (double)b->n->per_full;
    for (int a = 0; a < b->l->kept; a++)
        b->n->work *= (double)b->l->size[a];
    for (int i = 1; i < b->l->n_stmts; i++) {
        const tpi_loop_stmt *s = &b->l->stmt[i];
        if (s->kind != TPI_LOOP_STORE || b->l->mem[b->l->at[s->number].mem].row)
            continue;
        const held *x = &b->held[b->held[s->in[0]].same];
        if (!x->in_memory || x->memory != s->number)
            store_late(b, s);
    }
}

/* ---- the whole ----------------------------------------------------------------------------------------------- */

/* At most so many of each, so that one block of memory does. */
typedef struct room {
    size_t slots, ops, boxes, numbers;
} room;

static room room_for(const tpi_loop *l)
{
    static const room of[TPI_LOOP_KINDS] = {
        [TPI_LOOP_CONST] = {1, 0, 0, 1},
          [TPI_LOOP_COUNT] = {1, 0, 0, 1},
        [TPI_LOOP_LOAD] = {2, 1, 1, 0},
          [TPI_LOOP_STORE] = {1, 1, 1, 0},
        [TPI_LOOP_OP] = {5, 5, 0, 0},
          [TPI_LOOP_FOLD] = {5, 7, 0, 0}
    };
    room r = {1, 0, 0, 0};
    for (int i = 0; i < l->n_stmts; i++) {
        const room *one = &of[l->stmt[i].kind];
        r.slots += one->slots, r.ops += one->ops;
        r.boxes += one->boxes, r.numbers += one->numbers;
    }
    return r;
}

static tpi_nest *nest_alloc(tpi_mem *m, const room *r)
{
    const size_t bytes = sizeof(tpi_nest) + r->slots * (sizeof(tpi_tile_slot) + sizeof(int)) +
                         r->ops * sizeof(tpi_tile_op) +
                         r->boxes * sizeof(int64_t[TP_MAX_RANK]) + r->numbers * sizeof(int64_t);
    tpi_nest *n = tpi_take(m, bytes);
    if (!n)
        return NULL;
    memset(n, 0, sizeof *n);
    n->bytes = bytes;
    n->slots = (tpi_tile_slot *)(n + 1);
    n->ops = (tpi_tile_op *)(n->slots + r->slots);
    n->boxes = (int64_t(*)[TP_MAX_RANK])(n->ops + r->ops);
    n->numbers = (int64_t *)(n->boxes + r->boxes);
    n->moving = (int *)(n->numbers + r->numbers);
    return n;
}

void tpi_nest_free(tpi_mem *m, tpi_nest *n)
{
    if (n)
        tpi_give_back(m, n, n->bytes);
}

tpi_nest *tpi_nest_of_loop(tp_ctx *ctx, const tpi_plan *plan, const tpi_loop *l)
{
    tpi_mem *m = &ctx->mem;
    const room r = room_for(l);
    builder b = {.ctx = ctx,
                 .plan = plan,
                 .l = l,
                 .n = nest_alloc(m, &r),
                 .held = tpi_bump_take(l->memory, (size_t)l->n_stmts, sizeof *b.held),
                 .free = tpi_bump_take(l->memory, r.slots, sizeof *b.free)};
    b.free_bytes = tpi_bump_take(l->memory, r.slots, sizeof *b.free_bytes);
    if (b.n && b.free_bytes) {
        fixed_slot(&b, b.n);
        tpi_tile_space(l, b.n);
        find_values(&b);
        if (!b.n->empty)
            put_statements(&b);
    } else {
        tpi_nest_free(m, b.n);
        b.n = NULL;
    }
    return b.n;
}

tpi_nest *tpi_nest_new(const tp_program *p, const tpi_plan *plan, const tpi_kernel *k)
{
    tpi_bump memory = TPI_BUMP(&p->ctx->mem);
    tpi_loop l;
    tpi_nest *n = tpi_lower_nest(&memory, plan, k, p->symbols, NULL, &l)
                      ? tpi_nest_of_loop(p->ctx, plan, &l)
                      : NULL;
    tpi_bump_free(&memory);
    return n;
}
