/* Indices: gather, take_along and their opposites, for one element type: T is the type, S its
 * suffix, FN(name) is tpk_name_S. Indices are int64, a negative one counts from the end. A
 * result is 0, or 1 + the flat position of an index that is out of range. Operands may have any
 * strides, the result has no gaps. */

#ifndef TPK_INDEX_ONCE
#define TPK_INDEX_ONCE
/* What a source does to what is at its place. */
enum { TPK_PUT_SET, TPK_PUT_ADD, TPK_PUT_MUL, TPK_PUT_MAX, TPK_PUT_MIN };

/* Moves `at` to the next position in row-major order, and k offsets with it; after the last
 * position all are back at the first. */
static __attribute__((unused)) void tpk_index_step(int64_t rank, const int64_t *n, int64_t *at,
                                                   int64_t k, const int64_t *const *s,
                                                   int64_t *offset)
{
    for (int64_t i = rank - 1; i >= 0; i--) {
        const int64_t back = ++at[i] < n[i] ? 0 : n[i];
        for (int64_t j = 0; j < k; j++) {
            offset[j] += (1 - back) * s[j][i];
        }
        if (!back) {
            return;
        }
        at[i] = 0;
    }
}

static __attribute__((unused)) int64_t tpk_index_count(int64_t rank, const int64_t *n)
{
    int64_t count = 1;
    for (int64_t i = 0; i < rank; i++) {
        count *= n[i];
    }
    return count;
}

/* The first of n neighbouring indices that is out of range, or n. */
static __attribute__((unused)) int64_t tpk_index_bad(int64_t n, const int64_t *p, int64_t size)
{
    const uint64_t low = (uint64_t)size, all = 2 * low;
    int64_t i = 0;
    for (; i + 64 <= n; i += 64) {
        uint64_t bad = 0;
        for (int64_t k = i; k < i + 64; k++) {
            bad |= (uint64_t)((uint64_t)p[k] + low >= all);
        }
        if (bad) {
            break;
        }
    }
    while (i < n && (uint64_t)p[i] + low < all) {
        i++;
    }
    return i;
}

static __attribute__((unused)) int64_t tpk_index_check(const tpk_view *index, int64_t size)
{
    const int64_t *const p = (const int64_t *)index->p;
    const int64_t *const s[1] = {index->s};
    const int64_t last = index->rank - 1;
    const int64_t row = index->rank > 0 && index->s[last] == 1 ? index->n[last] : 1;
    const int64_t outer = index->rank > 0 && index->s[last] == 1 ? last : index->rank;
    const int64_t rows = tpk_index_count(outer, index->n);
    int64_t at[8] = {0}, offset[1] = {0};
    for (int64_t i = 0; i < rows; i++) {
        const int64_t bad = tpk_index_bad(row, p + offset[0], size);
        if (bad < row) {
            return 1 + i * row + bad;
        }
        tpk_index_step(outer, index->n, at, 1, s, offset);
    }
    return 0;
}

/* The n indices from position i on, without gaps. */
TPK_OUT void tpk_index_copy(const tpk_view *index, int64_t i, int64_t n, int64_t *to)
{
    const int64_t last = index->rank - 1;
    const int64_t row = last < 0 ? 1 : index->n[last], step = last < 0 ? 0 : index->s[last];
    for (int64_t k = 0, m; k < n; k += m) {
        const int64_t *from = (const int64_t *)index->p + (i + k) % row * step;
        m = row - (i + k) % row < n - k ? row - (i + k) % row : n - k;
        for (int64_t axis = last - 1, left = (i + k) / row; axis >= 0; axis--) {
            from += left % index->n[axis] * index->s[axis];
            left /= index->n[axis];
        }
        for (int64_t j = 0; j < m; j++) {
            to[k + j] = from[j * step];
        }
    }
}

/* Are these axes one run of elements? */
static __attribute__((unused)) int tpk_index_packed(int64_t rank, const int64_t *n,
                                                    const int64_t *s)
{
    int64_t step = 1;
    for (int64_t i = rank - 1; i >= 0; i--) {
        if (n[i] != 1 && s[i] != step) {
            return 0;
        }
        step *= n[i];
    }
    return 1;
}

