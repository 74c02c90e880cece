/* Graphs as text: what is printed reads back as the same graph, and what is no graph is refused
 * where it is wrong. */
#include "ir/body.h"
#include "ir/notation.h"
#include "ir_sample.h"

#include <locale.h>
#include <math.h>

static char *text_of(const tp_graph *g)
{
    char *text = tp_graph_text(g);
    assert_non_null(text);
    return text;
}

/* parse(print(g)) prints the same, and is a graph by every rule. */
static tp_graph *round_trip(tp_ctx *tp, const tp_graph *g)
{
    char *text = text_of(g);
    tp_graph *h = tp_graph_parse(tp, text, strlen(text));
    if (!h)
        fail_msg("%s\nin\n%s", tp_error_message(tp), text);
    char *again = text_of(h);
    assert_string_equal(text, again);
    if (tp_graph_verify(h) != TP_OK)
        fail_msg("%s\nin\n%s", tp_error_message(tp), text);
    tp_free(tp, text);
    tp_free(tp, again);
    return h;
}

static void see(const tp_graph *g, bool *seen)
{
    for (int i = 0; i < g->n_nodes; i++) {
        tpi_body *bodies[2];
        seen[g->nodes[i]->op->code] = true;
        if (tpi_is_block(g->nodes[i]))
            for (int k = tpi_bodies_of(g->nodes[i], bodies) - 1; k >= 0; k--)
                see(bodies[k]->graph, seen);
    }
}

static void same_graph(const tp_graph *g, const tp_graph *h);

static void same_bodies(const tp_tensor *a, const tp_tensor *b)
{
    tpi_body *of_a[2], *of_b[2];
    const int n = tpi_bodies_of(a, of_a);
    assert_int_equal(n, tpi_bodies_of(b, of_b));
    for (int k = 0; k < n; k++) {
        const tpi_body *x = of_a[k], *y = of_b[k];
        assert_int_equal(x->at.line, y->at.line);
        assert_string_equal(x->at.file, y->at.file);
        assert_int_equal(x->n_params, y->n_params);
        assert_int_equal(x->n_outputs, y->n_outputs);
        for (int i = 0; i < x->n_params; i++)
            assert_int_equal(x->params[i]->index, y->params[i]->index);
        for (int i = 0; i < x->n_outputs; i++)
            assert_int_equal(x->outputs[i]->index, y->outputs[i]->index);
        assert_true(y->closed);
        same_graph(x->graph, y->graph);
    }
}

static void same_graph(const tp_graph *g, const tp_graph *h)
{
    assert_int_equal(g->n_nodes, h->n_nodes);
    for (int i = 0; i < g->n_nodes; i++) {
        const tp_tensor *a = g->nodes[i], *b = h->nodes[i];
        assert_ptr_equal(a->op, b->op);
        assert_int_equal(a->flags, b->flags);
        assert_int_equal(a->line, b->line);
        assert_string_equal(a->file, b->file);
        assert_ptr_not_equal(a->file, b->file);
        bool other = false; /* bodies, and handles of another table */
        size_t told = 0;    /* bytes that a text has: all but pointers to what is C's */
        for (const tpi_attr *k = a->op->attrs; k && k->name; k++) {
            other |=
                k->type == TPI_ATTR_DIM || k->type == TPI_ATTR_DIMS || k->type == TPI_ATTR_BODY;
            told = k->offset + (k->type == TPI_ATTR_LIST ? sizeof(tpi_list) : sizeof(int64_t));
        }
        if (a->op->attrs && !other)
            assert_memory_equal(a->attrs, b->attrs, told);
        if (tpi_is_block(a))
            same_bodies(a, b);
    }
}

