/* Where the buffers of a file that stands alone lie, as formulas of its sizes.
 *
 * Which of two buffers that live at the same time lies below the other is settled here, at sizes
 * taken as an example; then each lies above the highest end of those below it, whatever the sizes
 * are. Where no size is a symbol all of it is numbers. */
#include "codegen/standalone_def.h"

#include <stdio.h>
#include <string.h>

/* A number, or the value of a C variable named by a letter and a number. */
typedef struct amount {
    bool known;
    int64_t value; /* if not known: at the example */
    int number;    /* of the variable, of a total */
} amount;

typedef struct placing {
    tpi_alone *a;
    tpi_str *out;
    amount *size, *offset; /* by buffer of the program */
    int64_t *example;      /* the symbols' values */
    int n_totals;
    bool failed;
} placing;

static int64_t up(int64_t bytes)
{
    return (bytes + 63) & ~(int64_t)63;
}

static void put_amount(tpi_str *out, const amount *v, char letter, int number)
{
    if (v->known)
        tpi_str_printf(out, "%lld", (long long)v->value);
    else
        tpi_str_printf(out, "%c%d", letter, number);
}

/* ---- sizes ----------------------------------------------------------------------------------------- */

static bool size_like(placing *p, const tp_tensor *t, int number)
{
    tpi_dims *dims = p->a->dims;
    amount *v = &p->size[number];
    int64_t bytes = (int64_t)tp_dtype_size((tp_dtype)t->dtype);
    for (int i = 0; i < t->rank; i++)
        bytes = tpi_dim_mul(dims, bytes, t->shape[i]);
    if (bytes == TPI_NO_DIM)
        return false;
    v->known = !tpi_dim_is_symbolic(bytes);
    v->value = up(v->known ? bytes : tpi_dim_eval(dims, bytes, p->example));
    if (v->known)
        return true;
    tpi_str_printf(p->out, "    const int64_t b%d = up(", number);
    tpi_dim_print_c(dims, bytes, "s", p->out);
    tpi_str_put(p->out, ");\n");
    return v->value >= 0;
}

static amount place_plan(placing *p, const tpi_plan *plan);

/* The bodies of a cond have one place. */
static void size_section(placing *p, const tpi_section *s, int number)
{
    amount total[2] = {{.known = true}, {.known = true}}, *v = &p->size[number];
    for (int k = 0; k < s->n_bodies; k++)
        total[k] = place_plan(p, s->plan[k]);
    v->known = total[0].known && total[1].known;
    v->value = total[0].value > total[1].value ? total[0].value : total[1].value;
    if (v->known)
        return;
    tpi_str_printf(p->out, "    const int64_t b%d = most(", number);
    put_amount(p->out, &total[0], 't', total[0].number);
    tpi_str_put(p->out, ", ");
    put_amount(p->out, &total[1], 't', total[1].number);
    tpi_str_put(p->out, ");\n");
}

/* ---- places ---------------------------------------------------------------------------------------- */

/* Buffers of one plan by their offsets at the example. below[] has a row of `words` words for each
 * of them: those that lie below it, also by way of others. */
typedef struct stack {
    placing *p;
    const tpi_plan *plan;
    int n, words;
    int *order; /* numbers in the plan */
    uint64_t *below;
} stack;

static bool live_together(const tpi_buffer *x, const tpi_buffer *y)
{
    return x->first <= y->last && y->first <= x->last;
}

static bool is_below(const stack *s, int at, int i)
{
    return s->below[(size_t)at * (size_t)s->words + (size_t)(i / 64)] >> (i % 64) & 1;
}

/* `variable` is at least the end of buffer `number`. */
static void put_above(const placing *p, const char *variable, int number)
{
    tpi_str_printf(p->out, "    %s = most(%s, ", variable, variable);
    put_amount(p->out, &p->offset[number], 'o', number);
    tpi_str_put(p->out, " + ");
    put_amount(p->out, &p->size[number], 'b', number);
    tpi_str_put(p->out, ");\n");
}

/* The buffer at `at` in the order lies above all that live with it and come before it. Nearest ones
 * first: what lies below these need not be looked at. */