/* Some indices of a row, counted from 0. `vectors`: by vectors of results, the last of which may overlap with that
 * before it; where the places of one lie in two vectors, `from` and `next` say where these begin, and they count
 * through both, else `from` is below 0. */
enum { TPK_INDEX_SOME = 2048, TPK_INDEX_ROWS = 4 /* fewer are not worth it */ };
typedef struct tpk_index_some {
    int64_t vectors;
    int32_t place[TPK_INDEX_SOME];
    int32_t from[TPK_INDEX_SOME / 4], next[TPK_INDEX_SOME / 4];
} tpk_index_some;

#ifdef TPK_PICK
/* The result that a vector of them begins at. */
static inline __attribute__((unused)) int64_t tpk_index_at(int64_t n, int64_t vector)
{
    return tpk_i_min(vector * TPK_VL_32, n - TPK_VL_32);
}

TPK_IN tpk_vi32 tpk_index_choose(tpk_vi32 yes, tpk_vi32 a, tpk_vi32 b)
{
    return (yes & a) | (~yes & b);
}

/* The least lane, in all lanes. */
TPK_IN tpk_vi32 tpk_index_least(tpk_vi32 v)
{
    tpk_vi32 lane;
    for (int i = 0; i < TPK_VL_32; i++) {
        lane[i] = i;
    }
    for (int by = 1; by < TPK_VL_32; by *= 2) {
        const tpk_vi32 w = TPK_PERMUTE(v, lane + by);
        v = tpk_index_choose(v < w, v, w);
    }
    return v;
}

TPK_IN int tpk_index_any(tpk_vi32 v)
{
    uint64_t w[TPK_VBYTES / 8], any = 0;
    __builtin_memcpy(w, &v, sizeof w);
    for (int i = 0; i < TPK_VBYTES / 8; i++) {
        any |= w[i];
    }
    return any != 0;
}

/* Vector v of the places, which are there, of a row of that size; is it far? */
TPK_IN int tpk_index_windows(tpk_index_some *some, int64_t v, int32_t size)
{
    int32_t *const p = some->place + v * TPK_VL_32;
    const tpk_vi32 end = (tpk_vi32){0} + (size - TPK_VL_32);
    tpk_vi32 place;
    __builtin_memcpy(&place, p, sizeof place);
    const tpk_vi32 low = tpk_index_least(tpk_index_choose(place < end, place, end));
    const tpk_vi32 out = place - low >= TPK_VL_32;
    const tpk_vi32 next = tpk_index_least(tpk_index_choose(out & (place < end), place, end));
    const int far = tpk_index_any(out & (place - next >= TPK_VL_32));
    some->from[v] = far ? -1 : low[0];
    some->next[v] = next[0];
    if (!far) {
        place = tpk_index_choose(out, place - next + TPK_VL_32, place - low);
        __builtin_memcpy(p, &place, sizeof place);
    }
    return far;
}
#endif

static __attribute__((unused)) void tpk_index_read(int64_t n, const int64_t *index,
                                                   int64_t size, int by_vectors,
                                                   tpk_index_some *some)
{
    some->vectors = 0;
    for (int64_t k = 0; k < n; k++) {
        some->place[k] = (int32_t)(index[k] < 0 ? index[k] + size : index[k]);
    }
#ifdef TPK_PICK
    if (by_vectors && n >= TPK_VL_32 && size >= TPK_VL_32) {
        some->vectors = tpk_i_ceil(n, TPK_VL_32);
        const int64_t last = some->vectors - 1, at = tpk_index_at(n, last);
        __builtin_memmove(some->place + last * TPK_VL_32, some->place + at,
                          TPK_VL_32 * sizeof *some->place);
        for (int64_t v = 0, far = 0; v <= last;
             v++) { /* behind many that are, the rest are taken to be */
            far = far >= 8 || tpk_index_windows(some, v, (int32_t)size) ? far + 1 : 0;
            some->from[v] = far ? -1 : some->from[v];
        }
    }
#endif
    (void)by_vectors;
}
#endif

/* Sums and products of integers wrap. */
static inline __attribute__((unused)) T FN(index_plus)(T a, T b)
{
    return (T)0.5 != (T)0 ? (T)(a + b) : (T)((uint64_t)a + (uint64_t)b);
}

