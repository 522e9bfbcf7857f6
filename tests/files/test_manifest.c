/* Manifests: what is written is read back, every damage is refused, and their hashes are those of logits that a session
 * computes alone, also for requests that ran beside others. Checksums are made again by the XXH64 of
 * tests/trainer/checksums.h, written down from the specification. */
#include "tests/support/case.h"
#include "tests/support/golden.h"
#include "tests/trainer/checksums.h"

#include "manifest/manifest.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>

static int32_t     prompt_ids[] = {3, 1, 4}, token_ids[] = {7, 8, 9};
static char        draws[]  = "dmg";
static uint64_t    logits[] = {1, UINT64_C(0xfedcba9876543210), 0};
static RpLogitBias bias[]   = {
      {5, 1.5f     },
      {6, -INFINITY}
};
static const char *breakers[]  = {"\n", "\""};
static const char *arguments[] = {"-p", "a \"text\" \xff"};
static const char *stops[] = {"end"}, *set[] = {"REPRISE_ISA=plain"};

static char grammar_text[] = "{\"messages\":[]}", template_text[] = "{{ x }}";

static ManifestTurn turn = {
    .fresh     = true,
    .kept      = 2,
    .prompt    = {prompt_ids,                      3,                     3},
    .tokens    = {                     token_ids,                              3,                     3 },
    .draws     = draws,
    .logits    = logits,
    .grammar   = { .kind = MANIFEST_CHAT, .text = grammar_text, .chat_template = template_text,  .reasoning_budget = 7},
    .reason    = "limit",
    .prefill_s = 0.25,
    .decode_s  = 0.5,
    .first_token_s = 0.125
};

static Manifest example(void) {
    Manifest m = {
        .version       = "1.2.3",
        .commit        = "abc",
        .command       = "generate",
        .arguments     = arguments,
        .n_arguments   = 2,
        .environment   = set,
        .n_environment = 1,
        .begun         = "2026-11-26T18:00:00Z",
        .load_s        = 1.5,
        .model         = {.path = "m.gguf", .bytes = 1000, .hash = 0x123},
        .draft         = {.path = "d.gguf",   .bytes = 10, .hash = UINT64_MAX},
        .loras         = {{.path = "l.gguf", .bytes = 1, .hash = 2, .scale = 0.5}},
        .n_loras       = 1,
        .device        = "cpu",
        .device_name   = "avx2",
        .cpu           = "a CPU",
        .mode          = "eager",
        .kv            = "q8_0",
        .passes        = "-norm",
        .threads       = 3,
        .n_ctx         = 128,
        .plan          = 77,
        .n_seq         = 4,
        .cache_tokens  = 512,
        .step_tokens   = 64,
        .n_draft       = 2,
        .n_mtp         = -1,
        .sampler       = rp_sampler_defaults(),
        .max_tokens    = 3,
        .ignore_end    = true,
        .stop          = stops,
        .n_stop        = 1,
        .turns         = &turn,
        .n_turns       = 1
    };
    m.sampler.seed         = UINT64_MAX;
    m.sampler.temperature  = 0.1f;
    m.sampler.mirostat_eta = 1e-30f;
    m.sampler.samplers     = "top_k;temperature";
    m.sampler.logit_bias = bias, m.sampler.n_logit_bias = 2;
    m.sampler.dry_breakers = breakers, m.sampler.n_dry_breakers = 2;
    return m;
}

static char *text_of(const Manifest *m, size_t *n) {
    char *text;
    OK(manifest_text(m, &text, n));
    return text;
}

/* Makes the checksum at the end right. Returns the text, in a buffer with room. */
static char *mended(const char *text) {
    char  *copy = calloc(1, strlen(text) + 64);
    size_t at   = (size_t)(strstr(text, ",\"checksum\"") - text);
    memcpy(copy, text, at);
    sprintf(copy + at, ",\"checksum\":\"%016" PRIx64 "\"}\n", xx_hash(text, at));
    return copy;
}

static void expect_file(const ManifestFile *a, const ManifestFile *b) {
    cr_expect_str_eq(a->path, b->path);
    cr_expect_eq(a->bytes, b->bytes);
    cr_expect_eq(a->hash, b->hash);
    cr_expect_eq(a->scale, b->scale);
}

