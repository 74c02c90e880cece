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

size_t tpi_text_attrs(const tpi_op *op)
{
    size_t end = 0;
    for (const tpi_attr *t = op->attrs; t && t->name; t++) {
        const bool list = t->type == TPI_ATTR_LIST || t->type == TPI_ATTR_DIMS;
        const size_t own = t->offset + (list ? sizeof(tpi_list) : sizeof(int64_t));
        end = own > end ? own : end;
    }
    return end;
}

bool tpi_attrs_alike(const tpi_op *op, const void *a, const void *b)
{
    const size_t end = tpi_text_attrs(op),
                 rest = op->attrs_size > end ? op->attrs_size - end : 0;
    if (rest && memcmp((const char *)a + end, (const char *)b + end, rest) != 0)
        return false;
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
    if (s->any_number)
        return true;
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
        return tpi_attrs_alike(c->op, s->attrs, c->attrs);
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
    if (above->again && is_call(above->again, c, same))
        return above->again;
    for (tpi_step *s = above->first; s; s = s->next)
        if (is_call(s, c, same))
            return s;
    return NULL;
}

void tpi_segment_free(tp_ctx *ctx, tpi_segment *s)
{
    if (!s)
        return;
    tpi_mem *m = &ctx->mem;
    const size_t n = (size_t)s->n_steps, k = (size_t)s->varying_size;
    tpi_give_back(m, s->inputs, (size_t)s->inputs_size * sizeof *s->inputs);
    tpi_give_back(m, s->varying, k * sizeof *s->varying);
    tpi_give_back(m, s->quantities, k * sizeof *s->quantities);
    tpi_give_back(m, s->values, k * sizeof *s->values);
    tpi_give_back(m, s->given, n * sizeof *s->given);
    tpi_give_back(m, s->output_of, n * sizeof *s->output_of);
    tpi_give_back(m, s->outputs, n * sizeof *s->outputs);
    tpi_give_back(m, s, sizeof *s);
}

/* ---- segments that are split ----------------------------------------------------------------- */

tpi_step *tpi_step_head(tpi_step *s)
{
    while (!s->above->cut)
        s = s->above;
    return s;
}

/* What operands are in a segment becomes what they are in the parts that it is split into. */
typedef struct splitting {
    int n, n_incoming;   /* of the segment: steps, tensors that come in */
    tpi_step **step;     /* by step */
    tpi_incoming **new;  /* by step: its new list; NULL: it keeps the old one */
    tpi_incoming **came; /* by tensor that comes in: where it stands now */
    int32_t *part,
        *code; /* by tensor that comes in, then by step: the last part into which it came, and
                             what it is there */
    int32_t number; /* of the part, from 1 on */
    int start;      /* the step that it begins with */
    int32_t n_part; /* tensors that came into it */
} splitting;

static size_t splitting_bytes(const splitting *p)
{
    const size_t n = (size_t)p->n, in = (size_t)p->n_incoming;
    return n * (sizeof *p->step + sizeof *p->new) + in * sizeof *p->came +
           (n + in) * 2 * sizeof(int32_t);
}

static bool splitting_begin(splitting *p, tpi_mem *m, tpi_step *head)
{
    *p = (splitting){.n = 1, .n_incoming = head->n_new};
    for (tpi_step *s = head; !s->cut && s->first; p->n++) {
        s = s->first;
        p->n_incoming += s->n_new;
    }
    p->step = tpi_take(m, splitting_bytes(p));
    if (!p->step)
        return false;
    memset(p->step, 0, splitting_bytes(p));
    p->new = (tpi_incoming **)(void *)(p->step + p->n);
    p->came = p->new + p->n;
    p->part = (int32_t *)(void *)(p->came + p->n_incoming);
    p->code = p->part + p->n_incoming + p->n;
    int came = 0;
    for (int i = 0; i < p->n; i++, head = head->first) {
        p->step[i] = head;
        for (int k = 0; k < head->n_new; k++)
            p->came[came++] = &head->new[k];
    }
    return true;
}

static void begin_part(splitting *p, int start)
{
    p->number++;
    p->start = start;
    p->n_part = 0;
}

/* What operand `code` of the segment is in the part. */
static int32_t code_in_part(splitting *p, int32_t code)
{
    if (code >= p->start)
        return code - p->start;
    const int i = code < 0 ? ~code : p->n_incoming + code;
    if (p->part[i] != p->number) {
        p->part[i] = p->number;
        p->code[i] = ~p->n_part++;
    }
    return p->code[i];
}

/* Room for what comes into the parts behind the first one. */
static bool take_lists(splitting *p, tpi_mem *m)
{
    begin_part(p, 0);
    for (int i = 0; i < p->n; i++) {
        const tpi_step *s = p->step[i];
        const int32_t before = p->n_part;
        for (int k = 0; k < s->n_in; k++)
            code_in_part(p, s->in[k]);
        const size_t n = (size_t)(p->n_part - before);
        if (p->start > 0 && n && !(p->new[i] = tpi_take(m, n * sizeof **p->new)))
            return false;
        if (s->splits)
            begin_part(p, i + 1);
    }
    return true;
}

static void give_lists(splitting *p, tpi_mem *m)
{
    begin_part(p, 0);
    for (int i = 0; i < p->n; i++) {
        const int32_t before = p->n_part;
        for (int k = 0; k < p->step[i]->n_in; k++)
            code_in_part(p, p->step[i]->in[k]);
        tpi_give_back(m, p->new[i], (size_t)(p->n_part - before) * sizeof **p->new);
        if (p->step[i]->splits)
            begin_part(p, i + 1);
    }
}

