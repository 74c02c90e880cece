/* convref.h: contractions and convolutions as plain loops, for one element type (TPK_BITS).
 *
 * This is the definition that gemm.h and conv.h are held against, bit by bit. A chain of fma
 * starts from +0 and takes its products in k order; it is closed after 4096 of them, and closed
 * chains are added from left to right. The chain is a struct so that every loop nest below can
 * count in its own way. */
#include "vec.h"

typedef struct {
    TPK_E total, chain;
    int64_t n;
} TPK_N(tpk_chain);

TPK_FN void TPK_N(tpk_chain_fma)(TPK_N(tpk_chain) * s, TPK_E a, TPK_E b)
{
    if (s->n > 0 && s->n % 4096 == 0) {
        s->total = s->n == 4096 ? s->chain : s->total + s->chain;
        s->chain = 0;
    }
    s->chain = TPK_N(tpk_fma)(a, b, s->chain);
    s->n++;
}

TPK_FN TPK_E TPK_N(tpk_chain_end)(const TPK_N(tpk_chain) * s)
{
    return s->n <= 4096 ? s->chain : s->total + s->chain;
}

/* C[m][n] = A[m][k] B[k][n]. */
TPK_FN void TPK_N(tpk_gemm_ref)(int64_t m, int64_t n, int64_t k, const TPK_E *a, int64_t a_rs,
                                int64_t a_cs, const TPK_E *b, int64_t b_rs, int64_t b_cs,
                                TPK_E *c, int64_t c_rs, int64_t c_cs)
{
    for (int64_t i = 0; i < m; i++) {
        for (int64_t j = 0; j < n; j++) {
            TPK_N(tpk_chain) s = {0, 0, 0};
            for (int64_t kk = 0; kk < k; kk++) {
                TPK_N(tpk_chain_fma)(&s, a[i * a_rs + kk * a_cs], b[kk * b_rs + j * b_cs]);
            }
            c[i * c_rs + j * c_cs] = TPK_N(tpk_chain_end)(&s);
        }
    }
}
