/* What is called inside a turn: tp_each, tp_emit, tp_turn, tp_checkpoint. */
#include "control/open_block.h"
#include "op/turn_values.h"

/* The innermost open loop, or the failed tensor. */
static tp_block *find_loop(tp_ctx *ctx, tpi_at at, const char *what, tp_tensor **failed)
{
    tp_block *b = ctx->caller.blocks;
    while (b && !b->is_loop)
        b = b->outer;
    if (!b)
        *failed = tpi_fail(ctx, at, what, TP_E_STATE, "no tp_for or tp_while is open");
    return b;
}

/* The number of this turn, as elements are counted. */
static int64_t number_of(const tp_block *b)
{
    return b->back ? b->count - 1 - b->turn : b->turn;
}

static tpi_each *find_each(tp_block *b, tp_tensor *xs)
{
    for (int i = 0; i < b->n_each; i++)
        if (b->each[i].xs == xs)
            return &b->each[i];
    tpi_each *v = tpi_block_room(b, b->each, b->n_each, &b->each_size, sizeof *v);
    if (!v)
        return NULL;
    b->each = v;
    v[b->n_each] = (tpi_each){.xs = xs, .version = xs->buf ? xs->buf->version : 0};
    tpi_ref(xs);
    return &v[b->n_each++];
}

tp_tensor *tp_each_at(const char *file, int line, tp_tensor *xs)
{
    static const char what[] = "tp_each";
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = tpi_refuse_operand(NULL, at, what, 0, xs);
    if (failed || !xs)
        return failed ? failed : (tp_tensor *)&tpi_nil;
    tp_block *b = find_loop(xs->ctx, at, what, &failed);
    if (!b)
        return failed;
    if (!b->counted)
        return tpi_fail(
            b->ctx, at, what, TP_E_STATE,
            "a tp_while goes over no elements: use tp_for, or tp_gather at tp_turn");
    if (xs->rank == 0 || xs->shape[0] != b->count)
        return tpi_fail(
            b->ctx, at, what, TP_E_SHAPE,
            "%s is gone over by a loop of another count: its leading size has to be "
            "the count",
            SHAPE(xs));
    if (xs->seq >= b->began)
        return tpi_fail(
            b->ctx, at, what, TP_E_STATE,
            "the tensor was made inside the loop, or is carried by it: what is gone "
            "over is made before it");
    if (b->symbolic)
        return tpi_trace_each(b, at, xs);
    if (xs->graph)
        return tp_select_at(file, line, xs, 0, number_of(b));
    tpi_each *e = find_each(b, xs);
    if (!e)
        return &b->ctx->nil;
    if (xs->flags & TPI_VARIABLE && xs->buf->version != e->version)
        return tpi_refuse_each(b);
    if (!e->rows) {
        tp_tensor *rows = tpi_enter_turns(at, xs);
        if (rows->status != TP_OK)
            return rows;
        tpi_ref(rows);
        e->rows = rows;
    }
    if (!e->row) { /* once per turn: one node, as in a graph */
        tp_tensor *row = tpi_turn_row(at, e->rows, number_of(b));
        if (row->status != TP_OK)
            return row;
        tpi_ref(row);
        e->row = row;
    }
    return e->row;
}

TPI_BARE(tp_tensor *, tp_each, (tp_tensor * xs), xs)

static tpi_emit *find_emit(tp_block *b, tp_tensor **place)
{
    for (int i = 0; i < b->n_emit; i++)
        if (b->emit[i].place == place)
            return &b->emit[i];
    tpi_emit *v = tpi_block_room(b, b->emit, b->n_emit, &b->emit_size, sizeof *v);
    if (!v)
        return NULL;
    b->emit = v;
    v[b->n_emit] = (tpi_emit){.place = place};
    return &v[b->n_emit++];
}

tp_status tp_emit_at(const char *file, int line, tp_tensor **ys, tp_tensor *y)
{
    static const char what[] = "tp_emit";
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = tpi_refuse_operand(NULL, at, what, 1, y);
    if (failed || !y)
        return failed ? (tp_status)failed->status : TP_E_NULL;
    tp_ctx *ctx = y->ctx;
    if (!ys)
        return tpi_fail_status(ctx, at, what, TP_E_NULL,
                               "the place for what is stacked is NULL");
    tp_block *b = find_loop(ctx, at, what, &failed);
    if (!b)
        return (tp_status)failed->status;
    for (int i = 0; i < b->n; i++)
        if (b->vars[i] == ys)
            return tpi_fail_status(
                ctx, at, what, TP_E_STATE,
                "what is stacked goes to a listed variable: give it another");
    if (b != ctx->caller.blocks)
        return tpi_fail_status(ctx, at, what, TP_E_STATE,
                               "it is inside another block than the loop's: a turn gives its "
                               "element once, whatever happens");
    if (b->symbolic) {
        y = tpi_graph_lift(b->body[0]->graph, at, y);
        if (y->status != TP_OK)
            return (tp_status)y->status;
    } else if (y->graph) {
        return tpi_fail_status(ctx, at, what, TP_E_SYMBOLIC,
                               "the element is symbolic and the loop is not: make a variable "
                               "symbolic before it (tp_graph_read)");
    }
    tp_tensor *given = y;
    y = b->symbolic ? y : tpi_block_value(at, y);
    if (y->status != TP_OK)
        return (tp_status)y->status;
    const int64_t turn = b->symbolic ? 0 : b->turn;
    tpi_emit *e = find_emit(b, ys);
    if (!e)
        return TP_E_MEMORY;
    if (e->n != turn)
        return tpi_fail_status(ctx, at, what, TP_E_STATE,
                               e->n > turn ? "this turn has given its element already"
                                           : "an earlier turn gave no element");
    tp_tensor **v = tpi_block_room(b, e->items, e->n, &e->size, sizeof *v);
    if (!v)
        return TP_E_MEMORY;
    e->items = v;
    tpi_ref(y);
    v[e->n++] = y;
    e->copied = y != given;
    return TP_OK;
}

tp_status(tp_emit)(tp_tensor **ys, tp_tensor *y)
{
    return tp_emit_at(NULL, 0, ys, y);
}

tp_tensor *tp_turn_at(const char *file, int line, tp_ctx *tp)
{
    const tpi_at at = TPI_AT(file, line);
    tp_tensor *failed = (tp_tensor *)&tpi_nil;
    tp_block *b = tp ? find_loop(tp, at, "tp_turn", &failed) : NULL;
    if (!b)
        return failed;
    if (b->symbolic)
        return b->body[0]->params[0];
    const int64_t number = number_of(b);
    return tp_tensor_new_at(file, line, tp, TP_I64, 0, NULL, &number);
}

TPI_BARE(tp_tensor *, tp_turn, (tp_ctx * tp), tp)

tp_status tp_checkpoint_at(const char *file, int line, tp_ctx *tp)
{
    tp_tensor *failed;
    tp_block *b = tp ? find_loop(tp, TPI_AT(file, line), "tp_checkpoint", &failed) : NULL;
    if (!b)
        return tp ? (tp_status)failed->status : TP_E_NULL;
    b->checkpoint = true;
    return TP_OK;
}

tp_status(tp_checkpoint)(tp_ctx *tp)
{
    return tp_checkpoint_at(NULL, 0, tp);
}
