/* conv.h and convtaps.h against the plain loops of convref.h, bit by bit: random sizes, strides,
 * dilations, padding (also more than the kernel reaches), groups, layouts, odd values. */
#include "kernel/conv/convdw.h"
#include "kernel/conv/convref.h"
#include "kernel_test.h"

#if TPK_BITS == 32
#define ENTRY(name) TPK_N(tpk_taps_##name)
#else
#define ENTRY(name) TPK_N(tpk_##name)
#endif

static const char *const names[] = {"conv", "conv, packed w", "conv, packed w, by image",
                                    "conv_dx", "conv_dw"};

/* Strides for [a, b, size...]: packed, innermost first or last, perhaps with gaps. */
static int64_t lay_out(int nd, int64_t a, int64_t b, const int64_t *size, int64_t *strides)
{
    int64_t dims[5] = {a, b}, order[5], n = 1;
    for (int i = 0; i < nd; i++) {
        dims[i + 2] = size[i];
    }
    for (int i = 0; i < nd + 2; i++) {
        order[i] = nd + 1 - i;
    }
    const int64_t how = test_int(0, 5);
    if (how == 0) { /* channels last */
        order[0] = 1;
        for (int i = 1; i < nd + 1; i++) {
            order[i] = nd + 2 - i;
        }
    }
    for (int i = 0; i < nd + 2; i++) {
        strides[order[i]] = n;
        n *= dims[order[i]] > 0 ? dims[order[i]] : 1;
        n += how == 1 ? test_int(0, 3) : 0;
        n *= how == 2 && i == 0 ? 2 : 1;
    }
    return n;
}

static void print_spec(const tpk_conv *c)
{
    printf("  nd %d batch %" PRId64 " groups %" PRId64 " ic %" PRId64 " oc %" PRId64 "\n",
           c->nd, c->batch, c->groups, c->ic, c->oc);
    for (int i = 0; i < c->nd; i++) {
        printf("  in %" PRId64 " out %" PRId64 " ker %" PRId64 " stride %" PRId64
               " dil %" PRId64 " pad %" PRId64 "\n",
               c->in[i], c->out[i], c->ker[i], c->stride[i], c->dil[i], c->pad[i]);
    }
    for (int i = 0; i < c->nd + 2; i++) {
        printf("  strides x %" PRId64 " w %" PRId64 " y %" PRId64 "\n", c->xs[i], c->ws[i],
               c->ys[i]);
    }
}

/* Image by image with the weights that were packed for all. */
static void run_images(const tpk_conv *c, const TPK_E *x, const TPK_E *wp, TPK_E *y)
{
    tpk_conv part = *c;
    part.batch = 1;
    part.way = ENTRY(conv_way)(c);
    part.taps = tpk_conv_taps(c);
    void *const own = test_workspace(ENTRY(conv_ws)(&part));
    for (int64_t i = 0; i < c->batch; i++) {
        ENTRY(conv_packed_w)(&part, x + i * c->xs[0], wp, y + i * c->ys[0], own);
    }
    free(own);
}

