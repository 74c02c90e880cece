/* Archives: what is listed, where tensors lie and how long, and what is written. Files are safetensors; train_npz.c and
 * train_shards.c have the other kinds. */
#include "archive_files.h"

#include <unistd.h>

#define FILE_NAME "train_archive.safetensors"

static const char header[] =
    "{\"odd\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[16,17]},"
    "\"plain\":{\"dtype\":\"F32\",\"shape\":[2,1],\"data_offsets\":[0,8]},"
    "\"crooked\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[17,25]},"
    "\"half\":{\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[8,12]},"
    "\"brain\":{\"dtype\":\"BF16\",\"shape\":[2],\"data_offsets\":[12,16]},"
    "\"flags\":{\"dtype\":\"BOOL\",\"shape\":[2],\"data_offsets\":[25,27]},"
    "\"eighth\":{\"dtype\":\"F8_E4M3\",\"shape\":[3],\"data_offsets\":[27,30]},"
    "\"none\":{\"dtype\":\"I64\",\"shape\":[0,4],\"data_offsets\":[30,30]},"
    "\"__metadata__\":{\"format\":\"pt\",\"a\":\"\"}}  ";

static void write_sample(void)
{
    static const char data[] = "\0\0\x80\x3f\0\0\0\xc0" /* 1, -2 */
                               "\0\x3c\0\xc0"           /* 1, -2 */
                               "\x80\x3f\0\xc0"         /* 1, -2 */
                               "\x07"                   /* 7 */
                               "\0\0\x80\x3f\0\0\0\xc0" /* 1, -2 */
                               "\0\2"                   /* false, true */
                               "\1\2\3";
    char text[sizeof header + 8];
    snprintf(text, sizeof text, "%s", header);
    while (strlen(text) % 8)
        strcat(text, " ");
    write_parts(FILE_NAME, text, data, 30);
}

static void listed(void **state)
{
    tp_ctx *tp = *state;
    static const struct {
        const char *name, *type;
        tp_dtype dtype;
        int rank;
        int64_t last;
    } want[] = {
        {"brain",   "BF16",    TP_F32,      1, 2},
        {"crooked", "F32",     TP_F32,      1, 2},
        {"eighth",  "F8_E4M3", TP_N_DTYPES, 1, 3},
        {"flags",   "BOOL",    TP_BOOL,     1, 2},
        {"half",    "F16",     TP_F32,      1, 2},
        {"none",    "I64",     TP_I64,      2, 4},
        {"odd",     "U8",      TP_U8,       1, 1},
        {"plain",   "F32",     TP_F32,      2, 1},
    };
    write_sample();
    tp_archive *a = tp_archive_open(tp, FILE_NAME);
    assert_int_equal(tp_archive_n(a), 8);
    for (int i = 0; i < 8; i++) {
        const tp_archive_entry *e = tp_archive_entry_of(a, i);
        assert_string_equal(e->name, want[i].name);
        assert_string_equal(e->type, want[i].type);
        assert_int_equal(e->dtype, want[i].dtype);
        assert_int_equal(e->rank, want[i].rank);
        assert_int_equal(e->shape[e->rank - 1], want[i].last);
        assert_ptr_equal(tp_archive_find(a, e->name), e);
    }
    assert_null(tp_archive_entry_of(a, 8));
    assert_null(tp_archive_entry_of(a, -1));
    assert_null(tp_archive_find(a, "x"));
    assert_string_equal(tp_archive_key(a, 0), "a");
    assert_string_equal(tp_archive_key(a, 1), "format");
    assert_null(tp_archive_key(a, 2));
    assert_string_equal(tp_archive_text(a, "format"), "pt");
    assert_string_equal(tp_archive_text(a, "a"), "");
    assert_null(tp_archive_text(a, "b"));
}