static void every_op(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = sample_every_op(tp);
    bool seen[TPI_N_OPS] = {0};
    see(g, seen);
    for (int i = 0; i < TPI_N_OPS; i++)
        if (!seen[i])
            fail_msg("the sample has no %s: add it to ir_sample.h", tpi_ops[i]->name);
    if (tp_graph_verify(g) != TP_OK)
        fail_msg("%s", tp_error_message(tp));
    tp_graph *h = round_trip(tp, g);
    same_graph(g, h);
    tp_graph_free(h);
    tp_graph_free(g);
}

static void odd_things(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = sample_odd(tp);
    tp_graph *h = round_trip(tp, g);
    for (int i = 0; i < g->n_nodes; i++) {
        const tp_tensor *a = g->nodes[i], *b = h->nodes[i];
        if (a->name)
            assert_string_equal(a->name, b->name);
        if (a->file)
            assert_string_equal(a->file, b->file);
        assert_int_equal(!a->file, !b->file);
        if (a->op != &tpi_op_const || tpi_count(a->in[0]) > 16)
            continue;
        char x[16 * 8], y[16 * 8];
        tpi_copy_out(a->in[0], x);
        tpi_copy_out(b->in[0], y);
        assert_memory_equal(x, y, tpi_bytes(a->in[0]));
    }
    /* Memory that was shared is shared again, at the same places. */
    const tp_tensor *of[2] = {tpi_graph_by_name(g, "v", 1), tpi_graph_by_name(h, "v", 1)};
    const tp_tensor *part[2] = {tpi_graph_by_name(g, "part", 4),
                                tpi_graph_by_name(h, "part", 4)};
    for (int i = 0; i < 2; i++) {
        assert_non_null(of[i]);
        assert_non_null(part[i]);
        assert_ptr_equal(of[i]->in[0]->buf, part[i]->in[0]->buf);
        assert_int_equal(part[i]->in[0]->data - of[i]->in[0]->data, 5 * sizeof(float));
        assert_int_equal(part[i]->in[0]->stride[1], -2);
    }
    tp_graph_free(g);
    /* What was loaded lives by itself. */
    tp_graph *k = round_trip(tp, h);
    tp_graph_free(h);
    tp_graph_free(k);
}

static void a_text(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x =
        tp_placeholder_at("net.c", 3, g, "x", TP_F32, TP_DIMS(tp_symbol(g, "batch"), 2));
    const float values[] = {0.1f, 1e-10f, -0.0f, 16777216.0f};
    tp_tensor *w = tp_param(tp_tensor_new(tp, TP_F32, TP_DIMS(2, 2), values), "w");
    tp_tensor *c = tp_tensor_new(tp, TP_F32, TP_DIMS(2, 2), values);
    tp_tensor *y =
        tp_add_at("net.c", 5, tp_matmul_at("net.c", 4, x, w), tp_scalar(tp, TP_F32, 2));
    tp_name(tp_sum_at("net.c", 6, tp_matmul_at("net.c", 6, y, c), TP_DIMS(1), false), "sum");
    char *text = text_of(g);
    assert_string_equal(text, "tapir 1\n"
                              "symbols batch\n"
                              "@0 \"w\" = param : f32[2,2]\n"
                              "%0 \"x\" = placeholder : f32[batch,2] ; net.c:3\n"
                              "%1 \"w\" = variable @0 : f32[2,2] ; net.c:4\n"
                              "%2 = matmul %0, %1 : f32[batch,2] ; net.c:4\n"
                              "%3 = const 2 : f32[] ; net.c:5\n"
                              "%4 = add %2, %3 : f32[batch,2] ; net.c:5\n"
                              "%5 = const [0.1, 1e-10, -0, 16777216] : f32[2,2] ; net.c:6\n"
                              "%6 = matmul %4, %5 : f32[batch,2] ; net.c:6\n"
                              "%7 \"sum\" = sum %6 {axes=[1], keep=false} : f32[batch] ; "
                              "net.c:6\n");
    tp_free(tp, text);
}

