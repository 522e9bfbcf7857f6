#!/usr/bin/env python3
"""Directories of Hugging Face with tiny random encoders, and the mean of their hidden states or the scores of pairs by transformers.

    tools/golden/hf/golden_hf_encoders.py OUT_DIRECTORY TOKENIZERS [NAME...]

NAME/ is a directory as save_pretrained writes it. NAME/embeddings.txt has token ids and, in the line below, the mean of the hidden
states after the last norm, computed in f32. Lines "text" in front of ids have the text, in hexadecimal, that tokenizers makes these ids
of with TOKENIZERS/xlm-roberta/tokenizer.json. Of a model with a classification head NAME/scores.txt has lines "pair", two texts in
hexadecimal, "ids", what its tokenizer makes of them, and "scores", the logits of all labels. GELU is computed by tanh, as llama.cpp
does for these families, while config.json says gelu. Run it in an environment with torch and transformers."""
import json
import pathlib
import shutil
import sys

import tokenizers
import torch
import transformers

SHAPE = dict(vocab_size=64, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4, max_position_embeddings=40)
TEXTS = ["In the beginning God created the heaven and the earth.", "\ufb01ve  \u2167 caf\u00e9s\r\nA\u030a", "  Two  spaces "]
ROBERTA = dict(SHAPE, pad_token_id=1, bos_token_id=0, eos_token_id=2, type_vocab_size=1, layer_norm_eps=1e-5)
MODERN = dict(SHAPE, num_hidden_layers=5, local_attention=6, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2,
              rope_parameters=dict(full_attention=dict(rope_type="default", rope_theta=160000.0), sliding_attention=dict(rope_type="default", rope_theta=1000.0)))
GEMMA = dict(SHAPE, num_hidden_layers=3, num_key_value_heads=2, head_dim=8, sliding_window=6, query_pre_attn_scalar=12, sliding_window_pattern=3,
             use_bidirectional_attention=True)

LETTERS = list("abcdefghijklmnopqrstuvwxyz")
PAIRS = [("a", "b"), ("what is it?", "it is a cat."), ("Caf\u00e9  \ufb01ve", "two\n words"), ("embed", "rank " * 12)]


