/* Files with names and layouts of others, by tables of rows. transfer_models.c has whole models. */
#include "archive_files.h"

#define FILE_NAME "train_transfer.safetensors"

/* The numbers from 0 on. */
static tp_tensor *counted(tp_ctx *tp, int rank, const int64_t *shape)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= shape[i];
    return tp_reshape(tp_arange(tp, TP_F32, n, 0, 1), rank, shape);
}

static tp_tensor *add_to(tp_state *s, tp_ctx *tp, const char *name, int rank,
                         const int64_t *shape)
{
    tp_tensor *v = tp_variable(tp_full(tp, TP_F32, rank, shape, -1), name);
    assert_int_equal(tp_state_add(s, NULL, v), TP_OK);
    return v;
}

static void expect_numbers(tp_tensor *t, int n, const float *want)
{
    const float *got = tp_data(t);
    assert_int_equal(tp_count(t), n);
    for (int i = 0; i < n; i++)
        if (got[i] != want[i])
            fail_msg("%s: element %d is %g, not %g", tp_name_of(t), i, (double)got[i],
                     (double)want[i]);
}
#define EXPECT(t, ...)                                                                         \
    expect_numbers(t, sizeof((const float[]){__VA_ARGS__}) / sizeof(float),                    \
                   (const float[]){__VA_ARGS__})

/* ---- names -------------------------------------------------------------------------------------------- */

static void renamed(void **state)
{
    tp_ctx *tp = *state;
    static const char *const names[] = {"net.layers.0.weight", "net.layers.11.weight",
                                        "net.layers.0.sub.weight", "net.bias", "other"};
    tp_archive_item items[5];
    for (int i = 0; i < 5; i++)
        items[i] = (tp_archive_item){names[i], tp_full(tp, TP_F32, TP_DIMS(1), i), NULL};
    assert_int_equal(tp_archive_save(tp, FILE_NAME, 5, items), TP_OK);
    static const tp_transfer rows[] = {
        {.from = "other",                 .to = NULL        },
        {.from = "*.layers.*.sub.weight", .to = "sub.*.of.*"},
        {.from = "net.layers.*.weight",   .to = "layer.*.w" },
        {.from = "net.*",                 .to = "*"         },
        {.from = "*",                     .to = "never"     }, /* each has a row before this one */
    };
    tp_state *s = tp_state_new(tp);
    tp_tensor *w0 = add_to(s, tp, "layer.0.w", TP_DIMS(1)),
              *w11 = add_to(s, tp, "layer.11.w", TP_DIMS(1)),
              *sub = add_to(s, tp, "sub.net.of.0", TP_DIMS(1)),
              *bias = add_to(s, tp, "bias", TP_DIMS(1));
    assert_int_equal(tp_state_transfer(s, FILE_NAME, 5, rows), TP_OK);
    EXPECT(w0, 0);
    EXPECT(w11, 1);
    EXPECT(sub, 2);
    EXPECT(bias, 3);
}

/* ---- layouts ------------------------------------------------------------------------------------------ */

static void turned(void **state)
{
    tp_ctx *tp = *state;
    const tp_archive_item items[] = {
        {"m",  counted(tp, TP_DIMS(2, 3)),           NULL},
        {"stack",    counted(tp,        TP_DIMS(2,    2, 2)), NULL},
        {"v", counted(tp,       TP_DIMS(2)),                NULL                          }
    };
    assert_int_equal(tp_archive_save(tp, FILE_NAME, 3, items), TP_OK);
    static const tp_transfer all = {.from = "*", .to = "*", .turn = true};
    tp_state *s = tp_state_new(tp);
    tp_tensor *m = add_to(s, tp, "m", TP_DIMS(3, 2)),
              *stack = add_to(s, tp, "stack", TP_DIMS(2, 2, 2)),
              *v = add_to(s, tp, "v", TP_DIMS(2));
    assert_int_equal(tp_state_transfer(s, FILE_NAME, 1, &all), TP_OK);
    EXPECT(m, 0, 3, 1, 4, 2, 5);
    EXPECT(stack, 0, 2, 1, 3, 4, 6, 5, 7);
    EXPECT(v, 0, 1);
}