static void a_tape(void **state)
{
    tp_ctx *tp = *state;
    const float values[20] = {1, 2, 3};
    tp_tensor *w = tp_param(tp_tensor_new(tp, TP_F32, TP_DIMS(20), values), "w");
    tp_tensor *two = tp_scalar(tp, TP_F32, 2);
    tp_tensor *big = tp_tensor_new(tp, TP_F32, TP_DIMS(20), values);
    tp_tensor *y = tp_mul_at("net.c", 2, tp_mul_at("net.c", 1, w, two), big);
    char *text = tp_tape_text(y);
    assert_non_null(text);
    char *without_places = calloc(strlen(text) + 1, 1), *to = without_places;
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        char *semicolon = strstr(line, " ; ");
        if (semicolon && !strstr(semicolon, "net.c"))
            *semicolon = 0;
        to += sprintf(to, "%s\n", line);
    }
    assert_string_equal(without_places, "tapir 1\n"
                                        "@0 \"w\" = param : f32[20]\n"
                                        "%0 \"w\" = variable @0 : f32[20]\n"
                                        "%1 = const 2 : f32[]\n"
                                        "%2 = const #0 : f32[20]\n"
                                        "%3 = mul %0, %1 : f32[20] ; net.c:1\n"
                                        "%4 = mul %3, %2 : f32[20] ; net.c:2\n");
    free(without_places);
    tp_free(tp, text);
    assert_null(tp_tape_text(NULL));
    assert_null(tp_graph_text(NULL));
}

/* ---- numbers --------------------------------------------------------------------------------- */

static uint64_t bits_of(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static void check_f64(tp_ctx *tp, double v)
{
    tpi_str s = TPI_STR(&tp->mem);
    tpi_put_f64(&s, v);
    double back = 0;
    const char *end = tpi_scan_f64(s.text, s.text + s.len, &back);
    if (end != s.text + s.len || bits_of(v) != bits_of(back))
        fail_msg("%a is written %s, which reads as %a", v, s.text, back);
    if (isfinite(v)) /* the C library reads it so too */
        assert_true(bits_of(v) == bits_of(strtod(s.text, NULL)));
    tpi_str_free(&s);
}

static void check_f32(tp_ctx *tp, uint32_t bits)
{
    tpi_str s = TPI_STR(&tp->mem);
    tpi_put_element(&s, TP_F32, &bits);
    uint32_t back = 0;
    const char *end = tpi_scan_element(s.text, s.text + s.len, TP_F32, &back);
    if (end != s.text + s.len || bits != back)
        fail_msg("%08x is written %s, which reads as %08x", bits, s.text, back);
    tpi_str_free(&s);
}

static void numbers(void **state)
{
    tp_ctx *tp = *state;
    const uint64_t start = 0x1234567;
    uint64_t seed = start;
    for (int i = 0; i < 20000; i++) {
        const uint64_t bits = unit_random(&seed);
        const uint32_t low = (uint32_t)bits;
        double d;
        memcpy(&d, &bits, sizeof d);
        check_f64(tp, d);
        check_f32(tp, low);
        check_f64(tp, (double)(int64_t)(bits >> (bits % 64)));
        check_f64(tp, ldexp(1, (int)(bits % 2100) - 1074));
        check_f64(tp, (double)(bits % 100000) / 1000);
    }
    const double some[] = {0,
                           -0.0,
                           1,
                           0.1,
                           1e15,
                           1e16,
                           1e17,
                           1e22,
                           1e23,
                           1e-5,
                           1e-6,
                           5e-324,
                           1.7976931348623157e308,
                           INFINITY,
                           -INFINITY,
                           123456.75,
                           0.000123,
                           99999.5,
                           9007199254740993.0};
    for (size_t i = 0; i < sizeof some / sizeof *some; i++)
        check_f64(tp, some[i]);
}

static void shortest_numbers(void **state)
{
    tp_ctx *tp = *state;
    const struct {
        double v;
        const char *text;
    } cases[] = {
        {0.1,     "0.1"               },
        {-2.5,    "-2.5"              },
        {100,     "100"               },
        {1e16,    "10000000000000000" },
        {1e17,    "1e17"              },
        {1.5e20,  "1.5e20"            },
        {1e-5,    "0.00001"           },
        {1.25e-6, "1.25e-6"           },
        {5e-324,  "5e-324"            },
        {-0.0,    "-0"                },
        {NAN,     "nan"               },
        {0.3,     "0.3"               },
        {1.0 / 3, "0.3333333333333333"}
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tpi_str s = TPI_STR(&tp->mem);
        tpi_put_f64(&s, cases[i].v);
        assert_string_equal(s.text, cases[i].text);
        tpi_str_free(&s);
    }
    const char *const none[] = {"",
                                "-",
                                ".5",
                                "1e",
                                "1e99999",
                                "1e400",
                                "nan(",
                                "nan()",
                                "e",
                                "nan(0)",
                                "1111111111111111111111111111111111111111"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        double v;
        const char *end = tpi_scan_f64(none[i], none[i] + strlen(none[i]), &v);
        if (end)
            fail_msg("\"%s\" was read as %g", none[i], v);
    }
}

static void other_locale(void **state)
{
    const char *const names[] = {"de_DE.UTF-8", "de_DE", "fr_FR.UTF-8"};
    const char *found = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !found; i++)
        found = setlocale(LC_ALL, names[i]);
    if (!found || localeconv()->decimal_point[0] == '.') {
        setlocale(LC_ALL, "C");
        print_message("skipped: no locale with a decimal comma is installed\n");
        skip();
    }
    tpi_str s = TPI_STR(&((tp_ctx *)*state)->mem);
    tpi_put_f64(&s, 1234.5625);
    double v = 0;
    const char *end = tpi_scan_f64(s.text, s.text + s.len, &v);
    setlocale(LC_ALL, "C");
    assert_string_equal(s.text, "1234.5625");
    assert_ptr_equal(end, s.text + s.len);
    assert_true(v == 1234.5625);
    tpi_str_free(&s);
}

