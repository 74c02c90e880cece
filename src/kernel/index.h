/* Indices: gather, take_along and their opposites, for one element type: T is the type, S its
 * suffix, FN(name) is tpk_name_S. Indices are int64, a negative one counts from the end. A
 * result is 0, or 1 + the flat position of an index that is out of range. Operands may have any
 * strides, the result has no gaps. */

/* Sums of integers wrap. */
static inline __attribute__((unused)) T FN(index_plus)(T a, T b)
{
    return (T)0.5 != (T)0 ? (T)(a + b) : (T)((uint64_t)a + (uint64_t)b);
}

/* Moves `at` to the next position in row-major order, and k offsets with it; after the last
 * position all are back at the first. */
static __attribute__((unused)) void FN(index_step)(int64_t rank, const int64_t *n, int64_t *at,
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

static __attribute__((unused)) int64_t FN(index_count)(int64_t rank, const int64_t *n)
{
    int64_t count = 1;
    for (int64_t i = 0; i < rank; i++) {
        count *= n[i];
    }
    return count;
}

static __attribute__((unused)) int64_t FN(index_check)(const tpk_view *index, int64_t size)
{
    const int64_t *const p = (const int64_t *)index->p;
    const int64_t *const s[1] = {index->s};
    const int64_t count = FN(index_count)(index->rank, index->n);
    int64_t at[8] = {0}, offset[1] = {0};
    for (int64_t i = 0; i < count; i++) {
        if (p[offset[0]] < -size || p[offset[0]] >= size) {
            return 1 + i;
        }
        FN(index_step)(index->rank, index->n, at, 1, s, offset);
    }
    return 0;
}

/* y[i] = x[i], or y[i] += x[i]; y without gaps. The last axes are one where x's strides allow. */
static __attribute__((unused)) void FN(index_row)(int64_t rank, const int64_t *n,
                                                  const int64_t *s, const T *x, T *y, int add)
{
    int64_t row = 1, step = 1, outer = rank, at[8] = {0}, offset[1] = {0};
    while (outer > 0 && (n[outer - 1] == 1 || row == 1 || s[outer - 1] == row * step)) {
        outer--;
        step = row == 1 && n[outer] != 1 ? s[outer] : step;
        row *= n[outer];
    }
    const int64_t *const steps[1] = {s};
    const int64_t rows = FN(index_count)(outer, n);
    for (int64_t i = 0; i < rows; i++) {
        const T *const from = x + offset[0];
        if (add) {
            for (int64_t j = 0; j < row; j++) {
                y[j] = FN(index_plus)(y[j], from[j * step]);
            }
        } else if (step == 1) {
            for (int64_t j = 0; j < row; j++) {
                y[j] = from[j];
            }
        } else if (row > 0) {
            const T first = from[0];
            for (int64_t j = 0; j < row; j++) {
                y[j] = step ? from[j * step] : first;
            }
        }
        y += row;
        FN(index_step)(outer, n, at, 1, steps, offset);
    }
}

/* attr: axis.  Operands x, index:  y[a, i, b] = x[a, index[i], b]. */
static __attribute__((unused)) int64_t FN(gather)(const tpk_view *in, const tpk_view *out,
                                                  const int64_t *attr)
{
    const tpk_view x = in[0], index = in[1];
    const int64_t axis = attr[0], size = x.n[axis], inner = x.rank - axis - 1;
    const int64_t bad = FN(index_check)(&index, size);
    if (bad) {
        return bad;
    }
    const int64_t *const p = (const int64_t *)index.p, *const n = x.n + axis + 1;
    const int64_t *const xs[1] = {x.s}, *const is[1] = {index.s};
    const int64_t outer = FN(index_count)(axis, x.n), row = FN(index_count)(inner, n);
    const int64_t count = FN(index_count)(index.rank, index.n);
    int64_t xat[8] = {0}, iat[8] = {0}, xo[1] = {0}, io[1] = {0};
    T *y = (T *)out->p;
    for (int64_t a = 0; a < outer; a++) {
        for (int64_t i = 0; i < count; i++) {
            const int64_t j = p[io[0]] < 0 ? p[io[0]] + size : p[io[0]];
            FN(index_row)
            (inner, n, x.s + axis + 1, (const T *)x.p + xo[0] + j * x.s[axis], y, 0);
            y += row;
            FN(index_step)(index.rank, index.n, iat, 1, is, io);
        }
        FN(index_step)(axis, x.n, xat, 1, xs, xo);
    }
    return 0;
}

/* Operands x, index, src:  y = x, then y[a, index[i], b] = or += src[a, i, b]. */
static __attribute__((unused)) int64_t FN(index_put)(const tpk_view *in, const tpk_view *out,
                                                     int64_t axis, int add)
{
    const tpk_view x = in[0], index = in[1], src = in[2];
    const int64_t size = x.n[axis], inner = x.rank - axis - 1;
    const int64_t bad = FN(index_check)(&index, size);
    if (bad) {
        return bad;
    }
    FN(index_row)(x.rank, x.n, x.s, (const T *)x.p, (T *)out->p, 0);
    const int64_t *const p = (const int64_t *)index.p, *const n = x.n + axis + 1;
    const int64_t *const as[1] = {src.s}, *const is[2] = {index.s, src.s + axis};
    const int64_t outer = FN(index_count)(axis, x.n), row = FN(index_count)(inner, n);
    const int64_t count = FN(index_count)(index.rank, index.n);
    int64_t aat[8] = {0}, iat[8] = {0}, ao[1] = {0}, io[2] = {0};
    for (int64_t a = 0; a < outer; a++) {
        for (int64_t i = 0; i < count; i++) {
            const int64_t j = p[io[0]] < 0 ? p[io[0]] + size : p[io[0]];
            FN(index_row)
            (inner, n, src.s + axis + index.rank, (const T *)src.p + ao[0] + io[1],
             (T *)out->p + (a * size + j) * row, add);
            FN(index_step)(index.rank, index.n, iat, 2, is, io);
        }
        FN(index_step)(axis, x.n, aat, 1, as, ao);
    }
    return 0;
}

static __attribute__((unused)) int64_t FN(scatter)(const tpk_view *in, const tpk_view *out,
                                                   const int64_t *attr)
{
    return FN(index_put)(in, out, attr[0], 0);
}

static __attribute__((unused)) int64_t FN(scatter_add)(const tpk_view *in, const tpk_view *out,
                                                       const int64_t *attr)
{
    return FN(index_put)(in, out, attr[0], 1);
}

/* attr: axis.  Operands x, index:  y[a, i, b] = x[a, index[a, i, b], b]. */
static __attribute__((unused)) int64_t FN(take_along)(const tpk_view *in, const tpk_view *out,
                                                      const int64_t *attr)
{
    const tpk_view x = in[0], index = in[1];
    const int64_t axis = attr[0], size = x.n[axis];
    const int64_t bad = FN(index_check)(&index, size);
    if (bad) {
        return bad;
    }
    int64_t xs[8] = {0}, at[8] = {0}, offset[2] = {0};
    for (int64_t i = 0; i < x.rank; i++) {
        xs[i] = i == axis ? 0 : x.s[i];
    }
    const int64_t *const p = (const int64_t *)index.p, *const s[2] = {xs, index.s};
    const int64_t count = FN(index_count)(index.rank, index.n);
    for (int64_t i = 0; i < count; i++) {
        const int64_t j = p[offset[1]] < 0 ? p[offset[1]] + size : p[offset[1]];
        ((T *)out->p)[i] = ((const T *)x.p)[offset[0] + j * x.s[axis]];
        FN(index_step)(index.rank, index.n, at, 2, s, offset);
    }
    return 0;
}

/* attr: axis.  Operands x, index, src:  y = x, then y[a, index[a, i, b], b] += src[a, i, b]. */
static __attribute__((unused)) int64_t
FN(put_along_add)(const tpk_view *in, const tpk_view *out, const int64_t *attr)
{
    const tpk_view x = in[0], index = in[1], src = in[2];
    const int64_t axis = attr[0], size = x.n[axis];
    const int64_t bad = FN(index_check)(&index, size);
    if (bad) {
        return bad;
    }
    FN(index_row)(x.rank, x.n, x.s, (const T *)x.p, (T *)out->p, 0);
    int64_t ys[8] = {0}, at[8] = {0}, offset[3] = {0};
    for (int64_t i = 0; i < x.rank; i++) {
        ys[i] = i == axis ? 0 : out->s[i];
    }
    const int64_t *const p = (const int64_t *)index.p;
    const int64_t *const s[3] = {ys, index.s, src.s};
    const int64_t count = FN(index_count)(index.rank, index.n);
    for (int64_t i = 0; i < count; i++) {
        const int64_t j = p[offset[1]] < 0 ? p[offset[1]] + size : p[offset[1]];
        T *const y = (T *)out->p + offset[0] + j * out->s[axis];
        *y = FN(index_plus)(*y, ((const T *)src.p)[offset[2]]);
        FN(index_step)(index.rank, index.n, at, 3, s, offset);
    }
    return 0;
}

/* Operand index:  y[i, index[i]] = 1, else 0. */
static __attribute__((unused)) int64_t FN(one_hot)(const tpk_view *in, const tpk_view *out,
                                                   const int64_t *attr)
{
    const int64_t n = out->n[out->rank - 1], *const p = (const int64_t *)in->p;
    const int64_t *const s[1] = {in->s};
    const int64_t count = FN(index_count)(in->rank, in->n);
    int64_t at[8] = {0}, offset[1] = {0};
    T *y = (T *)out->p;
    (void)attr;
    for (int64_t i = 0; i < count; i++) {
        const int64_t j = p[offset[0]] < 0 ? p[offset[0]] + n : p[offset[0]];
        for (int64_t k = 0; k < n; k++) {
            y[k] = (T)(k == j);
        }
        y += n;
        FN(index_step)(in->rank, in->n, at, 1, s, offset);
    }
    return 0;
}
