/* parser.h - the parts of a parser of replies (reprise/chat.h).
 *
 *     bytes -> marks (parser.c) -> a mode, or the syntax of the call (model/calls/) -> events (emit.c)
 *
 * Each byte, or whole mark, is one step of an automaton. The room that it may need in buffers is reserved before. */
#ifndef MODEL_CHAT_PARSER_H
#define MODEL_CHAT_PARSER_H

#include "reprise/chat.h"

#include "base/text/json_read.h"
#include "model/calls/literal.h"
#include "model/chat/json_scan.h"

typedef enum MarkId {
    MARK_THINK, /* opens and closes the reasoning */
    MARK_THINK_END,
    MARK_CALLS, /* opens and closes a section of calls */
    MARK_CALLS_END,
    MARK_CALL, /* opens and closes one call */
    MARK_CALL_END,
    MARK_NAME, /* in front of the name of the function, and behind it */
    MARK_NAME_END,
    MARK_FUNCTION_END,
    MARK_ID,  /* in front of the id */
    MARK_KEY, /* in front of the name of a parameter, and behind it */
    MARK_KEY_END,
    MARK_STRING_KEY_END, /* behind the name of a parameter that is a string */
    MARK_VALUE,          /* in front of its value, and behind it */
    MARK_VALUE_END,
    MARK_QUOTE,  /* around a string */
    MARK_HEADER, /* harmony: <|start|>, <|channel|>, <|message|>, ... */
    MARK_CHANNEL,
    MARK_MESSAGE,
    MARK_CONSTRAIN,
    MARK_MESSAGE_END,
    MARK_RETURN,
    N_MARKS
} MarkId;
#define BIT(mark) (1u << (mark))

typedef enum SyntaxId {
    SYNTAX_NONE,
    SYNTAX_JSON,  /* {"name": ..., "arguments": {...}}, or an array of them */
    SYNTAX_NAMED, /* the name, a mark, {...} */
    SYNTAX_XML,
    SYNTAX_PYTHON, /* [f(a=1, b='x')] */
    SYNTAX_GEMMA,  /* call:f{a:1,b:<|"|>x<|"|>} */
    SYNTAX_HARMONY,
    N_SYNTAXES
} SyntaxId;

enum {
    FORMAT_BARE_JSON = 1 << 0, /* a reply that begins with { is a call, if there are tools */
    FORMAT_BARE_NAME = 1 << 1, /* MARK_NAME opens a call also without MARK_CALL */
    FORMAT_LINES     = 1 << 2, /* one line end in front of a value and one behind it are not part of it */
    FORMAT_FENCE     = 1 << 3, /* the name may be a type, and follow in a line; the arguments are a block of code */
    FORMAT_SHORT_IDS = 1 << 4, /* ids are 9 letters and digits */
    FORMAT_OWN_IDS   = 1 << 5  /* the name is functions.NAME:INDEX, and all of it is the id */
};

typedef struct ReplyFormat {
    const char *name;
    SyntaxId    syntax;
    unsigned    flags;
    const char *marks[N_MARKS];
} ReplyFormat;

/* NULL is "none". RP_E_ARG lists the names. */
RP_NODISCARD RpStatus rp_reply_format_of(const char *name, const ReplyFormat **out);
RP_NODISCARD RpStatus rp_reasoning_format_of(const char *name, const ReplyFormat **out);

typedef enum Mode {
    MODE_TEXT,
    MODE_REASONING,
    MODE_CALLS, /* between the calls of a section */
    MODE_CALL,
    MODE_BAD, /* what began as a call and is none, until a mark ends it */
    MODE_HARMONY
} Mode;

typedef struct ReplyBytes {
    char  *p;
    size_t n, room;
} ReplyBytes;

enum { MARK_BYTES = 64, NAME_BYTES = 256, ID_BYTES = 96, OUT_BYTES = 512, SPACE_BYTES = 64 };

/* A text that is short, or too long to be what it should be. */
typedef struct ShortText {
    char   p[NAME_BYTES];
    size_t n;
    bool   too_long;
} ShortText;

typedef enum Route { ROUTE_NONE, ROUTE_NAME, ROUTE_ARGUMENTS } Route;

typedef enum ValueKind { VALUE_STRING, VALUE_ANY, VALUE_NULL_OR_STRING } ValueKind;

/* The call in the making. */
typedef struct Call {
    int32_t      number;
    bool         begun; /* its RP_REPLY_CALL_BEGIN was given */
    bool         bare;  /* no mark opened it */
    bool         any_arguments, arguments_done;
    ShortText    name, id, key;
    int          step; /* of the syntax */
    int          n_parameters;
    ValueKind    kind;
    Route        route;
    bool         in_value, list;
    JsonScan     scan, inner; /* inner: of arguments that are the text of a string */
    bool         inner_string;
    StringDecode decode;
    Literal      literal;
    bool         first; /* byte of the value */
    bool         line;  /* a line end in front of what may be the end of a value is held back */
} Call;

