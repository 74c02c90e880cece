/* Rows: folds by lanes, or none. Loops over the kept axes around the phases of one row; a phase is a region, a loop
 * over the folded axes, and then its folds by src/kernel/text/reduce.h: of the memory that they read, of a row, or else
 * of a block buffer of TPK_BLOCK elements that the loop fills.
 *
 * The last of three phases is done late if it can be: beside the second one of the next row. Softmax: a row is divided
 * by its sum while the exponentials of the next one are computed, which need the multipliers all the time, but memory
 * hardly. */
#include "kernel/text/reduce.h"
#include "render/nest_text.h"

enum { PIECE = 128, MAX_PHASES = TPI_MAX_NEST_REDUCTIONS + 1 };

typedef tpi_nest_text nest;

/* ---- where folds find what they add up ----------------------------------------------------------------------- */

/* Do the elements of a row lie there one after the other, in the order in which they are folded? */
static bool is_whole(const nest *n, int address)
{
    const tpi_loop_at *at = &n->l->at[address];
    return n->l->mem[at->mem].row ||
           (n->l->rank == n->l->kept + 1 && at->stride[n->l->kept] == 1);
}

/* Where all that fold i adds up lies when its phase has run; -1: nowhere. */
static int whole_row(const nest *n, int phase, int i)
{
    const tpi_loop_stmt *s = n->l->stmt;
    const int x = s[i].in[0];
    if (s[x].kind == TPI_LOOP_LOAD)
        return is_whole(n, s[x].number) ? s[x].number : -1;
    for (int k = phase; k < s[phase].end; k++)
        if (s[k].kind == TPI_LOOP_STORE && s[k].in[0] == x && is_whole(n, s[k].number))
            return s[k].number;
    return -1;
}

static bool is_blocked(const nest *n, int phase, int i)
{
    return n->l->stmt[i].kind == TPI_LOOP_FOLD && whole_row(n, phase, i) < 0;
}

static bool has_blocks(const nest *n, int phase)
{
    bool has = false;
    for (int i = phase; i < n->l->stmt[phase].end; i++)
        has |= is_blocked(n, phase, i);
    return has;
}

static void put_whole_folds(nest *n, int phase)
{
    for (int i = phase; i < n->l->stmt[phase].end; i++) {
        const tpi_loop_stmt *s = &n->l->stmt[i];
        if (s->kind != TPI_LOOP_FOLD || is_blocked(n, phase, i))
            continue;
        if (s->node)
            tpi_render_place(n->r, s->node);
        LINE("const tpk_%s x%d = %sreduce_%s_%s(", tpi_nest_type(s), i, tpi_nest_called(n, s),
             tpi_nest_fold(s), tpi_nest_type(s));
        tpi_nest_put_row(n, whole_row(n, phase, i));
        PUT(", ");
        tpi_nest_put_size(n, n->l->count);
        PUT(");\n");
    }
}

/* ---- phases -------------------------------------------------------------------------------------------------- */

/* Operations and stores from statement `from` on; the block buffers' elements. */
static void put_statements(nest *n, int from, int to, int phase)
{
    for (int i = from; i < to; i++) {
        const tpi_loop_stmt *s = &n->l->stmt[i];
        if (s->kind == TPI_LOOP_OP) {
            tpi_nest_put_op(n, i);
        } else if (s->kind == TPI_LOOP_STORE) {
            tpi_nest_put_store(n, i);
        } else if (phase >= 0 && is_blocked(n, phase, i)) {
            LINE("b%d[q + j] = ", i);
            tpi_nest_put_value(n, s->in[0]);
            PUT(";\n");
        }
    }
}

static void put_elements(nest *n, int phase)
{
    put_statements(n, tpi_loop_inside(n->l, phase), n->l->stmt[phase].end, phase);
}

