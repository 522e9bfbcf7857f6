/* Heads that score texts, of classes that end in ForSequenceClassification (model/embed/head.c computes them). The
 * names stand outside of the layers. A head has all of them. */
#include "model/hf/hf.h"

#include <stdio.h>
#include <string.h>

enum { RANK = 4, MEAN = 1, CLS = 2, MAX_LABELS = 1 << 16 }; /* <arch>.pooling_type, <arch>.classifier.pooling_type */

const HfName rp_hf_bert_head[] = {
    {"pooler.dense.weight", "cls.weight"       },
    {"pooler.dense.bias",   "cls.bias"         },
    {"classifier.weight",   "cls.output.weight"},
    {"classifier.bias",     "cls.output.bias"  },
    {NULL,                  NULL               }
};

const HfName rp_hf_roberta_head[] = {
    {"classifier.dense.weight",    "cls.weight"       },
    {"classifier.dense.bias",      "cls.bias"         },
    {"classifier.out_proj.weight", "cls.output.weight"},
    {"classifier.out_proj.bias",   "cls.output.bias"  },
    {NULL,                         NULL               }
};

const HfName rp_hf_modern_bert_head[] = {
    {"head.dense.weight", "cls.weight"       },
    {"head.norm.weight",  "cls.norm.weight"  },
    {"classifier.weight", "cls.output.weight"},
    {"classifier.bias",   "cls.output.bias"  },
    {NULL,                NULL               }
};

/* The names of the scores: "id2label", else as many as "num_labels" says. */
static RpStatus put_labels(const HfModel *m) {
    const JsonNode *names = rp_hf_value(m, "id2label");
    uint32_t        n;
    char            key[128], text[32];
    RP_TRY(rp_hf_count(m, "num_labels", 2, &n));
    if (names != NULL && names->type == JSON_OBJECT) n = names->n;
    if (n < 1 || n > MAX_LABELS)
        return rp_fail(RP_E_FORMAT, "%s: %u labels: must be from 1 to %d", m->config.path, n, MAX_LABELS);
    rp_gguf_put_array(m->out, rp_hf_key(m, "classifier.output_labels", key, sizeof key), RP_GGUF_STRING, n);
    for (uint32_t i = 0; i < n; i++) {
        snprintf(text, sizeof text, "%u", i);
        const JsonNode *name = rp_json_get(&m->config, names, text);
        snprintf(text, sizeof text, "LABEL_%u", i);
        const RpGgufString s = rp_json_string(&m->config, name);
        rp_gguf_put_text(m->out, name != NULL ? s.ptr : text, name != NULL ? s.len : strlen(text));
    }
    return RP_OK;
}

/* Without one of its tensors a head would compute something else. */
static RpStatus check_tensors(HfModel *m) {
    RP_TRY(rp_hf_open_shards(m));
    for (const HfName *row = m->family->head; row->hf != NULL; row++) {
        bool     found = false;
        HfTarget to;
        for (size_t i = 0; i < m->shards.n_tensors && !found; i++) {
            rp_hf_name(m, m->shards.tensors[i]->name, 0, &to);
            found = to.role == HF_TENSOR && strcmp(to.name, row->gguf) == 0;
        }
        if (!found)
            return rp_fail(RP_E_FORMAT, "%s: tensor %s (%s) of the classification head is missing", m->dir.path,
                           row->hf, row->gguf);
    }
    return RP_OK;
}

/* ModernBERT pools the hidden states in front of its head; the others take those of the first token. */
static RpStatus modern_bert(const HfModel *m) {
    const JsonNode *mode = rp_hf_value(m, "classifier_pooling");
    const bool      mean = rp_json_is(&m->config, mode, "mean");
    RP_TRY(rp_hf_never(m, "classifier_bias", "a bias"));
    RP_TRY(rp_hf_only_text(m, "classifier_activation", "gelu"));
    if (mode != NULL && !mean && !rp_json_is(&m->config, mode, "cls"))
        return rp_hf_refuse(m, "classifier_pooling", "another one than cls and mean");
    rp_hf_put_u32(m, "classifier.pooling_type", mean ? MEAN : CLS);
    return RP_OK;
}

RpStatus rp_hf_classifier(HfModel *m) {
    if (m->family->head == rp_hf_modern_bert_head) RP_TRY(modern_bert(m));
    rp_hf_put_u32(m, "pooling_type", RANK);
    RP_TRY(put_labels(m));
    return check_tensors(m);
}
