/* Reductions, scans and composites against the recorded results of the ONNX project's own tests,
 * which NumPy made. Skipped where those are not present. */
#include "common/unit.h"
#include "tapir/nn.h"
#include "tapir/ops.h"

#define MAX_IN 6

typedef struct one_case {
    const char *name;
    tp_tensor *(*run)(const struct one_case *c, tp_tensor *const *in);
    int n_axes;
    int64_t axes[2];
    bool flag, reverse;
    tp_tensor *(*reduce)(const char *file, int line, tp_tensor *x, int n_axes,
                         const int64_t *axes, bool keep);
} one_case;

/* ---- TensorProto: dims 1, type 2, raw bytes 9 ------------------------------------------------- */

typedef struct bytes {
    const unsigned char *p, *end;
} bytes;

static uint64_t varint(bytes *b)
{
    uint64_t v = 0;
    for (int shift = 0; b->p < b->end && shift < 64; shift += 7) {
        v |= (uint64_t)(*b->p & 127) << shift;
        if (!(*b->p++ & 128))
            break;
    }
    return v;
}

static tp_tensor *parse(tp_ctx *tp, bytes b)
{
    static const int types[] = {[1] = TP_F32, [2] = TP_U8,  [3] = TP_I8,   [5] = TP_I16,
                                [6] = TP_I32, [7] = TP_I64, [9] = TP_BOOL, [11] = TP_F64};
    int64_t shape[TP_MAX_RANK];
    int rank = 0, type = 0;
    const void *raw = NULL;
    size_t n_raw = 0;
    while (b.p < b.end) {
        const uint64_t tag = varint(&b), value = varint(&b);
        if (tag >> 3 == 1 && rank < TP_MAX_RANK)
            shape[rank++] = (int64_t)value;
        else if (tag >> 3 == 2)
            type = (int)value;
        if ((tag & 7) == 2) {
            if (tag >> 3 == 9)
                raw = b.p, n_raw = (size_t)value;
            else if (tag >> 3 != 8)
                return NULL; /* values of a kind this reader does not know */
            b.p += value;
        }
    }
    const tp_dtype t = (tp_dtype)types[type];
    size_t want = tp_dtype_size(t);
    for (int i = 0; i < rank; i++)
        want *= (size_t)shape[i];
    return want == n_raw ? tp_tensor_new(tp, t, rank, shape, raw) : NULL;
}

static tp_tensor *load(tp_ctx *tp, const char *name, const char *kind, int i)
{
    static unsigned char data[1 << 16];
    char path[512];
    snprintf(path, sizeof path, "%s/onnx-backend-tests/node/%s/test_data_set_0/%s_%d.pb",
             getenv("TAPIR_SHARED") ? getenv("TAPIR_SHARED") : "../shared", name, kind, i);
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    const size_t n = fread(data, 1, sizeof data, f);
    fclose(f);
    return parse(tp, (bytes){data, data + n});
}

/* ---- how each case calls us -------------------------------------------------------------------- */

static tp_tensor *run_reduce(const one_case *c, tp_tensor *const *in)
{
    return c->reduce(__FILE__, __LINE__, in[0], c->n_axes, c->axes, c->flag);
}

static tp_tensor *run_argmax(const one_case *c, tp_tensor *const *in)
{
    return tp_argmax(in[0], (int)c->axes[0], c->flag);
}

static tp_tensor *run_argmin(const one_case *c, tp_tensor *const *in)
{
    return tp_argmin(in[0], (int)c->axes[0], c->flag);
}

static tp_tensor *run_cumsum(const one_case *c, tp_tensor *const *in)
{
    return tp_cumsum(in[0], (int)tp_item_i64(in[1]), c->flag, c->reverse);
}

static tp_tensor *run_softmax(const one_case *c, tp_tensor *const *in)
{
    return tp_softmax(in[0], (int)c->axes[0]);
}

static tp_tensor *run_log_softmax(const one_case *c, tp_tensor *const *in)
{
    return tp_log_softmax(in[0], (int)c->axes[0]);
}

static tp_tensor *run_cross_entropy(const one_case *c, tp_tensor *const *in)
{
    (void)c;
    return tp_cross_entropy(in[0], in[1]);
}

static tp_tensor *run_gelu(const one_case *c, tp_tensor *const *in)
{
    (void)c;
    return tp_gelu(in[0]);
}

