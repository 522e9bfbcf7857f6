/* Fuzz target: any text as tokenizer.json, for a vocabulary of up to 2048 tokens. A tokenizer that it becomes
 * encodes texts, and its ids are those of its vocabulary. */
#include "model/hf/tokenizer/tokenizer.h"
#include "reprise/tokenizer.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char config[] = "{\"architectures\":[\"LlamaForCausalLM\"],\"vocab_size\":2048}";
static const char text[]   = "In the beginning \xc3\xa9 e\xcc\x81  123\r\n\xe2\x96\x81<s>\xff x";

static void encode(const RpTokenizer *tk) {
    RpTokenList ids = {0};
    if (rp_tokenize(tk, text, sizeof text - 1, RP_TOK_ADD_SPECIAL | RP_TOK_PARSE_SPECIAL, &ids) == RP_OK)
        for (size_t i = 0; i < ids.n; i++) {
            RpGgufString s;
            if (rp_token_bytes(tk, ids.ids[i], true, &s) != RP_OK) __builtin_trap();
        }
    rp_token_list_free(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static char           real[] = "/fuzz";
    static const HfFamily family = {.name = "fuzz"};

    HfModel m = {
        .dir = {.path = "fuzz", .real = real},
          .family = &family
    };
    char        *blob = NULL;
    size_t       bytes;
    RpGgufFile  *f;
    RpTokenizer *tk;
    if (rp_json_read("config.json", config, sizeof config - 1, &m.config) != RP_OK) abort();
    m.text = m.config.nodes;
    if (rp_json_read("tokenizer.json", (const char *)data, size, &m.tokenizer) == RP_OK &&
        rp_gguf_writer_memory("fuzz", &m.out) == RP_OK && rp_hf_tokenizer(&m) == RP_OK) {
        if (rp_gguf_writer_take(m.out, &blob, &bytes) != RP_OK) abort();
        if (rp_gguf_open_memory(blob, bytes, "fuzz", &f) != RP_OK) __builtin_trap(); /* what is written can be read */
        if (rp_tokenizer_new(f, &tk) == RP_OK) encode(tk), rp_tokenizer_free(tk);
        rp_gguf_close(f);
    }
    free(blob);
    rp_gguf_writer_drop(m.out);
    rp_json_free(&m.config);
    rp_json_free(&m.tokenizer);
    return 0;
}
