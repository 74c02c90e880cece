/* Symbolic sizes: normal forms, values, texts, misuse. */
#include "common/unit.h"
#include "core/dim.h"

static const char *text_of(tp_ctx *tp, const tpi_dims *d, int64_t dim)
{
    static char text[4][20000];
    static int next;
    next = (next + 1) % 4;
    tpi_str s = TPI_STR(&tp->mem);
    tpi_dim_print(d, dim, &s);
    assert_false(s.failed);
    assert_true(s.len < sizeof text[0]);
    memcpy(text[next], s.text, s.len + 1);
    tpi_str_free(&s);
    return text[next];
}

static int64_t parse(tpi_dims *d, const char *text)
{
    const char *end;
    const int64_t dim = tpi_dim_parse(d, text, text + strlen(text), &end);
    return dim != TPI_NO_DIM && *end ? TPI_NO_DIM : dim;
}

static void normal_forms(void **state)
{
    static const char *const cases[][2] = {
        {"7",                       "7"                           },
        {"b+a",                     "a+b"                         },
        {"a+a",                     "2*a"                         },
        {"a-a",                     "0"                           },
        {"2*a-a+1",                 "a+1"                         },
        {"3+a*2-3",                 "2*a"                         },
        {"-3+n",                    "n-3"                         },
        {"3-n",                     "-n+3"                        },
        {"(a+1)*(a-1)",             "a*a-1"                       },
        {"(a+b)*(a+b)",             "a*a+2*a*b+b*b"               },
        {"b*3*a",                   "3*a*b"                       },
        {"0*n",                     "0"                           },
        {"n/1",                     "n"                           },
        {"n/2",                     "n/2"                         },
        {"4*n/2",                   "2*n"                         },
        {"(4*n+6)/2",               "2*n+3"                       },
        {"(2*n+1)/2",               "n"                           },
        {"(2*n+1)/4",               "n/2"                         },
        {"(n-3)/2",                 "(n+1)/2-2"                   },
        {"(n+5)/2",                 "(n+1)/2+2"                   },
        {"(n-3+2)/2+1",             "(n+1)/2"                     },
        {"((n+1)/2+1)/2",           "(n+3)/4"                     },
        {"(n/2)/3",                 "n/6"                         },
        {"2*(n/2)",                 "2*(n/2)"                     },
        {"n*m/n",                   "m"                           },
        {"(n*m+n)/n",               "m+1"                         },
        {"(n*m+k)/n",               "m+k/n"                       },
        {"(n*m-1)/n",               "(m*n-1)/n"                   },
        {"(n+1)*(k+2)/(n+1)",       "k+2"                         },
        {"(n*n-1)/(n+1)",           "n-1"                         },
        {"batch*seq*512/(batch*8)", "64*seq"                      },
        {"n/(m+1)",                 "n/(m+1)"                     },
        {"0/n",                     "0"                           },
        {"1/n",                     "1/n"                         },
        {"(a/2)*(b/3)",             "(a/2)*(b/3)"                 },
        {"b/2+a/2",                 "a/2+b/2"                     },
        {"n.x_1+A9",                "A9+n.x_1"                    },
        {"min(3,5)",                "3"                           },
        {"min(5,n)",                "min(n,5)"                    },
        {"min(n,n+1)",              "n"                           },
        {"min(2*n,n)",              "n"                           },
        {"min(n,0)",                "0"                           },
        {"min(min(n,7),5)",         "min(n,5)"                    },
        {"min(5,min(7,n))",         "min(n,5)"                    },
        {"n-min(n,5)+min(n,5)",     "n"                           },
        {"2*min(m,n)/2",            "min(m,n)"                    },
        {"min(n,m)-min(m,n)",       "0"                           },
        {"min(n,5)/3",              "(min(n,5))/3"                },
        {"(min(n,5)+3)*min(2,m)",   "min(m,2)*min(n,5)+3*min(m,2)"},
    };
    tp_ctx *tp = *state;
    tpi_dims *d = tpi_dims_new(tp);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const int64_t dim = parse(d, cases[i][0]);
        assert_int_not_equal(dim, TPI_NO_DIM);
        assert_string_equal(text_of(tp, d, dim), cases[i][1]);
        assert_int_equal(parse(d, cases[i][1]), dim);
    }
    tpi_dims_free(d);
}

