#!/usr/bin/env python3
"""Replies of chat models, taken apart by the parsers of sglang.

    tools/golden/golden_replies.py --write SGLANG      golden.jsonl of tests/golden/replies, from cases.jsonl

SGLANG is the unpacked wheel (pip download --no-deps sglang==0.5.23; unzip), whose parsers need pydantic, orjson, msgspec, regex and
partial-json-parser, but not the package itself: what else they import is replaced here. A line of cases.jsonl has a format, the name of
a list of tools (tools.json) and a reply. A line of golden.jsonl has these, the text around the calls without white space
at its ends, the reasoning, and the calls. A case with "want" is written by hand from the chat template of the model that
"source" names, because sglang has no parser for it, or one that differs ("why")."""
import importlib.util
import json
import pathlib
import sys
import types

GOLDEN = pathlib.Path(__file__).parents[2] / "tests" / "golden" / "replies"
DETECTORS = {  # of a format: module and class
    "hermes": ("hermes_detector", "HermesDetector"),
    "qwen3-coder": ("qwen3_coder_detector", "Qwen3CoderDetector"),
    "llama3": ("llama32_detector", "Llama32Detector"),
    "mistral": ("mistral_detector", "MistralDetector"),
    "harmony": ("gpt_oss_detector", "GptOssDetector"),
    "gemma4": ("gemma4_detector", "Gemma4Detector"),
    "glm4": ("glm4_moe_detector", "Glm4MoeDetector"),
    "deepseek-v3": ("deepseekv3_detector", "DeepSeekV3Detector"),
    "deepseek-v3.1": ("deepseekv31_detector", "DeepSeekV31Detector"),
    "deepseek-v3.2": ("deepseekv32_detector", "DeepSeekV32Detector"),
    "deepseek-v4": ("deepseekv4_detector", "DeepSeekV4Detector"),
    "kimi-k2": ("kimik2_detector", "KimiK2Detector"),
    "minimax-m2": ("minimax_m2", "MinimaxM2Detector"),
    "lfm2": ("lfm2_detector", "Lfm2Detector"),
}
REASONING = {"think": "qwen3", "mistral": "mistral", "harmony": "gpt-oss", "gemma4": "gemma4"}


def stub(name, **members):
    module = types.ModuleType(name)
    module.__dict__.update(members)
    module.__getattr__ = lambda member: type(member, (), {})
    module.__path__ = []
    sys.modules[name] = module
    return module


def prepare(root):
    """The packages of sglang without what starts a server."""
    import pydantic

    class Function(pydantic.BaseModel):
        name: str
        description: str = ""
        parameters: dict = {}
        strict: bool = False

    class Tool(pydantic.BaseModel):
        type: str = "function"
        function: Function

    class Anything:
        def __getattr__(self, name):
            return self

        def __call__(self, *_args, **_kwargs):
            return self

        def get(self, *_args):
            return False

    for package in ("sglang", "sglang.srt", "sglang.srt.entrypoints", "sglang.srt.entrypoints.openai"):
        stub(package)
    for package in ("sglang.srt.function_call", "sglang.srt.parser"):
        stub(package).__path__ = [str(root / package.replace(".", "/"))]
    stub("sglang.srt.entrypoints.openai.protocol", Tool=Tool, ToolChoice=type("ToolChoice", (), {}))
    stub("sglang.srt.environ", envs=Anything(), ToolStrictLevel=Anything())
    stub("transformers")
    stub("xgrammar")
    stub("xgrammar.structural_tag")
    return Tool


def load(module):
    return importlib.import_module(module)


def calls_of(case, tools, text):
    module, name = DETECTORS[case.get("sglang", case["format"])]
    detector = getattr(load("sglang.srt.function_call." + module), name)()
    result = detector.detect_and_parse(text, tools)
    return result.normal_text, [{"name": c.name, "arguments": json.loads(c.parameters)} for c in result.calls]


def reasoning_of(case, text):
    kind = REASONING.get(case.get("reasoning"))
    if kind is None or case["format"] == "harmony":
        return "", text
    parsers = load("sglang.srt.parser.reasoning_parser")
    parser = parsers.ReasoningParser(model_type=kind, stream_reasoning=False, force_reasoning=case.get("in_reasoning", False))
    reasoning, rest = parser.parse_non_stream(text)
    return reasoning or "", rest or ""


def expected(case, tools, tool_class):
    if "want" in case:
        return case["want"]
    reasoning, rest = reasoning_of(case, case["reply"])
    if case["format"] == "harmony":
        harmony = load("sglang.srt.parser.harmony_parser").HarmonyParser()
        events = harmony.parse(case["reply"]) + harmony.parse("")
        reasoning = "".join(e.content for e in events if e.event_type == "reasoning")
        if not any(e.event_type == "tool_call" for e in events):
            return {"text": "".join(e.content for e in events if e.event_type == "normal"), "reasoning": reasoning, "calls": []}
    text, calls = calls_of(case, [tool_class(**t) for t in tools], rest) if case["format"] != "none" else (rest, [])
    return {"text": (text or "").strip(), "reasoning": reasoning.strip(), "calls": calls}


def main():
    if len(sys.argv) != 3 or sys.argv[1] != "--write":
        sys.exit(__doc__)
    root = pathlib.Path(sys.argv[2]).resolve()
    tool_class = prepare(root)
    tools = json.loads((GOLDEN / "tools.json").read_text(encoding="utf-8"))
    lines = []
    for line in (GOLDEN / "cases.jsonl").read_text(encoding="utf-8").split("\n"):
        if not line:
            continue
        case = json.loads(line)
        want = expected(case, tools, tool_class)
        lines.append(json.dumps({**{"reasoning_format" if k == "reasoning" else k: v for k, v in case.items()
                                     if k not in ("want", "source", "why", "sglang")}, **want},
                                ensure_ascii=False))
    (GOLDEN / "golden.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
