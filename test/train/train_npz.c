/* Files of NumPy's format npz: bytes of others, and hostile ones. npz_numpy.sh has NumPy's own. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include "archive_files.h"

#include <dlfcn.h>
#include <unistd.h>

#define FILE_NAME "train_npz.npz"

/* In place of the C library's, for the library under test. */
static bool no_zlib;

void *dlopen(const char *name, int flags)
{
    void *(*real)(const char *, int);
    void *at = dlsym(RTLD_NEXT, "dlopen");
    memcpy(&real, &at, sizeof real);
    return no_zlib && name && strstr(name, "libz") ? NULL : real(name, flags);
}

static bool has_zlib(void)
{
    void *library = dlopen("libz.so.1", RTLD_NOW);
    if (library)
        dlclose(library);
    return library;
}

static void need_zlib(void)
{
    if (has_zlib())
        return;
    print_message("skipped: libz.so.1 is not installed\n");
    skip();
}

static zip z; /* that is being made */
static bytes array, squeezed;

static void begin_zip(void)
{
    z.file.n = z.directory.n = z.n = 0;
}

static void make_array(void) /* of 1, -2 */
{
    npy(&array, "<f4", "(2,)", "\0\0\x80\x3f\0\0\0\xc0", 8);
}

static uint32_t sum_of(const bytes *b)
{
    static tpi_crc32_table table;
    tpi_crc32_begin(&table);
    return tpi_crc32(&table, 0, b->data, b->n);
}

static const float *pair(tp_archive *a, const char *name)
{
    return tp_data(tp_archive_tensor(a, name));
}

/* ---- what is read ------------------------------------------------------------------------------------- */

static void stored_and_deflated(void **state)
{
    tp_ctx *tp = *state;
    need_zlib(); /* as the library says; without_zlib has that */
    begin_zip();
    make_array();
    deflated(&squeezed, &array);
    zip_add(&z, (member){.name = "b.npy", .data = array.data, .n = array.n});
    zip_add(&z, (member){.name = "a/x.npy",
                         .data = squeezed.data,
                         .n = squeezed.n,
                         .method = 8,
                         .size = array.n,
                         .sum = sum_of(&array)});
    zip_add(&z, (member){.name = "read.me", .data = "hello", .n = 5});
    npy(&array, "|S4", "()", "t\xc3\xa9\0", 4);
    zip_add(&z, (member){.name = "text.npy", .data = array.data, .n = array.n});
    npy(&array, "<c8", "(1,)", "12345678", 8);
    zip_add(&z, (member){.name = "c.npy", .data = array.data, .n = array.n});
    npy(&array, "|O", "(3, 4)", "not 12 elements", 15);
    zip_add(&z, (member){.name = "o.npy", .data = array.data, .n = array.n});
    zip_write(&z, FILE_NAME);
    tp_archive *a = tp_archive_open(tp, FILE_NAME);
    assert_int_equal(tp_error(tp), TP_OK);
    assert_int_equal(tp_archive_n(a), 4);
    assert_string_equal(tp_archive_entry_of(a, 0)->name, "a/x");
    assert_string_equal(tp_archive_entry_of(a, 0)->type, "<f4");
    assert_string_equal(tp_archive_entry_of(a, 2)->type, "<c8");
    assert_int_equal(tp_archive_entry_of(a, 2)->dtype, TP_N_DTYPES);
    assert_int_equal(tp_archive_entry_of(a, 3)->shape[1], 4);
    assert_string_equal(tp_archive_text(a, "text"), "t\xc3\xa9");
    assert_true(pair(a, "b")[0] == 1 && pair(a, "a/x")[1] == -2);
    assert_true(tp_failed(tp_archive_tensor(a, "c")));
    EXPECT_ERROR(tp, TP_E_DTYPE,
                 "tp_archive_tensor: the elements of \"c\" are <c8, which no tensor has");
}

static void without_zlib(void **state)
{
    tp_ctx *tp = *state;
    begin_zip();
    make_array();
    deflated(&squeezed, &array);
    zip_add(&z, (member){.name = "a.npy",
                         .data = squeezed.data,
                         .n = squeezed.n,
                         .method = 8,
                         .size = array.n});
    zip_write(&z, FILE_NAME);
    no_zlib = true;
    assert_null(tp_archive_open(tp, FILE_NAME));
    no_zlib = false;
    EXPECT_ERROR(tp, TP_E_FORMAT,
                 "tp_archive_open: " FILE_NAME
                 ": \"a\": it is deflated, and libz.so.1, which reads that, is not installed");
}

