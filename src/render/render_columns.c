/* Columns: folds by blocks. Rows of up to TPK_COLUMNS columns run over the folded axes, and add to accumulators beside
 * each other; each TPK_BLOCK rows what was added up is folded into the totals. */
#include "kernel/text/reduce.h"
#include "render/nest_text.h"

/* The inner region. */
static int phase_of(const tpi_nest_text *n)
{
    return tpi_loop_inside(n->l, 0);
}

/* Is the statement a fold? */
static const tpi_loop_stmt *fold_at(const tpi_nest_text *n, int i)
{
    return n->l->stmt[i].kind == TPI_LOOP_FOLD ? &n->l->stmt[i] : NULL;
}

/* Folds the accumulators of up to TPK_BLOCK rows into the totals. */
static void put_folds(tpi_nest_text *n)
{
    for (int i = 0; i < n->l->n_stmts; i++) {
        const tpi_loop_stmt *s = fold_at(n, i);
        if (s)
            LINE("y%d[j] = first ? a%d[j] : tpk_reduce_%s_step_%s(y%d[j], a%d[j]), a%d[j] = "
                 "tpk_reduce_%s_empty_%s;\n",
                 i, i, tpi_nest_fold(s), tpi_nest_type(s), i, i, i, tpi_nest_fold(s),
                 tpi_nest_type(s));
    }
}

/* Behind the last column: of a part, when threads share them. */
static void put_end(tpi_nest_text *n, int column)
{
    if (column >= 0 && column == n->outer)
        PUT("o1");
    else if (column >= 0)
        tpi_nest_put_size(n, n->l->size[column]);
    else
        PUT("1");
}

/* "int64_t m = ..": how many of a block are left; what they are added up in. */
static void put_begin(tpi_nest_text *n, int column)
{
    LINE("for (int64_t base = %s; base < ", column >= 0 && column == n->outer ? "o0" : "0");
    put_end(n, column);
    PUT("; base += %d) {\n", TPK_COLUMNS);
    n->depth++;
    LINE("int64_t m = ");
    put_end(n, column);
    PUT(" - base, rows = 0;\n");
    LINE("int first = 1;\n");
    LINE("m = m < %d ? m : %d;\n", TPK_COLUMNS, TPK_COLUMNS);
    for (int i = 0; i < n->l->n_stmts; i++) {
        const tpi_loop_stmt *s = fold_at(n, i);
        if (!s)
            continue;
        LINE("tpk_%s a%d[%d], y%d[%d];\n", tpi_nest_type(s), i, TPK_COLUMNS, i, TPK_COLUMNS);
        LINE("for (int64_t j = 0; j < m; j++)\n");
        LINE("    a%d[j] = y%d[j] = tpk_reduce_%s_empty_%s;\n", i, i, tpi_nest_fold(s),
             tpi_nest_type(s));
    }
}

/* A row of a block: a step of each sum, and what is stored. */
static void put_row(tpi_nest_text *n, int phase)
{
    for (int i = tpi_loop_inside(n->l, phase); i < n->l->stmt[phase].end; i++) {
        const tpi_loop_stmt *s = &n->l->stmt[i];
        if (s->kind == TPI_LOOP_OP) {
            tpi_nest_put_op(n, i);
        } else if (s->kind == TPI_LOOP_STORE) {
            tpi_nest_put_store(n, i);
        } else if (s->kind == TPI_LOOP_FOLD) {
            LINE("a%d[j] = tpk_reduce_%s_step_%s(a%d[j], ", i, tpi_nest_fold(s),
                 tpi_nest_type(s), i);
            tpi_nest_put_value(n, s->in[0]);
            PUT(");\n");
        }
    }
}

/* Each TPK_BLOCK rows are a block of the sums. */
static void put_block(tpi_nest_text *n, int more)
{
    LINE("if ((rows += %d) == %d) {\n", more, TPK_BLOCK);
    n->depth++;
    LINE("for (int64_t j = 0; j < m; j++) {\n");
    n->depth++;
    put_folds(n);
    tpi_nest_close(n);
    LINE("rows = 0, first = 0;\n");
    tpi_nest_close(n);
}

