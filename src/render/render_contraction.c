/* Contractions of src/kernel: batches of products, and convolutions. A program hands the library's functions a struct, q;
 * a file that stands alone calls the kernels themselves. */
#include "render/render_call.h"

#define PUT(...) tpi_str_printf(&r->body, __VA_ARGS__)

/* What names of functions have in them. */
typedef struct names {
    const char *library, *packed_size, *pack;
} names;

static const names names_of[] = {
    {"products",    "gemm_packed_b_size", "gemm_pack_b"},
    {"convolution", "conv_packed_w_size", "conv_pack_w"},
};

/* A file that stands alone: what names of functions begin with that ask how a convolution goes; the text. */
typedef struct text_for {
    const char *prefix;
    tpi_text_id text;
} text_for;

static text_for standing_alone(const tpi_render *r, const tpi_call_code *c)
{
    const bool f64 = c->node->dtype == TP_F64;
    const tpk_convolution *conv = &c->contraction.conv;
    if (!r->alone || !c->contraction.is_conv)
        return (text_for){"", f64 ? TPI_TEXT_gemm_64 : TPI_TEXT_gemm_32};
    if (conv->spec.winograd)
        return (text_for){"wg_", TPI_TEXT_winograd_32};
    const bool dw = conv->which == 2, apart = tpi_contraction_may_be_apart(conv);
    return (text_for){apart ? "taps_" : "", f64     ? dw ? TPI_TEXT_convdw_64 : TPI_TEXT_conv_64
                                            : dw    ? TPI_TEXT_convdw_32
                                            : apart ? TPI_TEXT_convtaps_32
                                                    : TPI_TEXT_conv_32};
}

static const char *type_of(const tpi_call_code *c)
{
    return tp_dtype_name((tp_dtype)c->node->dtype);
}

/* ---- what they are handed --------------------------------------------------------------------------- */

static void put_size(tpi_render *r, const char *before, int64_t size)
{
    PUT("%s", before);
    tpi_render_any_size(r, size);
}

static void put_list(tpi_render *r, const char *name, int n, const int64_t *v)
{
    PUT(", .%s = ", name);
    tpi_render_sizes(r, n, v);
}

static void put_products(tpi_render *r, const tpk_products *p)
{
    PUT("    const tpk_products q = {.f64 = %d, .lead = %d", p->f64, p->lead);
    put_size(r, ", .m = ", p->m);
    put_size(r, ", .n = ", p->n);
    put_size(r, ", .k = ", p->k);
    put_size(r, ", .a_rs = ", p->a_rs);
    put_size(r, ", .a_cs = ", p->a_cs);
    put_size(r, ", .b_rs = ", p->b_rs);
    put_size(r, ", .b_cs = ", p->b_cs);
    put_size(r, ", .c_rs = ", p->c_rs);
    if (p->lead > 0) {
        put_list(r, "batch", p->lead, p->batch);
        put_list(r, "a_bs", p->lead, p->a_bs);
        put_list(r, "b_bs", p->lead, p->b_bs);
        put_list(r, "c_bs", p->lead, p->c_bs);
    }
}

static void put_spec(tpi_render *r, const tpk_conv *c)
{
    PUT("    const tpk_conv c = {.nd = %d, .groups = %lld", c->nd, (long long)c->groups);
    put_size(r, ", .batch = ", c->batch);
    put_size(r, ", .ic = ", c->ic);
    put_size(r, ", .oc = ", c->oc);
    put_list(r, "in", c->nd, c->in);
    put_list(r, "out", c->nd, c->out);
    put_list(r, "ker", c->nd, c->ker);
    put_list(r, "stride", c->nd, c->stride);
    put_list(r, "dil", c->nd, c->dil);
    put_list(r, "pad", c->nd, c->pad);
    put_list(r, "xs", c->nd + 2, c->xs);
    put_list(r, "ws", c->nd + 2, c->ws);
    put_list(r, "ys", c->nd + 2, c->ys);
    if (c->winograd)
        PUT(", .winograd = %d", c->winograd);
    if (c->taps)
        PUT(", .taps = %d", c->taps);
    PUT("};\n");
}

/* q but for the addresses, for which it is open. `in`: spaces before each line. */
static void put_open(tpi_render *r, const char *in, const tpi_contraction *of)
{
    PUT("%s", in);
    if (!of->is_conv) {
        put_products(r, &of->products);
        return;
    }
    put_spec(r, &of->conv.spec);
    PUT("%s    const tpk_convolution q = {.which = %d, .f64 = %d, .spec = c", in,
        of->conv.which, of->conv.f64);
}