/* Pieces of one tensor go to several variables, and several tensors lie side by side in one. */
static void pieces(void **state)
{
    tp_ctx *tp = *state;
    const tp_archive_item items[] = {
        {"fused", counted(tp, TP_DIMS(2, 6)), NULL},
        {"gates", counted(tp, TP_DIMS(4, 2)), NULL},
        {"left",  counted(tp, TP_DIMS(2, 1)), NULL},
        {"right", counted(tp, TP_DIMS(2, 2)), NULL}
    };
    static const char *const paths[] = {FILE_NAME, "train_transfer.npz"};
    static const tp_transfer rows[] = {
        {.from = "fused", .to = "q",       .pieces = 3, .take = "0"},
        {.from = "right",    .to = "joined",                   .turn = true},
        {.from = "fused",.to = "kv",.pieces = 6, .take = "2-5"},
        {.from = "gates", .to = "lstm",         .turn = true, TP_LSTM_GATES},
        {.from = "fused",  .to = "some",                 .pieces = 6, .take = " 5  0-1 5"},
        {.from = "left",   .to = "joined"},
    };
    for (int k = 0; k < 2; k++) {
        assert_int_equal(tp_archive_save(tp, paths[k], 4, items), TP_OK);
        tp_state *s = tp_state_new(tp);
        tp_tensor *q = add_to(s, tp, "q", TP_DIMS(2, 2)),
                  *kv = add_to(s, tp, "kv", TP_DIMS(2, 4)),
                  *lstm = add_to(s, tp, "lstm", TP_DIMS(2, 4)),
                  *some = add_to(s, tp, "some", TP_DIMS(2, 4)),
                  *joined = add_to(s, tp, "joined", TP_DIMS(2, 3));
        assert_int_equal(tp_state_transfer(s, paths[k], 6, rows), TP_OK);
        EXPECT(q, 0, 1, 6, 7);
        EXPECT(kv, 2, 3, 4, 5, 8, 9, 10, 11);
        EXPECT(lstm, 0, 6, 2, 4, 1, 7, 3, 5);
        EXPECT(some, 5, 0, 1, 5, 11, 6, 7, 11);
        EXPECT(joined, 0, 2, 0, 1, 3, 1);
    }
    unlink(paths[1]);
}

/* Floats of 16 bits are widened before they are turned; other types keep theirs. */
static void types(void **state)
{
    tp_ctx *tp = *state;
    write_parts(FILE_NAME,
                "{\"h\":{\"dtype\":\"F16\",\"shape\":[1,2],\"data_offsets\":[0,4]},"
                "\"i\":{\"dtype\":\"I16\",\"shape\":[2,2],\"data_offsets\":[4,12]}}",
                "\0\x3c\0\xc0\1\0\2\0\3\0\4\0", 12);
    static const tp_transfer all = {.from = "*", .to = "*", .turn = true};
    tp_state *s = tp_state_new(tp);
    tp_tensor *h = add_to(s, tp, "h", TP_DIMS(2, 1)),
              *i = tp_variable(tp_full(tp, TP_I16, TP_DIMS(2, 2), 0), "i");
    tp_state_add(s, NULL, i);
    assert_int_equal(tp_state_transfer(s, FILE_NAME, 1, &all), TP_OK);
    EXPECT(h, 1, -2);
    const int16_t *v = tp_data(i);
    assert_true(v[0] == 1 && v[1] == 3 && v[2] == 2 && v[3] == 4);
}

/* ---- what does not fit -------------------------------------------------------------------------------- */

static void mismatches(void **state)
{
    tp_ctx *tp = *state;
    const tp_archive_item items[] = {
        {"a.weight", counted(tp, TP_DIMS(2, 3)),                 NULL},
        {"b.weight",          counted(tp,           TP_DIMS(2, 3)), NULL},
        {"c",      counted(tp,                TP_DIMS(4)),                       NULL                          },
        {"d",      counted(tp,                TP_DIMS(3)), NULL},
        {"e",      counted(tp,                TP_DIMS(3)),                       NULL                                                },
        {"f",      counted(tp,                TP_DIMS(5)), NULL}
    };
    assert_int_equal(tp_archive_save(tp, FILE_NAME, 6, items), TP_OK);
    static const tp_transfer rows[] = {
        {.from = "*.weight", .to = "*.w",   .turn = true},
        {.from = "c",                  .to = "c",                     .pieces = 3, .take = "0"},
        {.from = "d",       .to = "joined"},
        {.from = "e",        .to = "joined"},
    };
    int64_t n = 3;
    tp_state *s = tp_state_new(tp);
    tp_tensor *a = add_to(s, tp, "a.w", TP_DIMS(3, 2));
    add_to(s, tp, "c", TP_DIMS(1));
    add_to(s, tp, "gone", TP_DIMS(1));
    add_to(s, tp, "joined", TP_DIMS(5));
    tp_state_add_counter(s, "n", &n);
    assert_int_equal(tp_state_transfer(s, FILE_NAME, 4, rows), TP_E_NAME);
    EXPECT_ERROR(
        tp, TP_E_NAME,
        "tp_state_transfer: what " FILE_NAME
        " has does not fit: missing: gone, n; of another type or shape: c is F32 [4] and "
        "should be f32 [1], joined is made of d F32 [3], e F32 [3] and should be f32 [5]; "
        "too much: b.weight, f");
    EXPECT(a, -1, -1, -1, -1, -1, -1);
    assert_int_equal(n, 3);
}

