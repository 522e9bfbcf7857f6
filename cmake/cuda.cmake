# Sets RP_HAVE_CUDA if the CUDA toolkit with nvcc is found and RP_CUDA is on, and defines rp_cuda_kernels.
set(RP_CUDA_ARCHITECTURES "auto" CACHE STRING
  "auto: the GPUs of this machine, or portable if there is none; portable: machine code for sm_75, sm_80 and sm_90, and PTX that \
drivers compile for newer GPUs; covering: machine code for the lowest architecture of each generation, which the others of it \
run too; all: machine code for every architecture the toolkit knows; or a list as CMAKE_CUDA_ARCHITECTURES")
set(RP_HAVE_CUDA OFF)
if(NOT RP_CUDA)
  message(STATUS "CUDA is switched off (RP_CUDA): CPU only")
  return()
endif()
find_package(CUDAToolkit QUIET)
include(CheckLanguage)
if(CUDAToolkit_FOUND)
  if(NOT CMAKE_CUDA_COMPILER AND NOT DEFINED ENV{CUDACXX} AND CUDAToolkit_NVCC_EXECUTABLE)
    set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE}) # if nvcc is not on the PATH
  endif()
  check_language(CUDA)
endif()
if(NOT CUDAToolkit_FOUND OR NOT CMAKE_CUDA_COMPILER)
  message(STATUS "No CUDA toolkit with nvcc: CPU only")
  return()
endif()

if(CUDAToolkit_VERSION VERSION_LESS 12.4) # 12.4 is the first with WHILE nodes in graphs
  message(STATUS "CUDA toolkit ${CUDAToolkit_VERSION} is older than 12.4: CPU only")
  return()
endif()

# The tensor core instructions of the kernels need sm_75.
set(portable 75-real 80-real 90)
if(CUDAToolkit_VERSION VERSION_GREATER_EQUAL 13)
  set(covering 75-real 80-real 90-real 100-real 110-real 120)
  set(all 75-real 80-real 86-real 87-real 88-real 89-real 90-real 100-real 103-real 110-real 120-real 121)
elseif(CUDAToolkit_VERSION VERSION_GREATER_EQUAL 12.8)
  set(covering 75-real 80-real 90-real 100-real 120)
  set(all 75-real 80-real 86-real 87-real 89-real 90-real 100-real 101-real 120)
else()
  set(covering 75-real 80-real 90)
  set(all 75-real 80-real 86-real 87-real 89-real 90)
endif()
set(architectures ${RP_CUDA_ARCHITECTURES})
if(architectures STREQUAL "auto")
  set(architectures portable)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
    OUTPUT_VARIABLE found RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(failed STREQUAL "0" AND found MATCHES "^[0-9.\n ]+$")
    string(REGEX REPLACE "[. ]" "" found "${found}")
    string(REPLACE "\n" ";" architectures "${found}")
    list(REMOVE_DUPLICATES architectures)
  endif()
endif()
if(architectures MATCHES "^(portable|covering|all)$")
  set(architectures ${${architectures}})
endif()
set(CMAKE_CUDA_ARCHITECTURES ${architectures})
set(CMAKE_CUDA_STANDARD 17)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
enable_language(CUDA)
set(RP_HAVE_CUDA ON)
message(STATUS "CUDA toolkit ${CUDAToolkit_VERSION}, for ${CMAKE_CUDA_ARCHITECTURES}")

# An object library, so that targets that link it are still linked as C.
file(GLOB kernel_sources CONFIGURE_DEPENDS kernels/*.cu kernels/*/*.cu)
add_library(rp_cuda_kernels OBJECT ${kernel_sources})
set_target_properties(rp_cuda_kernels PROPERTIES CUDA_VISIBILITY_PRESET hidden)
target_include_directories(rp_cuda_kernels PRIVATE
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include ${PROJECT_SOURCE_DIR})
target_compile_definitions(rp_cuda_kernels PRIVATE _GNU_SOURCE RP_INTERNAL)
target_compile_options(rp_cuda_kernels PRIVATE
  -Xcompiler=-fno-exceptions,-fno-rtti,-fno-threadsafe-statics,-fPIC -Xfatbin=-compress-all)
if(RP_WERROR AND CMAKE_CUDA_ARCHITECTURES STREQUAL "90")
  # Fails if a kernel spills registers.
  set_source_files_properties(${kernel_sources} PROPERTIES COMPILE_OPTIONS "-Xptxas=-warn-spills,-Werror")
endif()
