#define _GNU_SOURCE
#include "base/fiber.h"

#include "base/keep_errno.h"
#include "base/mem.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define THREAD_SANITIZER
#endif
#endif
#if defined(TPI_ADDRESS_SANITIZER)
#include <sanitizer/common_interface_defs.h>
#elif defined(THREAD_SANITIZER)
#include <sanitizer/tsan_interface.h>
#endif

enum { STACK = 512 << 10 };

/* ---- switches ---------------------------------------------------------------------------------------------------------
 *
 * tpi_switch(&from, to) puts what a function keeps for its caller on the stack, and where that ends into `from`; and goes
 * on where `to` was left. A new stack looks as if it had been left in front of tpi_switch_enter, which calls a function
 * that never returns. */

#if defined(__x86_64__) && defined(__ELF__) && !defined(__ILP32__)
/* mode, r15, r14, r13, r12, rbx, rbp, return */
enum { N_KEPT = 8, RUN = 4, USER = 3, RETURN = 7 };
__asm__(".text\n"
        ".hidden tpi_switch\n"
        ".globl tpi_switch\n"
        ".type tpi_switch, @function\n"
        "tpi_switch:\n"
        "    push %rbp\n"
        "    push %rbx\n"
        "    push %r12\n"
        "    push %r13\n"
        "    push %r14\n"
        "    push %r15\n"
        "    sub $8, %rsp\n"
        "    stmxcsr (%rsp)\n"
        "    fnstcw 4(%rsp)\n"
        "    mov %rsp, (%rdi)\n"
        "    mov %rsi, %rsp\n"
        "    ldmxcsr (%rsp)\n"
        "    fldcw 4(%rsp)\n"
        "    add $8, %rsp\n"
        "    pop %r15\n"
        "    pop %r14\n"
        "    pop %r13\n"
        "    pop %r12\n"
        "    pop %rbx\n"
        "    pop %rbp\n"
        "    ret\n"
        ".size tpi_switch, .-tpi_switch\n"
        ".hidden tpi_switch_enter\n"
        ".globl tpi_switch_enter\n"
        ".type tpi_switch_enter, @function\n"
        "tpi_switch_enter:\n"
        "    .cfi_startproc\n"
        "    .cfi_undefined rip\n"
        "    mov %r13, %rdi\n"
        "    call *%r12\n"
        "    ud2\n"
        "    .cfi_endproc\n"
        ".size tpi_switch_enter, .-tpi_switch_enter\n");

static uintptr_t mode_now(void)
{
    uint32_t mode[2] = {__builtin_ia32_stmxcsr(), 0};
    uintptr_t both;
    __asm__("fnstcw %0" : "=m"(mode[1]));
    memcpy(&both, mode, sizeof both);
    return both;
}
#define TPI_SWITCH

