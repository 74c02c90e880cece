/* C text from a plan: one function per kernel, and the entry that calls them in order. */
#ifndef TAPIR_RENDER_H
#define TAPIR_RENDER_H

#include "base/strbuf.h"
#include "kernel/abi/library.h"
#include "plan/plan.h"
#include "render/render_alike.h"

/* The entry of every program.
 *     buffers  memory by number; those of bodies are set while it runs
 *     sizes    the symbols' values; behind them, of each whose value a loop sets (how many turns it
 *              took), the most that there is memory for
 *     random   seed and first position of each random node; when bodies draw (plan->draws) only the
 *              seed, and the position of each stream of the plan, which moves on
 *     scratch  tapir_scratch(sizes) bytes
 *     fail     three numbers, zero
 *     library  the kernels it calls; a file that stands alone has no such argument
 * Returns one of these: */
typedef int64_t (*tpi_entry)(void **buffers, int64_t *sizes, int64_t *random,
                             const void *packed, void *scratch, int64_t *fail,
                             const tpk_library *library);
enum {
    TPI_RUN_OK,
    TPI_RUN_INDEX,    /* fail[] = kernel, 1 + position of an index that was out of range, or
                         number of a matrix that was refused */
    TPI_RUN_CAPACITY, /* fail[0] = symbol whose loop takes more turns; nothing is to be read */
    TPI_RUN_STOPPED   /* fail[] = kernel of a loop, the turn that it did not begin */
};
/* Bytes of scratch memory, and of packed constants, at these sizes. */
typedef int64_t (*tpi_program_bytes)(const int64_t *sizes, const tpk_library *library);
/* Packs the constant operands of contractions, once for these sizes. In a library's program those
 * whose buffer is NULL are left out. */
typedef void (*tpi_pack)(void *const *buffers, const int64_t *sizes, void *packed,
                         void *scratch, const tpk_library *library);
#define TPI_ENTRY_SYMBOL "tapir_run"
#define TPI_SCRATCH_SYMBOL "tapir_scratch"
/* Where each of them is to lie, and by which way it is packed, as the packed constants begin. */
typedef int64_t (*tpi_pack_layout)(const int64_t *sizes, int64_t *at,
                                   const tpk_library *library);
#define TPI_PACKED_SYMBOL "tapir_packed"
#define TPI_LAYOUT_SYMBOL "tapir_pack_layout"
#define TPI_PACK_SYMBOL "tapir_pack"

typedef struct tpi_render {
    tpi_bump memory, room; /* of all of it; of the kernel that is rendered */
    const tpi_plan *plan;  /* of the kernels that are rendered */
    const tpi_plan *whole; /* the outermost */
    bool alone; /* for standalone.c: all that it calls is in the text, and all of it is static;
                   else the program calls the library's kernels */
    int units;  /* of the text */
    bool lines; /* for a debugger: text has the places it was made for */
    const char *params; /* of every kernel */
    const char *called; /* before the name of a kernel of src/kernel/abi/library.h */
    tpi_alike alike;    /* the kernels */
    tpi_str body;       /* the one that is rendered */
    tpi_str function;   /* with its head */
    int n_symbols;
    bool *uses_symbol; /* by symbol: does its text? */
    bool has_slots;    /* is it? What is written elsewhere has no slots */
    tpi_str comment;   /* of that kernel */
    tpi_str helpers;   /* functions that kernels call */
    int *name;         /* by node of the kernel: its number there; see tpi_render_name */
    int *named_by;     /* and the kernel that gave it */
    int n_names, naming;
    tpi_alike rooms; /* how much scratch memory kernels need */
    tpi_str scratch; /* of the one that is rendered: "need = ...; most = ..." */
    tpi_str packed;  /* one line per constant that is packed: where it goes */
    tpi_str pack;    /* and how it is packed */
    int n_packed;
    int *packed_of; /* by kernel of the program: which shared one it reads, + 1; 0: none */
    unsigned texts; /* which files of src/kernel it needs, as bits of tpi_text_id */
    unsigned instances[13]; /* of the templates: element types, as bits */
    int n_random;
} tpi_render;

