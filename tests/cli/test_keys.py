"""Does the program read every key and tensor that llama.cpp reads of a file of the same architecture?

    test_keys.py PROGRAM SOURCE_DIR [--arch NAME...]      --arch: only these architectures

tests/golden/keys.txt (tools/make_keys.py) has what llama.cpp reads. What the program reads is found by its
refusals: a tiny model gets a value of a wrong type for a key, or a tensor of a wrong shape, and the program names
it. If it does not, it has not looked. A tensor that it does not know it refuses by itself. What it does not read
must be in EXCEPTIONS with its architectures and a reason. An exception that is read fails too.

No test passes or fails by how long something takes."""
import concurrent.futures
import glob
import os
import re
import struct
import subprocess
import sys
import tempfile

PROGRAM, SOURCE = os.path.abspath(sys.argv[1]), sys.argv[2]
HANG_S = float(os.environ.get("REPRISE_TEST_HANG_S", 600))
GOLDEN = os.path.join(SOURCE, "tests/golden")
U32, F32, STRING, ARRAY = 4, 6, 8, 9
# bytes of a value of each scalar type
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, U32: 4, 5: 4, F32: 4, 7: 1, 10: 8, 11: 8, 12: 8}

# What llama.cpp reads and the program does not: kind, names, architectures, reason. "all": whatever the
# architecture; "all but NAME ...": of these it is read.
OF_EXPERTS = "llama.cpp loads families with and without experts alike; tensors of experts are refused by name here"
OF_SHARED = "llama.cpp reads them if a key says so that it does not read for this family"
OF_NEXT = "layers that predict further tokens are not run in this family, and results do not depend on them"
EXCEPTIONS = [
    ("key", "ARCH.attention.key_length_swa ARCH.attention.value_length_swa", "all but gemma4 gemma4-assistant",
     "converters write it for Gemma 4 only; the tensors of heads of another length are refused"),
    ("key", "ARCH.attention.shared_kv_layers", "gemma4-assistant", "all of its layers read caches of the model"),
    ("key", "ARCH.nextn_predict_layers", "gemma4-assistant", "all of its layers predict further tokens"),
    ("key", "ARCH.attention.sliding_window", "phi3", "llama.cpp switches the window of this family off"),
    ("key", "ARCH.classifier.output_labels", "all but bert qwen3",
     "it counts the rows of cls.output.weight; the tiny models have no such tensor, or one of one row"),
    ("key", "ARCH.deepstack_mapping", "granite", "of embeddings of images"),
    ("key", "ARCH.dense_2_feat_in ARCH.dense_2_feat_out ARCH.dense_3_feat_in ARCH.dense_3_feat_out",
     "gemma-embedding", "the shapes of dense_2.weight and dense_3.weight say it"),
    ("key", "ARCH.n_deepstack_layers", "qwen3vl qwen3vlmoe", "of embeddings of images"),
    ("key", "ARCH.embedding_length_out", "all but gemma4-assistant", "the shape of dense_2.weight says it"),
    ("key", "ARCH.expert_count ARCH.expert_used_count ARCH.expert_group_count ARCH.expert_group_used_count",
     "ernie4_5 granite lfm2 nemotron_h", OF_EXPERTS),
    ("key", "ARCH.expert_feed_forward_length ARCH.expert_shared_count ARCH.expert_weights_norm"
     " ARCH.expert_weights_scale ARCH.moe_latent_size", "nemotron_h", OF_EXPERTS),
    ("key", "ARCH.expert_shared_feed_forward_length", "granite nemotron_h", OF_EXPERTS),
    ("key", "ARCH.rope.dimension_sections", "ernie4_5 ernie4_5-moe", "llama.cpp does nothing with it"),
    ("key", "ARCH.rope.dimension_sections", "glm4moe",
     "the positions of text are equal, and pairs are (i, i+n/2) anyway"),
    ("key", "ARCH.rope.scaling.alpha", "all but llama hunyuan-dense",
     "read beside rope.scaling.type ntk, as in tiny/llama-ntk; llama.cpp uses it for Hunyuan only"),
    ("key", "ARCH.rope.dimension_sections", "hunyuan-dense", "the same; these are files of HunyuanVL"),
    ("key", "ARCH.rope.scaling.finetuned", "all but granite granitehybrid", "llama.cpp prints it"),
    ("key", "ARCH.vocab_size", "apertus arcee bert cohere2 command-r ernie4_5 eurobert exaone exaone4 falcon-h1 gemma gemma-embedding gemma2 gemma3"
     " gemma4-assistant glm4 gpt2 granite hunyuan-dense internlm2 lfm2 maincoder modern-bert muse-glimmer nemotron nemotron_h"
     " nomic-bert olmo2 phi3 qwen2 qwen2vl qwen3 qwen35 stablelm starcoder starcoder2"
     " qwen3vl seed_oss smollm3",
     "the rows of token_embd.weight say it; families with experts read it to know GLM-4.7 Flash"),
    ("key", "general.file_type", "all", "llama.cpp prints it"),
    ("key", "general.name", "all", "of a wrong type it is ignored; it tells the tokenizers of Phi 3"),
    ("key", "general.tensor_extra.name general.tensor_extra.prec_a4", "all",
     "tensors that llama.cpp does not multiply with activations of 4 bits; there are none of these here"),
    ("key", "tokenizer.ggml.mask_token_id tokenizer.ggml.padding_token_id", "all", "no text gets these tokens"),
    ("key", "tokenizer.ggml.token_type_count", "all", "the rows of token_types.weight say it"),
    ("tensor", "blk.N.attn_q.weight blk.N.attn_k.weight blk.N.attn_v.weight", "nomic-bert phi3",
     "read where there is no attn_qkv.weight, which the tiny models have"),
    ("tensor", "blk.N.attn_qkv.bias", "all but gpt2 nomic-bert phi3 qwen35 starcoder", "read beside attn_qkv.weight"),
    ("tensor", "blk.N.exp_probs_b.bias", "ernie4_5 lfm2 nemotron_h", OF_EXPERTS),
    ("tensor", "blk.N.ffn_gate_inp.weight blk.N.ffn_up_exps.weight blk.N.ffn_down_exps.weight",
     "ernie4_5 granite lfm2 nemotron_h", OF_EXPERTS),
    ("tensor", "blk.N.ffn_gate_exps.weight", "ernie4_5 granite lfm2", OF_EXPERTS),
    ("tensor", "blk.N.ffn_up_shexp.weight blk.N.ffn_down_shexp.weight", "ernie4_5 granite nemotron_h", OF_EXPERTS),
    ("tensor", "blk.N.ffn_gate_shexp.weight", "ernie4_5 granite", OF_EXPERTS),
    ("tensor", "blk.N.ffn_latent_down.weight blk.N.ffn_latent_up.weight", "nemotron_h", OF_EXPERTS),
    ("tensor", "blk.N.ffn_gate_shexp.weight blk.N.ffn_up_shexp.weight blk.N.ffn_down_shexp.weight",
     "llama mistral3", OF_SHARED),
    ("tensor", "blk.N.ffn_up.weight blk.N.ffn_up.bias blk.N.ffn_down.weight blk.N.ffn_down.bias",
     "granitemoe nemotron_h_moe", "of files without experts, which are those of granite and nemotron_h"),
    ("tensor", "blk.N.ffn_gate.weight blk.N.ffn_gate.bias", "granitemoe", "of files without experts, which are those of granite"),
    ("tensor", "blk.N.ffn_up.bias blk.N.ffn_down.bias", "nomic-bert", "refused by name; the models have none"),
    ("tensor", "blk.N.nextn.eh_proj.weight", "nemotron_h nemotron_h_moe", OF_NEXT),
    ("tensor", "blk.N.nextn.enorm.weight blk.N.nextn.hnorm.weight blk.N.nextn.shared_head_norm.weight"
     " blk.N.post_attention_norm.weight", "nemotron_h nemotron_h_moe", OF_NEXT),
    ("tensor", "blk.N.nextn.embed_tokens.weight blk.N.nextn.enorm.weight blk.N.nextn.hnorm.weight"
     " blk.N.nextn.shared_head_head.weight blk.N.nextn.shared_head_norm.weight", "glm4 mistral4",
     "read beside nextn.eh_proj.weight"),
    ("tensor", "blk.N.nextn.enorm.weight blk.N.nextn.hnorm.weight blk.N.nextn.shared_head_norm.weight", "exaone4",
     "read beside nextn.eh_proj.weight"),
    ("tensor", "blk.N.attn_q_norm.bias blk.N.attn_k_norm.bias", "apertus", "llama.cpp loads them and does not add them"),
    ("tensor", "output.bias", "qwen2 qwen2vl", "refused by name; the Qwen models have none"),
]

