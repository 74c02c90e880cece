/* A graph as one HTML file that needs nothing else. */
#ifndef TAPIR_CLI_PAGE_H
#define TAPIR_CLI_PAGE_H

#include "cli.h"

typedef struct page {
    const char *title;
    const ir *v;
    int n_facts; /* shown beside the drawing, each a name and a text */
    const char *const (*facts)[2];
    int n_out;
    const char *const *out; /* names of the outputs */
} page;

/* Writes it to stdout. CLI_BAD when it was refused. */
int page_write(const page *p);

#endif
