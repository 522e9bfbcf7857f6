// Memory and streams of CUDA devices.

package nn

// #include "shim.h"
import "C"

import (
	"runtime"
	"sync"
	"unsafe"

	"reprise"
)

// Devices is the number of CUDA devices, at least 1. Without one an error that is not available.
func Devices() (int, error) {
	var n C.int32_t
	err := call(func() C.int32_t { return C.rp_nn_device_count(&n) })
	return int(n), err
}

// DeviceInfo describes a CUDA device.
type DeviceInfo struct {
	Name                  string
	Major, Minor          int // compute capability
	Multiprocessors       int
	FreeBytes, TotalBytes int64
}

// Device describes CUDA device index.
func Device(index int32) (DeviceInfo, error) {
	var name [256]C.char
	var major, minor, sm C.int32_t
	var free, total C.int64_t
	err := call(func() C.int32_t {
		if st := C.rp_nn_device_name(C.int32_t(index), &name[0], 256); st != C.RP_NN_OK {
			return st
		}
		if st := C.rp_nn_device_properties(C.int32_t(index), &major, &minor, &sm); st != C.RP_NN_OK {
			return st
		}
		return C.rp_nn_device_memory(C.int32_t(index), &free, &total)
	})
	return DeviceInfo{C.GoString(&name[0]), int(major), int(minor), int(sm), int64(free), int64(total)}, err
}

// Stream is a stream of a CUDA device, with its buffers and the functions of reprise/nn.h on them. Calls return when the work is
// enqueued, and run in order; errors of a kernel while it runs are reported by Sync. Buffers belong to one stream, so work of
// two streams never meets in one. Any goroutine may use it.
type Stream struct {
	mu      sync.Mutex
	raw     unsafe.Pointer
	device  C.int32_t
	closed  bool
	buffers map[*memory]struct{}
}

// memory of a device. Once it is closed its address is nil.
type memory struct {
	address unsafe.Pointer
	closed  bool
}

// Buffer is memory of a device.
type Buffer[T Element] struct {
	memory *memory
	length int
	stream *Stream
}

// NewStream makes a stream of device index.
func NewStream(index int32) (*Stream, error) {
	s := &Stream{device: C.int32_t(index), buffers: map[*memory]struct{}{}}
	if err := s.on(func() C.int32_t { return C.rp_nn_stream_create(&s.raw) }); err != nil {
		return nil, err
	}
	runtime.SetFinalizer(s, (*Stream).Close)
	return s, nil
}

// on calls f on a thread whose device is that of the stream.
func (s *Stream) on(f func() C.int32_t) error {
	return call(func() C.int32_t {
		var current C.int32_t
		if st := C.rp_nn_device_get(&current); st != C.RP_NN_OK {
			return st
		}
		if current != s.device {
			if st := C.rp_nn_device_set(s.device); st != C.RP_NN_OK {
				return st
			}
		}
		return f()
	})
}

// run calls a function of reprise/nn.h on buffers of the stream. ok is handed to device().
func (s *Stream) run(function string, f func(ok bool) C.int32_t, arrays ...array) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errStreamClosed
	}
	for i, a := range arrays {
		if a.memory == nil {
			continue
		}
		if a.stream != s {
			return argumentError("%s: %s belongs to another stream", function, a.name)
		}
		if a.memory.closed {
			return argumentError("%s: %s is closed", function, a.name)
		}
		arrays[i].address = a.memory.address
	}
	ok, err := check(function, arrays)
	if err != nil {
		return err
	}
	if err := s.on(func() C.int32_t { return f(ok) }); err != nil {
		return err
	}
	return accepted(function, ok)
}

var errStreamClosed = &reprise.Error{Code: int(reprise.NnInvalidArgument), Nn: true, Text: "stream is closed"}

// Sync waits for all work of the stream, and returns the first failure of a kernel.
func (s *Stream) Sync() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sync()
}

func (s *Stream) sync() error {
	if s.closed {
		return errStreamClosed
	}
	return s.on(func() C.int32_t { return C.rp_nn_stream_sync(s.raw) })
}

