# The interpreter of PTX behind the simulated runtime (REPRISE_SIM=ptx), and the PTX of the library's kernels.
set(RP_PTX_ARCHITECTURES 90 CACHE STRING "compute capabilities that the interpreted PTX is compiled for, e.g. 75;80;90")
set(RP_PTX_DEFAULT ON)
if(RP_SANITIZE OR RP_RACE)
  set(RP_PTX_DEFAULT OFF) # two minutes of CPU time for the compiler
endif()
option(RP_PTX "build the interpreter of PTX and its tests" ${RP_PTX_DEFAULT})
if(NOT RP_PTX)
  return()
endif()
target_compile_definitions(cudasim PRIVATE SIM_PTX)
file(GLOB ptx_sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/ptx/ptx_*.cpp)
target_sources(cudasim PRIVATE ${ptx_sources})
list(GET RP_PTX_ARCHITECTURES 0 ptx_first)
set(ptx_folder ${PROJECT_BINARY_DIR}/ptx)
set(RP_PTX_FOLDER ${ptx_folder} PARENT_SCOPE) # a folder for each architecture; the tests run the first
set(RP_PTX_FIRST ${ptx_first} PARENT_SCOPE)
set(ptx_options -O3 -ffp-contract=off -Wall -Wextra)
include(CheckCXXSourceRuns)
set(CMAKE_REQUIRED_FLAGS -march=x86-64-v3)
check_cxx_source_runs("#include <immintrin.h>
  int main(int n, char **) { volatile float x = (float)n; return _mm256_movemask_ps(_mm256_set1_ps(x)); }" RP_PTX_AVX2)
unset(CMAKE_REQUIRED_FLAGS)
if(RP_PTX_AVX2)
  list(APPEND ptx_options -march=x86-64-v3) # loops over 32 lanes: four times as fast as SSE2
endif()
set_source_files_properties(${ptx_sources} PROPERTIES COMPILE_OPTIONS "${ptx_options}"
  COMPILE_DEFINITIONS PTX_FOLDER="${ptx_folder}/${ptx_first}")
set_property(SOURCE ${CMAKE_CURRENT_SOURCE_DIR}/ptx/ptx_float.cpp APPEND PROPERTY COMPILE_OPTIONS -frounding-math)

# One .ptx file a source, with the options of the library (cmake/cuda.cmake). A build that compiles the kernels for this
# architecture alone keeps the PTX that nvcc makes on the way; it has source lines if CMAKE_CUDA_FLAGS has -lineinfo. Any
# other PTX is compiled for the tests.
if(NOT CUDAToolkit_NVCC_EXECUTABLE OR RP_SANITIZE OR RP_RACE)
  message(STATUS "The PTX of the kernels is not tested: no nvcc, or a build that excludes it")
  return()
endif()
file(GLOB ptx_library CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/*.cu ${PROJECT_SOURCE_DIR}/kernels/*/*.cu)
set(ptx_tests)
if(RP_TESTS)
  set(ptx_tests ${PROJECT_SOURCE_DIR}/tests/sim/device/mma_kernels.cu) # kernels of tests, with a suite each
endif()
set(ptx_files)
string(REGEX REPLACE "-(real|virtual)$" "" compiled_for "${CMAKE_CUDA_ARCHITECTURES}")
foreach(architecture ${RP_PTX_ARCHITECTURES})
  file(MAKE_DIRECTORY ${ptx_folder}/${architecture})
  set(ptx_kernels ${ptx_library} ${ptx_tests})
  if(RP_HAVE_CUDA AND compiled_for STREQUAL architecture)
    set(kept ${ptx_folder}/kept)
    file(MAKE_DIRECTORY ${kept})
    target_compile_options(rp_cuda_kernels PRIVATE --keep --keep-dir=${kept})
    set(ptx_copies)
    foreach(kernel ${ptx_library})
      get_filename_component(name ${kernel} NAME_WE)
      list(APPEND ptx_copies ${ptx_folder}/${architecture}/${name}.ptx)
    endforeach()
    list(APPEND ptx_files ${ptx_copies})
    string(REPLACE "${ptx_folder}/${architecture}" "${kept}" ptx_kept "${ptx_copies}")
    add_custom_command(OUTPUT ${ptx_copies} DEPENDS rp_cuda_kernels $<TARGET_OBJECTS:rp_cuda_kernels>
      COMMENT "PTX of the kernels for sm_${architecture}, from their objects"
      COMMAND ${CMAKE_COMMAND} -E copy ${ptx_kept} ${ptx_folder}/${architecture}
      COMMAND find ${kept} -type f ! -name "*.ptx" -delete VERBATIM) # preprocessed sources: 200 MB
    set(ptx_kernels ${ptx_tests})
  endif()
  foreach(kernel ${ptx_kernels})
    get_filename_component(name ${kernel} NAME_WE)
    set(file ${ptx_folder}/${architecture}/${name}.ptx)
    list(APPEND ptx_files ${file})
    add_custom_command(OUTPUT ${file} DEPENDS ${kernel} DEPFILE ${file}.d COMMENT "PTX of ${name}.cu for sm_${architecture}"
      COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} -ptx -lineinfo -std=c++17 -O3 -DNDEBUG -D_GNU_SOURCE -DRP_INTERNAL -arch=compute_${architecture}
        -Xcompiler=-fno-exceptions,-fno-rtti,-fno-threadsafe-statics,-fPIC -I${PROJECT_SOURCE_DIR}/include
        -I${PROJECT_BINARY_DIR}/include -I${PROJECT_SOURCE_DIR} -MD -MF ${file}.d -MT ${file} ${kernel} -o ${file})
  endforeach()
endforeach()
add_custom_target(rp_ptx ALL DEPENDS ${ptx_files})
