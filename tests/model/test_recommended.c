/* The sampling that a model file recommends (rp_sampler_recommended). */
#include "tests/support/gguf_writer.h"

#include "model/sampler/chain.h"
#include "tests/support/case.h"

#include <math.h>

typedef struct Row {
    const char *key;
    uint32_t    type; /* RP_GGUF_F32, RP_GGUF_I32, ... */
    double      x;
} Row;

static Bytes       b;            /* of the file that is open */
static const char *text = "0.5"; /* its strings */

static void close_file(RpGgufFile *f) {
    rp_gguf_close(f);
    free(b.p);
    b = (Bytes){0};
}

static RpGgufFile *file_of(const Row *rows, size_t n) {
    RpGgufFile *f;
    put_header(&b, 3, 0, n);
    for (size_t i = 0; i < n; i++) {
        char key[64];
        snprintf(key, sizeof key, "general.sampling.%s", rows[i].key);
        put_key(&b, key, rows[i].type);
        if (rows[i].type == RP_GGUF_F32)
            put_bytes(&b, &(float){(float)rows[i].x}, 4);
        else if (rows[i].type == RP_GGUF_STRING)
            put_string(&b, text);
        else
            put_bytes(&b, &(int32_t){(int32_t)rows[i].x}, 4);
    }
    put_data(&b, 0);
    OK(rp_gguf_open_memory(b.p, b.n, "m.gguf", &f));
    return f;
}

Test(recommended, sets_what_is_unset) {
    const Row rows[] = {
        {"temp",            RP_GGUF_F32, 0.6 },
        {"top_k",           RP_GGUF_I32, 20  },
        {"top_p",           RP_GGUF_F32, 0.95},
        {"min_p",           RP_GGUF_F32, 0.05},
        {"penalty_repeat",  RP_GGUF_F32, 1.1 },
        {"penalty_last_n",  RP_GGUF_I32, 128 },
        {"xtc_probability", RP_GGUF_F32, 0.1 },
        {"xtc_threshold",   RP_GGUF_F32, 0.2 },
        {"mirostat",        RP_GGUF_I32, 2   },
        {"mirostat_tau",    RP_GGUF_F32, 4   },
        {"mirostat_eta",    RP_GGUF_F32, 0.2 },
    };
    char            said[512];
    RpGgufFile     *f = file_of(rows, sizeof rows / sizeof *rows);
    RpSamplerParams p = rp_sampler_unset();
    OK(rp_sampler_recommended(f, &p, said, sizeof said));
    cr_expect_str_eq(said, "temperature 0.6, top_k 20, top_p 0.95, min_p 0.05, repeat_penalty 1.1, repeat_last_n 128, "
                           "xtc_probability 0.1, xtc_threshold 0.2, mirostat 2, mirostat_tau 4, mirostat_eta 0.2");
    cr_expect(p.temperature == 0.6f && p.top_k == 20 && p.top_p == 0.95f && p.min_p == 0.05f);
    cr_expect(p.repeat_penalty == 1.1f && p.repeat_last_n == 128 && p.xtc_probability == 0.1f);
    cr_expect(p.xtc_threshold == 0.2f && p.mirostat == 2 && p.mirostat_tau == 4.0f && p.mirostat_eta == 0.2f);
    /* what the caller has set stays */
    p             = rp_sampler_unset();
    p.temperature = 0.0f;
    p.top_k       = 0;
    p.seed        = 7;
    OK(rp_sampler_recommended(f, &p, said, 20));
    cr_expect_str_eq(said, "top_p 0.95, min_p 0");
    cr_expect(p.temperature == 0.0f && p.top_k == 0 && p.seed == 7 && p.top_p == 0.95f);
    p = rp_sampler_defaults();
    OK(rp_sampler_recommended(f, &p, said, sizeof said));
    cr_expect_str_eq(said, "");
    close_file(f);
}

Test(recommended, is_the_default_where_the_file_says_nothing) {
    char            said[64];
    RpGgufFile     *f = file_of(NULL, 0);
    RpSamplerParams p = rp_sampler_unset(), defaults = rp_sampler_defaults();
    cr_expect(isnan(p.temperature) && p.top_k == INT32_MIN && p.dry_base == defaults.dry_base);
    OK(rp_sampler_recommended(f, &p, said, sizeof said));
    cr_expect_eq(memcmp(&p, &defaults, sizeof p), 0);
    cr_expect_str_eq(said, "");
    close_file(f);
}

Test(recommended, steps_without_a_temperature_mean_1) {
    static const Row cases[] = {
        {"top_k", RP_GGUF_I32, 64  },
        {"top_p", RP_GGUF_F32, 0.95},
        {"min_p", RP_GGUF_F32, 0.1 }
    };
    for (size_t i = 0; i < 3; i++) {
        RpGgufFile     *f = file_of(&cases[i], 1);
        RpSamplerParams p = rp_sampler_unset();
        OK(rp_sampler_recommended(f, &p, NULL, 0));
        cr_expect_eq(p.temperature, 1.0f, CASE(i));
        close_file(f);
    }
    RpGgufFile     *f = file_of(&(Row){"penalty_repeat", RP_GGUF_F32, 1.1}, 1);
    RpSamplerParams p = rp_sampler_unset();
    OK(rp_sampler_recommended(f, &p, NULL, 0));
    cr_expect_eq(p.temperature, 0.0f);
    close_file(f);
}

