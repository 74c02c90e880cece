/* Gradients where conventions differ: at ties, zeros, infinities and NaN, of repeated places, of branches not
 * taken. The first and second gradients of the sum are those of PyTorch 2.15 in f64, written as values, but
 * where docs/numerics.md says otherwise; every mode has to give them. */
#include "tapir/tapir.h"
#include "unit/unit.h"

#include <math.h>

enum { MOST = 5, MOST_IN = 2 };

typedef struct corner {
    const char *name;
    tp_tensor *(*fn)(tp_tensor *const *x);
    int n_in, n[MOST_IN];
    double x[MOST_IN][MOST], first[MOST_IN][MOST], second[MOST_IN][MOST];
} corner;

static const tp_window pairs = {.kernel = {2}, .stride = {2}};

/* The first n of three places. */
static tp_tensor *places(tp_tensor *x, int64_t n, int64_t a, int64_t b, int64_t c)
{
    const int64_t v[3] = {a, b, c};
    tp_tensor *t = tp_tensor_new(tp_ctx_of(x), TP_I64, TP_DIMS(n), v);
    return tp_graph_of(x) ? tp_graph_read(tp_graph_of(x), t) : t;
}

static tp_tensor *four(tp_tensor *x, double value)
{
    return tp_broadcast(tp_scalar_like(x, value), TP_DIMS(4));
}

static tp_tensor *corner_0(tp_tensor *const *x)
{
    return tp_relu(x[0]);
}

static tp_tensor *corner_1(tp_tensor *const *x)
{
    return tp_abs(x[0]);
}

static tp_tensor *corner_2(tp_tensor *const *x)
{
    return tp_sign(x[0]);
}

static tp_tensor *corner_3(tp_tensor *const *x)
{
    return tp_floor(x[0]);
}

static tp_tensor *corner_4(tp_tensor *const *x)
{
    return tp_max(x[0], x[1]);
}

static tp_tensor *corner_5(tp_tensor *const *x)
{
    return tp_min(x[0], x[1]);
}

static tp_tensor *corner_6(tp_tensor *const *x)
{
    return tp_max(x[0], x[1]);
}

static tp_tensor *corner_7(tp_tensor *const *x)
{
    return tp_max(x[0], x[1]);
}

static tp_tensor *corner_8(tp_tensor *const *x)
{
    return tp_reduce_max(x[0], TP_ALL, false);
}

static tp_tensor *corner_9(tp_tensor *const *x)
{
    return tp_reduce_min(x[0], TP_ALL, false);
}

static tp_tensor *corner_10(tp_tensor *const *x)
{
    return tp_reduce_max(x[0], TP_ALL, false);
}

static tp_tensor *corner_11(tp_tensor *const *x)
{
    return tp_clip(x[0], 0, 1);
}

static tp_tensor *corner_12(tp_tensor *const *x)
{
    return tp_clip(x[0], 0, 1);
}

static tp_tensor *corner_13(tp_tensor *const *x)
{
    return tp_square(x[0]);
}

static tp_tensor *corner_14(tp_tensor *const *x)
{
    return tp_pow(x[0], x[1]);
}

static tp_tensor *corner_15(tp_tensor *const *x)
{
    return tp_pow(x[0], x[1]);
}

static tp_tensor *corner_16(tp_tensor *const *x)
{
    return tp_pow(x[0], x[1]);
}

static tp_tensor *corner_17(tp_tensor *const *x)
{
    return tp_sqrt(x[0]);
}

static tp_tensor *corner_18(tp_tensor *const *x)
{
    return tp_rsqrt(x[0]);
}

static tp_tensor *corner_19(tp_tensor *const *x)
{
    return tp_log(x[0]);
}

static tp_tensor *corner_20(tp_tensor *const *x)
{
    return tp_log(x[0]);
}

static tp_tensor *corner_21(tp_tensor *const *x)
{
    return tp_div(x[0], x[1]);
}

static tp_tensor *corner_22(tp_tensor *const *x)
{
    return tp_div(x[0], x[1]);
}

