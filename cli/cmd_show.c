/* tapir show: what a model is made of, and what becomes of it. */
#include "page.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct settings {
    texts inputs, dims;
    int64_t limit;
    int format, after;
    bool graph, kernels, loops, memory, source, direct_conv;
} settings;

enum { AS_TEXT, AS_DOT, AS_JSON, AS_HTML };
#define STAGES "import,prune,restack,checkpoint,hoist,fold,algebra,cse,sparse,pick,remake,all"
enum { AFTER_IMPORT, MOST_NAME = 16 };

/* The stage with that number in STAGES: "import" is 0. */
static const char *stage_name(int after, char name[MOST_NAME])
{
    const char *p = STAGES;
    for (int i = 0; i < after; i++)
        p = strchr(p, ',') + 1;
    snprintf(name, MOST_NAME, "%.*s", (int)strcspn(p, ","), p);
    return name;
}

static bool is_last(int after)
{
    const char *p = STAGES;
    for (int i = 0; i < after; i++)
        p = strchr(p, ',') + 1;
    return !strchr(p, ',');
}

static int last_stage(void)
{
    int i = 0;
    while (!is_last(i))
        i++;
    return i;
}

static const option options[] = {
    CLI_CHOICE(format, "format", "text|dot|json|html", "text,dot,json,html",
               "text; dot: for Graphviz; json; html: a drawing in one\nfile (text)"),
    CLI_CHOICE(after, "after", "PASS", STAGES, "the graph after " STAGES "\n(import)"),
    CLI_SWITCH(graph, "graph",
               "text: the graph, on a terminal too, where it is left out\n"
               "when nothing asks for it"),
    CLI_SWITCH(kernels, "kernels",
               "text: the kernels of the compiled program and the plan\nof its memory, too; "
               "--after all is meant"),
    CLI_SWITCH(loops, "loops",
               "text: instead of the graph, the kernels, and below each\n"
               "its program, or what it calls"),
    CLI_SWITCH(memory, "memory",
               "text: instead of the graph, what lies where in the\n"
               "program's memory, and while which kernels run"),
    CLI_SWITCH(source, "source",
               "text: instead of the graph, the C that is compiled to\n"
               "run the model"),
    CLI_LIMIT,
    CLI_OPTION(OPTION_TEXTS, inputs, "input", "NAME=FILE",
               "the value of an input, for models that cannot be read\n"
               "without it: as tapir run takes it"),
    CLI_OPTION(OPTION_TEXTS, dims, "dim", "NAME=N",
               "fix the size of a free dimension; x_2=N: of axis 2 of x"),
    CLI_DIRECT_CONV,
    CLI_OPTIONS_END,
};

typedef struct op_count {
    const char *op;
    int n;
} op_count;

typedef struct shown {
    const settings *s;
    model *m;
    tp_program *program; /* NULL: the graph as it was imported */
    const tp_graph *graph;
    ir imported, v; /* of the model, and of what is shown */
    int64_t n_params, n_weights, weight_bytes;
    op_count *ops; /* of what is shown */
    int n_ops;
} shown;

/* ---- facts ----------------------------------------------------------------------------------------- */

static int64_t bytes_of(const tp_tensor *t)
{
    return tp_count(t) * (int64_t)tp_dtype_size(tp_dtype_of(t));
}

static void count_weights(shown *w)
{
    tp_graph *g = w->m->graph;
    w->n_weights = tp_graph_n_variables(g);
    for (int i = 0; i < w->n_weights; i++) {
        const tp_tensor *v = tp_graph_nth_variable(g, i);
        w->n_params += tp_requires_grad(v) ? tp_count(v) : 0;
        w->weight_bytes += bytes_of(v);
    }
    const ir_body *all = w->imported.bodies;
    for (int i = 0; i < all->n_nodes; i++) { /* of some only views are read */
        const tp_node *n = &all->nodes[i].is;
        if (n->view_of < 0 || all->nodes[n->view_of].is.view_of < 0)
            continue;
        w->n_weights += n->view_of == i;
        w->weight_bytes += bytes_of(n->value);
    }
}

/* Does it compute? What goes in and out of a block does not. */
static bool is_op(const ir_node *n)
{
    return !n->is.value && !n->is.takes && strcmp(n->is.op, "placeholder") != 0 &&
           strcmp(n->is.op, "output") != 0;
}

static int by_count(const void *a, const void *b)
{
    const op_count *x = a, *y = b;
    return x->n != y->n ? (x->n < y->n ? 1 : -1) : strcmp(x->op, y->op);
}

