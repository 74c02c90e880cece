#include "onnx/export/emit.h"

#include "base/hash.h"
#include "core/dim.h"
#include "onnx/format/model.h"
#include "onnx/format/write.h"
#include "onnx/operators.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- failing ----------------------------------------------------------------------------- */

tpi_val tpi_export_fail(tpi_export *x, tp_status status, const char *fmt, ...)
{
    if (x->status != TP_OK)
        return 0;
    char text[200];
    va_list ap;
    va_start(ap, fmt);
    tpi_vprint(text, sizeof text, fmt, ap);
    va_end(ap);
    const tp_tensor *t = x->now.node;
    const bool place = t && t->file;
    x->status = tpi_fail_status(x->ctx, place ? TPI_AT(t->file, t->line) : x->m->at,
                                t ? t->op->name : x->m->what, status, "%s", text);
    return 0;
}

tpi_val tpi_export_no_memory(tpi_export *x)
{
    if (x->status == TP_OK) {
        tpi_no_memory(x->ctx, x->m->at, x->m->what);
        x->status = TP_E_MEMORY;
    }
    return 0;
}

/* ---- values and nodes -------------------------------------------------------------------- */

void *tpi_export_take(tpi_export *x, size_t count, size_t size)
{
    void *p = tpi_bump_take(&x->memory, count, size);
    if (!p)
        tpi_export_no_memory(x);
    return p;
}

bool tpi_export_room(tpi_export *x, void *array_ptr, int32_t n, int32_t *size, size_t elem)
{
    void **array = array_ptr;
    void *p = x->status == TP_OK ? tpi_bump_grow(&x->memory, *array, n, size, elem) : NULL;
    if (!p)
        tpi_export_no_memory(x);
    else
        *array = p;
    return p;
}

#define ROOM(x, list, n, size)                                                                 \
    tpi_export_room((x), &(x)->list, (x)->n, &(x)->size, sizeof *(x)->list)

static tpi_val add_value(tpi_export *x, const char *op, tp_dtype dtype)
{
    if (!ROOM(x, values, n_values, values_size))
        return 0;
    x->values[x->n_values] = (tpi_out_value){.dtype = dtype, .block = x->block, .op = op};
    return x->n_values++;
}

static bool add_operand(tpi_export *x, int32_t v)
{
    if (!ROOM(x, operands, n_operands, operands_size))
        return false;
    x->operands[x->n_operands++] = v;
    return true;
}

tpi_val tpi_put_typed(tpi_export *x, const char *op, tp_dtype dtype, int n, const tpi_val *in)
{
    if (!ROOM(x, nodes, n_nodes, nodes_size))
        return 0;
    const int32_t i = x->n_nodes, first = x->n_operands;
    for (int k = 0; k < n; k++)
        if (!add_operand(x, in[k]))
            return 0;
    x->nodes[x->n_nodes++] = (tpi_out_node){
        .op = op,
        .first = first,
        .n_in = n,
        .attrs = x->attrs.len,
        .node = x->now.node,
        .next = -1,
        .body = {-1, -1}
    };
    tpi_out_block *b = &x->blocks[x->block];
    if (b->last >= 0)
        x->nodes[b->last].next = i;
    else
        b->first = i;
    b->last = i;
    return tpi_put_result(x, dtype);
}

tpi_val tpi_put(tpi_export *x, const char *op, int n, const tpi_val *in)
{
    return tpi_put_typed(x, op, tpi_type(x, in[0]), n, in);
}

tpi_val tpi_put_result(tpi_export *x, tp_dtype dtype)
{
    if (x->status != TP_OK)
        return 0;
    tpi_out_node *node = &x->nodes[x->n_nodes - 1];
    const tpi_val v = add_value(x, node->op, dtype);
    if (!v || !add_operand(x, v))
        return 0;
    node->n_out++;
    return v;
}

/* ---- attributes of what is put ----------------------------------------------------------- */

static size_t attr_begin(tpi_export *x, const char *name, int type)
{
    const size_t mark = tpi_pb_begin(&x->attrs, TPI_PB_NODE_ATTRIBUTE);
    tpi_pb_put_text(&x->attrs, TPI_PB_ATTRIBUTE_NAME, name);
    tpi_pb_put_int(&x->attrs, TPI_PB_ATTRIBUTE_TYPE, type);
    return mark;
}

