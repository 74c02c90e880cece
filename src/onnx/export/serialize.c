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

/* What is called what, by hash. */
typedef struct naming {
    tpi_export *x;
    const char **slots; /* open addressing; NULL: free */
    size_t n_slots;     /* a power of two, more than there are values */
    tpi_str text;       /* a name in the making */
} naming;

/* The slot of a name, or the free one where it belongs. */
static const char **slot_of(const naming *names, const char *name)
{
    uint64_t i = tpi_hash64(name, strlen(name));
    for (;; i++) {
        const char **s = &names->slots[i & (names->n_slots - 1)];
        if (!*s || strcmp(*s, name) == 0)
            return s;
    }
}

/* Gives v the name, or, where that is taken and `or_like` it, one made of it. */
static bool give_name(naming *names, tpi_val v, const char *name, bool or_like)
{
    tpi_export *x = names->x;
    tpi_str *text = &names->text;
    text->len = 0;
    tpi_str_put(text, ""); /* a name may be empty */
    tpi_pb_escape(text, name);
    const size_t len = text->len;
    const char **slot = text->failed ? NULL : slot_of(names, text->text);
    for (int i = 1; slot && *slot && or_like; i++) {
        text->len = len;
        tpi_str_printf(text, "_%d", i);
        slot = text->failed ? NULL : slot_of(names, text->text);
    }
    if (!slot)
        return tpi_export_no_memory(x);
    if (*slot)
        return false;
    char *own = tpi_export_take(x, text->len + 1, 1);
    if (own)
        memcpy(own, text->text, text->len + 1);
    *slot = x->values[v].name = own;
    return own;
}

static bool refuse_name(tpi_export *x, const char *kind, const char *name)
{
    x->now.node = NULL;
    tpi_export_fail(x, TP_E_NAME, "two inputs or outputs are called \"%s\" (%s)", name, kind);
    return false;
}

static bool name_all(naming *names)
{
    tpi_export *x = names->x;
    const tpi_onnx_saving *m = x->m;
    const tpi_out_block *top = &x->blocks[0];
    for (int i = 0; i < m->n_in; i++)
        if (!give_name(names, x->inputs[i], m->in_names[i], false))
            return refuse_name(x, "an input", m->in_names[i]);
    for (int i = 0; i < m->n_out; i++) {
        const tpi_val v = x->operands[top->outputs + i];
        if (!x->values[v].name && !give_name(names, v, m->out_names[i], false))
            return refuse_name(x, "an output", m->out_names[i]);
    }
    for (int i = 0; i < x->n_weights; i++) {
        const tpi_out_weight *w = &x->weights[i];
        if (w->t && w->t->name && x->values[w->value].live && !x->values[w->value].name)
            give_name(names, w->value, w->t->name, true);
    }
    for (int named = 1; named >= 0; named--)
        for (int i = 1; i < x->n_values; i++) {
            const tpi_out_value *v = &x->values[i];
            const char *name = v->node ? v->node->name : NULL;
            if (!v->live || v->name || (named && !name))
                continue;
            char made[40] = "";
            if (!name)
                snprintf(made, sizeof made, "%s_%d", v->op, i);
            give_name(names, i, name ? name : made, true);
        }
    return x->status == TP_OK;
}

static bool give_names(tpi_export *x)
{
    naming names = {.x = x, .n_slots = 128, .text = TPI_STR(&x->ctx->mem)};
    while (names.n_slots < 2 * (size_t)x->n_values)
        names.n_slots *= 2;
    names.slots = tpi_export_take(x, names.n_slots, sizeof *names.slots);
    const bool ok = names.slots && name_all(&names);
    tpi_str_free(&names.text);
    return ok;
}

/* ---- messages ---------------------------------------------------------------------------- */

static void put_name(const tpi_export *x, tpi_str *s, uint32_t field, tpi_val v)
{
    tpi_pb_put_text(s, field, x->values[v].name ? x->values[v].name : "");
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
    const char *path;
    bool beside;     /* are large weights? */
    char *data_path; /* where they are then */
    tpi_str text;    /* nodes, ends, head, and behind them what is said of one weight */
    size_t ends, head, weight; /* where those begin */
} image;

static tpi_elements weight_source(const tpi_export *x, const tpi_out_weight *w)
{
    if (w->t)
        return tpi_elements_of(w->t);
    const size_t element = tp_dtype_size(tpi_type(x, w->value));
    return (tpi_elements){
        .bytes = w->elements, .size = (size_t)w->n * element, .element = element};
}

static bool is_beside(const image *im, const tpi_out_weight *w, const tpi_elements *from)
{
    return im->beside && w->t && from->size >= LEAST_BESIDE;
}

