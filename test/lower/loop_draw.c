#include "loop_draw.h"

#include "ir/check.h"
#include "op/elementwise.h"
#include "op/reduction.h"

enum { MOST_VALUES = 60, MOST_POINTS = 20000, MOST_ADDRESSES = 40, MOST_MEMS = 24 };

/* Values that a statement may read. */
typedef struct values {
    int at[MOST_VALUES], n;
} values;

typedef struct drawing {
    tp_ctx *ctx;
    uint64_t *seed;
    tpi_loop *l;
    int order;
    values row;  /* that are there in the outermost region */
    values made; /* those of them that an op or a fold made: inner regions read no others */
    bool dense[MOST_ADDRESSES];    /* each point has an element of its own */
    unsigned axes[MOST_ADDRESSES]; /* over which the address was drawn */
    int n_addresses[MOST_MEMS];    /* of a memory */
    bool stored[MOST_MEMS];
} drawing;

static int below(drawing *d, int n)
{
    return (int)(loop_random(d->seed) % (uint64_t)n);
}

static bool once_in(drawing *d, int n)
{
    return below(d, n) == 0;
}

static void note(values *v, int at)
{
    if (v->n < MOST_VALUES)
        v->at[v->n++] = at;
}

static tp_dtype draw_type(drawing *d)
{
    static const uint8_t often[] = {TP_F32, TP_F32, TP_F32, TP_F32, TP_F64,
                                    TP_I32, TP_I64, TP_U8,  TP_BOOL};
    return (tp_dtype)(once_in(d, 6) ? below(d, TP_N_DTYPES) : often[below(d, sizeof often)]);
}

/* ---- axes ---------------------------------------------------------------------------------------------------- */

/* One size is drawn around lanes and blocks, the others are small. */
static void draw_sizes(drawing *d)
{
    static const int64_t large[] = {15,  16,  17,   63,   64,   65,   255,  256,  257, 300,
                                    511, 513, 1023, 1025, 2049, 4095, 4096, 4097, 8193};
    static const int64_t small[] = {1, 2, 2, 3, 3, 4, 5, 7, 8, 9};
    tpi_loop *l = d->l;
    int64_t points = 1;
    l->rank = below(d, 5);
    l->kept = below(d, l->rank + 1);
    const int odd = l->rank ? below(d, l->rank) : 0;
    for (int a = 0; a < l->rank; a++) {
        l->size[a] = a == odd && once_in(d, 2) ? large[below(d, sizeof large / sizeof *large)]
                                               : small[below(d, sizeof small / sizeof *small)];
        if (once_in(d, 60))
            l->size[a] = 0;
        if (points * l->size[a] > MOST_POINTS)
            l->size[a] = 1;
        points *= l->size[a] ? l->size[a] : 1;
    }
    l->count = 1;
    for (int a = l->kept; a < l->rank; a++)
        l->count *= l->size[a];
}

static unsigned axes_between(int from, int end)
{
    return ((1u << end) - 1) & ~((1u << from) - 1);
}

/* ---- addresses ----------------------------------------------------------------------------------------------- */

static int new_mem(drawing *d, tp_dtype type, bool row)
{
    if (d->l->n_mems == MOST_MEMS)
        return -1;
    const int mem =
        tpi_loop_add_mem(d->l, (tpi_loop_mem){.type = (uint8_t)type, .row = row, .node = -1});
    d->l->mem[mem].node = row ? -1 : mem;
    return mem;
}

