/* Loop programs as OpenCL C (opencl.c), at any sizes, leave the bits that they mean to a plain interpreter.
 *
 *     loop_opencl [--count N] [--seed S] [--print]      --print: the kernels, as OpenCL C and as pseudo-code */
#include "loop_corpus.h"
#include "loop_dialect.h"
#include "opencl_device.h"
#include "run/program.h"

#include <stdlib.h>
#include <string.h>

enum {
    TOGETHER = 32, /* kernels that are compiled as one program */
    ITEMS = 8,     /* at most: work-items of a run */
    SKIPPED = 77
};

/* Kernels by their text, in which the name is KERNEL: equal ones are one, number i is k<i>. */
typedef struct net {
    uint64_t seed;
    opencl_device *device;
    tp_ctx *tp; /* for texts */
    char **text;
    int n_texts, n_programs, n_runs, n_bad;
    bool print;
} net;

static void complain(net *n, const loop_case *c, const char *text, const char *why)
{
    printf("%s: %s\n%s", c->what, why, text);
    n->n_bad++;
}

/* ---- kernels ------------------------------------------------------------------------------------------------- */

static char *text_of(const loop_dialect *d, const loop_case *c, const tpi_loop *l)
{
    tpi_str s = TPI_STR(&c->tp->mem);
    loop_print_dialect(d, l, "KERNEL", &s);
    char *text = s.failed ? NULL : strdup(s.text);
    if (!text)
        abort();
    tpi_str_free(&s);
    return text;
}

static int number_of(const net *n, const char *text)
{
    int i = 0;
    while (i < n->n_texts && strcmp(n->text[i], text) != 0)
        i++;
    return i;
}

static void collect(void *user, const loop_case *c)
{
    net *n = user;
    tpi_bump memory = TPI_BUMP(&c->tp->mem);
    tpi_loop l;
    if (!tpi_lower_nest(&memory, c->plan, c->nest, NULL, NULL, &l))
        abort();
    char *text = text_of(&opencl, c, &l);
    n->n_programs++;
    if (n->print) {
        char *people = text_of(&pseudo, c, &l);
        printf("%s\n%s\n", people, text);
        free(people);
    }
    if (number_of(n, text) < n->n_texts) {
        free(text);
    } else {
        n->text = realloc(n->text, (size_t)(n->n_texts + 1) * sizeof *n->text);
        n->text[n->n_texts++] = text;
    }
    tpi_bump_free(&memory);
}

/* A kernel text without its lines "#include". */
static void put_file(tpi_str *out, const char *name)
{
    char path[1000], line[1000];
    const char *source = getenv("TAPIR_SOURCE");
    snprintf(path, sizeof path, "%s/src/kernel/text/%s", source ? source : ".", name);
    FILE *f = fopen(path, "r");
    out->failed |= !f;
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, "#include", 8) != 0)
            tpi_str_put(out, line);
    if (f)
        fclose(f);
}

static bool compile(net *n, int from, char why[OPENCL_WHY])
{
    tpi_str s = TPI_STR(&n->tp->mem);
    tpi_str_put(&s, opencl_prelude);
    put_file(&s, "target.h");
    put_file(&s, "math_f32.h");
    put_file(&s, "math_f64.h");
    put_file(&s, "elem.h");
    for (int i = from; i < n->n_texts && i < from + TOGETHER; i++)
        tpi_str_printf(&s, "#define KERNEL k%d\n%s#undef KERNEL\n", i, n->text[i]);
    snprintf(why, OPENCL_WHY,
             "the kernel text cannot be read: is TAPIR_SOURCE the source tree?");
    const bool ok = !s.failed && opencl_add(n->device, s.text, why);
    tpi_str_free(&s);
    return ok;
}

/* ---- runs ---------------------------------------------------------------------------------------------------- */

/* As many work-items as the outermost axis has points, if it has few. */
static int64_t items_of(const loop_case *c, const tpi_loop *l)
{
    if (tpi_loop_inside(l, 0) == 1)
        return 1;
    const int64_t n = tpi_dim_eval(l->dims, l->stmt[1].size, c->program->symbols);
    return n < 1 ? 1 : n < ITEMS ? n : ITEMS;
}

