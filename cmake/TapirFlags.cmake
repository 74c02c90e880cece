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

# tapir_small: how the library is optimised in a release. gcc's -O3 makes it twice as large (2.2
# MB against 1.0) and no faster: what its loops need is inlining and vectorising as in -O3, one
# scalar remainder for each loop instead of several vector ones, and none of its loop versions.
# Nothing unwinds through C, so the tables for that are left out.
add_library(tapir_small INTERFACE)
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  target_compile_options(tapir_small INTERFACE -O2 -fno-asynchronous-unwind-tables)
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    target_compile_options(tapir_small INTERFACE -ftree-vectorize -fvect-cost-model=dynamic
      "SHELL:--param vect-epilogues-nomask=0" -finline-functions
      "SHELL:--param max-inline-insns-single=200" "SHELL:--param max-inline-insns-auto=30"
      "SHELL:--param inline-min-speedup=15" "SHELL:--param early-inlining-insns=14")
  endif()
endif()
