/* Kernels that are one call: of a function of src/kernel, of a contraction, or a copy. */
#include "op/random_position.h"
#include "op/reduction.h"
#include "op/window.h"
#include "render/render.h"

#include <string.h>

static const char *type_of(const tp_tensor *t)
{
    return tp_dtype_name((tp_dtype)t->dtype);
}

/* What is called takes any size: kernels that differ in sizes only are one function. A file that
 * stands alone shows them. */
void tpi_render_any_size(tpi_render *r, int64_t size)
{
    if (r->alone || tpi_dim_is_symbolic(size))
        tpi_render_size(r, size);
    else
        tpi_render_number(r, size);
}

static void put_sizes(tpi_render *r, int n, const int64_t *v)
{
    tpi_str_put(&r->body, "{");
    for (int i = 0; i < n; i++) {
        tpi_str_put(&r->body, i ? ", " : "");
        tpi_render_any_size(r, v[i]);
    }
    tpi_str_put(&r->body, n ? "}" : "0}");
}

/* "v3 + offset" with the constness of operands cast away, as views have none. */
static void put_address(tpi_render *r, const tpi_layout *l)
{
    tpi_str_printf(&r->body, "v%d", tpi_render_name(r, l->root));
    if (l->offset != 0) {
        tpi_str_put(&r->body, " + (");
        tpi_render_any_size(r, l->offset);
        tpi_str_put(&r->body, ")");
    }
}

/* The name of an operand's memory: t's, where that is written over it. */
static int memory_of(const tpi_render *r, const tp_tensor *t, const tp_tensor *x)
{
    const int root = r->plan->values[x->index].layout.root;
    return r->plan->values[root].over == t->index ? t->index : root;
}

static void put_memories(tpi_render *r, const tp_tensor *t)
{
    const int packed = tpi_packed_operand(r->plan, t);
    for (int i = 0; i < t->n_in; i++) {
        const int root = memory_of(r, t, t->in[i]);
        bool seen = i == packed || root == t->index;
        for (int k = 0; k < i; k++)
            seen |= r->plan->values[t->in[k]->index].layout.root == root;
        if (!seen)
            tpi_render_memory(r, root, false);
    }
    tpi_render_memory(r, t->index, true);
}

/* x, as call t reads it. */
static void put_view(tpi_render *r, const tp_tensor *t, const tp_tensor *x)
{
    tpi_layout l = r->plan->values[x->index].layout;
    l.root = memory_of(r, t, x);
    tpi_str_put(&r->body, "{(void *)(");
    put_address(r, &l);
    tpi_str_printf(&r->body, "), %d, ", x->rank);
    put_sizes(r, x->rank, x->shape);
    tpi_str_put(&r->body, ", ");
    put_sizes(r, x->rank, l.stride);
    tpi_str_put(&r->body, "}");
}

/* ---- functions of src/kernel ------------------------------------------------------------------------ */

/* The next draw of the run is behind this one, as tpi_random_counters says. */
static void put_moving_on(tpi_render *r, const tp_tensor *t)
{
    const int per = t->dtype == TP_F32 ? 4 : 2;
    tpi_str_put(&r->body, "    const int64_t drawn = (int64_t)1");
    for (int i = 0; i < t->rank; i++) {
        tpi_str_put(&r->body, " * (");
        tpi_render_any_size(r, t->shape[i]);
        tpi_str_put(&r->body, ")");
    }
    tpi_str_printf(&r->body, ";\n    random[1] += drawn / %d + (drawn %% %d != 0);\n", per,
                   per);
}

/* May be a size, or any number. */
static void put_attr(tpi_render *r, int64_t attr)
{
    if (tpi_dim_is_symbolic(attr))
        tpi_render_size(r, attr);
    else if (r->alone)
        tpi_str_printf(&r->body, "%lld", (long long)attr);
    else
        tpi_render_number(r, attr);
}

