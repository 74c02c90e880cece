/* The tree of steps. */
#include "capture/record/segment_def.h"

#include <string.h>

bool tpi_attr_is_size(const tpi_op *op, int flat)
{
    int n = 0;
    for (const tpi_attr *a = op->attrs; a && a->name; a++) {
        const bool list = a->type == TPI_ATTR_LIST || a->type == TPI_ATTR_DIMS;
        const int count = list ? 1 + TP_MAX_RANK : 1;
        if (flat < n + count)
            return a->type == TPI_ATTR_DIM || (a->type == TPI_ATTR_DIMS && flat > n);
        n += count;
    }
    return false;
}

/* Equal but for sizes, and for where a random op draws? */
static bool alike(const tpi_op *op, const void *a, const void *b)
{
    for (const tpi_attr *t = op->attrs; t && t->name; t++) {
        const char *x = (const char *)a + t->offset, *y = (const char *)b + t->offset;
        size_t bytes = sizeof(int64_t);
        if (t->type == TPI_ATTR_DIM)
            continue;
        if (tpi_is_draw(op) && (strcmp(t->name, "seed") == 0 || strcmp(t->name, "at") == 0))
            continue;
        if (t->type == TPI_ATTR_LIST)
            bytes = sizeof(tpi_list);
        if (memcmp(x, y, bytes) != 0) /* of sizes: how many */
            return false;
    }
    return true;
}

static bool meets_same(const tpi_step *s, const tpi_call_of *c)
{
    for (int i = 0; i < s->n_new; i++)
        if (s->new[i].dtype != c->new[i]->dtype || s->new[i].rank != c->new[i]->rank)
            return false;
    return true;
}

static inline bool same_operands(const tpi_step *s, const tpi_call_of *c)
{
    if (s->n_in != c->n_in)
        return false;
    for (int i = 0; i < c->n_in; i++)
        if (s->in[i] != c->in[i])
            return false;
    return s->n_new == c->n_new && (!s->n_new || meets_same(s, c));
}

static inline bool is_call(const tpi_step *s, const tpi_call_of *c, bool *same)
{
    *same = true;
    if (s->kind != c->kind || s->op != c->op || !same_operands(s, c))
        return false;
    switch (c->kind) {
    case TPI_STEP_OP:
        if (!c->op->attrs_size || memcmp(s->attrs, c->attrs, c->op->attrs_size) == 0)
            return true;
        *same = false;
        return alike(c->op, s->attrs, c->attrs);
    case TPI_STEP_SCALAR:
        *same = memcmp(&s->value, &c->value, sizeof c->value) == 0;
        return s->dtype == c->dtype;
    case TPI_STEP_LOOK:
        return s->look == c->look && s->truth == c->truth;
    default:
        return true;
    }
}

tpi_step *tpi_step_find(const tpi_step *above, const tpi_call_of *c, bool *same)
{
    for (tpi_step *s = above->first; s; s = s->next)
        if (is_call(s, c, same))
            return s;
    return NULL;
}

void tpi_segment_free(tp_ctx *ctx, tpi_segment *s)
{
    tpi_mem *m = &ctx->mem;
    const size_t n = (size_t)s->n_steps, k = (size_t)s->varying_size;
    tpi_give_back(m, s->inputs, (size_t)s->inputs_size * sizeof *s->inputs);
    tpi_give_back(m, s->sizes, (size_t)s->n_sizes * sizeof *s->sizes);
    tpi_give_back(m, s->varying, k * sizeof *s->varying);
    tpi_give_back(m, s->quantities, k * sizeof *s->quantities);
    tpi_give_back(m, s->values, k * sizeof *s->values);
    tpi_give_back(m, s->number_varies, n * sizeof *s->number_varies);
    tpi_give_back(m, s->output_of, n * sizeof *s->output_of);
    tpi_give_back(m, s->outputs, n * sizeof *s->outputs);
    tpi_give_back(m, s, sizeof *s);
}

