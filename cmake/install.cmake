# Installs headers, library, pkg-config file and CMake package. Components: libraries, development, program (debian.cmake).
include(CMakePackageConfigHelpers)

install(DIRECTORY include/reprise ${PROJECT_BINARY_DIR}/include/reprise DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  COMPONENT development)
install(TARGETS reprise reprise_nn EXPORT reprise-shared LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  COMPONENT libraries NAMELINK_COMPONENT development)
install(TARGETS reprise_static reprise_nn_static EXPORT reprise-static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  COMPONENT development)

# Programs that link the static library link its dependencies too (pkg-config --static).
set(RP_PC_LIBS_PRIVATE "-lm -lpthread -ldl")
if(RP_HAVE_CUDA)
  string(APPEND RP_PC_LIBS_PRIVATE " -L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -lrt")
endif()
set(RP_NN_PC_LIBS_PRIVATE ${RP_PC_LIBS_PRIVATE} ${NN_BLAS_LDFLAGS})
list(JOIN RP_NN_PC_LIBS_PRIVATE " " RP_NN_PC_LIBS_PRIVATE)
# Relative to the file itself, so that `cmake --install --prefix` and a moved folder work.
file(RELATIVE_PATH RP_PC_TO_PREFIX "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
configure_file(cmake/reprise.pc.in ${PROJECT_BINARY_DIR}/reprise.pc @ONLY)
configure_file(cmake/reprise_nn.pc.in ${PROJECT_BINARY_DIR}/reprise_nn.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/reprise.pc ${PROJECT_BINARY_DIR}/reprise_nn.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
  COMPONENT development)

# For programs that use the libraries of this folder: PKG_CONFIG_PATH=BUILD/pkgconfig. They find them at run time too.
foreach(name reprise reprise_nn)
  file(WRITE ${PROJECT_BINARY_DIR}/pkgconfig/${name}.pc "Name: ${name}\n"
    "Description: ${PROJECT_DESCRIPTION}; a build folder\nVersion: ${PROJECT_VERSION}\nlibdir=${PROJECT_BINARY_DIR}\n"
    "Cflags: -I${PROJECT_SOURCE_DIR}/include -I${PROJECT_BINARY_DIR}/include\n"
    "Libs: -L${PROJECT_BINARY_DIR} -Wl,-rpath,${PROJECT_BINARY_DIR} -l${name}\n")
endforeach()

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/reprise)
install(EXPORT reprise-shared NAMESPACE reprise:: DESTINATION ${package_dir} COMPONENT development)
install(EXPORT reprise-static NAMESPACE reprise:: DESTINATION ${package_dir} COMPONENT development)
configure_package_config_file(cmake/reprise-config.cmake.in ${PROJECT_BINARY_DIR}/reprise-config.cmake
  INSTALL_DESTINATION ${package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/reprise-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/reprise-config.cmake ${PROJECT_BINARY_DIR}/reprise-config-version.cmake
  DESTINATION ${package_dir} COMPONENT development)

# The manual page and the completions for shells are made from the option tables by the program itself.
if(TARGET reprise_cli AND NOT CMAKE_CROSSCOMPILING)
  set(pages ${PROJECT_BINARY_DIR}/share)
  add_custom_command(OUTPUT ${pages}/reprise.1 ${pages}/reprise ${pages}/_reprise ${pages}/reprise.fish
    COMMAND ${CMAKE_COMMAND} -E make_directory ${pages}
    COMMAND reprise_cli man -o ${pages}/reprise.1
    COMMAND reprise_cli completion bash -o ${pages}/reprise
    COMMAND reprise_cli completion zsh -o ${pages}/_reprise
    COMMAND reprise_cli completion fish -o ${pages}/reprise.fish
    DEPENDS reprise_cli VERBATIM)
  add_custom_target(reprise_pages ALL DEPENDS ${pages}/reprise.1)
  install(FILES ${pages}/reprise.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
  install(FILES ${pages}/reprise DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT program)
  install(FILES ${pages}/_reprise DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions COMPONENT program)
  install(FILES ${pages}/reprise.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT program)
endif()
