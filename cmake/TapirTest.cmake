# Functions that declare tests; how long each may take, its labels and its environment stands in test/settings.cmake.
# TAPIR_SOURCE, TAPIR_BUILD and TAPIR_SHARED in the environment of a test name the source tree, the build folder
# and the folder of shared data (which may be absent). Exit code 77 means skipped.

# tapir_test_program(NAME source.c... [INTERNAL] [LIBS lib...])
#
# A test program. It links cmocka and the shared library; with INTERNAL the static one (or the shared one where that shows all),
# and may include what lies in src/. Either may include what lies in test/.
function(tapir_test_program name)
  cmake_parse_arguments(PARSE_ARGV 1 t "INTERNAL" "" "LIBS")
  add_executable(${name} ${t_UNPARSED_ARGUMENTS})
  target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/test")
  if(t_INTERNAL)
    add_dependencies(${name} tapir_text)
    target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/src" "${tapir_generated}")
    target_link_libraries(${name} PRIVATE $<IF:$<BOOL:${tapir_shows_all}>,tapir,tapir_static>)
  else()
    target_link_libraries(${name} PRIVATE tapir)
  endif()
  target_link_libraries(${name} PRIVATE tapir_flags tapir_numeric ${t_LIBS} cmocka m)
  target_compile_options(${name} PRIVATE -O1) # their time is the library's
endfunction()

# tapir_add_test(NAME command... [IN folder] [NEEDS fixture...] [MAKES fixture...] [AFTER test...])
#
# A ctest of a command, run in a folder below that of the build.
function(tapir_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 t "" "IN" "NEEDS;MAKES;AFTER")
  set(folder "${CMAKE_CURRENT_BINARY_DIR}/${t_IN}")
  file(MAKE_DIRECTORY "${folder}")
  add_test(NAME ${name} COMMAND ${t_UNPARSED_ARGUMENTS} WORKING_DIRECTORY "${folder}")
  tapir_test_settings(${name})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77)
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT
    "TAPIR_SOURCE=${PROJECT_SOURCE_DIR}"
    "TAPIR_BUILD=${PROJECT_BINARY_DIR}"
    "TAPIR_CACHE=${PROJECT_BINARY_DIR}/cache"
    "TAPIR_SHARED=${TAPIR_SHARED}"
    "ASAN_OPTIONS=allocator_may_return_null=1"
    "UBSAN_OPTIONS=print_stacktrace=1")
  foreach(pair "NEEDS FIXTURES_REQUIRED" "MAKES FIXTURES_SETUP" "AFTER DEPENDS")
    separate_arguments(pair UNIX_COMMAND "${pair}")
    list(GET pair 0 word)
    list(GET pair 1 property)
    if(t_${word})
      set_tests_properties(${name} PROPERTIES ${property} "${t_${word}}")
    endif()
  endforeach()
endfunction()

# tapir_test(NAME source.c... [INTERNAL] [LIBS lib...] [ARGS arg...])
#
# A test program that is also a ctest of the same name.
function(tapir_test name)
  cmake_parse_arguments(PARSE_ARGV 1 t "INTERNAL" "" "LIBS;ARGS")
  set(kind "")
  if(t_INTERNAL)
    set(kind INTERNAL)
  endif()
  tapir_test_program(${name} ${t_UNPARSED_ARGUMENTS} ${kind} LIBS ${t_LIBS})
  tapir_add_test(${name} ${name} ${t_ARGS})
endfunction()

# tapir_unit_tests([EXCEPT file.c...])
#
# Each other NAME.c of this folder is a program and a test of that name, which sees the library from inside.
function(tapir_unit_tests)
  cmake_parse_arguments(PARSE_ARGV 0 t "" "" "EXCEPT")
  file(GLOB sources CONFIGURE_DEPENDS RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}/*.c")
  list(REMOVE_ITEM sources ${t_EXCEPT})
  foreach(source IN LISTS sources)
    get_filename_component(name "${source}" NAME_WE)
    tapir_test(${name} "${source}" INTERNAL)
  endforeach()
endfunction()

# The seed of `each` random programs that were not run on another day: slow tests see new ones whenever a build is
# configured, and what fails prints its seed.
function(tapir_seed_of_day seed first each)
  string(TIMESTAMP seconds "%s" UTC)
  math(EXPR value "${first} + ${seconds} / 86400 % 1000 * ${each}")
  set(${seed} ${value} PARENT_SCOPE)
endfunction()