static void put_packed(tpi_render *r, int room)
{
    PUT("packed + ((const int64_t *)packed)[%s]", NUMBER(room));
}

static void put_conv_addresses(tpi_render *r, const tpi_call_code *c, int room)
{
    for (int i = 0; i < 3; i++) {
        const int k = c->contraction.operand[i];
        if (k == c->packed)
            continue;
        PUT(", .%c = (void *)(", "xwy"[i]);
        tpi_render_address(r, &c->operand[k]);
        PUT(")");
    }
    if (c->packed >= 0) {
        PUT(", .packed_w = ");
        put_packed(r, room);
    }
}

static void put_product_addresses(tpi_render *r, const tpi_call_code *c, int room)
{
    PUT(",\n        .a = ");
    tpi_render_address(r, &c->operand[0]);
    PUT(c->packed < 0 ? ", .b = " : ", .packed_b = ");
    if (c->packed < 0)
        tpi_render_address(r, &c->operand[1]);
    else
        put_packed(r, room);
    PUT(", .c = ");
    tpi_render_address(r, tpi_call_out(c));
}

/* ---- calls ------------------------------------------------------------------------------------------ */

static void put_library_call(tpi_render *r, const tpi_call_code *c, int room)
{
    const tpi_contraction *of = &c->contraction;
    put_open(r, "", of);
    if (of->is_conv)
        put_conv_addresses(r, c, room);
    else
        put_product_addresses(r, c, room);
    PUT("};\n    library->%s(library->team, &q, scratch, part);\n",
        names_of[of->is_conv].library);
}

/* An operand as an argument, in a batch where its loops are, with so many of its last strides behind it. */
static void put_argument(tpi_render *r, const tpi_call_code *c, int k, int room, int strides)
{
    const tpi_call_operand *x = &c->operand[k];
    PUT(", ");
    if (k == c->packed) {
        PUT("(const tpk_%s *)(", type_of(c));
        put_packed(r, room);
        PUT(")");
        return;
    }
    tpi_render_address(r, x);
    if (strides)
        tpi_render_position(r, 'b', x->view.rank - 2, x->view.stride);
    for (int i = 0; i < strides; i++)
        put_size(r, ", ", x->view.stride[x->view.rank - 2 + i]);
}

static void put_sizes(tpi_render *r, const tpk_products *p)
{
    put_size(r, "", p->m);
    put_size(r, ", ", p->n);
    put_size(r, ", ", p->k);
}

/* A product for each place of a batch, or a convolution. */
static void put_alone_call(tpi_render *r, const tpi_call_code *c, int room)
{
    const tpi_contraction *of = &c->contraction;
    const bool packed = c->packed >= 0;
    if (of->is_conv) {
        put_spec(r, &of->conv.spec);
        PUT("    tpk_%s%s_%s%s(&c", standing_alone(r, c).prefix, c->node->op->name,
            packed ? "packed_w_" : "", type_of(c));
    } else {
        tpi_render_loops(r, 'b', of->products.lead, of->products.batch);
        PUT("        tpk_gemm_%s%s(", packed ? "packed_b_" : "", type_of(c));
        put_sizes(r, &of->products);
    }
    for (int k = 0; k < 3; k++)
        put_argument(r, c, k, room, of->is_conv ? 0 : k < 2 ? 2 : 1);
    PUT(", scratch);\n");
}

/* ---- around them ------------------------------------------------------------------------------------ */

/* Opens a block, in which q is what it is handed, without addresses. */
static void put_query(tpi_render *r, const tpi_call_code *c)
{
    const tpi_contraction *of = &c->contraction;
    PUT("    {\n");
    put_open(r, "    ", of);
    if (of->is_conv && c->packed >= 0)
        PUT(", .packed_w = s"); /* it has some: the address is not looked at */
    PUT("};\n");
}

