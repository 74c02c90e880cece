/* .npy files byte by byte: what is read, what is written, what is refused. That NumPy agrees is
 * the business of npy_numpy.sh. */
#include "common/unit.h"
#include "tapir/ops.h"

#include <unistd.h>

typedef struct bytes {
    char data[4096];
    size_t size;
} bytes;

/* A file of the given version, header and elements. */
static bytes make(int version, const char *header, const void *elements, size_t size)
{
    bytes b = {.size = 0};
    const size_t n = strlen(header);
    memcpy(b.data, "\x93NUMPY", 6);
    b.data[6] = (char)version;
    b.size = 8;
    for (int i = 0; i < (version == 1 ? 2 : 4); i++)
        b.data[b.size++] = (char)(n >> (8 * i) & 255);
    memcpy(b.data + b.size, header, n);
    b.size += n;
    memcpy(b.data + b.size, elements, size);
    b.size += size;
    return b;
}

static tp_tensor *parse(tp_ctx *tp, int version, const char *header, const void *elements,
                        size_t size)
{
    const bytes b = make(version, header, elements, size);
    void *exact = malloc(b.size); /* so that a sanitizer sees a byte read beyond it */
    memcpy(exact, b.data, b.size);
    tp_tensor *t = tp_npy_parse(tp, exact, b.size);
    free(exact);
    return t;
}

static void versions(void **state)
{
    tp_ctx *tp = *state;
    const float want[] = {1.5f, -2, 1e9f};
    for (int v = 1; v <= 3; v++) {
        const tp_tensor *t = parse(
            tp, v, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }   \n", want, 12);
        assert_string_equal(tp_error_text(t), "");
        assert_int_equal(tp_dtype_of(t), TP_F32);
        assert_int_equal(tp_size(t, 0), 3);
        assert_memory_equal(tp_data(t), want, 12);
    }
    /* Other ways to write the same dict; bytes that follow are another array's. */
    static const char *const headers[] = {
        "{\"shape\":(3,),\"fortran_order\":False,\"descr\":\"<f4\"}",
        "{ 'shape' : ( 3 , ) , 'descr' : '=f4' , 'fortran_order' : False }\n",
        "{'fortran_order': False, 'descr': 'f4', 'shape': (3L,)}",
        "{'fortran_order': True, 'descr': '<f4', 'shape': (3,)}",
    };
    for (int i = 0; i < 4; i++) {
        const tp_tensor *t = parse(tp, 1, headers[i], want, 12);
        assert_string_equal(tp_error_text(t), "");
        assert_memory_equal(tp_data(t), want, 12);
    }
    assert_int_equal(tp_error(tp), TP_OK);
}

