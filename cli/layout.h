/* Places the boxes of a drawing in layers, from top to bottom, so that lines between them cross
 * little and run straight. */
#ifndef TAPIR_CLI_LAYOUT_H
#define TAPIR_CLI_LAYOUT_H

#include <stdbool.h>

typedef struct box {
    double width, height;
    int n_in;
    const int *in; /* boxes before it in the array that it has lines from */
    bool late;     /* stands as near to its readers as it can: it leads to no input */
    double x, y;   /* answers: its middle, its upper edge */
    int first;     /* answer: the first of the points its lines run through; -1: none */
} box;

/* A value that is needed many layers below runs down through points, one in each layer between.
 * Box b's points follow each other from b.first on, until `of` is another box. */
typedef struct waypoint {
    int of;
    double x, y, height;
} waypoint;

typedef struct layout {
    double width, height;
    int n_points;
    waypoint *points; /* freed by layout_free */
} layout;

/* False when memory is out. */
bool layout_boxes(layout *l, int n, box *boxes);
void layout_free(layout *l);

#endif
