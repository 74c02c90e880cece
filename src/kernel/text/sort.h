/* Places of elements of an axis by the order of their values. Pasted once per element type: T is the type, S its
 * suffix, FN(name) is tpk_name_S.
 *
 * Of equal elements the earlier place comes first; -0 and +0 are equal. NaN is above every number. So the order is
 * total, and what is found does not depend on how. An element's key is an unsigned number in that order; what is
 * sorted are entries, which have a key, less the least one, above the place, so that no two are equal. */
#ifndef TPK_SORT_ONCE
#define TPK_SORT_ONCE

/* Bits that tell buckets of keys apart. With 11 sorting takes up to 105 KB of stack, with 6 up to 40. */
#ifndef TPK_SORT_LEAD
#define TPK_SORT_LEAD 11
#endif

enum {
    TPK_SORT_SOME = 1 << TPK_SORT_LEAD, /* entries that are sorted beside the line */
    TPK_SORT_FEW = 16,                  /* that are put in one by one */
    TPK_SORT_NEAR = TPK_SORT_LEAD - 1   /* bits by which a span becomes smaller */
};

/* Writes the keys of n elements that are `step` apart. */
typedef void tpk_sort_read(const void *x, int64_t step, int64_t n, uint64_t *key);

/* A line of n elements, and the places that are asked for: from `from` to `to` in its order. */
typedef struct tpk_sort_line {
    tpk_sort_read *read;
    const char *x;
    int64_t step, width, n; /* width: bytes of an element */
    uint64_t flip;          /* keys are seen through it: all bits if the greatest is first */
    int64_t *y, s, from, to;
} tpk_sort_line;

/* Keys of a line from place `first` on, and room for entries. */
typedef struct tpk_sort_room {
    int64_t first, count;
    uint64_t key[TPK_SORT_SOME], a[TPK_SORT_SOME], b[TPK_SORT_SOME];
} tpk_sort_room;

/* Has keys from place i on; how many. */
TPK_OUT int64_t tpk_sort_load(const tpk_sort_line *line, tpk_sort_room *room, int64_t i)
{
    if (room->first != i) {
        room->first = i;
        room->count = line->n - i < TPK_SORT_SOME ? line->n - i : TPK_SORT_SOME;
        line->read(line->x + i * line->step * line->width, line->step, room->count, room->key);
        for (int64_t k = 0; line->flip && k < room->count; k++) {
            room->key[k] = ~room->key[k];
        }
    }
    return room->count;
}

static inline __attribute__((unused)) int tpk_sort_bits(uint64_t v)
{
    return v ? 64 - __builtin_clzll(v) : 0;
}

/* How entries of keys from `low` to `high` are made: those of keys too wide for 64 bits leave the last `drop` out. */
typedef struct tpk_sort_form {
    uint64_t low, high;
    int bits, place, drop;
} tpk_sort_form;

static inline __attribute__((unused)) tpk_sort_form
tpk_sort_form_of(const tpk_sort_line *line, uint64_t low, uint64_t high)
{
    const int bits = tpk_sort_bits(high - low), place = tpk_sort_bits((uint64_t)(line->n - 1));
    const int drop = bits + place > 64 ? bits + place - 64 : 0;
    const tpk_sort_form form = {low, high, bits, place, drop};
    return form;
}

static inline __attribute__((unused)) uint64_t tpk_sort_entry(const tpk_sort_form *form,
                                                              uint64_t key, int64_t at)
{
    return ((key - form->low) >> form->drop) << form->place | (uint64_t)at;
}

static inline __attribute__((unused)) int64_t tpk_sort_place(const tpk_sort_form *form,
                                                             uint64_t entry)
{
    return (int64_t)(entry & ((UINT64_C(1) << form->place) - 1));
}

/* Counts become where each begins. */
static inline __attribute__((unused)) void tpk_sort_begins(int64_t n, int64_t *count)
{
    int64_t begin = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t own = count[i];
        count[i] = begin;
        begin += own;
    }
}

/* Sorts n entries of which the bits from `low` on to `high` differ, or is told so; those below are in order.
 * They are in a, and in the end in what is given. */
