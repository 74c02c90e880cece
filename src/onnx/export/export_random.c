/* Random numbers as operators of ONNX: Philox 4x32-10 (src/kernel/text/philox.h) in integers, with seed
 * and position of the context when the model is written. The words are the same, bit for bit. */
#include "core/dim.h"
#include "ir/body.h"
#include "onnx/export/emit.h"
#include "op/random_position.h"

#include <string.h>

static const uint64_t words = UINT64_C(1) << 32;

/* All that follows is u64. */
static tpi_val number(tpi_export *x, uint64_t v)
{
    return tpi_constant(x, TP_U64, 0, 1, &v);
}

static tpi_val pair(tpi_export *x, uint64_t a, uint64_t b)
{
    const uint64_t v[2] = {a, b};
    return tpi_constant(x, TP_U64, 1, 2, v);
}

static tpi_val low(tpi_export *x, tpi_val v)
{
    return tpi_put(x, "Mod", TPI_V(v, number(x, words)));
}

static tpi_val shift(tpi_export *x, tpi_val v, uint64_t by)
{
    const tpi_val y = tpi_put(x, "BitShift", TPI_V(v, number(x, by)));
    tpi_put_text(x, "direction", "RIGHT");
    return y;
}

/* Columns from, from + 1 of [n, 4], or one of [n, 2]. */
static tpi_val columns(tpi_export *x, tpi_val v, int64_t from, int64_t end)
{
    return tpi_cut(x, v, 1, tpi_int(x, from), tpi_int(x, end), 1);
}

static tpi_val turned(tpi_export *x, tpi_val v)
{
    const tpi_val y = tpi_put(x, "Gather", TPI_V(v, tpi_ints(x, 2, (const int64_t[]){1, 0})));
    tpi_put_int(x, "axis", 1);
    return y;
}

/* Exclusive or of words: the parity of each bit's sum. */
static tpi_val exclusive_or(tpi_export *x, tpi_val a, tpi_val b, tpi_val c)
{
    tpi_val sum = tpi_put(x, "Add", TPI_V(tpi_shifts_of(x, a, 32), tpi_shifts_of(x, b, 32)));
    sum = tpi_put(x, "Add", TPI_V(sum, tpi_shifts_of(x, c, 32)));
    return tpi_of_bits(x, tpi_put(x, "Mod", TPI_V(sum, number(x, 2))), 32);
}

/* i64 [n]: 0, 1, ... */
static tpi_val numbers_below(tpi_export *x, int64_t n)
{
    const tpi_val zero = tpi_scalar(x, TP_I64, 0), step = tpi_scalar(x, TP_I64, 1);
    const tpi_val count = tpi_reshape(x, tpi_size(x, n), NULL, 0, NULL);
    return tpi_put(x, "Range", TPI_V(zero, count, step));
}

/* The positions of a draw that begins at `first` (i64[1]), i64 [all]: `n` in a row, and such rows apart from each other. */
static tpi_val positions(tpi_export *x, const tp_tensor *t, tpi_val first, int64_t n)
{
    const tpi_random_attrs *a = t->attrs;
    tpi_val block = tpi_put(x, "Add", TPI_V(numbers_below(x, n), first));
    for (int64_t i = a->apart.n - 1; i >= 0; i--) {
        tpi_val row =
            tpi_put(x, "Mul", TPI_V(numbers_below(x, t->shape[i]), tpi_size(x, a->apart.v[i])));
        row = tpi_put(x, "Unsqueeze", TPI_V(row, tpi_int(x, 1)));
        block = tpi_put(x, "Add", TPI_V(row, block));
        block = tpi_put(x, "Reshape", TPI_V(block, tpi_int(x, -1)));
    }
    return block;
}

/* Words [n, 4] of n blocks, i64 [n]. A round is
 *     c0, c2 = hi(c2 M1) ^ c1 ^ k0, hi(c0 M0) ^ c3 ^ k1      c1, c3 = lo(c2 M1), lo(c0 M0) */
