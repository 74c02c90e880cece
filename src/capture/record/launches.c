#include "capture/record/launches.h"

#include "op/op.h"

#include <string.h>

/* ---- life -------------------------------------------------------------------------------- */

tpi_launches *tpi_launches_new(tp_ctx *ctx)
{
    tpi_launches *l = tpi_take(&ctx->mem, sizeof *l);
    if (l)
        *l = (tpi_launches){.ctx = ctx, .whole = true};
    return l;
}

void tpi_launches_let_go(tpi_launches *l)
{
    for (int i = 0; i < l->n_values; i++) {
        tpi_buf_unref(l->ctx, l->values[i].buf);
        l->values[i].buf = NULL;
    }
}

void tpi_launches_free(tpi_launches *l)
{
    if (!l)
        return;
    tpi_mem *m = &l->ctx->mem;
    tpi_launches_let_go(l);
    for (int i = 0; i < l->n; i++)
        tpi_give_back(m, l->v[i].attrs, l->v[i].attrs ? l->v[i].op->attrs_size : 0);
    for (int i = 0; i < l->n_forms; i++)
        tpi_unref(l->forms[i]);
    tpi_give_back(m, l->v, (size_t)l->size * sizeof *l->v);
    tpi_give_back(m, l->values, (size_t)l->values_size * sizeof *l->values);
    tpi_give_back(m, l->places, (size_t)l->places_size * sizeof *l->places);
    tpi_give_back(m, l->symbols, (size_t)l->symbols_size * sizeof *l->symbols);
    tpi_give_back(m, l->of, (size_t)l->of_size * sizeof *l->of);
    tpi_give_back(m, l->forms, (size_t)l->forms_size * sizeof(tp_tensor *));
    tpi_give_back(m, l->assigns, (size_t)l->assigns_size * sizeof *l->assigns);
    tpi_give_back(m, l, sizeof *l);
}

size_t tpi_launches_bytes(const tpi_launches *l)
{
    return (size_t)l->size * sizeof *l->v + (size_t)l->values_size * sizeof *l->values +
           (size_t)l->places_size * sizeof *l->places +
           (size_t)l->symbols_size * sizeof *l->symbols + (size_t)l->of_size * sizeof *l->of;
}

/* Room for one more of a list; false: memory is out, and they are not whole. */
static bool one_more(tpi_launches *l, void *list, int32_t n, int32_t *size, size_t each)
{
    void *old, *v;
    memcpy(&old, list, sizeof old);
    v = tpi_grow(&l->ctx->mem, old, n, size, each);
    l->whole &= v != NULL;
    if (v)
        memcpy(list, &v, sizeof v);
    return v;
}

/* ---- where elements are ------------------------------------------------------------------ */

/* A reference of the memory is taken over. -1: memory is out. */
static int32_t add_value(tpi_launches *l, tpi_launched v)
{
    if (!one_more(l, &l->values, l->n_values, &l->values_size, sizeof *l->values)) {
        tpi_buf_unref(l->ctx, v.buf);
        return -1;
    }
    if (v.buf)
        v.buf->launched = l->n_values;
    l->values[l->n_values] = v;
    return l->n_values++;
}

static int32_t add_outside(tpi_launches *l, tpi_buf *buf, const char *data, int32_t origin)
{
    buf->refs++;
    return add_value(l, (tpi_launched){.buf = buf, .data = data, .origin = origin});
}

static int32_t find_outside(tpi_launches *l, const tpi_trace *t, const tp_tensor *x)
{
    for (int i = 0; i < t->n_origins; i++)
        if (t->origins[i].tensor->buf == x->buf)
            return add_outside(l, x->buf, t->origins[i].tensor->data, i);
    return -1;
}

bool tpi_launches_find(tpi_launches *l, const tpi_trace *t, const tp_tensor *x, tpi_place *out)
{
    if (!x->buf || !(x->flags & TPI_CONTIGUOUS))
        return false;
    int32_t i = x->buf->launched;
    if (i >= l->n_values || l->values[i].buf != x->buf)
        i = find_outside(l, t, x);
    if (i < 0)
        return false;
    const ptrdiff_t offset = x->data - l->values[i].data;
    *out = (tpi_place){i, (int32_t)offset};
    return offset == out->offset;
}

static bool add_place(tpi_launches *l, tpi_place p)
{
    if (!one_more(l, &l->places, l->n_places, &l->places_size, sizeof *l->places))
        return false;
    l->places[l->n_places++] = p;
    return true;
}

static bool add_input(tpi_frame *fr, const tp_tensor *x)
{
    tpi_launches *l = fr->trace->launches;
    tpi_place p;
    return tpi_launches_find(l, fr->trace, x, &p) && add_place(l, p);
}

/* One that nobody wants has no memory. */
static bool add_result(tpi_launches *l, tp_tensor *y)
{
    if (y->buf && (y->data != y->buf->data || !(y->flags & TPI_CONTIGUOUS)))
        return false;
    if (y->buf)
        y->buf->refs++;
    const int32_t i = add_value(
        l, (tpi_launched){.buf = y->buf, .data = y->data, .origin = -1, .bytes = tpi_bytes(y)});
    return i >= 0 && add_place(l, (tpi_place){i, 0});
}

