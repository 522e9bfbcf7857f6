/* call_json.h - what syntaxes with JSON share. */
#ifndef MODEL_CALLS_CALL_JSON_H
#define MODEL_CALLS_CALL_JSON_H

#include "model/chat/parser.h"

/* The closing marks that count at this place of Call.scan: inside of strings only those that are tokens. */
unsigned rp_json_call_ends(const RpReplyParser *p);

/* One byte of arguments that are an object, by Call.scan; false: they are none. *done: it was the last one. */
bool rp_json_body_byte(RpReplyParser *p, unsigned char c, bool *done);

#endif
