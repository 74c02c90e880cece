/* An exported model as bytes. What no output needs is left out. Weights go from their
 * memory to the file. */
#include "base/hash.h"
#include "core/dim.h"
#include "onnx/export/emit.h"
#include "onnx/format/elements.h"

#include <stdio.h>
#include <string.h>

enum { IR_VERSION = 8, LEAST_BESIDE = 1024, BESIDE_ALIGN = 4096 };

/* ---- what is needed ---------------------------------------------------------------------- */

static void need_ports(tpi_export *x, const tpi_out_block *b)
{
    for (int i = 0; i < b->n_inputs; i++)
        x->values[x->operands[b->inputs + i]].live = true;
    for (int i = 0; i < b->n_outputs; i++)
        x->values[x->operands[b->outputs + i]].live = true;
}

/* A value is used by operators that came later, and a block by the one that holds it, so that one
 * walk back finds all. */
static void find_live(tpi_export *x)
{
    need_ports(x, &x->blocks[0]);
    for (int i = x->n_nodes - 1; i >= 0; i--) {
        tpi_out_node *n = &x->nodes[i];
        for (int k = 0; k < n->n_out; k++)
            n->live |= x->values[x->operands[n->first + n->n_in + k]].live;
        if (!n->live)
            continue;
        for (int k = 0; k < n->n_in + n->n_out; k++) /* all results need names */
            x->values[x->operands[n->first + k]].live = true;
        for (int k = 0; k < 2; k++)
            if (n->body[k] >= 0)
                need_ports(x, &x->blocks[n->body[k]]);
    }
}

/* ---- names ------------------------------------------------------------------------------- */

static const char *name_at(const tpi_export *x, int32_t at)
{
    return x->names.text + at;
}

/* The slot of a name, or the free one where it belongs. */
static int32_t *slot_of(const tpi_export *x, int32_t *slots, int32_t size, const char *name)
{
    uint64_t i = tpi_hash64(name, strlen(name));
    for (;; i++) {
        int32_t *s = &slots[i & (uint64_t)(size - 1)];
        if (*s < 0 || strcmp(name_at(x, *s), name) == 0)
            return s;
    }
}

static bool slots_reserve(tpi_export *x)
{
    if (x->n_names * 2 < x->slots_size)
        return true;
    const int32_t size = x->slots_size ? x->slots_size * 2 : 128;
    int32_t *slots = tpi_export_take(x, (size_t)size, sizeof *slots);
    if (!slots)
        return false;
    memset(slots, -1, (size_t)size * sizeof *slots);
    for (int i = 0; i < x->slots_size; i++)
        if (x->slots[i] >= 0)
            *slot_of(x, slots, size, name_at(x, x->slots[i])) = x->slots[i];
    x->slots = slots;
    x->slots_size = size;
    return true;
}

/* Gives v the name, or, where that is taken and `or_like` it, one made of it. */
static bool give_name(tpi_export *x, tpi_val v, const char *name, bool or_like)
{
    if (!slots_reserve(x))
        return false;
    const int32_t at = (int32_t)x->names.len;
    tpi_pb_escape(&x->names, name);
    const size_t len = x->names.len;
    for (int i = 1;; i++) {
        tpi_str_add(&x->names, "", 1);
        if (x->names.failed || len > INT32_MAX / 2) {
            tpi_export_no_memory(x);
            return false;
        }
        int32_t *slot = slot_of(x, x->slots, x->slots_size, name_at(x, at));
        if (*slot < 0) {
            *slot = at;
            x->n_names++;
            x->values[v].name = at;
            return true;
        }
        x->names.len = len;
        if (!or_like) {
            x->names.len = (size_t)at;
            return false;
        }
        tpi_str_printf(&x->names, "_%d", i);
    }
}

static bool refuse_name(tpi_export *x, const char *kind, const char *name)
{
    x->now.node = NULL;
    tpi_export_fail(x, TP_E_NAME, "two inputs or outputs are called \"%s\" (%s)", name, kind);
    return false;
}

