/* The smallest user of an installed tapir; also compiled as C++. */
#include <tapir/tapir.h>

#include <stdio.h>

int main(void)
{
    tp_ctx *tp = tp_open(NULL);
    if (!tp)
        return 1;
    printf("tapir %s\n", tp_version());
    tp_close(tp);
    return 0;
}
