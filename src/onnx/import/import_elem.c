/* Elementwise operators. */
#include "onnx/import/import.h"

#include <math.h>
#include <string.h>

#undef TP_PLACE
#define TP_PLACE o->at.file, o->at.line

typedef tp_tensor *(*unary_function)(const char *file, int line, tp_tensor *x);
typedef tp_tensor *(*binary_function)(const char *file, int line, tp_tensor *a, tp_tensor *b);

/* The row of a table whose name is the operator's; map.def names only such. */
#define ROW(o, table)                                                                          \
    find_row((o)->name, sizeof(table) / sizeof *(table), sizeof *(table), table)

static const void *find_row(const char *name, size_t n, size_t size, const void *table)
{
    const char *row = table;
    for (size_t i = 0; i + 1 < n; i++, row += size) {
        const char *own;
        memcpy(&own, row, sizeof own);
        if (strcmp(own, name) == 0)
            break;
    }
    return row;
}

/* ---- one op of ours ---------------------------------------------------------------------------- */

static const struct unary {
    const char *name;
    unary_function apply;
} unaries[] = {
    {"Abs",        tp_abs_at    },
    {"BitwiseNot", tp_not_at    },
    {"Ceil",       tp_ceil_at   },
    {"Cos",        tp_cos_at    },
    {"Erf",        tp_erf_at    },
    {"Exp",        tp_exp_at    },
    {"Floor",      tp_floor_at  },
    {"Log",        tp_log_at    },
    {"Neg",        tp_neg_at    },
    {"Not",        tp_not_at    },
    {"Relu",       tp_relu_at   },
    {"Round",      tp_round_at  },
    {"Sigmoid",    tp_sigmoid_at},
    {"Sign",       tp_sign_at   },
    {"Sin",        tp_sin_at    },
    {"Sqrt",       tp_sqrt_at   },
    {"Tanh",       tp_tanh_at   },
};

static bool has_symbol(const tpi_onnx_ints *k)
{
    bool any = false;
    for (int i = 0; i < k->n; i++)
        any |= tpi_dim_is_symbolic(k->v[i]);
    return any;
}

/* -n of sizes, as the start of a slice that counts from the end. */
static bool negated_ints(tpi_onnx_op *o)
{
    tpi_onnx_ints k;
    if (strcmp(o->name, "Neg") != 0 || !tpi_onnx_try_ints(o, 0, &k) || !has_symbol(&k))
        return false;
    bool known = true;
    for (int i = 0; i < k.n; i++) {
        k.v[i] = tpi_onnx_dim_sub(o, 0, k.v[i]);
        known &= k.v[i] != TPI_NO_DIM;
    }
    return known && tpi_onnx_out_ints(o, 0, &k);
}

bool tpi_onnx_import_unary(tpi_onnx_op *o)
{
    const struct unary *row = ROW(o, unaries);
    return negated_ints(o) || tpi_onnx_out(o, 0, row->apply(TP_PLACE, tpi_onnx_in(o, 0)));
}

/* Two lists of known integers, of which one is symbolic at least: as long as each other, or one
 * stretches. */
static bool pair_ints(tpi_onnx_op *o, int i, tpi_onnx_ints *a, tpi_onnx_ints *b)
{
    if (!tpi_onnx_try_ints(o, i, a) || !tpi_onnx_try_ints(o, i + 1, b) ||
        (!has_symbol(a) && !has_symbol(b)) || (a->n != b->n && a->n != 1 && b->n != 1))
        return false;
    const int n = a->n == 1 ? b->n : a->n, rank = a->rank > b->rank ? a->rank : b->rank;
    for (int k = a->n; k < n; k++)
        a->v[k] = a->v[0];
    for (int k = b->n; k < n; k++)
        b->v[k] = b->v[0];
    a->n = b->n = n;
    a->rank = b->rank = rank;
    return true;
}

typedef int64_t (*dim_function)(tpi_onnx_op *o, int64_t a, int64_t b);