static bool give_names(tpi_export *x)
{
    const tpi_onnx_saving *m = x->m;
    const tpi_out_block *top = &x->blocks[0];
    for (int i = 0; i < m->n_in; i++)
        if (!give_name(x, x->inputs[i], m->in_names[i], false))
            return refuse_name(x, "an input", m->in_names[i]);
    for (int i = 0; i < m->n_out; i++) {
        const tpi_val v = x->operands[top->outputs + i];
        if (x->values[v].name < 0 && !give_name(x, v, m->out_names[i], false))
            return refuse_name(x, "an output", m->out_names[i]);
    }
    for (int i = 0; i < x->n_weights; i++) {
        const tpi_out_weight *w = &x->weights[i];
        if (w->t && w->t->name && x->values[w->value].live && x->values[w->value].name < 0)
            give_name(x, w->value, w->t->name, true);
    }
    for (int named = 1; named >= 0; named--)
        for (int i = 1; i < x->n_values; i++) {
            const tpi_out_value *v = &x->values[i];
            const char *name = v->node ? v->node->name : NULL;
            if (!v->live || v->name >= 0 || (named && !name))
                continue;
            char made[40] = "";
            if (!name)
                snprintf(made, sizeof made, "%s_%d", v->op, i);
            give_name(x, i, name ? name : made, true);
        }
    return x->status == TP_OK;
}

/* ---- messages ---------------------------------------------------------------------------- */

static void put_name(const tpi_export *x, tpi_str *s, uint32_t field, tpi_val v)
{
    tpi_pb_put_text(s, field, x->values[v].name < 0 ? "" : name_at(x, x->values[v].name));
}

static void put_place(tpi_str *s, const tp_tensor *t)
{
    if (!t || !t->file)
        return;
    const size_t mark = tpi_pb_begin(s, TPI_PB_NODE_DOC_STRING);
    tpi_pb_escape(s, t->file);
    tpi_str_printf(s, ":%d", (int)t->line);
    tpi_pb_end(s, mark);
}

/* `shape` NULL: the type of elements alone. */
static void put_value_info(const tpi_export *x, tpi_str *s, uint32_t field, tpi_val v,
                           const tpi_out_shape *shape)
{
    const size_t info = tpi_pb_begin(s, field);
    put_name(x, s, TPI_PB_VALUE_INFO_NAME, v);
    const size_t type = tpi_pb_begin(s, TPI_PB_VALUE_INFO_TYPE);
    const size_t tensor = tpi_pb_begin(s, TPI_PB_TYPE_TENSOR);
    tpi_pb_put_int(s, TPI_PB_TENSOR_TYPE_ELEM_TYPE, tpi_onnx_type(tpi_type(x, v)));
    if (shape) {
        const size_t dims = tpi_pb_begin(s, TPI_PB_TENSOR_TYPE_SHAPE);
        for (int i = 0; i < shape->rank; i++) {
            const int64_t size = shape->dims[i];
            const size_t dim = tpi_pb_begin(s, TPI_PB_SHAPE_DIM);
            if (size >= 0) {
                tpi_pb_put_int(s, TPI_PB_DIM_VALUE, size);
            } else if (size != TPI_NO_DIM) {
                const size_t text = tpi_pb_begin(s, TPI_PB_DIM_PARAM);
                tpi_dim_print(x->now.g->dims, size, s);
                tpi_pb_end(s, text);
            }
            tpi_pb_end(s, dim);
        }
        tpi_pb_end(s, dims);
    }
    tpi_pb_end(s, tensor);
    tpi_pb_end(s, type);
    tpi_pb_end(s, info);
}

/* What a block takes or gives: the rank is known where a node stands behind it. Of no turns a runtime
 * makes a result of that rank. */
