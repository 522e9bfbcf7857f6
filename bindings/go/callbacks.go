// Go functions that the library calls, and what they belong to.

package reprise

// #include <stdbool.h>
// #include <stddef.h>
// #include <stdint.h>
import "C"

import (
	"context"
	"runtime/cgo"
	"unsafe"
)

// callbacks of one call. The C side holds them by a handle. A panic is kept until the C function has returned, since it must
// not unwind C.
type callbacks struct {
	ctx      context.Context
	progress func(done, total uint64) bool
	prefill  func(done, total int64) bool
	text     func(text string) bool
	logits   func(i int, logits []float32)
	event    func(event ChatEvent) bool
	vocab    int
	panicked any
}

// with runs a call that gets the handle: 0 without callbacks. It goes on with a panic of a callback.
func (c *callbacks) with(f func(handle C.uintptr_t) error) error {
	if c.progress == nil && c.prefill == nil && c.text == nil && c.logits == nil && c.event == nil && c.ctx == nil {
		return f(0)
	}
	handle := cgo.NewHandle(c)
	defer handle.Delete()
	err := f(C.uintptr_t(handle))
	if c.panicked != nil {
		panic(c.panicked)
	}
	return err
}

// runCallback calls one of the callbacks; the answer is false after a panic, and when the context has ended.
func runCallback(handle C.uintptr_t, f func(c *callbacks) bool) (goOn C.bool) {
	c := cgo.Handle(handle).Value().(*callbacks)
	defer func() {
		if p := recover(); p != nil {
			c.panicked, goOn = p, false
		}
	}()
	if c.panicked != nil || c.ctx != nil && c.ctx.Err() != nil {
		return false
	}
	return C.bool(f(c))
}

//export repriseGoProgress
func repriseGoProgress(done, total C.size_t, handle C.uintptr_t) C.bool {
	return runCallback(handle, func(c *callbacks) bool { return c.progress(uint64(done), uint64(total)) })
}

//export repriseGoPrefill
func repriseGoPrefill(done, total C.int64_t, handle C.uintptr_t) C.bool {
	return runCallback(handle, func(c *callbacks) bool { return c.prefill == nil || c.prefill(int64(done), int64(total)) })
}

//export repriseGoText
func repriseGoText(text *C.char, n C.size_t, handle C.uintptr_t) C.bool {
	return runCallback(handle, func(c *callbacks) bool { return c.text == nil || c.text(C.GoStringN(text, C.int(n))) })
}

//export repriseGoLogits
func repriseGoLogits(i C.size_t, logits *C.float, handle C.uintptr_t) {
	runCallback(handle, func(c *callbacks) bool {
		c.logits(int(i), unsafe.Slice((*float32)(logits), c.vocab))
		return true
	})
}

//export repriseGoEvent
func repriseGoEvent(kind C.int, call C.int32_t, text *C.char, n C.size_t, id, name *C.char, handle C.uintptr_t) C.bool {
	return runCallback(handle, func(c *callbacks) bool {
		if kind > C.int(ChatMalformed) {
			return true
		}
		return c.event(ChatEvent{ChatEventKind(kind), int(call), C.GoStringN(text, C.int(n)), C.GoString(id), C.GoString(name)})
	})
}
