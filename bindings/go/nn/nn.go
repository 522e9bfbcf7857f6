// Package nn has the kernels of the library as plain functions (reprise/nn.h): on slices, and on buffers of a CUDA device.
//
//	err := nn.Softmax(x, y, batch, dim)
//
// Lengths are checked before the call. A size that the library refuses gives the text of the library.
package nn

// #cgo pkg-config: reprise_nn
// #include <reprise/nn.h>
// #include <stdlib.h>
import "C"

import (
	"fmt"
	"math"
	"math/bits"
	"runtime"
	"unsafe"

	"reprise"
)

// Element is what slices and buffers of the functions of reprise/nn.h can hold.
type Element interface {
	float32 | float64 | int8 | uint8 | uint16 | int32 | uint32 | int64 | uint64
}

// array is an argument of a function of reprise/nn.h, and the sizes whose product its length has to be.
type array struct {
	name          string
	address       unsafe.Pointer
	length        int
	bytes         uintptr
	output, given bool
	longer        bool   // the length may be larger
	alias         string // an input that may be the same memory
	dims          []int64
	memory        *memory // of a device, or nil
	stream        *Stream
}

func in[T Element](name string, s []T, dims ...int64) array {
	var zero T
	return array{name: name, address: unsafe.Pointer(first(s)), length: len(s), bytes: uintptr(len(s)) * unsafe.Sizeof(zero),
		given: true, dims: dims}
}

func out[T Element](name string, s []T, dims ...int64) array {
	a := in(name, s, dims...)
	a.output = true
	return a
}

// optional: a nil slice or buffer is not given.
func (a array) optional() array {
	a.given = a.address != nil || a.length > 0 || a.memory != nil
	return a
}

// atLeast: the array may be longer.
func (a array) atLeast() array {
	a.longer = true
	return a
}

// mayBe: the input of that name may be the same memory.
func (a array) mayBe(input string) array {
	a.alias = input
	return a
}

// anyLength: the library checks the length.
func (a array) anyLength() array {
	a.given = false
	return a
}

// count32 refuses a length that is no int32.
func count32(function, name string, length int64) error {
	if length <= math.MaxInt32 {
		return nil
	}
	return argumentError("%s: %s has %d elements, must be at most %d", function, name, length, math.MaxInt32)
}

// size is the product of dims; false if one is negative, or the product too large.
func size(dims ...int64) (int64, bool) {
	product := uint64(1)
	for _, d := range dims {
		high, low := bits.Mul64(product, uint64(d))
		if d < 0 || high != 0 || low > 1<<62 {
			return 0, false
		}
		product = low
	}
	return int64(product), true
}

// rowBytes are the bytes of n elements of a type; negative for no type.
func rowBytes(d, n int64) int64 {
	if n < 0 || d < 0 || reprise.Dtype(d).String() == "?" {
		return -1
	}
	return reprise.Dtype(d).RowBytes(n)
}

// span is the number of elements from the first to the last of count arrays of n elements that begin stride elements after one
// another.
func span(count, stride, n int64) int64 {
	if count < 0 || stride < 0 || n < 0 {
		return -1
	}
	if count == 0 || n == 0 {
		return 0
	}
	return add(mul(count-1, stride), n)
}

// either is a if the flag is not 0, else b.
func either(flag, a, b int64) int64 {
	if flag != 0 {
		return a
	}
	return b
}

// mul, add, sub and div are sizes of expressions; negative if an operand is, or the result too large.
func mul(a, b int64) int64 {
	if product, ok := size(a, b); ok {
		return product
	}
	return -1
}

func add(a, b int64) int64 {
	if a < 0 || b < 0 || a > math.MaxInt64-b {
		return -1
	}
	return a + b
}

func sub(a, b int64) int64 {
	if a < 0 || b < 0 {
		return -1
	}
	return a - b
}

func div(a, b int64) int64 {
	if a < 0 || b <= 0 {
		return -1
	}
	return a / b
}

// check compares the lengths. ok is false if a size is no size: the function is then called without addresses, so that it
// computes nothing and says what it refuses.
func check(function string, arrays []array) (ok bool, err error) {
	for _, a := range arrays {
		if _, ok := size(a.dims...); !ok {
			return false, nil
		}
	}
	for _, a := range arrays {
		wanted, _ := size(a.dims...)
		if !a.given || int64(a.length) == wanted || a.longer && int64(a.length) > wanted {
			continue
		}
		least := ""
		if a.longer {
			least = "at least "
		}
		return false, argumentError("%s: %s has %d elements, must be %s%d", function, a.name, a.length, least, wanted)
	}
	for i, a := range arrays {
		for j, b := range arrays {
			if i == j || !a.output || !overlap(a, b) || a.alias == b.name && a.address == b.address && a.bytes == b.bytes {
				continue
			}
			return false, argumentError("%s: %s overlaps %s", function, a.name, b.name)
		}
	}
	return true, nil
}

func overlap(a, b array) bool {
	p, q := uintptr(a.address), uintptr(b.address)
	return a.bytes > 0 && b.bytes > 0 && p < q+b.bytes && q < p+a.bytes
}

// runOnHost calls a function of reprise/nn.h on host memory. ok is handed to host().
func runOnHost(function string, f func(ok bool) C.int32_t, arrays ...array) error {
	ok, err := check(function, arrays)
	if err != nil {
		return err
	}
	if err := call(func() C.int32_t { return f(ok) }); err != nil {
		return err
	}
	return accepted(function, ok)
}

// accepted: the library takes no size that is none; should it do so, nothing was computed.
func accepted(function string, ok bool) error {
	if ok {
		return nil
	}
	return argumentError("%s: a size is negative or too large", function)
}

// call runs a function of libreprise_nn. The text of an error belongs to the thread.
func call(f func() C.int32_t) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if status := f(); status != C.RP_NN_OK {
		return &reprise.Error{Code: int(status), Nn: true, Text: C.GoString(C.rp_nn_last_error())}
	}
	return nil
}

func argumentError(format string, values ...any) error {
	return &reprise.Error{Code: int(reprise.NnInvalidArgument), Nn: true, Text: fmt.Sprintf(format, values...)}
}

// first is the address of the first element, or nil.
func first[T any](s []T) *T {
	if len(s) == 0 {
		return nil
	}
	return &s[0]
}

// host is the address of a slice for a call.
func host[T Element](s []T, ok bool) unsafe.Pointer {
	if !ok {
		return nil
	}
	return unsafe.Pointer(first(s))
}

// ABIVersion is RP_NN_ABI_VERSION of the library: it is raised when a function changes or goes.
func ABIVersion() int { return int(C.rp_nn_abi_version()) }