static __attribute__((unused)) uint64_t *tpk_sort_some(uint64_t *a, uint64_t *b, int64_t n,
                                                       int low, int high)
{
    uint64_t differ = 0;
    if (n <= TPK_SORT_FEW) {
        for (int64_t i = 1; i < n; i++) {
            const uint64_t v = a[i];
            int64_t k = i;
            for (; k > 0 && a[k - 1] > v; k--) {
                a[k] = a[k - 1];
            }
            a[k] = v;
        }
        return a;
    }
    for (int64_t i = 0; i < n; i++) {
        differ |= a[i] ^ a[0];
    }
    for (int shift = low; shift < high; shift += 8) {
        if ((differ >> shift & 255) == 0) {
            continue;
        }
        int64_t at[256] = {0};
        for (int64_t i = 0; i < n; i++) {
            at[a[i] >> shift & 255]++;
        }
        tpk_sort_begins(256, at);
        for (int64_t i = 0; i < n; i++) {
            b[at[a[i] >> shift & 255]++] = a[i];
        }
        uint64_t *const sorted = b;
        b = a;
        a = sorted;
    }
    return a;
}

/* Sorts n entries in their places y, s apart, by the bits below `high`; those below `low` are in order. */
static __attribute__((unused)) void tpk_sort_many(tpk_sort_room *room, int64_t *y, int64_t s,
                                                  int64_t n, int low, int high)
{
    if (n <= TPK_SORT_SOME) {
        for (int64_t i = 0; i < n; i++) {
            room->a[i] = (uint64_t)y[i * s];
        }
        const uint64_t *const sorted = tpk_sort_some(room->a, room->b, n, low, high);
        for (int64_t i = 0; i < n; i++) {
            y[i * s] = (int64_t)sorted[i];
        }
        return;
    }
    const int shift = high > 8 ? high - 8 : 0;
    int64_t begin[256] = {0}, end[256];
    for (int64_t i = 0; i < n; i++) {
        begin[(uint64_t)y[i * s] >> shift & 255]++;
    }
    __builtin_memcpy(end, begin, sizeof end);
    tpk_sort_begins(256, begin);
    for (int64_t d = 0; d < 256; d++) {
        end[d] += begin[d];
    }
    for (int64_t d = 0; d < 256; d++) {
        while (begin[d] < end[d]) {
            int64_t v = y[begin[d] * s];
            for (int64_t to; (to = (int64_t)((uint64_t)v >> shift & 255)) != d;) {
                const int64_t other = y[begin[to] * s];
                y[begin[to]++ * s] = v;
                v = other;
            }
            y[begin[d]++ * s] = v;
        }
    }
    for (int64_t d = 0, from = 0; d < 256; from = end[d++]) {
        if (end[d] - from > 1 && shift > 0) {
            tpk_sort_many(room, y + from * s, s, end[d] - from, 0, shift);
        }
    }
}

/* Sorts entries of one key, by what that leaves out of keys. */
static __attribute__((unused)) void tpk_sort_rest(const tpk_sort_line *line,
                                                  tpk_sort_room *room,
                                                  const tpk_sort_form *form, int64_t *y,
                                                  int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = tpk_sort_place(form, (uint64_t)y[i * line->s]);
        uint64_t key;
        line->read(line->x + at * line->step * line->width, line->step, 1, &key);
        key = ((key ^ line->flip) - form->low) & ((UINT64_C(1) << form->drop) - 1);
        y[i * line->s] = (int64_t)(key << form->place | (uint64_t)at);
    }
    tpk_sort_many(room, y, line->s, n, form->place, form->place + form->drop);
}

/* The places of a line of two keys, of which the greater begins at `second`. */
static __attribute__((unused)) void tpk_sort_two(const tpk_sort_line *line, tpk_sort_room *room,
                                                 uint64_t low, int64_t second)
{
    int64_t first = 0;
    for (int64_t i = 0, m; i < line->n; i += m) {
        m = tpk_sort_load(line, room, i);
        for (int64_t k = 0; k < m; k++) {
            const int64_t above = (int64_t)(room->key[k] - low);
            line->y[(above ? second : first) * line->s] = i + k;
            second += above;
            first += 1 - above;
        }
    }
}