static void values(void **state)
{
    tp_ctx *tp = *state;
    write_sample();
    tp_archive *a = tp_archive_open(tp, FILE_NAME);
    static const char *const names[] = {"plain", "crooked", "half", "brain"};
    for (int i = 0; i < 4; i++) {
        const float *v = tp_data(tp_archive_tensor(a, names[i]));
        assert_true(v && v[0] == 1 && v[1] == -2);
    }
    assert_memory_equal(tp_data(tp_archive_tensor(a, "flags")), "\0\1", 2);
    assert_int_equal(tp_item_i64(tp_archive_tensor(a, "odd")), 7);
    assert_int_equal(tp_count(tp_archive_tensor(a, "none")), 0);
    assert_int_equal(tp_error(tp), TP_OK);
    assert_true(tp_failed(tp_archive_tensor(a, "eighth")));
    EXPECT_ERROR(
        tp, TP_E_DTYPE,
        "tp_archive_tensor: the elements of \"eighth\" are F8_E4M3, which no tensor has");
    assert_true(tp_failed(tp_archive_tensor(a, "x")));
    EXPECT_ERROR(tp, TP_E_NAME, "tp_archive_tensor: there is no \"x\"");
}

/* Tensors lie in the mapping, which goes with the last of them, whatever becomes of the archive and the file. */
static void mapped(void **state)
{
    tp_ctx *tp = *state;
    enum { N = 1 << 18 };
    tp_tensor *x = tp_normal(tp, TP_F32, TP_DIMS(N), 0, 1);
    const tp_archive_item items[] = {
        {"x",       x,  NULL},
        { "y", tp_mul(x, 2), NULL}
    };
    assert_int_equal(tp_archive_save(tp, FILE_NAME, 2, items), TP_OK);
    const size_t before = tp_memory_bytes(tp);
    tp_archive *a = tp_archive_open(tp, FILE_NAME);
    tp_tensor *y = tp_archive_tensor(a, "x"), *z = tp_archive_tensor(a, "x");
    assert_ptr_equal(tp_data(y), tp_data(z));
    assert_true(tp_memory_bytes(tp) - before < 8192);
    unlink(FILE_NAME);
    tp_archive_free(a);
    assert_memory_equal(tp_data(y), tp_data(x), N * sizeof(float));
    tp_tensor *sum = tp_sum(tp_sub(tp_add(y, z), items[1].tensor), TP_ALL, false);
    assert_true(tp_item(sum) == 0);
    tp_tensor *v = tp_variable(y, "v"); /* with memory of its own */
    tp_assign(v, tp_mul(v, 0));
    assert_true(tp_item(tp_sum(v, TP_ALL, false)) == 0);
    assert_memory_equal(tp_data(y), tp_data(x), N * sizeof(float));
}

static void scales(void *user, int n_in, tp_tensor *const *in, int n_out, tp_tensor **out)
{
    (void)n_in, (void)n_out;
    out[0] = tp_add(tp_mul(in[0], user), user);
}

/* Graphs and captured functions take a mapped tensor as they take any: its memory is not the caller's, who might change it. */
static void in_graphs(void **state)
{
    tp_ctx *tp = *state;
    write_sample();
    tp_archive *a = tp_archive_open(tp, FILE_NAME);
    tp_tensor *w = tp_archive_tensor(a, "plain"), *x = tp_full(tp, TP_F32, TP_DIMS(2, 1), 3),
              *y;
    tp_archive_free(a);
    tp_graph *g = tp_graph_new(tp);
    tp_name(tp_mul(tp_placeholder(g, "x", TP_F32, TP_DIMS(2, 1)), w), "y");
    assert_int_equal(tp_graph_run(g, TP_FEEDS({"x", x}), TP_NAMES("y"), &y), TP_OK);
    assert_memory_equal(tp_data(y), ((const float[]){3, -6}), 8);
    tp_function *f =
        tp_function_new(tp, "scales", scales, w, &(tp_function_options){.pure = true});
    for (int i = 0; i < 8; i++)
        y = tp_function_apply(f, TP_TENSORS(x));
    assert_memory_equal(tp_data(y), ((const float[]){4, -8}), 8);
    char *text = tp_function_text(f);
    if (strstr(text, "wrapped"))
        fail_msg("%s", text);
    tp_free(tp, text);
    assert_int_equal(tp_error(tp), TP_OK);
}

