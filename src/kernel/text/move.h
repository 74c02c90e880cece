/* Joins: pad, concat and stack, for one element type: T is the type, S its suffix, FN(name) is
 * tpk_name_S. Operands may have any strides, the result has no gaps. */

/* d[i] = s[i] over a box of sizes n. Axes that follow one another without a gap in both are
 * made one, so that rows are as long as they can be. */
static __attribute__((unused)) void FN(move_box)(int64_t rank, const int64_t *n, T *d,
                                                 const int64_t *ds, const T *s,
                                                 const int64_t *ss)
{
    int64_t m[9] = {1}, md[9] = {0}, ms[9] = {0}, at[9] = {0};
    int64_t k = 0;
    for (int64_t i = 0; i < rank; i++) {
        if (n[i] == 0) {
            return;
        }
        if (n[i] == 1) {
            continue;
        }
        if (m[k] > 1 && md[k] == ds[i] * n[i] && ms[k] == ss[i] * n[i]) {
            m[k] *= n[i];
        } else {
            k++;
            m[k] = n[i];
        }
        md[k] = ds[i];
        ms[k] = ss[i];
    }
    const int64_t row = m[k], dd = md[k], sd = ms[k];
    for (;;) {
        if (dd == 1 && sd == 1 && row >= 16) {
            __builtin_memcpy(d, s, (size_t)row * sizeof(T));
        } else {
            for (int64_t j = 0; j < row; j++) {
                d[j * dd] = s[j * sd];
            }
        }
        int64_t i = k - 1;
        for (; i > 0; i--) {
            d += md[i];
            s += ms[i];
            if (++at[i] < m[i]) {
                break;
            }
            d -= md[i] * m[i];
            s -= ms[i] * m[i];
            at[i] = 0;
        }
        if (i <= 0) {
            return;
        }
    }
}

/* attr: lo, hi (lists), inner (a list), value.  Element i of an axis goes to place
 * lo + i * (inner + 1), the other places get the value. */
static __attribute__((unused)) int64_t FN(pad)(const tpk_view *in, const tpk_view *out,
                                               const int64_t *attr)
{
    const int64_t *lo = attr + 1, *inner = attr + 19;
    const T value = FN(cast_f64)(tpk_from_bits_f64((uint64_t)attr[27]));
    int64_t count = 1, n[8], s[8];
    const T *from = (const T *)in->p;
    T *to = (T *)out->p;
    for (int64_t i = 0; i < out->rank; i++) {
        count *= out->n[i];
    }
    for (int64_t j = 0; j < count && j < 16; j++) {
        to[j] = value;
    }
    for (int64_t j = 16, more = 0; j < count; j += more) { /* twice as much each time */
        more = j < count - j ? j : count - j;
        more = more < 4096 ? more : 4096;
        __builtin_memcpy(to + j, to, (size_t)more * sizeof(T));
    }
    for (int64_t i = 0; i < out->rank; i++) {
        const int64_t step = inner[i] + 1, room = out->n[i] - lo[i];
        const int64_t fits = lo[i] < 0 || room <= 0 ? 0 : (room + step - 1) / step;
        n[i] = in->n[i] < fits ? in->n[i] : fits;
        s[i] = out->s[i] * step;
        to += n[i] > 0 ? lo[i] * out->s[i] : 0;
    }
    FN(move_box)(out->rank, n, to, s, from, in->s);
    return 0;
}

/* attr: axis.  The operands one after another, until the axis is full. */
static __attribute__((unused)) int64_t FN(concat)(const tpk_view *in, const tpk_view *out,
                                                  const int64_t *attr)
{
    const int64_t axis = attr[0];
    T *to = (T *)out->p;
    for (int64_t at = 0; at < out->n[axis]; in++) {
        FN(move_box)(in->rank, in->n, to + at * out->s[axis], out->s, (const T *)in->p, in->s);
        at += in->n[axis];
    }
    return 0;
}

/* Each operand is one element of the result's first axis. */
static __attribute__((unused)) int64_t FN(stack)(const tpk_view *in, const tpk_view *out,
                                                 const int64_t *attr)
{
    (void)attr;
    T *to = (T *)out->p;
    for (int64_t at = 0; at < out->n[0]; at++) {
        FN(move_box)
        (in[at].rank, in[at].n, to + at * out->s[0], out->s + 1, (const T *)in[at].p, in[at].s);
    }
    return 0;
}
