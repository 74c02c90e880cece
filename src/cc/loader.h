/* Compiled objects in this process. */
#ifndef TAPIR_LOADER_H
#define TAPIR_LOADER_H

#include <stdbool.h>
#include <stddef.h>

/* Loads the file `fd`, whose first part is a whole shared object: the handle, or NULL with the reason in
 * why[]. Files that were cut short are refused, they are not mapped. It is this very file that is
 * loaded, whatever its name leads to by now; the descriptor may be closed afterwards. */
void *tpi_object_load(int fd, char *why, size_t size);
/* The address of a symbol of this object; NULL when it has none. */
void *tpi_object_symbol(void *object, const char *name);
/* NULL is fine. */
void tpi_object_unload(void *object);

#endif