static const struct arithmetic {
    const char *name;
    binary_function apply;
    dim_function sizes;
} arithmetics[] = {
    {"Add", tp_add_at, tpi_onnx_dim_add},
    {"Div", tp_div_at, tpi_onnx_dim_div},
    {"Mul", tp_mul_at, tpi_onnx_dim_mul},
    {"Sub", tp_sub_at, tpi_onnx_dim_sub},
};

/* Before operator set 7 operand b said where its axes belong. */
static tp_tensor *second(tpi_onnx_op *o, const tp_tensor *a)
{
    tp_tensor *b = tpi_onnx_in(o, 1);
    const int64_t axis = tpi_onnx_int(o, "axis", -1);
    if (o->opset >= 7 || axis < 0 || axis >= tp_rank(a))
        return b;
    for (int64_t more = tp_rank(a) - axis - tp_rank(b); more > 0; more--)
        b = tp_unsqueeze(b, tp_rank(b));
    return b;
}

/* Operands a and b, whose sizes go with each other. */
static void pair_of(tpi_onnx_op *o, tp_tensor **in)
{
    in[0] = tpi_onnx_in(o, 0);
    in[1] = second(o, in[0]);
    tpi_onnx_agree(o, 2, in, 0);
}

bool tpi_onnx_import_arithmetic(tpi_onnx_op *o)
{
    const struct arithmetic *row = ROW(o, arithmetics);
    tpi_onnx_ints a, b;
    if (pair_ints(o, 0, &a, &b)) {
        bool known = true;
        for (int i = 0; i < a.n; i++) {
            a.v[i] = row->sizes(o, a.v[i], b.v[i]);
            known &= a.v[i] != TPI_NO_DIM;
        }
        if (known)
            return tpi_onnx_out_ints(o, 0, &a);
    }
    tp_tensor *in[2];
    pair_of(o, in);
    return tpi_onnx_out(o, 0, row->apply(TP_PLACE, in[0], in[1]));
}

static const struct binary {
    const char *name;
    binary_function apply;
} binaries[] = {
    {"And",            tp_and_at},
    {"BitwiseAnd",     tp_and_at},
    {"BitwiseOr",      tp_or_at },
    {"BitwiseXor",     tp_xor_at},
    {"Greater",        tp_gt_at },
    {"GreaterOrEqual", tp_ge_at },
    {"Less",           tp_lt_at },
    {"LessOrEqual",    tp_le_at },
    {"Or",             tp_or_at },
    {"Xor",            tp_xor_at},
};

bool tpi_onnx_import_binary(tpi_onnx_op *o)
{
    const struct binary *row = ROW(o, binaries);
    tp_tensor *in[2];
    pair_of(o, in);
    return tpi_onnx_out(o, 0, row->apply(TP_PLACE, in[0], in[1]));
}

/* A size is never negative, and equal to itself; more is not known of a symbolic one. */
bool tpi_onnx_import_equal(tpi_onnx_op *o)
{
    tpi_onnx_ints a, b;
    if (pair_ints(o, 0, &a, &b)) {
        uint8_t same[TPI_ONNX_INTS];
        bool known = true;
        const int64_t n = a.n;
        for (int i = 0; i < a.n; i++) {
            const bool sa = tpi_dim_is_symbolic(a.v[i]), sb = tpi_dim_is_symbolic(b.v[i]);
            same[i] = a.v[i] == b.v[i];
            known &= same[i] || (!sa && !sb) || (!sa && a.v[i] < 0) || (!sb && b.v[i] < 0);
        }
        if (known)
            return tpi_onnx_out(o, 0, tp_tensor_new(o->ctx, TP_BOOL, a.rank, &n, same));
    }
    tp_tensor *in[2];
    pair_of(o, in);
    return tpi_onnx_out(o, 0, tp_eq(in[0], in[1]));
}

