#include "core/dim.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { BUF_HEADER = 64 }; /* keeps the elements aligned to 64 bytes */

tpi_buf *tpi_buf_new(tp_ctx *ctx, size_t bytes)
{
    _Static_assert(sizeof(tpi_buf) <= BUF_HEADER, "the header fits");
    if (bytes > SIZE_MAX - BUF_HEADER)
        return NULL;
    tpi_buf *b = tpi_take(&ctx->mem, BUF_HEADER + bytes);
    if (!b)
        return NULL;
    *b = (tpi_buf){.refs = 1, .data = (char *)b + BUF_HEADER, .size = BUF_HEADER + bytes};
    return b;
}

tpi_buf *tpi_buf_copy(tp_ctx *ctx, const tpi_buf *b)
{
    tpi_buf *copy = tpi_buf_new(ctx, b->size - BUF_HEADER);
    if (copy)
        memcpy(copy->data, b->data, b->size - BUF_HEADER);
    return copy;
}

void tpi_buf_unref(tp_ctx *ctx, tpi_buf *b)
{
    if (!b || --b->refs > 0)
        return;
    if (b->release)
        b->release(b->user, b->data);
    tpi_give_back(&ctx->mem, b, b->size ? b->size : sizeof *b);
}

/* ---- headers ------------------------------------------------------------------------------------ */

/* A dead tensor is known as such, by refs == 0, until so many later ones have been made: then its header
 * is used again. In the stress build it is known until the context is closed. */
#ifdef TPI_STRESS
enum { PER_SLAB = 1 };
static const int64_t known_for = INT64_MAX;
#else
enum { PER_SLAB = 256 };
static const int64_t known_for = 4096;
#endif
enum { HEAD_BYTES = (sizeof(tp_tensor) + TPI_APART + 63) / 64 * 64, SLAB_HEADER = 64 };

typedef struct tpi_slab {
    struct tpi_slab *next;
    int64_t n, n_used;
} tpi_slab;

static size_t slab_bytes(int64_t n)
{
    return SLAB_HEADER + (size_t)n * HEAD_BYTES;
}

static void add_slab(tp_ctx *ctx, int64_t n)
{
    tpi_heads *h = &ctx->heads;
    tpi_slab *s = tpi_take(&ctx->mem, slab_bytes(n));
    if (!s)
        return;
    ctx->mem.in_use -= slab_bytes(n); /* kept for reuse; each header counts while it is used */
    *s = (tpi_slab){.n = n};
    tpi_nobodys((char *)s + SLAB_HEADER, slab_bytes(n) - SLAB_HEADER);
    tpi_slab **end = h->open ? &h->open->next : &h->slabs;
    while (*end)
        end = &(*end)->next;
    *end = s;
    h->open = h->open ? h->open : s;
    h->n_free += n;
}

/* From now on there are as many headers more than tensors as a dead one is known for: then in a steady
 * state there is always one to be had. */
void tpi_heads_reserve(tp_ctx *ctx)
{
    tpi_heads *h = &ctx->heads;
    if (known_for == INT64_MAX)
        return;
    h->n_least = known_for;
    if (h->n_free <= h->n_least)
        add_slab(ctx, h->n_least - h->n_free + PER_SLAB);
}

/* A dead header has not been touched for 4,096 tensors: the one behind the next is fetched now, so that it is in the
 * cache when it is taken. */
static tp_tensor *take_dead(tpi_heads *h)
{
    enum { LINE = 64 };
    tp_tensor *t = h->dead_first;
    h->dead_first = t->retained_next;
    const char *ahead = (const char *)(h->dead_first ? h->dead_first->retained_next : NULL);
    for (size_t i = 0; ahead && i < sizeof *t; i += LINE)
        __builtin_prefetch(ahead + i, 1);
    t->retained_next = NULL;
    tpi_somebodys(t, sizeof *t);
    return t;
}

static bool has_unused(tpi_heads *h)
{
    while (h->open && h->open->n_used == h->open->n && h->open->next)
        h->open = h->open->next;
    return h->open && h->open->n_used < h->open->n;
}

