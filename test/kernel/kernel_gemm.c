/* gemm.h against the plain loops of convref.h, bit by bit: random sizes, strides (transposed,
 * broadcast, backwards), odd values, packed operands, chains that are closed at 64. */
#include "kernel/conv/convref.h"
#include "kernel/text/gemm.h"
#include "kernel_test.h"

typedef struct {
    int64_t m, n, k, a_rs, a_cs, b_rs, b_cs, c_rs;
    int kind;
} gemm_case;

/* Sizes: mostly small, at times large. */
static int64_t test_size(int64_t hi)
{
    return test_int(0, test_int(0, 3) ? (hi < 20 ? hi : 20) : hi);
}

/* A stride pair for rows x cols: 0 row-major, 1 transposed, 2 both spread out, 3 one is zero,
 * 4 backwards. */
static void pick_strides(int64_t rows, int64_t cols, int64_t *rs, int64_t *cs)
{
    const int64_t pad = test_int(0, 3);
    switch (test_int(0, 9)) {
    case 0:
        *rs = 2 * cols + pad;
        *cs = 2;
        return;
    case 1:
        *rs = test_int(0, 1) ? 0 : 1;
        *cs = *rs ? 0 : 1;
        return;
    case 2:
        *rs = -(cols + pad);
        *cs = test_int(0, 1) ? -1 : 1;
        return;
    case 3:
    case 4:
    case 5:
        *rs = 1;
        *cs = rows + pad;
        return;
    default:
        *rs = cols + pad;
        *cs = 1;
        return;
    }
}

/* A matrix of its own, its first element put so that every stride stays inside. */
static TPK_E *make_matrix(int64_t rows, int64_t cols, int64_t rs, int64_t cs, int kind,
                          TPK_E **first)
{
    int64_t lo = 0, hi = 0;
    const int64_t r = (rows > 0 ? rows - 1 : 0) * rs, c = (cols > 0 ? cols - 1 : 0) * cs;
    lo += (r < 0 ? r : 0) + (c < 0 ? c : 0);
    hi += (r > 0 ? r : 0) + (c > 0 ? c : 0);
    TPK_E *const p = malloc((size_t)(hi - lo + 1) * sizeof *p);
    if (!p) {
        exit(2);
    }
    test_fill(p, hi - lo + 1, kind);
    *first = p - lo;
    return p;
}

static int check(const char *what, const gemm_case *g, const TPK_E *c, const TPK_E *ref,
                 const void *ws, size_t room)
{
    const int64_t size = g->m > 0 ? (g->m - 1) * g->c_rs + g->n : 0;
    const int64_t at = test_differs(c, ref, size);
    if (at < 0 && !test_overrun(ws, room)) {
        return 0;
    }
    printf("FAILED %s: m %" PRId64 " n %" PRId64 " k %" PRId64 " a strides %" PRId64 " %" PRId64
           " b strides %" PRId64 " %" PRId64 " kind %d\n",
           what, g->m, g->n, g->k, g->a_rs, g->a_cs, g->b_rs, g->b_cs, g->kind);
    if (at < 0) {
        printf("  wrote behind its workspace\n");
    } else {
        printf("  element %" PRId64 ", %" PRId64 ": %a, must be %a\n", at / g->c_rs,
               at % g->c_rs, (double)c[at], (double)ref[at]);
    }
    printf("  repeat with the argument %" PRIu64 "\n", test_seed);
    return 1;
}

/* A in panels of rows, as convolutions pack their weights. */
static TPK_E *pack_a(const gemm_case *g, const TPK_E *a)
{
    const tpk_rows cut = tpk_rows_cut(g->m, TPK_MR);
    TPK_E *const ap = test_room((size_t)(g->m * g->k) * sizeof(TPK_E));
    for (int64_t p = 0; p < cut.parts && g->k > 0; p++) {
        const int64_t i = tpk_rows_at(&cut, p), rows = tpk_rows_at(&cut, p + 1) - i;
        TPK_N(tpk_pack)(rows, rows, g->k, a + i * g->a_rs, g->a_rs, g->a_cs, ap + i * g->k);
    }
    return ap;
}

