/* Pre-tokenizers: regular expressions, applied one after the other. Each splits the pieces that the one
 * before has left; both its matches and the text between them are pieces.
 *
 * Example, "smollm" = { \p{N}, GPT2 }, text "ab 12":
 *     after \p{N}   "ab "   "1"  "2"
 *     after GPT2    "ab" " " "1"  "2" */
#include "model/tokenizer/expression.h"
#include "model/tokenizer/tokenizer_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_EXPRESSIONS = 12 };

struct Pretokenizer {
    pcre2_code *expressions[MAX_EXPRESSIONS];
    bool        dropped[MAX_EXPRESSIONS]; /* text between the matches is left out */
    int         n;
};

/* GPT-2: contractions, words, numbers and punctuation, each with one space in front; runs of spaces. */
#define GPT2         "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define CONTRACTIONS "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
/* Llama 3 and Qwen 2: contractions in any case, line breaks apart from spaces; they differ in how digits are
 * grouped. */
#define WORDS(digits)                                                                                                  \
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits                                                              \
                 "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
/* Words of Qwen 3.5 and of EXAONE: marks belong to letters. */
#define WORDS_WITH_MARKS                                                                                               \
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"                                                       \
                 "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define EXAONE_MOE                                                                                                     \
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?(?:\\p{L}\\p{M}*(?: \\p{L}\\p{M}*)*)+|\\p{N}"                                 \
                 "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]?|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
#define BAILING                                                                                                        \
    "'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}"                                  \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
/* Without contractions: suffixes behind an apostrophe stay with their word. */
#define UFAKZEKA "[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define SEED_CODER                                                                                                     \
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}\\r\\n]+|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
/* UPPER: a letter other than a-z; LOWER: other than A-Z. A word of Tekken is upper-case letters, then
 * lower-case ones. */
#define UPPER "(?=[\\p{L}])([^a-z])"
#define LOWER "(?=[\\p{L}])([^A-Z])"
#define TEKKEN                                                                                                         \
    "[^\\r\\n\\p{L}\\p{N}]?(" UPPER ")*(" LOWER ")+|[^\\r\\n\\p{L}\\p{N}]?(" UPPER ")+(" LOWER                         \
    ")*|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* GPT-4o: as Tekken, with contractions at the end of a word and up to three digits. */
#define CASED(first, second) "[^\\r\\n\\p{L}\\p{N}]?(" UPPER ")" first "(" LOWER ")" second CONTRACTIONS "?|"
#define GPT4O                                                                                                          \
    CASED("*", "+")                                                                                                    \
    CASED("+", "*")                                                                                                    \
    "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* The same with marks among the letters. */
#define MARKED(without) "(?=[\\p{L}\\p{M}])([^" without "])"
#define MARKED_CASED(first, second)                                                                                    \
    "[^\\r\\n\\p{L}\\p{N}]?(" MARKED("a-z") ")" first "(" MARKED("A-Z") ")" second CONTRACTIONS "?|"
#define GRANITE_EMBEDDING                                                                                              \
    MARKED_CASED("*", "+")                                                                                             \
    MARKED_CASED("+", "*")                                                                                             \
    "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
/* Letters by their category: words of upper-case, then lower-case letters. `other` is in front of each letter. */
#define BY_CATEGORY(other, first, second)                                                                              \
    "[^\\r\\n\\p{L}\\p{N}]?(?:" other "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}])" first "(?:" other                        \
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}])" second CONTRACTIONS "?|"
#define TINY_AYA                                                                                                       \
    BY_CATEGORY("", "*", "+")                                                                                          \
    BY_CATEGORY("", "+", "*")                                                                                          \
    "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define YOUTU                                                                                                          \
    BY_CATEGORY("", "*", "+")                                                                                          \
    BY_CATEGORY("", "+", "*")                                                                                          \
    "\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define KIMI                                                                                                           \
    "\\p{Han}+|" BY_CATEGORY("(?!\\p{Han})", "*", "+") BY_CATEGORY(                                                    \
        "(?!\\p{Han})", "+", "*") "\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* DeepSeek: letters of scripts with case; punctuation; Chinese, Japanese and Hangul. */