Test(manifest, is_read_as_it_was_written) {
    const Manifest m = example();
    Manifest       r;
    size_t         n;
    char          *text = text_of(&m, &n), *again;
    OK(manifest_parse(text, n, "m.json", &r));
    const char *const pairs[][2] = {
        {m.version,           r.version                       },
        {m.commit,            r.commit                        },
        {m.command,           r.command                       },
        {m.begun,             r.begun                         },
        {m.device,            r.device                        },
        {m.device_name,       r.device_name                   },
        {m.cpu,               r.cpu                           },
        {m.mode,              r.mode                          },
        {m.kv,                r.kv                            },
        {m.passes,            r.passes                        },
        {m.arguments[0],      r.arguments[0]                  },
        {"a \"text\" \ufffd", r.arguments[1]                  },
        {m.environment[0],    r.environment[0]                },
        {m.stop[0],           r.stop[0]                       },
        {m.sampler.samplers,  r.sampler.samplers              },
        {breakers[0],         r.sampler.dry_breakers[0]       },
        {breakers[1],         r.sampler.dry_breakers[1]       },
        {turn.reason,         r.turns[0].reason               },
        {turn.draws,          r.turns[0].draws                },
        {grammar_text,        r.turns[0].grammar.text         },
        {template_text,       r.turns[0].grammar.chat_template},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) cr_expect_str_eq(pairs[i][0], pairs[i][1], CASE(i));
    const int64_t numbers[][2] = {
        {2,             (int64_t)r.n_arguments             },
        {7,             r.turns[0].grammar.reasoning_budget},
        {MANIFEST_CHAT, (int64_t)r.turns[0].grammar.kind   },
        {1,             (int64_t)r.n_environment           },
        {1,             (int64_t)r.n_loras                 },
        {3,             r.threads                          },
        {128,           r.n_ctx                            },
        {77,            (int64_t)r.plan                    },
        {4,             r.n_seq                            },
        {512,           r.cache_tokens                     },
        {64,            r.step_tokens                      },
        {2,             r.n_draft                          },
        {-1,            r.n_mtp                            },
        {3,             r.max_tokens                       },
        {1,             r.ignore_end                       },
        {1,             (int64_t)r.n_stop                  },
        {1,             (int64_t)r.n_turns                 },
        {2,             (int64_t)r.sampler.n_logit_bias    },
        {2,             (int64_t)r.sampler.n_dry_breakers  },
        {0,             r.default_breakers                 },
        {1,             r.turns[0].fresh                   },
        {2,             r.turns[0].kept                    },
        {3,             (int64_t)r.turns[0].prompt.n       },
        {3,             (int64_t)r.turns[0].tokens.n       },
    };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) cr_expect_eq(numbers[i][0], numbers[i][1], CASE(i));
    expect_file(&m.model, &r.model);
    expect_file(&m.draft, &r.draft);
    expect_file(&m.loras[0], &r.loras[0]);
    cr_expect_eq(memcmp(logits, r.turns[0].logits, sizeof logits), 0);
    cr_expect_eq(memcmp(prompt_ids, r.turns[0].prompt.ids, sizeof prompt_ids), 0);
    cr_expect_eq(memcmp(token_ids, r.turns[0].tokens.ids, sizeof token_ids), 0);
    /* Every number of the sampler, bit for bit: the same text comes out again. */
    cr_expect_eq(r.sampler.seed, UINT64_MAX);
    cr_expect(r.sampler.temperature == 0.1f && r.sampler.mirostat_eta == 1e-30f);
    cr_expect(r.sampler.logit_bias[1].bias == -INFINITY && r.sampler.logit_bias[0].bias == 1.5f);
    char *same = text_of(&r, &n);
    cr_expect_str_eq(text, same);
    again = mended(text);
    cr_expect_str_eq(text, again, "the checksum is XXH64");
    manifest_free(&r);
    free(again);
    free(same);
    free(text);
}

