#include "ir/body.h"
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

void tpi_put_attr(tpi_str *s, const tpi_dims *dims, const tpi_attr *a, const void *attrs)
{
    const void *p = (const char *)attrs + a->offset;
    const int64_t *i = p;
    const tpi_list *list = p;
    double f;
    switch (a->type) {
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
    case TPI_ATTR_BODY: /* by number */
        break;
    }
}

/* Blocks have many, most of them zero: those are left out. */
static bool is_left_out(const tpi_op *op, const tpi_attr *a, const void *attrs)
{
    int64_t v;
    memcpy(&v, (const char *)attrs + a->offset, sizeof v);
    return op->kind == TPI_BLOCK && v == 0;
}

const tpi_attr *tpi_written_attr(const tpi_op *op, const void *attrs, int k)
{
    for (const tpi_attr *a = attrs ? op->attrs : NULL; a && a->name; a++)
        if (a->type != TPI_ATTR_BODY && !is_left_out(op, a, attrs) && k-- == 0)
            return a;
    return NULL;
}

void tpi_put_attrs(tpi_str *s, const tpi_dims *dims, const tpi_op *op, const void *attrs,
                   int body)
{
    if (!op->attrs || !attrs)
        return;
    tpi_str_put(s, " {");
    for (const tpi_attr *a = op->attrs; a->name; a++) {
        if (is_left_out(op, a, attrs))
            continue;
        tpi_str_printf(s, "%s%s=", a == op->attrs ? "" : ", ", a->name);
        if (a->type == TPI_ATTR_BODY)
            tpi_str_printf(s, "(%d)", body++);
        else
            tpi_put_attr(s, dims, a, attrs);
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

/* Counts numbers into *given until it meets the body. */
static int number_in(const tp_graph *g, const tp_graph *body, int *given)
{
    int found = 0;
    for (int i = 0; i < g->n_nodes && !found; i++) {
        tpi_body *bodies[2];
        const int n = tpi_is_block(g->nodes[i]) ? tpi_bodies_of(g->nodes[i], bodies) : 0;
        const int first = *given + 1;
        *given += n;
        for (int k = 0; k < n && !found; k++)
            found =
                bodies[k]->graph == body ? first + k : number_in(bodies[k]->graph, body, given);
    }
    return found;
}

int tpi_body_number(const tp_graph *root, const tp_graph *body)
{
    int given = 0;
    return number_in(root, body, &given);
}

void tpi_put_number(tpi_str *s, int body, int i)
{
    if (body)
        tpi_str_printf(s, "%%%d.%d", body, i);
    else
        tpi_str_printf(s, "%%%d", i);
}

tpi_role tpi_param_role(const tpi_op *op, const void *attrs, int64_t index)
{
    if (op == &tpi_op_cond)
        return (tpi_role){"", index + 1};
    const tpi_loop_attrs *a = attrs;
    if (index == 0)
        return (tpi_role){"turn", -1};
    const char *word = index <= a->n_carried                 ? "carried"
                       : index - a->n_carried <= a->n_slices ? "slice"
                                                             : "";
    return (tpi_role){word, a->has_pred + index - 1};
}

/* What is being written: the text, and where in it. */
typedef struct writer {
    tpi_str *s;
    const tpi_dims *dims;
    const tpi_values *v;
    int at;       /* in v->all */
    int n_bodies; /* numbers given away */
} writer;

/* Nodes of one body, or of none. */
typedef struct level {
    int depth, body;
    const tp_tensor *block; /* the body's; NULL: none is around */
    int outer;              /* the number of the body the block is in */
} level;

static void put_origin(tpi_str *s, const level *l, const tp_tensor *param)
{
    const int64_t index = ((const tpi_index_attrs *)param->attrs)->index;
    const tpi_role role = tpi_param_role(l->block->op, l->block->attrs, index);
    tpi_str_printf(s, " <- %s", role.word);
    if (role.operand < 0 || role.operand >= l->block->n_in)
        return;
    tpi_str_put(s, *role.word ? " " : "");
    tpi_put_number(s, l->outer, l->block->in[role.operand]->slot);
}

/* `first_body`: the number of the first of its bodies. */
static void put_node(writer *w, const level *l, int i, const tp_tensor *t, int first_body)
{
    tpi_str *s = w->s;
    const tp_tensor *source = tpi_source_of(t);
    const int number = w->v->number[w->at];
    tpi_str_printf(s, "%*s", 2 * l->depth, "");
    tpi_put_number(s, l->body, i);
    put_name(s, t->name);
    if (source && (source->flags & TPI_VARIABLE)) {
        tpi_str_printf(s, " = variable @%d", number);
    } else if (source && number >= 0) {
        tpi_str_printf(s, " = const #%d", number);
    } else if (source) {
        tpi_str_put(s, " = const ");
        tpi_put_constant(s, source);
    } else {
        tpi_str_printf(s, " = %s", t->op->name);
        for (int k = 0; k < t->n_in; k++) {
            tpi_str_put(s, k ? ", " : " ");
            tpi_put_number(s, l->body, t->in[k]->slot);
        }
        tpi_put_attrs(s, w->dims, t->op, t->attrs, first_body);
    }
    tpi_str_put(s, " : ");
    tpi_put_type(s, w->dims, (tp_dtype)t->dtype, t->rank, t->shape);
    tpi_str_put(s, t->flags & TPI_CONSTANT ? " constant" : "");
    if (t->op == &tpi_op_param && l->block)
        put_origin(s, l, t);
    tpi_put_place(s, t->file, t->line);
    tpi_str_put(s, "\n");
    w->at++;
}

/* `n` outputs of the body from *from on. */
static void put_results(writer *w, const level *l, const tpi_body *b, const char *word,
                        int *from, int64_t n)
{
    tpi_str_printf(w->s, "%*s%s", 2 * l->depth, "", word);
    for (int64_t i = 0; i < n && *from < b->n_outputs; i++) {
        tpi_str_put(w->s, i ? ", " : " ");
        tpi_put_number(w->s, l->body, b->outputs[(*from)++]->slot);
    }
    tpi_str_put(w->s, "\n");
}

static void put_all_results(writer *w, const level *l, const tpi_body *b)
{
    int from = 0;
    if (l->block->op != &tpi_op_loop) {
        put_results(w, l, b, "give", &from, b->n_outputs);
        return;
    }
    const tpi_loop_attrs *a = l->block->attrs;
    if (a->has_pred)
        put_results(w, l, b, "while", &from, 1);
    if (a->n_carried)
        put_results(w, l, b, "carry", &from, a->n_carried);
    if (a->n_stacked)
        put_results(w, l, b, "stack", &from, a->n_stacked);
}

static void put_level(writer *w, const level *l, int n, tp_tensor *const *nodes);

static void put_bodies(writer *w, const level *l, const tp_tensor *block, int number)
{
    for (const tpi_attr *a = block->op->attrs; a && a->name; a++) {
        tpi_body *b;
        if (a->type != TPI_ATTR_BODY)
            continue;
        memcpy(&b, (const char *)block->attrs + a->offset, sizeof b);
        const level inner = {
            .depth = l->depth + 2, .body = number++, .block = block, .outer = l->body};
        tpi_str_printf(w->s, "%*s(%d) %s", 2 * (l->depth + 1), "", inner.body, a->name);
        tpi_put_place(w->s, b->at.file, b->at.line);
        tpi_str_put(w->s, "\n");
        put_level(w, &inner, b->graph->n_nodes, b->graph->nodes);
        put_all_results(w, &inner, b);
    }
}

static void put_level(writer *w, const level *l, int n, tp_tensor *const *nodes)
{
    for (int i = 0; i < n; i++)
        nodes[i]->slot = i;
    for (int i = 0; i < n && !w->s->failed; i++) {
        const tp_tensor *t = nodes[i];
        const int first = w->n_bodies + 1;
        for (const tpi_attr *a = t->op ? t->op->attrs : NULL; a && a->name; a++)
            w->n_bodies += a->type == TPI_ATTR_BODY;
        put_node(w, l, i, t, first);
        if (t->op && t->op->kind == TPI_BLOCK)
            put_bodies(w, l, t, first);
    }
}

void tpi_put_nodes(tpi_str *s, const tpi_dims *dims, const tpi_values *v, int n,
                   tp_tensor *const *nodes)
{
    tpi_str_put(s, "tapir 1\n");
    const int n_symbols = tpi_dim_n_symbols(dims);
    for (int i = 0; i < n_symbols; i++)
        tpi_str_printf(s, "%s%s", i ? " " : "symbols ", tpi_dim_symbol_name(dims, i));
    tpi_str_put(s, n_symbols ? "\n" : "");
    for (int k = 0; k < v->n_cells; k++)
        put_cell(s, v, k);
    writer w = {.s = s, .dims = dims, .v = v};
    put_level(&w, &(level){0}, n, nodes);
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
        tpi_put_nodes(&s, dims, &v, n, nodes);
    if (!s.failed && g)
        tpi_put_outputs(&s, g);
    tpi_values_free(&v);
    return tpi_str_hand_over(ctx, &s, what);
}

char *tp_graph_text(const tp_graph *g)
{
    return g ? text_of(g->ctx, "tp_graph_text", g->dims, g->n_nodes, g->nodes, g) : NULL;
}

char *(tp_tape_text)(const tp_tensor *y)
{
    if (tpi_is_live(y) && y->ctx) /* all that it was computed from is shown, not y alone */
        tpi_look_at_all(y->ctx, TPI_AT(NULL, 0), TPI_LOOK_SHOW);
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
