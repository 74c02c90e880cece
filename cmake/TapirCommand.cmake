# The command `tapir`: cli/*.c over the static library, so that it runs wherever it is copied to.

file(GLOB tapir_command_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/cli/*.c")
add_executable(tapir_command ${tapir_command_sources})
set_target_properties(tapir_command PROPERTIES
  OUTPUT_NAME tapir
  RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}")
target_compile_definitions(tapir_command PRIVATE _GNU_SOURCE)
target_link_libraries(tapir_command PRIVATE
  tapir_static tapir_flags tapir_hardened_link m)
target_compile_options(tapir_command PRIVATE ${tapir_hardening})
add_dependencies(tapir_programs tapir_command)
install(TARGETS tapir_command RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
install(FILES "${PROJECT_SOURCE_DIR}/cli/tapir.1" DESTINATION "${CMAKE_INSTALL_MANDIR}/man1")
