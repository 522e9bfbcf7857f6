/* request.h - requests of chats from files, and the events of replies on the terminal. */
#ifndef CLI_REQUEST_H
#define CLI_REQUEST_H

#include "cli/common.h"
#include "cli/structured.h"

typedef struct RequestArgs {
    const char           *messages, *tools; /* files, or NULL */
    const StructuredArgs *structured;       /* of the answer, beside what the messages say */
    bool                  events;           /* JSON lines instead of text */
    int32_t               budget;           /* of reasoning; 0: none */
} RequestArgs;

struct json_t;

/* Reads a file, "-": standard input. The caller calls json_decref(*out), a value of Jansson; after a failure it is
 * NULL. RP_E_FORMAT names the line. */
RP_NODISCARD RpStatus cli_load_json(const char *path, struct json_t **out);

/* The JSON of a request. `prompt` and `system` become messages if there is no file of messages; `system` may be NULL.
 * The caller frees *out. */
RP_NODISCARD RpStatus cli_request_json(const RequestArgs *a, const char *prompt, const char *system, char **out);

/* State of printing the events of a reply. Zero-initialise it. */
typedef struct EventPrinter {
    bool             json;
    bool             any; /* something was printed */
    char             last;
    RpReplyEventKind kind; /* of the last event */
} EventPrinter;

/* An RpReplyCallback; `user` is an EventPrinter. */
bool cli_print_event(const RpReplyEvent *e, void *user);

#endif