/* Of a program whose memories have the numbers of `l`. */
static bool run_opencl(net *n, const loop_case *c, const tpi_loop *l, int kernel,
                       const loop_memories *m, char why[OPENCL_WHY])
{
    char name[20];
    opencl_memory memory[LOOP_MEMORIES];
    const int64_t items = items_of(c, l);
    int n_memories = 0;
    for (int rows = 0; rows < 2; rows++)
        for (int i = 0; i < l->n_mems; i++) {
            const int64_t size =
                rows ? tpi_dim_eval(l->dims, l->mem[i].size, c->program->symbols) : 0;
            if (l->mem[i].row != rows)
                continue;
            memory[n_memories++] =
                rows ? (opencl_memory){NULL, (size_t)(size * items) *
                                                 tp_dtype_size((tp_dtype)l->mem[i].type)}
                     : (opencl_memory){m->copy[i], m->bytes[i]};
        }
    snprintf(name, sizeof name, "k%d", kernel);
    return opencl_run(n->device, name, (size_t)items, n_memories, memory,
                      tpi_dim_n_symbols(l->dims), c->program->symbols, why);
}

static void check_run(net *n, const loop_case *c, const tpi_loop *l, int kernel)
{
    char why[OPENCL_WHY];
    tpi_bump memory = TPI_BUMP(&c->tp->mem);
    tpi_loop bound;
    loop_memories m;
    if (!tpi_lower_nest(&memory, c->plan, c->nest, c->program->symbols, NULL, &bound))
        abort();
    if (loop_take(c, l, &n->seed, &m)) {
        n->n_runs++;
        if (!loop_run(&bound, c->tp, NULL, m.of, m.elements, &n->seed, why) ||
            !run_opencl(n, c, l, kernel, &m, why) || !loop_compare(l, &m, "OpenCL", why))
            complain(n, c, n->text[kernel], why);
    }
    loop_release(&m);
    tpi_bump_free(&memory);
}

static void check(void *user, const loop_case *c)
{
    net *n = user;
    tpi_bump memory = TPI_BUMP(&c->tp->mem);
    tpi_loop l;
    if (!tpi_lower_nest(&memory, c->plan, c->nest, NULL, NULL, &l))
        abort();
    char *text = text_of(&opencl, c, &l);
    const int kernel = number_of(n, text);
    for (int run = 0; kernel < n->n_texts && loop_set_sizes(c, run, &n->seed); run++)
        check_run(n, c, &l, kernel);
    if (kernel == n->n_texts)
        complain(n, c, text, "it has another text than before");
    free(text);
    tpi_bump_free(&memory);
}

int main(int argc, char **argv)
{
    net n = {.seed = 1};
    int count = 10;
    char why[OPENCL_WHY];
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--print") == 0)
            n.print = true;
        else if (i + 1 < argc && strcmp(argv[i], "--count") == 0)
            count = atoi(argv[++i]);
        else if (i + 1 < argc && strcmp(argv[i], "--seed") == 0)
            n.seed = strtoull(argv[++i], NULL, 10);
    }
    const uint64_t seed = n.seed;
    n.device = opencl_open(why);
    if (!n.device) {
        printf("skipped: %s\n", why);
        return SKIPPED;
    }
    opencl_name(n.device, why, sizeof why);
    printf("on %s\n", why);
    n.tp = tp_open(NULL);
    n.n_bad = loop_corpus(count, seed, collect, &n);
    for (int i = 0; i < n.n_texts && n.n_bad == 0; i += TOGETHER)
        if (!compile(&n, i, why)) {
            printf("%s\n", why);
            n.n_bad++;
        }
    if (n.n_bad == 0)
        loop_corpus(count, seed, check, &n);
    printf("%d programs, %d kernels, %d runs, %d wrong\n", n.n_programs, n.n_texts, n.n_runs,
           n.n_bad);
    for (int i = 0; i < n.n_texts; i++)
        free(n.text[i]);
    free(n.text);
    opencl_close(n.device);
    tp_close(n.tp);
    return n.n_bad != 0 || n.n_programs == 0 || n.n_runs < n.n_programs;
}
