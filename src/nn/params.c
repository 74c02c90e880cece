/* Named trees of parameters. A tree is one list of names; a part of it is a path. */
#include "tapir/params.h"

#include <stdio.h>
#include <string.h>

#undef TP_PLACE
#define TP_PLACE file, line

typedef enum role { TRAINED, FROZEN, STATE, SECOND } role;

typedef struct entry {
    char *name;   /* the whole path */
    tp_tensor *t; /* retained; of a SECOND name not */
    role role;
} entry;

/* What a tree and its parts share. */
typedef struct tree {
    tp_ctx *tp;
    entry *entries; /* in order */
    int n, size;
    tp_params *parts; /* all of them, the tree itself last */
} tree;

struct tp_params {
    tree *of;
    tp_params *next;
    tp_tensor **list; /* what tp_params_trained gave last */
    char path[];      /* "block.3.", or "" */
};

/* ---- making ---------------------------------------------------------------------------------- */

static tp_params *part_of(tree *of, const char *path, size_t length)
{
    tp_params *p = tp_alloc(of->tp, sizeof *p + length + 1);
    if (!p)
        return NULL;
    *p = (tp_params){.of = of, .next = of->parts};
    memcpy(p->path, path, length);
    of->parts = p;
    return p;
}

tp_params *tp_params_new_at(const char *file, int line, tp_ctx *tp)
{
    (void)file, (void)line;
    tree *of = tp_alloc(tp, sizeof *of);
    if (!of)
        return NULL;
    *of = (tree){.tp = tp};
    tp_params *p = part_of(of, "", 0);
    if (!p)
        tp_free(tp, of);
    return p;
}

tp_params *(tp_params_new)(tp_ctx *tp)
{
    return tp_params_new_at(NULL, 0, tp);
}

void tp_params_free(tp_params *p)
{
    if (!p || p->path[0])
        return;
    tree *of = p->of;
    tp_ctx *tp = of->tp;
    for (int i = 0; i < of->n; i++) {
        if (of->entries[i].role != SECOND)
            tp_release(of->entries[i].t);
        tp_free(tp, of->entries[i].name);
    }
    while (of->parts) {
        tp_params *part = of->parts;
        of->parts = part->next;
        tp_free(tp, part->list);
        tp_free(tp, part);
    }
    tp_free(tp, of->entries);
    tp_free(tp, of);
}

/* A name is not empty and has no empty part: no dot at an end, nor two in a row. */
static bool is_name(const char *name)
{
    if (!name || !*name)
        return false;
    bool begins = true;
    for (; *name; name++) {
        if (*name == '.' && begins)
            return false;
        begins = *name == '.';
    }
    return !begins;
}

static bool check_name(const char *file, int line, const tp_params *p, const char *name)
{
    if (is_name(name))
        return true;
    tp_fail(p->of->tp, name ? TP_E_NAME : TP_E_NULL,
            name ? "a name in a tree is not empty, and neither is what lies between its dots"
                 : "the name is NULL");
    return false;
}

/* path + name + end, from the context's memory. */
static char *joined(const tp_params *p, const char *name, const char *end)
{
    const size_t size = strlen(p->path) + strlen(name) + strlen(end) + 1;
    char *text = tp_alloc(p->of->tp, size);
    if (text)
        snprintf(text, size, "%s%s%s", p->path, name, end);
    return text;
}

tp_params *tp_params_part_at(const char *file, int line, tp_params *p, const char *name)
{
    if (!p || !check_name(file, line, p, name))
        return NULL;
    char *path = joined(p, name, ".");
    tp_params *part = NULL;
    for (tp_params *k = path ? p->of->parts : NULL; k && !part; k = k->next)
        part = strcmp(k->path, path) == 0 ? k : NULL;
    if (path && !part)
        part = part_of(p->of, path, strlen(path));
    tp_free(p->of->tp, path);
    return part;
}

tp_params *(tp_params_part)(tp_params *p, const char *name)
{
    return tp_params_part_at(NULL, 0, p, name);
}

tp_params *tp_params_nth_at(const char *file, int line, tp_params *p, const char *name, int i)
{
    char number[24];
    snprintf(number, sizeof number, "%d", i);
    tp_params *part = tp_params_part_at(file, line, p, name);
    return part ? tp_params_part_at(file, line, part, number) : NULL;
}

tp_params *(tp_params_nth)(tp_params *p, const char *name, int i)
{
    return tp_params_nth_at(NULL, 0, p, name, i);
}

tp_ctx *tp_params_ctx(const tp_params *p)
{
    return p ? p->of->tp : NULL;
}

/* ---- adding ---------------------------------------------------------------------------------- */

