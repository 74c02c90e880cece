/* The state of a training in a file. */
#include "common/unit.h"
#include "tapir/tapir.h"

#include <unistd.h>

#define FILE_NAME "nn_state.safetensors"

/* ---- files as bytes ---------------------------------------------------------------------------------- */

static void write_file(const char *path, const void *bytes, size_t n)
{
    unlink(path); /* some disks wait when a file is emptied and written anew */
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static size_t read_file(const char *path, char *bytes, size_t size)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t n = fread(bytes, 1, size, f);
    fclose(f);
    assert_true(n < size);
    return n;
}

/* A file of a header and data, with the header's length in front. */
static void write_parts(const char *path, const char *header, const void *data, size_t n)
{
    char bytes[4096] = {0};
    const size_t length = strlen(header);
    assert_true(8 + length + n <= sizeof bytes);
    for (int i = 0; i < 8; i++)
        bytes[i] = (char)((uint64_t)length >> (8 * i));
    memcpy(bytes + 8, header, length);
    if (n)
        memcpy(bytes + 8 + length, data, n);
    write_file(path, bytes, 8 + length + n);
}

/* The host's bytes as the file has them. */
static void little(void *p, size_t size)
{
    const uint16_t one = 1;
    char *c = p, turned[8];
    if (*(const char *)&one)
        return;
    for (size_t i = 0; i < size; i++)
        turned[i] = c[size - 1 - i];
    memcpy(c, turned, size);
}

static tp_tensor *variable(tp_ctx *tp, const char *name, tp_dtype dtype, int rank,
                           const int64_t *shape)
{
    return tp_variable(tp_full(tp, dtype, rank, shape, 0), name);
}

static float number_at(tp_tensor *t, int i)
{
    return ((const float *)tp_data(t))[i];
}

/* ---- round trips ------------------------------------------------------------------------------------- */

static const char *const odd_names[TP_N_DTYPES] = {"a",
                                                   "a.b.c",
                                                   "quoted \"\\\"",
                                                   "\n\t\x01",
                                                   "\xc3\xa9\xe2\x82\xac\xf0\x9f\x90\x97",
                                                   "{}",
                                                   "b",
                                                   "c",
                                                   "d",
                                                   "e",
                                                   "random.w"};

static void add_all(tp_ctx *tp, tp_state *s, tp_tensor **v, int64_t *counter)
{
    for (int d = 0; d < TP_N_DTYPES; d++) {
        v[d] = variable(tp, odd_names[d], (tp_dtype)d, d % 4, (const int64_t[]){3, 2, 5});
        assert_int_equal(tp_state_add(s, NULL, v[d]), TP_OK);
    }
    v[TP_N_DTYPES] = variable(tp, "empty", TP_F32, TP_DIMS(4, 0));
    assert_int_equal(tp_state_add(s, NULL, v[TP_N_DTYPES]), TP_OK);
    assert_int_equal(tp_state_add_counter(s, "steps", counter), TP_OK);
    assert_int_equal(tp_state_add_random(s), TP_OK);
}

/* All types, NaNs and whatever bits, names of whatever characters. */
static void round_trip(void **state)
{
    tp_ctx *tp = *state, *other = tp_open(NULL);
    tp_tensor *a[TP_N_DTYPES + 1], *b[TP_N_DTYPES + 1];
    int64_t steps = INT64_MIN, read = 0;
    tp_state *s = tp_state_new(tp), *t = tp_state_new(other);
    add_all(tp, s, a, &steps);
    add_all(other, t, b, &read);
    uint64_t random = 7, seed, position;
    for (int d = 0; d < TP_N_DTYPES; d++) /* into the variables' own memory */
        for (size_t i = 0; i < tpi_bytes(a[d]); i++)
            a[d]->data[i] = (char)(unit_random(&random) & (d == TP_BOOL ? 1 : 255));
    tp_set_random_position(tp, UINT64_MAX, 12345678901);
    for (uint64_t i = 0; i < 40; i++) { /* of which each fifth has drawn nothing */
        tp_random_stream(tp, UINT64_MAX - 1 - i * i);
        tp_set_random_position(tp, UINT64_MAX, i % 5 ? UINT64_MAX - i : 0);
    }
    tp_random_stream(other, 5);
    tp_set_random_position(other, 1, 2);
    tp_random_stream(other, 0);
    assert_int_equal(tp_state_save(s, FILE_NAME), TP_OK);
    assert_int_equal(tp_state_load(t, FILE_NAME, NULL), TP_OK);
    for (int d = 0; d < TP_N_DTYPES; d++)
        assert_memory_equal(tp_data(a[d]), tp_data(b[d]), tpi_bytes(a[d]));
    assert_true(read == INT64_MIN);
    tp_random_position(other, &seed, &position);
    assert_true(seed == UINT64_MAX && position == 12345678901);
    for (uint64_t i = 0; i < 41; i++) {
        tp_random_stream(other, i < 40 ? UINT64_MAX - 1 - i * i : 5);
        tp_random_position(other, &seed, &position);
        assert_true(seed == UINT64_MAX && position == (i % 5 && i < 40 ? UINT64_MAX - i : 0));
    }
    tp_state_free(s);
    tp_state_free(NULL);
    tp_close(other); /* frees t */
}