/* A mapping, an archive and its tensors are left to tp_close. */
static void left_open(void **state)
{
    tp_ctx *tp = *state;
    write_sample();
    tp_scope_begin(tp);
    tp_tensor *plain = tp_keep(tp_archive_tensor(tp_archive_open(tp, FILE_NAME), "plain"));
    tp_scope_end(tp);
    tp_retain(plain);
    assert_int_equal(tp_error(tp), TP_OK);
    tp_archive_free(NULL);
}

/* ---- writing ------------------------------------------------------------------------------------------ */

static void saved(void **state)
{
    tp_ctx *tp = *state;
    static const char *const paths[] = {FILE_NAME, "train_archive.npz"};
    tp_tensor *x = tp_arange(tp, TP_F32, 12, 0, 1), *turned;
    turned = tp_transpose(tp_reshape(x, TP_DIMS(3, 4)), TP_DIMS(1, 0));
    tp_tensor *flags = tp_cast(x, TP_BOOL), *empty = tp_full(tp, TP_I16, TP_DIMS(0, 3), 0);
    const tp_archive_item items[] = {
        {"turned",       turned, NULL      },
        {"note",         NULL,   "\xc3\xa9"},
        {"\xc3\xa9/x.y", flags,  NULL      },
        {"nothing",      NULL,   ""        },
        {"empty",        empty,  NULL      }
    };
    const tp_archive_item again[] = {items[4], items[2], items[0], items[3], items[1]};
    for (int k = 0; k < 2; k++) {
        static char file[2][4096];
        assert_int_equal(tp_archive_save(tp, paths[k], 5, again), TP_OK);
        const size_t n = read_file(paths[k], file[0], sizeof file[0]);
        assert_int_equal(tp_archive_save(tp, paths[k], 5, items), TP_OK);
        assert_int_equal(read_file(paths[k], file[1], sizeof file[1]), n);
        assert_memory_equal(file[0], file[1], n);
        tp_archive *a = tp_archive_open(tp, paths[k]);
        assert_int_equal(tp_archive_n(a), 3);
        const float *v = tp_data(tp_archive_tensor(a, "turned"));
        assert_true(v[0] == 0 && v[1] == 4 && v[3] == 1 && v[11] == 11);
        assert_memory_equal(tp_data(tp_archive_tensor(a, items[2].name)), "\0\1\1", 3);
        assert_int_equal(tp_size(tp_archive_tensor(a, "empty"), 1), 3);
        assert_string_equal(tp_archive_text(a, "note"), "\xc3\xa9");
        assert_string_equal(tp_archive_text(a, "nothing"), "");
        assert_null(tp_archive_key(a, 2));
        tp_archive_free(a);
        unlink(paths[k]);
    }
}

/* Beside the tensor x of that name. */
static void expect_refused(tp_ctx *tp, tp_tensor *x, const char *name, tp_tensor *tensor,
                           const char *note, tp_status status, const char *what)
{
    const tp_archive_item items[] = {
        {name, tensor, note},
        {"x",  x,      NULL}
    };
    char text[200];
    assert_int_equal(tp_archive_save(tp, FILE_NAME, 2, items), status);
    snprintf(text, sizeof text, "tp_archive_save: %s", what);
    EXPECT_ERROR(tp, status, text);
    assert_int_not_equal(access(FILE_NAME, F_OK), 0);
}

