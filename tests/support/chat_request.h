/* chat_request.h - chat templates of tests/golden/templates, and requests that rp_chat_prompt refuses. */
#ifndef TESTS_CHAT_REQUEST_H
#define TESTS_CHAT_REQUEST_H

#include "tests/support/case.h"

#include "reprise/chat.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static inline RpChatTemplate *template_of_file(const RpTokenizer *tk, const char *path) {
    static char     source[1 << 17];
    RpChatTemplate *t;
    FILE           *f = fopen(path, "r");
    cr_assert(f != NULL, "%s", path);
    const size_t n = fread(source, 1, sizeof source, f);
    fclose(f);
    cr_assert_eq(rp_chat_template_new(tk, path, source, n, &t), RP_OK, "%s", rp_last_error());
    return t;
}

static inline void expect_refused(const RpChatTemplate *t, const char *json, RpStatus status, const char *why) {
    char               *text;
    bool               *control;
    RpChatPrompt        out;
    const RpChatRequest r  = {.json = json, .json_bytes = strlen(json)};
    const RpStatus      st = rp_chat_prompt(t, &r, &text, &control, &out);
    cr_expect_eq(st, status, "%s", json);
    cr_expect_str_eq(rp_last_error(), why, "%s", json);
    cr_expect(text == NULL && control == NULL, "%s", json);
}

#endif
