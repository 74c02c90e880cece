/* Units: what waits in a queue, and which of them are alike. */
#include "base/hash.h"
#include "batch/queue.h"

#include <string.h>

/* ---- signatures ------------------------------------------------------------------------------------------------ */

/* Is operand k, which has its value, one that all units of a group share? Of others each brings its own. */
static bool is_shared(const tpi_op *op, int k, const tp_tensor *t)
{
    const bool whole = op->batch == TPI_BATCH_ROWS || op->batch == TPI_BATCH_IMAGES ||
                       op->batch == TPI_BATCH_TABLES;
    return !(t->flags & TPI_LAZY) && (t->flags & (TPI_VARIABLE | TPI_LEAF) || (whole && k > 0));
}

static bool is_same_memory(const tp_tensor *a, const tp_tensor *b)
{
    return a->data == b->data &&
           memcmp(a->stride, b->stride, sizeof *a->stride * (size_t)a->rank) == 0;
}

/* What is to be a unit. */
typedef struct candidate {
    const tpi_infer *q;        /* an op; NULL: */
    const tpi_cell_side *side; /* a call */
    const tp_tensor *y;        /* the first result */
} candidate;

static uint64_t hash_of(const candidate *c)
{
    const tpi_infer *q = c->q;
    if (!q)
        return tpi_hash_step(1, (uint64_t)(uintptr_t)c->side);
    uint64_t h = q->op->attrs_size ? tpi_hash64(q->attrs, q->op->attrs_size) : 0;
    h = tpi_hash_step(h, (uint64_t)q->op->code << 32 | (uint32_t)q->n_in);
    for (int k = 0; k < q->n_in; k++) {
        const tp_tensor *t = q->in[k];
        h = tpi_hash_step(h, (uint64_t)t->dtype << 8 | t->rank);
        for (int a = 0; a < t->rank; a++)
            h = tpi_hash_step(h, (uint64_t)t->shape[a]);
        if (is_shared(q->op, k, t))
            h = tpi_hash_step(h, (uint64_t)(uintptr_t)t->data);
    }
    return h;
}

static bool is_alike(const tpi_queue *w, const tpi_queue_unit *u, const candidate *c)
{
    const tpi_infer *q = c->q;
    if (!q)
        return u->side == c->side;
    const size_t bytes = q->op->attrs_size;
    if (u->op != q->op || u->n_in != q->n_in || (bytes && memcmp(u->attrs, q->attrs, bytes)))
        return false;
    for (int k = 0; k < q->n_in; k++) {
        const tp_tensor *a = w->operands[u->first + k].t, *b = q->in[k];
        const bool shared = is_shared(q->op, k, b);
        if (a->dtype != b->dtype || !tpi_same_shape(a, b) || is_shared(u->op, k, a) != shared ||
            (shared && !is_same_memory(a, b)))
            return false;
    }
    return true;
}

static void put_in_table(tpi_queue *w, int32_t signature)
{
    uint64_t at = w->signatures[signature].hash;
    while (w->table[at & (uint64_t)(w->table_size - 1)] >= 0)
        at++;
    w->table[at & (uint64_t)(w->table_size - 1)] = signature;
}

/* Room for one signature more. */
static bool grow_signatures(tpi_queue *w)
{
    tpi_mem *m = &w->ctx->mem;
    tpi_unit_signature *v =
        tpi_grow(m, w->signatures, w->n_signatures, &w->signatures_size, sizeof *v);
    if (!v)
        return false;
    w->signatures = v;
    if (2 * (w->n_signatures + 1) <= w->table_size)
        return true;
    const int32_t size = w->table_size ? 2 * w->table_size : 64;
    int32_t *table = tpi_take(m, (size_t)size * sizeof *table);
    if (!table)
        return false;
    tpi_give_back(m, w->table, (size_t)w->table_size * sizeof *table);
    w->table = table;
    w->table_size = size;
    memset(table, -1, (size_t)size * sizeof *table);
    for (int32_t i = 0; i < w->n_signatures; i++)
        put_in_table(w, i);
    return true;
}

