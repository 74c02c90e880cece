/* pass_files FOLDER [--write]: FOLDER/PASS/NAME.ir are graphs before and after a pass, with a line of
 * dashes between them. The pass alone is run until it changes nothing more; placeholders are fed, and all
 * other named nodes are fetched. What comes out has to be the second text, and to have the bits of the
 * first graph (check/validate.h). With --write the second text is what comes out from now on. */
#include "ir/body.h"
#include "pass/prune.h"
#include "run/trial.h"
#include "tapir/tapir.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64, MOST_TEXT = 1 << 16 };
static const char dashes[] = "----\n";

typedef struct pass_file {
    char path[600];
    char text[MOST_TEXT];
    const char *after; /* in text; NULL: there is none yet */
    size_t before;     /* bytes of the first text */
} pass_file;

static bool read_file(pass_file *f)
{
    FILE *in = fopen(f->path, "rb");
    const size_t n = in ? fread(f->text, 1, MOST_TEXT - 1, in) : 0;
    if (in)
        fclose(in);
    f->text[n] = 0;
    char *line = strstr(f->text, dashes);
    f->before = line ? (size_t)(line - f->text) : n;
    f->after = line ? line + strlen(dashes) : NULL;
    return n > 0;
}

static bool write_file(const pass_file *f, const char *after)
{
    FILE *out = fopen(f->path, "wb");
    return out && fwrite(f->text, 1, f->before, out) == f->before &&
           fprintf(out, "%s%s", dashes, after) > 0 && fclose(out) == 0;
}

/* The text of the graph after the pass, which tp_free frees; NULL: the context's error says why. */
static char *rewritten(tp_ctx *tp, const pass_file *f, const tpi_pass *pass)
{
    tp_tensor *feeds[MOST], *roots[MOST];
    int n_feeds = 0, n_roots = 0;
    tp_graph *from = tp_graph_parse(tp, f->text, f->before);
    for (int i = 0; from && i < from->n_nodes; i++) {
        tp_tensor *t = from->nodes[i];
        if (t->op == &tpi_op_placeholder && n_feeds < MOST)
            feeds[n_feeds++] = t;
        else if (t->name && t->op->kind != TPI_SOURCE && n_roots < MOST)
            roots[n_roots++] = t;
    }
    tp_graph *g = from ? tpi_prune(from, false, n_feeds, feeds, n_roots, roots) : NULL;
    const tpi_pass *const passes[] = {pass, NULL};
    const tpi_optimizing how = {.passes = passes};
    g = g ? tpi_optimize_validated(g, &how, tpi_trial_by_reference, n_feeds, feeds, n_roots,
                                   roots)
          : NULL;
    char *text = g ? tp_graph_text(g) : NULL;
    tp_graph_free(g);
    tp_graph_free(from);
    return text;
}

static bool holds(const pass_file *f, const tpi_pass *pass, bool write)
{
    tp_ctx *tp = tp_open(NULL);
    char *after = rewritten(tp, f, pass);
    bool ok = after;
    if (!after) {
        printf("%s: %s\n", f->path, tp_error_message(tp));
    } else if (write) {
        ok = write_file(f, after);
    } else if (!f->after || strcmp(after, f->after) != 0) {
        printf("%s: %s makes of it\n%s\nnot what stands behind %s", f->path, pass->name, after,
               dashes);
        ok = false;
    }
    tp_free(tp, after);
    tp_close(tp);
    return ok;
}

/* How many files of the pass do not hold, and *n, how many there are. */
static int check_pass(const char *folder, const tpi_pass *pass, bool write, int *n)
{
    static pass_file f;
    char path[512];
    int wrong = 0;
    snprintf(path, sizeof path, "%s/%s", folder, pass->name);
    DIR *dir = opendir(path);
    *n = 0;
    for (const struct dirent *e; dir && (e = readdir(dir)) != NULL;) {
        const size_t len = strlen(e->d_name);
        if (len < 4 || len > 80 || strcmp(e->d_name + len - 3, ".ir") != 0)
            continue;
        snprintf(f.path, sizeof f.path, "%s/%.80s", path, e->d_name);
        (*n)++;
        wrong += !read_file(&f) || !holds(&f, pass, write);
    }
    if (dir)
        closedir(dir);
    return wrong;
}

int main(int argc, char **argv)
{
    static const tpi_pass *const passes[] = {
#define PASS(name) &tpi_pass_##name,
#include "pass/passes.def"
        PASS(remake)
#undef PASS
    };
    if (argc < 2)
        return 2;
    const bool write = argc > 2 && strcmp(argv[2], "--write") == 0;
    int wrong = 0, all = 0;
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        int n;
        wrong += check_pass(argv[1], passes[i], write, &n);
        all += n;
        if (!n) {
            printf("%s has no file in %s/%s\n", passes[i]->name, argv[1], passes[i]->name);
            wrong++;
        }
    }
    printf("%d graphs of %d passes, %d wrong\n", all, (int)(sizeof passes / sizeof *passes),
           wrong);
    if (wrong)
        printf("repeat: pass_files test/pass; where the change is meant: pass_files test/pass "
               "--write\n");
    return wrong > 0;
}