/* clang-format off */
#define DEEPSEEK_LETTERS                                                                                      \
    "\\s?[A-Za-z\\x{b5}\\x{c0}-\\x{d6}\\x{d8}-\\x{f6}\\x{f8}-\\x{1ba}\\x{1bc}-\\x{1bf}" \
    "\\x{1c4}-\\x{293}\\x{295}-\\x{2af}\\x{370}-\\x{373}\\x{376}\\x{377}\\x{37b}-\\x{37d}\\x{37f}" \
    "\\x{386}\\x{388}-\\x{38a}\\x{38c}\\x{38e}-\\x{3a1}\\x{3a3}-\\x{3f5}\\x{3f7}-\\x{481}" \
    "\\x{48a}-\\x{52f}\\x{531}-\\x{556}\\x{10a0}-\\x{10c5}\\x{13a0}-\\x{13f5}\\x{13f8}-\\x{13fd}" \
    "\\x{1c90}-\\x{1cba}\\x{1cbd}-\\x{1cbf}\\x{1d00}-\\x{1d2b}\\x{1d6b}-\\x{1d77}\\x{1d79}-\\x{1d9a}" \
    "\\x{1e00}-\\x{1f15}\\x{1f18}-\\x{1f1d}\\x{1f20}-\\x{1f45}\\x{1f48}-\\x{1f4d}\\x{1f50}-\\x{1f57}" \
    "\\x{1f59}\\x{1f5b}\\x{1f5d}\\x{1f5f}-\\x{1f7d}\\x{1f80}-\\x{1fb4}\\x{1fb6}-\\x{1fbc}\\x{1fbe}" \
    "\\x{1fc2}-\\x{1fc4}\\x{1fc6}-\\x{1fcc}\\x{1fd0}-\\x{1fd3}\\x{1fd6}-\\x{1fdb}\\x{1fe0}-\\x{1fec}" \
    "\\x{1ff2}-\\x{1ff4}\\x{1ff6}-\\x{1ffc}\\x{2102}\\x{2107}\\x{210a}-\\x{2113}\\x{2115}" \
    "\\x{2119}-\\x{211d}\\x{2124}\\x{2126}\\x{2128}\\x{212a}-\\x{212d}\\x{212f}-\\x{2134}\\x{2139}" \
    "\\x{213c}-\\x{213f}\\x{2145}-\\x{2149}\\x{214e}\\x{2183}\\x{2184}\\x{2c00}-\\x{2c7b}" \
    "\\x{2c7e}-\\x{2ce4}\\x{2ceb}-\\x{2cee}\\x{2cf2}\\x{2cf3}\\x{a640}-\\x{a66d}\\x{a680}-\\x{a69b}" \
    "\\x{a722}-\\x{a76f}\\x{a771}-\\x{a787}\\x{a78b}-\\x{a78e}\\x{ab70}-\\x{abbf}\\x{fb00}-\\x{fb06}" \
    "\\x{fb13}-\\x{fb17}\\x{ff21}-\\x{ff3a}\\x{ff41}-\\x{ff5a}\\x{10400}-\\x{1044f}" \
    "\\x{104b0}-\\x{104d3}\\x{104d8}-\\x{104fb}\\x{10c80}-\\x{10cb2}\\x{10cc0}-\\x{10cf2}" \
    "\\x{118a0}-\\x{118df}\\x{1e900}-\\x{1e943}]+"
#define DEEPSEEK_MARKS                                                                                        \
    "\\s?[!-/:-~\\x{ff01}-\\x{ff0f}\\x{ff1a}-\\x{ff5e}\\x{2018}-\\x{201f}\\x{3000}-\\x{3002}]+"
#define DEEPSEEK_CJK                                                                                          \
    "[\\x{4e00}-\\x{9fa5}\\x{800}-\\x{4e00}\\x{ac00}-\\x{d7ff}]+"
#define DEEPSEEK3_CJK                                                                                         \
    "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+"
/* Groups of three digits from the right: 1234567 is 1, 234, 567. */
#define DIGITS_BY_THREE "\\p{N}{1,3}(?=(?:\\p{N}{3})*(?!\\p{N}))"
#define AFMOE_SCRIPTS                                                                                         \
    "[\\x{4e00}-\\x{9fff}\\x{3400}-\\x{4dbf}\\x{8c48}-\\x{faff}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}" \
    "\\x{ff65}-\\x{ff9f}\\x{2f00}-\\x{2fdf}\\x{e40}-\\x{e7f}\\x{e80}-\\x{eff}\\x{1780}-\\x{17ff}\\x{1000}-\\x{109f}" \
    "\\x{aa60}-\\x{aa7f}\\x{a9e0}-\\x{a9ff}\\x{ac00}-\\x{d7af}\\x{1100}-\\x{11ff}]+"
#define DEEPSEEK3_WORDS                                                                                       \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" \
    " ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"
#define SPARK_WORDS                                                                                           \
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" \
    " ?[\\p{P}\\p{S}]+|[\r\n]|\\s+(?!\\S)|\\s+"
