#include "lower/loop_text.h"

#include "ir/notation.h"

#include <inttypes.h>

static const char *const order_name[TPI_N_ORDERS] = {
#define ORDER(name) #name,
#include "lower/order.def"
#undef ORDER
};

static const char *type_name(uint8_t type)
{
    return tp_dtype_name((tp_dtype)type);
}

static void put_mem(const tpi_loop *l, int mem, tpi_str *out)
{
    tpi_str_printf(out, "%c%d", l->mem[mem].row ? 't' : 'v', mem);
}

/* "8", "-1", or "(2*n+1)". */
static void put_factor(const tpi_loop *l, int64_t size, tpi_str *out)
{
    if (!tpi_dim_is_symbolic(size)) {
        tpi_str_printf(out, "%" PRId64, size);
        return;
    }
    tpi_str_put(out, "(");
    tpi_dim_print(l->dims, size, out);
    tpi_str_put(out, ")");
}

static void put_address(const tpi_loop *l, const tpi_loop_at *at, tpi_str *out)
{
    const char *plus = "";
    put_mem(l, at->mem, out);
    tpi_str_put(out, "[");
    if (at->offset != 0) {
        put_factor(l, at->offset, out);
        plus = " + ";
    }
    for (int a = 0; a < l->rank; a++) {
        if (at->stride[a] == 0)
            continue;
        tpi_str_printf(out, "%si%d", plus, a);
        plus = " + ";
        if (at->stride[a] != 1) {
            tpi_str_put(out, "*");
            put_factor(l, at->stride[a], out);
        }
    }
    tpi_str_put(out, *plus ? "]" : "0]");
}

static void put_values(const tpi_loop_stmt *s, tpi_str *out)
{
    for (int o = 0; o < 3 && s->in[o] >= 0; o++)
        tpi_str_printf(out, "%sx%d", o ? ", " : " ", s->in[o]);
}

static void put_each(const tpi_loop *l, int at, tpi_str *out)
{
    tpi_str_put(out, "each");
    for (int i = at + 1; i < tpi_loop_inside(l, at); i++) {
        tpi_str_printf(out, "%s i%d < ", i > at + 1 ? "," : "", l->stmt[i].number);
        tpi_dim_print(l->dims, l->stmt[i].size, out);
    }
    tpi_str_put(out, " {");
}

static void put_statement(const tpi_loop *l, int i, tpi_str *out)
{
    const tpi_loop_stmt *s = &l->stmt[i];
    if (tpi_loop_is_value(s))
        tpi_str_printf(out, "x%d = ", i);
    switch ((tpi_loop_kind)s->kind) {
    case TPI_LOOP_EACH:
        put_each(l, i, out);
        break;
    case TPI_LOOP_ROW:
        tpi_str_put(out, "row ");
        put_mem(l, s->number, out);
        tpi_str_printf(out, " %s[", type_name(s->type));
        tpi_dim_print(l->dims, l->mem[s->number].size, out);
        tpi_str_put(out, "]");
        break;
    case TPI_LOOP_CONST:
        tpi_str_printf(out, "%s ", type_name(s->type));
        tpi_put_element(out, (tp_dtype)s->type, &s->size);
        break;
    case TPI_LOOP_COUNT:
        tpi_str_printf(out, "%s size ", type_name(s->type));
        tpi_dim_print(l->dims, s->size, out);
        break;
    case TPI_LOOP_LOAD:
        put_address(l, &l->at[s->number], out);
        break;
    case TPI_LOOP_STORE:
        put_address(l, &l->at[s->number], out);
        tpi_str_printf(out, " = x%d", s->in[0]);
        break;
    case TPI_LOOP_OP:
        tpi_str_put(out, s->op->name);
        if (s->op->attrs) /* the type */
            tpi_str_printf(out, " %s", type_name(s->type));
        put_values(s, out);
        break;
    case TPI_LOOP_FOLD:
        tpi_str_printf(out, "%s %s", tpi_fold_name[s->fold], order_name[s->order]);
        put_values(s, out);
        break;
    case TPI_LOOP_AXIS:
    case TPI_LOOP_KINDS:
        break;
    }
}

static void put_operands(const tpi_loop *l, tpi_str *out)
{
    const char *comma = "";
    for (int i = 0; i < l->n_mems; i++)
        if (!l->mem[i].row) {
            tpi_str_printf(out, "%sv%d %s %s", comma, i, l->mem[i].written ? "out" : "in",
                           type_name(l->mem[i].type));
            comma = ", ";
        }
}

void tpi_loop_print(const tpi_loop *l, int indent, tpi_str *out)
{
    int end[TPI_LOOP_DEPTH + 1], open = 0; /* where regions end, one that is too deep, too */
    tpi_str_printf(out, "%*skernel (", indent, "");
    put_operands(l, out);
    tpi_str_put(out, ") {\n");
    for (int i = 0; i <= l->n_stmts; i++) {
        const tpi_loop_stmt *s = &l->stmt[i];
        for (; open > 0 && end[open - 1] == i; open--)
            tpi_str_printf(out, "%*s}\n", indent + 2 * open, "");
        if (i == l->n_stmts || s->kind == TPI_LOOP_AXIS)
            continue;
        tpi_str_printf(out, "%*s", indent + 2 * open + 2, "");
        put_statement(l, i, out);
        if (s->node)
            tpi_put_place(out, s->node->file, s->node->line);
        tpi_str_put(out, "\n");
        if (s->kind == TPI_LOOP_EACH && open <= TPI_LOOP_DEPTH)
            end[open++] = s->end;
    }
    tpi_str_printf(out, "%*s}\n", indent, "");
}
