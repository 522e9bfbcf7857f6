/* text_out.h - from the tokens of a reply to its text:
 *
 *     token -> its bytes -> stop strings -> whole UTF-8 characters -> on_text */
#ifndef MODEL_TEXT_TEXT_OUT_H
#define MODEL_TEXT_TEXT_OUT_H

#include "model/text/stop_match.h"

#include "reprise/session.h"

/* The stages, with their buffers. */
typedef struct TextOut {
    const RpGenerateOptions *options;
    const RpTokenizer       *tokenizer; /* or NULL */
    StopMatch                stop;
    RpUtf8Stream             utf8;
    char                    *bytes, *text; /* bytes: after the stop strings; text: after utf8 */
} TextOut;

/* Borrows tokenizer, which may be NULL, and options. RP_E_ARG for an empty stop string, RP_E_NOMEM. Call
 * rp_text_out_close also after a failure. */
RP_NODISCARD RpStatus rp_text_out_open(TextOut *t, const RpTokenizer *tokenizer, const RpGenerateOptions *o);
void                  rp_text_out_close(TextOut *t);

/* Prints one token. *done is set, with *reason, where a stop string or the callback ends the reply. on_text is called
 * at least once, with length 0 where all bytes are held back. */
RP_NODISCARD RpStatus rp_text_out_put(TextOut *t, int32_t token, bool *done, RpStopReason *reason);

/* Prints the bytes that were held back for a stop string which did not come, and U+FFFD for an unfinished character. */
void rp_text_out_rest(TextOut *t);

#endif
