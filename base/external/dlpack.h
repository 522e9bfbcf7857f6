/* dlpack.h - the memory layout of DLPack, as version 1.1 publishes it (github.com/dmlc/dlpack). Major version 1 keeps
 * these layouts; the unversioned struct is that of all versions before. Strides count elements, outermost dimension
 * first; NULL strides: row-major and contiguous. Element 0 lies at data + byte_offset. */
#ifndef BASE_EXTERNAL_DLPACK_H
#define BASE_EXTERNAL_DLPACK_H

#include <stdint.h>

enum { DLPACK_MAJOR = 1, DLPACK_MINOR = 1 };

/* Types of devices; others exist. */
enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3 };

/* Codes of element types; others exist. */
enum { DL_INT = 0, DL_FLOAT = 2, DL_BFLOAT = 4 };

enum { DL_FLAG_READ_ONLY = 1 };

typedef struct DlDevice {
    int32_t type, id;
} DlDevice;

typedef struct DlDataType {
    uint8_t  code, bits;
    uint16_t lanes;
} DlDataType;

typedef struct DlTensor {
    void      *data;
    DlDevice   device;
    int32_t    ndim;
    DlDataType dtype;
    int64_t   *shape, *strides;
    uint64_t   byte_offset;
} DlTensor;

struct DLManagedTensor {
    DlTensor tensor;
    void    *manager;
    void (*deleter)(struct DLManagedTensor *self); /* or NULL */
};

/* A reader of another major version may use nothing behind `deleter`. */
struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void    *manager;
    void (*deleter)(struct DLManagedTensorVersioned *self); /* or NULL */
    uint64_t flags;
    DlTensor tensor;
};

#endif