/* The last part of a path. */
static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
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
    tpi_str *s = &im->text;
    const tp_tensor *t = w->t;
    char number[24];
    s->len = im->weight;
    tpi_put_tensor_head(s, tpi_onnx_type(tpi_type(im->x, w->value)), w->rank,
                        t ? t->shape : &w->n);
    put_name(im->x, s, TPI_PB_TENSOR_NAME, w->value);
    if (!is_beside(im, w, from)) {
        tpi_pb_put_size(s, TPI_PB_TENSOR_RAW_DATA, from->size);
        return;
    }
    *at = (*at + BESIDE_ALIGN - 1) / BESIDE_ALIGN * BESIDE_ALIGN;
    put_entry(s, "location", file_name(im->data_path));
    snprintf(number, sizeof number, "%llu", (unsigned long long)*at);
    put_entry(s, "offset", number);
    snprintf(number, sizeof number, "%zu", from->size);
    put_entry(s, "length", number);
    tpi_pb_put_int(s, TPI_PB_TENSOR_DATA_LOCATION, TPI_PB_LOCATION_EXTERNAL);
    *at += from->size;
}

static void put_head(image *im)
{
    tpi_str *s = &im->text;
    im->head = s->len;
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
    tpi_str *s = &im->text;
    im->ends = s->len;
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
    tpi_str *s = &im->text;
    uint64_t at = 0;
    *size = 0;
    for (int i = 0; i < x->n_weights && !s->failed; i++) {
        const tpi_out_weight *w = &x->weights[i];
        if (!x->values[w->value].live)
            continue;
        const tpi_elements from = weight_source(x, w);
        const bool beside = is_beside(im, w, &from);
        const uint64_t before = at;
        put_weight_head(im, w, &from, &at);
        const size_t end = s->len, head = end - im->weight, inside = beside ? 0 : from.size;
        tpi_pb_put_size(s, TPI_PB_GRAPH_INITIALIZER, head + inside); /* goes first */
        *size += s->len - im->weight + inside;
        if (!model || s->failed)
            continue;
        tpi_file_put(model, s->text + end, s->len - end);
        tpi_file_put(model, s->text + im->weight, head);
        if (beside)
            tpi_file_put(data, zeros, (size_t)(at - from.size - before));
        if (!tpi_put_elements(&x->ctx->mem, beside ? data : model, &from))
            return false;
    }
    return !s->failed;
}

static void note_error(tpi_export *x, const tpi_writer *w)
{
    x->now.node = NULL;
    if (w->error.status != TP_OK)
        tpi_export_fail(x, w->error.status, "%s", w->error.text);
}

/* It is there whole then, or, when anything failed, not at all. */
static void end_file(tpi_export *x, tpi_writer *w)
{
    if (x->status != TP_OK)
        tpi_file_abandon(w);
    else if (!tpi_file_end(w))
        note_error(x, w);
}

static void write_files(image *im)
{
    tpi_export *x = im->x;
    tp_ctx *ctx = x->ctx;
    tpi_writer model, data = {.fd = -1};
    uint64_t weights;
    tpi_file_begin(&model, &ctx->mem, &ctx->undone, im->path);
    if (im->beside)
        tpi_file_begin(&data, &ctx->mem, &ctx->undone, im->data_path);
    tpi_file_put(&model, im->text.text + im->head, im->weight - im->head);
    tpi_file_put(&model, im->text.text, im->ends);
    if (!put_weights(im, &model, &data, &weights))
        tpi_export_no_memory(x);
    tpi_file_put(&model, im->text.text + im->ends, im->head - im->ends);
    note_error(x, &model); /* before there is data without a model */
    if (im->beside)
        end_file(x, &data);
    end_file(x, &model);
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

/* All but the weights. False: no memory. */
static bool make_image(image *im)
{
    tpi_export *x = im->x;
    uint64_t weights;
    const size_t size = strlen(im->path) + sizeof ".data";
    im->data_path = tpi_export_take(x, size, 1);
    if (!im->data_path)
        return false;
    snprintf(im->data_path, size, "%s.data", im->path);
    put_nodes(x, &im->text, &x->blocks[0]);
    put_ends(im);
    put_head(im);
    im->weight = im->text.len;
    put_weights(im, NULL, NULL, &weights);
    im->text.len = im->weight;
    tpi_pb_put_size(&im->text, TPI_PB_MODEL_GRAPH, im->head + weights);
    im->weight = im->text.len;
    return !im->text.failed || tpi_export_no_memory(x);
}

void tpi_export_write(tpi_export *x, const char *path)
{
    if (x->status != TP_OK)
        return;
    find_live(x);
    image im = {.x = x, .path = path, .beside = many_bytes(x), .text = TPI_STR(&x->ctx->mem)};
    if (give_names(x) && make_image(&im))
        write_files(&im);
    tpi_str_free(&im.text);
}
