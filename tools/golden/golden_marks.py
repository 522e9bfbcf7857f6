#!/usr/bin/env python3
"""Tokens with a meaning of their own, as llama.cpp finds them in vocabularies of several families.

    tools/golden/golden_marks.py tests/golden/tokenizer/marks.txt

Each vocabulary has a line with the texts of its tokens, all of the type normal, and with the ids that its keys name. The next line has
what llama.cpp finds: the tokens that end a reply, the control tokens, and the six of prompts for code in the middle of a file (-1: none)."""
import pathlib
import sys
import tempfile

import gguf
import llama

FIM = ["fim_pre", "fim_suf", "fim_mid", "fim_pad", "fim_rep", "fim_sep"]
CASES = {
    "qwen2.5-coder": ("<|endoftext|> <|im_start|> <|im_end|> <|fim_prefix|> <|fim_middle|> <|fim_suffix|> <|fim_pad|> <|repo_name|> <|file_sep|>", {"eos": 2}),
    "granite-code": ("<|endoftext|> <fim_prefix> <fim_middle> <fim_suffix> <fim_pad> <reponame> <filename>", {"eos": 0}),
    "deepseek-coder": ("<｜end▁of▁sentence｜> <｜fim▁begin｜> <｜fim▁hole｜> <｜fim▁end｜> <|EOT|>", {"eos": 0}),
    "codellama": ("<s> </s> ▁<PRE> ▁<MID> ▁<SUF> ▁<EOT>", {"eos": 1}),
    "starcoder": ("<|endoftext|> <fim-prefix> <fim-middle> <fim-suffix> <fim-pad> <fim-repo>", {"eos": 0}),
    "glm": ("<|endoftext|> <|user|> <|code_prefix|> <|code_middle|> <|code_suffix|>", {"eos": 0}),
    "falcon": ("<|endoftext|> <|prefix|> <|middle|> <|suffix|>", {"eos": 0}),
    "keys": ("a b c d e f g h <|fim_prefix|> <|fim_pad|>", {"eos": 0, "fim_pre": 1, "fim_suf": 2, "fim_mid": 3, "fim_pad": 4, "fim_rep": 5, "fim_sep": 6}),
    "older-keys": ("a <PRE> b <SUF> c <MID> d", {"eos": 0, "prefix": 2, "suffix": 4, "middle": 6}),
    "gemma3": ("<pad> <eos> <bos> <start_of_turn> <end_of_turn> </s>", {"eos": 1}),
    "gemma4": ("<pad> <eos> <bos> <|turn> <turn|> <|tool_call> <tool_call|> <|tool_response> <s> </s>", {"eos": 1}),
    "kimi": ("[BOS] [EOS] [EOT] [PAD] <|im_end|>", {"eos": 1}),
    "minimax": ("]~b] [e~[ ]!p~[", {"eos": 0}),
    "gpt-oss": ("<|start|> <|end|> <|message|> <|channel|> <|return|> <|call|> <|endoftext|>", {"eos": 4}),
    "solar": ("<|begin|> <|end|> <|flush|> <|calls|> <|endoftext|>", {"eos": 2}),
    "llama3": ("<|begin_of_text|> <|eot_id|> <|eom_id|> <|end_of_text|> <|start_header_id|>", {"eos": 3, "eot": 1}),
    "smoldocling": ("<|im_start|> <end_of_utterance> <row_1_col_1>", {"eos": 1}),
}


def write(path, tokens, keys):
    w = gguf.GGUFWriter(path, "llama")
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(tokens)
    w.add_token_types([gguf.TokenType.NORMAL] * len(tokens))
    w.add_token_merges(["a b"])
    for name, token in keys.items():
        w.add_uint32(f"tokenizer.ggml.{name}_token_id", token)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main(out):
    lines = [f"{llama.HEADER}: vocabularies and their keys, then ends | control tokens | {' '.join(FIM)}"]
    with tempfile.TemporaryDirectory() as folder:
        for name, (text, keys) in CASES.items():
            tokens = text.split(" ")
            path = pathlib.Path(folder) / "vocabulary.gguf"
            write(path, tokens, keys)
            m = llama.Model(path, vocab_only=True)
            lib, v = llama.lib, m.vocab
            ends = [i for i in range(len(tokens)) if lib.llama_vocab_is_eog(v, i)]
            control = [i for i in range(len(tokens)) if lib.llama_vocab_is_control(v, i)]
            fim = [getattr(lib, "llama_vocab_" + f)(v) for f in FIM]
            m.close()
            lines += [f"{name} {text} ; {' '.join(f'{k}={i}' for k, i in keys.items())}",
                      " | ".join(" ".join(map(str, ids)) for ids in (ends, control, fim))]
    pathlib.Path(out).write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
