/* commands.c - the commands of a chat: lines that begin with a slash. */
#include "cli/chat/chat.h"

#include <stdlib.h>
#include <string.h>

/* `text`: what stands behind the name, without the spaces in front; "" if there is nothing. */
typedef RpStatus RunCommand(Chat *c, const char *text);

typedef enum Argument { NO_ARGUMENT, MAY_HAVE, MUST_HAVE } Argument;

typedef struct ChatCommand {
    const char *name, *argument, *help;
    Argument    takes;
    bool        is_file;     /* a path: spaces at the end are dropped, which completion adds */
    bool        of_dialogue; /* needs a template in Jinja */
    RunCommand *run;
} ChatCommand;

/* Prints an error that leaves the conversation as it was, and returns RP_OK. */
static RpStatus excuse(RpStatus st) {
    if (st == RP_OK || st == RP_E_NOMEM) return st;
    cli_say("reprise", "%s", rp_last_error());
    return RP_OK;
}

static RpStatus reset(Chat *c, const char *text) {
    (void)text;
    cli_chat_notice("a new conversation");
    return cli_chat_reset(c);
}

/* A conversation begins with its system message, so a new one is started. */
static RpStatus set_system(Chat *c, const char *text) {
    char *copy = text[0] != '\0' ? strdup(text) : NULL;
    if (text[0] != '\0' && copy == NULL) return rp_fail(RP_E_NOMEM, "out of memory for the system message");
    free(c->system_copy);
    c->system_copy = copy;
    c->system      = copy;
    cli_chat_notice(copy != NULL ? "a new conversation with this system message"
                                 : "a new conversation without system message");
    return cli_chat_reset(c);
}

static RpStatus regenerate(Chat *c, const char *text) {
    (void)text;
    return cli_chat_again(c, NULL);
}

static RpStatus edit(Chat *c, const char *text) { return cli_chat_again(c, text); }

static RpStatus undo(Chat *c, const char *text) {
    (void)text;
    if (cli_dialogue_back(&c->dialogue, false))
        cli_chat_notice("the message was taken back");
    else
        cli_say("reprise", "there is no message yet");
    return RP_OK;
}

static RpStatus set_tools(Chat *c, const char *text) {
    const RpStatus st = cli_dialogue_tools(&c->dialogue, text[0] != '\0' ? text : NULL);
    c->told_notes     = false;
    if (st == RP_OK) cli_chat_notice("%zu tools", cli_dialogue_n_tools(&c->dialogue));
    return excuse(st);
}

static RpStatus save(Chat *c, const char *text) {
    const RpStatus st = cli_dialogue_save(&c->dialogue, text);
    if (st == RP_OK) cli_chat_notice("%zu messages saved", cli_dialogue_n_messages(&c->dialogue));
    return excuse(st);
}

void cli_chat_report_resumed(const Chat *c) {
    const Dialogue *d = &c->dialogue;
    if (d->n_restored > 0 && d->n_kept == d->n_restored)
        cli_chat_notice("%zu messages and %zu tools, %d tokens in the context", cli_dialogue_n_messages(d),
                        cli_dialogue_n_tools(d), d->n_restored);
    else if (d->n_restored > 0)
        cli_chat_notice("%zu messages and %zu tools, %d of %d tokens in the context: the others are computed again",
                        cli_dialogue_n_messages(d), cli_dialogue_n_tools(d), d->n_kept, d->n_restored);
    else
        cli_chat_notice("%zu messages and %zu tools", cli_dialogue_n_messages(d), cli_dialogue_n_tools(d));
}

static RpStatus resume(Chat *c, const char *text) {
    const RpStatus st = cli_dialogue_load(&c->dialogue, text);
    if (st == RP_OK) cli_chat_report_resumed(c);
    return excuse(st);
}

static RpStatus think(Chat *c, const char *text) {
    const bool on = strcmp(text, "on") == 0, hide = strcmp(text, "hide") == 0;
    if (!on && !hide && strcmp(text, "off") != 0) {
        cli_say("reprise", "/think is followed by on, off or hide, not by '%s'", text);
        return RP_OK;
    }
    c->hide_reasoning = hide;
    return cli_dialogue_set(&c->dialogue, "enable_thinking", on || hide);
}

