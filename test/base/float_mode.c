/* A host with another floating-point mode: the bits are those of the default one, by one thread and by
 * several, and the host finds its mode as it was. Between the calls the host computes nothing: with
 * exceptions unmasked any result that is rounded would end it. */
#include "base/float_mode.h"

#include "common/unit.h"
#include "tapir/tapir.h"

#include <fenv.h>

/* ---- modes ------------------------------------------------------------------------------------------ */

typedef struct host {
    const char *name;
    int64_t mode;
} host;

#if defined(__SSE2__)
enum { DAZ = 1 << 6, MASKS = 63 << 7, RC = 13, FTZ = 1 << 15 };
static const host hosts[] = {
    {"flush to zero",              MASKS | FTZ        },
    {"denormals are zero",         MASKS | DAZ        },
    {"both, as by -ffast-math",    MASKS | FTZ | DAZ  },
    {"downward",                   MASKS | 1 << RC    },
    {"upward",                     MASKS | 2 << RC    },
    {"toward zero",                MASKS | 3 << RC    },
    {"all exceptions unmasked",    0                  },
    {"unmasked, upward, both",     2 << RC | FTZ | DAZ},
    {"division and such unmasked", MASKS & ~(13 << 7) },
};

static int64_t mode_now(void)
{
    return tpi_float_mode_now() & TPI_FLOAT_CONTROL;
}

static void set_mode(int64_t mode)
{
    tpi_float_mode_set((tpi_float_mode)mode);
}
#elif defined(__aarch64__)
static const host hosts[] = {
    {"flush to zero",           1 << 24  },
    {"one NaN",                 1 << 25  },
    {"upward",                  1 << 22  },
    {"downward",                2 << 22  },
    {"toward zero",             3 << 22  },
    {"all exceptions unmasked", 0x1f << 8},
};

static int64_t mode_now(void)
{
    return (int64_t)tpi_float_mode_now();
}

static void set_mode(int64_t mode)
{
    tpi_float_mode_set((tpi_float_mode)mode);
}
#else
static const host hosts[] = {
    {"upward",      FE_UPWARD    },
    {"downward",    FE_DOWNWARD  },
    {"toward zero", FE_TOWARDZERO}
};

static int64_t mode_now(void)
{
    return fegetround();
}

static void set_mode(int64_t mode)
{
    fesetround((int)mode);
}
#endif

/* ---- what is computed ---------------------------------------------------------------------------------- */

enum { SIDE = 96, N = SIDE * 512, MOST_BYTES = 1 << 23 };

typedef struct record {
    size_t n;
    char bytes[MOST_BYTES];
} record;

static void keep(record *r, const void *p, size_t n)
{
    if (n > MOST_BYTES - r->n)
        fail_msg("no room for the results");
    memcpy(r->bytes + r->n, p, n);
    r->n += n;
}

static void keep_tensor(record *r, tp_tensor *t)
{
    t = tp_contiguous(t);
    if (tp_failed(t))
        fail_msg("%s", tp_error_text(t));
    keep(r, tp_data(t), (size_t)tp_count(t) * tp_dtype_size(tp_dtype_of(t)));
}

/* Rounds in many ways, and has subnormals, infinities and NaN on the way. */
static void chain(tp_tensor *x, tp_tensor *w, tp_tensor **out)
{
    tp_tensor *h = tp_add(tp_tanh(x), tp_exp(tp_mul(x, tp_scalar_like(x, -30))));
    h = tp_matmul(tp_reshape(h, TP_DIMS(-1, SIDE)), w);
    out[0] = tp_layer_norm(h, NULL, NULL, 1e-5);
    out[1] = tp_mul(x, tp_scalar_like(x, 1e-39));
    out[2] =
        tp_where(tp_gt(x, tp_scalar_like(x, 2.5)), tp_log(tp_neg(x)), tp_div(x, tp_relu(x)));
    out[3] = tp_sum(tp_mul(out[1], tp_scalar_like(x, 1e38)), TP_ALL, false);
}

enum { N_OUT = 4 };
static const char *const names[N_OUT] = {"normed", "tiny", "wild", "sum"};

