/* op.h - what the file of an op includes: the helpers of its check, shape rule, gradient rule and description. */
#ifndef OPS_OP_H
#define OPS_OP_H

#include "ops/backward.h"
#include "ops/check.h"
#include "ops/node.h"
#include "ops/rules.h"
#include "ops/shape.h"

#endif
