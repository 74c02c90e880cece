#include "both.h"

#include "same.h"

#include <inttypes.h>
#include <math.h>
#include <unistd.h>

static const both_way ways[] = {
    {"eager",                   NULL,              {.eager = true},                 false},
    {"reference",               NULL,              {.engine = TP_ENGINE_REFERENCE}, false},
    {"tiles",                   NULL,              {.engine = TP_ENGINE_TILES},     false},
    {"auto without a compiler", "/nonexistent/cc", {.engine = TP_ENGINE_AUTO},      false},
    {"auto",                    NULL,              {.engine = TP_ENGINE_AUTO},      true },
    {"C",                       NULL,              {.engine = TP_ENGINE_C},         false},
};
enum { N_WAYS = sizeof ways / sizeof *ways };

static tp_function *make_with(bed *b, const char *name, tp_body body, void *user,
                              const tp_function_options *opt)
{
    tp_function *f = tp_function_new(b->tp, name, body, user, opt);
    if (!f)
        fail_msg("%s: no function: %s", b->way->name, tp_error_message(b->tp));
    for (int i = 0; i < b->n_made; i++)
        if (!b->made[i])
            return b->made[i] = f;
    assert_true(b->n_made < BOTH_FUNCTIONS);
    return b->made[b->n_made++] = f;
}

tp_function *make(bed *b, const char *name, tp_body body, void *user)
{
    return make_with(b, name, body, user, &b->way->opt);
}

tp_function *make_pure(bed *b, const char *name, tp_body body, void *user)
{
    tp_function_options opt = b->way->opt;
    opt.pure = true;
    return make_with(b, name, body, user, &opt);
}

void discard(bed *b, tp_function *f)
{
    for (int i = 0; i < b->n_made; i++)
        if (b->made[i] == f)
            b->made[i] = NULL;
    tp_function_free(f);
}

/* What was waited for is not said to be on its way. */
static void settle_one(bed *b, tp_function *f)
{
    if (tp_function_wait(f) != TP_OK)
        fail_msg("%s: tp_function_wait: %s", b->way->name, tp_error_message(b->tp));
    char *text = tp_function_text(f);
    if (text && strstr(text, "being compiled"))
        fail_msg("%s: it was waited for:\n%s", b->way->name, text);
    tp_free(b->tp, text);
}

void settle(bed *b)
{
    for (int i = 0; i < b->n_made && b->way->how == BOTH_WAITS; i++)
        if (b->made[i])
            settle_one(b, b->made[i]);
}

/* ---- the transcript ---------------------------------------------------------------------- */

static void put(bed *b, const char *text, size_t n)
{
    if (b->n_text + n + 1 > b->size) {
        b->size = (b->n_text + n + 1) * 2;
        b->text = realloc(b->text, b->size);
        assert_non_null(b->text);
    }
    memcpy(b->text + b->n_text, text, n);
    b->n_text += n;
    b->text[b->n_text] = 0;
}

