/* Chooses and runs the chat template of a conversation (chat_format.h). */
#include "cli/chat_format.h"

#include "cli/text_files.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static RpStatus open_file(const RpModel *m, const char *path, ChatFormat *out) {
    Text text;
    RP_TRY(cli_read_text(NULL, path, &text));
    out->source = text.bytes;
    return rp_chat_template_new(rp_model_tokenizer(m), path, text.bytes, text.n, &out->program);
}

RpStatus cli_chat_format_open(const RpModel *m, const char *name, bool none, ChatFormat *out) {
    static const char bare[] = "{% for m in messages %}{{ m.content }}{% endfor %}";
    if (rp_model_info(m)->bidirectional)
        return rp_fail(RP_E_UNSUPPORTED, "%s makes %s: it has no next token", rp_model_info(m)->arch,
                       rp_model_info(m)->pooling == RP_POOLING_RANK ? "scores of texts (reprise rerank)"
                                                                    : "embeddings of texts (reprise embed)");
    out->name = none ? "no" : name != NULL ? name : "the model's";
    if (none && (out->source = strdup(bare)) == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a template");
    if (none) return rp_chat_template_new(rp_model_tokenizer(m), "no template", bare, sizeof bare - 1, &out->program);
    if (name == NULL) return rp_chat_template_of(rp_model_file(m), rp_model_tokenizer(m), &out->program);
    const RpStatus st = rp_chat_from_name(name, &out->kind);
    if (st == RP_OK) return st;
    if (access(name, F_OK) == 0 || strchr(name, '/') != NULL) return open_file(m, name, out);
    return rp_fail(st, "%s, nor a file of that name", rp_last_error());
}

void cli_chat_format_free(ChatFormat *f) {
    rp_chat_template_free(f->program);
    free(f->source);
    f->program = NULL;
    f->source  = NULL;
}

RpStatus cli_chat_text(const ChatFormat *f, const RpChatMessage *messages, size_t n, char **text, bool **control) {
    return f->program != NULL ? rp_chat_template_format(f->program, messages, n, text, control)
                              : rp_chat_format_masked(f->kind, messages, n, text, control);
}

/* ---- sources ---- */

#define GENERATE(mark) "{% if add_generation_prompt %}{{ '" mark "' }}{% endif %}"

/* The formats with "[INST]"; arguments: what stands before a turn that is not the first, around a system message, and
 * behind messages of the user and replies. */
#define INST(next, system, system_close, user_close, reply_close)                                                      \
    "{% set ns = namespace(open=false) %}{% for m in messages %}{% if m.role == 'assistant' %}"                        \
    "{{ ' ' + m.content | trim + '" reply_close "' }}{% else %}"                                                       \
    "{% if not ns.open %}{{ ('' if loop.first else '" next "') + '[INST] ' }}{% endif %}"                              \
    "{% set ns.open = m.role == 'system' %}{{ ('" system "' if ns.open else '') + m.content | trim + "                 \
    "('" system_close "' if ns.open else '" user_close "') }}{% endif %}{% endfor %}"

/* clang-format off */
/* The texts of rp_chat_format as programs. */
static const struct {
    RpChatKind  kind;
    const char *source;
} sources[] = {
    {RP_CHAT_CHATML, "{% for m in messages %}"
                     "{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}"
                     "{% endfor %}" GENERATE("<|im_start|>assistant\\n")},
    {RP_CHAT_LLAMA3, "{% for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n' "
                     "+ m.content | trim + '<|eot_id|>' }}"
                     "{% endfor %}" GENERATE("<|start_header_id|>assistant<|end_header_id|>\\n\\n")},
    {RP_CHAT_GEMMA, "{% set ns = namespace(system='') %}{% for m in messages %}"
                    "{% if m.role == 'system' %}{% set ns.system = m.content | trim + '\\n\\n' %}{% else %}"
                    "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' "
                    "+ (ns.system if m.role == 'user' else '') + m.content | trim + '<end_of_turn>\\n' }}"
                    "{% if m.role == 'user' %}{% set ns.system = '' %}{% endif %}{% endif %}"
                    "{% endfor %}" GENERATE("<start_of_turn>model\\n")},
    {RP_CHAT_MISTRAL, INST("", "", "\\n\\n", "[/INST]", "</s>")},
    {RP_CHAT_LLAMA2, INST("<s>", "<<SYS>>\\n", "\\n<</SYS>>\\n\\n", " [/INST]", " </s>")},
};
/* clang-format on */

RpStatus cli_chat_source(const char *name, char **out) {
    RpChatKind     kind;
    Text           text;
    const RpStatus st = rp_chat_from_name(name, &kind);
    *out              = NULL;
    for (size_t i = 0; st == RP_OK && i < sizeof sources / sizeof *sources; i++)
        if (sources[i].kind == kind) {
            *out = strdup(sources[i].source);
            return *out != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory for a template");
        }
    if (access(name, F_OK) != 0 && strchr(name, '/') == NULL)
        return rp_fail(st, "%s, nor a file of that name", rp_last_error());
    RP_TRY(cli_read_text(NULL, name, &text));
    if (strlen(text.bytes) == text.n) {
        *out = text.bytes;
        return RP_OK;
    }
    free(text.bytes);
    return rp_fail(RP_E_FORMAT, "%s: a template must have no NUL bytes", name);
}
