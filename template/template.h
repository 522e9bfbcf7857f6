/* template.h - chat templates: programs in Jinja that make the text of a prompt from messages. They are run as Python's
 * transformers runs them: trim_blocks and lstrip_blocks, {% break %} and {% continue %}, {% generation %}, tojson as
 * json.dumps, raise_exception, strftime_now, and values that cannot be changed.
 *
 *     TplProgram *program;  TplRendered text;
 *     RP_TRY(rp_template_new("chat_template", source, n, &program));
 *     RP_TRY(rp_template_render(program, &(TplInput){.json = &json, .now = &now}, &text));
 *
 * A rendering is bounded in steps, depth, bytes of its text and bytes of memory. Files that nobody vouches for have
 * templates: none of them can do more than fail. */
#ifndef TEMPLATE_TEMPLATE_H
#define TEMPLATE_TEMPLATE_H

#include "base/text/json_read.h"

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

typedef struct TplProgram TplProgram;

/* Copies name and text. RP_E_FORMAT with "NAME:LINE:COLUMN: " in front of the reason; RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_template_new(const char *name, const char *text, size_t n, TplProgram **out);
void                  rp_template_free(TplProgram *p);

enum { TPL_MAX_SOURCE = 4 << 20 }; /* bytes of a template */

typedef struct TplVariableText {
    const char *name, *text;
} TplVariableText;

/* A message of text only. Neither is NULL. */
typedef struct TplMessage {
    const char *role, *text;
} TplMessage;

/* Limits of 0 are the defaults. */
typedef struct TplInput {
    const Json            *json; /* an object: its members are variables, as messages, tools, add_generation_prompt */
    const TplMessage      *messages; /* become the variable `messages`; NULL: that of the JSON */
    size_t                 n_messages;
    const TplVariableText *texts; /* further variables, whose text is of the template: bos_token, eos_token */
    size_t                 n_texts;
    bool                   defaults;  /* what transformers sets: tools and documents none, add_generation_prompt true */
    const struct tm       *now;       /* of strftime_now */
    int64_t                max_steps; /* default 20 million */
    size_t                 max_bytes; /* of each text; default 64 MiB */
    size_t                 max_memory; /* default 1 GiB */
} TplInput;

/* control[i]: byte i comes from the template, so that it may be part of a control token. The bytes of all strings of
 * the JSON may not, except of roles that are known: "<|" ~ role ~ "|>" is a control token of some templates. */
typedef struct TplRendered {
    char  *text; /* terminated */
    bool  *control;
    size_t n;
} TplRendered;

/* RP_E_ARG: the template fails, with name, line and column; RP_E_UNSUPPORTED: it goes beyond a limit; RP_E_NOMEM. The
 * caller frees text and control with free(). */
RP_NODISCARD RpStatus rp_template_render(const TplProgram *p, const TplInput *in, TplRendered *out);

#endif