static void put_function_call(tpi_render *r, int kernel, const tp_tensor *t)
{
    const tp_tensor *key = tpi_call_key(t->op, t->in, t);
    int64_t attr[TPI_MAX_FLAT_ATTRS];
    const int n = tpi_flatten_attrs(t->op, t->attrs, attr);
    if (r->alone)
        r->instances[tpi_template_index(t->op->text)] |= 1u << key->dtype;
    tpi_str_printf(&r->body, "    const tpk_view in[%d] = {", t->n_in ? t->n_in : 1);
    for (int i = 0; i < t->n_in; i++) {
        tpi_str_put(&r->body, i ? ", " : "");
        put_view(r, t, t->in[i]);
    }
    tpi_str_put(&r->body,
                t->n_in ? "};\n    const tpk_view out = " : "{0}};\n    const tpk_view out = ");
    put_view(r, t, t);
    tpi_str_printf(&r->body, ";\n    const int64_t attr[%d] = {", n ? n : 1);
    for (int i = 0; i < n; i++) {
        const bool random = t->op->draws;
        tpi_str_put(&r->body, i ? ", " : "");
        if (random && i == TPI_RANDOM_SEED)
            tpi_str_printf(&r->body, "random[%s]", NUMBER(2 * r->n_random));
        else if (random && i == TPI_RANDOM_AT)
            tpi_str_printf(&r->body, "random[%s]", NUMBER(2 * r->n_random + 1));
        else if (attr[i] == INT64_MIN)
            tpi_str_put(&r->body, "INT64_MIN");
        else
            put_attr(r, attr[i]);
    }
    tpi_str_printf(&r->body, "%s};\n", n ? "" : "0");
    if (t->op->draws && r->whole->draws)
        put_moving_on(r, t); /* random[0] and [1] are of all draws */
    else
        r->n_random += t->op->draws;
    if (r->alone)
        tpi_str_printf(&r->body, "    return tpk_%s_%s(in, &out, attr);\n}\n", t->op->fn,
                       type_of(key));
    else if (t->op->planes)
        tpi_str_printf(
            &r->body,
            "    library->planes(library->team, library->call[%s], %d, in, &out, attr, "
            "%d);\n    return 0;\n}\n",
            NUMBER(r->plan->first_kernel + kernel), t->n_in,
            (int)tp_dtype_size((tp_dtype)t->dtype));
    else
        tpi_str_printf(&r->body, "    return library->call[%s](in, &out, attr);\n}\n",
                       NUMBER(r->plan->first_kernel + kernel));
}

/* What follows up to `write_back` goes to another text. */
static tpi_str write_to(tpi_render *r, tpi_str *other)
{
    const tpi_str body = r->body;
    r->has_slots = false;
    r->body = *other;
    return body;
}

static void write_back(tpi_render *r, tpi_str *other, tpi_str body)
{
    *other = r->body;
    r->body = body;
    r->has_slots = true;
}

/* Room for the next packed constant; its size follows. `way`: how a library may pack it otherwise at
 * other sizes. */
static void put_room(tpi_render *r, const char *call, const char *way)
{
    if (!r->alone)
        tpi_str_printf(&r->body, "    *way++ = %s;\n", way);
    tpi_str_printf(&r->body, "    at[%d] = total;\n    total += ((int64_t)%s%s", r->n_packed,
                   r->called, call);
}

/* A constant to pack. What has no memory now is left as it is. */
static void put_packed_memory(tpi_render *r, int root)
{
    tpi_render_memory(r, root, false);
    if (!r->alone)
        tpi_str_printf(&r->body, "        if (v%d)\n    ", tpi_render_name(r, root));
}

/* ---- matrix products ------------------------------------------------------------------------------------ */

static void put_size_of(tpi_render *r, const char *before, int64_t size)
{
    tpi_str_put(&r->body, before);
    tpi_render_any_size(r, size);
}

/* Position in the batch of operand t, whose loops run over b0, b1, ... */
static void put_batch_offset(tpi_render *r, const tp_tensor *t, const int64_t *stride)
{
    for (int i = 0; i < t->rank - 2; i++) {
        if (stride[i] == 0)
            continue;
        tpi_str_printf(&r->body, " + b%d * (", i);
        tpi_render_any_size(r, stride[i]);
        tpi_str_put(&r->body, ")");
    }
}

