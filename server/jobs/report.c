/* report.c - metrics of models, and the check of their files. */
#include "server/jobs/work.h"

#include <stdio.h>

typedef double Value(const Model *m);

static double loaded(const Model *m) { return m->state == MODEL_READY; }
static double bytes(const Model *m) { return (double)m->bytes; }
static double running(const Model *m) { return m->stats.running; }
static double waiting(const Model *m) { return m->stats.waiting + m->queue.n; }
static double batch(const Model *m) { return m->n_live_seen > 0 ? m->stats.last_step_tokens : 0; }
static double used(const Model *m) { return m->stats.used; }
static double kept(const Model *m) { return m->stats.kept; }
static double blocks(const Model *m) { return m->stats.n_blocks; }
static double window_blocks(const Model *m) { return m->stats.n_window_blocks; }
static double window_used(const Model *m) { return m->stats.window_used; }
static double window_kept(const Model *m) { return m->stats.window_kept; }
static double steps(const Model *m) { return (double)(m->before.steps + m->stats.steps); }
static double generated(const Model *m) { return (double)(m->before.generated + m->stats.generated); }
static double prompt(const Model *m) { return (double)(m->before.prompt_tokens + m->stats.prompt_tokens); }
static double cached(const Model *m) { return (double)(m->before.cached + m->stats.cached); }
static double drafted(const Model *m) { return (double)(m->before.drafted + m->stats.drafted); }
static double accepted(const Model *m) { return (double)(m->before.accepted + m->stats.accepted); }
static double preempted(const Model *m) { return (double)(m->before.preempted + m->stats.preempted); }
static double evicted(const Model *m) { return (double)(m->before.evicted + m->stats.evicted); }
static double step_rate(const Model *m) {
    return m->n_live_seen > 0 && m->stats.last_step_s > 0.0 ? m->stats.last_step_tokens / m->stats.last_step_s : 0.0;
}

void work_metrics(Work *w, Bytes *out) {
    static const struct {
        const char *name, *type, *help;
        Value      *value;
    } rows[] = {
        {"model_loaded",             "gauge",   "1 if the model is loaded.",                                            loaded     },
        {"model_bytes",              "gauge",   "Memory of weights, their repacked copy, KV cache, states and arena.",  bytes      },
        {"replies_running",          "gauge",   "Replies that take part in steps.",                                     running    },
        {"replies_waiting",          "gauge",   "Replies that wait for a place.",                                       waiting    },
        {"batch_tokens",             "gauge",   "Tokens of the latest step; 0 while nothing runs.",                     batch      },
        {"tokens_per_second",        "gauge",   "Tokens per second of the latest step, of prompts too.",                step_rate  },
        {"cache_blocks",             "gauge",   "Blocks of the KV cache.",                                              blocks     },
        {"cache_blocks_used",        "gauge",   "Blocks of replies that run.",                                          used       },
        {"cache_blocks_kept",        "gauge",   "Blocks of earlier prompts and replies that can be used.",              kept       },
        {"cache_window_blocks",      "gauge",   "Blocks of the KV cache of layers with a window; 0: no layer has one.",
         window_blocks                                                                                                             },
        {"cache_window_blocks_used", "gauge",   "Blocks of windows of replies that run.",                               window_used},
        {"cache_window_blocks_kept", "gauge",   "Blocks of windows of earlier prompts and replies that can be used.",
         window_kept                                                                                                               },
        {"steps_total",              "counter", "Steps of the engine.",                                                 steps      },
        {"generated_tokens_total",   "counter", "Tokens that were sampled.",                                            generated  },
        {"prompt_tokens_total",      "counter", "Tokens of prompts.",                                                   prompt     },
        {"cached_tokens_total",      "counter", "Tokens of prompts that were found in the cache.",                      cached     },
        {"drafted_tokens_total",     "counter", "Tokens that were guessed.",                                            drafted    },
        {"accepted_tokens_total",    "counter", "Guessed tokens that were right.",                                      accepted   },
        {"preempted_replies_total",  "counter", "Replies that gave their blocks up.",                                   preempted  },
        {"evicted_blocks_total",     "counter", "Blocks whose prefix was dropped.",                                     evicted    },
    };
    pthread_mutex_lock(&w->lock);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        metrics_family(out, rows[i].name, rows[i].type, rows[i].help);
        for (int k = 0; k < w->n_models; k++)
            metrics_sample(out, rows[i].name, "model", w->models[k].name, rows[i].value(&w->models[k]));
    }
    pthread_mutex_unlock(&w->lock);
}

RpStatus work_check_model(Model *m) {
    const ServerOptions *o     = m->work->options;
    RpModel             *model = NULL;
    RpEngineMemory       memory;
    RpStatus             st = o->open_model(m->path, &model, o->user);
    if (st == RP_OK && rp_model_tokenizer(model) == NULL)
        st = rp_fail(RP_E_UNSUPPORTED, "%s has no tokenizer", m->path);
    RpSamplerParams sampler = o->sampler;
    if (st == RP_OK) st = rp_sampler_recommended(rp_model_file(model), &sampler, NULL, 0);
    const RpModelInfo *info = st == RP_OK ? rp_model_info(model) : NULL;
    if (st == RP_OK && !info->bidirectional && info->pooling == 0) {
        const RpEngineOptions engine = worker_engine_options(m, model);
        st                           = rp_engine_memory(model, &engine, &memory);
        if (st == RP_OK && o->memory_bytes > 0 && memory.total > o->memory_bytes)
            st = rp_fail(RP_E_NOMEM, "%s needs %.1f MB, and --memory is %.1f MB", m->name, (double)memory.total / 1e6,
                         (double)o->memory_bytes / 1e6);
    }
    RpChatTemplate *chat = NULL;
    RpGgufString    source;
    if (st == RP_OK) st = worker_chat_template(m, model, &chat, &source);
    rp_chat_template_free(chat);
    rp_model_free(model);
    return st;
}