/* A header that nobody had; when memory is out one of those that died last. */
static __attribute__((noinline)) tp_tensor *take_new(tp_ctx *ctx)
{
    tpi_heads *h = &ctx->heads;
    if (!has_unused(h) || h->n_free <= h->n_least)
        add_slab(ctx, PER_SLAB);
    if (!has_unused(h))
        return h->dead_first ? take_dead(h) : NULL;
    tpi_slab *s = h->open;
    void *const t = (char *)s + SLAB_HEADER + s->n_used++ * HEAD_BYTES;
    tpi_somebodys(t, sizeof(tp_tensor));
    return memset(t, 0, sizeof(tp_tensor));
}

/* Zeroed up to its shape; NULL: no memory. */
static inline tp_tensor *take_head(tp_ctx *ctx)
{
    tpi_heads *h = &ctx->heads;
    const tp_tensor *oldest = h->dead_first;
    tp_tensor *t =
        oldest && h->born - oldest->seq >= (uint64_t)known_for ? take_dead(h) : take_new(ctx);
    h->born++;
    if (t) {
        h->n_free--;
        ctx->mem.in_use += sizeof *t;
    }
    return t;
}

static void give_head_back(tp_ctx *ctx, tp_tensor *t)
{
    tpi_heads *h = &ctx->heads;
    size_t bytes = offsetof(tp_tensor, shape);
    __asm__(""
            : "+r"(bytes)); /* the C library's memset is faster than what a constant becomes */
    memset(t, 0, bytes);
    tpi_nobodys(t->shape, sizeof *t - offsetof(tp_tensor, shape));
    t->ctx = ctx;
    t->seq = h->born;
    if (h->dead_first)
        h->dead_last->retained_next = t;
    else
        h->dead_first = t;
    h->dead_last = t;
    h->n_free++;
    ctx->mem.in_use -= sizeof *t;
}

void tpi_heads_free(tp_ctx *ctx)
{
    for (tpi_slab *s = ctx->heads.slabs, *next; s; s = next) {
        next = s->next;
        ctx->mem.in_use += slab_bytes(s->n);
        tpi_somebodys(s, slab_bytes(s->n));
        tpi_give_back(&ctx->mem, s, slab_bytes(s->n));
    }
}

/* ---- references ----------------------------------------------------------------------------- */

void tpi_ref(const tp_tensor *t)
{
    if (t && t->ctx)
        ((tp_tensor *)t)->refs++;
}

static void bury(tp_ctx *ctx, tp_tensor *t)
{
    for (int i = 0; i < t->n_in; i++)
        tpi_unref(t->in[i]);
    if (t->grad)
        tpi_unref(t->grad);
    tpi_give_back(&ctx->mem, t->in, t->block_size);
    tpi_buf_unref(ctx, t->buf);
    if (t->name)
        tpi_strfree(&ctx->mem, t->name);
    if (t->error && --t->error->refs == 0)
        tpi_give_back(&ctx->mem, t->error, sizeof *t->error);
    give_head_back(ctx, t);
}

void tpi_unref(const tp_tensor *ct)
{
    tp_tensor *t = (tp_tensor *)ct;
    if (!t || !t->ctx || t == &t->ctx->nil || --t->refs > 0)
        return;
    tp_ctx *ctx = t->ctx;
    t->retained_next = ctx->dead; /* a list, because a chain of a million nodes dies at once */
    ctx->dead = t;
    if (ctx->sweeping)
        return;
    ctx->sweeping = true;
    while (ctx->dead) {
        t = ctx->dead;
        ctx->dead = t->retained_next;
        bury(ctx, t);
    }
    ctx->sweeping = false;
}

/* ---- birth ------------------------------------------------------------------------------------ */

tp_tensor *tpi_tensor(tp_ctx *ctx, tpi_at at, tp_dtype dtype, int rank, const int64_t *shape)
{
    tp_tensor *t = take_head(ctx);
    if (!t)
        return NULL;
    t->ctx = ctx;
    t->refs = 1;
    t->dtype = (uint8_t)dtype;
    t->rank = (uint8_t)rank;
    t->seq = ctx->caller.seq++;
    t->file = at.file;
    t->line = at.line;
    t->owned_at = -1;
    t->index = -1;
    for (int i = 0; i < rank; i++)
        t->shape[i] = shape[i];
    return tpi_own(t) ? t : NULL;
}

void tpi_set_strides(tp_tensor *t)
{
    int64_t step = 1;
    for (int i = t->rank - 1; i >= 0; i--) {
        t->stride[i] = step;
        step *= t->shape[i] ? t->shape[i] : 1;
    }
    t->flags |= TPI_CONTIGUOUS;
}

