/* Options of compilers, and modes of the floating-point unit, that would change what a C file that stands
 * alone computes: its results are the library's, or it says that they would be others. */
#include "common/alone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char main_text[] =
    "#include \"options.h\"\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
    "#if defined(__SSE2__)\n#include <xmmintrin.h>\n#endif\n\n"
    "static char memory[1 << 20];\nstatic float x[16 * 64], y[16 * 64];\n\n"
    "int main(int argc, char **argv)\n{\n"
    "    uint32_t hash = 2166136261u, bits;\n"
    "    for (int i = 0; i < 16 * 64; i++)\n"
    "        x[i] = (float)((i * 7919) % 1009) * 0x1p-9f - 1;\n"
    "    const options_inputs in = {.x = x};\n    options_outputs out = {.y = y};\n"
    "#if defined(__SSE2__)\n"
    "    if (argc > 1)\n        _mm_setcsr(_mm_getcsr() | (unsigned)strtoul(argv[1], NULL, "
    "0));\n"
    "#endif\n"
    "    int code = options_prepare(memory, sizeof memory, NULL);\n"
    "    if (code == options_e_rounding)\n        return puts(\"refused\") < 0;\n"
    "    if (!code)\n        code = options_run(memory, &in, &out, NULL);\n"
    "    for (int i = 0; i < 16 * 64; i++) {\n        memcpy(&bits, &y[i], 4);\n"
    "        hash = (hash ^ bits) * 16777619u;\n    }\n"
    "    printf(\"%d %08x\\n\", code, (unsigned)hash);\n    return 0;\n}\n";

/* Sums, quotients, means, exponentials and signs of zero. */
static bool write_source(char *expected, size_t room)
{
    tp_ctx *tp = tp_open(NULL);
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(16, 64));
    tp_tensor *h = tp_layer_norm(x, NULL, NULL, 1e-5);
    tp_tensor *s = tp_softmax(h, 1);
    tp_tensor *q =
        tp_div(tp_mul(tp_sub(h, s), tp_add(h, x)), tp_sum(tp_exp(s), TP_DIMS(1), true));
    tp_name(tp_add(tp_neg(tp_relu(q)), tp_cumsum(q, 1, false, false)), "y");
    static float data[16 * 64];
    for (int i = 0; i < 16 * 64; i++)
        data[i] = (float)((i * 7919) % 1009) * 0x1p-9f - 1;
    tp_tensor *feed = tp_tensor_new(tp, TP_F32, TP_DIMS(16, 64), data), *y = NULL;
    const char *const in[] = {"x"}, *const out[] = {"y"};
    tp_program *p = tp_graph_compile(g, 1, in, 1, out, NULL);
    bool ok = p && tp_program_run(p, &feed, &y) == TP_OK &&
              tp_graph_save_c(g, "options.c", 1, in, 1, out, NULL) == TP_OK;
    uint32_t hash = 2166136261u, bits;
    for (int i = 0; ok && i < 16 * 64; i++) {
        memcpy(&bits, (const float *)tp_data(y) + i, 4);
        hash = (hash ^ bits) * 16777619u;
    }
    snprintf(expected, room, "0 %08x\n", (unsigned)hash);
    if (!ok)
        printf("FAILED: %s\n", tp_error_message(tp));
    tp_close(tp);
    FILE *f = fopen("options_main.c", "w");
    ok = f && fputs(main_text, f) >= 0 && ok;
    return f && fclose(f) == 0 && ok;
}

/* What a command prints; "none": nothing, and it fails. */
static void print_of(const char *command, char *to, size_t room)
{
    FILE *f = popen(command, "r");
    const size_t n = f ? fread(to, 1, room - 1, f) : 0;
    to[n] = '\0';
    if (!f || (pclose(f) != 0 && n == 0))
        snprintf(to, room, "none\n");
}

enum { SAME = 1, REFUSED = 2 };