static void put_offset(stack *s, int at)
{
    const tpi_plan *plan = s->plan;
    const placing *p = s->p;
    const int number = plan->first_buffer + s->order[at];
    uint64_t *mine = s->below + (size_t)at * (size_t)s->words;
    amount *offset = &p->offset[number];
    char variable[32];
    snprintf(variable, sizeof variable, "o%d", number);
    *offset = (amount){.known = true};
    for (int i = at - 1; i >= 0; i--) {
        const int other = plan->first_buffer + s->order[i];
        const amount *from = &p->offset[other], *size = &p->size[other];
        if (is_below(s, at, i) ||
            !live_together(&plan->buffers[s->order[at]], &plan->buffers[s->order[i]]))
            continue;
        mine[i / 64] |= (uint64_t)1 << (i % 64);
        for (int w = 0; w < s->words; w++)
            mine[w] |= s->below[(size_t)i * (size_t)s->words + (size_t)w];
        if (from->known && size->known && offset->known) {
            offset->value = from->value + size->value > offset->value
                                ? from->value + size->value
                                : offset->value;
            continue;
        }
        if (offset->known)
            tpi_str_printf(p->out, "    int64_t %s = %lld;\n", variable,
                           (long long)offset->value);
        offset->known = false;
        put_above(p, variable, other);
    }
}

/* Where the highest one ends. */
static amount put_total(const stack *s)
{
    amount total = {.known = true, .number = s->p->n_totals++};
    char variable[32];
    snprintf(variable, sizeof variable, "t%d", total.number);
    for (int i = 0; i < s->n; i++) {
        const int number = s->plan->first_buffer + s->order[i];
        const amount *from = &s->p->offset[number], *size = &s->p->size[number];
        bool covered = false;
        for (int k = i + 1; k < s->n && !covered; k++)
            covered = is_below(s, k, i);
        if (covered)
            continue;
        if (from->known && size->known && total.known) {
            total.value = from->value + size->value > total.value ? from->value + size->value
                                                                  : total.value;
            continue;
        }
        if (total.known)
            tpi_str_printf(s->p->out, "    int64_t %s = %lld;\n", variable,
                           (long long)total.value);
        total.known = false;
        put_above(s->p, variable, number);
    }
    return total;
}

static void sort_by_offset(int n, int *order, const int64_t *offset)
{
    for (int i = 1; i < n; i++) { /* nearly in order: there are few in one arena at one place */
        const int v = order[i];
        int k = i;
        for (; k > 0 && offset[order[k - 1]] > offset[v]; k--)
            order[k] = order[k - 1];
        order[k] = v;
    }
}

/* At the example the plan's own placement says who is below whom. */
static amount place_by_formula(placing *p, const tpi_plan *plan, const int64_t *offset)
{
    tpi_mem *m = &p->a->ctx->mem;
    stack s = {.p = p, .plan = plan};
    amount total = {.known = true};
    s.order = tpi_take(m, (size_t)plan->n_buffers * sizeof *s.order);
    for (int i = 0; i < plan->n_buffers && s.order; i++)
        if (plan->buffers[i].place == TPI_AT_ARENA)
            s.order[s.n++] = i;
    s.words = (s.n + 63) / 64;
    const size_t bytes = (size_t)s.n * (size_t)s.words * sizeof *s.below;
    s.below = tpi_take(m, bytes);
    if (s.order && s.below) {
        memset(s.below, 0, bytes);
        sort_by_offset(s.n, s.order, offset);
        for (int i = 0; i < s.n; i++)
            put_offset(&s, i);
        total = put_total(&s);
    } else {
        p->failed = true;
    }
    tpi_give_back(m, s.below, bytes);
    tpi_give_back(m, s.order, (size_t)plan->n_buffers * sizeof *s.order);
    return total;
}

static amount place_plan(placing *p, const tpi_plan *plan)
{
    tpi_mem *m = &p->a->ctx->mem;
    const size_t bytes = (size_t)plan->n_buffers * sizeof(int64_t);
    int64_t *size = tpi_take(m, bytes), *offset = tpi_take(m, bytes);
    amount total = {.known = true};
    bool known = true;
    p->failed |= !size || !offset;
    for (int i = 0; i < plan->n_buffers && !p->failed; i++) {
        const tpi_buffer *b = &plan->buffers[i];
        const int number = plan->first_buffer + i;
        size[i] = 0;
        if (b->place != TPI_AT_ARENA)
            continue;
        if (b->section)
            size_section(p, b->section, number);
        else
            p->failed |= !size_like(p, b->like, number);
        size[i] = p->size[number].value;
        known &= p->size[number].known;
    }
    if (!p->failed) {
        total.value = tpi_place_buffers(m, plan->n_buffers, plan->buffers, size, offset);
        p->failed = total.value < 0;
    }
    if (!p->failed) {
        for (int i = 0; i < plan->n_buffers; i++)
            p->offset[plan->first_buffer + i] = (amount){.known = known, .value = offset[i]};
        if (!known)
            total = place_by_formula(p, plan, offset);
    }
    tpi_give_back(m, size, bytes);
    tpi_give_back(m, offset, bytes);
    return total;
}