/* As the segment met it, or made it. */
static tpi_incoming incoming_of(const splitting *p, int32_t code)
{
    if (code < 0) {
        tpi_ref(p->came[~code]->tensor);
        return *p->came[~code];
    }
    const tpi_step *maker = p->step[code];
    tpi_incoming o = {.dtype = maker->dtype, .rank = maker->rank, .source = maker->number};
    memcpy(o.shape, maker->shape, sizeof o.shape);
    return o;
}

void tpi_incoming_free(tp_ctx *ctx, tpi_step *s)
{
    for (int i = 0; i < s->n_new; i++)
        tpi_unref(s->new[i].tensor);
    tpi_give_back(&ctx->mem, s->new, (size_t)s->n_new * sizeof *s->new);
    s->new = NULL;
    s->n_new = 0;
}

/* The i-th step in its part. */
static void move_step(splitting *p, tp_ctx *ctx, int i)
{
    tpi_step *s = p->step[i];
    int32_t n = 0;
    for (int k = 0; k < s->n_in; k++) {
        const int32_t code = s->in[k], before = p->n_part;
        s->in[k] = code_in_part(p, code);
        if (p->n_part == before)
            continue;
        p->new[i][n] = incoming_of(p, code);
        if (code < 0)
            p->came[~code] = &p->new[i][n];
        n++;
    }
    tpi_incoming_free(ctx, s);
    s->new = p->new[i];
    s->n_new = n;
}

static void split(splitting *p, tp_ctx *ctx)
{
    begin_part(p, 0);
    for (int i = 0; i < p->n; i++) {
        tpi_step *s = p->step[i];
        if (p->start > 0)
            move_step(p, ctx, i);
        if (!s->splits)
            continue;
        s->cut = true;
        begin_part(p, i + 1);
    }
    tpi_segment_free(ctx, p->step[0]->segment);
    p->step[0]->segment = NULL;
}

bool tpi_segment_split(tp_ctx *ctx, tpi_step *head)
{
    splitting p;
    const bool begun = splitting_begin(&p, &ctx->mem, head);
    const bool ok = begun && take_lists(&p, &ctx->mem);
    if (ok)
        split(&p, ctx);
    else if (begun)
        give_lists(&p, &ctx->mem);
    for (int i = 0; i < p.n; i++, head = head->first)
        head->splits = false;
    if (begun)
        tpi_give_back(&ctx->mem, p.step, splitting_bytes(&p));
    return ok;
}

bool tpi_step_cut(tp_ctx *ctx, tpi_step *s)
{
    if (s->cut)
        return true;
    s->splits = true;
    return tpi_segment_split(ctx, tpi_step_head(s));
}

/* ---- steps that come and go ------------------------------------------------------------------ */

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

/* Sizes of arguments in other calls. */
typedef int64_t seen_sizes[TPI_MAX_OBSERVED][TP_MAX_RANK];

static tpi_incoming *new_incoming(tpi_mem *m, const tpi_call_of *c, seen_sizes *seen)
{
    const size_t bytes = (size_t)c->n_new * sizeof(tpi_incoming);
    tpi_incoming *v = tpi_take(m, bytes);
    if (!v)
        return NULL;
    memset(v, 0, bytes);
    for (int i = 0; i < c->n_new; i++) {
        const tp_tensor *t = c->new[i];
        v[i].dtype = t->dtype;
        v[i].rank = t->rank;
        v[i].source = t->number;
        v[i].seen = seen ? seen[i] : NULL;
        memcpy(v[i].shape, t->shape, sizeof(int64_t) * t->rank);
    }
    return v;
}

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
    const size_t attrs = c->op ? (c->op->attrs_size + 7) & ~(size_t)7 : 0;
    const size_t in = c->n_in > 2 ? ((size_t)c->n_in * sizeof *c->in + 7) & ~(size_t)7 : 0;
    const size_t seen = c->kind == TPI_STEP_ENTRY ? (size_t)c->n_new * sizeof(seen_sizes) : 0;
    const size_t bytes = sizeof(tpi_step) + in + attrs + seen;
    tpi_step *s = tpi_take(&ctx->mem, bytes);
    if (!s)
        return NULL;
    memset(s, 0, bytes);
    char *p = (char *)(s + 1);
    if (c->n_new &&
        !(s->new = new_incoming(&ctx->mem, c, seen ? (void *)(p + in + attrs) : NULL))) {
        tpi_give_back(&ctx->mem, s, bytes);
        return NULL;
    }
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
    s->in = in ? (int32_t *)(void *)p : s->few;
    if (c->n_in)
        memcpy(s->in, c->in, (size_t)c->n_in * sizeof *c->in);
    s->attrs = p + in;
    if (c->op && c->op->attrs_size)
        memcpy(s->attrs, c->attrs, c->op->attrs_size);
    link(above, s);
    tree->n_steps++;
    return s;
}

void tpi_step_free(tp_ctx *ctx, tpi_step *s)
{
    tpi_segment_free(ctx, s->segment);
    tpi_unref(s->scalar);
    tpi_incoming_free(ctx, s);
    tpi_give_back(&ctx->mem, s, s->bytes);
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
        tpi_step_free(ctx, s);
        s = then;
    }
    tree->top.first = NULL;
    tree->n_steps = 0;
}