static void attr_end(tpi_export *x, size_t mark)
{
    tpi_pb_end(&x->attrs, mark);
    if (x->attrs.failed)
        tpi_export_no_memory(x);
    if (x->status != TP_OK)
        return;
    tpi_out_node *node = &x->nodes[x->n_nodes - 1];
    node->attrs_size = x->attrs.len - node->attrs;
}

void tpi_put_int(tpi_export *x, const char *name, int64_t v)
{
    const size_t mark = attr_begin(x, name, TPI_PB_INT);
    tpi_pb_put_int(&x->attrs, TPI_PB_ATTRIBUTE_I, v);
    attr_end(x, mark);
}

void tpi_put_ints(tpi_export *x, const char *name, int64_t n, const int64_t *v)
{
    const size_t mark = attr_begin(x, name, TPI_PB_INTS);
    for (int64_t i = 0; i < n; i++)
        tpi_pb_put_int(&x->attrs, TPI_PB_ATTRIBUTE_INTS, v[i]);
    attr_end(x, mark);
}

void tpi_put_text(tpi_export *x, const char *name, const char *text)
{
    const size_t mark = attr_begin(x, name, TPI_PB_STRING);
    tpi_pb_put_text(&x->attrs, TPI_PB_ATTRIBUTE_S, text);
    attr_end(x, mark);
}

void tpi_put_body(tpi_export *x, int which, int32_t block)
{
    if (x->status == TP_OK)
        x->nodes[x->n_nodes - 1].body[which] = block;
}

/* ---- attributes that an op has, too ------------------------------------------------------- */

/* The op's attribute that the operator has by this name, or NULL. */
static const tpi_attr *own_attr(const tp_tensor *t, tpi_span name)
{
    static const char others[][2][20] = {
        {"count_include_pad", "count_pad"},
        {"dilations",         "dilation" },
        {"group",             "groups"   },
        {"keepdims",          "keep"     },
        {"kernel_shape",      "kernel"   },
        {"perm",              "axes"     },
        {"strides",           "stride"   },
    };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (tpi_span_is(name, others[i][0]))
            name = (tpi_span){others[i][1], strlen(others[i][1])};
    for (const tpi_attr *a = t->op->attrs; a && a->name; a++)
        if (tpi_span_is(name, a->name))
            return a;
    return NULL;
}

/* In front of all axes, then behind them. */
static void put_pads(tpi_export *x, const tp_tensor *t)
{
    const tpi_list *lo = tpi_attr_list(t, "pad_lo"), *hi = tpi_attr_list(t, "pad_hi");
    int64_t pads[2 * TP_MAX_RANK];
    memcpy(pads, lo->v, sizeof(int64_t) * (size_t)lo->n);
    memcpy(pads + lo->n, hi->v, sizeof(int64_t) * (size_t)lo->n);
    tpi_put_ints(x, "pads", 2 * lo->n, pads);
}

static tpi_onnx_operator operator_of(const char *name)
{
    return tpi_onnx_operator_of(name, strlen(name));
}

void tpi_put_shared(tpi_export *x, const tp_tensor *t)
{
    if (x->status != TP_OK)
        return;
    const char *all = operator_of(x->nodes[x->n_nodes - 1].op).attributes;
    const tpi_span pad_lo = {"pad_lo", 6};
    for (tpi_onnx_attribute a; tpi_onnx_next_attribute(&all, TPI_EXPORT_OPSET, &a);) {
        const tpi_attr *own = own_attr(t, a.name);
        char name[24];
        snprintf(name, sizeof name, "%.*s", (int)a.name.size, a.name.at);
        if (a.is_over || a.since > TPI_EXPORT_OPSET)
            continue;
        if (tpi_span_is(a.name, "pads") && own_attr(t, pad_lo))
            put_pads(x, t);
        else if (own && own->type == TPI_ATTR_LIST)
            tpi_put_ints(x, name, tpi_attr_list(t, own->name)->n,
                         tpi_attr_list(t, own->name)->v);
        else if (own && own->type <= TPI_ATTR_BOOL)
            tpi_put_int(x, name, tpi_attr_int(t, own->name));
    }
}

