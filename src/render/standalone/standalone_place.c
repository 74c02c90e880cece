/* Where the buffers of a file that stands alone lie: the plan's placement as C. */
#include "plan/arena.h"
#include "render/standalone/standalone_def.h"

static void put_maximum(tpi_str *out, const tpi_arena *a, int number)
{
    const tpi_maximum *m = &a->maxima[number];
    tpi_str_printf(out, "    %sint64_t m%d = ", m->n > 1 ? "" : "const ", number);
    tpi_put_amount(out, a, &a->parts[m->first], true);
    tpi_str_put(out, ";\n");
    for (int i = 1; i < m->n; i++) {
        tpi_str_printf(out, "    m%d = most(m%d, ", number, number);
        tpi_put_amount(out, a, &a->parts[m->first + i], true);
        tpi_str_put(out, ");\n");
    }
}

/* Those of a plan whose arena begins at `base` ("base + m3 + "). */
static void put_pointers(const tpi_alone *a, const tpi_plan *plan, const char *base,
                         tpi_str *out)
{
    for (int i = 0; i < plan->n_buffers; i++) {
        const tpi_buffer *b = &plan->buffers[i];
        const int number = plan->first_buffer + i;
        if (b->storage != TPI_IN_ARENA)
            continue;
        tpi_str at = TPI_STR(&a->ctx->mem);
        tpi_str_put(&at, base);
        tpi_put_amount(&at, a->plan->arena, &a->plan->arena->offset[number], true);
        tpi_str_printf(out, "    p[%d] = %s;\n", number, at.text ? at.text : "");
        tpi_str_put(&at, " + ");
        for (int k = 0; b->section && k < b->section->n_bodies; k++)
            put_pointers(a, b->section->plan[k], at.text ? at.text : "", out);
        out->failed |= at.failed;
        tpi_str_free(&at);
    }
}

static void put_total(const tpi_alone *a, tpi_str *out)
{
    tpi_str_put(out, "return ");
    tpi_put_amount(out, a->plan->arena, &a->plan->arena->total, true);
    tpi_str_put(out, ";\n");
}

bool tpi_alone_places(tpi_alone *a, tpi_str *out)
{
    if (!tpi_plan_arena(a->plan))
        return false;
    const tpi_arena *arena = a->plan->arena;
    a->arena = tpi_amount_is_number(&arena->total) ? arena->total.size : -1;
    if (arena->too_large)
        return false;
    tpi_str_put(out, "\nstatic inline __attribute__((unused)) int64_t up(int64_t bytes)\n"
                     "{\n    return (bytes + 63) & ~(int64_t)63;\n}\n"
                     "\nstatic inline __attribute__((unused)) int64_t most(int64_t a, "
                     "int64_t b)\n{\n    return a > b ? a : b;\n}\n"
                     "\n/* Where buffers lie behind `base`, into p when that is not NULL; all "
                     "their bytes. */\n"
                     "static int64_t place(const int64_t *s, char *base, void **p)\n{\n"
                     "    (void)s, (void)base;\n");
    for (int i = 0; i < a->n_symbols; i++)
        tpi_str_printf(out, "    const int64_t s%d = s[%d];\n    (void)s%d;\n", i, i, i);
    for (int i = 0; i < arena->n_maxima; i++)
        put_maximum(out, arena, i);
    tpi_str_put(out, "    if (!p)\n        ");
    put_total(a, out);
    put_pointers(a, a->plan, "base + ", out);
    tpi_str_put(out, "    ");
    put_total(a, out);
    tpi_str_put(out, "}\n");
    return true;
}
