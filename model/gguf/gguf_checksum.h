/* gguf_checksum.h - checksums of the files of a trainer, in keys that other programs ignore:
 *
 *     train.format             u32              1; files without it have no checksums
 *     train.checksum.metadata  u64              XXH64 of the bytes before the tensor data, with these 8 bytes as zeros
 *     train.checksum.tensors   u64 [n_tensors]  XXH64 of the data of each tensor, in the order of the tensor table */
#ifndef MODEL_GGUF_GGUF_CHECKSUM_H
#define MODEL_GGUF_GGUF_CHECKSUM_H

#include "reprise/gguf.h"

enum { GGUF_TRAIN_FORMAT = 1 };

#define GGUF_KEY_FORMAT   "train.format"
#define GGUF_KEY_METADATA "train.checksum.metadata"
#define GGUF_KEY_TENSORS  "train.checksum.tensors"

/* Compares the metadata with their checksum; called by every open. RP_E_UNSUPPORTED for a later format; RP_E_FORMAT if
 * the checksum is another one, or if only some of the three keys are there. RP_OK without all of them. */
RP_NODISCARD RpStatus rp_gguf_check_metadata(RpGgufFile *f);

/* Compares the data of tensor i, which is read as a whole. RP_E_FORMAT names the tensor. RP_OK without checksums. */
RP_NODISCARD RpStatus rp_gguf_check_tensor(const RpGgufFile *f, int64_t i);

/* The same for the tensors of the model, or with `training` for the tensors "train.*". */
RP_NODISCARD RpStatus rp_gguf_check_tensors(const RpGgufFile *f, bool training);

#endif