#elif defined(__aarch64__) && defined(__ELF__)
enum { N_KEPT = 22, RUN = 2, USER = 3, RETURN = 1 }; /* fpcr, x30, x19 ... x29, -, d8 ... d15 */
__asm__(".text\n"
        ".hidden tpi_switch\n"
        ".globl tpi_switch\n"
        ".type tpi_switch, %function\n"
        "tpi_switch:\n"
        "    sub sp, sp, #176\n"
        "    mrs x9, fpcr\n"
        "    stp x9, x30, [sp]\n"
        "    stp x19, x20, [sp, #16]\n"
        "    stp x21, x22, [sp, #32]\n"
        "    stp x23, x24, [sp, #48]\n"
        "    stp x25, x26, [sp, #64]\n"
        "    stp x27, x28, [sp, #80]\n"
        "    str x29, [sp, #96]\n"
        "    stp d8, d9, [sp, #112]\n"
        "    stp d10, d11, [sp, #128]\n"
        "    stp d12, d13, [sp, #144]\n"
        "    stp d14, d15, [sp, #160]\n"
        "    mov x9, sp\n"
        "    str x9, [x0]\n"
        "    mov sp, x1\n"
        "    ldp x9, x30, [sp]\n"
        "    msr fpcr, x9\n"
        "    ldp x19, x20, [sp, #16]\n"
        "    ldp x21, x22, [sp, #32]\n"
        "    ldp x23, x24, [sp, #48]\n"
        "    ldp x25, x26, [sp, #64]\n"
        "    ldp x27, x28, [sp, #80]\n"
        "    ldr x29, [sp, #96]\n"
        "    ldp d8, d9, [sp, #112]\n"
        "    ldp d10, d11, [sp, #128]\n"
        "    ldp d12, d13, [sp, #144]\n"
        "    ldp d14, d15, [sp, #160]\n"
        "    add sp, sp, #176\n"
        "    ret\n"
        ".size tpi_switch, .-tpi_switch\n"
        ".hidden tpi_switch_enter\n"
        ".globl tpi_switch_enter\n"
        ".type tpi_switch_enter, %function\n"
        "tpi_switch_enter:\n"
        "    .cfi_startproc\n"
        "    .cfi_undefined x30\n"
        "    mov x0, x20\n"
        "    blr x19\n"
        "    brk #1\n"
        "    .cfi_endproc\n"
        ".size tpi_switch_enter, .-tpi_switch_enter\n");

static uintptr_t mode_now(void)
{
    uintptr_t mode;
    __asm__ volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
}
#define TPI_SWITCH

#elif defined(__riscv) && __riscv_xlen == 64 && defined(__riscv_float_abi_double) &&           \
    defined(__ELF__)
enum { N_KEPT = 26, RUN = 2, USER = 3, RETURN = 1 }; /* fcsr, ra, s0 ... s11, fs0 ... fs11 */
/* clang-format off */
#define TPI_SAVE(n, at) "    sd s" #n ", " #at "(sp)\n"
#define TPI_LOAD(n, at) "    ld s" #n ", " #at "(sp)\n"
#define TPI_SAVE_FLOAT(n, at) "    fsd fs" #n ", " #at "(sp)\n"
#define TPI_LOAD_FLOAT(n, at) "    fld fs" #n ", " #at "(sp)\n"
#define TPI_KEPT(X)                                                                            \
    X(0, 16) X(1, 24) X(2, 32) X(3, 40) X(4, 48) X(5, 56) X(6, 64) X(7, 72) X(8, 80) X(9, 88)  \
    X(10, 96) X(11, 104)
#define TPI_KEPT_FLOATS(X)                                                                     \
    X(0, 112) X(1, 120) X(2, 128) X(3, 136) X(4, 144) X(5, 152) X(6, 160) X(7, 168) X(8, 176)  \
    X(9, 184) X(10, 192) X(11, 200)
__asm__(".text\n"
        ".hidden tpi_switch\n"
        ".globl tpi_switch\n"
        ".type tpi_switch, @function\n"
        "tpi_switch:\n"
        "    addi sp, sp, -208\n"
        "    frcsr t0\n"
        "    sd t0, 0(sp)\n"
        "    sd ra, 8(sp)\n"
        TPI_KEPT(TPI_SAVE)
        TPI_KEPT_FLOATS(TPI_SAVE_FLOAT)
        "    sd sp, 0(a0)\n"
        "    mv sp, a1\n"
        "    ld t0, 0(sp)\n"
        "    fscsr t0\n"
        "    ld ra, 8(sp)\n"
        TPI_KEPT(TPI_LOAD)
        TPI_KEPT_FLOATS(TPI_LOAD_FLOAT)
        "    addi sp, sp, 208\n"
        "    ret\n"
        ".size tpi_switch, .-tpi_switch\n"
        ".hidden tpi_switch_enter\n"
        ".globl tpi_switch_enter\n"
        ".type tpi_switch_enter, @function\n"
        "tpi_switch_enter:\n"
        "    .cfi_startproc\n"
        "    .cfi_undefined ra\n"
        "    mv a0, s1\n"
        "    jalr s0\n"
        "    ebreak\n"
        "    .cfi_endproc\n"
        ".size tpi_switch_enter, .-tpi_switch_enter\n");