static void put_port(const tpi_export *x, tpi_str *s, uint32_t field, tpi_val v)
{
    const tp_tensor *t = x->values[v].node;
    if (!t && !x->values[v].scalar) {
        put_value_info(x, s, field, v, NULL);
        return;
    }
    tpi_out_shape shape = {.rank = t ? t->rank : 0};
    for (int i = 0; i < shape.rank; i++)
        shape.dims[i] = tpi_dim_is_symbolic(t->shape[i]) ? TPI_NO_DIM : t->shape[i];
    put_value_info(x, s, field, v, &shape);
}

static void put_nodes(const tpi_export *x, tpi_str *s, const tpi_out_block *b);

static void put_body(const tpi_export *x, tpi_str *s, const char *name, int32_t block)
{
    const tpi_out_block *b = &x->blocks[block];
    const size_t attr = tpi_pb_begin(s, TPI_PB_NODE_ATTRIBUTE);
    tpi_pb_put_text(s, TPI_PB_ATTRIBUTE_NAME, name);
    tpi_pb_put_int(s, TPI_PB_ATTRIBUTE_TYPE, TPI_PB_GRAPH);
    const size_t graph = tpi_pb_begin(s, TPI_PB_ATTRIBUTE_G);
    put_nodes(x, s, b);
    tpi_pb_put_text(s, TPI_PB_GRAPH_NAME, name);
    for (int i = 0; i < b->n_inputs; i++)
        put_port(x, s, TPI_PB_GRAPH_INPUT, x->operands[b->inputs + i]);
    for (int i = 0; i < b->n_outputs; i++)
        put_port(x, s, TPI_PB_GRAPH_OUTPUT, x->operands[b->outputs + i]);
    tpi_pb_end(s, graph);
    tpi_pb_end(s, attr);
}

static void put_nodes(const tpi_export *x, tpi_str *s, const tpi_out_block *b)
{
    for (int i = b->first; i >= 0; i = x->nodes[i].next) {
        const tpi_out_node *n = &x->nodes[i];
        if (!n->live)
            continue;
        const size_t mark = tpi_pb_begin(s, TPI_PB_GRAPH_NODE);
        for (int k = 0; k < n->n_in + n->n_out; k++)
            put_name(x, s, k < n->n_in ? TPI_PB_NODE_INPUT : TPI_PB_NODE_OUTPUT,
                     x->operands[n->first + k]);
        put_name(x, s, TPI_PB_NODE_NAME, x->operands[n->first + n->n_in]);
        tpi_pb_put_text(s, TPI_PB_NODE_OP_TYPE, n->op);
        tpi_str_add(s, x->attrs.text ? x->attrs.text + n->attrs : "", n->attrs_size);
        if (n->body[1] >= 0) {
            put_body(x, s, "then_branch", n->body[0]);
            put_body(x, s, "else_branch", n->body[1]);
        } else if (n->body[0] >= 0) {
            put_body(x, s, "body", n->body[0]);
        }
        put_place(s, n->node);
        tpi_pb_end(s, mark);
    }
}

/* ---- the file ---------------------------------------------------------------------------- */

typedef struct image {
    tpi_export *x;
    const char *path, *base; /* its last part */
    bool beside;             /* are large weights? */
    tpi_str head, nodes, weight, ends;
} image;

static tpi_elements weight_source(const tpi_export *x, const tpi_out_weight *w)
{
    if (w->t)
        return tpi_elements_of(w->t);
    const size_t element = tp_dtype_size(tpi_type(x, w->value));
    return (tpi_elements){.bytes = x->constants.text ? x->constants.text + w->first : "",
                          .size = (size_t)w->n * element,
                          .element = element};
}

static bool is_beside(const image *im, const tpi_out_weight *w, const tpi_elements *from)
{
    return im->beside && w->t && from->size >= LEAST_BESIDE;
}

static void put_entry(tpi_str *s, const char *key, const char *value)
{
    const size_t mark = tpi_pb_begin(s, TPI_PB_TENSOR_EXTERNAL_DATA);
    tpi_pb_put_text(s, TPI_PB_ENTRY_KEY, key);
    tpi_pb_put_text(s, TPI_PB_ENTRY_VALUE, value);
    tpi_pb_end(s, mark);
}

