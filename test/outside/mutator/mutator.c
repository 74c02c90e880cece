/* ONNX models changed where it hurts: attributes, sizes, types, the order of operands, what is nested in what,
 * data beside the file, names. Each mutant is loaded and run in little memory, and some of them by
 * the command under limits; nothing may crash, leak, hang, or end with a code that the manual does not
 * have.
 *
 *     mutator MODELS [--mutants N] [--seed S] [--command TAPIR]   MODELS: a folder of cases
 *     mutator MODELS --only SEED [--without 0,2,..]               writes mutant.onnx here, and runs it
 */
#include "messages.h"

#include <dirent.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size); /* fuzz/onnx_run.c */

enum { MOST_CHANGES = 6, BATCH = 200, SECONDS = 10, MOST_FILE = 1 << 16, BY_COMMAND = 100 };

static char **files;
static int n_files;

/* ---- draws ---------------------------------------------------------------------------------------- */

static uint64_t draws;

static uint64_t next(void)
{
    uint64_t z = draws += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static int below(int n)
{
    return (int)(next() % (uint64_t)n);
}

/* ---- changes -------------------------------------------------------------------------------------- */

typedef struct tree {
    field **all;
    int n;
} tree;

static field *any(const tree *t)
{
    return t->all[below(t->n)];
}

/* One of the messages with parts; the root if there is no other. */
static field *any_parent(const tree *t)
{
    for (int i = 0; i < 30; i++) {
        field *f = any(t);
        if (f->n_child)
            return f;
    }
    return t->all[0];
}

static field *any_of(const tree *t, kind is)
{
    for (int i = 0; i < 60; i++) {
        field *f = any(t);
        if (f->is == is)
            return f;
    }
    return NULL;
}

static void change_number(const tree *t)
{
    static const uint64_t odd[] = {0,
                                   1,
                                   2,
                                   3,
                                   7,
                                   16,
                                   1000,
                                   UINT32_MAX,
                                   INT64_MAX,
                                   UINT64_MAX,
                                   UINT64_C(1) << 40,
                                   UINT64_C(1) << 63,
                                   UINT64_MAX - 1};
    for (int i = 0; i < 60; i++) {
        field *f = any(t);
        if (f->wire == WIRE_BYTES)
            continue;
        const double numbers[] = {NAN, INFINITY, -0.0, 1e30, -1};
        const float real = (float)numbers[below(5)];
        if (f->wire == WIRE_32)
            memcpy(&f->value, &real, sizeof real);
        else
            f->value = below(3) ? odd[below((int)(sizeof odd / sizeof *odd))]
                                : f->value + (uint64_t)below(5) - 2;
        return;
    }
}

static void set_bytes(field *f, const char *bytes, size_t n)
{
    char *copy = malloc(n + 1);
    if (!copy)
        abort();
    memcpy(copy, bytes, n);
    free(f->bytes);
    f->bytes = copy;
    f->n = n;
}

/* A text becomes another one of the model, or an odd one; packed numbers are cut, or one of them changes. */
static void change_bytes(const tree *t)
{
    static const char *const odd[] = {"",       "/",      "../x",      "a\nb", "\xff\xfe",
                                      "offset", "length", "location",  "If",   "Loop",
                                      "Scan",   "x",      "ai.onnx.ml"};
    for (int i = 0; i < 60; i++) {
        field *f = any(t), *other = any(t);
        if (f->wire != WIRE_BYTES || f->is)
            continue;
        const int how = below(4);
        if (how == 0 && other->wire == WIRE_BYTES && !other->is && other != f)
            set_bytes(f, other->bytes, other->n);
        else if (how == 1)
            set_bytes(f, odd[i % 13], strlen(odd[i % 13]));
        else if (how == 2 && f->n)
            f->n = next() % f->n;
        else if (f->n)
            f->bytes[next() % f->n] = (char)below(256);
        return;
    }
}

static void drop(const tree *t)
{
    field *p = any_parent(t);
    if (p->n_child)
        tree_free(tree_remove(p, below(p->n_child)));
}

static void twice(const tree *t)
{
    field *p = any_parent(t);
    if (p->n_child)
        tree_insert(p, below(p->n_child), tree_copy(p->child[below(p->n_child)]));
}

static void exchange(const tree *t)
{
    field *p = any_parent(t);
    if (p->n_child < 2)
        return;
    const int a = below(p->n_child), b = below(p->n_child);
    field *const f = p->child[a];
    p->child[a] = p->child[b];
    p->child[b] = f;
}

/* A copy of a message in place of another one of its kind, or beside it. */
static void transplant(const tree *t)
{
    field *p = any_parent(t);
    if (!p->n_child)
        return;
    const int at = below(p->n_child);
    const field *of = p->child[at]->is ? any_of(t, p->child[at]->is) : NULL;
    if (!of)
        return;
    field *copy = tree_copy(of);
    copy->number = p->child[at]->number;
    if (below(2))
        tree_free(tree_remove(p, at));
    tree_insert(p, at, copy);
}

static field *text(int number, const char *s)
{
    field *f = tree_read(ENTRY, "", 0);
    f->is = LEAF;
    f->number = number;
    set_bytes(f, s, strlen(s));
    return f;
}

static field *number(int number_, uint64_t v)
{
    field *f = tree_read(ENTRY, "", 0);
    f->is = LEAF;
    f->wire = WIRE_VARINT;
    f->number = number_;
    f->value = v;
    return f;
}

/* A graph in an attribute of a node: of one of its own nodes, too. */
static void nest(const tree *t)
{
    static const char *const names[] = {"then_branch", "else_branch", "body", "g"};
    static const char *const ops[] = {"If", "Loop", "Scan", "SequenceMap"};
    field *g = any_of(t, GRAPH), *node = any_of(t, NODE);
    if (!g || !node)
        return;
    field *inner = tree_copy(g), *attribute = tree_read(ATTRIBUTE, "", 0);
    inner->number = 6;
    attribute->number = 5;
    tree_insert(attribute, 0, text(1, names[below(4)]));
    tree_insert(attribute, 1, inner);
    tree_insert(attribute, 2, number(20, 5));
    tree_insert(node, node->n_child, attribute);
    if (below(2))
        tree_insert(node, 0, text(4, ops[below(4)]));
}

/* Elements of a tensor are beside the file, at odd places. */
static void put_beside(const tree *t)
{
    static const char *const keys[] = {"location", "offset", "length", "checksum"};
    static const char *const values[] = {
        "mutant.onnx", "../mutant.onnx", "/etc/passwd", "0", "-1", "1000000000000", "", "x"};
    field *tensor = any_of(t, TENSOR);
    if (!tensor)
        return;
    for (int i = 0; i < 1 + below(3); i++) {
        field *e = tree_read(ENTRY, "", 0);
        e->number = 13;
        tree_insert(e, 0, text(1, keys[i ? below(4) : 0]));
        tree_insert(e, 1, text(2, values[below(8)]));
        tree_insert(tensor, tensor->n_child, e);
    }
    tree_insert(tensor, tensor->n_child, number(14, 1));
}

static void change(field *root, uint64_t stream)
{
    static void (*const ways[])(const tree *t) = {
        change_number, change_number, change_number, change_bytes, change_bytes, drop,
        twice,         exchange,      transplant,    nest,         put_beside};
    draws = stream;
    tree t = {NULL, 0};
    tree_list(root, &t.all, &t.n);
    ways[below((int)(sizeof ways / sizeof *ways))](&t);
    free(t.all);
}

/* ---- mutants ---------------------------------------------------------------------------------------- */

static char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    char *bytes = f ? malloc(MOST_FILE) : NULL;
    *n = bytes ? fread(bytes, 1, MOST_FILE, f) : 0;
    if (f)
        fclose(f);
    return bytes;
}