static tpi_val blocks(tpi_export *x, tpi_val block, uint64_t seed, uint64_t stream)
{
    block = tpi_put(x, "Unsqueeze", TPI_V(tpi_as(x, block, TP_U64), tpi_int(x, 1)));
    /* even = c0, c2 and odd = c1, c3: the block's number, then the stream */
    tpi_val even = tpi_put(x, "Mul", TPI_V(low(x, block), pair(x, 1, 0)));
    tpi_val odd = tpi_put(x, "Mul", TPI_V(shift(x, block, 32), pair(x, 1, 0)));
    if (stream) {
        even = tpi_put(x, "Add", TPI_V(even, pair(x, 0, stream % words)));
        odd = tpi_put(x, "Add", TPI_V(odd, pair(x, 0, stream / words)));
    }
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int i = 0; i < 10; i++) {
        const tpi_val factors = pair(x, 0xd2511f53u, 0xcd9e8d57u);
        const tpi_val both = turned(x, tpi_put(x, "Mul", TPI_V(even, factors)));
        even = exclusive_or(x, shift(x, both, 32), odd, pair(x, k0, k1));
        odd = low(x, both);
        k0 += 0x9e3779b9u;
        k1 += 0xbb67ae85u;
    }
    const tpi_val axis = tpi_int(x, 2);
    const tpi_val both[2] = {tpi_put(x, "Unsqueeze", TPI_V(even, axis)),
                             tpi_put(x, "Unsqueeze", TPI_V(odd, axis))};
    const tpi_val all = tpi_put(x, "Concat", 2, both); /* [n, 2, 2]: c0 c1, c2 c3 */
    tpi_put_int(x, "axis", 2);
    return tpi_reshape(x, all, NULL, 2, (const int64_t[]){-1, 4});
}

static tpi_val times(tpi_export *x, tpi_val v, double by)
{
    return tpi_put(x, "Mul", TPI_V(v, tpi_scalar(x, TP_F64, by)));
}

static tpi_val plus(tpi_export *x, tpi_val a, tpi_val b)
{
    return tpi_put(x, "Add", TPI_V(a, b));
}

/* From here on f64. Pairs of words [m, 2], the lower one first, as numbers in [0, 1). */
static tpi_val uniform_f64(tpi_export *x, tpi_val w)
{
    const tpi_val hi = tpi_as(x, columns(x, w, 1, 2), TP_F64);
    const tpi_val lo = tpi_as(x, shift(x, columns(x, w, 0, 1), 11), TP_F64);
    return plus(x, times(x, hi, 0x1p-32), times(x, lo, 0x1p-53));
}

/* r cos t, r sin t with r = sqrt(-2 log u), t = 2 pi v: [m, 1] each, to [m, 2]. */
static tpi_val box_muller(tpi_export *x, tpi_val u, tpi_val v)
{
    const double pi = 3.14159265358979323846;
    const tpi_val r = tpi_put(x, "Sqrt", TPI_V(times(x, tpi_put(x, "Log", TPI_V(u)), -2)));
    const tpi_val t = times(x, v, 2 * pi);
    const tpi_val cosine = tpi_put(x, "Mul", TPI_V(r, tpi_put(x, "Cos", TPI_V(t))));
    const tpi_val sine = tpi_put(x, "Mul", TPI_V(r, tpi_put(x, "Sin", TPI_V(t))));
    const tpi_val y = tpi_put(x, "Concat", TPI_V(cosine, sine));
    tpi_put_int(x, "axis", 1);
    return y;
}

