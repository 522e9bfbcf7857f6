/* hf.h - a Hugging Face directory as a GGUF file: the parts of model/hf share this. config.json and the files of
 * the tokenizer become metadata under the keys of GGUF, and the tensors of *.safetensors get its names.
 *
 *     directory.c      files of the directory          safetensors.c  the header of a file of weights
 *     config.c         config.json -> <arch>.* keys    rope.c         RoPE scaling of all its spellings
 *     families.c       a row for each family           values.c       values of config.json
 *     family_names.c   names of tensors of families
 *     find.c           the family of a directory       modules.c      modules.json: pooling, Dense
 *     keys.c           keys of newer families          cut.c          weights that are made of a part of a tensor
 *     experts.c        keys of families with experts
 *     hybrid.c         keys of families with states    factors.c      factors of rows of weights
 *     gemma.c          keys of Gemma                   encoders.c     keys and words of BERT
 *     classifier.c     heads that score texts
 *     mtp.c            layers that predict further tokens
 *     names.c          names of tensors                tensors.c      tensors that are mapped, and those that are made
 *     tokenizer/       tokenizer.json -> tokenizer.* keys
 *     origin.c         these names in errors           contents.c     what is in directories that are no model
 *     open.c           all of it */
#ifndef MODEL_HF_HF_H
#define MODEL_HF_HF_H

#include "model/gguf/gguf_write.h"
#include "model/hf/directory.h"
#include "model/hf/safetensors.h"
#include "model/hf/shards.h"

typedef struct HfModel HfModel;

/* Words of a tensor's name behind "model.layers.N.", and behind "blk.N."; ".weight" or ".bias" follows. */
typedef struct HfName {
    const char *hf, *gguf;
} HfName;

/* How the data of a tensor of GGUF are taken from a tensor of the file (cut.c). */
typedef enum HfForm {
    FORM_WHOLE,
    FORM_GATE_ROWS,     /* of [2 n rows] or [experts, 2 n rows]: the first n rows of each matrix, */
    FORM_UP_ROWS,       /* or the others */
    FORM_GATE_COLUMNS,  /* of [experts, rows, 2 n columns]: every second column, transposed, */
    FORM_UP_COLUMNS,    /* or the others */
    FORM_LEFT_COLUMNS,  /* of [experts, n_embd, 2 n columns]: the first n columns, transposed, */
    FORM_RIGHT_COLUMNS, /* or the others. Of [experts, 2 n rows, n_embd]: as FORM_GATE_ROWS and FORM_UP_ROWS */
    FORM_TO_EMBD,       /* of [experts, n, n_embd]: transposed; of [experts, n_embd, n]: as it is */
    FORM_TRANSPOSED,    /* of [experts, rows, columns] */
    FORM_EVEN,          /* every second element of each row, */
    FORM_ODD,           /* or the others */
    FORM_MXFP4,         /* of [experts, rows, blocks, 16 bytes], whose scales are another tensor: blocks of MXFP4, */
    FORM_MXFP4_EVEN,    /* the blocks of every second row, */
    FORM_MXFP4_ODD,     /* or of the others */
    FORM_LATENT_KEYS,   /* of the matrix of keys and values of each head: the part of the keys, transposed, */
    FORM_LATENT_VALUES, /* or the part of the values */
    FORM_DELTA_Q, /* of the rows of queries, keys, values and gates of each key head of a delta net: one of the four */
    FORM_DELTA_K,
    FORM_DELTA_V,
    FORM_DELTA_Z,
    FORM_CONV,          /* [channels, 1, taps] as a matrix */
    FORM_KEY_ROWS,      /* of rows of queries, keys and values: the rows of queries and keys, */
    FORM_VALUE_ROWS,    /* or the rows of values, in the order of FORM_TILED_ROWS */
    FORM_TILED_ROWS,    /* heads of values: first the first of each key head, then the second of each, ... */
    FORM_TILED_COLUMNS, /* the same of columns, */
    FORM_TILED,         /* of elements, */
    FORM_TILED_DECAY,   /* and of -exp(x) of elements */
    FORM_DECAY,         /* -exp(x) */
    FORM_TAPS,          /* [channels, 1, taps] as a matrix, of channels that are not in parts */
    FORM_COLUMN,        /* a vector as a matrix with rows of one element, */
    FORM_COLUMN_DECAY,  /* and of -exp(x) of elements */
    FORM_GROUPS,        /* a vector as a matrix with a row for each group of a selective scan */
    FORM_POSITIONS      /* rows of positions without the first ones, which stand for padding */
} HfForm;

