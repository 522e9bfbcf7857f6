/* WordPiece (BERT, Devlin et al. 2018, arXiv:1810.04805): a text is cut into words, each of which is written as the
 * longest token that begins it, then the longest that goes on, and so forth. A word without such tokens, or of more
 * than 100 characters, is the unknown token.
 *
 *     "Café au-lait!"  ->  cafe, au, -, lait, !           lower case without accents; punctuation marks and CJK
 *                                                         characters are words
 *     "_cafe" -> _caf, e                                  _ is U+2581: files store the beginning of a word with it, and
 *                                                         "##e", which goes on in a word, as "e" */
#include "model/tokenizer/tokenizer_impl.h"

#include "base/text/utf8.h"
#include "model/tokenizer/lower.h"
#include "model/tokenizer/nfc.h"
#include "model/tokenizer/words_unicode.h"

#include <string.h>

#define COUNT(rows) (sizeof(rows) / sizeof(rows)[0])

enum { MARK = 3, MOST_CHARACTERS = 100 };

static const char mark[MARK] = {'\xe2', '\x96', '\x81'};

typedef struct Word {
    char   text[MARK + 4 * MOST_CHARACTERS]; /* begins with the mark */
    size_t len, n;                           /* bytes with the mark; characters, of which the text has at most 100 */
} Word;

static WordClass class_of(uint32_t code) {
    size_t low = 0, high = COUNT(word_classes);
    if (code == '\t' || code == '\n' || code == '\r') return WORD_SPACE;
    /* of ASCII, symbols count as punctuation too */
    if ((code >= 33 && code <= 47) || (code >= 58 && code <= 64) || (code >= 91 && code <= 96) ||
        (code >= 123 && code <= 126))
        return WORD_PUNCTUATION;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        if (code < word_classes[mid][0])
            high = mid;
        else if (code > word_classes[mid][1])
            low = mid + 1;
        else
            return (WordClass)word_classes[mid][2];
    }
    return WORD_OTHER;
}

/* The blocks of ideographs that BERT's tokenizer names, as Hugging Face's has them. */
static bool is_ideograph(uint32_t c) {
    static const uint32_t blocks[][2] = {
        {0x3400,  0x4dbf },
        {0x4e00,  0x9fff },
        {0xf900,  0xfaff },
        {0x20000, 0x2a6df},
        {0x2a700, 0x2b73f},
        {0x2b740, 0x2b81f},
        {0x2b920, 0x2ceaf},
        {0x2f800, 0x2fa1f}
    };
    for (size_t i = 0; i < COUNT(blocks); i++)
        if (c >= blocks[i][0] && c <= blocks[i][1]) return true;
    return false;
}

static void add_character(Word *w, uint32_t code) {
    if (w->n++ < MOST_CHARACTERS) w->len += rp_utf8_put(code, w->text + w->len);
}

static RpStatus end_word(const RpTokenizer *tk, Word *w, RpTokenList *out) {
    const size_t before = out->n;
    bool         known  = w->n > 0 && w->n <= MOST_CHARACTERS;
    for (size_t at = 0; known && at < w->len;) {
        size_t  len = w->len - at < tk->longest ? w->len - at : tk->longest;
        int32_t id  = -1;
        while (len > 0 && (id = rp_spm_token_of(tk, w->text + at, len)) < 0) len--;
        known = id >= 0;
        if (known) RP_TRY(rp_token_list_push(out, id));
        at += len;
    }
    if (w->n > 0 && !known) {
        out->n = before;
        if (tk->unknown < 0) return rp_fail(RP_E_UNSUPPORTED, "the tokenizer has no unknown token, which a word needs");
        RP_TRY(rp_token_list_push(out, tk->unknown));
    }
    w->len = MARK;
    w->n   = 0;
    return RP_OK;
}

/* Characters that stand alone end the word before. */
static RpStatus add(const RpTokenizer *tk, Word *w, uint32_t code, bool alone, RpTokenList *out) {
    if (alone) RP_TRY(end_word(tk, w, out));
    add_character(w, tk->lower ? rp_lower(code) : code);
    return alone ? end_word(tk, w, out) : RP_OK;
}

RpStatus rp_wordpiece_encode(const RpTokenizer *tk, const char *text, size_t len, RpTokenList *out) {
    Word w = {.len = MARK};
    memcpy(w.text, mark, MARK);
    for (size_t at = 0, size; at < len; at += size) {
        uint32_t codes[RP_MOST_DECOMPOSED];
        size_t   n           = 1;
        size                 = rp_utf8_length(text + at, len - at);
        codes[0]             = rp_utf8_code(text + at, size);
        const uint32_t whole = codes[0];
        WordClass class      = whole > 0x10ffff ? WORD_REMOVED : class_of(whole); /* or an ill-formed byte */
        if (class == WORD_REMOVED) continue;
        if (class == WORD_SPACE) {
            RP_TRY(end_word(tk, &w, out));
            continue;
        }
        if (tk->strip_accents) n = rp_decompose(whole, codes);
        for (size_t i = 0; i < n; i++) {
            class = class_of(codes[i]);
            if (class == WORD_MARK && tk->strip_accents) continue;
            RP_TRY(add(tk, &w, codes[i], class == WORD_PUNCTUATION || is_ideograph(whole), out));
        }
    }
    return end_word(tk, &w, out);
}

/* A token that begins a word prints a space. */
RpStatus rp_wordpiece_load(RpTokenizer *tk, const RpGgufFile *f) {
    if (tk->n_vocab > 102) tk->unknown = 100, tk->bos = 101, tk->sep = 102; /* of the first BERT; a file names others */
    tk->add_bos = tk->add_sep = tk->lower = true;
    tk->add_space_prefix                  = false;
    RP_TRY(rp_gguf_get_bool(f, "tokenizer.ggml.normalizer.lowercase", &tk->lower));
    tk->strip_accents = tk->lower;
    RP_TRY(rp_gguf_get_bool(f, "tokenizer.ggml.normalizer.strip_accents", &tk->strip_accents));
    for (int32_t i = 0; i < tk->n_vocab; i++) {
        const RpGgufString s     = tk->by_text.strings[i];
        const bool         begin = s.len >= MARK && memcmp(s.ptr, mark, MARK) == 0;
        char              *p     = rp_tokenizer_bytes(tk, s.len);
        if (begin) *p = ' ';
        memcpy(p + begin, s.ptr + (begin ? MARK : 0), s.len - (begin ? MARK : 0));
        tk->pieces[i] = (RpGgufString){p, begin ? s.len - MARK + 1 : s.len};
        if (s.len > tk->longest) tk->longest = s.len;
    }
    return RP_OK;
}