/* It runs in the mode of who calls, which is told by *user. */
static void body(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    if (mode_now() != *(const int64_t *)user)
        fail_msg("a body does not find the mode of its caller");
    chain(in[0], in[1], out);
}

static void keep_all(record *r, tp_tensor **out)
{
    for (int i = 0; i < N_OUT; i++)
        keep_tensor(r, out[i]);
}

static void by_programs(tp_ctx *tp, tp_tensor *const *feeds, record *r)
{
    static const char *const feed_names[] = {"x", "w"};
    static const tp_engine engines[] = {TP_ENGINE_REFERENCE, TP_ENGINE_TILES, TP_ENGINE_C};
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *out[N_OUT];
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(N));
    tp_tensor *w = tp_placeholder(g, "w", TP_F32, TP_DIMS(SIDE, SIDE));
    chain(x, w, out);
    for (int i = 0; i < N_OUT; i++)
        tp_name(out[i], names[i]);
    for (int e = 0; e < 3; e++) {
        tp_program *p = tp_graph_compile(g, 2, feed_names, N_OUT, names,
                                         &(tp_compile_options){.engine = engines[e]});
        if (!p || tp_program_run(p, feeds, out) != TP_OK)
            fail_msg("%s", tp_error_message(tp));
        keep_all(r, out);
        tp_program_free(p);
    }
    char *text = tp_graph_text(g);
    tp_graph *again = tp_graph_parse(tp, text, strlen(text));
    keep(r, text, strlen(text));
    tp_free(tp, text);
    text = tp_graph_text(again);
    keep(r, text, strlen(text));
    tp_free(tp, text);
    tp_graph_free(again);
    tp_graph_free(g);
}

static void by_function(tp_ctx *tp, tp_tensor *const *in, bool pure, record *r)
{
    int64_t mode = mode_now();
    tp_function *f =
        tp_function_new(tp, "chain", body, &mode, &(tp_function_options){.pure = pure});
    for (int call = 0; call < 4; call++) {
        tp_tensor *out[N_OUT];
        tp_scope_begin(tp);
        if (tp_function_call(f, 2, in, N_OUT, out) != TP_OK)
            fail_msg("%s", tp_error_message(tp));
        if (call == 0 || call == 3)
            keep_all(r, out);
        tp_scope_end(tp);
    }
    tp_function_free(f);
}

static void by_training(tp_ctx *tp, record *r)
{
    tp_dense layer = tp_dense_new(tp_params_new(tp), "layer", 7, 5, NULL);
    tp_tensor *x = tp_normal(tp, TP_F32, TP_DIMS(3, 7), 0.1, 1.3);
    tp_tensor *params[] = {layer.w, layer.b};
    tp_optimizer *o = tp_adam_new(tp, 0.01, &(tp_adam_options){.decay = 0.1}, 2, params);
    for (int i = 0; i < 3; i++) {
        tp_tensor *y = tp_dropout(tp_dense_apply(&layer, x), 0.3);
        if (tp_failed(tp_optimizer_step(o, tp_mean(tp_square(y), TP_ALL, false))))
            fail_msg("%s", tp_error_message(tp));
    }
    keep_tensor(r, layer.w);
    keep_tensor(r, layer.b);
    for (int init = TP_INIT_FAN_IN; init <= TP_INIT_ORTHOGONAL; init++) {
        tp_initial(tp, (tp_init)init, 1e-310, TP_DIMS(3, 2), 3, 2); /* which f32 may not have */
        tp_clear_error(tp);
    }
    tp_optimizer_free(o);
}

static void same_of(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)user, (void)n_in, (void)n_out;
    out[0] = tp_mul(in[0], 1);
}

static void same_back(void *user, const tp_vjp *v)
{
    (void)user;
    v->din[0] = v->dout[0];
}

/* Numbers of C that are compared and told, and NaN among what is checked. */
static void by_mistakes(tp_ctx *tp, record *r)
{
    static const tp_custom rule = {
        .name = "same", .forward = same_of, .backward = same_back, .check = true};
    static const double tiny = -5e-324;
    tp_tensor *a = tp_full(tp, TP_F64, TP_DIMS(3, 2), 1),
              *b = tp_full(tp, TP_F64, TP_DIMS(3), 2);
    tp_tensor *nan = tp_require_grad(tp_log(tp_neg(b)));
    tp_lstsq(a, b, tiny);
    keep(r, tp_error_message(tp), strlen(tp_error_message(tp)));
    tp_clear_error(tp);
    tp_custom_apply(&rule, NULL, 1, &nan);
    const tp_status status = tp_error(tp);
    keep(r, &status, sizeof status);
    tp_clear_error(tp);
}