/* The bytes that Python's library writes for the same tensors and metadata. */
static void bytes_written(void **state)
{
    tp_ctx *tp = *state;
    static const char header[] =
        "{\"__metadata__\":{\"step\":\"-7\"},"
        "\"w\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
        "\"a\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[8,11]},"
        "\"b\":{\"dtype\":\"BOOL\",\"shape\":[],\"data_offsets\":[11,12]}}";
    int64_t step = -7;
    tp_state *s = tp_state_new(tp);
    tp_state_add(s, "b", tp_variable(tp_full(tp, TP_BOOL, TP_SCALAR, 1), "x"));
    tp_state_add(s, "a", tp_variable(tp_full(tp, TP_U8, TP_DIMS(3), 9), "y"));
    tp_state_add(s, "w", tp_variable(tp_full(tp, TP_F32, TP_DIMS(2, 1), 1), "z"));
    assert_int_equal(tp_state_add_counter(s, "step", &step), TP_OK);
    assert_int_equal(tp_state_save(s, FILE_NAME), TP_OK);
    char got[1000];
    const size_t n = read_file(FILE_NAME, got, sizeof got);
    const size_t length = sizeof header - 1, padded = (length + 7) / 8 * 8;
    assert_int_equal(n, 8 + padded + 12);
    const char start[8] = {(char)padded};
    assert_memory_equal(got, start, 8);
    assert_memory_equal(got + 8, header, length);
    for (size_t i = length; i < padded; i++)
        assert_int_equal(got[8 + i], ' ');
    assert_memory_equal(got + 8 + padded, "\0\0\x80\x3f\0\0\x80\x3f\x09\x09\x09\x01", 12);
}

/* What others may write: any order, spaces, escapes, floats of 16 bits, texts of their own. */
static void bytes_read(void **state)
{
    tp_ctx *tp = *state;
    uint16_t data[] = {0x3c00, 0xc000, 0x3f80, 0x0201};
    for (int i = 0; i < 3; i++)
        little(&data[i], 2);
    memcpy(&data[3], "\1\2", 2);
    write_parts(FILE_NAME,
                "{ \"flags\" : {\"shape\":[ 2 ] ,\"data_offsets\":[6, 8],\"dtype\":\"BOOL\"},\n"
                "\"\\u00e9\\ud83d\\udc17\\/\":{\"dtype\":\"F16\",\"shape\":[2],"
                "\"data_offsets\":[0,4]},\t\"bf\":{\"dtype\":\"BF16\",\"shape\":[],"
                "\"data_offsets\":[4,6]},\"__metadata__\":{\"format\":\"pt\"}}   ",
                data, sizeof data);
    tp_tensor *f = variable(tp, "\xc3\xa9\xf0\x9f\x90\x97/", TP_F32, TP_DIMS(2)),
              *bf = variable(tp, "bf", TP_F32, TP_SCALAR),
              *flags = variable(tp, "flags", TP_BOOL, TP_DIMS(2));
    tp_state *s = tp_state_new(tp);
    tp_state_add(s, NULL, f);
    tp_state_add(s, NULL, bf);
    tp_state_add(s, NULL, flags);
    assert_int_equal(tp_state_load(s, FILE_NAME, NULL), TP_OK);
    assert_true(number_at(f, 0) == 1 && number_at(f, 1) == -2 && number_at(bf, 0) == 1);
    assert_memory_equal(tp_data(flags), "\1\1", 2);
}

/* ---- a training that goes on -------------------------------------------------------------------------- */

typedef struct training {
    tp_params *p;
    tp_dense l1, l2;
    tp_optimizer *o;
    tp_state *s;
    int64_t step;
} training;

