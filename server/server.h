/* server.h - `reprise serve`: an HTTP server for models. One thread has the sockets (server/http), one each model
 * (server/jobs); the wire formats are in server/api. */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include "reprise/engine.h"
#include "reprise/status.h"

#include "manifest/manifest.h"

#include <stdio.h>

typedef struct ServerOptions {
    const char *host;          /* to listen on */
    int         port;          /* 0: any that is free */
    const char *model, *alias; /* or NULL: only those of models_dir. alias: the name of the model; NULL: of its file */
    const char *chat_template, *template_name; /* or NULL; of `model` alone, in place of its own; where it is from */
    const char *models_dir;                    /* or NULL: a folder of GGUF files and Hugging Face directories */
    size_t      memory_bytes;                  /* of all models that are loaded; 0: no limit but that of the machine */
    const char *keys_file;                     /* or NULL: no keys */
    const char *const *allow_hosts, *const *allow_origins;
    size_t          n_allow_hosts, n_allow_origins;
    const char     *log_file;          /* or NULL: standard error */
    int32_t         queue;             /* requests that may wait */
    int32_t         tokens_per_minute; /* of a key; 0: no limit */
    int32_t         connections, read_seconds, drain_seconds, ping_seconds;
    size_t          body_bytes;
    int32_t         max_tokens, reasoning_budget; /* of requests that do not say it */
    int32_t         n_draft;                      /* as of RpRequest */
    RpEngineOptions engine;                       /* draft: of `model` alone */
    RpSamplerParams sampler;                      /* of requests that do not say it; unset: the model's */
    const char     *manifest_dir;                 /* or NULL: no manifests */
    int32_t         manifest_keep;                /* files that stay in it, at least 1 */
    bool            manifest_text;                /* with texts */
    const Manifest *manifest; /* what they share: program, command, kv, passes; adapters and draft of `model` */
    /* Opens a model; called by threads of the server. */
    RpStatus (*open_model)(const char *path, RpModel **out, void *user);
    /* Writes the page of a decode step with a context of n_ctx tokens; called by threads of the server. */
    RpStatus (*graph_page)(const RpModel *m, const ComputeGraph *g, int32_t n_ctx, FILE *out);
    const char *graph_page_policy; /* its Content-Security-Policy */
    /* The server listens at this URL. False: it ends. */
    bool (*listening)(const char *url, void *user);
    void *user;
} ServerOptions;

/* Serves until SIGTERM or SIGINT. RP_OK if no request was cut off. */
RP_NODISCARD RpStatus server_run(const ServerOptions *options);

/* Checks options, keys and that the models can be opened and fit, without listening. */
RP_NODISCARD RpStatus server_check(const ServerOptions *options);

#endif
