/* Blocks by tiles: before each turn the bodies' buffers are said to lie where their operands are and
 * where their results go, as the C program does it (render/render_block.c). */
#include "core/copy.h"
#include "ir/body.h"
#include "run/tiles.h"

#include <string.h>

/* A block being run. */
typedef struct block {
    tpi_session *s;
    const tpi_plan *plan; /* the one it is a kernel of */
    const tpi_section *section;
    void **p; /* memory by buffer */
} block;

static int64_t bytes_now(const tp_program *p, const tp_tensor *t)
{
    int64_t n = (int64_t)tp_dtype_size((tp_dtype)t->dtype);
    for (int i = 0; i < t->rank; i++)
        n *= tpi_program_size(p, t->shape[i]);
    return n;
}

static int64_t stride_bytes(const tp_program *p, const tp_tensor *t, int64_t stride)
{
    return tpi_dim_eval_stride(p->graph->dims, stride, p->symbols) *
           (int64_t)tp_dtype_size((tp_dtype)t->dtype);
}

/* Where operand i of the block begins in its own memory. */
static char *lies_at(const block *b, int i)
{
    const tp_tensor *x = b->section->node->in[i];
    const tpi_layout *l = &b->plan->values[x->index].layout;
    char *memory = b->p[b->plan->first_buffer + b->plan->values[l->root].buffer];
    return memory + stride_bytes(b->s->p, x, l->offset);
}

static char *operand_at(const block *b, int i)
{
    const int copy = b->section->copy[i];
    return copy < 0 ? lies_at(b, i) : b->p[b->plan->first_buffer + copy];
}

/* The elements of operand i in row-major order, to `to`. */
static void copy_operand(const block *b, int i, void *to)
{
    const tp_program *p = b->s->p;
    const tp_tensor *x = b->section->node->in[i];
    const tpi_layout *l = &b->plan->values[x->index].layout;
    int64_t shape[TP_MAX_RANK], from[TP_MAX_RANK], flat[TP_MAX_RANK], step = 1;
    tpi_program_shape(p, x, shape);
    for (int a = x->rank - 1; a >= 0; a--) {
        from[a] = tpi_dim_eval_stride(p->graph->dims, l->stride[a], p->symbols);
        flat[a] = step;
        step *= shape[a];
    }
    tpi_copy_strided(tp_dtype_size((tp_dtype)x->dtype), x->rank, shape, to, flat, lies_at(b, i),
                     from);
}

/* The number of the buffer that param or output t of a body is; -1: nothing reads it. */
static int inner_buffer(const tpi_plan *plan, const tp_tensor *t)
{
    const tpi_value *v = &plan->values[t->index];
    const bool idle = tpi_param_of(t) && v->last < 0;
    return v->buffer < 0 || idle ? -1 : plan->first_buffer + v->buffer;
}

static void put_at(const block *b, const tpi_plan *plan, const tp_tensor *t, void *memory)
{
    const int buffer = inner_buffer(plan, t);
    if (buffer >= 0)
        b->p[buffer] = memory;
}

/* Where output i of the block is, or what stands for it when none reads it. */
static char *output_at(const block *b, int i)
{
    const tpi_section *s = b->section;
    const int own = s->port[i] >= 0 ? b->plan->values[s->port[i]].buffer : s->spare[i];
    return b->p[b->plan->first_buffer + own];
}

/* ---- cond ------------------------------------------------------------------------------------------ */

static bool run_cond(const block *b)
{
    const tpi_section *s = b->section;
    const int side = *(const bool *)operand_at(b, 0) ? 0 : 1;
    const tpi_body *body = s->body[side];
    for (int i = 0; i < body->n_params; i++)
        put_at(b, s->plan[side], body->params[i], operand_at(b, i + 1));
    for (int i = 0; i < body->n_outputs; i++)
        put_at(b, s->plan[side], body->outputs[i], output_at(b, i));
    return tpi_tiles_run(b->s, s->plan[side]);
}

/* ---- loop ------------------------------------------------------------------------------------------ */

/* A carried value is read at `now` and written to `next`; `other` is where it was read before, and
 * will be written next. Element `number` of a slice, or of a stack, is `step` bytes on. */
typedef struct moving {
    char *now, *next, *other;
    int64_t step;
} moving;

typedef struct loop {
    block b;
    const tpi_loop_attrs *a;
    moving *carried, *slices, *stacked;
    bool go;
    int64_t count, turn, number;
    int symbol; /* of its number of turns; -1 */
} loop;

/* The last turn of a counted loop leaves a carried value where the output is. */
static void begin_carried(loop *l, int i)
{
    const block *b = &l->b;
    const tpi_section *s = b->section;
    const int operand = (int)l->a->has_pred + i, first = b->plan->first_buffer;
    const bool flat = tpi_plan_runs_on(b->plan, s->node->in[operand], 0);
    char *out = output_at(b, i);
    moving *m = &l->carried[i];
    if (s->stays[i]) {
        if (flat)
            memcpy(out, operand_at(b, operand),
                   (size_t)bytes_now(b->s->p, s->body[0]->params[1 + i]));
        else
            copy_operand(b, operand, out);
        put_at(b, s->plan[0], s->body[0]->outputs[operand], out);
        return;
    }
    char *spare = b->p[first + s->spare[i]];
    if (s->port[i] < 0)
        *m = (moving){.next = spare, .other = b->p[first + s->second[i]]};
    else if (l->a->has_pred || l->count & 1)
        *m = (moving){.next = out, .other = spare};
    else
        *m = (moving){.next = spare, .other = out};
    if (!flat)
        copy_operand(b, operand, m->other);
    m->now = flat ? operand_at(b, operand) : m->other;
}