static void begin(tp_ctx *tp, training *t)
{
    *t = (training){.p = tp_params_new(tp), .s = tp_state_new(tp)};
    t->l1 = tp_dense_new(t->p, "first", 5, 8, NULL);
    t->l2 = tp_dense_new(tp_params_part(t->p, "head"), "last", 8, 1, NULL);
    t->o = tp_adam_new(tp, 0.01, NULL, TP_TRAINED(t->p));
    assert_int_equal(tp_state_add_params(t->s, NULL, t->p), TP_OK);
    assert_int_equal(tp_state_add_optimizer(t->s, "optimizer", t->o), TP_OK);
    assert_int_equal(tp_state_add_counter(t->s, "step", &t->step), TP_OK);
    assert_int_equal(tp_state_add_random(t->s), TP_OK);
}

static void ten_steps(tp_ctx *tp, training *t)
{
    for (int i = 0; i < 10; i++, t->step++) {
        tp_scope_begin(tp);
        tp_tensor *x = tp_normal(tp, TP_F32, TP_DIMS(6, 5), 0, 1);
        tp_tensor *h = tp_dropout(tp_relu(tp_dense_apply(&t->l1, x)), 0.5);
        tp_tensor *loss = tp_mean(tp_square(tp_sub(tp_dense_apply(&t->l2, h), (double)t->step)),
                                  TP_ALL, false);
        assert_false(tp_failed(tp_optimizer_step(t->o, loss)));
        tp_scope_end(tp);
    }
}

static void goes_on(void **state)
{
    tp_ctx *tp = *state, *other = tp_open(&(tp_options){.seed = 99});
    training a, b;
    begin(tp, &a);
    ten_steps(tp, &a);
    assert_int_equal(tp_state_save(a.s, FILE_NAME), TP_OK);
    ten_steps(tp, &a);
    begin(other, &b); /* with other weights at first */
    assert_int_equal(tp_state_load(b.s, FILE_NAME, NULL), TP_OK);
    assert_int_equal(b.step, 10);
    ten_steps(other, &b);
    for (int i = 0; i < tp_params_n(a.p); i++) {
        tp_tensor *x = tp_params_tensor(a.p, i), *y = tp_params_tensor(b.p, i);
        assert_memory_equal(tp_data(x), tp_data(y), tpi_bytes(x));
    }
    for (int i = 0; i < tp_optimizer_n_state(a.o); i++) {
        tp_tensor *x = tp_optimizer_state(a.o, i), *y = tp_optimizer_state(b.o, i);
        assert_memory_equal(tp_data(x), tp_data(y), tpi_bytes(x));
    }
    tp_close(other);
}

/* L-BFGS, and a loss scale whose steps are not all taken. */
typedef struct fit {
    tp_tensor *w[2];
    tp_lbfgs *l;
    tp_optimizer *o;
    tp_loss_scale *scale;
    tp_state *s;
} fit;

static void begin_fit(tp_ctx *tp, fit *f)
{
    const tp_loss_scale_options few = {.turns = 2, .first = 0x1p127};
    f->w[0] = tp_param(tp_scalar(tp, TP_F32, -1.2), "u");
    f->w[1] = tp_param(tp_scalar(tp, TP_F32, 1), "v");
    f->l = tp_lbfgs_new(tp, &(tp_lbfgs_options){.turns = 2, .history = 3}, 2, f->w);
    f->o = tp_adam_new(tp, 0.01, NULL, 2, f->w);
    f->scale = tp_loss_scale_new(tp, &few);
    f->s = tp_state_new(tp);
    assert_int_equal(tp_state_add_variables(f->s, NULL, 2, f->w), TP_OK);
    assert_int_equal(tp_state_add_lbfgs(f->s, NULL, f->l), TP_OK);
    assert_int_equal(tp_state_add_optimizer(f->s, NULL, f->o), TP_OK);
    assert_int_equal(tp_state_add_loss_scale(f->s, "loss", f->scale), TP_OK);
}

static tp_tensor *valley(void *user)
{
    fit *f = user;
    tp_tensor *b = tp_sub(f->w[1], tp_square(f->w[0]));
    return tp_add(tp_square(tp_sub(1, f->w[0])), tp_mul(tp_square(b), 100));
}

