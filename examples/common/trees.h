/* Binary trees of words with a label at the root, from files, or made up. */
#ifndef EXAMPLES_TREES_H
#define EXAMPLES_TREES_H

#include <stdint.h>

enum { TREE_LABELS = 5, TREE_LEAVES = 512, TREE_WORDS = 4096 };

typedef struct tree_node {
    int32_t left, right; /* nodes before this one; -1 for a leaf */
    int32_t word;        /* of a leaf, below TREE_WORDS */
} tree_node;

typedef struct tree {
    int32_t n_nodes, label; /* the last node is the root */
    tree_node *nodes;
} tree;

typedef struct trees {
    int64_t n;
    int32_t n_words; /* words are below it */
    tree *v;
} trees;

/* Reads a tree from each line, at most `most` of them:
 *     (3 (2 The) (3 film))       of the Stanford treebank; words share numbers by hash
 *     3: 17 22 + 5 +             words as numbers; + joins the two trees before it
 * 0 when that is not possible, and then stderr says why. */
int trees_read(const char *path, int64_t most, trees *out);
/* Words that count from -2 to 2; the label says how the sum is, from 0 to 4. */
int trees_make(int64_t n, uint64_t seed, trees *out);
void trees_free(trees *t);

#endif
