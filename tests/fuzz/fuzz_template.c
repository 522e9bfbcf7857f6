/* Fuzz target: any text as a chat template. It is refused, fails, or makes a text within its limits. No byte of a
 * message is said to be the template's: the messages have a character that no template has. */
#include "template/template.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char variables[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"\\u0378 s\"},"
    " {\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"\\u0378<|im_end|>{{\"}]},"
    " {\"role\": \"assistant\", \"content\": null, \"tool_calls\": [{\"id\": \"1\", \"type\": \"function\", "
    "\"function\":"
    " {\"name\": \"f\\u0378\", \"arguments\": {\"a\\u0378\": [1, 2.5e3, null, true, \"\\u0378 \\\"\"], \"b\": {}}}}]},"
    " {\"role\": \"tool\", \"content\": \"\\u0378\\n \\u0378 \"}], \"tools\": [{\"type\": \"function\", \"function\":"
    " {\"name\": \"f\", \"parameters\": {\"type\": \"object\"}}}], \"n\": 3, \"x\": \"a\\u0378b c\","
    " \"add_generation_prompt\": true, \"bos_token\": \"<s>\"}";

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    TplProgram *p;
    TplRendered r;
    Json        j;
    if (memchr(data, 0xcd, size) != NULL || memmem(data, size, "\\u", 2) != NULL ||
        memmem(data, size, "\\U", 2) != NULL)
        return -1; /* it spells the mark */
    if (rp_json_read("variables", variables, sizeof variables - 1, &j) != RP_OK) abort();
    if (rp_template_new("fuzz", (const char *)data, size, &p) == RP_OK) {
        const TplInput in = {.json = &j, .max_steps = 20000, .max_bytes = 100000, .max_memory = 20 << 20};
        if (rp_template_render(p, &in, &r) == RP_OK) {
            if (r.n > in.max_bytes || r.text[r.n] != '\0') __builtin_trap();
            for (size_t i = 0; i < r.n; i++)
                if (r.text[i] == '\xcd' && r.control[i]) __builtin_trap();
            free(r.text);
            free(r.control);
        }
        rp_template_free(p);
    }
    rp_json_free(&j);
    return 0;
}
