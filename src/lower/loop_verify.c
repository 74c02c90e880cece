/* The rules, each with its message; `test/lower/loop_rules.c` breaks them all, and looks here for what they are. */
#include "lower/loop_verify.h"

#include "base/strbuf.h"
#include "ir/check.h"

typedef struct verifier {
    tp_ctx *ctx;
    const tpi_loop *l;
    char *why;
    int end[TPI_LOOP_DEPTH], region[TPI_LOOP_DEPTH], n_open; /* the open regions */
    unsigned axes, own[TPI_LOOP_DEPTH]; /* open axes, and those of each region, as bits */
} verifier;

static bool bad(const verifier *v, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool bad(const verifier *v, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    tpi_vprint(v->why, TPI_LOOP_WHY, fmt, ap);
    va_end(ap);
    return false;
}

/* ---- regions ------------------------------------------------------------------------------------------------- */

static bool open_region(verifier *v, int i)
{
    const tpi_loop_stmt *s = &v->l->stmt[i];
    const int limit = v->n_open ? v->end[v->n_open - 1] : v->l->n_stmts;
    if (s->end <= i || s->end > limit || (i == 0 && s->end != v->l->n_stmts))
        return bad(v, "the region does not end in the one around it");
    if (v->n_open == TPI_LOOP_DEPTH)
        return bad(v, "regions are nested too deep");
    v->region[v->n_open] = i;
    v->own[v->n_open] = 0;
    v->end[v->n_open++] = s->end;
    return true;
}

static bool open_axis(verifier *v, int i)
{
    const tpi_loop_stmt *s = &v->l->stmt[i];
    if (v->l->stmt[i - 1].kind != TPI_LOOP_AXIS && v->l->stmt[i - 1].kind != TPI_LOOP_EACH)
        return bad(v, "an axis does not come first in its region");
    if (s->number < 0 || s->number >= v->l->rank)
        return bad(v, "there is no axis i%d", s->number);
    if ((v->axes >> s->number) & 1)
        return bad(v, "axis i%d is open already", s->number);
    if (s->size != v->l->size[s->number])
        return bad(v, "axis i%d has another size elsewhere", s->number);
    v->axes |= 1u << s->number;
    v->own[v->n_open - 1] |= 1u << s->number;
    return true;
}

static void close_regions(verifier *v, int i)
{
    while (v->n_open && v->end[v->n_open - 1] == i)
        v->axes &= ~v->own[--v->n_open];
}

/* ---- values -------------------------------------------------------------------------------------------------- */

/* The innermost region of statement x among those that are open now; -1: it is in one that has ended. */
static int open_region_of(const verifier *v, int x)
{
    int found = -1;
    for (int i = 1; i < x; i++) { /* regions that ended before now, with x in them */
        const tpi_loop_stmt *s = &v->l->stmt[i];
        bool open = false;
        for (int k = 0; k < v->n_open; k++)
            open |= v->region[k] == i;
        if (s->kind == TPI_LOOP_EACH && x < s->end && !open)
            return -1;
    }
    for (int k = 0; k < v->n_open; k++)
        found = v->region[k] < x ? v->region[k] : found;
    return found;
}

/* The region around statement x. */
static int region_of(const tpi_loop *l, int x)
{
    int found = 0;
    for (int i = 1; i < x; i++)
        if (l->stmt[i].kind == TPI_LOOP_EACH && x < l->stmt[i].end)
            found = i;
    return found;
}

static bool check_value(const verifier *v, int i, int x)
{
    const tpi_loop_stmt *s = x >= 0 && x < i ? &v->l->stmt[x] : NULL;
    if (!s || !tpi_loop_is_value(s))
        return bad(v, "x%d is no value that comes before it", x);
    if (s->kind == TPI_LOOP_FOLD && i < v->l->stmt[region_of(v->l, x)].end)
        return bad(v, "x%d is there when its region has ended", x);
    if (s->kind != TPI_LOOP_FOLD && open_region_of(v, x) < 0)
        return bad(v, "x%d is of a region that has ended", x);
    return true;
}

/* The operand of a store or a fold, which has its type. */
static bool check_own_value(const verifier *v, int i)
{
    const tpi_loop_stmt *s = &v->l->stmt[i];
    const int x = s->in[0];
    if (!check_value(v, i, x))
        return false;
    return v->l->stmt[x].type == s->type ||
           bad(v, "x%d is %s, not %s", x, tp_dtype_name((tp_dtype)v->l->stmt[x].type),
               tp_dtype_name((tp_dtype)s->type));
}

/* The types are those that the op's rule takes and gives, told of one element each. Its attribute is the type. */
static bool check_types(const verifier *v, const tpi_loop_stmt *s)
{
    const int64_t type = s->type;
    tp_tensor element[3], *in[3];
    tpi_rule_error why;
    for (int o = 0; o < s->op->n_in; o++) {
        element[o] = (tp_tensor){.ctx = v->ctx, .dtype = v->l->stmt[s->in[o]].type};
        in[o] = &element[o];
    }
    tpi_infer q = {.op = s->op, .ctx = v->ctx, .n_in = s->op->n_in, .in = in, .attrs = &type};
    const tp_status status = tpi_infer_again(&q, &why);
    if (status == TP_E_MEMORY) /* nothing is known of the program */
        return true;
    if (status != TP_OK)
        return bad(v, "by its rule, %s", why.text);
    return q.dtype == (tp_dtype)s->type ||
           bad(v, "its rule gives %s, not %s", tp_dtype_name(q.dtype),
               tp_dtype_name((tp_dtype)s->type));
}

static bool check_op(const verifier *v, int i)
{
    const tpi_loop_stmt *s = &v->l->stmt[i];
    int n = 0;
    while (n < 3 && s->in[n] >= 0)
        n++;
    if (!s->op || s->op->kind != TPI_ELEMENT || n != s->op->n_in)
        return bad(v, "it is no elementwise op of %d operands", n);
    for (int o = 0; o < n; o++)
        if (!check_value(v, i, s->in[o]))
            return false;
    return check_types(v, s);
}

/* ---- memory -------------------------------------------------------------------------------------------------- */

static bool check_address(const verifier *v, const tpi_loop_stmt *s)
{
    const tpi_loop *l = v->l;
    const tpi_loop_at *at = &l->at[s->number];
    if (l->mem[at->mem].type != s->type)
        return bad(v, "the memory is %s, not %s", tp_dtype_name((tp_dtype)l->mem[at->mem].type),
                   tp_dtype_name((tp_dtype)s->type));
    for (int a = 0; a < l->rank; a++)
        if (at->stride[a] != 0 && !((v->axes >> a) & 1))
            return bad(v, "axis i%d of the address is not open", a);
    return true;
}

/* Is the row of this memory declared before, in an open region? Then these axes are in its region. */
static bool find_row(const verifier *v, int i, int mem, unsigned *axes)
{
    for (int k = 0; k < v->n_open; k++) {
        const int end = k + 1 < v->n_open ? v->region[k + 1] : i;
        *axes = v->axes & ~v->own[0];
        for (int outer = 1; outer <= k; outer++)
            *axes &= ~v->own[outer];
        for (int x = v->region[k] + 1; x < end; x++) {
            const tpi_loop_stmt *s = &v->l->stmt[x];
            if (s->kind == TPI_LOOP_ROW && s->number == mem)
                return true;
            x = s->kind == TPI_LOOP_EACH ? s->end - 1 : x; /* its rows are gone */
        }
    }
    return false;
}

static bool is_written(const tpi_loop *l, int before, int mem)
{
    bool written = false;
    for (int i = 1; i < before && !written; i++)
        written = l->stmt[i].kind == TPI_LOOP_STORE && l->at[l->stmt[i].number].mem == mem;
    return written;
}

/* A row is written before it is read, by a statement that is done. What is written over is read where it is written. */
static bool check_load(const verifier *v, int i)
{
    const tpi_loop *l = v->l;
    const tpi_loop_stmt *s = &l->stmt[i];
    unsigned axes;
    if (!check_address(v, s))
        return false;
    const int mem = l->at[s->number].mem;
    if (l->mem[mem].row && !find_row(v, i, mem, &axes))
        return bad(v, "there is no row t%d here", mem);
    bool same = true;
    for (int x = 1; x < l->n_stmts; x++)
        if (l->stmt[x].kind == TPI_LOOP_STORE && l->at[l->stmt[x].number].mem == mem)
            same &= l->stmt[x].number == s->number;
    if (l->mem[mem].row && !is_written(l, i, mem))
        return bad(v, "row t%d was not written yet", mem);
    return same || bad(v, "it reads what another point may have written");
}

/* Of a stride that is a number, whatever its sign; 0: it is none. */
static int64_t step_of(const tpi_loop_at *at, int a)
{
    const int64_t stride = at->stride[a];
    if (tpi_dim_is_symbolic(stride))
        return 0;
    return stride >= 0 ? stride : stride == INT64_MIN ? INT64_MAX : -stride;
}

/* Do smaller strides together reach as far as that of axis a? */
static bool smaller_reach(const tpi_loop *l, const tpi_loop_at *at, int a)
{
    const int64_t step = step_of(at, a);
    int64_t reach = 0, more;
    for (int k = 0; k < l->rank; k++) {
        const int64_t other = step_of(at, k);
        if (k == a || other == 0 || other > step || (other == step && k > a) ||
            tpi_dim_is_symbolic(l->size[k]))
            continue;
        if (__builtin_mul_overflow(other, l->size[k] - 1, &more) ||
            __builtin_add_overflow(reach, more, &reach))
            return true;
    }
    return step > 0 && reach >= step;
}

/* Each point of the axes that are open writes an element of its own, once: strides are not 0, and where they are
 * numbers, a larger one goes over all that the smaller ones reach. */
static bool check_store(const verifier *v, int i)
{
    const tpi_loop *l = v->l;
    const tpi_loop_stmt *s = &l->stmt[i];
    unsigned axes = v->axes;
    if (!check_own_value(v, i) || !check_address(v, s))
        return false;
    const tpi_loop_at *at = &l->at[s->number];
    if (!l->mem[at->mem].written && !l->mem[at->mem].row)
        return bad(v, "v%d is not to be written", at->mem);
    if (is_written(l, i, at->mem))
        return bad(v, "the memory is written already");
    if (l->mem[at->mem].row && !find_row(v, i, at->mem, &axes))
        return bad(v, "there is no row t%d here", at->mem);
    for (int a = 0; a < l->rank; a++)
        if (((axes >> a) & 1) && l->size[a] == 0) /* nothing is written */
            return true;
    for (int a = 0; a < l->rank; a++) {
        if (!((axes >> a) & 1) || l->size[a] == 1)
            continue;
        if (at->stride[a] == 0)
            return bad(v, "points along i%d write one element", a);
        if (smaller_reach(l, at, a))
            return bad(v, "points along i%d write what others write", a);
    }
    return true;
}

static bool check_row(const verifier *v, const tpi_loop_stmt *s)
{
    if (s->number < 0 || s->number >= v->l->n_mems || !v->l->mem[s->number].row)
        return bad(v, "t%d is no row", s->number);
    return s->type == v->l->mem[s->number].type ||
           bad(v, "t%d has another type elsewhere", s->number);
}

static bool check_fold(const verifier *v, int i)
{
    const tpi_loop_stmt *s = &v->l->stmt[i];
    if (v->n_open < 2)
        return bad(v, "a fold is of an inner region");
    if (s->fold >= TPI_N_REDUCES || s->order >= TPI_N_ORDERS)
        return bad(v, "there is no such fold or order");
    if (s->order != v->l->stmt[tpi_loop_first_fold(v->l)].order)
        return bad(v, "the folds of a program have one order");
    return check_own_value(v, i);
}

static bool check(verifier *v, int i)
{
    const tpi_loop_stmt *s = &v->l->stmt[i];
    switch ((tpi_loop_kind)s->kind) {
    case TPI_LOOP_EACH:
        return open_region(v, i);
    case TPI_LOOP_AXIS:
        return open_axis(v, i);
    case TPI_LOOP_ROW:
        return check_row(v, s);
    case TPI_LOOP_LOAD:
        return check_load(v, i);
    case TPI_LOOP_STORE:
        return check_store(v, i);
    case TPI_LOOP_OP:
        return check_op(v, i);
    case TPI_LOOP_FOLD:
        return check_fold(v, i);
    case TPI_LOOP_CONST:
    case TPI_LOOP_COUNT:
        return true;
    case TPI_LOOP_KINDS:
        break;
    }
    return bad(v, "there is no such statement");
}

/* Loads look at stores behind them, so all addresses are looked at first. */
static int first_without_address(const tpi_loop *l)
{
    for (int i = 0; i < l->n_stmts; i++) {
        const tpi_loop_stmt *s = &l->stmt[i];
        const bool has = s->kind == TPI_LOOP_LOAD || s->kind == TPI_LOOP_STORE;
        if (has && (s->number < 0 || s->number >= l->n_ats || l->at[s->number].mem < 0 ||
                    l->at[s->number].mem >= l->n_mems))
            return i;
    }
    return -1;
}

int tpi_loop_verify(tp_ctx *ctx, const tpi_loop *l, char why[TPI_LOOP_WHY])
{
    verifier v = {.ctx = ctx, .l = l, .why = why};
    const int lost = first_without_address(l);
    if (lost >= 0 || l->n_stmts == 0 || l->stmt[0].kind != TPI_LOOP_EACH) {
        bad(&v, lost >= 0 ? "there is no such address" : "a program begins with a region");
        return lost >= 0 ? lost : 0;
    }
    for (int i = 0; i < l->n_stmts; i++) { /* the outermost region, 0, ends behind them all */
        close_regions(&v, i);
        if (!check(&v, i))
            return i;
    }
    return -1;
}
