/* The table in which a plan finds the CUDA kernels of its steps. */
#include "executor/cuda/cuda.h"

const Kernels rp_cuda_table = {.of_op = rp_cuda_kernel, .cuda = true, .source = rp_cuda_source_launch};
