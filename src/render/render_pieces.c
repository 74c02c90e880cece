/* What the text of all kernels is made of: names, sizes, memory, constants. */
#include "ir/notation.h"
#include "render/render.h"

#include <stdio.h>
#include <string.h>

const char *tpi_render_slot(tpi_render *r, tpi_slot_kind kind, int64_t value, char *mark)
{
    if (r->has_slots)
        return tpi_alike_slot(&r->alike, kind, value, mark);
    snprintf(mark, TPI_SLOT_MARK, "%lld", (long long)value);
    return mark;
}

void tpi_render_number(tpi_render *r, int64_t value)
{
    tpi_str_put(&r->body, NUMBER(value));
}

int tpi_render_name(tpi_render *r, int node)
{
    if (r->named_by[node] != r->naming) {
        r->named_by[node] = r->naming;
        r->name[node] = r->n_names++;
    }
    return r->name[node];
}

void tpi_render_size(tpi_render *r, int64_t size)
{
    if (size < 0 && !tpi_dim_is_symbolic(size)) /* a stride */
        tpi_str_printf(&r->body, "(%lld)", (long long)size);
    else
        tpi_dim_print_c(r->plan->graph->dims, size, "s", &r->body);
}

void tpi_render_quoted(tpi_str *s, const char *text)
{
    for (const char *c = text; *c; c++) {
        const bool plain = *c >= ' ' && *c < 127 && *c != '/' && *c != '*' && *c != '\\';
        if (plain || (*c == '/' && c > text && c[-1] != '*'))
            tpi_str_add(s, c, 1);
        else
            tpi_str_put(s, "?");
    }
}

static const char *base_name(const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash ? slash + 1 : file;
}

void tpi_render_at(tpi_str *s, const tp_tensor *t)
{
    if (!t->file)
        return;
    tpi_str_put(s, "  ");
    tpi_render_quoted(s, base_name(t->file));
    tpi_str_printf(s, ":%d", t->line);
}

/* "add, mul  [batch, 10]  mnist.c:41" */
static void put_comment(tpi_render *r, const tpi_kernel *k)
{
    const tp_tensor *root = r->plan->graph->nodes[k->root];
    tpi_str *out = &r->comment;
    for (int i = 0; i < k->n_nodes - 1; i++)
        tpi_str_printf(out, "%s, ", r->plan->values[k->nodes[i]].node->op->name);
    if (tpi_loop_of(root)) {
        const tpi_loop_attrs *a = root->attrs;
        tpi_str_printf(out, "loop%s: %d carried, %d slices, %d stacked",
                       a->back ? ", backwards" : "", (int)a->n_carried, (int)a->n_slices,
                       (int)a->n_stacked);
    } else {
        tpi_str_printf(out, "%s  %s", root->op->name, SHAPE(root));
    }
    if (root->name) {
        tpi_str_put(out, "  ");
        tpi_render_quoted(out, root->name);
    }
    tpi_render_at(out, root);
}

/* A file name as a string of C: names come from files too. */
static void put_string(tpi_str *s, const char *text)
{
    tpi_str_put(s, "\"");
    for (const char *c = text; *c; c++)
        if (*c > ' ' && *c < 127 && *c != '"' && *c != '\\')
            tpi_str_add(s, c, 1);
        else
            tpi_str_printf(s, "\\%03o", (unsigned)(unsigned char)*c);
    tpi_str_put(s, "\"");
}

void tpi_render_place(tpi_render *r, const tp_tensor *t)
{
    if (!r->lines || !t->file || t->line < 1)
        return;
    tpi_str_printf(&r->body, "#line %d ", t->line);
    put_string(&r->body, t->file);
    tpi_str_put(&r->body, "\n");
}

void tpi_render_head(tpi_render *r, int n)
{
    put_comment(r, &r->plan->kernels[n]);
    tpi_render_place(r, r->plan->graph->nodes[r->plan->kernels[n].root]);
}

void tpi_render_memory(tpi_render *r, int root, bool write)
{
    const tpi_value *v = &r->plan->values[root];
    tpi_str_printf(&r->body, "    %stpk_%s *restrict v%d = p[%s];\n", write ? "" : "const ",
                   tp_dtype_name((tp_dtype)v->node->dtype), tpi_render_name(r, root),
                   NUMBER(tpi_render_buffer(r, v->buffer)));
}

void tpi_render_constant(tpi_render *r, tp_dtype type, const void *element)
{
    if (type >= TP_F32) {
        uint64_t bits = 0;
        int64_t value;
        memcpy(&bits, element, tp_dtype_size(type));
        memcpy(&value, &bits, sizeof value);
        tpi_str_put(&r->body, tpi_render_slot(r, type == TP_F32 ? TPI_SLOT_F32 : TPI_SLOT_F64,
                                              value, (char[TPI_SLOT_MARK]){0}));
        return;
    }
    const int64_t x = tpi_load_i64(type, element);
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (type == TP_U64)
        memcpy(&bits, element, sizeof bits);
    tpi_str_printf(&r->body, "(tpk_%s)0x%llxull", tp_dtype_name(type),
                   (unsigned long long)bits);
}

void tpi_render_literal(tpi_render *r, const tp_tensor *t)
{
    const tp_dtype type = (tp_dtype)t->dtype;
    if (t->op->kind == TPI_SHAPE) { /* the product of some sizes of its operand */
        const tpi_list *axes = t->attrs;
        tpi_str_printf(&r->body, "tpk_cast_i64_%s(1", tp_dtype_name(type));
        for (int64_t i = 0; i < axes->n; i++) {
            tpi_str_put(&r->body, " * (int64_t)(");
            tpi_render_size(r, t->in[0]->shape[axes->v[i]]);
            tpi_str_put(&r->body, ")");
        }
        tpi_str_put(&r->body, ")");
    } else {
        tpi_render_constant(r, type, t->in[0]->data);
    }
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

void tpi_render_sizes(tpi_render *r, int n, const int64_t *v)
{
    tpi_str_put(&r->body, "{");
    for (int i = 0; i < n; i++) {
        tpi_str_put(&r->body, i ? ", " : "");
        tpi_render_any_size(r, v[i]);
    }
    tpi_str_put(&r->body, n ? "}" : "0}");
}