/* The result of a block buffer, a full one or of q elements, joins those of the blocks before. */
static void put_push(nest *n, int i, bool full)
{
    const tpi_loop_stmt *s = &n->l->stmt[i];
    const char *fold = tpi_nest_fold(s), *type = tpi_nest_type(s);
    LINE("    tpk_reduce_%s_push_%s(&a%d, %sreduce_%s_block_%s(b%d, ", fold, type, i,
         tpi_nest_called(n, s), fold, type, i);
    if (full)
        PUT("%d, TPK_LANES(", TPK_BLOCK);
    else
        PUT("q, TPK_LANES(");
}

static void put_full_blocks(nest *n, int phase)
{
    LINE("if (q == %d) {\n", TPK_BLOCK);
    for (int i = phase; i < n->l->stmt[phase].end; i++)
        if (is_blocked(n, phase, i)) {
            put_push(n, i, true);
            PUT("%d)));\n", TPK_BLOCK);
        }
    LINE("    q = 0;\n");
    LINE("}\n");
}

/* What is left of the last block; the fold's value. */
static void put_last_blocks(nest *n, int phase)
{
    for (int i = phase; i < n->l->stmt[phase].end; i++) {
        const tpi_loop_stmt *s = &n->l->stmt[i];
        if (!is_blocked(n, phase, i))
            continue;
        LINE("if (q || !a%d.count)\n", i);
        put_push(n, i, false);
        tpi_nest_put_size(n, n->l->count);
        PUT(")));\n");
        LINE("x%d = tpk_reduce_%s_end_%s(&a%d);\n", i, tpi_nest_fold(s), tpi_nest_type(s), i);
    }
}

/* A phase with folds: blocks of TPK_BLOCK elements in their order. */
static void put_blocked_phase(nest *n, int phase)
{
    const int inner = n->l->rank > n->l->kept ? n->l->rank - 1 : -1;
    const int end = n->l->stmt[phase].end;
    for (int i = phase; i < n->l->stmt[phase].end; i++)
        if (is_blocked(n, phase, i))
            LINE("tpk_%s x%d;\n", tpi_nest_type(&n->l->stmt[i]), i);
    LINE("{\n");
    n->depth++;
    for (int i = phase; i < n->l->stmt[phase].end; i++) {
        const tpi_loop_stmt *s = &n->l->stmt[i];
        if (!is_blocked(n, phase, i))
            continue;
        LINE("tpk_%s b%d[%d];\n", tpi_nest_type(s), i, TPK_BLOCK);
        LINE("b%d[0] = 0;\n",
             i); /* else compilers warn of what is passed on when there is no element */
        LINE("tpk_reduce_%s_acc_%s a%d;\n", tpi_nest_fold(s), tpi_nest_type(s), i);
        LINE("a%d.count = 0;\n", i);
    }
    LINE("int64_t q = 0;\n");
    for (int a = n->l->kept; a < inner; a++)
        tpi_nest_open(n, a);
    if (inner < 0) {
        LINE("const int64_t m = 1, j = 0;\n");
        put_elements(n, phase);
    } else {
        LINE("for (int64_t base = 0, m; base < ");
        tpi_nest_put_size(n, n->l->size[inner]);
        PUT("; base += m) {\n");
        n->depth++;
        LINE("m = ");
        tpi_nest_put_size(n, n->l->size[inner]);
        PUT(" - base < %d - q ? ", TPK_BLOCK);
        tpi_nest_put_size(n, n->l->size[inner]);
        PUT(" - base : %d - q;\n", TPK_BLOCK);
        if (tpi_nest_by_rows(n, phase, end))
            LINE("m = m < %d ? m : %d;\n", TPI_STRIP, TPI_STRIP);
        tpi_nest_open_strip(n, inner, phase, end, TPI_STRIP);
        put_elements(n, phase);
        tpi_nest_close_strip(n);
    }
    LINE("q += m;\n");
    put_full_blocks(n, phase);
    for (int a = n->l->kept; a < n->l->rank; a++)
        tpi_nest_close(n);
    put_last_blocks(n, phase);
    tpi_nest_close(n);
}

