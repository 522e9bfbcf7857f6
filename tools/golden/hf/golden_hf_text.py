#!/usr/bin/env python3
"""A complete Hugging Face directory, with model, tokenizer and chat template, and greedy continuations by transformers.

    tools/golden/hf/golden_hf_text.py TOKENIZER_DIRECTORY OUT_DIRECTORY

OUT/replies.txt has a line for each prompt: its text in hexadecimal, "|", its ids, "|", the ids that follow."""
import json
import pathlib
import shutil
import sys

import torch
import transformers

N_NEW = 12
PROMPTS = ["In the beginning", "God said, Let there be light", "<|im_start|>user\nHi<|im_end|>\n", "12 + 30 = e\u0301"]
TEMPLATE = ("{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
            "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


def main():
    source, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    size = json.loads((source / "config.json").read_text())["vocab_size"]
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(source / "tokenizer.json"), eos_token="<|im_end|>")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(out)
    shutil.copy(source / "tokenizer.json", out / "tokenizer.json")  # the same without indentation
    torch.manual_seed(5)
    config = transformers.Qwen3Config(vocab_size=size, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
                                      num_key_value_heads=2, head_dim=8, max_position_embeddings=64, tie_word_embeddings=True,
                                      bos_token_id=None, eos_token_id=[tokenizer.convert_tokens_to_ids(t) for t in ("<|im_end|>", "<|endoftext|>")])
    model = transformers.Qwen3ForCausalLM(config).float().eval()
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(torch.randn(weight.shape) * (0.3 if weight.dim() == 1 else 2.5 * weight.shape[-1] ** -0.5))
    model.to(torch.bfloat16).save_pretrained(out)
    model.float()
    lines = [f"# transformers {transformers.__version__}"]
    for prompt in PROMPTS:
        ids = tokenizer(prompt, return_tensors="pt").input_ids
        with torch.no_grad():
            all_ids = model.generate(ids, max_new_tokens=N_NEW, do_sample=False, pad_token_id=0)
        lines.append(f"{prompt.encode().hex()} | {' '.join(map(str, ids[0].tolist()))} | {' '.join(map(str, all_ids[0, ids.shape[1]:].tolist()))}")
    (out / "replies.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