static tp_tensor *corner_23(tp_tensor *const *x)
{
    return tp_mod(x[0], x[1]);
}

static tp_tensor *corner_24(tp_tensor *const *x)
{
    return tp_prod(x[0], TP_ALL, false);
}

static tp_tensor *corner_25(tp_tensor *const *x)
{
    return tp_prod(x[0], TP_ALL, false);
}

static tp_tensor *corner_26(tp_tensor *const *x)
{
    return tp_prod(x[0], TP_ALL, false);
}

static tp_tensor *corner_27(tp_tensor *const *x)
{
    return tp_prod(x[0], TP_ALL, false);
}

static tp_tensor *corner_28(tp_tensor *const *x)
{
    return tp_sqrt(tp_sum(tp_mul(x[0], x[0]), TP_ALL, false));
}

static tp_tensor *corner_29(tp_tensor *const *x)
{
    return tp_where(tp_gt(x[0], tp_scalar_like(x[0], 0)), tp_log(x[0]), x[0]);
}

static tp_tensor *corner_30(tp_tensor *const *x)
{
    return tp_where(tp_gt(x[0], tp_scalar_like(x[0], 0)), tp_sqrt(x[0]), x[0]);
}

static tp_tensor *corner_31(tp_tensor *const *x)
{
    return tp_mul(tp_softmax(x[0], -1), x[1]);
}

static tp_tensor *corner_32(tp_tensor *const *x)
{
    return tp_mul(tp_softmax(x[0], -1), x[1]);
}

static tp_tensor *corner_33(tp_tensor *const *x)
{
    return tp_mul(tp_log_softmax(x[0], -1), x[1]);
}

static tp_tensor *corner_34(tp_tensor *const *x)
{
    return tp_sigmoid(x[0]);
}

static tp_tensor *corner_35(tp_tensor *const *x)
{
    return tp_tanh(x[0]);
}

static tp_tensor *corner_36(tp_tensor *const *x)
{
    return tp_exp(x[0]);
}

static tp_tensor *corner_37(tp_tensor *const *x)
{
    return tp_erf(x[0]);
}

static tp_tensor *corner_38(tp_tensor *const *x)
{
    return tp_gelu(x[0]);
}

static tp_tensor *corner_39(tp_tensor *const *x)
{
    return tp_silu(x[0]);
}

static tp_tensor *corner_40(tp_tensor *const *x)
{
    return tp_add(tp_mul(x[0], x[0]), x[0]);
}

static tp_tensor *corner_41(tp_tensor *const *x)
{
    return tp_sub(x[0], x[0]);
}

static tp_tensor *corner_42(tp_tensor *const *x)
{
    return tp_mean(x[0], TP_ALL, false);
}

static tp_tensor *corner_43(tp_tensor *const *x)
{
    return tp_mul(tp_cumsum(x[0], 0, false, false), x[1]);
}

static tp_tensor *corner_44(tp_tensor *const *x)
{
    return tp_gather(x[0], places(x[0], 3, 0, 2, 0), 0);
}

static tp_tensor *corner_45(tp_tensor *const *x)
{
    return tp_gather(x[0], places(x[0], 1, 1, 0, 0), 0);
}

static tp_tensor *corner_46(tp_tensor *const *x)
{
    return tp_mul(tp_sort(x[0], 0, false), x[1]);
}

static tp_tensor *corner_47(tp_tensor *const *x)
{
    return tp_scatter_add(x[0], places(x[0], 3, 1, 1, 0), x[1], 0);
}

static tp_tensor *corner_48(tp_tensor *const *x)
{
    return tp_mul(tp_flip(x[0], TP_DIMS(0)), x[1]);
}

static tp_tensor *corner_49(tp_tensor *const *x)
{
    return tp_slice(x[0], 0, 0, 5, 2);
}

static tp_tensor *corner_50(tp_tensor *const *x)
{
    return tp_pad(x[0], 1, (int64_t[]){1}, (int64_t[]){2}, 7);
}

