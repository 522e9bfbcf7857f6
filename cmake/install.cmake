# Headers, library, pkg-config file and CMake package.
include(CMakePackageConfigHelpers)

install(DIRECTORY include/reprise ${PROJECT_BINARY_DIR}/include/reprise DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS reprise ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})

# A static library's users link what it links.
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
configure_file(cmake/reprise.pc.in ${PROJECT_BINARY_DIR}/reprise.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/reprise.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/reprise)
configure_package_config_file(cmake/reprise-config.cmake.in ${PROJECT_BINARY_DIR}/reprise-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/reprise-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/reprise-config.cmake ${PROJECT_BINARY_DIR}/reprise-config-version.cmake
  DESTINATION ${package_dir})
