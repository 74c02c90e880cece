/* Blocks: an `if`, or a `for`, around calls of the kernels of its bodies. Before each turn the block
 * says where these find their operands and leave their results; nothing else is done per turn. */
#include "render/render.h"

#include <stdio.h>

#define PUT(...) tpi_str_printf(&r->body, __VA_ARGS__)

static const char *type_of(const tp_tensor *t)
{
    return tp_dtype_name((tp_dtype)t->dtype);
}

static int64_t size_of(const tp_tensor *t)
{
    return (int64_t)tp_dtype_size((tp_dtype)t->dtype);
}

static void put_size(tpi_render *r, int64_t size)
{
    PUT("(");
    tpi_render_size(r, size);
    PUT(")");
}

/* The bytes of something like t. */
static void put_bytes(tpi_render *r, const tp_tensor *t)
{
    PUT("(int64_t)%d", (int)size_of(t));
    for (int i = 0; i < t->rank; i++) {
        PUT(" * ");
        put_size(r, t->shape[i]);
    }
}

/* "(char *)p[3] + 8 * (s0)": where operand i of the block begins. */
static void put_operand(tpi_render *r, const tpi_section *s, int i)
{
    const tp_tensor *x = s->node->in[i];
    const tpi_layout *l = &r->plan->values[x->index].layout;
    if (s->copy[i] >= 0) {
        PUT("(char *)p[%s]", NUMBER(tpi_render_buffer(r, s->copy[i])));
        return;
    }
    PUT("(char *)p[%s]", NUMBER(tpi_render_buffer(r, r->plan->values[l->root].buffer)));
    if (l->offset) {
        PUT(" + %d * ", (int)size_of(x));
        put_size(r, l->offset);
    }
}

/* The elements of operand i in row-major order, to `to`. */
static void put_copy(tpi_render *r, const tpi_section *s, int i, const char *to)
{
    const tp_tensor *x = s->node->in[i];
    const tpi_layout *l = &r->plan->values[x->index].layout;
    PUT("    {\n        const tpk_%s *restrict from = p[%s];\n", type_of(x),
        NUMBER(tpi_render_buffer(r, r->plan->values[l->root].buffer)));
    PUT("        tpk_%s *restrict to = (tpk_%s *)%s;\n        int64_t at = 0;\n", type_of(x),
        type_of(x), to);
    for (int k = 0; k < x->rank; k++) {
        PUT("        for (int64_t i%d = 0; i%d < ", k, k);
        put_size(r, x->shape[k]);
        PUT("; i%d++)\n", k);
    }
    PUT("            to[at++] = from[");
    put_size(r, l->offset);
    for (int k = 0; k < x->rank; k++) {
        PUT(" + i%d * ", k);
        put_size(r, l->stride[k]);
    }
    PUT("];\n    }\n");
}

/* Operands whose strides the bodies do not know. */
static void put_copies(tpi_render *r, const tpi_section *s)
{
    for (int i = 0; i < s->node->n_in; i++) {
        char to[32];
        if (s->copy[i] < 0)
            continue;
        snprintf(to, sizeof to, "p[%s]", NUMBER(tpi_render_buffer(r, s->copy[i])));
        put_copy(r, s, i, to);
    }
}

/* ---- inside ---------------------------------------------------------------------------------------- */

/* The number of the buffer that param or output `t` of a body is; -1: nothing reads it. */
static int inner_buffer(const tpi_plan *plan, const tp_tensor *t)
{
    const tpi_value *v = &plan->values[t->index];
    const bool idle = tpi_param_of(t) && v->last < 0;
    return v->buffer < 0 || idle ? -1 : plan->first_buffer + v->buffer;
}

static bool can_fail(const tpi_render *r, const tpi_plan *plan);

static bool bodies_can_fail(const tpi_render *r, const tpi_section *s)
{
    bool can = false;
    for (int i = 0; i < s->n_bodies && !can; i++)
        can = can_fail(r, s->plan[i]);
    return can;
}

/* A library's loops are stopped from outside. */
static bool section_can_fail(const tpi_render *r, const tpi_section *s)
{
    const tpi_loop_attrs *a = tpi_loop_of(s->node);
    return (a && !r->alone) || (a && a->has_pred && tpi_dim_is_symbolic(a->length)) ||
           bodies_can_fail(r, s);
}

