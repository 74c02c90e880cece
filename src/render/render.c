#include "render/render.h"

#include "base/env.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Of what a loaded object is asked for; in a file that stands alone nothing else sees it. */
static const char *linkage(const tpi_render *r)
{
    return r->alone ? "static " : "";
}

/* The last parameter of all functions, and how they hand it on. */
static const char *library_param(const tpi_render *r)
{
    return r->alone ? "" : ", const tpk_library *library";
}

static const char *library_arg(const tpi_render *r)
{
    return r->alone ? "" : ", library";
}

/* A function with the symbols in scope; `head` ends before the last parameter. */
static void put_sized(const tpi_render *r, tpi_str *out, const char *head, const char *first,
                      const tpi_str *body, const char *last)
{
    tpi_str_printf(out, "\n%s%s%s)\n{\n    %s\n    (void)s%s;\n", linkage(r), head,
                   library_param(r), first, r->alone ? "" : ", (void)library");
    for (int i = 0; i < tpi_dim_n_symbols(r->plan->graph->dims); i++)
        tpi_str_printf(out, "    const int64_t s%d = s[%d];\n    (void)s%d;\n", i, i, i);
    tpi_str_add(out, body->text ? body->text : "", body->len);
    tpi_str_printf(out, "    %s\n}\n", last);
}

/* Packed constants lie one after the other behind a table of where each begins and, where a library
 * packs them, by which way each is. */
static void put_packing(const tpi_render *r, tpi_str *out)
{
    tpi_str first = TPI_STR(out->mem);
    const int entries = r->alone ? r->n_packed : 2 * r->n_packed;
    tpi_str_printf(&first, "int64_t total = %d;\n    (void)at;", (entries * 8 + 63) & ~63);
    if (entries > r->n_packed)
        tpi_str_printf(&first, "\n    int64_t *way = at + %d;\n    (void)way;", r->n_packed);
    put_sized(r, out, "int64_t " TPI_LAYOUT_SYMBOL "(const int64_t *s, int64_t *at",
              first.text ? first.text : "", &r->packed, "return total;");
    tpi_str_free(&first);
    tpi_str_printf(out,
                   "\n%sint64_t " TPI_PACKED_SYMBOL "(const int64_t *s%s)\n{\n"
                   "    int64_t at[%d];\n    return " TPI_LAYOUT_SYMBOL "(s, at%s);\n}\n",
                   linkage(r), library_param(r), entries + 1, library_arg(r));
    tpi_str_printf(&first, TPI_LAYOUT_SYMBOL "(s, packed%s);\n    (void)p, (void)scratch;",
                   library_arg(r));
    put_sized(r, out,
              "void " TPI_PACK_SYMBOL
              "(void *const *p, const int64_t *s, void *packed, void *scratch",
              first.text ? first.text : "", &r->pack, "return;");
    tpi_str_free(&first);
}

/* Kernels are called through a table: in a row of calls with early returns between them gcc takes the later
 * ones for cold and does not vectorise them. */
static void put_table(const tpi_render *r, tpi_str *out)
{
    if (r->alone)
        tpi_str_printf(
            out,
            "\nstatic const struct {\n    int64_t (*kernel)%s;\n    int64_t at; /* of "
            "its arguments */\n} kernels[] = {",
            r->params);
    else
        tpi_str_put(out, "\nstatic const tpk_called kernels[] = {");
    for (int i = 0; i < (r->alone ? r->plan->n_kernels : r->plan->all_kernels); i++)
        tpi_alike_put_row(&r->alike, i, out);
    tpi_str_put(out, "\n    {0, 0}};\n\n");
}

/* A file that stands alone calls one after the other. */
static void put_entry(const tpi_render *r, tpi_str *out)
{
    put_table(r, out);
    tpi_str_printf(
        out,
        "%sint64_t " TPI_ENTRY_SYMBOL
        "(void **p, int64_t *s, int64_t *random, const void *packed, "
        "void *scratch, int64_t *fail%s)\n{\n"
        "    const tpk_env env = {.p = p, .s = s, .random = random, .packed = packed, "
        ".scratch = scratch, .fail = fail%s};\n",
        linkage(r), library_param(r),
        r->alone ? "" : ", .kernels = kernels, .args = args, .library = library");
    if (r->alone)
        tpi_str_put(out, "    for (int i = 0; kernels[i].kernel; i++) {\n"
                         "        const int64_t e = kernels[i].kernel(&env, args + "
                         "kernels[i].at);\n"
                         "        if (e > 0) {\n            fail[0] = i, fail[1] = e;\n"
                         "            return 1;\n        }\n"
                         "        if (e)\n            return fail[2];\n    }\n"
                         "    return 0;\n}\n");
    else
        tpi_str_printf(out, "    return library->run(&env, %d);\n}\n", r->plan->n_kernels);
}