/* A tensor of a layer, all of its name behind "model.layers.N.", that is another one or a part of one in GGUF. Rows
 * of one `hf` give a tensor each, or pieces of one: rows of matrices that stand one after another. */
typedef struct HfPart {
    const char *hf, *gguf; /* all of its name behind "blk.N." */
    HfForm      form;
    int32_t     piece; /* from 0; -1: all of the tensor */
} HfPart;

/* The tensors of a selective scan that are no matrices. */
#define HF_SCAN_PARTS(prefix)                                                                                          \
    {prefix "conv1d.weight", "ssm_conv1d.weight", FORM_TAPS, -1}, {prefix "A_log", "ssm_a", FORM_COLUMN_DECAY, -1},    \
        {prefix "D", "ssm_d", FORM_COLUMN, -1}, {prefix "dt_bias", "ssm_dt.bias", FORM_WHOLE, -1}, {                   \
        prefix "norm.weight", "ssm_norm.weight", FORM_GROUPS, -1                                                       \
    }

/* The value that transformers takes for an absent key of config.json, for families that differ from most. */
typedef struct HfDefault {
    const char *name;
    double      value;
} HfDefault;

/* The names that layers which predict further tokens have in the files (mtp.c). HF_MTP_NONE: they are left out. */
typedef enum HfMtp { HF_MTP_NONE, HF_MTP_LAYERS, HF_MTP_PREFIX } HfMtp;

/* A family of models, as the field "architectures" of config.json names it. */
typedef struct HfFamily {
    const char *name, *arch;        /* of Hugging Face, and of the table of architectures */
    const char *text_type;          /* of "model_type" in "text_config"; NULL: any */
    bool (*when)(const HfModel *m); /* what config.json says; NULL: anything. The last row that fits is taken */
    const char      *activation;    /* the only one that `arch` computes; NULL: `keys` checks it */
    const char      *activation_key, *eps_key; /* NULL: hidden_act, rms_norm_eps */
    const HfName    *names;                    /* rows before those of names.c, up to one of NULL */
    const HfPart    *parts;                    /* up to one of NULL; or NULL */
    const HfDefault *defaults;                 /* up to one of NULL */
    const HfName    *head;                     /* tensors of a head that scores texts, up to one of NULL; or NULL */
    bool  norm_rope;   /* `arch` rotates pairs (2i, 2i + 1), while rows of q and k lie in the order (i, i + n/2) */
    bool  norm_plus_1; /* norms multiply by 1 + weight */
    bool  tied;        /* the output matrix is the embedding, where config.json does not say */
    bool  latent;      /* latent attention (MLA): heads have sizes of their own, set by `keys` */
    bool  windows;     /* `arch` has layers with a window, and so has the file */
    bool  encoder;     /* attends to later tokens; a head that fills in masked words is left out */
    HfMtp mtp;
    bool  padded;                 /* positions begin behind pad_token_id */
    bool  hybrid;                 /* some layers have no heads: `keys` puts attention.head_count_kv */
    bool  own_length;             /* `keys` puts feed_forward_length */
    bool  rotary_dim;             /* config.json may say how many elements of a head rotate, not which part */
    bool  window_unless_null;     /* sliding_window alone switches the window on; use_sliding_window is no key. With
                                     `windows`: null means that no layer has one */
    RpStatus (*keys)(HfModel *m); /* keys of the family alone; or NULL */
    RpStatus (*heads)(HfModel *m, uint32_t *rope_dim); /* puts the keys of heads; NULL: they are those of most */
} HfFamily;

/* A vector that is made from config.json. */
typedef struct HfVector {
    const char *name; /* of GGUF */
    float      *x;    /* [n], owned */
    int64_t     n;
} HfVector;