/* Youtu: Hangul; Chinese marks; Bopomofo; Chinese and Japanese. */
#define YOUTU_SCRIPTS                                                                                         \
    "[\\x{ac00}-\\x{d7a3}\\x{3131}-\\x{318e}]+|"                                                              \
    "[\\x{ff01}\\x{2026}\\x{201c}\\x{201d}\\x{2018}\\x{2019}\\x{2014}\\x{ff1a}\\x{ff1b}\\x{ff0c}"           \
    "\\x{3001}-\\x{303f}\\x{fe30}-\\x{fe4f}]+|[\\x{3105}-\\x{312f}]+|"                                        \
    "[\\x{4e00}-\\x{9fa5}\\x{3040}-\\x{309f}\\x{30a0}-\\x{30ff}]+"
#define BLOOM " ?[^(\\s|.,!?\\x{2026}\\x{3002}\\x{ff0c}\\x{3001}\\x{964}\\x{6d4}\\x{60c})]+"
/* clang-format on */

/* Names of tokenizer.ggml.pre, and the expressions that these tokenizers were trained with. */
/* clang-format off */
static const struct {
    const char *names[16];
    const char *expressions[6];
    bool        ignore_merges; /* a piece that is a token as a whole skips the merges */
    bool        add_bos;
} rows[] = {
    {{"default"},
     {"[\\p{P}\\$\\+<=>\\^~\\|]+", "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)",
      "\\p{N}+", "[0-9][0-9][0-9]"},
     false, false},
    {{"falcon"}, {"[\\p{P}\\$\\+<=>\\^~\\|`]+", GPT2, "[0-9][0-9][0-9]"}, false, false},
    {{"gpt-2", "phi-2", "mpt", "olmo", "jais", "modern-bert", "roberta-bpe", "gigachat", "a.x-4.0", "mellum", "exaone4",
      "trillion", "granite-docling"},
     {GPT2}, false, false},
    {{"smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b", "mellum2"},
     {"\\p{N}", GPT2},
     false, false},
    {{"llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano"},
     {WORDS("\\p{N}{1,3}")}, true, true},
    {{"minicpm5"}, {"\\p{N}{1,3}", WORDS("\\p{N}+")}, true, false},
    {{"qwen2", "deepseek-r1-qwen", "stablelm2", "megrez", "kormo", "f2llmv2", "hunyuan", "solar-open", "grok-2"},
     {WORDS("\\p{N}")}, false, false},
    {{"laguna"}, {"[^\\n]+|[\\n]+", WORDS("\\p{N}")}, false, false},
    {{"qwen35"}, {WORDS_WITH_MARKS}, false, false},
    {{"exaone-moe"}, {EXAONE_MOE}, false, false},
    {{"bailingmoe", "bailingmoe2", "llada-moe"}, {BAILING}, false, false},
    {{"ufakzeka"}, {UFAKZEKA}, false, false},
    {{"seed-coder"}, {SEED_CODER}, false, false},
    {{"dbrx", "smaug-bpe", "chatglm-bpe"}, {WORDS("\\p{N}{1,3}")}, false, false},
    {{"glm4", "glm5"}, {WORDS("\\p{N}{1,3}")}, true, false},
    {{"gpt-4o", "llama4", "kanana2", "minimax-m2", "talkie"}, {GPT4O}, false, false},
    {{"granite-embed-multi-97m"}, {GRANITE_EMBEDDING}, true, false},
    {{"tiny_aya", "cohere2moe"}, {"\\d{1,3}(?=(?:\\d{3})*\\b)", TINY_AYA}, false, false},
    {{"youtu"}, {YOUTU_SCRIPTS, YOUTU}, true, false},
    {{"kimi-k2"}, {KIMI}, false, false},
    {{"deepseek-llm"}, {"[\r\n]", DEEPSEEK_LETTERS, DEEPSEEK_MARKS, "\\s+$", DEEPSEEK_CJK, "\\p{N}+"}, false, false},
    {{"deepseek-coder"}, {"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+", DEEPSEEK_CJK, "\\p{N}"}, false, false},
    {{"deepseek-v3", "hunyuan-dense", "joyai-llm", "hy_v4"}, {"\\p{N}{1,3}", DEEPSEEK3_CJK, DEEPSEEK3_WORDS}, false, false},
    {{"afmoe"}, {DIGITS_BY_THREE, AFMOE_SCRIPTS, DEEPSEEK3_WORDS}, false, false},
    {{"spark2_5"}, {"\\p{N}{1,3}", DEEPSEEK3_CJK, SPARK_WORDS, "\\p{N}"}, false, false},
    {{"poro-chat", "bloom", "gpt3-finnish"}, {BLOOM}, false, false},
    {{"viking"}, {BLOOM, "\\p{N}"}, false, false},
    {{"tekken"}, {TEKKEN}, true, true},
};
/* clang-format on */