static void no_sizes(void **state)
{
    static const char *const cases[] = {
        "",
        "+",
        "n+",
        "n*",
        "(n",
        "n)",
        "3-5",
        "n-n-1",
        "-1",
        "-n*",
        "n/0",
        "n/(m-m)",
        "1.5",
        "n n",
        "$",
        "9223372036854775808",
        "9223372036854775807+1",
        "n*9223372036854775807*2",
        "4611686018427387904*n+4611686018427387904*n",
        "--n",
        "n/-1",
        "9999999999999999999999",
        "min(n",
        "min(n)",
        "min(n,",
        "min(n,m",
        "min(n,m,1)",
        "min(n,-1)",
    };
    tp_ctx *tp = *state;
    tpi_dims *d = tpi_dims_new(tp);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (parse(d, cases[i]) != TPI_NO_DIM)
            fail_msg("\"%s\" is taken for a size", cases[i]);
    }
    assert_int_equal(parse(NULL, "2*(3+4)/5"), 2);
    assert_int_equal(parse(NULL, "n"), TPI_NO_DIM);

    char deep[400], many[2000] = "1", high[] = "n*n*n*n*n*n*n*n*n*n*n*n*n*n*n*n*n*n";
    memset(deep, '(', sizeof deep);
    assert_int_equal(tpi_dim_parse(d, deep, deep + sizeof deep, NULL), TPI_NO_DIM);
    for (int i = 0; i < 100; i++)
        snprintf(many + strlen(many), 16, "+s%d", i);
    assert_int_equal(parse(d, many), TPI_NO_DIM); /* more terms than an expression has */
    assert_int_equal(parse(d, high), TPI_NO_DIM);

    assert_int_equal(tpi_dim_symbol(d, NULL), TPI_NO_DIM);
    assert_int_equal(tpi_dim_symbol(d, ""), TPI_NO_DIM);
    assert_int_equal(tpi_dim_symbol(d, "a b"), TPI_NO_DIM);
    assert_int_equal(tpi_dim_symbol(d, "1a"), TPI_NO_DIM);
    assert_int_equal(tpi_dim_symbol(NULL, "a"), TPI_NO_DIM);
    /* -2^63 is no coefficient: it could not be negated. */
    const int64_t large = tpi_dim_mul(d, tpi_dim_symbol(d, "n"), INT64_C(1) << 62);
    const int64_t less = tpi_dim_sub(d, tpi_dim_symbol(d, "m"), large);
    assert_int_not_equal(less, TPI_NO_DIM);
    assert_int_equal(tpi_dim_sub(d, less, large), TPI_NO_DIM);
    tpi_dims_free(d);
    tpi_dims_free(NULL);
}

static void misuse(void **state)
{
    tp_ctx *tp = *state;
    tpi_dims *d = tpi_dims_new(tp), *other = tpi_dims_new(tp);
    const int64_t n = tpi_dim_symbol(d, "n"), m = tpi_dim_symbol(d, "m");
    assert_int_equal(tpi_dim_symbol(d, "n"), n);
    assert_true(tpi_dim_is_symbolic(n) && tpi_dim_is_symbolic(m) && n != m);
    assert_false(tpi_dim_is_symbolic(-1) || tpi_dim_is_symbolic(TPI_NO_DIM));

    const uint64_t un = (uint64_t)n, um = (uint64_t)m, far = 1u << 24; /* all of it wraps */
    const uint64_t wrong[] = {un + 1,  un - 1,       un + um,  un - um,
                              2 * un,  3 * un,       un << 1,  un * un,
                              un * um, (uint64_t)-1, 0 - un,   2 * un - um,
                              un >> 1, un + far,     un - far, (uint64_t)(n / 2)};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        const int64_t dim = (int64_t)wrong[i];
        if (dim < 0 && tpi_dim_is_size(d, dim))
            fail_msg("wrong[%zu] passes for a size", i);
        if (dim < 0)
            assert_int_equal(tpi_dim_add(d, dim, 1), TPI_NO_DIM);
    }
    assert_int_equal(tpi_dim_add(other, n, 1), TPI_NO_DIM);
    assert_int_equal(tpi_dim_add(NULL, n, 1), TPI_NO_DIM);
    assert_int_equal(tpi_dim_mul(d, TPI_NO_DIM, 0), TPI_NO_DIM);
    assert_int_equal(tpi_dim_div(d, TPI_NO_DIM, 1), TPI_NO_DIM);
    assert_int_equal(tpi_dim_sub(d, 1, TPI_NO_DIM), TPI_NO_DIM);
    assert_int_equal(tpi_dim_eval(other, n, &(int64_t){3}), TPI_NO_DIM);

    int i = -1;
    assert_true(tpi_dim_as_symbol(d, m, &i) && i == 1);
    assert_false(tpi_dim_as_symbol(d, tpi_dim_add(d, m, 1), &i));
    assert_false(tpi_dim_as_symbol(d, tpi_dim_div(d, m, 2), &i));
    assert_false(tpi_dim_as_symbol(d, 5, &i));
    assert_int_equal(tpi_dim_factor(d, m), 1);
    assert_int_equal(tpi_dim_factor(d, tpi_dim_mul(d, tpi_dim_mul(d, m, m), 12)), 12);
    assert_int_equal(tpi_dim_factor(d, tpi_dim_add(d, m, 1)), 0);
    assert_int_equal(tpi_dim_factor(d, 12), 0);
    assert_int_equal(tpi_dim_n_symbols(d), 2);
    assert_string_equal(tpi_dim_symbol_name(d, 1), "m");
    tpi_dims_free(d);
    tpi_dims_free(other);
}

