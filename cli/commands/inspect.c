/* inspect.c - `reprise inspect`: configuration, weight types, metadata and tensors of a GGUF file or Hugging Face
 * directory, also of one that cannot be run.
 *
 * The file is read twice: as GGUF, which gives metadata and tensors whatever they are, and as a model, which gives the
 * configuration or the reason why it cannot be run. */
#include "cli/commands.h"
#include "cli/common.h"
#include "cli/inspect/directory.h"
#include "cli/inspect/tensors.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_ELEMS = 6, SHOWN_BYTES = 72 }; /* shown: of an array, of a string */

static struct {
    const char *model;
    bool        tensors, json;
} args;

/* A string in quotes, escaped for text or JSON; the text form is cut after SHOWN_BYTES. */
static void print_string(RpGgufString s) {
    if (args.json) {
        rp_put_json_string(s.ptr, s.len, stdout);
        return;
    }
    putchar('"');
    cli_print_escaped(stdout, s.ptr, s.len, SHOWN_BYTES);
    putchar('"');
}

/* Prints number i of a value. 17 digits identify a double. An f32 has 7, so that 0.1 is printed as 0.1. */
static void print_number(const RpGgufValue *v, RpGgufType type, uint64_t i) {
    const double x = rp_gguf_number_at(v, i);
    if (type == RP_GGUF_BOOL)
        printf(x != 0.0 ? "true" : "false");
    else if (args.json && !(x - x == 0.0))
        printf("null"); /* inf and nan are not JSON */
    else
        printf("%.*g", type == RP_GGUF_F32 ? 7 : 17, x);
}

/* Prints a value; of an array, the first SHOWN_ELEMS elements and the number of elements. */
static void print_value(const RpGgufValue *v) {
    const bool       array  = v->type == RP_GGUF_ARRAY;
    const RpGgufType type   = array ? v->elem_type : v->type;
    const void      *cursor = v->data;
    const uint64_t   shown  = v->n < SHOWN_ELEMS ? v->n : SHOWN_ELEMS;
    if (array && args.json)
        printf("{\"n\":%" PRIu64 ",\"first\":[", v->n);
    else if (array)
        printf("[");
    for (uint64_t i = 0; i < shown; i++) {
        if (i > 0) printf(args.json ? "," : ", ");
        if (type == RP_GGUF_STRING)
            print_string(array ? rp_gguf_next_string(&cursor) : rp_gguf_string_at(v, 0));
        else
            print_number(v, type, i);
    }
    if (array && args.json)
        printf("]}");
    else if (array)
        printf(shown < v->n ? ", ... %" PRIu64 " in all]" : "]", v->n);
}

static void print_metadata(const RpGgufFile *f) {
    const int64_t n = rp_gguf_n_values(f);
    if (args.json)
        printf(",\"metadata\":[");
    else
        cli_list_heading("metadata");
    for (int64_t i = 0; i < n; i++) {
        const RpGgufValue *v     = rp_gguf_value(f, i);
        const bool         array = v->type == RP_GGUF_ARRAY;
        const char        *type  = rp_gguf_value_type_name(array ? v->elem_type : v->type);
        if (args.json) {
            printf("%s{\"key\":", i > 0 ? "," : "");
            rp_put_json_string(v->key.ptr, v->key.len, stdout);
            printf(",\"type\":\"%s%s\",\"value\":", type, array ? "[]" : "");
            print_value(v);
            printf("}");
            continue;
        }
        printf("  ");
        cli_print_escaped(stdout, v->key.ptr, v->key.len, SIZE_MAX);
        printf(" (%s%s) = ", type, array ? "[]" : "");
        print_value(v);
        printf("\n");
    }
    if (args.json) printf("]");
}

/* The last error, which is why the model cannot be run. */
static void print_reason(void) {
    if (args.json) {
        printf(",\"model\":null,\"reason\":");
        rp_put_json_string(rp_last_error(), strlen(rp_last_error()), stdout);
        return;
    }
    printf("cannot be run here: ");
    cli_print_escaped(stdout, rp_last_error(), strlen(rp_last_error()), SIZE_MAX);
    printf("\n");
}

