/* OpenCL C 2.0. Ops are the functions of kernel/text/elem.h: the prelude gives them the types and builtins by which the
 * language differs from C. */
#include "loop_dialect.h"

const char opencl_prelude[] = "#pragma OPENCL FP_CONTRACT OFF\n"
                              "typedef char int8_t;\n"
                              "typedef short int16_t;\n"
                              "typedef int int32_t;\n"
                              "typedef long int64_t;\n"
                              "typedef uchar uint8_t;\n"
                              "typedef ushort uint16_t;\n"
                              "typedef uint uint32_t;\n"
                              "typedef ulong uint64_t;\n"
                              "#define INT8_MIN CHAR_MIN\n"
                              "#define INT8_MAX CHAR_MAX\n"
                              "#define UINT8_MAX UCHAR_MAX\n"
                              "#define INT16_MIN SHRT_MIN\n"
                              "#define INT16_MAX SHRT_MAX\n"
                              "#define UINT16_MAX USHRT_MAX\n"
                              "#define INT32_MIN INT_MIN\n"
                              "#define INT32_MAX INT_MAX\n"
                              "#define UINT32_MAX UINT_MAX\n"
                              "#define INT64_MIN LONG_MIN\n"
                              "#define INT64_MAX LONG_MAX\n"
                              "#define UINT64_MAX ULONG_MAX\n"
                              "#define UINT64_C(x) x##ul\n"
                              "#define half half_\n" /* a type there */
                              "#define __FP_FAST_FMA\n"
                              "#define __builtin_fma fma\n"
                              "#define __builtin_fmaf fma\n"
                              "#define __builtin_sqrt sqrt\n"
                              "#define __builtin_sqrtf sqrt\n"
                              "#define __builtin_fabs fabs\n"
                              "#define __builtin_fabsf fabs\n"
                              "#define __builtin_rint rint\n"
                              "#define __builtin_rintf rint\n"
                              "#define __builtin_floor floor\n"
                              "#define __builtin_floorf floor\n"
                              "#define __builtin_ceil ceil\n"
                              "#define __builtin_ceilf ceil\n"
                              "#define __builtin_trunc trunc\n"
                              "#define __builtin_truncf trunc\n";

const loop_dialect opencl = {
    .kernel = "__kernel void $1(",
    .in = "__global const tpk_$1 *$2",
    .out = "__global tpk_$1 *$2",
    .scratch = "__global tpk_$1 *$2_all",
    .size = "const long $1",
    .begin = ") {",
    .end = "}",
    .parallel = "for (long $1 = get_global_id(0); $1 < $2; $1 += get_global_size(0)) {",
    .loop = "for (long $1 = 0; $1 < $2; $1++) {",
    .when = "if ($1) {",
    .close = "}",
    .row = "__global tpk_$1 *$2 = $2_all + get_global_id(0) * ($3);",
    .array = "tpk_$1 $2[$3];",
    .variable = "tpk_$1 $2 = $3;",
    .integer = "long $1 = $2;",
    .value = "const tpk_$1 $2 = $3;",
    .assign = "$1 = $2;",
    .op = "tpk_$1_$2($3)",
    .cast = "tpk_cast_$1_$2($3)",
    .constant = "(tpk_$1)$2",
    .real = "tpk_from_bits_$1($2)",
    .symbol = "s",
};
