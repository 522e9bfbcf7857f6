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
    out->name                = none ? "no" : name != NULL ? name : "the model's";
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
