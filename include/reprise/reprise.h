/* reprise.h - everything. See graph.h for graphs of your own, model.h and session.h for models. */
#ifndef REPRISE_H
#define REPRISE_H

#include "reprise/convert.h"
#include "reprise/device.h"
#include "reprise/executor.h"
#include "reprise/gguf.h"
#include "reprise/graph.h"
#include "reprise/kernel.h"
#include "reprise/model.h"
#include "reprise/options.h"
#include "reprise/quants.h"
#include "reprise/sampler.h"
#include "reprise/session.h"
#include "reprise/status.h"
#include "reprise/step.h"
#include "reprise/tensor.h"
#include "reprise/tokenizer.h"
#include "reprise/version.h"

#endif
