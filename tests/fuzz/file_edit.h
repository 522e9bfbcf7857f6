/* file_edit.h - model files for fuzz targets. An input does not hold a file: it names one of tests/golden and lists
 * edits of it. Inputs stay small, and what they make is mostly a file that opens.
 *
 *     byte 0       the file, modulo the number of files of the list
 *     bytes 1..7   options, for the target itself; bit 0 of byte 7: checksums of a training stay as they were
 *     bytes 8..    edits of 8 bytes: u8 kind, u8 item, u16 where, u32 value
 *
 * An edit changes the values or tensors of the file, which is then written anew: header, values, tensor table, data. */
#ifndef TESTS_FUZZ_FILE_EDIT_H
#define TESTS_FUZZ_FILE_EDIT_H

#include "reprise/gguf.h"

enum { FUZZ_HEAD = 8, FUZZ_EDIT = 8, FUZZ_MAX_EDITS = 24, FUZZ_MAX_BYTES = 2 << 20, FUZZ_FILES = 255 };

typedef struct FuzzValue {
    char       key[96];
    RpGgufType type, elem_type;
    uint64_t   n;
    char      *data; /* own memory */
    size_t     bytes;
} FuzzValue;

typedef struct FuzzTensor {
    char     name[96];
    uint32_t type;
    int64_t  ne[RP_MAX_DIMS];
    char    *data; /* own memory */
    size_t   bytes;
} FuzzTensor;

enum { FUZZ_VALUES = 64, FUZZ_TENSORS = 256 };

typedef struct FuzzFile {
    FuzzValue  values[FUZZ_VALUES];
    FuzzTensor tensors[FUZZ_TENSORS];
    int        n_values, n_tensors;
    char      *bytes; /* the file as it is written */
    size_t     n;
} FuzzFile;

/* Files of a NULL-terminated list of paths below tests/golden, without ".gguf". Reads file i modulo their number, or
 * ends the program. The result is owned by this function. */
const RpGgufFile *fuzz_golden(const char *const *list, size_t i);

const char *const       *fuzz_tiny(void);   /* the models of tests/golden/tiny, by name */
const char *const       *fuzz_float(void);  /* those of them without quantised weights */
extern const char *const fuzz_vocabulary[]; /* files that hold a vocabulary only */

/* The file that an input describes; `size` bytes, of which those after the head are edits. Free it with
 * fuzz_file_free. */
void fuzz_file_make(FuzzFile *f, const char *const *list, const uint8_t *data, size_t size);
void fuzz_file_free(FuzzFile *f);

/* The same, of a file that is open; byte 0 of the input is not read. */
void fuzz_file_make_from(FuzzFile *f, const RpGgufFile *from, const uint8_t *data, size_t size);

/* One edit. Edits of bytes are made later, on the written file. */
void fuzz_file_edit(FuzzFile *f, const uint8_t edit[FUZZ_EDIT]);

/* The path of a file in memory, "/dev/shm/fuzz-PID-<name>", and a file of these bytes there. */
void fuzz_path(char path[64], const char *name);
void fuzz_save(const char *path, const void *bytes, size_t n);

/* Ends the program as a finding, with the last error of the library. */
void fuzz_expect(bool ok, const char *what);

/* A mutator for such inputs: changes the head, or adds, removes, copies or changes an edit. */
size_t fuzz_mutate(uint8_t *data, size_t size, size_t room, unsigned seed);

#endif