void tpi_note_contiguous(tp_tensor *t)
{
    int64_t step = 1;
    t->flags |= TPI_CONTIGUOUS;
    for (int i = t->rank - 1; i >= 0; i--) {
        if (t->shape[i] == 0) {
            t->flags |= TPI_CONTIGUOUS;
            return;
        }
        if (t->shape[i] != 1 && t->stride[i] != step)
            t->flags &= (uint8_t)~TPI_CONTIGUOUS;
        step *= t->shape[i];
    }
}

int64_t tpi_count(const tp_tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->shape[i];
    return n;
}

size_t tpi_bytes(const tp_tensor *t)
{
    size_t bytes = (size_t)tpi_elem_size(t);
    bool over = false, none = false;
    for (int i = 0; i < t->rank; i++) {
        none |= t->shape[i] == 0;
        over |= __builtin_mul_overflow(bytes, (size_t)t->shape[i], &bytes);
    }
    return none ? 0 : over ? SIZE_MAX : bytes;
}

bool tpi_tensor_alloc(tp_tensor *t)
{
    tpi_set_strides(t);
    t->buf = tpi_buf_new(t->ctx, tpi_bytes(t));
    if (!t->buf)
        return false;
    t->data = t->buf->data;
    return true;
}

void tpi_tensor_share(tp_tensor *t, tp_tensor *src, int64_t offset)
{
    t->buf = src->buf;
    t->buf->refs++;
    t->data = src->data + offset * tpi_elem_size(src);
    t->flags |= src->flags & TPI_VARIABLE;
}

tp_tensor *tpi_tensor_new(tp_ctx *ctx, tpi_at at, tp_dtype dtype, int rank,
                          const int64_t *shape)
{
    tp_tensor *t = tpi_tensor(ctx, at, dtype, rank, shape);
    if (!t || !tpi_tensor_alloc(t))
        return tpi_no_memory(ctx, at, NULL);
    return t;
}

bool tpi_check_shape(tp_ctx *ctx, tpi_at at, const char *what, int rank, const int64_t *shape,
                     tp_tensor **out)
{
    if (rank < 0 || rank > TP_MAX_RANK) {
        *out =
            tpi_fail(ctx, at, what, TP_E_SHAPE, "rank %d is not in 0..%d", rank, TP_MAX_RANK);
        return false;
    }
    if (rank > 0 && !shape) {
        *out = tpi_fail(ctx, at, what, TP_E_NULL, "the shape is NULL");
        return false;
    }
    int64_t bytes = 8; /* of the widest element; an empty axis must not hide an absurd one */
    for (int i = 0; i < rank; i++) {
        if (tpi_is_spoilt(shape[i])) {
            *out = tpi_fail_spoilt(ctx, at, what, TP_E_SHAPE, shape[i]);
            return false;
        }
        if (shape[i] < 0) {
            *out = tpi_fail(ctx, at, what, TP_E_SHAPE, "size %lld of axis %d is negative",
                            (long long)shape[i], i);
            return false;
        }
        if (shape[i] > 0 && __builtin_mul_overflow(bytes, shape[i], &bytes)) {
            *out = tpi_fail(ctx, at, what, TP_E_SHAPE, "the sizes multiply beyond 2^63 bytes");
            return false;
        }
    }
    return true;
}

bool tpi_record(tp_tensor *t, const tpi_op *op, int n_in, tp_tensor *const *in,
                const void *attrs, size_t attrs_size)
{
    const size_t versions_at = (size_t)n_in * sizeof *in;
    const size_t attrs_at = (versions_at + (size_t)n_in * sizeof(uint32_t) + 7) & ~(size_t)7;
    t->op = op;
    if (attrs_at + attrs_size == 0)
        return true;
    char *block = tpi_take(&t->ctx->mem, attrs_at + attrs_size);
    if (!block)
        return false;
    t->block_size = attrs_at + attrs_size;
    t->in = (tp_tensor **)(void *)block;
    t->in_version = (uint32_t *)(void *)(block + versions_at);
    t->n_in = n_in;
    for (int i = 0; i < n_in; i++) {
        t->in[i] = in[i];
        t->in_version[i] = in[i]->buf ? in[i]->buf->version : 0;
        tpi_ref(in[i]);
    }
    if (attrs_size)
        t->attrs = memcpy(block + attrs_at, attrs, attrs_size);
    return true;
}
