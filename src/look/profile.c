/* Times of a program's kernels. */
#include "base/clock.h"
#include "base/file.h"
#include "base/float_mode.h"
#include "ir/notation.h"
#include "plan/work.h"
#include "run/program.h"

#include <inttypes.h>
#include <string.h>

typedef struct kernel_time {
    int64_t run;            /* number of the last run that it began in, from 1 */
    double begin_s, took_s; /* in that run: one of a band begins with every part */
    double all_s, best_s;   /* in all runs, in the fastest one of it */
} kernel_time;

typedef struct profile {
    tpi_kernel_watch watch;
    int n;    /* kernels */
    int open; /* the kernel that runs; -1: none */
    int64_t runs;
    double begin_s, open_s; /* of the run, of that kernel */
    kernel_time v[];
} profile;

static profile *profile_of(const tp_program *p)
{
    return (profile *)p->watch;
}

static double now(void)
{
    return 1e-9 * (double)tpi_now_ns();
}

static void close_kernel(profile *f, double t)
{
    kernel_time *k = &f->v[f->open];
    if (k->run != f->runs + 1) {
        k->run = f->runs + 1;
        k->begin_s = f->open_s;
        k->took_s = 0;
    }
    k->took_s += t - f->open_s;
}

static void end_run(profile *f)
{
    f->runs++;
    for (int i = 0; i < f->n; i++) {
        kernel_time *k = &f->v[i];
        k->took_s = k->run == f->runs ? k->took_s : 0;
        k->best_s = f->runs == 1 || k->took_s < k->best_s ? k->took_s : k->best_s;
        k->all_s += k->took_s;
    }
}

static void tick(void *watch, int kernel)
{
    profile *f = watch;
    const double t = now();
    if (kernel >= 0 && f->open >= 0)
        close_kernel(f, t);
    if (kernel < 0) { /* what a run that failed has said goes with it */
        f->begin_s = t;
        for (int i = 0; i < f->n; i++)
            f->v[i].run = 0;
    } else if (kernel == f->n) {
        end_run(f);
    }
    f->open = kernel < f->n ? kernel : -1;
    f->open_s = t;
}

static size_t bytes_of(int n)
{
    return sizeof(profile) + (size_t)n * sizeof(kernel_time);
}

static void free_profile(tpi_mem *m, tpi_kernel_watch *watch)
{
    tpi_give_back(m, watch, bytes_of(((const profile *)watch)->n));
}

tp_status tp_program_profile(tp_program *p, bool on)
{
    if (!p)
        return TP_E_NULL;
    const tpi_at at = TPI_AT(NULL, 0);
    if (p->watch)
        p->watch->free(&p->ctx->mem, p->watch);
    p->watch = NULL;
    if (!on)
        return TP_OK;
    if (!p->plan)
        return tpi_fail_status(p->ctx, at, "tp_program_profile", TP_E_STATE,
                               "the program is for the reference engine, which has no kernels; "
                               "compile it for TP_ENGINE_AUTO or TP_ENGINE_C");
    const int n = p->plan->n_kernels;
    profile *f = tpi_take(&p->ctx->mem, bytes_of(n));
    if (!f) {
        tpi_no_memory(p->ctx, at, "tp_program_profile");
        return TP_E_MEMORY;
    }
    memset(f, 0, bytes_of(n));
    f->watch = (tpi_kernel_watch){tick, free_profile};
    f->n = n;
    f->open = -1;
    p->watch = &f->watch;
    return TP_OK;
}

/* ---- limits of the machine ------------------------------------------------------------------- */

enum {
    N_LEVELS = 4,
    SECOND = 1, /* cache */
    TILE = 96,  /* of the product whose rate is the limit of multiplying */
    DEPTH = 256
};
static const size_t levels[N_LEVELS] = {256 << 10, 1536 << 10, 8 << 20,
                                        64 << 20}; /* bytes in use */