/* Nothing is gained by many at once where one takes longer than all that is around it. */
static bool is_large(const tpi_infer *q, const tp_tensor *y)
{
    enum { MOST = 1 << 16 }; /* bytes */
    bool large = tpi_bytes(y) > MOST;
    for (int k = 0; k < q->n_in && !large; k++)
        large = !is_shared(q->op, k, q->in[k]) && tpi_bytes(q->in[k]) > MOST;
    return large;
}

static bool comes_alone(const candidate *c)
{
    const tpi_infer *q = c->q;
    if (!q)
        return false;
    return q->op->batch == TPI_BATCH_NONE || q->op->batch == TPI_BATCH_VALUE || q->op->own ||
           q->n_in == 0 || is_large(q, c->y);
}

/* -1: no memory. */
static int32_t find_signature(tpi_queue *w, const candidate *c)
{
    const uint64_t hash = hash_of(c);
    for (uint64_t at = hash; w->table_size; at++) {
        const int32_t i = w->table[at & (uint64_t)(w->table_size - 1)];
        if (i < 0)
            break;
        if (w->signatures[i].hash == hash && is_alike(w, &w->units[w->signatures[i].unit], c))
            return i;
    }
    if (!grow_signatures(w))
        return -1;
    w->signatures[w->n_signatures] =
        (tpi_unit_signature){.hash = hash, .unit = w->n, .alone = comes_alone(c), .ready = -1};
    put_in_table(w, w->n_signatures);
    return w->n_signatures++;
}

/* Of samples that do the same, ops of one line are alike. -1: it is computed alone. */
static int32_t signature_of(tpi_queue *w, const candidate *c)
{
    enum { LINES = sizeof w->last / sizeof *w->last };
    const uint32_t code = c->q ? (uint32_t)c->q->op->code : (uint32_t)((uintptr_t)c->side >> 6);
    const uint32_t line = (uint32_t)c->y->line * 7 + code;
    int32_t *last = &w->last[line % LINES];
    if (*last < 0 || !is_alike(w, &w->units[w->signatures[*last].unit], c))
        *last = find_signature(w, c);
    return *last < 0 || w->signatures[*last].alone ? -1 : *last;
}

/* ---- units ------------------------------------------------------------------------------------------------------ */

/* Room for one unit more. */
static bool grow_units(tpi_queue *w, int n)
{
    tpi_mem *m = &w->ctx->mem;
    tpi_queue_unit *u = tpi_grow(m, w->units, w->n, &w->size, sizeof *u);
    w->units = u ? u : w->units;
    if (!u || w->n_operands + n <= w->operands_size)
        return u;
    const int32_t size = 2 * (w->n_operands + n) + 64;
    tpi_unit_operand *v = tpi_resize(m, w->operands, (size_t)w->operands_size * sizeof *v,
                                     (size_t)size * sizeof *v);
    w->operands = v ? v : w->operands;
    w->operands_size = v ? size : w->operands_size;
    return v;
}

static void add_operands(tpi_queue *w, tpi_queue_unit *u, tp_tensor *const *in)
{
    for (int k = 0; k < u->n_in; k++) {
        tpi_unit_operand *o = &w->operands[w->n_operands];
        const int32_t maker = tpi_unit_of(w, in[k]);
        *o = (tpi_unit_operand){.t = in[k], .unit = w->n, .next = -1};
        tpi_ref(o->t);
        if (maker >= 0) {
            tpi_queue_unit *m = &w->units[maker];
            o->next = m->user;
            m->user = w->n_operands;
            u->waits++;
            u->height = m->height > u->height ? m->height : u->height;
        }
        w->n_operands++;
    }
    u->height += !u->view;
}

/* One more thing that the unit has. */
static void hold(tpi_queue *w, tpi_queue_unit *u, tp_tensor *t)
{
    w->operands[w->n_operands++] = (tpi_unit_operand){.t = t, .unit = w->n, .next = -1};
    tpi_ref(t);
    u->n_more++;
}

