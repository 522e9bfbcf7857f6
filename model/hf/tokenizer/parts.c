/* Reads a pipeline of tokenizer.json: the parts of a Sequence, or the object itself as the only part. */
#include "model/hf/tokenizer/tokenizer.h"

HfParts rp_hf_parts(const HfVocabulary *v, const char *name, const char *list) {
    const JsonNode *x = rp_json_get(v->j, v->j->nodes, name);
    if (x == NULL || x->type != JSON_OBJECT) return (HfParts){NULL, NULL};
    if (!rp_json_is(v->j, rp_json_get(v->j, x, "type"), "Sequence")) return (HfParts){NULL, x};
    const JsonNode *all = rp_json_get(v->j, x, list);
    return (HfParts){all, rp_json_first(v->j, all)};
}

void rp_hf_next_part(const HfVocabulary *v, HfParts *p) {
    p->part = p->list != NULL ? rp_json_next(v->j, p->list, p->part) : NULL;
}

bool rp_hf_option(const HfVocabulary *v, const JsonNode *object, const char *name, bool fallback) {
    const JsonNode *x = rp_json_get(v->j, object, name);
    return x != NULL && x->type != JSON_NULL ? x->type == JSON_TRUE : fallback;
}