static bool kernel_can_fail(const tpi_render *r, const tpi_plan *plan, int kernel)
{
    const int root = plan->kernels[kernel].root;
    if (plan->kernels[kernel].kind == TPI_KERNEL_BLOCK)
        return section_can_fail(r, plan->sections[root]);
    return plan->values[root].node->op->index_in;
}

static bool can_fail(const tpi_render *r, const tpi_plan *plan)
{
    bool can = false;
    for (int i = 0; i < plan->n_kernels && !can; i++)
        can = kernel_can_fail(r, plan, i);
    return can;
}

/* Those that cannot fail are not asked, so that nothing looks like the end to the compiler. */
static void put_calls(tpi_render *r, const tpi_plan *plan)
{
    for (int i = 0; i < tpi_render_n_calls(r, plan); i++) {
        const int n = tpi_render_row(r, plan, i), kernel = tpi_render_called(r, plan, i);
        const bool can = kernel_can_fail(r, plan, kernel);
        PUT("        %sk%d(env, args + %s%s);\n", can ? "e = " : "", r->alike.rows[n].function,
            tpi_render_slot(r, TPI_SLOT_ROW, n, (char[TPI_SLOT_MARK]){0}),
            tpi_render_last_args(r));
        if (can)
            PUT("        if (__builtin_expect(e != 0, 0))\n"
                "            return blame(fail, %s, e);\n",
                NUMBER(plan->first_kernel + kernel));
    }
}

static void put_token(tpi_render *r, const tpi_section *s)
{
    const tpi_value *v = &r->plan->values[s->node->index];
    if (v->buffer >= 0)
        PUT("    *(tpk_bool *)p[%s] = 1;\n", NUMBER(tpi_render_buffer(r, v->buffer)));
    PUT("    return 0;\n}\n");
}

/* The buffer that output i of the block is, or what stands for it when none reads it. */
static int output_buffer(const tpi_render *r, const tpi_section *s, int i)
{
    const int own = s->port[i] >= 0 ? r->plan->values[s->port[i]].buffer : s->spare[i];
    return tpi_render_buffer(r, own);
}

/* ---- cond ------------------------------------------------------------------------------------------ */

static void put_side(tpi_render *r, const tpi_section *s, int side)
{
    const tpi_plan *plan = s->plan[side];
    const tpi_body *b = s->body[side];
    for (int i = 0; i < b->n_params; i++) {
        const int buffer = inner_buffer(plan, b->params[i]);
        if (buffer < 0)
            continue;
        PUT("        p[%s] = ", NUMBER(buffer));
        put_operand(r, s, i + 1);
        PUT(";\n");
    }
    for (int i = 0; i < b->n_outputs; i++)
        PUT("        p[%s] = p[%s];\n", NUMBER(inner_buffer(plan, b->outputs[i])),
            NUMBER(output_buffer(r, s, i)));
    put_calls(r, plan);
}

static void put_cond(tpi_render *r, const tpi_section *s)
{
    if (bodies_can_fail(r, s))
        PUT("    int64_t e;\n");
    PUT("    if (*(const tpk_bool *)(");
    put_operand(r, s, 0);
    PUT(")) {\n");
    put_side(r, s, 0);
    PUT("    } else {\n");
    put_side(r, s, 1);
    PUT("    }\n");
    put_token(r, s);
}

/* ---- loop ------------------------------------------------------------------------------------------ */

/* Carried value i is read at c<i> and written to n<i>; o<i> is where it was read before, and will be
 * written next. The last turn of a counted loop leaves it where the output is. One that stays is
 * in its buffer from the start. */