/* ---- the program ------------------------------------------------------------------------------------ */

/* For blocks. */
static void put_blame(tpi_str *out)
{
    tpi_str_put(out, "\n/* A kernel of a body told an index out of range (e > 0), or has set "
                     "fail[]. */\n"
                     "static __attribute__((unused)) int64_t blame(int64_t *fail, int64_t "
                     "kernel, int64_t e)\n"
                     "{\n    if (e > 0)\n"
                     "        fail[0] = kernel, fail[1] = e, fail[2] = 1;\n"
                     "    return -1;\n}\n");
}

static void begin_function(tpi_render *r)
{
    r->body.len = r->comment.len = r->scratch.len = 0;
    r->n_names = 0;
    r->naming++;
    r->has_slots = true;
}

/* What a kernel reads of the run, by the names that its text has. */
typedef struct env_name {
    const char *name, *declared;
} env_name;
static const env_name env_names[] = {
    {"p",       "void **p = env->p"                        },
    {"s",       "int64_t *s = env->s"                      },
    {"random",  "int64_t *random = env->random"            },
    {"packed",  "const char *packed = env->packed"         },
    {"scratch", "void *scratch = env->scratch"             },
    {"fail",    "int64_t *fail = env->fail"                },
    {"library", "const tpk_library *library = env->library"},
};
enum { N_ENV_NAMES = sizeof env_names / sizeof *env_names };

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           c == '_';
}

/* Which names of the run the text uses, as bits; r->uses_symbol too. A member of something is no such name. */
static unsigned find_names(tpi_render *r, const tpi_str *body)
{
    const int symbols = r->n_symbols;
    unsigned found = 0;
    memset(r->uses_symbol, 0, (size_t)symbols + 1);
    const char *const end = body->text + body->len;
    for (const char *c = body->text; c && c < end;) {
        const char *word = c;
        while (c < end && is_word(*c))
            c++;
        const size_t n = (size_t)(c - word);
        const bool member =
            word > body->text && (word[-1] == '.' || (word[-1] == '>' && word[-2] == '-'));
        for (int i = 0; i < N_ENV_NAMES && n && !member; i++)
            if (strlen(env_names[i].name) == n && memcmp(env_names[i].name, word, n) == 0)
                found |= 1u << i;
        if (n > 1 && *word == 's' && word[1] >= '0' && word[1] <= '9' && !member) {
            const int i = atoi(word + 1);
            r->uses_symbol[i < symbols ? i : symbols] = true;
        }
        c += n == 0;
    }
    return found;
}

/* The signature and the names that the text uses, then the text. */
static void put_function(tpi_render *r)
{
    tpi_str *out = &r->function;
    const unsigned found = find_names(r, &r->body);
    out->len = 0;
    tpi_str_printf(out, "%s\n{\n" TPI_ALIKE_HEAD, r->params);
    for (int i = 0; i < N_ENV_NAMES; i++)
        if ((found >> i) & 1)
            tpi_str_printf(out, "    %s;\n", env_names[i].declared);
    for (int i = 0; i < r->n_symbols; i++)
        if (r->uses_symbol[i])
            tpi_str_printf(out, "    const int64_t s%d = env->s[%d];\n", i, i);
    tpi_str_add(out, r->body.text ? r->body.text : "", r->body.len);
}

static void end_function(tpi_render *r, int row)
{
    r->has_slots = false;
    if (r->lines)
        tpi_str_put(&r->body, "#line 1 \"tapir.c\"\n");
    put_function(r);
    r->function.failed |= r->body.failed;
    tpi_alike_kernel(&r->alike, row, &r->function, r->comment.text ? r->comment.text : "");
    if (r->scratch.len)
        tpi_alike_kernel(&r->rooms, row, &r->scratch, "");
    tpi_bump_free(&r->room);
}

