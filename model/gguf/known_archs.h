/* known_archs.h - families that are known and not supported: general.architecture of GGUF files, the beginning of the
 * names of their classes in Hugging Face directories, and what of them is missing. "": there is no such name. */
#ifndef MODEL_GGUF_KNOWN_ARCHS_H
#define MODEL_GGUF_KNOWN_ARCHS_H

/* clang-format off */
#define RP_KNOWN_ARCHS(X) \
    X("qwen4exp",         "Qwen4Exp",        "hyper-connections, an indexer of attention, and embeddings of n-grams") \
    X("deepseek4",        "DeepseekV4",      "hyper-connections and an indexer of attention") \
    X("deepseek32",       "DeepseekV32",     "an indexer of attention") \
    X("glm-dsa",          "GlmMoeDsa",       "an indexer of attention") \
    X("kimi-linear",      "KimiLinear",      "Kimi delta attention") \
    X("kimi-k3",          "KimiK3",          "Kimi delta attention") \
    X("minimax-m3",       "MiniMaxM3",       "an indexer of attention") \
    X("llama4",           "Llama4",          "attention in chunks, and weights before the experts") \
    X("gemma3n",          "Gemma3n",         "AltUp, LAuReL, and activations that are cut by their mean and deviation") \
    X("mamba",            "Mamba",           "the selective scan of Mamba-1") \
    X("mamba2",           "Mamba2",          "a graph without attention") \
    X("rwkv7",            "RWKV7",           "the recurrence of RWKV") \
    X("",                 "Apertus",         "numbers of xIELU, which are tensors in directories; a GGUF file of it runs") \
    X("phimoe",           "PhiMoE",          "a bias of the output matrix, and its own choice of experts") \
    X("",                 "Phimoe",          "a bias of the output matrix, and its own choice of experts") \
    X("phi2",             "PhiForCausalLM",  "a bias of the output matrix") \
    X("gptneox",          "GPTNeoX",         "a feed-forward beside attention that has a norm of its own") \
    X("jamba",            "Jamba",           "the selective scan of Mamba-1") \
    X("deci",             "DeciLM",          "layers that differ in heads, or have none") \
    X("laguna",           "Laguna",          "gates of attention by softplus, and heads that differ by layer") \
    X("spark2_5",         "",                "a gate for each head") \
    X("maple",            "Maple",           "gates of experts that are clamped") \
    X("granite_swa",      "",                "RoPE in the layers that the file lists") \
    X("hy_v3",            "HYV3",            "dense layers that only their tensors tell") \
    X("mimo2",            "MiMoV2",          "heads of values shorter than those of keys") \
    X("step35",           "Step3p5",         "a gate for each head, and other heads in layers with a window") \
    X("cohere2moe",       "Cohere2Moe",      "experts and attention that read one norm") \
    X("eagle3",           "LlamaForCausalLMEagle3", "the hidden states of several layers of another model") \
    X("dflash",           "DFlash",          "the hidden states of several layers of another model") \
    X("",                 "KimiK25",         "weights in compressed-tensors; a GGUF file of it, deepseek2, runs") \
    X("jina-bert-v2",     "JinaBert",        "ALiBi") \
    X("nomic-bert-moe",   "NomicBertMoe",    "experts without gates in each second layer") \
    X("clip",             "CLIP",            "image encoders: give the language model, not its projector (mmproj)")
/* clang-format on */

#endif
