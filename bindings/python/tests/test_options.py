"""The options that are passed on (reprise/_options.py) are those of the calls that read them, and editors complete them."""
import ast
import inspect
import pathlib

import jedi
import mypy.api
import pytest

import reprise
from reprise import nn
from reprise.chat import chat_events
from reprise.session import session_options
from reprise.trainer import train_options

READERS = {
    reprise.SessionOptions: reprise.Session.__init__,
    reprise.MemoryOptions: session_options,
    reprise.TrainOptions: train_options,
    reprise.EmbedOptions: reprise.Embedder.__init__,
    reprise.EngineOptions: reprise.Engine.__init__,
    reprise.DumpOptions: reprise.Graph.dump,
    reprise.Sampling: reprise.Sampler.__init__,
    reprise.GenerateOptions: reprise.Session.generate,
    reprise.ChatOptions: chat_events,
}


def hints(options):
    """{name: type} of a TypedDict and of its bases."""
    return {name: getattr(hint, "__forward_arg__", hint) for name, hint in options.__annotations__.items()}


@pytest.mark.parametrize("options, reader", READERS.items(), ids=lambda value: value.__name__)
def test_options_are_those_of_their_reader(options, reader):
    parameters = inspect.signature(reader).parameters.values()
    read = {p.name: p.annotation for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}
    if any("Sampling" in str(p.annotation) for p in parameters):
        read |= hints(reprise.Sampling)
    assert hints(options) == read


def test_a_drawing_takes_the_options_of_a_dump_without_notes():
    assert hints(reprise.DumpOptions).keys() - hints(reprise.DrawOptions).keys() == {"notes"}


def test_device_options_are_those_of_an_executor():
    parameters = inspect.signature(reprise.Executor.__init__).parameters
    assert all(str(parameters[name].annotation) == hint for name, hint in hints(reprise.DeviceOptions).items())


def test_the_functions_of_nn_have_their_parameters():
    stubs = ast.parse((pathlib.Path(nn.__file__).parent / "_nn/functions.pyi").read_text())
    calls = {node.name[1:]: node.body[0].args for node in stubs.body if isinstance(node, ast.ClassDef)}
    assert calls.keys() == nn.FUNCTIONS.keys()
    for name, function in nn.FUNCTIONS.items():
        args = calls[name]
        positional, keyword = [a.arg for a in args.args[1:]], [a.arg for a in args.kwonlyargs]
        optional = {*positional[len(positional) - len(args.defaults):], *(a for a, d in zip(keyword, args.kw_defaults) if d is not None)}
        parameters = inspect.signature(function).parameters.values()
        assert positional == [p.name for p in parameters if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD], name
        assert keyword == [p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY], name
        assert optional == {p.name for p in parameters if p.default is not inspect.Parameter.empty}, name


@pytest.mark.parametrize("call, option", [
    ("reprise.Model().generate('a', max_", "max_tokens="),
    ("reprise.Model().generate('a', temp", "temperature="),
    ("reprise.Model().session(kv", "kv_type="),
    ("reprise.Trainer(reprise.Model(), lora_r", "lora_rank="),
    ("reprise.Model().chat([], tool_c", "tool_choice="),
    ("reprise.Model().session().chat_events([], reasoning_b", "reasoning_budget="),
    ("reprise.nn.rmsnorm(1, ep", "eps="),
])
def test_an_editor_completes_options(call, option):
    names = [completion.name for completion in jedi.Script("import reprise\n" + call).complete()]
    assert option in names


def test_a_type_checker_refuses_wrong_options(tmp_path):
    right = ["import reprise", "model = reprise.Model()", "model.generate('a', max_tokens=3, temperature=0.5)",
             "model.chat([], tool_choice='none', top_p=0.5)", "reprise.nn.rmsnorm([1.0], eps=1e-6)", "reprise.nn.silu.backend"]
    lines = [*right,
             "model.generate('a', max_token=3)", "model.generate('a', seed='x')", "model.session(n_context=5)",
             "reprise.Trainer(model, lora_rank=1.5)", "reprise.Sampler(8, heat=1)", "model.session().chat('a', top_q=0.5)",
             "model.chat([], tool_choise='none')", "model.session().chat_events([], log=3)", "reprise.nn.rmsnorm([1.0], epsilon=1e-6)",
             "reprise.nn.topk([1.0])", "reprise.nn.sillu([1.0])"]
    path = tmp_path / "options.py"
    path.write_text("\n".join(lines))
    text, _, _ = mypy.api.run([str(path), "--config-file=", f"--cache-dir={tmp_path}"])
    found = {int(line.split(":")[1]) for line in text.splitlines() if ": error: " in line}
    assert found == set(range(len(right) + 1, len(lines) + 1)), text
