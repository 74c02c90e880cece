#define _GNU_SOURCE /* secure_getenv */
#include "base/env.h"

#include <stdlib.h>

const char *tpi_env_of(const char *name)
{
    const char *value = secure_getenv(name);
    return value && *value ? value : NULL;
}

const char *tpi_env(tpi_env_name name)
{
    static const char *const names[] = {
#define ENV(name, about) "TAPIR_" #name,
#include "base/env.def"
#undef ENV
    };
    return (unsigned)name < TPI_N_ENV ? tpi_env_of(names[name]) : NULL;
}