static tp_tensor *run_silu(const one_case *c, tp_tensor *const *in)
{
    (void)c;
    return tp_silu(in[0]);
}

static tp_tensor *run_clip(const one_case *c, tp_tensor *const *in)
{
    (void)c;
    return tp_clip(in[0], tp_item(in[1]), tp_item(in[2]));
}

static tp_tensor *run_layer_norm(const one_case *c, tp_tensor *const *in)
{
    (void)c;
    return tp_layer_norm(in[0], in[1], in[2], 1e-5);
}

static tp_tensor *run_batch_norm(const one_case *c, tp_tensor *const *in)
{
    (void)c;
    return tp_batch_norm(in[0], in[1], in[2], in[3], in[4], 1e-5);
}

static tp_tensor *run_batch_norm_train(const one_case *c, tp_tensor *const *in)
{
    (void)c;
    return tp_batch_norm_train(in[0], in[1], in[2], NULL, NULL, 0.1, 1e-5);
}

#define REDUCE(op, short)                                                                      \
    {"test_reduce_" short "_do_not_keepdims_random", run_reduce, 1, {1}, false, false, op},    \
        {"test_reduce_" short "_keepdims_random", run_reduce, 1, {1}, true, false, op},        \
        {"test_reduce_" short "_default_axes_keepdims_random",                                 \
         run_reduce,                                                                           \
         0,                                                                                    \
         {0},                                                                                  \
         true,                                                                                 \
         false,                                                                                \
         op},                                                                                  \
        {"test_reduce_" short "_negative_axes_keepdims_random",                                \
         run_reduce,                                                                           \
         1,                                                                                    \
         {-2},                                                                                 \
         true,                                                                                 \
         false,                                                                                \
         op},                                                                                  \
    {                                                                                          \
        "test_reduce_" short "_empty_set", run_reduce, 1, {1}, true, false, op                 \
    }