/* Contributions of many sizes, some of them subnormal, that add up in place. */
static void by_gradients(tp_ctx *tp, record *r)
{
    tp_tensor *x = tp_require_grad(tp_normal(tp, TP_F32, TP_DIMS(300), 0, 1));
    tp_tensor *sum = tp_mul(x, tp_scalar_like(x, 1e-39));
    for (int i = 0; i < 7; i++)
        sum = tp_add(sum, tp_mul(tp_sin(tp_mul(x, tp_scalar_like(x, i + 1))),
                                 tp_scalar_like(x, i % 2 ? 1e-39 : 3e-38)));
    if (tp_backward(tp_sum(sum, TP_ALL, false)) != TP_OK)
        fail_msg("%s", tp_error_message(tp));
    keep_tensor(r, tp_grad_of(x));
}

static void by_numbers(tp_ctx *tp, record *r)
{
    static const float tiny = 1e-42f;
    static const double tiny64 = 1e-310;
    keep_tensor(r, tp_arange(tp, TP_F32, 99, 0.1, 0.7));
    keep_tensor(r, tp_full(tp, TP_F32, TP_DIMS(3), 1e-41));
    const double back = tp_item(tp_tensor_new(tp, TP_F32, TP_SCALAR, &tiny));
    const bool truth = tp_truth(tp_tensor_new(tp, TP_F64, TP_SCALAR, &tiny64));
    keep(r, &back, sizeof back);
    keep(r, &truth, sizeof truth);
    char text[512];
    const size_t n = tp_format(tp_normal(tp, TP_F64, TP_DIMS(11), 0, 1e-5), text, sizeof text);
    keep(r, text, n < sizeof text ? n : sizeof text);
}

/* Everything, in a context opened in the mode of the moment: its threads are made in it. */
static void compute(int threads, record *r)
{
    r->n = 0;
    tp_ctx *tp = tp_open(&(tp_options){.seed = 5, .threads = threads});
    tp_tensor *in[] = {tp_normal(tp, TP_F32, TP_DIMS(N), 0, 2),
                       tp_normal(tp, TP_F32, TP_DIMS(SIDE, SIDE), 0, 1)};
    tp_tensor *out[N_OUT];
    chain(in[0], in[1], out);
    keep_all(r, out);
    by_programs(tp, in, r);
    by_function(tp, in, false, r);
    by_function(tp, in, true, r);
    by_training(tp, r);
    by_mistakes(tp, r);
    by_gradients(tp, r);
    by_numbers(tp, r);
    if (tp_error(tp) != TP_OK)
        fail_msg("%s", tp_error_message(tp));
    tp_close(tp);
}

/* The mode changes for the calls alone; false: the machine has none of the kind. */
static bool compute_in(const host *h, int threads, record *r)
{
    const int64_t before = mode_now();
    set_mode(h->mode);
    const int64_t set = mode_now();
    compute(threads, r);
    const int64_t after = mode_now();
    set_mode(before);
    if (after != set)
        fail_msg("%s: the mode was %#llx, and is %#llx", h->name, (unsigned long long)set,
                 (unsigned long long)after);
    return set == h->mode;
}

static void bits_and_mode_stay(void **state)
{
    (void)state;
    static record want, got;
    for (int threads = 1; threads <= 4; threads += 3) {
        compute(threads, &want);
        for (size_t k = 0; k < sizeof hosts / sizeof *hosts; k++) {
            if (!compute_in(&hosts[k], threads, &got))
                print_message("not on this machine: %s\n", hosts[k].name);
            size_t i = 0;
            while (i < want.n && i < got.n && want.bytes[i] == got.bytes[i])
                i++;
            if (want.n != got.n || i < want.n)
                fail_msg("%s, %d threads: byte %zu of %zu differs", hosts[k].name, threads, i,
                         want.n);
        }
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {cmocka_unit_test(bits_and_mode_stay)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