tpi_val tpi_put_alike(tpi_export *x, const char *op, const tp_tensor *t, int n,
                      const tpi_val *in)
{
    const tpi_val y = tpi_put(x, op, n, in);
    tpi_put_shared(x, t);
    return y;
}

/* ---- operands and types ------------------------------------------------------------------ */

tpi_val tpi_value_of(const tpi_export *x, const tp_tensor *node)
{
    return x->now.value_of[node->index];
}

tpi_val tpi_in(const tpi_export *x, const tp_tensor *t, int i)
{
    return tpi_value_of(x, t->in[i]);
}

bool tpi_is_fed(const tpi_export *x, const tp_tensor *node)
{
    for (int i = 0; i < x->m->n_in; i++)
        if (x->m->in[i] == node)
            return true;
    return false;
}

tp_dtype tpi_type(const tpi_export *x, tpi_val v)
{
    return v < x->n_values ? x->values[v].dtype : TP_BOOL;
}

tpi_val tpi_as(tpi_export *x, tpi_val v, tp_dtype dtype)
{
    if (tpi_type(x, v) == dtype)
        return v;
    const tpi_val y = tpi_put_typed(x, "Cast", dtype, TPI_V(v));
    tpi_put_int(x, "to", tpi_onnx_type(dtype));
    return y;
}

int tpi_onnx_type(tp_dtype dtype)
{
    static const uint8_t of[TP_N_DTYPES] = {
        [TP_BOOL] = TPI_PB_BOOL, [TP_I8] = TPI_PB_I8,   [TP_I16] = TPI_PB_I16,
        [TP_I32] = TPI_PB_I32,   [TP_I64] = TPI_PB_I64, [TP_U8] = TPI_PB_U8,
        [TP_U16] = TPI_PB_U16,   [TP_U32] = TPI_PB_U32, [TP_U64] = TPI_PB_U64,
        [TP_F32] = TPI_PB_F32,   [TP_F64] = TPI_PB_F64};
    return of[dtype];
}

tp_dtype tpi_work_type(const char *op, tp_dtype dtype)
{
    const unsigned types = operator_of(op).types;
    if (!types || types >> dtype & 1)
        return dtype;
    if (dtype >= TP_F32)
        return TP_F32;
    if (dtype == TP_BOOL && types >> TP_U8 & 1) /* where the least of nothing is 0 too */
        return TP_U8;
    return tp_dtype_size(dtype) <= 2 && types >> TP_I32 & 1 ? TP_I32 : TP_I64;
}

tpi_val tpi_native(tpi_export *x, const char *op, int n, const tpi_val *in)
{
    const tp_dtype type = tpi_type(x, in[0]), work = tpi_work_type(op, type);
    tpi_val cast[3] = {0};
    for (int i = 0; i < n; i++)
        cast[i] = tpi_as(x, in[i], work);
    return tpi_as(x, tpi_put(x, op, n, cast), type);
}

/* ---- constants --------------------------------------------------------------------------- */

static tpi_val add_weight(tpi_export *x, tpi_out_weight w, const char *op, tp_dtype dtype)
{
    if (!ROOM(x, weights, n_weights, weights_size))
        return 0;
    w.value = add_value(x, op, dtype);
    x->values[w.value].block = 0;
    x->weights[x->n_weights++] = w;
    return w.value;
}

tpi_val tpi_constant(tpi_export *x, tp_dtype dtype, int rank, int64_t n, const void *elements)
{
    const size_t bytes = (size_t)n * tp_dtype_size(dtype);
    for (int i = 0; i < x->n_weights; i++) {
        const tpi_out_weight *w = &x->weights[i];
        if (!w->t && w->rank == rank && w->n == n && tpi_type(x, w->value) == dtype &&
            memcmp(w->elements, elements, bytes) == 0)
            return w->value;
    }
    void *own = tpi_export_take(x, bytes, 1);
    if (!own)
        return 0;
    memcpy(own, elements, bytes);
    return add_weight(x, (tpi_out_weight){.rank = rank, .n = n, .elements = own}, "const",
                      dtype);
}