/* Configuration of the model, or the reason why it cannot be run. */
static void print_model(const char *path) {
    RpModel *m = NULL;
    if (rp_model_open(path, NULL, &m) != RP_OK) {
        print_reason();
        return;
    }
    const RpModelInfo *o = rp_model_info(m);
    if (args.json)
        printf(",\"model\":{\"arch\":\"%s\",\"n_vocab\":%d,\"n_embd\":%d,\"n_layer\":%d,\"n_head\":%d,\"n_"
               "head_kv\":%d,"
               "\"head_dim\":%d,\"n_ff\":%d,\"n_ctx_train\":%d,\"window\":%d,\"n_layer_local\":%d,"
               "\"n_expert\":%d,\"n_expert_used\":%d,\"n_layer_recurrent\":%d,\"n_layer_nextn\":%d,\"mtp\":%s,"
               "\"assistant\":%s,\"bidirectional\":%s,"
               "\"params_active\":%" PRId64 ",\"decode_weight_bytes\":%zu}",
               o->arch, o->n_vocab, o->n_embd, o->n_layer, o->n_head, o->n_head_kv, o->head_dim, o->n_ff,
               o->n_ctx_train, o->window, o->n_layer_local, o->n_expert, o->n_expert_used, o->n_layer_recurrent,
               o->n_layer_nextn, o->mtp ? "true" : "false", o->assistant ? "true" : "false",
               o->bidirectional ? "true" : "false", o->n_params_active, o->decode_weight_bytes);
    else {
        printf("%s: %d layers of width %d, %d heads of %d (%d KV heads), feed-forward %d, vocabulary %d, "
               "context %d\n",
               o->arch, o->n_layer, o->n_embd, o->n_head, o->head_dim, o->n_head_kv, o->n_ff, o->n_vocab,
               o->n_ctx_train);
        if (o->bidirectional)
            printf("encoder: it has no next token: %s\n", o->pooling == RP_POOLING_RANK
                                                              ? "`reprise rerank` scores documents with it"
                                                              : "`reprise embed` makes embeddings of texts with it");
        if (o->assistant)
            printf("assistant: it guesses tokens of another model, as the FILE of --draft (docs/engine.md)\n");
        if (o->n_layer_local > 0)
            printf("window: %d layers attend to the last %d positions only\n", o->n_layer_local, o->window);
        if (o->n_layer_recurrent > 0)
            printf("recurrent state: %d of %d layers have one\n", o->n_layer_recurrent, o->n_layer);
        if (o->n_layer_nextn > 0)
            printf(
                "multi-token prediction: %d further layer%s, %s\n", o->n_layer_nextn, o->n_layer_nextn > 1 ? "s" : "",
                o->mtp ? "the first guesses tokens ahead (MTP)" : "not used: without its tensors, or of another kind");
        if (o->n_expert > 0) printf("experts: %d of %d per token\n", o->n_expert_used, o->n_expert);
        printf("per token: %.2f M active parameters, %.2f MB of weights read\n", (double)o->n_params_active / 1e6,
               (double)o->decode_weight_bytes / 1e6);
    }
    rp_model_free(m);
}

/* How the model is given tools, and how it writes calls and reasoning. */
static void print_chat(const RpGgufFile *f, const RpTokenizer *tk) {
    static const char json[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}], \"tools\": [{\"name\": \"f\"}]}";
    RpChatTemplate *t;
    RpChatPrompt    out;
    char           *text;
    bool           *control;
    if (rp_chat_template_of(f, tk, &t) != RP_OK) return; /* the metadata show that there is none */
    const RpChatRequest r = {.json = json, .json_bytes = sizeof json - 1};
    if (rp_chat_prompt(t, &r, &text, &control, &out) == RP_OK) {
        const char *tools = out.describes_tools ? "described in a message" : "given to the template";
        if (args.json)
            printf(",\"chat\":{\"tools\":\"%s\",\"calls\":\"%s\",\"reasoning\":\"%s\"}", tools, out.format.calls,
                   out.format.reasoning);
        else
            printf("chat: tools are %s, calls %s, reasoning %s\n", tools, out.format.calls, out.format.reasoning);
        free(text);
        free(control);
    }
    rp_chat_template_free(t);
}

/* Whether text can be given to the model, and which parts of the file the library does not use. */
static void print_text(const RpGgufFile *f) {
    RpTokenizer   *tk   = NULL;
    RpGgufString   left = {"", 0};
    const RpStatus st   = rp_tokenizer_new(f, &tk);
    if (args.json) {
        if (st == RP_OK) printf(",\"n_tokens\":%d", rp_tokenizer_n_vocab(tk));
        if (st != RP_OK) printf(",\"n_tokens\":null,\"no_text\":");
        if (st != RP_OK) rp_put_json_string(rp_last_error(), strlen(rp_last_error()), stdout);
    } else if (st == RP_OK) {
        printf("text: a tokenizer of %d tokens\n", rp_tokenizer_n_vocab(tk));
    } else {
        printf("text: only as token ids: ");
        cli_print_escaped(stdout, rp_last_error(), strlen(rp_last_error()), SIZE_MAX);
        printf("\n");
    }
    if (st == RP_OK) print_chat(f, tk);
    rp_tokenizer_free(tk);
    if (args.json || rp_gguf_find(f, "reprise.not_read") == NULL) return;
    if (rp_gguf_get_string(f, "reprise.not_read", &left) != RP_OK) return; /* the metadata show it */
    printf("not read: ");
    cli_print_escaped(stdout, left.ptr, left.len, SHOWN_BYTES);
    printf("\n");
}

