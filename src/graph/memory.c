/* The text of a program's memory: each buffer of its arenas, when it is in use, and what the arena
 * takes, as a number and as a formula of sizes that are symbols. */
#include "graph/inspect.h"
#include "ir/notation.h"

#include <inttypes.h>
#include <string.h>

/* ---- formulas ------------------------------------------------------------------------------------ */

/* What the buffers that are in use while a kernel runs take together. */
typedef struct peak {
    int kernel; /* its number in the program */
    int64_t bytes;
} peak;

typedef struct peaks {
    tpi_dims *dims;
    tpi_mem *m;
    peak *v;
    int n, size;
    bool failed; /* no memory, or too large for a number */
} peaks;

/* Is the symbols' coefficient of no part negative? Steps of tpi_dim_build, of 1 and 0. */
static int number_rises(void *user, int64_t n)
{
    (void)user;
    return n >= 0;
}

static int symbol_rises(void *user, int i)
{
    (void)user, (void)i;
    return 1;
}

static int step_rises(void *user, char op, int a, int b)
{
    (void)user;
    return op != '-' && a && b;
}

static int64_t value_at(const peaks *p, int64_t bytes, int64_t size)
{
    int64_t symbols[64];
    if (!tpi_dim_is_symbolic(bytes))
        return bytes;
    const int n = tpi_dim_n_symbols(p->dims);
    if (n > 64)
        return TPI_NO_DIM;
    for (int i = 0; i < n; i++)
        symbols[i] = size;
    return tpi_dim_eval_stride(p->dims, bytes, symbols);
}

/* Is a at least b, whatever sizes of 1 and more the symbols are? False also when that is not seen. */
static bool covers(const peaks *p, int64_t a, int64_t b)
{
    static const tpi_dim_steps rises = {number_rises, symbol_rises, step_rises};
    if (a == b)
        return true;
    if (!tpi_dim_is_symbolic(a) && !tpi_dim_is_symbolic(b))
        return a > b;
    const int64_t more = tpi_dim_sub(p->dims, a, b);
    if (!tpi_dim_is_symbolic(more))
        return more != TPI_NO_DIM && more >= 0;
    const int64_t rest = value_at(p, more, 0);
    if (rest == TPI_NO_DIM || value_at(p, more, 1) < 0)
        return false;
    const int64_t without =
        rest < 0 ? tpi_dim_add(p->dims, more, -rest) : tpi_dim_sub(p->dims, more, rest);
    if (!tpi_dim_is_symbolic(without))
        return without != TPI_NO_DIM;
    return tpi_dim_build(p->dims, without, &rises, NULL) == 1;
}

static void add_peak(peaks *p, int kernel, int64_t bytes)
{
    int kept = 0;
    if (bytes == TPI_NO_DIM)
        p->failed = true;
    if (bytes == 0 || p->failed)
        return;
    for (int i = 0; i < p->n; i++)
        if (covers(p, p->v[i].bytes, bytes))
            return;
    for (int i = 0; i < p->n; i++)
        if (!covers(p, bytes, p->v[i].bytes))
            p->v[kept++] = p->v[i];
    p->n = kept;
    if (p->n == p->size) {
        const int size = p->size ? 2 * p->size : 8;
        peak *v = tpi_take(p->m, (size_t)size * sizeof *v);
        if (!v) {
            p->failed = true;
            return;
        }
        if (p->n)
            memcpy(v, p->v, (size_t)p->n * sizeof *v);
        tpi_give_back(p->m, p->v, (size_t)p->size * sizeof *v);
        p->v = v;
        p->size = size;
    }
    p->v[p->n++] = (peak){kernel, bytes};
}

static void free_peaks(peaks *p)
{
    tpi_give_back(p->m, p->v, (size_t)p->size * sizeof *p->v);
}

