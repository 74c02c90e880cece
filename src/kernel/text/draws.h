/* Draws of philox.h. Pasted for f32, f64 and i64: T is the type, S its suffix, FN(name) is tpk_name_S.
 *
 * attr: kind (0 uniform, 1 normal, 2 whole), type, rank, eight sizes, a, b, seed, position, lo, hi, stream; a number of axes
 * and eight distances: by how many positions rows along the first axes are apart. Uniform in [a, b); normal of mean a and
 * deviation b; i64 in [lo, hi). */
static __attribute__((unused)) int64_t FN(random)(const tpk_view *in, const tpk_view *out,
                                                  const int64_t *attr)
{
    int64_t n = 1, rows = 1, own[18];
    (void)in;
    for (int64_t i = 0; i < 18; i++) {
        own[i] = attr[i];
    }
    for (int64_t i = 0; i < out->rank; i++) {
        *(i < attr[18] ? &rows : &n) *= out->n[i];
    }
    for (int64_t row = 0; row < rows; row++) {
        uint64_t at = (uint64_t)attr[14];
        for (int64_t i = attr[18] - 1, rest = row; i >= 0; i--) {
            at += (uint64_t)(rest % out->n[i]) * (uint64_t)attr[19 + i];
            rest /= out->n[i];
        }
        own[14] = (int64_t)at;
        TPK_CAT(tpk_draw_, S)((T *)out->p + row * n, n, own);
    }
    return 0;
}
