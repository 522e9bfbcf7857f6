/* parse.c - strict reading of the head of a request. */
#include "server/http/parse.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

long http_head_length(const char *text, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (c == '\n') {
            if (i == 0 || text[i - 1] != '\r') return -1;
            if (i >= 3 && text[i - 2] == '\n') return (long)i + 1;
        } else if (i > 0 && text[i - 1] == '\r') {
            return -1;
        } else if ((c < ' ' && c != '\t' && c != '\r') || c == 127) {
            return -1;
        }
    }
    return 0;
}

/* A character of a token (RFC 9110, 5.6.2). */
static bool is_token(char c) {
    return isalnum((unsigned char)c) || (c != '\0' && strchr("!#$%&'*+-.^_`|~", c) != NULL);
}

static int refuse(const char **why, int status, const char *text) {
    *why = text;
    return status;
}

/* "METHOD /path?query HTTP/1.1" */
static int parse_request_line(char *line, HttpHead *out, const char **why) {
    static const char text[] = "The request line must be a method, a path and HTTP/1.1.";
    char             *target = strchr(line, ' '), *version = target != NULL ? strchr(target + 1, ' ') : NULL;
    if (version == NULL || strchr(version + 1, ' ') != NULL || target == line) return refuse(why, 400, text);
    for (const char *c = line; c < target; c++)
        if (!isupper((unsigned char)*c)) return refuse(why, 400, text);
    *target++  = '\0';
    *version++ = '\0';
    if (strcmp(version, "HTTP/1.1") != 0 && strcmp(version, "HTTP/1.0") != 0)
        return strncmp(version, "HTTP/", 5) == 0 ? refuse(why, 505, "The server speaks HTTP/1.1 and HTTP/1.0.")
                                                 : refuse(why, 400, text);
    if (target[0] != '/') return refuse(why, 400, "The target of the request must be a path.");
    for (const char *c = target; *c != '\0'; c++)
        if (*c < '!' || *c > '~' || *c == '#')
            return refuse(why, 400, "The path has a character that it may not have.");
    char *query = strchr(target, '?');
    if (query != NULL) *query++ = '\0';
    out->method = line;
    out->path   = target;
    out->query  = query != NULL ? query : "";
    out->http10 = version[7] == '0';
    return 0;
}

/* "Name: value" */
static int parse_header(char *line, HttpHead *out, const char **why) {
    char *colon = line;
    while (is_token(*colon)) {
        *colon = (char)tolower((unsigned char)*colon);
        colon++;
    }
    if (colon == line || *colon != ':')
        return refuse(why, 400, "A header has no name, or white space before its colon.");
    if (out->n_headers == HTTP_MAX_HEADERS) return refuse(why, 431, "The request has more than 64 headers.");
    *colon      = '\0';
    char *value = colon + 1 + strspn(colon + 1, " \t"), *end = value + strlen(value);
    while (end > value && (end[-1] == ' ' || end[-1] == '\t')) *--end = '\0';
    out->headers[out->n_headers].name    = line;
    out->headers[out->n_headers++].value = value;
    return 0;
}

static int count(const HttpHead *head, const char *name) {
    int n = 0;
    for (size_t i = 0; i < head->n_headers; i++) n += strcmp(head->headers[i].name, name) == 0;
    return n;
}

/* How long the body is. It must be said in one way, and once. */
static int find_length(HttpHead *out, const char **why) {
    const char *length = http_header(out, "content-length");
    if (count(out, "content-length") > 1) return refuse(why, 400, "The request has Content-Length twice.");
    if (count(out, "transfer-encoding") > 0) {
        if (length != NULL) return refuse(why, 400, "The request has Content-Length and Transfer-Encoding.");
        return refuse(why, 411, "Bodies in chunks are not accepted: send Content-Length.");
    }
    if (length == NULL) return 0;
    if (length[0] == '\0' || length[strspn(length, "0123456789")] != '\0')
        return refuse(why, 400, "Content-Length must be a number.");
    if (strlen(length) > 18) return refuse(why, 413, "The body is too large.");
    for (const char *c = length; *c != '\0'; c++) out->content_length = out->content_length * 10 + (*c - '0');
    return 0;
}

/* True if a list of words, separated by commas, has this one. */
static bool has_word(const char *list, const char *word) {
    const size_t n = strlen(word);
    for (const char *c = list; c != NULL; c = strchr(c, ',')) {
        c += strspn(c, ", \t");
        if (strncasecmp(c, word, n) == 0 && strchr(", \t", c[n]) != NULL) return true;
        if (*c == '\0') break;
    }
    return false;
}

static int find_options(HttpHead *out, const char **why) {
    const char *expect = http_header(out, "expect"), *connection = http_header(out, "connection");
    const int   hosts = count(out, "host");
    if (hosts > 1 || (hosts == 0 && !out->http10)) return refuse(why, 400, "The request must have one Host.");
    if (count(out, "origin") > 1 || count(out, "authorization") > 1 || count(out, "x-api-key") > 1)
        return refuse(why, 400, "A header is there twice that may be there once.");
    if (expect != NULL && strcasecmp(expect, "100-continue") != 0)
        return refuse(why, 417, "The only expectation that is known is 100-continue.");
    out->expects_continue = expect != NULL && !out->http10;
    out->keep_alive       = out->http10 ? has_word(connection, "keep-alive") : !has_word(connection, "close");
    return 0;
}

int http_head_parse(char *text, size_t n, HttpHead *out, const char **why) {
    *out          = (HttpHead){.method = "", .path = "", .query = ""};
    text[n]       = '\0';
    char *line    = text;
    bool  is_line = true;
    for (char *end = strstr(line, "\r\n"); end != NULL && (is_line || end != line); end = strstr(line, "\r\n")) {
        *end             = '\0';
        const int status = is_line ? parse_request_line(line, out, why) : parse_header(line, out, why);
        if (status != 0) return status;
        is_line = false;
        line    = end + 2;
    }
    const int status = find_length(out, why);
    return status != 0 ? status : find_options(out, why);
}

const char *http_header(const HttpHead *head, const char *name) {
    for (size_t i = 0; i < head->n_headers; i++)
        if (strcmp(head->headers[i].name, name) == 0) return head->headers[i].value;
    return NULL;
}

const char *http_status_text(int status) {
    static const struct {
        int         status;
        const char *text;
    } texts[] = {
        {200, "OK"                             },
        {204, "No Content"                     },
        {400, "Bad Request"                    },
        {401, "Unauthorized"                   },
        {403, "Forbidden"                      },
        {404, "Not Found"                      },
        {405, "Method Not Allowed"             },
        {408, "Request Timeout"                },
        {411, "Length Required"                },
        {413, "Content Too Large"              },
        {415, "Unsupported Media Type"         },
        {417, "Expectation Failed"             },
        {429, "Too Many Requests"              },
        {431, "Request Header Fields Too Large"},
        {500, "Internal Server Error"          },
        {501, "Not Implemented"                },
        {503, "Service Unavailable"            },
        {505, "HTTP Version Not Supported"     },
    };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (texts[i].status == status) return texts[i].text;
    return "?";
}
