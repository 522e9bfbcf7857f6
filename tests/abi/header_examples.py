#!/usr/bin/env python3
"""Every code example in the comments of the public headers compiles, as C17 and as C++20.

    header_examples.py INCLUDE_DIR VERSION_H C_COMPILER CXX_COMPILER

An example is a block of comment lines that are indented by three spaces and of which one ends with ';' or '{'. It is
compiled as a block in a function, whose parameters are the names that the example uses and the reader has to supply,
listed below for each header. A function definition in an example stays outside, as in a program."""
import pathlib
import re
import subprocess
import sys
import tempfile

include, version_h, c_compiler, cxx_compiler = sys.argv[1:]

GIVEN = {
    "chat.h": "const char *source, size_t n, const RpTokenizer *tk, int32_t id, const RpModel *model, RpSampler *sampler, "
              "RpEngine *engine, const RpChatOptions *chat",
    "device.h": "float *values, size_t bytes",
    "embed.h": "const RpModel *model, const char *text",
    "engine.h": "const RpModel *model, RpSampler *sampler, const int32_t *ids, size_t n",
    "executor.h": "const ComputeGraph *g, const TensorNode *x, const TensorNode *y, const float *input, size_t bytes, "
                  "RpExecutor *exec, const int32_t *words, size_t n_words, int32_t n_ctx, int32_t eos, "
                  "const ExecPlan *plan, float *values, int n_steps",
    "extend.h": "ComputeGraph *g, TensorNode *x, const float *values, int64_t n, void *row, RpTensorView view",
    "external.h": "DLManagedTensor *managed, ComputeGraph *g, RpTensorView view, const float (*floats)[8], RpExecutor *exec, "
                  "const TensorNode *input",
    "grammar.h": "const char *schema, const RpTokenizer *tokenizer, uint32_t *bits, RpSampler *sampler, const float *logits, "
                 "int32_t token",
    "graph.h": "int64_t n_embd, int64_t n_tok, RpTensorView view",
    "ops.h": "ComputeGraph *g, TensorNode *x, TensorNode *w",
    "sampler.h": "const RpGgufFile *gguf, const float *logits, int32_t n_vocab, int32_t token",
    "session.h": "const RpModel *model, RpSampler *sampler, const int32_t *ids, size_t n, "
                 "int32_t token, RpSession *s",
    "status.h": "RpModel *model",
    "step.h": "RpStepState step, int32_t *words, int32_t first, int32_t n_past",
    "tensor.h": "int64_t n_embd, int64_t n_tok, void *memory",
    "trace.h": "RpSession *session, const int32_t *ids, size_t n",
    "train.h": "const RpModel *model, const int32_t *tokens",
    "tokenizer.h": "const RpGgufFile *gguf, const char *text, size_t len, RpGgufString bytes, char *out",
}
# Functions of the reader's program.
BEFORE = {"backend.h": "RpStatus open_plain(const RpBackendHost *host, RpBackendPlan *plan, void **self); const char *describe(void *self);\n",
          "device.h": "void launch_something(void *memory);\n",
          "extend.h": "RpShapeRule relu_shape; RpOpKernel relu_cpu, relu_mul_cpu; "
                      "void fp8_dequantize(const void *row, int64_t n, float *out, void *user); "
                      "RpStatus fp8_quantize(const float *x, const float *importance, int64_t n, void *row, void *user);\n",
          "plugin.h": "extern const RpDtypeDescription fp8;\n",
          "source.h": "RpShapeRule relu_shape; RpOpKernel relu_cpu;\n"}
FLAGS = ["-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-Wno-unused-parameter", "-Wno-unused-variable",
         "-Wno-unused-but-set-variable", "-Wno-unused-function", "-Wno-missing-field-initializers"]


def examples(text):
    """(line number, code) of each example."""
    block, at = [], 0
    for number, line in enumerate(text.splitlines() + [""], 1):
        if re.match(r" \*   ", line):
            at = at if block else number
            block.append(line[5:].removesuffix(" */"))
            continue
        if any(re.search(r"[;{]\s*(//.*|/\*.*)?$", b) for b in block) and not block[0].startswith(" "):
            yield at, block
        block = []


def function(name, number, block):
    """An example as a function, behind the function definitions that it has."""
    outside, body, in_function = [], [], False
    for i, line in enumerate(block):
        in_function = in_function or re.match(r"(?!if|for|while)\w[\w *]*\(.*\) \{( *//.*)?$", line) is not None
        (outside if in_function else body).append(f'#line {number + i} "{name}"\n{line}')
        in_function = in_function and line != "}"
    head = f"static RpStatus example_{name.removesuffix('.h')}_{number}({GIVEN.get(name) or 'void'})"
    return [BEFORE.get(name, ""), *outside, head + " {", "{", *body, "}", "return RP_OK;", "}"]


lines, found, failed = ['#include "reprise/reprise.h"', '#include "reprise/nn.h"', "#include <stdio.h>", "#include <string.h>"], 0, 0
paths = [p for p in sorted(pathlib.Path(include, "reprise").glob("*.h")) if p.name != "version.h"]
for path in paths + [pathlib.Path(version_h)]:
    blocks = list(examples(path.read_text()))
    if not blocks:
        print(f"{path.name} has no example")
        failed += 1
    for number, block in blocks:
        found += 1
        lines += function(path.name, number, block)
with tempfile.TemporaryDirectory() as temp:
    source = pathlib.Path(temp, "examples.c")
    source.write_text("\n".join(lines) + "\n")
    for command in ([c_compiler, "-std=c17"], [cxx_compiler, "-xc++", "-std=c++20"]):
        failed += subprocess.run([*command, *FLAGS, f"-I{include}", f"-I{pathlib.Path(version_h).parent.parent}",
                                  str(source)]).returncode != 0
print(f"{found} examples, {failed} failures")
sys.exit(failed > 0 or found < 20)
