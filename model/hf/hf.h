/* hf.h - a Hugging Face directory as a GGUF file: the parts of model/hf share this. config.json and the files of
 * the tokenizer become metadata under the keys of GGUF, and the tensors of *.safetensors get its names.
 *
 *     directory.c      files of the directory          safetensors.c  the header of a file of weights
 *     config.c         config.json -> <arch>.* keys    rope.c         RoPE scaling of all its spellings
 *     names.c          names of tensors                tensors.c      tensors that are mapped, and those that are made
 *     tokenizer.c      tokenizer.json -> tokenizer.* keys
 *     open.c           all of it */
#ifndef MODEL_HF_HF_H
#define MODEL_HF_HF_H

#include "model/gguf/gguf_write.h"
#include "model/hf/directory.h"
#include "model/hf/safetensors.h"

typedef struct HfModel HfModel;

/* A family of models, as the field "architectures" of config.json names it. */
typedef struct HfFamily {
    const char *name, *arch; /* of Hugging Face, and of the table of architectures */
    const char *activation;  /* the only one of "hidden_act" that `arch` computes */
    bool norm_rope; /* `arch` rotates pairs (2i, 2i + 1): rows of q and k lie in the order of pairs (i, i + n/2) here */
    bool norm_plus_1;                   /* norms multiply by 1 + weight */
    bool four_norms;                    /* norms behind attention and feed-forward, too */
    RpStatus (*keys)(const HfModel *m); /* keys of the family alone; or NULL */
} HfFamily;

struct HfModel {
    HfDirectory     dir;
    Json            config, tokenizer, tokenizer_config, generation; /* no nodes: the file is absent */
    const JsonNode *text; /* of `config`: what describes the language model */
    const HfFamily *family;
    GgufWriter     *out;          /* gets the metadata */
    float          *rope_factors; /* [n_rope_factors], owned; NULL: none */
    int64_t         n_rope_factors;
};

/* Reads config.json and puts the keys of the architecture. RP_E_UNSUPPORTED names what the library does not compute. */
RP_NODISCARD RpStatus rp_hf_config(HfModel *m);
RP_NODISCARD RpStatus rp_hf_rope(HfModel *m, uint32_t head_dim, uint32_t n_ctx);

/* Puts the keys of the tokenizer; none if there is no tokenizer.json. */
RP_NODISCARD RpStatus rp_hf_tokenizer(HfModel *m);

/* Values of config.json. A number that is absent or null gives the fallback; NaN as fallback: it is an error. */
RP_NODISCARD RpStatus rp_hf_number(const HfModel *m, const JsonNode *object, const char *name, double fallback,
                                   double *out);
RP_NODISCARD RpStatus rp_hf_count(const HfModel *m, const char *name, double fallback, uint32_t *out);
bool                  rp_hf_flag(const HfModel *m, const char *name, bool fallback);
const JsonNode       *rp_hf_value(const HfModel *m, const char *name);                   /* NULL also for null */
RP_NODISCARD RpStatus rp_hf_refuse(const HfModel *m, const char *name, const char *why); /* RP_E_UNSUPPORTED */

/* Put "<arch>.<key>". */
void rp_hf_put_u32(const HfModel *m, const char *key, uint32_t value);
void rp_hf_put_f32(const HfModel *m, const char *key, double value);
void rp_hf_put_text(const HfModel *m, const char *key, const char *text);

/* Reads the shards and sets the tensors of f. */
RP_NODISCARD RpStatus rp_hf_tensors(HfModel *m, RpGgufFile *f, bool copy);

/* The name that GGUF has for a tensor, `expert` is its number among its layer's experts or -1. False: none, *out is
 * the name as it is. */
enum { HF_NAME_BYTES = 128 };
typedef enum HfRole { HF_TENSOR, HF_EXPERT, HF_SCALE, HF_IGNORED, HF_UNKNOWN } HfRole;
HfRole rp_hf_name(const HfModel *m, RpGgufString name, char out[HF_NAME_BYTES], int32_t *expert);

#endif