/* Whether the program, in this mode, gives the library's results, or refuses; as may be. */
static bool gives(const char *how, const char *mode, int may, const char *expected)
{
    char command[100], got[100];
    snprintf(command, sizeof command, "./options %s", mode);
    print_of(command, got, sizeof got);
    const bool refused = strcmp(got, "refused\n") == 0 || strcmp(got, "none\n") == 0;
    const bool good = refused ? may & REFUSED : (may & SAME) && strcmp(got, expected) == 0;
    if (!good)
        printf("FAILED %s, mode '%s': %s, not %s", how, mode, got,
               may & SAME ? expected : "a refusal\n");
    return good;
}

static void compile(const char *how)
{
    char command[300];
    snprintf(command, sizeof command,
             "rm -f options; %s -w options.c options_main.c -o options >options.log 2>&1", how);
    if (system(command) != 0)
        remove("options");
}

static bool try_compiler(const char *compiler, const char *expected)
{
    static const char *const parts[] = {
        "-ffast-math",
        "-funsafe-math-optimizations",
        "-fassociative-math",
        "-fassociative-math -fno-signed-zeros -fno-trapping-math",
        "-freciprocal-math",
        "-fno-signed-zeros",
        "-ffinite-math-only",
        "-ffp-contract=fast -mfma",
        "-mrecip"};
    static const char *const modes[] = {"0x8000", "0x40", "0x2000", "0x4000", "0x6000"};
    char how[200];
    snprintf(how, sizeof how, "%s -O2", compiler);
    compile(how);
    bool ok = gives(how, "", SAME, expected);
#if defined(__x86_64__)
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
        ok = gives(how, modes[i], REFUSED, expected) && ok;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(how, sizeof how, "%s -O2 %s", compiler, parts[i]);
        compile(how);
        ok = gives(how, "", i == 0 ? REFUSED : SAME | REFUSED, expected) && ok;
    }
#endif
    return ok;
}

/* Weights beside the source are little-endian, and a target that is not does not take them. */
static bool refuses_big_endian(const char *compiler)
{
    static const char syntax[] = "-w -fsyntax-only beside.c >options.log 2>&1";
    char here[200], there[300];
    snprintf(here, sizeof here, "%s %s", compiler, syntax);
    snprintf(there, sizeof there,
             "%s -U__BYTE_ORDER__ -D__BYTE_ORDER__=__ORDER_BIG_ENDIAN__ %s", compiler, syntax);
    const bool good = system(here) == 0 && system(there) != 0 &&
                      system("grep -q 'weights beside this source' options.log") == 0;
    if (!good)
        printf("FAILED %s compiles little-endian weights for a big-endian target\n", compiler);
    return good;
}

static bool write_beside(void)
{
    tp_ctx *tp = tp_open(NULL);
    tp_graph *g = tp_graph_new(tp);
    tp_tensor *x = tp_placeholder(g, "x", TP_F32, TP_DIMS(4, 64));
    tp_name(tp_mul(x, tp_normal(tp, TP_F32, TP_DIMS(4, 64), 0, 1)), "y");
    const char *const in[] = {"x"}, *const out[] = {"y"};
    const bool ok =
        tp_graph_save_c(g, "beside.c", 1, in, 1, out, &(tp_c_options){.beside = true}) == TP_OK;
    if (!ok)
        printf("FAILED: %s\n", tp_error_message(tp));
    tp_close(tp);
    return ok;
}

int main(void)
{
    static const char *const compilers[] = {"gcc", "clang"};
    char expected[100];
    bool ok = write_source(expected, sizeof expected) && write_beside();
    int tried = 0;
    for (size_t c = 0; c < sizeof compilers / sizeof *compilers && ok; c++) {
        char text[100];
        snprintf(text, sizeof text, "command -v %s >/dev/null", compilers[c]);
        if (system(text) != 0) {
            printf("skipped %s: it is not installed\n", compilers[c]);
            continue;
        }
        tried++;
        ok = refuses_big_endian(compilers[c]) && try_compiler(compilers[c], expected);
    }
    return !ok ? 1 : tried ? 0 : 77;
}