/* A whole state: variables, a counter, the random numbers. */
static void of_a_state(void **state)
{
    tp_ctx *tp = *state;
    int64_t step = -7;
    uint64_t seed, position;
    tp_tensor *w = tp_variable(tp_full(tp, TP_F64, TP_DIMS(2, 3), 0.5), "net.w");
    tp_state *s = tp_state_new(tp);
    tp_state_add(s, NULL, w);
    tp_state_add_counter(s, "step", &step);
    tp_state_add_random(s);
    tp_set_random_position(tp, 12, 34);
    assert_int_equal(tp_state_save(s, FILE_NAME), TP_OK);
    step = 0;
    tp_seed(tp, 0);
    tp_assign(w, tp_mul(w, 0));
    assert_int_equal(tp_state_load(s, FILE_NAME, NULL), TP_OK);
    tp_random_position(tp, &seed, &position);
    assert_true(step == -7 && seed == 12 && position == 34);
    assert_true(tp_item(tp_sum(w, TP_ALL, false)) == 3);
    tp_archive *a = tp_archive_open(tp, FILE_NAME); /* elements lie well */
    assert_int_equal((uintptr_t)tp_data(tp_archive_tensor(a, "net.w")) % 64, 0);
}

/* ---- hostile files ------------------------------------------------------------------------------------ */

static void refused(void **state)
{
    tp_ctx *tp = *state;
    static const struct {
        member first, second;
        const char *text;
    } cases[] = {
        {{.name = "a.npy"},                                  {.name = "a.npy"}, "\"a\" is there twice"                     },
        {{.name = "a\0b.npy", .name_length = 7},             {.name = "b.npy"}, "a name has a 0 in it"                     },
        {{.name = ".npy"},                                   {.name = "b.npy"}, "\"\" cannot be a name: it is empty"       },
        {{.name = "\xff.npy"},                               {.name = "b.npy"}, "\"\xff\" cannot be a name: it is no UTF-8"},
        {{.name = "a.npy", .flags = 1},                      {.name = "b.npy"}, "\"a.npy\" is encrypted"                   },
        {{.name = "a.npy", .method = 14},
         {.name = "b.npy"},
         "\"a.npy\" is squeezed by method 14; 0 (not at all) and 8 (deflated) can be read"                                 },
        {{.name = "a.npy", .size = 1000},
         {.name = "b.npy"},
         "\"a.npy\" says to be 1000 bytes, squeezed to 76"                                                                 },
        {{.name = "a.npy", .method = 8, .size = 4000000000},
         {.name = "b.npy"},
         "\"a.npy\" says to be 4000000000 bytes, squeezed to 76"                                                           },
        {{.name = "a.npy"},
         {.name = "b.npy", .shift = -1},
         "\"b.npy\" is not where the directory of the zip says"                                                            },
        {{.name = "a.npy"},
         {.name = "b.npy", .shift = 1 << 20},
         "\"b.npy\" is not where the directory of the zip says"                                                            },
        {{.name = "same.npy"},
         {.name = "same.npy", .shift = -114},
         "\"same.npy\" overlaps another"                                                                                   },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin_zip();
        make_array();
        assert_int_equal(array.n, 76);
        member first = cases[i].first, second = cases[i].second;
        first.data = second.data = array.data;
        first.n = second.n = array.n;
        zip_add(&z, first);
        zip_add(&z, second);
        zip_write(&z, FILE_NAME);
        assert_null(tp_archive_open(tp, FILE_NAME));
        EXPECT_ERROR(tp, TP_E_FORMAT, cases[i].text);
    }
}

/* Of one array, whose bytes are not what they should be; it may open. */
static void expect_bad(tp_ctx *tp, member m, const char *text)
{
    begin_zip();
    zip_add(&z, m);
    zip_write(&z, FILE_NAME);
    tp_archive *a = tp_archive_open(tp, FILE_NAME);
    if (a)
        assert_true(tp_failed(tp_archive_tensor(a, "a")));
    EXPECT_ERROR(tp, TP_E_FORMAT, text);
    tp_archive_free(a);
}

