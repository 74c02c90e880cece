/* Which sizes a file that stands alone takes: every size that its ops form from them is one, and no
 * sum on the way passes 2^62. What an op needs beyond that (a slice that lies within) its shape
 * rule tells by the differences that it forms. */
#include "render/render.h"
#include "render/standalone/standalone_def.h"

enum { MOST_PARTS = 256 };

/* A part of an expression, and a bound of all sums in it as a double: what is subtracted counts for
 * nothing. */
typedef struct part {
    tpi_str exact, most;
} part;

typedef struct checking {
    tpi_alone *a;
    tpi_str *out;
    part parts[MOST_PARTS];
    int n_parts;
    bool failed, too_long;
    int64_t *done; /* sizes that are checked */
    int n_done, done_size;
    const tp_tensor *node; /* for which they are */
    const tpi_plan *plan;  /* of it */
    int equation;          /* for which they are, by number; -1: for the node */
} checking;

/* ---- expressions --------------------------------------------------------------------------------- */

static int new_part(checking *c)
{
    if (c->n_parts == MOST_PARTS) {
        c->failed = c->too_long = true;
        return MOST_PARTS - 1;
    }
    tpi_mem *m = &c->a->ctx->mem;
    c->parts[c->n_parts] = (part){TPI_STR(m), TPI_STR(m)};
    return c->n_parts++;
}

static const char *text_of(const tpi_str *s)
{
    return s->text ? s->text : "";
}

static int part_number(void *user, int64_t n)
{
    checking *c = user;
    const int i = new_part(c);
    tpi_str_printf(&c->parts[i].exact, "%lld", (long long)n);
    tpi_str_printf(&c->parts[i].most, "%lld.0", (long long)n);
    return i;
}

static int part_symbol(void *user, int symbol)
{
    checking *c = user;
    const int i = new_part(c);
    tpi_str_printf(&c->parts[i].exact, "s%d", symbol);
    tpi_str_printf(&c->parts[i].most, "d%d", symbol);
    return i;
}

/* The op that computes a node, or of a view the first one that reads it; -1: none. */
static int op_of(const tpi_plan *plan, int node)
{
    int kernel = plan->values[node].kernel;
    for (int i = node + 1; i < plan->n_values && kernel < 0; i++) {
        const tp_tensor *t = plan->values[i].node;
        for (int k = 0; t->op->kind == TPI_VIEW && k < t->n_in && kernel < 0; k++)
            if (t->in[k]->index == node)
                kernel = op_of(plan, i);
        for (int k = 0; t->op->kind != TPI_SOURCE && k < t->n_in && kernel < 0; k++)
            if (t->in[k]->index == node && plan->values[i].kernel >= 0)
                kernel = plan->values[i].kernel;
    }
    return kernel;
}

static void put_refusal(checking *c)
{
    if (c->equation >= 0) {
        tpi_str_printf(c->out, "        return %d; /* sizes that have to be equal */\n",
                       2 + c->equation);
        return;
    }
    const int op = op_of(c->plan, c->node->index);
    if (op >= 0)
        c->a->refuses[c->plan->first_kernel + op] = true;
    tpi_str_printf(c->out, "        return %d; /* %s",
                   op < 0 ? 1 : 2 + c->plan->first_kernel + op, c->node->op->name);
    tpi_render_at(c->out, c->node);
    tpi_str_put(c->out, " */\n");
}

