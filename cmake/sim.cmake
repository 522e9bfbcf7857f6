# The simulator (sim/) needs the toolkit's headers and a C++ compiler, no GPU and no nvcc. `reprise-sim bench counts` needs
# nvcc.
include(CheckLanguage)
check_language(CXX)
find_package(CUDAToolkit QUIET)
set(RP_CUDA_HEADERS "" CACHE PATH "headers of the CUDA toolkit, for the simulated device where no toolkit is installed")
if(NOT CUDAToolkit_FOUND AND EXISTS ${RP_CUDA_HEADERS}/cuda_runtime_api.h)
  set(CUDAToolkit_INCLUDE_DIRS ${RP_CUDA_HEADERS})
endif()
if(CMAKE_CXX_COMPILER AND CUDAToolkit_INCLUDE_DIRS AND NOT RP_SANITIZE MATCHES thread
   AND NOT CMAKE_CROSSCOMPILING)
  enable_language(CXX)
  add_subdirectory(sim)
elseif(RP_SIM)
  message(FATAL_ERROR "RP_SIM: reprise-sim needs a C++ compiler and the headers of the CUDA toolkit, which \
scripts/cuda-headers.sh fetches for -DRP_CUDA_HEADERS=FOLDER. It is not built with the thread sanitizer, or for another machine.")
endif()