/* Strides over these axes in any order, with gaps; those that are not dense may be 0 or negative. -1: no more. */
static int new_address(drawing *d, int mem, unsigned axes, bool dense)
{
    int64_t order[TP_MAX_RANK], step = 1 + (dense ? 0 : below(d, 8) / 7);
    tpi_loop_at at = {.mem = mem};
    const int n_before = d->l->n_ats;
    if (n_before == MOST_ADDRESSES)
        return -1;
    at.offset = d->l->mem[mem].row || !once_in(d, 3) ? 0 : below(d, 5);
    for (int a = 0; a < TP_MAX_RANK; a++)
        order[a] = TP_MAX_RANK - 1 - a;
    if (once_in(d, 3))
        loop_shuffle(d->seed, TP_MAX_RANK, order);
    for (int i = 0; i < TP_MAX_RANK; i++) {
        const int64_t a = order[i], n = (axes >> a) & 1 ? d->l->size[a] : 1;
        if (n == 1 || (!dense && once_in(d, 5)))
            continue;
        const int64_t reach = step * (n > 0 ? n - 1 : 0);
        at.stride[a] = step;
        if (!dense && once_in(d, 12))
            at.stride[a] = -step, at.offset += reach;
        step *= n > 0 ? n : 1;
        step += !d->l->mem[mem].row && once_in(d, 6);
    }
    const int number = tpi_loop_add_at(d->l, &at);
    if (number == n_before) {
        d->dense[number] = dense;
        d->axes[number] = axes;
        d->n_addresses[mem]++;
    }
    return number;
}

/* ---- values -------------------------------------------------------------------------------------------------- */

static int add_load(drawing *d, int address)
{
    return tpi_loop_add(d->l, (tpi_loop_stmt){
                                  .kind = TPI_LOOP_LOAD,
                                  .type = d->l->mem[d->l->at[address].mem].type,
                                  .in = {-1, -1, -1},
                                  .number = address
    });
}

/* May a load be at that address here? Where something was stored, it may be where there can be phases. */
static bool may_load(const drawing *d, int address, unsigned axes)
{
    const int mem = d->l->at[address].mem;
    if (d->l->mem[mem].row || d->stored[mem])
        return d->stored[mem] && d->order == TPI_ORDER_lanes && d->axes[address] == axes;
    return (d->axes[address] & ~axes) == 0;
}

/* At an address that there is, or a new one, of a memory that there is, or a new one. */
static int draw_load(drawing *d, unsigned axes)
{
    const int n = d->l->n_ats, old = n ? below(d, n) : 0;
    if (n && !once_in(d, 3) && may_load(d, old, axes))
        return add_load(d, old);
    int mem = d->l->n_mems ? below(d, d->l->n_mems) : 0;
    if (!d->l->n_mems || d->l->mem[mem].row || d->stored[mem] || !once_in(d, 4))
        mem = new_mem(d, draw_type(d), false);
    const int address = mem < 0 ? -1 : new_address(d, mem, axes, once_in(d, 3));
    return address < 0 ? -1 : add_load(d, address);
}

static int draw_number(drawing *d)
{
    tpi_loop_stmt s = {
        .kind = TPI_LOOP_CONST, .type = (uint8_t)draw_type(d), .in = {-1, -1, -1}
    };
    const tp_dtype t = (tp_dtype)s.type;
    if (t != TP_BOOL && once_in(d, 4)) {
        s.kind = TPI_LOOP_COUNT;
        s.size = d->l->rank ? d->l->size[below(d, d->l->rank)] : 3;
    } else if (t >= TP_F32) {
        tpi_store_f64(t, &s.size, (double)(below(d, 4001) - 2000) / 1000);
    } else {
        const int64_t v = t == TP_BOOL ? below(d, 2) : below(d, 4);
        memcpy(&s.size, &v, tp_dtype_size(t));
    }
    return tpi_loop_add(d->l, s);
}

/* The type that the op gives, by its rule; -1: it is not for these. */
static int type_of_op(const drawing *d, const tpi_op *op, const int *at, int64_t to)
{
    tp_tensor element[3], *in[3];
    tpi_rule_error why;
    for (int o = 0; o < op->n_in; o++) {
        element[o] = (tp_tensor){.ctx = d->ctx, .dtype = d->l->stmt[at[o]].type};
        in[o] = &element[o];
    }
    tpi_infer q = {.op = op, .ctx = d->ctx, .n_in = op->n_in, .in = in, .attrs = &to};
    return tpi_infer_again(&q, &why) == TP_OK ? (int)q.dtype : -1;
}