static void print_head(uint32_t version, size_t bytes) {
    if (args.json) {
        printf("{\"file\":");
        rp_put_json_string(args.model, strlen(args.model), stdout);
        printf(",\"version\":%u,\"file_bytes\":%zu", version, bytes);
        return;
    }
    cli_print_escaped(stdout, args.model, strlen(args.model), SIZE_MAX);
    if (version > 0)
        printf(": GGUF version %u", version);
    else
        printf(": Hugging Face directory");
    printf(", %.2f MB\n", (double)bytes / 1e6);
}

/* The tensors of the file as rows of the list, which the caller frees. */
static RpStatus list_of(const RpGgufFile *f, ListedTensor **out, size_t *n) {
    *n   = (size_t)rp_gguf_n_tensors(f);
    *out = calloc(*n + 1, sizeof **out);
    if (*out == NULL) return rp_fail(RP_E_NOMEM, "out of memory for a list of tensors");
    for (size_t i = 0; i < *n; i++) {
        const RpGgufTensor *t    = rp_gguf_tensor(f, (int64_t)i);
        const char         *type = rp_gguf_type_name(t->gguf_type);
        (*out)[i]                = (ListedTensor){.name        = t->name,
                                                  .type        = type != NULL ? type : "unknown",
                                                  .gguf_type   = t->gguf_type,
                                                  .unsupported = !t->known,
                                                  .bytes       = t->bytes};
        memcpy((*out)[i].ne, t->view.ne, sizeof(*out)[i].ne);
    }
    return RP_OK;
}

static RpStatus print_tensors(const ListedTensor *tensors, size_t n) {
    RpStatus st = RP_OK;
    if (args.json || args.tensors) st = cli_list_tensors(tensors, n, args.json);
    if (args.json) printf("}\n");
    return st;
}

static RpStatus print_file(const RpGgufFile *f) {
    ListedTensor *tensors;
    size_t        n;
    RP_TRY(list_of(f, &tensors, &n));
    print_head(rp_gguf_version(f), rp_gguf_bytes(f));
    print_model(args.model);
    print_text(f);
    RpStatus st = cli_list_types(tensors, n, args.json);
    print_metadata(f);
    if (st == RP_OK) st = print_tensors(tensors, n);
    free(tensors);
    return st;
}

/* A directory that the library does not open has no keys and names of GGUF: its files are shown as they are. */
static RpStatus print_directory(void) {
    ListedDirectory d;
    RpStatus        st = cli_directory_read(args.model, &d);
    if (st == RP_OK) {
        print_head(0, d.bytes);
        print_reason();
        st = cli_list_types(d.tensors, d.n_tensors, args.json);
        if (st == RP_OK) st = cli_directory_print_config(&d, args.json, SHOWN_BYTES);
        if (st == RP_OK) st = print_tensors(d.tensors, d.n_tensors);
    }
    cli_directory_free(&d);
    return st;
}

static int run(void) {
    RpGgufFile    *f;
    const RpStatus opened = rp_gguf_open(args.model, &f);
    if (opened == RP_E_FORMAT || opened == RP_E_UNSUPPORTED) return cli_exit(print_directory());
    if (opened != RP_OK) return cli_exit(opened);
    const RpStatus st = print_file(f);
    rp_gguf_close(f);
    return cli_exit(st);
}

static const Option options[] = {
    OPTION_MODEL(args.model),
    CLI_FLAG("tensors", 0, args.tensors, "also list the tensors: type, shape, bytes, name"),
    CLI_FLAG("json", 0, args.json, "print JSON, tensors included"),
};

const Command cli_command_inspect = {.name = "inspect",
                                     .help = "print configuration and metadata of a model, even one that cannot be run",
                                     .usage     = "[MODEL] [options]",
                                     .options   = options,
                                     .n_options = sizeof options / sizeof options[0],
                                     .run       = run};