static entry *find(const tree *of, const char *name)
{
    for (int i = 0; i < of->n; i++)
        if (strcmp(of->entries[i].name, name) == 0)
            return &of->entries[i];
    return NULL;
}

static bool reserve(tree *of)
{
    if (of->n < of->size)
        return true;
    const int size = of->size ? 2 * of->size : 16;
    entry *entries = tp_alloc(of->tp, (size_t)size * sizeof *entries);
    if (!entries)
        return false;
    if (of->n)
        memcpy(entries, of->entries, (size_t)of->n * sizeof *entries);
    tp_free(of->tp, of->entries);
    of->entries = entries;
    of->size = size;
    return true;
}

/* The whole path when nothing has it yet, and there is room for an entry; else NULL and *failed. */
static char *new_name(const char *file, int line, tp_params *p, const char *name,
                      tp_tensor **failed)
{
    *failed = NULL;
    if (!check_name(file, line, p, name)) {
        *failed =
            tp_fail(p->of->tp, name ? TP_E_NAME : TP_E_NULL, "it has no name in the tree");
        return NULL;
    }
    char *full = joined(p, name, "");
    if (full && !find(p->of, full) && reserve(p->of))
        return full;
    if (full && find(p->of, full)) {
        char text[200];
        snprintf(text, sizeof text, "the tree has a \"%.150s\" already", full);
        *failed = tp_fail(p->of->tp, TP_E_NAME, text);
    } else {
        *failed = tp_fail(p->of->tp, TP_E_MEMORY, "out of memory");
    }
    tp_free(p->of->tp, full);
    return NULL;
}

static tp_tensor *add(const char *file, int line, tp_params *p, const char *name,
                      tp_tensor *init, role as)
{
    if (!p)
        return tp_fail(init ? tp_ctx_of(init) : NULL, TP_E_NULL, "the tree is NULL");
    tp_tensor *failed;
    char *full = new_name(file, line, p, name, &failed);
    if (!full)
        return failed;
    tp_tensor *t = as == STATE ? tp_variable(init, full) : tp_param(init, full);
    if (tp_failed(t)) {
        tp_free(p->of->tp, full);
        return t;
    }
    p->of->entries[p->of->n++] = (entry){full, tp_retain(t), as};
    return t;
}

tp_tensor *tp_params_add_at(const char *file, int line, tp_params *p, const char *name,
                            tp_tensor *init)
{
    return add(file, line, p, name, init, TRAINED);
}

tp_tensor *(tp_params_add)(tp_params *p, const char *name, tp_tensor *init)
{
    return tp_params_add_at(NULL, 0, p, name, init);
}

tp_tensor *tp_params_add_state_at(const char *file, int line, tp_params *p, const char *name,
                                  tp_tensor *init)
{
    return add(file, line, p, name, init, STATE);
}

tp_tensor *(tp_params_add_state)(tp_params *p, const char *name, tp_tensor *init)
{
    return tp_params_add_state_at(NULL, 0, p, name, init);
}

tp_tensor *tp_params_share_at(const char *file, int line, tp_params *p, const char *name,
                              tp_tensor *t)
{
    if (!p || !t)
        return tp_fail(p ? p->of->tp : tp_ctx_of(t), TP_E_NULL,
                       p ? "the tensor is NULL" : "the tree is NULL");
    bool is_there = false;
    for (int i = 0; i < p->of->n; i++)
        is_there |= p->of->entries[i].t == t;
    if (!is_there)
        return tp_fail(p->of->tp, TP_E_VALUE, "what is shared is not in the tree yet");
    tp_tensor *failed;
    char *full = new_name(file, line, p, name, &failed);
    if (!full)
        return failed;
    p->of->entries[p->of->n++] = (entry){full, t, SECOND};
    return t;
}