static int fit_on(tp_ctx *tp, fit *f)
{
    int taken = 0;
    for (int i = 0; i < 5; i++) {
        tp_scope_begin(tp);
        tp_tensor *g[2];
        tp_lbfgs_step(f->l, valley, f);
        tp_grads(tp_loss_scale_apply(f->scale, tp_mul(tp_add(valley(f), f->w[0]), 8)), NULL, 2,
                 f->w, g);
        tp_tensor *finite = tp_loss_scale_unscale(f->scale, 2, g, g);
        taken += tp_truth(tp_optimizer_apply_when(f->o, g, finite));
        tp_loss_scale_update(f->scale, finite);
        tp_scope_end(tp);
    }
    assert_string_equal(tp_error_message(tp), "");
    return taken;
}

static void fits_go_on(void **state)
{
    tp_ctx *tp = *state, *other = tp_open(NULL);
    fit a, b;
    begin_fit(tp, &a);
    int taken = fit_on(tp, &a);
    assert_int_equal(tp_state_save(a.s, FILE_NAME), TP_OK);
    taken += fit_on(tp, &a);
    assert_true(taken > 0 && taken < 10);
    begin_fit(other, &b);
    assert_int_equal(tp_state_load(b.s, FILE_NAME, NULL), TP_OK);
    fit_on(other, &b);
    for (int i = 0; i < 4; i++) {
        tp_tensor *x = i < 2 ? a.w[i] : tp_loss_scale_state(a.scale, i - 2),
                  *y = i < 2 ? b.w[i] : tp_loss_scale_state(b.scale, i - 2);
        assert_memory_equal(tp_data(x), tp_data(y), tpi_bytes(x));
    }
    for (int i = 0; i < tp_lbfgs_n_state(a.l); i++) {
        tp_tensor *x = tp_lbfgs_state(a.l, i), *y = tp_lbfgs_state(b.l, i);
        assert_memory_equal(tp_data(x), tp_data(y), tpi_bytes(x));
    }
    tp_archive *in = tp_archive_open(tp, FILE_NAME);
    assert_non_null(tp_archive_find(in, "loss.loss_scale.turns"));
    assert_non_null(tp_archive_find(in, "lbfgs.rho"));
    tp_lbfgs_free(a.l);
    tp_optimizer_free(a.o);
    tp_loss_scale_free(a.scale);
    tp_close(other);
}

/* An error has the line of the call. */
static void lines_of_errors(void **state)
{
    tp_ctx *tp = *state;
    for (int i = 0; i < 6; i++) {
        tp_state *s = tp_state_new(tp);
        if (i == 0)
            tp_state_add_params(s, NULL, NULL);
        if (i == 1)
            tp_state_add_optimizer(s, NULL, NULL);
        if (i == 2)
            tp_state_add_lbfgs(s, NULL, NULL);
        if (i == 3)
            tp_state_add_loss_scale(s, NULL, NULL);
        if (i == 4)
            tp_state_add_average(s, NULL, NULL);
        if (i == 5)
            tp_state_add_gradient_sum(s, NULL, NULL);
        const int line = __LINE__ - 11 + 2 * i;
        char place[40];
        snprintf(place, sizeof place, "nn_state.c:%d: ", line);
        if (!strstr(tp_error_message(tp), place))
            fail_msg("no %s in \"%s\"", place, tp_error_message(tp));
        tp_clear_error(tp);
        tp_state_free(s);
    }
}

/* Means of parameters, sums of gradients, and variables of one's own. */
static void beside_parameters(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *w = tp_param(tp_full(tp, TP_F32, TP_DIMS(2), 3), "w"), *sum[1], *own[2];
    tp_average *a = tp_average_new(tp, 0.5, 1, &w);
    tp_gradient_sum *g = tp_gradient_sum_new(tp, 1, &w);
    for (int i = 0; i < 2; i++)
        own[i] = variable(tp, i ? "scale" : "since", TP_F64, TP_SCALAR);
    tp_state *s = tp_state_new(tp);
    assert_int_equal(tp_state_add(s, NULL, w), TP_OK);
    assert_int_equal(tp_state_add_average(s, "mean", a), TP_OK);
    assert_int_equal(tp_state_add_gradient_sum(s, NULL, g), TP_OK);
    assert_int_equal(tp_state_add_variables(s, "loss", 2, own), TP_OK);
    tp_gradient_sum_add(g, tp_mul(w, w), 1); /* 6 */
    tp_assign(own[1], tp_scalar(tp, TP_F64, 1024));
    assert_int_equal(tp_state_save(s, FILE_NAME), TP_OK);
    tp_archive *in = tp_archive_open(tp, FILE_NAME);
    static const char *const names[] = {"loss.scale", "loss.since", "mean.w.mean", "w",
                                        "w.sum"};
    assert_int_equal(tp_archive_n(in), 5);
    for (int i = 0; i < 5; i++)
        assert_string_equal(tp_archive_entry_of(in, i)->name, names[i]);
    tp_assign(w, tp_mul(w, 5));
    tp_average_update(a, NULL);
    tp_gradient_sum_take(g, NULL, sum);
    tp_assign(own[1], tp_scalar(tp, TP_F64, 2));
    assert_int_equal(tp_state_load(s, FILE_NAME, NULL), TP_OK);
    tp_gradient_sum_take(g, NULL, sum);
    assert_true(number_at(sum[0], 1) == 6 && tp_item(own[1]) == 1024);
    assert_int_equal(tp_average_swap(a), TP_OK);
    assert_true(number_at(w, 0) == 3);
}

