# Each examples/NAME.c is the program examples/NAME of the build folder. They use public headers
# and what lies in examples/common; zlib is there for those that read a gzip-compressed data set.

find_package(ZLIB REQUIRED)
file(GLOB tapir_examples CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/*.c")
file(GLOB common CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/common/*.c")
add_library(example_common STATIC ${common})
target_include_directories(example_common PUBLIC "${PROJECT_SOURCE_DIR}/examples/common"
  PRIVATE "${PROJECT_SOURCE_DIR}/include")
target_link_libraries(example_common PUBLIC tapir_numeric ZLIB::ZLIB m PRIVATE tapir_flags)
foreach(source IN LISTS tapir_examples)
  get_filename_component(name "${source}" NAME_WE)
  add_executable(example_${name} "${source}")
  set_target_properties(example_${name} PROPERTIES
    OUTPUT_NAME ${name}
    RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/examples")
  target_link_libraries(example_${name} PRIVATE tapir tapir_flags example_common)
  target_link_options(example_${name} PRIVATE -Wl,--as-needed)
  add_dependencies(tapir_programs example_${name})
endforeach()
