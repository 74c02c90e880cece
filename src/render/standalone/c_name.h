/* Names out of models as identifiers of C and C++. */
#ifndef TAPIR_C_NAME_H
#define TAPIR_C_NAME_H

#include "base/strbuf.h"

enum { TPI_C_NAME = 64 };
typedef struct tpi_c_name {
    char text[TPI_C_NAME];
} tpi_c_name;

/* Only letters, digits and underscores, beginning with a letter, no keyword, and no name that
 * headers or compilers define. `wanted` may be NULL or any bytes; `otherwise` is for one of which
 * nothing is left. */
void tpi_c_name_of(tpi_c_name *out, const char *wanted, const char *otherwise);
/* The same, and none of the names in `taken` ("|a|b|"), which grows by it. */
void tpi_c_name_new(tpi_c_name *out, tpi_str *taken, const char *wanted, const char *otherwise);

#endif
