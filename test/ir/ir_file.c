/* Graphs as files: what is saved is loaded with the same bits, and what was cut, changed or
 * could not be written is an error and nothing else. */
#include "base/hash.h"
#include "ir_sample.h"
#include "tapir/nn.h"

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADER = 64 };

typedef struct bytes {
    char *data;
    size_t size;
} bytes;

static char folder[64];

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static bytes slurp(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("%s is not there", path);
    bytes b = {0};
    fseek(f, 0, SEEK_END);
    b.size = (size_t)ftell(f);
    rewind(f);
    b.data = malloc(b.size);
    assert_int_equal(fread(b.data, 1, b.size, f), b.size);
    fclose(f);
    return b;
}

static bytes saved(tp_ctx *tp, const tp_graph *g, const char *name)
{
    if (tp_graph_save(g, path_of(name)) != TP_OK)
        fail_msg("%s", tp_error_message(tp));
    return slurp(path_of(name));
}

static int files_in_folder(void)
{
    int n = 0;
    DIR *d = opendir(folder);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d));)
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    closedir(d);
    return n;
}

/* Size and hash as if these bytes had been written. */
static void reseal(char *data, size_t size)
{
    uint64_t hash[2];
    for (int i = 0; i < 8; i++)
        data[16 + i] = (char)(size >> 8 * i);
    tpi_hasher h;
    tpi_hash_begin(&h);
    tpi_hash_add(&h, data, 24);
    tpi_hash_add(&h, data + 40, size - 40);
    tpi_hash_end(&h, hash);
    for (int i = 0; i < 16; i++)
        data[24 + i] = (char)(hash[i / 8] >> 8 * (i % 8));
}

static tp_graph *load_copy(tp_ctx *tp, const char *data, size_t size)
{
    char *copy = malloc(size ? size : 1); /* of just this size, for the sanitizer */
    memcpy(copy, data, size);
    tp_graph *g = tp_graph_load_bytes(tp, copy, size);
    free(copy);
    return g;
}

static void same_values(const tp_graph *g, const tp_graph *h)
{
    assert_int_equal(g->n_nodes, h->n_nodes);
    for (int i = 0; i < g->n_nodes; i++) {
        const tp_tensor *a = g->nodes[i], *b = h->nodes[i];
        assert_ptr_equal(a->op, b->op);
        if (a->op != &tpi_op_const && a->op != &tpi_op_variable)
            continue;
        const size_t size = tpi_bytes(a->in[0]);
        char *x = malloc(size + 1), *y = malloc(size + 1);
        tpi_copy_out(a->in[0], x);
        tpi_copy_out(b->in[0], y);
        if (memcmp(x, y, size) != 0)
            fail_msg("node %%%d: other values", i);
        free(x);
        free(y);
    }
}

static void round_trip(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *graphs[] = {sample_every_op(tp), sample_odd(tp), tp_graph_new(tp)};
    for (int k = 0; k < 3; k++) {
        tp_graph *g = graphs[k];
        bytes first = saved(tp, g, "a.tapir");
        tp_graph *h = tp_graph_load(tp, path_of("a.tapir"));
        if (!h)
            fail_msg("%s", tp_error_message(tp));
        bytes second = saved(tp, h, "b.tapir");
        assert_int_equal(first.size, second.size);
        assert_memory_equal(first.data, second.data, first.size);
        same_values(g, h);
        if (tp_graph_verify(h) != TP_OK)
            fail_msg("%s", tp_error_message(tp));
        char *a = tp_graph_text(g), *b = tp_graph_text(h);
        assert_string_equal(a, b);
        tp_free(tp, a);
        tp_free(tp, b);
        tp_graph_free(g); /* h lives by itself */
        tp_graph *again = load_copy(tp, second.data, second.size);
        assert_non_null(again);
        same_values(h, again);
        free(first.data);
        free(second.data);
    }
    assert_int_equal(files_in_folder(), 2);
}

