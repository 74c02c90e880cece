/* tp_onnx_summary: what a model's file says of itself. */
#include "base/file.h"
#include "ir/notation.h"
#include "onnx/format/model.h"
#include "tapir/onnx.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void put_quoted(tpi_str *s, tpi_span text)
{
    tpi_put_string(s, text.size ? text.at : "", text.size);
}

static int by_name(const void *a, const void *b)
{
    return tpi_span_compare(*(const tpi_span *)a, *(const tpi_span *)b);
}

/* A free dimension goes by the name that tp_onnx_load_options takes. */
static void put_size(tpi_str *s, const tpi_onnx_info *info, int axis)
{
    const tpi_onnx_size *d = &info->dims[axis];
    if (d->value >= 0) {
        tpi_str_printf(s, " %" PRId64, d->value);
    } else if (d->param.size) {
        tpi_str_put(s, " ");
        put_quoted(s, d->param);
    } else {
        tpi_str own = TPI_STR(s->mem);
        tpi_str_add(&own, info->name.size ? info->name.at : "", info->name.size);
        tpi_str_printf(&own, "_%d", axis);
        tpi_str_put(s, " ");
        if (own.failed)
            s->failed = true;
        else
            tpi_put_string(s, own.text, own.len);
        tpi_str_free(&own);
    }
}

static void put_info(tpi_str *s, const char *what, const tpi_onnx_info *info)
{
    tpi_str_printf(s, "%s ", what);
    put_quoted(s, info->name);
    tpi_str_printf(s, " %s%s%s%s%s", info->optional ? "optional(" : "",
                   info->sequence ? "sequence(" : "",
                   info->kind == TPI_PB_TYPE_TENSOR ? tpi_onnx_type_name(info->type) : "other",
                   info->sequence ? ")" : "", info->optional ? ")" : "");
    const bool whole = !info->optional && !info->sequence;
    const bool known = whole && info->has_shape && info->rank <= TP_MAX_RANK;
    for (int a = 0; known && a < info->rank; a++)
        put_size(s, info, a);
    tpi_str_put(s, known ? "\n" : " ?\n");
}

static bool same_op(const tpi_onnx_node *a, const tpi_onnx_node *b)
{
    return tpi_span_same(a->op, b->op) && tpi_span_same(a->domain, b->domain);
}

enum { MOST_KINDS = 256, DEEPEST = 64 };

/* Each operator once, where it is met first. A hostile file may have many: after so many, none is
 * looked for any more. */
typedef struct tally {
    const tpi_onnx_node *kinds[MOST_KINDS];
    int counts[MOST_KINDS], n, others;
} tally;

static void count_op(tally *t, const tpi_onnx_node *node)
{
    int k = 0;
    while (k < t->n && !same_op(t->kinds[k], node))
        k++;
    if (k == MOST_KINDS) {
        t->others++;
        return;
    }
    if (k == t->n)
        t->kinds[t->n++] = node;
    t->counts[k]++;
}

/* Those of branches and bodies too. False: one is malformed. */
static bool count_ops(tally *t, tpi_onnx_model *m, const tpi_onnx_graph *g, int depth)
{
    bool ok = true;
    for (int i = 0; i < g->n_nodes && ok; i++) {
        const tpi_onnx_node *node = &g->nodes[i];
        count_op(t, node);
        for (int k = 0; k < node->n_attrs && ok && depth < DEEPEST; k++) {
            tpi_onnx_graph inner;
            if (node->attrs[k].type == TPI_PB_GRAPH)
                ok = tpi_onnx_graph_read(m, node->attrs[k].g, &inner) &&
                     count_ops(t, m, &inner, depth + 1);
        }
    }
    return ok;
}

static bool put_ops(tpi_str *s, tpi_onnx_model *m)
{
    tally t;
    memset(&t, 0, sizeof t);
    if (!count_ops(&t, m, &m->graph, 0))
        return false;
    for (int k = 0; k < t.n; k++) {
        tpi_str_printf(s, "op %d ", t.counts[k]);
        put_quoted(s, t.kinds[k]->domain);
        tpi_str_put(s, " ");
        put_quoted(s, t.kinds[k]->op);
        tpi_str_put(s, "\n");
    }
    if (t.others)
        tpi_str_printf(s, "op %d \"\" \"others\"\n", t.others);
    return true;
}

/* Inputs without an initializer: others need not be fed. */
static void put_inputs(tpi_str *s, tpi_onnx_model *m)
{
    const tpi_onnx_graph *g = &m->graph;
    const size_t n = (size_t)g->n_inits;
    tpi_span *names = tpi_onnx_take(m, n, sizeof *names);
    if (!names) {
        s->failed = true;
        return;
    }
    for (size_t i = 0; i < n; i++)
        names[i] = g->inits[i].name;
    qsort(names, n, sizeof *names, by_name);
    for (int i = 0; i < g->n_inputs; i++)
        if (!bsearch(&g->inputs[i].name, names, n, sizeof *names, by_name))
            put_info(s, "input", &g->inputs[i]);
}

static bool put_model(tpi_str *s, tpi_onnx_model *m)
{
    tpi_str_printf(s, "ir_version %" PRId64 "\n", m->ir_version);
    for (int i = 0; i < m->n_opsets; i++) {
        tpi_str_printf(s, "opset %" PRId64 " ", m->opsets[i].version);
        put_quoted(s, m->opsets[i].domain);
        tpi_str_put(s, "\n");
    }
    put_inputs(s, m);
    for (int i = 0; i < m->graph.n_outputs; i++)
        put_info(s, "output", &m->graph.outputs[i]);
    return put_ops(s, m);
}

char *tp_onnx_summary_at(const char *file, int line, tp_ctx *tp, const char *path)
{
    static const char what[] = "tp_onnx_summary";
    const tpi_at at = TPI_AT(file, line);
    if (!tp)
        return NULL;
    if (!path) {
        tpi_fail_status(tp, at, what, TP_E_NULL, "the path is NULL");
        return NULL;
    }
    tpi_file_map map;
    tpi_file_error error;
    if (!tpi_file_map_open(&tp->mem, path, &map, &error)) {
        tpi_fail_status(tp, at, what, error.status, "%s", error.text);
        return NULL;
    }
    tpi_onnx_model m;
    char *text = NULL;
    tpi_str s = TPI_STR(&tp->mem);
    if (tpi_onnx_model_read(&m, tp, (tpi_span){map.data, map.size}, NULL) &&
        put_model(&s, &m)) {
        text = tpi_str_hand_over(tp, &s, what);
    } else {
        tpi_fail_status(tp, at, what, m.status, "%s", m.why);
        tpi_str_free(&s);
    }
    tpi_onnx_model_free(&m);
    tpi_file_map_close(&tp->mem, &map);
    return text;
}

TPI_BARE(char *, tp_onnx_summary, (tp_ctx * tp, const char *path), tp, path)