/* One of the values, of that type when it is one. */
static int draw_value(drawing *d, const values *v, int type)
{
    const int first = below(d, v->n);
    for (int i = 0; i < v->n; i++) {
        const int at = v->at[(first + i) % v->n];
        if (type < 0 || d->l->stmt[at].type == type)
            return at;
    }
    return v->at[first];
}

static int draw_op(drawing *d, const values *from)
{
    tpi_loop_stmt s = {
        .kind = TPI_LOOP_OP, .in = {-1, -1, -1}
    };
    for (int tries = 0; tries < 10; tries++) {
        s.op = tpi_ops[below(d, TPI_N_OPS)];
        if (s.op->kind != TPI_ELEMENT)
            continue;
        const int data = draw_value(d, from, once_in(d, 2) ? TP_F32 : -1);
        for (int o = 0; o < s.op->n_in; o++)
            s.in[o] = o == s.op->call_dtype  ? data
                      : o < s.op->call_dtype ? draw_value(d, from, TP_BOOL)
                                             : draw_value(d, from, d->l->stmt[data].type);
        const int type = type_of_op(d, s.op, s.in, draw_type(d));
        for (int o = s.op->n_in; o < 3; o++)
            s.in[o] = -1;
        if (type < 0)
            continue;
        s.type = (uint8_t)type;
        return tpi_loop_add(d->l, s);
    }
    return -1;
}

/* Some statements that give values, which join `v`; those that ops make, `made`, too. */
static void draw_values(drawing *d, unsigned axes, int n, values *v, values *made)
{
    for (int i = 0; i < n; i++) {
        const int what = v->n < 2 ? below(d, 3) : below(d, 10);
        const int at = what == 0  ? draw_number(d)
                       : what < 3 ? draw_load(d, axes)
                                  : draw_op(d, v);
        if (at < 0)
            continue;
        note(v, at);
        if (d->l->stmt[at].kind == TPI_LOOP_OP)
            note(made, at);
    }
}

/* ---- stores and folds ---------------------------------------------------------------------------------------- */

/* May the value be written over what was read there? */
static bool may_overwrite(const drawing *d, int address, unsigned axes, uint8_t type)
{
    const int mem = d->l->at[address].mem;
    return d->dense[address] && d->axes[address] == axes && d->n_addresses[mem] == 1 &&
           !d->stored[mem] && d->l->mem[mem].type == type;
}

static void draw_store(drawing *d, int value, unsigned axes)
{
    const uint8_t type = d->l->stmt[value].type;
    int address = d->l->n_ats ? below(d, d->l->n_ats) : -1;
    for (int i = 0; i < 8 && address >= 0 && !may_overwrite(d, address, axes, type); i++)
        address = i < 7 && once_in(d, 3) ? below(d, d->l->n_ats) : -1;
    if (address < 0) {
        const int mem = new_mem(d, (tp_dtype)type, false);
        address = mem < 0 ? -1 : new_address(d, mem, axes, true);
    }
    if (address < 0)
        return;
    d->stored[d->l->at[address].mem] = true;
    if (!d->l->mem[d->l->at[address].mem].row)
        d->l->mem[d->l->at[address].mem].written = true;
    tpi_loop_add(
        d->l,
        (tpi_loop_stmt){
            .kind = TPI_LOOP_STORE, .type = type, .in = {value, -1, -1},
                    .number = address
    });
}

static void draw_stores(drawing *d, const values *made, unsigned axes, int n)
{
    for (int i = 0; i < n && made->n; i++)
        draw_store(d, made->at[below(d, made->n)], axes);
}