struct RpReplyParser {
    const ReplyFormat *format, *reasoning;
    const RpTokenizer *tokenizer;
    Json               tools;
    bool               has_tools;
    RpReplyCallback   *on_event;
    void              *user;
    uint64_t           id_seed;
    size_t             max_call_bytes;
    bool               token[N_MARKS]; /* the mark is a token of the vocabulary */
    int32_t            token_id[N_MARKS];

    Mode                 mode;
    unsigned char        held[MARK_BYTES]; /* the begin of a mark */
    bool                 held_control[MARK_BYTES];
    size_t               n_held;
    char                 space[SPACE_BYTES]; /* white space that is dropped in front of a mark */
    size_t               n_space;
    bool                 skip_space; /* behind a mark */
    bool                 any_text;   /* since the begin, the reasoning or a call */
    bool                 capture;    /* all goes to `raw` */
    bool                 ended, cancelled;
    int32_t              n_calls;
    uint64_t             n_bytes;   /* of the reply so far */
    int32_t              n_opened;  /* blocks of calls */
    MarkId               opened_by; /* the last one; N_MARKS: a brace, MARK_HEADER: the text "to=" of harmony */
    uint64_t             opened_at; /* n_bytes behind it */
    Call                 call;
    const struct Syntax *first_syntax, *syntax; /* of the format, and of the call */
    bool                 in_section;
    size_t               call_at;    /* in `raw`: where the call begins */
    ReplyBytes           raw, value; /* the call as written; a value, or arguments in front of the name */
    ShortText            header;     /* harmony */
    bool                 in_header;
    RpReplyEventKind     body; /* harmony: what the message is */

    RpReplyEventKind out_kind;
    int32_t          out_call;
    char             out[OUT_BYTES];
    size_t           n_out;
    RpUtf8Stream     utf8;
};

/* emit.c: `kind` may be any whose text comes in pieces. */
void rp_reply_put(RpReplyParser *p, RpReplyEventKind kind, const char *text, size_t n);
void rp_reply_flush(RpReplyParser *p, bool last); /* last: of its kind */
void rp_reply_begin_call(RpReplyParser *p);       /* the name is known; sets the id if there is none */
void rp_reply_end_call(RpReplyParser *p);         /* gives {} for no arguments */
void rp_reply_give_end(RpReplyParser *p);
void rp_reply_arguments(RpReplyParser *p, const char *text, size_t n); /* held back until the call has begun */
void rp_reply_argument(RpReplyParser *p, unsigned char c);             /* one byte inside of a JSON string, escaped */
void rp_reply_append(ReplyBytes *b, const char *text, size_t n);       /* what has been reserved */

/* model/calls/call.c */
void rp_reply_opened(RpReplyParser *p, MarkId by); /* a block of calls begins with this byte or mark */
void rp_reply_open_call(RpReplyParser *p, bool bare);
void rp_reply_next_call(RpReplyParser *p, size_t n); /* of the same block; the last n bytes belong to it */
void rp_reply_bad(RpReplyParser *p);                 /* the call is malformed */
void rp_reply_call_ended(RpReplyParser *p);          /* it is complete */
void rp_reply_section_ended(RpReplyParser *p);
void rp_reply_leave_call(RpReplyParser *p); /* back to the section, or to text */
void rp_reply_drop_space(RpReplyParser *p);
bool rp_reply_short(ShortText *t, unsigned char c); /* false: it is too long */

/* The syntaxes: which marks they wait for, a byte, a mark, and the end of the reply (true: the call is complete). */
typedef struct Syntax {
    unsigned (*marks)(const RpReplyParser *p);
    void (*byte)(RpReplyParser *p, unsigned char c);
    void (*mark)(RpReplyParser *p, MarkId m);
    bool (*whole)(RpReplyParser *p);
} Syntax;
extern const Syntax rp_syntax_json, rp_syntax_named, rp_syntax_xml, rp_syntax_python, rp_syntax_gemma;

/* model/calls/harmony.c */
unsigned rp_harmony_marks(const RpReplyParser *p);
void     rp_harmony_byte(RpReplyParser *p, unsigned char c);
void     rp_harmony_mark(RpReplyParser *p, MarkId m);
void     rp_harmony_end(RpReplyParser *p);
bool     rp_harmony_in_call(const RpReplyParser *p); /* from "to=" in its header to its end */

/* model/calls/tools.c: what the schema of a tool says of the values of a parameter. */
ValueKind rp_tools_kind(const RpReplyParser *p, const char *tool, const char *parameter, size_t n);

#endif
