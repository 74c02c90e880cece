/* Blocks as text. */
#include "lower/block_code.h"

const char tpi_pointer_letter[TPI_N_POINTERS] = {'c', 'n', 'o', 'x', 'y'};

static void put_step(const tpi_dims *dims, tpi_block_address a, tpi_str *out)
{
    tpi_str_printf(out, " + number*%d", a.width);
    for (int i = 0; a.each && i < a.each->rank; i++) {
        tpi_str_put(out, "*");
        tpi_dim_print(dims, a.each->shape[i], out);
    }
    if (!a.each) {
        tpi_str_put(out, "*");
        tpi_dim_print(dims, a.step, out);
    }
}

static void put_address(const tpi_dims *dims, tpi_block_address a, tpi_str *out)
{
    if (a.kind == TPI_ADDRESS_BUFFER)
        tpi_str_printf(out, "b%d", a.n);
    else if (a.kind == TPI_ADDRESS_POINTER)
        tpi_str_printf(out, "%c%d", tpi_pointer_letter[a.pointer], a.n);
    else
        tpi_str_put(out, a.kind == TPI_ADDRESS_GO ? "&go" : "&number");
    if (a.even >= 0)
        tpi_str_printf(out, ", or b%d when the turns are even", a.even);
    if (a.offset) {
        tpi_str_printf(out, " + %d*", a.width);
        tpi_dim_print(dims, a.offset, out);
    }
    if (a.each || a.step)
        put_step(dims, a, out);
}

static void put_stmt(const tpi_dims *dims, const tpi_block_stmt *x, tpi_str *out)
{
    const int i = x->to.n;
    if (x->kind == TPI_BLOCK_TURN) {
        tpi_str_printf(out, "c%d, n%d, o%d = n%d, o%d, n%d", i, i, i, i, i, i);
        return;
    }
    put_address(dims, x->to, out);
    if (x->kind == TPI_BLOCK_COPY) {
        tpi_str_printf(out, "[] = operand %d, in order", x->operand);
        return;
    }
    tpi_str_put(out, x->kind == TPI_BLOCK_MOVE    ? "[] = bytes at "
                     : x->kind == TPI_BLOCK_POINT ? " lies at "
                                                  : " = ");
    put_address(dims, x->from, out);
}

void tpi_block_print(const tpi_block *b, int indent, tpi_str *out)
{
    const char *const names[TPI_BLOCK_MOMENTS] = {
        "before", b->loop ? "before each turn" : "if so",
        b->loop ? "after each turn" : "if not", "after"};
    const tpi_dims *dims = b->section->node->graph->dims;
    for (int moment = 0; moment < TPI_BLOCK_MOMENTS; moment++) {
        const int first = tpi_block_first(b, (tpi_block_moment)moment);
        if (first < b->end[moment])
            tpi_str_printf(out, "%*s%s\n", indent, "", names[moment]);
        for (int i = first; i < b->end[moment]; i++) {
            tpi_str_printf(out, "%*s", indent + 2, "");
            put_stmt(dims, &b->stmt[i], out);
            tpi_str_put(out, "\n");
        }
    }
}