bool tpi_onnx_import_where(tpi_onnx_op *o)
{
    tpi_onnx_ints c, a, b;
    if (pair_ints(o, 1, &a, &b) && tpi_onnx_try_ints(o, 0, &c) && (c.n == a.n || c.n == 1)) {
        for (int i = 0; i < a.n; i++)
            a.v[i] = c.v[c.n == 1 ? 0 : i] ? a.v[i] : b.v[i];
        a.rank = c.rank > a.rank ? c.rank : a.rank;
        return tpi_onnx_out_ints(o, 0, &a);
    }
    tp_tensor *in[3];
    for (int i = 0; i < 3; i++)
        in[i] = tpi_onnx_in(o, i);
    tpi_onnx_agree(o, 3, in, 0);
    return tpi_onnx_out(o, 0, tp_where(in[0], in[1], in[2]));
}

static const struct binary folds[] = {
    {"Max",  tp_max_at},
    {"Mean", tp_add_at},
    {"Min",  tp_min_at},
    {"Sum",  tp_add_at},
};

/* The lesser or greater of two sizes. */
static bool fold_ints(tpi_onnx_op *o)
{
    const bool max = strcmp(o->name, "Max") == 0;
    tpi_onnx_ints a, b;
    if (o->n_in != 2 || (!max && strcmp(o->name, "Min") != 0) || !pair_ints(o, 0, &a, &b))
        return false;
    bool known = true;
    for (int i = 0; i < a.n; i++) {
        const int64_t least = tpi_dim_min(o->g->dims, a.v[i], b.v[i]);
        a.v[i] = max ? tpi_onnx_dim_sub(o, tpi_onnx_dim_add(o, a.v[i], b.v[i]), least) : least;
        known &= least != TPI_NO_DIM && a.v[i] != TPI_NO_DIM;
    }
    return known && tpi_onnx_out_ints(o, 0, &a);
}

bool tpi_onnx_import_fold(tpi_onnx_op *o)
{
    if (fold_ints(o))
        return true;
    const struct binary *row = ROW(o, folds);
    tp_tensor *y = tpi_onnx_in(o, 0);
    for (int i = 1; i < o->n_in; i++) {
        tp_tensor *in[2] = {y, tpi_onnx_in(o, i)};
        tpi_onnx_agree(o, 2, in, 0);
        y = row->apply(TP_PLACE, in[0], in[1]);
    }
    if (strcmp(o->name, "Mean") == 0 && o->n_in > 1)
        y = tp_div(y, tp_scalar_like(y, o->n_in));
    return tpi_onnx_out(o, 0, y);
}

/* The result has the type of the base. */
bool tpi_onnx_import_pow(tpi_onnx_op *o)
{
    tp_tensor *in[2];
    pair_of(o, in);
    tp_tensor *x = in[0], *e = in[1];
    const tp_dtype base = tp_dtype_of(x), exponent = tp_dtype_of(e);
    if (base < TP_F32 && exponent >= TP_F32)
        return tpi_onnx_out(o, 0, tp_cast(tp_pow(tp_cast(x, exponent), e), base));
    return tpi_onnx_out(o, 0, tp_pow(x, base == exponent ? e : tp_cast(e, base)));
}

bool tpi_onnx_import_mod(tpi_onnx_op *o)
{
    tp_tensor *in[2];
    pair_of(o, in);
    tp_tensor *a = in[0], *b = in[1];
    if (tpi_onnx_int(o, "fmod", 0) == 0)
        return tpi_onnx_out(o, 0, tp_mod(a, b));
    if (tp_dtype_of(a) >= TP_F32) /* the sign of a */
        return tpi_onnx_out(o, 0, tp_mul(tp_sign(a), tp_mod(tp_abs(a), tp_abs(b))));
    return tpi_onnx_out(o, 0, tp_sub(a, tp_mul(tp_div(a, b), b)));
}

