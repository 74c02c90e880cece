/* Blocks: an `if`, or a `for`, around calls of the kernels of its bodies (lower/block_code.h). */
#include "lower/block_code.h"
#include "render/render.h"

#define PUT(...) tpi_str_printf(&r->body, __VA_ARGS__)

static const char *type_of(const tp_tensor *t)
{
    return tp_dtype_name((tp_dtype)t->dtype);
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
    PUT("(int64_t)%d", (int)tp_dtype_size((tp_dtype)t->dtype));
    for (int i = 0; i < t->rank; i++) {
        PUT(" * ");
        put_size(r, t->shape[i]);
    }
}

/* "p[3]", "(char *)p[3] + 8 * (s0)" */
static void put_at(tpi_render *r, tpi_block_address a)
{
    if (a.kind == TPI_ADDRESS_BUFFER && a.offset)
        PUT("(char *)");
    if (a.kind == TPI_ADDRESS_POINTER)
        PUT("%c%d", tpi_pointer_letter[a.pointer], a.n);
    else if (a.kind != TPI_ADDRESS_BUFFER)
        PUT("%s", a.kind == TPI_ADDRESS_GO ? "&go" : "&number");
    else if (a.even >= 0)
        PUT("p[count & 1 ? %s : %s]", NUMBER(a.n), NUMBER(a.even));
    else
        PUT("p[%s]", NUMBER(a.n));
    if (a.offset) {
        PUT(" + %d * ", a.width);
        put_size(r, a.offset);
    }
    if (a.each) {
        PUT(" + number * (");
        put_bytes(r, a.each);
        PUT(")");
    } else if (a.step) {
        PUT(" + number * %d * ", a.width);
        put_size(r, a.step);
    }
}

/* The elements of an operand in row-major order. */
static void put_copy(tpi_render *r, const char *in, const tp_tensor *x, tpi_block_address to)
{
    const tpi_layout *l = &r->plan->values[x->index].layout;
    PUT("%s{\n%s    const tpk_%s *restrict from = p[%s];\n", in, in, type_of(x),
        NUMBER(tpi_render_buffer(r, r->plan->values[l->root].buffer)));
    PUT("%s    tpk_%s *restrict to = (tpk_%s *)", in, type_of(x), type_of(x));
    put_at(r, to);
    PUT(";\n%s    int64_t at = 0;\n", in);
    for (int k = 0; k < x->rank; k++) {
        PUT("%s    for (int64_t i%d = 0; i%d < ", in, k, k);
        put_size(r, x->shape[k]);
        PUT("; i%d++)\n", k);
    }
    PUT("%s        to[at++] = from[", in);
    put_size(r, l->offset);
    for (int k = 0; k < x->rank; k++) {
        PUT(" + i%d * ", k);
        put_size(r, l->stride[k]);
    }
    PUT("];\n%s}\n", in);
}

static void put_move(tpi_render *r, const char *in, const tpi_block_stmt *x)
{
    PUT("%sif (", in);
    put_at(r, x->to);
    PUT(" != ");
    put_at(r, x->from);
    PUT(")\n%s    __builtin_memcpy(", in);
    put_at(r, x->to);
    PUT(", ");
    put_at(r, x->from);
    PUT(", (size_t)(");
    put_bytes(r, x->like);
    PUT("));\n");
}

static void put_stmt(tpi_render *r, const char *in, const tpi_block *b, const tpi_block_stmt *x)
{
    const int i = x->to.n;
    switch (x->kind) {
    case TPI_BLOCK_COPY:
        put_copy(r, in, b->section->node->in[x->operand], x->to);
        break;
    case TPI_BLOCK_MOVE:
        put_move(r, in, x);
        break;
    case TPI_BLOCK_SET:
        PUT("%schar *%c%d = ", in, tpi_pointer_letter[x->to.pointer], i);
        put_at(r, x->from);
        PUT(";\n");
        break;
    case TPI_BLOCK_POINT:
        PUT("%sp[%s] = ", in, NUMBER(i));
        put_at(r, x->from);
        PUT(";\n");
        break;
    case TPI_BLOCK_TURN:
        PUT("%sc%d = n%d, n%d = o%d, o%d = c%d;\n", in, i, i, i, i, i, i);
        break;
    }
}

/* `in`: spaces before each line. */
static void put_moment(tpi_render *r, const char *in, const tpi_block *b,
                       tpi_block_moment moment)
{
    for (int i = tpi_block_first(b, moment); i < b->end[moment]; i++)
        put_stmt(r, in, b, &b->stmt[i]);
}

/* ---- inside ------------------------------------------------------------------------------ */

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
    return tpi_may_refuse(plan->values[root].node->op);
}

static bool can_fail(const tpi_render *r, const tpi_plan *plan)
{
    bool can = false;
    for (int i = 0; i < plan->n_kernels && !can; i++)
        can = kernel_can_fail(r, plan, i);
    return can;
}

/* Those that cannot fail are not asked, so that nothing looks like the end to the compiler. */
static void put_call(tpi_render *r, const tpi_plan *plan, int kernel)
{
    const int row = plan->first_kernel + kernel;
    const bool can = kernel_can_fail(r, plan, kernel);
    PUT("        %sk%d(env, args + %s%s);\n", can ? "e = " : "", r->alike.rows[row].function,
        tpi_render_slot(r, TPI_SLOT_ROW, row, (char[TPI_SLOT_MARK]){0}),
        tpi_render_last_args(r));
    if (can)
        PUT("        if (__builtin_expect(e != 0, 0))\n"
            "            return blame(fail, %s, e);\n",
            NUMBER(row));
}