/* All of an initializer but its elements, when they follow; *at moves on when they are beside. */
static void put_weight_head(image *im, const tpi_out_weight *w, const tpi_elements *from,
                            uint64_t *at)
{
    tpi_str *s = &im->weight;
    const tp_tensor *t = w->t;
    s->len = 0;
    tpi_put_tensor_head(s, tpi_onnx_type(tpi_type(im->x, w->value)), w->rank,
                        t ? t->shape : &w->n);
    put_name(im->x, s, TPI_PB_TENSOR_NAME, w->value);
    if (!is_beside(im, w, from)) {
        tpi_pb_put_size(s, TPI_PB_TENSOR_RAW_DATA, from->size);
        return;
    }
    tpi_str text = TPI_STR(&im->x->ctx->mem);
    *at = (*at + BESIDE_ALIGN - 1) / BESIDE_ALIGN * BESIDE_ALIGN;
    tpi_str_printf(&text, "%s.data", im->base);
    put_entry(s, "location", text.failed ? "" : text.text);
    text.len = 0;
    tpi_str_printf(&text, "%llu", (unsigned long long)*at);
    put_entry(s, "offset", text.failed ? "" : text.text);
    text.len = 0;
    tpi_str_printf(&text, "%zu", from->size);
    put_entry(s, "length", text.failed ? "" : text.text);
    s->failed |= text.failed;
    tpi_str_free(&text);
    tpi_pb_put_int(s, TPI_PB_TENSOR_DATA_LOCATION, TPI_PB_LOCATION_EXTERNAL);
    *at += from->size;
}

static void put_head(image *im)
{
    tpi_str *s = &im->head;
    tpi_pb_put_int(s, TPI_PB_MODEL_IR_VERSION, IR_VERSION);
    tpi_pb_put_text(s, TPI_PB_MODEL_PRODUCER_NAME, "tapir");
    tpi_pb_put_text(s, TPI_PB_MODEL_PRODUCER_VERSION, tp_version());
    const size_t mark = tpi_pb_begin(s, TPI_PB_MODEL_OPSET_IMPORT);
    tpi_pb_put_text(s, TPI_PB_OPSET_DOMAIN, "");
    tpi_pb_put_int(s, TPI_PB_OPSET_VERSION, TPI_EXPORT_OPSET);
    tpi_pb_end(s, mark);
}

static void put_ends(image *im)
{
    const tpi_export *x = im->x;
    const tpi_onnx_saving *m = x->m;
    tpi_str *s = &im->ends;
    for (int i = 0; i < m->n_in; i++) {
        tpi_out_shape shape = {.rank = m->in[i]->rank};
        memcpy(shape.dims, m->in[i]->shape, sizeof(int64_t) * m->in[i]->rank);
        put_value_info(x, s, TPI_PB_GRAPH_INPUT, x->inputs[i], &shape);
    }
    for (int i = 0; i < m->n_out; i++)
        put_value_info(x, s, TPI_PB_GRAPH_OUTPUT, x->operands[x->blocks[0].outputs + i],
                       &x->out_shapes[i]);
    tpi_pb_put_text(s, TPI_PB_GRAPH_NAME, "tapir");
}

/* The initializers; model NULL: they are only counted. *size: so many bytes of the model. */
static bool put_weights(image *im, tpi_writer *model, tpi_writer *data, uint64_t *size)
{
    const char zeros[BESIDE_ALIGN] = {0};
    tpi_export *x = im->x;
    uint64_t at = 0;
    *size = 0;
    for (int i = 0; i < x->n_weights && !im->weight.failed; i++) {
        const tpi_out_weight *w = &x->weights[i];
        if (!x->values[w->value].live)
            continue;
        const tpi_elements from = weight_source(x, w);
        const bool beside = is_beside(im, w, &from);
        const uint64_t before = at;
        put_weight_head(im, w, &from, &at);
        const size_t head = im->weight.len, inside = beside ? 0 : from.size;
        tpi_pb_put_size(&im->weight, TPI_PB_GRAPH_INITIALIZER, head + inside); /* goes first */
        *size += im->weight.len + inside;
        if (!model || im->weight.failed)
            continue;
        tpi_file_put(model, im->weight.text + head, im->weight.len - head);
        tpi_file_put(model, im->weight.text, head);
        if (beside)
            tpi_file_put(data, zeros, (size_t)(at - from.size - before));
        if (!tpi_put_elements(&x->ctx->mem, beside ? data : model, &from))
            return false;
    }
    return !im->weight.failed;
}

