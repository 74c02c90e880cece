/* What loop programs look like in each dialect.
 *
 *     loop_dialects DIR [--write]      DIR/NAME.loop is DIR/NAME.cl in OpenCL C, DIR/NAME.txt in pseudo-code; --write
 *                                      makes these what they are now */
#include "common/loop_read.h"
#include "loop_dialect.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const loop_dialect *dialect;
    const char *ending;
} dialects[] = {
    {&opencl, "cl" },
    {&pseudo, "txt"},
};

static bool write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    const bool ok = f && fputs(text, f) >= 0;
    return (!f || fclose(f) == 0) && ok;
}

static int check(const tpi_loop *l, const char *dir, const char *name, bool write)
{
    int n_bad = 0;
    for (size_t i = 0; i < sizeof dialects / sizeof *dialects; i++) {
        char path[1000];
        tpi_str s = TPI_STR(l->memory->mem);
        snprintf(path, sizeof path, "%s/%s.%s", dir, name, dialects[i].ending);
        loop_print_dialect(dialects[i].dialect, l, name, &s);
        char *want = loop_read_file(path);
        const bool same = !s.failed && strcmp(s.text, want) == 0;
        if (!same && !(write && !s.failed && write_file(path, s.text))) {
            printf("%s: it is now\n%s", path, s.failed ? "" : s.text);
            n_bad++;
        }
        free(want);
        tpi_str_free(&s);
    }
    return n_bad;
}

static int check_file(const char *dir, const char *file, bool write)
{
    char path[1000], name[100], why[LOOP_READ_WHY];
    tpi_loop l;
    snprintf(path, sizeof path, "%s/%s", dir, file);
    snprintf(name, sizeof name, "%.*s", (int)strcspn(file, "."), file);
    char *text = loop_read_file(path);
    tp_ctx *tp = tp_open(NULL);
    tpi_bump memory = TPI_BUMP(&tp->mem);
    int n_bad = 1;
    if (loop_read(&memory, tp_graph_new(tp), text, &l, why))
        n_bad = check(&l, dir, name, write);
    else
        printf("%s: %s\n", path, why);
    tpi_bump_free(&memory);
    tp_close(tp);
    free(text);
    return n_bad;
}

int main(int argc, char **argv)
{
    int n_files = 0, n_bad = 0;
    DIR *d = argc > 1 ? opendir(argv[1]) : NULL;
    for (const struct dirent *e; d && (e = readdir(d));)
        if (strstr(e->d_name, ".loop")) {
            n_bad +=
                check_file(argv[1], e->d_name, argc > 2 && strcmp(argv[2], "--write") == 0);
            n_files++;
        }
    if (d)
        closedir(d);
    printf("%d files, %d texts wrong\n", n_files, n_bad);
    return n_files == 0 || n_bad != 0;
}
