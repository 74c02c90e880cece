#include "ir/notation.h"

#include <inttypes.h>
#include <string.h>

/* ---- parts ----------------------------------------------------------------------------------- */

static void put_dims(tpi_str *s, const tpi_dims *dims, int64_t n, const int64_t *v)
{
    tpi_str_put(s, "[");
    for (int64_t i = 0; i < n; i++) {
        tpi_str_put(s, i ? "," : "");
        tpi_dim_print(dims, v[i], s);
    }
    tpi_str_put(s, "]");
}

void tpi_put_type(tpi_str *s, const tpi_dims *dims, tp_dtype dtype, int rank,
                  const int64_t *shape)
{
    tpi_str_put(s, tp_dtype_name(dtype));
    put_dims(s, dims, rank, shape);
}

static void put_list(tpi_str *s, int64_t n, const int64_t *v)
{
    tpi_str_put(s, "[");
    for (int64_t i = 0; i < n; i++)
        tpi_str_printf(s, "%s%" PRId64, i ? "," : "", v[i]);
    tpi_str_put(s, "]");
}

static void put_attr(tpi_str *s, const tpi_dims *dims, tpi_attr_type type, const void *p)
{
    const int64_t *i = p;
    const tpi_list *list = p;
    double f;
    switch (type) {
    case TPI_ATTR_INT:
        tpi_str_printf(s, "%" PRId64, *i);
        break;
    case TPI_ATTR_BOOL:
        tpi_str_put(s, *i ? "true" : "false");
        break;
    case TPI_ATTR_DTYPE:
        tpi_str_put(s, tp_dtype_name((tp_dtype)*i));
        break;
    case TPI_ATTR_DIM:
        tpi_dim_print(dims, *i, s);
        break;
    case TPI_ATTR_F64:
        memcpy(&f, p, sizeof f);
        tpi_put_f64(s, f);
        break;
    case TPI_ATTR_LIST:
        put_list(s, list->n, list->v);
        break;
    case TPI_ATTR_DIMS:
        put_dims(s, dims, list->n, list->v);
        break;
    case TPI_ATTR_BODY:
        tpi_str_put(s, "()");
        break;
    }
}

void tpi_put_attrs(tpi_str *s, const tpi_dims *dims, const tpi_op *op, const void *attrs)
{
    if (!op->attrs || !attrs)
        return;
    tpi_str_put(s, " {");
    for (const tpi_attr *a = op->attrs; a->name; a++) {
        tpi_str_printf(s, "%s%s=", a == op->attrs ? "" : ", ", a->name);
        put_attr(s, dims, a->type, (const char *)attrs + a->offset);
    }
    tpi_str_put(s, "}");
}

void tpi_put_constant(tpi_str *s, const tp_tensor *t)
{
    const size_t size = tp_dtype_size((tp_dtype)t->dtype), bytes = tpi_bytes(t);
    char *values = tpi_take(s->mem, bytes);
    if (!values) {
        s->failed = true;
        return;
    }
    tpi_copy_out(t, values);
    tpi_str_put(s, t->rank ? "[" : "");
    for (size_t at = 0; at < bytes; at += size) {
        tpi_str_put(s, at ? ", " : "");
        tpi_put_element(s, (tp_dtype)t->dtype, values + at);
    }
    tpi_str_put(s, t->rank ? "]" : "");
    tpi_give_back(s->mem, values, bytes);
}

static void put_name(tpi_str *s, const char *name)
{
    if (name) {
        tpi_str_put(s, " ");
        tpi_put_string(s, name, strlen(name));
    }
}

