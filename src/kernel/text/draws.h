/* Draws of philox.h. Pasted for f32, f64 and i64: T is the type, S its suffix, FN(name) is tpk_name_S.
 *
 * attr: kind (0 uniform, 1 normal, 2 whole), type, rank, eight sizes, a, b, seed, position, lo, hi, stream. Uniform in
 * [a, b); normal of mean a and deviation b; i64 in [lo, hi). */
static __attribute__((unused)) int64_t FN(random)(const tpk_view *in, const tpk_view *out,
                                                  const int64_t *attr)
{
    int64_t n = 1;
    (void)in;
    for (int64_t i = 0; i < out->rank; i++) {
        n *= out->n[i];
    }
    TPK_CAT(tpk_draw_, S)((T *)out->p, n, attr);
    return 0;
}