tpi_val tpi_scalar(tpi_export *x, tp_dtype dtype, double v)
{
    char element[8];
    tpi_store_f64(dtype, element, v);
    return tpi_constant(x, dtype, 0, 1, element);
}

tpi_val tpi_ints(tpi_export *x, int64_t n, const int64_t *v)
{
    return tpi_constant(x, TP_I64, 1, n, v);
}

tpi_val tpi_model_input(tpi_export *x, tp_dtype dtype)
{
    return add_value(x, "input", dtype);
}

tpi_val tpi_weight(tpi_export *x, const tp_tensor *t)
{
    return add_weight(x, (tpi_out_weight){.t = t, .rank = t->rank, .n = tpi_count(t)}, "weight",
                      (tp_dtype)t->dtype);
}

/* ---- sizes ------------------------------------------------------------------------------- */

int64_t tpi_size_product(const tpi_export *x, int n, const int64_t *sizes)
{
    int64_t product = 1;
    for (int i = 0; i < n; i++)
        product = tpi_dim_mul(x->now.g->dims, product, sizes[i]);
    return product;
}

static int size_number(void *user, int64_t n)
{
    return tpi_int(user, n);
}

static tpi_val known_size(const tpi_export *x, int64_t dim)
{
    for (int i = 0; i < x->n_sizes; i++)
        if (x->sizes[i].dim == dim)
            return x->sizes[i].value;
    return 0;
}

tpi_val tpi_note_size(tpi_export *x, int64_t dim, tpi_val v)
{
    if (!ROOM(x, sizes, n_sizes, sizes_size))
        return 0;
    x->sizes[x->n_sizes++] = (tpi_out_size){.dim = dim, .value = v};
    return v;
}

/* A symbol is the number of turns of a loop, or the size of an axis of some input. */
static int size_symbol(void *user, int symbol)
{
    tpi_export *x = user;
    const int64_t own =
        tpi_dim_symbol(x->now.g->dims, tpi_dim_symbol_name(x->now.g->dims, symbol));
    const tpi_val noted = known_size(x, own);
    if (noted)
        return noted;
    for (int i = 0; i < x->m->n_in; i++) {
        const tp_tensor *t = x->m->in[i];
        for (int k = 0; k < t->rank; k++) {
            int found;
            if (!tpi_dim_as_symbol(x->now.g->dims, t->shape[k], &found) || found != symbol)
                continue;
            const tpi_val v = tpi_put_typed(x, "Shape", TP_I64, TPI_V(x->inputs[i]));
            tpi_put_int(x, "start", k);
            tpi_put_int(x, "end", k + 1);
            return tpi_note_size(x, t->shape[k], v);
        }
    }
    return tpi_export_fail(x, TP_E_NAME,
                           "the size \"%s\" is needed, but no input has an axis of just that "
                           "size: name one among the inputs",
                           tpi_dim_symbol_name(x->now.g->dims, symbol));
}

static int size_step(void *user, char op, int a, int b)
{
    const char *const name = op == '+'   ? "Add"
                             : op == '-' ? "Sub"
                             : op == '*' ? "Mul"
                             : op == '/' ? "Div"
                                         : "Min";
    return tpi_put(user, name, TPI_V(a, b));
}

tpi_val tpi_size(tpi_export *x, int64_t dim)
{
    static const tpi_dim_steps steps = {size_number, size_symbol, size_step};
    if (!tpi_dim_is_symbolic(dim))
        return tpi_int(x, dim);
    const tpi_val known = known_size(x, dim);
    if (known)
        return known;
    const tpi_val v = tpi_dim_build(x->now.g->dims, dim, &steps, x);
    return known_size(x, dim) ? v : tpi_note_size(x, dim, v);
}