def word_piece():
    """[CLS] query [SEP] document [SEP]; the document has the type 1."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *("##" + c for c in LETTERS), ".", "?"]
    t = tokenizers.Tokenizer(tokenizers.models.WordPiece({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer = tokenizers.normalizers.BertNormalizer(), tokenizers.pre_tokenizers.BertPreTokenizer()
    t.add_special_tokens(words[:5])
    t.post_processor = tokenizers.processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
                                                                special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return t


def byte_level(first, last, processor):
    """A vocabulary of bytes without merges."""
    tokens = [first, "<pad>", last, *sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())]
    t = tokenizers.Tokenizer(tokenizers.models.BPE(vocab={w: i for i, w in enumerate(tokens)}, merges=[]))
    t.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.add_special_tokens(tokens[:3])
    t.post_processor = processor
    return t


def of_roberta():
    return byte_level("<s>", "</s>", tokenizers.processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False))


def of_modern():
    return byte_level("[CLS]", "[SEP]", tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 0), ("[SEP]", 2)]))


# name: (class, class of the configuration, its values, type)
MODELS = {
    "xlm-roberta": ("XLMRobertaModel", "XLMRobertaConfig", ROBERTA, torch.bfloat16),
    "xlm-roberta-masked": ("XLMRobertaForMaskedLM", "XLMRobertaConfig", ROBERTA, torch.float32),
    "roberta": ("RobertaModel", "RobertaConfig", dict(ROBERTA, pad_token_id=3), torch.float32),
    "modernbert": ("ModernBertModel", "ModernBertConfig", MODERN, torch.float32),
    "modernbert-masked": ("ModernBertForMaskedLM", "ModernBertConfig", dict(MODERN, hidden_activation="silu"), torch.float32),
    "gemma3-text": ("Gemma3TextModel", "Gemma3TextConfig", GEMMA, torch.float32),
    "bert-rank": ("BertForSequenceClassification", "BertConfig", dict(SHAPE, max_position_embeddings=80, pad_token_id=0, num_labels=1), torch.float32),
    "roberta-rank": ("RobertaForSequenceClassification", "RobertaConfig", dict(ROBERTA, max_position_embeddings=100, num_labels=2), torch.float32),
    "xlm-roberta-rank": ("XLMRobertaForSequenceClassification", "XLMRobertaConfig", dict(ROBERTA, max_position_embeddings=100, num_labels=1),
                         torch.bfloat16),
    "modernbert-rank": ("ModernBertForSequenceClassification", "ModernBertConfig",
                        dict(MODERN, max_position_embeddings=100, num_labels=3, classifier_pooling="mean"), torch.float32),
    "modernbert-rank-cls": ("ModernBertForSequenceClassification", "ModernBertConfig",
                            dict(MODERN, max_position_embeddings=100, num_labels=1, classifier_pooling="cls"), torch.float32),
}


RANK = {"bert-rank": word_piece, "roberta-rank": of_roberta, "modernbert-rank": of_modern, "modernbert-rank-cls": of_modern}


def means(model, texts):
    base = getattr(model, "roberta", None) or getattr(model, "model", None) or model
    cases = [("", torch.randint(4, 64, (n,)).tolist()) for n in (1, 7, 24)] if not texts else [(t, texts.encode(t).ids) for t in TEXTS]
    for text, ids in cases:
        with torch.no_grad():
            states = base(torch.tensor([ids])).last_hidden_state[0]
        yield from [f"text {text.encode().hex()}"] if text else []
        yield "ids " + " ".join(map(str, ids))
        yield "mean " + " ".join(f"{x:.7g}" for x in states.mean(0).tolist())


def scores(model, tokenizer):
    for query, document in PAIRS:
        pair = tokenizer.encode(query, document)
        types = {"token_type_ids": torch.tensor([pair.type_ids])} if type(model).__name__.startswith("Bert") else {}
        with torch.no_grad():
            logits = model(torch.tensor([pair.ids]), **types).logits[0]
        yield f"pair {query.encode().hex()} {document.encode().hex()}"
        yield "ids " + " ".join(map(str, pair.ids))
        yield "scores " + " ".join(f"{x:.7g}" for x in logits.tolist())


def make(name, directory, texts, seed):
    of, config_of, values, dtype = MODELS[name]
    torch.manual_seed(seed)
    values = dict(values)
    if texts:
        values["vocab_size"] = texts.get_vocab_size() + 3
    activation = "hidden_activation" if "ern" in of or "Gemma" in of else "hidden_act"
    values.setdefault(activation, "gelu_pytorch_tanh")
    if "classifier_pooling" in values:
        values["classifier_activation"] = values["hidden_activation"]
    config = getattr(transformers, config_of)(**values)
    model = getattr(transformers, of)(config).float().eval()
    with torch.no_grad():
        for key, weight in model.named_parameters():
            scale = 0.3 if weight.dim() == 1 else 1.6 * weight.shape[-1] ** -0.5
            norm = ("norm" in key or "LayerNorm" in key) and key.endswith("weight") and "Gemma" not in of
            weight.copy_(torch.randn(weight.shape) * scale + (1.0 if norm else 0.0))
    shutil.rmtree(directory, ignore_errors=True)
    model.to(dtype).save_pretrained(directory)
    path = directory / "config.json"
    if values[activation] == "gelu_pytorch_tanh" and "Gemma" not in of:
        path.write_text(path.read_text().replace("gelu_pytorch_tanh", "gelu"))
    model = model.float()
    rank = "rank" in name
    lines = [f"# transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}"]
    lines += scores(model, texts) if rank else means(model, texts)
    (directory / ("scores.txt" if rank else "embeddings.txt")).write_text("\n".join(lines) + "\n")


def main():
    out, source = map(pathlib.Path, sys.argv[1:3])
    of_xlm = tokenizers.Tokenizer.from_file(str(source / "xlm-roberta" / "tokenizer.json"))
    for i, name in enumerate(MODELS):
        if sys.argv[3:] and name not in sys.argv[3:]:
            continue
        own = RANK[name]() if name in RANK else None
        make(name, out / name, of_xlm if name in ("xlm-roberta", "xlm-roberta-rank") else own, i + 1)
        if own:
            own.save(str(out / name / "tokenizer.json"), pretty=False)
        print(name, json.loads((out / name / "config.json").read_text())["architectures"])


if __name__ == "__main__":
    main()