static void orders(void **state)
{
    tp_ctx *tp = *state;
    const uint8_t big[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
    const tp_tensor *t =
        parse(tp, 1, "{'descr': '>u2', 'fortran_order': True, 'shape': (2, 3)}", big, 12);
    const uint16_t want[] = {0x0102, 0x0506, 0x090a, 0x0304, 0x0708, 0x0b0c};
    assert_int_equal(tp_count(t), 6);
    assert_memory_equal(tp_data(t), want, 12);
    t = parse(tp, 1, "{'descr': '|b1', 'fortran_order': False, 'shape': (4,)}", "\0\1\2\377",
              4);
    assert_memory_equal(tp_data(t), "\0\1\1\1", 4);
    const double pi = 3.25;
    t = parse(tp, 1, "{'descr': '<f8', 'fortran_order': False, 'shape': ()}", &pi, 8);
    assert_true(tp_rank(t) == 0 && tp_item(t) == pi);
    t = parse(tp, 1, "{'descr': '<i8', 'fortran_order': True, 'shape': (2, 0, 9)}", "", 0);
    assert_int_equal(tp_count(t), 0);
    assert_int_equal(tp_rank(t), 3);
    assert_int_equal(tp_error(tp), TP_OK);
}

/* Floats of 16 bits are read as f32, in both orders of axes and bytes, and written rounded once. */
static void halves(void **state)
{
    tp_ctx *tp = *state;
    static const unsigned char little[8] = {0x00, 0x3c, 0x00, 0xc0, 0x01, 0x00, 0x00, 0x80};
    static const unsigned char swapped[8] = {0x3c, 0x00, 0xc0, 0x00, 0x00, 0x01, 0x80, 0x00};
    static const float want[4] = {1, -2, 0x1p-24f, -0.0f}, turned[4] = {1, 0x1p-24f, -2, -0.0f};
    tp_tensor *t = parse(tp, 1, "{'descr': '<f2', 'fortran_order': False, 'shape': (2, 2)}",
                         (const char *)little, sizeof little);
    assert_int_equal(tp_dtype_of(t), TP_F32);
    assert_memory_equal(tp_data(t), want, sizeof want);
    t = parse(tp, 1, "{'descr': '>f2', 'fortran_order': True, 'shape': (2, 2)}",
              (const char *)swapped, sizeof swapped);
    assert_memory_equal(tp_data(t), turned, sizeof turned);
    static const double more[4] = {1 + 0x1p-12, -2 - 0x1p-20, 0x1.8p-25, -1e-30};
    for (int turn = 0; turn < 2; turn++) {
        tp_tensor *x = tp_tensor_new(tp, TP_F64, TP_DIMS(2, 2), more);
        x = turn ? tp_transpose(tp_contiguous(tp_transpose(x, TP_ALL)), TP_ALL) : x;
        assert_int_equal(tp_npy_save_f16(x, "core_npy_half.npy"), TP_OK);
        t = tp_npy_load(tp, "core_npy_half.npy");
        assert_memory_equal(tp_data(t), want, sizeof want);
    }
    FILE *f = fopen("core_npy_half.npy", "rb");
    char text[128];
    assert_int_equal(fread(text, 1, sizeof text, f), sizeof text);
    fclose(f);
    remove("core_npy_half.npy");
    assert_int_equal(memcmp(text + 10, "{'descr': '<f2',", 16), 0);
    assert_int_equal(tp_error(tp), TP_OK);
}

static void refused(void **state)
{
    static const struct {
        const char *header, *why;
    } cases[] = {
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (3,)}",
         "its elements '<c8' are complex numbers; only numbers of 8 to 64 bits and bool can be "
         "read (f4, i8, ...)"                                                                                                        },
        {"{'descr': '|O', 'fortran_order': False, 'shape': (3,)}",
         "its elements '|O' are Python objects; only numbers of 8 to 64 bits and bool can be "
         "read "
         "(f4, i8, ...)"                                                                                                             },
        {"{'descr': '<U7', 'fortran_order': False, 'shape': (3,)}",
         "its elements '<U7' are strings; only numbers of 8 to 64 bits and bool can be read "
         "(f4, "
         "i8, ...)"                                                                                                                  },
        {"{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (3,)}",
         "its elements are records; only numbers and bool can be read"                                                               },
        {"{'descr': '<q9', 'fortran_order': False, 'shape': (3,)}",
         "its element type '<q9' is unknown"                                                                                         },
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4,)}",
         "its shape needs 16 bytes, 12 are there"                                                                                    },
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 8)}",
         "its sizes multiply beyond 2^63 bytes"                                                                                      },
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4611686018427387904, 8)}",
         "its sizes multiply beyond 2^63 bytes"                                                                                      },
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}",
         "a size of the shape is beyond 2^63"                                                                                        },
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}",
         "its shape needs 4000000000000 bytes, 12 are there"                                                                         },
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
         "the shape has something other than sizes >= 0"                                                                             },
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,3)}",
         "it has more than 8 axes"                                                                                                   },
        {"{'descr': '<f4', 'fortran_order': False, 'shape': [3]}",                         "the shape is no tuple"                   },
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3",                           "the shape does not end"                  },
        {"{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}",
         "fortran_order is neither True nor False"                                                                                   },
        {"{'descr': '<f4', 'fortran_order': False}",                                       "the header lacks 'shape'"                },
        {"{'descr': '<f4', 'shape': (3,)}",                                                "the header lacks 'fortran_order'"        },
        {"{}",                                                                             "the header lacks 'descr'"                },
        {"",                                                                               "the header is no dict"                   },
        {"{",                                                                              "the header is no dict of strings"        },
        {"{'descr",                                                                        "a string of the header does not end"     },
        {"{'descr'}",                                                                      "the header has no value for 'descr'"     },
        {"{'descr': '<f4', 'descr': '<f4'}",                                               "the header has an unexpected key 'descr'"},
        {"{'x': 3}",                                                                       "the header has an unexpected key 'x'"    },
        {"{'descr': '<f4' 'shape'",                                                        "the header does not end"                 },
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} + 1",
         "something follows the header's dict"                                                                                       },
        {"{'de\\x73cr': '<f4'}",                                                           "a string of the header has a byte 92"    },
    };
    tp_ctx *tp = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(tp_failed(parse(tp, 1, cases[i].header, "abcdefghijkl", 12)));
        EXPECT_ERROR(tp, TP_E_FORMAT, cases[i].why);
    }
    /* Cut anywhere, it is refused and nothing is read beyond the cut. */
    const bytes b = make(2, "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n",
                         "abcdefghijkl", 12);
    for (size_t n = 0; n < b.size; n++) {
        char *cut = malloc(n + 1);
        memcpy(cut, b.data, n);
        assert_true(tp_failed(tp_npy_parse(tp, cut, n)));
        assert_int_equal(tp_error(tp), TP_E_FORMAT);
        tp_clear_error(tp);
        free(cut);
    }
    bytes other = b;
    other.data[6] = 4;
    assert_true(tp_failed(tp_npy_parse(tp, other.data, other.size)));
    EXPECT_ERROR(tp, TP_E_FORMAT, "its version is 4; 1 to 3 can be read");
    assert_true(tp_failed(tp_npy_parse(tp, "PK\3\4 zip file", 10)));
    EXPECT_ERROR(tp, TP_E_FORMAT, "it is no .npy file: it does not begin with \\x93NUMPY");
    assert_true(tp_failed(tp_npy_parse(tp, NULL, 10)));
    EXPECT_ERROR(tp, TP_E_NULL, "tp_npy_parse: the bytes are NULL");
    assert_true(tp_failed(tp_npy_parse(tp, NULL, 0)));
    tp_clear_error(tp);
    assert_true(tp_failed(tp_npy_parse(NULL, b.data, b.size)));
    assert_true(tp_failed(tp_npy_load(NULL, "x.npy")));
}