// Close waits for the work of the stream, and frees it and its buffers.
func (s *Stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	for m := range s.buffers {
		_ = s.release(m)
	}
	err := s.on(func() C.int32_t { return C.rp_nn_stream_destroy(s.raw) })
	s.closed = true
	return err
}

// release frees a buffer; the library waits for the device first.
func (s *Stream) release(m *memory) error {
	if m.closed {
		return nil
	}
	err := s.on(func() C.int32_t { return C.rp_nn_free(m.address) })
	m.address, m.closed = nil, true
	delete(s.buffers, m)
	return err
}

// NewBuffer is memory for a number of elements, with undefined contents.
func NewBuffer[T Element](s *Stream, length int) (*Buffer[T], error) {
	var zero T
	m, err := s.allocate(length, int(unsafe.Sizeof(zero)))
	if err != nil {
		return nil, err
	}
	return &Buffer[T]{m, length, s}, nil
}

func (s *Stream) allocate(length, elementBytes int) (*memory, error) {
	bytes, ok := size(int64(length), int64(elementBytes))
	if !ok {
		return nil, argumentError("malloc: %d elements", length)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errStreamClosed
	}
	m := &memory{}
	if err := s.on(func() C.int32_t { return C.rp_nn_malloc(C.int64_t(bytes), &m.address) }); err != nil {
		return nil, err
	}
	s.buffers[m] = struct{}{}
	return m, nil
}

// Upload is a buffer with a copy of data.
func Upload[T Element](s *Stream, data []T) (*Buffer[T], error) {
	b, err := NewBuffer[T](s, len(data))
	if err != nil {
		return nil, err
	}
	return b, b.Write(data)
}

// Len is the number of elements; 0 for a nil buffer.
func (b *Buffer[T]) Len() int {
	if b == nil {
		return 0
	}
	return b.length
}

// Write copies data, of the same length, to the device, after the work that is enqueued. It returns when that is done.
func (b *Buffer[T]) Write(data []T) error {
	return b.copy("copy_to_device", data, func(bytes C.int64_t) C.int32_t {
		return C.reprise_go_write(b.memory.address, unsafe.Pointer(first(data)), bytes, b.stream.raw)
	})
}

// Read copies the contents to data, of the same length, after the work that is enqueued.
func (b *Buffer[T]) Read(data []T) error {
	return b.copy("copy_to_host", data, func(bytes C.int64_t) C.int32_t {
		return C.reprise_go_read(unsafe.Pointer(first(data)), b.memory.address, bytes, b.stream.raw)
	})
}

func (b *Buffer[T]) copy(function string, data []T, f func(bytes C.int64_t) C.int32_t) error {
	var zero T
	s := b.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errStreamClosed
	}
	if b.memory.closed {
		return argumentError("%s: buffer is closed", function)
	}
	if len(data) != b.length {
		return argumentError("%s: %d elements for a buffer of %d", function, len(data), b.length)
	}
	return s.on(func() C.int32_t { return f(C.int64_t(uintptr(b.length) * unsafe.Sizeof(zero))) })
}

// Close frees the buffer when the device no longer uses it.
func (b *Buffer[T]) Close() error {
	b.stream.mu.Lock()
	defer b.stream.mu.Unlock()
	return b.stream.release(b.memory)
}

func inOn[T Element](name string, b *Buffer[T], dims ...int64) array {
	a := array{name: name, length: b.Len(), given: true, dims: dims}
	if b != nil {
		var zero T
		a.memory, a.stream, a.bytes = b.memory, b.stream, uintptr(b.length)*unsafe.Sizeof(zero)
	}
	return a
}

func outOn[T Element](name string, b *Buffer[T], dims ...int64) array {
	a := inOn(name, b, dims...)
	a.output = true
	return a
}

// device is the address of a buffer for a call.
func device[T Element](b *Buffer[T], ok bool) unsafe.Pointer {
	if b == nil || !ok {
		return nil
	}
	return b.memory.address
}
