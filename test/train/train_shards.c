/* Models in several files, and their index. */
#include "archive_files.h"

#include <sys/stat.h>
#include <unistd.h>

#define INDEX "train_shards.files/model.safetensors.index.json"
#define ONE "model-00001-of-00002.safetensors"
#define TWO "model-00002-of-00002.safetensors"

static void write_index(const char *text)
{
    write_file(INDEX, text, strlen(text));
}

static int make_shards(void **state)
{
    (void)state;
    mkdir("train_shards.files", 0777);
    write_parts("train_shards.files/" ONE,
                "{\"__metadata__\":{\"format\":\"pt\"},"
                "\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                "\"both\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[4,5]}} ",
                "\0\0\x80\x3f\1", 5);
    write_parts("train_shards.files/" TWO,
                "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},"
                "\"both\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[4,5]}}  ",
                "\0\0\0\x40\2", 5);
    return 0;
}

#define MAP(members) "{\"weight_map\": {" members "}}"
#define WHOLE "\"a\": \"" TWO "\", \"b\": \"" ONE "\", \"both\": \"" TWO "\""

static void as_published(void **state)
{
    tp_ctx *tp = *state;
    write_index(
        "{\n  \"metadata\": {\n    \"total_size\": 13476839424, \"note\": \"\\u00e9\",\n"
        "    \"more\": {\"x\": [1, {}, \"]\"]}, \"yes\": true\n  },\n"
        "  \"weight_map\": {" WHOLE "}\n}\n");
    tp_archive *a = tp_archive_open(tp, INDEX);
    assert_int_equal(tp_archive_n(a), 3);
    assert_true(tp_item(tp_archive_tensor(a, "a")) == 2);
    assert_true(tp_item(tp_archive_tensor(a, "b")) == 1);
    assert_int_equal(tp_item_i64(tp_archive_tensor(a, "both")), 2);
    assert_string_equal(tp_archive_text(a, "total_size"), "13476839424");
    assert_string_equal(tp_archive_text(a, "note"), "\xc3\xa9");
    assert_string_equal(tp_archive_text(a, "yes"), "true");
    assert_null(tp_archive_text(a, "more"));
    assert_null(tp_archive_text(a, "format")); /* of a shard */
    assert_int_equal(tp_error(tp), TP_OK);
}

/* A state is filled from shards as from one file. */
static void fills_a_state(void **state)
{
    tp_ctx *tp = *state;
    write_index(MAP(WHOLE));
    tp_state *s = tp_state_new(tp);
    tp_tensor *w = tp_variable(tp_full(tp, TP_F32, TP_DIMS(1), 0), "a");
    tp_state_add(s, NULL, w);
    assert_int_equal(tp_state_load(s, INDEX, "a"), TP_OK);
    assert_true(tp_item(w) == 2);
}