/* without[k]: change k is not made. */
static char *make(uint64_t seed, const char *without, size_t *n, const char **of)
{
    draws = seed;
    *of = files[below(n_files)];
    const int changes = 1 + below(MOST_CHANGES);
    uint64_t streams[MOST_CHANGES];
    for (int i = 0; i < MOST_CHANGES; i++)
        streams[i] = next();
    size_t size;
    char *bytes = read_file(*of, &size), *to = NULL;
    field *root = bytes && size < MOST_FILE ? tree_read(MODEL, bytes, size) : NULL;
    for (int i = 0; i < changes && root; i++)
        if (!without || !without[i])
            change(root, streams[i]);
    *n = 0;
    if (root)
        tree_write(root, true, &to, n);
    tree_free(root);
    free(bytes);
    return to;
}

static void limit(int what, rlim_t most)
{
    setrlimit(what, &(struct rlimit){most, most});
}

/* How the command ends with the file mutant.onnx; false: as the manual does not say. */
static bool command_ends(const char *command, const char *verb, const char *more)
{
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        limit(RLIMIT_CPU, SECONDS);
#ifndef __SANITIZE_ADDRESS__
        limit(RLIMIT_AS, (rlim_t)1 << 30);
#endif
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
            _exit(99);
        execl(command, command, verb, "mutant.onnx", more, (char *)NULL);
        _exit(98);
    }
    int status;
    waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) <= 2)
        return true;
    printf("tapir %s ends with %s %d\n", verb, WIFSIGNALED(status) ? "signal" : "code",
           WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    return false;
}

static void write_mutant(const char *bytes, size_t n)
{
    FILE *f = fopen("mutant.onnx", "wb");
    if (f) {
        fwrite(bytes, 1, n, f);
        fclose(f);
    }
}

