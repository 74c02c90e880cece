/* conv.h on one core: LeNet at batch 32 and layers of the ResNet kind, as a share of the FMA peak
 * measured beside it. Multiply-adds are those of the definition, padding included. */
#include "bench_kernel.h"
#include "kernel/conv/convdw.h"

typedef struct {
    tpk_conv c;
    int op;
    TPK_E *x, *w, *wp, *y;
    void *ws;
} conv_run;

static void run(void *arg)
{
    const conv_run *const r = arg;
    if (r->op == 0) {
        TPK_N(tpk_conv)(&r->c, r->x, r->w, r->y, r->ws);
    } else if (r->op == 1) {
        TPK_N(tpk_conv_packed_w)(&r->c, r->x, r->wp, r->y, r->ws);
    } else if (r->op == 2) {
        TPK_N(tpk_conv_dx)(&r->c, r->y, r->w, r->x, r->ws);
    } else {
        TPK_N(tpk_conv_dw)(&r->c, r->x, r->y, r->w, r->ws);
    }
}

int main(int argc, char **argv)
{
    static const char *const ops[] = {"conv", "conv, packed w", "conv_dx", "conv_dw"};
    /* batch, groups, ic, oc, in, ker, stride, pad */
    static const int cases[][8] = {
        {32, 1,   1,   6,   28,  5, 1, 2},
        {32, 1,   6,   16,  14,  5, 1, 0},
        {1,  1,   3,   64,  224, 7, 2, 3},
        {1,  1,   64,  64,  56,  3, 1, 1},
        {1,  1,   128, 128, 28,  3, 1, 1},
        {1,  1,   256, 256, 14,  3, 1, 1},
        {1,  1,   512, 512, 7,   3, 1, 1},
        {8,  1,   512, 512, 7,   3, 1, 1},
        {1,  1,   256, 64,  56,  1, 1, 0},
        {1,  1,   64,  256, 56,  1, 1, 0},
        {1,  1,   16,  96,  112, 1, 1, 0},
        {1,  1,   32,  16,  112, 1, 1, 0},
        {1,  1,   160, 960, 7,   1, 1, 0},
        {1,  1,   128, 256, 28,  1, 2, 0},
        {1,  32,  32,  32,  112, 3, 1, 1},
        {1,  96,  96,  96,  112, 3, 2, 1},
        {1,  32,  32,  32,  56,  3, 1, 1},
        {1,  384, 384, 384, 14,  3, 1, 1},
        {1,  576, 576, 576, 14,  3, 2, 1},
        {1,  960, 960, 960, 7,   3, 1, 1},
        {1,  240, 240, 240, 28,  5, 1, 2},
        {1,  240, 240, 240, 28,  5, 2, 2},
        {1,  1,   128, 128, 56,  3, 2, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int *const v = cases[i];
        const int64_t in = v[4], ker = v[5], out = (in + 2 * v[7] - ker) / v[6] + 1;
        conv_run r = {
            .c = {.nd = 2,
                  .batch = v[0],
                  .groups = v[1],
                  .ic = v[2],
                  .oc = v[3],
                  .in = {in, in},
                  .out = {out, out},
                  .ker = {ker, ker},
                  .stride = {v[6], v[6]},
                  .dil = {1, 1},
                  .pad = {v[7], v[7]},
                  .xs = {v[2] * in * in, in * in, in, 1},
                  .ws = {v[2] / v[1] * ker * ker, ker * ker, ker, 1},
                  .ys = {v[3] * out * out, out * out, out, 1}}
        };
        const tpk_conv *const c = &r.c;
        r.x = bench_array(c->batch * c->xs[0]);
        r.y = bench_array(c->batch * c->ys[0]);
        r.w = bench_array(c->oc * c->ws[0]);
        r.wp = bench_array((int64_t)(TPK_N(tpk_conv_packed_w_size)(c) / sizeof(TPK_E)));
        for (r.op = 0; r.op < 4; r.op++) {
            char name[128];
            snprintf(name, sizeof name, "%dx%d->%d%s %dx%d k%d s%d %s", v[0], v[2], v[3],
                     v[1] > 1 ? " grouped" : "", v[4], v[4], v[5], v[6], ops[r.op]);
            if (argc > 1 && !strstr(name, argv[1])) {
                continue;
            }
            const size_t size = r.op < 2    ? TPK_N(tpk_conv_ws)(c)
                                : r.op == 2 ? TPK_N(tpk_conv_dx_ws)(c)
                                            : TPK_N(tpk_conv_dw_ws)(c);
            const int64_t at =
                r.op == 2 ? in : out; /* the stride thins out the taps of conv_dx */
            const double fmas = (double)(c->batch * c->oc * c->ws[0]) * (double)(at * at) /
                                (r.op == 2 ? v[6] * v[6] : 1);
            r.ws = bench_array((int64_t)(size / sizeof(TPK_E)));
            if (r.op == 1) {
                TPK_N(tpk_conv_pack_w)(c, r.w, r.wp, r.ws);
            }
            bench_case(name, run, &r, fmas);
            free(r.ws);
        }
        free(r.x);
        free(r.y);
        free(r.w);
        free(r.wp);
    }
    return 0;
}
