/* The family of a directory: the row of families.c that the field "architectures" of config.json names. */
#include "model/hf/hf.h"

#include "model/gguf/gguf_file.h"
#include "model/gguf/known_archs.h"

#include <stdio.h>
#include <string.h>

static bool text_type_is(const HfModel *m, const char *type) {
    return type == NULL || rp_json_is(&m->config, rp_json_get(&m->config, m->text, "model_type"), type);
}

/* The ops that the library lacks for a family, found by the beginning of its name. The longest beginning counts:
 * Mamba2 is not Mamba. */
static const char *missing_of(RpGgufString name) {
#define ROW(arch, hf, missing) {hf, missing},
    static const struct { const char *name, *missing; } known[] = {RP_KNOWN_ARCHS(ROW)};
#undef ROW
    const char *missing = NULL;
    for (size_t i = 0, longest = 0; i < sizeof known / sizeof known[0]; i++) {
        const size_t n = strlen(known[i].name);
        if (n > name.len || n <= longest || memcmp(known[i].name, name.ptr, n) != 0) continue;
        longest = n;
        missing = known[i].missing;
    }
    return missing;
}

/* Sets the family to the last row of that name that fits. False: no row has the name. */
static bool take_row(HfModel *m, RpGgufString name) {
    bool named = false;
    for (const HfFamily *f = rp_hf_families; f->name != NULL; f++) {
        if (strlen(f->name) != name.len || memcmp(f->name, name.ptr, name.len) != 0) continue;
        named = true;
        if (text_type_is(m, f->text_type) && (f->when == NULL || f->when(m))) m->family = f;
    }
    return named;
}

/* "Qwen3Model" is a Qwen3ForCausalLM that was saved without the output matrix. */
static bool take_headless_row(HfModel *m, RpGgufString name) {
    static const char model[] = "Model";
    const size_t      n       = sizeof model - 1;
    char              text[128];
    if (name.len <= n || name.len > 100 || memcmp(name.ptr + name.len - n, model, n) != 0) return false;
    snprintf(text, sizeof text, "%.*sForCausalLM", (int)(name.len - n), name.ptr);
    m->headless = take_row(m, (RpGgufString){text, strlen(text)});
    return m->headless;
}

RpStatus rp_hf_find_family(HfModel *m) {
    const JsonNode    *list = rp_json_get(&m->config, m->config.nodes, "architectures");
    const JsonNode    *name = list != NULL && list->type == JSON_ARRAY ? rp_json_first(&m->config, list) : NULL;
    const RpGgufString text = rp_json_string(&m->config, name);
    if (name == NULL) return rp_fail(RP_E_FORMAT, "%s: architectures is missing", m->config.path);
    const bool named = take_row(m, text) || take_headless_row(m, text);
    if (m->family != NULL) {
        m->headless = m->headless || m->family->encoder || rp_gguf_ends_with(text, "Model");
        m->parts    = m->family->parts;
        return RP_OK;
    }
    if (named)
        return rp_fail(RP_E_UNSUPPORTED, "%s: model_type of text_config is not supported in %.*s", m->config.path,
                       (int)(text.len < 64 ? text.len : 64), text.ptr);
    const char *missing = missing_of(text);
    return rp_fail(RP_E_UNSUPPORTED, "%s: architecture '%.*s' is not supported%s%s", m->config.path,
                   (int)(text.len < 64 ? text.len : 64), text.ptr, missing != NULL ? ": it needs " : "",
                   missing != NULL ? missing : " (docs/models.md lists those that are)");
}
