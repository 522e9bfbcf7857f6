// Data types, rows of f32 in the formats of model files, and writing of such files.

package reprise

// #include "shim.h"
// #include <stdlib.h>
import "C"

import (
	"fmt"
	"unsafe"
)

// Dtype is a data type of tensors (RpDtype).
type Dtype int

const (
	F32  Dtype = C.RP_F32
	F16  Dtype = C.RP_F16
	BF16 Dtype = C.RP_BF16
	I32  Dtype = C.RP_I32
	Q4_0 Dtype = C.RP_Q4_0
	Q8_0 Dtype = C.RP_Q8_0
	Q4_K Dtype = C.RP_Q4_K
	Q6_K Dtype = C.RP_Q6_K
)

func (d Dtype) String() string { return C.GoString(C.rp_dtype_name(C.RpDtype(d))) }

// DtypeFromName is a type by its printed name: "f32", "q4_0", "q6_k", ...
func DtypeFromName(name string) (Dtype, error) {
	for d := Dtype(0); d < C.RP_DTYPE_COUNT; d++ {
		if d.String() == name {
			return d, nil
		}
	}
	return 0, argumentError("%s is no data type", name)
}

// RowBytes are the bytes of a contiguous row of n elements, a whole number of blocks.
func (d Dtype) RowBytes(n int64) int64 { return int64(C.rp_row_bytes(C.RpDtype(d), C.int64_t(n))) }

func (d Dtype) blockElems() int64 {
	info := C.rp_dtype_info(C.RpDtype(d))
	if info == nil {
		return 1
	}
	return int64(info.block_elems)
}

// Quantize quantises x to the blocks of a type; it also converts to f16 and bf16.
func Quantize(d Dtype, x []float32) ([]byte, error) {
	n := int64(len(x))
	out := make([]byte, d.RowBytes((n/d.blockElems()+1)*d.blockElems()))
	err := call(func() C.RpStatus {
		return C.rp_quantize_row(C.RpDtype(d), (*C.float)(first(x)), C.int64_t(n), unsafe.Pointer(first(out)))
	})
	if err != nil {
		return nil, err
	}
	return out[:d.RowBytes(n)], nil
}

// Dequantize turns whole blocks into floats.
func Dequantize(d Dtype, blocks []byte) ([]float32, error) {
	bytes := d.RowBytes(d.blockElems())
	if bytes == 0 || int64(len(blocks))%bytes != 0 {
		return nil, &Error{Code: int(Shape),
			Text: fmt.Sprintf("rp_dequantize_row: %d bytes are no whole blocks of %v", len(blocks), d)}
	}
	out := make([]float32, int64(len(blocks))/bytes*d.blockElems())
	if len(out) > 0 {
		C.rp_dequantize_row(C.RpDtype(d), unsafe.Pointer(first(blocks)), C.int64_t(len(out)), (*C.float)(first(out)))
	}
	return out, nil
}

// Synth writes a model with random weights in the shape of a preset, in a mix such as "Q4_K_M".
func Synth(preset, mix string, seed uint64, path string) error {
	texts, release, err := cStrings("rp_synth", "text", []string{preset, mix, path})
	if err != nil {
		return err
	}
	defer release()
	c := unsafe.Slice(texts, 3)
	return call(func() C.RpStatus {
		return C.rp_synth(c[0], &C.RpSynthOptions{_type: c[1], seed: C.uint64_t(seed)}, c[2])
	})
}

// Requantize copies a model file with its matrices quantised to a mix.
func Requantize(from, to, mix string) error {
	texts, release, err := cStrings("rp_requantize", "text", []string{from, to, mix})
	if err != nil {
		return err
	}
	defer release()
	c := unsafe.Slice(texts, 3)
	return call(func() C.RpStatus { return C.rp_requantize(c[0], c[1], c[2], nil, nil) })
}

// CudaDevices is the number of CUDA devices, at least 1. Without one an error that is not available, with the reason.
func CudaDevices() (int, error) {
	var n C.int
	err := call(func() C.RpStatus { return C.rp_cuda_probe(&n) })
	return int(n), err
}