/* The places of all elements with keys from `low`, the least, to `high`, of the last key as many as `equal`, in order. */
static __attribute__((unused)) void tpk_sort_spread(const tpk_sort_line *line,
                                                    tpk_sort_room *room, uint64_t low,
                                                    uint64_t high, int64_t equal)
{
    const tpk_sort_form form = tpk_sort_form_of(line, low, high);
    const int shift = form.bits > TPK_SORT_LEAD ? form.bits - TPK_SORT_LEAD : 0;
    const int left = shift > form.drop ? shift - form.drop : 0;
    const int64_t s = line->s;
    int64_t *const y = line->y, at[1 << TPK_SORT_LEAD] = {0}, all = 0;
    for (int put = 0; put < 2; put++) {
        for (int64_t i = 0, m, more = equal; i < line->n; i += m) {
            m = tpk_sort_load(line, room, i);
            for (int64_t k = 0; k < m; k++) {
                const uint64_t v = room->key[k];
                if (v > high || (v == high && more-- <= 0)) {
                    continue;
                }
                int64_t *const to = &at[(v - low) >> shift];
                if (put) {
                    y[*to * s] = (int64_t)tpk_sort_entry(&form, v, i + k);
                }
                ++*to;
                all += put;
            }
        }
        if (!put) {
            tpk_sort_begins(1 << TPK_SORT_LEAD, at);
        }
    }
    for (int64_t d = 0, from = 0; left > 0 && d < 1 << TPK_SORT_LEAD; from = at[d++]) {
        tpk_sort_many(room, y + from * s, s, at[d] - from, form.place, form.place + left);
    }
    for (int64_t i = 0, n; form.drop > 0 && i < all; i += n) {
        for (n = 1; i + n < all && !((uint64_t)(y[(i + n) * s] ^ y[i * s]) >> form.place);) {
            n++;
        }
        if (n > 1) {
            tpk_sort_rest(line, room, &form, y + i * s, n);
        }
    }
    for (int64_t i = 0; i < all; i++) {
        y[i * s] = tpk_sort_place(&form, (uint64_t)y[i * s]);
    }
}

/* The keys among which those places are that are asked for. */
typedef struct tpk_sort_span {
    uint64_t low, high;
    int64_t below, count; /* elements with lesser keys, and with such keys */
} tpk_sort_span;

/* Makes a span smaller; false: all of it is asked for. */
static __attribute__((unused)) int tpk_sort_narrow(const tpk_sort_line *line,
                                                   tpk_sort_room *room, tpk_sort_span *span)
{
    const uint64_t low = span->low, wide = span->high - low;
    const int bits = tpk_sort_bits(wide),
              shift = bits > TPK_SORT_NEAR ? bits - TPK_SORT_NEAR : 0;
    int64_t count[1 << TPK_SORT_NEAR] = {0}, first = 0, last, below = span->below, all;
    for (int64_t i = 0, m; i < line->n; i += m) {
        m = tpk_sort_load(line, room, i);
        for (int64_t k = 0; k < m; k++) {
            const uint64_t v = room->key[k] - low;
            if (v <= wide) {
                count[v >> shift]++;
            }
        }
    }
    while (below + count[first] <= line->from) {
        below += count[first++];
    }
    all = count[last = first];
    while (below + all < line->to) {
        all += count[++last];
    }
    if (first == 0 && (uint64_t)last == wide >> shift) {
        return 0;
    }
    span->low = low + ((uint64_t)first << shift);
    span->high = (uint64_t)last == wide >> shift ? span->high
                                                 : low + ((uint64_t)(last + 1) << shift) - 1;
    span->below = below;
    span->count = all;
    return 1;
}

/* The places among the elements of a span that finds room. */
static __attribute__((unused)) void
tpk_sort_found(const tpk_sort_line *line, tpk_sort_room *room, const tpk_sort_span *span)
{
    const tpk_sort_form form = tpk_sort_form_of(line, span->low, span->high);
    const uint64_t wide = span->high - span->low;
    int64_t n = 0;
    for (int64_t i = 0, m; i < line->n; i += m) {
        m = tpk_sort_load(line, room, i);
        for (int64_t k = 0; k < m && n < span->count; k++) {
            room->a[n] = tpk_sort_entry(&form, room->key[k], i + k);
            n += room->key[k] - span->low <= wide;
        }
    }
    const uint64_t *const sorted =
        tpk_sort_some(room->a, room->b, n, form.place, form.place + form.bits);
    for (int64_t i = line->from; i < line->to; i++) {
        line->y[(i - line->from) * line->s] = tpk_sort_place(&form, sorted[i - span->below]);
    }
}

