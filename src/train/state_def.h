/* A list of what a training saves. */
#ifndef TAPIR_STATE_DEF_H
#define TAPIR_STATE_DEF_H

#include "core/core.h"
#include "tapir/state.h"

/* A variable, or a counter, or else the random numbers. The last two are saved as text. */
typedef struct tpi_state_entry {
    char *name;
    tp_tensor *t; /* one reference */
    int64_t *counter;
} tpi_state_entry;

struct tp_state {
    tpi_owned base;
    tp_ctx *ctx;
    tpi_state_entry *entries;
    int n, size;
    bool spoiled; /* something could not be added */
};

/* TP_OK: it can be saved and loaded. */
tp_status tpi_state_check(tpi_at at, const char *what, const tp_state *s);
/* Is the text one of the entry's, which is no variable's? Then what takes memory of making it its value (false: there is
 * none), and then that. */
bool tpi_state_is_text(const tpi_state_entry *e, const char *text);
bool tpi_state_make_room(tp_state *s, const tpi_state_entry *e, const char *text);
void tpi_state_take_text(tp_state *s, const tpi_state_entry *e, const char *text);

#endif
