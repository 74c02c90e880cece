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