static void refused(void **state)
{
    tp_ctx *tp = *state;
    tp_tensor *x = tp_full(tp, TP_F32, TP_DIMS(2), 1),
              *symbolic = tp_placeholder(tp_graph_new(tp), "s", TP_F32, TP_DIMS(2));
    unlink(FILE_NAME);
    expect_refused(tp, x, "x", NULL, "t", TP_E_NAME, "\"x\" is there twice");
    expect_refused(tp, x, "", x, NULL, TP_E_NAME, "\"\" cannot be a name: it is empty");
    expect_refused(tp, x, "__metadata__", x, NULL, TP_E_NAME,
                   "\"__metadata__\" cannot be a name: the format has it for itself");
    expect_refused(tp, x, NULL, x, NULL, TP_E_NULL, "item 0 has no name");
    expect_refused(tp, x, "y", NULL, NULL, TP_E_NULL, "item 0 has no tensor and no text");
    expect_refused(tp, x, "t", NULL, "\xff", TP_E_VALUE, "the text \"t\" is no UTF-8");
    expect_refused(tp, x, "s", symbolic, NULL, TP_E_SYMBOLIC,
                   "\"s\" is symbolic: its value is known only when its graph is run");
    char *name = calloc(1, 70000); /* longer than a zip has room for */
    memset(name, 'n', 69999);
    assert_int_equal(tp_archive_save(tp, "x.npz", 1, &(tp_archive_item){name, x, NULL}),
                     TP_E_NAME);
    free(name);
    tp_clear_error(tp);
}

/* A header that could not be read back: nothing is written. */
static void too_many_texts(void **state)
{
    tp_ctx *tp = *state;
    enum { N = 100000000 };
    char *text = malloc(N + 1);
    assert_non_null(text);
    memset(text, 't', N);
    text[N] = 0;
    const tp_archive_item item = {"t", NULL, text};
    unlink(FILE_NAME);
    assert_int_equal(tp_archive_save(tp, FILE_NAME, 1, &item), TP_E_LIMIT);
    EXPECT_ERROR(tp, TP_E_LIMIT,
                 "tp_archive_save: " FILE_NAME
                 ": its header would have 100000032 bytes; 100000000 "
                 "at most can be read");
    assert_int_not_equal(access(FILE_NAME, F_OK), 0);
    free(text);
}

/* ---- no memory ---------------------------------------------------------------------------------------- */

static tp_status use(tp_ctx *tp, const char *path)
{
    tp_tensor *x = tp_arange(tp, TP_F32, 6, 0, 1),
              *turned = tp_transpose(tp_reshape(x, TP_DIMS(2, 3)), TP_DIMS(1, 0));
    const tp_archive_item items[] = {
        {"x",      x,      NULL  },
        {"t",      NULL,   "text"},
        {"turned", turned, NULL  }
    };
    tp_status status = tp_archive_save(tp, path, 3, items);
    tp_archive *a = status == TP_OK ? tp_archive_open(tp, path) : NULL;
    if (a)
        status = tp_status_of(tp_archive_tensor(a, "turned"));
    else
        status = tp_error(tp);
    tp_archive_free(a);
    return status;
}

static void survives_no_memory(void **state)
{
    (void)state;
    for (int npz = 0; npz < 2; npz++)
        for (long at = 1, done = 0; !done; at++) {
            const char *path = npz ? "train_archive.npz" : FILE_NAME;
            unit_memory m = {0};
            tp_ctx *tp = unit_open(&m);
            m.fail_once = m.calls + at;
            const tp_status status = use(tp, path);
            done = m.calls < m.fail_once;
            assert_true(status == TP_E_MEMORY || status == TP_OK);
            tp_close(tp);
            assert_int_equal(m.bytes, 0);
            unlink(path);
        }
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CASE(listed),    CASE(values),         CASE(mapped),
        CASE(in_graphs), CASE(left_open),      CASE(saved),
        CASE(refused),   CASE(too_many_texts), cmocka_unit_test(survives_no_memory),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(FILE_NAME);
    return failed;
}