static inline __attribute__((unused)) T FN(index_times)(T a, T b)
{
    return (T)0.5 != (T)0 ? (T)(a * b) : (T)((uint64_t)a * (uint64_t)b);
}

static __attribute__((unused)) void FN(index_add)(int64_t n, const T *restrict x, T *restrict y)
{
    typedef T lanes __attribute__((vector_size(32), aligned(sizeof(T)), may_alias));
    const int64_t width = 32 / (int64_t)sizeof(T);
    int64_t i = 0;
    for (; (T)0.5 != (T)0 && i + width <= n; i += width) {
        *(lanes *)(void *)(y + i) += *(const lanes *)(const void *)(x + i);
    }
    for (; i < n; i++) {
        y[i] = FN(index_plus)(y[i], x[i]);
    }
}

static __attribute__((unused)) void FN(index_fill)(int64_t n, T x, T *y)
{
    T some[64];
    int64_t i = 0;
    for (int64_t k = 0; k < 64; k++) {
        some[k] = x;
    }
    for (; i + 64 <= n; i += 64) {
        __builtin_memcpy(y + i, some, sizeof some);
    }
    for (; i < n; i++) {
        y[i] = x;
    }
}

/* y[i] = y[i] and x[i * step], as `how` says, which is not to set it. */
static __attribute__((unused)) void FN(index_meet)(int64_t n, const T *restrict x, int64_t step,
                                                   T *restrict y, int how)
{
    if (how == TPK_PUT_ADD && step == 1) {
        FN(index_add)(n, x, y);
        return;
    }
    for (int64_t i = 0; how == TPK_PUT_ADD && i < n; i++) {
        y[i] = FN(index_plus)(y[i], x[i * step]);
    }
    for (int64_t i = 0; how == TPK_PUT_MUL && i < n; i++) {
        y[i] = FN(index_times)(y[i], x[i * step]);
    }
    for (int64_t i = 0; how == TPK_PUT_MAX && i < n; i++) {
        y[i] = FN(max)(y[i], x[i * step]);
    }
    for (int64_t i = 0; how == TPK_PUT_MIN && i < n; i++) {
        y[i] = FN(min)(y[i], x[i * step]);
    }
}

/* y[i] = x[i], or both meet in y[i]; y without gaps. The last axes are one where x's strides allow. */
static __attribute__((unused)) void FN(index_row)(int64_t rank, const int64_t *n,
                                                  const int64_t *s, const T *x, T *y, int how)
{
    int64_t row = 1, step = 1, outer = rank, at[8] = {0}, offset[1] = {0};
    while (outer > 0 && (n[outer - 1] == 1 || row == 1 || s[outer - 1] == row * step)) {
        outer--;
        step = row == 1 && n[outer] != 1 ? s[outer] : step;
        row *= n[outer];
    }
    const int64_t *const steps[1] = {s};
    const int64_t rows = tpk_index_count(outer, n);
    for (int64_t i = 0; i < rows; i++) {
        const T *const from = x + offset[0];
        if (how != TPK_PUT_SET) {
            FN(index_meet)(row, from, step, y, how);
        } else if (step == 1 && row >= 16) {
            __builtin_memcpy(y, from, (size_t)row * sizeof(T));
        } else if (step == 0 && row > 0) {
            FN(index_fill)(row, from[0], y);
        } else {
            for (int64_t j = 0; j < row; j++) {
                y[j] = from[j * step];
            }
        }
        y += row;
        tpk_index_step(outer, n, at, 1, steps, offset);
    }
}

/* The row that index i names, of rows that are `step` apart; those some places ahead are fetched. */
static inline __attribute__((unused)) const T *FN(index_named)(const T *x, const int64_t *index,
                                                               int64_t i, int64_t n,
                                                               int64_t size, int64_t step,
                                                               int64_t row)
{
    const int64_t j = index[i] < 0 ? index[i] + size : index[i], far = i + 6 < n ? i + 6 : i;
    const int64_t next = index[far] < 0 ? index[far] + size : index[far];
    for (int64_t k = 0; k < row && k < 512 / (int64_t)sizeof(T); k += 64 / (int64_t)sizeof(T)) {
        __builtin_prefetch(x + next * step + k);
    }
    return x + j * step;
}