static void wrong_arrays(void **state)
{
    tp_ctx *tp = *state;
    make_array();
    const member a = {.name = "a.npy", .data = array.data, .n = array.n};
    member b = a;
    b.sum = 1;
    expect_bad(tp, b, "\"a\": its checksum is another");
    b = a;
    b.n--;
    expect_bad(tp, b, "\"a\" needs 8 bytes, and 7 are its own");
    b.n = 20;
    expect_bad(tp, b, "\"a\": it ends in the header: 58 bytes announced, 10 there");
    npy(&array, "<f4", "(4611686018427387904, 4)", "", 0);
    expect_bad(tp, (member){.name = "a.npy", .data = array.data, .n = array.n},
               "the sizes of \"a\" multiply beyond 2^60 bytes");
    npy(&array, "<f4", "(1, 1, 1, 1, 1, 1, 1, 1, 1)", "1234", 4);
    expect_bad(tp, (member){.name = "a.npy", .data = array.data, .n = array.n},
               "\"a\": it has more than 8 axes");
}

/* Texts have checksums and lengths, too. */
static void wrong_texts(void **state)
{
    tp_ctx *tp = *state;
    npy(&array, "|S4", "()", "text", 4);
    member m = {.name = "t.npy", .data = array.data, .n = array.n, .sum = 1};
    expect_bad(tp, m, "\"t\": its checksum is another");
    npy(&array, "|S5", "()", "text", 4);
    m.n = array.n;
    m.sum = 0;
    expect_bad(tp, m, "\"t\" needs 5 bytes, and 4 are its own");
    npy(&array, "|S3", "()", "text", 4);
    m.n = array.n;
    expect_bad(tp, m, "\"t\" needs 3 bytes, and 4 are its own");
    if (!has_zlib())
        return;
    npy(&array, "|S4", "()", "text", 4);
    deflated(&squeezed, &array);
    m = (member){
        .name = "t.npy", .data = squeezed.data, .n = squeezed.n, .method = 8, .size = array.n};
    expect_bad(tp, m, "\"t\": its checksum is another");
    m.n--;
    expect_bad(tp, m, "\"t\": what is squeezed ends too soon");
}

/* A text is one, however long it is. */
static void long_texts(void **state)
{
    tp_ctx *tp = *state;
    enum { N = 30000 };
    static char text[N + 1];
    memset(text, 't', N);
    npy(&array, "|S30000", "()", text, N);
    begin_zip();
    zip_add(&z, (member){.name = "a.npy", .data = array.data, .n = array.n});
    if (has_zlib()) {
        deflated(&squeezed, &array);
        zip_add(&z, (member){.name = "b.npy",
                             .data = squeezed.data,
                             .n = squeezed.n,
                             .method = 8,
                             .size = array.n,
                             .sum = sum_of(&array)});
    }
    zip_write(&z, FILE_NAME);
    tp_archive *a = tp_archive_open(tp, FILE_NAME);
    assert_int_equal(tp_error(tp), TP_OK);
    assert_int_equal(tp_archive_n(a), 0);
    assert_string_equal(tp_archive_text(a, "a"), text);
    if (has_zlib())
        assert_string_equal(tp_archive_text(a, "b"), text);
}

/* What is squeezed is more, less, or nothing that DEFLATE knows. */
static void wrong_streams(void **state)
{
    tp_ctx *tp = *state;
    need_zlib();
    static bytes larger;
    make_array();
    deflated(&squeezed, &array);
    member m = {
        .name = "a.npy", .data = squeezed.data, .n = squeezed.n, .method = 8, .size = array.n};
    expect_bad(tp, m, "\"a\": its checksum is another");
    m.n -= 3;
    expect_bad(tp, m, "\"a\": what is squeezed ends too soon");
    squeezed.data[0] = 7; /* a kind of block that there is none of */
    expect_bad(tp, m, "\"a\": what is squeezed is damaged");
    larger = array;
    add(&larger, "more", 4);
    deflated(&squeezed, &larger);
    m.n = squeezed.n;
    expect_bad(tp, m, "\"a\": it is longer than it says");
    npy(&larger, "<f4", "(3,)", "12345678", 8);
    deflated(&squeezed, &larger);
    m.n = squeezed.n;
    m.size = larger.n + 4;
    expect_bad(tp, m, "\"a\": it is shorter than it says");
    /* nothing is taken for what is announced */
    npy(&larger, "<f8", "(1000000,)", "12345678", 8);
    deflated(&squeezed, &larger);
    m.n = squeezed.n;
    m.size = larger.n + 7999992;
    expect_bad(tp, m, "\"a.npy\" says to be 8000074 bytes, squeezed to 87");
}

