/* The header of a file that stands alone. */
#include "render/render.h"
#include "render/standalone/standalone_def.h"

#include <inttypes.h>

static const char *c_type(const tp_tensor *t)
{
    static const char *const names[TP_N_DTYPES] = {
        [TP_BOOL] = "uint8_t", [TP_I8] = "int8_t",    [TP_I16] = "int16_t",
        [TP_I32] = "int32_t",  [TP_I64] = "int64_t",  [TP_U8] = "uint8_t",
        [TP_U16] = "uint16_t", [TP_U32] = "uint32_t", [TP_U64] = "uint64_t",
        [TP_F32] = "float",    [TP_F64] = "double"};
    return names[t->dtype];
}

/* "[batch, 10]" with a quoted name, as a comment's text. */
static void put_shape(tpi_str *out, const tp_tensor *t, const char *name)
{
    tpi_render_quoted(out, SHAPE(t));
    tpi_str_put(out, t->dtype == TP_BOOL ? ", 0 or 1" : "");
    if (name) {
        tpi_str_put(out, "  ");
        tpi_render_quoted(out, name);
    }
}

/* ---- functions ----------------------------------------------------------------------------------- */

typedef struct parameters {
    const tpi_alone *a;
    tpi_str *out;
    int n;
} parameters;

static void put_parameter(parameters *p, bool is, const char *before, const char *after)
{
    if (!is)
        return;
    tpi_str_printf(p->out, p->n++ ? ", " : "(");
    tpi_str_put(p->out, before);
    if (after)
        tpi_str_printf(p->out, "%s%s", p->a->prefix, after);
}

void tpi_alone_declare(const tpi_alone *a, tpi_alone_function f, tpi_str *out)
{
    static const char *const names[] = {"memory_bytes", "prepare", "init", "run"};
    const bool run = f == TPI_ALONE_RUN, init = f == TPI_ALONE_INIT,
               prepare = f == TPI_ALONE_PREPARE;
    parameters p = {.a = a, .out = out};
    tpi_str_printf(out, "%s %s_%s",
                   f == TPI_ALONE_BYTES ? "int64_t"
                   : init               ? "void"
                                        : "int",
                   a->prefix, names[f]);
    put_parameter(&p, a->sized && (prepare || f == TPI_ALONE_BYTES), "const ", "_sizes *sizes");
    put_parameter(&p, prepare || run, "void *memory", NULL);
    put_parameter(&p, prepare, "int64_t bytes", NULL);
    put_parameter(&p, init || (run && a->state), "", "_state *state");
    put_parameter(&p, a->q->beside && a->n_weights && (prepare || init), "const void *weights",
                  NULL);
    put_parameter(&p, run && a->q->n_in, "const ", "_inputs *in");
    put_parameter(&p, run, "", "_outputs *out");
    put_parameter(&p, run || prepare, "", "_fault *fault");
    tpi_str_put(out, p.n ? ")" : "(void)");
}

static void put_functions(const tpi_alone *a, tpi_str *out)
{
    tpi_str_put(out, "/* Bytes of memory that a run needs, at any address");
    tpi_str_put(out, a->sized ? "; -1: an op does not take these sizes.\n" : ".\n");
    if (a->arena >= 0)
        tpi_str_printf(out, " * %s_ARENA_BYTES of them are what ops hand on; ", a->prefix);
    else
        tpi_str_put(out, " * What ops hand on is the formula of `place` in the source; ");
    tpi_str_put(out, "the rest is where\n * contractions pack, and a table of pointers. */\n");
    tpi_alone_declare(a, TPI_ALONE_BYTES, out);
    tpi_str_put(out, ";\n/* Makes memory ready for runs");
    tpi_str_put(out, a->sized ? " at these sizes" : "");
    tpi_str_put(out,
                "; it may be done again. Each memory is for one run\n"
                " * at a time; with several of them runs can go on side by side. `fault` may "
                "be NULL. */\n");
    tpi_alone_declare(a, TPI_ALONE_PREPARE, out);
    if (a->state) {
        tpi_str_put(out, ";\n/* The state it begins with. */\n");
        tpi_alone_declare(a, TPI_ALONE_INIT, out);
    }
    tpi_str_put(out, ";\n/* One run. When it fails, ");
    tpi_str_put(out, a->state ? "the state is as it was, and what was put out is worth nothing"
                              : "what was put out is worth nothing");
    tpi_str_put(out, ". */\n");
    tpi_alone_declare(a, TPI_ALONE_RUN, out);
    tpi_str_put(out, ";\n");
}