/* clang-format on */

static uintptr_t mode_now(void)
{
    uintptr_t mode;
    __asm__ volatile("frcsr %0" : "=r"(mode));
    return mode;
}
#define TPI_SWITCH

#elif defined(__GLIBC__)
#define TPI_UCONTEXT
#include <ucontext.h>
#endif

#if defined(TPI_SWITCH)
typedef void *place; /* where a stack was left */
void tpi_switch(place *from, place to);
void tpi_switch_enter(void);
#elif defined(TPI_UCONTEXT)
typedef ucontext_t place;
#else
typedef char place;
#endif

/* It lies at the top of its memory. */
struct tpi_fiber {
    tpi_fiber *next; /* of those that are idle */
    char *memory;    /* the page that nobody may touch, and the stack */
    size_t page, size;
    place inside, outside;
    void (*run)(void *user);
    void *user;
    bool waits;
#if defined(TPI_ADDRESS_SANITIZER)
    void *fake_inside, *fake_outside;
    const void *low_outside;
    size_t size_outside;
#elif defined(THREAD_SANITIZER)
    void *thread_inside, *thread_outside;
#endif
};

/* ---- what sanitizers are to know --------------------------------------------------------------------------------------- */

static void leave_outside(tpi_fiber *f)
{
#if defined(TPI_ADDRESS_SANITIZER)
    __sanitizer_start_switch_fiber(&f->fake_outside, f->memory + f->page, f->size - f->page);
#elif defined(THREAD_SANITIZER)
    f->thread_outside = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(f->thread_inside, 0);
#else
    (void)f;
#endif
}

static void come_outside(tpi_fiber *f)
{
#if defined(TPI_ADDRESS_SANITIZER)
    __sanitizer_finish_switch_fiber(f->fake_outside, NULL, NULL);
#else
    (void)f;
#endif
}

static void leave_inside(tpi_fiber *f)
{
#if defined(TPI_ADDRESS_SANITIZER)
    __sanitizer_start_switch_fiber(f->waits ? &f->fake_inside : NULL, f->low_outside,
                                   f->size_outside);
#elif defined(THREAD_SANITIZER)
    __tsan_switch_to_fiber(f->thread_outside, 0);
#else
    (void)f;
#endif
}

static void come_inside(tpi_fiber *f, bool again)
{
#if defined(TPI_ADDRESS_SANITIZER)
    __sanitizer_finish_switch_fiber(again ? f->fake_inside : NULL, &f->low_outside,
                                    &f->size_outside);
#else
    (void)f, (void)again;
#endif
}

/* ---- fibers ----------------------------------------------------------------------------------------------------------- */

static void go_from_to(place *from, place *to)
{
#if defined(TPI_SWITCH)
    tpi_switch(from, *to);
#elif defined(TPI_UCONTEXT)
    swapcontext(from, to);
#else
    (void)from, (void)to;
#endif
}

static void go_outside(tpi_fiber *f)
{
    leave_inside(f);
    go_from_to(&f->inside, &f->outside);
}

#if defined(TPI_SWITCH) || defined(TPI_UCONTEXT)
static void enter(tpi_fiber *f)
{
    come_inside(f, false);
    f->run(f->user);
    f->waits = false;
    go_outside(f);
}
#endif

