/* Strings, and the formats that are known. */
#include "grammar/schema/schema.h"

#include "grammar/pattern.h"

#include <string.h>

#define DATE                                                                                                           \
    "[0-9]{4}-(((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01]))|((0[469]|11)-(0[1-9]|[12][0-9]|30))|(02-(0[1-9]|1[0-9]|2["  \
    "0-8])))"
#define LEAP     "([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29"
#define TIME     "([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\\.[0-9]+)?([zZ]|[+-]([01][0-9]|2[0-3]):[0-5][0-9])"
#define BYTE     "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
#define IPV4     "(" BYTE "\\.){3}" BYTE
#define HEX4     "[0-9a-fA-F]{1,4}"
#define LABEL    "[a-zA-Z0-9]([a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
#define HOSTNAME LABEL "(\\." LABEL ")*"
#define ATOM     "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]+"
#define ESCAPED  "%[0-9a-fA-F]{2}"
#define PCHAR    "([a-zA-Z0-9._~!$&'()*+,;=:@-]|" ESCAPED ")"
#define QUERY    "([a-zA-Z0-9._~!$&'()*+,;=:@/?-]|" ESCAPED ")*"
#define USER     "([a-zA-Z0-9._~!$&'()*+,;=:-]|" ESCAPED ")*@"
#define REGNAME  "([a-zA-Z0-9._~!$&'()*+,;=-]|" ESCAPED ")*"
#define IPV6                                                                                                           \
    "((" HEX4 ":){7}" HEX4 "|(" HEX4 ":){1,7}:|(" HEX4 ":){1,6}:" HEX4 "|(" HEX4 ":){1,5}(:" HEX4 "){1,2}|(" HEX4      \
    ":){1,4}(:" HEX4 "){1,3}|(" HEX4 ":){1,3}(:" HEX4 "){1,4}|(" HEX4 ":){1,2}(:" HEX4 "){1,5}|" HEX4 ":(:" HEX4       \
    "){1,6}|:((:" HEX4 "){1,7}|:)|(" HEX4 ":){6}" IPV4 "|::(" HEX4 ":){0,5}" IPV4 "|(" HEX4 ":){1,5}:" IPV4 "|(" HEX4  \
    ":){1,4}:" HEX4 ":" IPV4 "|(" HEX4 ":){1,3}(:" HEX4 "){2}:" IPV4 "|(" HEX4 ":){1,2}(:" HEX4 "){3}:" IPV4 "|" HEX4  \
    ":(:" HEX4 "){4}:" IPV4 ")"
#define AUTHORITY "(" USER ")?(\\[" IPV6 "\\]|" REGNAME ")(:[0-9]*)?"
#define HIER      "(//" AUTHORITY "(/" PCHAR "*)*|/(" PCHAR "+(/" PCHAR "*)*)?|" PCHAR "+(/" PCHAR "*)*)?"
/* A regular expression without groups that are nested more than twice. */
#define RE_ATOM                                                                                                        \
    "([^\\\\()\\[\\]{}*+?|^$.\\u0000-\\u001f]|\\\\[dDwWsSbBnrtfv.^$*+?()\\[\\]{}|\\\\/"                                \
    "-]|\\.|\\[\\^?([^\\\\\\[\\]\\u0000-\\u001f^-]|\\\\[dDwWsS.^$*+?()\\[\\]{}|\\\\/-])+\\])"
#define RE_FLAT  "\\^?(" RE_ATOM "([*+?](\\?)?)?)*\\$?"
#define RE_LIST  RE_FLAT "(\\|" RE_FLAT ")*"
#define RE_GROUP "\\((\\?:)?" RE_LIST "\\)"
#define RE_DEEP                                                                                                        \
    "\\^?((" RE_ATOM "|" RE_GROUP "|\\((\\?:)?((" RE_ATOM "|" RE_GROUP                                                 \
    ")([*+?](\\?)?)?)*\\))([*+?]\\??|\\{[0-9]{1,3}(,)?\\}(\\?)?)?)*\\$?"
