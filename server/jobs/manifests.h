/* manifests.h - one manifest for each reply in the folder of --manifest-dir (manifest/manifest.h). A thread of its own
 * writes the files, so that no reply waits for the disk.
 *
 *     end of a reply -> text of the manifest -> queue -> reprise-<time>-<id>-<choice>.json, mode 0600
 *
 * A file appears under its name when it is whole. Only the newest `keep` files with such names stay. A manifest that
 * has no room in the queue, or cannot be written, is lost: the log and the metrics say so, and the reply is not
 * disturbed. */
#ifndef SERVER_JOBS_MANIFESTS_H
#define SERVER_JOBS_MANIFESTS_H

#include "server/api/bytes.h"
#include "server/log.h"

#include "manifest/manifest.h"

enum { MANIFESTS_QUEUE = 256 };

typedef struct Manifests Manifests;

/* `folder` exists. The files of earlier servers count. RP_E_IO names the folder; RP_E_NOMEM. The caller frees *out. */
RP_NODISCARD RpStatus manifests_open(const char *folder, int32_t keep, Log *log, Manifests **out);

/* Whether manifests_open could use the folder; nothing in it is changed. RP_E_IO as there. */
RP_NODISCARD RpStatus manifests_check(const char *folder);

/* Writes what is in the queue, and ends. NULL is allowed. */
void manifests_free(Manifests *m);

/* Queues the manifest of the choice-th reply of a request. Any thread. */
void manifests_put(Manifests *m, const Manifest *manifest, const char *id, int choice);

/* NULL is allowed. */
void manifests_metrics(Manifests *m, Bytes *out);

#endif
