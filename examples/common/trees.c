#include "trees.h"

#include "dice.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- building, from the leaves up: a stack of trees that wait for one to be joined with ------ */

typedef struct builder {
    tree_node *nodes;
    int32_t n, room, stack[TREE_LEAVES];
    int n_stack;
} builder;

static int push(builder *b, tree_node node)
{
    if (b->n == b->room) {
        const int32_t room = b->room ? b->room * 2 : 64;
        tree_node *more = realloc(b->nodes, (size_t)room * sizeof *more);
        if (!more)
            return 0;
        b->nodes = more;
        b->room = room;
    }
    if (b->n_stack == TREE_LEAVES)
        return 0;
    b->stack[b->n_stack++] = b->n;
    b->nodes[b->n++] = node;
    return 1;
}

static int join(builder *b)
{
    if (b->n_stack < 2)
        return 0;
    b->n_stack -= 2;
    return push(b, (tree_node){b->stack[b->n_stack], b->stack[b->n_stack + 1], 0});
}

static int finish(builder *b, int label, trees *out)
{
    if (b->n_stack != 1 || b->n >= 2 * TREE_LEAVES || label < 0 || label >= TREE_LABELS)
        return 0;
    const size_t bytes = (size_t)b->n * sizeof(tree_node);
    tree_node *nodes = malloc(bytes);
    tree *more = realloc(out->v, (size_t)(out->n + 1) * sizeof *more);
    if (more)
        out->v = more;
    if (!nodes || !more) {
        free(nodes);
        return 0;
    }
    memcpy(nodes, b->nodes, bytes);
    for (int32_t i = 0; i < b->n; i++)
        out->n_words = nodes[i].word >= out->n_words ? nodes[i].word + 1 : out->n_words;
    out->v[out->n++] = (tree){b->n, label, nodes};
    b->n = b->n_stack = 0;
    return 1;
}

/* ---- lines ------------------------------------------------------------------------------------- */

static int32_t word_number(const char *text, size_t length)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    return (int32_t)(hash % TREE_WORDS);
}

/* (label word) or (label tree tree); a closing bracket after two trees joins them. */
static int read_brackets(builder *b, const char *p, int *label)
{
    int depth = 0, children[TREE_LEAVES] = {0};
    *label = p[1] - '0';
    for (; *p && *p != '\n'; p++) {
        if (*p == '(') {
            if (depth + 1 >= TREE_LEAVES || p[1] < '0' || p[1] >= '0' + TREE_LABELS ||
                p[2] != ' ')
                return 0;
            children[++depth] = 0;
            p += 2;
        } else if (*p == ')') {
            if (depth == 0 || (children[depth] == 2 && !join(b)))
                return 0;
            if (children[depth] == 0)
                return 0;
            children[--depth]++;
        } else if (*p != ' ') {
            const size_t length = strcspn(p, " )\n");
            if (depth == 0 || children[depth] != 0)
                return 0;
            if (!push(b, (tree_node){-1, -1, word_number(p, length)}))
                return 0;
            children[depth] = 1;
            p += length - 1;
        }
    }
    return depth == 0;
}

static int read_postfix(builder *b, const char *p, int *label)
{
    char *end;
    *label = (int)strtol(p, &end, 10);
    if (*end++ != ':')
        return 0;
    for (p = end;; p = end) {
        p += strspn(p, " \r\n");
        if (!*p)
            return 1;
        if (*p == '+') {
            end = (char *)(uintptr_t)p + 1;
            if (!join(b))
                return 0;
            continue;
        }
        const long word = strtol(p, &end, 10);
        if (end == p || word < 0 || word >= TREE_WORDS ||
            !push(b, (tree_node){-1, -1, (int32_t)word}))
            return 0;
    }
}

int trees_read(const char *path, int64_t most, trees *out)
{
    *out = (trees){0, 0, NULL};
    FILE *f = fopen(path, "r");
    if (!f) {
        fprintf(stderr, "%s: it cannot be opened\n", path);
        return 0;
    }
    builder b = {.nodes = NULL};
    char *line = NULL;
    size_t room = 0;
    int label, good = 1;
    while (good && out->n < most && getline(&line, &room, f) > 0) {
        good =
            line[0] == '(' ? read_brackets(&b, line, &label) : read_postfix(&b, line, &label);
        good = good && finish(&b, label, out);
    }
    if (!good || out->n == 0) {
        fprintf(stderr, "%s: line %lld is no tree\n", path, (long long)out->n + 1);
        trees_free(out);
    }
    free(line);
    free(b.nodes);
    fclose(f);
    return out->n > 0;
}

/* ---- made up ------------------------------------------------------------------------------------- */

static int grow(builder *b, int n_leaves, uint64_t *state, int *sum)
{
    if (n_leaves == 1) {
        const int word = (int)dice(state, 200);
        *sum += word % 5 - 2;
        return push(b, (tree_node){-1, -1, word});
    }
    const int left = 1 + (int)dice(state, (uint32_t)n_leaves - 1);
    return grow(b, left, state, sum) && grow(b, n_leaves - left, state, sum) && join(b);
}

int trees_make(int64_t n, uint64_t seed, trees *out)
{
    *out = (trees){0, 0, NULL};
    builder b = {.nodes = NULL};
    int good = 1;
    for (int64_t i = 0; i < n && good; i++) {
        int sum = 0;
        good = grow(&b, 3 + (int)dice(&seed, 12), &seed, &sum);
        const int label = sum < -3 ? 0 : sum < -1 ? 1 : sum < 2 ? 2 : sum < 4 ? 3 : 4;
        good = good && finish(&b, label, out);
    }
    if (!good) {
        fprintf(stderr, "out of memory for %lld trees\n", (long long)n);
        trees_free(out);
    }
    free(b.nodes);
    return good;
}

void trees_free(trees *t)
{
    for (int64_t i = 0; i < t->n; i++)
        free(t->v[i].nodes);
    free(t->v);
    *t = (trees){0, 0, NULL};
}
