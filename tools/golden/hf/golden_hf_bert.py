#!/usr/bin/env python3
"""The model tests/golden/embed/bert-f32.gguf as a Hugging Face directory of sentence-transformers: the same weights under the names of
transformers, with a WordPiece tokenizer and the pooling of its hidden states.

    tools/golden/hf/golden_hf_bert.py tests/golden/embed/bert-f32.gguf tests/golden/hf_bert"""
import json
import pathlib
import re
import sys

import gguf
import numpy as np

NAMES = {"token_embd": "embeddings.word_embeddings", "position_embd": "embeddings.position_embeddings",
         "token_types": "embeddings.token_type_embeddings", "token_embd_norm": "embeddings.LayerNorm", "attn_q": "attention.self.query",
         "attn_k": "attention.self.key", "attn_v": "attention.self.value", "attn_output": "attention.output.dense",
         "attn_output_norm": "attention.output.LayerNorm", "ffn_up": "intermediate.dense", "ffn_down": "output.dense",
         "layer_output_norm": "output.LayerNorm"}


def name_of(name):
    layer, word, end = re.fullmatch(r"(?:blk\.(\d+)\.)?(\w+)\.(weight|bias)", name).groups()
    return (f"encoder.layer.{layer}." if layer else "") + f"{NAMES[word]}.{end}"


def write_safetensors(path, tensors):
    header, offset = {}, 0
    for name, data in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(data.shape), "data_offsets": [offset, offset + data.nbytes]}
        offset += data.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(data.tobytes() for data in tensors.values()))


def main():
    source, out = gguf.GGUFReader(sys.argv[1]), pathlib.Path(sys.argv[2])
    (out / "1_Pooling").mkdir(parents=True, exist_ok=True)
    field = source.fields["tokenizer.ggml.tokens"]
    tokens = [bytes(field.parts[i]).decode() for i in field.data]
    special = [t for t in tokens if t.startswith("[") and t.isupper()]
    words = [t if t in special else t[1:] if t[0] == "\u2581" else "##" + t for t in tokens]
    tensors = {name_of(t.name): np.array(t.data, np.float32) for t in source.tensors}
    tensors["embeddings.position_ids"] = np.arange(64, dtype=np.float32).reshape(1, 64)
    tensors["pooler.dense.weight"] = np.zeros((32, 32), np.float32)
    write_safetensors(out / "model.safetensors", tensors)

    def dump(name, value):
        (out / name).write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")

    dump("config.json", {
        "architectures": ["BertModel"], "hidden_act": "gelu", "hidden_size": 32, "intermediate_size": 32, "layer_norm_eps": 1e-5,
        "max_position_embeddings": 64, "model_type": "bert", "num_attention_heads": 2, "num_hidden_layers": 2,
        "position_embedding_type": "absolute", "type_vocab_size": 2, "vocab_size": len(tokens)})
    dump("1_Pooling/config.json", {"word_embedding_dimension": 32, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True,
                                   "pooling_mode_max_tokens": False, "pooling_mode_mean_sqrt_len_tokens": False})

    def piece(kind, id_):
        return {kind: {"id": id_, "type_id": 0}}

    dump("tokenizer.json", {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": tokens.index(t), "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                          "special": True} for t in special],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing", "single": [piece("SpecialToken", "[CLS]"), piece("Sequence", "A"),
                                                                    piece("SpecialToken", "[SEP]")]},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100,
                  "vocab": {w: i for i, w in enumerate(words)}}})


if __name__ == "__main__":
    main()
