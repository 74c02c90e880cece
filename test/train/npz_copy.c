/* npz_copy FROM TO: opens a file of tensors and saves all of it. A tensor that cannot be read is told. */
#include <tapir/tapir.h>

#include <stdlib.h>

int main(int argc, char **argv)
{
    tp_ctx *tp = tp_open(NULL);
    tp_archive *a = argc == 3 ? tp_archive_open(tp, argv[1]) : NULL;
    tp_archive_item *items = calloc((size_t)tp_archive_n(a) + 1000, sizeof *items);
    int n = 0, status = !a || !items;
    for (int i = 0; !status && i < tp_archive_n(a); i++) {
        const tp_archive_entry *e = tp_archive_entry_of(a, i);
        tp_tensor *t = tp_archive_tensor(a, e->name);
        if (tp_failed(t))
            printf("%s\n", tp_error_text(t));
        else
            items[n++] = (tp_archive_item){e->name, t, NULL};
        tp_clear_error(tp);
    }
    for (int i = 0; !status && i < 1000 && tp_archive_key(a, i); i++) {
        const char *key = tp_archive_key(a, i);
        items[n++] = (tp_archive_item){key, NULL, tp_archive_text(a, key)};
    }
    status = status || tp_archive_save(tp, argv[2], n, items) != TP_OK;
    if (status)
        fprintf(stderr, "npz_copy: %s\n", tp_error_message(tp));
    free(items);
    tp_close(tp);
    return status;
}