/* The memory of which the first phase folds a row, which the second has then in the first cache: while that computes,
 * the next row can be fetched. An address; -1: none, or rows are short. */
static int row_ahead(const nest *n, const int *phase)
{
    const tpi_loop_stmt *s = n->l->stmt;
    const int64_t count = n->l->count;
    for (int i = phase[0]; i < s[phase[0]].end && n->l->kept > 0; i++) {
        const tpi_loop_stmt *x = s[i].kind == TPI_LOOP_FOLD ? &s[s[i].in[0]] : NULL;
        if (x && x->kind == TPI_LOOP_LOAD && is_whole(n, x->number) &&
            n->l->at[x->number].stride[n->l->kept - 1] != 0 &&
            (tpi_dim_is_symbolic(count) || count >= 2 * PIECE))
            return x->number;
    }
    return -1;
}

/* The row that the last phase writes; -1: none, or it is not whole. */
static int last_row(const nest *n, int phase)
{
    for (int i = n->l->stmt[phase].end - 1; i > phase; i--)
        if (n->l->stmt[i].kind == TPI_LOOP_STORE)
            return is_whole(n, n->l->stmt[i].number) ? n->l->stmt[i].number : -1;
    return -1;
}

/* The loop in pieces, before each of which its part of the next row is fetched, and of the row that is written. */
static void open_pieces(nest *n, int ahead, int written)
{
    const int axis = n->l->kept;
    LINE("for (int64_t from = 0, to; from < ");
    tpi_nest_put_size(n, n->l->size[axis]);
    PUT("; from = to) {\n");
    n->depth++;
    LINE("to = ");
    tpi_nest_put_size(n, n->l->size[axis]);
    PUT(" - from < %d ? ", PIECE);
    tpi_nest_put_size(n, n->l->size[axis]);
    PUT(" : from + %d;\n", PIECE);
    LINE("for (int64_t i = from; i < to; i += 64 / (int64_t)sizeof *v%d) {\n",
         n->l->at[ahead].mem);
    LINE("    __builtin_prefetch(");
    tpi_nest_put_row(n, ahead);
    PUT(" + ");
    tpi_nest_put_size(n, n->l->at[ahead].stride[axis - 1]);
    PUT(" + i);\n");
    if (written >= 0) {
        LINE("    __builtin_prefetch(");
        tpi_nest_put_row(n, written);
        PUT(" + i, 1);\n");
    }
    LINE("}\n");
    tpi_nest_independent(n);
    LINE("for (int64_t i%d = from; i%d < to; i%d++) {\n", axis, axis, axis);
    n->depth++;
}

static void open_phase(nest *n, int phase)
{
    for (int a = n->l->kept; a < n->l->rank - 1; a++)
        tpi_nest_open(n, a);
    if (n->l->rank > n->l->kept)
        tpi_nest_open_inner(n, n->l->rank - 1, phase, n->l->stmt[phase].end);
}

static void close_phase(nest *n)
{
    if (n->l->rank > n->l->kept)
        tpi_nest_close_inner(n);
    for (int a = n->l->kept; a < n->l->rank - 1; a++)
        tpi_nest_close(n);
}

static bool computes(const nest *n, int phase)
{
    bool any = false;
    for (int i = phase; i < n->l->stmt[phase].end; i++)
        any |= n->l->stmt[i].kind == TPI_LOOP_OP || n->l->stmt[i].kind == TPI_LOOP_STORE;
    return any;
}

/* ---- the late phase ------------------------------------------------------------------------------------------ */

