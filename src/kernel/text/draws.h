/* Draws of philox.h, scaled. Pasted for f32 and f64: T is the type, S its suffix, FN(name) is
 * tpk_name_S.
 *
 * attr: kind (0 uniform, 1 normal), type, rank, eight sizes, a, b, seed, position. Uniform in
 * [a, b); normal of mean a and deviation b. A position is a block of Philox: four f32 or two
 * f64. Scaling is one fma; a uniform number that it rounds up to b becomes a. */
static __attribute__((unused)) int64_t FN(random)(const tpk_view *in, const tpk_view *out,
                                                  const int64_t *attr)
{
    const T a = (T)tpk_from_bits_f64((uint64_t)attr[11]);
    const T b = (T)tpk_from_bits_f64((uint64_t)attr[12]);
    const uint64_t seed = (uint64_t)attr[13], first = (uint64_t)attr[14] * (16 / sizeof(T));
    T *y = (T *)out->p;
    int64_t n = 1;
    (void)in;
    for (int64_t i = 0; i < out->rank; i++) {
        n *= out->n[i];
    }
    if (attr[0]) {
        TPK_CAT(tpk_normal_fill_, S)(y, n, seed, 0, first);
        for (int64_t i = 0; i < n; i++) {
            y[i] = TPK_CAT(tpk_fma_, S)(y[i], b, a);
        }
    } else {
        const T width = b - a;
        TPK_CAT(tpk_uniform_fill_, S)(y, n, seed, 0, first);
        for (int64_t i = 0; i < n; i++) {
            const T x = TPK_CAT(tpk_fma_, S)(y[i], width, a);
            y[i] = x < b ? x : a;
        }
    }
    return 0;
}