void tpi_put_place(tpi_str *s, const char *file, int line)
{
    if (!file)
        return;
    bool plain = *file != 0;
    for (const char *p = file; *p && plain; p++)
        plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                (*p >= '0' && *p <= '9') || strchr("_-+./", *p);
    tpi_str_put(s, " ; ");
    if (plain)
        tpi_str_put(s, file);
    else
        tpi_put_string(s, file, strlen(file));
    tpi_str_printf(s, ":%d", line);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static void put_cell(tpi_str *s, const tpi_values *v, int k)
{
    const tpi_cell *c = &v->cells[k];
    const char *word = c->t && (c->t->flags & TPI_LEAF) ? "param" : "state";
    tpi_str_printf(s, "@%d", k);
    put_name(s, c->t ? c->t->name : NULL);
    if (c->of < 0 || !c->t) {
        tpi_str_printf(s, " = %s", word);
    } else {
        tpi_str_printf(s, " = view @%d {offset=%" PRId64 ", strides=", c->of, c->offset);
        put_list(s, c->rank, c->t->stride);
        tpi_str_put(s, "}");
    }
    tpi_str_put(s, " : ");
    tpi_put_type(s, NULL, c->dtype, c->rank, c->shape);
    tpi_str_put(s, "\n");
}

static void put_node(tpi_str *s, const tpi_dims *dims, const tpi_values *v, int i,
                     const tp_tensor *t)
{
    const tp_tensor *source = tpi_source_of(t);
    tpi_str_printf(s, "%%%d", i);
    put_name(s, t->name);
    if (source && (source->flags & TPI_VARIABLE)) {
        tpi_str_printf(s, " = variable @%d", v->number[i]);
    } else if (source && v->number[i] >= 0) {
        tpi_str_printf(s, " = const #%d", v->number[i]);
    } else if (source) {
        tpi_str_put(s, " = const ");
        tpi_put_constant(s, source);
    } else {
        tpi_str_printf(s, " = %s", t->op->name);
        for (int k = 0; k < t->n_in; k++)
            tpi_str_printf(s, "%s%%%d", k ? ", " : " ", t->in[k]->slot);
        tpi_put_attrs(s, dims, t->op, t->attrs);
    }
    tpi_str_put(s, " : ");
    tpi_put_type(s, dims, (tp_dtype)t->dtype, t->rank, t->shape);
    tpi_str_put(s, t->flags & TPI_CONSTANT ? " constant" : "");
    tpi_put_place(s, t->file, t->line);
    tpi_str_put(s, "\n");
}

void tpi_put_nodes(tpi_str *s, const tpi_dims *dims, const tpi_values *v,
                   tp_tensor *const *nodes)
{
    tpi_str_put(s, "tapir 1\n");
    const int n_symbols = tpi_dim_n_symbols(dims);
    for (int i = 0; i < n_symbols; i++)
        tpi_str_printf(s, "%s%s", i ? " " : "symbols ", tpi_dim_symbol_name(dims, i));
    tpi_str_put(s, n_symbols ? "\n" : "");
    for (int k = 0; k < v->n_cells; k++)
        put_cell(s, v, k);
    for (int i = 0; i < v->n; i++)
        nodes[i]->slot = i;
    for (int i = 0; i < v->n; i++)
        put_node(s, dims, v, i, nodes[i]);
}

void tpi_put_outputs(tpi_str *s, const tp_graph *g)
{
    for (int i = 0; i < g->n_outputs; i++)
        tpi_str_printf(s, "%s%%%d", i ? ", " : "outputs ", g->outputs[i]->index);
    tpi_str_put(s, g->n_outputs ? "\n" : "");
}

/* ---- whole texts ----------------------------------------------------------------------------- */

char *tpi_str_hand_over(tp_ctx *ctx, tpi_str *s, const char *what)
{
    char *text = NULL;
    if (s->failed)
        tpi_no_memory(ctx, TPI_AT(NULL, 0), what);
    else
        text = tp_alloc(ctx, s->len + 1);
    if (text && s->len)
        memcpy(text, s->text, s->len);
    tpi_str_free(s);
    return text;
}

/* g: NULL for a tape. */
static char *text_of(tp_ctx *ctx, const char *what, const tpi_dims *dims, int n,
                     tp_tensor *const *nodes, const tp_graph *g)
{
    tpi_str s = TPI_STR(&ctx->mem);
    tpi_values v;
    s.failed = !tpi_values_collect(&v, ctx, n, nodes);
    if (!s.failed)
        tpi_put_nodes(&s, dims, &v, nodes);
    if (!s.failed && g)
        tpi_put_outputs(&s, g);
    tpi_values_free(&v);
    return tpi_str_hand_over(ctx, &s, what);
}

char *tp_graph_text(const tp_graph *g)
{
    return g ? text_of(g->ctx, "tp_graph_text", g->dims, g->n_nodes, g->nodes, g) : NULL;
}

char *tp_tape_text(const tp_tensor *y)
{
    if (!tpi_is_live(y) || y->status != TP_OK)
        return NULL;
    tp_tensor *root = (tp_tensor *)y;
    tpi_nodes nodes = {.ctx = y->ctx};
    char *text = NULL;
    if (tpi_collect(&nodes, 1, &root, NULL, NULL))
        text = text_of(y->ctx, "tp_tape_text", tpi_dims_of(y), nodes.n, nodes.v, NULL);
    else
        tpi_no_memory(y->ctx, TPI_AT(NULL, 0), "tp_tape_text");
    tpi_nodes_free(&nodes);
    return text;
}
