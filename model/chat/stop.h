/* stop.h - stop strings in the answer of a reply: events of text are held back while they may begin one. */
#ifndef MODEL_CHAT_STOP_H
#define MODEL_CHAT_STOP_H

#include "model/chat/parser.h"
#include "model/chat/request.h"

/* Zero-initialise it; without strings every event passes. */
typedef struct ReplyStop {
    RpGgufString    *strings; /* borrowed texts */
    size_t           n;
    ReplyBytes       held; /* terminated */
    RpReplyCallback *to;
    void            *user;
    bool             found;
    RpStatus         status; /* out of memory */
} ReplyStop;

/* The strings of the options, and the request's member `stop`: a string or an array of them. RP_E_ARG for an empty one,
 * RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_reply_stop_open(ReplyStop *s, const char *const *stop, size_t n, const Json *request);
void                  rp_reply_stop_close(ReplyStop *s);

/* Gives the event on, or the part of it in front of a stop string. False: it ends the reply. */
bool rp_reply_stop_event(ReplyStop *s, const RpReplyEvent *e);

#endif