/* Powers of 2 wrap to 0 where a shift leaves nothing, and x / 0 is 0. */
bool tpi_onnx_import_bit_shift(tpi_onnx_op *o)
{
    tp_tensor *in[2];
    pair_of(o, in);
    tp_tensor *x = in[0], *by = in[1];
    tp_tensor *power = tp_pow(tp_scalar_like(by, 2), by);
    if (tpi_onnx_text_is(o, "direction", "LEFT", ""))
        return tpi_onnx_out(o, 0, tp_mul(x, power));
    if (tpi_onnx_text_is(o, "direction", "RIGHT", ""))
        return tpi_onnx_out(o, 0, tp_div(x, power));
    return tpi_onnx_refuse(o, "direction is neither LEFT nor RIGHT");
}

/* ---- types ---------------------------------------------------------------------------------------- */

static bool cast_to(tpi_onnx_op *o, tp_dtype dtype)
{
    tpi_onnx_ints k;
    if (dtype == TP_N_DTYPES)
        return false;
    const bool holds = dtype == TP_I64 || dtype == TP_I32 || dtype >= TP_F32;
    if (holds && tpi_onnx_try_sizes(o, 0, &k) && has_symbol(&k)) {
        k.dtype = dtype;
        return tpi_onnx_out_ints(o, 0, &k);
    }
    return tpi_onnx_out(o, 0, tp_cast(tpi_onnx_in(o, 0), dtype));
}

/* Whole numbers of 64 bits that f64 would round: the last bits are made one that says that there were some,
 * which is all that a 16-bit float needs to know of them. */
static tp_tensor *sticky(tpi_onnx_op *o, tp_tensor *x)
{
    const double exact = 0x1p53;
    tp_tensor *zero = tp_scalar_like(x, 0);
    tp_tensor *rest = tp_mod(x, tp_scalar_like(x, 4096));
    tp_tensor *odd = tp_add(tp_sub(x, rest), tp_scalar_like(x, 2048));
    tp_tensor *large = tp_gt(x, tp_scalar_like(x, exact));
    if (tp_dtype_of(x) == TP_I64)
        large = tp_or(large, tp_lt(x, tp_scalar_like(x, -exact)));
    return tp_where(tp_and(large, tp_ne(rest, zero)), odd, x);
}

bool tpi_onnx_import_cast(tpi_onnx_op *o)
{
    const int64_t to = tpi_onnx_int(o, "to", 0);
    if (to != TPI_PB_F16 && to != TPI_PB_BF16)
        return cast_to(o, tpi_onnx_elem_type(o, to));
    /* From what f32 does not hold by way of f64, so that it is rounded once. */
    tp_tensor *x = tpi_onnx_in(o, 0);
    const tp_dtype from = tp_dtype_of(x);
    const bool wide = from == TP_F64 || (from < TP_F32 && tp_dtype_size(from) > 2);
    if (from == TP_I64 || from == TP_U64)
        x = sticky(o, x);
    x = tpi_onnx_round(o, tp_cast(x, wide ? TP_F64 : TP_F32), to);
    return tpi_onnx_out(o, 0, tp_cast(x, TP_F32));
}

bool tpi_onnx_import_cast_like(tpi_onnx_op *o)
{
    return cast_to(o, tpi_onnx_in_dtype(o, 1));
}

bool tpi_onnx_import_is_nan(tpi_onnx_op *o)
{
    tp_tensor *x = tpi_onnx_in(o, 0);
    return tpi_onnx_out(o, 0, tp_ne(x, x));
}

bool tpi_onnx_import_is_inf(tpi_onnx_op *o)
{
    tp_tensor *x = tpi_onnx_in(o, 0);
    const bool above = tpi_onnx_int(o, "detect_positive", 1) != 0;
    const bool below = tpi_onnx_int(o, "detect_negative", 1) != 0;
    tp_tensor *y = tp_eq(above && below ? tp_abs(x) : x,
                         tp_scalar_like(x, above ? (double)INFINITY : -(double)INFINITY));
    return tpi_onnx_out(o, 0, above || below ? y : tp_ne(y, y));
}