static int run_case(const gemm_case *g)
{
    TPK_E *a, *b;
    TPK_E *const pa = make_matrix(g->m, g->k, g->a_rs, g->a_cs, g->kind, &a);
    TPK_E *const pb = make_matrix(g->k, g->n, g->b_rs, g->b_cs, g->kind, &b);
    const size_t size = (size_t)(g->m * g->c_rs + 1) * sizeof(TPK_E);
    TPK_E *const c = test_room(size), *const ref = test_room(size);
    const size_t room = TPK_N(tpk_gemm_ws)(g->m, g->n, g->k);
    void *const ws = test_workspace(room);
    memset(ref, 0x5a, size);
    TPK_N(tpk_gemm_ref)
    (g->m, g->n, g->k, a, g->a_rs, g->a_cs, b, g->b_rs, g->b_cs, ref, g->c_rs, 1);
    memset(c, 0x5a, size);
    TPK_N(tpk_gemm)(g->m, g->n, g->k, a, g->a_rs, g->a_cs, b, g->b_rs, g->b_cs, c, g->c_rs, ws);
    int bad = check("gemm", g, c, ref, ws, room);

    TPK_E *const bp = test_room(TPK_N(tpk_gemm_packed_b_size)(g->n, g->k));
    TPK_N(tpk_gemm_pack_b)(g->n, g->k, b, g->b_rs, g->b_cs, bp);
    memset(c, 0x5a, size);
    TPK_N(tpk_gemm_packed_b)(g->m, g->n, g->k, a, g->a_rs, g->a_cs, bp, c, g->c_rs, ws);
    bad |= check("packed b", g, c, ref, ws, room);

    TPK_N(tpk_mm)
    q = {.m = g->m,
         .n = g->n,
         .k = g->k,
         .a = a,
         .a_rs = g->a_rs,
         .a_cs = g->a_cs,
         .b = b,
         .b_rs = g->b_rs,
         .b_cs = g->b_cs,
         .c = c,
         .c_rs = g->c_rs,
         .ws = ws};
    q.ap = pack_a(g, a);
    memset(c, 0x5a, size);
    TPK_N(tpk_mm_run)(&q);
    bad |= check("packed a", g, c, ref, ws, room);
    free((void *)(uintptr_t)q.ap);
    free(pa);
    free(pb);
    free(c);
    free(ref);
    free(ws);
    free(bp);
    return bad;
}

int main(int argc, char **argv)
{
    test_begin(argc, argv, 20240611);
    const int rounds = argc > 2 ? atoi(argv[2]) : 300;
    static const int64_t fixed[][3] = {
        {4,   4,    4   },
        {1,   750,  300 },
        {300, 1,    75  },
        {1,   1,    5000},
        {14,  32,   4096},
        {14,  32,   64  },
        {15,  33,   65  },
        {3,   130,  128 },
        {8,   9,    129 },
        {5,   32,   4161},
        {13,  600,  700 },
        {65,  600,  1100},
        {167, 40,   600 },
        {64,  64,   64  },
        {23,  300,  33  },
        {15,  33,   4097},
        {3,   70,   9000},
        {70,  3,    9000},
        {29,  600,  300 },
        {300, 130,  70  },
        {2,   2100, 17  },
        {40,  300,  4100},
        {9,   40,   1024},
        {13,  100,  3000}
    };
    int bad = 0;
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0] && !bad; i++) {
        if (TPK_VBYTES == 16 && fixed[i][0] * fixed[i][1] * fixed[i][2] > 500000) {
            continue; /* an fma in software takes a thousand times as long */
        }
        gemm_case g = {.m = fixed[i][0], .n = fixed[i][1], .k = fixed[i][2]};
        g.a_rs = g.k;
        g.a_cs = g.b_cs = 1;
        g.b_rs = g.c_rs = g.n;
        bad |= run_case(&g);
        g.a_rs = 1;
        g.a_cs = g.m;
        g.b_rs = 1;
        g.b_cs = g.k;
        bad |= run_case(&g);
    }
    for (int i = 0; i < rounds && !bad; i++) {
        gemm_case g = {.kind = test_int(0, 3) ? TEST_PLAIN : TEST_WILD};
        g.m = test_size(90);
        g.n = test_size(150);
        g.k = test_int(0, 19) ? test_size(600) : test_int(4000, 9000);
        if (g.k > 600) {
            g.m %= 20;
        }
        pick_strides(g.m, g.k, &g.a_rs, &g.a_cs);
        pick_strides(g.k, g.n, &g.b_rs, &g.b_cs);
        g.c_rs = g.n + test_int(1, 4);
        bad |= run_case(&g);
    }
    if (!bad) {
        printf("passed\n");
    }
    return bad;
}
