/* How a Cortex-M begins: a stack, a place to go, and the floating-point unit switched on. */
#include <stdint.h>

extern char __stack[];
void _start(void); /* newlib's */

void reset(void)
{
    *(volatile uint32_t *)0xe000ed88u |= 0xfu << 20; /* CPACR; nothing where there is none */
    __asm__ volatile("dsb\n isb");
    _start();
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    __stack, (const void *)reset};
