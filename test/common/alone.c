#include "alone.h"

#include "core/dim.h"
#include "ir/graph_def.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- hashes: of equal bits, all NaNs being one ------------------------------------------------------- */

static uint64_t hash_of(const tp_tensor *t)
{
    const size_t size = tp_dtype_size((tp_dtype)t->dtype);
    const int64_t count = tp_count(t);
    const char *p = tp_data((tp_tensor *)t);
    uint64_t h = 14695981039346656037u;
    for (int64_t i = 0; i < count; i++) {
        uint64_t u = 0;
        memcpy(&u, p + (size_t)i * size, size);
        if (t->dtype == TP_F32 && (u & 0x7fffffffu) > 0x7f800000u)
            u = 0x7fc00000u;
        if (t->dtype == TP_F64 && (u & INT64_MAX) > 0x7ff0000000000000u)
            u = 0x7ff8000000000000u;
        h = (h ^ u) * 1099511628211u;
    }
    return h;
}

/* The same, in the program. */
static const char hash_text[] =
    "static void hash(const char *what, int i, const void *data, int64_t n, int size, int "
    "f)\n{\n"
    "    uint64_t h = 14695981039346656037u;\n"
    "    for (int64_t k = 0; k < n; k++) {\n"
    "        uint64_t u = 0;\n"
    "        memcpy(&u, (const char *)data + (size_t)k * (size_t)size, (size_t)size);\n"
    "        if (f && size == 4 && (u & 0x7fffffffu) > 0x7f800000u)\n            u = "
    "0x7fc00000u;\n"
    "        if (f && size == 8 && (u & INT64_MAX) > 0x7ff0000000000000u)\n"
    "            u = 0x7ff8000000000000u;\n"
    "        h = (h ^ u) * 1099511628211u;\n    }\n"
    "    printf(\"%s %d %08lx%08lx\\n\", what, i, (unsigned long)(h >> 32),\n"
    "           (unsigned long)(h & 0xffffffffu));\n}\n\n";

static void put_hash(FILE *f, const char *kind, int i, const tp_tensor *t)
{
    const uint64_t h = hash_of(t);
    fprintf(f, "%s %d %08lx%08lx\n", kind, i, (unsigned long)(h >> 32),
            (unsigned long)(h & 0xffffffffu));
}

/* ---- the program -------------------------------------------------------------------------------------- */

static bool is_float(const tp_tensor *t)
{
    return t->dtype == TP_F32 || t->dtype == TP_F64;
}

static void put_words(FILE *f, const char *name, int i, const tp_tensor *t)
{
    const size_t bytes = (size_t)tp_count(t) * tp_dtype_size((tp_dtype)t->dtype);
    const char *p = tp_data((tp_tensor *)t);
    fprintf(f, "static const uint64_t %s_%d[%zu] = {", name, i, bytes / 8 + 1);
    for (size_t k = 0; k < bytes; k += 8) {
        uint64_t u = 0;
        memcpy(&u, p + k, bytes - k < 8 ? bytes - k : 8);
        fprintf(f, "%s0x%llxu,", k % 64 ? " " : "\n    ", (unsigned long long)u);
    }
    fprintf(f, "%s};\n", bytes ? "\n" : "0");
}

/* The lines of a struct of the header; each up to its end in `line`. */
static bool next_field(FILE *header, const char *struct_name, char *line, size_t size)
{
    if (struct_name) {
        rewind(header);
        char head[200];
        snprintf(head, sizeof head, "typedef struct %s {", struct_name);
        do
            if (!fgets(line, (int)size, header))
                return false;
        while (strncmp(line, head, strlen(head)) != 0);
    }
    return fgets(line, (int)size, header) && line[0] != '}';
}

/* "    int64_t batch;" -> "batch" */
static void field_name(const char *line, char *name, size_t size)
{
    const char *end = line + strcspn(line, ";["), *start = end;
    while (start > line && start[-1] != ' ' && start[-1] != '*')
        start--;
    snprintf(name, size, "%.*s", (int)(end - start), start);
}

/* The size that the symbol of that name has in a set; of a function it is "INPUT_dimN". */
static int64_t size_named(const alone *a, int set, const char *name)
{
    for (int i = 0; i < a->n_in && a->f; i++) {
        const size_t n = strlen(a->in[i]);
        if (strncmp(name, a->in[i], n) == 0 && strncmp(name + n, "_dim", 4) == 0)
            return a->feeds[set * a->n_in + i]->shape[atoi(name + n + 4)];
    }
    for (int i = 0; i < a->n_in && a->g; i++) {
        const tp_tensor *x = tp_graph_find(a->g, a->in[i]);
        for (int k = 0; k < x->rank; k++) {
            int symbol;
            if (tpi_dim_as_symbol(a->g->dims, x->shape[k], &symbol) &&
                strcmp(tpi_dim_symbol_name(a->g->dims, symbol), name) == 0)
                return a->feeds[set * a->n_in + i]->shape[k];
        }
    }
    return 0;
}

