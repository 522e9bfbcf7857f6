/* Programs and renderings (template.h). */
#include "template/template.h"

#include "template/json.h"
#include "template/run.h"

#include <stdlib.h>
#include <string.h>

struct TplProgram {
    TplSource source;
    TplArena  arena;
    TplNodes  body;
};

/* Line ends become \n, and the last one is dropped. */
static size_t copy_source(char *to, const char *text, size_t n) {
    size_t out = 0;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\r' && i + 1 < n && text[i + 1] == '\n') continue;
        to[out++] = text[i] == '\r' ? '\n' : text[i];
    }
    return out > 0 && to[out - 1] == '\n' ? out - 1 : out;
}

static RpStatus parse(TplProgram *p, const char *name, const char *text, size_t n) {
    char *copy;
    p->source.name = name; /* for the errors here */
    if (n > TPL_MAX_SOURCE)
        return rp_fail(RP_E_UNSUPPORTED, "%s: a template of %zu bytes, at most %d are read", name, n, TPL_MAX_SOURCE);
    TPL_NEW(copy, &p->arena, strlen(name) + 1);
    strcpy(copy, name);
    p->source.name = copy;
    TPL_NEW(p->source.text, &p->arena, n + 1);
    p->source.n = copy_source(p->source.text, text, n);
    return rp_tpl_parse(&p->arena, &p->source, &p->body);
}

RpStatus rp_template_new(const char *name, const char *text, size_t n, TplProgram **out) {
    *out          = NULL;
    TplProgram *p = calloc(1, sizeof *p);
    if (p == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a template");
    p->arena.limit    = (size_t)1 << 30;
    const RpStatus st = parse(p, name, text, n);
    if (st != RP_OK) {
        rp_template_free(p);
        return st;
    }
    *out = p;
    return RP_OK;
}

void rp_template_free(TplProgram *p) {
    if (p == NULL) return;
    rp_tpl_arena_free(&p->arena);
    free(p);
}

/* Names of roles are part of control tokens in some templates. Any other text of a role is a message. */
static bool known_role(TplString text) {
    static const char *const roles[] = {"system",    "user",     "assistant", "tool",
                                        "developer", "function", "ipython",   "model"};
    bool                     known   = false;
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++) known = known || rp_tpl_is(text, roles[i]);
    return known;
}

static bool of_template(RpGgufString name, TplString text) {
    return name.len == 4 && memcmp(name.ptr, "role", 4) == 0 && known_role(text);
}

static RpStatus set_messages(TplArena *a, const TplInput *in, TplDict *variables) {
    TplValue list, message;
    RP_TRY(rp_tpl_list_new(a, TPL_LIST, in->n_messages, &list));
    for (size_t i = 0; i < in->n_messages; i++) {
        const TplMessage *m    = &in->messages[i];
        TplValue          role = rp_tpl_text(m->role, strlen(m->role), false);
        role.s.of_template     = known_role(role.s);
        RP_TRY(rp_tpl_dict_new(a, &message));
        RP_TRY(rp_tpl_dict_append(a, message.dict, rp_tpl_word("role"), role));
        RP_TRY(
            rp_tpl_dict_append(a, message.dict, rp_tpl_word("content"), rp_tpl_text(m->text, strlen(m->text), false)));
        RP_TRY(rp_tpl_list_push(a, list.list, message));
    }
    return rp_tpl_dict_set(a, variables, rp_tpl_word("messages"), list);
}

/* transformers gives these to every template; what the caller sets comes first. */
static RpStatus set_defaults(TplArena *a, TplDict *variables) {
    const TplPair pairs[] = {
        {rp_tpl_word("tools"),                 rp_tpl_none()    },
        {rp_tpl_word("documents"),             rp_tpl_none()    },
        {rp_tpl_word("add_generation_prompt"), rp_tpl_bool(true)}
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++)
        if (rp_tpl_dict_get(variables, &pairs[i].key) == NULL)
            RP_TRY(rp_tpl_dict_append(a, variables, pairs[i].key, pairs[i].value));
    return RP_OK;
}

static RpStatus set_variables(TplArena *a, const TplInput *in, TplValue *out) {
    const TplJsonOrigin origin = {of_template};
    RP_TRY(rp_tpl_dict_new(a, out));
    if (in->json != NULL) RP_TRY(rp_tpl_from_json(a, in->json, &in->json->nodes[0], &origin, out));
    if (out->type != TPL_DICT)
        return rp_fail(RP_E_ARG, "%s: the variables of a template must be an object", in->json->path);
    if (in->messages != NULL) RP_TRY(set_messages(a, in, out->dict));
    if (in->defaults) RP_TRY(set_defaults(a, out->dict));
    for (size_t i = 0; i < in->n_texts; i++) {
        const TplVariableText *v = &in->texts[i];
        RP_TRY(rp_tpl_dict_set(a, out->dict, rp_tpl_text(v->name, strlen(v->name), true),
                               rp_tpl_text(v->text, strlen(v->text), true)));
    }
    return RP_OK;
}

static RpStatus take_text(const TplText *t, TplRendered *out) {
    out->text    = malloc(t->n + 1);
    out->control = malloc((t->n + 1) * sizeof *out->control);
    if (out->text == NULL || out->control == NULL) {
        free(out->text);
        free(out->control);
        *out = (TplRendered){0};
        return rp_fail(RP_E_NOMEM, "out of memory for the text of a conversation");
    }
    if (t->n > 0) memcpy(out->text, t->p, t->n), memcpy(out->control, t->from, t->n * sizeof *out->control);
    out->text[t->n] = '\0';
    out->n          = t->n;
    return RP_OK;
}

static RpStatus render(const TplProgram *p, const TplInput *in, TplArena *arena, TplRendered *out) {
    TplValue     variables;
    TplString    ignored;
    TplScope     top      = {0};
    const size_t max_text = in->max_bytes > 0 ? in->max_bytes : (size_t)64 << 20;
    TplText      text     = {.arena = arena, .limit = max_text};
    RP_TRY(set_variables(arena, in, &variables));
    const struct tm epoch = {.tm_year = 70, .tm_mday = 1, .tm_wday = 4};
    TplRun          r     = {.arena     = arena,
                             .source    = &p->source,
                             .scope     = &top,
                             .variables = variables.dict,
                             .out       = &text,
                             .now       = in->now != NULL ? in->now : &epoch,
                             .max_text  = max_text};
    r.steps               = in->max_steps > 0 ? in->max_steps : 20000000;
    r.steps_left          = r.steps;
    RP_TRY(rp_tpl_exec(&r, &p->body));
    RP_TRY(rp_tpl_text_end(&text, &ignored));
    return take_text(&text, out);
}

RpStatus rp_template_render(const TplProgram *p, const TplInput *in, TplRendered *out) {
    TplArena arena    = {.limit = in->max_memory > 0 ? in->max_memory : (size_t)1 << 30};
    *out              = (TplRendered){0};
    const RpStatus st = render(p, in, &arena, out);
    rp_tpl_arena_free(&arena);
    return st;
}
