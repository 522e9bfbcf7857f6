/* The members of RpSamplerParams that a manifest writes and reads by one table. */
#include "manifest/params.h"

#include <stddef.h>

#define FLOAT(name)                                                                                                    \
    { #name, offsetof(RpSamplerParams, name), false }
#define INT(name)                                                                                                      \
    { #name, offsetof(RpSamplerParams, name), true }

const ManifestParam manifest_params[MANIFEST_N_PARAMS] = {FLOAT(temperature),
                                                          INT(top_k),
                                                          FLOAT(top_p),
                                                          FLOAT(min_p),
                                                          FLOAT(repeat_penalty),
                                                          INT(repeat_last_n),
                                                          FLOAT(typical_p),
                                                          FLOAT(top_n_sigma),
                                                          FLOAT(frequency_penalty),
                                                          FLOAT(presence_penalty),
                                                          FLOAT(dry_multiplier),
                                                          FLOAT(dry_base),
                                                          INT(dry_allowed_length),
                                                          INT(dry_penalty_last_n),
                                                          FLOAT(xtc_probability),
                                                          FLOAT(xtc_threshold),
                                                          INT(min_keep),
                                                          INT(mirostat),
                                                          FLOAT(mirostat_tau),
                                                          FLOAT(mirostat_eta),
                                                          FLOAT(dynatemp_range),
                                                          FLOAT(dynatemp_exponent)};

const char *const manifest_grammar_kinds[MANIFEST_GRAMMAR_COUNT] = {[MANIFEST_SCHEMA] = "schema",
                                                                    [MANIFEST_GBNF]   = "gbnf",
                                                                    [MANIFEST_REGEX]  = "regex",
                                                                    [MANIFEST_JSON]   = "json",
                                                                    [MANIFEST_CHAT]   = "chat"};