/* ---- refusals -------------------------------------------------------------------------------- */

#define TOP "tapir 1\n"
#define X TOP "symbols n\n%0 \"x\" = placeholder : f32[n,3]\n"
static const struct {
    const char *text, *error;
} refused[] = {
    {"",                                                                                            "line 1, column 1: this is no text of a graph (\"tapir 1\" comes first)"},
    {"tapir 2\n",                                                                                   "line 1, column 7: this is no text of a graph (\"tapir 1\" comes first)"},
    {TOP "what",                                                                                    "line 2, column 1: a node's line starts with %"                         },
    {TOP "symbols a a\n",                                                                           "line 2, column 11: a symbol is malformed, or named twice"              },
    {TOP "symbols a 3\n",                                                                           "line 2, column 11: a symbol is malformed, or named twice"              },
    {TOP "%1 = group\n",                                                                            "line 2, column 3: the next of these lines is %0"                       },
    {TOP "%0 = group : bool[]\n",                                                                   "line 2, column 12: group takes operands, and has none"                 },
    {TOP "%0 \"x = placeholder : f32[]\n",                                                          "line 2, column 4: a quoted name is malformed"                          },
    {TOP "%0 \"\\q\" = placeholder : f32[]\n",                                                      "line 2, column 4: a quoted name is malformed"                          },
    {TOP "%0 \"\\x00\" = placeholder : f32[]\n",
     "line 2, column 4: a quoted name is malformed"                                                                                                                         },
    {TOP "%0 = placeholder : f32[]\n",                                                              "line 2, column 17: a placeholder needs a name"                         },
    {TOP "%0 \"\" = placeholder : f32[]\n",                                                         "line 2, column 20: a placeholder needs a name"                         },
    {TOP "%0 \"x\" = placeholder : f16[]\n",                                                        "line 2, column 24: no element type is called so"                       },
    {TOP "%0 \"x\" = placeholder : f32[n]\n",
     "line 2, column 28: a symbol is not in the line of symbols"                                                                                                            },
    {TOP "%0 \"x\" = placeholder : f32[-1]\n",                                                      "line 2, column 28: this is no size"                                    },
    {TOP "%0 \"x\" = placeholder : f32[9223372036854775808]\n",
     "line 2, column 28: this is no size"                                                                                                                                   },
    {TOP "%0 \"x\" = placeholder : f32[4294967296,4294967296]\n",
     "line 2, column 50: the sizes multiply beyond 2^63 bytes"                                                                                                              },
    {TOP "%0 \"x\" = placeholder : f32[1,1,1,1,1,1,1,1,1]\n",
     "line 2, column 44: more than 8 numbers in a list"                                                                                                                     },
    {TOP "%0 \"x\" = placeholder : f32[] ; :3\n",                                                   "line 2, column 32: a file name is missing"                             },
    {TOP "%0 \"x\" = placeholder : f32[] ; a.c:2147483648\n",
     "line 2, column 46: a line number is out of range"                                                                                                                     },
    {TOP "%0 \"x\" = placeholder : f32[] what\n",
     "line 2, column 30: the line should end here"                                                                                                                          },
    {X "%1 \"x\" = neg %0 : f32[n,3]\n",
     "line 4, column 7: the name is taken by a line before"                                                                                                                 },
    {X "%1 = negg %0 : f32[n,3]\n",                                                                 "line 4, column 6: no op is called so"                                  },
    {X "%1 = neg %1 : f32[n,3]\n",                                                                  "line 4, column 12: no node %1 comes before this line"                  },
    {X "%1 = neg %-1 : f32[n,3]\n",                                                                 "line 4, column 13: no node %-1 comes before this line"                 },
    {X "%1 = neg %0, %0 : f32[n,3]\n",                                                              "line 4, column 17: neg takes 1 operands, and has 2"                    },
    {X "%1 = neg %0 : f32[3,n]\n",
     "line 4, column 23: it is f32[3,n], its rule gives f32[n,3]"                                                                                                           },
    {X "%1 = neg %0 : f64[n,3]\n",
     "line 4, column 23: it is f64[n,3], its rule gives f32[n,3]"                                                                                                           },
    {X "%1 = sum %0 : f32[n]\n",                                                                    "line 4, column 13: attribute axes of sum is missing"                   },
    {X "%1 = sum %0 {keep=false, axes=[1]} : f32[n]\n",
     "line 4, column 14: attribute axes of sum is missing"                                                                                                                  },
    {X "%1 = sum %0 {axes=[1]} : f32[n]\n",
     "line 4, column 22: attribute keep of sum is missing"                                                                                                                  },
    {X "%1 = sum %0 {axes=[1], keep=2} : f32[n]\n",
     "line 4, column 29: true or false is missing"                                                                                                                          },
    {X "%1 = const 1 constant : f32[]\n",                                                           "line 4, column 30: the values do not fit the type"                     },
    {X "%1 = const 1 : f32[] constant\n",
     "line 4, column 30: only a computed node is marked constant"                                                                                                           },
    {X "%1 = const [1, 2] : f32[3]\n",                                                              "line 4, column 27: the values do not fit the type"                     },
    {X "%1 = const [1, 2] : f32[99]\n",
     "line 4, column 28: the type has more elements than there are values"                                                                                                  },
    {X "%1 = const",                                                                                "line 4, column 11: ':' is missing"                                     },
    {X "%1 = const ",                                                                               "line 4, column 12: ':' is missing"                                     },
    {X "%1 = const 256 : u8[]\n",                                                                   "line 4, column 22: the values do not fit the type"                     },
    {X "%1 = const [1] : f32[n]\n",                                                                 "line 4, column 24: a constant has sizes that are numbers"              },
    {X "%1 = const #1 : f32[3]\n",                                                                  "line 4, column 14: the next constant that is stored is #0"             },
    {X "%1 = const #0 : f32[300000000]\n",
     "line 4, column 31: values that are not in the text take more than 1 GiB"                                                                                              },
    {X "%1 = variable @0 : f32[3]\n",
     "line 4, column 17: no variable @0 comes before this line"                                                                                                             },
    {X "%1 = assign %0, %0 : f32[n,3]\n",
     "line 4, column 30: what is assigned is a variable or its newest value"                                                                                                },
    {TOP "@1 = state : f32[2]\n",                                                                   "line 2, column 3: the next of these lines is @0"                       },
    {TOP "@0 = thing : f32[2]\n",                                                                   "line 2, column 6: state, param or view is missing"                     },
    {TOP "@0 = param : i32[2]\n",                                                                   "line 2, column 20: a param is f32 or f64"                              },
    {TOP "@0 = state : f32[n]\n",                                                                   "line 2, column 18: this is no number of elements"                      },
    {TOP "@0 = state : f32[4]\n@1 = view @0 {offset=1, strides=[1]} : f32[4]\n",
     "line 3, column 46: the view reaches outside of the memory it is of"                                                                                                   },
    {TOP "@0 = state : f32[4]\n@1 = view @0 {offset=1, strides=[-1]} : f32[3]\n",
     "line 3, column 47: the view reaches outside of the memory it is of"                                                                                                   },
    {TOP
     "@0 = state : f32[4]\n@1 = view @0 {offset=0, strides=[4611686018427387904]} : f32[3]\n", "line 3, column 64: the view reaches outside of the memory it is of"    },
    {TOP "@0 = state : f32[4]\n@1 = view @0 {offset=0, strides=[1]} : f64[2]\n",
     "line 3, column 46: the view reaches outside of the memory it is of"                                                                                                   },
    {TOP "@0 = state : f32[4]\n%0 = variable @0 : f32[5]\n",
     "line 3, column 26: the variable has another type or shape"                                                                                                            },
    {TOP "@0 = state : f32[4]\n%0 = variable @0 : f32[4]\n%1 = variable @0 : f32[4]\n",
     "line 4, column 26: the variable is read already, or was assigned before"                                                                                              },
};