static int part_apply(void *user, char op, int x, int y)
{
    checking *c = user;
    const int i = new_part(c);
    part *p = &c->parts[i], *left = &c->parts[x], *right = &c->parts[y];
    const char *a = text_of(&left->most), *b = text_of(&right->most);
    if (op == '<')
        tpi_str_printf(&p->exact, "TPK_LEAST(%s, %s)", text_of(&left->exact),
                       text_of(&right->exact));
    else
        tpi_str_printf(&p->exact, "(%s %c %s)", text_of(&left->exact), op,
                       text_of(&right->exact));
    if (op == '-' || op == '/')
        tpi_str_put(&p->most, a);
    else if (op == '<')
        tpi_str_printf(&p->most, "TPK_LEAST(%s, %s)", a, b);
    else
        tpi_str_printf(&p->most, "(%s %c %s)", a, op, b);
    if (op == '/' || op == '<') { /* rounds down, and so does C where nothing is negative */
        tpi_str_printf(c->out, "    if (%s > most || %s > most || %s < 0 || %s < %d)\n", a, b,
                       text_of(&left->exact), text_of(&right->exact), op == '/');
        put_refusal(c);
    }
    return i;
}

static int build_part(checking *c, int64_t size)
{
    static const tpi_dim_steps steps = {part_number, part_symbol, part_apply};
    return tpi_dim_is_symbolic(size) ? tpi_dim_build(c->a->dims, size, &steps, c)
                                     : part_number(c, size);
}

static void drop_parts(checking *c)
{
    while (c->n_parts > 0) {
        c->n_parts--;
        c->failed |= c->parts[c->n_parts].exact.failed || c->parts[c->n_parts].most.failed;
        tpi_str_free(&c->parts[c->n_parts].exact);
        tpi_str_free(&c->parts[c->n_parts].most);
    }
}

static void check(checking *c, int64_t size)
{
    if (!tpi_dim_is_symbolic(size) || c->failed)
        return;
    for (int i = 0; i < c->n_done; i++)
        if (c->done[i] == size)
            return;
    int64_t *v = tpi_bump_grow(&c->a->memory, c->done, c->n_done, &c->done_size, sizeof *v);
    c->failed = !v;
    if (!v)
        return;
    c->done = v;
    c->done[c->n_done++] = size;
    const part *p = &c->parts[build_part(c, size)];
    tpi_str_printf(c->out, "    if (%s > most || %s < 0)\n", text_of(&p->most),
                   text_of(&p->exact));
    put_refusal(c);
    drop_parts(c);
}

/* ---- nodes ----------------------------------------------------------------------------------------- */

static int is_late_symbol(void *user, int i)
{
    return ((const checking *)user)->a->symbols[i].late;
}

/* Does it depend on a number of turns? Then only memory counts. */
static bool is_late(checking *c, int64_t size)
{
    return tpi_dim_ask(c->a->dims, size, is_late_symbol, c);
}

static void note(void *user, int64_t size)
{
    checking *c = user;
    if (!is_late(c, size))
        check(c, size);
}

/* What the op's rule subtracts is not negative, as it sees to itself where sizes are numbers. */
static void check_rule(checking *c)
{
    const tp_tensor *t = c->node;
    const bool rule = t->op->kind != TPI_SOURCE && t->op->kind != TPI_BLOCK &&
                      t->op->kind != TPI_PORT && t->op->infer;
    if (!rule)
        return;
    tpi_infer q = {.op = t->op,
                   .at = TPI_AT(t->file, t->line),
                   .ctx = c->a->ctx,
                   .dims = c->a->dims,
                   .n_in = t->n_in,
                   .in = t->in,
                   .attrs = t->attrs};
    tpi_dim_watch(c->a->dims, note, c);
    c->failed |= !t->op->infer(&q);
    tpi_dim_watch(c->a->dims, NULL, NULL);
}

static void check_node(checking *c)
{
    const tp_tensor *t = c->node;
    int64_t bytes = (int64_t)tp_dtype_size((tp_dtype)t->dtype);
    for (int i = 0; i < t->rank; i++) {
        bytes = tpi_dim_mul(c->a->dims, bytes, t->shape[i]);
        if (!is_late(c, t->shape[i]))
            check(c, t->shape[i]);
    }
    c->failed |= bytes == TPI_NO_DIM;
    check(c, bytes);
    for (const tpi_attr *attr = t->op->attrs; attr && attr->name; attr++) {
        const int64_t *v =
            (const int64_t *)(const void *)((const char *)t->attrs + attr->offset);
        const int64_t n = attr->type == TPI_ATTR_DIMS ? *v++ : attr->type == TPI_ATTR_DIM;
        for (int64_t k = 0; k < n; k++)
            if (!is_late(c, v[k]))
                check(c, v[k]);
    }
    check_rule(c);
}