typedef struct limits {
    double flops;               /* per second and thread, of products */
    double bandwidth[N_LEVELS]; /* bytes per second, copied or read, by bytes in use */
} limits;

/* The shortest of some repeats. */
static double best_of(int repeats, void (*work)(void *env), void *env)
{
    double best = 0;
    for (int i = 0; i < repeats; i++) {
        const double begin = now();
        work(env);
        const double took = now() - begin;
        best = i == 0 || took < best ? took : best;
    }
    return best;
}

typedef struct copying {
    char *from, *to;
    size_t bytes;
    int times;
    int differ;
} copying;

static void copy(void *env)
{
    const copying *c = env;
    for (int i = 0; i < c->times; i++)
        memcpy(c->to, c->from, c->bytes);
}

/* What is there twice is compared: nothing reads faster. */
static void read_all(void *env)
{
    copying *c = env;
    for (int i = 0; i < c->times; i++)
        c->differ |= memcmp(c->to, c->from, c->bytes);
}

typedef struct product {
    const tp_ctx *ctx;
    float *a, *b, *c;
    void *ws;
} product;

static void multiply(void *env)
{
    const product *m = env;
    for (int i = 0; i < 8; i++)
        m->ctx->kernels->library->gemm_f32(TILE, TILE, DEPTH, m->a, DEPTH, 1, m->b, TILE, 1,
                                           m->c, TILE, m->ws);
}

/* Some 50 ms. False: no memory. */
static bool measure(tp_ctx *ctx, limits *l)
{
    const size_t half = levels[N_LEVELS - 1] / 2;
    char *room = tpi_take(&ctx->mem, 2 * half);
    if (!room)
        return false;
    memset(room, 1, 2 * half);
    for (int i = 0; i < N_LEVELS; i++) {
        copying c = {room, room + half, levels[i] / 2, (int)(half / (levels[i] / 2)), 0};
        const double copied = best_of(3, copy, &c), read = best_of(3, read_all, &c);
        l->bandwidth[i] = 2 * (double)c.bytes * c.times / (read < copied ? read : copied);
    }
    memset(room, 0, half);
    product m = {.ctx = ctx, .a = (float *)(void *)room};
    m.b = m.a + TILE * DEPTH;
    m.c = m.b + TILE * DEPTH;
    m.ws = room + half;
    l->flops = 8 * 2 * (double)(TILE * TILE * DEPTH) / best_of(5, multiply, &m);
    tpi_give_back(&ctx->mem, room, 2 * half);
    return true;
}

/* Seconds that the machine needs at least: to compute, or to move the bytes. */
static double least_s(const limits *l, tpi_work w)
{
    int level = 0;
    while (level < N_LEVELS - 1 && w.span > (double)levels[level])
        level++;
    const int near = level < SECOND ? level : SECOND;
    const double moving =
        w.near / l->bandwidth[near] + (w.bytes - w.near) / l->bandwidth[level];
    const double computing = w.flops / l->flops;
    return moving > computing ? moving : computing;
}

/* ---- texts ------------------------------------------------------------------------------------- */

/* Of two matmul and a tanh "2 matmul, tanh", in the order of the first of each. */
static void put_ops(tpi_str *s, const tpi_plan *plan, const tpi_kernel *k)
{
    enum { MOST = 6 };
    const int *nodes = k->n_nodes ? k->nodes : &k->root;
    const int n = k->n_nodes ? k->n_nodes : 1;
    int kinds = 0, left = 0;
    for (int i = 0; i < n; i++) {
        const tpi_op *op = plan->values[nodes[i]].node->op;
        int same = 0, before = 0;
        for (int j = 0; j < n; j++) {
            same += plan->values[nodes[j]].node->op == op;
            before += j < i && plan->values[nodes[j]].node->op == op;
        }
        if (before)
            continue;
        if (++kinds > MOST) {
            left += same;
            continue;
        }
        tpi_str_put(s, kinds > 1 ? ", " : "");
        if (same > 1)
            tpi_str_printf(s, "%d ", same);
        tpi_str_put(s, op->name);
    }
    if (left)
        tpi_str_printf(s, ", %d more", left);
}

