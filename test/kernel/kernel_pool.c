/* pooling.h against plain loops over its windows, bit by bit: random sizes, windows, padding,
 * layouts with gaps, odd values; windows too wide for a vector's buffer. */
#include "kernel/abi/view.h"
#include "kernel/text/elem.h"
#include "kernel_test.h"

#if TPK_BITS == 32
#define S f32
#else
#define S f64
#endif
#define T TPK_CAT(tpk_, S)
#define FN(name) TPK_CAT(tpk_##name##_, S)
#pragma push_macro("TPK_BITS")
#undef TPK_BITS
#include "kernel/text/pooling.h"
#pragma pop_macro("TPK_BITS")

typedef int64_t (*pool_fn)(const tpk_view *in, const tpk_view *out, const int64_t *attr);

enum { MAX, INDEX, MEAN, MEAN_DX, MAX_DX, N_OPS };
static const struct {
    const char *name;
    pool_fn run;
} ops[N_OPS] = {
    {"max_pool",       FN(max_pool)      },
    {"max_pool_index", FN(max_pool_index)},
    {"avg_pool",       FN(avg_pool)      },
    {"avg_pool_dx",    FN(avg_pool_dx)   },
    {"max_pool_dx",    FN(max_pool_dx)   }
};

/* Three spatial axes; those before `first` are of size 1 and not told. */
typedef struct {
    int64_t first, n, c, in[3], out[3], ker[3], stride[3], dil[3], pad[3];
    int count_pad;
} pool_case;

static int64_t plane_of(const int64_t *size)
{
    return size[0] * size[1] * size[2];
}

/* [n, c, size...]: dense, or with gaps between rows, or between elements too. */
static int64_t lay_out(const pool_case *q, const int64_t *size, int how, tpk_view *v)
{
    int64_t n = how == 2 ? 3 : 1;
    v->rank = 5 - q->first;
    for (int64_t i = v->rank - 1; i >= 0; i--) {
        v->n[i] = i == 0 ? q->n : i == 1 ? q->c : size[i - 2 + q->first];
        v->s[i] = n;
        n = n * v->n[i] + (how ? test_int(0, 5) : 0);
    }
    return n;
}

/* Element (plane, place) of a view. */
static T *element(const pool_case *q, const tpk_view *v, const int64_t *size, int64_t plane,
                  int64_t place)
{
    const int64_t at[3] = {place / size[2] / size[1], place / size[2] % size[1],
                           place % size[2]};
    T *p = (T *)v->p + plane / q->c * v->s[0] + plane % q->c * v->s[1];
    for (int64_t i = q->first; i < 3; i++) {
        p += at[i] * v->s[i + 2 - q->first];
    }
    return p;
}

/* The place in x of tap (d, h, w) of window o; -1: in the padding. */
static int64_t place_of(const pool_case *q, int64_t o, const int64_t *tap)
{
    const int64_t at[3] = {o / q->out[2] / q->out[1], o / q->out[2] % q->out[1], o % q->out[2]};
    int64_t place = 0;
    for (int i = 0; i < 3; i++) {
        const int64_t z = at[i] * q->stride[i] - q->pad[i] + tap[i] * q->dil[i];
        if (z < 0 || z >= q->in[i]) {
            return -1;
        }
        place = place * q->in[i] + z;
    }
    return place;
}

