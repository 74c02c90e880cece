# tapir_flags: what every C file of the project is compiled with.
# tapir_numeric: what the numerics contract asks of all code that computes (docs/numerics.md).

add_library(tapir_flags INTERFACE)
target_compile_options(tapir_flags INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Wmissing-prototypes -Wstrict-prototypes -Werror)
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
  # A type that differs only in vector alignment is passed in memory by us, never by value.
  target_compile_options(tapir_flags INTERFACE -Wno-psabi)
endif()
if(TAPIR_CHECKED)
  target_compile_definitions(tapir_flags INTERFACE TPI_CHECKED)
endif()
if(TAPIR_STRESS)
  target_compile_definitions(tapir_flags INTERFACE TPI_STRESS)
endif()
if(TAPIR_SANITIZE)
  target_compile_options(tapir_flags INTERFACE
    -fsanitize=${TAPIR_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(tapir_flags INTERFACE -fsanitize=${TAPIR_SANITIZE})
endif()

add_library(tapir_numeric INTERFACE)
target_compile_options(tapir_numeric INTERFACE
  -ffp-contract=off -fno-math-errno -fno-trapping-math)

# What makes a mistake of ours harder to use. tapir_hardening: flags for files that read bytes from outside.
# tapir_hardened_link: tables are filled in at once when a program is loaded, and locked.
set(tapir_hardening)
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT TAPIR_SANITIZE)
  set(tapir_hardening -fstack-protector -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
endif()
add_library(tapir_hardened_link INTERFACE)
target_link_options(tapir_hardened_link INTERFACE -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack)

# How the parts of the library are optimised in a release. gcc's -O3 made it 2.2 MB and hardly
# faster. What the loops need is vectorising by the cost model of -O3; they can do without its
# loop versions, without several vector remainders for each loop, and without padding. Nothing
# unwinds through C, so the tables for that are left out.
#
#   tapir_lean       the library
#   tapir_lean_op    src/op: many kernels, one per element type, that need less inlining
#   tapir_lean_isa   src/kernel/isa: as much inlining as with -O3; jumps threaded through the loops of tiles
#                    copy them and make none faster
#   tapir_small      small above all: what is seldom run
#   tapir_smallest   smaller still: what is neither part of a step or a run nor a loop over elements. What
#                    gcc moves out of loops there takes registers that have to be saved, and so do parts of structs
#                    (together 1 %). And src/kernel/isa
#                    for x86-64 without AVX2, before 2013
foreach(part IN ITEMS lean lean_op lean_isa small smallest)
  add_library(tapir_${part} INTERFACE)
endforeach()
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  foreach(part IN ITEMS lean small smallest) # a program takes from libtapir.a what it reaches: --gc-sections
    target_compile_options(tapir_${part} INTERFACE -ffunction-sections -fdata-sections)
  endforeach()
  target_compile_options(tapir_lean INTERFACE -O2 -fno-asynchronous-unwind-tables)
  target_compile_options(tapir_small INTERFACE -Os -fno-asynchronous-unwind-tables)
  target_compile_options(tapir_smallest INTERFACE
    $<IF:$<AND:$<C_COMPILER_ID:GNU>,$<VERSION_LESS:$<C_COMPILER_VERSION>,12>>,-Os,-Oz> -fno-asynchronous-unwind-tables)
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    foreach(part IN ITEMS lean small smallest) # what it doubles is 14 KB, by gcc 14, and 1 KB of small
      target_compile_options(tapir_${part} INTERFACE -fno-tree-dominator-opts)
    endforeach()
    target_compile_options(tapir_smallest INTERFACE
      -fno-move-loop-invariants -fno-ipa-sra -fno-inline-functions-called-once
      -fno-caller-saves -fno-tree-sra -fno-tree-loop-im)
    target_compile_options(tapir_lean INTERFACE
      -ftree-vectorize -fvect-cost-model=dynamic "SHELL:--param vect-epilogues-nomask=0"
      -falign-functions=1 -falign-loops=1 -falign-jumps=1)
    target_compile_options(tapir_lean_op INTERFACE "SHELL:--param max-inline-insns-single=30")
    target_compile_options(tapir_lean_isa INTERFACE -fno-thread-jumps
      -finline-functions "SHELL:--param max-inline-insns-single=200"
      "SHELL:--param max-inline-insns-auto=30" "SHELL:--param inline-min-speedup=15"
      "SHELL:--param early-inlining-insns=14")
  endif()
endif()
target_link_libraries(tapir_lean_op INTERFACE tapir_lean)
target_link_libraries(tapir_lean_isa INTERFACE tapir_lean)