static void put_carried(tpi_render *r, const tpi_section *s, const tpi_loop_attrs *a, int i)
{
    const int operand = (int)a->has_pred + i, out = output_buffer(r, s, i);
    const bool flat = tpi_plan_runs_on(r->plan, s->node->in[operand], 0);
    char to[32];
    if (s->stays[i]) {
        if (flat) {
            PUT("    __builtin_memcpy(p[%s], ", NUMBER(out));
            put_operand(r, s, operand);
            PUT(", (size_t)(");
            put_bytes(r, s->body[0]->params[1 + i]);
            PUT("));\n");
        } else {
            snprintf(to, sizeof to, "p[%s]", NUMBER(out));
            put_copy(r, s, operand, to);
        }
        PUT("    p[%s] = p[%s];\n",
            NUMBER(inner_buffer(s->plan[0], s->body[0]->outputs[operand])), NUMBER(out));
        return;
    }
    const int spare = tpi_render_buffer(r, s->spare[i]);
    if (s->port[i] < 0)
        PUT("    char *n%d = p[%s], *o%d = p[%s], *c%d = ", i, NUMBER(spare), i,
            NUMBER(tpi_render_buffer(r, s->second[i])), i);
    else if (a->has_pred)
        PUT("    char *n%d = p[%s], *o%d = p[%s], *c%d = ", i, NUMBER(out), i, NUMBER(spare),
            i);
    else
        PUT("    char *n%d = p[count & 1 ? %s : %s], *o%d = p[count & 1 ? %s : %s], *c%d = ", i,
            NUMBER(out), NUMBER(spare), i, NUMBER(spare), NUMBER(out), i);
    if (flat)
        put_operand(r, s, operand);
    else
        PUT("o%d", i);
    PUT(";\n");
    snprintf(to, sizeof to, "o%d", i);
    if (!flat)
        put_copy(r, s, operand, to);
}

static void put_before(tpi_render *r, const tpi_section *s, const tpi_loop_attrs *a)
{
    const tpi_body *b = s->body[0];
    const int first = (int)a->has_pred, carried = (int)a->n_carried, slices = (int)a->n_slices;
    if (bodies_can_fail(r, s))
        PUT("    int64_t e;\n");
    PUT("    int64_t turn = 0, number = 0;\n    (void)number;\n");
    if (a->counted) {
        PUT("    const int64_t count = ");
        put_size(r, a->count);
        PUT(";\n");
    }
    if (a->has_pred) {
        PUT("    tpk_bool go = *(const tpk_bool *)(");
        put_operand(r, s, 0);
        PUT(");\n");
    }
    for (int i = 0; i < carried; i++)
        put_carried(r, s, a, i);
    for (int i = 0; i < slices; i++) {
        if (inner_buffer(s->plan[0], b->params[1 + carried + i]) < 0)
            continue;
        PUT("    char *x%d = ", i);
        put_operand(r, s, first + carried + i);
        PUT(";\n");
    }
    for (int i = 0; i < (int)a->n_stacked; i++)
        PUT("    char *y%d = p[%s];\n", i, NUMBER(output_buffer(r, s, carried + i)));
    if (inner_buffer(s->plan[0], b->params[0]) >= 0)
        PUT("    p[%s] = &number;\n", NUMBER(inner_buffer(s->plan[0], b->params[0])));
    if (a->has_pred)
        PUT("    p[%s] = &go;\n", NUMBER(inner_buffer(s->plan[0], b->outputs[0])));
    for (int i = 1 + carried + slices; i < b->n_params; i++) {
        const int buffer = inner_buffer(s->plan[0], b->params[i]);
        if (buffer < 0)
            continue;
        PUT("    p[%s] = ", NUMBER(buffer));
        put_operand(r, s, first + i - 1);
        PUT(";\n");
    }
}