/* ---- types ----------------------------------------------------------------------------------------- */

static void put_codes(const tpi_alone *a, tpi_str *out)
{
    const char *p = a->prefix;
    tpi_str_printf(
        out,
        "/* What is returned; but for 0, *fault says more. */\n"
        "enum {\n"
        "    %s_ok,\n"
        "    %s_e_sizes,    /* the op does not take these sizes; -1: a size is none */\n"
        "    %s_e_memory,   /* there are fewer bytes than %s_memory_bytes says */\n"
        "    %s_e_prepared, /* the memory was not prepared */\n"
        "    %s_e_index,    /* an index of the op, at this position, is out of range, or this "
        "matrix is refused */\n"
        "    %s_e_turns,    /* the loop takes more turns than the sizes say */\n"
        "    %s_e_unseen,   /* the branch goes a way that no call had gone when this was made "
        "*/\n"
        "    %s_e_rounding  /* the compiler's options, or the mode of the floating-point unit, "
        "would\n                    * give other numbers */\n"
        "};\n\n",
        p, p, p, p, p, p, p, p, p);
    tpi_str_printf(
        out,
        "typedef struct %s_fault {\n"
        "    int64_t op; /* its number, as the end of the source has it; -1: none */\n"
        "    int64_t position;\n} %s_fault;\n\n",
        p, p);
}

static void put_sizes(const tpi_alone *a, tpi_str *out)
{
    if (!a->sized)
        return;
    tpi_str_printf(out, "typedef struct %s_sizes {\n", a->prefix);
    for (int i = 0; i < a->n_symbols; i++) {
        const tpi_alone_symbol *s = &a->symbols[i];
        if (!s->used)
            continue;
        tpi_str_printf(out, "    int64_t %s;", s->name.text);
        if (s->late)
            tpi_str_printf(out, " /* most turns of the loop that is op %d */", s->loop);
        tpi_str_put(out, "\n");
    }
    tpi_str_printf(out, "} %s_sizes;\n\n", a->prefix);
}

static void put_field(tpi_str *out, const char *before, const tp_tensor *t, const char *name,
                      const char *model_name)
{
    tpi_str_printf(out, "    %s%s *%s; /* ", before, c_type(t), name);
    put_shape(out, t, model_name);
    tpi_str_put(out, " */\n");
}

static void put_ports(const tpi_alone *a, tpi_str *out)
{
    const tpi_standalone *q = a->q;
    tpi_str_put(out, "/* All elements in row-major order, without gaps. */\n");
    if (q->n_in)
        tpi_str_printf(out, "typedef struct %s_inputs {\n", a->prefix);
    for (int i = 0; i < q->n_in; i++)
        put_field(out, "const ", q->in[i], a->in[i].text, q->in_names[i]);
    if (q->n_in)
        tpi_str_printf(out, "} %s_inputs;\n\n", a->prefix);
    tpi_str_printf(out, "typedef struct %s_outputs {\n", a->prefix);
    for (int i = 0; i < q->n_out; i++)
        put_field(out, "", q->roots[i], a->out[i].text, q->out_names[i]);
    for (int i = 0; i < a->n_symbols; i++)
        if (a->symbols[i].used && a->symbols[i].late)
            tpi_str_printf(out, "    int64_t %s; /* set: turns that op %d took */\n",
                           a->symbols[i].count.text, a->symbols[i].loop);
    tpi_str_printf(out, "} %s_outputs;\n\n", a->prefix);
}