/* Of f32 two words make two numbers, of f64 four. */
static tpi_val normal(tpi_export *x, tpi_val w, bool is_f32)
{
    if (is_f32) {
        w = tpi_reshape(x, w, NULL, 2, (const int64_t[]){-1, 2});
        tpi_val u = tpi_as(x, shift(x, columns(x, w, 0, 1), 1), TP_F32);
        u = plus(x, u, tpi_scalar(x, TP_F32, 0.5));
        const tpi_val v = tpi_as(x, columns(x, w, 1, 2), TP_F64);
        return box_muller(x, times(x, tpi_as(x, u, TP_F64), 0x1p-31), times(x, v, 0x1p-32));
    }
    const tpi_val hi = tpi_as(x, columns(x, w, 1, 2), TP_F64);
    const tpi_val lo = tpi_as(x, shift(x, columns(x, w, 0, 1), 11), TP_F64);
    tpi_val u = plus(x, hi, times(x, lo, 0x1p-21));
    u = times(x, plus(x, u, tpi_scalar(x, TP_F64, 0x1p-22)), 0x1p-32);
    return box_muller(x, u, uniform_f64(x, columns(x, w, 2, 4)));
}

/* ---- streams and positions ------------------------------------------------------------------------------ */

int tpi_random_stream_of(const tpi_export *x, const tp_tensor *draw)
{
    const uint64_t stream = (uint64_t)((const tpi_random_attrs *)draw->attrs)->stream;
    int i = 0;
    while (i < x->n_streams && x->streams[i] != stream)
        i++;
    return i;
}

static void find_streams(tpi_export *x, const tp_graph *g)
{
    for (int i = 0; i < g->n_nodes && x->status == TP_OK; i++) {
        const tp_tensor *t = g->nodes[i];
        tpi_body *bodies[2];
        const int n = tpi_is_block(t) ? tpi_bodies_of(t, bodies) : 0;
        for (int k = 0; k < n; k++)
            find_streams(x, bodies[k]->graph);
        if (!t->op->draws || tpi_random_stream_of(x, t) < x->n_streams ||
            !tpi_export_room(x, &x->streams, x->n_streams, &x->streams_size,
                             sizeof *x->streams))
            continue;
        x->streams[x->n_streams++] = (uint64_t)((const tpi_random_attrs *)t->attrs)->stream;
    }
}

void tpi_random_begin(tpi_export *x)
{
    if (!tpi_streams_add(x->m->g))
        tpi_export_no_memory(x);
    find_streams(x, x->m->g);
    x->now.drawn = tpi_export_take(x, (size_t)x->n_streams, sizeof *x->now.drawn);
}

tpi_export_stream *tpi_random_copy(tpi_export *x)
{
    tpi_export_stream *was = x->now.drawn;
    const size_t n = (size_t)x->n_streams;
    tpi_export_stream *copy = tpi_export_take(x, n, sizeof *copy);
    if (copy && n)
        x->now.drawn = memcpy(copy, was, n * sizeof *copy);
    return was;
}

tpi_val tpi_random_at(tpi_export *x, int stream, int64_t drawn)
{
    const tpi_val from = x->now.drawn[stream].from;
    if (from)
        return tpi_put(x, "Add", TPI_V(from, tpi_size(x, drawn)));
    const uint64_t at = *tpi_stream_position(x->ctx, x->streams[stream]);
    return tpi_size(x, tpi_dim_add(x->now.g->dims, drawn, (int64_t)at));
}

tpi_val tpi_random_now(tpi_export *x, int stream)
{
    return tpi_random_at(x, stream, x->now.drawn[stream].n);
}

void tpi_random_from(tpi_export *x, int stream, tpi_val from)
{
    x->now.drawn[stream] = (tpi_export_stream){.from = from};
}

/* ---- numbers --------------------------------------------------------------------------------------------- */

/* Floats of words [m, 4], any number in a row, before they are scaled. In f64: one rounding more than an fma, at
 * most. */
