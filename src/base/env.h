/* Environment variables: TAPIR_<name> for each row of env.def. */
#ifndef TAPIR_ENV_H
#define TAPIR_ENV_H

typedef enum tpi_env_name {
#define ENV(name, about) TPI_ENV_##name,
#include "base/env.def"
#undef ENV
    TPI_N_ENV
} tpi_env_name;

/* Its value, or NULL. A program that runs with more rights than its caller has none set. */
const char *tpi_env(tpi_env_name name);
/* The same for a variable that is not ours: HOME, PATH, ... */
const char *tpi_env_of(const char *name);

#endif
