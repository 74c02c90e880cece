/* Kernels that are one call: of a function of src/kernel, of a contraction, or a copy. */
#include "render/render_call.h"

#include "lower/call_code.h"
#include "op/own_kernel.h"
#include "op/random_position.h"
#include "op/sizes.h"

#include <string.h>

static const char *type_of(const tp_tensor *t)
{
    return tp_dtype_name((tp_dtype)t->dtype);
}

void tpi_render_address(tpi_render *r, const tpi_call_operand *x)
{
    tpi_str_printf(&r->body, "v%d", tpi_render_name(r, x->memory));
    if (x->offset != 0) {
        tpi_str_put(&r->body, " + (");
        tpi_render_any_size(r, x->offset);
        tpi_str_put(&r->body, ")");
    }
}

void tpi_render_loops(tpi_render *r, char letter, int n, const int64_t *size)
{
    for (int i = 0; i < n; i++) {
        tpi_str_printf(&r->body, "    for (int64_t %c%d = 0; %c%d < ", letter, i, letter, i);
        tpi_render_size(r, size[i]);
        tpi_str_printf(&r->body, "; %c%d++)\n", letter, i);
    }
}

void tpi_render_position(tpi_render *r, char letter, int n, const int64_t *stride)
{
    for (int i = 0; i < n; i++) {
        if (stride[i] == 0)
            continue;
        tpi_str_printf(&r->body, " + %c%d * (", letter, i);
        tpi_render_size(r, stride[i]);
        tpi_str_put(&r->body, ")");
    }
}

static void put_memories(tpi_render *r, const tpi_call_code *c)
{
    const int result = tpi_call_out(c)->memory;
    for (int i = 0; i < c->n_in; i++) {
        const int memory = c->operand[i].memory;
        bool seen = i == c->packed || memory == result;
        for (int k = 0; k < i; k++)
            seen |= c->operand[k].memory == memory;
        if (!seen)
            tpi_render_memory(r, memory, false);
    }
    tpi_render_memory(r, result, true);
}

void tpi_render_elsewhere(tpi_render *r, tpi_str *other, const tpi_call_code *c,
                          void (*put)(tpi_render *r, const tpi_call_code *c))
{
    const tpi_str body = r->body;
    r->has_slots = false;
    r->body = *other;
    put(r, c);
    *other = r->body;
    r->body = body;
    r->has_slots = true;
}

/* ---- functions of src/kernel ------------------------------------------------------------------------ */

/* Without the constness of operands, as views have none. */
static void put_view(tpi_render *r, const tpi_call_operand *x)
{
    tpi_str_put(&r->body, "{(void *)(");
    tpi_render_address(r, x);
    tpi_str_printf(&r->body, "), %d, ", x->view.rank);
    tpi_render_sizes(r, x->view.rank, x->view.shape);
    tpi_str_put(&r->body, ", ");
    tpi_render_sizes(r, x->view.rank, x->view.stride);
    tpi_str_put(&r->body, "}");
}

static void put_views(tpi_render *r, const tpi_call_code *c)
{
    tpi_str_printf(&r->body, "    const tpk_view in[%d] = {", c->n_in ? c->n_in : 1);
    for (int i = 0; i < c->n_in; i++) {
        tpi_str_put(&r->body, i ? ", " : "");
        put_view(r, &c->operand[i]);
    }
    tpi_str_put(&r->body, c->n_in ? "};\n" : "{0}};\n");
    tpi_str_put(&r->body, "    const tpk_view out = ");
    put_view(r, tpi_call_out(c));
    tpi_str_put(&r->body, ";\n");
}

/* The next draw of the run is behind this one, as tpi_random_moves says. */
static void put_moving_on(tpi_render *r, const tp_tensor *t)
{
    const tpi_random_attrs *a = t->attrs;
    const int per = tpi_random_per(a), stream = 1 + tpi_plan_stream(r->plan, t);
    if (a->apart.n) {
        tpi_str_printf(&r->body, "    random[%d] += ", stream);
        tpi_render_any_size(r, a->moves);
        tpi_str_put(&r->body, ";\n");
        return;
    }
    tpi_str_put(&r->body, "    const int64_t drawn = (int64_t)1");
    for (int i = 0; i < t->rank; i++) {
        tpi_str_put(&r->body, " * (");
        tpi_render_any_size(r, t->shape[i]);
        tpi_str_put(&r->body, ")");
    }
    tpi_str_printf(&r->body, ";\n    random[%d] += drawn / %d + (drawn %% %d != 0);\n", stream,
                   per, per);
}

/* May be a size, unless it is any number. */
static void put_attr(tpi_render *r, int64_t attr, bool any)
{
    if (attr == INT64_MIN)
        tpi_str_put(&r->body, "INT64_MIN");
    else if (!any && tpi_dim_is_symbolic(attr))
        tpi_render_size(r, attr);
    else if (r->alone)
        tpi_str_printf(&r->body, "%lld", (long long)attr);
    else
        tpi_render_number(r, attr);
}

