#include "render/nest_text.h"

#include "kernel/host/team_host.h"
#include "kernel/text/reduce.h"
#include "op/op.h"

#include <math.h>

/* ---- the box ------------------------------------------------------------------------------------------------- */

static bool by_place(const tpi_nest_text *n)
{
    return !n->r->alone && n->r->plan->steps[n->k->step].images;
}

/* Is it too little to share, whatever the sizes of a run? */
static bool is_small(const tpi_nest_text *n)
{
    double work = TPI_NEST_OP * n->k->n_nodes;
    for (int a = 0; a < n->l->rank; a++) {
        if (tpi_dim_is_symbolic(n->l->size[a]))
            return false;
        work *= (double)n->l->size[a];
    }
    return work < 2 * TPI_PART_WORK;
}

/* The program in *l, and what of it is computed at a time: in a band or microbatch its outer places, and rows; else
 * parts of the outermost axis, if there is enough to share. False: no memory. */
static bool begin(tpi_nest_text *n, tpi_render *r, const tpi_kernel *k, tpi_loop *l)
{
    *n = (tpi_nest_text){.r = r, .l = l, .k = k, .depth = 1, .box.row = -1, .outer = -1};
    const bool band = !r->alone && tpi_is_band(&r->plan->steps[k->step]);
    n->box.n_outer = band ? r->plan->steps[k->step].n_outer : by_place(n);
    n->box.row = band ? k->row : -1;
    if (!tpi_lower_nest(&r->room, r->plan, k, NULL, &n->box, l))
        return false;
    if (band || by_place(n))
        n->outer = n->box.n_outer == 1 ? 0 : -1;
    else if (!r->alone && l->kept > 0 && !is_small(n))
        n->outer = 0, n->box.n_outer = 1;
    n->any_size = l->rank <= 1 && !k->reduced && !r->alone;
    return true;
}

/* The number of outer places. */
static void put_places(tpi_nest_text *n)
{
    if (n->box.n_outer == 0)
        PUT("1");
    for (int a = 0; a < n->box.n_outer; a++) {
        PUT("%s", a ? " * " : "");
        tpi_nest_put_size(n, n->l->size[a]);
    }
}

/* All of it is computed, by whatever threads there are, or the part that a thread is given; parts have `least` outer
 * places at least. */
static void put_box(tpi_nest_text *n, int least)
{
    const int row = n->box.row;
    PUT("    int64_t place = 0, o0 = 0, o1 = ");
    put_places(n);
    if (row >= 0) {
        PUT(", r0 = 0, r1 = ");
        tpi_nest_put_size(n, n->l->size[row]);
    }
    PUT(";\n");
    if (by_place(n))
        PUT("    if (part && part->shared)\n"
            "        o0 = part->o0, o1 = part->o1, part = 0;\n");
    PUT("    if (part) {\n"
        "        place = part->place, o0 = part->o0, o1 = part->o1;\n");
    if (row >= 0) {
        PUT("        r0 = part->r0 * ");
        tpi_nest_put_size(n, n->box.per_row);
        PUT(", r1 = part->r1 * ");
        tpi_nest_put_size(n, n->box.per_row);
        PUT(";\n");
    }
    PUT("    } else if (library->threads > 1) {\n"
        "        library->spread(env, " TPI_ALIKE_SELF ", %d.0",
        n->k->n_nodes);
    for (int a = 0; a < n->l->rank; a++) {
        PUT(" * (double)");
        if (a == 0 && by_place(n))
            PUT("(o1 - o0)");
        else
            tpi_nest_put_size(n, n->l->size[a]);
    }
    PUT(", o0, o1, ");
    if (row >= 0)
        tpi_nest_put_size(n, n->k->shape[n->k->row]);
    else
        PUT("1");
    PUT(", %d, a);\n        return 0;\n    }\n", least);
}

