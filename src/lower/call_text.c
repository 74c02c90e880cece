/* Calls as text (lower/call_code.h shows some). */
#include "ir/notation.h"
#include "lower/call_code.h"

static void put_operand(const tpi_call_operand *x, const tpi_dims *dims, tpi_str *out)
{
    if (x->buffer < 0) {
        tpi_str_put(out, "sizes");
    } else {
        tpi_str_printf(out, "b%d[", x->buffer);
        tpi_dim_print(dims, x->offset, out);
        tpi_str_put(out, "]");
    }
    tpi_str_put(out, "(");
    for (int a = 0; a < x->view.rank; a++) {
        tpi_str_put(out, a ? ", " : "");
        tpi_dim_print(dims, x->view.shape[a], out);
        tpi_str_put(out, ":");
        tpi_dim_print(dims, x->view.stride[a], out);
    }
    tpi_str_put(out, ")");
}

void tpi_call_print(const tpi_call_code *c, const tpi_dims *dims, int indent, tpi_str *out)
{
    tpi_str_printf(out, "%*s%s(", indent, "",
                   c->form == TPI_CALL_COPY ? "copy" : c->node->op->name);
    for (int i = 0; i < c->n_in; i++) {
        tpi_str_put(out, i ? ", " : "");
        tpi_str_put(out, i == c->packed ? "packed " : "");
        put_operand(&c->operand[i], dims, out);
    }
    tpi_str_put(out, ")");
    if (c->form != TPI_CALL_COPY)
        tpi_put_attrs(out, dims, c->node->op, c->attrs, 0);
    tpi_str_put(out, " -> ");
    put_operand(tpi_call_out(c), dims, out);
    tpi_str_put(out, "\n");
}