/* ---- pointers -------------------------------------------------------------------------------------- */

/* Those of a plan whose arena begins at base + `known` + `rest` ("o3 + o5 + "). */
static void put_pointers(const placing *p, const tpi_plan *plan, int64_t known,
                         const char *rest)
{
    for (int i = 0; i < plan->n_buffers; i++) {
        const tpi_buffer *b = &plan->buffers[i];
        const int number = plan->first_buffer + i;
        const amount *at = &p->offset[number];
        if (b->place != TPI_AT_ARENA)
            continue;
        const int64_t sum = known + (at->known ? at->value : 0);
        tpi_str more = TPI_STR(&p->a->ctx->mem);
        tpi_str_put(&more, rest);
        if (!at->known)
            tpi_str_printf(&more, "o%d + ", number);
        const char *text = more.text ? more.text : "";
        tpi_str_printf(p->out, "    p[%d] = base + %s%lld;\n", number, text, (long long)sum);
        for (int k = 0; b->section && k < b->section->n_bodies; k++)
            put_pointers(p, b->section->plan[k], sum, text);
        tpi_str_free(&more);
    }
}

/* ---- the example -------------------------------------------------------------------------------------- */

static bool is_sized(const placing *p, const tpi_plan *plan)
{
    bool ok = true;
    for (int i = 0; i < plan->n_buffers && ok; i++) {
        const tpi_buffer *b = &plan->buffers[i];
        int64_t bytes = 8;
        for (int k = 0; b->like && k < b->like->rank; k++)
            bytes = tpi_dim_mul(p->a->dims, bytes, b->like->shape[k]);
        ok = !tpi_dim_is_symbolic(bytes) ||
             tpi_dim_eval(p->a->dims, bytes, p->example) != TPI_NO_DIM;
        for (int k = 0; b->section && k < b->section->n_bodies && ok; k++)
            ok = is_sized(p, b->section->plan[k]);
    }
    return ok;
}

/* Sizes for which every buffer has one. */
static bool find_example(placing *p)
{
    static const int64_t tries[] = {16, 64, 256, 1024, 1 << 14, 8, 4, 2, 1, 0};
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
        for (int k = 0; k < p->a->n_symbols; k++)
            p->example[k] = tries[i];
        if (is_sized(p, p->a->plan))
            return true;
    }
    tpi_fail_status(p->a->ctx, p->a->q->at, p->a->q->what, TP_E_SHAPE,
                    "no sizes were found that all ops take: fix some of them");
    return false;
}

bool tpi_alone_places(tpi_alone *a, tpi_str *out)
{
    tpi_mem *m = &a->ctx->mem;
    const size_t n = (size_t)a->plan->all_buffers * sizeof(amount),
                 symbols = (size_t)a->n_symbols * sizeof(int64_t);
    placing p = {.a = a, .out = out};
    p.size = tpi_take(m, n);
    p.offset = tpi_take(m, n);
    p.example = tpi_take(m, symbols);
    p.failed = !p.size || !p.offset || !p.example;
    bool found = !p.failed && find_example(&p);
    if (found) {
        tpi_str_put(out,
                    "\nstatic inline __attribute__((unused)) int64_t up(int64_t bytes)\n"
                    "{\n    return (bytes + 63) & ~(int64_t)63;\n}\n"
                    "\nstatic inline __attribute__((unused)) int64_t most(int64_t a, "
                    "int64_t b)\n{\n    return a > b ? a : b;\n}\n"
                    "\n/* Where buffers lie behind `base`, into p when that is not NULL; all "
                    "their bytes. */\n"
                    "static int64_t place(const int64_t *s, char *base, void **p)\n{\n"
                    "    (void)s, (void)base;\n");
        for (int i = 0; i < a->n_symbols; i++)
            tpi_str_printf(out, "    const int64_t s%d = s[%d];\n    (void)s%d;\n", i, i, i);
        const amount total = place_plan(&p, a->plan);
        a->arena = total.known ? total.value : -1;
        tpi_str_put(out, "    if (!p)\n        return ");
        put_amount(out, &total, 't', total.number);
        tpi_str_put(out, ";\n");
        put_pointers(&p, a->plan, 0, "");
        tpi_str_put(out, "    return ");
        put_amount(out, &total, 't', total.number);
        tpi_str_put(out, ";\n}\n");
    }
    tpi_give_back(m, p.size, n);
    tpi_give_back(m, p.offset, n);
    tpi_give_back(m, p.example, symbols);
    if (p.failed)
        tpi_no_memory(a->ctx, a->q->at, a->q->what);
    return found && !p.failed;
}
