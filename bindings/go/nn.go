package reprise

// #include <reprise/reprise.h>
// #include <reprise/nn.h>
import "C"

import (
	"math/bits"
	"runtime"
	"unsafe"
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

// mayBe: the input of that name may be the same memory.
func (a array) mayBe(input string) array {
	a.alias = input
	return a
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
	if d < 0 || d >= C.RP_DTYPE_COUNT || n < 0 {
		return -1
	}
	return Dtype(d).RowBytes(n)
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
		if wanted, _ := size(a.dims...); a.given && int64(a.length) != wanted {
			return false, nnArgumentError("%s: %s has %d elements, %d are wanted", function, a.name, a.length, wanted)
		}
	}
	for i, a := range arrays {
		for j, b := range arrays {
			if i == j || !a.output || !overlap(a, b) || a.alias == b.name && a.address == b.address && a.bytes == b.bytes {
				continue
			}
			return false, nnArgumentError("%s: %s overlaps %s", function, a.name, b.name)
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
	if err := callNn(func() C.int32_t { return f(ok) }); err != nil {
		return err
	}
	return accepted(function, ok)
}

// accepted: the library takes no size that is none; should it do so, nothing was computed.
func accepted(function string, ok bool) error {
	if ok {
		return nil
	}
	return nnArgumentError("%s: a size is negative or too large", function)
}

// callNn runs a function of libreprise_nn. The text of an error belongs to the thread.
func callNn(f func() C.int32_t) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if status := f(); status != C.RP_NN_OK {
		return &Error{Code: int(status), Nn: true, Text: C.GoString(C.rp_nn_last_error())}
	}
	return nil
}

// host is the address of a slice for a call.
func host[T Element](s []T, ok bool) unsafe.Pointer {
	if !ok {
		return nil
	}
	return unsafe.Pointer(first(s))
}

// NnABIVersion is RP_NN_ABI_VERSION of the library: it is raised when a function changes or goes.
func NnABIVersion() int { return int(C.rp_nn_abi_version()) }