static void refusals(void **state)
{
    tp_ctx *tp = *state;
    const size_t before = tp_memory_bytes(tp);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const size_t size = strlen(refused[i].text);
        char *text = malloc(size ? size : 1); /* without a NUL, for the sanitizer */
        memcpy(text, refused[i].text, size);
        tp_graph *g = tp_graph_parse(tp, text, size);
        free(text);
        if (g || tp_error(tp) != TP_E_FORMAT || !strstr(tp_error_message(tp), refused[i].error))
            fail_msg("case %zu\n%s\ngave: %s\nnot: %s", i, refused[i].text,
                     tp_error_message(tp), refused[i].error);
        tp_clear_error(tp);
        assert_int_equal(tp->caller.n_scopes, 0);
    }
    assert_null(tp_graph_parse(tp, NULL, 0));
    EXPECT_ERROR(tp, TP_E_NULL, "tp_graph_parse: the text is NULL");
    assert_true(tp->caller.recording);
#ifndef TPI_STRESS                           /* where the heads of dead tensors are kept */
    if (tp_memory_bytes(tp) > before + 4096) /* the context's own lists may have grown */
        fail_msg("%zu bytes more are in use", tp_memory_bytes(tp) - before);
#else
    (void)before;
#endif
}

/* Each line of the good text cut, doubled or left out: read or refused, never a crash. */
static void spoiled_lines(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = sample_every_op(tp);
    char *text = text_of(g);
    tp_graph_free(g);
    const size_t size = strlen(text);
    char *copy = malloc(size + 1);
    int read = 0;
    for (size_t at = 0; at < size; at += 7) {
        memcpy(copy, text, size + 1);
        memmove(copy + at, copy + at + 1, size - at);
        tp_graph *h = tp_graph_parse(tp, copy, size - 1);
        if (h) {
            read++;
            assert_int_equal(tp_graph_verify(h), TP_OK);
        } else {
            assert_int_equal(tp_error(tp), TP_E_FORMAT);
        }
        tp_graph_free(h);
        tp_clear_error(tp);
    }
    print_message("%d texts with a byte less are graphs all the same\n", read);
    free(copy);
    tp_free(tp, text);
}