/* The place of which all elements of a span have the key, one. */
static __attribute__((unused)) void
tpk_sort_equal(const tpk_sort_line *line, tpk_sort_room *room, const tpk_sort_span *span)
{
    int64_t before = span->below;
    for (int64_t i = 0, m; i < line->n; i += m) {
        m = tpk_sort_load(line, room, i);
        for (int64_t k = 0; k < m; k++) {
            if (room->key[k] == span->low && before++ == line->from) {
                line->y[0] = i + k;
                return;
            }
        }
    }
}

/* A line's places, found among the keys of a span; 0: not so. */
static __attribute__((unused)) int tpk_sort_by_span(const tpk_sort_line *line,
                                                    tpk_sort_room *room, tpk_sort_span span)
{
    const int64_t wanted = line->to - line->from;
    for (;;) {
        const int fits = span.count <= TPK_SORT_SOME &&
                         tpk_sort_form_of(line, span.low, span.high).drop == 0;
        if (span.low == span.high && wanted == 1) {
            tpk_sort_equal(line, room, &span);
            return 1;
        }
        if (wanted == line->n || (fits && span.count <= 4 * wanted + 64) ||
            !tpk_sort_narrow(line, room, &span)) {
            if (fits) {
                tpk_sort_found(line, room, &span);
            }
            return fits;
        }
    }
}

/* A few of the first places, which are kept in order while the line is gone through. */
static __attribute__((unused)) void tpk_sort_first(const tpk_sort_line *line,
                                                   tpk_sort_room *room)
{
    const int64_t last = line->to - 1;
    uint64_t best[TPK_SORT_FEW];
    int64_t have = 0;
    for (int64_t i = 0, m; i < line->n; i += m) {
        m = tpk_sort_load(line, room, i);
        for (int64_t from = 0, to; from < m; from = to) {
            to = m - from < 64 ? m : from + 64;
            if (have > last && to - from == 64) { /* most are not among them */
                int some = 0;
                for (int64_t k = from; k < from + 64; k++) {
                    some |= room->key[k] < best[last];
                }
                if (!some) {
                    continue;
                }
            }
            for (int64_t k = from; k < to; k++) {
                const uint64_t v = room->key[k];
                if (have > last && v >= best[last]) {
                    continue;
                }
                int64_t at = have > last ? last : have++;
                for (; at > 0 && best[at - 1] > v; at--) {
                    best[at] = best[at - 1];
                    line->y[at * line->s] = line->y[(at - 1) * line->s];
                }
                best[at] = v;
                line->y[at * line->s] = i + k;
            }
        }
    }
}

/* The places of a line of bytes that are all one of two neighbours, as those of bools are; 0: they are not. */
static __attribute__((unused)) int tpk_sort_bytes(const tpk_sort_line *line)
{
    const uint8_t *const x = (const uint8_t *)line->x;
    const int64_t step = line->step, n = line->n, s = line->s;
    uint8_t low = UINT8_MAX, high = 0;
    int64_t place[2] = {0}, lows = 0;
    for (int64_t i = 0; i < n; i++) {
        low = x[i * step] < low ? x[i * step] : low;
        high = x[i * step] > high ? x[i * step] : high;
    }
    if (high - low > 1 || (low < 128 && high >= 128)) { /* signed ones are in another order */
        return 0;
    }
    for (int64_t i = 0; i < n; i++) {
        lows += x[i * step] == low;
    }
    place[0] = line->flip ? n - lows : 0;
    place[1] = line->flip ? 0 : lows;
    for (int64_t i = 0; i < n; i++) {
        const int above = x[i * step] != low;
        line->y[(above ? place[1] : place[0]) * s] = i;
        place[1] += above;
        place[0] += !above;
    }
    return 1;
}