/* ---- launches ---------------------------------------------------------------------------- */

static tpi_launches *kept_of(const tpi_frame *fr)
{
    tpi_launches *l = fr->trace ? fr->trace->launches : NULL;
    return l && l->whole ? l : NULL;
}

/* Equal ones are one origin. */
void tpi_launched_number(tpi_frame *fr, const tp_tensor *t, int32_t origin)
{
    tpi_launches *l = kept_of(fr);
    if (l)
        l->whole = add_outside(l, t->buf, t->data, origin) >= 0;
}

void tpi_launched_other(tpi_frame *fr)
{
    if (kept_of(fr))
        fr->trace->launches->whole = false;
}

/* Nothing is launched behind an assignment, which are all done at the end. */
static bool add_launch(tpi_launches *l, tpi_launch x)
{
    l->whole &= l->n_assigns == 0;
    if (!l->whole || !one_more(l, &l->v, l->n, &l->size, sizeof *l->v))
        return false;
    x.place = l->n_places;
    x.form = l->n_of;
    x.symbol = l->n_symbols;
    l->v[l->n++] = x;
    return true;
}

void tpi_launched_program(tpi_frame *fr, tpi_shared *s, const int64_t *symbols, int n_feeds,
                          tp_tensor *const *feeds, int n_results, tp_tensor *const *results)
{
    tpi_launches *l = kept_of(fr);
    if (!l)
        return;
    const int n_symbols = s->program->n_symbols;
    bool ok = s->direct == TPI_DIRECT &&
              add_launch(l, (tpi_launch){.program = s, .n_in = n_feeds, .n_out = n_results});
    for (int i = 0; i < n_feeds && ok; i++)
        ok = add_input(fr, feeds[i]);
    for (int i = 0; i < n_results && ok; i++)
        ok = add_result(l, results[i]);
    for (int i = 0; i < n_symbols && ok; i++) {
        ok = one_more(l, &l->symbols, l->n_symbols, &l->symbols_size, sizeof *l->symbols);
        if (ok)
            l->symbols[l->n_symbols++] = symbols[i];
    }
    l->whole &= ok;
}

static bool same_form(const tp_tensor *a, const tp_tensor *b)
{
    return a->dtype == b->dtype && tpi_same_shape(a, b);
}

/* Type and sizes; without gaps. */
static bool add_form(tpi_launches *l, const tp_tensor *x)
{
    int i = l->n_forms - 1;
    while (i >= 0 && !same_form(l->forms[i], x))
        i--;
    if (i < 0) {
        tp_tensor *t =
            tpi_tensor(l->ctx, TPI_AT(x->file, x->line), (tp_dtype)x->dtype, x->rank, x->shape);
        if (!t || !one_more(l, &l->forms, l->n_forms, &l->forms_size, sizeof(tp_tensor *)))
            return false;
        tpi_set_strides(t);
        tpi_disown(t);
        i = l->n_forms;
        l->forms[l->n_forms++] = t;
    }
    if (!one_more(l, &l->of, l->n_of, &l->of_size, sizeof *l->of))
        return false;
    l->of[l->n_of++] = i;
    return true;
}

static bool add_op(tpi_frame *fr, tpi_launches *l, const tpi_infer *q, tp_tensor *y)
{
    if (tpi_is_draw(q->op) || q->op->kind == TPI_EFFECT ||
        !add_launch(l, (tpi_launch){.op = q->op, .at = q->at, .n_in = q->n_in, .n_out = 1}))
        return false;
    if (q->op->attrs_size) {
        void *attrs = tpi_take(&l->ctx->mem, q->op->attrs_size);
        l->v[l->n - 1].attrs = attrs;
        if (!attrs)
            return false;
        memcpy(attrs, q->attrs, q->op->attrs_size);
    }
    bool ok = true;
    for (int i = 0; i < q->n_in && ok; i++)
        ok = add_input(fr, q->in[i]) && add_form(l, q->in[i]);
    return ok && add_result(l, y) && add_form(l, y);
}

void tpi_launched_op(tpi_frame *fr, const tpi_infer *q, tp_tensor *y)
{
    tpi_launches *l = kept_of(fr);
    if (!l || (q->op->kind == TPI_VIEW && y->buf == q->in[0]->buf))
        return;
    tpi_frame_head *frame = l->ctx->frame;
    l->ctx->frame = NULL;
    l->whole = add_op(fr, l, q, y);
    l->ctx->frame = frame;
}

void tpi_launched_assign(tpi_frame *fr, const tp_tensor *var, const tp_tensor *value)
{
    tpi_launches *l = kept_of(fr);
    if (!l)
        return;
    const tpi_trace *t = fr->trace;
    int origin = 0;
    while (origin < t->n_origins && t->origins[origin].tensor != var)
        origin++;
    tpi_place p;
    l->whole = origin < t->n_origins && tpi_launches_find(l, t, value, &p) && p.offset == 0 &&
               l->values[p.value].origin < 0 && l->values[p.value].bytes == tpi_bytes(value) &&
               one_more(l, &l->assigns, l->n_assigns, &l->assigns_size, sizeof *l->assigns);
    if (l->whole)
        l->assigns[l->n_assigns++] = (tpi_launch_assign){origin, p.value};
}
