/* Loops that C wrote out: where runs took different numbers of turns, a loop is cut at its turns, and equal
 * turns are rolled into one, whose end leads back to its beginning. */
#include "capture/capture_def.h"

#include <string.h>

/* ---- finding turns: inside one segment -------------------------------------------------------- */

/* Could a and b be the same step of two turns of a loop `period` steps long? Operands are made as
 * many steps ago, or before the loop, or come in. `a_place` is where a is in the segment. */
static bool same_turn(const tpi_step *a, const tpi_step *b, int a_place, int period)
{
    if (a->kind != b->kind || a->op != b->op || a->n_in != b->n_in || a->dtype != b->dtype ||
        a->rank != b->rank || (a->kind != TPI_STEP_OP && a->kind != TPI_STEP_SCALAR))
        return false;
    for (int k = 0; k < a->n_in; k++) {
        const int32_t x = a->in[k], y = b->in[k];
        if (x == y || (x >= 0 && y >= 0 && y - x == period))
            continue;
        if (x >= 0 && x >= a_place - period)
            return false;
    }
    return a->kind != TPI_STEP_OP || tpi_attrs_alike(a->op, a->attrs, b->attrs);
}

/* A segment in which turns are looked for, by its first step. In it numbers follow each other. */
static int place_of(const tpi_step *head, const tpi_step *s)
{
    return s->number - head->number;
}

/* The step n steps above s, which are in the segment. */
static tpi_step *steps_above(tpi_step *s, int n)
{
    while (n-- > 0)
        s = s->above;
    return s;
}

/* Is the stretch of `period` steps that ends at s a turn like the one that ends at `before`? */
static bool alike_turns(const tpi_step *head, const tpi_step *before, const tpi_step *s,
                        int period)
{
    int place = place_of(head, before);
    for (int n = 0; n < period; n++, before = before->above, s = s->above)
        if (!same_turn(before, s, place - n, period))
            return false;
    return true;
}

/* Is it one like the turn before it? */
static bool is_turn(const tpi_step *head, tpi_step *s, int period)
{
    return place_of(head, s) + 1 >= 2 * period &&
           alike_turns(head, steps_above(s, period), s, period);
}

/* The length of the turn that ends at s; 0: no loop ends there, or it is so short that a turn is no segment. */
static int find_period(const tpi_step *head, const tpi_step *s)
{
    enum { SHORTEST = 3, LONGEST = 512 };
    const int most = (place_of(head, s) + 1) / 2;
    const tpi_step *before = s;
    for (int period = 1; period <= LONGEST && period <= most; period++) {
        before = before->above;
        if (alike_turns(head, before, s, period))
            return period < SHORTEST ? 0 : period;
    }
    return 0;
}

/* Of how many turns is the loop that ends at s? */
static int count_turns(const tpi_step *head, tpi_step *s, int period)
{
    int turns = 1;
    for (; is_turn(head, s, period); turns++)
        s = steps_above(s, period);
    return turns;
}

/* Marks where turns of the loop end, up to the one that ends at s; the first step of the first one. */
static tpi_step *mark_turns_above(const tpi_step *head, tpi_step *s, int period)
{
    s->splits = true;
    while (is_turn(head, s, period)) {
        s = steps_above(s, period);
        s->splits = true;
    }
    tpi_step *begin = steps_above(s, period - 1);
    if (begin != head)
        begin->above->splits = true;
    return begin;
}

/* And behind s. */
static void mark_turns_below(const tpi_step *head, tpi_step *s, int period)
{
    for (;;) {
        for (int n = 0; n < period; n++) {
            if (s->cut || !s->first)
                return;
            s = s->first;
        }
        if (!is_turn(head, s, period))
            return;
        s->splits = true;
    }
}

/* ---- rolling ------------------------------------------------------------------------------------ */

static bool same_step(const tpi_step *a, const tpi_step *b)
{
    if (a->kind != b->kind || a->op != b->op || a->dtype != b->dtype || a->rank != b->rank ||
        a->n_in != b->n_in || a->n_new != b->n_new ||
        (a->kind != TPI_STEP_OP && a->kind != TPI_STEP_SCALAR))
        return false;
    for (int k = 0; k < a->n_in; k++)
        if (a->in[k] != b->in[k])
            return false;
    for (int k = 0; k < a->n_new; k++)
        if (a->new[k].dtype != b->new[k].dtype || a->new[k].rank != b->new[k].rank)
            return false;
    return a->kind != TPI_STEP_OP || tpi_attrs_alike(a->op, a->attrs, b->attrs);
}

/* Of two segments, by their first steps. */
static bool same_segment(const tpi_step *a, const tpi_step *b)
{
    for (; same_step(a, b); a = a->first, b = b->first)
        if (a->cut || b->cut)
            return a->cut && b->cut;
    return false;
}

static int length_of(const tpi_step *head)
{
    int n = 1;
    for (; !head->cut && head->first; n++)
        head = head->first;
    return n;
}

static tpi_step *end_of(tpi_step *s)
{
    while (!s->cut && s->first)
        s = s->first;
    return s;
}

