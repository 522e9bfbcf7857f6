"""A model that always gives the same replies: its layers add nothing, and the row of the head that belongs to a token has the largest
product with the embedding of the token in front of it. So a reply is a chain of tokens, which begins at the last one of the prompt:

    <|ask|>  ->  <tool_call>  ->  {"name": ...}  ->  </tool_call>  ->  <|im_end|>        the chat template ends with <|ask|>
    <|after|>  ->  It is done.  ->  <|im_end|>                                          or behind the result of a tool

Pieces are tokens of their own, so each is used once."""

import json
import os
import random
import shutil
import struct

from server import SOURCE

TEMPLATE = """{% for t in tools or [] %}({{ t | tojson }}){% endfor %}{% for m in messages -%}
<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls %}<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}{{ '<|after|>' if messages[-1].role == 'tool' else '<|ask|>' if tools else '<|plain|>' }}{# </think> #}"""

WIDTH, HEAD, GAIN = 64, 16, 4.0


def write(folder, replies, context):
    """replies: {"<|ask|>": [piece, ...], "<|after|>": ..., "<|plain|>": ...}. The tokenizer is that of tests/golden/hf_text."""
    shutil.copytree(os.path.join(SOURCE, "tests/golden/hf_text"), folder)
    path = lambda name: os.path.join(folder, name)
    with open(path("tokenizer.json")) as f:
        tokenizer = json.load(f)
    ids = {t["content"]: t["id"] for t in tokenizer["added_tokens"]}
    for text in [*replies, *(piece for reply in replies.values() for piece in reply)]:
        if text in ids:
            continue
        ids[text] = 1 + max([*ids.values(), *tokenizer["model"]["vocab"].values()])
        tokenizer["added_tokens"].append({"id": ids[text], "content": text, "single_word": False, "lstrip": False, "rstrip": False,
                                          "normalized": False, "special": text in replies})
    n_vocab = max(ids.values()) + 1
    with open(path("tokenizer.json"), "w") as f:
        json.dump(tokenizer, f)
    with open(path("config.json")) as f:
        config = json.load(f)
    config.update(vocab_size=n_vocab, hidden_size=WIDTH, head_dim=HEAD, intermediate_size=WIDTH, num_attention_heads=1, num_key_value_heads=1,
                  num_hidden_layers=1, layer_types=["full_attention"], tie_word_embeddings=False, max_position_embeddings=context,
                  dtype="float32")
    with open(path("config.json"), "w") as f:
        json.dump(config, f)
    with open(path("chat_template.jinja"), "w") as f:
        f.write(TEMPLATE)
    signs = random.Random(1)
    embedding = [[signs.choice((-1.0, 1.0)) for _ in range(WIDTH)] for _ in range(n_vocab)]
    head = [[0.0] * WIDTH for _ in range(n_vocab)]
    for first, reply in replies.items():
        chain = [first, *reply, "<|im_end|>"]
        for before, after in zip(chain, chain[1:]):
            row = head[ids[after]]
            for i, x in enumerate(embedding[ids[before]]):
                row[i] += GAIN * x
    write_weights(path("model.safetensors"), embedding, head)


def write_weights(path, embedding, head):
    layer, flat = "model.layers.0.", lambda rows: [x for row in rows for x in row]
    zeros = {"self_attn.q_proj": (HEAD, WIDTH), "self_attn.k_proj": (HEAD, WIDTH), "self_attn.v_proj": (HEAD, WIDTH),
             "self_attn.o_proj": (WIDTH, HEAD), "mlp.gate_proj": (WIDTH, WIDTH), "mlp.up_proj": (WIDTH, WIDTH), "mlp.down_proj": (WIDTH, WIDTH)}
    ones = {layer + "input_layernorm": WIDTH, layer + "post_attention_layernorm": WIDTH, layer + "self_attn.q_norm": HEAD,
            layer + "self_attn.k_norm": HEAD, "model.norm": WIDTH}
    tensors = {"model.embed_tokens": ([len(embedding), WIDTH], flat(embedding)), "lm_head": ([len(head), WIDTH], flat(head)),
               **{layer + name: (list(shape), [0.0] * (shape[0] * shape[1])) for name, shape in zeros.items()},
               **{name: ([n], [1.0] * n) for name, n in ones.items()}}
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        more = struct.pack(f"<{len(values)}f", *values)
        header[name + ".weight"] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + len(more)]}
        data += more
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)