static void put_memories(tpi_nest_text *n)
{
    for (int i = 0; i < n->l->n_mems; i++) {
        const tpi_loop_mem *m = &n->l->mem[i];
        if (m->row)
            continue;
        LINE("%stpk_%s *restrict v%d = p[", m->written ? "" : "const ",
             tp_dtype_name((tp_dtype)m->type), i);
        tpi_render_number(n->r, tpi_render_buffer(n->r, n->r->plan->values[m->node].buffer));
        PUT("];\n");
    }
}

/* ---- expressions --------------------------------------------------------------------------------------------- */

void tpi_nest_put_size(tpi_nest_text *n, int64_t size)
{
    const bool plain = !tpi_dim_is_symbolic(size);
    const int64_t factor = plain || !n->any_size ? 0 : tpi_dim_factor(n->l->dims, size);
    const int64_t rest = factor > 0 ? tpi_dim_div(n->l->dims, size, factor) : TPI_NO_DIM;
    if (plain && n->any_size) {
        tpi_render_number(n->r, size);
        return;
    }
    if (rest != TPI_NO_DIM) {
        PUT("(");
        tpi_render_number(n->r, factor);
        PUT(" * (");
        tpi_render_size(n->r, rest);
        PUT("))");
        return;
    }
    int symbol;
    const bool simple = plain || tpi_dim_as_symbol(n->l->dims, size, &symbol);
    PUT("%s", simple ? "" : "(");
    tpi_render_size(n->r, size);
    PUT("%s", simple ? "" : ")");
}

/* "40 + i0 * 8": where an element lies, by the axes up to `end`; `first` comes before it if it is not 0. */
static bool put_place(tpi_nest_text *n, const tpi_loop_at *at, int end, const char *first)
{
    bool any = at->offset != 0;
    if (any) {
        PUT("%s", first);
        tpi_nest_put_size(n, at->offset);
    }
    for (int a = 0; a < end; a++) {
        if (at->stride[a] == 0)
            continue;
        PUT("%si%d", any ? " + " : first, a);
        any = true;
        if (at->stride[a] != 1) {
            PUT(" * ");
            tpi_nest_put_size(n, at->stride[a]);
        }
    }
    return any;
}

static void put_memory_name(tpi_nest_text *n, int mem)
{
    PUT("%c%d", n->l->mem[mem].row ? 't' : 'v', mem);
}

/* "v3[i0 * 40 + i1]" */
static void put_element(tpi_nest_text *n, int address)
{
    const tpi_loop_at *at = &n->l->at[address];
    put_memory_name(n, at->mem);
    PUT("[");
    PUT("%s]", put_place(n, at, n->l->rank, "") ? "" : "0");
}

void tpi_nest_put_row(tpi_nest_text *n, int address)
{
    const tpi_loop_at *at = &n->l->at[address];
    put_memory_name(n, at->mem);
    put_place(n, at, n->l->kept, " + ");
}

static void put_constant(tpi_nest_text *n, const tpi_loop_stmt *s)
{
    tpi_render_constant(n->r, (tp_dtype)s->type, &s->size);
}

void tpi_nest_put_value(tpi_nest_text *n, int at)
{
    const tpi_loop_stmt *s = &n->l->stmt[at];
    switch ((tpi_loop_kind)s->kind) {
    case TPI_LOOP_LOAD:
        put_element(n, s->number);
        break;
    case TPI_LOOP_CONST:
        put_constant(n, s);
        break;
    case TPI_LOOP_COUNT:
        PUT("tpk_cast_i64_%s(", tpi_nest_type(s));
        tpi_nest_put_size(n, s->size);
        PUT(")");
        break;
    default:
        PUT("x%d", at);
    }
}

/* Of two floats, the one that is a number with which the op has a shorter function; -1: none. */
static int bound_of(const tpi_nest_text *n, const tpi_loop_stmt *s)
{
    int found = -1;
    for (int o = 0; o < 2 && s->op->bound && s->type >= TP_F32; o++) {
        const tpi_loop_stmt *c = &n->l->stmt[s->in[o]];
        if (c->kind != TPI_LOOP_CONST)
            continue;
        const double b = tpi_load_f64((tp_dtype)c->type, &c->size);
        const bool wrong_zero = b == 0 && !signbit(b) == !signbit(s->op->no_bound);
        if (!isnan(b) && !wrong_zero)
            found = o;
    }
    return found;
}

