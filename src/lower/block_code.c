/* Blocks: copies of operands, pointers, and where bodies find what they read and write. */
#include "lower/block_code.h"

typedef struct builder {
    tpi_bump *memory;
    tpi_block *b;
    const tpi_plan *plan;
    const tpi_section *s;
    const tpi_loop_attrs *a; /* of a loop */
    int first;               /* operand: of a loop's carried values */
} builder;

static void add(builder *u, tpi_block_stmt x)
{
    tpi_block *b = u->b;
    tpi_block_stmt *v = tpi_bump_grow(u->memory, b->stmt, b->n, &b->size, sizeof *v);
    if (!v)
        return;
    b->stmt = v;
    v[b->n++] = x;
    b->numbered |= x.from.kind == TPI_ADDRESS_NUMBER || x.from.step || x.from.each;
}

static void end(builder *u, tpi_block_moment moment)
{
    u->b->end[moment] = u->b->n;
}

/* ---- addresses --------------------------------------------------------------------------- */

/* By the number that it has in its plan. */
static tpi_block_address buffer_at(const builder *u, int buffer)
{
    return (tpi_block_address){.n = u->plan->first_buffer + buffer, .even = -1};
}

static tpi_block_address pointer(tpi_block_pointer name, int i)
{
    return (tpi_block_address){
        .kind = TPI_ADDRESS_POINTER, .pointer = name, .n = i, .even = -1};
}

static tpi_block_address variable(tpi_block_address_kind kind)
{
    return (tpi_block_address){.kind = kind, .even = -1};
}

/* Where operand i of the block begins. */
static tpi_block_address operand_at(const builder *u, int i)
{
    const tp_tensor *x = u->s->node->in[i];
    const tpi_layout *l = &u->plan->values[x->index].layout;
    if (u->s->copy[i] >= 0)
        return buffer_at(u, u->s->copy[i]);
    tpi_block_address p = buffer_at(u, u->plan->values[l->root].buffer);
    p.width = (int)tp_dtype_size((tp_dtype)x->dtype);
    p.offset = l->offset;
    return p;
}

/* Output i of the block, or what stands for it when nothing reads it. */
static tpi_block_address output_at(const builder *u, int i)
{
    const tpi_section *s = u->s;
    return buffer_at(u, s->port[i] >= 0 ? u->plan->values[s->port[i]].buffer : s->spare[i]);
}

/* ---- statements -------------------------------------------------------------------------- */

static void copy(builder *u, int operand, tpi_block_address to)
{
    add(u, (tpi_block_stmt){.kind = TPI_BLOCK_COPY, .to = to, .operand = operand});
}

static void move(builder *u, const tp_tensor *like, tpi_block_address to,
                 tpi_block_address from)
{
    add(u, (tpi_block_stmt){.kind = TPI_BLOCK_MOVE, .to = to, .from = from, .like = like});
}

static void set(builder *u, tpi_block_pointer name, int i, tpi_block_address from)
{
    add(u, (tpi_block_stmt){.kind = TPI_BLOCK_SET, .to = pointer(name, i), .from = from});
}

/* Is param or output t of body `side` in memory that kernels use? */
static bool is_used(const builder *u, int side, const tp_tensor *t)
{
    const tpi_value *v = &u->s->plan[side]->values[t->index];
    return v->buffer >= 0 && !(tpi_param_of(t) && v->last < 0);
}

/* They find it at `from`. */
static void point(builder *u, int side, const tp_tensor *t, tpi_block_address from)
{
    const tpi_plan *plan = u->s->plan[side];
    if (is_used(u, side, t))
        add(u, (tpi_block_stmt){
                   .kind = TPI_BLOCK_POINT,
                   .to = {.n = plan->first_buffer + plan->values[t->index].buffer, .even = -1},
                   .from = from
        });
}

/* ---- cond -------------------------------------------------------------------------------- */

static void lower_side(builder *u, int side)
{
    const tpi_body *b = u->s->body[side];
    for (int i = 0; i < b->n_params; i++)
        point(u, side, b->params[i], operand_at(u, i + 1));
    for (int i = 0; i < b->n_outputs; i++)
        point(u, side, b->outputs[i], output_at(u, i));
    end(u, side == 0 ? TPI_BLOCK_BODY : TPI_BLOCK_NEXT);
}

/* ---- loop -------------------------------------------------------------------------------- */

static bool runs_on(const builder *u, int i)
{
    return tpi_plan_runs_on(u->plan, u->s->node->in[u->first + i], 0);
}

/* It is in its buffer from the start. */
static void begin_staying(builder *u, int i)
{
    const tpi_body *b = u->s->body[0];
    const tpi_block_address out = output_at(u, i);
    if (runs_on(u, i))
        move(u, b->params[1 + i], out, operand_at(u, u->first + i));
    else
        copy(u, u->first + i, out);
    point(u, 0, b->outputs[u->first + i], out);
}