static RpStatus quit(Chat *c, const char *text) {
    (void)text;
    c->quit = true;
    return RP_OK;
}

static RpStatus help(Chat *c, const char *text);

static const ChatCommand commands[] = {
    {"/reset",  "",            "forget the conversation",                                                    NO_ARGUMENT, false, false, reset     },
    {"/system", "TEXT",        "start a new conversation with this system message; without TEXT: with none", MAY_HAVE,    false,
     false,                                                                                                                             set_system},
    {"/regen",  "",            "another reply to the last message",                                          NO_ARGUMENT, false, true,  regenerate},
    {"/edit",   "TEXT",        "replace the last message by TEXT and reply to it",                           MUST_HAVE,   false, true,  edit      },
    {"/undo",   "",            "take the last message and its reply back",                                   NO_ARGUMENT, false, true,  undo      },
    {"/tools",  "FILE",        "tools as JSON, an array; without FILE: none",                                MAY_HAVE,    true,  true,  set_tools },
    {"/think",  "on|off|hide", "reasoning: with, without, or with but not shown",                            MUST_HAVE,   false, true,  think     },
    {"/save",   "FILE",        "write the conversation as JSON; to a FILE.context with what the model read", MUST_HAVE,   true,
     true,                                                                                                                              save      },
    {"/resume", "FILE",        "go on with a conversation that /save wrote",                                 MUST_HAVE,   true,  true,  resume    },
    {"/help",   "",            "list the commands",                                                          NO_ARGUMENT, false, false, help      },
    {"/quit",   "",            "end the program, as Ctrl-D does",                                            NO_ARGUMENT, false, false, quit      },
};

enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

static RpStatus help(Chat *c, const char *text) {
    (void)text;
    for (int i = 0; i < N_COMMANDS; i++) {
        const ChatCommand *k = &commands[i];
        if (!c->has_dialogue && k->of_dialogue) continue;
        fprintf(stderr, "  %s %-*s  %s\n", k->name, 19 - (int)strlen(k->name), k->argument, k->help);
    }
    fputs("  Ctrl-C                ends a reply; at the prompt it ends the program\n"
          "  LINE\\                 the message goes on in the next line\n"
          "  \"\"\"                   begins and ends a message of several lines\n",
          stderr);
    return RP_OK;
}

const char *cli_chat_command_name(int i) { return i < N_COMMANDS ? commands[i].name : NULL; }

/* The command that the line names, alone or with an argument if it takes one. */
static const ChatCommand *find(const char *line, size_t n, bool has_text) {
    for (int i = 0; i < N_COMMANDS; i++) {
        const ChatCommand *k = &commands[i];
        if (strlen(k->name) == n && strncmp(k->name, line, n) == 0)
            return has_text && k->takes == NO_ARGUMENT ? NULL : k;
    }
    return NULL;
}

RpStatus cli_chat_command(Chat *c, const char *line) {
    const size_t       n    = strcspn(line, " ");
    const char        *rest = line + n + strspn(line + n, " ");
    const ChatCommand *k    = find(line, n, rest[0] != '\0'); /* completion adds a space */
    if (k == NULL) {
        cli_say("reprise", "%s is none of the commands; /help lists them", line);
        return RP_OK;
    }
    if (k->of_dialogue && !c->has_dialogue) {
        cli_say("reprise", "%s needs a chat template in Jinja, and no --parse-special", k->name);
        return RP_OK;
    }
    if (k->takes == MUST_HAVE && rest[0] == '\0') {
        cli_say("reprise", "%s needs %s", k->name, k->argument);
        return RP_OK;
    }
    char *text = strdup(rest);
    if (text == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a command");
    for (size_t i = strlen(text); k->is_file && i > 0 && text[i - 1] == ' '; i--) text[i - 1] = '\0';
    const RpStatus st = k->run(c, text);
    free(text);
    return st;
}
