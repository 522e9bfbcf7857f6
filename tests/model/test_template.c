/* Chat templates against Python's Jinja (tests/golden/templates), their limits, and where each byte of a text is
 * from. */
#include "tests/support/golden.h"

#include "template/template.h"

#include <dirent.h>

#define FOLDER GOLDEN_DIR "templates/"

/* The date of tools/golden/golden_templates.py: Friday, 2024-07-26 13:05:09. */
static const struct tm now = {
    .tm_year = 124, .tm_mon = 6, .tm_mday = 26, .tm_hour = 13, .tm_min = 5, .tm_sec = 9, .tm_wday = 5, .tm_yday = 207};

static char *read_file(const char *path, size_t *n) {
    enum { ROOM = 1 << 20 };
    char *p = malloc(ROOM);
    FILE *f = fopen(path, "rb");
    cr_assert(f != NULL && p != NULL, "%s", path);
    *n = fread(p, 1, ROOM - 1, f);
    cr_assert_lt(*n, (size_t)ROOM - 1, "%s is larger than the buffer", path);
    p[*n] = '\0';
    fclose(f);
    return p;
}

static RpStatus render(const char *source, size_t n, const char *json, size_t json_n, TplRendered *out) {
    TplProgram *p;
    Json        j;
    *out = (TplRendered){0};
    OK(rp_json_read("variables", json, json_n, &j));
    RpStatus st = rp_template_new("t", source, n, &p);
    if (st == RP_OK) {
        st = rp_template_render(p, &(TplInput){.json = &j, .now = &now}, out);
        rp_template_free(p);
    }
    rp_json_free(&j);
    return st;
}

static void drop(TplRendered *r) {
    free(r->text);
    free(r->control);
}

static uint64_t fnv1a(const char *p, size_t n) {
    uint64_t h = 0xcbf29ce484222325;
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)p[i]) * 0x100000001b3;
    return h;
}

/* The lines of a text, each with its length. */
typedef struct Lines {
    char  *text, *line[512];
    size_t bytes[512], n;
} Lines;

static Lines lines_of(const char *name) {
    char   path[1024];
    size_t bytes;
    Lines  l = {0};
    snprintf(path, sizeof path, FOLDER "%s", name);
    l.text = read_file(path, &bytes);
    for (char *p = l.text, *end; (end = strchr(p, '\n')) != NULL; p = end + 1) {
        cr_assert_lt(l.n, sizeof l.line / sizeof l.line[0], "%s has more lines than the test takes", name);
        l.line[l.n]    = p;
        l.bytes[l.n++] = (size_t)(end - p);
    }
    return l;
}

/* Every template of the folder on every conversation. */
Test(template, texts_of_templates_are_jinjas) {
    Lines  cases = lines_of("conversations.jsonl");
    FILE  *f     = golden_open("templates/golden.txt");
    char  *line = NULL, stem[128], name[64], what[16], path[1024], last[128] = "", *source = NULL;
    size_t size = 0, source_n = 0, n = 0;
    while (golden_line(f, &line, &size) != NULL) {
        unsigned long long hash = 0, bytes = 0;
        TplRendered        r;
        size_t             i = n++ % cases.n;
        cr_assert_geq(sscanf(line, "%127s %63s %15s %llx %llu", stem, name, what, &hash, &bytes), 3, "%s", line);
        if (strcmp(stem, last) != 0) {
            snprintf(path, sizeof path, FOLDER "%s.jinja", stem);
            free(source);
            source = read_file(path, &source_n);
            strcpy(last, stem);
        }
        const RpStatus st = render(source, source_n, cases.line[i], cases.bytes[i], &r);
        if (strcmp(what, "fails") == 0)
            cr_expect_neq(st, RP_OK, "%s %s must fail, and is \"%s\"", stem, name, st == RP_OK ? r.text : "");
        else if (st != RP_OK)
            cr_expect(false, "%s %s: %s", stem, name, rp_last_error());
        else
            cr_expect(r.n == bytes && fnv1a(r.text, r.n) == hash, "%s %s is \"%s\"", stem, name, r.text);
        drop(&r);
    }
    cr_expect_geq(n, 60 * cases.n);
    free(cases.text), free(source), free(line);
    fclose(f);
}