static void put_pack_b(tpi_render *r, const tp_tensor *b)
{
    const int lead = b->rank - 2;
    const tpi_layout *l = &r->plan->values[b->index].layout;
    const char *type = type_of(b);
    tpi_str body = write_to(r, &r->packed);
    put_room(r, "gemm_packed_b_size_", "0");
    tpi_str_printf(&r->body, "%s(", type);
    tpi_render_any_size(r, b->shape[lead + 1]);
    put_size_of(r, ", ", b->shape[lead]);
    tpi_str_put(&r->body, ") + 63) & ~(int64_t)63;\n");
    write_back(r, &r->packed, body);
    body = write_to(r, &r->pack);
    tpi_str_put(&r->body, "    {\n    ");
    put_packed_memory(r, l->root);
    tpi_str_printf(&r->body, "        %sgemm_pack_b_%s(", r->called, type);
    tpi_render_any_size(r, b->shape[lead + 1]);
    put_size_of(r, ", ", b->shape[lead]);
    tpi_str_put(&r->body, ", ");
    put_address(r, l);
    put_size_of(r, ", ", l->stride[lead]);
    put_size_of(r, ", ", l->stride[lead + 1]);
    tpi_str_printf(&r->body,
                   ", (tpk_%s *)((char *)packed + ((int64_t *)packed)[%d]));\n    }\n", type,
                   r->n_packed);
    write_back(r, &r->pack, body);
}

/* Where the packed b of kernel n lies: what an earlier product of the same b packed (the steps of
 * a recurrent net share one), or the next place. */
static int place_packed_b(tpi_render *r, int n, const tp_tensor *b)
{
    const tpi_plan *p = r->plan;
    const int *packed_of = r->packed_of + p->first_kernel;
    for (int k = 0; k < n; k++)
        if (packed_of[k] && p->graph->nodes[p->kernels[k].root]->op == &tpi_op_matmul &&
            p->graph->nodes[p->kernels[k].root]->in[1] == b)
            return packed_of[k] - 1;
    return r->n_packed;
}

static void put_field(tpi_render *r, const char *name, int n, const int64_t *v)
{
    tpi_str_printf(&r->body, ", .%s = ", name);
    put_sizes(r, n, v);
}

/* tpk_products without the addresses, open for them. */
static void put_products(tpi_render *r, const tp_tensor *t)
{
    const tp_tensor *a = t->in[0], *b = t->in[1];
    const int lead = t->rank - 2;
    const int64_t *as = r->plan->values[a->index].layout.stride,
                  *bs = r->plan->values[b->index].layout.stride,
                  *cs = r->plan->values[t->index].layout.stride;
    tpi_str_printf(&r->body, "    const tpk_products q = {.f64 = %d, .lead = %d",
                   t->dtype == TP_F64, lead);
    put_size_of(r, ", .m = ", t->shape[lead]);
    put_size_of(r, ", .n = ", t->shape[lead + 1]);
    put_size_of(r, ", .k = ", a->shape[lead + 1]);
    put_size_of(r, ", .a_rs = ", as[lead]);
    put_size_of(r, ", .a_cs = ", as[lead + 1]);
    put_size_of(r, ", .b_rs = ", bs[lead]);
    put_size_of(r, ", .b_cs = ", bs[lead + 1]);
    put_size_of(r, ", .c_rs = ", cs[lead]);
    if (lead > 0) {
        put_field(r, "batch", lead, t->shape);
        put_field(r, "a_bs", lead, as);
        put_field(r, "b_bs", lead, bs);
        put_field(r, "c_bs", lead, cs);
    }
}

/* A call of the library: the whole batch at once, spread over threads. */
static void put_library_matmul(tpi_render *r, const tp_tensor *t, bool packed, int place)
{
    put_products(r, t);
    tpi_str_put(&r->body, ",\n        .a = ");
    put_address(r, &r->plan->values[t->in[0]->index].layout);
    if (packed) {
        tpi_str_printf(&r->body, ", .packed_b = packed + ((const int64_t *)packed)[%s]",
                       NUMBER(place));
    } else {
        tpi_str_put(&r->body, ", .b = ");
        put_address(r, &r->plan->values[t->in[1]->index].layout);
    }
    tpi_str_put(&r->body, ", .c = ");
    put_address(r, &r->plan->values[t->index].layout);
    tpi_str_put(&r->body, "};\n    library->products(library->team, &q, scratch, part);\n");
}

