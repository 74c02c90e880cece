/* The text that is made of the corpus, a file for each of its graphs.
 *
 *     golden DIR
 *
 * DIR/NAME.txt has the graph after all passes, the kernels, what lies in memory, and the C that a
 * program would compile, without the texts of src/kernel; of some the C file that stands alone,
 * from its first kernel on, and its header too. Nothing is compiled or run. */
#include "common/golden_corpus.h"
#include "run/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NAMES = 8 };

static int names_of(tp_graph *g, int n, tp_tensor *(*nth)(tp_graph *g, int i), const char **out)
{
    for (int i = 0; i < n && i < MOST_NAMES; i++)
        out[i] = tp_name_of(nth(g, i));
    return n < MOST_NAMES ? n : MOST_NAMES;
}

/* What is generated begins behind the last line of what is the same in all programs. */
static const char *generated(const char *source)
{
    static const char last[] = "#define FN(name) TPK_CAT(tpk_##name##_, S)\n";
    const char *at = strstr(source, last);
    return at ? at + sizeof last - 1 : NULL;
}

static bool put(FILE *f, tp_ctx *tp, const char *title, char *text)
{
    if (text)
        fprintf(f, "==== %s\n%s\n", title, text);
    tp_free(tp, text);
    return text;
}

static bool put_source(FILE *f, const tp_program *p)
{
    tpi_str source = TPI_STR(&p->ctx->mem);
    const bool ok = tpi_render_program(p->plan, false, 1, &source) == 1;
    const char *text = ok ? generated(source.text) : NULL;
    if (text)
        fprintf(f, "==== C\n%s", text);
    tpi_str_free(&source);
    return text;
}

/* The file DIR/NAME.ENDING from a text in it on, which goes then. */
static bool put_file(FILE *f, const char *dir, const char *name, const char *ending,
                     const char *from)
{
    enum { MOST = 1 << 20 };
    char path[4096], *text = calloc(1, MOST);
    snprintf(path, sizeof path, "%s/%s.%s", dir, name, ending);
    FILE *in = fopen(path, "r");
    const size_t n = in && text ? fread(text, 1, MOST - 1, in) : 0;
    const char *at = n && n < MOST - 1 ? strstr(text, from) : NULL;
    if (at)
        fprintf(f, "==== %s.%s\n%s\n", name, ending, at);
    if (in)
        fclose(in);
    remove(path);
    free(text);
    return at;
}

static bool put_alone(FILE *f, const golden_case *c, tp_graph *g, const char *dir)
{
    const char *in[MOST_NAMES], *out[MOST_NAMES];
    char path[4096];
    if (!c->alone)
        return true;
    snprintf(path, sizeof path, "%s/%s.c", dir, c->name);
    const int n_in = names_of(g, tp_graph_n_inputs(g), tp_graph_input, in),
              n_out = names_of(g, tp_graph_n_outputs(g), tp_graph_output, out);
    return tp_graph_save_c(g, path, n_in, in, n_out, out, NULL) == TP_OK &&
           put_file(f, dir, c->name, "c", "/* What kernels of the same text") &&
           put_file(f, dir, c->name, "h", "");
}

static tp_program *compile(tp_graph *g)
{
    const char *in[MOST_NAMES], *out[MOST_NAMES];
    const int n_in = names_of(g, tp_graph_n_inputs(g), tp_graph_input, in),
              n_out = names_of(g, tp_graph_n_outputs(g), tp_graph_output, out);
    return tp_graph_compile(g, n_in, in, n_out, out,
                            &(tp_compile_options){.engine = TP_ENGINE_TILES});
}

static bool write_case(const golden_case *c, const char *dir)
{
    char path[4096];
    tp_ctx *tp = tp_open(&(tp_options){.seed = 1, .threads = 1});
    tp_graph *g = tp_graph_new(tp);
    tp_scope_begin(tp);
    c->draw(tp, g);
    tp_program *p = tp_error(tp) == TP_OK ? compile(g) : NULL;
    snprintf(path, sizeof path, "%s/%s.txt", dir, c->name);
    FILE *f = p ? fopen(path, "w") : NULL;
    bool ok = f && put(f, tp, "graph", tp_graph_text(tp_program_graph(p))) &&
              put(f, tp, "kernels", tp_program_text(p)) &&
              put(f, tp, "loops", tp_program_loops_text(p)) &&
              put(f, tp, "memory", tp_program_memory_text(p)) && put_source(f, p) &&
              put_alone(f, c, g, dir);
    if (f)
        ok = fclose(f) == 0 && ok;
    if (!ok)
        printf("%s: not written: %s\n", path, tp_error_message(tp));
    tp_close(tp);
    return ok;
}

int main(int argc, char **argv)
{
    int n_bad = argc != 2;
    for (const golden_case *c = golden_corpus; argc == 2 && c->name; c++)
        n_bad += !write_case(c, argv[1]);
    if (argc != 2)
        fprintf(stderr, "usage: golden DIR\n");
    return n_bad != 0;
}