/* In this process, which may die of it. */
static void run_one(uint64_t seed, const char *without)
{
    const char *of;
    size_t n;
    char *bytes = make(seed, without, &n, &of);
    alarm(SECONDS);
    if (bytes)
        LLVMFuzzerTestOneInput((const uint8_t *)bytes, n);
    alarm(0);
    free(bytes);
}

static int status_of(uint64_t seed, const char *without)
{
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(3);
        run_one(seed, without);
        exit(0);
    }
    int status;
    waitpid(child, &status, 0);
    return status;
}

static void shrink(uint64_t seed)
{
    char without[MOST_CHANGES] = {0};
    for (int i = 0; i < MOST_CHANGES; i++) {
        without[i] = 1;
        without[i] = status_of(seed, without) != 0;
    }
    const char *of;
    size_t n;
    free(make(seed, without, &n, &of));
    printf("  of %s; repeat: mutator MODELS --only %llu --without ", of,
           (unsigned long long)seed);
    for (int i = 0; i < MOST_CHANGES; i++)
        if (without[i])
            printf("%d,", i);
    printf("\n");
}

static int run_all(uint64_t *now, uint64_t first, long n, const char *command)
{
    int findings = 0;
    for (long at = 0; at < n;) {
        const long end = at + BATCH < n ? at + BATCH : n;
        fflush(NULL);
        const pid_t child = fork();
        if (child == 0) {
            for (long i = at; i < end; i++) {
                *now = first + (uint64_t)i;
                run_one(*now, NULL);
            }
            exit(0);
        }
        int status;
        waitpid(child, &status, 0);
        at = end;
        if (status == 0)
            continue;
        findings++;
        printf("mutant %llu: %s %d\n", (unsigned long long)*now,
               WIFSIGNALED(status) ? "signal" : "exit status",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
        shrink(*now);
        at = (long)(*now - first) + 1;
    }
    for (long i = 0; i < n && *command; i += BY_COMMAND) {
        const char *of;
        size_t size;
        char *bytes = make(first + (uint64_t)i, NULL, &size, &of);
        write_mutant(bytes ? bytes : "", size);
        free(bytes);
        int failed = 0; /* each is run, also after one that failed */
        failed += !command_ends(command, "show", NULL);
        failed += !command_ends(command, "run", NULL);
        failed += !command_ends(command, "bench", "--engine=tiles");
        if (failed)
            printf("  mutant %llu of %s\n", (unsigned long long)(first + (uint64_t)i), of);
        findings += failed > 0;
    }
    return findings;
}

/* ---- the models ---------------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void find_models(const char *folder)
{
    DIR *d = opendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s/model.onnx", folder, e->d_name);
        if (e->d_name[0] == '.' || access(path, R_OK) != 0)
            continue;
        files = realloc(files, ((size_t)n_files + 1) * sizeof *files);
        if (!files)
            abort();
        files[n_files++] = strdup(path);
    }
    if (d)
        closedir(d);
    if (n_files)
        qsort(files, (size_t)n_files, sizeof *files, by_name);
}

static const char *text_of(int argc, char **argv, const char *option, const char *otherwise)
{
    for (int i = 2; i + 1 < argc; i++)
        if (strcmp(argv[i], option) == 0)
            return argv[i + 1];
    return otherwise;
}

static int only(uint64_t seed, const char *list)
{
    char without[MOST_CHANGES] = {0};
    for (const char *s = list; *s; s += strcspn(s, ","), s += *s == ',')
        without[strtoul(s, NULL, 10) % MOST_CHANGES] = 1;
    const char *of;
    size_t n;
    char *bytes = make(seed, without, &n, &of);
    printf("mutant.onnx is made of %s\n", of);
    write_mutant(bytes, n);
    free(bytes);
    run_one(seed, without);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1)
        find_models(argv[1]);
    if (!n_files) {
        printf("skipped: no models in %s\n", argc > 1 ? argv[1] : "no folder");
        return 77;
    }
    const char *asked = text_of(argc, argv, "--only", NULL);
    if (asked)
        return only(strtoull(asked, NULL, 10), text_of(argc, argv, "--without", ""));
    uint64_t *now =
        mmap(NULL, sizeof *now, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char folder[] = "/tmp/mutator-XXXXXX";
    if (now == MAP_FAILED || !mkdtemp(folder) || chdir(folder) != 0)
        return 2;
    setenv("TAPIR_CC", "false", 1);
    const long n = strtol(text_of(argc, argv, "--mutants", "1000"), NULL, 10);
    const uint64_t first = strtoull(text_of(argc, argv, "--seed", "1"), NULL, 10);
    const int findings = run_all(now, first, n, text_of(argc, argv, "--command", ""));
    printf("%ld mutants of %d models from seed %llu: %d findings\n", n, n_files,
           (unsigned long long)first, findings);
    char command[100];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command) != 0 ? 2 : findings != 0;
}