/* Loops over the batch, one product each. Integers wrap: their order does not matter. */
static void put_matmul_loops(tpi_render *r, const tp_tensor *t, bool packed, int place)
{
    const tp_tensor *a = t->in[0], *b = t->in[1];
    const tpi_layout *la = &r->plan->values[a->index].layout,
                     *lb = &r->plan->values[b->index].layout,
                     *lc = &r->plan->values[t->index].layout;
    const int lead = t->rank - 2;
    const char *type = type_of(t);
    for (int i = 0; i < lead; i++) {
        tpi_str_printf(&r->body, "    for (int64_t b%d = 0; b%d < ", i, i);
        tpi_render_any_size(r, t->shape[i]);
        tpi_str_printf(&r->body, "; b%d++)\n", i);
    }
    if (t->dtype >= TP_F32) {
        r->texts |= 1u << (t->dtype == TP_F32 ? TPI_TEXT_gemm_32 : TPI_TEXT_gemm_64);
        tpi_str_printf(&r->body, "        tpk_gemm_%s%s(", packed ? "packed_b_" : "", type);
    } else {
        tpi_str_printf(&r->body, "        k_matmul_%s(", type);
    }
    tpi_render_any_size(r, t->shape[lead]);
    put_size_of(r, ", ", t->shape[lead + 1]);
    put_size_of(r, ", ", a->shape[lead + 1]);
    tpi_str_put(&r->body, ", ");
    put_address(r, la);
    put_batch_offset(r, a, la->stride);
    put_size_of(r, ", ", la->stride[lead]);
    put_size_of(r, ", ", la->stride[lead + 1]);
    if (packed) {
        tpi_str_printf(&r->body, ", (const tpk_%s *)(packed + ((const int64_t *)packed)[%s])",
                       type, NUMBER(place));
    } else {
        tpi_str_put(&r->body, ", ");
        put_address(r, lb);
        put_batch_offset(r, b, lb->stride);
        put_size_of(r, ", ", lb->stride[lead]);
        put_size_of(r, ", ", lb->stride[lead + 1]);
    }
    tpi_str_put(&r->body, ", ");
    put_address(r, lc);
    put_batch_offset(r, t, lc->stride);
    put_size_of(r, ", ", lc->stride[lead]);
    tpi_str_put(&r->body, t->dtype >= TP_F32 ? ", scratch);\n" : ");\n");
}

/* The workspace of a product of floats. */
static void put_matmul_scratch(tpi_render *r, const tp_tensor *t)
{
    const int lead = t->rank - 2;
    tpi_str body = write_to(r, &r->scratch);
    if (r->alone) {
        tpi_str_printf(&r->body, "    need = (int64_t)tpk_gemm_ws_%s(", type_of(t));
        tpi_render_any_size(r, t->shape[lead]);
        put_size_of(r, ", ", t->shape[lead + 1]);
        put_size_of(r, ", ", t->in[0]->shape[lead + 1]);
        tpi_str_put(&r->body, ");\n    most = need > most ? need : most;\n");
    } else {
        tpi_str_put(&r->body, "    {\n    ");
        put_products(r, t);
        tpi_str_put(&r->body,
                    "};\n        need = (int64_t)library->products_ws(library->team, &q);\n"
                    "        most = need > most ? need : most;\n    }\n");
    }
    write_back(r, &r->scratch, body);
}

static void put_matmul(tpi_render *r, int n, const tp_tensor *t)
{
    const tp_tensor *b = t->in[1];
    const bool is_float = t->dtype >= TP_F32, packed = tpi_packed_operand(r->plan, t) == 1;
    const int place = packed ? place_packed_b(r, n, b) : 0;
    if (is_float && !r->alone)
        put_library_matmul(r, t, packed, place);
    else
        put_matmul_loops(r, t, packed, place);
    tpi_str_put(&r->body, "    return 0;\n}\n");
    if (packed)
        r->packed_of[r->plan->first_kernel + n] = place + 1;
    if (is_float)
        put_matmul_scratch(r, t);
    if (packed && place == r->n_packed) {
        put_pack_b(r, b);
        r->n_packed++;
    }
}