/* What a gradient was recorded with, and a program took for constant, is not what is there after a load. */
static void written_like_assigned(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *w = tp_param(tp_full(tp, TP_F32, TP_DIMS(2), 3), "w");
    tp_state *s = tp_state_new(tp);
    tp_state_add(s, NULL, w);
    assert_int_equal(tp_state_save(s, FILE_NAME), TP_OK);
    tp_tensor *loss = tp_sum(tp_mul(w, w), TP_ALL, false);
    assert_int_equal(tp_state_load(s, FILE_NAME, NULL), TP_OK);
    assert_int_not_equal(tp_backward(loss), TP_OK);
    tp_clear_error(tp);
}

/* ---- names ------------------------------------------------------------------------------------------- */

static void names_refused(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *w = variable(tp, "w", TP_F32, TP_DIMS(2)),
              *v = variable(tp, "w", TP_I8, TP_DIMS(2));
    int64_t counter = 1;
    tp_state *s = tp_state_new(tp);
    assert_int_equal(tp_state_add(s, NULL, w), TP_OK);
    assert_int_equal(tp_state_save(s, FILE_NAME), TP_OK);
    assert_int_equal(tp_state_add(s, NULL, v), TP_E_NAME);
    EXPECT_ERROR(tp, TP_E_NAME, "tp_state_add: the state has a \"w\" already");
    assert_int_equal(tp_state_add(s, "u", w), TP_E_NAME);
    EXPECT_ERROR(tp, TP_E_NAME, "tp_state_add: the state has this variable already, as \"w\"");
    assert_int_equal(tp_state_add_counter(s, "w", &counter), TP_E_NAME);
    assert_int_equal(tp_state_add_counter(s, "", &counter), TP_E_NAME);
    assert_int_equal(tp_state_add_counter(s, "\xff", &counter), TP_E_NAME);
    assert_int_equal(tp_state_add_counter(s, "__metadata__", &counter), TP_E_NAME);
    assert_int_equal(tp_state_add(s, "x", tp_full(tp, TP_F32, TP_DIMS(2), 1)), TP_E_STATE);
    assert_int_equal(tp_state_add(s, "x", tp_reshape(v, TP_DIMS(2, 1))), TP_E_STATE);
    tp_clear_error(tp);
    /* what could not be added spoils it */
    assert_int_equal(tp_state_save(s, FILE_NAME), TP_E_STATE);
    EXPECT_ERROR(tp, TP_E_STATE,
                 "tp_state_save: the state lacks what could not be added to it");
    assert_int_equal(tp_state_load(s, FILE_NAME, NULL), TP_E_STATE);
    tp_clear_error(tp);
}

