/* The text of a program's memory: each buffer of its arenas, when it is in use, and what the arena
 * takes, as a number and as a formula of sizes that are symbols. */
#include "ir/notation.h"
#include "look/inspect.h"
#include "plan/budget.h"

#include <inttypes.h>
#include <string.h>

/* ---- the picture --------------------------------------------------------------------------------- */

enum { MOST_COLUMNS = 40, N_CELLS = 2 };

typedef struct picture {
    tpi_str *s;
    const tpi_plan *root;
    const tpi_arena *arena;
    const int64_t *value[N_CELLS]; /* bytes and offset by number; NULL: sizes are not known */
    int width[N_CELLS];            /* of the columns */
} picture;

static int count_arena(const tpi_plan *plan)
{
    int n = 0;
    for (int i = 0; i < plan->n_buffers; i++)
        n += plan->buffers[i].storage == TPI_IN_ARENA;
    return n;
}

/* Bytes, or the place: a number or a formula. */
static tpi_str cell(const picture *c, int number, int what)
{
    tpi_str s = TPI_STR(c->s->mem);
    const tpi_amount *v = what ? &c->arena->offset[number] : &c->arena->bytes[number];
    if (c->value[what])
        tpi_str_printf(&s, "%" PRId64, c->value[what][number]);
    else
        tpi_put_amount(&s, c->arena, v, false);
    return s;
}

/* So that all columns stand below each other. */
static void find_widths(picture *c, const tpi_plan *plan)
{
    enum { MOST = 32 };
    for (int i = 0; i < plan->n_buffers; i++) {
        const tpi_section *section = plan->buffers[i].section;
        for (int k = 0; k < N_CELLS && plan->buffers[i].storage == TPI_IN_ARENA; k++) {
            tpi_str text = cell(c, plan->first_buffer + i, k);
            const int len = text.len < MOST ? (int)text.len : MOST;
            c->width[k] = len > c->width[k] ? len : c->width[k];
            c->s->failed |= text.failed;
            tpi_str_free(&text);
        }
        for (int k = 0; section && k < section->n_bodies; k++)
            find_widths(c, section->plan[k]);
    }
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
    char name[16];
    snprintf(name, sizeof name, "b%d", number);
    tpi_str_printf(c->s, "%-6s", name);
    for (int k = 0; k < N_CELLS; k++) {
        tpi_str text = cell(c, number, k);
        tpi_str_printf(c->s, " %*s", c->width[k], text.text ? text.text : "");
        c->s->failed |= text.failed;
        tpi_str_free(&text);
    }
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
        tpi_str_printf(c->s, "%*s%-6s %*s %*s  %-*s value\n", indent, "", "buffer", c->width[0],
                       "bytes", c->width[1], "at", width, kernels);
    for (int i = 0; i < plan->n_buffers; i++)
        if (plan->buffers[i].storage == TPI_IN_ARENA) {
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

static void put_parts(tpi_str *s, const tpi_arena *a, const char *head, int maximum)
{
    const tpi_maximum *m = &a->maxima[maximum];
    tpi_str_put(s, head);
    for (int i = 0; i < m->n; i++) {
        tpi_str_put(s, i == 0 ? "the most of " : ", ");
        tpi_put_amount(s, a, &a->parts[m->first + i], false);
    }
    tpi_str_put(s, "\n");
}

/* "arena = the most of 4096*n, m0+64", and before it what m0 is. */
static void put_formula(tpi_str *s, const tpi_arena *a)
{
    const tpi_amount *all = &a->total;
    const bool last = all->maximum[0] >= 0 && all->size == 0; /* which is all of it */
    for (int i = 0; i < a->n_maxima - last; i++) {
        tpi_str_printf(s, "m%d = ", i);
        put_parts(s, a, "", i);
    }
    if (last) {
        put_parts(s, a, "arena = ", all->maximum[0]);
        return;
    }
    tpi_str_put(s, "arena = ");
    tpi_put_amount(s, a, all, false);
    tpi_str_put(s, " bytes\n");
}

static void put_sum(tpi_str *s, const picture *c, int64_t all)
{
    int at = 0;
    const tpi_plan *plan = c->root;
    const int64_t *bytes = c->value[0];
    const size_t n = (size_t)plan->n_kernels * sizeof(int64_t);
    if (!tpi_amount_is_number(&c->arena->total) || !bytes)
        put_formula(s, c->arena);
    if (!bytes)
        return;
    int64_t *live = tpi_take(s->mem, n);
    s->failed |= !live;
    const int64_t peak = live ? tpi_budget_peak(plan, bytes, live, &at) : 0;
    tpi_give_back(s->mem, live, n);
    tpi_str_printf(s, "arena %" PRId64 " bytes", all);
    if (peak == all && peak)
        tpi_str_printf(s, ", all in use at k%d", at);
    else if (peak)
        tpi_str_printf(s, ", of which %" PRId64 " are in use at k%d", peak, at);
    tpi_str_put(s, "\n");
}

/* What lies elsewhere, one number per kind of place. */
static void put_rest(tpi_str *s, const tpi_plan *plan, const int64_t *bytes)
{
    static const char *const names[] = {"fed", "constants", "variables", "results"};
    int64_t sum[4] = {0};
    for (int i = 0; i < plan->n_buffers && bytes; i++) {
        const tpi_buffer *b = &plan->buffers[i];
        const tp_tensor *source = b->like ? tpi_source_of(b->like) : NULL;
        if (b->storage != TPI_IN_ARENA)
            sum[b->storage == TPI_IN_OUTPUT    ? 3
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
    if (tpi_program_knows_sizes(p)) {
        bytes = tpi_take(&p->ctx->mem, 2 * n * sizeof *bytes);
        s->failed |= !bytes;
    }
    const bool placed = bytes && tpi_program_place(p, plan, bytes, bytes + n, &arena);
    picture c = {
        .s = s, .root = plan, .arena = tpi_program_arena(p, plan), .width = {9, 2}
    };
    if (placed) {
        c.value[0] = bytes;
        c.value[1] = bytes + n;
    }
    find_widths(&c, plan);
    put_buffers(&c, plan, 0);
    put_sum(s, &c, arena);
    put_rest(s, plan, c.value[0]);
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