/* Of x - max x, as e^(x - max x), which is at most 0 or NaN. */
static bool is_down(const tpi_nest_text *n, const tpi_loop_stmt *s)
{
    const tpi_loop_stmt *stmt = n->l->stmt;
    const tpi_loop_stmt *x = s->op->down && s->type == TP_F32 ? &stmt[s->in[0]] : NULL;
    const tpi_loop_stmt *most =
        x && x->kind == TPI_LOOP_OP && x->op == &tpi_op_sub ? &stmt[x->in[1]] : NULL;
    return most && most->kind == TPI_LOOP_FOLD && most->fold == TPI_REDUCE_MAX &&
           stmt[most->in[0]].node && stmt[most->in[0]].node == stmt[x->in[0]].node;
}

static bool by_row(const tpi_loop_stmt *s)
{
    return s->kind == TPI_LOOP_OP && s->op->by_row && s->type == TP_F32;
}

static void put_name(tpi_nest_text *n, const tpi_loop_stmt *s, int bound)
{
    const char *from = tpi_nest_type(&n->l->stmt[s->in[s->op->call_dtype]]);
    if (tpi_retypes(s->op))
        PUT("tpk_cast_%s_%s(", from, tpi_nest_type(s));
    else if (bound >= 0)
        PUT("tpk_%s_%s(", s->op->bound, from);
    else
        PUT("tpk_%s%s_%s(", s->op->name, is_down(n, s) ? "_down" : "", from);
}

static void put_row(tpi_nest_text *n, int at);

void tpi_nest_put_op(tpi_nest_text *n, int at)
{
    const tpi_loop_stmt *s = &n->l->stmt[at];
    if (n->strip.to && by_row(s)) {
        put_row(n, at);
        return;
    }
    const int bound = bound_of(n, s);
    if (s->node)
        tpi_render_place(n->r, s->node);
    LINE("const tpk_%s x%d = ", tpi_nest_type(s), at);
    put_name(n, s, bound);
    for (int o = 0; o < 3 && s->in[o] >= 0; o++) {
        PUT("%s", o ? ", " : "");
        tpi_nest_put_value(n, s->in[bound == 0 ? 1 - o : o]);
    }
    PUT(");\n");
}

void tpi_nest_put_store(tpi_nest_text *n, int at)
{
    const tpi_loop_stmt *s = &n->l->stmt[at];
    if (s->node)
        tpi_render_place(n->r, s->node);
    LINE("%s", "");
    put_element(n, s->number);
    PUT(" = ");
    tpi_nest_put_value(n, s->in[0]);
    PUT(";\n");
}

const char *tpi_nest_called(const tpi_nest_text *n, const tpi_loop_stmt *s)
{
    return s->type >= TP_F32 ? n->r->called : "tpk_";
}

bool tpi_nest_uses(const tpi_nest_text *n, int from, int to, int axis)
{
    bool uses = false;
    for (int i = from; i < to; i++) {
        const tpi_loop_stmt *s = &n->l->stmt[i];
        uses |= (s->kind == TPI_LOOP_LOAD || s->kind == TPI_LOOP_STORE) &&
                n->l->at[s->number].stride[axis] != 0;
    }
    return uses;
}

/* ---- loops --------------------------------------------------------------------------------------------------- */

static void put_begin(tpi_nest_text *n, int axis)
{
    PUT("%s", axis == n->box.row ? "r0" : axis == n->outer ? "o0" : "0");
}

static void put_end(tpi_nest_text *n, int axis)
{
    if (axis == n->box.row || axis == n->outer)
        PUT("%s", axis == n->box.row ? "r1" : "o1");
    else
        tpi_nest_put_size(n, n->l->size[axis]);
}