/* Numbers are multiples of 64, as the arena has them. */
static int64_t bytes_of(tpi_dims *dims, const tp_tensor *like)
{
    int64_t bytes = (int64_t)tp_dtype_size((tp_dtype)like->dtype);
    for (int i = 0; i < like->rank; i++)
        bytes = tpi_dim_mul(dims, bytes, like->shape[i]);
    const bool is_number = bytes >= 0 && bytes < INT64_MAX - 63;
    return is_number ? (bytes + 63) & ~(int64_t)63 : bytes;
}

static void find_peaks(peaks *p, const tpi_plan *plan);

/* While a block's kernel runs, the memory of one of its bodies is in use too. */
static void add_bodies(peaks *p, const tpi_section *section, int kernel, int64_t outside)
{
    for (int k = 0; k < section->n_bodies; k++) {
        peaks inner = {.dims = p->dims, .m = p->m};
        find_peaks(&inner, section->plan[k]);
        for (int i = 0; i < inner.n; i++)
            add_peak(p, kernel, tpi_dim_add(p->dims, outside, inner.v[i].bytes));
        p->failed |= inner.failed;
        free_peaks(&inner);
    }
}

/* first[] and last[] by kernel: the buffers whose lives begin or end there, chained by next[]. */
static void sum_lives(peaks *p, const tpi_plan *plan, int *first, int *last, int *next)
{
    int64_t now = 0;
    int *next_last = next + plan->n_buffers;
    for (int k = 0; k < plan->n_kernels && !p->failed; k++) {
        for (int b = first[k]; b >= 0; b = next[b])
            if (!plan->buffers[b].section)
                now = tpi_dim_add(p->dims, now, bytes_of(p->dims, plan->buffers[b].like));
        add_peak(p, plan->first_kernel + k, now);
        for (int b = first[k]; b >= 0; b = next[b])
            if (plan->buffers[b].section)
                add_bodies(p, plan->buffers[b].section, plan->first_kernel + k, now);
        for (int b = last[k]; b >= 0; b = next_last[b])
            if (!plan->buffers[b].section)
                now = tpi_dim_sub(p->dims, now, bytes_of(p->dims, plan->buffers[b].like));
    }
}

static void find_peaks(peaks *p, const tpi_plan *plan)
{
    const size_t n = 2 * ((size_t)plan->n_kernels + (size_t)plan->n_buffers);
    int *first = tpi_take(p->m, n * sizeof *first);
    if (!first) {
        p->failed = true;
        return;
    }
    int *last = first + plan->n_kernels, *next = last + plan->n_kernels;
    memset(first, -1, n * sizeof *first);
    for (int i = plan->n_buffers - 1; i >= 0; i--) {
        const tpi_buffer *b = &plan->buffers[i];
        if (b->place != TPI_AT_ARENA)
            continue;
        next[i] = first[b->first];
        first[b->first] = i;
        next[plan->n_buffers + i] = last[b->last];
        last[b->last] = i;
    }
    sum_lives(p, plan, first, last, next);
    tpi_give_back(p->m, first, n * sizeof *first);
}

/* ---- the picture --------------------------------------------------------------------------------- */

enum { MOST_COLUMNS = 40, MOST_SIZE_WIDTH = 32 };

typedef struct picture {
    tpi_str *s;
    const tpi_plan *root;
    const int64_t *bytes, *offset; /* by number; NULL: sizes are not known */
    int size_width;                /* of the column of sizes */
} picture;

static int count_arena(const tpi_plan *plan)
{
    int n = 0;
    for (int i = 0; i < plan->n_buffers; i++)
        n += plan->buffers[i].place == TPI_AT_ARENA;
    return n;
}

static void put_size(tpi_str *s, const picture *c, const tpi_plan *plan, int i)
{
    const tpi_buffer *b = &plan->buffers[i];
    const int number = plan->first_buffer + i;
    if (c->bytes)
        tpi_str_printf(s, "%" PRId64, c->bytes[number]);
    else if (b->section)
        tpi_str_put(s, "below");
    else
        tpi_dim_print(plan->graph->dims, bytes_of(plan->graph->dims, b->like), s);
}