static void check_plan(checking *c, const tpi_plan *plan)
{
    for (int i = 0; i < plan->n_values && !c->failed; i++) {
        const tpi_section *s = plan->sections ? plan->sections[i] : NULL;
        c->node = plan->values[i].node;
        c->plan = plan;
        check_node(c);
        for (int k = 0; s && k < s->n_bodies; k++)
            check_plan(c, s->plan[k]);
    }
}

/* ---- equations ------------------------------------------------------------------------------------- */

static int is_unknown_symbol(void *user, int i)
{
    const tpi_alone *a = user;
    return !a->symbols[i].used || a->symbols[i].late;
}

/* Are all symbols of the size told by the caller? */
static bool is_known(const tpi_alone *a, int64_t size)
{
    return !tpi_dim_ask(a->dims, size, is_unknown_symbol, (void *)a);
}

void tpi_alone_equations(const tpi_alone *a, const tpi_plan *plan, int *number,
                         void (*each)(void *user, int number, const tpi_equation *e),
                         void *user)
{
    const tp_graph *g = plan->graph;
    for (int i = 0; i < g->n_equations; i++, (*number)++)
        if (is_known(a, g->equations[i].a) && is_known(a, g->equations[i].b))
            each(user, *number, &g->equations[i]);
    for (int i = 0; i < plan->n_values; i++) {
        const tpi_section *s = plan->sections ? plan->sections[i] : NULL;
        for (int k = 0; s && k < s->n_bodies; k++)
            tpi_alone_equations(a, s->plan[k], number, each, user);
    }
}

static void put_equation(void *user, int number, const tpi_equation *e)
{
    checking *c = user;
    if (c->failed)
        return;
    c->equation = number;
    const part *a = &c->parts[build_part(c, e->a)], *b = &c->parts[build_part(c, e->b)];
    tpi_str_printf(c->out, "    if (%s > most || %s > most || %s != %s)\n", text_of(&a->most),
                   text_of(&b->most), text_of(&a->exact), text_of(&b->exact));
    put_refusal(c);
    drop_parts(c);
    c->equation = -1;
}

bool tpi_alone_sizes(tpi_alone *a, tpi_str *out)
{
    checking *c = tpi_bump_take(&a->memory, 1, sizeof *c);
    if (!c)
        return false;
    *c = (checking){.a = a, .out = out, .equation = -1};
    int number = a->plan->all_kernels;
    tpi_str_put(out, "\n/* 0: the program takes these sizes. 1: a size is none; 2 + op: one "
                     "that an op forms. */\n"
                     "static int64_t misfit(const int64_t *s)\n{\n"
                     "    const double most = 4611686018427387904.0; /* 2^62 */\n"
                     "    (void)most;\n");
    for (int i = 0; i < a->n_symbols; i++)
        tpi_str_printf(out,
                       "    const int64_t s%d = s[%d];\n"
                       "    const double d%d = (double)s%d;\n    (void)d%d;\n",
                       i, i, i, i, i);
    for (int i = 0; i < a->n_symbols; i++)
        tpi_str_printf(out, "    if (s%d < 0 || s%d > (int64_t)1 << 40)\n        return 1;\n",
                       i, i);
    tpi_alone_equations(a, a->plan, &number, put_equation, c);
    check_plan(c, a->plan);
    tpi_str_put(out, "    return 0;\n}\n");
    if (c->too_long)
        tpi_fail_status(a->ctx, TPI_AT(c->node->file, c->node->line), c->node->op->name,
                        TP_E_SHAPE, "a size it needs is too long an expression");
    drop_parts(c);
    return !c->failed;
}