static void put_attrs(tpi_render *r, const tpi_call_code *c)
{
    int64_t attr[TPI_MAX_FLAT_ATTRS];
    const int n = tpi_flatten_attrs(c->node->op, c->attrs, attr);
    const bool whole =
        r->whole->draws; /* the seed, and where each stream is, are of all draws */
    const int at =
        c->draws_next && whole ? 1 + tpi_plan_stream(r->plan, c->node) : 2 * r->n_random + 1;
    tpi_str_printf(&r->body, "    const int64_t attr[%d] = {", n ? n : 1);
    for (int i = 0; i < n; i++) {
        tpi_str_put(&r->body, i ? ", " : "");
        if (c->draws_next && i == TPI_RANDOM_SEED)
            tpi_str_printf(&r->body, "random[%s]", NUMBER(whole ? 0 : 2 * r->n_random));
        else if (c->draws_next && i == TPI_RANDOM_AT)
            tpi_str_printf(&r->body, "random[%s]", NUMBER(at));
        else
            put_attr(r, attr[i], c->draws_next && i > TPI_RANDOM_AT && i < TPI_RANDOM_APART);
    }
    tpi_str_put(&r->body, n ? "};\n" : "0};\n");
    if (c->draws_next && whole)
        put_moving_on(r, c->node);
    else
        r->n_random += c->draws_next;
}

static void put_function_call(tpi_render *r, int kernel, const tpi_call_code *c)
{
    const tpi_op *op = c->node->op;
    const tp_tensor *key = tpi_call_key(op, c->in, c->node);
    put_views(r, c);
    put_attrs(r, c);
    if (r->alone) {
        r->instances[tpi_template_index(op->text)] |= 1u << key->dtype;
        tpi_str_printf(&r->body, "    return tpk_%s_%s(in, &out, attr);\n}\n", op->fn,
                       type_of(key));
        return;
    }
    const char *call = NUMBER(r->plan->first_kernel + kernel);
    if (op->planes)
        tpi_str_printf(
            &r->body,
            "    library->planes(library->team, library->call[%s], %d, in, &out, attr, "
            "%d);\n    return 0;\n}\n",
            call, c->n_in, (int)tp_dtype_size((tp_dtype)c->node->dtype));
    else
        tpi_str_printf(&r->body, "    return library->call[%s](in, &out, attr);\n}\n", call);
}

/* ---- kernels of the user's ------------------------------------------------------------------------- */

/* Is it known to have none? */
static bool has_gaps(const tpi_call_code *c, const tp_tensor *x)
{
    int64_t flat[TP_MAX_RANK];
    return !tpi_sizes_strides(c->node->graph->dims, x->rank, x->shape, flat) ||
           memcmp(flat, x->stride, (size_t)x->rank * sizeof *flat) != 0;
}

/* What tpi_own_call.run takes. */
static void put_own_room(tpi_render *r, const tpi_call_code *c)
{
    tpi_str_printf(&r->body, "    need = %zu", tpi_own_room(c->n_in));
    for (int i = 0; i < c->n_in; i++) {
        const tp_tensor *x = c->in[i];
        if (!has_gaps(c, x))
            continue;
        tpi_str_printf(&r->body, " + ((int64_t)%zu", tp_dtype_size((tp_dtype)x->dtype));
        for (int k = 0; k < x->rank; k++) {
            tpi_str_put(&r->body, " * (");
            tpi_render_size(r, x->shape[k]);
            tpi_str_put(&r->body, ")");
        }
        tpi_str_put(&r->body, " + 63) / 64 * 64");
    }
    tpi_str_put(&r->body, ";\n    most = need > most ? need : most;\n");
}

/* It is told by its number, as a text has no addresses. */
static void put_own_call(tpi_render *r, int kernel, const tpi_call_code *c)
{
    put_views(r, c);
    tpi_str_printf(&r->body,
                   "    return library->own(library->program, %s, in, &out, scratch);\n}\n",
                   NUMBER(r->plan->first_kernel + kernel));
    tpi_render_elsewhere(r, &r->scratch, c, put_own_room);
}

/* ---- what is no call -------------------------------------------------------------------------------- */

static void put_only_element(tpi_render *r, const tpi_call_code *c)
{
    const tp_tensor *t = c->node;
    tpi_render_memory(r, t->index, true);
    tpi_str_printf(&r->body, "    *v%d = ", tpi_render_name(r, t->index));
    if (t->op->kind == TPI_SHAPE)
        tpi_render_literal(r, t);
    else
        tpi_str_put(&r->body, "1");
    tpi_str_put(&r->body, ";\n    return 0;\n}\n");
}

/* A view that strides cannot say: the operand's elements in their order. */
static void put_copy(tpi_render *r, const tpi_call_code *c)
{
    const tpi_call_operand *x = &c->operand[0];
    tpi_str_put(&r->body, "    int64_t to = 0;\n");
    tpi_render_loops(r, 'i', x->view.rank, x->view.shape);
    tpi_str_printf(&r->body, "        v%d[to++] = (",
                   tpi_render_name(r, tpi_call_out(c)->memory));
    tpi_render_address(r, x);
    tpi_str_put(&r->body, ")[0");
    tpi_render_position(r, 'i', x->view.rank, x->view.stride);
    tpi_str_put(&r->body, "];\n    return 0;\n}\n");
}

void tpi_render_call(tpi_render *r, int n)
{
    const tpi_call_code *c = tpi_lower_call(&r->room, r->plan, &r->plan->kernels[n]);
    if (!c)
        return;
    tpi_render_head(r, n);
    if (c->form == TPI_CALL_SET)
        put_only_element(r, c);
    else
        put_memories(r, c);
    if (c->form == TPI_CALL_COPY)
        put_copy(r, c);
    else if (c->form == TPI_CALL_VIEWS)
        put_function_call(r, n, c);
    else if (c->form == TPI_CALL_OWN)
        put_own_call(r, n, c);
    else if (c->form == TPI_CALL_CONTRACTION)
        tpi_render_contraction(r, n, c);
}