static void found_by_name(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = sample_every_op(tp);
    bytes b = saved(tp, g, "a.tapir");
    tp_graph_free(g);
    tp_graph *h = load_copy(tp, b.data, b.size);
    assert_non_null(h);
    tp_tensor *loss = tp_graph_find(h, "loss"), *w = tp_graph_variable(h, "w");
    assert_false(tp_failed(loss));
    assert_false(tp_failed(w));
    assert_true(tp_is_symbolic(loss));
    float values[18];
    assert_int_equal(tp_read(w, values, sizeof values), TP_OK);
    assert_true(values[0] == 1.0f && values[1] == 1.37f);
    assert_int_equal(w->flags & (TPI_LEAF | TPI_REQUIRES | TPI_STATE | TPI_VARIABLE),
                     TPI_LEAF | TPI_REQUIRES | TPI_STATE | TPI_VARIABLE);
    /* After the assignment in the graph, w is its newest value, as it was when it was saved. */
    tp_tensor *more = tp_add(w, tp_graph_find(h, "y"));
    assert_true(tp_failed(more)); /* sizes differ; the message below is the rule's own */
    tp_clear_error(tp);
    more = tp_neg(tpi_graph_lift(h, TPI_AT(NULL, 0), w));
    assert_false(tp_failed(more));
    assert_ptr_equal(more->in[0]->op, &tpi_op_assign);
    /* Errors of what is built on keep the line of the program that built the graph. */
    assert_non_null(strstr(loss->file, "ir_sample.h"));
    free(b.data);
}

/* A training step with momentum and a step count, by the reference executor. */
static tp_graph *training(tp_ctx *tp)
{
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(tp_symbol(g, "batch"), 6));
    tp_tensor *small = tp_scalar(tp, TP_F32, 0.01); /* so that tanh is not flat there */
    tp_tensor *w = tp_param(tp_mul(sample_data(tp, TP_F32, TP_DIMS(6, 3)), small), "w");
    tp_tensor *m = tp_variable(tp_full(tp, TP_F32, TP_DIMS(6, 3), 0), "momentum");
    tp_tensor *steps = tp_variable(tp_scalar(tp, TP_I64, 0), "steps");
    tp_tensor *big = sample_data(tp, TP_F32, TP_DIMS(3, 7)); /* a constant beside the text */
    tp_tensor *y = tp_tanh(tp_matmul(tp_matmul(x, w), big));
    tp_tensor *loss = tp_name(
        tp_mean(tp_square(tp_sub(y, tp_scalar(tp, TP_F32, 0.25))), TP_ALL, false), "loss");
    tp_tensor *all[3];
    tp_tensor *moved = tp_add(tp_mul(m, tp_scalar(tp, TP_F32, 0.9)), tp_grad(loss, w));
    all[0] = tp_assign(m, moved);
    all[1] = tp_assign(w, tp_sub(w, tp_mul(moved, tp_scalar(tp, TP_F32, 0.05))));
    all[2] = tp_assign(steps, tp_add(steps, tp_extent(x, TP_DIMS(0), TP_I64)));
    MUST(tp_name(tp_group(3, all), "train"));
    return g;
}

static void run_steps(tp_ctx *tp, tp_graph *g, int n, float *losses)
{
    const char *const feeds[] = {"x"}, *const fetches[] = {"loss", "train"};
    const tp_compile_options reference = {.engine = TP_ENGINE_REFERENCE};
    tp_program *p = tp_graph_compile(g, 1, feeds, 2, fetches, &reference);
    if (!p)
        fail_msg("%s", tp_error_message(tp));
    for (int i = 0; i < n; i++) {
        tp_scope_begin(tp);
        tp_tensor *out[2], *x = sample_data(tp, TP_F32, TP_DIMS(2 + i % 2, 6));
        x = tp_mul(x, tp_scalar(tp, TP_F32, 0.01 * (i + 1)));
        if (tp_program_run(p, &x, out) != TP_OK)
            fail_msg("%s", tp_error_message(tp));
        losses[i] = (float)tp_item(out[0]);
        tp_scope_end(tp);
    }
    tp_program_free(p);
}

static void runs_with_the_same_bits(void **state)
{
    enum { STEPS = 4 };
    tp_ctx *tp = *state;
    tp_graph *g = training(tp);
    float first[STEPS], a[STEPS], b[STEPS];
    run_steps(tp, g, STEPS, first);
    bytes saved_bytes = saved(tp, g, "a.tapir");
    tp_graph *h = load_copy(tp, saved_bytes.data, saved_bytes.size);
    if (!h)
        fail_msg("%s", tp_error_message(tp));
    run_steps(tp, g, STEPS, a);
    run_steps(tp, h, STEPS, b);
    assert_memory_equal(a, b, sizeof a);
    assert_memory_not_equal(a, first, sizeof a); /* it has learned something */
    const char *const names[] = {"w", "momentum", "steps"};
    for (int i = 0; i < 3; i++) {
        tp_tensor *x = tp_graph_variable(g, names[i]), *y = tp_graph_variable(h, names[i]);
        assert_int_equal(tpi_bytes(x), tpi_bytes(y));
        assert_ptr_not_equal(x->data, y->data);
        assert_memory_equal(x->data, y->data, tpi_bytes(x));
    }
    assert_int_equal(tp_item_i64(tp_graph_variable(h, "steps")), 20);
    bytes x = saved(tp, g, "a.tapir"), y = saved(tp, h, "b.tapir");
    assert_int_equal(x.size, y.size);
    assert_memory_equal(x.data, y.data, x.size);
    free(saved_bytes.data);
    free(x.data);
    free(y.data);
}