tpi_val tpi_sizes(tpi_export *x, int64_t n, const int64_t *dims)
{
    tpi_val part[TP_MAX_RANK * 4];
    int parts = 0;
    for (int64_t i = 0; i < n; parts++) {
        int64_t known = i;
        while (known < n && !tpi_dim_is_symbolic(dims[known]))
            known++;
        part[parts] = known > i ? tpi_ints(x, known - i, dims + i) : tpi_size(x, dims[i]);
        i = known > i ? known : i + 1;
    }
    if (parts == 0)
        return tpi_ints(x, 0, dims);
    if (parts == 1)
        return part[0];
    const tpi_val v = tpi_put(x, "Concat", parts, part);
    tpi_put_int(x, "axis", 0);
    return v;
}

/* ---- moves that many ops need ------------------------------------------------------------ */

/* A size left out follows from the others (-1), one that stays in its place is 0. */
tpi_val tpi_reshape(tpi_export *x, tpi_val v, const tp_tensor *from, int64_t n,
                    const int64_t *dims)
{
    int64_t plain[TP_MAX_RANK];
    int n_holes = 0;
    bool empty = false;
    for (int i = 0; i < n; i++) {
        const bool symbolic = tpi_dim_is_symbolic(dims[i]);
        const bool stays = symbolic && from && i < from->rank && from->shape[i] == dims[i];
        plain[i] = stays ? 0 : symbolic ? -1 : dims[i];
        n_holes += symbolic && !stays;
        empty |= dims[i] == 0;
    }
    const bool by_rule = n_holes <= 1 && !empty;
    const tpi_val shape = by_rule ? tpi_ints(x, n, plain) : tpi_sizes(x, n, dims);
    const tpi_val y = tpi_put(x, "Reshape", TPI_V(v, shape));
    if (!by_rule)
        tpi_put_int(x, "allowzero", 1);
    return y;
}

tpi_val tpi_expand(tpi_export *x, tpi_val v, int64_t n, const int64_t *dims)
{
    return tpi_put(x, "Expand", TPI_V(v, tpi_sizes(x, n, dims)));
}

tpi_val tpi_permute(tpi_export *x, tpi_val v, int64_t n, const int64_t *axes)
{
    bool moved = false;
    for (int i = 0; i < n; i++)
        moved |= axes[i] != i;
    if (!moved)
        return v;
    const tpi_val y = tpi_put(x, "Transpose", TPI_V(v));
    tpi_put_ints(x, "perm", n, axes);
    return y;
}

tpi_val tpi_cut(tpi_export *x, tpi_val v, int64_t axis, tpi_val from, tpi_val end, int64_t step)
{
    return tpi_put(x, "Slice", TPI_V(v, from, end, tpi_int(x, axis), tpi_int(x, step)));
}

/* ---- blocks ------------------------------------------------------------------------------ */

int32_t tpi_block_begin(tpi_export *x)
{
    if (!ROOM(x, blocks, n_blocks, blocks_size))
        return x->block;
    x->blocks[x->n_blocks] = (tpi_out_block){.parent = x->block,
                                             .first = -1,
                                             .last = -1,
                                             .inputs = x->n_operands,
                                             .undo = x->n_undo,
                                             .sizes = x->n_sizes};
    return x->block = x->n_blocks++;
}

tpi_val tpi_block_input(tpi_export *x, tp_dtype dtype, const tp_tensor *node)
{
    const tpi_val v = add_value(x, "part", dtype);
    if (!v || !add_operand(x, v))
        return 0;
    x->values[v].node = node;
    x->blocks[x->block].n_inputs++;
    return v;
}

tpi_val tpi_block_scalar(tpi_export *x, tp_dtype dtype)
{
    const tpi_val v = tpi_block_input(x, dtype, NULL);
    if (v)
        x->values[v].scalar = true;
    return v;
}

/* What was computed in the block is not seen outside. */
void tpi_block_end(tpi_export *x, int n, const tpi_val *outputs)
{
    if (x->status != TP_OK)
        return;
    tpi_out_block *b = &x->blocks[x->block];
    b->outputs = x->n_operands;
    for (int i = 0; i < n; i++)
        if (add_operand(x, outputs[i]))
            b->n_outputs++;
    while (x->n_undo > b->undo)
        x->now.value_of[x->undo[--x->n_undo]] = 0;
    x->n_sizes = b->sizes;
    x->block = b->parent;
}