static void begin_loop(loop *l)
{
    const block *b = &l->b;
    const tpi_loop_attrs *a = l->a;
    const tpi_section *s = b->section;
    const tpi_body *body = s->body[0];
    const int first = (int)a->has_pred, carried = (int)a->n_carried, slices = (int)a->n_slices;
    const tp_program *p = b->s->p;
    l->go = !a->has_pred || *(const bool *)operand_at(b, 0);
    for (int i = 0; i < carried; i++)
        begin_carried(l, i);
    for (int i = 0; i < slices; i++) {
        const int operand = first + carried + i;
        const tp_tensor *x = s->node->in[operand];
        l->slices[i].now = operand_at(b, operand);
        l->slices[i].step =
            s->copy[operand] >= 0
                ? bytes_now(p, body->params[1 + carried + i])
                : stride_bytes(p, x, b->plan->values[x->index].layout.stride[0]);
    }
    for (int i = 0; i < (int)a->n_stacked; i++) {
        l->stacked[i].now = output_at(b, carried + i);
        l->stacked[i].step =
            s->port[carried + i] < 0 ? 0 : bytes_now(p, body->outputs[first + carried + i]);
    }
    put_at(b, s->plan[0], body->params[0], &l->number);
    if (a->has_pred)
        put_at(b, s->plan[0], body->outputs[0], &l->go);
    for (int i = 1 + carried + slices; i < body->n_params; i++)
        put_at(b, s->plan[0], body->params[i], operand_at(b, first + i - 1));
}

/* Where this turn's operands and results are. */
static void begin_turn(loop *l)
{
    const block *b = &l->b;
    const tpi_loop_attrs *a = l->a;
    const tpi_section *s = b->section;
    const tpi_body *body = s->body[0];
    const int first = (int)a->has_pred, carried = (int)a->n_carried;
    l->number = a->back ? l->count - 1 - l->turn : l->turn;
    for (int i = 0; i < carried; i++)
        if (!s->stays[i]) {
            put_at(b, s->plan[0], body->params[1 + i], l->carried[i].now);
            put_at(b, s->plan[0], body->outputs[first + i], l->carried[i].next);
        }
    for (int i = 0; i < (int)a->n_slices; i++)
        put_at(b, s->plan[0], body->params[1 + carried + i],
               l->slices[i].now + l->number * l->slices[i].step);
    for (int i = 0; i < (int)a->n_stacked; i++)
        put_at(b, s->plan[0], body->outputs[first + carried + i],
               l->stacked[i].now + l->number * l->stacked[i].step);
}

static void end_turn(loop *l)
{
    for (int i = 0; i < (int)l->a->n_carried; i++) {
        moving *m = &l->carried[i];
        m->now = m->next;
        m->next = m->other;
        m->other = m->now;
    }
    l->turn++;
}

/* What was written last is where the output is, and the number of turns is known. */
static void end_loop(loop *l)
{
    const block *b = &l->b;
    const tpi_section *s = b->section;
    tp_program *p = b->s->p;
    for (int i = 0; i < (int)l->a->n_carried; i++) {
        char *out = s->port[i] < 0 || s->stays[i] ? NULL : output_at(b, i);
        if (out && l->carried[i].now != out)
            memcpy(out, l->carried[i].now, (size_t)bytes_now(p, s->body[0]->params[1 + i]));
    }
    if (l->symbol >= 0) {
        p->symbols[l->symbol] = l->turn;
        p->tiles->bound++;
    }
}

static bool run_loop(const block *b)
{
    const tpi_loop_attrs *a = b->section->node->attrs;
    tp_program *p = b->s->p;
    const size_t n = (size_t)(a->n_carried + a->n_slices + a->n_stacked),
                 bytes = n * sizeof(moving);
    loop l = {.b = *b,
              .a = a,
              .carried = tpi_take(&p->ctx->mem, bytes),
              .count = a->counted ? tpi_program_size(p, a->count) : INT64_MAX,
              .symbol = -1};
    if (!l.carried) {
        tpi_no_memory(p->ctx, b->s->at, "loop");
        return false;
    }
    memset(l.carried, 0, bytes);
    l.slices = l.carried + a->n_carried;
    l.stacked = l.slices + a->n_slices;
    if (a->has_pred && !tpi_dim_as_symbol(b->plan->graph->dims, a->length, &l.symbol))
        l.symbol = -1;
    begin_loop(&l);
    bool ok = true;
    while (ok && l.go && l.turn < l.count) {
        if (l.symbol >= 0 && l.turn == p->capacity[l.symbol]) {
            p->tiles->full = l.symbol;
            ok = false;
            break;
        }
        const tp_tensor *node = b->section->node;
        if (tpi_refuse_turn(p->ctx, TPI_AT(node->file, node->line), "loop", l.turn)) {
            ok = false;
            break;
        }
        begin_turn(&l);
        ok = tpi_tiles_run(b->s, b->section->plan[0]);
        end_turn(&l);
    }
    if (ok)
        end_loop(&l);
    tpi_give_back(&p->ctx->mem, l.carried, bytes);
    return ok;
}

bool tpi_tiles_block(tpi_session *s, const tpi_plan *plan, const tpi_section *section)
{
    const block b = {.s = s, .plan = plan, .section = section, .p = s->p->pointers};
    for (int i = 0; i < section->node->n_in; i++)
        if (section->copy[i] >= 0)
            copy_operand(&b, i, b.p[plan->first_buffer + section->copy[i]]);
    const bool ok = tpi_loop_of(section->node) ? run_loop(&b) : run_cond(&b);
    const int token = plan->values[section->node->index].buffer;
    if (ok && token >= 0)
        *(bool *)b.p[plan->first_buffer + token] = true;
    return ok;
}