#define ARG(op)                                                                                \
    {"test_" #op "_default_axis_random", run_##op, 1, {0}, true, false, NULL},                 \
        {"test_" #op "_keepdims_random", run_##op, 1, {1}, true, false, NULL},                 \
        {"test_" #op "_no_keepdims_random", run_##op, 1, {1}, false, false, NULL},             \
    {                                                                                          \
        "test_" #op "_negative_axis_keepdims_random", run_##op, 1, {-1}, true, false, NULL     \
    }
#define AXIS(name, run, axis)                                                                  \
    {                                                                                          \
        "test_" name, run, 1, {axis}, false, false, NULL                                       \
    }
#define CUMSUM(name, exclusive, reverse)                                                       \
    {                                                                                          \
        "test_cumsum_" name, run_cumsum, 0, {0}, exclusive, reverse, NULL                      \
    }

static const one_case cases[] = {
    REDUCE(tp_sum_at, "sum"),
    REDUCE(tp_prod_at, "prod"),
    REDUCE(tp_mean_at, "mean"),
    REDUCE(tp_reduce_max_at, "max"),
    REDUCE(tp_reduce_min_at, "min"),
    {"test_reduce_max_bool_inputs", run_reduce, 1, {1}, true, false, tp_reduce_max_at},
    {"test_reduce_min_bool_inputs", run_reduce, 1, {1}, true, false, tp_reduce_min_at},
    ARG(argmax),
    ARG(argmin),
    CUMSUM("1d", false, false),
    CUMSUM("1d_exclusive", true, false),
    CUMSUM("1d_int32_exclusive", true, false),
    CUMSUM("1d_reverse", false, true),
    CUMSUM("1d_reverse_exclusive", true, true),
    CUMSUM("2d_axis_0", false, false),
    CUMSUM("2d_int32", false, false),
    CUMSUM("2d_negative_axis", false, false),
    AXIS("softmax_axis_0", run_softmax, 0),
    AXIS("softmax_axis_1", run_softmax, 1),
    AXIS("softmax_axis_2", run_softmax, 2),
    AXIS("softmax_large_number", run_softmax, -1),
    AXIS("logsoftmax_axis_0", run_log_softmax, 0),
    AXIS("logsoftmax_axis_1", run_log_softmax, 1),
    AXIS("logsoftmax_axis_2", run_log_softmax, 2),
    AXIS("logsoftmax_large_number", run_log_softmax, -1),
    AXIS("sce_mean_log_prob", run_cross_entropy, 0),
    AXIS("gelu_default_1", run_gelu, 0),
    AXIS("gelu_default_2", run_gelu, 0),
    AXIS("swish", run_silu, 0),
    AXIS("clip", run_clip, 0),
    AXIS("clip_min_greater_than_max", run_clip, 0),
    AXIS("layer_normalization_4d_axis3", run_layer_norm, 0),
    AXIS("batchnorm_example", run_batch_norm, 0),
    AXIS("batchnorm_example_training_mode", run_batch_norm_train, 0),
};

/* ---- comparing -------------------------------------------------------------------------------------- */

/* NumPy rounds in another order: a few units in the last place of the largest element. */
static void compare(const char *name, const tp_tensor *want, const tp_tensor *got)
{
    if (tp_failed(got))
        fail_msg("%s: %s", name, tp_error_text(got));
    bool alike = want->dtype == got->dtype && want->rank == got->rank;
    for (int i = 0; alike && i < want->rank; i++)
        alike = want->shape[i] == got->shape[i];
    if (!alike)
        fail_msg("%s: %s %s, not %s %s", name, tp_dtype_name(tp_dtype_of(got)), SHAPE(got),
                 tp_dtype_name(tp_dtype_of(want)), SHAPE(want));
    const size_t size = tp_dtype_size(tp_dtype_of(want));
    const char *p = tp_data(want), *q = tp_data(got);
    double most = 0;
    for (int64_t i = 0; i < tpi_count(want); i++) {
        const double v = __builtin_fabs(tpi_load_f64(tp_dtype_of(want), p + (size_t)i * size));
        most = v > most && v < 1e300 ? v : most;
    }
    const double bound = want->dtype < TP_F32 ? 0 : want->dtype == TP_F32 ? 4e-7 : 1e-15;
    for (int64_t i = 0; i < tpi_count(want); i++) {
        const double a = tpi_load_f64(tp_dtype_of(want), p + (size_t)i * size);
        const double b = tpi_load_f64(tp_dtype_of(want), q + (size_t)i * size);
        if (!(a == b || (a != a && b != b) || __builtin_fabs(a - b) <= bound * most))
            fail_msg("%s: element %lld of %s is %.17g, not %.17g", name, (long long)i,
                     SHAPE(want), b, a);
    }
}

static void recorded(void **state)
{
    tp_ctx *tp = *state;
    int ran = 0, missing = 0;
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        const one_case *c = &cases[k];
        tp_scope_begin(tp);
        tp_tensor *in[MAX_IN] = {NULL};
        for (int i = 0; i < MAX_IN; i++)
            in[i] = load(tp, c->name, "input", i);
        const tp_tensor *want = load(tp, c->name, "output", 0);
        if (in[0] && want) {
            compare(c->name, want, c->run(c, in));
            ran++;
        } else {
            missing++;
        }
        tp_scope_end(tp);
    }
    if (ran == 0) {
        print_message("skipped: no onnx-backend-tests in TAPIR_SHARED\n");
        skip();
    }
    print_message("%d cases, %d not there\n", ran, missing);
}

/* ONNX moves the running variance by the population's; we by the sample's, n / (n - 1) of it. */
static void running_statistics(void **state)
{
    tp_ctx *tp = *state;
    const char *name = "test_batchnorm_example_training_mode";
    tp_tensor *in[5];
    for (int i = 0; i < 5; i++)
        in[i] = load(tp, name, "input", i);
    if (!in[0]) {
        print_message("skipped: no case %s in TAPIR_SHARED\n", name);
        skip();
    }
    tp_tensor *mean = tp_variable(in[3], "mean"), *var = tp_variable(in[4], "var");
    tp_tensor *y = tp_batch_norm_train(in[0], in[1], in[2], mean, var, 0.1, 1e-5);
    compare(name, load(tp, name, "output", 0), y);
    compare(name, load(tp, name, "output", 1), mean);
    const double n = 2 * 4 * 5;
    tp_tensor *kept = tp_mul(in[4], tp_scalar(tp, TP_F32, 0.9));
    tp_tensor *moved = tp_sub(load(tp, name, "output", 2), kept);
    moved = tp_add(kept, tp_mul(moved, tp_scalar(tp, TP_F32, n / (n - 1))));
    compare(name, moved, var);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {CASE(recorded), CASE(running_statistics)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
