/* directory.h - the files of a directory as huggingface_hub writes it. A name is FILE or FOLDER/FILE; what it leads
 * to lies in the directory itself, or, where that is a snapshot of the cache (models--NAME/snapshots/REVISION), in
 * models--NAME/blobs. */
#ifndef MODEL_HF_DIRECTORY_H
#define MODEL_HF_DIRECTORY_H

#include "reprise/gguf.h"

#include "base/text/json_read.h"

enum { HF_FOLDER_BYTES = 256 }; /* of the name of a folder, with its end */

typedef struct HfDirectory {
    const char  *path;  /* as it was given; borrowed */
    char        *real;  /* without links; owned */
    size_t       blobs; /* bytes of `real` that, with "/blobs/" behind them, name the other place; 0: none */
    RpGgufFile **files; /* every file that was opened, owned; model/hf/open.c takes them over */
    int          n_files;
} HfDirectory;

/* The caller frees *out with rp_hf_directory_close, also after a failure. RP_E_IO, RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_hf_directory_open(const char *path, HfDirectory *out);
void                  rp_hf_directory_close(HfDirectory *d);

/* *out: whether there is something of that name, a broken link too. RP_E_IO if that cannot be told, RP_E_NOMEM. */
RP_NODISCARD RpStatus rp_hf_has(const HfDirectory *d, const char *name, bool *out);

/* RP_E_IO: the directory lacks what `missing` says, and has files of another format, which the error names with a
 * remedy (contents.c). */
RP_NODISCARD RpStatus rp_hf_refuse_contents(const HfDirectory *d, const char *missing);

/* Maps a file; with `copy` its memory is private. RP_E_FORMAT for another name than FILE or FOLDER/FILE, for one that
 * begins with a dot, and for a link that leads out of the directory; errors of rp_gguf_map. */
RP_NODISCARD RpStatus rp_hf_file(HfDirectory *d, const char *name, bool copy, RpGgufFile **out);

/* Reads a file whole, as JSON whose root is an object or a list, or as text. An absent file gives an empty *out: no
 * nodes, no text. */
RP_NODISCARD RpStatus rp_hf_json_list(HfDirectory *d, const char *name, Json *out);
RP_NODISCARD RpStatus rp_hf_json(HfDirectory *d, const char *name, Json *out);
RP_NODISCARD RpStatus rp_hf_text(HfDirectory *d, const char *name, RpGgufString *out);

#endif