/* The workspace. */
static void put_scratch(tpi_render *r, const tpi_call_code *c)
{
    const tpi_contraction *of = &c->contraction;
    if (!r->alone) {
        put_query(r, c);
        PUT("        need = (int64_t)library->%s_ws(library->team, &q);\n    ",
            names_of[of->is_conv].library);
    } else if (of->is_conv) {
        PUT("    {\n    ");
        put_spec(r, &of->conv.spec);
        PUT("        need = (int64_t)tpk_%s%s_ws_%s(&c);\n    ", standing_alone(r, c).prefix,
            c->node->op->name, type_of(c));
    } else {
        PUT("    need = (int64_t)tpk_gemm_ws_%s(", type_of(c));
        put_sizes(r, &of->products);
        PUT(");\n");
    }
    PUT("    most = need > most ? need : most;\n%s", r->alone && !of->is_conv ? "" : "    }\n");
}

/* A call of the function that packs, or of that which tells how much it takes: its first arguments. */
static void put_packing(tpi_render *r, const tpi_call_code *c, const char *function)
{
    PUT("%s%s%s_%s(", r->called, standing_alone(r, c).prefix, function, type_of(c));
    if (c->contraction.is_conv) {
        PUT("&c");
    } else {
        put_size(r, "", c->contraction.products.n);
        put_size(r, ", ", c->contraction.products.k);
    }
}

/* Room for the next packed constant, and how a library may pack it otherwise at other sizes. */
static void put_room(tpi_render *r, const tpi_call_code *c)
{
    const bool is_conv = c->contraction.is_conv;
    if (is_conv) {
        PUT("    {\n    ");
        put_spec(r, &c->contraction.conv.spec);
    }
    if (!r->alone && is_conv)
        PUT("    *way++ = library->conv_way_%s(&c);\n", type_of(c));
    else if (!r->alone)
        PUT("    *way++ = 0;\n");
    PUT("    at[%d] = total;\n    total += ((int64_t)", r->n_packed);
    put_packing(r, c, names_of[is_conv].packed_size);
    PUT(") + 63) & ~(int64_t)63;\n%s", is_conv ? "    }\n" : "");
}

/* What has no memory now is left as it is. */
static void put_pack(tpi_render *r, const tpi_call_code *c)
{
    const bool is_conv = c->contraction.is_conv;
    const tpi_call_operand *x = &c->operand[c->packed];
    PUT("    {\n    ");
    if (is_conv) {
        put_spec(r, &c->contraction.conv.spec);
        PUT("    ");
    }
    tpi_render_memory(r, x->memory, false);
    if (!r->alone)
        PUT("        if (v%d)\n    ", tpi_render_name(r, x->memory));
    PUT("        ");
    put_packing(r, c, names_of[is_conv].pack);
    PUT(", ");
    tpi_render_address(r, x);
    for (int i = 0; i < 2 && !is_conv; i++)
        put_size(r, ", ", x->view.stride[x->view.rank - 2 + i]);
    PUT(", (tpk_%s *)((char *)packed + ((int64_t *)packed)[%d])%s);\n    }\n", type_of(c),
        r->n_packed, is_conv ? ", scratch" : "");
}

/* Do all products read what one has packed? Filters are packed for each convolution. */
static bool is_shared(const tpi_call_code *c)
{
    return !c->contraction.is_conv;
}

/* Where the packed operand of kernel n lies: what an earlier kernel packed of it (the steps of a recurrent net
 * share one), or the next room. */
static int room_of(const tpi_render *r, int n, const tpi_call_code *c)
{
    const tpi_plan *p = r->plan;
    const int *packed_of = r->packed_of + p->first_kernel;
    for (int k = 0; k < n && is_shared(c); k++)
        if (packed_of[k] && p->graph->nodes[p->kernels[k].root]->in[1] == c->node->in[1])
            return packed_of[k] - 1;
    return r->n_packed;
}

void tpi_render_contraction(tpi_render *r, int n, const tpi_call_code *c)
{
    const bool packed = c->packed >= 0;
    const int room = packed ? room_of(r, n, c) : 0;
    if (r->alone) {
        r->texts |= 1u << standing_alone(r, c).text;
        put_alone_call(r, c, room);
    } else {
        put_library_call(r, c, room);
    }
    PUT("    return 0;\n}\n");
    tpi_render_elsewhere(r, &r->scratch, c, put_scratch);
    if (packed && is_shared(c))
        r->packed_of[r->plan->first_kernel + n] = room + 1;
    if (!packed || room < r->n_packed)
        return;
    tpi_render_elsewhere(r, &r->packed, c, put_room);
    tpi_render_elsewhere(r, &r->pack, c, put_pack);
    r->n_packed++;
}
