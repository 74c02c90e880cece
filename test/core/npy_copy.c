/* npy_copy FROM TO...: loads a .npy file and saves it, pair by pair. `-` for TO: says what is
 * wrong with FROM, which must be refused. */
#include <tapir/tapir.h>

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    tp_ctx *tp = tp_open(NULL);
    int status = 0;
    for (int i = 1; i + 1 < argc && status == 0; i += 2) {
        const tp_tensor *t = tp_npy_load(tp, argv[i]);
        const bool refuse = strcmp(argv[i + 1], "-") == 0;
        if (refuse)
            printf("%s\n", tp_error_text(t));
        if (refuse ? !tp_failed(t) : tp_npy_save(t, argv[i + 1]) != TP_OK) {
            fprintf(stderr, "%s: %s\n", argv[i],
                    refuse ? "was not refused" : tp_error_message(tp));
            status = 1;
        }
    }
    tp_close(tp);
    return status;
}