/* How many of counts[] are in use when the node is counted, too. */
static int count_op(const ir_node *node, int n, op_count *counts)
{
    if (!is_op(node))
        return n;
    int k = 0;
    while (k < n && strcmp(counts[k].op, node->is.op) != 0)
        k++;
    counts[k].op = node->is.op;
    counts[k].n++;
    return k < n ? n : n + 1;
}

/* The ops of a graph and its bodies, the most frequent first; their number, -1 when memory is
 * out. */
static int count_ops(const ir *v, op_count **counts)
{
    int n = 0;
    *counts = calloc((size_t)v->n_all + 1, sizeof **counts);
    if (!*counts)
        return -1;
    for (int b = 0; b < v->n_bodies; b++)
        for (int i = 0; i < v->bodies[b].n_nodes; i++)
            n = count_op(&v->bodies[b].nodes[i], n, *counts);
    qsort(*counts, (size_t)n, sizeof **counts, by_count);
    return n;
}

/* One fact after the other, as text. */
static void put_port(FILE *out, const ir *v, const char *name, bool first)
{
    const ir_node *n = ir_find(v, name);
    fprintf(out, "%s", first ? "" : "\n");
    put_plain_text(out, name);
    if (n)
        fprintf(out, " %s[%s]", tp_dtype_name(n->is.dtype), n->dims);
}

static void put_file(const shown *w, FILE *out)
{
    const about *a = &w->m->about;
    if (!a->text) {
        fputs("saved by tp_graph_save", out);
        return;
    }
    fprintf(out, "ONNX, IR version %ld", a->ir_version);
    for (int i = 0; i < a->n_opsets; i++) {
        fprintf(out, ", opset %d", a->opsets[i].n);
        if (*a->opsets[i].domain) {
            fputs(" of ", out);
            put_plain_text(out, a->opsets[i].domain);
        }
    }
}

/* Of the file. */
static void put_operators(const shown *w, FILE *out)
{
    const about *a = &w->m->about;
    for (int i = 0; i < a->n_ops; i++) {
        fprintf(out, "%s%d ", i ? ", " : "", a->ops[i].n);
        if (*a->ops[i].domain) {
            put_plain_text(out, a->ops[i].domain);
            fputs("::", out);
        }
        put_plain_text(out, a->ops[i].op);
    }
}

static void put_inputs(const shown *w, FILE *out)
{
    for (int i = 0; i < w->m->n_in; i++)
        put_port(out, &w->imported, w->m->in[i], i == 0);
}

static void put_outputs(const shown *w, FILE *out)
{
    for (int i = 0; i < w->m->n_out; i++)
        put_port(out, &w->imported, w->m->out[i], i == 0);
}

static void put_ops(const shown *w, FILE *out)
{
    for (int i = 0; i < w->n_ops; i++)
        fprintf(out, "%s%d %s", i ? ", " : "", w->ops[i].n, w->ops[i].op);
}

/* Sizes that are taken to be equal: what a node that assumes has, where its operand has others. */
typedef struct equation {
    const char *own, *taken;
    const char *name; /* of the node, or NULL */
} equation;

static void each_equation(const shown *w, void (*put)(FILE *out, const equation *e, bool first),
                          FILE *out)
{
    bool first = true;
    for (int i = 0; i < w->imported.n_bodies; i++) {
        const ir_body *b = &w->imported.bodies[i];
        for (int k = 0; k < b->n_nodes; k++) {
            const ir_node *n = &b->nodes[k];
            const bool assumes = strcmp(n->is.op, "assume") == 0;
            for (int axis = 0; axis < n->is.rank && assumes; axis++) {
                const ir_node *of = &b->nodes[n->in[0]];
                const equation e = {of->sizes[axis], n->sizes[axis], n->is.name};
                if (of->is.shape[axis] == n->is.shape[axis])
                    continue;
                put(out, &e, first);
                first = false;
            }
        }
    }
}

/* "2*(n/2) = n (Add_3 sizes 0)" */
static void put_equation(FILE *out, const equation *e, bool first)
{
    fprintf(out, "%s%s = %s", first ? "" : "\n", e->own, e->taken);
    if (e->name) {
        fputs(" (", out);
        put_plain_text(out, e->name);
        fputs(")", out);
    }
}

static void put_assumed(const shown *w, FILE *out)
{
    each_equation(w, put_equation, out);
}

static void put_weights(const shown *w, FILE *out)
{
    fprintf(out, "%lld parameters; %lld weights, %.2f MiB", (long long)w->n_params,
            (long long)w->n_weights, (double)w->weight_bytes / 1048576);
}

