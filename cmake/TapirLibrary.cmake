# The library, shared (`tapir`) and static (`tapir_static`), from one set of objects.

include(CheckLinkerFlag)

set(tapir_generated "${PROJECT_BINARY_DIR}/generated")

file(GLOB_RECURSE tapir_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/*.c")
file(GLOB tapir_isa_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/kernel/isa/*.c")
list(REMOVE_ITEM tapir_sources ${tapir_isa_sources})

# What runs once per eager op, per call of a captured function, per step of a run or of a sweep. All
# other files run once per program, or as an oracle, and are compiled to be small.
set(tapir_hot_sources
  base/mem base/stack base/strbuf base/workers
  batch/queue batch/sample_rows batch/units
  capture/function capture/pace capture/record/launches capture/record/tree
  capture/replay/pure capture/replay/relaunch capture/replay/replay capture/run/direct capture/run/frame capture/run/segment
  capture/run/settle
  core/copy core/create core/ctx core/dtype core/fail core/owner core/tensor
  grad/sweep grad/sweep_call grad/sweep_go
  grad/sweep_products grad/sweep_ranges grad/sweep_rule
  ir/collect ir/graph ir/outer
  kernel/host/choose_host kernel/host/team_host
  run/cut_run run/exec_tiles run/tile_block run/tile_run)
set(tapir_hot_op_sources
  control/block_call control/control control/turn
  ir/block ir/op_rules op/add_rows op/apply op/binary op/elem_fast op/give op/matmul op/sort op/turn_values
  op/unary)
foreach(list IN ITEMS tapir_hot_sources tapir_hot_op_sources)
  list(TRANSFORM ${list} PREPEND "${PROJECT_SOURCE_DIR}/src/")
  list(TRANSFORM ${list} APPEND ".c")
  foreach(file IN LISTS ${list})
    if(NOT EXISTS "${file}")
      message(FATAL_ERROR "cmake/TapirLibrary.cmake: ${file} is not there")
    endif()
  endforeach()
endforeach()
set(tapir_small_sources ${tapir_sources})
list(REMOVE_ITEM tapir_small_sources ${tapir_hot_sources} ${tapir_hot_op_sources})
# Those of src/op go over elements; the others here are part of each step or run.
set(tapir_smallest_sources ${tapir_small_sources})
list(FILTER tapir_small_sources INCLUDE REGEX "/src/(op/[^/]*$|nn/|core/variable|run/run|run/exec)")
list(REMOVE_ITEM tapir_smallest_sources ${tapir_small_sources})
if(CMAKE_C_COMPILER_ID STREQUAL "GNU" AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|i.86)$")
  # It copies rows, which -Os does by rep movsb, a quarter slower.
  set_source_files_properties("${PROJECT_SOURCE_DIR}/src/op/concat.c"
    PROPERTIES COMPILE_OPTIONS -mstringop-strategy=libcall)
endif()

# ---- kernel text: each header of src/kernel/{text,conv,abi} is compiled and also embedded as text

file(GLOB tapir_texts CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/kernel/text/*.h"
  "${PROJECT_SOURCE_DIR}/src/kernel/conv/*.h" "${PROJECT_SOURCE_DIR}/src/kernel/abi/*.h")
list(FILTER tapir_texts EXCLUDE REGEX "/convref\\.h$")

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
  OUTPUT "${tapir_generated}/kernel_text.c" "${tapir_generated}/kernel/kernel_text.h"
  COMMAND ${tapir_embed} "${tapir_generated}/kernel_text.c" "${tapir_generated}/kernel/kernel_text.h"
          ${tapir_texts}
  DEPENDS ${tapir_embed} ${tapir_texts}
  COMMENT "Embedding the kernel text" VERBATIM)
add_custom_target(tapir_text DEPENDS "${tapir_generated}/kernel_text.c")

# ---- objects ----------------------------------------------------------------------------

# What reads bytes from outside, or writes to buffers of its own, is hardened; all of it would be 50 KB.
file(GLOB tapir_hardened_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/src/base/*.c"
  "${PROJECT_SOURCE_DIR}/src/cc/*.c" "${PROJECT_SOURCE_DIR}/src/op/read/*.c")
foreach(name core/fail core/format core/npy ir/literal run/store onnx/format/elements onnx/format/external
    onnx/format/model onnx/format/onnx_lists onnx/format/onnx_values onnx/format/wire train/inflate train/json
    train/npz train/safetensors train/shards train/zip)
  if(NOT EXISTS "${PROJECT_SOURCE_DIR}/src/${name}.c")
    message(FATAL_ERROR "src/${name}.c, which is to be hardened, is not there")
  endif()
  list(APPEND tapir_hardened_sources "${PROJECT_SOURCE_DIR}/src/${name}.c")
endforeach()
set_source_files_properties(${tapir_hardened_sources} PROPERTIES COMPILE_OPTIONS
  "${tapir_hardening}")

function(tapir_object_library name optimised)
  add_library(${name} OBJECT ${ARGN})
  add_dependencies(${name} tapir_text)
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE ON)
  target_compile_definitions(${name} PRIVATE TPK_SOFT_FMA_ELSEWHERE)
  target_include_directories(${name} PRIVATE
    "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src" "${tapir_generated}")
  target_link_libraries(${name} PRIVATE tapir_flags tapir_numeric ${optimised})
endfunction()

tapir_object_library(tapir_objects tapir_lean ${tapir_hot_sources} "${tapir_generated}/kernel_text.c")
tapir_object_library(tapir_op_objects tapir_lean_op ${tapir_hot_op_sources})
tapir_object_library(tapir_small_objects tapir_small ${tapir_small_sources})
tapir_object_library(tapir_smallest_objects tapir_smallest ${tapir_smallest_sources})
set(tapir_objects $<TARGET_OBJECTS:tapir_objects> $<TARGET_OBJECTS:tapir_op_objects>
  $<TARGET_OBJECTS:tapir_small_objects> $<TARGET_OBJECTS:tapir_smallest_objects>)

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
    set(optimised tapir_smallest)
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
  target_link_options(tapir PRIVATE -Wl,--no-undefined -Wl,-z,noseparate-code -Wl,--gc-sections)
  check_linker_flag(C -Wl,-Bsymbolic-functions TAPIR_BINDS_ITS_FUNCTIONS)
  if(TAPIR_BINDS_ITS_FUNCTIONS) # rules are written in public ops: they are called straight
    target_link_options(tapir PRIVATE -Wl,-Bsymbolic-functions)
  endif()
endif()
check_linker_flag(C -Wl,-z,pack-relative-relocs TAPIR_PACKS_RELOCATIONS)
if(TAPIR_PACKS_RELOCATIONS) # the tables of kernels are full of them
  target_link_options(tapir PRIVATE -Wl,-z,pack-relative-relocs)
endif()