static tp_tensor *corner_51(tp_tensor *const *x)
{
    return tp_mul(tp_concat(2, (tp_tensor *[]){x[0], x[0]}, 0), x[1]);
}

static tp_tensor *corner_52(tp_tensor *const *x)
{
    return tp_mul(x[0], x[1]);
}

static tp_tensor *corner_53(tp_tensor *const *x)
{
    return tp_mul(tp_reshape(x[0], TP_DIMS(2, 1)), tp_reshape(x[1], TP_DIMS(1, 3)));
}

static tp_tensor *corner_54(tp_tensor *const *x)
{
    return tp_mul(x[0], tp_detach(x[0]));
}

static tp_tensor *corner_55(tp_tensor *const *x)
{
    return tp_mul(tp_layer_norm(x[0], four(x[0], 1), four(x[0], 0), 1e-5), x[1]);
}

static tp_tensor *corner_56(tp_tensor *const *x)
{
    return tp_cross_entropy(tp_reshape(x[0], TP_DIMS(1, 3)), places(x[0], 1, 0, 0, 0));
}

static tp_tensor *corner_57(tp_tensor *const *x)
{
    return tp_cross_entropy(tp_reshape(x[0], TP_DIMS(1, 3)), places(x[0], 1, 2, 0, 0));
}

static tp_tensor *corner_58(tp_tensor *const *x)
{
    return tp_mse(x[0], x[1]);
}

static tp_tensor *corner_59(tp_tensor *const *x)
{
    return tp_max_pool(tp_reshape(x[0], TP_DIMS(1, 1, 4)), &pairs);
}

static tp_tensor *corner_60(tp_tensor *const *x)
{
    return tp_sum(tp_mul(x[0], x[0]), TP_ALL, false);
}

