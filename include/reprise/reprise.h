/* reprise.h - the whole public API in one include. A model file becomes a ComputeGraph, passes fuse its ops, a plan
 * fixes every address, and an executor runs the plan on the CPU or on a CUDA device.
 *
 *   RpModel *m;  RpSession *s;
 *   RP_TRY(rp_model_open("model.gguf", NULL, &m));
 *   RP_TRY(rp_session_open(m, NULL, &s));          // session.h: prefill, step, whole replies
 *
 * Texts and arrays that are passed in are borrowed for the call unless a header says otherwise. A pointer must not be
 * NULL unless a header allows it: functions that return RpStatus then give RP_E_ARG, others 0, NULL, "" or -1
 * (docs/api.md). docs/api.md also has versions, structs that grow (NAME_sized), ownership, threads.
 * Read session.h to run a model, graph.h and executor.h to run a graph of your own, extend.h and kernel.h to add ops
 * and types.
 */
#ifndef REPRISE_H
#define REPRISE_H

#include "reprise/backend.h"
#include "reprise/chat.h"
#include "reprise/convert.h"
#include "reprise/cpu.h"
#include "reprise/device.h"
#include "reprise/embed.h"
#include "reprise/engine.h"
#include "reprise/executor.h"
#include "reprise/extend.h"
#include "reprise/external.h"
#include "reprise/file.h"
#include "reprise/gguf.h"
#include "reprise/grammar.h"
#include "reprise/graph.h"
#include "reprise/kernel.h"
#include "reprise/model.h"
#include "reprise/op_params.h"
#include "reprise/ops.h"
#include "reprise/options.h"
#include "reprise/plugin.h"
#include "reprise/quants.h"
#include "reprise/sampler.h"
#include "reprise/session.h"
#include "reprise/source.h"
#include "reprise/status.h"
#include "reprise/step.h"
#include "reprise/tensor.h"
#include "reprise/text.h"
#include "reprise/tokenizer.h"
#include "reprise/trace.h"
#include "reprise/train.h"
#include "reprise/version.h"

#endif