/* -1: no such name. */
static int find_row(const char *name) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        for (int k = 0; k < 16 && rows[i].names[k] != NULL; k++)
            if (strcmp(rows[i].names[k], name) == 0) return (int)i;
    return -1;
}

void rp_pretokenizer_free(Pretokenizer *s) {
    if (s == NULL) return;
    for (int i = 0; i < s->n; i++) pcre2_code_free(s->expressions[i]);
    free(s);
}

/* Appends an expression. */
static RpStatus compile(Pretokenizer *s, const char *name, RpGgufString text, uint32_t options) {
    char said[128];
    snprintf(said, sizeof said, "pre-tokenizer '%.96s'", name);
    RP_TRY(rp_expression_compile(said, text, options, &s->expressions[s->n]));
    s->n++;
    return RP_OK;
}

RpStatus rp_pretokenizer_of_file(const RpGgufFile *f, const RpGgufValue *expressions, Pretokenizer **out) {
    const RpGgufValue *dropped = rp_gguf_find(f, "tokenizer.hf.dropped");
    *out                       = NULL;
    if (expressions->type != RP_GGUF_ARRAY || (expressions->n > 0 && expressions->elem_type != RP_GGUF_STRING) ||
        expressions->n > MAX_EXPRESSIONS)
        return rp_fail(RP_E_FORMAT, "%s: tokenizer.hf.expressions is not a list of at most %d strings", rp_gguf_path(f),
                       MAX_EXPRESSIONS);
    Pretokenizer *s = calloc(1, sizeof *s);
    if (s == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a pre-tokenizer");
    for (uint64_t i = 0; i < expressions->n; i++) {
        s->dropped[i]     = rp_gguf_number_at(dropped, i) > 0.0;
        const RpStatus st = compile(s, rp_gguf_path(f), rp_gguf_string_at(expressions, i), RP_EXPRESSION_OF_FILE);
        if (st == RP_OK) continue;
        rp_pretokenizer_free(s);
        return st;
    }
    *out = s;
    return RP_OK;
}

RpStatus rp_pretokenizer_new(const char *name, Pretokenizer **out, bool *ignore_merges, bool *add_bos) {
    const int row = find_row(name);
    *out          = NULL;
    if (row < 0)
        return rp_fail(RP_E_UNSUPPORTED, "pre-tokenizer '%s' is not supported (docs/models.md has the names)", name);
    Pretokenizer *s = calloc(1, sizeof *s);
    if (s == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a pre-tokenizer");
    for (int i = 0; i < 6 && rows[row].expressions[i] != NULL; i++) {
        const char    *text = rows[row].expressions[i];
        const RpStatus st   = compile(s, name, (RpGgufString){text, strlen(text)}, 0);
        if (st == RP_OK) continue;
        rp_pretokenizer_free(s);
        return st;
    }
    *ignore_merges = rows[row].ignore_merges;
    *add_bos       = rows[row].add_bos;
    *out           = s;
    return RP_OK;
}

/* Splits a text by expressions level, level + 1, ... and calls back with the pieces. Text before a match and
 * the match itself are both split further. */
static RpStatus split(const Pretokenizer *s, int level, const char *text, size_t len, PieceCallback *callback,
                      void *user) {
    if (level >= s->n || level >= MAX_EXPRESSIONS) return len > 0 ? callback(text, len, user) : RP_OK;
    pcre2_match_data *match = pcre2_match_data_create(1, NULL);
    RpStatus          st    = match != NULL ? RP_OK : rp_fail(RP_E_NOMEM, "out of memory while pre-tokenising");
    size_t            at    = 0;
    while (st == RP_OK && at < len) {
        ExpressionMatch m;
        st = rp_expression_next(s->expressions[level], text, len, at, match, &m);
        if (st != RP_OK || !m.found) break;
        if (m.from > at && !s->dropped[level]) st = split(s, level + 1, text + at, m.from - at, callback, user);
        if (st == RP_OK) st = split(s, level + 1, text + m.from, m.to - m.from, callback, user);
        at = m.to;
    }
    if (st == RP_OK && at < len && !s->dropped[level]) st = split(s, level + 1, text + at, len - at, callback, user);
    pcre2_match_data_free(match);
    return st;
}

RpStatus rp_pretokenize(const Pretokenizer *s, const char *text, size_t len, PieceCallback *callback, void *user) {
    return split(s, 0, text, len, callback, user);
}
