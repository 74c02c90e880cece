# Headers, both libraries, tapir.pc, the CMake package, and what is to be read.

include(CMakePackageConfigHelpers)

install(TARGETS tapir tapir_static EXPORT tapir-targets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}"
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/include/tapir"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE" "${PROJECT_SOURCE_DIR}/README.md" "${PROJECT_SOURCE_DIR}/SECURITY.md"
  DESTINATION "${CMAKE_INSTALL_DOCDIR}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/docs" DESTINATION "${CMAKE_INSTALL_DOCDIR}" FILES_MATCHING PATTERN "*.md")

# The prefix in tapir.pc is relative to where the file lies, so an installed tree can move.
set(tapir_pc_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
file(RELATIVE_PATH tapir_pc_prefix "/${tapir_pc_dir}" "/")
string(REGEX REPLACE "/$" "" tapir_pc_prefix "${tapir_pc_prefix}")
configure_file("${PROJECT_SOURCE_DIR}/tapir.pc.in" "${PROJECT_BINARY_DIR}/tapir.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/tapir.pc" DESTINATION "${tapir_pc_dir}")

set(tapir_cmake_dir "${CMAKE_INSTALL_LIBDIR}/cmake/tapir")
install(EXPORT tapir-targets NAMESPACE tapir:: DESTINATION "${tapir_cmake_dir}")
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/tapir-config.cmake.in"
  "${PROJECT_BINARY_DIR}/tapir-config.cmake" INSTALL_DESTINATION "${tapir_cmake_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/tapir-config-version.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/tapir-config.cmake"
  "${PROJECT_BINARY_DIR}/tapir-config-version.cmake" DESTINATION "${tapir_cmake_dir}")
