/* hf.h - a Hugging Face directory as a GGUF file: the parts of model/hf share this. config.json and the files of
 * the tokenizer become metadata under the keys of GGUF, and the tensors of *.safetensors get its names.
 *
 *     directory.c      files of the directory          safetensors.c  the header of a file of weights
 *     config.c         config.json -> <arch>.* keys    rope.c         RoPE scaling of all its spellings
 *     families.c       keys and names of each family  values.c       values of config.json
 *     keys.c           keys of newer families
 *     names.c          names of tensors                tensors.c      tensors that are mapped, and those that are made
 *     tokenizer.c      tokenizer.json -> tokenizer.* keys
 *     pipeline.c       its normalizer, pre_tokenizer   expression.c   what PCRE2 reads otherwise than Onigmo
 *     open.c           all of it */
#ifndef MODEL_HF_HF_H
#define MODEL_HF_HF_H

#include "model/gguf/gguf_write.h"
#include "model/hf/directory.h"
#include "model/hf/safetensors.h"

typedef struct HfModel HfModel;

/* Words of a tensor's name behind "model.layers.N.", and behind "blk.N."; ".weight" or ".bias" follows. */
typedef struct HfName {
    const char *hf, *gguf;
} HfName;

/* The value that transformers takes for an absent key of config.json, for families that differ from most. */
typedef struct HfDefault {
    const char *name;
    double      value;
} HfDefault;

/* A family of models, as the field "architectures" of config.json names it. */
typedef struct HfFamily {
    const char      *name, *arch; /* of Hugging Face, and of the table of architectures */
    const char      *text_type;   /* of "model_type" in "text_config"; NULL: any */
    const char      *activation;  /* the only one of "hidden_act" that `arch` computes */
    const HfName    *names;       /* rows before those of names.c, up to one of NULL */
    const HfDefault *defaults;    /* up to one of NULL */
    bool norm_rope;   /* `arch` rotates pairs (2i, 2i + 1), while rows of q and k lie in the order (i, i + n/2) */
    bool norm_plus_1; /* norms multiply by 1 + weight */
    bool tied;        /* the output matrix is the embedding, where config.json does not say */
    bool windows;     /* `arch` has layers with a window, and so has the file */
    bool rotary_dim;  /* config.json may say how many elements of a head rotate, not which part */
    bool window_unless_null;      /* sliding_window alone switches the window on; use_sliding_window is no key */
    RpStatus (*keys)(HfModel *m); /* keys of the family alone; or NULL */
} HfFamily;

/* A vector that is made from config.json. */
typedef struct HfVector {
    const char *name; /* of GGUF */
    float      *x;    /* [n], owned */
    int64_t     n;
} HfVector;

enum { HF_MAX_VECTORS = 2 };

struct HfModel {
    HfDirectory     dir;
    Json            config, tokenizer, tokenizer_config, generation; /* no nodes: the file is absent */
    const JsonNode *text; /* of `config`: what describes the language model */
    const HfFamily *family;
    GgufWriter     *out; /* gets the metadata */
    HfVector        vectors[HF_MAX_VECTORS];
    int             n_vectors;
    bool            no_qk_norm;    /* config.json says that q and k have no norms, which files of `arch` may have, */
    bool            qk_norm;       /* or that they have */
    int32_t n_layer, n_layer_next; /* of config.json; layers behind n_layer predict further tokens, and are left out */
};

/* Reads config.json and puts the keys of the architecture. RP_E_UNSUPPORTED names what the library does not compute. */
RP_NODISCARD RpStatus rp_hf_config(HfModel *m);
RP_NODISCARD RpStatus rp_hf_find_family(HfModel *m);
/* Keys of one family each, beyond those that all have (HfFamily.keys). */
RP_NODISCARD RpStatus rp_hf_minimax_m2_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_ernie_moe_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_ministral3_keys(HfModel *m);

RP_NODISCARD RpStatus rp_hf_rope(HfModel *m, uint32_t head_dim, uint32_t n_trained); /* max_position_embeddings */

/* Puts the keys of the tokenizer; without a tokenizer.json that there is none. */
RP_NODISCARD RpStatus rp_hf_tokenizer(HfModel *m);

/* Values of config.json. What is absent gives the default of the family, if that has one; else, and if it is null,
 * the fallback; NaN as fallback: it is an error. */
RP_NODISCARD RpStatus rp_hf_number(const HfModel *m, const JsonNode *object, const char *name, double fallback,
                                   double *out);
RP_NODISCARD RpStatus rp_hf_count(const HfModel *m, const char *name, double fallback, uint32_t *out);
RP_NODISCARD RpStatus rp_hf_flag(const HfModel *m, const JsonNode *object, const char *name, bool fallback, bool *out);
const JsonNode       *rp_hf_value(const HfModel *m, const char *name);                   /* NULL also for null */
RP_NODISCARD RpStatus rp_hf_refuse(const HfModel *m, const char *name, const char *why); /* RP_E_UNSUPPORTED */

/* "<arch>.<key>" in buf, which is returned. */
const char *rp_hf_key(const HfModel *m, const char *key, char *buf, size_t size);

/* Put "<arch>.<key>". */
void rp_hf_put_bool(const HfModel *m, const char *key, bool value);
void rp_hf_put_u32(const HfModel *m, const char *key, uint32_t value);
void rp_hf_put_f32(const HfModel *m, const char *key, double value);
void rp_hf_put_text(const HfModel *m, const char *key, const char *text);

/* The same with a value of config.json; a count must be there, a number without one is NaN in `fallback`. */
RP_NODISCARD RpStatus rp_hf_copy_count(const HfModel *m, const char *name, const char *key);
RP_NODISCARD RpStatus rp_hf_copy_number(const HfModel *m, const char *name, double fallback, const char *key);

/* A value of rope_parameters or rope_scaling, or of config.json itself. */
RP_NODISCARD RpStatus rp_hf_rope_number(const HfModel *m, const char *name, double fallback, double *out);

/* Reads the shards and sets the tensors of f. */
RP_NODISCARD RpStatus rp_hf_tensors(HfModel *m, RpGgufFile *f, bool copy);

/* The name that GGUF has for a tensor, `expert` is its number among its layer's experts or -1. False: none, *out is
 * the name as it is. */
enum { HF_NAME_BYTES = 128 };
typedef enum HfRole { HF_TENSOR, HF_EXPERT, HF_SCALE, HF_IGNORED, HF_UNKNOWN } HfRole;
HfRole rp_hf_name(const HfModel *m, RpGgufString name, char out[HF_NAME_BYTES], int32_t *expert);

#endif