/* What is left of the last block; then the sums, and what is computed from them. */
static void put_results(tpi_nest_text *n, int phase, int column)
{
    LINE("if (rows || first)\n");
    n->depth++;
    LINE("for (int64_t j = 0; j < m; j++) {\n");
    n->depth++;
    put_folds(n);
    tpi_nest_close(n);
    n->depth--;
    tpi_nest_open_strip(n, column, n->l->stmt[phase].end, n->l->n_stmts, TPK_COLUMNS);
    for (int i = tpi_loop_inside(n->l, 0); i < n->l->n_stmts; i++) {
        const tpi_loop_stmt *s = &n->l->stmt[i];
        if (s->kind == TPI_LOOP_FOLD)
            LINE("const tpk_%s x%d = y%d[j];\n", tpi_nest_type(s), i, i);
        else if (s->kind == TPI_LOOP_OP && i >= n->l->stmt[phase].end)
            tpi_nest_put_op(n, i);
        else if (s->kind == TPI_LOOP_STORE && i >= n->l->stmt[phase].end)
            tpi_nest_put_store(n, i);
    }
    tpi_nest_close_strip(n);
}

static void put_one_row(tpi_nest_text *n, int phase, int column)
{
    tpi_nest_open_strip(n, column, phase, n->l->stmt[phase].end, TPK_COLUMNS);
    put_row(n, phase);
    tpi_nest_close_strip(n);
    put_block(n, 1);
}

/* Rows together, in order: sums are read and written less often, and memory in longer pieces. */
enum { TOGETHER = 4 };

static bool takes_rows_together(const tpi_nest_text *n, int phase)
{
    bool stores = false;
    for (int i = phase; i < n->l->stmt[phase].end; i++)
        stores |= n->l->stmt[i].kind == TPI_LOOP_STORE;
    return n->l->rank == n->l->kept + 1 && n->k->n_nodes <= 4 && !stores &&
           !tpi_nest_by_rows(n, phase, n->l->stmt[phase].end);
}

static void put_together(tpi_nest_text *n, int phase, int column)
{
    const int axis = n->l->kept;
    LINE("int64_t q = 0;\n");
    LINE("for (; q + %d <= ", TOGETHER);
    tpi_nest_put_size(n, n->l->size[axis]);
    PUT("; q += %d) {\n", TOGETHER);
    n->depth++;
    tpi_nest_open_strip(n, column, phase, n->l->stmt[phase].end, TPK_COLUMNS);
    for (int i = 0; i < TOGETHER; i++) {
        LINE("{\n");
        n->depth++;
        if (tpi_nest_uses(n, phase, n->l->stmt[phase].end, axis))
            LINE("const int64_t i%d = q + %d;\n", axis, i);
        put_row(n, phase);
        tpi_nest_close(n);
    }
    tpi_nest_close_strip(n);
    put_block(n, TOGETHER);
    tpi_nest_close(n);
    LINE("for (int64_t i%d = q; i%d < ", axis, axis);
    tpi_nest_put_size(n, n->l->size[axis]);
    PUT("; i%d++) {\n", axis);
    n->depth++;
    put_one_row(n, phase, column);
    tpi_nest_close(n);
}

void tpi_render_columns(tpi_nest_text *n)
{
    const int phase = phase_of(n), column = n->l->kept - 1;
    for (int a = 0; a < column; a++)
        tpi_nest_open(n, a);
    put_begin(n, column);
    if (takes_rows_together(n, phase)) {
        put_together(n, phase, column);
    } else {
        for (int a = n->l->kept; a < n->l->rank; a++)
            tpi_nest_open(n, a);
        put_one_row(n, phase, column);
        for (int a = n->l->kept; a < n->l->rank; a++)
            tpi_nest_close(n);
    }
    put_results(n, phase, column);
    tpi_nest_close(n);
    for (int a = 0; a < column; a++)
        tpi_nest_close(n);
}