/* Does the last phase read rows of the second and values of its row, and nothing else? */
static bool is_late(const nest *n, const int *phase, int n_phases)
{
    const tpi_loop_stmt *s = n->l->stmt;
    if (n_phases != 3 || row_ahead(n, phase) < 0 || has_blocks(n, phase[1]) ||
        !computes(n, phase[2]) || tpi_nest_by_rows(n, phase[1], s[phase[2]].end))
        return false;
    for (int i = 0; i < n->l->n_stmts; i++) {
        const tpi_loop_mem *m =
            s[i].kind == TPI_LOOP_LOAD ? &n->l->mem[n->l->at[s[i].number].mem] : NULL;
        if (m && m->written && !m->row) /* it is written over, and would be read too late */
            return false;
        if (i < phase[2] || i >= s[phase[2]].end)
            continue;
        bool second = false;
        for (int k = phase[1]; m && m->row && k < s[phase[1]].end; k++)
            second |= s[k].kind == TPI_LOOP_STORE && s[k].number == s[i].number;
        if ((m && !second) || s[i].kind == TPI_LOOP_FOLD)
            return false;
    }
    return true;
}

/* Does the phase read the value of statement x, which is one of its row? */
static bool reads_value(const nest *n, int phase, int x)
{
    const tpi_loop_stmt *s = n->l->stmt;
    bool reads = false;
    for (int i = phase; i < s[phase].end; i++)
        for (int o = 0; o < 3 && s[i].in[o] >= 0; o++)
            reads |= s[i].in[o] == x;
    return reads && x < phase && (s[x].kind == TPI_LOOP_OP || s[x].kind == TPI_LOOP_FOLD);
}

/* Before all loops: what says which row is late. */
static void put_late_begin(nest *n, int phase)
{
    LINE("int late = 0;\n");
    for (int a = 0; a < n->l->kept; a++)
        LINE("int64_t l%d = 0;\n", a);
    for (int x = 0; x < phase; x++)
        if (reads_value(n, phase, x))
            LINE("tpk_%s y%d = 0;\n", tpi_nest_type(&n->l->stmt[x]), x);
}

static void put_late_places(nest *n)
{
    for (int a = 0; a < n->l->kept; a++)
        LINE("l%d = i%d;\n", a, a);
}

/* Before the loop that the late row joins: the first row has none before it, and gets what it does not keep. */
static void put_late_first(nest *n)
{
    LINE("if (!late) {\n");
    n->depth++;
    put_late_places(n);
    tpi_nest_close(n);
}

/* The phase's elements, with the late row's places and values by the names of the current one's. */
static void put_late_elements(nest *n, int phase)
{
    for (int a = 0; a < n->l->kept; a++)
        if (tpi_nest_uses(n, phase, n->l->stmt[phase].end, a))
            LINE("const int64_t i%d = l%d;\n", a, a);
    for (int x = 0; x < phase; x++)
        if (reads_value(n, phase, x))
            LINE("const tpk_%s x%d = y%d;\n", tpi_nest_type(&n->l->stmt[x]), x, x);
    put_elements(n, phase);
}

/* This row is the late one from now on. */
static void put_late_keep(nest *n, int phase)
{
    LINE("late = 1;\n");
    put_late_places(n);
    for (int x = 0; x < phase; x++)
        if (reads_value(n, phase, x))
            LINE("y%d = x%d;\n", x, x);
}

/* ---- rows ---------------------------------------------------------------------------------------------------- */

/* "8 * 40" bytes and more: what a row of scratch takes. */
static void put_row_bytes(nest *n)
{
    PUT("((");
    tpi_nest_put_size(n, n->l->count);
    PUT(" * 8 + 63) & ~(int64_t)63)");
}

/* The kernel's need of scratch memory. */
static void put_need(nest *n)
{
    const tpi_str body = n->r->body;
    n->r->body = n->r->scratch;
    PUT("    need = %s%d * ", tpi_nest_has_box(n) ? "library->threads * " : "", n->n_rows);
    put_row_bytes(n);
    PUT(";\n    most = need > most ? need : most;\n");
    n->r->scratch = n->r->body;
    n->r->body = body;
}