static void mismatches(void **state)
{
    tp_ctx *tp = *state;
    tp_state *s = tp_state_new(tp), *t = tp_state_new(tp);
    int64_t n = 1, m = 2;
    tp_tensor *w = variable(tp, "w", TP_F32, TP_DIMS(2)),
              *same = variable(tp, "same", TP_F32, TP_DIMS(1));
    tp_state_add(s, "w", variable(tp, "w", TP_F32, TP_DIMS(2, 3)));
    tp_state_add(s, "u", variable(tp, "u", TP_I64, TP_SCALAR));
    tp_state_add(s, "same", tp_variable(tp_full(tp, TP_F32, TP_DIMS(1), 5), "same"));
    tp_state_add(s, "more", variable(tp, "u", TP_F32, TP_DIMS(2)));
    tp_state_add_counter(s, "n", &n);
    assert_int_equal(tp_state_save(s, FILE_NAME), TP_OK);
    tp_state_add(t, "w", w);
    tp_state_add(t, "u", variable(tp, "u", TP_F32, TP_SCALAR));
    tp_state_add(t, "same", same);
    tp_state_add(t, "gone", variable(tp, "gone", TP_F32, TP_SCALAR));
    tp_state_add_counter(t, "n", &m);
    tp_state_add_random(t);
    assert_int_equal(tp_state_load(t, FILE_NAME, NULL), TP_E_NAME);
    EXPECT_ERROR(
        tp, TP_E_NAME,
        "tp_state_load: what " FILE_NAME
        " has does not fit: missing: gone, random; of another type or shape: u is I64 [] and "
        "should be f32 [], w is F32 [2, 3] and should be f32 [2]; too much: more");
    assert_true(number_at(same, 0) == 0 && m == 2);
    assert_int_equal(tp_state_load(t, FILE_NAME, "s*"), TP_OK);
    assert_true(number_at(same, 0) == 5 && m == 2);
    assert_int_equal(tp_state_load(t, FILE_NAME, "n"), TP_OK);
    assert_int_equal(m, 1);
    assert_int_equal(tp_state_load(t, FILE_NAME, "sam"), TP_E_NAME);
    EXPECT_ERROR(tp, TP_E_NAME, "tp_state_load: nothing of the state has a name like \"sam\"");
    assert_int_equal(tp_state_load(t, "no-such-file", NULL), TP_E_IO);
    tp_clear_error(tp);
}

static void patterns(void **state)
{
    tp_ctx *tp = *state;
    static const char *const names[] = {"encoder.w", "encoder.b", "decoder.w", "encoder"};
    static const struct {
        const char *pattern;
        unsigned fits; /* a bit for each name */
    } cases[] = {
        {"*",         15},
        {"encoder.*", 3 },
        {"*.w",       5 },
        {"*coder*",   15},
        {"e*r.*b",    2 },
        {"**",        15},
        {"encoder",   8 },
        {"*e*.*w*",   5 },
        {"decoder.*", 4 },
    };
    tp_state *s = tp_state_new(tp);
    tp_tensor *v[4];
    for (int i = 0; i < 4; i++) {
        v[i] = tp_variable(tp_full(tp, TP_F32, TP_DIMS(1), 1), names[i]);
        tp_state_add(s, NULL, v[i]);
    }
    assert_int_equal(tp_state_save(s, FILE_NAME), TP_OK);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        for (int i = 0; i < 4; i++)
            tp_assign(v[i], tp_full(tp, TP_F32, TP_DIMS(1), 0));
        assert_int_equal(tp_state_load(s, FILE_NAME, cases[k].pattern), TP_OK);
        for (int i = 0; i < 4; i++)
            assert_int_equal((int)number_at(v[i], 0), cases[k].fits >> i & 1);
    }
}

/* ---- hostile files ------------------------------------------------------------------------------------ */

