#!/usr/bin/env python3
"""Golden conversations, formatted by llama.cpp's built-in chat templates.

    tools/golden/golden_chat.py OUT.txt

One line per conversation: the template's name in Reprise, the messages (role 1f text 1e ...) and the result, both in
hexadecimal. The lines after "named" are of templates that a file gives by this name."""
import ctypes
import sys

import llama
import llama_cpp as lib

KINDS = {"chatml": "chatml", "llama3": "llama3", "gemma": "gemma", "mistral": "mistral-v3"}
NAMED = ["chatml", "mistral-v1", "mistral-v3", "mistral-v3-tekken", "mistral-v7", "mistral-v7-tekken"]
CONVERSATIONS = [
    [("user", "Hi")],
    [("system", "Be brief."), ("user", "Who are you?")],
    [("user", "One"), ("assistant", "Two"), ("user", "Three\nlines\nhere")],
    [("system", "You count."), ("user", "One"), ("assistant", "Two"), ("user", "Three"), ("assistant", "Four"), ("user", "Five")],
]


def format_chat(template, messages):
    array = (lib.llama_chat_message * len(messages))()
    for i, (role, text) in enumerate(messages):
        array[i].role, array[i].content = role.encode(), text.encode()
    buffer = ctypes.create_string_buffer(1 << 16)
    n = lib.llama_chat_apply_template(template.encode(), array, len(messages), True, buffer, len(buffer))
    assert n >= 0, template
    return buffer.raw[:n]


if __name__ == "__main__":
    with open(sys.argv[1], "w", encoding="ascii") as out:
        print(llama.HEADER, file=out)
        for ours, theirs in KINDS.items():
            for messages in CONVERSATIONS:
                message_bytes = "".join(f"{role}\x1f{text}\x1e" for role, text in messages).encode()
                print(ours, message_bytes.hex(), format_chat(theirs, messages).hex(), file=out)
        print("named", file=out)
        for name in NAMED:
            for messages in CONVERSATIONS + [[("user", " One "), ("assistant", " Two "), ("user", "Three")]]:
                message_bytes = "".join(f"{role}\x1f{text}\x1e" for role, text in messages).encode()
                print(name, message_bytes.hex(), format_chat(name, messages).hex(), file=out)