static __attribute__((unused)) void tpk_sort_one(const tpk_sort_line *line, tpk_sort_room *room)
{
    tpk_sort_span all = {UINT64_MAX, 0, 0, line->n}, last;
    tpk_sort_line one = *line;
    uint64_t sum = 0;
    room->first = -1;
    if (line->width == 1 && line->to - line->from == line->n && tpk_sort_bytes(line)) {
        return;
    }
    if (line->from == 0 && line->to <= TPK_SORT_FEW && line->n > 64) {
        tpk_sort_first(line, room);
        return;
    }
    for (int64_t i = 0, m; i < line->n; i += m) {
        m = tpk_sort_load(line, room, i);
        for (int64_t k = 0; k < m; k++) {
            all.low = room->key[k] < all.low ? room->key[k] : all.low;
            all.high = room->key[k] > all.high ? room->key[k] : all.high;
            sum += room->key[k];
        }
    }
    if (all.high - all.low == 1 && line->to - line->from == line->n) {
        sum -= (uint64_t)line->n * all.low;
        tpk_sort_two(line, room, all.low, line->n - (int64_t)sum);
        return;
    }
    if (tpk_sort_by_span(line, room, all)) {
        return;
    }
    if (line->to - line->from == line->n) {
        tpk_sort_spread(line, room, all.low, all.high, line->n);
        return;
    }
    if (line->from == 0) {
        for (one.from = one.to - 1, last = all; last.low < last.high;) {
            tpk_sort_narrow(&one, room, &last);
        }
        tpk_sort_spread(line, room, all.low, last.low, line->to - last.below);
        return;
    }
    for (int64_t i = line->from; i < line->to; i++, one.y += one.s) {
        one.from = i;
        one.to = i + 1;
        tpk_sort_by_span(&one, room, all);
    }
}

/* attr: axis, k, largest, from. Lines of elements of that width. */
static __attribute__((unused)) int64_t tpk_sort_lines(const tpk_view *in, const tpk_view *out,
                                                      const int64_t *attr, tpk_sort_read *read,
                                                      int64_t width)
{
    const int64_t axis = attr[0], k = out->n[axis], from = attr[3];
    int64_t lines = k > 0 ? 1 : 0, at[8] = {0};
    tpk_sort_line line = {read,
                          (const char *)in->p,
                          in->s[axis],
                          width,
                          in->n[axis],
                          attr[2] ? UINT64_MAX : 0,
                          (int64_t *)out->p,
                          out->s[axis],
                          from,
                          from + k};
    tpk_sort_room room;
    for (int64_t i = 0; i < in->rank; i++) {
        lines *= i == axis ? 1 : in->n[i];
    }
    for (int64_t l = 0; l < lines; l++) {
        tpk_sort_one(&line, &room);
        for (int64_t i = in->rank - 1; i >= 0; i--) {
            if (i == axis) {
                continue;
            }
            line.x += in->s[i] * width;
            line.y += out->s[i];
            if (++at[i] < in->n[i]) {
                break;
            }
            at[i] = 0;
            line.x -= in->n[i] * in->s[i] * width;
            line.y -= in->n[i] * out->s[i];
        }
    }
    return 0;
}
#endif

static inline __attribute__((always_inline, unused)) uint64_t FN(sort_key)(T x)
{
    if ((T)0.5 == 0) {
        return (uint64_t)x ^ ((T)-1 < (T)1 ? UINT64_C(1) << 63 : 0);
    }
    const int nan =
        TPK_CAT(tpk_ne_, S)(x, x); /* numbers of one sign are in the order of their bits */
    if (sizeof(T) == 4) {
        const union {
            float x;
            uint32_t bits;
        } u = {(float)x + 0.0F};
        return nan ? UINT32_MAX : u.bits >> 31 ? ~u.bits : u.bits | UINT32_C(1) << 31;
    }
    const union {
        double x;
        uint64_t bits;
    } u = {(double)x + 0.0};
    return nan ? UINT64_MAX : u.bits >> 63 ? ~u.bits : u.bits | UINT64_C(1) << 63;
}

static __attribute__((unused)) void FN(sort_read)(const void *from, int64_t step, int64_t n,
                                                  uint64_t *key)
{
    const T *const x = (const T *)from;
    for (int64_t i = 0; step == 1 && i < n; i++) {
        key[i] = FN(sort_key)(x[i]);
    }
    for (int64_t i = 0; step != 1 && i < n; i++) {
        key[i] = FN(sort_key)(x[i * step]);
    }
}

/* attr: axis, k, largest, from: of the first k places those behind `from`. */
static __attribute__((unused)) int64_t FN(argtopk)(const tpk_view *in, const tpk_view *out,
                                                   const int64_t *attr)
{
    return tpk_sort_lines(in, out, attr, FN(sort_read), sizeof(T));
}
