# `reprise bench counts`: counters of the interpreted kernels, in the program of the simulated device; their tests.
if(NOT TARGET rp_ptx OR NOT ptx_first EQUAL 90)
  return()
endif()
get_filename_component(cuda_programs ${CUDAToolkit_NVCC_EXECUTABLE} DIRECTORY)
function(ptx_counts_library name)
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/tests/ptx/)
  add_library(${name} OBJECT ${ARGN})
  set_target_properties(${name} PROPERTIES CXX_STANDARD 17 POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include
    ${PROJECT_BINARY_DIR}/include)
  target_compile_options(${name} PRIVATE -O3 -Wall -Wextra)
  target_compile_definitions(${name} PRIVATE PTX_PTXAS="${cuda_programs}/ptxas")
endfunction()
ptx_counts_library(ptx_counts_core counts.cpp counts_classes.cpp counts_flight.cpp counts_sample.cpp counts_usage.cpp)
ptx_counts_library(ptx_counts_command counts_run.cpp counts_print.cpp)

target_sources(cudasim_reprise PRIVATE ${PROJECT_SOURCE_DIR}/tests/ptx/counts_plan.c
  ${PROJECT_SOURCE_DIR}/tests/ptx/counts_special.c)
target_link_libraries(cudasim_reprise PRIVATE ptx_counts_core ptx_counts_command)
add_dependencies(cudasim_reprise rp_ptx)

add_executable(test_counts ${PROJECT_SOURCE_DIR}/tests/ptx/test_counts.cpp)
target_link_libraries(test_counts PRIVATE ptx_counts_core cudasim Threads::Threads ${CMAKE_DL_LIBS})
target_compile_options(test_counts PRIVATE -Wall -Wextra)
set_target_properties(test_counts PROPERTIES CXX_STANDARD 17 RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
add_test(NAME ptx_counters COMMAND test_counts)

# The committed counts. Another nvcc emits other PTX: the test is skipped then.
add_test(NAME ptx_counts COMMAND sh ${PROJECT_SOURCE_DIR}/tests/ptx/counts.sh $<TARGET_FILE:cudasim_reprise>
  ${ptx_folder}/${ptx_first})
set_tests_properties(ptx_counts PROPERTIES SKIP_RETURN_CODE 77 WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}
  ENVIRONMENT "REPRISE_PTX=${ptx_folder}/${ptx_first}")
