/* A complete directory: prompt to ids, greedy replies, end tokens and chat template against transformers
 * (tools/golden/hf/golden_hf_text.py); then the same directory with hostile files of a tokenizer. */
#include "tests/support/case.h"
#include "tests/support/hf_folder.h"

#include <sys/stat.h>

static const char source[] = GOLDEN_DIR "hf_text";

static int32_t argmax(const float *x, int n) {
    int best = 0;
    for (int i = 1; i < n; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

Test(hf_text, greedy_replies_are_those_of_transformers) {
    RpModel   *m;
    RpSession *s;
    char      *line = NULL;
    size_t     size = 0;
    int        n    = 0;
    FILE      *f    = golden_open("hf_text/replies.txt");
    OK(rp_model_open(source, NULL, &m));
    OK(rp_session_open(m, &(RpSessionOptions){.n_ctx = 64, .n_threads = 2, .passes = "-quantize"}, &s));
    for (; golden_line(f, &line, &size) != NULL; n++) {
        char       *at = line, *bars[2];
        size_t      len;
        int32_t     prompt[64], reply[64];
        char       *text      = golden_hex(&at, &len);
        RpTokenList ids       = {0};
        bars[0]               = strchr(line, '|');
        bars[1]               = strrchr(line, '|');
        *bars[1]              = '\0';
        const size_t n_prompt = golden_ids(bars[0] + 1, prompt, 64), n_reply = golden_ids(bars[1] + 1, reply, 64);
        OK(rp_tokenize(rp_model_tokenizer(m), text, len, RP_TOK_PARSE_SPECIAL | RP_TOK_ADD_SPECIAL, &ids));
        cr_assert(ids.n == n_prompt && memcmp(ids.ids, prompt, n_prompt * sizeof *prompt) == 0, "prompt %d", n);
        OK(rp_session_rewind(s, 0));
        for (size_t i = 0; i < n_prompt; i++) OK(rp_session_step(s, prompt[i]));
        for (size_t i = 0; i < n_reply; i++) {
            const int32_t id = argmax(rp_session_logits(s), rp_model_info(m)->n_vocab);
            cr_assert_eq(id, reply[i], "prompt %d, id %zu of the reply: %d, not %d", n, i, id, reply[i]);
            OK(rp_session_step(s, id));
        }
        rp_token_list_free(&ids);
        free(text);
    }
    cr_expect_eq(n, 4);
    free(line);
    fclose(f);
    rp_session_free(s);
    rp_model_free(m);
}

Test(hf_text, end_tokens_and_chat_template) {
    RpModel   *m;
    RpChatKind kind;
    OK(rp_model_open(source, NULL, &m));
    const RpTokenizer *tk = rp_model_tokenizer(m);
    cr_expect(rp_tokenizer_is_end(tk, rp_tokenizer_find(tk, "<|im_end|>")));
    cr_expect(rp_tokenizer_is_end(tk, rp_tokenizer_find(tk, "<|endoftext|>")));
    cr_expect(!rp_tokenizer_is_end(tk, rp_tokenizer_find(tk, "<|im_start|>")));
    cr_expect_eq(rp_tokenizer_eos(tk), rp_tokenizer_find(tk, "<|im_end|>"));
    cr_expect(rp_tokenizer_is_control(tk, rp_tokenizer_find(tk, "<|im_start|>")));
    cr_expect(!rp_tokenizer_is_control(tk, rp_tokenizer_find(tk, "<repo_name>")));
    OK(rp_chat_detect(rp_model_file(m), &kind));
    cr_expect_eq(kind, RP_CHAT_CHATML);
    rp_model_free(m);
}

/* ---- hostile tokenizers ---- */

static void begin(void) {
    static const char *const names[] = {"config.json", "model.safetensors", "tokenizer_config.json",
                                        "generation_config.json"};
    hf_begin();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) hf_copy("hf_text", names[i]);
}

/* tokenizer.json with its first `from` replaced. */
static void refuse(const char *from, const char *to, RpStatus status, const char *text) {
    size_t n;
    char  *p = hf_read_golden("hf_text", "tokenizer.json", &n), *at = strstr(p, from),
         *changed = malloc(n + strlen(to) + 1);
    cr_assert(at != NULL && changed != NULL, "%s", from);
    const size_t front = (size_t)(at - p), back = n - front - strlen(from);
    memcpy(changed, p, front);
    memcpy(changed + front, to, strlen(to));
    memcpy(changed + front + strlen(to), at + strlen(from), back);
    hf_write("tokenizer.json", changed, front + strlen(to) + back);
    REFUSED(hf_open(), status, text);
    free(changed);
    free(p);
}

Test(hf_text, tokenizers_that_are_refused) {
    begin();
    refuse("\"BPE\"", "\"WordLevel\"", RP_E_UNSUPPORTED, "tokenizer.json: model 'WordLevel' is not supported");
    refuse("\"NFC\"", "\"Nmt\"", RP_E_UNSUPPORTED, "normalizer 'Nmt' is not supported");
    refuse("\"Split\"", "\"Whitespace\"", RP_E_UNSUPPORTED, "pre_tokenizer 'Whitespace' is not supported");
    refuse("\"Isolated\"", "\"Contiguous\"", RP_E_UNSUPPORTED, "behavior of a Split 'Contiguous' is not supported");
    refuse("(?i:'s", "[a-z&&[^b]](?i:'s", RP_E_UNSUPPORTED,
           "the expression '[a-z&&[^b]](?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
           "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*' is not supported: intersections of classes");
    refuse("(?i:'s", "(?i:'s(", RP_E_NOT_AVAILABLE, "does not compile its expressions");
    refuse("(?i:'s", "\\\\C(?i:'s", RP_E_NOT_AVAILABLE, "does not compile its expressions");
    int error = 0, at = 0;
    cr_expect_eq(sscanf(rp_last_error(),
                        "pre-tokenizer '%*[^']': this PCRE2 does not compile its expressions (error %d at %d)", &error,
                        &at),
                 2, "%s", rp_last_error());
    refuse("\"vocab\":", "\"vocab\":[],\"v\":", RP_E_FORMAT, "model.vocab is no object");
    refuse("\"merges\":", "\"merges\":{},\"m\":", RP_E_FORMAT, "model.merges is no list");
    refuse("\"!\":0", "\"!\":-1", RP_E_FORMAT, "token '!' has no id below 664, the vocab_size of config.json");
    refuse("\"!\":0", "\"!\":664", RP_E_FORMAT, "token '!' has no id below 664, the vocab_size of config.json");
    refuse("\"!\":0", "\"!\":1.5", RP_E_FORMAT, "token '!' has no id below 664, the vocab_size of config.json");
    refuse("\"!\":0", "\"!\":1", RP_E_FORMAT, "two tokens have the id 1");
    refuse("\"!\":0", "\"!\":0,\"!\":0", RP_E_FORMAT, "\"!\" occurs twice");
    refuse("\"content\":\"<|endoftext|>\"", "\"content\":7", RP_E_FORMAT, "an added token has no content");
    refuse("\"post_processor\":", "\"post_processor\":{\"type\":\"WordProcessing\"},\"p\":", RP_E_UNSUPPORTED,
           "post_processor 'WordProcessing'");
    refuse("\"add_prefix_space\":false", "\"add_prefix_space\":true", RP_E_UNSUPPORTED,
           "add_prefix_space of ByteLevel is not supported");
    refuse("\"pretokenizers\":[", "\"pretokenizers\":[{\"type\":\"ByteLevel\",\"add_prefix_space\":false},",
           RP_E_UNSUPPORTED, "a pre_tokenizer behind ByteLevel 'Split' is not supported");
    refuse("\"type\":\"BPE\"", "\"type\":\"Unigram\"", RP_E_FORMAT, "model.vocab is no list of at most 664 pieces");
    refuse("{", "[", RP_E_FORMAT, "JSON: ',' or ']' is expected");
    hf_end();
}

/* Onigmo, which the package tokenizers uses, matches other texts by these than PCRE2 does. */
Test(hf_text, expressions_that_mean_something_else) {
    static const struct {
        const char *expression, *text;
    } cases[] = {
        {"\\\\h",          "\\h, \\H, \\v, \\V, \\N, \\R or \\X"},
        {"[^\\\\H]",       "\\h, \\H, \\v, \\V, \\N, \\R or \\X"},
        {"\\\\p{L}\\\\v",  "\\v, \\V"                           },
        {"[a[b]]",         "a class inside of a class"          },
        {"[]a]",           "a class that begins with ]"         },
        {"[a-z&&[^b]]",    "intersections"                      },
        {"a{2}+",          "{n,m}+"                             },
        {"\\\\p{N}{1,3}+", "{n,m}+"                             },
        {"a{,2}",          "{,n}"                               },
        {"(?m:a.b)",       "an option other than i"             },
        {"a\\u0000b",      "a zero byte"                        },
        {"(?i-m)a",        "an option other than i"             },
    };
    begin();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char to[64];
        snprintf(to, sizeof to, "%s|(?i:'s", cases[i].expression);
        refuse("(?i:'s", to, RP_E_UNSUPPORTED, cases[i].text);
    }
    hf_end();
}