tp_tensor *(tp_params_share)(tp_params *p, const char *name, tp_tensor *t)
{
    return tp_params_share_at(NULL, 0, p, name, t);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static bool is_of(const tp_params *p, const entry *e)
{
    return strncmp(e->name, p->path, strlen(p->path)) == 0;
}

/* Entry i of those of p, second names left out; i < 0: NULL, and all are counted. */
static const entry *nth(const tp_params *p, int i, int *n)
{
    *n = 0;
    for (int k = 0; p && k < p->of->n; k++) {
        const entry *e = &p->of->entries[k];
        if (is_of(p, e) && e->role != SECOND && (*n)++ == i)
            return e;
    }
    return NULL;
}

void tp_params_freeze(tp_params *p, bool frozen)
{
    for (int i = 0; p && i < p->of->n; i++) {
        entry *e = &p->of->entries[i];
        if (is_of(p, e) && e->role <= FROZEN)
            e->role = frozen ? FROZEN : TRAINED;
    }
}

int tp_params_n_trained(const tp_params *p)
{
    int n = 0;
    for (int i = 0; p && i < p->of->n; i++)
        n += is_of(p, &p->of->entries[i]) && p->of->entries[i].role == TRAINED;
    return n;
}

tp_tensor *const *tp_params_trained(tp_params *p)
{
    const int n = tp_params_n_trained(p);
    if (n == 0)
        return NULL;
    tp_free(p->of->tp, p->list);
    p->list = tp_alloc(p->of->tp, (size_t)n * sizeof *p->list);
    int k = 0;
    for (int i = 0; p->list && i < p->of->n; i++)
        if (is_of(p, &p->of->entries[i]) && p->of->entries[i].role == TRAINED)
            p->list[k++] = p->of->entries[i].t;
    return p->list;
}

int tp_params_n(const tp_params *p)
{
    int n;
    nth(p, -1, &n);
    return n;
}

tp_tensor *tp_params_tensor(const tp_params *p, int i)
{
    int n;
    const entry *e = nth(p, i, &n);
    return e ? e->t : NULL;
}

const char *tp_params_name(const tp_params *p, int i)
{
    int n;
    const entry *e = nth(p, i, &n);
    return e ? e->name : NULL;
}

tp_tensor *tp_params_find(const tp_params *p, const char *name)
{
    const size_t length = p ? strlen(p->path) : 0;
    for (int i = 0; p && name && i < p->of->n; i++)
        if (is_of(p, &p->of->entries[i]) && strcmp(p->of->entries[i].name + length, name) == 0)
            return p->of->entries[i].t;
    return NULL;
}

int64_t tp_params_count(const tp_params *p)
{
    int64_t count = 0;
    for (int i = 0; p && i < p->of->n; i++)
        if (is_of(p, &p->of->entries[i]) && p->of->entries[i].role == TRAINED)
            count += tp_count(p->of->entries[i].t);
    return count;
}

/* ---- the table -------------------------------------------------------------------------------- */

/* Text that grows; NULL memory counts what it would take. */
typedef struct text {
    char *at;
    size_t n;
} text;

static void put(text *t, const char *line)
{
    const size_t n = strlen(line);
    if (t->at)
        memcpy(t->at + t->n, line, n);
    t->n += n;
}

static const char *shape_of(const tp_tensor *t, char *line, size_t size)
{
    size_t n = (size_t)snprintf(line, size, "%s [", tp_dtype_name(tp_dtype_of(t)));
    for (int a = 0; a < tp_rank(t); a++)
        n += (size_t)snprintf(line + n, size - n, a ? ", %lld" : "%lld",
                              (long long)tp_size_at(NULL, 0, t, a));
    snprintf(line + n, size - n, "]");
    return line;
}

static void write_table(const tp_params *p, text *t)
{
    static const char *const roles[] = {"", "frozen", "state", "second name"};
    int width = 4;
    for (int i = 0; i < p->of->n; i++)
        if (is_of(p, &p->of->entries[i]) && (int)strlen(p->of->entries[i].name) > width)
            width = (int)strlen(p->of->entries[i].name);
    width = width < 100 ? width : 100;
    char line[512], shape[200];
    snprintf(line, sizeof line, "%-*s  %-20s  %12s  %12s\n", width, "name", "shape", "elements",
             "bytes");
    put(t, line);
    long long elements = 0, bytes = 0;
    for (int i = 0; i < p->of->n; i++) {
        const entry *e = &p->of->entries[i];
        if (!is_of(p, e))
            continue;
        const long long count = tp_count(e->t),
                        size = count * (long long)tp_dtype_size(tp_dtype_of(e->t));
        snprintf(line, sizeof line, "%-*.100s  %-20s  %12lld  %12lld%s%s\n", width, e->name,
                 shape_of(e->t, shape, sizeof shape), count, size, e->role ? "  " : "",
                 roles[e->role]);
        put(t, line);
        elements += e->role == SECOND ? 0 : count;
        bytes += e->role == SECOND ? 0 : size;
    }
    snprintf(line, sizeof line, "%-*s  %-20s  %12lld  %12lld\n%lld trained\n", width, "all", "",
             elements, bytes, (long long)tp_params_count(p));
    put(t, line);
}

char *tp_params_text(const tp_params *p)
{
    if (!p)
        return NULL;
    text t = {NULL, 0};
    write_table(p, &t);
    t.at = tp_alloc(p->of->tp, t.n + 1);
    t.n = 0;
    if (t.at)
        write_table(p, &t);
    return t.at;
}