/* Python keeps texts of NUL bytes and of lone surrogates; JSON of this library has no such texts. */
Test(template, the_language_is_jinjas) {
    Lines  cases = lines_of("cases.jsonl");
    size_t head  = strlen("{\"variables\": ");
    for (size_t i = 1; i < cases.n; i++) {
        Json        j;
        TplRendered r;
        OK(rp_json_read("case", cases.line[i], cases.bytes[i], &j));
        const JsonNode    *text   = rp_json_get(&j, j.nodes, "text");
        const RpGgufString source = rp_json_string(&j, rp_json_get(&j, j.nodes, "source")),
                           want   = rp_json_string(&j, text);
        const RpStatus st         = render(source.ptr, source.len, cases.line[0] + head, cases.bytes[0] - head - 1, &r);
        if (text->type == JSON_NULL)
            cr_expect_neq(st, RP_OK, "%.*s must fail, and is \"%s\"", (int)source.len, source.ptr,
                          st == RP_OK ? r.text : "");
        else if (st != RP_OK)
            cr_expect(false, "%.*s: %s", (int)source.len, source.ptr, rp_last_error());
        else
            cr_expect(r.n == want.len && memcmp(r.text, want.ptr, r.n) == 0, "%.*s is\n\"%s\", not\n\"%.*s\"",
                      (int)source.len, source.ptr, r.text, (int)want.len, want.ptr);
        drop(&r);
        rp_json_free(&j);
    }
    cr_expect_geq(cases.n, (size_t)250);
    free(cases.text);
}

/* The text with » in front of what is the template's and « in front of what is a message's. */
static char *marked(const TplRendered *r) {
    char *out = malloc(4 * r->n + 8), *p = out;
    bool  last = true;
    for (size_t i = 0; i < r->n; i++) {
        if (r->control[i] != last) p = stpcpy(p, r->control[i] ? "»" : "«");
        last = r->control[i];
        *p++ = r->text[i];
    }
    *p = '\0';
    return out;
}

/* Bytes of messages stay bytes of messages through every operation; what is between them is of the template. */
Test(template, knows_where_each_byte_is_from) {
    static const char *const cases[][2] = {
        {"<|im|>{{ m }}<|end|>",                                                                  "<|im|>«<|x|>»<|end|>"          },
        {"{{ '<' ~ m ~ '>' }}{{ '<' + m }}{{ m[1:] + '.' }}",                                     "<«<|x|>»><«<|x|>|x|>»."      },
        {"{{ m | replace('x', '-') }}{{ 'axb' | replace('x', m) }}",                              "«<|»-«|>»a«<|x|>»b"        },
        {"{{ m | upper }}{{ m | trim }}{{ m.strip('<') }}{{ m.split('x')[0] }}",                  "«<|X|><|x|>|x|><|"              },
        {"{{ [m, 'a'] | join('|') }}{{ [m] }}",                                                   "«<|x|>»|a['«<|x|>»']"        },
        {"{{ d | tojson }}",                                                                      "{\"«k<»\": \"«a»\\\"«b»\"}"},
        {"{% set s %}<{{ m }}>{% endset %}{{ s }}{{ s | length }}",                               "<«<|x|>»>7"                    },
        {"{% macro f(x) %}<{{ x }}>{% endmacro %}{{ f(m) }}{{ '%s!' % m }}{{ '{}?'.format(m) }}",
         "<«<|x|>»>«<|x|>»!«<|x|>»?"                                                                                          },
        {"{{ m | reverse }}{{ m[::-1] }}{{ m * 2 }}{{ m | indent }}",                             "«>|x|<>|x|<<|x|><|x|><|x|>"     },
        {"{% for c in m %}{{ c }}.{% endfor %}{{ m | default('') }}{{ m | string }}",
         "«<».«|».«x».«|».«>».«<|x|><|x|>"                                                                               },
        {"{{ n }}{{ ms[0].role }}{{ ms[1].role }}{{ ms[0].content }}",                            "7user«<|x|>user"                },
        {"{% filter upper %}a{{ m }}{% endfilter %}{{ t }}",                                      "A«<|X|>»</s>"                  },
        {"{{ m | e }}{{ m | title }}{{ m.replace('|', '') }}",                                    "&lt;«|x|»&gt;«<|x|><x>"       },
    };
    static const char     json[]  = "{\"m\": \"<|x|>\", \"n\": 7, \"d\": {\"k<\": \"a\\\"b\"},"
                                    " \"ms\": [{\"role\": \"user\", \"content\": \"user\"}, {\"role\": \"<|x|>\"}]}";
    const TplVariableText texts[] = {
        {"t", "</s>"}
    };
    Json j;
    OK(rp_json_read("j", json, sizeof json - 1, &j));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        TplProgram *p;
        TplRendered r;
        OK(rp_template_new("t", cases[i][0], strlen(cases[i][0]), &p));
        OK(rp_template_render(p, &(TplInput){.json = &j, .texts = texts, .n_texts = 1}, &r));
        char *got = marked(&r);
        cr_expect_str_eq(got, cases[i][1], "%s: \"%s\", not \"%s\"", cases[i][0], got, cases[i][1]);
        free(got);
        drop(&r);
        rp_template_free(p);
    }
    rp_json_free(&j);
}