static int run_case(const tpk_conv *c, const int64_t sizes[3], int kind)
{
    TPK_E *v[3], *got[3], *want[3]; /* x, w, y */
    for (int i = 0; i < 3; i++) {
        const size_t bytes = (size_t)sizes[i] * sizeof(TPK_E);
        v[i] = malloc(bytes);
        got[i] = test_room(bytes);
        want[i] = test_room(bytes);
        if (!v[i]) {
            exit(2);
        }
        test_fill(v[i], sizes[i], kind);
        memset(got[i], 0x5a, bytes);
        memset(want[i], 0x5a, bytes);
    }
    int bad = 0;
    TPK_N(tpk_conv_ref)(c, v[0], v[1], want[2]);
    TPK_N(tpk_conv_dx_ref)(c, v[2], v[1], want[0]);
    TPK_N(tpk_conv_dw_ref)(c, v[0], v[2], want[1]);
    for (int op = 0; op < 5 && !bad; op++) {
        const size_t room = op < 3    ? ENTRY(conv_ws)(c)
                            : op == 3 ? ENTRY(conv_dx_ws)(c)
                                      : ENTRY(conv_dw_ws)(c);
        void *const ws = test_workspace(room);
        const int out = op < 3 ? 2 : op == 3 ? 0 : 1;
        memset(got[out], 0x5a, (size_t)sizes[out] * sizeof(TPK_E));
        if (op == 0) {
            ENTRY(conv)(c, v[0], v[1], got[2], ws);
        } else if (op < 3) {
            TPK_E *const wp = test_workspace(ENTRY(conv_packed_w_size)(c));
            ENTRY(conv_pack_w)(c, v[1], wp, ws);
            if (op == 1) {
                ENTRY(conv_packed_w)(c, v[0], wp, got[2], ws);
            } else {
                run_images(c, v[0], wp, got[2]);
            }
            bad |= test_overrun(wp, ENTRY(conv_packed_w_size)(c));
            free(wp);
        } else if (op == 3) {
            ENTRY(conv_dx)(c, v[2], v[1], got[0], ws);
        } else {
            ENTRY(conv_dw)(c, v[0], v[2], got[1], ws);
        }
        const int64_t at = test_differs(got[out], want[out], sizes[out]);
        bad |= test_overrun(ws, room);
        if (bad || at >= 0) {
            bad = 1;
            printf("FAILED %s\n", names[op]);
            print_spec(c);
            if (at >= 0) {
                printf("  at offset %" PRId64 ": %a, must be %a\n", at, (double)got[out][at],
                       (double)want[out][at]);
            } else {
                printf("  wrote behind its workspace\n");
            }
            printf("  repeat with the argument %" PRIu64 "\n", test_seed);
        }
        free(ws);
    }
    for (int i = 0; i < 3; i++) {
        free(v[i]);
        free(got[i]);
        free(want[i]);
    }
    return bad;
}

static int random_case(int64_t work)
{
    tpk_conv c = {.nd = (int)test_int(1, 3)};
    int64_t cost = 0;
    do {
        c.batch = test_int(0, 40) ? test_int(1, 4) : test_int(0, 40);
        c.groups = test_int(0, 2) ? 1 : test_int(1, 4);
        c.ic = c.groups * test_int(1, test_int(0, 3) ? 4 : 20);
        c.oc = c.groups * test_int(1, test_int(0, 3) ? 6 : 40);
        const int64_t depthwise = test_int(0, 7) ? 0 : test_int(1, 3); /* 2, 3: 3 or 5 taps */
        if (depthwise) {
            c.ic = c.groups;
            c.oc = c.groups * test_int(1, 3);
        }
        cost = c.batch * c.ic / c.groups * c.oc;
        for (int i = 0; i < c.nd; i++) {
            c.ker[i] = test_int(1, test_int(0, 2) ? 3 : 7);
            c.stride[i] = test_int(0, 1) ? 1 : test_int(1, 4);
            c.dil[i] = test_int(0, 2) ? 1 : test_int(1, 3);
            c.pad[i] = test_int(0, 1) ? 0 : test_int(0, 5);
            if (depthwise > 1) {
                c.ker[i] = 2 * depthwise - 1;
                c.stride[i] = i > 0 ? c.stride[0] : test_int(1, 2);
                c.dil[i] = 1;
            }
            const int64_t high = test_int(0, 1) ? c.pad[i] : test_int(0, 3);
            const int64_t span = (c.ker[i] - 1) * c.dil[i] + 1;
            c.in[i] = test_int(1, c.nd == 1 ? 200 : c.nd == 2 ? 40 : 12);
            const int64_t room = c.in[i] + c.pad[i] + high - span;
            c.out[i] = room < 0 ? 0 : room / c.stride[i] + 1;
            cost *= c.ker[i] * (c.out[i] + c.in[i]);
        }
    } while (cost > work);
    const int64_t sizes[3] = {lay_out(c.nd, c.batch, c.ic, c.in, c.xs),
                              lay_out(c.nd, c.oc, c.ic / c.groups, c.ker, c.ws),
                              lay_out(c.nd, c.batch, c.oc, c.out, c.ys)};
    return run_case(&c, sizes, test_int(0, 3) ? TEST_PLAIN : TEST_WILD);
}