/* Every beginning of a text with all there is in it, in memory of just that size. */
static void cut_texts(void **state)
{
    tp_ctx *tp = *state;
    const char text[] =
        X "%1 = cast %0 {to=i16} : i16[n,3] ; \"a b\":7\n"
          "%2 \"s\\x01\\n\" = sum %0 {axes=[0,1], keep=true} : f32[1,1] constant\n"
          "%3 = const [1, -0.5, nan(7fc00001)] : f32[3]\n"
          "%4 = pad %2 {lo=[0,1], hi=[n,0], inner=[0,0], value=-1.5e-7} : f32[n+1,2] ; x.c:9\n"
          "%5 = concat %0, %0 {axis=0} : f32[2*n,3]\n"
          "%6 = const true : bool[]\n%7 = const #0 : i8[20]\n";
    for (size_t n = 0; n < sizeof text; n++) {
        char *copy = malloc(n ? n : 1);
        memcpy(copy, text, n);
        tp_graph *g = tp_graph_parse(tp, copy, n);
        free(copy);
        if (n + 1 >= sizeof text && !g)
            fail_msg("%s", tp_error_message(tp));
        if (!g)
            assert_int_equal(tp_error(tp), TP_E_FORMAT);
        tp_graph_free(g);
        tp_clear_error(tp);
    }
}

