/* Chat templates against llama.cpp (tests/golden/chat.txt), and their detection in a model file. */
#include "tests/gguf_writer.h"

Test(chat, formats_as_llama_cpp_does) {
    FILE  *f    = golden_open("chat.txt");
    char  *line = NULL;
    size_t size = 0;
    int    n    = 0;
    for (; golden_line(f, &line, &size) != NULL; n++) {
        char         *text = strchr(line, ' ');
        RpChatKind    kind;
        RpChatMessage messages[8];
        size_t        n_messages = 0, len;
        *text++                  = '\0';
        OK(rp_chat_from_name(line, &kind));
        char *bytes = golden_hex(&text, &len); /* records of role 0x1f text 0x1e */
        for (char *p = bytes; p < bytes + len;) {
            char *role_end = memchr(p, 0x1f, len), *text_end = memchr(p, 0x1e, len);
            *role_end = *text_end  = '\0';
            messages[n_messages++] = (RpChatMessage){.role = p, .text = role_end + 1};
            p                      = text_end + 1;
        }
        text++;
        char *want = golden_hex(&text, &len), *got;
        want[len]  = '\0';
        OK(rp_chat_format(kind, messages, n_messages, &got));
        cr_expect_str_eq(got, want, "%s: \"%s\", not \"%s\"", line, got, want);
        free(bytes), free(want), free(got);
    }
    cr_expect_eq(n, 16);
    free(line);
    fclose(f);
}

/* The format of Meta's model card for Llama 2, without the first <s>, which the tokenizer adds. */
Test(chat, formats_llama2_as_its_authors_do) {
    const RpChatMessage m[] = {
        {"system",    "S" },
        {"user",      "U1"},
        {"assistant", "A1"},
        {"user",      "U2"}
    };
    char *text;
    OK(rp_chat_format(RP_CHAT_LLAMA2, m, 4, &text));
    cr_expect_str_eq(text, "[INST] <<SYS>>\nS\n<</SYS>>\n\nU1 [/INST] A1 </s><s>[INST] U2 [/INST]");
    free(text);
}

static RpStatus detect(const char *template, RpChatKind *kind) {
    Bytes       b = {0};
    RpGgufFile *f;
    put_header(&b, 3, 0, template != NULL ? 1 : 0);
    if (template != NULL) put_key_string(&b, "tokenizer.chat_template", template);
    OK(rp_gguf_open_memory(b.p, b.n, "m.gguf", &f));
    const RpStatus st = rp_chat_detect(f, kind);
    rp_gguf_close(f);
    free(b.p);
    return st;
}

Test(chat, recognises_templates_by_their_marks) {
    RpChatKind kind;
    OK(detect("{% for m in messages %}<|im_start|>{{ m.role }}", &kind));
    cr_expect_eq(kind, RP_CHAT_CHATML);
    OK(detect("<|start_header_id|>{{ role }}<|end_header_id|>", &kind));
    cr_expect_eq(kind, RP_CHAT_LLAMA3);
    OK(detect("{{ bos_token }}<start_of_turn>", &kind));
    cr_expect_eq(kind, RP_CHAT_GEMMA);
    OK(detect("[INST] <<SYS>>", &kind));
    cr_expect_eq(kind, RP_CHAT_LLAMA2);
    OK(detect("[INST] {{ m }}", &kind));
    cr_expect_eq(kind, RP_CHAT_MISTRAL);
    REFUSED(detect("{{ '<|weird|>' }}", &kind), RP_E_UNSUPPORTED,
            "the chat template \"{{ '<|weird|>' }}...\" is not known");
    REFUSED(detect(NULL, &kind), RP_E_UNSUPPORTED, "m.gguf: the file has no chat template");
    REFUSED(rp_chat_from_name("alpaca", &kind), RP_E_ARG,
            "there is no chat template 'alpaca' (there are chatml");
}

Test(chat, refuses_conversations_out_of_order) {
    char               *text;
    const RpChatMessage user = {"user", "a"}, reply = {"assistant", "b"}, odd = {"robot", "c"};
    REFUSED(rp_chat_format(RP_CHAT_GEMMA, NULL, 0, &text), RP_E_ARG, "the last message must be the user's");
    REFUSED(rp_chat_format(RP_CHAT_GEMMA, (RpChatMessage[]){user, reply}, 2, &text), RP_E_ARG,
            "last message");
    REFUSED(rp_chat_format(RP_CHAT_GEMMA, (RpChatMessage[]){user, user}, 2, &text), RP_E_ARG,
            "message 1 is of the user where the assistant is expected");
    REFUSED(rp_chat_format(RP_CHAT_GEMMA, (RpChatMessage[]){odd}, 1, &text), RP_E_ARG,
            "message 0 has the unknown role 'robot'");
}