static void draw_fold(drawing *d, const values *from)
{
    const int x = from->at[below(d, from->n)];
    if (d->l->stmt[x].type == TP_BOOL)
        return;
    const int at = tpi_loop_add(d->l, (tpi_loop_stmt){
                                          .kind = TPI_LOOP_FOLD,
                                          .type = d->l->stmt[x].type,
                                          .fold = (uint8_t)below(d, TPI_N_REDUCES),
                                          .order = (uint8_t)d->order,
                                          .in = {x, -1, -1}
    });
    note(&d->row, at);
    note(&d->made, at);
}

/* ---- regions ------------------------------------------------------------------------------------------------- */

static int open_region(drawing *d, int from, int end)
{
    const int each = tpi_loop_add(d->l, (tpi_loop_stmt){.kind = TPI_LOOP_EACH});
    for (int a = from; a < end; a++)
        tpi_loop_add(
            d->l, (tpi_loop_stmt){.kind = TPI_LOOP_AXIS, .number = a, .size = d->l->size[a]});
    return each;
}

static void draw_rows(drawing *d)
{
    const unsigned folded = axes_between(d->l->kept, d->l->rank);
    for (int i = below(d, 3); i > 0; i--) {
        const tp_dtype t = once_in(d, 2) ? TP_F32 : draw_type(d);
        const int mem = new_mem(d, t, true);
        if (mem < 0 || new_address(d, mem, folded, true) < 0)
            return;
        d->l->mem[mem].size = d->l->count;
        d->axes[d->l->n_ats - 1] = axes_between(0, d->l->rank);
        tpi_loop_add(d->l,
                     (tpi_loop_stmt){.kind = TPI_LOOP_ROW, .type = (uint8_t)t, .number = mem});
    }
}

/* What a phase folds is there behind its region, so folds join the row's values when it has ended. */
static void draw_phase(drawing *d, bool folds)
{
    const unsigned axes = axes_between(0, d->l->rank);
    const int each = open_region(d, d->l->kept, d->l->rank);
    values full = {.n = 0}, made = {.n = 0};
    if (d->order == TPI_ORDER_lanes)
        full = d->made;
    draw_values(d, axes, 3 + below(d, 8), &full, &made);
    if (!folds || once_in(d, 3))
        draw_stores(d, &made, axes, 1 + below(d, 2));
    for (int i = below(d, 3); i >= 0 && folds && full.n; i--)
        draw_fold(d, &full);
    tpi_loop_end(d->l, each);
}

static void draw_phases(drawing *d)
{
    const unsigned axes = axes_between(0, d->l->kept);
    const int phases = d->order == TPI_ORDER_lanes ? 1 + below(d, 4) : 1;
    draw_rows(d);
    if (once_in(d, 2))
        draw_values(d, axes, 1 + below(d, 4), &d->row, &d->made);
    for (int k = 0; k < phases; k++) {
        draw_phase(d, k + 1 < phases || d->order == TPI_ORDER_blocks || once_in(d, 2));
        draw_values(d, axes, below(d, 4), &d->row, &d->made);
        if (k + 1 == phases || once_in(d, 3))
            draw_stores(d, &d->made, axes, 1 + below(d, 2));
    }
}

bool loop_draw(tpi_bump *memory, tp_graph *g, uint64_t *seed, tpi_loop *out)
{
    drawing d = {.ctx = g->ctx, .seed = seed, .l = out};
    *out = (tpi_loop){.memory = memory, .dims = g->dims};
    draw_sizes(&d);
    d.order = out->kept < out->rank ? below(&d, TPI_N_ORDERS) : TPI_ORDER_lanes;
    const bool phases = out->kept < out->rank || once_in(&d, 8);
    const int each = open_region(&d, 0, out->kept);
    if (phases) {
        draw_phases(&d);
    } else {
        draw_values(&d, axes_between(0, out->kept), 4 + below(&d, 12), &d.row, &d.made);
        draw_stores(&d, &d.made, axes_between(0, out->kept), 1 + below(&d, 3));
    }
    tpi_loop_end(out, each);
    bool any = false;
    for (int i = 0; i < out->n_mems; i++)
        any |= out->mem[i].written;
    return any;
}