static bool refuse_file(tpi_export *x, const tpi_writer *w)
{
    x->now.node = NULL;
    tpi_export_fail(x, w->error.status, "%s", w->error.text);
    return false;
}

static bool write_files(image *im, uint64_t graph_size, const char *data_path)
{
    tpi_export *x = im->x;
    tp_ctx *ctx = x->ctx;
    tpi_writer model, data = {.fd = -1};
    uint64_t weights;
    tpi_file_begin(&model, &ctx->mem, &ctx->undone, im->path);
    if (im->beside)
        tpi_file_begin(&data, &ctx->mem, &ctx->undone, data_path);
    tpi_pb_put_size(&im->head, TPI_PB_MODEL_GRAPH, graph_size);
    bool ok = !im->head.failed;
    if (ok) {
        tpi_file_put(&model, im->head.text, im->head.len);
        tpi_file_put(&model, im->nodes.text, im->nodes.len);
        ok = put_weights(im, &model, &data, &weights);
        tpi_file_put(&model, im->ends.text, im->ends.len);
    }
    const bool good =
        ok && model.error.status == TP_OK && (!im->beside || data.error.status == TP_OK);
    if (!good) {
        if (ok)
            refuse_file(x, model.error.status != TP_OK ? &model : &data);
        else
            tpi_export_no_memory(x);
        tpi_file_abandon(&model);
        if (im->beside)
            tpi_file_abandon(&data);
        return false;
    }
    if (im->beside && !tpi_file_end(&data)) {
        tpi_file_abandon(&model);
        return refuse_file(x, &data);
    }
    return tpi_file_end(&model) || refuse_file(x, &model);
}

static bool many_bytes(const tpi_export *x)
{
    const uint64_t most = x->m->inline_bytes ? (uint64_t)x->m->inline_bytes : UINT64_C(1) << 30;
    uint64_t size = 0;
    for (int i = 0; i < x->n_weights; i++)
        if (x->values[x->weights[i].value].live && x->weights[i].t)
            size += tpi_bytes(x->weights[i].t);
    return size > most;
}

bool tpi_export_write(tpi_export *x, const char *path)
{
    find_live(x);
    if (x->status != TP_OK || !give_names(x))
        return false;
    tpi_mem *mem = &x->ctx->mem;
    const char *slash = strrchr(path, '/');
    image im = {.x = x,
                .path = path,
                .base = slash ? slash + 1 : path,
                .beside = many_bytes(x),
                .head = TPI_STR(mem),
                .nodes = TPI_STR(mem),
                .weight = TPI_STR(mem),
                .ends = TPI_STR(mem)};
    tpi_str data_path = TPI_STR(mem);
    tpi_str_printf(&data_path, "%s.data", path);
    put_head(&im);
    put_nodes(x, &im.nodes, &x->blocks[0]);
    put_ends(&im);
    uint64_t weights;
    if (!put_weights(&im, NULL, NULL, &weights) || im.head.failed || im.nodes.failed ||
        im.ends.failed || data_path.failed)
        tpi_export_no_memory(x);
    const uint64_t size = im.nodes.len + weights + im.ends.len;
    const bool ok = x->status == TP_OK && write_files(&im, size, data_path.text);
    tpi_str_free(&im.head);
    tpi_str_free(&im.nodes);
    tpi_str_free(&im.weight);
    tpi_str_free(&im.ends);
    tpi_str_free(&data_path);
    return ok;
}
