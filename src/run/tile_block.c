/* Blocks by tiles: the statements of their program (lower/block_code.h), around the kernels of their bodies. */
#include "core/copy.h"
#include "ir/body.h"
#include "run/tiles.h"

#include <string.h>

/* A block that runs. */
typedef struct running {
    tpi_session *s;
    tp_program *p;
    const tpi_plan *plan; /* the one it is a kernel of */
    const tpi_block *b;
    char **pointers; /* by number and name */
    int64_t count, turn, number;
    bool go;
} running;

static int64_t bytes_of(const tp_program *p, const tp_tensor *t)
{
    int64_t n = (int64_t)tp_dtype_size((tp_dtype)t->dtype);
    for (int i = 0; i < t->rank; i++)
        n *= tpi_program_size(p, t->shape[i]);
    return n;
}

static char **pointer(const running *r, tpi_block_address a)
{
    return &r->pointers[a.n * TPI_N_POINTERS + (int)a.pointer];
}

static char *base_of(running *r, tpi_block_address a)
{
    switch (a.kind) {
    case TPI_ADDRESS_BUFFER:
        return r->p->pointers[a.even >= 0 && r->count % 2 == 0 ? a.even : a.n];
    case TPI_ADDRESS_POINTER:
        return *pointer(r, a);
    case TPI_ADDRESS_NUMBER:
        return (char *)&r->number;
    default:
        return (char *)&r->go;
    }
}

static int64_t stride_bytes(const tp_program *p, tpi_block_address a, int64_t stride)
{
    return a.width * tpi_dim_eval_stride(p->graph->dims, stride, p->symbols);
}

static char *address(running *r, tpi_block_address a)
{
    char *at = base_of(r, a);
    if (a.offset)
        at += stride_bytes(r->p, a, a.offset);
    if (a.each)
        at += r->number * bytes_of(r->p, a.each);
    else if (a.step)
        at += r->number * stride_bytes(r->p, a, a.step);
    return at;
}

static void copy_operand(const running *r, int operand, char *to)
{
    const tp_program *p = r->p;
    const tp_tensor *block = r->b->section->node;
    const tpi_run_sizes sizes = tpi_program_sizes(p);
    tpi_call_operand x = tpi_lower_operand(r->plan, block->index, block->in[operand], &sizes);
    tpi_call_find(&x, p->pointers);
    tpi_copy_out(&x.view, to);
}

static void turn(const running *r, tpi_block_address carried)
{
    tpi_block_address next = carried, other = carried;
    next.pointer = TPI_POINTER_NEXT;
    other.pointer = TPI_POINTER_OTHER;
    *pointer(r, carried) = *pointer(r, next);
    *pointer(r, next) = *pointer(r, other);
    *pointer(r, other) = *pointer(r, carried);
}

static void run_stmt(running *r, const tpi_block_stmt *x)
{
    switch (x->kind) {
    case TPI_BLOCK_COPY:
        copy_operand(r, x->operand, address(r, x->to));
        break;
    case TPI_BLOCK_MOVE: {
        char *to = address(r, x->to), *from = address(r, x->from);
        if (to != from)
            memcpy(to, from, (size_t)bytes_of(r->p, x->like));
        break;
    }
    case TPI_BLOCK_SET:
        *pointer(r, x->to) = address(r, x->from);
        break;
    case TPI_BLOCK_POINT:
        r->p->pointers[x->to.n] = address(r, x->from);
        break;
    case TPI_BLOCK_TURN:
        turn(r, x->to);
        break;
    }
}

static void run_moment(running *r, tpi_block_moment moment)
{
    for (int i = tpi_block_first(r->b, moment); i < r->b->end[moment]; i++)
        run_stmt(r, &r->b->stmt[i]);
}

static bool run_cond(running *r)
{
    const int side = *(const bool *)address(r, r->b->pred) ? 0 : 1;
    run_moment(r, side == 0 ? TPI_BLOCK_BODY : TPI_BLOCK_NEXT);
    return tpi_tiles_run(r->s, r->b->section->plan[side]);
}

/* False: there is no memory for more turns, or it is stopped. */
static bool may_turn(const running *r)
{
    const int symbol = r->b->symbol;
    const tp_tensor *node = r->b->section->node;
    if (symbol >= 0 && r->turn == r->p->capacity[symbol]) {
        r->p->tiles->full = symbol;
        return false;
    }
    return !tpi_refuse_turn(r->p->ctx, TPI_AT(node->file, node->line), "loop", r->turn);
}

static bool run_loop(running *r, const tpi_loop_attrs *a)
{
    r->go = !a->has_pred || *(const bool *)address(r, r->b->pred);
    for (; r->go && r->turn < r->count; r->turn++) {
        if (!may_turn(r))
            return false;
        r->number = a->back ? r->count - 1 - r->turn : r->turn;
        run_moment(r, TPI_BLOCK_BODY);
        if (!tpi_tiles_run(r->s, r->b->section->plan[0]))
            return false;
        run_moment(r, TPI_BLOCK_NEXT);
    }
    run_moment(r, TPI_BLOCK_AFTER);
    if (r->b->symbol >= 0) {
        r->p->symbols[r->b->symbol] = r->turn;
        r->p->tiles->bound++;
    }
    return true;
}

bool tpi_tiles_block(tpi_session *s, const tpi_plan *plan, const tpi_block *b)
{
    tp_program *p = s->p;
    const tpi_loop_attrs *a = b->loop;
    const size_t bytes = (size_t)(a ? a->n_carried + a->n_slices + a->n_stacked : 0) *
                         TPI_N_POINTERS * sizeof(char *);
    running r = {.s = s,
                 .p = p,
                 .plan = plan,
                 .b = b,
                 .count = a && a->counted ? tpi_program_size(p, a->count) : INT64_MAX,
                 .pointers = tpi_take(&p->ctx->mem, bytes)};
    if (!r.pointers) {
        tpi_no_memory(p->ctx, s->at, b->section->node->op->name);
        return false;
    }
    run_moment(&r, TPI_BLOCK_BEFORE);
    const bool ok = a ? run_loop(&r, a) : run_cond(&r);
    tpi_give_back(&p->ctx->mem, r.pointers, bytes);
    if (ok && b->token >= 0)
        *(bool *)p->pointers[b->token] = true;
    return ok;
}
