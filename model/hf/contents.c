/* Says what a directory contains that is no Hugging Face model, by the names of its files. */
#include "model/hf/directory.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define CONVERT_WEIGHTS "is not read: convert the weights to safetensors (save_pretrained of transformers) or to GGUF"
#define OF_MISTRAL      "is of the format of Mistral or Meta: take the files in the format of Hugging Face, or a GGUF file"
#define SHARDS          "model-*.safetensors"

enum { N_CONTENTS = 10 };

/* The first row counts that a file fits. */
static const struct {
    const char *pattern, *what;
} contents[N_CONTENTS] = {
    {"*.gguf",                       "is a GGUF file: give its path instead of that of the directory"         },
    {"adapter_config.json",          "is of an adapter of PEFT: make a GGUF file of it with llama.cpp's "
                            "convert_lora_to_gguf.py, for --lora"                  },
    {"model_index.json",             "is of a pipeline of diffusers, which is not supported"                  },
    {"params.json",                  OF_MISTRAL                                                               },
    {SHARDS,                         "needs model.safetensors.index.json, which says what is in files like it"},
    {"consolidated*.safetensors",    OF_MISTRAL                                                               },
    {"pytorch_model*.bin",           CONVERT_WEIGHTS                                                          },
    {"pytorch_model.bin.index.json", CONVERT_WEIGHTS                                                          },
    {"tf_model.h5",                  CONVERT_WEIGHTS                                                          },
    {"flax_model.msgpack",           CONVERT_WEIGHTS                                                          },
};

/* `found` becomes the alphabetically first name of a file that fits the row. */
static void find(DIR *directory, int row, char found[NAME_MAX + 1]) {
    rewinddir(directory);
    for (const struct dirent *e; (e = readdir(directory)) != NULL;) {
        if (strcmp(e->d_name, "model.safetensors.index.json") == 0 && strcmp(contents[row].pattern, SHARDS) == 0) {
            found[0] = '\0'; /* the files are complete */
            return;
        }
        if (fnmatch(contents[row].pattern, e->d_name, 0) != 0 || strncmp(e->d_name, "mmproj", 6) == 0) continue;
        if (found[0] == '\0' || strcmp(e->d_name, found) < 0) snprintf(found, NAME_MAX + 1, "%s", e->d_name);
    }
}

RpStatus rp_hf_refuse_contents(const HfDirectory *d, const char *missing) {
    char found[NAME_MAX + 1] = "";
    int  row                 = -1;
    DIR *directory           = opendir(d->real);
    if (directory == NULL) return rp_fail(RP_E_IO, "%s: %s: %s", d->path, missing, strerror(errno));
    while (found[0] == '\0' && ++row < N_CONTENTS) find(directory, row, found);
    closedir(directory);
    if (row == N_CONTENTS) return rp_fail(RP_E_IO, "%s: %s: this is no model of Hugging Face", d->path, missing);
    return rp_fail(RP_E_IO, "%s: %s: %s %s", d->path, missing, found, contents[row].what);
}