/* The name of what it computes last and has one, of a block of its first result with one; or NULL. */
static const char *name_of(const tpi_plan *plan, const tpi_kernel *k)
{
    const int *nodes = k->n_nodes ? k->nodes : &k->root;
    const char *name = NULL;
    for (int i = k->n_nodes ? k->n_nodes - 1 : 0; i >= 0 && !name; i--)
        name = plan->values[nodes[i]].node->name;
    const tp_tensor *block = plan->values[k->root].node;
    for (int i = 0; i < plan->n_values && tpi_is_block(block) && !name; i++) {
        const tp_tensor *node = plan->values[i].node;
        if (tpi_block_of(node) == block)
            name = node->name;
    }
    return name;
}

/* That name, if there is one; the end of a long one. */
static void put_name(tpi_str *s, const tpi_plan *plan, const tpi_kernel *k)
{
    enum { MOST = 40 };
    const char *name = name_of(plan, k);
    if (!name)
        return;
    const size_t len = strlen(name);
    size_t from = len > MOST ? len - MOST : 0;
    while (from && from < len && (name[from] & 0xc0) == 0x80)
        from++; /* whole characters */
    tpi_str_put(s, from ? "  ..." : "  ");
    tpi_put_string(s, name + from, len - from);
}

static const char *base_name(const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash ? slash + 1 : file;
}

/* The user's lines, each once: "net.c:12,14"; the first ones. */
static void put_lines(tpi_str *s, const tpi_plan *plan, const tpi_kernel *k)
{
    enum { MOST = 6 };
    const int *nodes = k->n_nodes ? k->nodes : &k->root;
    const int n = k->n_nodes ? k->n_nodes : 1;
    const char *file = NULL;
    for (int i = 0, lines = 0; i < n; i++) {
        const tp_tensor *t = plan->values[nodes[i]].node;
        bool is_new = t->file;
        for (int j = 0; j < i && is_new; j++) {
            const tp_tensor *u = plan->values[nodes[j]].node;
            is_new = !u->file || u->line != t->line || strcmp(u->file, t->file) != 0;
        }
        if (!is_new)
            continue;
        if (lines++ == MOST) {
            tpi_str_put(s, " ...");
            return;
        }
        if (!file || strcmp(file, t->file) != 0)
            tpi_str_printf(s, "%s%s:%d", file ? " " : "", base_name(t->file), t->line);
        else
            tpi_str_printf(s, ",%d", t->line);
        file = t->file;
    }
}

/* Is there anything to tell? */
static bool has_runs(tp_program *p, const char *what)
{
    if (p && p->watch && profile_of(p)->runs > 0)
        return true;
    const bool by_node = p && p->watch && p->used && strcmp(p->used, "eager") == 0;
    if (p)
        tpi_fail_status(p->ctx, TPI_AT(NULL, 0), what, TP_E_STATE,
                        by_node
                            ? "the program was run node by node, which is not measured: the "
                              "NaN trap is set, or tp_program_wait says why"
                            : "no run was measured; call tp_program_profile(p, true), then "
                              "run it");
    return false;
}

/* Figures of a line; of all kernels, their sums. */
typedef struct figures {
    double mean_s, best_s, least_s;
    tpi_work work;
} figures;

static figures figures_of(const tp_program *p, const limits *l, int kernel)
{
    const kernel_time *t = &profile_of(p)->v[kernel];
    const tpi_run_sizes sizes = tpi_program_sizes(p);
    figures f = {.mean_s = t->all_s / (double)profile_of(p)->runs,
                 .best_s = t->best_s,
                 .work = tpi_kernel_work(&sizes, p->plan, kernel)};
    f.least_s = least_s(l, f.work);
    return f;
}

