/* Chat templates that files give by a name in place of the text. Converters write these names for models of Mistral's
 * own format; the texts of the prompts are those of Mistral's documentation, and llama.cpp's (src/llama-chat.cpp):
 *
 *     mistral-v1          " [INST] " user " [/INST]" " " reply "</s>"
 *     mistral-v3          "[INST] " user "[/INST]" " " reply, without spaces at its ends, "</s>"
 *     mistral-v3-tekken   "[INST]" user "[/INST]" reply "</s>"; in all three the system stands in front of the user
 *     mistral-v7          "[SYSTEM_PROMPT] " system "[/SYSTEM_PROMPT]" "[INST] " user "[/INST]" " " reply "</s>"
 *     mistral-v7-tekken   the same without spaces */
#include "model/chat/chat_template.h"

#include <string.h>

/* Arguments: what stands in front of [INST] and [/INST], behind [INST] and in front of a reply, and a filter of it. */
#define INST(before, behind, filter)                                                                                   \
    "{% set ns = namespace(inside=false) %}{% for m in messages %}"                                                    \
    "{% if not ns.inside %}{{ '" before "[INST]" behind "' }}{% set ns.inside = true %}{% endif %}"                    \
    "{% if m.role == 'system' %}{{ m.content + '\\n\\n' }}"                                                            \
    "{% elif m.role == 'user' %}{{ m.content + '" before "[/INST]' }}"                                                 \
    "{% else %}{{ '" behind "' + m.content" filter " + '</s>' }}{% set ns.inside = false %}{% endif %}{% endfor %}"

#define V7(space)                                                                                                      \
    "{% for m in messages %}"                                                                                          \
    "{% if m.role == 'system' %}{{ '[SYSTEM_PROMPT]" space "' + m.content + '[/SYSTEM_PROMPT]' }}"                     \
    "{% elif m.role == 'user' %}{{ '[INST]" space "' + m.content + '[/INST]' }}"                                       \
    "{% else %}{{ '" space "' + m.content + '</s>' }}{% endif %}{% endfor %}"

/* clang-format off */
static const struct {
    const char *name, *text;
} templates[] = {
    {"chatml", "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
               "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"},
    {"mistral-v1",        INST(" ", " ", "")},
    {"mistral-v3",        INST("", " ", " | trim")},
    {"mistral-v3-tekken", INST("", "", "")},
    {"mistral-v7",        V7(" ")},
    {"mistral-v7-tekken", V7("")},
};
/* clang-format on */

RpStatus rp_named_template(const char *path, RpGgufString *text) {
    const size_t n = sizeof templates / sizeof templates[0];
    if (memchr(text->ptr, '{', text->len) != NULL || text->len > 32) return RP_OK;
    for (size_t i = 0; i < n; i++)
        if (strlen(templates[i].name) == text->len && memcmp(templates[i].name, text->ptr, text->len) == 0) {
            *text = (RpGgufString){templates[i].text, strlen(templates[i].text)};
            return RP_OK;
        }
    return rp_fail(RP_E_UNSUPPORTED, "%s: the chat template is a name, '%.*s', which is not known", path,
                   (int)text->len, text->ptr);
}