/* So that all columns stand below each other. */
static int find_size_width(const picture *c, const tpi_plan *plan)
{
    int width = 9;
    for (int i = 0; i < plan->n_buffers; i++) {
        const tpi_section *section = plan->buffers[i].section;
        tpi_str text = TPI_STR(c->s->mem);
        if (plan->buffers[i].place == TPI_AT_ARENA)
            put_size(&text, c, plan, i);
        const int len = text.len < MOST_SIZE_WIDTH ? (int)text.len : MOST_SIZE_WIDTH;
        width = len > width ? len : width;
        c->s->failed |= text.failed;
        tpi_str_free(&text);
        for (int k = 0; section && k < section->n_bodies; k++) {
            const int inner = find_size_width(c, section->plan[k]);
            width = inner > width ? inner : width;
        }
    }
    return width;
}

/* A mark for the kernels from the first to the last one that needs the buffer. Where there are more
 * kernels than columns, each column is some of them. */
static int put_life(const picture *c, const tpi_plan *plan, const tpi_buffer *b)
{
    const int n = plan->n_kernels, width = n < MOST_COLUMNS ? n : MOST_COLUMNS;
    for (int i = 0; i < width; i++) {
        const int64_t from = (int64_t)i * n / width, to = (int64_t)(i + 1) * n / width;
        tpi_str_put(c->s, b->first < to && b->last >= from ? "#" : ".");
    }
    return width;
}

static void put_row(const picture *c, const tpi_plan *plan, int i, int life_width, int body)
{
    const tpi_buffer *b = &plan->buffers[i];
    const int number = plan->first_buffer + i;
    tpi_str size = TPI_STR(c->s->mem), name = TPI_STR(c->s->mem);
    tpi_str_printf(&name, "b%d", number);
    put_size(&size, c, plan, i);
    tpi_str_printf(c->s, "%-7s%*s", name.text ? name.text : "", c->size_width,
                   size.text ? size.text : "");
    c->s->failed |= size.failed || name.failed;
    tpi_str_free(&size);
    tpi_str_free(&name);
    if (c->bytes)
        tpi_str_printf(c->s, " %11" PRId64, c->offset[number]);
    tpi_str_put(c->s, "  ");
    tpi_str_printf(c->s, "%*s", life_width - put_life(c, plan, b), "");
    tpi_put_owner(c->s, body, b);
    tpi_put_like(c->s, plan, b);
    tpi_str_put(c->s, "\n");
}

/* The buffers of a plan, then those of its blocks' bodies, further in. */
static void put_buffers(const picture *c, const tpi_plan *plan, int indent)
{
    const int body = tpi_body_number(c->root->graph, plan->graph), n = plan->n_kernels;
    char kernels[48];
    const int len = snprintf(kernels, sizeof kernels, n > 1 ? "k%d to k%d" : "k%d",
                             plan->first_kernel, plan->first_kernel + n - 1);
    const int columns = n < MOST_COLUMNS ? n : MOST_COLUMNS,
              width = (columns > len ? columns : len) + 1;
    if (count_arena(plan))
        tpi_str_printf(c->s, "%*s%-7s%*s%s  %-*s value\n", indent, "", "buffer", c->size_width,
                       "bytes", c->bytes ? "          at" : "", width, kernels);
    for (int i = 0; i < plan->n_buffers; i++)
        if (plan->buffers[i].place == TPI_AT_ARENA) {
            tpi_str_printf(c->s, "%*s", indent, "");
            put_row(c, plan, i, width, body);
        }
    for (int i = 0; i < n; i++) {
        const tpi_kernel *k = &plan->kernels[i];
        const tpi_section *block = k->kind == TPI_KERNEL_BLOCK ? plan->sections[k->root] : NULL;
        for (int j = 0; block && j < block->n_bodies; j++) {
            tpi_str_printf(c->s, "%*sbody (%d) of k%d%s\n", indent, "",
                           tpi_body_number(c->root->graph, block->plan[j]->graph),
                           plan->first_kernel + i,
                           count_arena(block->plan[j]) ? "" : ": nothing of its own");
            put_buffers(c, block->plan[j], indent + 2);
        }
    }
}

