/* chat.h - the state of `reprise chat`, its turns and its commands.
 *
 * A chat with a template in Jinja is a Dialogue: tools, reasoning, files. The named formats, --no-template and
 * --parse-special use a Conversation, which has plain messages only. */
#ifndef CLI_CHAT_CHAT_H
#define CLI_CHAT_CHAT_H

#include "cli/chat/conversation.h"
#include "cli/chat/dialogue.h"
#include "cli/chat/input.h"
#include "cli/common.h"
#include "cli/repeat/recording.h"

typedef struct Chat {
    Generator    generator;
    bool         has_dialogue;
    Dialogue     dialogue;
    Conversation conversation;
    Input        input;
    const char  *system;      /* of --system, or `system_copy` */
    char        *system_copy; /* text of the last /system, malloc */
    int32_t      n, budget;   /* tokens of a reply, and of its reasoning; 0: no limit */
    uint64_t     seed;
    bool         greedy; /* the same messages get the same reply */
    bool         stats, quiet, show_reasoning, hide_reasoning;
    Recording    recording;
    Progress     progress;
    bool         screen; /* stdout is a terminal */
    bool         quit, told_sampling, told_tools, told_notes;
    char         last; /* last character of a plain reply */
} Chat;

/* Prints a remark of the program on stderr, in brackets to tell it from the reply. */
void cli_chat_notice(const char *fmt, ...) RP_PRINTF(1, 2);

/* Sends a message and streams the reply; asks for the results of tool calls. Errors that the next message can avoid are
 * printed and return RP_OK; the message is then as if it had not been sent. */
RP_NODISCARD RpStatus cli_chat_answer(Chat *c, const char *message);

/* Replies again to the last message of the user, with `instead` in its place if that is not NULL. */
RP_NODISCARD RpStatus cli_chat_again(Chat *c, const char *instead);

/* Starts a new conversation with c->system. */
RP_NODISCARD RpStatus cli_chat_reset(Chat *c);

/* Runs a line that begins with a slash. An unknown command is reported, and not sent to the model as a message. */
RP_NODISCARD RpStatus cli_chat_command(Chat *c, const char *line);

/* The i-th command with its slash; NULL behind the last one. */
const char *cli_chat_command_name(int i);

/* Says what was resumed. */
void cli_chat_report_resumed(const Chat *c);

#endif