/* DeepSeek R1 has a post-processor that adds nothing, and tokenizer_config.json says that BOS is added: transformers
 * adds it. */
Test(hf_text, add_bos_token_counts_beside_a_post_processor) {
    static const char *const config[] = {"\"backend\": \"tokenizers\"",
                                         "\"bos_token\": \"<|endoftext|>\", \"add_bos_token\": true"};
    for (int i = 0; i < 2; i++) {
        RpModel    *m;
        RpTokenList ids = {0};
        begin();
        hf_change("hf_text", "tokenizer.json", "\"post_processor\":null",
                  "\"post_processor\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":false}");
        hf_change("hf_text", "tokenizer_config.json", config[0], config[i]);
        OK(rp_model_open(folder, NULL, &m));
        OK(rp_tokenize(rp_model_tokenizer(m), "a", 1, RP_TOK_ADD_SPECIAL, &ids));
        cr_assert_eq(ids.n, i == 0 ? 1u : 2u, CASE(i));
        cr_expect_eq(ids.ids[0], i == 0 ? 64 : 656, CASE(i));
        rp_token_list_free(&ids);
        rp_model_free(m);
        hf_end();
    }
}

Test(hf_text, a_tokenizer_that_ends_anywhere_is_refused) {
    size_t n;
    char  *p = hf_read_golden("hf_text", "tokenizer.json", &n);
    begin();
    for (size_t cut = 0; cut + 2 < n; cut += cut < 600 ? 1 : 97) {
        hf_write("tokenizer.json", p, cut);
        cr_expect_eq(hf_open(), RP_E_FORMAT, "%zu bytes: %s", cut, rp_last_error());
    }
    free(p);
    hf_end();
}