/* The layout, byte by byte, of the smallest graph with a value. */
static void layout(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = tp_graph_new(tp);
    const float values[] = {1, -2};
    tpi_graph_lift(g, TPI_AT(NULL, 0),
                   tp_variable(tp_tensor_new(tp, TP_F32, TP_DIMS(2), values), "w"));
    bytes b = saved(tp, g, "a.tapir");
    const char text[] = "tapir 1\n@0 \"w\" = state : f32[2]\n%0 \"w\" = variable @0 : f32[2]\n";
    const size_t text_size = sizeof text - 1, at = (HEADER + 88 + text_size + 63) / 64 * 64;
    assert_int_equal(b.size, at + 8);
    const unsigned char *p = (const unsigned char *)b.data;
    assert_memory_equal(p, "tapir graph 001\n", 16);
    assert_int_equal(p[16], b.size & 255);
    assert_int_equal(p[17], b.size >> 8);
    assert_int_equal(p[40], text_size);
    assert_int_equal(p[48], 1);
    const unsigned char row[] = {TP_F32, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0};
    assert_memory_equal(p + HEADER, row, sizeof row);
    assert_int_equal(p[HEADER + 72] | p[HEADER + 73] << 8, at);
    assert_int_equal(p[HEADER + 80], 8);
    assert_memory_equal(p + HEADER + 88, text, text_size);
    const unsigned char floats[] = {0, 0, 0x80, 0x3f, 0, 0, 0, 0xc0};
    assert_memory_equal(p + at, floats, 8);
    free(b.data);
}

/* ---- files that are not what was written ----------------------------------------------------- */

static void refuse(tp_ctx *tp, const char *data, size_t size, const char *how, size_t at)
{
    tp_graph *g = load_copy(tp, data, size);
    if (g || tp_error(tp) != TP_E_FORMAT)
        fail_msg("%s at byte %zu: %s", how, at, g ? "loaded" : tp_error_message(tp));
    tp_clear_error(tp);
}

static void cut_anywhere(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = sample_odd(tp);
    bytes b = saved(tp, g, "a.tapir");
    tp_graph_free(g);
    const size_t before = tp_memory_bytes(tp);
    char *copy = malloc(b.size + 1);
    for (size_t n = 0; n < b.size; n++) {
        memcpy(copy, b.data, b.size);
        refuse(tp, copy, n, "cut", n);
        if (n < HEADER)
            continue;
        reseal(copy, n);
        refuse(tp, copy, n, "cut and sealed", n);
    }
    memcpy(copy, b.data, b.size);
    copy[b.size] = 0;
    refuse(tp, copy, b.size + 1, "one byte more", b.size);
    reseal(copy, b.size + 1);
    refuse(tp, copy, b.size + 1, "one byte more, sealed", b.size);
    assert_int_equal(tp_memory_bytes(tp), before);
    free(copy);
    free(b.data);
}

static void changed_anywhere(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = sample_odd(tp);
    bytes b = saved(tp, g, "a.tapir");
    tp_graph_free(g);
    const uint64_t start = 99;
    uint64_t seed = start;
    int loaded = 0;
    for (size_t at = 0; at < b.size; at++) {
        const char was = b.data[at];
        b.data[at] = (char)(was ^ (char)(1u << unit_random(&seed) % 8));
        refuse(tp, b.data, b.size, "a bit turned", at);
        b.data[at] = was;
    }
    char *copy = malloc(b.size);
    for (size_t at = 40; at < b.size; at += 5) {
        memcpy(copy, b.data, b.size);
        copy[at] = (char)unit_random(&seed);
        reseal(copy, b.size);
        tp_graph *h = load_copy(tp, copy, b.size);
        if (!h && tp_error(tp) != TP_E_FORMAT)
            fail_msg("byte %zu (seed %d): %s", at, (int)start, tp_error_message(tp));
        if (h && tp_graph_verify(h) != TP_OK)
            fail_msg("byte %zu (seed %d): %s", at, (int)start, tp_error_message(tp));
        loaded += h != NULL;
        tp_graph_free(h);
        tp_clear_error(tp);
    }
    print_message("%d files with another byte and a hash to fit are graphs\n", loaded);
    free(copy);
    free(b.data);
}

