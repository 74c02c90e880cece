/* Pseudo-code: what a dialect is at least. */
#include "loop_dialect.h"

const loop_dialect pseudo = {
    .kernel = "to compute $1 of ",
    .in = "$1 $2",
    .out = "$1 $2 (written)",
    .begin = ":",
    .parallel = "for each $1 below $2, side by side:",
    .loop = "for each $1 below $2:",
    .when = "if $1:",
    .row = "let $2 be $3 of $1",
    .array = "let $2 be $3 of $1",
    .variable = "let $2 be $3",
    .integer = "let $1 be $2",
    .value = "$2 = $3",
    .assign = "$1 <- $2",
    .op = "$1($3)",
    .cast = "$2($3)",
    .constant = "$3",
    .real = "$3",
};