# Scales of whole weights, "NAME.scale" and "NAME.input_scale", are not compared: llama.cpp reads them for NVFP4,
# whatever the architecture. tiny/llama-nvfp4-scaled and docs/models.md say which are read here.
SCALE = re.compile(r"\.(input_)?scale$")

# Models of one architecture that are models of another too, so that more of it is asked for.
ALSO = {"mistral3": "tiny/mixtral-f32", "mistral4": "tiny/deepseek2-lite"}


def text(s):
    return struct.pack("<Q", len(s.encode())) + s.encode()


def u32(n):
    return struct.pack("<II", U32, n)


def word(s):
    return struct.pack("<I", STRING) + text(s)


# Values of a wrong type: no key can be an array of one string, and a fraction, and a word.
WRONG = struct.pack("<IIQ", ARRAY, STRING, 1) + text("x"), struct.pack("<If", F32, 0.5), word("x")
ODD = 3, 5, 7  # a shape that no tensor has


class File:
    """A GGUF file: its values as bytes behind their type, its tensors as bytes of their description."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.bytes = f.read()
        self.at, self.values, self.tensors = 24, {}, {}
        n_tensors, n_values = struct.unpack_from("<QQ", self.bytes, 8)
        for _ in range(n_values):
            key, start = self.string(), self.at
            self.skip(self.number("<I"))
            self.values[key] = self.bytes[start:self.at]
        for _ in range(n_tensors):
            name, start = self.string(), self.at
            n_dims = self.number("<I")
            self.at += 8 * n_dims + 12
            self.tensors[name] = self.bytes[start:self.at]
        self.data = self.bytes[(self.at + 31) // 32 * 32:]
        self.arch = self.values["general.architecture"][12:].decode()

    def number(self, form):
        self.at += struct.calcsize(form)
        return struct.unpack_from(form, self.bytes, self.at - struct.calcsize(form))[0]

    def string(self):
        n = self.number("<Q")
        self.at += n
        return self.bytes[self.at - n:self.at].decode("utf-8", "surrogateescape")

    def skip(self, kind):
        if kind == STRING:
            self.string()
        elif kind == ARRAY:
            of, n = self.number("<I"), self.number("<Q")
            for _ in range(n if of == STRING else 0):
                self.string()
            self.at += n * SIZES.get(of, 0)
        else:
            self.at += SIZES[kind]

    def n_layer(self):
        return struct.unpack_from("<I", self.values[f"{self.arch}.block_count"], 4)[0]

    def layers(self):
        """A layer of each kind, and the one behind the last if the file has none that predicts further tokens."""
        kinds, behind = {}, f"{self.arch}.nextn_predict_layers" not in self.values
        for i in range(self.n_layer() + behind):
            names = frozenset(n.split(".", 2)[2] for n in self.tensors if n.startswith(f"blk.{i}."))
            kinds.setdefault(names, i)
        return sorted(kinds.values())

    def written(self, values, tensors):
        """The file with these values, and with tensors of zeros, {name: shape}, in place of its own or beside."""
        values = {**self.values, **values}
        described = {n: t for n, t in self.tensors.items() if n not in tensors}
        end = len(self.data) + -len(self.data) % 32
        for name, shape in tensors.items():
            described[name] = struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, 0, end)
            size = 4
            for n in shape:
                size *= n
            end += size + -size % 32
        head = struct.pack("<4sIQQ", b"GGUF", 3, len(described), len(values))
        head += b"".join(text(name) + what for name, what in [*values.items(), *described.items()])
        return head + bytes(-len(head) % 32) + self.data + bytes(end - len(self.data))


class Program:
    """What the program says of files."""

    OPENED = re.compile(r"makes embeddings of texts|guesses tokens of another model")

    def __init__(self, *command):
        self.command, self.folder = command or ("plan", "--ctx", "16"), tempfile.TemporaryDirectory()

    def refusal(self, data):
        """"" if the model was opened."""
        path = os.path.join(self.folder.name, "m.gguf")
        with open(path, "wb") as f:
            f.write(data)
        p = subprocess.run([PROGRAM, self.command[0], path, *self.command[1:]], stdout=subprocess.DEVNULL,
                           stderr=subprocess.PIPE, text=True, timeout=HANG_S,
                           env={**os.environ, "REPRISE_DEVICE": "cpu"})
        if p.returncode not in (0, 1, 2):
            raise AssertionError(f"exit {p.returncode}: {p.stderr}")
        return "" if p.returncode == 0 or self.OPENED.search(p.stderr) else p.stderr.strip()

    @staticmethod
    def named(said, names):
        """Those of the names that a refusal has."""
        return {n for n in names if re.search(rf"(?<![\w.]){re.escape(n)}(?![\w.]*\w)", said)}

    def keys_read(self, file, keys, beside=None, tensors=None):
        beside, tensors, read = beside or {}, tensors or {}, set()
        if said := self.refusal(file.written(beside, tensors)):
            raise AssertionError(f"a file without a wrong value is refused: {said}")
        for wrong in WRONG:
            left = set(keys) - read
            while said := self.refusal(file.written({**beside, **dict.fromkeys(left, wrong)}, tensors)):
                found = self.named(said, left)
                if not found:  # it may say what a value leads to
                    found = {k for k in left if self.refusal(file.written({**beside, k: wrong}, tensors))}
                if not found:
                    raise AssertionError(f"none of the keys alone leads to: {said}")
                left -= found
                read |= found
        return read

    def tensors_read(self, file, names, beside):
        """Those that it reads; others it refuses, or ignores if they are of layers that predict further tokens."""
        left, read = set(names), set()
        while said := self.refusal(file.written(beside, dict.fromkeys(sorted(left), ODD))):
            found = self.named(said, left)
            if not found:
                raise AssertionError(f"this names none of the tensors: {said}")
            left -= found
            unused = re.search(r"does not use (\d+) of the tensors", said)
            if unused and int(unused[1]) == len(left) + 1:
                break
            if not unused:
                read |= found
        return read


def llama_cpp():
    """{architecture or "all": {(kind, name)}}"""
    read = {}
    with open(os.path.join(GOLDEN, "keys.txt")) as f:
        for line in f.read().splitlines()[1:]:
            if line[0] != " ":
                read[line] = section = set()
            else:
                section.add(tuple(line.split()))
    return read


def tiny_models():
    """{architecture: files}, of which each has other keys or tensors."""
    files, rooms = {}, ("tiny", "embed", "assistant")
    for path in sorted(p for room in rooms for p in glob.glob(os.path.join(GOLDEN, room, "*.gguf"))):
        file = File(path)
        files.setdefault(file.arch, {}).setdefault((frozenset(file.values), frozenset(file.tensors)), file)
    files = {arch: list(of_arch.values()) for arch, of_arch in files.items()}
    for arch, name in ALSO.items():
        file = File(os.path.join(GOLDEN, name + ".gguf"))
        file.values = {re.sub(rf"^{file.arch}\.", f"{arch}.", k): v for k, v in file.values.items()}
        file.arch = arch
        file.values["general.architecture"] = word(arch)
        files[arch].append(file)
    return files


def unread(arch, files, names):
    """What the program does not read of (kind, name)."""
    program = Program()
    keys = {name.replace("ARCH", arch, 1): ("key", name) for kind, name in names if kind == "key"}
    tensors = {name for kind, name in names if kind == "tensor"}
    keys_left, tensors_left = set(keys), set(tensors)
    for file in files:
        keys_left -= program.keys_read(file, keys_left)
        more = {f"{arch}.block_count": u32(file.n_layer() + 1), f"{arch}.nextn_predict_layers": u32(1)}
        for layer in file.layers():
            of_layer = {n.replace("blk.N.", f"blk.{layer}."): n for n in tensors_left}
            tensors_left -= {of_layer[n] for n in of_layer if n in file.tensors}
            asked = {n for n in of_layer if n not in file.tensors and ("blk.N." in of_layer[n] or layer == 0)}
            read = program.tensors_read(file, asked, more if layer == file.n_layer() else {})
            tensors_left -= {of_layer[n] for n in read}
    return {keys[k] for k in keys_left} | {("tensor", n) for n in tensors_left}


def unread_of_all(names):
    """Keys of every architecture, in files with each kind of tokenizer, and those read when a reply begins."""
    left = {name for _, name in names}
    program, tiny = Program(), os.path.join(GOLDEN, "tiny/llama-f32.gguf")
    base = File(tiny)
    n_embd = struct.unpack_from("<I", base.values["llama.embedding_length"], 4)[0]
    for name in "tokenizer/default", "tokenizer/gemma4", "tokenizer/spm", "wordpiece/wordpiece", "unigram/unigram":
        vocabulary = File(os.path.join(GOLDEN, name + ".gguf"))
        values = {k: v for k, v in vocabulary.values.items() if k.startswith("tokenizer.")}
        base.values = {k: v for k, v in base.values.items() if not k.startswith("tokenizer.")} | values
        shape = n_embd, struct.unpack_from("<Q", values["tokenizer.ggml.tokens"], 8)[0]
        left -= program.keys_read(base, left, {}, {"token_embd.weight": shape, "output.weight": shape})
    base = File(tiny)
    reply = Program("generate", "-p", "a", "-n", "1")
    left -= reply.keys_read(base, {n for n in left if n.startswith("general.sampling.")})
    template = {"tokenizer.chat_template": word("{{ messages[0].content }}")}
    left -= Program("generate", "--chat", "-p", "a", "-n", "1").keys_read(base, {*template}, template)
    return {("key", name) for name in left}


def compared(found, archs):
    """The differences between what is not read, {(kind, name): architectures}, and EXCEPTIONS, a line each."""
    allowed = {}
    for kind, names, of, _ in EXCEPTIONS:
        for what in ((kind, name) for name in names.split()):
            but = of[8:].split() if of.startswith("all but ") else None
            these = archs.get(what, set()) - set(but) if but else set(of.split())
            allowed[what] = allowed.get(what, set()) | these
    for what in sorted({*found, *allowed}):
        for arch in sorted(found.get(what, set()) - allowed.get(what, set())):
            yield f"{arch}: {' '.join(what)}: llama.cpp reads it, the program does not"
        for arch in sorted(allowed.get(what, set()) - found.get(what, set())):
            yield f"{arch}: {' '.join(what)}: an exception, but the program reads it, or llama.cpp does not"


def main():
    listed, files = llama_cpp(), tiny_models()
    generic = listed.pop("all")
    any_arch = {(kind, name) for kind, name in generic if kind == "key" and not name.startswith("ARCH.")}
    others = [name for kind, name in generic if kind == "tensor" and not SCALE.search(name)]
    assert not others, f"tensors of all architectures: {others}"
    names = {}
    for arch, own in listed.items():
        names[arch] = own | {what for what in generic if what[1].startswith("ARCH.")}
        if ("tensor", "blk.N.ffn_gate_inp.weight") not in own:  # llama.cpp does nothing with the keys of experts
            names[arch] = {what for what in names[arch] if not what[1].startswith("ARCH.expert_")}
    with open(os.path.join(SOURCE, "model/arch_table.c")) as f:
        known = set(re.findall(r'^ +\.name += "(.*?)"', f.read(), re.M))
    assert known == set(names), f"run tools/make_keys.py: keys.txt and the program differ in {known ^ set(names)}"
    assert known <= set(files), f"tests/golden has no model of {known - set(files)}"
    asked = sys.argv[sys.argv.index("--arch") + 1:] if "--arch" in sys.argv else list(names)
    found, archs = {}, {what: {"all"} for what in any_arch}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        of_all = pool.submit(unread_of_all, any_arch)
        results = {arch: pool.submit(unread, arch, files[arch], names[arch]) for arch in asked}
        for what in of_all.result():
            found[what] = {"all"}
        for arch in asked:
            for what in names[arch]:
                archs.setdefault(what, set()).add(arch)
            for what in results[arch].result():
                found.setdefault(what, set()).add(arch)
    lines = [line for line in compared(found, archs) if line.split(":")[0] in (*asked, "all")]
    for line in lines:
        print(line)
    n, n_unread = sum(map(len, archs.values())), sum(map(len, found.values()))
    print(f"{n} keys and tensors that llama.cpp reads, {n_unread} not read here, {len(lines)} differences")
    sys.exit(bool(lines) or (len(asked) == len(names) and n < 2000))


if __name__ == "__main__":
    main()
