/* settings.h - what one side of a comparison has of its own: "isa=avx2", "threads=1". */
#ifndef CLI_DIVERGE_SETTINGS_H
#define CLI_DIVERGE_SETTINGS_H

#include "cli/options/options.h"
#include "cli/provenance/step_run.h"

/* Changes *o by each item of the list: isa, threads, device, passes, kv. RP_E_ARG for another name or a bad value. */
RP_NODISCARD RpStatus cli_side_settings(const TextList *list, StepRunOptions *o);

/* Writes "model.gguf, cpu avx2, 2 threads, passes -quantize, KV cache q8_0"; returns buf. */
const char *cli_side_text(const char *path, const StepRun *r, char *buf, size_t size);

#endif