/* The whole text of each error. */
Test(template, says_where_and_why_it_fails) {
    static const char *const cases[][2] = {
        {"{# x",                                             "t:1:1: the comment has no end"                                     },
        {"a\nbé{% raw %}x",                                 "t:2:3: the raw block has no end"                                   },
        {"{{ '\\x4' }}",                                     "t:1:5: the escape has too few hexadecimal digits"                  },
        {"{{ '\\ud800' }}",                                  "t:1:5: the escape is no character"                                 },
        {"{{ 'x",                                            "t:1:4: the string has no end"                                      },
        {"{{ 99999999999999999999 }}",                       "t:1:4: the number is too large or ill-formed"                      },
        {"{{ é ? }}",                                       "t:1:6: '?' is not expected here"                                   },
        {"{{ 1",                                             "t:1:1: the {{ has no end"                                          },
        {"{% if 1",                                          "t:1:1: the {% has no end"                                          },
        {"{{ (1] }}",                                        "t:1:6: ']' closes no bracket"                                      },
        {"{{ a.1x }}",                                       "t:1:7: '}}' is expected, not 'x'"                                  },
        {"{{ a. }}",                                         "t:1:7: a name is expected, not '}}'"                               },
        {"{{ }}",                                            "t:1:4: an expression is expected, not '}}'"                        },
        {"{{ a b }}",                                        "t:1:6: '}}' is expected, not 'b'"                                  },
        {"{% if a b %}",                                     "t:1:9: '%}' is expected, not 'b'"                                  },
        {"{{ [1 2] }}",                                      "t:1:7: ',' is expected, not a string or number"                    },
        {"{{ a[1:2:3:4] }}",                                 "t:1:12: ']' is expected, not a string or number"                   },
        {"{{ a[1][] }}",                                     "t:1:11: an index is expected in front of ']'"                      },
        {"{{ a is 1 }}",                                     "t:1:9: the name of a test is expected, not a string or number"     },
        {"{{ a | 1 }}",                                      "t:1:8: the name of a filter is expected, not a string or number"   },
        {"{{ f(a=1, 2) }}",                                  "t:1:11: name= is expected, not a string or number"                 },
        {"{{ a is defined is string }}",                     "t:1:17: tests cannot be chained with 'is'"                         },
        {"{% 1 %}",                                          "t:1:4: the name of a statement is expected, not a string or number"},
        {"{% nothing %}",                                    "t:1:4: there is no statement 'nothing'"                            },
        {"{% for x of y %}",                                 "t:1:10: 'in' is expected, not 'of'"                                },
        {"{% for x in y recursive %}{% endfor %}",           "t:1:15: recursive loops are not supported"                         },
        {"{% break %}",                                      "t:1:10: 'break' is outside of a loop"                              },
        {"{% continue %}",                                   "t:1:13: 'continue' is outside of a loop"                           },
        {"{% call a %}{% endcall %}",                        "t:1:11: a call block needs a call"                                 },
        {"{% macro m(a=1, b) %}{% endmacro %}",              "t:1:18: a parameter without a default follows one that has one"    },
        {"{% if 1 %}{% for x in y %}{% endif %}",            "t:1:30: there is no statement 'endif'"                             },
        {"{% if 1 %}",                                       "t:1:11: 'endif' is missing at the end of the template"             },
        {"\n\n {{ x.y.z }}",                                 "t:3:8: 'dict' object has no attribute 'y'"                         },
        {"{{ nobody.x }}",                                   "t:1:10: 'nobody' is undefined"                                     },
        {"{{ nobody() }}",                                   "t:1:10: 'nobody' is undefined"                                     },
        {"{{ 'a'() }}",                                      "t:1:7: 'str' object is not callable"                               },
        {"{{ 1 | nothing }}",                                "t:1:8: there is no filter 'nothing'"                               },
        {"{{ 1 is nothing }}",                               "t:1:9: there is no test 'nothing'"                                 },
        {"{{ [1] | map('nothing') }}",                       "t:1:10: there is no filter 'nothing'"                              },
        {"{{ [1] | select('nothing') }}",                    "t:1:10: there is no test 'nothing'"                                },
        {"{{ [1] | map }}",                                  "t:1:10: map needs a filter or attribute="                          },
        {"{{ [1] | selectattr }}",                           "t:1:10: 'selectattr' needs the name of an attribute"               },
        {"{{ [1] | select(1) }}",                            "t:1:10: 'select' needs the name of a test, not 'int'"              },
        {"{{ 'a' + 1 }}",                                    "t:1:8: '+' does not take 'str' and 'int'"                          },
        {"{{ -'a' }}",                                       "t:1:4: '-' does not take 'str'"                                    },
        {"{{ 1 // 0 }}",                                     "t:1:6: division by zero"                                           },
        {"{{ 1.5 % 0 }}",                                    "t:1:8: division by zero"                                           },
        {"{{ 2 ** 64 }}",                                    "t:1:6: an integer does not fit into 64 bits"                       },
        {"{{ 1 in 'a' }}",                                   "t:1:6: 'in' needs a string in front of it, not 'int'"              },
        {"{{ 1 in 2 }}",                                     "t:1:6: 'int' object is not iterable"                               },
        {"{{ '%d' % 'a' }}",                                 "t:1:9: %d needs a number, not 'str'"                               },
        {"{{ '%q' % 1 }}",                                   "t:1:9: the directive '%q' of a format is not supported"            },
        {"{{ '%s%s' % 1 }}",                                 "t:1:11: there are too few values for a format"                     },
        {"{{ 'a' % 1 }}",                                    "t:1:8: there are too many values for a format"                     },
        {"{{ 'a'.strip(1) }}",                               "t:1:13: 'strip' needs a string, not 'int'"                         },
        {"{{ 'a'.split('') }}",                              "t:1:13: 'split' needs a separator that is not empty"               },
        {"{{ 'a'.rsplit('') }}",                             "t:1:14: 'rsplit' needs a separator that is not empty"              },
        {"{{ 'a'.index('b') }}",                             "t:1:13: 'index' finds no such text"                                },
        {"{{ [1].index(2) }}",                               "t:1:13: 'index' finds no such value"                               },
        {"{{ '{x!r}'.format() }}",                           "t:1:18: the field {x!r} of format is not supported"                },
        {"{{ '{0:>3}'.format(1) }}",                         "t:1:19: the field {0:>3} of format is not supported"               },
        {"{{ '{}'.format() }}",                              "t:1:15: there are too few values for a format"                     },
        {"{{ '{'.format() }}",                               "t:1:14: a bracket of a format has no other"                        },
        {"{{ 'a' | format(a=1) }}",                          "t:1:10: format takes no named values"                              },
        {"{{ [1][::0] }}",                                   "t:1:7: the step of a slice is zero"                                },
        {"{{ [1]['a':] }}",                                  "t:1:7: a slice needs integers, not 'str'"                          },
        {"{{ none | length }}",                              "t:1:11: object of type 'NoneType' has no length"                   },
        {"{{ 'a' | trim(1, 2) }}",                           "t:1:10: 'trim' takes at most 1 arguments, not 2"                   },
        {"{{ 'a' | trim(x=1) }}",                            "t:1:10: 'trim' has no argument 'x'"                                },
        {"{{ 'a' | trim('a', chars='b') }}",                 "t:1:10: 'trim' has its argument 'chars' twice"                     },
        {"{{ 'a' | replace('b') }}",                         "t:1:10: replace needs two texts"                                   },
        {"{{ 'a' | indent([]) }}",                           "t:1:10: indent needs a number or a text, not 'list'"               },
        {"{{ 1 | items }}",                                  "t:1:8: items needs a dict, not 'int'"                              },
        {"{{ 1 | dictsort }}",                               "t:1:8: dictsort needs a dict, not 'int'"                           },
        {"{{ 1 | attr }}",                                   "t:1:8: attr needs a name"                                          },
        {"{{ [1] | batch(0) }}",                             "t:1:10: batch needs a positive number"                             },
        {"{{ [1, 'a'] | sort }}",                            "t:1:15: 'int' and 'str' cannot be compared"                        },
        {"{{ [range] | tojson }}",                           "t:1:14: 'function' has no JSON"                                    },
        {"{{ 1 | tojson(separators=[1]) }}",                 "t:1:8: the separators of tojson must be two strings"               },
        {"{{ 1 is eq }}",                                    "t:1:9: the test 'eq' needs a value"                                },
        {"{{ range('a') }}",                                 "t:1:9: range needs integers, not 'str'"                            },
        {"{{ range() }}",                                    "t:1:9: range needs an argument"                                    },
        {"{{ range(1, 2, 0) }}",                             "t:1:9: the step of a range is zero"                                },
        {"{{ range(100001) }}",                              "t:1:9: a range has more than 100000 numbers"                       },
        {"{{ dict(1) }}",                                    "t:1:8: 'dict' needs a dict, not 'int'"                             },
        {"{{ dict(x, x) }}",                                 "t:1:8: 'dict' takes at most 1 arguments, not 2"                    },
        {"{{ strftime_now() }}",                             "t:1:16: strftime_now needs a format"                               },
        {"{{ strftime_now('%Q') }}",                         "t:1:16: strftime_now: the directive '%Q' is not supported"         },
        {"{{ raise_exception('no ' ~ 2) }}",                 "t:1:19: the template refuses the conversation: no 2"               },
        {"{% set x.y = 1 %}",                                "t:1:9: 'x' is no namespace: its attributes cannot be set"          },
        {"{% set a, b = [1] %}",                             "t:1:8: 1 values cannot be assigned to 2 names"                     },
        {"{% macro m() %}{% endmacro %}{{ m(1) }}",          "t:1:34: the macro 'm' takes at most 0 arguments, not 1"            },
        {"{% macro m() %}{% endmacro %}{{ m(a=1) }}",        "t:1:34: the macro 'm' has no argument 'a'"                         },
        {"{{ range(**1) }}",                                 "t:1:10: ** needs a dict, not 'int'"                                },
        {"{{ range(**{1: 2}) }}",                            "t:1:10: ** needs a dict of names"                                  },
        {"{% for i in [1] %}{{ loop.cycle() }}{% endfor %}", "t:1:32: loop.cycle needs a value"                                  },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        TplRendered    r;
        const RpStatus st = render(cases[i][0], strlen(cases[i][0]), "{\"x\": {}}", 9, &r);
        cr_expect(st != RP_OK && strcmp(rp_last_error(), cases[i][1]) == 0, "%s: %d \"%s\", not \"%s\"", cases[i][0],
                  (int)st, st == RP_OK ? r.text : rp_last_error(), cases[i][1]);
        drop(&r);
    }
}