static void put_format(bed *b, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put_format(bed *b, const char *format, ...)
{
    char line[600];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    put(b, line, strlen(line));
}

void say(bed *b, const char *format, ...)
{
    char line[600];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    for (char *c = line; *c; c++) /* a message stays one line */
        *c = *c == '\n' ? ' ' : *c;
    put(b, line, strlen(line));
    put(b, "\n", 1);
}

static void put_element(bed *b, tp_dtype dtype, const char *p)
{
    double wide = 0;
    float narrow = 0;
    uint64_t bits = 0;
    memcpy(&bits, p, tp_dtype_size(dtype));
    if (dtype == TP_F32) {
        memcpy(&narrow, p, sizeof narrow);
        wide = narrow;
    } else if (dtype == TP_F64) {
        memcpy(&wide, p, sizeof wide);
    }
    if (isnan(wide))
        put_format(b, " nan");
    else if (dtype == TP_F32 || dtype == TP_F64)
        put_format(b, " %.9g:%" PRIx64, wide, bits);
    else
        put_format(b, " %" PRIx64, bits);
}

void note(bed *b, const char *what, const tp_tensor *t)
{
    if (tp_failed(t)) {
        say(b, "%s: %s: %s", what, tp_status_name(tp_status_of(t)), tp_error_text(t));
        return;
    }
    const tp_dtype dtype = tp_dtype_of(t);
    const size_t size = tp_dtype_size(dtype);
    put_format(b, "%s: %s%s[", what, tp_requires_grad(t) ? "grad " : "", tp_dtype_name(dtype));
    for (int i = 0; i < tp_rank(t); i++)
        if (tp_is_symbolic(t) && tp_dim(t, i) < 0)
            put_format(b, i ? ", n" : "n");
        else
            put_format(b, i ? ", %" PRId64 : "%" PRId64, tp_dim(t, i));
    put(b, "]", 1);
    if (tp_is_symbolic(t)) {
        put(b, " symbolic\n", 10);
        return;
    }
    const int64_t n = tp_count(t);
    char *bytes = malloc((size_t)n * size + 1);
    assert_non_null(bytes);
    if (tp_read(t, bytes, (size_t)n * size) != TP_OK)
        put_format(b, " unread: %s", tp_error_message(b->tp));
    else
        for (int64_t i = 0; i < n; i++)
            put_element(b, dtype, bytes + (size_t)i * size);
    put(b, "\n", 1);
    free(bytes);
}

void note_error(bed *b, const char *what)
{
    if (tp_error(b->tp) != TP_OK)
        say(b, "%s: %s: %s", what, tp_status_name(tp_error(b->tp)), tp_error_message(b->tp));
    tp_clear_error(b->tp);
}

void note_print(bed *b, const tp_tensor *t)
{
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    assert_non_null(f);
    tp_print(t, f);
    fclose(f);
    put(b, text, size);
    free(text);
}

/* ---- running and comparing --------------------------------------------------------------- */

char *both_transcript(const both_way *way, void (*scenario)(bed *b), const void *given)
{
    unit_memory memory = {0};
    const tp_allocator a = {unit_alloc, unit_release, &memory};
    bed b = {.way = way, .eager = way->opt.eager, .given = given};
    b.tp = tp_open(&(tp_options){.allocator = &a, .seed = 11, .compiler = way->compiler});
    assert_non_null(b.tp);
    say(&b, "begin");
    scenario(&b);
    note_error(&b, "at the end");
    tp_close(b.tp);
    if (memory.bytes)
        fail_msg("%s: %zu bytes are still out after tp_close", way->name, memory.bytes);
    return b.text;
}

bool both_differ(const both_way *way, const char *eager, const char *got, char *why,
                 size_t size)
{
    const char *e = eager, *g = got;
    for (int line = 0;; line++) {
        const size_t n = strcspn(e, "\n"), m = strcspn(g, "\n");
        if (n != m || memcmp(e, g, n) != 0) {
            snprintf(why, size,
                     "%s differs from eager in line %d of what is noted:\n  eager: %.*s\n  %s: "
                     "%.*s",
                     way->name, line, n < 700 ? (int)n : 700, e, way->name,
                     m < 700 ? (int)m : 700, g);
            return true;
        }
        if (!e[n] && !g[m])
            return false;
        if (!e[n] || !g[m]) {
            snprintf(why, size, "%s notes %s than eager, from line %d:\n  %.300s", way->name,
                     e[n] ? "less" : "more", line + 1, e[n] ? e + n + 1 : g + m + 1);
            return true;
        }
        e += n + 1;
        g += m + 1;
    }
}

void both_compare(const both_way *way, const char *eager, const char *got)
{
    char why[2000];
    if (both_differ(way, eager, got, why, sizeof why))
        fail_msg("%s", why);
}

/* In the environment: BOTH_WAY=name runs that way only, beside the eager one; BOTH_SHOW prints
 * the eager transcript. */
void both_run(void **state)
{
    const attack *a = *state;
    const char *only = getenv("BOTH_WAY");
    const bool compiler = system("cc --version > /dev/null 2>&1") == 0;
    char *eager = both_transcript(&ways[0], a->scenario, NULL);
    if (getenv("BOTH_SHOW"))
        printf("%s", eager);
    for (int i = 1; i < N_WAYS; i++) {
        const bool compiles = (ways[i].how == BOTH_WAITS) || ways[i].opt.engine == TP_ENGINE_C;
        if (only && strcmp(only, ways[i].name) != 0)
            continue;
        if (compiles && !compiler) {
            print_message("skipped: %s, because there is no cc\n", ways[i].name);
            continue;
        }
        char *got = both_transcript(&ways[i], a->scenario, NULL);
        both_compare(&ways[i], eager, got);
        free(got);
    }
    free(eager);
}

/* ---- what scenarios share ---------------------------------------------------------------- */

tp_tensor *pattern(tp_ctx *tp, int rank, const int64_t *shape, double scale)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= shape[i];
    float *v = malloc((size_t)n * sizeof *v + 1);
    assert_non_null(v);
    for (int64_t i = 0; i < n; i++)
        v[i] = (float)(scale * (double)(i * 37 % 23 - 11));
    tp_tensor *t = tp_tensor_new(tp, TP_F32, rank, shape, v);
    free(v);
    return t;
}

tp_tensor *draw(tp_ctx *tp, uint64_t *seed, int rank, const int64_t *shape)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++)
        n *= shape[i];
    float *v = malloc((size_t)n * sizeof *v + 1);
    assert_non_null(v);
    for (int64_t i = 0; i < n; i++)
        v[i] = (float)(int64_t)unit_random(seed) * 0x1p-63f;
    tp_tensor *t = tp_tensor_new(tp, TP_F32, rank, shape, v);
    free(v);
    return t;
}