/* Integer products are rare: their loop is written where it is needed. */
static void put_integer_matmul(tpi_render *r, const tp_tensor *t)
{
    const char *type = type_of(t);
    tpi_str_printf(
        &r->helpers,
        "\n#ifndef k_matmul_for_%s\n#define k_matmul_for_%s\n"
        "static void k_matmul_%s(int64_t m, int64_t n, int64_t k, const tpk_%s *a, "
        "int64_t ars, int64_t acs, const tpk_%s *b, int64_t brs, int64_t bcs, tpk_%s *c, "
        "int64_t crs)\n{\n"
        "    for (int64_t i = 0; i < m; i++)\n"
        "        for (int64_t j = 0; j < n; j++) {\n"
        "            uint64_t sum = 0;\n"
        "            for (int64_t l = 0; l < k; l++)\n"
        "                sum += (uint64_t)a[i * ars + l * acs] * "
        "(uint64_t)b[l * brs + j * bcs];\n"
        "            c[i * crs + j] = (tpk_%s)sum;\n        }\n}\n#endif\n",
        type, type, type, type, type, type, type);
}

/* ---- convolutions ----------------------------------------------------------------------------------------- */

/* Of a file that stands alone: what names the function that asks whether it goes by tiles, or by taps. */
static const char *conv_prefix(const tpi_render *r, const tp_tensor *t)
{
    if (!r->alone)
        return "";
    return tpi_is_winograd(t) ? "wg_" : tpi_may_be_apart(t) ? "taps_" : "";
}

static void put_spec(tpi_render *r, const tp_tensor *t, const tp_tensor *x, const tp_tensor *w,
                     const tp_tensor *y)
{
    const int nd = x->rank - 2;
    const tpi_value *values = r->plan->values;
    tpi_str_printf(&r->body, "    const tpk_conv c = {.nd = %d, .groups = %lld, .batch = ", nd,
                   (long long)tpi_attr_int(t, "groups"));
    tpi_render_any_size(r, x->shape[0]);
    put_size_of(r, ", .ic = ", x->shape[1]);
    put_size_of(r, ", .oc = ", w->shape[0]);
    put_field(r, "in", nd, x->shape + 2);
    put_field(r, "out", nd, y->shape + 2);
    put_field(r, "ker", nd, w->shape + 2);
    put_field(r, "stride", nd, tpi_attr_list(t, "stride")->v);
    put_field(r, "dil", nd, tpi_attr_list(t, "dilation")->v);
    put_field(r, "pad", nd, tpi_attr_list(t, "pad_lo")->v);
    put_field(r, "xs", x->rank, values[x->index].layout.stride);
    put_field(r, "ws", x->rank, values[w->index].layout.stride);
    put_field(r, "ys", x->rank, values[y->index].layout.stride);
    if (tpi_is_winograd(t))
        tpi_str_printf(&r->body, ", .winograd = %d",
                       tpi_packed_operand(r->plan, t) == 1 ? TPK_WINOGRAD_PACKED
                                                           : TPK_WINOGRAD);
    if (t->dtype == TP_F64)
        tpi_str_printf(&r->body, ", .taps = %d", TPK_TAPS_TOGETHER);
    tpi_str_put(&r->body, "};\n");
}

static void put_conv_call(tpi_render *r, const tp_tensor *t, bool packed)
{
    const char *type = type_of(t);
    tpi_str_printf(&r->body, "    tpk_%s%s_%s%s(&c, ", conv_prefix(r, t), t->op->name,
                   packed ? "packed_w_" : "", type);
    put_address(r, &r->plan->values[t->in[0]->index].layout);
    tpi_str_put(&r->body, ", ");
    if (packed)
        tpi_str_printf(&r->body, "(const tpk_%s *)(packed + ((const int64_t *)packed)[%s])",
                       type, NUMBER(r->n_packed));
    else
        put_address(r, &r->plan->values[t->in[1]->index].layout);
    tpi_str_put(&r->body, ", ");
    put_address(r, &r->plan->values[t->index].layout);
    tpi_str_put(&r->body, ", scratch);\n    return 0;\n}\n");
}