static void put_sizes(FILE *f, const alone *a, int set, FILE *header)
{
    char line[400], name[100], of[100];
    snprintf(of, sizeof of, "%s_sizes", a->name);
    bool more = next_field(header, of, line, sizeof line);
    if (more)
        fprintf(f, "    %s_sizes sizes;\n", a->name);
    for (; more; more = next_field(header, NULL, line, sizeof line)) {
        field_name(line, name, sizeof name);
        const int64_t value = strncmp(name, "most_", 5) != 0 ? size_named(a, set, name)
                              : a->most_turns                ? a->most_turns
                                                             : 200;
        fprintf(f, "    sizes.%s = %lld;\n", name, (long long)value);
    }
}

/* Does the caller hand over weights? */
static bool has_weights(FILE *header)
{
    char line[400];
    bool has = false;
    for (rewind(header); fgets(line, sizeof line, header);)
        has |= strstr(line, "void *weights") != NULL;
    return has;
}

static bool has_struct(const alone *a, FILE *header, const char *kind)
{
    char line[400], of[100];
    snprintf(of, sizeof of, "%s_%s", a->name, kind);
    return next_field(header, of, line, sizeof line);
}

/* Inputs of a set, and outputs with a guard behind each, which the run must leave alone. */
static void put_set(FILE *f, const alone *a, int set, tp_tensor *const *results, FILE *header)
{
    char line[400], name[100], of[100];
    const bool sized = has_struct(a, header, "sizes"), state = has_struct(a, header, "state");
    fprintf(f, "static void set_%d(void)\n{\n", set);
    put_sizes(f, a, set, header);
    fprintf(f, "    fault.op = 0;\n");
    fprintf(f,
            "    if (check(%s_prepare(%smemory, sizeof memory%s, &fault)))\n        return;\n",
            a->name, sized ? "&sizes, " : "", has_weights(header) ? ", weights" : "");
    if (a->n_in) {
        snprintf(of, sizeof of, "%s_inputs", a->name);
        fprintf(f, "    %s in;\n", of);
        bool more = next_field(header, of, line, sizeof line);
        for (int i = 0; more; i++, more = next_field(header, NULL, line, sizeof line)) {
            field_name(line, name, sizeof name);
            fprintf(f, "    in.%s = (const void *)in_%d;\n", name, set * a->n_in + i);
        }
    }
    snprintf(of, sizeof of, "%s_outputs", a->name);
    fprintf(f, "    %s out;\n", of);
    bool more = next_field(header, of, line, sizeof line);
    for (int i = 0; more && i < a->n_out;
         i++, more = next_field(header, NULL, line, sizeof line)) {
        field_name(line, name, sizeof name);
        fprintf(f, "    memset(out_%d, 0x5a, sizeof out_%d);\n", i, i);
        fprintf(f, "    out.%s = (void *)out_%d;\n", name, i);
    }
    fprintf(f, "    if (check(%s_run(memory, %s%s&out, &fault)))\n        return;\n", a->name,
            state ? "&state, " : "", a->n_in ? "&in, " : "");
    for (int i = 0; i < a->n_out; i++) {
        const tp_tensor *t = results[i];
        const int size = (int)tp_dtype_size((tp_dtype)t->dtype);
        fprintf(f, "    hash(\"out\", %d, out_%d, %lld, %d, %d);\n", i, i,
                (long long)tp_count(t), size, is_float(t));
        fprintf(f, "    guard(%d, (const char *)out_%d + %lld);\n", i, i,
                (long long)tp_count(t) * size);
    }
    fprintf(f, "}\n\n");
}

/* The variable that a line of the state is for; NULL: none with a name that we know. */
static tp_tensor *variable_of(const alone *a, const char *line)
{
    char name[100];
    const char *at = strstr(line, "]  ");
    if (!at)
        return NULL;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(at + 3, " "), at + 3);
    for (int k = 0; k < a->n_variables; k++)
        if (strcmp(tp_name_of(a->variables[k]), name) == 0)
            return a->variables[k];
    return a->g ? tp_graph_variable(a->g, name) : NULL;
}

