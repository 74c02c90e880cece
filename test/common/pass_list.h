/* The passes that can be left out of a program, one by one. */
#ifndef TAPIR_TEST_PASS_LIST_H
#define TAPIR_TEST_PASS_LIST_H

#include "pass/optimize.h"

#include <stdio.h>
#include <string.h>

enum { MOST_PASSES = 32, MOST_PASS_NAME = 24 };

static inline int pass_list(char (*names)[MOST_PASS_NAME])
{
    int n = 0;
    for (const char *p = tpi_pass_names; *p && n < MOST_PASSES; p += *p == ',') {
        const size_t len = strcspn(p, ",");
        memset(names[n], 0, MOST_PASS_NAME);
        memcpy(names[n++], p, len < MOST_PASS_NAME ? len : MOST_PASS_NAME - 1);
        p += len;
    }
    return n;
}

#endif