static void note_result(tpi_queue *w, tp_tensor *y, bool view)
{
    y->frame = w->serial;
    y->number = w->n;
    w->bytes += view ? 0 : tpi_bytes(y);
}

bool tpi_queue_add(tpi_queue *w, const tpi_infer *q, tp_tensor *y, bool view)
{
    const candidate c = {.q = q, .y = y};
    void *attrs = q->op->attrs_size ? tpi_take(&w->ctx->mem, q->op->attrs_size) : NULL;
    if ((q->op->attrs_size && !attrs) || !grow_units(w, q->n_in)) {
        tpi_give_back(&w->ctx->mem, attrs, attrs ? q->op->attrs_size : 0);
        return false;
    }
    if (attrs)
        memcpy(attrs, q->attrs, q->op->attrs_size);
    tpi_queue_unit *u = &w->units[w->n];
    *u = (tpi_queue_unit){.y = y,
                          .op = q->op,
                          .attrs = attrs,
                          .n_in = q->n_in,
                          .first = w->n_operands,
                          .signature = view ? -1 : signature_of(w, &c),
                          .user = -1,
                          .sample = w->ctx->caller.sample,
                          .next_ready = -1,
                          .view = view};
    add_operands(w, u, q->in);
    tpi_ref(y);
    note_result(w, y, view);
    w->n++;
    return true;
}

bool tpi_queue_add_call(tpi_queue *w, const tpi_cell_side *s, tp_tensor *const *in,
                        tp_tensor *const *y)
{
    const candidate c = {.side = s, .y = y[0]};
    const int n_in = s->n_varying;
    if (!grow_units(w, n_in + s->n_out))
        return false;
    tpi_queue_unit *u = &w->units[w->n];
    *u = (tpi_queue_unit){.y = y[0],
                          .side = s,
                          .n_in = n_in,
                          .first = w->n_operands,
                          .signature = signature_of(w, &c),
                          .user = -1,
                          .sample = w->ctx->caller.sample,
                          .next_ready = -1};
    add_operands(w, u, in);
    tpi_ref(y[0]);
    for (int i = 1; i < s->n_out; i++)
        hold(w, u, y[i]);
    hold(w, u, s->cell->holder);
    for (int i = 0; i < s->n_out; i++)
        note_result(w, y[i], false);
    w->n++;
    return true;
}

const char *tpi_unit_name(const tpi_queue_unit *u)
{
    return u->op ? u->op->name : u->side->cell->name;
}

void tpi_unit_release(tpi_queue *w, int32_t unit)
{
    tpi_queue_unit *u = &w->units[unit];
    for (int k = 0; k < u->n_in + u->n_more; k++)
        tpi_unref(w->operands[u->first + k].t);
    tpi_give_back(&w->ctx->mem, u->attrs, u->attrs ? u->op->attrs_size : 0);
    tpi_unref(u->y);
    u->y = NULL;
}

void tpi_queue_clear(tpi_queue *w)
{
    w->n = w->n_operands = w->n_signatures = 0;
    w->bytes = 0;
    w->may_fail = false;
    memset(w->last, -1, sizeof w->last);
    if (w->table)
        memset(w->table, -1, (size_t)w->table_size * sizeof *w->table);
    w->ctx->frames += 2;
    w->ctx->frames += w->ctx->frames ? 0 : 2;
    w->serial = w->ctx->frames;
}

void tpi_queue_free(tpi_queue *w)
{
    tpi_mem *m = &w->ctx->mem;
    tpi_give_back(m, w->units, (size_t)w->size * sizeof *w->units);
    tpi_give_back(m, w->operands, (size_t)w->operands_size * sizeof *w->operands);
    tpi_give_back(m, w->signatures, (size_t)w->signatures_size * sizeof *w->signatures);
    tpi_give_back(m, w->table, (size_t)w->table_size * sizeof *w->table);
    tpi_give_back(m, w, sizeof *w);
}