/* Factors of the rows of a weight: by[i] of the next rows[i] ones, the last of all others. */
typedef struct HfFactor {
    const char *name; /* behind "blk.N." */
    int         n;
    int64_t     rows[5];
    double      by[5];
} HfFactor;

enum { HF_MAX_VECTORS = 2, HF_MAX_FACTORS = 8, HF_MAX_LAYERS = 4096, HF_MAX_DENSE = 2 };

/* Sizes that parts of tensors depend on. */
typedef struct HfSizes {
    int64_t n_head, nope, value;            /* latent attention: heads; of keys without RoPE, and of values */
    int64_t n_key, n_value, key_dim, v_dim; /* delta nets: heads of keys and of values, and their sizes */
    int64_t n_embd;                         /* experts whose matrices are transposed in some files */
    int64_t n_group;                        /* selective scans: groups of heads */
    int64_t n_padding;                      /* positions that stand for padding */
} HfSizes;

struct HfModel {
    HfDirectory dir;
    Json        config, tokenizer, tokenizer_config, generation, pooling, sentences; /* no nodes: the file is absent */
    const JsonNode *text; /* of `config`: what describes the language model */
    const HfFamily *family;
    const HfPart   *parts; /* those of the family, or others that its `keys` has set */
    GgufWriter     *out;   /* gets the metadata */
    HfSizes         sizes;
    HfVector        vectors[HF_MAX_VECTORS];
    int             n_vectors;
    HfFactor        factors[HF_MAX_FACTORS];
    int             n_factors;
    char            dense[HF_MAX_DENSE][HF_FOLDER_BYTES]; /* folders of linear layers of a pooled vector */
    int             n_dense;
    bool            headless;   /* the model was saved without an output matrix */
    bool            no_qk_norm; /* config.json says that q and k have no norms, which files of `arch` may have, */
    bool            qk_norm;    /* or that they have */
    int32_t         n_layer, n_layer_next; /* of config.json; those that predict further tokens */
    int32_t         n_left_out;            /* layers that config.json announces, and that the model does not use */
    HfShards        shards;                /* see rp_hf_open_shards */
    bool            has_shards, copy;
};

/* Reads config.json and puts the keys of the architecture. RP_E_UNSUPPORTED names what the library does not compute. */
RP_NODISCARD RpStatus rp_hf_config(HfModel *m);

/* The rows of all families, up to one without a name (families.c), and the choice of one (find.c). */
extern const HfFamily rp_hf_families[];
RP_NODISCARD RpStatus rp_hf_find_family(HfModel *m);

/* Names and parts of families (family_names.c), up to a row of NULL. */
extern const HfName rp_hf_gemma_names[], rp_hf_olmo2_names[], rp_hf_seed_oss_names[], rp_hf_hunyuan_names[],
    rp_hf_hunyuan_moe_names[], rp_hf_ling_names[], rp_hf_phi3_names[], rp_hf_glm4_names[], rp_hf_ernie_moe_names[],
    rp_hf_deepseek_names[], rp_hf_gpt_oss_names[], rp_hf_delta_names[], rp_hf_lfm2_names[],
    rp_hf_granite_hybrid_names[], rp_hf_nemotron_h_names[], rp_hf_falcon_h1_names[], rp_hf_gemma4_names[],
    rp_hf_glm4moe_names[], rp_hf_afmoe_names[], rp_hf_starcoder2_names[];
extern const HfPart rp_hf_granite_moe_parts[], rp_hf_deepseek_parts[], rp_hf_gpt_oss_parts[], rp_hf_qwen3next_parts[],
    rp_hf_qwen35_parts[], rp_hf_lfm2_parts[], rp_hf_falcon_h1_parts[], rp_hf_qwen3_vl_moe_parts[],
    rp_hf_mistral4_parts[], rp_hf_gemma4_parts[], rp_hf_nemotron_h_parts[], rp_hf_afmoe_parts[];

