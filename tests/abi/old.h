/* old.h - the structs of the public headers as a program has them that was compiled against an older version: the last
 * members are missing. The compiler checks that what is left lies where it lies today. */
#ifndef ABI_OLD_H
#define ABI_OLD_H

#include "reprise/reprise.h"

/* Old##T is T up to and without its member `first_new`; `last` is its last member. */
#define OLD(T, last, first_new)                                                                                        \
    _Static_assert(offsetof(Old##T, last) == offsetof(Rp##T, last), "a member has moved");                             \
    _Static_assert(sizeof(Old##T) <= offsetof(Rp##T, first_new), "this member was there already")

typedef struct OldModelOptions {
    bool (*progress)(size_t done, size_t total, void *user);
} OldModelOptions;
OLD(ModelOptions, progress, user);

typedef struct OldModelGraphOptions {
    int32_t n_tok, n_ctx, n_out;
    RpDtype kv_type;
} OldModelGraphOptions;
OLD(ModelGraphOptions, kv_type, expert_ids);

typedef struct OldSessionOptions {
    int32_t     n_ctx;
    int         n_threads;
    int32_t     prefill_chunk;
    const char *passes;
    RpDtype     kv_type;
    const char *device;
} OldSessionOptions;
OLD(SessionOptions, device, require_cuda);

typedef struct OldSessionMemory {
    size_t weights, kv;
} OldSessionMemory;
OLD(SessionMemory, kv, arena);

typedef struct OldSamplerParams {
    float   temperature;
    int32_t top_k;
    float   top_p, min_p, repeat_penalty;
    int32_t repeat_last_n;
} OldSamplerParams;
OLD(SamplerParams, repeat_last_n, seed);

typedef struct OldGenerateOptions {
    int32_t            max_tokens;
    const char *const *stop;
    size_t             n_stop;
} OldGenerateOptions;
OLD(GenerateOptions, n_stop, ignore_end);

typedef struct OldGenerateResult {
    RpStopReason reason;
    int32_t      n_prompt, n_generated;
} OldGenerateResult;
OLD(GenerateResult, n_generated, prefill_s);

typedef struct OldExecutorOptions {
    int         n_threads;
    RpExecutor *share;
    const char *device;
} OldExecutorOptions;
OLD(ExecutorOptions, device, require_cuda);

typedef struct OldExecutorInfo {
    const char *device, *device_name;
} OldExecutorInfo;
OLD(ExecutorInfo, device_name, mode);

typedef struct OldReplyOptions {
    const int32_t *state;
    size_t         n_state;
    int32_t        max_tokens, n_ctx;
} OldReplyOptions;
OLD(ReplyOptions, n_ctx, end);

typedef struct OldPlanMemory {
    size_t arena, unshared;
} OldPlanMemory;
OLD(PlanMemory, unshared, weights);

typedef struct OldStepLaunch {
    const TensorNode *node;
    size_t            bytes;
} OldStepLaunch;
OLD(StepLaunch, bytes, n_barriers);

typedef struct OldDumpOptions {
    RpDumpFormat format;
    bool         fold, one_layer;
    int          layer;
} OldDumpOptions;
OLD(DumpOptions, layer, title);

typedef struct OldDumpNote {
    char   text[96];
    double heat;
} OldDumpNote;
OLD(DumpNote, heat, us);

typedef struct OldSynthOptions {
    const char *type;
    uint64_t    seed;
} OldSynthOptions;
OLD(SynthOptions, seed, hollow);

typedef struct OldDeviceMemory {
    char id[16];
} OldDeviceMemory;
OLD(DeviceMemory, id, index);

typedef struct OldCudaDeviceInfo {
    char name[256];
    int  major, minor;
} OldCudaDeviceInfo;
OLD(CudaDeviceInfo, minor, n_sm);

typedef struct OldCudaTuningInfo {
    RpTuningOrigin origin;
    char           text[512];
} OldCudaTuningInfo;
OLD(CudaTuningInfo, text, n_constants);

typedef struct OldCpuPrefetchTrial {
    RpCpuPrefetch prefetch;
} OldCpuPrefetchTrial;
OLD(CpuPrefetchTrial, prefetch, bytes_per_s);

typedef struct OldOpDescription {
    const char        *name;
    int                n_required, n_sources;
    const char *const *sources;
    RpShapeRule       *shape;
    unsigned           flags;
    RpOpKernel        *cpu;
} OldOpDescription;
OLD(OpDescription, cpu, cuda);

typedef struct OldGraphPattern {
    const char *name, *help, *match, *make;
} OldGraphPattern;
OLD(GraphPattern, make, params);

#undef OLD

#endif