/* An expression may match nothing, or take exponential time: that ends with a status, not never. */
Test(hf_text, expressions_that_do_not_end) {
    static const char *const hostile[] = {"a*", "(?=a)", "\\\\b", "(a+)+$"};
    begin();
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        size_t n;
        char  *p = hf_read_golden("hf_text", "tokenizer.json", &n), *at = strstr(p, "(?i:'s"),
             *end_of_it = strstr(at, "\"}"), text[64];
        RpModel    *m;
        RpTokenList ids = {0};
        snprintf(text, sizeof text, "%s", hostile[i]);
        char     *changed = malloc(n + 64);
        const int k       = snprintf(changed, n + 64, "%.*s%s%s", (int)(at - p), p, text, end_of_it);
        hf_write("tokenizer.json", changed, (size_t)k);
        OK(rp_model_open(folder, NULL, &m));
        const RpStatus st =
            rp_tokenize(rp_model_tokenizer(m), "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab aaab", 45, 0, &ids);
        cr_expect(st == RP_OK || st == RP_E_UNSUPPORTED, "%s: %s", hostile[i], rp_last_error());
        if (i == 3)
            cr_expect_str_eq(rp_last_error(), "pre-tokenising 45 bytes failed at byte 0 (PCRE2 error -47)", "%s",
                             hostile[i]);
        rp_token_list_free(&ids);
        rp_model_free(m);
        free(changed);
        free(p);
    }
    hf_end();
}