/* Cut anywhere, or with a bit turned. */
static void broken(void **state)
{
    tp_ctx *tp = *state;
    static char whole[4096], changed[4096];
    tp_tensor *x = tp_arange(tp, TP_F32, 3, 0, 1);
    const tp_archive_item items[] = {
        {"x", x,    NULL  },
        {"t", NULL, "text"}
    };
    assert_int_equal(tp_archive_save(tp, FILE_NAME, 2, items), TP_OK);
    const size_t n = read_file(FILE_NAME, whole, sizeof whole);
    for (size_t i = 0; i < n; i++) {
        write_file(FILE_NAME, whole, i);
        assert_null(tp_archive_open(tp, FILE_NAME));
        assert_int_equal(tp_error(tp), TP_E_FORMAT);
        tp_clear_error(tp);
    }
    for (size_t i = 0; i < 8 * n; i++) {
        memcpy(changed, whole, n);
        changed[i / 8] = (char)(changed[i / 8] ^ 1 << i % 8);
        write_file(FILE_NAME, changed, n);
        tp_archive *a = tp_archive_open(tp, FILE_NAME);
        if (a && tp_archive_find(a, "x"))
            tp_archive_tensor(a, "x");
        const tp_status status = tp_error(tp);
        if (status != TP_OK && status != TP_E_FORMAT && status != TP_E_DTYPE)
            fail_msg("bit %zu: %s", i, tp_error_message(tp));
        tp_clear_error(tp);
        tp_archive_free(a);
    }
}

/* A load that fails late changes nothing. */
static void whole_or_not(void **state)
{
    tp_ctx *tp = *state;
    begin_zip();
    make_array();
    zip_add(&z, (member){.name = "a.npy", .data = array.data, .n = array.n});
    zip_add(&z, (member){.name = "b.npy", .data = array.data, .n = array.n, .sum = 5});
    zip_write(&z, FILE_NAME);
    tp_state *s = tp_state_new(tp);
    tp_tensor *a = tp_variable(tp_full(tp, TP_F32, TP_DIMS(2), 3), "a");
    tp_state_add(s, NULL, a);
    tp_state_add(s, NULL, tp_variable(tp_full(tp, TP_F32, TP_DIMS(2), 3), "b"));
    assert_int_equal(tp_state_load(s, FILE_NAME, NULL), TP_E_FORMAT);
    EXPECT_ERROR(tp, TP_E_FORMAT, "tp_state_load: \"b\": its checksum is another");
    assert_true(((const float *)tp_data(a))[0] == 3);
    assert_int_equal(tp_state_load(s, FILE_NAME, "a"), TP_OK);
    assert_true(((const float *)tp_data(a))[1] == -2);
}

static void survives_no_memory(void **state)
{
    (void)state;
    need_zlib();
    begin_zip();
    make_array();
    deflated(&squeezed, &array);
    zip_add(&z, (member){.name = "a.npy",
                         .data = squeezed.data,
                         .n = squeezed.n,
                         .method = 8,
                         .size = array.n,
                         .sum = sum_of(&array)});
    zip_write(&z, FILE_NAME);
    for (long at = 1, done = 0; !done; at++) {
        unit_memory m = {0};
        tp_ctx *tp = unit_open(&m);
        m.fail_once = m.calls + at;
        tp_archive *a = tp_archive_open(tp, FILE_NAME);
        const bool good = a && !tp_failed(tp_archive_tensor(a, "a"));
        done = m.calls < m.fail_once;
        assert_int_equal(tp_error(tp), good ? TP_OK : TP_E_MEMORY);
        assert_true(good || !done);
        tp_close(tp);
        assert_int_equal(m.bytes, 0);
    }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(stored_and_deflated),
        CASE(without_zlib),
        CASE(of_a_state),
        CASE(refused),
        CASE(wrong_arrays),
        CASE(wrong_texts),
        CASE(long_texts),
        CASE(wrong_streams),
        CASE(broken),
        CASE(whole_or_not),
        cmocka_unit_test(survives_no_memory),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(FILE_NAME);
    return failed;
}