/* y[i] = x[index[i] * step] */
static __attribute__((unused)) void FN(index_pick)(int64_t n, const int64_t *index, const T *x,
                                                   int64_t size, int64_t step, T *restrict y)
{
    for (int64_t i = 0; step == 1 && i < size && size <= 4 * n; i += 64 / (int64_t)sizeof(T)) {
        __builtin_prefetch(x + i);
    }
    for (int64_t i = 0, m; i < n; i += m) {
        int64_t signs = 0;
        m = n - i < 64 ? n - i : 64;
        for (int64_t k = i; k < i + m; k++) {
            signs |= index[k];
        }
        if (step == 1 && m == 64 && signs >= 0) {
#pragma GCC unroll 4
            for (int64_t k = i; k < i + 64; k++) {
                int64_t j = index[k];
                __asm__("" : "+r"(j)); /* vectors of elements from anywhere take longer */
                y[k] = x[j];
            }
        } else {
            for (int64_t k = i; k < i + m; k++) {
                y[k] = x[(index[k] < 0 ? index[k] + size : index[k]) * step];
            }
        }
    }
}

#ifdef TPK_PICK
/* Vector v of a row of results. */
static inline __attribute__((unused)) void FN(index_pick_near)(const tpk_index_some *some,
                                                               int64_t v, const T *x, T *y)
{
    tpk_vi32 a, b, place;
    __builtin_memcpy(&a, x + some->from[v], sizeof a);
    __builtin_memcpy(&b, x + some->next[v], sizeof b);
    __builtin_memcpy(&place, some->place + v * TPK_VL_32, sizeof place);
    a = TPK_PICK(a, b, place);
    __builtin_memcpy(y, &a, sizeof a);
}

/* The results of the vectors from v on up to one that is not far, or the end, which is returned. Two at a time, by whole
 * registers: compilers would make vectors of single elements, which takes longer. */
TPK_OUT int64_t FN(index_pick_far)(const tpk_index_some *some, int64_t v, int64_t end,
                                   const T *x, T *restrict y)
{
    for (; v < end && some->from[v] < 0; v++, y += TPK_VL_32) {
        const int32_t *const p = some->place + v * TPK_VL_32;
#pragma GCC unroll 8
        for (int64_t k = 0; k < TPK_VL_32; k += 2) {
            uint64_t two;
            uint32_t first, second;
            __builtin_memcpy(&two, p + k, sizeof two);
            __builtin_memcpy(&first, x + (uint32_t)two, sizeof first);
            __builtin_memcpy(&second, x + (two >> 32), sizeof second);
            two = first | (uint64_t)second << 32;
            __asm__("" : "+r"(two));
            __builtin_memcpy(y + k, &two, sizeof two);
        }
    }
    return v;
}

TPK_OUT void FN(index_pick_vectors)(int64_t n, const tpk_index_some *some, const T *x, T *y)
{
    const int64_t last = some->vectors - 1;
    for (int64_t v = 0; v < last;) {
        for (; v < last && some->from[v] >= 0; v++) {
            FN(index_pick_near)(some, v, x, y + v * TPK_VL_32);
        }
        v = FN(index_pick_far)(some, v, last, x, y + v * TPK_VL_32);
    }
    if (some->from[last] >= 0) {
        FN(index_pick_near)(some, last, x, y + n - TPK_VL_32);
    } else {
        FN(index_pick_far)(some, last, last + 1, x, y + n - TPK_VL_32);
    }
}
#endif

/* One row of results of some indices. */
static inline __attribute__((unused)) void
FN(index_pick_some)(int64_t n, const tpk_index_some *some, const T *x, int64_t step, T *y)
{
#ifdef TPK_PICK
    if (some->vectors) {
        FN(index_pick_vectors)(n, some, x, y);
        return;
    }
#endif
    for (int64_t i = 0; i < n; i++) {
        y[i] = x[some->place[i] * step];
    }
}

