#!/usr/bin/env python3
"""Directories of Hugging Face with small tokenizers, one for each kind of pipeline, and the token ids by the package tokenizers.

    tools/golden/golden_hf_tokenizers.py OUT_DIRECTORY TEXT.txt [NAME...]

Each run trains other vocabularies of the kinds that limit_alphabet or the unigram trainer make: NAME rewrites only these directories.
NAME/ has tokenizer.json, config.json and a file of weights with one tensor. NAME/tokens.txt has lines as golden_tokens.py writes
them; special tokens in the text are always found, as the package does."""
import io
import json
import pathlib
import random
import sys
import unicodedata

import numpy
import sentencepiece
import tokenizers
from safetensors.numpy import save_file
from sentencepiece import sentencepiece_model_pb2
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
    "punctuation": (None, [pre_tokenizers.Punctuation("contiguous"), byte_level(True)], False, False),
    "punctuation-single": (normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()]),
                           [pre_tokenizers.Punctuation(), byte_level(True)], False, False),
    "replace": (normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Replace("...", "\u2026"),
                                      normalizers.Lowercase(), normalizers.Strip()]), [byte_level(True)], False, False),
    "nfkc": (normalizers.NFKC(), [byte_level(True)], False, False),
    "nfkd": (normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(), normalizers.Lowercase()]), [byte_level(True)], False, False),
    "single-word": (normalizers.NFC(), [byte_level(True)], False, False),
    "lines": (None, [pre_tokenizers.Split("\n", "isolated"), pre_tokenizers.Split(Regex(r"\s+$"), "isolated"), byte_level(True)], False, False),
}
SINGLE = [AddedToken("word", single_word=True, normalized=False), AddedToken("wor", normalized=False), AddedToken("New York", single_word=True),
          AddedToken("n\u00e9", single_word=True, normalized=False), AddedToken("-x-", single_word=True, normalized=False, lstrip=True, rstrip=True)]
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


def compatible_texts():
    """Every character with a compatibility decomposition, and random neighbours of them."""
    codes = [chr(c) for c in range(0x110000) if unicodedata.decomposition(chr(c)).startswith("<")]
    marks = [chr(c) for c in [*range(0x300, 0x370), *range(0x591, 0x5b0), 0x3099, 0x309a, 0x94d]]
    hangul = [chr(c) for c in [*range(0x1100, 0x1200), *range(0x3131, 0x318f), *range(0xffa0, 0xffdd)] if unicodedata.name(chr(c), "")]
    out, rng = ["".join(codes[i:i + 64]) for i in range(0, len(codes), 64)], random.Random(1)
    for _ in range(80):
        out.append("".join(rng.choice(rng.choice([codes, marks, marks, hangul, ["a", "o", "A", " ", "\u00e9"]])) for _ in range(rng.randint(2, 12))))
    return [*out, "\ufdfa" * 40]


def single_words():
    """The tokens of SINGLE beside characters of words and others."""
    sides = list("az09_- .,A\u00e9\u03b1\u4e2d\u0301\u0903\u200d\u200c\u200b\u203f\u2167\u2460\u24d0\u00b2\u00aa\u0660\u00a0\ufb01\u30fc\uff3f\u3007\u20dd\u0e01\u0e33")
    sides += ["\U0001f130", "\U0001f150", "\U0001f170", "\U0001f189", "\U0001f18a", "\U0001f600", "\U0001d7d8", "\U000e0100", "\U00016a60"]
    for token in ("word", "New York", "n\u00e9", " -x- "):
        yield from (t for c in sides for t in (c + token, token + c, c + token + c))
    yield from ["wordword", "word word", "New Yorkword", "wordNew York", "<|im_end|>New York<|im_end|>", "END" + "New York", "ENDword", "wordEND", "wordy wor words",
                "-x--x-", "a -x- -x- b", "word-x-", "-x-word", "wo\u0301rd word\u0301", "n\u00e9\u0301 ne\u0301 n\u00e9", "<|im_end|>word<|im_end|>", "word\nword\tword"]


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
    if name == "single-word":
        tokenizer.add_tokens(SINGLE)
        tokenizer.add_special_tokens([AddedToken("END", special=True, normalized=False)])
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


