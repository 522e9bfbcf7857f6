/* sampler.h - the options of sampling that `generate` and `chat` share, under the names of llama.cpp. */
#ifndef CLI_SAMPLER_H
#define CLI_SAMPLER_H

#include "cli/common.h"

#include <math.h>

typedef struct SamplerArgs {
    RpSamplerParams p;
    TextList        bias, breakers; /* TOKEN+BIAS or TOKEN-BIAS; texts, or one "none" */
} SamplerArgs;

/* clang-format off */
#define OPTIONS_SAMPLING(a)                                                                                  \
    OPTIONS_SAMPLER((a).p),                                                                                  \
    CLI_TEXT("samplers", 0, (a).p.samplers, "LIST",                                                          \
             "the steps and their order by the names of llama.cpp, such as top_k;top_p;temperature; default: all"),      \
    CLI_NUMBER("typical", 0, (a).p.typical_p, "P", "locally typical sampling; default 1: off", 0, 1),        \
    CLI_NUMBER("top-nsigma", 0, (a).p.top_n_sigma, "N",                                                      \
               "keep logits of N standard deviations below the largest; default 0: off", 0, 1e6),            \
    CLI_NUMBER("xtc-probability", 0, (a).p.xtc_probability, "P",                                             \
               "XTC: how often the most probable tokens are dropped; default 0: off", 0, 1),                 \
    CLI_NUMBER("xtc-threshold", 0, (a).p.xtc_threshold, "P",                                                 \
               "XTC: those of at least this probability, but the last; default 0.1; above 0.5: off", 0, 1),  \
    CLI_NUMBER("presence-penalty", 0, (a).p.presence_penalty, "X",                                           \
               "subtracted from the logits of recent tokens; default 0: off", -1e6, 1e6),                    \
    CLI_NUMBER("frequency-penalty", 0, (a).p.frequency_penalty, "X",                                         \
               "subtracted once for each time that a token is recent; default 0: off", -1e6, 1e6),           \
    CLI_NUMBER("dry-multiplier", 0, (a).p.dry_multiplier, "X",                                               \
               "DRY: penalty on tokens that continue a repetition; default 0: off", 0, 1e6),                 \
    CLI_NUMBER("dry-base", 0, (a).p.dry_base, "X",                                                           \
               "DRY: it grows by this factor with each repeated token; default 1.75", 1, 1e6),               \
    CLI_INT("dry-allowed-length", 0, (a).p.dry_allowed_length, "N",                                          \
            "DRY: shorter repetitions are free; default 2", 0, 0),                                           \
    CLI_INT("dry-penalty-last-n", 0, (a).p.dry_penalty_last_n, "N",                                          \
            "DRY: how many tokens are searched; default 64; 0: off; -1: all", -1, 1 << 20),              \
    CLI_LIST("dry-sequence-breaker", 0, (a).breakers, "TEXT",                                                \
             "DRY: a repetition ends there; may be repeated; none: no breakers; default: newline, : \" *"),  \
    CLI_NUMBER("dynatemp-range", 0, (a).p.dynatemp_range, "X",                                               \
               "temperature from T-X to T+X, by the entropy; default 0: off", 0, 1e6),                       \
    CLI_NUMBER("dynatemp-exp", 0, (a).p.dynatemp_exponent, "X",                                              \
               "exponent of the entropy for --dynatemp-range; default 1", 0, 1e6),                           \
    CLI_INT("mirostat", 0, (a).p.mirostat, "N",                                                              \
            "2: Mirostat 2 behind the temperature, without other steps; default 0: off", 0, 2),              \
    CLI_NUMBER("mirostat-ent", 0, (a).p.mirostat_tau, "X", "Mirostat: its target in bits; default 5", 0, 1e6),\
    CLI_NUMBER("mirostat-lr", 0, (a).p.mirostat_eta, "X", "Mirostat: its rate; default 0.1", 0, 1e6),        \
    CLI_INT("min-keep", 0, (a).p.min_keep, "N",                                                              \
            "typical, top-p, min-p and XTC leave at least N tokens; default 0", 0, 0),                       \
    CLI_LIST("logit-bias", 0, (a).bias, "TOKEN+BIAS",                                                        \
             "add BIAS to the logit of a token id, such as 15043+1 or 15043-inf; may be repeated")
/* clang-format on */

#define SAMPLING_DEFAULTS                                                                                              \
    { .p = SAMPLER_DEFAULTS }

/* The same with unset parameters: those that no option gives are the ones that the model recommends
 * (cli_use_recommended). */
#define SAMPLING_OF_THE_MODEL                                                                                          \
    {                                                                                                                  \
        .p = {                                                                                                         \
            .temperature        = NAN,                                                                                 \
            .top_k              = INT32_MIN,                                                                           \
            .top_p              = NAN,                                                                                 \
            .min_p              = NAN,                                                                                 \
            .repeat_penalty     = NAN,                                                                                 \
            .repeat_last_n      = INT32_MIN,                                                                           \
            .xtc_probability    = NAN,                                                                                 \
            .xtc_threshold      = NAN,                                                                                 \
            .mirostat           = INT32_MIN,                                                                           \
            .mirostat_tau       = NAN,                                                                                 \
            .mirostat_eta       = NAN,                                                                                 \
            .dry_base           = 1.75f,                                                                               \
            .dry_allowed_length = 2,                                                                                   \
            .dry_penalty_last_n = 64,                                                                                  \
            .dynatemp_exponent  = 1.0f                                                                                 \
        }                                                                                                              \
    }

/* Sets the parameters that no option has given (rp_sampler_recommended), and says on stderr which of them the model
 * recommends. RP_E_FORMAT: the file recommends an invalid value. */
RP_NODISCARD RpStatus cli_use_recommended(SamplerArgs *a, const RpModel *m, bool quiet);

/* A sampler of these options for the vocabulary of the model. RP_E_ARG for a bias that is none. */
RP_NODISCARD RpStatus cli_open_sampler(const SamplerArgs *a, const RpModel *m, RpSampler **out);

/* The parameters of these options. They borrow from the options and from `bias`, which has room for each of them and
 * one more. RP_E_ARG for a bias that is none. */
RP_NODISCARD RpStatus cli_sampler_params(const SamplerArgs *a, RpLogitBias *bias, RpSamplerParams *out);

/* Frees the lists. */
void cli_free_sampler_args(SamplerArgs *a);

/* Says on stderr that a GPU did not sample, and why (I10). */
void cli_report_host_sampling(const RpGenerateResult *r);

/* An RpChatNote for stderr. */
void cli_report_note(const char *text, void *user);

/* Says on stderr that the template has no tools, and how the model gets them. */
void cli_report_tools(void);

#endif