/* Each number of the sampler has a value of its own, which must come back in its place. */
Test(manifest, has_every_parameter_of_a_sampler) {
    Manifest         m        = example(), r;
    RpSamplerParams *p        = &m.sampler;
    float *const     floats[] = {&p->temperature,
                                 &p->top_p,
                                 &p->min_p,
                                 &p->repeat_penalty,
                                 &p->typical_p,
                                 &p->top_n_sigma,
                                 &p->frequency_penalty,
                                 &p->presence_penalty,
                                 &p->dry_multiplier,
                                 &p->dry_base,
                                 &p->xtc_probability,
                                 &p->xtc_threshold,
                                 &p->mirostat_tau,
                                 &p->mirostat_eta,
                                 &p->dynatemp_range,
                                 &p->dynatemp_exponent};
    int32_t *const   ints[]   = {&p->top_k,    &p->repeat_last_n, &p->dry_allowed_length, &p->dry_penalty_last_n,
                                 &p->min_keep, &p->mirostat};
    size_t           n;
    for (size_t i = 0; i < 16; i++) *floats[i] = 0.1f * (float)(i + 1);
    for (int32_t i = 0; i < 6; i++) *ints[i] = 100 + i;
    char *text = text_of(&m, &n);
    OK(manifest_parse(text, n, "m.json", &r));
    for (size_t i = 0; i < 16; i++)
        cr_expect_eq(*floats[i], *(float *)(void *)((char *)&r.sampler + ((char *)floats[i] - (char *)p)), CASE(i));
    for (size_t i = 0; i < 6; i++)
        cr_expect_eq(*ints[i], *(int32_t *)(void *)((char *)&r.sampler + ((char *)ints[i] - (char *)p)), CASE(i));
    manifest_free(&r);
    free(text);
}

Test(manifest, refuses_each_damaged_byte_and_each_beginning) {
    const Manifest m = example();
    Manifest       r;
    size_t         n;
    char          *text = text_of(&m, &n);
    for (size_t i = 0; i < n; i++) {
        for (int bit = 0; bit < 8; bit += 7) {
            text[i] = (char)(text[i] ^ 1 << bit);
            cr_expect_eq(manifest_parse(text, n, "m.json", &r), RP_E_FORMAT, CASE(i, bit));
            cr_expect(strstr(rp_last_error(), "m.json: the checksum is wrong: the manifest is damaged") != NULL ||
                          strstr(rp_last_error(), "m.json is no manifest, or not all of one: it does not end with a "
                                                  "checksum") != NULL,
                      CASE(i, bit));
            manifest_free(&r);
            text[i] = (char)(text[i] ^ 1 << bit);
        }
        cr_expect_eq(manifest_parse(text, i, "m.json", &r), RP_E_FORMAT, CASE(i));
        manifest_free(&r);
    }
    free(text);
}