static void put_library_conv(tpi_render *r, const tp_tensor *t, const tp_tensor *x,
                             const tp_tensor *w, const tp_tensor *y, bool packed)
{
    const tp_tensor *of[] = {x, w, y};
    static const char *const names[] = {"x", "w", "y"};
    tpi_str_printf(&r->body, "    const tpk_convolution q = {.which = %d, .f64 = %d, .spec = c",
                   t == x   ? 1
                   : t == w ? 2
                            : 0,
                   t->dtype == TP_F64);
    for (int i = 0; i < 3; i++) {
        if (packed && i == 1)
            continue;
        tpi_str_printf(&r->body, ", .%s = (void *)(", names[i]);
        put_address(r, &r->plan->values[of[i]->index].layout);
        tpi_str_put(&r->body, ")");
    }
    if (packed)
        tpi_str_printf(&r->body, ", .packed_w = packed + ((const int64_t *)packed)[%s]",
                       NUMBER(r->n_packed));
    tpi_str_printf(&r->body, "};\n    library->convolution(library->team, &q, scratch, part);\n"
                             "    return 0;\n}\n");
}

/* The operands of all three convolutions. */
typedef struct conv_nodes {
    const tp_tensor *x, *w, *y;
    bool packed; /* w is */
} conv_nodes;

static conv_nodes nodes_of(const tpi_render *r, const tp_tensor *t)
{
    const bool dx = t->op == &tpi_op_conv_dx, dw = t->op == &tpi_op_conv_dw;
    return (conv_nodes){.x = dx ? t : t->in[0],
                        .w = dw ? t : t->in[1],
                        .y = dx   ? t->in[0]
                             : dw ? t->in[1]
                                  : t,
                        .packed = tpi_packed_operand(r->plan, t) == 1};
}

/* Opens a block, in which q is the convolution that kernel n is, without addresses. */
static void put_conv_query(tpi_render *r, int n)
{
    const tp_tensor *t = r->plan->graph->nodes[r->plan->kernels[n].root];
    const conv_nodes c = nodes_of(r, t);
    tpi_str_put(&r->body, "    {\n    ");
    put_spec(r, t, c.x, c.w, c.y);
    if (!r->alone)
        tpi_str_printf(
            &r->body,
            "        const tpk_convolution q = {.which = %d, .f64 = %d, .spec = c%s};\n",
            t == c.x   ? 1
            : t == c.w ? 2
                       : 0,
            t->dtype == TP_F64, c.packed ? ", .packed_w = s" : "");
}

static void put_conv_scratch(tpi_render *r, int n, const tp_tensor *t)
{
    tpi_str body = write_to(r, &r->scratch);
    put_conv_query(r, n);
    if (r->alone)
        tpi_str_printf(&r->body, "        need = (int64_t)tpk_%s%s_ws_%s(&c);\n",
                       conv_prefix(r, t), t->op->name, type_of(t));
    else
        tpi_str_put(&r->body,
                    "        need = (int64_t)library->convolution_ws(library->team, &q);\n");
    tpi_str_put(&r->body, "        most = need > most ? need : most;\n    }\n");
    write_back(r, &r->scratch, body);
}

static void put_conv_pack(tpi_render *r, const tp_tensor *t, const conv_nodes *c)
{
    const char *type = type_of(t);
    const int root = r->plan->values[c->w->index].layout.root;
    tpi_str body = write_to(r, &r->packed);
    tpi_str_put(&r->body, "    {\n    ");
    put_spec(r, t, c->x, c->w, c->y);
    put_room(r, conv_prefix(r, t),
             t->dtype == TP_F64 ? "library->conv_way_f64(&c)" : "library->conv_way_f32(&c)");
    tpi_str_printf(&r->body, "conv_packed_w_size_%s(&c) + 63) & ~(int64_t)63;\n    }\n", type);
    write_back(r, &r->packed, body);
    body = write_to(r, &r->pack);
    tpi_str_put(&r->body, "    {\n    ");
    put_spec(r, t, c->x, c->w, c->y);
    tpi_str_put(&r->body, "    ");
    put_packed_memory(r, root);
    tpi_str_printf(&r->body, "        %s%sconv_pack_w_%s(&c, ", r->called, conv_prefix(r, t),
                   type);
    put_address(r, &r->plan->values[c->w->index].layout);
    tpi_str_printf(&r->body,
                   ", (tpk_%s *)((char *)packed + ((int64_t *)packed)[%d]), scratch);\n    }\n",
                   type, r->n_packed);
    write_back(r, &r->pack, body);
    r->n_packed++;
}