static const corner corners[] = {
    {"relu at 0",                     corner_0,  1, {4},    {{-1, 0, 2, -0.0}}, {{0, 0, 1, 0}},             {{0, 0, 0, 0}}      },
    {"abs at 0",                      corner_1,  1, {4},    {{-1, 0, 2, -0.0}}, {{-1, 0, 1, 0}},            {{0, 0, 0, 0}}      },
    {"sign",                          corner_2,  1, {3},    {{-1, 0, 2}},       {{0, 0, 0}},                {{0, 0, 0}}         },
    {"floor at whole numbers",        corner_3,  1, {3},    {{-1, 0.5, 2}},     {{0, 0, 0}},                {{0, 0, 0}}         },
    {"maximum, ties",
     corner_4,                                   2,
     {3, 3},
     {{1, 2, 3}, {1, 3, 2}},
     {{0.5, 0, 1}, {0.5, 1, 0}},
     {{0, 0, 0}, {0, 0, 0}}                                                                                                     },
    {"minimum, ties",
     corner_5,                                   2,
     {3, 3},
     {{1, 2, 3}, {1, 3, 2}},
     {{0.5, 1, 0}, {0.5, 0, 1}},
     {{0, 0, 0}, {0, 0, 0}}                                                                                                     },
    {"maximum of zeros",
     corner_6,                                   2,
     {2, 2},
     {{0, -0.0}, {-0.0, 0}},
     {{0.5, 0.5}, {0.5, 0.5}},
     {{0, 0}, {0, 0}}                                                                                                           },
 /* ours; PyTorch has: 1 everywhere */
    {"maximum with NaN",
     corner_7,                                   2,
     {3, 3},
     {{NAN, 1, NAN}, {1, NAN, NAN}},
     {{0, 0, 0}, {0, 0, 0}},
     {{0, 0, 0}, {0, 0, 0}}                                                                                                     },
    {"greatest of ties",
     corner_8,                                   1,
     {4},
     {{3, 1, 3, 3}},
     {{0.3333333333333333, 0, 0.3333333333333333, 0.3333333333333333}},
     {{0, 0, 0, 0}}                                                                                                             },
    {"least of ties",                 corner_9,  1, {4},    {{1, 1, 3, 2}},     {{0.5, 0.5, 0, 0}},         {{0, 0, 0, 0}}      },
    {"greatest of one",               corner_10, 1, {1},    {{3}},              {{1}},                      {{0}}               },
 /* ours; PyTorch has: 0 at the bounds */
    {"clip at its bounds",
     corner_11,                                  1,
     {5},
     {{0, 1, -1, 2, 0.5}},
     {{0.5, 0.5, 0, 0, 1}},
     {{0, 0, 0, 0, 0}}                                                                                                          },
    {"clip of NaN",                   corner_12, 1, {2},    {{NAN, 0.5}},       {{0, 1}},                   {{0, 0}}            },
    {"square of 0",                   corner_13, 1, {2},    {{0, -2}},          {{0, -4}},                  {{2, 2}}            },
 /* ours; PyTorch has: the second ones are NaN */
    {"power 0 of 0",
     corner_14,                                  2,
     {3, 3},
     {{0, 0, 2}, {0, 2, 0}},
     {{0, 0, 0}, {0, 0, 0.6931471805599453}},
     {{0, 2, 0.5}, {0, 0, 0.4804530139182014}}                                                                                  },
    {"power of negative numbers",
     corner_15,                                  2,
     {2, 2},
     {{-2, -2}, {3, 2}},
     {{12, -4}, {NAN, NAN}},
     {{NAN, NAN}, {NAN, NAN}}                                                                                                   },
 /* ours; PyTorch has: the second ones are NaN */
    {"power 1 of 0",                  corner_16, 2, {1, 1}, {{0}, {1}},         {{1}, {0}},                 {{0}, {1}}          },
    {"square root at 0",
     corner_17,                                  1,
     {2},
     {{0, 4}},
     {{INFINITY, 0.25}},
     {{-INFINITY, -0.03125}}                                                                                                    },
    {"reciprocal root at 0",
     corner_18,                                  1,
     {2},
     {{0, 4}},
     {{-INFINITY, -0.0625}},
     {{INFINITY, 0.0234375}}                                                                                                    },
    {"logarithm at 0",                corner_19, 1, {2},    {{0, 2}},           {{INFINITY, 0.5}},          {{-INFINITY, -0.25}}},
    {"logarithm below 0",             corner_20, 1, {1},    {{-2}},             {{-0.5}},                   {{-0.25}}           },
 /* ours; PyTorch has: the second ones are NaN */
    {"division by 0",
     corner_21,                                  2,
     {2, 2},
     {{1, 0}, {0, 0}},
     {{INFINITY, INFINITY}, {-INFINITY, NAN}},
     {{-INFINITY, -INFINITY}, {INFINITY, NAN}}                                                                                  },
    {"0 divided",                     corner_22, 2, {1, 1}, {{0}, {2}},         {{0.5}, {0}},               {{-0.25}, {-0.25}}  },
    {"remainder",
     corner_23,                                  2,
     {3, 3},
     {{5, -5, 6}, {3, 3, 3}},
     {{1, 1, 1}, {-1, 2, -2}},
     {{0, 0, 0}, {0, 0, 0}}                                                                                                     },
    {"product with a zero",           corner_24, 1, {3},    {{2, 0, 3}},        {{0, 6, 0}},                {{3, 5, 2}}         },
    {"product with two zeros",
     corner_25,                                  1,
     {4},
     {{2, 0, 0, 3}},
     {{0, 0, 0, 0}},
     {{0, 6, 6, 0}}                                                                                                             },
    {"product without zeros",         corner_26, 1, {3},    {{2, 4, 3}},        {{12, 6, 8}},               {{7, 5, 6}}         },
    {"product of one",                corner_27, 1, {1},    {{0}},              {{1}},                      {{0}}               },
    {"root of a sum at 0",            corner_28, 1, {2},    {{0, 0}},           {{NAN, NAN}},               {{NAN, NAN}}        },
    {"a branch not taken",            corner_29, 1, {2},    {{-1, 2}},          {{1, 0.5}},                 {{0, -0.25}}        },
    {"a branch not taken, infinite",
     corner_30,                                  1,
     {2},
     {{0, 4}},
     {{NAN, 0.25}},
     {{NAN, -0.03125}}                                                                                                          },
    {"softmax with -infinity",
     corner_31,                                  2,
     {3, 3},
     {{-INFINITY, 0, 1}, {1, 2, 3}},
     {{0, -0.19661193324148196, 0.1966119332414816},
      {0, 0.26894142136999516, 0.7310585786300049}},
     {{0, 5.971699165607695e-17, 1.6232761326895437e-16}, {0, 0, 0}}                                                            },
    {"softmax of large numbers",
     corner_32,                                  2,
     {3, 3},
     {{1000, 0, 1000}, {1, 2, 4}},
     {{-0.75, 0, 0.75}, {0.5, 0, 0.5}},
     {{0, 0, 0}, {0, 0, 0}}                                                                                                     },
    {"log_softmax of large numbers",
     corner_33,                                  2,
     {3, 3},
     {{1000, 0, -1000}, {1, 2, 4}},
     {{-6, 2, 4}, {0, -1000, -2000}},
     {{-2, 1, 1}, {0, 0, 0}}                                                                                                    },
    {"sigmoid at infinities",
     corner_34,                                  1,
     {5},
     {{INFINITY, -INFINITY, 0, 200, -200}},
     {{0, 0, 0.25, 0, 1.3838965267367376e-87}},
     {{0, 0, 0, 0, 1.3838965267367376e-87}}                                                                                     },
    {"tanh at infinities",
     corner_35,                                  1,
     {4},
     {{INFINITY, -INFINITY, 0, 50}},
     {{0, 0, 1, 0}},
     {{0, 0, 0, 0}}                                                                                                             },
    {"exp overflows",
     corner_36,                                  1,
     {3},
     {{1000, -1000, 0}},
     {{INFINITY, 0, 1}},
     {{INFINITY, 0, 1}}                                                                                                         },
    {"erf far out",
     corner_37,                                  1,
     {3},
     {{INFINITY, -20, 0}},
     {{0, 2.1610374743867984e-174, 1.1283791670955126}},
     {{NAN, 8.644149897547193e-173, 0}}                                                                                         },
    {"gelu at 0 and far out",
     corner_38,                                  1,
     {3},
     {{0, -50, 50}},
     {{0.5, 0, 1}},
     {{0.7978845608028654, 0, 0}}                                                                                               },
    {"silu far out",
     corner_39,                                  1,
     {3},
     {{0, -500, 500}},
     {{0.5, -3.555163626963901e-215, 1}},
     {{0.5, -3.5480390505571596e-215, 0}}                                                                                       },
    {"used twice",                    corner_40, 1, {2},    {{0, 3}},           {{1, 7}},                   {{2, 2}}            },
    {"subtracted from itself",        corner_41, 1, {2},    {{INFINITY, 3}},    {{0, 0}},                   {{0, 0}}            },
    {"mean",                          corner_42, 1, {4},    {{1, 2, 4, 8}},     {{0.25, 0.25, 0.25, 0.25}}, {{0, 0, 0, 0}}      },
    {"running sum",
     corner_43,                                  2,
     {3, 3},
     {{1, 2, 3}, {1, 10, 100}},
     {{111, 110, 100}, {1, 3, 6}},
     {{3, 2, 1}, {1, 2, 3}}                                                                                                     },
    {"gathered twice",                corner_44, 1, {3},    {{1, 2, 3}},        {{2, 0, 1}},                {{0, 0, 0}}         },
    {"gathered nowhere",              corner_45, 1, {3},    {{1, 2, 3}},        {{0, 1, 0}},                {{0, 0, 0}}         },
    {"sorted ties",
     corner_46,                                  2,
     {4, 4},
     {{2, 1, 2, 1}, {1, 2, 3, 4}},
     {{3, 1, 4, 2}, {1, 1, 2, 2}},
     {{1, 1, 1, 1}, {1, 1, 1, 1}}                                                                                               },
    {"added at one place",
     corner_47,                                  2,
     {3, 3},
     {{1, 2, 3}, {10, 20, 30}},
     {{1, 1, 1}, {1, 1, 1}},
     {{0, 0, 0}, {0, 0, 0}}                                                                                                     },
    {"flipped and weighed",
     corner_48,                                  2,
     {3, 3},
     {{1, 2, 3}, {1, 2, 3}},
     {{3, 2, 1}, {3, 2, 1}},
     {{1, 1, 1}, {1, 1, 1}}                                                                                                     },
    {"every other element",
     corner_49,                                  1,
     {5},
     {{1, 2, 3, 4, 5}},
     {{1, 0, 1, 0, 1}},
     {{0, 0, 0, 0, 0}}                                                                                                          },
    {"padded",                        corner_50, 1, {2},    {{1, 2}},           {{1, 1}},                   {{0, 0}}            },
    {"joined with itself",
     corner_51,                                  2,
     {2, 4},
     {{1, 2}, {1, 2, 3, 4}},
     {{4, 6}, {1, 2, 1, 2}},
     {{2, 2}, {1, 1, 1, 1}}                                                                                                     },
    {"stretched",                     corner_52, 2, {1, 3}, {{2}, {1, 2, 3}},   {{6}, {2, 2, 2}},           {{3}, {1, 1, 1}}    },
    {"one of two sizes",
     corner_53,                                  2,
     {2, 3},
     {{1, 2}, {3, 4, 5}},
     {{12, 12}, {3, 3, 3}},
     {{3, 3}, {2, 2, 2}}                                                                                                        },
    {"detached",                      corner_54, 1, {2},    {{3, 4}},           {{3, 4}},                   {{0, 0}}            },
    {"a layer norm of equal numbers",
     corner_55,                                  2,
     {4, 4},
     {{5, 5, 5, 5}, {1, 2, 3, 4}},
     {{-474.34164902525686, -158.11388300841895, 158.11388300841895, 474.34164902525686},
      {0, 0, 0, 0}},
     {{0, 0, 0, 0}, {0, 0, 0, 0}}                                                                                               },
    {"cross entropy, sure and right",
     corner_56,                                  1,
     {3},
     {{1000, 0, -1000}},
     {{0, 0, 0}},
     {{0, 0, 0}}                                                                                                                },
    {"cross entropy, sure and wrong",
     corner_57,                                  1,
     {3},
     {{1000, 0, -1000}},
     {{1, 0, -1}},
     {{0, 0, 0}}                                                                                                                },
    {"squared error of equal ones",
     corner_58,                                  2,
     {2, 2},
     {{1, 2}, {1, 2}},
     {{0, 0}, {0, 0}},
     {{0, 0}, {0, 0}}                                                                                                           },
    {"max pooling of ties",           corner_59, 1, {4},    {{2, 2, 1, 1}},     {{1, 0, 1, 0}},             {{0, 0, 0, 0}}      },
    {"no elements",                   corner_60, 1, {0},    {{}},               {{}},                       {{}}                },
};
enum { N_CORNERS = sizeof corners / sizeof *corners };