/* What window o of a plane gives. x: the elements of the plane. */
static void look(const pool_case *q, const T *x, int64_t o, T *max, T *mean, int64_t *index,
                 int64_t *taps)
{
    T first = 0;
    *max = (T)-__builtin_inff();
    *mean = 0;
    *index = -1;
    *taps = 0;
    int64_t t[3];
    for (t[2] = 0; t[2] < q->ker[2]; t[2]++) {
        T column = 0;
        for (t[0] = 0; t[0] < q->ker[0]; t[0]++) {
            for (t[1] = 0; t[1] < q->ker[1]; t[1]++) {
                const int64_t p = place_of(q, o, t);
                if (p < 0) {
                    continue;
                }
                const int more = x[p] > first || (x[p] != x[p] && first == first);
                const int same = x[p] == first || (x[p] != x[p] && first != first);
                if (*index < 0 || more || (same && p < *index)) {
                    first = x[p];
                    *index = p;
                }
                *max = FN(max)(*max, x[p]);
                column += x[p];
                ++*taps;
            }
        }
        *mean += column;
    }
    *taps = q->count_pad ? plane_of(q->ker) : *taps;
    *mean /= (T)*taps;
}

/* All of a plane by the definition; y and dy have a value per window. */
static void expect(const pool_case *q, int op, const T *x, const T *dy, T *y, int64_t *places)
{
    for (int64_t i = 0; op >= MEAN_DX && i < plane_of(q->in); i++) {
        y[i] = 0;
    }
    for (int64_t o = 0; o < plane_of(q->out); o++) {
        T max, mean;
        int64_t index, taps, t[3];
        look(q, x, o, &max, &mean, &index, &taps);
        if (op == MAX || op == MEAN) {
            y[o] = op == MAX ? max : mean;
        } else if (op == INDEX) {
            places[o] = index < 0 ? 0 : index;
        } else if (op == MAX_DX && index >= 0) {
            y[index] += dy[o];
        }
        for (t[0] = 0; op == MEAN_DX && t[0] < q->ker[0]; t[0]++) {
            for (t[1] = 0; t[1] < q->ker[1]; t[1]++) {
                for (t[2] = 0; t[2] < q->ker[2]; t[2]++) {
                    const int64_t p = place_of(q, o, t);
                    if (p >= 0) {
                        y[p] += dy[o] / (T)taps;
                    }
                }
            }
        }
    }
}

static int run_op(const pool_case *q, int op, const tpk_view *x, const tpk_view *dy,
                  const int64_t *attr)
{
    const int64_t planes = q->n * q->c, in = plane_of(q->in), out = plane_of(q->out);
    const int64_t each = op >= MEAN_DX ? in : out;
    const size_t bytes = (size_t)(planes * each) * 8; /* of places or of elements */
    tpk_view y = {.p = test_workspace(bytes)};
    lay_out(q, op >= MEAN_DX ? q->in : q->out, 0, &y);
    T *const v = test_room((size_t)in * sizeof(T)), *const g = test_room((size_t)out * 8);
    T *const want = test_room((size_t)each * sizeof(T));
    int64_t *const places = test_room((size_t)out * 8), bad = -1, number = 0;
    const tpk_view operands[2] = {op == MEAN_DX ? *dy : *x, *dy};
    ops[op].run(operands, &y, attr);
    for (int64_t c = 0; c < planes && bad < 0; c++) {
        for (int64_t i = 0; i < in; i++) {
            v[i] = *element(q, x, q->in, c, i);
        }
        for (int64_t i = 0; i < out; i++) {
            g[i] = *element(q, dy, q->out, c, i);
        }
        expect(q, op, v, g, want, places);
        number = c;
        if (op != INDEX) {
            bad = test_differs((const T *)y.p + c * each, want, each);
        }
        for (int64_t i = 0; op == INDEX && i < each && bad < 0; i++) {
            bad = ((const int64_t *)y.p)[c * each + i] == places[i] ? -1 : i;
        }
    }
    const int over = test_overrun(y.p, bytes);
    if (bad >= 0 || over) {
        printf("FAILED %s\n  planes %" PRId64 " x %" PRId64 " count_pad %d\n", ops[op].name,
               q->n, q->c, q->count_pad);
        for (int64_t i = q->first; i < 3; i++) {
            printf("  in %" PRId64 " out %" PRId64 " ker %" PRId64 " stride %" PRId64
                   " dil %" PRId64 " pad %" PRId64 "\n",
                   q->in[i], q->out[i], q->ker[i], q->stride[i], q->dil[i], q->pad[i]);
        }
        printf("  x %s, plane %" PRId64 ", element %" PRId64 "%s\n",
               x->s[x->rank - 1] == 1 ? "in rows" : "with gaps", number, bad,
               over ? ", wrote behind its result" : "");
        if (bad >= 0 && op != INDEX) {
            printf("  %a, must be %a\n", (double)((T *)y.p)[number * each + bad],
                   (double)want[bad]);
        }
        printf("  repeat with the argument %" PRIu64 "\n", test_seed);
    }
    free(y.p);
    free(v);
    free(g);
    free(want);
    free(places);
    return bad >= 0 || over;
}

