/* Sequences and optionals in files: read, cut anywhere, of another type than is said. */
#include "onnx_bytes.h"
#include "tapir/onnx.h"
#include "tapir/tapir.h"
#include "unit/unit.h"

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

int main(void)
{
    static const struct CMUnitTest tests[] = {CASE(read_as_declared), CASE(cut_anywhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