static void put_calls(tpi_render *r, const tpi_plan *plan)
{
    for (int i = 0; i < plan->n_steps; i++) {
        const tpi_plan_step *step = &plan->steps[i];
        if (!r->alone && tpi_is_band(step))
            PUT("        library->band(env, %s, %d);\n",
                NUMBER(plan->first_kernel + step->first), step->n);
        else
            for (int k = 0; k < step->n; k++)
                put_call(r, plan, step->first + k);
    }
}

/* ---- the block --------------------------------------------------------------------------- */

static void put_pred(tpi_render *r, const tpi_block *b)
{
    PUT("*(const tpk_bool *)");
    PUT(b->pred.offset ? "(" : "");
    put_at(r, b->pred);
    PUT(b->pred.offset ? ")" : "");
}

static void put_cond(tpi_render *r, const tpi_block *b)
{
    PUT("    if (");
    put_pred(r, b);
    PUT(") {\n");
    put_moment(r, "        ", b, TPI_BLOCK_BODY);
    put_calls(r, b->section->plan[0]);
    PUT("    } else {\n");
    put_moment(r, "        ", b, TPI_BLOCK_NEXT);
    put_calls(r, b->section->plan[1]);
    PUT("    }\n");
}

/* Is the number of turns wanted? By a library's loop it is, which may be stopped. */
static bool counts_turns(const tpi_render *r, const tpi_block *b)
{
    return !r->alone || b->loop->counted || b->numbered || b->symbol >= 0;
}

static void put_variables(tpi_render *r, const tpi_block *b, const tpi_loop_attrs *a)
{
    if (counts_turns(r, b))
        PUT("    int64_t turn = 0;\n");
    if (b->numbered)
        PUT("    int64_t number = 0;\n");
    if (a->counted) {
        PUT("    const int64_t count = ");
        put_size(r, a->count);
        PUT(";\n");
    }
    if (a->has_pred)
        PUT("    tpk_bool go;\n");
}

/* Pointers to variables of the function go, or compilers warn of them. */
static void put_forget(tpi_render *r, const tpi_block *b)
{
    for (int i = 0; i < b->end[TPI_BLOCK_BEFORE]; i++) {
        const tpi_block_stmt *x = &b->stmt[i];
        if (x->kind == TPI_BLOCK_POINT && x->from.kind >= TPI_ADDRESS_NUMBER)
            PUT("    p[%s] = 0;\n", NUMBER(x->to.n));
    }
}

static void put_stop(tpi_render *r, int n)
{
    if (!r->alone)
        PUT("        if (__builtin_expect(*library->stop || turn >= library->max_turns, 0)) {\n"
            "            fail[0] = %s, fail[1] = turn, fail[2] = %d;\n"
            "            return -1;\n        }\n",
            NUMBER(r->plan->first_kernel + n), TPI_RUN_STOPPED);
}

static void put_loop(tpi_render *r, const tpi_block *b, int n)
{
    const tpi_loop_attrs *a = b->loop;
    const int symbols = tpi_dim_n_symbols(r->plan->graph->dims);
    put_variables(r, b, a);
    put_moment(r, "    ", b, TPI_BLOCK_BEFORE);
    if (a->has_pred) {
        PUT("    go = ");
        put_pred(r, b);
        PUT(";\n");
    }
    PUT("    for (;;%s) {\n        if (%s%s%s)\n            break;\n",
        counts_turns(r, b) ? " turn++" : "", a->has_pred ? "!go" : "",
        a->has_pred && a->counted ? " || " : "", a->counted ? "turn >= count" : "");
    if (b->symbol >= 0)
        PUT("        if (turn == s[%d]) { /* there is no memory for more */\n"
            "            fail[0] = %d, fail[2] = %d;\n            return -1;\n        }\n",
            symbols + b->symbol, b->symbol, TPI_RUN_CAPACITY);
    put_stop(r, n);
    if (b->numbered)
        PUT(a->back ? "        number = count - 1 - turn;\n" : "        number = turn;\n");
    put_moment(r, "        ", b, TPI_BLOCK_BODY);
    put_calls(r, b->section->plan[0]);
    put_moment(r, "        ", b, TPI_BLOCK_NEXT);
    PUT("    }\n");
    put_forget(r, b);
    put_moment(r, "    ", b, TPI_BLOCK_AFTER);
    if (b->symbol >= 0)
        PUT("    s[%d] = turn;\n", b->symbol);
}

void tpi_render_block(tpi_render *r, int n)
{
    const tpi_section *s = r->plan->sections[r->plan->kernels[n].root];
    const tpi_block *b = tpi_lower_block(&r->room, r->plan, s);
    if (!b)
        return;
    tpi_render_head(r, n);
    if (bodies_can_fail(r, s))
        PUT("    int64_t e;\n");
    if (b->loop) {
        put_loop(r, b, n);
    } else {
        put_moment(r, "    ", b, TPI_BLOCK_BEFORE);
        put_cond(r, b);
    }
    if (b->token >= 0)
        PUT("    *(tpk_bool *)p[%s] = 1;\n", NUMBER(b->token));
    PUT("    return 0;\n}\n");
}