static void values(void **state)
{
    tp_ctx *tp = *state;
    tpi_dims *d = tpi_dims_new(tp);
    const int64_t big = INT64_MAX / 2;
    const int64_t half = parse(d, "n/2"), less = parse(d, "n-3"), square = parse(d, "n*n");
    const int64_t by = parse(d, "6/n");
    assert_int_equal(tpi_dim_eval(d, 12, NULL), 12);
    assert_int_equal(tpi_dim_eval(d, half, &(int64_t){7}), 3);
    assert_int_equal(tpi_dim_eval(d, less, &(int64_t){3}), 0);
    assert_int_equal(tpi_dim_eval(d, less, &(int64_t){2}), TPI_NO_DIM);
    assert_int_equal(tpi_dim_eval(d, square, &big), TPI_NO_DIM);
    assert_int_equal(tpi_dim_eval(d, by, &(int64_t){0}), TPI_NO_DIM);
    assert_int_equal(tpi_dim_eval(d, by, &(int64_t){4}), 1);
    assert_int_equal(tpi_dim_eval(d, half, &(int64_t){-1}), TPI_NO_DIM);
    tpi_dims_free(d);
}

/* ---- random expressions: the normal form has the value of the tree it was made from ---------- */

enum { N_SYMBOLS = 3, N_VALUES = 12 };

typedef struct tree {
    int64_t dim;
    __int128 value[N_VALUES]; /* NONE: no value */
} tree;
static const __int128 none = ((__int128)1) << 100;