static void rows_refused(void **state)
{
    tp_ctx *tp = *state;
    static const struct {
        tp_transfer row;
        tp_status status;
        const char *text;
    } cases[] = {
        {{.from = NULL, .to = "x"},                           TP_E_NULL, "row 1 (\"\") has no `from`"                             },
        {{.from = "a*", .to = "*b*"},
         TP_E_VALUE,                                                     "row 1 (\"a*\") has more * on the right than on the left"},
        {{.from = "*********", .to = "x"},
         TP_E_VALUE,                                                     "row 1 (\"*********\") has more than 8 *"                },
        {{.from = "a", .to = "a", .pieces = 2},
         TP_E_VALUE,                                                     "row 1 (\"a\") takes what are no pieces"                 },
        {{.from = "a", .to = "a", .take = "0"},
         TP_E_VALUE,                                                     "row 1 (\"a\") takes what are no pieces"                 },
        {{.from = "a", .to = "a", .pieces = -1, .take = "0"},
         TP_E_VALUE,                                                     "row 1 (\"a\") takes what are no pieces"                 },
        {{.from = "*", .to = "w"},                            TP_E_NAME, "one row makes \"w\" of both \"a\" and \"b\""            },
    };
    static const char *const takes[] = {"",   "x",   "2",  "-1",    "1-0",
                                        "0-", "0 ,", "0x", "0-1-1", "00000000000000000009"};
    const tp_archive_item items[] = {
        {"a", counted(tp, TP_DIMS(2)), NULL},
        {"b", counted(tp, TP_DIMS(2)), NULL}
    };
    assert_int_equal(tp_archive_save(tp, FILE_NAME, 2, items), TP_OK);
    tp_state *s = tp_state_new(tp);
    add_to(s, tp, "w", TP_DIMS(2));
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tp_transfer rows[] = {
            {.from = "unused", .to = NULL},
            cases[i].row
        };
        assert_int_equal(tp_state_transfer(s, FILE_NAME, 2, rows), cases[i].status);
        EXPECT_ERROR(tp, cases[i].status, cases[i].text);
    }
    for (size_t i = 0; i < sizeof takes / sizeof *takes; i++) {
        const tp_transfer row = {.from = "*", .to = "*", .pieces = 2, .take = takes[i]};
        if (tp_state_transfer(s, FILE_NAME, 1, &row) != TP_E_VALUE)
            fail_msg("taken: \"%s\"", takes[i]);
        tp_clear_error(tp);
    }
}

static void survives_no_memory(void **state)
{
    (void)state;
    static const tp_transfer rows[] = {
        {.from = "a.*", .to = "w.*",  .turn = true, .pieces = 2, .take = "1 0"},
        {.from = "b",  .to = "w.x"},
    };
    for (long at = 1, done = 0; !done; at++) {
        unit_memory m = {0};
        tp_ctx *tp = unit_open(&m);
        const tp_archive_item items[] = {
            {"a.x", counted(tp, TP_DIMS(2,   300)), NULL},
            {"b",   counted(tp, TP_DIMS(300, 1)),   NULL}
        };
        if (at == 1)
            assert_int_equal(tp_archive_save(tp, FILE_NAME, 2, items), TP_OK);
        tp_state *s = tp_state_new(tp);
        tp_tensor *w = add_to(s, tp, "w.x", TP_DIMS(300, 3));
        tp_trim(tp);
        m.fail_once = m.calls + at;
        const tp_status status = tp_state_transfer(s, FILE_NAME, 2, rows);
        done = m.calls < m.fail_once;
        assert_int_equal(status, done ? TP_OK : TP_E_MEMORY);
        assert_true(((const float *)tp_data(w))[5] == (done ? 1 : -1));
        tp_close(tp);
        assert_int_equal(m.bytes, 0);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(renamed),
        CASE(turned),
        CASE(pieces),
        CASE(types),
        CASE(mismatches),
        CASE(rows_refused),
        cmocka_unit_test(survives_no_memory),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(FILE_NAME);
    return failed;
}