static void there_and_back(void **state)
{
    tp_ctx *tp = *state;
    char path[] = "core_npy-XXXXXX";
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    for (int type = 0; type < TP_N_DTYPES; type++) {
        for (int rank = 0; rank <= TP_MAX_RANK; rank++) {
            const int64_t shape[] = {2, 1, 3, 2, 1, 2, 1, 2};
            tp_tensor *t = tp_tensor_new(tp, (tp_dtype)type, rank, shape, NULL);
            for (size_t i = 0; i < tpi_bytes(t); i++)
                t->data[i] = (char)(type == TP_BOOL ? i % 2 : i * 37 + 11);
            assert_int_equal(tp_npy_save(t, path), TP_OK);
            tp_tensor *u = tp_npy_load(tp, path);
            assert_string_equal(tp_error_text(u), "");
            assert_true(u->dtype == t->dtype && u->rank == t->rank);
            assert_memory_equal(u->shape, t->shape, (size_t)rank * sizeof *shape);
            assert_memory_equal(u->data, t->data, tpi_bytes(t));
        }
    }
    /* A view is gathered. */
    tp_tensor *t = tp_arange(tp, TP_I16, 6, 0, 1);
    tp_tensor *v = tpi_tensor(tp, TPI_AT(NULL, 0), TP_I16, 2, (int64_t[]){3, 2});
    tpi_tensor_share(v, t, 0);
    v->stride[0] = 1, v->stride[1] = 3;
    tpi_note_contiguous(v);
    assert_int_equal(tp_npy_save(v, path), TP_OK);
    const int16_t want[] = {0, 3, 1, 4, 2, 5};
    assert_memory_equal(tp_data(tp_npy_load(tp, path)), want, sizeof want);

    assert_int_equal(tp_npy_save(NULL, path), TP_E_NULL);
    assert_int_equal(tp_npy_save(t, NULL), TP_E_NULL);
    EXPECT_ERROR(tp, TP_E_NULL, "the path is NULL");
    assert_int_equal(tp_npy_save(t, "no-such-folder/x.npy"), TP_E_IO);
    EXPECT_ERROR(tp, TP_E_IO, "tp_npy_save: no-such-folder/x.npy: No such file or directory");
    assert_true(tp_failed(tp_npy_load(tp, "no-such-file.npy")));
    EXPECT_ERROR(tp, TP_E_IO, "tp_npy_load: no-such-file.npy: No such file or directory");
    assert_true(tp_failed(tp_npy_load(tp, NULL)));
    EXPECT_ERROR(tp, TP_E_NULL, "the path is NULL");
    FILE *f = fopen(path, "w");
    fputs("not NumPy's", f);
    fclose(f);
    char text[200];
    snprintf(text, sizeof text,
             "tp_npy_load: %s: it is no .npy file: it does not begin with \\x93NUMPY", path);
    tp_npy_load(tp, path);
    EXPECT_ERROR(tp, TP_E_FORMAT, text);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(versions), CASE(orders), CASE(halves), CASE(refused), CASE(there_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
