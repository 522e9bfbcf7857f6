# The program `reprise`, the examples and the benchmarks.
# Manifests of runs, which the program and the server write.
file(GLOB manifest_sources CONFIGURE_DEPENDS manifest/*.c)
add_library(rp_manifest STATIC ${manifest_sources})
target_link_libraries(rp_manifest PUBLIC rp_flags rp_jansson)
target_include_directories(rp_manifest PRIVATE ${PROJECT_BINARY_DIR}/commit)
add_custom_target(rp_commit BYPRODUCTS ${PROJECT_BINARY_DIR}/commit/manifest/commit.h
  COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DOUT=${PROJECT_BINARY_DIR}/commit/manifest/commit.h
    -P ${PROJECT_SOURCE_DIR}/cmake/commit.cmake VERBATIM)
add_dependencies(rp_manifest rp_commit)

# The server: what `reprise serve` runs.
file(GLOB server_sources CONFIGURE_DEPENDS server/*.c server/*/*.c)
add_library(rp_server STATIC ${server_sources})
target_link_libraries(rp_server PUBLIC rp_flags rp_manifest rp_jansson rp_event)
include(cmake/page.cmake)
rp_embed_page(rp_server)

file(GLOB cli_sources CONFIGURE_DEPENDS cli/*.c cli/*/*.c)
add_executable(reprise_cli ${cli_sources})
set_target_properties(reprise_cli PROPERTIES OUTPUT_NAME reprise)
target_link_libraries(reprise_cli PRIVATE rp_flags rp_server rp_all)
include(cmake/graph_page.cmake)
rp_embed_graph_page(reprise_cli)
if(EDIT_FOUND)
  target_link_libraries(reprise_cli PRIVATE PkgConfig::EDIT)
  target_compile_definitions(reprise_cli PRIVATE RP_HAVE_EDIT)
endif()
install(TARGETS reprise_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
install(FILES assets/demo.gguf DESTINATION ${CMAKE_INSTALL_DATADIR}/reprise COMPONENT program)
install(FILES assets/server/nginx.conf assets/server/reprise.service DESTINATION ${CMAKE_INSTALL_DATADIR}/reprise
  COMPONENT program)

# A backend in a shared object, an example of reprise/backend.h. It is found by its path only.
pkg_check_modules(OPENBLAS IMPORTED_TARGET openblas)
if(OPENBLAS_FOUND AND NOT RP_PORTABLE AND NOT CMAKE_CROSSCOMPILING)
  add_library(backend_blas MODULE examples/backend_blas.c)
  set_target_properties(backend_blas PROPERTIES PREFIX "" C_VISIBILITY_PRESET hidden)
  target_link_libraries(backend_blas PRIVATE rp_flags PkgConfig::OPENBLAS)
endif()
file(GLOB example_sources CONFIGURE_DEPENDS examples/*.c)
list(FILTER example_sources EXCLUDE REGEX "/backend_")
foreach(source ${example_sources})
  get_filename_component(name ${source} NAME_WE)
  add_executable(example_${name} ${source})
  target_link_libraries(example_${name} PRIVATE rp_flags reprise m)
endforeach()

file(GLOB bench_sources CONFIGURE_DEPENDS bench/*.c)
foreach(source ${bench_sources})
  get_filename_component(name ${source} NAME_WE)
  add_executable(bench_${name} ${source})
  target_link_libraries(bench_${name} PRIVATE rp_flags rp_all)
endforeach()

if(RP_HAVE_CUDA)
  foreach(name cuda_gaps cuda_read)
    add_library(bench_${name}_kernels OBJECT EXCLUDE_FROM_ALL bench/${name}.cu) # nvcc does not know the flags of rp_flags
    target_include_directories(bench_${name}_kernels PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include
      ${PROJECT_BINARY_DIR}/include)
    target_compile_options(bench_${name}_kernels PRIVATE -Xcompiler=-fno-exceptions,-fno-rtti,-fno-threadsafe-statics)
    add_executable(bench_${name} EXCLUDE_FROM_ALL $<TARGET_OBJECTS:bench_${name}_kernels>)
    set_target_properties(bench_${name} PROPERTIES LINKER_LANGUAGE C)
    target_link_libraries(bench_${name} PRIVATE rp_all)
  endforeach()
endif()