/* ---- the sum -------------------------------------------------------------------------------------- */

/* The formula, where there is one. */
static void put_peaks(tpi_str *s, const peaks *p)
{
    tpi_str_put(s, p->n == 1 ? "together " : "together the most of\n");
    for (int i = 0; i < p->n; i++) {
        tpi_str_put(s, p->n == 1 ? "" : "  ");
        tpi_dim_print(p->dims, p->v[i].bytes, s);
        tpi_str_printf(s, " bytes, in use at k%d\n", p->v[i].kernel);
    }
}

static void put_sum(tpi_str *s, const tpi_plan *plan, bool placed, int64_t arena)
{
    peaks p = {.dims = plan->graph->dims, .m = s->mem};
    find_peaks(&p, plan);
    const bool is_number = p.n == 1 && !tpi_dim_is_symbolic(p.v->bytes);
    s->failed |= p.failed;
    if (placed)
        tpi_str_printf(s, "arena %" PRId64 " bytes", arena);
    if (placed && is_number && p.v->bytes == arena)
        tpi_str_printf(s, ", all in use at k%d", p.v->kernel);
    else if (placed && is_number)
        tpi_str_printf(s, ", of which %" PRId64 " are in use at k%d", p.v->bytes, p.v->kernel);
    if (placed)
        tpi_str_put(s, "\n");
    if (p.n && !(placed && is_number))
        put_peaks(s, &p);
    else if (!placed)
        tpi_str_put(s, "together 0 bytes\n");
    free_peaks(&p);
}

/* What lies elsewhere, one number per kind of place. */
static void put_rest(tpi_str *s, const tpi_plan *plan, const int64_t *bytes)
{
    static const char *const names[] = {"fed", "constants", "variables", "results"};
    int64_t sum[4] = {0};
    for (int i = 0; i < plan->n_buffers && bytes; i++) {
        const tpi_buffer *b = &plan->buffers[i];
        const tp_tensor *source = b->like ? tpi_source_of(b->like) : NULL;
        if (b->place != TPI_AT_ARENA)
            sum[b->place == TPI_AT_OUTPUT      ? 3
                : !source                      ? 0
                : source->flags & TPI_VARIABLE ? 2
                                               : 1] += bytes[i];
    }
    tpi_str_put(s, bytes ? "beside it:" : "");
    for (int i = 0, n = 0; i < 4 && bytes; i++)
        if (sum[i])
            tpi_str_printf(s, "%s %s %" PRId64, n++ ? "," : "", names[i], sum[i]);
    tpi_str_put(s, bytes ? " bytes\n" : "");
}

static void put_memory(tpi_str *s, tp_program *p, const tpi_plan *plan)
{
    const size_t n = (size_t)plan->all_buffers;
    int64_t arena = 0, *bytes = NULL;
    if (tpi_knows_sizes(p)) {
        bytes = tpi_take(&p->ctx->mem, 2 * n * sizeof *bytes);
        s->failed |= !bytes;
    }
    const bool placed = bytes && tpi_program_place(p, plan, bytes, bytes + n, &arena);
    picture c = {.s = s,
                 .root = plan,
                 .bytes = placed ? bytes : NULL,
                 .offset = placed ? bytes + n : NULL};
    c.size_width = find_size_width(&c, plan);
    put_buffers(&c, plan, 0);
    put_sum(s, plan, placed, arena);
    put_rest(s, plan, c.bytes);
    tpi_give_back(&p->ctx->mem, bytes, 2 * n * sizeof *bytes);
}

char *tp_program_memory_text(tp_program *p)
{
    tpi_plan *plan = p ? tpi_shown_plan(p) : NULL;
    if (!plan)
        return NULL;
    tpi_str s = TPI_STR(&p->ctx->mem);
    put_memory(&s, p, plan);
    tpi_shown_plan_free(p, plan);
    return tpi_str_hand_over(p->ctx, &s, "tp_program_memory_text");
}