#define W(type, shape, offsets)                                                                \
    "{\"w\":{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static void malformed(void **state)
{
    tp_ctx *tp = *state;
    static const char *const headers[] = {
        "",
        "{",
        "[]",
        "{}",
        "{\"w\"}",
        "{\"w\":{}}",
        W("F32", "[2]", "[0,8]") "x",
        W("F32", "[2", "[0,8]"),
        W("F32", "[-2]", "[0,8]"),
        W("F32", "[02]", "[0,8]"),
        W("F32", "[2.0]", "[0,8]"),
        W("F32", "[3]", "[0,8]"),
        W("F32", "[1]", "[0,4]"),
        W("F32", "[1]", "[4,8]"),
        W("F32", "[2]", "[8,0]"),
        W("F32", "[2]", "[0,8,9]"),
        W("F32", "[4294967296,4294967296]", "[0,8]"),
        W("F32", "[99999999999999999999]", "[0,8]"),
        W("F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]"),
        W("F32", "[2],\"shape\":[2]", "[0,8]"),
        W("F32", "[2],\"more\":[2]", "[0,8]"),
        W("F32", "[2]", "[0,8]},\"v\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]"),
        W("F32", "[2]", "[0,8]},\"w\":{\"dtype\":\"F32\",\"shape\":[0],\"data_offsets\":[8,8]"),
        W("F32", "[2]", "[0,8]},\"__metadata__\":{\"a\":\"1\",\"a\":\"2\""),
        W("F32", "[2]", "[0,8]},\"__metadata__\":{},\"__metadata__\":{"),
        W("F32", "[2]", "[0,8]},\"__metadata__\":{\"a\":1"),
        W("F32", "[2]", "[0,8]},\"__metadata__\":{\"\\ud800\":\"1\""),
        W("F32", "[2]", "[0,8]},\"__metadata__\":{\"\\u0000\":\"1\""),
        W("F32", "[2]", "[0,8]},\"__metadata__\":{\"\\q\":\"1\""),
        W("F32", "[2]", "[0,8]},\"__metadata__\":{\"\xff\":\"1\""),
        W("F32", "[2]", "[0,8]},\"__metadata__\":{\"a\nb\":\"1\""),
        W("F32", "[2]", "[0,8]},\"__metadata__\":{\"a\":\"1\","),
    };
    tp_tensor *w = tp_variable(tp_full(tp, TP_F32, TP_DIMS(2), 3), "w");
    tp_state *s = tp_state_new(tp);
    tp_state_add(s, NULL, w);
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        write_parts(FILE_NAME, headers[i], "\0\0\0\0\0\0\0\0", 8);
        const tp_status status = tp_state_load(s, FILE_NAME, NULL);
        if (status != TP_E_FORMAT)
            fail_msg("%s: %s", headers[i], tp_status_name(status));
        tp_clear_error(tp);
    }
    write_parts(FILE_NAME, W("F8_E4M3", "[2]", "[0,8]"), "\0\0\0\0\0\0\0\0", 8);
    assert_int_equal(tp_state_load(s, FILE_NAME, NULL), TP_E_NAME);
    EXPECT_ERROR(tp, TP_E_NAME,
                 "tp_state_load: what " FILE_NAME
                 " has does not fit: of another type or shape: w "
                 "is F8_E4M3 [2] and should be f32 [2]");
    write_parts(FILE_NAME, W("F32", "[2]", "[0,8]"), "\0\0\0\0\0\0\0\0", 9);
    assert_int_equal(tp_state_load(s, FILE_NAME, NULL), TP_E_FORMAT);
    EXPECT_ERROR(tp, TP_E_FORMAT,
                 "tp_state_load: " FILE_NAME ": its tensors have 8 bytes, 9 are there");
    write_file(FILE_NAME, "step 12, loss 0.25\n", 19);
    assert_int_equal(tp_state_load(s, FILE_NAME, NULL), TP_E_FORMAT);
    EXPECT_ERROR(tp, TP_E_FORMAT,
                 "tp_state_load: " FILE_NAME ": it is neither a safetensors file nor an npz, "
                 "which tp_state_save and tp_archive_save write");
    assert_true(number_at(w, 0) == 3);
    write_file(FILE_NAME, "\xff\xff\xff\xff\xff\xff\xff\xff{}", 10);
    assert_int_equal(tp_state_load(s, FILE_NAME, NULL), TP_E_FORMAT);
    write_file(FILE_NAME, "", 0);
    assert_int_equal(tp_state_load(s, FILE_NAME, NULL), TP_E_FORMAT);
    tp_clear_error(tp);
}

/* A text of a counter or of random numbers is no such number. */
static void malformed_counters(void **state)
{
    tp_ctx *tp = *state;
    static const char *const texts[] = {
        "", "x", "1x", "9223372036854775808", "- 1", "1 ", "1 18446744073709551616"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char header[200];
        int64_t n = 4;
        snprintf(header, sizeof header, "{\"__metadata__\":{\"n\":\"%s\",\"random\":\"%s\"}}",
                 texts[i], texts[i]);
        write_parts(FILE_NAME, header, NULL, 0);
        tp_state *s = tp_state_new(tp);
        tp_state_add_counter(s, "n", &n);
        tp_state_add_random(s);
        assert_int_equal(tp_state_load(s, FILE_NAME, "n"), TP_E_FORMAT);
        assert_int_equal(tp_state_load(s, FILE_NAME, "random"), TP_E_FORMAT);
        assert_int_equal(n, 4);
        tp_clear_error(tp);
        tp_state_free(s);
    }
}