static figures sum_of(const tp_program *p, const limits *l)
{
    figures sum = {0};
    for (int i = 0; i < profile_of(p)->n; i++) {
        const figures f = figures_of(p, l, i);
        sum.mean_s += f.mean_s;
        sum.best_s += f.best_s;
        sum.least_s += f.least_s;
        sum.work.bytes += f.work.bytes;
        sum.work.flops += f.work.flops;
    }
    return sum;
}

static double percent(double part, double whole)
{
    return whole > 0 ? part / whole * 100 : 0;
}

static void put_figures(tpi_str *s, const char *first, const figures *f, double all_s)
{
    tpi_str_printf(s, "%-6s %10.2f %6.1f %10.2f %9.1f %9.3f %6.0f%%  ", first, f->mean_s * 1e6,
                   percent(f->mean_s, all_s), f->best_s * 1e6, f->work.bytes / 1e3,
                   f->work.flops / 1e6, percent(f->least_s, f->best_s));
}

static void put_table(tpi_str *s, const tp_program *p, const limits *l)
{
    const figures sum = sum_of(p, l);
    tpi_str_put(s,
                "kernel    mean us      %    best us        kB     Mflop   limit  computes\n");
    for (int i = 0; i < profile_of(p)->n; i++) {
        const tpi_kernel *k = &p->plan->kernels[i];
        const figures f = figures_of(p, l, i);
        char number[16];
        snprintf(number, sizeof number, "k%d", i);
        put_figures(s, number, &f, sum.mean_s);
        put_ops(s, p->plan, k);
        put_name(s, p->plan, k);
        if (p->plan->values[k->root].node->file)
            tpi_str_put(s, "  ");
        put_lines(s, p->plan, k);
        tpi_str_put(s, "\n");
    }
    put_figures(s, "all", &sum, sum.mean_s);
    tpi_str_printf(s, "%" PRId64 " run%s\n", profile_of(p)->runs,
                   profile_of(p)->runs == 1 ? "" : "s");
    tpi_str_printf(s, "limits of one thread: %.0f Gflop/s; reading or copying",
                   l->flops * 1e-9);
    for (int i = 0; i < N_LEVELS; i++) {
        tpi_str_printf(s, "%s %.0f", i ? "," : "", l->bandwidth[i] * 1e-9);
        if (i < N_LEVELS - 1)
            tpi_str_printf(s, "%s up to %zu kB", i ? "" : " GB/s", levels[i] >> 10);
    }
    tpi_str_put(s, " beyond\n");
}

/* Is there something to tell? Then the machine's limits; false: the error tells. */
static bool can_tell(tp_program *p, const char *what, limits *l)
{
    if (!has_runs(p, what))
        return false;
    const bool ok = measure(p->ctx, l);
    if (!ok)
        tpi_no_memory(p->ctx, TPI_AT(NULL, 0), what);
    return ok;
}

char *tp_program_profile_text(tp_program *p)
{
    TPI_DEFAULT_FLOAT_MODE;
    static const char what[] = "tp_program_profile_text";
    limits l;
    if (!can_tell(p, what, &l))
        return NULL;
    tpi_str s = TPI_STR(&p->ctx->mem);
    put_table(&s, p, &l);
    return tpi_str_hand_over(p->ctx, &s, what);
}

/* A string of JSON. */
static void put_json(tpi_str *s, const tpi_str *text)
{
    tpi_str_put(s, "\"");
    for (size_t i = 0; i < text->len; i++) {
        const unsigned char c = (unsigned char)text->text[i];
        if (c < 0x20 || c == '"' || c == '\\' || c == 0x7f)
            tpi_str_printf(s, "\\u%04x", c);
        else
            tpi_str_add(s, &text->text[i], 1);
    }
    tpi_str_put(s, "\"");
}