static void put_stage(const shown *w, FILE *out)
{
    char name[MOST_NAME];
    stage_name(w->s->after, name);
    fprintf(out, "after %s: %d nodes", is_last(w->s->after) ? "all passes" : name,
            w->v.bodies->n_nodes);
    if (w->v.n_bodies > 1)
        fprintf(out, ", %d in bodies of blocks", w->v.n_all - w->v.bodies->n_nodes);
}

typedef struct fact {
    const char *name;
    void (*put)(const shown *w, FILE *out);
} fact;

enum { OF_FILE = 2 }; /* the first ones need no graph */
static const fact facts[] = {
    {"file",      put_file     },
    {"operators", put_operators},
    {"inputs",    put_inputs   },
    {"outputs",   put_outputs  },
    {"assumes",   put_assumed  },
    {"weights",   put_weights  },
    {"graph",     put_stage    },
    {"ops",       put_ops      },
};
enum { N_FACTS = sizeof facts / sizeof *facts };

/* As text, freed by free(); NULL when memory is out. */
static char *fact_text(const shown *w, const fact *f)
{
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    f->put(w, out);
    const bool whole = !ferror(out);
    if (fclose(out) == 0 && whole)
        return text;
    free(text);
    return NULL;
}

/* ---- formats ------------------------------------------------------------------------------------------ */

static int put_facts(const shown *w, int n)
{
    put_plain_text(stdout, w->m->path);
    printf("\n");
    for (int i = 0; i < n; i++) {
        char *text = fact_text(w, &facts[i]);
        if (!text)
            return cli_no_memory();
        const char *label = facts[i].name;
        for (char *line = text, *next; *text && line; line = next, label = "") {
            next = strchr(line, '\n');
            if (next)
                *next++ = 0;
            printf("  %-11s%s\n", label, line);
        }
        free(text);
    }
    return CLI_GOOD;
}

static int show_text(const shown *w)
{
    const int status = put_facts(w, N_FACTS);
    if (status != CLI_GOOD)
        return status;
    const settings *s = w->s;
    const bool other = s->loops || s->memory || s->source;
    const bool asked = s->graph || s->kernels || s->after != AFTER_IMPORT;
    const bool graph = s->kernels || (!other && (asked || !isatty(STDOUT_FILENO)));
    if (!graph && !other)
        printf("\n--graph prints the graph, --format html draws it\n");
    const char *source = s->source ? tp_program_source(w->program) : NULL;
    char *const all[] = {
        graph ? tp_graph_text(w->graph) : NULL,
        s->kernels ? tp_program_text(w->program) : NULL,
        s->loops ? tp_program_loops_text(w->program) : NULL,
        s->memory ? tp_program_memory_text(w->program) : NULL,
    };
    const bool ok = (all[0] || !graph) && (all[1] || !s->kernels) && (all[2] || !s->loops) &&
                    (all[3] || !s->memory);
    for (int i = 0; i < 4; i++) {
        if (all[i] && ok)
            printf("\n%s", all[i]);
        tp_free(w->m->tp, all[i]);
    }
    if (!ok)
        return cli_no_memory();
    if (source)
        printf("\n%s", source);
    else if (s->source && tp_program_wait(w->program) != TP_OK) /* it says why */
        return cli_refuse_error(w->m->path, w->m->tp);
    return CLI_GOOD;
}

static int show_dot(const shown *w)
{
    char *text = tp_graph_dot(w->graph);
    if (!text)
        return cli_no_memory();
    fputs(text, stdout);
    tp_free(w->m->tp, text);
    return CLI_GOOD;
}

static void put_json_type(const ir_node *n)
{
    printf("\"dtype\": \"%s\", \"shape\": [", tp_dtype_name(n->is.dtype));
    for (int i = 0; i < n->is.rank; i++) {
        printf("%s", i ? ", " : "");
        if (n->is.shape[i] >= 0)
            printf("%s", n->sizes[i]);
        else
            put_json_text(stdout, n->sizes[i]);
    }
    printf("]");
}

static void put_json_ports(const shown *w, const char *key, int n, const char *const *names)
{
    printf(" \"%s\": [", key);
    for (int i = 0; i < n; i++) {
        const ir_node *node = ir_find(&w->imported, names[i]);
        printf("%s{\"name\": ", i ? ", " : "");
        put_json_text(stdout, names[i]);
        printf(", ");
        if (node)
            put_json_type(node);
        printf("}");
    }
    printf("],\n");
}

static void put_json_nodes(const ir *v, const ir_body *b, int depth);

