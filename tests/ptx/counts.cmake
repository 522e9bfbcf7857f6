# `reprise bench counts`: counters of the interpreted kernels, in the program of the simulated device; their tests.
if(NOT TARGET rp_ptx)
  return()
endif()
set(counts_parts counts.cpp counts_classes.cpp counts_flight.cpp counts_sample.cpp counts_usage.cpp
  counts_run.cpp counts_print.cpp)
list(TRANSFORM counts_parts PREPEND ${PROJECT_SOURCE_DIR}/tests/ptx/)
add_library(ptx_counts OBJECT ${counts_parts})
set_target_properties(ptx_counts PROPERTIES CXX_STANDARD 17 POSITION_INDEPENDENT_CODE ON)
target_include_directories(ptx_counts PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include
  ${PROJECT_BINARY_DIR}/include)
target_compile_options(ptx_counts PRIVATE -O3 -Wall -Wextra)
get_filename_component(cuda_programs ${CUDAToolkit_NVCC_EXECUTABLE} DIRECTORY)
target_compile_definitions(ptx_counts PRIVATE PTX_PTXAS="${cuda_programs}/ptxas")

get_target_property(cli_files cudasim_reprise SOURCES)
list(FILTER cli_files EXCLUDE REGEX "/counts_none\\.c$")
set_target_properties(cudasim_reprise PROPERTIES SOURCES "${cli_files}")
target_sources(cudasim_reprise PRIVATE ${PROJECT_SOURCE_DIR}/tests/ptx/counts_plan.c)
target_link_libraries(cudasim_reprise PRIVATE ptx_counts)
add_dependencies(cudasim_reprise rp_ptx)
