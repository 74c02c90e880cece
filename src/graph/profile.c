#include "graph/profile.h"

#include "graph/work.h"
#include "ir/notation.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

typedef struct kernel_time {
    double begin_s, took_s; /* in the last run */
    double all_s;           /* in all runs */
} kernel_time;

struct tpi_profile {
    int n;    /* kernels */
    int open; /* the kernel that runs; -1: none */
    int64_t runs;
    double begin_s;
    kernel_time v[];
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void tpi_profile_tick(void *profile, int kernel)
{
    tpi_profile *f = profile;
    const double t = now();
    if (kernel >= 0 && f->open >= 0) { /* a run that failed says no more */
        kernel_time *k = &f->v[f->open];
        k->took_s = t - k->begin_s;
        k->all_s += k->took_s;
    }
    f->open = kernel < f->n ? kernel : -1;
    if (kernel < 0)
        f->begin_s = t;
    else if (kernel < f->n)
        f->v[kernel].begin_s = t;
    else
        f->runs++;
}

static size_t bytes_of(int n)
{
    return sizeof(tpi_profile) + (size_t)n * sizeof(kernel_time);
}

void tpi_profile_free(tpi_mem *m, tpi_profile *profile)
{
    if (profile)
        tpi_give_back(m, profile, bytes_of(profile->n));
}

tp_status tp_program_profile(tp_program *p, bool on)
{
    if (!p)
        return TP_E_NULL;
    const tpi_at at = TPI_AT(NULL, 0);
    tpi_profile_free(&p->ctx->mem, p->profile);
    p->profile = NULL;
    if (!on)
        return TP_OK;
    if (!p->plan)
        return tpi_fail_status(p->ctx, at, "tp_program_profile", TP_E_STATE,
                               "the program is for the reference engine, which has no kernels; "
                               "compile it for TP_ENGINE_AUTO or TP_ENGINE_C");
    const int n = p->plan->n_kernels;
    p->profile = tpi_take(&p->ctx->mem, bytes_of(n));
    if (!p->profile) {
        tpi_no_memory(p->ctx, at, "tp_program_profile");
        return TP_E_MEMORY;
    }
    memset(p->profile, 0, bytes_of(n));
    p->profile->n = n;
    p->profile->open = -1;
    return TP_OK;
}

/* ---- limits of the machine ------------------------------------------------------------------- */

enum {
    N_LEVELS = 3,
    TILE =
        96, /* of the product whose rate is the limit of multiplying: it lies in the second cache */
    DEPTH = 256
};
static const size_t levels[N_LEVELS] = {256 << 10, 4 << 20, 64 << 20}; /* bytes in use */

typedef struct limits {
    double flops;               /* per second and thread, of products */
    double bandwidth[N_LEVELS]; /* bytes per second read and written, by bytes in use */
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
} copying;

static void copy(void *env)
{
    const copying *c = env;
    for (int i = 0; i < c->times; i++)
        memcpy(c->to, c->from, c->bytes);
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

/* Some 30 ms. False: no memory. */
static bool measure(tp_ctx *ctx, limits *l)
{
    const size_t half = levels[N_LEVELS - 1] / 2;
    char *room = tpi_take(&ctx->mem, 2 * half);
    if (!room)
        return false;
    memset(room, 1, 2 * half);
    for (int i = 0; i < N_LEVELS; i++) {
        copying c = {room, room + half, levels[i] / 2, (int)(half / (levels[i] / 2))};
        l->bandwidth[i] = 2 * (double)half / best_of(3, copy, &c);
    }
    memset(room, 0, half);
    product m = {.ctx = ctx, .a = (float *)(void *)room};
    m.b = m.a + TILE * DEPTH;
    m.c = m.b + TILE * DEPTH;
    m.ws = room + half;
    l->flops = 8 * 2.0 * TILE * TILE * DEPTH / best_of(5, multiply, &m);
    tpi_give_back(&ctx->mem, room, 2 * half);
    return true;
}

/* Seconds that the machine needs at least: to compute, or to move the bytes. */
static double least_s(const limits *l, tpi_work w)
{
    int level = 0;
    while (level < N_LEVELS - 1 && w.bytes > (double)levels[level])
        level++;
    const double moving = w.bytes / l->bandwidth[level], computing = w.flops / l->flops;
    return moving > computing ? moving : computing;
}

/* ---- texts ------------------------------------------------------------------------------------- */

static void put_ops(tpi_str *s, const tpi_plan *plan, const tpi_kernel *k)
{
    const int *nodes = k->n_nodes ? k->nodes : &k->root;
    const int n = k->n_nodes ? k->n_nodes : 1, most = 6;
    for (int i = 0; i < n; i++)
        if (n <= most || i < most - 1 || i == n - 1)
            tpi_str_printf(s, "%s%s", i ? ", " : "", plan->values[nodes[i]].node->op->name);
        else if (i == most - 1)
            tpi_str_printf(s, ", %d more", n - most);
}

static const char *base_name(const char *file)
{
    const char *slash = strrchr(file, '/');
    return slash ? slash + 1 : file;
}

/* The user's lines, each once: "net.c:12 14". */
static void put_lines(tpi_str *s, const tpi_plan *plan, const tpi_kernel *k)
{
    const int *nodes = k->n_nodes ? k->nodes : &k->root;
    const int n = k->n_nodes ? k->n_nodes : 1;
    const char *file = NULL;
    for (int i = 0; i < n; i++) {
        const tp_tensor *t = plan->values[nodes[i]].node;
        bool is_new = t->file;
        for (int j = 0; j < i && is_new; j++) {
            const tp_tensor *u = plan->values[nodes[j]].node;
            is_new = !u->file || u->line != t->line || strcmp(u->file, t->file) != 0;
        }
        if (!is_new)
            continue;
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
    if (p && p->profile && p->profile->runs > 0)
        return true;
    if (p)
        tpi_fail_status(p->ctx, TPI_AT(NULL, 0), what, TP_E_STATE,
                        "no run was measured; call tp_program_profile(p, true), then run it");
    return false;
}

char *tp_program_profile_text(tp_program *p)
{
    limits l;
    if (!has_runs(p, "tp_program_profile_text"))
        return NULL;
    if (!measure(p->ctx, &l)) {
        tpi_no_memory(p->ctx, TPI_AT(NULL, 0), "tp_program_profile_text");
        return NULL;
    }
    const tpi_profile *f = p->profile;
    const double runs = (double)f->runs;
    double all_s = 0, bytes = 0, flops = 0, least = 0;
    tpi_str s = TPI_STR(&p->ctx->mem);
    tpi_str_put(&s, "kernel        us     %      kB    Mflop  of limit  what\n");
    for (int i = 0; i < f->n; i++)
        all_s += f->v[i].all_s / runs;
    for (int i = 0; i < f->n; i++) {
        const tpi_work w = tpi_kernel_work(p, p->plan, i);
        const double took = f->v[i].all_s / runs;
        tpi_str_printf(&s, "k%-5d %9.2f %5.1f %7.0f %8.2f %8.0f%%  ", i, took * 1e6,
                       all_s > 0 ? took / all_s * 100 : 0, w.bytes / 1e3, w.flops / 1e6,
                       took > 0 ? least_s(&l, w) / took * 100 : 0);
        put_ops(&s, p->plan, &p->plan->kernels[i]);
        tpi_str_put(&s, "  ");
        put_lines(&s, p->plan, &p->plan->kernels[i]);
        tpi_str_put(&s, "\n");
        bytes += w.bytes;
        flops += w.flops;
        least += least_s(&l, w);
    }
    tpi_str_printf(
        &s, "all    %9.2f 100.0 %7.0f %8.2f %8.0f%%  %d kernels, mean of %" PRId64 " run%s\n",
        all_s * 1e6, bytes / 1e3, flops / 1e6, all_s > 0 ? least / all_s * 100 : 0, f->n,
        f->runs, f->runs == 1 ? "" : "s");
    tpi_str_printf(
        &s,
        "limits: %.0f Gflop/s; %.0f, %.0f and %.0f GB/s of copying at up to %zu kB, %zu "
        "MB and beyond\n",
        l.flops * 1e-9, l.bandwidth[0] * 1e-9, l.bandwidth[1] * 1e-9, l.bandwidth[2] * 1e-9,
        levels[0] >> 10, levels[1] >> 20);
    return tpi_str_hand_over(p->ctx, &s, "tp_program_profile_text");
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

char *tp_program_profile_trace(tp_program *p)
{
    if (!has_runs(p, "tp_program_profile_trace"))
        return NULL;
    const tpi_profile *f = p->profile;
    tpi_str s = TPI_STR(&p->ctx->mem), name = TPI_STR(&p->ctx->mem);
    tpi_str_put(&s, "{\"traceEvents\": [");
    for (int i = 0; i < f->n; i++) {
        const tpi_work w = tpi_kernel_work(p, p->plan, i);
        const tpi_kernel *k = &p->plan->kernels[i];
        name.len = 0;
        put_ops(&name, p->plan, k);
        tpi_str_printf(&s,
                       "%s\n{\"ph\": \"X\", \"pid\": 1, \"tid\": 1, \"name\": ", i ? "," : "");
        put_json(&s, &name);
        put_us(&s, ", \"ts\": ", f->v[i].begin_s - f->begin_s);
        put_us(&s, ", \"dur\": ", f->v[i].took_s);
        tpi_str_printf(&s,
                       ", \"args\": {\"kernel\": %d, \"bytes\": %" PRId64
                       ", \"flops\": %" PRId64 ", \"lines\": ",
                       i, (int64_t)w.bytes, (int64_t)w.flops);
        name.len = 0;
        put_lines(&name, p->plan, k);
        put_json(&s, &name);
        tpi_str_put(&s, "}}");
    }
    tpi_str_put(&s, "\n], \"displayTimeUnit\": \"ns\"}\n");
    s.failed |= name.failed;
    tpi_str_free(&name);
    return tpi_str_hand_over(p->ctx, &s, "tp_program_profile_trace");
}
