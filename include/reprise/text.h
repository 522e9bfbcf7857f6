/* text.h - make untrusted text safe to print: text of a model file, a model, a prompt, a saved dump. A terminal obeys
 * control characters (ECMA-48): they can move the cursor, change the title or set the clipboard.
 *
 *   char shown[256];
 *   rp_visible_text("a\033[2J", 5, shown, sizeof shown);      // "a\x1b[2J", printed as it stands here
 */
#ifndef REPRISE_TEXT_H
#define REPRISE_TEXT_H

#include "reprise/status.h"

#include <stddef.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Copies n bytes of UTF-8 to `out` with control characters as \xNN: 00 to 1f but newline and tab, 7f, and U+0080 to
 * U+009F. Everything else stays as it is. Returns the length of the whole result; if that is not below `size`, the copy
 * is cut, as with snprintf. `out` is terminated unless `size` is 0; then it may be NULL. The library does this with
 * every error text, every text or DOT dump and RpModelInfo.name; replies and tensor names are not changed. */
RP_API size_t rp_visible_text(const char *text, size_t n, char *out, size_t size);

/* Writes n bytes of UTF-8 as a JSON string (RFC 8259), with its quotes. Control characters, also U+007F to U+009F, are
 * escaped; each byte that is not UTF-8 becomes U+FFFD. Errors stay in `out` (ferror). NULL text: an empty
 * string. */
RP_API void rp_put_json_string(const char *text, size_t n, FILE *out);

#ifdef __cplusplus
}
#endif
#endif