static __int128 floor_div(__int128 a, __int128 b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

static tree random_tree(tpi_dims *d, uint64_t *seed, int depth, int64_t symbols[][N_SYMBOLS])
{
    tree t;
    const uint64_t r = unit_random(seed) >> 33;
    if (depth == 0 || r % 8 == 0) {
        const int s = (int)(r / 8 % (N_SYMBOLS + 2));
        const int64_t n = (int64_t)(unit_random(seed) >> 33) % 9;
        t.dim = s < N_SYMBOLS ? tpi_dim_symbol(d, (const char *[]){"a", "b", "c"}[s]) : n;
        for (int i = 0; i < N_VALUES; i++)
            t.value[i] = s < N_SYMBOLS ? symbols[i][s] : n;
        return t;
    }
    const int op = (int)(r / 8 % 6);
    tree x = random_tree(d, seed, depth - 1, symbols);
    tree y = random_tree(d, seed, op == 4 ? 0 : depth - 1, symbols);
    switch (op) {
    case 0:
    case 1:
        t.dim = tpi_dim_add(d, x.dim, y.dim);
        break;
    case 2:
        t.dim = tpi_dim_sub(d, x.dim, y.dim);
        break;
    case 3:
        t.dim = tpi_dim_mul(d, x.dim, y.dim);
        break;
    case 5:
        t.dim = tpi_dim_min(d, x.dim, y.dim);
        break;
    default:
        t.dim = tpi_dim_div(d, x.dim, y.dim);
        break;
    }
    for (int i = 0; i < N_VALUES; i++) {
        const __int128 a = x.value[i], b = y.value[i];
        t.value[i] = none;
        if (a == none || b == none || (op == 4 && b <= 0) || (op == 5 && (a < 0 || b < 0)))
            continue;
        t.value[i] = op < 2    ? a + b
                     : op == 2 ? a - b
                     : op == 3 ? a * b
                     : op == 4 ? floor_div(a, b)
                     : a < b   ? a
                               : b;
        if (t.value[i] > INT32_MAX || t.value[i] < INT32_MIN) /* far from where int64 ends */
            t.value[i] = none;
    }
    return t;
}

/* The text, in place, with a shorter word for another. */
static char *without(char *text, const char *word, const char *shorter)
{
    const size_t n = strlen(word), m = strlen(shorter);
    for (char *p = text; (p = strstr(p, word)) != NULL; p += m) {
        memcpy(p, shorter, m);
        memmove(p + m, p + n, strlen(p + n) + 1);
    }
    return text;
}

static void random_expressions(void **state)
{
    tp_ctx *tp = *state;
    uint64_t seed = 0x7a9;
    long compared = 0, sizes = 0;
    for (int round = 0; round < 3000; round++) {
        const uint64_t start = seed;
        tpi_dims *d = tpi_dims_new(tp), *again = tpi_dims_new(tp);
        const char *const names[] = {"c", "a", "b"}; /* other numbers than in d */
        const int64_t order[] = {2, 0, 1};
        for (int s = 0; s < N_SYMBOLS; s++) {
            tpi_dim_symbol(d, (const char *[]){"a", "b", "c"}[s]);
            tpi_dim_symbol(again, names[s]);
        }
        int64_t symbols[N_VALUES][N_SYMBOLS];
        for (int i = 0; i < N_VALUES; i++)
            for (int s = 0; s < N_SYMBOLS; s++)
                symbols[i][s] = (int64_t)(unit_random(&seed) >> 40) % 12;
        const tree t = random_tree(d, &seed, 4, symbols);
        if (t.dim != TPI_NO_DIM) {
            sizes++;
            const char *text = text_of(tp, d, t.dim);
            assert_int_equal(parse(d, text), t.dim);
            const int64_t imported = tpi_dim_import(again, d, t.dim);
            assert_string_equal(text_of(tp, again, imported), text);
            assert_int_equal(parse(again, text), imported);
            tpi_str c = TPI_STR(&tp->mem);
            tpi_dim_print_c(d, t.dim, "n", &c);
            tpi_dims *renamed = tpi_dims_new(tp);
            for (int s = 0; s < N_SYMBOLS; s++)
                tpi_dim_symbol(renamed, (const char *[]){"n0", "n1", "n2"}[s]);
            const int64_t from_c = parse(renamed, without(c.text, "TPK_LEAST", "min"));
            for (int i = 0; i < N_VALUES; i++) {
                if (t.value[i] == none)
                    continue;
                const int64_t got = tpi_dim_eval(d, t.dim, symbols[i]);
                const int64_t want = t.value[i] < 0 ? TPI_NO_DIM : (int64_t)t.value[i];
                /* A division by a symbol gives no value when its numerator is negative. */
                if (got != want &&
                    !(got == TPI_NO_DIM && strstr(text, "-") && strstr(text, "/")))
                    fail_msg("round %d (seed %#llx): %s at a=%d b=%d c=%d is %lld, not %lld",
                             round, (unsigned long long)start, text, (int)symbols[i][0],
                             (int)symbols[i][1], (int)symbols[i][2], (long long)got,
                             (long long)want);
                const int64_t other[] = {symbols[i][order[0]], symbols[i][order[1]],
                                         symbols[i][order[2]]};
                assert_int_equal(tpi_dim_eval(again, imported, other), got);
                assert_int_equal(tpi_dim_eval(renamed, from_c, symbols[i]), got);
                compared++;
            }
            tpi_str_free(&c);
            tpi_dims_free(renamed);
        }
        tpi_dims_free(d);
        tpi_dims_free(again);
    }
    print_message("%ld expressions, %ld values\n", sizes, compared);
    assert_true(compared > 10000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(normal_forms), CASE(no_sizes),           CASE(misuse),
        CASE(values),       CASE(random_expressions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