#define REGEX RE_DEEP "(\\|" RE_DEEP ")*"
#define URI   "[a-zA-Z][a-zA-Z0-9+.-]*:" HIER "(\\?" QUERY ")?(#" QUERY ")?"

/* The expressions are full matches, of RFC 3339 (without leap seconds), 5321, 1123, 4291, 4122, 3986, 6901 and
 * ISO 8601. */
static const struct {
    const char *name, *pattern;
} formats[] = {
    {"date-time",             "(" DATE "|" LEAP ")[tT]" TIME                                               },
    {"date",                  DATE "|" LEAP                                                                },
    {"time",                  TIME                                                                         },
    {"duration",
     "P((([0-9]+D|[0-9]+M([0-9]+D)?|[0-9]+Y([0-9]+M([0-9]+D)?)?)(T([0-9]+H([0-9]+M([0-9]+S)?)?|[0-9]+M([0-9]+S)?|"
     "[0-9]+S))?)|T([0-9]+H([0-9]+M([0-9]+S)?)?|[0-9]+M([0-9]+S)?|[0-9]+S)|[0-9]+W)"                       },
    {"email",                 ATOM "(\\." ATOM ")*@(" HOSTNAME "|\\[" IPV4 "\\])"                          },
    {"hostname",              "(?=.{1,253}$)(?!([^.]*\\.)*[^.]{2}--)" HOSTNAME                             },
    {"ipv4",                  IPV4                                                                         },
    {"ipv6",                  IPV6                                                                         },
    {"uuid",                  "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"},
    {"uri",                   URI                                                                          },
    {"uri-reference",
     URI "|(//" AUTHORITY "(/" PCHAR "*)*|/(" PCHAR "+(/" PCHAR "*)*)?|([a-zA-Z0-9._~!$&'()*+,;=@-]|" ESCAPED
         ")+(/" PCHAR "*)*)?(\\?" QUERY ")?(#" QUERY ")?"                                                  },
    {"iri",                   URI                                                                          }, /* those that are URIs */
    {"iri-reference",         URI                                                                          },
    {"idn-email",             ATOM "(\\." ATOM ")*@(" HOSTNAME ")"                                         },
    {"idn-hostname",          "(?=.{1,253}$)(?!([^.]*\\.)*[^.]{2}--)" HOSTNAME                             },
    {"uri-template",
     "([a-zA-Z0-9._~!$&()*+,;=:@/?#-]|" ESCAPED "|\\{[+#./;?&]?[a-zA-Z0-9_]+([.,][a-zA-Z0-9_]+)*\\*?\\})*" },
    {"regex",                 REGEX                                                                        },
    {"json-pointer",          "(/([^/~]|~[01])*)*"                                                         },
    {"relative-json-pointer", "(0|[1-9][0-9]*)(#|(/([^/~]|~[01])*)*)"                                      },
};

Rx rp_schema_format(Schema *s, RpGgufString name) {
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        Rx e = RX_NONE;
        if (name.len != strlen(formats[i].name) || memcmp(name.ptr, formats[i].name, name.len) != 0) continue;
        if (s->rx->status == RP_OK)
            s->rx->status = rp_pattern(s->rx, formats[i].pattern, strlen(formats[i].pattern), PATTERN_JSON, &e);
        return e;
    }
    return RX_NONE;
}

Rx rp_schema_string(Schema *s, const Shape *shape) {
    const bool bounded = shape->min_length > 0 || shape->max_length != UINT32_MAX;
    const Rx   chars   = rp_rx_repeat(s->rx, s->any_char, shape->min_length, shape->max_length);
    Rx         e       = shape->string;
    if (e == RX_ALL || bounded || rp_rx_node(s->rx, e)->kind == RX_KIND_NOT ||
        rp_rx_node(s->rx, e)->kind == RX_KIND_AND)
        e = rp_rx_and(s->rx, chars, e);
    return rp_schema_quoted(s, e);
}