/* ---- activations ----------------------------------------------------------------------------------- */

/* x below 0 is replaced. */
static tp_tensor *below_zero(tpi_onnx_op *o, tp_tensor *x, tp_tensor *y)
{
    return tp_where(tp_lt(x, tp_scalar_like(x, 0)), y, x);
}

static tp_tensor *times(tpi_onnx_op *o, tp_tensor *x, double k)
{
    return k == 1 ? x : tp_mul(x, tp_scalar_like(x, k));
}

static tp_tensor *plus(tpi_onnx_op *o, tp_tensor *x, double k)
{
    return tp_add(x, tp_scalar_like(x, k));
}

static tp_tensor *exp_less_one(tpi_onnx_op *o, tp_tensor *x)
{
    return tp_sub(tp_exp(x), tp_scalar_like(x, 1));
}

/* log(1 + exp(x)) that does not overflow. */
static tp_tensor *softplus(tpi_onnx_op *o, tp_tensor *x)
{
    return tp_add(tp_relu(x), tp_log(plus(o, tp_exp(tp_neg(tp_abs(x))), 1)));
}

static tp_tensor *act_celu(tpi_onnx_op *o, tp_tensor *x)
{
    const double a = tpi_onnx_float(o, "alpha", 1);
    return below_zero(o, x, times(o, exp_less_one(o, tp_div(x, tp_scalar_like(x, a))), a));
}

static tp_tensor *act_elu(tpi_onnx_op *o, tp_tensor *x)
{
    return below_zero(o, x, times(o, exp_less_one(o, x), tpi_onnx_float(o, "alpha", 1)));
}

static tp_tensor *act_gelu(tpi_onnx_op *o, tp_tensor *x)
{
    if (!tpi_onnx_text_is(o, "approximate", "tanh", "none"))
        return tp_gelu(x);
    tp_tensor *cube = times(o, tp_mul(x, tp_mul(x, x)), 0.044715);
    tp_tensor *t = tp_tanh(times(o, tp_add(x, cube), 0.7978845608028654));
    return tp_mul(times(o, x, 0.5), plus(o, t, 1));
}

static tp_tensor *act_hard_sigmoid(tpi_onnx_op *o, tp_tensor *x)
{
    const double a = tpi_onnx_float(o, "alpha", (double)0.2f);
    return tp_clip(plus(o, times(o, x, a), tpi_onnx_float(o, "beta", 0.5)), 0, 1);
}

static tp_tensor *act_hard_swish(tpi_onnx_op *o, tp_tensor *x)
{
    return tp_mul(x, tp_clip(plus(o, times(o, x, 1.0 / 6), 0.5), 0, 1));
}

static tp_tensor *act_leaky_relu(tpi_onnx_op *o, tp_tensor *x)
{
    return below_zero(o, x, times(o, x, tpi_onnx_float(o, "alpha", (double)0.01f)));
}

static tp_tensor *act_mish(tpi_onnx_op *o, tp_tensor *x)
{
    return tp_mul(x, tp_tanh(softplus(o, x)));
}

static tp_tensor *act_reciprocal(tpi_onnx_op *o, tp_tensor *x)
{
    return tp_div(tp_scalar_like(x, 1), x);
}

static tp_tensor *act_selu(tpi_onnx_op *o, tp_tensor *x)
{
    const double a = tpi_onnx_float(o, "alpha", 1.67326319217681884765625);
    const double gamma = tpi_onnx_float(o, "gamma", 1.05070102214813232421875);
    return times(o, below_zero(o, x, times(o, exp_less_one(o, x), a)), gamma);
}

static tp_tensor *act_shrink(tpi_onnx_op *o, tp_tensor *x)
{
    const double lambd = tpi_onnx_float(o, "lambd", 0.5), bias = tpi_onnx_float(o, "bias", 0);
    tp_tensor *zero = tp_scalar_like(x, 0);
    tp_tensor *high = tp_where(tp_gt(x, tp_scalar_like(x, lambd)), plus(o, x, -bias), zero);
    return tp_where(tp_lt(x, tp_scalar_like(x, -lambd)), plus(o, x, bias), high);
}