/* ---- ways ------------------------------------------------------------------------------------- */

/* x: the operands, in y their first gradients, in z the gradients of the sum of these. */
static void gradients(const corner *c, tp_tensor *const *x, tp_tensor **y, tp_tensor **z)
{
    tp_tensor *sum = tp_sum(c->fn(x), TP_ALL, false);
    tp_grads(sum, NULL, c->n_in, x, y);
    tp_tensor *all = tp_sum(y[0], TP_ALL, false);
    for (int i = 1; i < c->n_in; i++)
        all = tp_add(all, tp_sum(y[i], TP_ALL, false));
    tp_grads(all, NULL, c->n_in, x, z);
}

static void operands(tp_ctx *tp, const corner *c, tp_tensor **x)
{
    for (int i = 0; i < c->n_in; i++)
        x[i] = tp_tensor_new(tp, TP_F64, TP_DIMS(c->n[i]), c->x[i]);
}

static void body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    const corner *c = user;
    (void)n_in;
    (void)n_out;
    gradients(c, in, out, out + c->n_in);
}

static void eagerly(tp_ctx *tp, const corner *c, tp_tensor **out)
{
    tp_tensor *x[MOST_IN];
    operands(tp, c, x);
    for (int i = 0; i < c->n_in; i++)
        tp_require_grad(x[i]);
    gradients(c, x, out, out + c->n_in);
}