/* Keys of one family each, beyond those that all have (HfFamily.keys). */
RP_NODISCARD RpStatus rp_hf_minimax_m2_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_ernie_moe_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_ministral3_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_granite_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_granite_moe_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_deepseek2_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_deepseek3_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_mistral4_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_gpt_oss_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_mixtral_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_qwen3_moe_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_qwen2_moe_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_olmoe_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_glm4_moe_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_qwen3_vl_moe_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_dots1_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_cohere2_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_cohere_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_afmoe_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_mellum_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_layer_norm_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_stablelm_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_hunyuan_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_hunyuan_moe_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_ling_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_qwen2_vl_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_qwen3_vl_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_delta_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_delta_moe_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_gemma_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_gemma2_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_gemma3_keys(HfModel *m);
bool                  rp_hf_gemma_is_bidirectional(const HfModel *m);
RP_NODISCARD RpStatus rp_hf_gemma_embedding_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_gemma4_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_gemma4_assistant_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_gemma4_heads(HfModel *m, uint32_t *rope_dim);
RP_NODISCARD RpStatus rp_hf_lfm2_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_lfm2_moe_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_granite_hybrid_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_nemotron_h_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_nemotron_h_moe_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_falcon_h1_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_bert_keys(HfModel *m);
RP_NODISCARD RpStatus rp_hf_modern_bert_keys(HfModel *m);
extern const HfName   rp_hf_bert_names[], rp_hf_modern_bert_names[];
bool                  rp_hf_nemotron_has_experts(const HfModel *m);

/* Reads modules.json of sentence-transformers: sets `pooling`, `dense` and `sentences`. RP_E_UNSUPPORTED names a module
 * that the library lacks. */
RP_NODISCARD RpStatus rp_hf_modules(HfModel *m);

/* Puts the pooling (modules.c), or that of a head with its labels (classifier.c). */
RP_NODISCARD RpStatus rp_hf_pooling(HfModel *m);
RP_NODISCARD RpStatus rp_hf_classifier(HfModel *m);
extern const HfName   rp_hf_bert_head[], rp_hf_roberta_head[], rp_hf_modern_bert_head[];

/* Whether each layer has a window (windows.c). At most HF_MAX_LAYERS layers. */
RP_NODISCARD RpStatus rp_hf_windows(const HfModel *m, bool out[HF_MAX_LAYERS]);

RP_NODISCARD RpStatus rp_hf_rope(HfModel *m, uint32_t head_dim, uint32_t n_trained); /* max_position_embeddings */

/* Puts the keys of the tokenizer; without a tokenizer.json that there is none. */
RP_NODISCARD RpStatus rp_hf_tokenizer(HfModel *m);

/* Values of config.json. An absent member has the default of the family. Without such a default, and for null, the
 * result is `fallback`; if `fallback` is NaN, it is an error. */
RP_NODISCARD RpStatus rp_hf_number(const HfModel *m, const JsonNode *object, const char *name, double fallback,
                                   double *out);
RP_NODISCARD RpStatus rp_hf_count(const HfModel *m, const char *name, double fallback, uint32_t *out);
RP_NODISCARD RpStatus rp_hf_flag(const HfModel *m, const JsonNode *object, const char *name, bool fallback, bool *out);
const JsonNode       *rp_hf_value(const HfModel *m, const char *name); /* NULL also for null */

/* Puts the counts and the length of experts by the names that config.json has in DeepSeek, GLM and dots.llm1. */
RP_NODISCARD RpStatus rp_hf_routed_experts(const HfModel *m);

/* Puts how experts are chosen by a sigmoid, in groups, and the scale of their weights (dots.llm1, Ling, Nemotron). */
RP_NODISCARD RpStatus rp_hf_grouped_choice(const HfModel *m);

/* *out is a list with a text for each layer, or NULL if there is none. RP_E_FORMAT: another value. */
RP_NODISCARD RpStatus rp_hf_layer_texts(const HfModel *m, const char *name, const JsonNode **out);
RP_NODISCARD RpStatus rp_hf_refuse(const HfModel *m, const char *name, const char *why); /* RP_E_UNSUPPORTED */

