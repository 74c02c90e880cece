/* Sequences and optionals in files: read, cut anywhere, of another type than is said. */
#include "common/unit.h"
#include "onnx_bytes.h"
#include "tapir/onnx.h"
#include "tapir/tapir.h"

static const char file_name[] = "onnx_value_files.pb";

static void write_file(const char *data, size_t size)
{
    FILE *f = fopen(file_name, "wb");
    assert_non_null(f);
    if (size)
        assert_int_equal(fwrite(data, 1, size, f), size);
    fclose(f);
}

/* Two tensors, [2] and [1]. */
static bytes sequence(void)
{
    static const float v[] = {1, 2, 3};
    static const int64_t sizes[] = {2, 1};
    bytes s = {0};
    put_int(&s, 2, 1); /* of tensors */
    put_message(&s, TPI_PB_SEQUENCE_TENSORS, tensor("", TPI_PB_F32, 1, &sizes[0], v, 8));
    put_message(&s, TPI_PB_SEQUENCE_TENSORS, tensor("", TPI_PB_F32, 1, &sizes[1], v + 2, 4));
    return s;
}

static bytes optional(int kind)
{
    static const float v = 5;
    bytes o = {0};
    put_int(&o, TPI_PB_OPTIONAL_ELEM_TYPE, kind);
    if (kind == 1)
        put_message(&o, TPI_PB_OPTIONAL_TENSOR, tensor("", TPI_PB_F32, 0, NULL, &v, 4));
    if (kind == 3)
        put_message(&o, TPI_PB_OPTIONAL_SEQUENCE, sequence());
    return o;
}

/* How many tensors there are, or -2 after an error. */
static int load(tp_ctx *tp, bytes b, const char *type, int most, tp_tensor **out)
{
    int n = 7;
    write_file(b.at, b.size);
    free(b.at);
    const tp_status s = tp_onnx_value_load(tp, file_name, type, most, out, &n);
    assert_int_equal(s, tp_error(tp));
    assert_true(s == TP_OK || n == 0);
    tp_clear_error(tp);
    return s == TP_OK ? n : -2;
}

static void expect_format(tp_ctx *tp, bytes b, const char *type)
{
    tp_tensor *out[4];
    int n;
    write_file(b.at, b.size);
    free(b.at);
    if (tp_onnx_value_load(tp, file_name, type, 4, out, &n) != TP_E_FORMAT)
        fail_msg("as %s: %s", type, tp_error_message(tp));
    tp_clear_error(tp);
}

static void of_another_type(void **state)
{
    expect_format(*state, sequence(), "sequence(int64)");
    expect_format(*state, optional(1), "optional(int64)");
    expect_format(*state, optional(3), "optional(sequence(int64))");
}

static void read_as_declared(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *out[4];
    assert_int_equal(load(tp, sequence(), "sequence(float)", 4, out), 2);
    assert_int_equal(tp_size(out[0], 0), 2);
    assert_true(*(const float *)tp_data(out[1]) == 3);
    assert_int_equal(load(tp, (bytes){0}, "sequence(float)", 4, out), 0);
    assert_int_equal(load(tp, optional(0), "optional(float)", 4, out), -1);
    assert_int_equal(load(tp, optional(0), "optional(sequence(float))", 4, out), -1);
    assert_int_equal(load(tp, optional(1), "optional(float)", 4, out), 1);
    assert_true(*(const float *)tp_data(out[0]) == 5);
    assert_int_equal(load(tp, optional(3), "optional(sequence(float))", 4, out), 2);
    assert_int_equal(load(tp, sequence(), "sequence(float)", 1, out), -2); /* no room */
    assert_int_equal(load(tp, sequence(), "other", 4, out), -2);
}

static void cut_anywhere(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *out[4];
    bytes whole = optional(3);
    for (size_t size = 0; size < whole.size; size++) {
        bytes part = {0};
        put(&part, whole.at, size);
        const int n = load(tp, part, "optional(sequence(float))", 4, out);
        assert_true(n <= 1); /* before the sequence there is none, or an empty one */
    }
    for (size_t i = 0; i < 8 * whole.size; i++) {
        bytes changed = {0};
        put(&changed, whole.at, whole.size);
        changed.at[i / 8] = (char)(changed.at[i / 8] ^ (1 << i % 8));
        load(tp, changed, "optional(sequence(float))", 4, out);
    }
    free(whole.at);
    assert_int_equal(remove(file_name), 0);
}

/* Are the tensors in the file those? */
static void expect_again(tp_ctx *tp, const char *type, int n, tp_tensor *const *want)
{
    tp_tensor *out[4];
    int found = 7;
    assert_int_equal(tp_onnx_value_load(tp, file_name, type, 4, out, &found), TP_OK);
    assert_int_equal(found, n);
    for (int i = 0; i < n; i++) {
        tp_tensor *packed = tp_contiguous(want[i]);
        assert_int_equal(tp_dtype_of(out[i]), tp_dtype_of(packed));
        assert_int_equal(tp_count(out[i]), tp_count(packed));
        for (int a = 0; a < tp_rank(packed); a++)
            assert_int_equal(tp_size(out[i], a), tp_size(packed, a));
        if (tp_count(packed))
            assert_memory_equal(tp_data(out[i]), tp_data(packed), 4 * (size_t)tp_count(packed));
    }
}

static const struct {
    const char *type;
    int n;
} kinds[] = {
    {"float",                     1 },
    {"sequence(float)",           3 },
    {"sequence(float)",           0 },
    {"optional(float)",           1 },
    {"optional(float)",           -1},
    {"optional(sequence(float))", 3 },
    {"optional(sequence(float))", 0 },
    {"optional(sequence(float))", -1},
};

static void make_tensors(tp_ctx *tp, tp_tensor **t)
{
    t[0] = tp_swap(tp_reshape(tp_arange(tp, TP_F32, 200, 0, 1), TP_DIMS(20, 10)), 0, 1);
    t[1] = tp_full(tp, TP_F32, TP_DIMS(0, 2), 0);
    t[2] = tp_scalar(tp, TP_F32, 3);
}

static void written_and_read(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *t[3];
    make_tensors(tp, t);
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        assert_int_equal(tp_onnx_value_save(tp, file_name, kinds[k].type, kinds[k].n, t),
                         TP_OK);
        expect_again(tp, kinds[k].type, kinds[k].n, t);
    }
    tp_onnx_value_save(tp, file_name, "sequence(float)", -1, t);
    EXPECT_ERROR(tp, TP_E_VALUE,
                 "tp_onnx_value_save: -1 tensors are no value of type sequence(float)");
    assert_int_equal(remove(file_name), 0);
}

/* Written whole or not at all. */
static void memory_runs_out(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        bool done = false;
        for (long n = 1; !done; n++) {
            unit_memory memory = {0};
            tp_ctx *tp = unit_open(&memory);
            tp_scope_begin(tp);
            tp_tensor *t[3];
            make_tensors(tp, t);
            memory.fail_at = memory.calls + n;
            const tp_status status =
                tp_onnx_value_save(tp, file_name, kinds[k].type, kinds[k].n, t);
            done = memory.calls < memory.fail_at;
            memory.fail_at = 0;
            assert_int_equal(status, done ? TP_OK : TP_E_MEMORY);
            assert_int_equal(remove(file_name) == 0, done);
            tp_close(tp);
            assert_int_equal(memory.bytes, 0);
        }
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {CASE(read_as_declared), CASE(of_another_type),
                                              CASE(cut_anywhere), CASE(written_and_read),
                                              CASE(memory_runs_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