static void captured(tp_ctx *tp, const corner *c, tp_tensor **out)
{
    tp_tensor *x[MOST_IN];
    tp_function *f = tp_function_new(tp, "corner", body, (void *)(uintptr_t)c, NULL);
    for (int run = 0; run < 3; run++) { /* recorded, then replayed */
        operands(tp, c, x);
        for (int i = 0; i < c->n_in; i++)
            tp_require_grad(x[i]);
        assert_int_equal(tp_function_call(f, c->n_in, x, 2 * c->n_in, out), TP_OK);
    }
}

static void compiled(tp_ctx *tp, const corner *c, tp_engine engine, tp_tensor **out)
{
    static const char *const in[] = {"a", "b"}, *const names[] = {"p", "q", "r", "s"};
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x[MOST_IN], *fed[MOST_IN];
    operands(tp, c, fed);
    for (int i = 0; i < c->n_in; i++)
        x[i] = tp_placeholder(g, in[i], TP_F64, TP_DIMS(c->n[i]));
    gradients(c, x, out, out + c->n_in);
    for (int i = 0; i < 2 * c->n_in; i++)
        tp_name(out[i], names[i]);
    tp_program *p = tp_graph_compile(g, c->n_in, in, 2 * c->n_in, names,
                                     &(tp_compile_options){.engine = engine});
    if (!p || tp_program_run(p, fed, out) != TP_OK)
        fail_msg("%s: %s", c->name, tp_error_message(tp));
}