static tpi_val floats(tpi_export *x, const tp_tensor *t, tpi_val w)
{
    const tp_dtype type = (tp_dtype)t->dtype;
    const bool is_f32 = type == TP_F32,
               is_normal = tpi_attr_int(t, "kind") == TPI_RANDOM_NORMAL;
    const double a = tpi_attr_f64(t, "a"), b = tpi_attr_f64(t, "b");
    tpi_val y;
    if (is_normal)
        y = normal(x, w, is_f32);
    else if (is_f32)
        y = times(x, tpi_as(x, shift(x, w, 8), TP_F64), 0x1p-24);
    else
        y = uniform_f64(x, tpi_reshape(x, w, NULL, 2, (const int64_t[]){-1, 2}));
    const double lo = is_f32 ? (double)(float)a : a, hi = is_f32 ? (double)(float)b : b;
    const double width = is_normal ? hi : is_f32 ? (double)((float)hi - (float)lo) : hi - lo;
    y = plus(x, times(x, y, width), tpi_scalar(x, TP_F64, lo));
    y = tpi_as(x, y, type);
    if (is_normal)
        return y;
    const tpi_val inside = tpi_put_typed(x, "Less", TP_BOOL, TPI_V(y, tpi_scalar(x, type, hi)));
    return tpi_choose(x, inside, y, tpi_scalar(x, type, lo));
}

static tpi_val product(tpi_export *x, tpi_val a, uint64_t by)
{
    return tpi_put(x, "Mul", TPI_V(a, number(x, by)));
}

/* floor((w count + rest) / 2^32), as tpk_next_below. */
static tpi_val next_below(tpi_export *x, tpi_val w, uint64_t count, tpi_val rest)
{
    const tpi_val least = plus(x, product(x, w, count % words), low(x, rest));
    const tpi_val most = plus(x, product(x, w, count >> 32), shift(x, rest, 32));
    return plus(x, most, shift(x, least, 32));
}

/* i64 in [lo, hi) of words [m, 4]: lo + below = (lo + half) + (half + odd), of which no sum leaves i64. */
static tpi_val whole(tpi_export *x, const tpi_random_attrs *a, tpi_val w)
{
    const int n = 4 / tpi_random_per(a);
    const uint64_t count = (uint64_t)a->hi - (uint64_t)a->lo;
    w = tpi_reshape(x, w, NULL, 2, (const int64_t[]){-1, n});
    tpi_val below = number(x, 0);
    for (int i = 0; i < n; i++)
        below = next_below(x, columns(x, w, i, i + 1), count, below);
    const tpi_val half = tpi_as(x, shift(x, below, 1), TP_I64);
    const tpi_val odd = tpi_as(x, tpi_put(x, "Mod", TPI_V(below, number(x, 2))), TP_I64);
    const tpi_val lo = tpi_constant(x, TP_I64, 0, 1, &a->lo);
    return plus(x, plus(x, lo, half), plus(x, half, odd));
}

tpi_val tpi_export_random(tpi_export *x, const tp_tensor *t)
{
    const tpi_random_attrs *a = t->attrs;
    tpi_dims *dims = x->now.g->dims;
    const int64_t per = tpi_random_per(a),
                  rows = tpi_size_product(x, (int)a->apart.n, t->shape);
    const int64_t count = tpi_size_product(x, t->rank - (int)a->apart.n, t->shape + a->apart.n);
    const int64_t n = tpi_dim_div(dims, tpi_dim_add(dims, count, per - 1), per);
    const tpi_val first = tpi_random_at(x, tpi_random_stream_of(x, t), x->now.place[t->index]);
    const tpi_val w = blocks(x, positions(x, t, first, n), x->ctx->seed, (uint64_t)a->stream);
    tpi_val y = a->kind == TPI_RANDOM_WHOLE ? whole(x, a, w) : floats(x, t, w);
    const bool apart = a->apart.n > 0;
    y = apart ? tpi_reshape(x, y, NULL, 2, (const int64_t[]){rows, tpi_dim_mul(dims, n, per)})
              : tpi_put(x, "Reshape", TPI_V(y, tpi_int(x, -1)));
    y = tpi_cut(x, y, apart, tpi_int(x, 0), tpi_size(x, count), 1); /* a last block's rest */
    return tpi_reshape(x, y, NULL, t->rank, t->shape);
}