/* The text with `from` replaced by `to` and a checksum that is right. */
static void expect_refused(const char *text, const char *from, const char *to, RpStatus st, const char *why) {
    const char *at = strstr(text, from);
    cr_assert_not_null(at, "%s", from);
    char *other = calloc(1, strlen(text) + strlen(to) + 64);
    sprintf(other, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    char    *whole = mended(other);
    Manifest r;
    cr_expect_eq(manifest_parse(whole, strlen(whole), "m.json", &r), st, "%s -> %s: %s", from, to, rp_last_error());
    cr_expect_not_null(strstr(rp_last_error(), why), "%s -> %s: %s", from, to, rp_last_error());
    manifest_free(&r);
    free(whole);
    free(other);
}

Test(manifest, refuses_members_of_other_types_and_ranges) {
    static const char *const rows[][3] = {
        {"\"version\":\"1.2.3\"",             "\"version\":1",                                           "\"program.version\" is missing or no text"                     },
        {"\"commit\":\"abc\"",                "\"other\":\"abc\"",                                       "\"program.commit\" is missing or no text"                      },
        {"\"commit\":\"abc\"",                "\"commit\":\"abc\",\"a\":1",                              "\"program\" has a member too many or too few"                  },
        {"\"commit\":\"abc\"",                "\"commit\":\"a\\u0000c\"",                                "not"                                                           },
        {"\"program\":{\"version\"",          "\"programs\":{\"version\"",                               "\"program\" is missing or no object"                           },
        {"\"command\":\"generate\"",          "\"command\":null",                                        "\"command\" is missing or no text"                             },
        {"\"arguments\":[\"-p\"",             "\"arguments\":[1",                                        "\"arguments\" has what is no text"                             },
        {"\"stop\":[\"end\"]",                "\"stop\":{}",                                             "\"stop\" is missing, no list, or too long"                     },
        {"\"load_s\":1.5",                    "\"load_s\":\"1\"",                                        "\"load_s\" is missing or no number"                            },
        {"\"bytes\":1000",                    "\"bytes\":-1",                                            "\"model.bytes\" is missing or no whole number in its range"    },
        {"\"bytes\":1000",                    "\"bytes\":1000.0",                                        "\"model.bytes\" is missing or no whole number in its range"    },
        {"\"0000000000000123\"",              "\"000000000000012G\"",
         "\"model.xxh64\" is missing or no hash of 16 hexadecimal digits"                                                                                                },
        {"\"0000000000000123\"",              "\"123\"",                                                 "\"model.xxh64\" is missing or no hash of 16 hexadecimal digits"},
        {"\"scale\":0.5",                     "\"scales\":0.5",                                          "\"adapters.scale\" is missing or no number of 32 bits"         },
        {"\"scale\":0.5",                     "\"scale\":0.5,\"a\":1",                                   "\"adapters\" has a member too many or too few"                 },
        {"\"threads\":3",                     "\"threads\":3000000000",                                  "\"run.threads\" is missing or no whole number in its range"    },
        {"\"sequences\":4",                   "\"sequences\":0",                                         "\"engine.sequences\" is 0"                                     },
        {"\"engine\":{",                      "\"engine\":{\"a\":1,",                                    "\"engine\" has a member too many or too few"                   },
        {"\"seed\":\"18446744073709551615\"", "\"seed\":\"18446744073709551616\"",
         "\"sampling.seed\" is no whole number in a text"                                                                                                                },
        {"\"seed\":\"18446744073709551615\"", "\"seed\":\"-1\"",                                         "\"sampling.seed\" is no whole number in a text"                },
        {"\"seed\":\"18446744073709551615\"", "\"seed\":1",                                              "\"sampling.seed\" is missing or no text"                       },
        {"\"top_k\":0",                       "\"top_k\":0.5",                                           "\"sampling.top_k\" is missing or no whole number in its range" },
        {"\"dry_base\":1.75",                 "\"dry_base\":1e39",                                       "\"sampling.dry_base\" is missing or no number of 32 bits"      },
        {"[5,1.5]",                           "[5,-1e39]",                                               "\"sampling.logit_bias\" has what is no token and bias"         },
        {"\"load_s\":1.5",                    "\"load_s\":1e999",                                        "m.json: line 1: "                                              },
        {"[6,null]",                          "[-6,null]",                                               "\"sampling.logit_bias\" has what is no token and bias"         },
        {"[6,null]",                          "[6,\"-inf\"]",                                            "\"sampling.logit_bias\" has what is no token and bias"         },
        {"[6,null]",                          "[6]",                                                     "\"sampling.logit_bias\" has what is no token and bias"         },
        {"\"ignore_end\":true",               "\"ignore_end\":1",                                        "\"ignore_end\" is neither true nor false"                      },
        {"\"fresh\":true",                    "\"fresh\":null",                                          "\"turns.fresh\" is neither true nor false"                     },
        {"\"kept\":2",                        "\"kept\":3",
         "\"turns.tokens\" is empty, or the prompt is, or it is shorter than what was kept"                                                                              },
        {"\"prompt\":[3,1,4]",                "\"prompt\":[]",                                           "\"turns.tokens\" is empty, or the prompt is"                   },
        {"\"prompt\":[3,1,4]",                "\"prompt\":[3,-1,4]",                                     "\"turns.prompt\" has what is no token"                         },
        {"\"draws\":\"dmg\"",                 "\"draws\":\"dm\"",
         "\"turns.draws\" has not one of the letters d, m, f and g for each token"                                                                                       },
        {"\"draws\":\"dmg\"",                 "\"draws\":\"dmx\"",
         "\"turns.draws\" has not one of the letters d, m, f and g for each token"                                                                                       },
        {"\"draws\":\"dmg\"",                 "\"draws\":\"dgg\"",                                       "\"turns.logits_xxh64\" has a hash of a token without logits"   },
        {"\"fedcba9876543210\",null",         "\"fedcba9876543210\"",                                    "\"turns.logits_xxh64\" has not one hash for each token"        },
        {"\"kind\":\"chat\"",                 "\"kind\":\"free\"",                                       "\"grammar.kind\" is none of schema, gbnf, regex, json and chat"},
        {"\"chat_template\":\"{{ x }}\"",     "\"chat_template\":1",                                     "\"grammar.chat_template\" is missing or no text"               },
        {"\"reasoning_budget\":7",            "\"reasoning_budget\":-1",
         "\"grammar.reasoning_budget\" is missing or no whole number in its range"                                                                                       },
        {"\"kind\":\"chat\",",                "",                                                        "\"grammar\" has a member too many or too few"                  },
        {"\"grammar\":{",                     "\"grammar\":[], \"x\":{",                                 "\"turns\" has a member too many or too few"                    },
        {"\"reason\":\"limit\"",              "\"reason\":\"0123456789012345678901234567890123456789\"",
         "\"turns.reason\" is too long"                                                                                                                                  },
        {"\"turns\":[",                       "\"turns\":[1,",                                           "\"turns\" has a member too many or too few"                    },
        {"\"reprise_manifest\":2",            "\"reprise_manifest\":0",
         "\"reprise_manifest\" is missing or no whole number in its range"                                                                                               },
        {"\"reprise_manifest\":2",            "\"a\":2,\"reprise_manifest\":2",                          "\"\" has a member too many or too few"                         },
        {"\"reprise_manifest\":2",            "\"command\":\"a\",\"reprise_manifest\":2",                "duplicate object key"                                          },
        {"\"stop\":[\"end\"]",                "\"stop\":[[[[[[[[\"[\"]]]]]]]]",                          "m.json: more than 8 levels"                                    },
        {"{\"reprise",                        "{{\"reprise",                                             "m.json: line 1: "                                              },
    };
    const Manifest m = example();
    size_t         n;
    char          *text = text_of(&m, &n);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        expect_refused(text, rows[i][0], rows[i][1], RP_E_FORMAT, rows[i][2]);
    expect_refused(text, "\"reprise_manifest\":2", "\"reprise_manifest\":3", RP_E_UNSUPPORTED,
                   "m.json: a manifest of format 3, and this program reads formats 1 to 2");
    /* A manifest of the first format has no grammar. */
    expect_refused(text, "\"reprise_manifest\":2", "\"reprise_manifest\":1", RP_E_FORMAT,
                   "\"turns\" has a member too many or too few");
    free(text);
}

Test(manifest, refuses_a_file_that_is_too_large_or_not_there) {
    Manifest r;
    char    *large = calloc(1, MANIFEST_BYTES + 1);
    REFUSED(manifest_parse(large, MANIFEST_BYTES + 1, "m.json", &r), RP_E_FORMAT,
            "m.json has 67108865 bytes, and a manifest at most 67108864");
    memset(large, 'a', MANIFEST_BYTES);
    Manifest    m    = example();
    const char *big  = large;
    size_t      n    = 0;
    char       *text = NULL;
    m.arguments = &big, m.n_arguments = 1;
    REFUSED(manifest_text(&m, &text, &n), RP_E_UNSUPPORTED, "a manifest of 67110487 bytes: it may have 67108864");
    free(large);
    REFUSED(manifest_read("/nowhere/m.json", &r), RP_E_IO, "/nowhere/m.json: No such file");
    REFUSED(manifest_read("/tmp", &r), RP_E_IO, "/tmp: Is a directory");
    REFUSED(manifest_read("/dev/null", &r), RP_E_FORMAT, "/dev/null is no manifest, or not all of one");
}

static int allocations, fails_at;

static void *allocate(size_t n) { return ++allocations == fails_at ? NULL : malloc(n); }

/* Each allocation of the JSON library fails in turn: there is no text then, and never one that lacks something. */
Test(manifest, a_lack_of_memory_is_reported) {
    Manifest m = example(), r;
    size_t   n, n_got;
    char    *text = text_of(&m, &n), *got;
    json_set_alloc_funcs(allocate, free);
    RpStatus st;
    fails_at = 0;
    do { /* until there are fewer allocations than that */
        fails_at++;
        allocations = 0;
        st          = manifest_text(&m, &got, &n_got);
        cr_assert(st == RP_E_NOMEM || (st == RP_OK && strcmp(got, text) == 0), CASE(fails_at, st));
        free(got);
    } while (allocations >= fails_at);
    const int writes = fails_at;
    fails_at         = 0;
    do {
        fails_at++;
        allocations = 0;
        st          = manifest_parse(text, n, "m.json", &r);
        cr_assert_eq(st == RP_OK, allocations < fails_at, CASE(fails_at, st));
        manifest_free(&r);
    } while (allocations >= fails_at);
    const int reads = fails_at;
    json_set_alloc_funcs(malloc, free);
    cr_expect(writes > 100 && reads > 100, "%d, %d", writes, reads);
    free(text);
}

/* ---- what a run tells ---- */

enum { N_REQUESTS = 8, N_TOKENS = 24 };

typedef struct Case {
    ManifestTurn turn;
    RpSampler   *sampler;
    int32_t      prompt[16];
    size_t       n_prompt;
} Case;

static void make_case(Case *c, int i, int32_t n_vocab) {
    RpSamplerParams p = rp_sampler_defaults();
    p.temperature     = i % 2 == 0 ? 0.0f : 1.0f;
    p.seed            = (uint64_t)i;
    *c                = (Case){.n_prompt = 3 + (size_t)i};
    for (size_t k = 0; k < c->n_prompt; k++) c->prompt[k] = (int32_t)(3 + 7 * (size_t)i + 5 * k) % n_vocab;
    OK(rp_sampler_new(&p, n_vocab, &c->sampler));
    rp_sampler_observe(c->sampler, manifest_observe, &c->turn);
}

static void expect_logits(size_t i, const float *x, void *user) {
    const Case  *c       = user;
    const size_t n_vocab = (size_t)rp_sampler_n_vocab(c->sampler);
    if (i + 1 < c->n_prompt) return;
    cr_expect_eq(xx_hash(x, n_vocab * sizeof *x), c->turn.logits[i + 1 - c->n_prompt], CASE(i));
}

/* The hashes of a turn are those of the logits that a session computes alone. */
static void expect_alone(Case *c, RpSession *s) {
    int32_t all[16 + N_TOKENS];
    memcpy(all, c->prompt, c->n_prompt * sizeof *all);
    memcpy(all + c->n_prompt, c->turn.tokens.ids, c->turn.tokens.n * sizeof *all);
    cr_assert_eq(c->turn.tokens.n, (size_t)N_TOKENS);
    OK(rp_session_rewind(s, 0));
    OK(rp_session_score(s, all, c->n_prompt + N_TOKENS - 1, expect_logits, c));
}

static void free_case(Case *c) {
    rp_sampler_free(c->sampler);
    manifest_turn_free(&c->turn);
}

Test(manifest, hashes_of_logits_are_the_same_alone_and_beside_others) {
    RpModel                *m  = golden_open_tiny("llama-mix");
    const RpSessionOptions  so = {.n_ctx = 64, .n_threads = 1};
    const RpEngineOptions   eo = {.n_ctx = 64, .n_seq = N_REQUESTS, .n_threads = 1};
    const RpGenerateOptions go = {.max_tokens = N_TOKENS, .ignore_end = true};
    Case                    c[N_REQUESTS], alone;
    RpSession              *s;
    RpEngine               *e;
    RpEngineEvent           v;
    RpGenerateResult        result;
    uint64_t                id;
    OK(rp_session_open(m, &so, &s));
    OK(rp_engine_open(m, &eo, &e));
    for (int i = 0; i < N_REQUESTS; i++) {
        make_case(&c[i], i, rp_model_info(m)->n_vocab);
        const RpRequest q = {.prompt     = c[i].prompt,
                             .n_prompt   = c[i].n_prompt,
                             .sampler    = c[i].sampler,
                             .max_tokens = N_TOKENS,
                             .ignore_end = true,
                             .n_draft    = i % 3};
        OK(rp_engine_add(e, &q, &id));
    }
    while (rp_engine_pending(e) > 0) {
        OK(rp_engine_step(e));
        while (rp_engine_poll(e, &v)) cr_expect_eq(v.status, RP_OK, CASE(v.id));
    }
    for (int i = 0; i < N_REQUESTS; i++) {
        expect_alone(&c[i], s);
        make_case(&alone, i, rp_model_info(m)->n_vocab);
        OK(rp_session_rewind(s, 0));
        OK(rp_generate(s, alone.sampler, alone.prompt, alone.n_prompt, &go, &result));
        cr_assert_eq(alone.turn.tokens.n, (size_t)N_TOKENS, CASE(i));
        cr_expect_eq(memcmp(alone.turn.tokens.ids, c[i].turn.tokens.ids, N_TOKENS * sizeof(int32_t)), 0, CASE(i));
        cr_expect_eq(memcmp(alone.turn.logits, c[i].turn.logits, N_TOKENS * sizeof(uint64_t)), 0, CASE(i));
        cr_expect_eq(memcmp(alone.turn.draws, "dddddddddddddddddddddddd", N_TOKENS), 0, CASE(i));
        free_case(&alone);
        free_case(&c[i]);
    }
    rp_engine_free(e);
    rp_session_free(s);
    rp_model_free(m);
}

static int32_t every_third(void *user) {
    int *n = user;
    return ++*n % 3 == 0 ? 11 : -1;
}

/* Each way that a token comes about has its letter. */
Test(manifest, says_how_each_token_came_about) {
    RpModel                *m  = golden_open_tiny("llama-mix");
    const RpSessionOptions  so = {.n_ctx = 64, .n_threads = 1};
    int                     n  = 0;
    const RpGenerateOptions go = {.max_tokens = 6, .ignore_end = true, .force_token = every_third, .user = &n};
    RpSession              *s;
    RpGenerateResult        result;
    Case                    c;
    make_case(&c, 0, rp_model_info(m)->n_vocab);
    OK(rp_session_open(m, &so, &s));
    OK(rp_generate(s, c.sampler, c.prompt, c.n_prompt, &go, &result));
    cr_assert_eq(c.turn.tokens.n, 6u);
    cr_expect_eq(memcmp(c.turn.draws, "ddfddf", 6), 0, "%.6s", c.turn.draws);
    cr_expect_eq(c.turn.tokens.ids[2], 11);
    cr_expect_neq(c.turn.logits[2], 0u);
    uint32_t mask[512];
    memset(mask, 0xff, sizeof mask);
    cr_assert_leq(rp_model_info(m)->n_vocab, 512 * 32);
    rp_sampler_set_mask(c.sampler, mask);
    int32_t token;
    OK(rp_sampler_sample(c.sampler, rp_session_logits(s), &token));
    cr_expect_eq(c.turn.draws[6], 'm');
    rp_sampler_set_mask(c.sampler, NULL);
    rp_sampler_observe(c.sampler, NULL, NULL);
    OK(rp_sampler_sample(c.sampler, rp_session_logits(s), &token));
    cr_expect_eq(c.turn.tokens.n, 7u);
    free_case(&c);
    rp_session_free(s);
    rp_model_free(m);
}

/* A regular expression with one text forces all of its tokens: no logits are computed for them. */
Test(manifest, tokens_that_a_grammar_forces_have_no_logits) {
    const char       regex[] = "abcabcabc[xy]";
    RpModel         *m;
    RpGrammar       *g;
    RpGrammarVocab  *vocab;
    RpMatcher       *matcher;
    RpSession       *s;
    RpGenerateResult result;
    Case             c;
    OK(rp_model_open(RP_SOURCE_DIR "/assets/demo.gguf", NULL, &m));
    make_case(&c, 0, rp_model_info(m)->n_vocab);
    OK(rp_session_open(m, &(RpSessionOptions){.n_ctx = 64, .n_threads = 1}, &s));
    OK(rp_grammar_regex(regex, strlen(regex), &g));
    OK(rp_grammar_vocab_new(rp_model_tokenizer(m), &vocab));
    OK(rp_matcher_new(g, vocab, &matcher));
    OK(rp_generate(s, c.sampler, c.prompt, c.n_prompt, &(RpGenerateOptions){.matcher = matcher}, &result));
    size_t forced = 0;
    for (size_t i = 0; i < c.turn.tokens.n; i++) {
        forced += c.turn.draws[i] == 'g';
        cr_expect_eq(c.turn.logits[i] == 0, c.turn.draws[i] == 'g', CASE(i));
        cr_expect(c.turn.draws[i] == 'g' || c.turn.draws[i] == 'm', CASE(i));
    }
    cr_expect_gt(forced, 0u);
    free_case(&c);
    rp_matcher_free(matcher);
    rp_grammar_vocab_free(vocab);
    rp_grammar_free(g);
    rp_session_free(s);
    rp_model_free(m);
}