void tpi_nest_open(tpi_nest_text *n, int axis)
{
    LINE("for (int64_t i%d = ", axis);
    put_begin(n, axis);
    PUT("; i%d < ", axis);
    put_end(n, axis);
    PUT("; i%d++) {\n", axis);
    n->depth++;
}

void tpi_nest_independent(tpi_nest_text *n)
{
    LINE("TPK_INDEPENDENT\n");
}

void tpi_nest_open_places(tpi_nest_text *n)
{
    LINE("for (int64_t o = o0; o < o1; o++) {\n");
    n->depth++;
    for (int a = 0; a < n->box.n_outer; a++) {
        if (!tpi_nest_uses(n, 0, n->l->n_stmts, a))
            continue;
        LINE("const int64_t i%d = o", a);
        for (int b = a + 1; b < n->box.n_outer; b++) {
            PUT(" / ");
            tpi_nest_put_size(n, n->l->size[b]);
        }
        if (a > 0) {
            PUT(" %% ");
            tpi_nest_put_size(n, n->l->size[a]);
        }
        PUT(";\n");
    }
}

void tpi_nest_close(tpi_nest_text *n)
{
    n->depth--;
    LINE("}\n");
}

/* ---- strips --------------------------------------------------------------------------------------------------- */

bool tpi_nest_by_rows(const tpi_nest_text *n, int from, int to)
{
    bool any = false;
    for (int i = from; i < to; i++)
        any |= by_row(&n->l->stmt[i]);
    return any;
}

/* Is x a value of the loop? Of columns folds are. */
static bool is_made(const tpi_nest_text *n, int x)
{
    const tpi_loop_stmt *s = &n->l->stmt[x];
    return (s->kind == TPI_LOOP_OP && x >= n->strip.from) ||
           (s->kind == TPI_LOOP_FOLD && s->order == TPI_ORDER_blocks);
}

/* By a statement from `from` on up to `to`. */
static bool is_read(const tpi_nest_text *n, int x, int from, int to)
{
    bool is = false;
    for (int i = from; i < to; i++)
        for (int o = 0; o < 3; o++)
            is |= n->l->stmt[i].in[o] == x;
    return is;
}

/* Has x an array? What a function of rows takes and gives has, and what was made before and is read behind it. */
static bool has_array(const tpi_nest_text *n, int x)
{
    bool has = false;
    for (int i = n->strip.from; i < n->strip.to; i++) {
        const tpi_loop_stmt *s = &n->l->stmt[i];
        has |= by_row(s) && (x == i || s->in[0] == x || s->in[1] == x ||
                             (x < i && is_made(n, x) && is_read(n, x, i + 1, n->strip.to)));
    }
    return has;
}

/* The function of rows from `from` on, or the end. */
static int next_row(const tpi_nest_text *n, int from)
{
    while (from < n->strip.to && !by_row(&n->l->stmt[from]))
        from++;
    return from;
}

/* Does the open loop address memory by the axis, for its statements or for what the function of rows behind it takes? */
static bool loop_uses(const tpi_nest_text *n, int axis)
{
    const int end = next_row(n, n->strip.part), last = end < n->strip.to ? end + 1 : end;
    bool uses = false;
    for (int x = n->strip.from; x < last; x++) {
        const tpi_loop_stmt *s = &n->l->stmt[x];
        const bool reads = s->kind == TPI_LOOP_LOAD && is_read(n, x, n->strip.part, last);
        const bool writes = s->kind == TPI_LOOP_STORE && x >= n->strip.part;
        uses |= (reads || writes) && n->l->at[s->number].stride[axis] != 0;
    }
    return uses;
}

static void put_loop(tpi_nest_text *n)
{
    const tpi_nest_strip *s = &n->strip;
    tpi_nest_independent(n);
    LINE("for (int64_t j = 0; j < m; j++) {\n");
    n->depth++;
    if (s->axis >= 0 && loop_uses(n, s->axis))
        LINE("const int64_t i%d = base + j;\n", s->axis);
}

