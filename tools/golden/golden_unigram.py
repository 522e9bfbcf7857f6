#!/usr/bin/env python3
"""Small unigram vocabularies with a precompiled map of characters, as files of XLM-RoBERTa have them, and the token ids of
SentencePiece for many strings.

    tools/golden/golden_unigram.py OUT_DIRECTORY

SentencePiece trains NAME.gguf on the strings themselves. In NAME.txt each line has the bytes of a text in hexadecimal, and the ids of
SentencePiece. A line of llama.cpp follows where its ids differ."""
import io
import pathlib
import sys

import gguf
import llama
import sentencepiece
from golden_tokens import cases
from sentencepiece import sentencepiece_model_pb2 as model_pb2

MORE = ["ﬁ ﬂ Ⅱ ½ ²  ① ㌔ ｱｲｳ ＡＢＣ", "a\u00a0b\u2003c\u3000d", "zero\u200bwidth\u00adsoft", "  two  spaces  ", "tab\tnl\ncr\rend", "e\u0301e\u0301 A\u030a",
        "한국어 텍스트", "\U0001f600 emoji", "", " ", "Tiếng Việt có dấu", "\ufffdx", "…‥ ™ №"]


def train(texts, **options):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(texts), model_writer=out, vocab_size=2600, model_type="unigram",
                                             character_coverage=0.98, normalization_rule_name="nmt_nfkc", hard_vocab_limit=False,
                                             num_threads=1, minloglevel=2, **options)
    return out.getvalue()


def write(path, model):
    w = gguf.GGUFWriter(str(path), "bert")
    w.add_tokenizer_model("t5")
    w.add_token_list([p.piece for p in model.pieces])
    w.add_token_scores([p.score for p in model.pieces])
    w.add_token_types([p.type for p in model.pieces])  # SentencePiece and GGUF have the same numbers
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_unk_token_id(0)
    w.add_add_bos_token(True)
    w.add_add_eos_token(True)
    w.add_add_space_prefix(model.normalizer_spec.add_dummy_prefix)
    w.add_remove_extra_whitespaces(model.normalizer_spec.remove_extra_whitespaces)
    w.add_precompiled_charsmap(model.normalizer_spec.precompiled_charsmap)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main():
    out = pathlib.Path(sys.argv[1])
    left_out = ["\0", "\u2581", "<s>", "</s>", "<unk>", "a" * 100, "0" * 100]  # the last two: ways of equal probability, which SentencePiece adds in f32
    texts = [t for t in dict.fromkeys(cases() + MORE) if not any(x in t for x in left_out)]
    for name, options in (("unigram", {}), ("unigram-bytes", dict(byte_fallback=True, remove_extra_whitespaces=False))):
        data = train([t for t in texts if t.strip() and "\n" not in t], **options)
        model = model_pb2.ModelProto.FromString(data)
        theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
        write(out / f"{name}.gguf", model)
        llamas = llama.Model(out / f"{name}.gguf", vocab_only=True)
        same = 0
        with open(out / f"{name}.txt", "w", encoding="ascii") as f:
            print(llama.HEADER + f", sentencepiece {sentencepiece.__version__}", file=f)
            for text in texts:
                ids, other = theirs.encode(text), llamas.tokenize(text.encode(), False, False)
                print(text.encode().hex() or "-", *ids, file=f)
                same += ids == other
                if ids != other:
                    print("# llama.cpp:", *other, file=f)
        print(f"{name}: {len(model.pieces)} pieces, {len(texts)} texts, llama.cpp has the same ids for {same}")


if __name__ == "__main__":
    main()
