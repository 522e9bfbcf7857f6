/* tune.h - the constants of a device that affect only speed (RpCudaTuning), measured when the device is first
 * opened. */
#ifndef EXECUTOR_CUDA_TUNE_H
#define EXECUTOR_CUDA_TUNE_H

#include "executor/cuda/cuda.h"

/* Sets d->tuning and d->tuned, by REPRISE_TUNE:
 *
 *     off      the model's constants (rp_tuning_defaults)
 *     auto     the constants of the cache; else measured and put into it. Simulated devices are not measured
 *     force    measured, and put into the cache
 *
 * A measurement or a cache that fails leaves the model's constants and a reason in d->tuned.text (I10). RP_E_ARG for
 * another value of the option; RP_E_CUDA if the device itself has failed. */
RP_NODISCARD RpStatus rp_cuda_tune(CudaDevice *d, const struct cudaDeviceProp *p);

/* Measures the constants for about `seconds` at most and sets d->tuning and d->tuned.constants. Constants that were not
 * measured by then keep the value of the model, and *stopped is true. On failure nothing has changed. */
RP_NODISCARD RpStatus rp_cuda_tune_measure(CudaDevice *d, size_t l2_bytes, double seconds, bool *stopped);

/* Seconds that a measurement at an open may take: 1.5. The simulated device sets no limit. */
extern double rp_cuda_tune_seconds;

#endif