/* y[a, i] = x[a, index[i] * step], for places a of outer axes; rows of y are `width` apart. */
static __attribute__((unused)) void
FN(index_pick_rows)(int64_t rank, const int64_t *n, const int64_t *s, const T *x, int64_t size,
                    int64_t step, int64_t count, const int64_t *index, int64_t width, T *y)
{
    const int64_t rows = tpk_index_count(rank, n);
    const int64_t *const steps[1] = {s};
    int64_t at[8] = {0}, offset[1] = {0};
    const int few = rows < TPK_INDEX_ROWS || size > INT32_MAX;
    for (int64_t i = 0; i < count; i += TPK_INDEX_SOME) {
        const int64_t m = count - i < TPK_INDEX_SOME ? count - i : TPK_INDEX_SOME;
        tpk_index_some some;
        if (!few) {
            tpk_index_read(m, index + i, size, sizeof(T) == 4 && step == 1, &some);
        }
        for (int64_t r = 0; r < rows; r++) {
            if (few) {
                FN(index_pick)(m, index + i, x + offset[0], size, step, y + r * width + i);
            } else {
                FN(index_pick_some)(m, &some, x + offset[0], step, y + r * width + i);
            }
            tpk_index_step(rank, n, at, 1, steps, offset);
        }
    }
}

/* y[i] = x[index[i]]: rows without gaps. */
static __attribute__((unused)) void FN(index_take)(int64_t n, const int64_t *index, const T *x,
                                                   int64_t size, int64_t step, int64_t row,
                                                   T *restrict y)
{
    for (int64_t i = 0; i < n; i++) {
        const T *const from = FN(index_named)(x, index, i, n, size, step, row);
        if (row > 0) {
            __builtin_memcpy(y + i * row, from, (size_t)row * sizeof(T));
        }
    }
}

/* y[index[i]] = x[i], or both meet there. */
static __attribute__((unused)) void FN(index_give)(int64_t n, const int64_t *index,
                                                   const T *restrict x, int64_t size,
                                                   int64_t row, T *restrict y, int how)
{
    const int single = row == 1 && (how == TPK_PUT_SET || how == TPK_PUT_ADD);
    for (int64_t i = 0; single && i < n; i++) {
        T *const to = y + (index[i] < 0 ? index[i] + size : index[i]);
        *to = how == TPK_PUT_SET ? x[i] : FN(index_plus)(*to, x[i]);
    }
    for (int64_t i = single ? n : 0; i < n; i++) {
        T *const to = y + (FN(index_named)(y, index, i, n, size, row, row) - y);
        if (how != TPK_PUT_SET) {
            FN(index_meet)(row, x + i * row, 1, to, how);
        } else if (row > 0) {
            __builtin_memcpy(to, x + i * row, (size_t)row * sizeof(T));
        }
    }
}

/* attr: axis.  Operands x, index:  y[a, i, b] = x[a, index[i], b]. */
static __attribute__((unused)) int64_t FN(gather)(const tpk_view *in, const tpk_view *out,
                                                  const int64_t *attr)
{
    const tpk_view x = in[0], index = in[1];
    const int64_t axis = attr[0], size = x.n[axis], inner = x.rank - axis - 1;
    const int64_t *const n = x.n + axis + 1, *const s = x.s + axis + 1;
    const int64_t *const xs[1] = {x.s};
    const int64_t outer = tpk_index_count(axis, x.n), row = tpk_index_count(inner, n);
    const int64_t count = tpk_index_count(index.rank, index.n);
    const int packed = tpk_index_packed(inner, n, s),
              read = !tpk_index_packed(index.rank, index.n, index.s);
    const int64_t most = read || (packed && row == 1) ? TPK_INDEX_SOME : count;
    int64_t at[8] = {0}, offset[1] = {0}, some[TPK_INDEX_SOME];
    for (int64_t i = 0, m; i < count; i += m) {
        const int64_t *p = some;
        T *y = (T *)out->p + i * row;
        m = count - i < most ? count - i : most;
        if (read) {
            tpk_index_copy(&index, i, m, some);
        } else {
            p = (const int64_t *)index.p + i;
        }
        const int64_t bad = tpk_index_bad(m, p, size);
        if (bad < m) {
            return 1 + i + bad;
        }
        if (packed && row == 1) {
            FN(index_pick_rows)
            (axis, x.n, x.s, (const T *)x.p, size, x.s[axis], m, p, count, y);
            continue;
        }
        for (int64_t a = 0; a < outer; a++, y += count * row) {
            const T *const from = (const T *)x.p + offset[0];
            if (packed) {
                FN(index_take)(m, p, from, size, x.s[axis], row, y);
            }
            for (int64_t k = 0; k < m && !packed; k++) {
                const int64_t j = p[k] < 0 ? p[k] + size : p[k];
                FN(index_row)(inner, n, s, from + j * x.s[axis], y + k * row, TPK_PUT_SET);
            }
            tpk_index_step(axis, x.n, at, 1, xs, offset);
        }
    }
    return 0;
}