/* Small images, of which most taps lie outside. */
static int apart_case(int64_t work)
{
    tpk_conv c = {.nd = (int)test_int(1, 3)};
    double cost = 0;
    do {
        c.batch = test_int(1, 3);
        c.groups = test_int(0, 2) ? 1 : test_int(2, 3);
        c.ic = c.groups * test_int(16, test_int(0, 3) ? 40 : 150);
        c.oc = c.groups * test_int(1, 70);
        cost = (double)(c.batch * c.ic / c.groups * c.oc);
        for (int i = 0; i < c.nd; i++) {
            c.ker[i] = test_int(1, 4);
            c.stride[i] = test_int(1, 3);
            c.dil[i] = test_int(1, 9);
            c.pad[i] = test_int(0, 12);
            c.in[i] = test_int(1, 9);
            const int64_t high = test_int(0, 1) ? c.pad[i] : test_int(0, 12);
            const int64_t room = c.in[i] + c.pad[i] + high - (c.ker[i] - 1) * c.dil[i] - 1;
            c.out[i] = room < 0 ? 0 : room / c.stride[i] + 1;
            cost *= (double)(c.ker[i] * (c.out[i] + c.in[i]));
        }
    } while (cost > (double)work || tpk_conv_taps(&c) != TPK_TAPS_APART);
    const int64_t sizes[3] = {lay_out(c.nd, c.batch, c.ic, c.in, c.xs),
                              lay_out(c.nd, c.oc, c.ic / c.groups, c.ker, c.ws),
                              lay_out(c.nd, c.batch, c.oc, c.out, c.ys)};
    return run_case(&c, sizes, test_int(0, 3) ? TEST_PLAIN : TEST_WILD);
}

#if TPK_BITS == 32
/* Windows that do not overlap: each element of y is a block of x, of which the first may be cut. */
static int blocks_case(int64_t work)
{
    tpk_conv c = {.nd = (int)test_int(1, 3)}, d;
    int64_t cost = 0, sizes[3];
    do {
        c.batch = test_int(1, 3);
        c.groups = test_int(0, 2) ? 1 : test_int(2, 3);
        c.ic = c.groups * test_int(1, 40);
        c.oc = c.groups * test_int(8, test_int(0, 3) ? 40 : 300);
        cost = c.batch * c.ic / c.groups * c.oc;
        for (int i = 0; i < c.nd; i++) {
            c.ker[i] = c.stride[i] = test_int(1, 4);
            c.dil[i] = 1;
            c.out[i] = test_int(1, c.nd == 1 ? 200 : c.nd == 2 ? 40 : 12);
            const int64_t all = c.out[i] * c.stride[i];
            c.pad[i] = i == c.nd - 1 || test_int(0, 1) ? 0 : test_int(0, all - 1);
            c.in[i] = i == c.nd - 1 ? all : test_int(1, all - c.pad[i]);
            cost *= c.ker[i] * c.out[i];
        }
        sizes[0] = lay_out(c.nd, c.batch, c.ic, c.in, c.xs);
        sizes[1] = lay_out(c.nd, c.oc, c.ic / c.groups, c.ker, c.ws);
        sizes[2] = lay_out(c.nd, c.batch, c.oc, c.out, c.ys);
        d = tpk_conv_3d(&c);
    } while (cost > work || !tpk_conv_has_blocks(&d));
    return run_case(&c, sizes, test_int(0, 3) ? TEST_PLAIN : TEST_WILD);
}
#endif