static void out_of_memory(void **state)
{
    (void)state;
    unit_memory m = {0};
    tp_ctx *tp = unit_open(&m);
    tp_graph *g = sample_odd(tp);
    char *text = text_of(g);
    char *copy = strdup(text);
    tp_close(tp);
    assert_int_equal(m.bytes, 0);
    bool whole = false;
    for (long n = 1; !whole; n++) {
        m = (unit_memory){0};
        tp = unit_open(&m);
        m.fail_at = m.calls + n;
        g = tp_graph_parse(tp, copy, strlen(copy));
        if (g) {
            text = tp_graph_text(g);
            whole = text != NULL;
            if (whole)
                assert_string_equal(text, copy);
        }
        if (!whole)
            assert_int_equal(tp_error(tp), TP_E_MEMORY);
        tp_close(tp);
        assert_int_equal(m.bytes, 0);
    }
    free(copy);
}

static void recording_survives(void **state)
{
    tp_ctx *tp = *state;
    tp_recording(tp, false);
    const char text[] = X "%1 = neg %0 : f32[n,3]\n%2 = neg %0 : f32[n,3] constant\n";
    tp_graph *g = tp_graph_parse(tp, text, sizeof text - 1);
    assert_non_null(g);
    assert_false(tp_recording(tp, true));
    assert_int_equal(g->nodes[1]->flags & (TPI_CONSTANT | TPI_REQUIRES), TPI_REQUIRES);
    assert_int_equal(g->nodes[2]->flags & (TPI_CONSTANT | TPI_REQUIRES), TPI_CONSTANT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(every_op),
        CASE(odd_things),
        CASE(a_text),
        CASE(a_tape),
        CASE(numbers),
        CASE(shortest_numbers),
        CASE(other_locale),
        CASE(refusals),
        CASE(spoiled_lines),
        CASE(out_of_memory),
        CASE(recording_survives),
        CASE(cut_texts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