tp_tensor *call1(tp_function *f, tp_tensor *x)
{
    return tp_function_apply(f, 1, &x);
}

tp_tensor *call2(tp_function *f, tp_tensor *x, tp_tensor *y)
{
    return tp_function_apply(f, TP_TENSORS(x, y));
}

/* ---- the log ---------------------------------------------------------------------------------- */

static FILE *log_file;
static int log_kept; /* where stderr went */

void log_begin(void)
{
    fflush(stderr);
    log_file = tmpfile();
    log_kept = dup(STDERR_FILENO);
    assert_non_null(log_file);
    assert_true(log_kept >= 0 && dup2(fileno(log_file), STDERR_FILENO) >= 0);
    setenv("TAPIR_LOG", "capture", 1);
}

char *log_end(void)
{
    unsetenv("TAPIR_LOG");
    dup2(log_kept, STDERR_FILENO);
    close(log_kept);
    const long n = lseek(fileno(log_file), 0, SEEK_END);
    char *text = calloc((size_t)n + 1, 1);
    assert_non_null(text);
    rewind(log_file);
    assert_int_equal(fread(text, 1, (size_t)n, log_file), n);
    fclose(log_file);
    return text;
}

void expect_recordings(bed *b, const tp_function *f, int64_t most, int line)
{
    if (b->eager)
        return;
    const tp_function_stats s = tp_function_stats_of(f);
    if (s.user_calls != s.calls)
        fail_msg("line %d: %s: %" PRId64 " calls, the body ran %" PRId64 " times", line,
                 b->way->name, s.calls, s.user_calls);
#ifdef TPI_STRESS
    most = INT64_MAX; /* trees are full soon */
#endif
    if (s.recordings < 1 || s.recordings > most) {
        char *text = tp_function_text(f);
        fail_msg("line %d: %s: %" PRId64 " of %" PRId64 " calls recorded, not 1 to %" PRId64
                 "\n%s",
                 line, b->way->name, s.recordings, s.calls, most, text ? text : "");
    }
}

/* ---- as a model -------------------------------------------------------------------------- */

static const char *const input_names[] = {"x0", "x1"}, *const output_names[] = {"y0", "y1"};

static int occurrences(const char *text, const char *of)
{
    int n = 0;
    for (const char *c = text; (c = strstr(c, of)) != NULL; c++)
        n++;
    return n;
}

model model_of(bed *b, tp_function *f, const char *name, int n_in, int n_out)
{
    model m = {NULL, "", 0, 0};
    char path[] = "/var"
                  "/tmp/tapir-both-XXXXXX";
    assert_true(n_in <= 2 && n_out <= 2);
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    if (tp_onnx_save_function(f, path, n_in, input_names, n_out, output_names) != TP_OK) {
        unlink(path);
        snprintf(m.why, sizeof m.why, "%s", tp_error_message(b->tp));
        tp_clear_error(b->tp);
        return m;
    }
    tp_graph *g = tp_onnx_load(b->tp, path, NULL);
    unlink(path);
    if (!g)
        fail_msg("%s: the model is not loaded: %s", name, tp_error_message(b->tp));
    char *text = tp_graph_text(g);
    m.loops = occurrences(text, " = loop ");
    m.ifs = occurrences(text, " = cond ");
    if (getenv("BOTH_SHOW"))
        printf("%s\n", text);
    tp_free(b->tp, text);
    m.program = tp_graph_compile(g, n_in, input_names, n_out, output_names,
                                 &(tp_compile_options){.engine = TP_ENGINE_REFERENCE});
    if (!m.program)
        fail_msg("%s: the model is not compiled: %s", name, tp_error_message(b->tp));
    return m;
}

void expect_model(const model *m, const char *name, const char *refused, int loops, int ifs)
{
    if (!refused && !m->program)
        fail_msg("%s: there is no model: %s", name, m->why);
    if (refused && (m->program || !strstr(m->why, refused)))
        fail_msg("%s: not refused by \"%s\": %s", name, refused, m->why);
    if (m->loops != loops || m->ifs != ifs)
        fail_msg("%s: %d loops and %d ifs, not %d and %d", name, m->loops, m->ifs, loops, ifs);
}

void same_in_model(bed *b, const model *m, const char *name, tp_tensor *const *in, int n_out,
                   tp_tensor *const *out)
{
    tp_tensor *got[2];
    if (tp_program_run(m->program, in, got) != TP_OK)
        fail_msg("%s: the model fails: %s", name, tp_error_message(b->tp));
    for (int i = 0; i < n_out; i++) {
        char why[400];
        if (!same_tensors(got[i], out[i], SAME_ZEROS_BITS, why, sizeof why))
            fail_msg("%s: %s: result %d of the model: %s", name, b->way->name, i, why);
    }
}
