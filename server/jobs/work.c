/* work.c - opens and closes the lanes and models of a server. */
#include "server/jobs/work.h"

#include "server/http/conn.h"
#include "server/http/guard.h"
#include "server/jobs/manifests.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

RpStatus work_open(Work *w, const ServerOptions *options, Log *log, Metrics *metrics) {
    unsigned char random[6];
    w->options = options;
    w->log     = log;
    w->metrics = metrics;
    w->worker  = worker_main;
    w->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&w->ready_lock, NULL);
    pthread_mutex_init(&w->trace.lock, NULL);
    if (w->wake_fd < 0) return rp_fail(RP_E_IO, "eventfd: %s", strerror(errno));
    if (getrandom(random, sizeof random, 0) < 0) memset(random, 0, sizeof random);
    snprintf(w->fingerprint, sizeof w->fingerprint, "fp_%02x%02x%02x%02x%02x%02x", random[0], random[1], random[2],
             random[3], random[4], random[5]);
    w->defaults = (ApiRequest){.sampler          = options->sampler,
                               .max_tokens       = options->max_tokens,
                               .n                = 1,
                               .n_logprobs       = -1,
                               .reasoning_budget = options->reasoning_budget};
    RP_TRY(work_find_models(w, options));
    if (options->manifest_dir != NULL)
        RP_TRY(manifests_open(options->manifest_dir, options->manifest_keep, log, &w->manifests));
    RP_TRY(lane_start(&w->prepare));
    RP_TRY(lane_start(&w->slow));
    RP_TRY(lane_start(&w->traces));
    return options->model != NULL ? work_load_first(w) : RP_OK;
}

void work_close(Work *w) {
    work_unload_all(w);
    lane_stop(&w->prepare);
    lane_stop(&w->slow);
    lane_stop(&w->traces);
    for (Job *j = work_pop_ready(w); j != NULL; j = work_pop_ready(w)) job_release(j);
    manifests_free(w->manifests);
    if (w->wake_fd >= 0) close(w->wake_fd);
    work_free_models(w);
}