void tpi_step_cut(tp_ctx *ctx, tpi_step *s)
{
    if (s->cut)
        return;
    s->cut = true;
    for (tpi_step *t = s; t; t = t->above) { /* it had been part of a longer segment */
        if (t->segment) {
            tpi_segment_free(ctx, t->segment);
            t->segment = NULL;
            return;
        }
        if (t->above && t->above->cut)
            return;
    }
}

static bool ends_segment(tpi_step_kind kind)
{
    return kind == TPI_STEP_ENTRY || kind == TPI_STEP_LOOK || kind == TPI_STEP_RETURN;
}

static void link(tpi_step *above, tpi_step *s)
{
    tpi_step **last = &above->first;
    while (*last)
        last = &(*last)->next;
    *last = s;
    s->above = above;
}

static void cut_turns(tp_ctx *ctx, tpi_step *s);

tpi_step *tpi_step_add(tpi_tree *tree, tp_ctx *ctx, tpi_step *above, const tpi_call_of *c,
                       tpi_why *why)
{
    int turns = 0;
    for (const tpi_step *s = above->first; s; s = s->next)
        turns++;
    *why = TPI_WHY_steps;
    if (tree->n_steps >= TPI_MAX_STEPS)
        return NULL;
    *why = TPI_WHY_turns;
    if (turns >= TPI_MAX_TURNS)
        return NULL;
    *why = TPI_WHY_memory;
    const size_t attrs = c->op ? c->op->attrs_size : 0;
    const size_t in = c->n_in > 2 ? ((size_t)c->n_in * sizeof *c->in + 7) & ~(size_t)7 : 0;
    const size_t bytes = sizeof(tpi_step) + in + attrs + (size_t)c->n_new * sizeof(tpi_outside);
    tpi_step *s = tpi_take(&ctx->mem, bytes);
    if (!s)
        return NULL;
    memset(s, 0, bytes);
    s->bytes = bytes;
    s->kind = (uint8_t)c->kind;
    s->op = c->op;
    s->at = c->at;
    s->look = c->look;
    s->truth = c->truth;
    s->dtype = c->dtype;
    s->value = c->value;
    s->n_in = c->n_in;
    s->n_new = c->n_new;
    s->number = above->number + 1;
    s->cut = ends_segment(c->kind);
    char *p = (char *)(s + 1);
    s->in = in ? (int32_t *)(void *)p : s->few;
    if (c->n_in)
        memcpy(s->in, c->in, (size_t)c->n_in * sizeof *c->in);
    s->attrs = p + in;
    if (attrs)
        memcpy(s->attrs, c->attrs, attrs);
    s->new = (tpi_outside *)(void *)(p + in + attrs);
    for (int i = 0; i < c->n_new; i++) { /* zeroed above */
        s->new[i].dtype = c->new[i]->dtype;
        s->new[i].rank = c->new[i]->rank;
        memcpy(s->new[i].shape, c->new[i]->shape, sizeof(int64_t) * c->new[i]->rank);
    }
    link(above, s);
    tree->n_steps++;
    if (turns > 0) {
        tpi_step_cut(ctx, above);
        if (turns == 1)
            cut_turns(ctx, above);
    }
    return s;
}

/* ---- loops that C unrolled ------------------------------------------------------------------- */

/* Could a and b be the same step of two turns of a loop `period` steps long? Operands are made as
 * many steps ago, or outside, or before the loop. */
static bool same_turn(const tpi_step *a, const tpi_step *b, int period)
{
    if (a->kind != b->kind || a->op != b->op || a->n_in != b->n_in || a->dtype != b->dtype ||
        a->rank != b->rank || (a->kind != TPI_STEP_OP && a->kind != TPI_STEP_SCALAR))
        return false;
    for (int k = 0; k < a->n_in; k++) {
        const int32_t x = a->in[k], y = b->in[k];
        if (x == y || (x >= 0 && y >= 0 && y - x == period))
            continue;
        if (x >= 0 && x >= a->number - period)
            return false;
    }
    return a->kind != TPI_STEP_OP || alike(a->op, a->attrs, b->attrs);
}