static void put_json_bodies(const ir *v, const ir_node *n, int depth)
{
    printf("\"bodies\": [");
    for (int k = 0; k < n->is.n_bodies; k++) {
        const ir_body *b = &v->bodies[n->body + k];
        printf("%s{\"body\": \"%s\", ", k ? ", " : "", b->word);
        if (*b->place) {
            printf("\"place\": ");
            put_json_text(stdout, b->place);
            printf(", ");
        }
        const char *word = "";
        for (int i = 0; i < b->n_results; i++) { /* those of one word come together */
            const bool same = strcmp(word, b->results[i].word) == 0;
            word = b->results[i].word;
            if (same)
                printf(", %d", b->results[i].node);
            else
                printf("%s\"%s\": [%d", i ? "], " : "", word, b->results[i].node);
        }
        printf("%s\"nodes\": [", b->n_results ? "], " : "");
        put_json_nodes(v, b, depth + 1);
        printf("\n%*s]}", depth + 1, "");
    }
    printf("], ");
}

static void put_json_node(const ir *v, const ir_body *b, int i, int depth)
{
    const ir_node *n = &b->nodes[i];
    const char *name = ir_name_of(n);
    printf("%s\n%*s{\"id\": %d, \"op\": \"%s\", ", i ? "," : "", depth + 1, "", i, n->is.op);
    if (name) {
        printf("\"name\": ");
        put_json_text(stdout, name);
        printf(", ");
    }
    if (n->is.n_operands) {
        printf("\"inputs\": [");
        for (int k = 0; k < n->is.n_operands; k++)
            printf("%s%d", k ? ", " : "", n->in[k]);
        printf("], ");
    }
    if (n->is.takes)
        printf("\"takes\": \"%s\", ", *n->is.takes ? n->is.takes : "captured");
    if (n->is.from >= 0)
        printf("\"from\": %d, ", n->is.from);
    const char *const more[][2] = {
        {"value",      n->value},
        {"attributes", n->attrs},
        {"place",      n->place},
    };
    for (size_t k = 0; k < sizeof more / sizeof *more; k++)
        if (more[k][1] && *more[k][1]) {
            printf("\"%s\": ", more[k][0]);
            put_json_text(stdout, more[k][1]);
            printf(", ");
        }
    if (n->is.n_bodies)
        put_json_bodies(v, n, depth + 1);
    put_json_type(n);
    printf("}");
}

static void put_json_nodes(const ir *v, const ir_body *b, int depth)
{
    for (int i = 0; i < b->n_nodes; i++)
        put_json_node(v, b, i, depth);
}

static void put_json_about(const about *a)
{
    if (!a->text)
        return;
    printf(" \"ir_version\": %ld,\n \"opsets\": {", a->ir_version);
    for (int i = 0; i < a->n_opsets; i++) {
        printf("%s", i ? ", " : "");
        put_json_text(stdout, *a->opsets[i].domain ? a->opsets[i].domain : "ai.onnx");
        printf(": %d", a->opsets[i].n);
    }
    printf("},\n \"operators\": [");
    for (int i = 0; i < a->n_ops; i++) {
        printf("%s{\"domain\": ", i ? ", " : "");
        put_json_text(stdout, *a->ops[i].domain ? a->ops[i].domain : "ai.onnx");
        printf(", \"operator\": ");
        put_json_text(stdout, a->ops[i].op);
        printf(", \"count\": %d}", a->ops[i].n);
    }
    printf("],\n");
}

static void put_json_equation(FILE *out, const equation *e, bool first)
{
    fprintf(out, "%s{\"size\": ", first ? "" : ", ");
    put_json_text(out, e->own);
    fputs(", \"equals\": ", out);
    put_json_text(out, e->taken);
    fputs(", \"node\": ", out);
    if (e->name)
        put_json_text(out, e->name);
    else
        fputs("null", out);
    fputs("}", out);
}

static int show_json(const shown *w)
{
    printf("{\"file\": ");
    put_json_text(stdout, w->m->path);
    printf(",\n");
    put_json_about(&w->m->about);
    put_json_ports(w, "inputs", w->m->n_in, w->m->in);
    put_json_ports(w, "outputs", w->m->n_out, w->m->out);
    printf(" \"assumes\": [");
    each_equation(w, put_json_equation, stdout);
    printf("],\n");
    printf(" \"parameters\": %lld, \"weights\": %lld, \"weight_bytes\": %lld,\n \"ops\": {",
           (long long)w->n_params, (long long)w->n_weights, (long long)w->weight_bytes);
    for (int i = 0; i < w->n_ops; i++)
        printf("%s\"%s\": %d", i ? ", " : "", w->ops[i].op, w->ops[i].n);
    printf("},\n \"nodes\": [");
    put_json_nodes(&w->v, w->v.bodies, 1);
    printf("\n ]}\n");
    return CLI_GOOD;
}