/* Microseconds, with a point in every locale. */
static void put_us(tpi_str *s, const char *before, double seconds)
{
    const int64_t ns = (int64_t)(seconds * 1e9);
    tpi_str_printf(s, "%s%" PRId64 ".%03d", before, ns / 1000, (int)(ns % 1000));
}

static void put_event(tpi_str *s, const tp_program *p, const limits *l, int kernel)
{
    const profile *f = profile_of(p);
    const tpi_kernel *k = &p->plan->kernels[kernel];
    const figures v = figures_of(p, l, kernel);
    tpi_str text = TPI_STR(s->mem);
    put_ops(&text, p->plan, k);
    tpi_str_printf(s,
                   "%s\n{\"ph\": \"X\", \"pid\": 1, \"tid\": 1, \"name\": ", kernel ? "," : "");
    put_json(s, &text);
    put_us(s, ", \"ts\": ", f->v[kernel].begin_s - f->begin_s);
    put_us(s, ", \"dur\": ", f->v[kernel].took_s);
    tpi_str_printf(s, ", \"args\": {\"kernel\": %d", kernel);
    put_us(s, ", \"mean_us\": ", v.mean_s);
    put_us(s, ", \"best_us\": ", v.best_s);
    put_us(s, ", \"limit_us\": ", v.least_s);
    tpi_str_printf(s, ", \"bytes\": %" PRId64 ", \"flops\": %" PRId64, (int64_t)v.work.bytes,
                   (int64_t)v.work.flops);
    s->failed |= text.failed;
    tpi_str_free(&text);
    text = TPI_STR(s->mem);
    put_lines(&text, p->plan, k);
    tpi_str_put(s, ", \"lines\": ");
    put_json(s, &text);
    s->failed |= text.failed;
    tpi_str_free(&text);
    const char *name = name_of(p->plan, k);
    text = TPI_STR(s->mem);
    tpi_str_put(&text, name ? name : "");
    tpi_str_put(s, ", \"gives\": ");
    put_json(s, &text);
    s->failed |= text.failed;
    tpi_str_free(&text);
    tpi_str_put(s, "}}");
}

char *tp_program_profile_trace(tp_program *p)
{
    TPI_DEFAULT_FLOAT_MODE;
    static const char what[] = "tp_program_profile_trace";
    limits l;
    if (!can_tell(p, what, &l))
        return NULL;
    tpi_str s = TPI_STR(&p->ctx->mem);
    tpi_str_put(&s, "{\"traceEvents\": [");
    for (int i = 0; i < profile_of(p)->n; i++)
        put_event(&s, p, &l, i);
    tpi_str_printf(&s,
                   "\n], \"displayTimeUnit\": \"ns\", \"otherData\": {\"runs\": %" PRId64
                   ", \"engine\": \"%s\"}}\n",
                   profile_of(p)->runs, p->used ? p->used : "none");
    return tpi_str_hand_over(p->ctx, &s, what);
}

tp_status tp_program_profile_save_at(const char *file, int line, tp_program *p,
                                     const char *path)
{
    static const char what[] = "tp_program_profile_save";
    const tpi_at at = TPI_AT(file, line);
    if (!p)
        return TP_E_NULL;
    if (!path)
        return tpi_fail_status(p->ctx, at, what, TP_E_NULL, "the path is NULL");
    char *text = tp_program_profile_trace(p);
    if (!text)
        return TP_E_STATE;
    tpi_writer w;
    tpi_file_begin(&w, &p->ctx->mem, &p->ctx->undone, path);
    tpi_file_put(&w, text, strlen(text));
    tp_free(p->ctx, text);
    if (tpi_file_end(&w))
        return TP_OK;
    return tpi_fail_status(p->ctx, at, what, w.error.status, "%s", w.error.text);
}

TPI_BARE(tp_status, tp_program_profile_save, (tp_program * p, const char *path), p, path)