static int run_case(const pool_case *q)
{
    int64_t attr[46] = {0};
    for (int64_t i = q->first; i < 3; i++) {
        const int64_t j = i - q->first;
        attr[1 + j] = q->ker[i];
        attr[10 + j] = q->stride[i];
        attr[19 + j] = q->pad[i];
        attr[37 + j] = q->dil[i];
    }
    attr[45] = q->count_pad;
    tpk_view x, dy;
    const int64_t nx = lay_out(q, q->in, (int)test_int(0, 2), &x);
    const int64_t ny = lay_out(q, q->out, (int)test_int(0, 2), &dy);
    T *const vx = test_room((size_t)nx * sizeof(T)), *const vy = test_room((size_t)ny * 8);
    const int kind = test_int(0, 1) ? TEST_PLAIN : TEST_WILD;
    test_fill(vx, nx, kind);
    test_fill(vy, ny, kind);
    for (int64_t i = 0; test_int(0, 2) == 0 && i < nx; i++) { /* equal ones */
        vx[i] = vx[i] > 0 ? 0 : vx[i] < (T)-0.5 ? -1 : (T)-0.0;
    }
    x.p = vx;
    dy.p = vy;
    int bad = 0;
    for (int op = 0; op < N_OPS && !bad; op++) {
        bad = run_op(q, op, &x, &dy, attr);
    }
    free(vx);
    free(vy);
    return bad;
}

static int random_case(void)
{
    pool_case q = {.first = test_int(0, 2), .n = test_int(1, 2), .c = test_int(1, 3)};
    q.count_pad = (int)test_int(0, 1);
    const int quads = test_int(0, 3) == 0, wide = q.first == 2 && test_int(0, 5) == 0;
    for (int i = 0; i < 3; i++) {
        const int told = i >= q.first;
        q.ker[i] = !told ? 1 : quads ? 2 : test_int(1, wide ? 900 : 4);
        q.stride[i] = !told ? 1 : quads ? 2 : test_int(1, 4);
        q.dil[i] = !told || quads ? 1 : test_int(1, test_int(0, 2) ? 1 : 3);
        q.pad[i] = !told || quads ? 0 : test_int(0, tpk_i_min(3, (q.ker[i] - 1) * q.dil[i]));
        const int64_t reach = (q.ker[i] - 1) * q.dil[i] + 1;
        const int64_t least = reach > q.pad[i] ? reach - q.pad[i] : 1;
        q.in[i] = !told ? 1 : least + test_int(0, i == 2 ? (test_int(0, 4) ? 70 : 900) : 9);
        const int64_t high = told && !quads ? test_int(0, tpk_i_min(2, reach - 1)) : 0;
        q.out[i] = (q.in[i] + q.pad[i] + high - reach) / q.stride[i] + 1;
    }
    return run_case(&q);
}

int main(int argc, char **argv)
{
    test_begin(argc, argv, 20261122);
    const int rounds = argc > 2 ? atoi(argv[2]) : 400;
    int bad = 0;
    for (int i = 0; i < rounds && !bad; i++) {
        bad = random_case();
    }
    if (!bad) {
        printf("passed\n");
    }
    return bad;
}