static void put_scratch_rows(nest *n)
{
    int row = 0;
    for (int i = 0; i < n->l->n_stmts; i++)
        n->n_rows += n->l->stmt[i].kind == TPI_LOOP_ROW;
    for (int i = 0; i < n->l->n_stmts; i++) {
        const tpi_loop_stmt *s = &n->l->stmt[i];
        if (s->kind != TPI_LOOP_ROW)
            continue;
        LINE("tpk_%s *restrict t%d = (tpk_%s *)((char *)scratch + (", tpi_nest_type(s),
             s->number, tpi_nest_type(s));
        if (tpi_nest_has_box(n))
            PUT("place * %d + ", n->n_rows);
        PUT("%d) * ", row++);
        put_row_bytes(n);
        PUT(");\n");
    }
    if (row)
        put_need(n);
}

/* Loops over the kept axes; the innermost one of a nest without phases is one too. */
static void open_kept(nest *n, bool phases)
{
    const bool places = n->box.n_outer > 0 && n->outer < 0;
    if (places)
        tpi_nest_open_places(n);
    for (int a = places ? n->box.n_outer : 0; a < n->l->kept; a++) {
        if (phases || a < n->l->kept - 1)
            tpi_nest_open(n, a);
        else
            tpi_nest_open_inner(n, a, tpi_loop_inside(n->l, 0), n->l->n_stmts);
    }
}

static void close_kept(nest *n)
{
    while (n->depth > 1)
        tpi_nest_close_inner(n);
}

/* With `late`, the last phase of the row before comes first in each turn. */
static void put_phase(nest *n, const int *phase, int k, int n_phases, bool late)
{
    const int at = phase[k];
    const bool by_rows = tpi_nest_by_rows(n, at, n->l->stmt[at].end);
    const int ahead = k == 1 && !by_rows ? row_ahead(n, phase) : -1;
    if (!computes(n, at))
        return;
    if (ahead >= 0)
        open_pieces(n, ahead, n_phases > 2 ? last_row(n, phase[n_phases - 1]) : -1);
    else
        open_phase(n, at);
    if (late) {
        LINE("{\n");
        n->depth++;
        put_late_elements(n, phase[2]);
        tpi_nest_close(n);
    }
    put_elements(n, at);
    if (ahead >= 0) {
        tpi_nest_close(n);
        tpi_nest_close(n);
    } else
        close_phase(n);
}

static int find_phases(const nest *n, int *phase)
{
    int found = 0;
    for (int i = 1; i < n->l->n_stmts; i++)
        if (n->l->stmt[i].kind == TPI_LOOP_EACH)
            phase[found++] = i;
    return found;
}

void tpi_render_rows(nest *n)
{
    int phase[MAX_PHASES];
    const int n_phases = find_phases(n, phase);
    const bool late = is_late(n, phase, n_phases);
    put_scratch_rows(n);
    if (late)
        put_late_begin(n, phase[2]);
    open_kept(n, n_phases > 0);
    int from = tpi_loop_inside(n->l, 0);
    for (int k = 0; k < n_phases; k++) {
        put_statements(n, from, phase[k], -1);
        from = n->l->stmt[phase[k]].end;
        if (late && k == 1)
            put_late_first(n);
        if (late && k == 2)
            put_late_keep(n, phase[2]);
        else if (has_blocks(n, phase[k]))
            put_blocked_phase(n, phase[k]);
        else
            put_phase(n, phase, k, n_phases, late && k == 1);
        put_whole_folds(n, phase[k]);
    }
    put_statements(n, from, n->l->n_stmts, -1);
    close_kept(n);
    if (late) {
        LINE("if (late) {\n");
        n->depth++;
        open_phase(n, phase[2]);
        put_late_elements(n, phase[2]);
        close_phase(n);
        tpi_nest_close(n);
    }
}