static int show_html(const shown *w)
{
    char *texts_of[N_FACTS] = {0};
    const char *pairs[N_FACTS][2];
    int status = CLI_GOOD;
    for (int i = 0; i < N_FACTS; i++) {
        texts_of[i] = fact_text(w, &facts[i]);
        pairs[i][0] = facts[i].name;
        pairs[i][1] = texts_of[i];
        if (!texts_of[i])
            status = cli_no_memory();
    }
    const page p = {.title = w->m->path,
                    .v = &w->v,
                    .n_facts = N_FACTS,
                    .facts = (const char *const(*)[2])pairs,
                    .n_out = w->m->n_out,
                    .out = w->m->out};
    if (status == CLI_GOOD)
        status = page_write(&p);
    for (int i = 0; i < N_FACTS; i++)
        free(texts_of[i]);
    return status;
}

/* ---- all together --------------------------------------------------------------------------------------- */

static int show_model(const settings *s, model *m)
{
    static int (*const formats[])(const shown *) = {show_text, show_dot, show_json, show_html};
    shown w = {.s = s, .m = m, .graph = m->graph};
    int status = CLI_GOOD;
    if (s->after != AFTER_IMPORT) {
        char name[MOST_NAME];
        const tp_compile_options opt = {
            .engine = s->source ? TP_ENGINE_AUTO : TP_ENGINE_REFERENCE,
            .freeze = true,
            .memory_limit = s->limit,
            .stop_after = is_last(s->after) ? NULL : stage_name(s->after, name)};
        w.program = model_compile(m, &opt);
        w.graph = tp_program_graph(w.program);
        status = w.program ? CLI_GOOD : CLI_BAD;
    }
    if (status == CLI_GOOD &&
        (!ir_read(&w.imported, m->tp, m->graph) || !ir_read(&w.v, m->tp, w.graph)))
        status = cli_no_memory();
    if (status == CLI_GOOD && (w.n_ops = count_ops(&w.v, &w.ops)) < 0)
        status = cli_no_memory();
    if (status == CLI_GOOD) {
        count_weights(&w);
        status = formats[s->format](&w);
    }
    free(w.ops);
    return status;
}

static int run(int argc, char **argv)
{
    settings s = {0};
    fixed_dims d = {0};
    texts operands;
    int status;
    if (cli_parse(&cli_show, argc, argv, &s, &operands, &status)) {
        status = CLI_BAD;
        const char *planned = s.kernels  ? "kernels"
                              : s.loops  ? "loops"
                              : s.memory ? "memory"
                              : s.source ? "source"
                                         : NULL;
        if (planned && s.after == AFTER_IMPORT)
            s.after = last_stage();
        if (planned && s.format != AS_TEXT) {
            cli_refuse(NULL, "--%s is for --format text", planned);
        } else if (cli_dims(&s.dims, &d)) {
            model m;
            const shown file = {.s = &s, .m = &m};
            if (model_open(&m, operands.v[0], &d, &s.inputs, s.direct_conv))
                status = show_model(&s, &m);
            else if (m.about.text &&
                     s.format == AS_TEXT) /* why it cannot be read has been said */
                put_facts(&file, OF_FILE);
            model_close(&m);
        }
    }
    cli_dims_free(&d);
    cli_parsed_free(&cli_show, &s, &operands);
    return status;
}

const command cli_show = {
    .name = "show",
    .operands = "MODEL",
    .about = "Shows what a model is made of.",
    .text =
        "The text is what the model takes and gives, its weights and ops, then, where it does "
        "not\n"
        "go to a terminal, the graph, a line per node:\n\n"
        "  %3 = mul %1, %2 : f32[batch,10]\n\n"
        "After import the graph is as the file says it; the passes change it to what is run, "
        "where\nweights are constants. --kernels says which nodes are computed together, and "
        "where values lie.\n"
        "\n"
        "examples:\n"
        "  tapir show model.onnx | less\n"
        "  tapir show model.onnx --format html >model.html\n"
        "  tapir show model.onnx --after all --format dot | dot -Tsvg >model.svg\n"
        "  tapir show model.onnx --kernels --dim batch=1\n"
        "  tapir show model.onnx --loops\n"
        "  tapir show model.onnx --memory\n",
    .options = options,
    .least_operands = 1,
    .most_operands = 1,
    .run = run,
};