static void not_graphs(void **state)
{
    tp_ctx *tp = *state;
    assert_null(tp_graph_load(tp, path_of("none.tapir")));
    EXPECT_ERROR(tp, TP_E_IO, "none.tapir: No such file or directory");
    assert_null(tp_graph_load(tp, folder));
    EXPECT_ERROR(tp, TP_E_IO, "Is a directory");
    assert_null(tp_graph_load(tp, NULL));
    EXPECT_ERROR(tp, TP_E_NULL, "the path is NULL");
    assert_null(tp_graph_load_bytes(tp, NULL, 3));
    EXPECT_ERROR(tp, TP_E_NULL, "the bytes are NULL");
    assert_null(tp_graph_load(NULL, "x"));
    char other[HEADER] = "tapir graph 002\n";
    refuse(tp, other, sizeof other, "version", 0);
    refuse(tp, "hello", 5, "hello", 0);
    tp_graph *g = tp_graph_new(tp);
    assert_int_equal(tp_graph_save(g, NULL), TP_E_NULL);
    EXPECT_ERROR(tp, TP_E_NULL, "the path is NULL");
    assert_int_equal(tp_graph_save(NULL, "x"), TP_E_NULL);
    assert_int_equal(tp_graph_save(g, path_of("no/such/folder.tapir")), TP_E_IO);
    EXPECT_ERROR(tp, TP_E_IO, "No such file or directory");
    assert_int_equal(tp_graph_save(g, "/dev/full"), TP_E_IO);
    tp_clear_error(tp);
}

/* ---- no room ------------------------------------------------------------------------------------ */

/* Stops writing after n bytes, as a full disk does: the file that was there stays. */
static void no_room(void **state)
{
    tp_ctx *tp = *state;
    tp_graph *g = sample_odd(tp);
    bytes b = saved(tp, g, "a.tapir");
    const int files = files_in_folder();
    struct rlimit was, limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    signal(SIGXFSZ, SIG_IGN);
    for (size_t n = 0; n < b.size; n += n < 300 ? 1 : 97) {
        limit = (struct rlimit){.rlim_cur = n, .rlim_max = was.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        const tp_status s = tp_graph_save(g, path_of("a.tapir"));
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
        if (s != TP_E_IO)
            fail_msg("with room for %zu bytes: %s", n, tp_status_name(s));
        tp_clear_error(tp);
        assert_int_equal(files_in_folder(), files);
        bytes now = slurp(path_of("a.tapir"));
        assert_int_equal(now.size, b.size);
        assert_memory_equal(now.data, b.data, b.size);
        free(now.data);
    }
    signal(SIGXFSZ, SIG_DFL);
    free(b.data);
}

static void out_of_memory(void **state)
{
    (void)state;
    unit_memory m = {0};
    tp_ctx *tp = unit_open(&m);
    tp_graph *g = sample_odd(tp);
    bytes b = saved(tp, g, "a.tapir");
    tp_close(tp);
    assert_int_equal(m.bytes, 0);
    bool whole = false;
    for (long n = 1; !whole; n++) {
        m = (unit_memory){0};
        tp = unit_open(&m);
        m.fail_at = m.calls + n;
        g = load_copy(tp, b.data, b.size);
        if (g)
            whole = tp_graph_save(g, path_of("b.tapir")) == TP_OK;
        if (!whole)
            assert_int_equal(tp_error(tp), TP_E_MEMORY);
        tp_close(tp);
        assert_int_equal(m.bytes, 0);
    }
    bytes again = slurp(path_of("b.tapir"));
    assert_int_equal(again.size, b.size);
    assert_memory_equal(again.data, b.data, b.size);
    free(again.data);
    free(b.data);
}

static int make_folder(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.30s/tapir-file-XXXXXX",
             base ? base
                  : "/var"
                    "/tmp");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path_of("a.tapir"));
    unlink(path_of("b.tapir"));
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(round_trip),
        CASE(found_by_name),
        CASE(layout),
        CASE(cut_anywhere),
        CASE(runs_with_the_same_bits),
        CASE(changed_anywhere),
        CASE(not_graphs),
        CASE(no_room),
        CASE(out_of_memory),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
