/* json_scan.h - JSON (RFC 8259) checked byte by byte, and strings of it decoded byte by byte. Nothing is allocated. */
#ifndef MODEL_CHAT_JSON_SCAN_H
#define MODEL_CHAT_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JSON_SCAN_DEPTH = 64 };

typedef enum ScanState {
    SCAN_VALUE, /* a value comes */
    SCAN_FIRST_ITEM,
    SCAN_FIRST_KEY,
    SCAN_KEY,
    SCAN_COLON,
    SCAN_BEHIND, /* a value of a container has ended */
    SCAN_STRING,
    SCAN_ESCAPE,
    SCAN_HEX,
    SCAN_MINUS,
    SCAN_ZERO,
    SCAN_DIGITS,
    SCAN_POINT,
    SCAN_FRACTION,
    SCAN_E,
    SCAN_E_SIGN,
    SCAN_EXPONENT,
    SCAN_WORD, /* true, false, null */
    SCAN_END   /* the outermost value has ended */
} ScanState;

/* Zero-initialise it: one value comes. */
typedef struct JsonScan {
    ScanState   state;
    bool        key; /* the string is the name of a member */
    int         hex; /* digits that are missing of \uXXXX */
    int         depth;
    bool        object[JSON_SCAN_DEPTH]; /* of each open container */
    const char *word;                    /* what is missing of a word */
} JsonScan;

typedef enum ScanResult {
    SCAN_MORE, /* the byte is taken, and the value goes on */
    SCAN_DONE, /* the byte is taken, and was the last one */
    SCAN_OVER, /* the number had ended before the byte, which is not taken */
    SCAN_BAD   /* no JSON; the scan stays where it was */
} ScanResult;

/* White space in front of the value and inside of it is taken. Control characters in strings are accepted, although
 * RFC 8259 forbids them: models write line ends into strings. Whoever copies the text escapes them. */
ScanResult rp_json_scan(JsonScan *s, unsigned char c);

/* True if a value has ended, also a number that nothing follows. */
bool rp_json_scan_whole(const JsonScan *s);

/* [p, p+n) is one value, with white space around it. */
bool rp_json_is_value(const char *p, size_t n);

static inline bool rp_json_space(unsigned char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

/* Decodes the bytes between the quotes of a string. Zero-initialise it. Half of a surrogate pair becomes U+FFFD. */
typedef struct StringDecode {
    int      escape; /* 0: none, 1: behind the backslash, 2: hex digits */
    int      missing;
    uint32_t code, high; /* high: the first half of a pair that waits */
} StringDecode;

enum { STRING_DECODE_ROOM = 8 }; /* bytes that one call may write */

/* Takes one byte of a checked string, without quotes; returns the number of bytes written to out. */
size_t rp_string_decode(StringDecode *d, unsigned char c, char out[STRING_DECODE_ROOM]);

/* Behind the last byte: what is held back. */
size_t rp_string_decode_end(StringDecode *d, char out[STRING_DECODE_ROOM]);

/* A character as UTF-8; returns its bytes, 1 to 4. A code that is no character becomes U+FFFD. */
size_t rp_code_to_utf8(uint32_t code, char out[4]);

/* The byte as a part of a JSON string: itself, or an escape of up to 6 bytes. */
size_t rp_json_escape(unsigned char c, char out[8]);

#endif