static void refused(void **state)
{
    tp_ctx *tp = *state;
    static const struct {
        const char *index, *text;
        tp_status status;
    } cases[] = {
        {MAP("\"a\": \"../" TWO "\""),
         "the shard \"../" TWO "\" is refused: it is to lie in the folder "
         "of the index",                                                                                               TP_E_FORMAT},
        {MAP("\"a\": \"/etc/passwd\""),
         "the shard \"/etc/passwd\" is refused: it is to lie in the folder "
         "of the index",                                                                                               TP_E_FORMAT},
        {MAP("\"a\": \"..\""),
         "the shard \"..\" is refused: it is to lie in the folder of the index",                                       TP_E_FORMAT},
        {MAP("\"a\": \"x/" TWO "\""),
         "the shard \"x/" TWO "\" is refused: it is to lie in the folder "
         "of the index",                                                                                               TP_E_FORMAT},
        {MAP("\"a\": \"\""),
         "the shard \"\" is refused: it is to lie in the folder of the index",                                         TP_E_FORMAT},
        {MAP("\"a\": \"a\\u0000b\""),                                "the index has a \\u that is no character",       TP_E_FORMAT},
        {MAP("\"a\": 1"),                                            "the index has no '\"' at byte 21",               TP_E_FORMAT},
        {MAP("\"x\": \"" ONE "\""),                                  "\"x\" is not in \"" ONE "\", as the index says",
         TP_E_FORMAT                                                                                                              },
        {MAP("\"a\": \"" ONE "\""),                                  "\"a\" is not in \"" ONE "\", as the index says",
         TP_E_FORMAT                                                                                                              },
        {MAP("\"a\": \"" TWO "\", \"a\": \"" TWO "\""),              "the index has \"a\" twice",
         TP_E_FORMAT                                                                                                              },
        {MAP("\"a\": \"none.safetensors\""),                         "No such file or directory",                      TP_E_IO    },
        {MAP("\"a\": \".safetensors\""),                             "No such file or directory",                      TP_E_IO    },
        {MAP("\"a\": \"model.safetensors.index.json\""),
         "it is neither a safetensors file nor an npz, which tp_state_save and tp_archive_save "
         "write",                                                                                                      TP_E_FORMAT},
        {"{}",                                                       "the index has no \"weight_map\"",                TP_E_FORMAT},
        {"{\"weight_map\": {}, \"weight_map\": {}}",                 "the index has \"weight_map\" twice",
         TP_E_FORMAT                                                                                                              },
        {"{\"weight_map\": {}, \"metadata\": {\"a\": 1, \"a\": 2}}",
         "the text \"a\" is there twice",                                                                              TP_E_FORMAT},
        {MAP("") " x",                                               "something follows the index's object",           TP_E_FORMAT},
        {"{\"x\": [1, }",                                            "the index has no value at byte 10",              TP_E_FORMAT},
        {"{\"weight_map\": {\"a",                                    "the index has no '\"' at byte 18",               TP_E_FORMAT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_index(cases[i].index);
        assert_null(tp_archive_open(tp, INDEX));
        EXPECT_ERROR(tp, cases[i].status, cases[i].text);
    }
    char deep[400] = "{\"x\": ";
    memset(deep + 6, '[', 100);
    write_index(deep);
    assert_null(tp_archive_open(tp, INDEX));
    EXPECT_ERROR(tp, TP_E_FORMAT, "the index is nested too deeply");
}

/* Cut anywhere, or with a bit turned: an error, or another model. */
static void broken(void **state)
{
    tp_ctx *tp = *state;
    static const char text[] =
        "{\"metadata\": {\"total_size\": 9}, \"weight_map\": {" WHOLE "}}";
    char changed[sizeof text];
    for (size_t i = 0; i + 1 < sizeof text; i++) {
        write_file(INDEX, text, i);
        assert_null(tp_archive_open(tp, INDEX));
        assert_int_equal(tp_error(tp), TP_E_FORMAT);
        tp_clear_error(tp);
    }
    for (size_t i = 0; i < 8 * (sizeof text - 1); i++) {
        memcpy(changed, text, sizeof text);
        changed[i / 8] = (char)(changed[i / 8] ^ 1 << i % 8);
        write_file(INDEX, changed, sizeof text - 1);
        tp_archive_free(tp_archive_open(tp, INDEX));
        const tp_status status = tp_error(tp);
        assert_true(status == TP_OK || status == TP_E_FORMAT || status == TP_E_IO);
        tp_clear_error(tp);
    }
}

static void survives_no_memory(void **state)
{
    (void)state;
    write_index("{\"metadata\": {\"total_size\": 9, \"x\": \"y\"}, \"weight_map\": {" WHOLE
                "}}");
    for (long at = 1, done = 0; !done; at++) {
        unit_memory m = {0};
        tp_ctx *tp = unit_open(&m);
        m.fail_once = m.calls + at;
        tp_archive *a = tp_archive_open(tp, INDEX);
        done = m.calls < m.fail_once;
        assert_int_equal(tp_error(tp), a ? TP_OK : TP_E_MEMORY);
        assert_true(a || !done);
        tp_close(tp);
        assert_int_equal(m.bytes, 0);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(as_published),
        CASE(fills_a_state),
        CASE(refused),
        CASE(broken),
        cmocka_unit_test(survives_no_memory),
    };
    return cmocka_run_group_tests(tests, make_shards, NULL);
}