void tpi_nest_open_strip(tpi_nest_text *n, int axis, int from, int to, int most)
{
    n->strip = (tpi_nest_strip){.axis = axis, .from = from, .to = to, .part = from};
    for (int x = 0; x < to; x++)
        if (has_array(n, x))
            LINE("tpk_%s h%d[%d];\n", tpi_nest_type(&n->l->stmt[x]), x, most);
    put_loop(n);
}

void tpi_nest_close_strip(tpi_nest_text *n)
{
    n->strip.to = 0;
    tpi_nest_close(n);
}

static void put_kept(tpi_nest_text *n, int x)
{
    LINE("h%d[j] = ", x);
    tpi_nest_put_value(n, x);
    PUT(";\n");
}

/* A function of rows: its operands, and what else is read later, are kept; a loop goes on behind its call, with what it
 * reads up to the next one. */
static void put_row(tpi_nest_text *n, int at)
{
    const tpi_loop_stmt *s = &n->l->stmt[at];
    for (int x = 0; x < at; x++) {
        const bool first = n->strip.part == n->strip.from, own = is_made(n, x);
        if (own ? (first || x >= n->strip.part) && has_array(n, x)
                : s->in[0] == x || s->in[1] == x)
            put_kept(n, x);
    }
    tpi_nest_close(n);
    if (s->node)
        tpi_render_place(n->r, s->node);
    LINE("tpk_%s_row_f32(m, h%d, h%d, h%d);\n", s->op->name, at, s->in[0], s->in[1]);
    n->strip.part = at + 1;
    put_loop(n);
    for (int x = 0; x <= at; x++)
        if (is_made(n, x) && has_array(n, x) && is_read(n, x, at + 1, next_row(n, at + 1)))
            LINE("const tpk_%s x%d = h%d[j];\n", tpi_nest_type(&n->l->stmt[x]), x, x);
}

void tpi_nest_open_inner(tpi_nest_text *n, int axis, int from, int to)
{
    if (!tpi_nest_by_rows(n, from, to)) {
        tpi_nest_independent(n);
        tpi_nest_open(n, axis);
        return;
    }
    LINE("for (int64_t base = ");
    put_begin(n, axis);
    PUT(", m; base < ");
    put_end(n, axis);
    PUT("; base += m) {\n");
    n->depth++;
    LINE("m = ");
    put_end(n, axis);
    PUT(" - base < %d ? ", TPI_STRIP);
    put_end(n, axis);
    PUT(" - base : %d;\n", TPI_STRIP);
    tpi_nest_open_strip(n, axis, from, to, TPI_STRIP);
}

void tpi_nest_close_inner(tpi_nest_text *n)
{
    const bool strip = n->strip.to;
    n->strip.to = 0;
    tpi_nest_close(n);
    if (strip)
        tpi_nest_close(n);
}

/* ---- a nest -------------------------------------------------------------------------------------------------- */

void tpi_render_nest(tpi_render *r, int number)
{
    tpi_nest_text state, *n = &state;
    tpi_loop l;
    if (!begin(n, r, &r->plan->kernels[number], &l))
        return;
    const int fold = tpi_loop_first_fold(&l);
    const bool columns = fold >= 0 && l.stmt[fold].order == TPI_ORDER_blocks;
    for (int i = 0; i < l.n_stmts; i++)
        if (l.stmt[i].kind == TPI_LOOP_FOLD)
            r->texts |=
                1u << (l.stmt[i].type >= TP_F32 ? TPI_TEXT_reduce : TPI_TEXT_reduce_int);
    tpi_render_head(r, number);
    if (tpi_nest_has_box(n))
        put_box(n, columns || l.rank == 1 ? TPK_COLUMNS : 1);
    put_memories(n);
    if (columns)
        tpi_render_columns(n);
    else
        tpi_render_rows(n);
    PUT("    return 0;\n}\n");
}