static int fixed_case(int64_t batch, int64_t groups, int64_t ic, int64_t oc, int64_t in,
                      int64_t ker, int64_t stride, int64_t pad)
{
    const int64_t out = (in + 2 * pad - ker) / stride + 1;
    tpk_conv c = {.nd = 2, .batch = batch, .groups = groups, .ic = ic, .oc = oc};
    for (int i = 0; i < 2; i++) {
        c.in[i] = in;
        c.out[i] = out;
        c.ker[i] = ker;
        c.stride[i] = stride;
        c.dil[i] = 1;
        c.pad[i] = pad;
    }
    const int64_t xs[] = {ic * in * in, in * in, in, 1};
    const int64_t ws[] = {ic / groups * ker * ker, ker * ker, ker, 1};
    const int64_t ys[] = {oc * out * out, out * out, out, 1};
    memcpy(c.xs, xs, sizeof xs);
    memcpy(c.ws, ws, sizeof ws);
    memcpy(c.ys, ys, sizeof ys);
    const int64_t sizes[3] = {batch * c.xs[0], oc * c.ws[0], batch * c.ys[0]};
    return run_case(&c, sizes, TEST_PLAIN);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv, 20240612);
    const int rounds = argc > 2 ? atoi(argv[2]) : 400;
    const int small = TPK_VBYTES == 16;
    int bad = fixed_case(small ? 2 : 6, 1, 1, 6, 28, 5, 1, 2);     /* LeNet */
    bad = bad || fixed_case(small ? 2 : 8, 1, 6, 16, 14, 5, 1, 0); /* LeNet */
    bad = bad || fixed_case(1, 1, small ? 8 : 40, small ? 8 : 72, 14, 3, 1, 1);
    bad = bad || fixed_case(1, 1, 460, 3, 7, 3, 1, 1); /* many chains, direct */
    bad = bad || fixed_case(1, 1, 460, small ? 3 : 30, 7, 3, 1, 1);
    bad = bad || fixed_case(3, 1, 4, small ? 6 : 20, 14, 3, 1, 1); /* images end in a chain */
    bad = bad || fixed_case(5, 1, 3, 12, 9, 3, 1, 1);
    bad = bad || fixed_case(1, 4, 4, 4, small ? 12 : 33, 9, 1, 4); /* depthwise, many taps */
    bad = bad || fixed_case(1, 2, 2, 4, small ? 12 : 40, 17, 2, 8);
    bad = bad || fixed_case(1, 8, 8, 8, 33, 3, 1, 1); /* one channel per group */
    bad = bad || fixed_case(4, 1, 1, 32, 10, 3, 1, 1);
    bad = bad || fixed_case(2, 1, 37, 36, 7, 3, 1, 1); /* one image alone goes another way */
    bad = bad || fixed_case(1, 1, small ? 9 : 70, small ? 9 : 68, 7, 3, 1, 1); /* odd runs */
    bad = bad || fixed_case(3, 1, 30, small ? 9 : 65, 5, 1, 1, 0);
    bad = bad || fixed_case(2, 5, 5, 10, 21, 3, 2, 1);
    bad = bad || fixed_case(1, 3, 3, 3, 37, 5, 1, 2);
    bad = bad || fixed_case(1, 1, 3, 8, 41, 7, 2, 3);
    bad = bad || fixed_case(2, 1, 8, 20, 15, 1, 2, 0); /* positions that nothing reaches */
    bad = bad || fixed_case(2, 1, small ? 8 : 33, small ? 8 : 70, 9, 1, 1, 0); /* one tap */
    bad = bad || fixed_case(1, 1, small ? 8 : 33, small ? 8 : 50, 33, 1, 1, 0);
    bad = bad || fixed_case(2, 1, 12, small ? 8 : 30, 19, 1, 1, 0); /* a plane is one row */
    bad = bad || fixed_case(1, 1, small ? 8 : 70, small ? 8 : 40, 23, 1, 2, 0);
    bad = bad || fixed_case(1, 1, 5, small ? 3 : 13, 14, 5, 1, 0); /* one vector of channels */
    bad = bad || fixed_case(1, 1, 460, small ? 2 : 12, 7, 3, 1, 1);
    for (int i = 0; i < rounds && !bad; i++) {
        bad = random_case(small ? 150000 : 2000000);
        bad = bad || (i % 4 == 0 && apart_case(small ? 150000 : 2000000));
#if TPK_BITS == 32
        bad = bad || (i % 4 == 1 && blocks_case(small ? 150000 : 2000000));
#endif
    }
    if (!bad) {
        printf("passed\n");
    }
    return bad;
}
