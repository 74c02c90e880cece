/* convblocks.h: conv_dx of windows that do not overlap, the kernel being as large as the stride (TPK_BITS is
 * 32; doubles go as other strides do). Each element of y makes a block of x, and each element of x is one
 * sum over the channels of y. For each place that the outer axes have in a block that is a product as
 * gemm.h computes it, whose rows are (channel of x, column in a block) and whose columns are the elements
 * of y in their order: some rows of y at a time, whose columns are put beside each other while they are
 * near. */
#include "kernel/conv/convspec.h"
#include "kernel/text/gemm.h"
#if TPK_BITS == 32 && !defined(TPK_CONVBLOCKS_32)
#define TPK_CONVBLOCKS_32

/* Is it for this file? Three dimensions. Of few channels packing would cost more than the sums. */
TPK_COLD int tpk_conv_has_blocks(const tpk_conv *c)
{
    enum { LEAST = 8 };
    int is = c->oc / c->groups >= LEAST && c->stride[2] > 1 && c->pad[2] == 0 &&
             c->in[2] == c->out[2] * c->stride[2] && c->xs[4] == 1 && c->ys[4] == 1 &&
             (c->out[1] == 1 || c->ys[3] == c->out[2]);
    for (int i = 0; i < 3; i++) {
        is = is && c->ker[i] == c->stride[i] && (c->dil[i] == 1 || c->ker[i] == 1) &&
             c->pad[i] >= 0 && (c->in[i] - 1 + c->pad[i]) / c->stride[i] < c->out[i];
    }
    return is;
}

/* The first element of y along axis i that meets residue r, and by which tap. */
TPK_FN int64_t tpk_blocks_tap(const tpk_conv *c, int i, int64_t r, int64_t *first)
{
    *first = (r + c->pad[i]) / c->stride[i];
    return (r + c->pad[i]) % c->stride[i];
}

/* m rows, k channels of y, and so many rows of y at a time; where in the workspace, in bytes. */
typedef struct {
    int64_t m, k, rows, at_sums, at_mm, size;
} tpk_blocks;

TPK_COLD tpk_blocks tpk_blocks_make(const tpk_conv *c)
{
    enum { NEAR = 32 * 1024 }; /* elements */
    tpk_blocks b = {.m = c->ic / c->groups * c->stride[2], .k = c->oc / c->groups};
    const int64_t row = b.m * c->out[2], rows = NEAR / row, e = sizeof(float);
    b.rows = rows < 1 ? 1 : tpk_i_min(rows, c->out[1]);
    b.at_sums = tpk_cv_round_up(b.m * b.k * e);
    b.at_mm = b.at_sums + tpk_cv_round_up(b.rows * row * e);
    b.size = b.at_mm + (int64_t)tpk_gemm_ws_f32(b.m, b.rows * c->out[2], b.k);
    return b;
}

/* The columns of n blocks, which lie `apart`. */
TPK_FN void tpk_blocks_put(int64_t width, int64_t n, const float *from, int64_t apart, float *x)
{
    int64_t i = 0;
    for (; width == 2 && i + TPK_VL <= n; i += TPK_VL) {
        const TPK_V a = TPK_LOAD(from + i), b = TPK_LOAD(from + apart + i);
        TPK_STORE(x + 2 * i, TPK_ILO(a, b));
        TPK_STORE(x + 2 * i + TPK_VL, TPK_IHI(a, b));
    }
    for (; i < n; i++) {
        for (int64_t column = 0; column < width; column++) {
            x[i * width + column] = from[column * apart + i];
        }
    }
}

/* The rows of one place of the outer axes, w beginning with that place's taps, in gemm.h's panels. */
TPK_OUT void tpk_blocks_pack(const tpk_conv *c, const tpk_blocks *b, const float *w, float *a)
{
    const tpk_rows cut = tpk_rows_cut(b->m, TPK_MR);
    for (int64_t p = 0; p < cut.parts; p++) {
        const int64_t row = tpk_rows_at(&cut, p), rows = tpk_rows_at(&cut, p + 1) - row;
        int64_t at[TPK_MR];
        for (int64_t i = 0; i < rows; i++) {
            at[i] = (row + i) / c->stride[2] * c->ws[1] + (row + i) % c->stride[2] * c->ws[4];
        }
        float *to = a + row * b->k;
        for (int64_t o = 0; o < b->k; o++, to += rows) {
            for (int64_t i = 0; i < rows; i++) {
                to[i] = w[o * c->ws[0] + at[i]];
            }
        }
    }
}

/* One residue of the outer axes, of one group. */
TPK_OUT void tpk_blocks_residue(const tpk_conv *c, const tpk_blocks *b, const int64_t r[3],
                                const float *y, const float *w, float *x, char *ws)
{
    float *const a = (float *)(void *)ws, *const sums = (float *)(void *)(ws + b->at_sums);
    const int64_t width = c->stride[2], channels = b->m / width;
    int64_t first[2], places[2];
    for (int i = 0; i < 2; i++) {
        w += tpk_blocks_tap(c, i, r[i], &first[i]) * c->ws[i + 2];
        y += first[i] * c->ys[i + 2];
        x += r[i] * c->xs[i + 2];
        places[i] = (c->in[i] - r[i] - 1) / c->stride[i] + 1;
    }
    tpk_blocks_pack(c, b, w, a);
    for (int64_t at = 0; at < c->batch * places[0]; at++) {
        const int64_t image = at / places[0], d = at % places[0];
        for (int64_t h = 0; h < places[1]; h += b->rows) {
            const int64_t rows = tpk_i_min(b->rows, places[1] - h), n = rows * c->out[2];
            const tpk_mm_f32 q = {.m = b->m,
                                  .n = n,
                                  .k = b->k,
                                  .ap = a,
                                  .b = y + image * c->ys[0] + d * c->ys[2] + h * c->ys[3],
                                  .b_rs = c->ys[1],
                                  .b_cs = 1,
                                  .c = sums,
                                  .c_rs = n,
                                  .ws = ws + b->at_mm};
            tpk_mm_run_f32(&q);
            float *const to = x + image * c->xs[0] + d * c->stride[0] * c->xs[2];
            for (int64_t i = 0; i < channels; i++) {
                for (int64_t row = 0; row < rows; row++) {
                    tpk_blocks_put(width, c->out[2], sums + i * width * n + row * c->out[2], n,
                                   to + i * c->xs[1] + (h + row) * c->stride[1] * c->xs[3]);
                }
            }
        }
    }
}

TPK_COLD void tpk_blocks_run(const tpk_conv *c, const float *y, const float *w, float *x,
                             char *ws)
{
    const tpk_blocks b = tpk_blocks_make(c);
    int64_t r[3] = {0, 0, 0};
    for (; r[0] < tpk_i_min(c->stride[0], c->in[0]); r[0]++) {
        for (r[1] = 0; r[1] < tpk_i_min(c->stride[1], c->in[1]); r[1]++) {
            for (int64_t g = 0; g < c->groups; g++) {
                tpk_blocks_residue(c, &b, r, y + g * b.k * c->ys[1], w + g * b.k * c->ws[0],
                                   x + g * c->ic / c->groups * c->xs[1], ws);
            }
        }
    }
}
#endif