static void put_program(FILE *f, const alone *a, tp_tensor *const *results, FILE *header)
{
    const int64_t memory = a->memory ? a->memory : (int64_t)1 << 26;
    fprintf(f, "#include \"%s.h\"\n#include <stdio.h>\n#include <string.h>\n\n", a->name);
    fprintf(f, "static char memory[%lld];\nstatic %s_fault fault;\n", (long long)memory,
            a->name);
    fputs(hash_text, f);
    fputs("static int check(int code)\n{\n    if (code)\n"
          "        printf(\"failed %d %d %d\\n\", code, (int)fault.op, (int)fault.position);\n"
          "    return code;\n}\n\n"
          "static void guard(int i, const char *end)\n{\n    for (int k = 0; k < 64; k++)\n"
          "        if (end[k] != 0x5a) {\n            printf(\"overrun %d\\n\", i);\n"
          "            return;\n        }\n}\n\n",
          f);
    const bool state = has_struct(a, header, "state"), beside = has_weights(header);
    if (state)
        fprintf(f, "static %s_state state;\n", a->name);
    if (beside)
        fprintf(f, "static uint64_t weights[1 << 22] __attribute__((aligned(64)));\n");
    for (int i = 0; i < a->n_sets * a->n_in; i++)
        put_words(f, "in", i, a->feeds[i]);
    for (int i = 0; i < a->n_out; i++) {
        int64_t most = 0;
        for (int s = 0; s < a->n_sets; s++) {
            const tp_tensor *t = results[s * a->n_out + i];
            const int64_t bytes = tp_count(t) * (int64_t)tp_dtype_size((tp_dtype)t->dtype);
            most = bytes > most ? bytes : most;
        }
        fprintf(f, "static uint64_t out_%d[%lld];\n", i, (long long)(most / 8 + 9));
    }
    for (int s = 0; s < a->n_sets; s++)
        put_set(f, a, s, results + s * a->n_out, header);
    fputs("int main(void)\n{\n", f);
    if (beside)
        fprintf(f,
                "    FILE *f = fopen(\"%s/%s.weights\", \"rb\");\n"
                "    if (!f || fread(weights, 1, sizeof weights, f) == 0)\n        return 1;\n"
                "    fclose(f);\n",
                a->dir, a->name);
    if (state)
        fprintf(f, "    %s_init(&state%s);\n", a->name, beside ? ", weights" : "");
    for (int s = 0; s < a->n_sets; s++)
        fprintf(f, "    set_%d();\n", s);
    char line[400], name[100], of[100];
    snprintf(of, sizeof of, "%s_state", a->name);
    int i = 0;
    for (bool more = next_field(header, of, line, sizeof line); more;
         more = next_field(header, NULL, line, sizeof line)) {
        if (!variable_of(a, line))
            continue;
        field_name(line, name, sizeof name);
        fprintf(f,
                "    hash(\"state\", %d, state.%s, (int64_t)(sizeof state.%s / "
                "sizeof *state.%s),\n         (int)sizeof *state.%s, %d);\n",
                i++, name, name, name, name,
                strstr(line, " float ") || strstr(line, " double "));
    }
    fputs("    return 0;\n}\n", f);
}

/* ---- writing -------------------------------------------------------------------------------------------- */

static bool say(const alone *a, const char *what)
{
    printf("FAILED %s: %s: %s\n", a->name, what, tp_error_message(a->tp));
    tp_clear_error(a->tp);
    return false;
}

static FILE *open_file(const alone *a, const char *ending, const char *mode)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/%s%s", a->dir, a->name, ending);
    return fopen(path, mode);
}

/* The variables as they are now, in the order of the state. */
static void put_variables(FILE *f, const alone *a, FILE *header)
{
    char line[400], of[100];
    snprintf(of, sizeof of, "%s_state", a->name);
    int i = 0;
    for (bool more = next_field(header, of, line, sizeof line); more;
         more = next_field(header, NULL, line, sizeof line)) {
        tp_tensor *t = variable_of(a, line);
        if (t)
            put_hash(f, "state", i++, tp_contiguous(t));
    }
}

static bool run_set(const alone *a, tp_tensor *const *values, const tp_feed *feeds,
                    tp_tensor **out)
{
    return (a->f ? tp_function_call(a->f, a->n_in, values, a->n_out, out)
                 : tp_graph_run(a->g, a->n_in, feeds, a->n_out, a->out, out)) == TP_OK;
}

static bool write_all(const alone *a, tp_tensor **results, FILE *header)
{
    FILE *expected = open_file(a, ".expected", "w"), *program = open_file(a, "_main.c", "w");
    bool ok = expected && program;
    tp_feed *feeds = calloc((size_t)a->n_in + 1, sizeof *feeds);
    ok = ok && feeds;
    for (int s = 0; s < a->n_sets && ok; s++) {
        for (int i = 0; i < a->n_in; i++)
            feeds[i] = (tp_feed){a->in[i], a->feeds[s * a->n_in + i]};
        tp_tensor **out = results + s * a->n_out;
        if (a->known)
            memcpy(out, a->known + s * a->n_out, (size_t)a->n_out * sizeof *out);
        else
            ok = run_set(a, a->feeds + s * a->n_in, feeds, out) || say(a, "running");
        for (int i = 0; i < a->n_out && ok; i++) {
            out[i] = tp_contiguous(out[i]);
            put_hash(expected, "out", i, out[i]);
        }
    }
    if (ok) {
        put_variables(expected, a, header);
        put_program(program, a, results, header);
    }
    ok = ok && !ferror(expected) && !ferror(program);
    free(feeds);
    if (expected)
        fclose(expected);
    if (program)
        fclose(program);
    return ok;
}