/* Where this turn's operands and results are. */
static void put_turn(tpi_render *r, const tpi_section *s, const tpi_loop_attrs *a)
{
    const tpi_body *b = s->body[0];
    const tpi_plan *plan = s->plan[0];
    const int first = (int)a->has_pred, carried = (int)a->n_carried;
    PUT(a->back ? "        number = count - 1 - turn;\n" : "        number = turn;\n");
    for (int i = 0; i < carried; i++) {
        const int buffer = inner_buffer(plan, b->params[1 + i]);
        if (s->stays[i])
            continue;
        if (buffer >= 0)
            PUT("        p[%s] = c%d;\n", NUMBER(buffer), i);
        PUT("        p[%s] = n%d;\n", NUMBER(inner_buffer(plan, b->outputs[first + i])), i);
    }
    for (int i = 0; i < (int)a->n_slices; i++) {
        const tp_tensor *x = s->node->in[first + carried + i];
        const int buffer = inner_buffer(plan, b->params[1 + carried + i]);
        if (buffer < 0)
            continue;
        PUT("        p[%s] = x%d + number * ", NUMBER(buffer), i);
        if (s->copy[first + carried + i] >= 0) {
            PUT("(");
            put_bytes(r, b->params[1 + carried + i]);
            PUT(");\n");
        } else {
            PUT("%d * ", (int)size_of(x));
            put_size(r, r->plan->values[x->index].layout.stride[0]);
            PUT(";\n");
        }
    }
    for (int i = 0; i < (int)a->n_stacked; i++) {
        const tp_tensor *y = b->outputs[first + carried + i];
        PUT("        p[%s] = y%d", NUMBER(inner_buffer(plan, y)), i);
        if (s->port[carried + i] >= 0) {
            PUT(" + number * (");
            put_bytes(r, y);
            PUT(")");
        }
        PUT(";\n");
    }
}

/* What was written last is where the output is. The pointers to locals go, or compilers warn of them. */
static void put_after(tpi_render *r, const tpi_section *s, const tpi_loop_attrs *a)
{
    const tpi_body *b = s->body[0];
    int symbol;
    if (inner_buffer(s->plan[0], b->params[0]) >= 0)
        PUT("    p[%s] = 0;\n", NUMBER(inner_buffer(s->plan[0], b->params[0])));
    if (a->has_pred)
        PUT("    p[%s] = 0;\n", NUMBER(inner_buffer(s->plan[0], b->outputs[0])));
    for (int i = 0; i < (int)a->n_carried; i++) {
        if (s->port[i] < 0 || s->stays[i])
            continue;
        PUT("    if (c%d != p[%s])\n        __builtin_memcpy(p[%s], c%d, (size_t)(", i,
            NUMBER(output_buffer(r, s, i)), NUMBER(output_buffer(r, s, i)), i);
        put_bytes(r, b->params[1 + i]);
        PUT("));\n");
    }
    if (a->has_pred && tpi_dim_as_symbol(r->plan->graph->dims, a->length, &symbol))
        PUT("    s[%d] = turn;\n", symbol);
}

static void put_stop(tpi_render *r, int n)
{
    if (!r->alone)
        PUT("        if (__builtin_expect(*library->stop || turn >= library->max_turns, 0)) {\n"
            "            fail[0] = %s, fail[1] = turn, fail[2] = %d;\n"
            "            return -1;\n        }\n",
            NUMBER(r->plan->first_kernel + n), TPI_RUN_STOPPED);
}

static void put_loop(tpi_render *r, const tpi_section *s, int n)
{
    const tpi_loop_attrs *a = s->node->attrs;
    const int symbols = tpi_dim_n_symbols(r->plan->graph->dims);
    int symbol;
    put_before(r, s, a);
    PUT("    for (;; turn++) {\n        if (%s%s%s)\n            break;\n",
        a->has_pred ? "!go" : "", a->has_pred && a->counted ? " || " : "",
        a->counted ? "turn >= count" : "");
    if (a->has_pred && tpi_dim_as_symbol(r->plan->graph->dims, a->length, &symbol))
        PUT("        if (turn == s[%d]) { /* there is no memory for more */\n"
            "            fail[0] = %d, fail[2] = %d;\n            return -1;\n        }\n",
            symbols + symbol, symbol, TPI_RUN_CAPACITY);
    put_stop(r, n);
    put_turn(r, s, a);
    put_calls(r, s->plan[0]);
    for (int i = 0; i < (int)a->n_carried; i++)
        if (!s->stays[i])
            PUT("        c%d = n%d, n%d = o%d, o%d = c%d;\n", i, i, i, i, i, i);
    PUT("    }\n");
    put_after(r, s, a);
    put_token(r, s);
}

void tpi_render_block(tpi_render *r, int n)
{
    const tpi_section *s = r->plan->sections[r->plan->kernels[n].root];
    tpi_render_head(r, n);
    put_copies(r, s);
    if (!tpi_loop_of(s->node))
        put_cond(r, s);
    else
        put_loop(r, s, n);
}
