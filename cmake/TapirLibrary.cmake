# The library, shared (`tapir`) and static (`tapir_static`), from one set of objects.

include(CheckLinkerFlag)

set(tapir_generated "${PROJECT_BINARY_DIR}/generated")

file(GLOB_RECURSE tapir_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/*.c")
file(GLOB tapir_isa_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/kernel/isa/*.c")
file(GLOB tapir_op_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/op/*.c")
list(REMOVE_ITEM tapir_sources ${tapir_isa_sources} ${tapir_op_sources})
# What runs once per program, once per element of a rare type, or as an oracle.
set(tapir_small_sources ${tapir_sources} ${tapir_op_sources})
list(FILTER tapir_small_sources INCLUDE REGEX
  "/src/(ir|codegen|graph|opt|nn|onnx)/|/core/(format|npy|dim|value|variable)\\.c$|/grad/check\\.c$|/capture/(walk|seen|lift|lift_cond|lift_loop|flow_form|flow_text|flow_sets|tree_text|arguments|blocks|doubts|function_c|purity|segment_count|segment_graph)\\.c$|/base/(env|log|file|hash)\\.c$|/op/(reduce_fast|reduce_ref|index|scan|sort|join|elem_ref|random|conv|composite|sizes|window|assign|call|matmul|move|reduction|select|trap|pool)\\.c$")
list(FILTER tapir_small_sources EXCLUDE REGEX
  "/ir/graph\\.c$|/graph/(tile_run|tile_block|exec_tiles)\\.c$") # every backward sweep, every run by tiles
list(REMOVE_ITEM tapir_sources ${tapir_small_sources})
list(REMOVE_ITEM tapir_op_sources ${tapir_small_sources})

# ---- kernel text: each src/kernel/NAME.h is compiled and also embedded as text ----------

file(GLOB tapir_texts CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/kernel/*.h")
list(FILTER tapir_texts EXCLUDE REGEX "(/text|/convref|_host)\\.h$")

if(CMAKE_CROSSCOMPILING)
  find_program(TAPIR_HOST_CC NAMES cc gcc clang REQUIRED DOC "compiler for tools run while building")
  set(tapir_embed "${PROJECT_BINARY_DIR}/embed")
  add_custom_command(OUTPUT "${tapir_embed}"
    COMMAND "${TAPIR_HOST_CC}" -O1 -o "${tapir_embed}" "${PROJECT_SOURCE_DIR}/tools/embed.c"
    DEPENDS "${PROJECT_SOURCE_DIR}/tools/embed.c" "${PROJECT_SOURCE_DIR}/src/base/squeeze.h" VERBATIM)
else()
  add_executable(tapir_embed tools/embed.c)
  set_target_properties(tapir_embed PROPERTIES OUTPUT_NAME embed)
  set(tapir_embed tapir_embed)
endif()

file(MAKE_DIRECTORY "${tapir_generated}/kernel")
add_custom_command(
  OUTPUT "${tapir_generated}/kernel_text.c" "${tapir_generated}/kernel/text.h"
  COMMAND ${tapir_embed} "${tapir_generated}/kernel_text.c" "${tapir_generated}/kernel/text.h"
          ${tapir_texts}
  DEPENDS ${tapir_embed} ${tapir_texts}
  COMMENT "Embedding the kernel text" VERBATIM)
add_custom_target(tapir_text DEPENDS "${tapir_generated}/kernel_text.c")

# ---- objects ----------------------------------------------------------------------------

# What reads bytes from outside, or writes to buffers of its own, is hardened; all of it would be 50 KB.
set(tapir_hardened_sources ${tapir_sources} ${tapir_small_sources})
list(FILTER tapir_hardened_sources INCLUDE REGEX
  "/src/base/|/codegen/(build|cache|cc|folder|loader|scratch)\\.c$|/core/(fail|format|npy)\\.c$|/graph/store\\.c$|/ir/(literal|parse|read_values|read_words)\\.c$|/onnx/(elements|external|model|onnx_lists|onnx_values|proto|wire)\\.c$")
set_source_files_properties(${tapir_hardened_sources} PROPERTIES COMPILE_OPTIONS
  "${tapir_hardening}")

function(tapir_object_library name optimised)
  add_library(${name} OBJECT ${ARGN})
  add_dependencies(${name} tapir_text)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${name} PRIVATE
    "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src" "${tapir_generated}")
  target_link_libraries(${name} PRIVATE tapir_flags tapir_numeric ${optimised})
endfunction()

tapir_object_library(tapir_objects tapir_lean ${tapir_sources} "${tapir_generated}/kernel_text.c")
tapir_object_library(tapir_op_objects tapir_lean_op ${tapir_op_sources})
tapir_object_library(tapir_small_objects tapir_small ${tapir_small_sources})
set(tapir_objects $<TARGET_OBJECTS:tapir_objects> $<TARGET_OBJECTS:tapir_op_objects>
  $<TARGET_OBJECTS:tapir_small_objects>)

# src/kernel/isa/*.c are compiled once per instruction set; which one runs is chosen at run
# time. The flags allow instructions, they never allow another result.
set(tapir_isa_avx2 -mavx2 -mfma -mf16c -mbmi2)
set(tapir_isa_avx512 -mavx512f -mavx512dq -mavx512bw -mavx512vl -mavx2 -mfma -mf16c -mbmi2
  -mprefer-vector-width=512)
set(tapir_isas base)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  list(APPEND tapir_isas avx2 avx512)
endif()
foreach(isa IN LISTS tapir_isas)
  set(optimised tapir_lean_isa)
  if(isa STREQUAL "base" AND "avx2" IN_LIST tapir_isas)
    set(optimised tapir_small)
  endif()
  tapir_object_library(tapir_isa_${isa} ${optimised} ${tapir_isa_sources})
  target_compile_definitions(tapir_isa_${isa} PRIVATE TPI_ISA=${isa})
  target_compile_options(tapir_isa_${isa} PRIVATE ${tapir_isa_${isa}})
  list(APPEND tapir_objects $<TARGET_OBJECTS:tapir_isa_${isa}>)
endforeach()

# ---- the two libraries ------------------------------------------------------------------

add_library(tapir SHARED ${tapir_objects})
add_library(tapir_static STATIC ${tapir_objects})
add_library(tapir::tapir ALIAS tapir)
add_library(tapir::tapir_static ALIAS tapir_static)
set_target_properties(tapir PROPERTIES SOVERSION 0 VERSION ${PROJECT_VERSION} LINKER_LANGUAGE C)
set_target_properties(tapir_static PROPERTIES OUTPUT_NAME tapir LINKER_LANGUAGE C)
foreach(lib tapir tapir_static)
  target_include_directories(${lib} INTERFACE
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>"
    "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  target_link_libraries(${lib} PRIVATE ${CMAKE_DL_LIBS})
endforeach()
target_link_libraries(tapir PRIVATE tapir_hardened_link)
target_link_options(tapir PRIVATE -Wl,-z,nodelete) # contexts and threads outlive a dlclose
if(TAPIR_SANITIZE)
  target_link_options(tapir PRIVATE -fsanitize=${TAPIR_SANITIZE})
  target_link_options(tapir_static INTERFACE $<BUILD_INTERFACE:-fsanitize=${TAPIR_SANITIZE}>)
else()
  target_link_options(tapir PRIVATE -Wl,--no-undefined -Wl,-z,noseparate-code)
  check_linker_flag(C -Wl,-Bsymbolic-functions TAPIR_BINDS_ITS_FUNCTIONS)
  if(TAPIR_BINDS_ITS_FUNCTIONS) # rules are written in public ops: they are called straight
    target_link_options(tapir PRIVATE -Wl,-Bsymbolic-functions)
  endif()
endif()
check_linker_flag(C -Wl,-z,pack-relative-relocs TAPIR_PACKS_RELOCATIONS)
if(TAPIR_PACKS_RELOCATIONS) # the tables of kernels are full of them
  target_link_options(tapir PRIVATE -Wl,-z,pack-relative-relocs)
endif()