/* The last turn of a counted loop leaves it where the output is. */
static void begin_carried(builder *u, int i)
{
    const tpi_section *s = u->s;
    const tpi_block_address out = output_at(u, i);
    tpi_block_address next = out, other = buffer_at(u, s->spare[i]);
    if (s->port[i] < 0) {
        other = buffer_at(u, s->second[i]);
    } else if (!u->a->has_pred) {
        next.even = other.n;
        other.even = out.n;
    }
    set(u, TPI_POINTER_NEXT, i, next);
    set(u, TPI_POINTER_OTHER, i, other);
    if (!runs_on(u, i))
        copy(u, u->first + i, pointer(TPI_POINTER_OTHER, i));
    set(u, TPI_POINTER_NOW, i,
        runs_on(u, i) ? operand_at(u, u->first + i) : pointer(TPI_POINTER_OTHER, i));
}

static void lower_before(builder *u)
{
    const tpi_loop_attrs *a = u->a;
    const tpi_section *s = u->s;
    const tpi_body *b = s->body[0];
    const int carried = (int)a->n_carried, slices = (int)a->n_slices;
    for (int i = 0; i < carried; i++)
        s->stays[i] ? begin_staying(u, i) : begin_carried(u, i);
    for (int i = 0; i < slices; i++)
        if (is_used(u, 0, b->params[1 + carried + i]))
            set(u, TPI_POINTER_SLICE, i, operand_at(u, u->first + carried + i));
    for (int i = 0; i < (int)a->n_stacked; i++)
        set(u, TPI_POINTER_STACK, i, output_at(u, carried + i));
    point(u, 0, b->params[0], variable(TPI_ADDRESS_NUMBER));
    if (a->has_pred)
        point(u, 0, b->outputs[0], variable(TPI_ADDRESS_GO));
    for (int i = 1 + carried + slices; i < b->n_params; i++)
        point(u, 0, b->params[i], operand_at(u, u->first + i - 1));
    end(u, TPI_BLOCK_BEFORE);
}

/* The element of this turn. */
static tpi_block_address element(tpi_block_pointer name, int i, const tp_tensor *like)
{
    tpi_block_address p = pointer(name, i);
    p.width = (int)tp_dtype_size((tp_dtype)like->dtype);
    p.each = like;
    return p;
}

static void lower_turn(builder *u)
{
    const tpi_loop_attrs *a = u->a;
    const tpi_section *s = u->s;
    const tpi_body *b = s->body[0];
    const int carried = (int)a->n_carried;
    for (int i = 0; i < carried; i++)
        if (!s->stays[i]) {
            point(u, 0, b->params[1 + i], pointer(TPI_POINTER_NOW, i));
            point(u, 0, b->outputs[u->first + i], pointer(TPI_POINTER_NEXT, i));
        }
    for (int i = 0; i < (int)a->n_slices; i++) {
        const int operand = u->first + carried + i;
        const tp_tensor *x = s->node->in[operand], *param = b->params[1 + carried + i];
        tpi_block_address from = element(TPI_POINTER_SLICE, i, param);
        if (s->copy[operand] < 0) {
            from.each = NULL;
            from.step = u->plan->values[x->index].layout.stride[0];
        }
        point(u, 0, param, from);
    }
    for (int i = 0; i < (int)a->n_stacked; i++) {
        const tp_tensor *y = b->outputs[u->first + carried + i];
        point(u, 0, y,
              s->port[carried + i] < 0 ? pointer(TPI_POINTER_STACK, i)
                                       : element(TPI_POINTER_STACK, i, y));
    }
    end(u, TPI_BLOCK_BODY);
}

static void lower_loop(builder *u)
{
    const tpi_section *s = u->s;
    lower_before(u);
    lower_turn(u);
    for (int i = 0; i < (int)u->a->n_carried; i++)
        if (!s->stays[i])
            add(u, (tpi_block_stmt){.kind = TPI_BLOCK_TURN, .to = pointer(TPI_POINTER_NOW, i)});
    end(u, TPI_BLOCK_NEXT);
    for (int i = 0; i < (int)u->a->n_carried; i++)
        if (s->port[i] >= 0 && !s->stays[i])
            move(u, s->body[0]->params[1 + i], output_at(u, i), pointer(TPI_POINTER_NOW, i));
}

tpi_block *tpi_lower_block(tpi_bump *memory, const tpi_plan *plan, const tpi_section *s)
{
    const int token = plan->values[s->node->index].buffer;
    tpi_block *out = tpi_bump_take(memory, 1, sizeof *out);
    builder u = {.memory = memory, .b = out, .plan = plan, .s = s, .a = tpi_loop_of(s->node)};
    if (!out)
        return NULL;
    *out = (tpi_block){.section = s,
                       .loop = u.a,
                       .token = token < 0 ? -1 : plan->first_buffer + token,
                       .symbol = -1};
    if (!u.a || u.a->has_pred)
        out->pred = operand_at(&u, 0);
    for (int i = 0; i < s->node->n_in; i++)
        if (s->copy[i] >= 0)
            copy(&u, i, buffer_at(&u, s->copy[i]));
    if (u.a) {
        u.first = (int)u.a->has_pred;
        if (u.a->has_pred && !tpi_dim_as_symbol(plan->graph->dims, u.a->length, &out->symbol))
            out->symbol = -1;
        lower_loop(&u);
    } else {
        end(&u, TPI_BLOCK_BEFORE);
        lower_side(&u, 0);
        lower_side(&u, 1);
    }
    end(&u, TPI_BLOCK_AFTER);
    return memory->failed ? NULL : out;
}