static tp_tensor *act_softsign(tpi_onnx_op *o, tp_tensor *x)
{
    return tp_div(x, plus(o, tp_abs(x), 1));
}

static tp_tensor *act_swish(tpi_onnx_op *o, tp_tensor *x)
{
    return tp_mul(x, tp_sigmoid(times(o, x, tpi_onnx_float(o, "alpha", 1))));
}

static tp_tensor *act_thresholded_relu(tpi_onnx_op *o, tp_tensor *x)
{
    tp_tensor *alpha = tp_scalar_like(x, tpi_onnx_float(o, "alpha", 1));
    return tp_where(tp_gt(x, alpha), x, tp_scalar_like(x, 0));
}

static const struct activation {
    const char *name;
    tp_tensor *(*apply)(tpi_onnx_op *o, tp_tensor *x);
} activations[] = {
    {"Celu",            act_celu            },
    {"Elu",             act_elu             },
    {"Gelu",            act_gelu            },
    {"HardSigmoid",     act_hard_sigmoid    },
    {"HardSwish",       act_hard_swish      },
    {"LeakyRelu",       act_leaky_relu      },
    {"Mish",            act_mish            },
    {"Reciprocal",      act_reciprocal      },
    {"Selu",            act_selu            },
    {"Shrink",          act_shrink          },
    {"Softplus",        softplus            },
    {"Softsign",        act_softsign        },
    {"Swish",           act_swish           },
    {"ThresholdedRelu", act_thresholded_relu},
};

bool tpi_onnx_import_activation(tpi_onnx_op *o)
{
    const struct activation *row = ROW(o, activations);
    return tpi_onnx_out(o, 0, row->apply(o, tpi_onnx_in(o, 0)));
}

/* The slope broadcasts to x; before operator set 7 it was one per channel, axis 1. */
bool tpi_onnx_import_prelu(tpi_onnx_op *o)
{
    tp_tensor *x = tpi_onnx_in(o, 0), *slope = tpi_onnx_in(o, 1);
    if (o->opset < 7 && tp_rank(slope) == 1)
        for (int i = 2; i < tp_rank(x); i++)
            slope = tp_unsqueeze(slope, i - 1);
    tp_tensor *in[2] = {slope, x};
    tpi_onnx_agree(o, 2, in, 0);
    return tpi_onnx_out(o, 0, below_zero(o, in[1], tp_mul(in[0], in[1])));
}

/* A bound: an attribute before operator set 11, then an operand, of which one number is read when
 * it is known. NULL: none. */
static tp_tensor *bound(tpi_onnx_op *o, tp_tensor *x, const char *name, int i, bool *ok)
{
    double v;
    if (o->opset < 11 && !tpi_onnx_attr_of(o, name))
        return NULL;
    if (o->opset < 11)
        return tp_scalar_like(x, tpi_onnx_float(o, name, 0));
    if (!tpi_onnx_has(o, i))
        return NULL;
    if (!tpi_onnx_is_known(o, i) || tp_dtype_of(x) < TP_F32)
        return tpi_onnx_in(o, i);
    *ok &= tpi_onnx_number_of(o, i, &v);
    return *ok ? tp_scalar_like(x, v) : NULL;
}

bool tpi_onnx_import_clip(tpi_onnx_op *o)
{
    tp_tensor *y = tpi_onnx_in(o, 0);
    bool ok = true;
    tp_tensor *lo = bound(o, y, "min", 1, &ok), *hi = ok ? bound(o, y, "max", 2, &ok) : NULL;
    if (!ok)
        return false;
    y = lo ? tp_max(y, lo) : y;
    return tpi_onnx_out(o, 0, hi ? tp_min(y, hi) : y);
}