static tpi_text_id conv_text(const tp_tensor *t)
{
    const bool f64 = t->dtype == TP_F64;
    if (t->op == &tpi_op_conv_dw)
        return f64 ? TPI_TEXT_convdw_64 : TPI_TEXT_convdw_32;
    if (tpi_is_winograd(t))
        return TPI_TEXT_winograd_32;
    if (tpi_may_be_apart(t))
        return TPI_TEXT_convtaps_32;
    return f64 ? TPI_TEXT_conv_64 : TPI_TEXT_conv_32;
}

static void put_conv(tpi_render *r, int n, const tp_tensor *t)
{
    const conv_nodes c = nodes_of(r, t);
    if (r->alone)
        r->texts |= 1u << conv_text(t);
    put_spec(r, t, c.x, c.w, c.y);
    if (r->alone)
        put_conv_call(r, t, c.packed);
    else
        put_library_conv(r, t, c.x, c.w, c.y, c.packed);
    put_conv_scratch(r, n, t);
    if (c.packed)
        put_conv_pack(r, t, &c);
}

void tpi_render_call(tpi_render *r, int n)
{
    const tp_tensor *t = r->plan->graph->nodes[r->plan->kernels[n].root];
    if (t->op == &tpi_op_matmul && t->dtype < TP_F32)
        put_integer_matmul(r, t);
    tpi_render_head(r, n);
    if (t->op == &tpi_op_group) {
        tpi_render_memory(r, t->index, true);
        tpi_str_printf(&r->body, "    *v%d = 1;\n    return 0;\n}\n",
                       tpi_render_name(r, t->index));
        return;
    }
    if (t->op->kind == TPI_SHAPE || t->op->kind == TPI_SOURCE) {
        tpi_render_memory(r, t->index, true);
        tpi_str_printf(&r->body, "    *v%d = ", tpi_render_name(r, t->index));
        tpi_render_literal(r, t);
        tpi_str_put(&r->body, ";\n    return 0;\n}\n");
        return;
    }
    put_memories(r, t);
    if (t->op == &tpi_op_matmul)
        put_matmul(r, n, t);
    else if (t->op == &tpi_op_conv || t->op == &tpi_op_conv_dx || t->op == &tpi_op_conv_dw)
        put_conv(r, n, t);
    else
        put_function_call(r, n, t);
}

/* A view that strides cannot say: the operand's elements in their order. */
void tpi_render_copy(tpi_render *r, int n)
{
    const tp_tensor *t = r->plan->graph->nodes[r->plan->kernels[n].root], *x = t->in[0];
    const tpi_layout *l = &r->plan->values[x->index].layout;
    tpi_render_head(r, n);
    put_memories(r, t);
    tpi_str_put(&r->body, "    int64_t to = 0;\n");
    for (int i = 0; i < x->rank; i++) {
        tpi_str_printf(&r->body, "    for (int64_t i%d = 0; i%d < ", i, i);
        tpi_render_size(r, x->shape[i]);
        tpi_str_printf(&r->body, "; i%d++)\n", i);
    }
    tpi_str_printf(&r->body, "        v%d[to++] = (", tpi_render_name(r, t->index));
    put_address(r, l);
    tpi_str_put(&r->body, ")[0");
    for (int i = 0; i < x->rank; i++) {
        tpi_str_printf(&r->body, " + i%d * (", i);
        tpi_render_size(r, l->stride[i]);
        tpi_str_put(&r->body, ")");
    }
    tpi_str_put(&r->body, "];\n    return 0;\n}\n");
}