static RpGgufFile *file_with(const char *sequence) {
    text          = sequence;
    RpGgufFile *f = file_of(&(Row){"sequence", RP_GGUF_STRING, 0}, 1);
    text          = "0.5";
    return f;
}

/* llama.cpp takes names of both spellings, and reads the text unless the caller names an order. */
Test(recommended, the_order_of_the_steps) {
    static const char sequence[] = "penalties;top-k;infill;nucleus;typical;temp";
    char              said[256];
    RpSampler        *s;
    RpGgufFile       *f = file_with(sequence);
    RpSamplerParams   p = rp_sampler_unset();
    OK(rp_sampler_recommended(f, &p, said, sizeof said));
    cr_expect_str_eq(said, "samplers penalties;top-k;infill;nucleus;typical;temp");
    cr_expect_str_eq(p.samplers, sequence);
    OK(rp_sampler_new(&p, 8, &s));
    rp_sampler_free(s);
    p          = rp_sampler_unset();
    p.samplers = "top_k";
    OK(rp_sampler_recommended(f, &p, said, sizeof said));
    cr_expect_str_eq(p.samplers, "top_k");
    cr_expect_str_eq(said, "");
    close_file(f);
    /* the usual order needs no list of steps: a GPU samples in it */
    static const char *const usual[] = {"", "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temp"};
    for (size_t i = 0; i < 2; i++) {
        f = file_with(usual[i]);
        p = rp_sampler_unset();
        OK(rp_sampler_recommended(f, &p, said, sizeof said));
        cr_expect_null(p.samplers, "%s", usual[i]);
        cr_expect_str_eq(said, "", "%s", usual[i]);
        close_file(f);
    }
}

Test(recommended, other_names_of_steps) {
    int8_t    other[MAX_STEPS], usual[MAX_STEPS];
    RpStatus  st[2];
    const int n = rp_chain_order("top-k;infill;nucleus;typical-p;top-n-sigma;min-p;adaptive_p;temp", other, &st[0]);
    cr_expect_eq(n, rp_chain_order("top_k;top_p;typ_p;top_n_sigma;min_p;temperature", usual, &st[1]));
    cr_assert(n == 6 && st[0] == RP_OK && st[1] == RP_OK, "%d", n);
    cr_expect_arr_eq(other, usual, (size_t)n);
}

Test(recommended, orders_that_are_refused) {
    static const char *const cases[][2] = {
        {"top_k;best",  "m.gguf: general.sampling.sequence: samplers: `best` is none of penalties, dry, top_n_sigma,"},
        {"top_k;top-k", "m.gguf: general.sampling.sequence: samplers: `top_k` twice"                                 },
    };
    RpGgufFile     *f = file_of(&(Row){"sequence", RP_GGUF_F32, 1}, 1);
    RpSamplerParams p = rp_sampler_unset();
    REFUSED(rp_sampler_recommended(f, &p, NULL, 0), RP_E_FORMAT, "m.gguf: general.sampling.sequence is no text");
    close_file(f);
    for (size_t i = 0; i < 2; i++) {
        f = file_with(cases[i][0]);
        p = rp_sampler_unset();
        REFUSED(rp_sampler_recommended(f, &p, NULL, 0), RP_E_FORMAT, cases[i][1]);
        close_file(f);
    }
}

Test(recommended, minus_one_is_all) {
    const Row rows[] = {
        {"top_k",          RP_GGUF_I32, -1},
        {"penalty_last_n", RP_GGUF_I32, -1}
    };
    RpGgufFile     *f = file_of(rows, 2);
    RpSamplerParams p = rp_sampler_unset();
    OK(rp_sampler_recommended(f, &p, NULL, 0));
    cr_expect(p.top_k == 0 && p.repeat_last_n == 1048576);
    close_file(f);
}

Test(recommended, nonsense_is_refused_by_its_key) {
    static const struct {
        Row         row;
        const char *text;
    } cases[] = {
        {{"temp", RP_GGUF_F32, -1},           "m.gguf: general.sampling.temp is -1, which a sampler does not take"   },
        {{"temp", RP_GGUF_F32, (double)NAN},  "m.gguf: general.sampling.temp is nan, which a sampler does not take"  },
        {{"temp", RP_GGUF_STRING, 0},         "m.gguf: general.sampling.temp is no number"                           },
        {{"top_k", RP_GGUF_F32, 1.5},         "m.gguf: general.sampling.top_k is 1.5, which a sampler does not take" },
        {{"top_p", RP_GGUF_F32, 0},           "m.gguf: general.sampling.top_p is 0, which a sampler does not take"   },
        {{"min_p", RP_GGUF_F32, 2},           "m.gguf: general.sampling.min_p is 2, which a sampler does not take"   },
        {{"penalty_last_n", RP_GGUF_I32, -2},
         "m.gguf: general.sampling.penalty_last_n is -2, which a sampler does not take"                              },
        {{"mirostat", RP_GGUF_I32, 1},        "m.gguf: general.sampling.mirostat is 1, which a sampler does not take"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char            said[64] = "x";
        RpGgufFile     *f        = file_of(&cases[i].row, 1);
        RpSamplerParams p        = rp_sampler_unset();
        REFUSED(rp_sampler_recommended(f, &p, said, sizeof said), RP_E_FORMAT, cases[i].text);
        cr_expect(isnan(p.temperature), CASE(i));
        cr_expect_str_eq(said, "", CASE(i));
        close_file(f);
    }
}
