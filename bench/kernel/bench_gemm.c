/* gemm.h on one core, as a share of the FMA peak measured beside it. */
#include "bench_kernel.h"
#include "kernel/text/gemm.h"

typedef struct {
    int64_t m, n, k;
    int turn_a, turn_b, packed_b;
    TPK_E *a, *b, *bp, *c;
    void *ws;
} gemm_run;

static void run(void *arg)
{
    const gemm_run *const g = arg;
    const int64_t a_rs = g->turn_a ? 1 : g->k, a_cs = g->turn_a ? g->m : 1;
    const int64_t b_rs = g->turn_b ? 1 : g->n, b_cs = g->turn_b ? g->k : 1;
    if (g->packed_b) {
        TPK_N(tpk_gemm_packed_b)(g->m, g->n, g->k, g->a, a_rs, a_cs, g->bp, g->c, g->n, g->ws);
    } else {
        TPK_N(tpk_gemm)
        (g->m, g->n, g->k, g->a, a_rs, a_cs, g->b, b_rs, b_cs, g->c, g->n, g->ws);
    }
}

int main(int argc, char **argv)
{
    static const int cases[][6] = {
        {1024, 1024, 1024,  0, 0, 0},
        {1024, 1024, 1024,  0, 1, 0},
        {1024, 1024, 1024,  1, 0, 0},
        {1024, 1024, 1024,  0, 0, 1},
        {128,  3072, 768,   0, 0, 0},
        {128,  3072, 768,   0, 1, 0},
        {128,  3072, 768,   0, 0, 1},
        {128,  768,  3072,  0, 0, 0},
        {8,    3072, 768,   0, 0, 0},
        {8,    3072, 768,   0, 1, 0},
        {8,    3072, 768,   0, 0, 1},
        {1,    750,  300,   0, 0, 0},
        {1,    750,  300,   0, 1, 0},
        {1,    750,  300,   0, 0, 1},
        {750,  1,    300,   0, 0, 0},
        {750,  1,    300,   1, 0, 0},
        {4,    4,    4,     0, 0, 0},
        {8,    8,    8,     0, 0, 0},
        {16,   16,   16,    0, 0, 0},
        {32,   32,   32,    0, 0, 0},
        {64,   64,   64,    0, 0, 0},
        {64,   64,   64,    0, 1, 0},
        {128,  128,  128,   0, 0, 0},
        {256,  256,  256,   0, 0, 0},
        {32,   120,  400,   0, 1, 0},
        {32,   84,   120,   0, 1, 0},
        {32,   10,   84,    0, 1, 0},
        {120,  400,  32,    1, 0, 0},
        {32,   400,  120,   0, 0, 0},
        {84,   120,  32,    1, 0, 0},
        {64,   64,   16384, 0, 0, 0},
        {512,  512,  10000, 0, 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const int *const x = cases[i];
        gemm_run g = {
            .m = x[0], .n = x[1], .k = x[2], .turn_a = x[3], .turn_b = x[4], .packed_b = x[5]};
        char name[96];
        snprintf(name, sizeof name, "%lld x %lld x %lld%s%s%s", (long long)g.m, (long long)g.n,
                 (long long)g.k, g.turn_a ? " A'" : "", g.turn_b ? " B'" : "",
                 g.packed_b ? " packed" : "");
        if (argc > 1 && !strstr(name, argv[1])) {
            continue;
        }
        g.a = bench_array(g.m * g.k);
        g.b = bench_array(g.k * g.n);
        g.c = bench_array(g.m * g.n);
        g.ws = bench_array((int64_t)(TPK_N(tpk_gemm_ws)(g.m, g.n, g.k) / sizeof(TPK_E)));
        g.bp = bench_array((int64_t)(TPK_N(tpk_gemm_packed_b_size)(g.n, g.k) / sizeof(TPK_E)));
        TPK_N(tpk_gemm_pack_b)(g.n, g.k, g.b, g.turn_b ? 1 : g.n, g.turn_b ? g.k : 1, g.bp);
        bench_case(name, run, &g, (double)g.m * (double)g.n * (double)g.k);
        free(g.a);
        free(g.b);
        free(g.c);
        free(g.bp);
        free(g.ws);
    }
    return 0;
}