/* Operands x, index, src:  y = x, then y[a, index[i], b] = src[a, i, b], or both meet there. */
static __attribute__((unused)) int64_t FN(index_put)(const tpk_view *in, const tpk_view *out,
                                                     int64_t axis, int how)
{
    const tpk_view x = in[0], index = in[1], src = in[2];
    const int64_t size = x.n[axis], inner = x.rank - axis - 1;
    const int64_t bad = tpk_index_check(&index, size);
    if (bad) {
        return bad;
    }
    if (out->p != x.p) { /* else it is written over */
        FN(index_row)(x.rank, x.n, x.s, (const T *)x.p, (T *)out->p, TPK_PUT_SET);
    }
    const int64_t *const p = (const int64_t *)index.p, *const n = x.n + axis + 1;
    const int64_t *const as[1] = {src.s}, *const is[2] = {index.s, src.s + axis};
    const int64_t outer = tpk_index_count(axis, x.n), row = tpk_index_count(inner, n);
    const int64_t count = tpk_index_count(index.rank, index.n);
    int64_t aat[8] = {0}, iat[8] = {0}, ao[1] = {0}, io[2] = {0};
    const int packed = tpk_index_packed(src.rank - axis, src.n + axis, src.s + axis) &&
                       tpk_index_packed(index.rank, index.n, index.s);
    for (int64_t a = 0; a < outer; a++) {
        if (packed) {
            FN(index_give)
            (count, p, (const T *)src.p + ao[0], size, row, (T *)out->p + a * size * row, how);
        }
        for (int64_t i = 0; i < count && !packed; i++) {
            const int64_t j = p[io[0]] < 0 ? p[io[0]] + size : p[io[0]];
            FN(index_row)
            (inner, n, src.s + axis + index.rank, (const T *)src.p + ao[0] + io[1],
             (T *)out->p + (a * size + j) * row, how);
            tpk_index_step(index.rank, index.n, iat, 2, is, io);
        }
        tpk_index_step(axis, x.n, aat, 1, as, ao);
    }
    return 0;
}

static __attribute__((unused)) int64_t FN(scatter)(const tpk_view *in, const tpk_view *out,
                                                   const int64_t *attr)
{
    return FN(index_put)(in, out, attr[0], TPK_PUT_SET);
}

static __attribute__((unused)) int64_t FN(scatter_add)(const tpk_view *in, const tpk_view *out,
                                                       const int64_t *attr)
{
    return FN(index_put)(in, out, attr[0], TPK_PUT_ADD);
}

static __attribute__((unused)) int64_t FN(scatter_mul)(const tpk_view *in, const tpk_view *out,
                                                       const int64_t *attr)
{
    return FN(index_put)(in, out, attr[0], TPK_PUT_MUL);
}

static __attribute__((unused)) int64_t FN(scatter_max)(const tpk_view *in, const tpk_view *out,
                                                       const int64_t *attr)
{
    return FN(index_put)(in, out, attr[0], TPK_PUT_MAX);
}

static __attribute__((unused)) int64_t FN(scatter_min)(const tpk_view *in, const tpk_view *out,
                                                       const int64_t *attr)
{
    return FN(index_put)(in, out, attr[0], TPK_PUT_MIN);
}

/* attr: axis.  Operands x, index:  y[a, i, b] = x[a, index[a, i, b], b]. Rows of results that have
 * the same row of indices are done together; of rows of one result those of the axis before are one. */
