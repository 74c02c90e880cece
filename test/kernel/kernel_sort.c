/* sort.h against the order that it states, of lines of every length around those at which it goes another way: all
 * places of a line, the first ones, some between; elements that are equal, odd or of few kinds, lines with gaps. */
#include "kernel/abi/view.h"
#include "kernel/text/elem.h"
#include "kernel_test.h"

#include <math.h>

#if TPK_BITS == 64
#define TPK_SORT_LEAD 6 /* as where the stack is small */
#endif

#define FN(name) TPK_CAT(tpk_##name##_, S)
#pragma push_macro("TPK_BITS")
#undef TPK_BITS
#define T tpk_u8
#define S u8
#include "kernel/text/sort.h"
#undef T
#undef S
#define T tpk_i64
#define S i64
#include "kernel/text/sort.h"
#undef T
#undef S
#pragma pop_macro("TPK_BITS")
#if TPK_BITS == 32
#define S f32
#else
#define S f64
#endif
#define T TPK_CAT(tpk_, S)
#pragma push_macro("TPK_BITS")
#undef TPK_BITS
#include "kernel/text/sort.h"
#pragma pop_macro("TPK_BITS")

enum { MOST = 9000, N_TYPES = 3 };

static const struct {
    const char *name;
    int64_t (*run)(const tpk_view *in, const tpk_view *out, const int64_t *attr);
    int64_t width;
} types[N_TYPES] = {
    {"u8",    tpk_argtopk_u8,  1        },
    {"i64",   tpk_argtopk_i64, 8        },
    {"float", FN(argtopk),     sizeof(T)}
};

/* What the definition compares: integers exactly, floats as they are. */
typedef struct {
    int64_t number, place;
    double value;
    int type, largest;
} item;

static int by_order(const void *a, const void *b)
{
    const item *p = a, *q = b;
    int up = (p->number > q->number) - (p->number < q->number);
    if (p->type == 2)
        up = p->value != p->value
                 ? q->value == q->value
                 : (q->value != q->value ? -1 : (p->value > q->value) - (p->value < q->value));
    return up ? (p->largest ? -up : up) : (p->place > q->place) - (p->place < q->place);
}

/* Elements of one of some kinds. */
static void fill(int type, int kind, void *x, int64_t n)
{
    const uint64_t mask = kind == 0 ? UINT64_MAX : kind == 1 ? 3 : kind == 2 ? 8191 : 0;
    T *const f = x;
    int64_t *const i64 = x;
    if (type == 2 && kind < 2)
        test_fill(f, n, kind ? TEST_WILD : TEST_PLAIN);
    for (int64_t i = 0; i < n; i++) {
        const uint64_t v = test_next() & mask;
        if (type == 0)
            ((uint8_t *)x)[i] = (uint8_t)v;
        else if (type == 1)
            i64[i] = kind == 4 ? i : kind == 5 ? INT64_MIN + (int64_t)(v >> 40) : (int64_t)v;
        else if (kind == 2)
            f[i] = (T)((double)v - 4096);
        else if (kind > 2)
            f[i] = kind == 3 ? (T)NAN
                             : (T)(1 + (double)(test_next() & 2047) * 1e-15) * (i % 7 ? 1 : -1);
    }
}

static int one_case(void)
{
    static uint64_t x[3 * MOST];
    static int64_t y[3 * MOST];
    static item items[MOST];
    const int type = (int)test_int(0, N_TYPES - 1), kind = (int)test_int(0, 5);
    const int64_t n = test_int(1, test_int(0, 3) ? 200 : test_int(0, 2) ? 2200 : MOST);
    const int64_t sx = test_int(1, 3), sy = test_int(1, 3), largest = test_int(0, 1);
    int64_t from = 0, to = n;
    if (test_int(0, 2)) {
        from = test_int(0, 1) ? test_int(0, n - 1) : 0;
        to = test_int(0, 1) ? test_int(from, n)
                            : from + test_int(0, n - from < 3 ? n - from : 3);
    }
    fill(type, kind, x, n * sx);
    const tpk_view in = {.p = x, .rank = 1, .n = {n}, .s = {sx}};
    const tpk_view out = {.p = y, .rank = 1, .n = {to - from}, .s = {sy}};
    types[type].run(&in, &out, (int64_t[]){0, to, largest, from});
    for (int64_t i = 0; i < n; i++) {
        const void *at = (const char *)x + i * sx * types[type].width;
        items[i] = (item){.place = i, .type = type, .largest = (int)largest};
        if (type == 2)
            items[i].value = (double)*(const T *)at;
        else
            items[i].number = type ? *(const int64_t *)at : *(const uint8_t *)at;
    }
    qsort(items, (size_t)n, sizeof *items, by_order);
    for (int64_t i = from; i < to; i++)
        if (y[(i - from) * sy] != items[i].place) {
            printf("%s, kind %d, %" PRId64 " elements, from %" PRId64 " to %" PRId64
                   "%s: %" PRId64 " is %" PRId64 ", not %" PRId64 "\n",
                   types[type].name, kind, n, from, to, largest ? ", largest" : "", i,
                   y[(i - from) * sy], items[i].place);
            return 1;
        }
    return 0;
}

int main(int argc, char **argv)
{
    test_begin(argc, argv, 1);
    const int rounds = 10 * (argc > 2 ? atoi(argv[2]) : 100);
    for (int i = 0; i < rounds; i++)
        if (one_case())
            return 1;
    return 0;
}