/* Refuse another text or number than `only`, and a flag that is set. Absent and null members are accepted. */
RP_NODISCARD RpStatus rp_hf_only_text(const HfModel *m, const char *name, const char *only);
RP_NODISCARD RpStatus rp_hf_only_number(const HfModel *m, const char *name, double only);
RP_NODISCARD RpStatus rp_hf_never(const HfModel *m, const char *name, const char *why);

/* A count from 1 to 65536, so that products of two or three fit into 64 bits. */
RP_NODISCARD RpStatus rp_hf_size(const HfModel *m, const char *name, int64_t *out);

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

/* The object rope_parameters, of older files rope_scaling, and the type that such an object names; NULL if absent. */
const JsonNode *rp_hf_rope_object(const HfModel *m);
const JsonNode *rp_hf_rope_type(const HfModel *m, const JsonNode *scaling);

/* A value of rope_parameters or rope_scaling, or of config.json itself. */
RP_NODISCARD RpStatus rp_hf_rope_number(const HfModel *m, const char *name, double fallback, double *out);

/* Opens the files of weights, unless they are open. */
RP_NODISCARD RpStatus rp_hf_open_shards(HfModel *m);

/* Reads the shards and sets the tensors of f. */
RP_NODISCARD RpStatus rp_hf_tensors(HfModel *m, RpGgufFile *f);

/* Sets n_layer_next and n_left_out, and puts nextn_predict_layers. */
RP_NODISCARD RpStatus rp_hf_next_layers(HfModel *m);

/* The name "model.layers.N. ..." of a tensor; s is behind "mtp.". False: it has none. */
bool rp_hf_mtp_name(const HfModel *m, RpGgufString s, char *out, size_t size);

enum { HF_NAME_BYTES = 128 };
typedef enum HfRole { HF_TENSOR, HF_EXPERT, HF_PIECE, HF_SCALE, HF_IGNORED, HF_UNKNOWN } HfRole;

/* The tensor of GGUF that a tensor of the file becomes, or a part of. */
typedef struct HfTarget {
    HfRole  role;
    HfForm  form;
    int32_t number;              /* of the expert in its layer, or of the piece; -1: it is the whole */
    char    name[HF_NAME_BYTES]; /* of GGUF; scales have the name of their weight and "#scale" */
} HfTarget;

/* The nth of the tensors that a tensor of the file is, or is a part of. HF_UNKNOWN: it is none; nth > 0: no more. */
void rp_hf_name(const HfModel *m, RpGgufString name, int nth, HfTarget *out);

/* "mlp.up_proj.weight of layer 1" for blk.1.ffn_up.weight. False for a name that no row gives. */
bool rp_hf_name_of(const HfFamily *f, RpGgufString name, char out[HF_NAME_BYTES]);

/* A part of a tensor, in elements or in blocks of MXFP4: out[i3][i2][i1][i0] = in[from + sum of i_k * step[k]]. */
typedef struct HfCut {
    int64_t ne[4], step[4], from;
    int64_t shape[RP_MAX_DIMS]; /* of the tensor of GGUF, in elements */
} HfCut;

/* False: the form does not fit the shape of the tensor. */
bool rp_hf_cut(const HfSizes *s, HfForm form, const SafeTensor *t, HfCut *out);

/* Sets the factors of a Falcon-H1 model. The second function returns those of a tensor of GGUF; NULL: there are
 * none. */
RP_NODISCARD RpStatus rp_hf_falcon_factors(HfModel *m, int64_t inner);
const HfFactor       *rp_hf_factor(const HfModel *m, const char *name);

/* out = rows of `in` times their factors, rounded to the type of `out`. RP_E_FORMAT: a product is not finite. */
RP_NODISCARD RpStatus rp_hf_multiply(const HfModel *m, const HfFactor *f, const char *name, RpDtype from,
                                     const void *in, const RpTensorView *out);

/* Copies the elements of a cut; `size`: bytes of one. */
void rp_hf_copy_cut(const HfCut *c, const void *in, size_t size, void *out);

/* The same for blocks of MXFP4: 32 elements are 16 bytes, element 2i in the low half of byte i, and a scale. */
void rp_hf_copy_mxfp4(const HfCut *c, const unsigned char *blocks, const unsigned char *scales, unsigned char *out);

#endif
