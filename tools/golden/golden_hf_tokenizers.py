#!/usr/bin/env python3
"""Directories of Hugging Face with small tokenizers, one for each kind of pipeline, and the token ids by the package tokenizers.

    tools/golden/golden_hf_tokenizers.py OUT_DIRECTORY TEXT.txt

NAME/ has tokenizer.json, config.json and a file of weights with one tensor. NAME/tokens.txt has lines as golden_tokens.py writes
them; special tokens in the text are always found, as the package does."""
import json
import pathlib
import sys

import numpy
import tokenizers
from safetensors.numpy import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

sys.modules["llama"] = type(sys)("llama")  # golden_tokens needs it for more than its texts
from golden_tokens import cases  # noqa: E402

N_MERGES = 400
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
USER = ["<repo_name>", "  \n"]
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + TAIL
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + TAIL
QWEN35 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LOWER, UPPER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]", r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
ENDING = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
GPT4O = (r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + "+" + ENDING + r"[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER + "*" + ENDING +
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK3 = [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
             r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
             r"|\s*[\r\n]+|\s+(?!\S)|\s+"]


def byte_level(use_regex=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def splits(*expressions, behavior="isolated", invert=False):
    return [pre_tokenizers.Split(Regex(e), behavior, invert=invert) for e in expressions] + [byte_level()]


# name: (normalizer, pre-tokenizers, ignore_merges, BOS in front)
BYTES = {
    "gpt2": (None, [byte_level(True)], False, False),
    "smollm": (None, [pre_tokenizers.Digits(individual_digits=True), byte_level(True)], False, False),
    "llama3": (None, splits(LLAMA3), True, True),
    "qwen2": (normalizers.NFC(), splits(QWEN2), False, False),
    "qwen35": (normalizers.NFC(), splits(QWEN35), False, False),
    "gpt4o": (None, splits(GPT4O, behavior="removed", invert=True), False, False),
    "deepseek3": (normalizers.Sequence([]), splits(*DEEPSEEK3), False, True),
    "gpt2-strip": (None, [byte_level(True)], False, False),
    "lines": (None, [pre_tokenizers.Split("\n", "isolated"), pre_tokenizers.Split(Regex(r"\s+$"), "isolated"), byte_level(True)], False, False),
}
MARK = "\u2581"
LEGACY = normalizers.Sequence([normalizers.Prepend(MARK), normalizers.Replace(" ", MARK)])
WORDS = {
    "llama2": (LEGACY, None),
    "gemma": (normalizers.Replace(" ", MARK), pre_tokenizers.Split(" ", "merged_with_previous")),
    "mistral-first": (None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False)),
    "words-always": (None, pre_tokenizers.Metaspace(prepend_scheme="always", split=True)),
    "phi3-strip": (LEGACY, None),
    "words-never": (None, pre_tokenizers.Metaspace(prepend_scheme="never", split=True)),
}


def add_specials(tokenizer, bos, strip=False):
    marks = [t for t in ["<unk>", "<s>", "</s>"] if tokenizer.token_to_id(t) is not None]
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False, lstrip=strip and "im" in t, rstrip=strip and "start" not in t)
                                  for t in marks + CONTROL])
    tokenizer.add_tokens([AddedToken(t, normalized=False, lstrip=strip and "<" in t) for t in USER])
    if bos:
        token = CONTROL[0]
        tokenizer.post_processor = processors.TemplateProcessing(single=f"{token} $A", special_tokens=[(token, tokenizer.token_to_id(token))])


def bytes_tokenizer(name, texts, normalizer, parts, ignore_merges, bos):
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(parts) if len(parts) > 1 else parts[0]
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=256 + N_MERGES, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
                                                             show_progress=False))
    add_specials(tokenizer, bos, name.endswith("strip"))
    return tokenizer


def words_tokenizer(name, texts, normalizer, pre_tokenizer):
    """A vocabulary as SentencePiece trains it: characters, merges that may cross words, and bytes for what is not in it."""
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizer or normalizers.Replace(" ", MARK)
    trained.pre_tokenizer = pre_tokenizers.Split(Regex(f"{MARK}*[^{MARK}]+|{MARK}+"), "isolated")
    trained.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=150 + N_MERGES, limit_alphabet=100, show_progress=False))
    model = json.loads(trained.to_str())["model"]
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + sorted(model["vocab"], key=model["vocab"].get)
    merges = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in model["merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if normalizer:
        tokenizer.normalizer = normalizer
    if pre_tokenizer:
        tokenizer.pre_tokenizer = pre_tokenizer
    add_specials(tokenizer, True, name.endswith("strip"))
    return tokenizer


def unigram_tokenizer(name, texts, byte_fallback, pre_tokenizer):
    trained = Tokenizer(models.Unigram())
    trained.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=True)
    trained.train_from_iterator(texts, trainers.UnigramTrainer(vocab_size=500, unk_token="<unk>", special_tokens=["<unk>", "<s>", "</s>"],
                                                               show_progress=False))
    pieces = [tuple(p) for p in json.loads(trained.to_str())["model"]["vocab"]]
    if byte_fallback:
        pieces[3:3] = [(f"<0x{b:02X}>", 0.0) for b in range(256)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=0, byte_fallback=byte_fallback))
    tokenizer.pre_tokenizer = pre_tokenizer
    add_specials(tokenizer, True)
    return tokenizer


UNIGRAM = {
    "unigram": (False, pre_tokenizers.Metaspace(prepend_scheme="always", split=True)),
    "unigram-bytes": (True, pre_tokenizers.Metaspace(prepend_scheme="first", split=False)),
}


def write(directory, tokenizer, texts):
    directory.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(directory / "tokenizer.json"), pretty=False)
    size = tokenizer.get_vocab_size() + 3  # files often have more rows than tokens
    shape = dict(architectures=["LlamaForCausalLM"], vocab_size=size, hidden_size=8, intermediate_size=8, num_hidden_layers=1,
                 num_attention_heads=1, max_position_embeddings=64, hidden_act="silu", tie_word_embeddings=True)
    (directory / "config.json").write_text(json.dumps(shape) + "\n")
    save_file({"model.norm.weight": numpy.ones(8, numpy.float32)}, directory / "model.safetensors")
    with open(directory / "tokens.txt", "w", encoding="ascii") as out:
        print(f"# tokenizers {tokenizers.__version__}", file=out)
        for i, text in enumerate(texts):
            ids = tokenizer.encode(text, add_special_tokens=i % 2 == 1).ids
            print(f"{i % 2}1 {text.encode().hex() or '-'} {' '.join(map(str, ids))}", file=out)


def main():
    out, corpus = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]).read_text()
    all_cases = cases()
    texts = all_cases[:130] + all_cases[130::5]
    texts += [" \t<|im_end|> \n a \u2003<repo_name>\u00a0b<|im_start|>  c \u3000 <|endoftext|>\u2028x", "<|im_end|>", "  <|im_end|>  <|im_end|>  "]
    training = corpus.splitlines(keepends=True) + all_cases
    for name, kind in BYTES.items():
        write(out / name, bytes_tokenizer(name, training, *kind), texts)
    for name, kind in WORDS.items():
        write(out / name, words_tokenizer(name, training, *kind), texts)
    for name, kind in UNIGRAM.items():
        write(out / name, unigram_tokenizer(name, corpus.splitlines(keepends=True), *kind), [t for t in texts if "<0x" not in t])  # a byte token comes from no text here


if __name__ == "__main__":
    main()
