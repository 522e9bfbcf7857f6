/* Recognises wrong files by their first bytes: formats that are mistaken for GGUF, and files that a failed download
 * leaves. Also GGUF files that are no models. */
#include "model/gguf/gguf_file.h"

#include <strings.h>

enum { SHOWN = 64 /* bytes; longer than each beginning */ };

static const struct {
    const char *text, *what;
} beginnings[] = {
    {"PK\x03\x04",                    "a zip archive, perhaps a PyTorch checkpoint; convert it to safetensors or GGUF"},
    {"version https://git-lfs",       "a Git LFS pointer; fetch the file itself (git lfs pull)"                       },
    {"<!doctype",                     "an HTML page; the download went wrong"                                         },
    {"<html",                         "an HTML page; the download went wrong"                                         },
    {"Entry not found",               "an error message of a server; the download went wrong"                         },
    {"Repository not found",          "an error message of a server; the download went wrong"                         },
    {"Invalid username or password.", "an error message of a server; the download went wrong"                         },
    {"lmgg",                          "a GGML file from before GGUF; convert it again"                                },
    {"fmgg",                          "a GGML file from before GGUF; convert it again"                                },
    {"tjgg",                          "a GGJT file from before GGUF; convert it again"                                },
};

static RpGgufString without_space(RpGgufString s) {
    while (s.len > 0 && strchr(" \t\r\n", s.ptr[0]) != NULL && s.ptr[0] != '\0') s.ptr++, s.len--;
    return s;
}

/* Without regard to case. */
static bool begins_with(RpGgufString s, const char *text) {
    const size_t n = strlen(text);
    return s.len >= n && strncasecmp(s.ptr, text, n) == 0;
}

/* {"error": ... */
static bool is_error(RpGgufString s) {
    if (!begins_with(s, "{")) return false;
    return begins_with(without_space((RpGgufString){s.ptr + 1, s.len - 1}), "\"error\"");
}

RpStatus rp_gguf_refuse_foreign(RpGgufFile *f) {
    const size_t n = f->bytes < SHOWN ? f->bytes : SHOWN;
    RP_TRY(rp_gguf_read_in(f, n));
    const RpGgufString s = without_space((RpGgufString){(const char *)f->data, n});
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        if (begins_with(s, beginnings[i].text))
            return rp_fail(RP_E_FORMAT, "%s: this is %s", f->path, beginnings[i].what);
    if (!is_error(s)) return RP_OK;
    return rp_fail(RP_E_FORMAT, "%s: this is an error message of a server; the download went wrong", f->path);
}

RpStatus rp_gguf_refuse_kinds(const RpGgufFile *f) {
    static const struct {
        const char *type, *what;
    } kinds[] = {
        {"adapter", "a LoRA adapter, not a model: give it with --lora beside its model (rp_model_add_adapter)"},
        {"imatrix", "an importance matrix, not a model: reprise quantize takes it with --imatrix"             },
        {"mmproj",  "a projector of images or sound, not a model: give the file of its language model"        },
        {"context", "the context of a conversation, not a model: reprise chat reads it with --resume"         },
    };
    RpGgufString type = {"", 0};
    RP_TRY(rp_gguf_get_string(f, "general.type", &type));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (type.len == strlen(kinds[i].type) && memcmp(type.ptr, kinds[i].type, type.len) == 0)
            return rp_fail(RP_E_FORMAT, "%s: this is %s", f->path, kinds[i].what);
    if (f->n_tensors > 0 || rp_gguf_find(f, "tokenizer.ggml.tokens") == NULL) return RP_OK;
    return rp_fail(RP_E_FORMAT, "%s: this is a vocabulary, not a model: the file has no weights", f->path);
}