static void render_kernel(tpi_render *r, int i)
{
    const tpi_kernel_kind kind = r->plan->kernels[i].kind;
    begin_function(r);
    if (kind == TPI_KERNEL_LOOP)
        tpi_render_nest(r, i);
    else if (kind == TPI_KERNEL_BLOCK)
        tpi_render_block(r, i);
    else
        tpi_render_call(r, i);
    end_function(r, r->plan->first_kernel + i);
}

void tpi_render_plan(tpi_render *r, const tpi_plan *plan)
{
    const tpi_plan *outer = r->plan;
    for (int i = 0; i < plan->n_kernels; i++) {
        const tpi_section *block = plan->kernels[i].kind == TPI_KERNEL_BLOCK
                                       ? plan->sections[plan->kernels[i].root]
                                       : NULL;
        for (int k = 0; block && k < block->n_bodies; k++)
            tpi_render_plan(r, block->plan[k]);
        r->plan = plan;
        render_kernel(r, i);
    }
    r->plan = outer;
}

/* The nodes of the largest plan. */
static int most_values(const tpi_plan *plan)
{
    int most = plan->n_values;
    for (int i = 0; i < plan->n_values && plan->sections; i++)
        for (int k = 0; plan->sections[i] && k < plan->sections[i]->n_bodies; k++) {
            const int inner = most_values(plan->sections[i]->plan[k]);
            most = inner > most ? inner : most;
        }
    return most;
}

static void begin(tpi_render *r, tpi_mem *m)
{
    const size_t names = (size_t)most_values(r->plan), kernels = (size_t)r->plan->all_kernels;
    r->memory = r->room = TPI_BUMP(m);
    r->body = r->function = r->scratch = r->packed = r->pack = r->comment = r->helpers =
        TPI_STR(m);
    r->params = r->alone ? "(const tpk_env *env, const int64_t *a)"
                         : "(const tpk_env *env, const int64_t *a, tpk_part *part)";
    r->called = r->alone ? "tpk_" : "library->";
    r->texts = 1u << TPI_TEXT_elem | 1u << (r->alone ? TPI_TEXT_rounding : TPI_TEXT_library);
    r->name = tpi_bump_take(&r->memory, names, sizeof *r->name);
    r->named_by = tpi_bump_take(&r->memory, names, sizeof *r->named_by);
    r->packed_of = tpi_bump_take(&r->memory, kernels, sizeof *r->packed_of);
    r->n_symbols = tpi_dim_n_symbols(r->plan->graph->dims);
    r->uses_symbol = tpi_bump_take(&r->memory, (size_t)r->n_symbols + 1, 1);
    tpi_alike_begin(&r->alike, &r->memory, r->plan->all_kernels);
    tpi_alike_begin(&r->rooms, &r->memory, r->plan->all_kernels);
}

/* False when out of memory in between. */
static bool end(tpi_render *r)
{
    tpi_str *const all[] = {&r->body, &r->function, &r->scratch, &r->packed,
                            &r->pack, &r->comment,  &r->helpers};
    bool ok = !r->memory.failed && !r->room.failed;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        ok = ok && !all[i]->failed;
        tpi_str_free(all[i]);
    }
    tpi_bump_free(&r->room);
    tpi_bump_free(&r->memory);
    return ok;
}

#define UNIT_TEXT(i) "#define UNIT " #i "\n#include \"unit0.c\"\n"
const char *const tpi_unit_texts[TPI_MAX_UNITS] = {NULL,         UNIT_TEXT(1), UNIT_TEXT(2),
                                                   UNIT_TEXT(3), UNIT_TEXT(4), UNIT_TEXT(5),
                                                   UNIT_TEXT(6), UNIT_TEXT(7)};

/* Units of about the same size, none of them too small to be worth a compiler. */
static int count_units(const tpi_render *r, int most)
{
    enum { ENOUGH = 16000 }; /* characters: a quarter of a second or so */
    size_t all = 0;
    for (int i = 0; i < r->alike.n_functions; i++)
        all += r->alike.functions[i].len;
    const int worth = all / ENOUGH < TPI_MAX_UNITS ? (int)(all / ENOUGH) : TPI_MAX_UNITS;
    return worth > most ? most : worth < 1 ? 1 : worth;
}

