#!/usr/bin/env python3
"""A directory of Hugging Face with a tiny random assistant of tests/golden/hf/gemma4, and its logits by transformers.

    tools/golden/hf/golden_hf_assistant.py tests/golden/hf

gemma4-assistant/ is a directory as save_pretrained writes it, with the tables by which real ones preselect candidates.
guesses.txt has, after prompts of several lengths: the token behind the prompt, the hidden state of the model behind its last norm,
and for each of N_GUESSES guesses the logits of the whole embedding and the hidden state for the next guess, as
SinglePositionMultiTokenCandidateGenerator calls the assistant. All in f32. Run it in an environment with torch and transformers.

The mask of transformers lets a guess attend to sliding_window + 1 positions before its own, two more than the causal mask of the
model, in which the position itself is one of sliding_window. llama.cpp and this project take the causal one, and so does this file."""
import pathlib
import shutil
import sys

import golden_hf
import torch
import transformers

N_GUESSES, LENGTHS = 3, (3, 12, 20)


def assistant_of(target):
    text = transformers.Gemma4TextConfig(**{**golden_hf.SHAPE, **golden_hf.GEMMA4, **dict(
        hidden_size=24, intermediate_size=40, layer_types=["sliding_attention"] * 3 + ["full_attention"], hidden_size_per_layer_input=0,
        vocab_size_per_layer_input=0, num_kv_shared_layers=4, use_double_wide_mlp=False, enable_moe_block=False)})
    config = transformers.Gemma4AssistantConfig(text_config=text, backbone_hidden_size=target.config.hidden_size, use_ordered_embeddings=True,
                                                num_centroids=8, centroid_intermediate_top_k=2)
    torch.manual_seed(77)
    model = transformers.Gemma4AssistantForCausalLM(config).float().eval()
    with torch.no_grad():
        for key, weight in model.named_parameters():
            scale = 0.3 if weight.dim() == 1 else 1.6 * weight.shape[-1] ** -0.5
            weight.copy_(torch.randn(weight.shape) * scale + (1.0 if "norm" in key else 0.0))
        model.masked_embedding.token_ordering.copy_(torch.randperm(golden_hf.N_VOCAB))
    return model


def line(what, numbers):
    return what + " " + " ".join(f"{x:.9g}" for x in numbers) + "\n"


def write_prompt(out, target, assistant, n):
    tokens = [(7 * i + 5 * n) % (golden_hf.N_VOCAB - 3) + 3 for i in range(n)]
    with torch.no_grad():
        of = target(torch.tensor([tokens]), output_hidden_states=True, return_shared_kv_states=True)
        token, hidden = of.logits[0, -1].argmax().reshape(1, 1), of.hidden_states[-1][:, -1:]
        out.write(line("tokens", tokens) + line("next", [token.item()]) + line("hidden", hidden[0, 0].tolist()))
        for _ in range(N_GUESSES):
            embedded = torch.cat([target.get_input_embeddings()(token), hidden], dim=-1)
            guess = assistant(inputs_embeds=embedded, position_ids=torch.tensor([[n]]), shared_kv_states=of.shared_kv_states,
                              attention_mask=torch.ones(1, n + 1, dtype=torch.long), use_cache=False)
            token, hidden = guess.logits[0, -1].argmax().reshape(1, 1), guess.last_hidden_state
            out.write(line("logits", guess.logits[0, 0].tolist()) + line("hidden", hidden[0, 0].tolist()))


def main():
    folder = pathlib.Path(sys.argv[1])
    target = transformers.Gemma4ForCausalLM.from_pretrained(folder / "gemma4", dtype=torch.float32).eval()
    assistant = assistant_of(target)
    directory = folder / "gemma4-assistant"
    shutil.rmtree(directory, ignore_errors=True)
    assistant.save_pretrained(directory)
    assistant.config.use_ordered_embeddings = False # the logits of all tokens
    assistant.config.get_text_config().sliding_window -= 2 # the causal mask
    with open(directory / "guesses.txt", "w", encoding="ascii") as out:
        out.write(f"# transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}\n")
        for n in LENGTHS:
            write_prompt(out, target, assistant, n)


main()
