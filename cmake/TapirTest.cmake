# tapir_test(NAME source.c... [INTERNAL] [LABELS fast|long...] [LIBS lib...] [ARGS arg...]
#            [TIMEOUT seconds])
#
# A test program that is also a ctest of the same name. It links cmocka and the shared library;
# with INTERNAL the static one, and may include what lies in src/. Exit code 77 means skipped.
# Labels: `fast` runs under the sanitizers and under stress too, `long` only in
# `make check-long`. TAPIR_SOURCE and TAPIR_SHARED in the environment name the source tree and
# the folder of shared data (which may be absent).

function(tapir_test_environment)
  set_tests_properties(${ARGN} PROPERTIES SKIP_RETURN_CODE 77)
  set_property(TEST ${ARGN} APPEND PROPERTY ENVIRONMENT
    "TAPIR_SOURCE=${PROJECT_SOURCE_DIR}"
    "TAPIR_BUILD=${PROJECT_BINARY_DIR}"
    "TAPIR_CACHE=${PROJECT_BINARY_DIR}/cache"
    "TAPIR_SHARED=${TAPIR_SHARED}"
    "ASAN_OPTIONS=allocator_may_return_null=1"
    "UBSAN_OPTIONS=print_stacktrace=1")
endfunction()

# The seed of `each` random programs that were not run on another day: slow tests see new ones whenever a build is
# configured, and what fails prints its seed.
function(tapir_seed_of_day seed first each)
  string(TIMESTAMP seconds "%s" UTC)
  math(EXPR value "${first} + ${seconds} / 86400 % 1000 * ${each}")
  set(${seed} ${value} PARENT_SCOPE)
endfunction()

function(tapir_test_program name)
  cmake_parse_arguments(PARSE_ARGV 1 t "INTERNAL" "" "LIBS")
  add_executable(${name} ${t_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/test")
  if(t_INTERNAL)
    add_dependencies(${name} tapir_text)
    target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${tapir_generated}")
    target_link_libraries(${name} PRIVATE tapir_static)
  else()
    target_link_libraries(${name} PRIVATE tapir)
  endif()
  target_link_libraries(${name} PRIVATE tapir_flags tapir_numeric ${t_LIBS} cmocka m)
  target_compile_options(${name} PRIVATE -O1) # their time is the library's
endfunction()

function(tapir_test name)
  cmake_parse_arguments(PARSE_ARGV 1 t "INTERNAL" "TIMEOUT" "LABELS;LIBS;ARGS")
  set(kind "")
  if(t_INTERNAL)
    set(kind INTERNAL)
  endif()
  tapir_test_program(${name} ${t_UNPARSED_ARGUMENTS} ${kind} LIBS ${t_LIBS})
  add_test(NAME ${name} COMMAND ${name} ${t_ARGS})
  tapir_test_environment(${name})
  if(NOT t_TIMEOUT)
    set(t_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "${t_LABELS}" TIMEOUT ${t_TIMEOUT})
endfunction()