#if defined(TPI_SWITCH)
static void prepare(tpi_fiber *f)
{
    enum { ALIGNED = 16 };
    char *end = (char *)f;
    uintptr_t *top = (uintptr_t *)(void *)(end - (uintptr_t)end % ALIGNED);
    uintptr_t *kept = top - N_KEPT;
    memset(kept, 0, N_KEPT * sizeof *kept);
    kept[0] = mode_now();
    kept[RUN] = (uintptr_t)enter;
    kept[USER] = (uintptr_t)f;
    kept[RETURN] = (uintptr_t)tpi_switch_enter;
    f->inside = kept;
}
#elif defined(TPI_UCONTEXT)
/* makecontext gives integers alone to its function. */
static void enter_halves(unsigned high, unsigned low)
{
    enter((tpi_fiber *)((uintptr_t)((uint64_t)high << 32 | low)));
}

static void prepare(tpi_fiber *f)
{
    getcontext(&f->inside);
    f->inside.uc_stack.ss_sp = f->memory + f->page;
    f->inside.uc_stack.ss_size = (size_t)((char *)f - (f->memory + f->page));
    f->inside.uc_link = NULL;
    const uint64_t self = (uintptr_t)f;
    makecontext(&f->inside, (void (*)(void))enter_halves, 2, (unsigned)(self >> 32),
                (unsigned)self);
}
#endif

static bool go_inside(tpi_fiber *f)
{
    leave_outside(f);
    go_from_to(&f->outside, &f->inside);
    come_outside(f);
    return !f->waits;
}

/* Where the processor keeps return addresses a second time nothing here tells it of another stack. */
static bool has_shadow_stack(void)
{
    uintptr_t top = 0;
#if defined(__x86_64__)
    __asm__("rdsspq %0" : "+r"(top)); /* does nothing where there is none */
#endif
    return top;
}

static tpi_fiber *open_fiber(void)
{
    TPI_KEEP_ERRNO;
    if (has_shadow_stack())
        return NULL;
#if defined(TPI_SWITCH) || defined(TPI_UCONTEXT)
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), size = page + STACK;
    char *memory = mmap(NULL, size, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED)
        return NULL;
    if (mprotect(memory + page, STACK, PROT_READ | PROT_WRITE) != 0) {
        munmap(memory, size);
        return NULL;
    }
    tpi_fiber *f = (tpi_fiber *)(void *)(memory + size) - 1;
    *f = (tpi_fiber){.memory = memory, .page = page, .size = size};
#if defined(THREAD_SANITIZER)
    f->thread_inside = __tsan_create_fiber(0);
#endif
    return f;
#else
    return NULL;
#endif
}

tpi_fiber *tpi_fiber_take(tpi_fiber **idle)
{
    tpi_fiber *f = *idle;
    if (!f)
        return open_fiber();
    *idle = f->next;
    return f;
}

void tpi_fiber_give_back(tpi_fiber **idle, tpi_fiber *f)
{
    f->next = *idle;
    *idle = f;
}

void tpi_fiber_close(tpi_fiber *f)
{
    TPI_KEEP_ERRNO;
    const tpi_fiber was = *f;            /* it lies in that memory */
    tpi_somebodys(was.memory, was.size); /* of what has not returned */
#if defined(THREAD_SANITIZER)
    __tsan_destroy_fiber(was.thread_inside);
#endif
    munmap(was.memory, was.size);
}

void tpi_fibers_close(tpi_fiber **idle, int but)
{
    for (; *idle && but > 0; but--)
        idle = &(*idle)->next;
    while (*idle)
        tpi_fiber_close(tpi_fiber_take(idle));
}

bool tpi_fiber_start(tpi_fiber *f, void (*run)(void *user), void *user)
{
    f->run = run;
    f->user = user;
#if defined(TPI_SWITCH) || defined(TPI_UCONTEXT)
    prepare(f);
#endif
    return go_inside(f);
}

bool tpi_fiber_go_on(tpi_fiber *f)
{
    return go_inside(f);
}

void tpi_fiber_wait(tpi_fiber *f)
{
    f->waits = true;
    go_outside(f);
    come_inside(f, true);
}

tpi_stack tpi_fiber_stack(const tpi_fiber *f)
{
    return (tpi_stack){f->memory + f->page, f->memory + f->size};
}