/* a stands for b, too. */
static void take_in(tpi_step *a, const tpi_step *b)
{
    a->taken += b->taken;
    a->needed |= b->needed;
    a->reads |= b->reads;
    a->varied |= b->varied;
    if (a->kind == TPI_STEP_SCALAR)
        a->varied |= memcmp(&a->value, &b->value, sizeof a->value) != 0;
    else if (a->op->attrs_size && !tpi_is_draw(a->op))
        a->varied |= memcmp(a->attrs, b->attrs, a->op->attrs_size) != 0;
    for (int k = 0; k < a->n_new; k++) {
        tpi_incoming *x = &a->new[k];
        const tpi_incoming *y = &b->new[k];
        x->varied |= y->varied;
        for (int i = 0; i < x->rank; i++)
            x->varied |= (uint8_t)((x->shape[i] != y->shape[i]) << i);
        x->swapped |= y->swapped || x->tensor != y->tensor;
        x->moved |= y->moved || x->source != y->source;
    }
}

/* The segment that begins at `a` is followed by an equal one, and by nothing else: that becomes one with it. */
static void roll_next(tpi_tree *tree, tpi_step *a)
{
    tpi_step *const end = end_of(a), *const last = end_of(end->first),
                    *const after = last->first;
    tpi_step *x = a, *y = end->first;
    for (bool more = true; more;) {
        tpi_step *const x_next = x->first, *const y_next = y->first;
        more = y != last;
        take_in(x, y);
        y->gone = true;
        y->first = x;
        y->next = tree->gone;
        tree->gone = y;
        tree->n_steps--;
        x = x_next;
        y = y_next;
    }
    end->again = a;
    tree->rolled = true;
    end->first = after;
    for (tpi_step *t = after; t; t = t->next)
        t->above = end;
}

/* What is pending keeps its attributes when its step becomes that of another turn, which has others. */
static bool keep_attrs(tpi_frame *fr)
{
    for (int i = 0; i < fr->n_pending; i++) {
        tpi_pending *p = &fr->pending[i];
        const size_t bytes = p->step->op && !p->attrs ? p->step->op->attrs_size : 0;
        if (!bytes)
            continue;
        p->attrs = tpi_take(&fr->ctx->mem, bytes);
        if (!p->attrs)
            return false;
        memcpy(p->attrs, p->step->attrs, bytes);
    }
    return true;
}

static void forget_gone(tpi_frame *fr)
{
    for (int i = 0; i < fr->n_pending; i++) {
        tpi_pending *p = &fr->pending[i];
        if (!p->step->gone)
            continue;
        p->step = p->step->first;
        fr->as_recorded = false;
    }
    if (fr->at->gone)
        fr->at = fr->at->first;
    for (tpi_step *s = fr->tree->gone, *next; s; s = next) {
        next = s->next;
        tpi_step_free(fr->ctx, s);
    }
    fr->tree->gone = NULL;
}

/* The segment that begins at `head` is split where that is marked, and equal neighbours among its parts are rolled. */
static bool split_and_roll(tpi_frame *fr, tpi_step *head)
{
    int n = length_of(head);
    if (!tpi_segment_split(fr->ctx, head) || !keep_attrs(fr))
        return false;
    for (n -= length_of(head); n > 0;) {
        tpi_step *const next = end_of(head)->first;
        n -= length_of(next);
        if (!end_of(next)->again &&
            same_segment(head, next)) /* that of a loop around it stays */
            roll_next(fr->tree, head);
        else
            head = next;
    }
    forget_gone(fr);
    return true;
}

/* The same op of another number of operands, which followed. */
static tpi_step *of_other_number(const tpi_step *s, const tpi_call_of *c)
{
    for (tpi_step *t = s->first; t && c->kind == TPI_STEP_OP; t = t->next)
        if (t->op == c->op && t->n_in != c->n_in && tpi_attrs_alike(t->op, t->attrs, c->attrs))
            return t;
    return NULL;
}

static bool take_any_number(tp_ctx *ctx, tpi_step *s)
{
    if (!tpi_step_cut(ctx, s))
        return false;
    tpi_segment_free(ctx, s->segment);
    s->segment = NULL;
    tpi_incoming_free(ctx, s);
    s->any_number = true;
    s->n_in = 0;
    return true;
}

bool tpi_turn_off(tpi_frame *fr, const tpi_call_of *c)
{
    tpi_step *const s = fr->at, *const other = of_other_number(s, c);
    if (other)
        return tpi_step_cut(fr->ctx, s) && take_any_number(fr->ctx, other);
    if (!s->above || s->again || !s->first || s->first->next) /* not the first time */
        return tpi_step_cut(fr->ctx, s);
    tpi_step *const head = tpi_step_head(s);
    const int period = find_period(head, s);
    if (!period)
        return tpi_step_cut(fr->ctx, s);
    mark_turns_above(head, s, period);
    mark_turns_below(head, s, period);
    return split_and_roll(fr, head);
}

bool tpi_roll_long(tpi_frame *fr, tpi_step *last)
{
    enum { MANY = 8 };
    tpi_step *const head = tpi_step_head(last);
    bool any = false;
    for (tpi_step *s = last; s;) {
        const int period = find_period(head, s);
        if (period && count_turns(head, s, period) >= MANY) {
            s = mark_turns_above(head, s, period);
            any = true;
        }
        s = s == head ? NULL : s->above;
    }
    return !any || split_and_roll(fr, head);
}