def charsmap():
    """The map nmt_nfkc of SentencePiece, which XLM-RoBERTa and T5 have."""
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(["ab ba"]), model_writer=out, vocab_size=8, hard_vocab_limit=False,
                                             normalization_rule_name="nmt_nfkc", minloglevel=2)
    return sentencepiece_model_pb2.ModelProto.FromString(out.getvalue()).normalizer_spec.precompiled_charsmap


def xlm_roberta_tokenizer(name, texts):
    trained = Tokenizer(models.Unigram())
    trained.normalizer = normalizers.Precompiled(charsmap())
    trained.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")])
    trained.train_from_iterator(texts, trainers.UnigramTrainer(vocab_size=900, unk_token="<unk>", special_tokens=["<s>", "<pad>", "</s>", "<unk>"],
                                                               show_progress=False))
    pieces = [tuple(p) for p in json.loads(trained.to_str())["model"]["vocab"]] + [("<mask>", 0.0)]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3))
    tokenizer.normalizer, tokenizer.pre_tokenizer = trained.normalizer, trained.pre_tokenizer
    if name == "bge-m3":
        steps = [normalizers.Precompiled(charsmap()), normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), MARK)]
        tokenizer.normalizer, tokenizer.pre_tokenizer = normalizers.Sequence(steps), pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.add_special_tokens([AddedToken(t, special=True, normalized=False) for t in ["<s>", "<pad>", "</s>", "<unk>"]])
    tokenizer.add_special_tokens([AddedToken("<mask>", special=True, normalized=name != "bge-m3", lstrip=True)])
    sep, cls = ("</s>", 2), ("<s>", 0)
    tokenizer.post_processor = processors.RobertaProcessing(sep, cls) if name == "bge-m3" else processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[cls, sep])
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


def write(directory, make, texts):
    if sys.argv[3:] and directory.name not in sys.argv[3:]:
        return
    tokenizer = make()
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
    texts += ["A\u030a\u0301 A\u030a e\u0301x", "a\r\nb\r\n", "\u1112\u1161\u11ab \u1100\u1161", "\u0915\u094d\u0937 \u30cf\u309a \uff76\uff9e", "\ufb01 \u2167 \u00bd \u200b x\u00ad y",
                "\U0001f468\u200d\U0001f469 \u00a9\ufe0f 1\ufe0f\u20e3", "<mask> a  <mask>b <mask>", "  two  spaces   at the end  ", "\u2581a \u2581 b\u2581c", " \u3000 ",
                "\u0130STANBUL \u03a3\u03a4\u039f\u03a3 \u1e9e \uff21\uff22", "wait... a....b", "$5+3=8 <a^b|c~`d>, \u00a1hola! --- \u2026\u3002"]
    training = corpus.splitlines(keepends=True) + all_cases
    more = {"nfkc": compatible_texts(), "nfkd": compatible_texts(), "single-word": [*single_words()]}
    for name, kind in BYTES.items():
        write(out / name, lambda: bytes_tokenizer(name, training, *kind), texts + more.get(name, []))
    for name, kind in WORDS.items():
        write(out / name, lambda: words_tokenizer(name, training, *kind), texts)
    for name, kind in UNIGRAM.items():
        write(out / name, lambda: unigram_tokenizer(name, corpus.splitlines(keepends=True), *kind), [t for t in texts if "<0x" not in t])  # a byte token comes from no text here
    for name in ("xlm-roberta", "bge-m3"):
        write(out / name, lambda: xlm_roberta_tokenizer(name, corpus.splitlines(keepends=True) + texts[-13:]), texts)


if __name__ == "__main__":
    main()