/* Behind them the text goes on for unit 0. Kernels are hot: gcc takes copies that it makes of those which a loop
 * calls for unlikely ones, whose loops it leaves as they are. */
static void put_functions(const tpi_render *r, tpi_str *out)
{
    const tpi_alike *a = &r->alike;
    const char *linkage = r->units == 1
                              ? "static __attribute__((hot, noinline))"
                              : "__attribute__((visibility(\"hidden\"), hot, noinline))";
    size_t all = 0, done = 0;
    if (r->alone)
        tpi_str_put(out, "\n/* What a run hands to each kernel. */\n"
                         "typedef struct tpk_env {\n    void **p; /* buffers by number */\n"
                         "    int64_t *s; /* sizes */\n    int64_t *random;\n"
                         "    const char *packed;\n    void *scratch;\n    int64_t *fail;\n"
                         "} tpk_env;\n"
                         "#pragma GCC diagnostic ignored \"-Wunused-parameter\"\n");
    tpi_str_put(out, "\n/* What kernels of the same text differ in. */\n");
    if (r->units > 1)
        tpi_str_put(out,
                    "extern __attribute__((visibility(\"hidden\"))) const int64_t args[];\n"
                    "#if UNIT == 0\nconst int64_t args[] = {");
    else
        tpi_str_put(out, "static const int64_t args[] = {");
    tpi_alike_put_arguments(a, out);
    tpi_str_put(out, r->units > 1 ? " 0};\n#endif\n" : " 0};\n");
    for (int i = 0; i < a->n_functions; i++) {
        all += a->functions[i].len;
        if (r->units > 1)
            tpi_str_printf(out, "%s int64_t k%d%s;\n", linkage, i, r->params);
    }
    int unit = r->units > 1 ? -1 : 0;
    for (int i = 0; i < a->n_functions; i++) {
        const int now = (int)(done * (size_t)r->units / (all + 1));
        if (now != unit)
            tpi_str_printf(out, "%s#if UNIT == %d\n", unit < 0 ? "" : "#endif\n", now);
        unit = now;
        tpi_alike_put_function(a, i, linkage, out);
        done += a->functions[i].len;
    }
    if (r->units > 1)
        tpi_str_put(out, "#endif\n#if UNIT == 0\n");
}

static void put_program(tpi_render *r, tpi_str *out)
{
    if (!r->alone)
        tpi_str_printf(out, "/* Made by tapir %s. */\n", tp_version());
    if (r->units > 1)
        tpi_str_put(out, "#ifndef UNIT\n#define UNIT 0\n#endif\n");
    tpi_render_texts(r, out);
    if (r->plan->all_kernels > r->plan->n_kernels)
        put_blame(out);
    tpi_str_add(out, r->helpers.text ? r->helpers.text : "", r->helpers.len);
    put_functions(r, out);
    r->scratch.len = 0;
    for (int i = 0; i < r->rooms.n_functions; i++)
        tpi_str_add(&r->scratch, r->rooms.functions[i].text, r->rooms.functions[i].len);
    put_sized(r, out, "int64_t " TPI_SCRATCH_SYMBOL "(const int64_t *s",
              "int64_t most = 64, need = 0;\n    (void)need;", &r->scratch, "return most;");
    put_packing(r, out);
    put_entry(r, out);
    if (r->units > 1)
        tpi_str_put(out, "#endif\n");
}

int tpi_render_program(const tpi_plan *p, bool alone, int most, tpi_str *out)
{
    const bool lines = !alone && tpi_env(TPI_ENV_DEBUG_C);
    tpi_render r = {.plan = p, .whole = p, .alone = alone, .lines = lines};
    begin(&r, &p->graph->ctx->mem);
    if (!r.memory.failed)
        tpi_render_plan(&r, p);
    if (!r.memory.failed) {
        tpi_alike_settle(&r.alike);
        tpi_alike_settle(&r.rooms);
        r.units = count_units(&r, most);
        put_program(&r, out);
        tpi_str_fit(out); /* a program keeps it */
    }
    const bool ok = end(&r) && !out->failed;
    if (!ok) {
        tpi_no_memory(p->graph->ctx, TPI_AT(NULL, 0), "compile");
        tpi_str_free(out);
    }
    return ok ? r.units : 0;
}