/* Every file that ends too soon is refused, and so is one with a byte turned, or else it is a file of others. */
static void broken(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *w = tp_variable(tp_full(tp, TP_F32, TP_DIMS(2), 3), "w");
    int64_t step = 5;
    tp_state *s = tp_state_new(tp);
    tp_state_add(s, NULL, w);
    tp_state_add_counter(s, "step", &step);
    assert_int_equal(tp_state_save(s, FILE_NAME), TP_OK);
    char bytes[1000];
    const size_t n = read_file(FILE_NAME, bytes, sizeof bytes);
    for (size_t i = 0; i < n; i++) {
        write_file(FILE_NAME, bytes, i);
        assert_int_equal(tp_state_load(s, FILE_NAME, NULL), TP_E_FORMAT);
        tp_clear_error(tp);
    }
    for (size_t i = 0; i < 8 * n; i++) {
        bytes[i / 8] = (char)(bytes[i / 8] ^ 1 << i % 8);
        write_file(FILE_NAME, bytes, n);
        const tp_status status = tp_state_load(s, FILE_NAME, NULL);
        assert_true(status == TP_OK || status == TP_E_FORMAT || status == TP_E_NAME);
        tp_clear_error(tp);
        bytes[i / 8] = (char)(bytes[i / 8] ^ 1 << i % 8);
    }
}

/* ---- failures ----------------------------------------------------------------------------------------- */

/* Each allocation that fails leaves the file, or the tensors, as they were. */
static void survives_no_memory(void **state)
{
    (void)state;
    for (int what = 0; what < 3; what++) {
        for (long at = 1, done = 0; !done; at++) {
            unit_memory m = {0};
            tp_ctx *tp = unit_open(&m);
            training t;
            begin(tp, &t);
            t.step = 3;
            assert_int_equal(tp_state_save(t.s, FILE_NAME), TP_OK);
            t.step = 4;
            tp_trim(tp);
            m.fail_once = m.calls + at;
            tp_state *more = what == 2 ? tp_state_new(tp) : NULL;
            const tp_status status = what == 0   ? tp_state_save(t.s, FILE_NAME)
                                     : what == 1 ? tp_state_load(t.s, FILE_NAME, NULL)
                                     : !more     ? TP_E_MEMORY
                                                 : tp_state_add_params(more, "more", t.p);
            done = m.calls < m.fail_once;
            m.fail_once = 0;
            assert_true(status == (done ? TP_OK : TP_E_MEMORY) || status == TP_OK);
            if (what == 1)
                assert_int_equal(t.step, status == TP_OK ? 3 : 4);
            tp_clear_error(tp);
            assert_int_equal(tp_state_load(t.s, FILE_NAME, NULL), TP_OK);
            assert_int_equal(t.step, what == 0 && status == TP_OK ? 4 : 3);
            tp_close(tp);
            assert_int_equal(m.bytes, 0);
        }
    }
}

static void no_place(void **state)
{
    tp_ctx *tp = *state;
    tp_state *s = tp_state_new(tp);
    assert_int_equal(tp_state_save(s, "no-such-folder/x"), TP_E_IO);
    assert_int_equal(tp_state_save(s, NULL), TP_E_NULL);
    assert_int_equal(tp_state_load(s, NULL, NULL), TP_E_NULL);
    tp_clear_error(tp);
    assert_int_equal(tp_state_save(s, FILE_NAME), TP_OK); /* of nothing */
    assert_int_equal(tp_state_load(s, FILE_NAME, NULL), TP_OK);
    unlink(FILE_NAME);
}

/* ---- random numbers ----------------------------------------------------------------------------------- */

static void random_position(void **state)
{
    tp_ctx *tp = *state;
    uint64_t seed = 9, position = 9;
    tp_random_position(NULL, &seed, &position);
    assert_true(seed == 0 && position == 0);
    tp_seed(tp, 17);
    tp_normal(tp, TP_F32, TP_DIMS(5), 0, 1);
    tp_random_position(tp, &seed, &position);
    assert_true(seed == 17 && position > 0);
    tp_tensor *a = tp_uniform(tp, TP_F64, TP_DIMS(50), 0, 1);
    tp_set_random_position(tp, seed, position);
    tp_tensor *b = tp_uniform(tp, TP_F64, TP_DIMS(50), 0, 1);
    assert_memory_equal(tp_data(a), tp_data(b), 50 * sizeof(double));
    tp_random_position(tp, NULL, NULL);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(round_trip),
        CASE(bytes_written),
        CASE(bytes_read),
        CASE(goes_on),
        CASE(fits_go_on),
        CASE(lines_of_errors),
        CASE(beside_parameters),
        CASE(written_like_assigned),
        CASE(names_refused),
        CASE(mismatches),
        CASE(patterns),
        CASE(malformed),
        CASE(malformed_counters),
        CASE(broken),
        cmocka_unit_test(survives_no_memory),
        CASE(no_place),
        CASE(random_position),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