bool alone_write(const alone *a)
{
    char path[1200];
    snprintf(path, sizeof path, "%s/%s.c", a->dir, a->name);
    const tp_status status =
        a->f ? tp_function_save_c(a->f, path, a->n_in, a->in, a->n_out, a->out, &a->options)
             : tp_graph_save_c(a->g, path, a->n_in, a->in, a->n_out, a->out, &a->options);
    if (status != TP_OK)
        return say(a, "saving");
    FILE *header = open_file(a, ".h", "r");
    tp_tensor **results = calloc((size_t)(a->n_sets * a->n_out) + 1, sizeof(tp_tensor *));
    tp_tensor **feeds = calloc((size_t)(a->n_sets * a->n_in) + 1, sizeof(tp_tensor *));
    for (int i = 0; i < a->n_sets * a->n_in; i++)
        feeds[i] = tp_contiguous(a->feeds[i]);
    alone flat = *a;
    flat.feeds = feeds;
    const bool ok = header && write_all(&flat, results, header);
    if (a->results)
        memcpy(a->results, results, (size_t)(a->n_sets * a->n_out) * sizeof *results);
    if (header)
        fclose(header);
    free(results);
    free(feeds);
    return ok;
}

/* ---- trying ------------------------------------------------------------------------------------------- */

#define WARNINGS " -Wall -Wextra -Wconversion -Werror "
/* clang 19 warns of what its own -march=native finds on a processor with AVX10. */
#define BUT_AVX10 "-Wno-unknown-warning-option -Wno-invalid-feature-combination "

const alone_target alone_hosts[] = {
    {"gcc -O0",   "gcc -std=c99 -O0" WARNINGS,                           "",   ""  },
    {"gcc -O3",   "gcc -std=c11 -O3 -march=native" WARNINGS,             "",   ""  },
    {"clang -O0", "clang -std=c11 -O0" WARNINGS,                         "",   ""  },
    {"clang -O3", "clang -std=c99 -O3 -march=native" WARNINGS BUT_AVX10, "",   ""  },
    {NULL,        NULL,                                                  NULL, NULL}
};

const alone_target alone_aarch64 = {"aarch64", "aarch64-linux-gnu-gcc -std=c11 -O2" WARNINGS,
                                    "-static", "qemu-aarch64"};

#define ARM "arm-none-eabi-gcc -std=c11 -mthumb -O2" WARNINGS
#define BOARD                                                                                  \
    "--specs=rdimon.specs -T \"$TAPIR_SOURCE\"/test/outside/standalone/cortex_m.ld "           \
    "\"$TAPIR_SOURCE\"/test/outside/standalone/cortex_m.c"
#define EMULATE(machine)                                                                       \
    "qemu-system-arm -M " machine " -nographic -monitor none -serial none "                    \
    "-semihosting-config enable=on,target=native -kernel"

const alone_target alone_cortex_m3 = {"Cortex-M3", ARM "-mcpu=cortex-m3", BOARD,
                                      EMULATE("mps2-an385")};
const alone_target alone_cortex_m4 = {"Cortex-M4",
                                      ARM "-mcpu=cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16",
                                      BOARD, EMULATE("mps2-an386")};

static bool is_there(const char *command)
{
    char text[300];
    const int n = (int)strcspn(command, " ");
    if (n == 0)
        return true;
    snprintf(text, sizeof text, "command -v %.*s >/dev/null 2>&1", n, command);
    return system(text) == 0;
}

bool alone_has(const alone_target *t)
{
    return is_there(t->compile) && is_there(t->run);
}

bool alone_try(const char *dir, const char *name, const alone_target *t)
{
    char text[6000];
    snprintf(text, sizeof text,
             "cd '%s' && %s -c %s.c -o %s.o && %s -w %s_main.c %s.o -o %s.run %s && "
             "%s ./%s.run > %s.got </dev/null && cmp %s.got %s.expected",
             dir, t->compile, name, name, t->compile, name, name, name, t->link, t->run, name,
             name, name, name);
    const bool ok = system(text) == 0;
    if (!ok)
        printf("FAILED %s with %s, in %s\n", name, t->name, dir);
    snprintf(text, sizeof text, "cd '%s' && rm -f %s.o %s.run", dir, name, name);
    if (ok && system(text) != 0)
        printf("not removed: %s\n", text);
    return ok;
}