/* ---- comparison --------------------------------------------------------------------------------- */

static bool is_near(double got, double want)
{
    if (isnan(want) || isinf(want))
        return isnan(want) ? isnan(got) : got == want;
    return fabs(got - want) <= 1e-12 * (1 + fabs(want));
}

static int compare(const corner *c, const char *way, tp_tensor *const *out)
{
    int bad = 0;
    for (int k = 0; k < 2 * c->n_in; k++) {
        const int i = k % c->n_in;
        const double *want = k < c->n_in ? c->first[i] : c->second[i];
        double got[MOST];
        if (tp_failed(out[k]) || tp_read(out[k], got, (size_t)c->n[i] * sizeof *got) != TP_OK)
            fail_msg("%s, %s: %s", c->name, way, tp_error_text(out[k]));
        for (int e = 0; e < c->n[i]; e++)
            if (!is_near(got[e], want[e])) {
                print_error("%s, %s: the %s gradient of operand %d, element %d, is %.17g, "
                            "not %.17g\n",
                            c->name, way, k < c->n_in ? "first" : "second", i, e, got[e],
                            want[e]);
                bad++;
            }
    }
    return bad;
}

static void every_way(void **state)
{
    (void)state;
    static const char *const engines[] = {"auto", "reference", "C", "tiles"};
    int bad = 0;
    for (int i = 0; i < N_CORNERS; i++) {
        const corner *c = &corners[i];
        tp_tensor *out[2 * MOST_IN];
        tp_ctx *tp = tp_open(NULL);
        eagerly(tp, c, out);
        bad += compare(c, "eager", out);
        captured(tp, c, out);
        bad += compare(c, "captured", out);
        for (int e = TP_ENGINE_REFERENCE; e <= TP_ENGINE_TILES; e++) {
            compiled(tp, c, (tp_engine)e, out);
            bad += compare(c, engines[e], out);
        }
        tp_close(tp);
    }
    print_message("%d corners\n", (int)N_CORNERS);
    assert_int_equal(bad, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_way)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