/* The length of the turn that ends at s; 0: no loop ends there. */
static int find_period(const tpi_step *s)
{
    enum { LONGEST = 512 };
    const tpi_step *b = s;
    for (int period = 1; period <= LONGEST; period++) {
        b = b->above;
        if (!b || b->kind == TPI_STEP_ENTRY || !b->above)
            return 0;
        if (b->op != s->op)
            continue;
        const tpi_step *x = b, *y = s;
        int n = 0;
        while (n < period && x->above && same_turn(x, y, period)) {
            x = x->above;
            y = y->above;
            n++;
        }
        if (n == period)
            return period;
    }
    return 0;
}

static tpi_step *steps_above(tpi_step *s, int n)
{
    while (s && n-- > 0)
        s = s->above;
    return s;
}

/* Is the stretch of `period` steps that ends at s a turn like the one before it? */
static bool is_turn(tpi_step *s, int period)
{
    tpi_step *before = steps_above(s, period);
    for (int n = 0; n < period; n++) {
        if (!before || !before->above || !same_turn(before, s, period))
            return false;
        s = s->above;
        before = before->above;
    }
    return true;
}

/* A turn begins behind s. */
static void cut_turn(tp_ctx *ctx, tpi_step *s, int period)
{
    tpi_step_cut(ctx, s);
    s->first->period = period;
}

/* Cuts a loop that C unrolled at each turn, when its trip count has been seen to differ at s. */
static void cut_turns(tp_ctx *ctx, tpi_step *s)
{
    const int period = find_period(s);
    if (period < 3)
        return;
    tpi_step *t = s;
    while (is_turn(t, period)) {
        t = steps_above(t, period);
        cut_turn(ctx, t, period);
    }
    cut_turn(ctx, steps_above(t, period), period);
    for (t = s;;) { /* on along the longer run */
        for (int n = 0; n < period && t; n++)
            t = t->first;
        if (!t || !is_turn(t, period))
            return;
        tpi_step_cut(ctx, t);
        steps_above(t, period)->first->period = period;
    }
}

/* Of how many turns is the loop that ends at s? */
static int count_turns(tpi_step *s, int period)
{
    int turns = 1;
    for (; is_turn(s, period); s = steps_above(s, period))
        turns++;
    return turns;
}

void tpi_cut_long(tp_ctx *ctx, tpi_step *s, int n)
{
    enum { MANY = 8 };
    while (n > 0 && s->above) {
        const int period = find_period(s);
        const int turns = period < 3 ? 0 : count_turns(s, period);
        if (turns < MANY) {
            s = s->above;
            n--;
            continue;
        }
        tpi_step_cut(ctx, s);
        for (int i = 0; i < turns; i++) {
            s = steps_above(s, period);
            cut_turn(ctx, s, period);
        }
        n -= turns * period;
    }
}

/* ---- all of it ------------------------------------------------------------------------------------ */

tpi_step *tpi_tree_walk(const tpi_tree *tree, const tpi_step *s)
{
    if (s->first)
        return s->first;
    while (s && !s->next)
        s = s->above;
    return s && s != &tree->top ? s->next : NULL;
}

void tpi_tree_free(tpi_tree *tree, tp_ctx *ctx)
{
    tpi_step *s = tree->top.first;
    while (s) { /* leaves first, without a stack: a path may have a million steps */
        if (s->first) {
            tpi_step *first = s->first;
            s->first = NULL;
            s = first;
            continue;
        }
        tpi_step *then = s->next ? s->next : s->above == &tree->top ? NULL : s->above;
        if (s->segment)
            tpi_segment_free(ctx, s->segment);
        tpi_unref(s->scalar);
        for (int i = 0; i < s->n_new; i++)
            tpi_unref(s->new[i].tensor);
        tpi_give_back(&ctx->mem, s, s->bytes);
        s = then;
    }
    tree->top.first = NULL;
    tree->n_steps = 0;
}