static __attribute__((unused)) int64_t FN(take_along)(const tpk_view *in, const tpk_view *out,
                                                      const int64_t *attr)
{
    const tpk_view x = in[0], index = in[1];
    const int64_t axis = attr[0], size = x.n[axis],
                  last = x.rank > 1 && index.n[x.rank - 1] == 1 ? x.rank - 2 : x.rank - 1;
    const int64_t row = index.n[last], step = x.s[axis], next = axis == last ? 0 : x.s[last];
    int64_t xs[8] = {0}, at[8] = {0}, offset[2] = {0}, outer = last;
    T *y = (T *)out->p;
    for (int64_t i = 0; i < last; i++) {
        xs[i] = i == axis ? 0 : x.s[i];
    }
    while (axis == last && index.s[last] == 1 && outer > 0 && index.s[outer - 1] == 0) {
        outer--;
    }
    const int64_t *const s[2] = {xs, index.s};
    const int64_t rows = tpk_index_count(outer, index.n);
    const int64_t shared = tpk_index_count(last - outer, index.n + outer);
    for (int64_t r = 0; r < rows && shared > 0; r++, y += shared * row) {
        const int64_t *const p = (const int64_t *)index.p + offset[1];
        const T *const from = (const T *)x.p + offset[0];
        if (axis == last && index.s[last] == 1) {
            const int64_t bad = tpk_index_bad(row, p, size);
            if (bad < row) {
                return 1 + r * shared * row + bad;
            }
            FN(index_pick_rows)
            (last - outer, index.n + outer, xs + outer, from, size, step, row, p, row, y);
        } else {
            for (int64_t k = 0; k < row; k++) {
                const int64_t far = p[(k + 32 < row ? k + 32 : k) * index.s[last]];
                const int64_t j = p[k * index.s[last]];
                if (j < -size || j >= size) {
                    return 1 + r * row + k;
                }
                __builtin_prefetch(from + (k + 32) * next +
                                   (far < 0 ? far + size : far) * step);
                y[k] = from[k * next + (j < 0 ? j + size : j) * step];
            }
        }
        tpk_index_step(outer, index.n, at, 2, s, offset);
    }
    return 0;
}

/* attr: axis.  Operands x, index, src:  y = x, then y[a, index[a, i, b], b] += src[a, i, b]. */
static __attribute__((unused)) int64_t
FN(put_along_add)(const tpk_view *in, const tpk_view *out, const int64_t *attr)
{
    const tpk_view x = in[0], index = in[1], src = in[2];
    const int64_t axis = attr[0], size = x.n[axis];
    const int64_t bad = tpk_index_check(&index, size);
    if (bad) {
        return bad;
    }
    if (out->p != x.p) { /* else it is written over */
        FN(index_row)(x.rank, x.n, x.s, (const T *)x.p, (T *)out->p, TPK_PUT_SET);
    }
    int64_t ys[8] = {0}, at[8] = {0}, offset[3] = {0};
    for (int64_t i = 0; i < x.rank; i++) {
        ys[i] = i == axis ? 0 : out->s[i];
    }
    const int64_t *const p = (const int64_t *)index.p;
    const int64_t *const s[3] = {ys, index.s, src.s};
    const int64_t count = tpk_index_count(index.rank, index.n);
    for (int64_t i = 0; i < count; i++) {
        const int64_t j = p[offset[1]] < 0 ? p[offset[1]] + size : p[offset[1]];
        T *const y = (T *)out->p + offset[0] + j * out->s[axis];
        *y = FN(index_plus)(*y, ((const T *)src.p)[offset[2]]);
        tpk_index_step(index.rank, index.n, at, 3, s, offset);
    }
    return 0;
}

/* Operand index:  y[i, index[i]] = 1, else 0. */
static __attribute__((unused)) int64_t FN(one_hot)(const tpk_view *in, const tpk_view *out,
                                                   const int64_t *attr)
{
    const int64_t n = out->n[out->rank - 1], *const p = (const int64_t *)in->p;
    const int64_t *const s[1] = {in->s};
    const int64_t count = tpk_index_count(in->rank, in->n);
    int64_t at[8] = {0}, offset[1] = {0};
    T *y = (T *)out->p;
    (void)attr;
    for (int64_t i = 0; i < count; i++) {
        const int64_t j = p[offset[0]] < 0 ? p[offset[0]] + n : p[offset[0]];
        for (int64_t k = 0; k < n; k++) {
            y[k] = (T)(k == j);
        }
        y += n;
        tpk_index_step(in->rank, in->n, at, 1, s, offset);
    }
    return 0;
}
