# Installs headers, library, pkg-config file and CMake package.
include(CMakePackageConfigHelpers)

install(DIRECTORY include/reprise ${PROJECT_BINARY_DIR}/include/reprise DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS reprise ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})

# Programs that link the static library link its dependencies too.
set(RP_PC_LIBS_PRIVATE "-lm -lpthread")
if(RP_HAVE_CUDA)
  string(APPEND RP_PC_LIBS_PRIVATE " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -ldl -lrt")
endif()
if(BUILD_SHARED_LIBS)
  set(RP_PC_STATIC "")
  set(RP_PC_LIBS "-lreprise")
else()
  set(RP_PC_LIBS "-lreprise ${RP_PC_LIBS_PRIVATE}")
endif()
# Relative to the file itself, so that `cmake --install --prefix` and a moved folder work.
file(RELATIVE_PATH RP_PC_TO_PREFIX "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
configure_file(cmake/reprise.pc.in ${PROJECT_BINARY_DIR}/reprise.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/reprise.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/reprise)
configure_package_config_file(cmake/reprise-config.cmake.in ${PROJECT_BINARY_DIR}/reprise-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/reprise-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/reprise-config.cmake ${PROJECT_BINARY_DIR}/reprise-config-version.cmake
  DESTINATION ${package_dir})