typedef enum tpi_text_id {
    TPI_TEXT_target,
    TPI_TEXT_rounding,
    TPI_TEXT_math_f32,
    TPI_TEXT_math_f64,
    TPI_TEXT_elem,
    TPI_TEXT_reduce,
    TPI_TEXT_reduce_int,
    TPI_TEXT_view,
    TPI_TEXT_library,
    TPI_TEXT_vec,
    TPI_TEXT_philox,
    TPI_TEXT_convspec,
    TPI_TEXT_gemm_32,
    TPI_TEXT_gemm_64,
    TPI_TEXT_stencil_32,
    TPI_TEXT_stencil_64,
    TPI_TEXT_convout_32,
    TPI_TEXT_convout_64,
    TPI_TEXT_convblocks_32,
    TPI_TEXT_conv_32,
    TPI_TEXT_conv_64,
    TPI_TEXT_convtaps_32,
    TPI_TEXT_convdw_32,
    TPI_TEXT_convdw_64,
    TPI_TEXT_winograd_32
} tpi_text_id;

/* The whole program, appended to `out`, as so many translation units, at most `most` and
 * TPI_MAX_UNITS; 0 when out of memory (`out` is then empty). `alone` as in tpi_render. Unit 0 is the
 * text; unit i is tpi_unit_texts[i], which takes its part of it. */
int tpi_render_program(const tpi_plan *p, bool alone, int most, tpi_str *out);
enum { TPI_MAX_UNITS = 8 };
extern const char *const tpi_unit_texts[TPI_MAX_UNITS];

/* render_texts.c. The template of src/kernel of that name; -1: there is none. */
int tpi_template_index(const char *name);
/* Those that r->texts and r->instances say. */
void tpi_render_texts(tpi_render *r, tpi_str *out);

/* All kernels of a plan. */
void tpi_render_plan(tpi_render *r, const tpi_plan *plan);
/* One kernel of r->plan, number `n`, to r->body. */
void tpi_render_nest(tpi_render *r, int n);
void tpi_render_call(tpi_render *r, int n);  /* or a copy */
void tpi_render_block(tpi_render *r, int n); /* those of its bodies are rendered */

/* The number in the program of a buffer of r->plan. */
static inline int tpi_render_buffer(const tpi_render *r, int buffer)
{
    return r->plan->first_buffer + buffer;
}
/* A number that kernels of one function need not share; in r->body. As text: for use in
 * PUT("p[%s]", NUMBER(n)). */
void tpi_render_number(tpi_render *r, int64_t value);
const char *tpi_render_slot(tpi_render *r, tpi_slot_kind kind, int64_t value, char *mark);
#define NUMBER(value) tpi_render_slot(r, TPI_SLOT_NUMBER, value, (char[TPI_SLOT_MARK]){0})
/* A node's number in the kernel, in the order in which they are named: v0, x1. */
int tpi_render_name(tpi_render *r, int node);
/* "s0 * 10": a size as C. */
void tpi_render_size(tpi_render *r, int64_t size);
/* A place or a name, kept from ending the comment it stands in. */
void tpi_render_quoted(tpi_str *s, const char *text);
/* "  mnist.c:41", nothing when it is not known. */
void tpi_render_at(tpi_str *s, const tp_tensor *t);
/* Begins a kernel: its comment, its line. The signature, and the names of the run that its text uses, come when it is
 * done. */
void tpi_render_head(tpi_render *r, int n);
/* A size; one that is a number may differ between kernels of a function. */
void tpi_render_any_size(tpi_render *r, int64_t size);
/* "{10, 20}" */
void tpi_render_sizes(tpi_render *r, int n, const int64_t *v);
/* What a kernel that calls another one hands on behind the table's row. */
static inline const char *tpi_render_last_args(const tpi_render *r)
{
    return r->alone ? "" : ", 0";
}
/* What follows in r->body is for the line of this node: `#line`, if r->lines. At a line's start. */
void tpi_render_place(tpi_render *r, const tp_tensor *t);
/* `const tpk_f32 *restrict v3 = p[1];` for the memory of a node. */
void tpi_render_memory(tpi_render *r, int root, bool write);
/* An element; a one-element constant, or a size, as C. */
void tpi_render_constant(tpi_render *r, tp_dtype type, const void *element);
void tpi_render_literal(tpi_render *r, const tp_tensor *t);

#endif