const char *tpi_alone_position(uint64_t stream, char name[TPI_STREAM_NAME])
{
    if (stream)
        tpi_print(name, TPI_STREAM_NAME, "position_%" PRIu64, stream);
    return stream ? name : "position";
}

static void put_positions(const tpi_alone *a, tpi_str *out)
{
    char name[TPI_STREAM_NAME];
    tpi_str_put(out, "    uint64_t seed");
    for (int i = 0; i < a->plan->n_streams; i++)
        tpi_str_printf(out, ", %s", tpi_alone_position(a->plan->streams[i], name));
    tpi_str_put(out, "; /* of the random numbers");
    if (a->plan->n_streams > 1 || a->plan->streams[0])
        tpi_str_put(out, ", by stream");
    tpi_str_put(out, " */\n");
}

static void put_state(const tpi_alone *a, tpi_str *out)
{
    if (!a->state)
        return;
    tpi_str_printf(
        out,
        "/* What goes from one run to the next. Its bytes can be saved and read back. "
        "*/\ntypedef struct %s_state {\n",
        a->prefix);
    if (a->n_random || a->plan->draws)
        put_positions(a, out);
    for (int i = 0; i < a->n_variables; i++) {
        const tpi_alone_variable *v = &a->variables[i];
        const int64_t count = tpi_count(v->t);
        tpi_str_printf(out, "    %s %s[%lld]; /* ", c_type(v->t), v->name.text,
                       (long long)(count ? count : 1));
        put_shape(out, v->t, v->t->name);
        tpi_str_put(out, " */\n");
    }
    tpi_str_printf(out, "} %s_state;\n\n", a->prefix);
}

/* ---- all ------------------------------------------------------------------------------------------- */

static void put_use(const tpi_alone *a, tpi_str *out)
{
    const char *p = a->prefix;
    tpi_str_printf(out,
                   "/* Made by tapir %s. It needs no library, and allocates nothing:\n *\n",
                   tp_version());
    if (a->state)
        tpi_str_printf(out, " *     %s_init(&state%s);\n", p,
                       a->q->beside && a->n_weights ? ", weights" : "");
    tpi_str_printf(out,
                   " *     if (%s_prepare(%smemory, bytes%s, &fault) == %s_ok)\n"
                   " *         status = %s_run(memory, %s%s&out, &fault);\n *\n"
                   " * Compile the source with any options but -ffast-math and its parts: "
                   "these are refused, "
                   "by an\n * #error or by what %s_prepare returns. */\n",
                   p, a->sized ? "&sizes, " : "",
                   a->q->beside && a->n_weights ? ", weights" : "", p, p,
                   a->state ? "&state, " : "", a->q->n_in ? "&in, " : "", p);
}

void tpi_alone_header(const tpi_alone *a, tpi_str *out)
{
    put_use(a, out);
    tpi_str_printf(out,
                   "#ifndef %s_TAPIR_H\n#define %s_TAPIR_H\n\n#include <stdint.h>\n\n"
                   "#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n",
                   a->prefix, a->prefix);
    put_codes(a, out);
    put_sizes(a, out);
    put_ports(a, out);
    put_state(a, out);
    if (a->q->beside && a->n_weights)
        tpi_str_printf(
            out,
            "/* `weights`: these bytes of the file beside, in little-endian order, at "
            "an address that\n * is a multiple of 64; they are read while the memory "
            "is in use. */\n#define %s_WEIGHTS_BYTES %lld\n\n",
            a->prefix,
            (long long)(a->weights[a->n_weights - 1].offset +
                        (int64_t)tpi_bytes(a->weights[a->n_weights - 1].t)));
    if (a->arena >= 0)
        tpi_str_printf(out,
                       "/* Of the memory of a run, bytes that ops hand on. */\n"
                       "#define %s_ARENA_BYTES %lld\n\n",
                       a->prefix, (long long)a->arena);
    put_functions(a, out);
    tpi_str_put(out, "\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
}