/* `text` n times. */
static char *repeated(const char *head, const char *text, int n, const char *tail) {
    char *out = malloc(strlen(head) + (size_t)n * strlen(text) + strlen(tail) + 1), *p = stpcpy(out, head);
    for (int i = 0; i < n; i++) p = stpcpy(p, text);
    strcpy(p, tail);
    return out;
}

static void refused(char *source, const TplInput *in, RpStatus want, const char *text) {
    TplProgram *p  = NULL;
    TplRendered r  = {0};
    RpStatus    st = rp_template_new("t", source, strlen(source), &p);
    if (st == RP_OK) st = rp_template_render(p, in, &r);
    cr_expect(st == want && strcmp(rp_last_error(), text) == 0, "%.60s: %d \"%s\", not \"%s\"", source, (int)st,
              st == RP_OK ? "" : rp_last_error(), text);
    drop(&r);
    rp_template_free(p);
    free(source);
}

Test(template, is_bounded) {
    const TplInput none = {0};
    refused(strdup("{% set l = range(99999) %}{% for i in l %}{% for j in l %}{% break %}{% endfor %}{% endfor %}"),
            &none, RP_E_UNSUPPORTED, "t:1:55: the template takes more than 20000000 steps");
    refused(strdup("{% for i in range(9) %}{{ i }}{% endfor %}"), &(TplInput){.max_steps = 20}, RP_E_UNSUPPORTED,
            "t:1:18: the template takes more than 20 steps");
    refused(strdup("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"), &none, RP_E_UNSUPPORTED,
            "t:1:19: the template calls itself more than 1500 deep");
    refused(strdup("{{ 'abc' * 1000 }}"), &(TplInput){.max_bytes = 2999}, RP_E_UNSUPPORTED,
            "t:1:10: the template makes a text of more than 2999 bytes");
    refused(strdup("{{ 'ab' }}{{ 'c' }}d"), &(TplInput){.max_bytes = 3}, RP_E_UNSUPPORTED,
            "t:1:20: the template makes a text of more than 3 bytes");
    refused(strdup("{% set ns = namespace(x=[]) %}{% for i in range(999) %}{% set ns.x = [ns.x] %}{% endfor %}"), &none,
            RP_E_UNSUPPORTED, "a template nests values more than 100 deep");
    refused(strdup("{{ [1] * 99999 }}"), &(TplInput){.max_memory = 100000}, RP_E_NOMEM,
            "out of memory for a template (80512 of at most 100000 bytes are in use)");
    char *open = repeated("{{ ", "(", 160, "1");
    refused(repeated(open, ")", 160, " }}"), &none, RP_E_FORMAT, "t:1:153: the template is nested more than 150 deep");
    refused(repeated("{{ ", "(", 210, "1"), &none, RP_E_FORMAT, "t:1:204: more than 200 brackets are open");
    refused(repeated("", "{% if 1 %}", 160, ""), &none, RP_E_FORMAT,
            "t:1:1497: the template is nested more than 150 deep");
    refused(repeated("{{ 1", " + 1", 700, " }}"), &none, RP_E_FORMAT, "t:1:2400: more than 600 operators in a chain");
    refused(repeated("{{ a", ".b", 200, " }}"), &none, RP_E_FORMAT, "t:1:307: more than 150 attributes in a chain");
    refused(repeated("", "x", TPL_MAX_SOURCE + 1, ""), &none, RP_E_UNSUPPORTED,
            "t: a template of 4194305 bytes, at most 4194304 are read");
    free(open);
    Json list;
    OK(rp_json_read("j", "[]", 2, &list));
    refused(strdup("x"), &(TplInput){.json = &list}, RP_E_ARG, "j: the variables of a template must be an object");
    rp_json_free(&list);
}
