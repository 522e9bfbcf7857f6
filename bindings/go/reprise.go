// Package reprise decodes language models with libreprise.
//
//	model, err := reprise.OpenModel("model.gguf", nil)
//	session, err := model.NewSession(reprise.SessionOptions{Context: 2048})
//	sampler, err := model.NewSampler(reprise.SamplerParams{Temperature: 0.8})
//	prompt, err := model.Tokenize("In the beginning", reprise.AddSpecial)
//	reply, err := session.Generate(ctx, sampler, prompt, reprise.GenerateOptions{MaxTokens: 64},
//		func(text string) bool { fmt.Print(text); return true })
//
// Failures are an *Error with the code and the text of the library. Everything that is opened has a Close, which may be called
// again; a closed object gives an error. A Model may be used by any number of goroutines; a Session, an Engine, a Sampler or
// an Executor by one at a time: a second one gets an error, and does not wait.
package reprise

// #cgo pkg-config: reprise reprise_nn
// #include <reprise/reprise.h>
// #include <reprise/nn.h>
// #include <stdlib.h>
import "C"

import (
	"runtime"
	"strings"
	"sync"
	"unsafe"
)

// Version is the version of the library that is running.
func Version() string { return C.GoString(C.rp_version()) }

// call runs a function of libreprise. The text of an error belongs to the thread.
func call(f func() C.RpStatus) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if status := f(); status != C.RP_OK {
		return &Error{Code: int(status), Text: C.GoString(C.rp_last_error())}
	}
	return nil
}

// cString copies an argument to C memory, which the caller frees.
func cString(function, argument, text string) (*C.char, error) {
	if strings.IndexByte(text, 0) >= 0 {
		return nil, argumentError("%s: %s contains a NUL byte", function, argument)
	}
	return C.CString(text), nil
}

// optionalCString is NULL for an empty text.
func optionalCString(function, argument, text string) (*C.char, error) {
	if text == "" {
		return nil, nil
	}
	return cString(function, argument, text)
}

func free(text *C.char) { C.free(unsafe.Pointer(text)) }

// first is the address of the first element, or nil.
func first[T any](s []T) *T {
	if len(s) == 0 {
		return nil
	}
	return &s[0]
}

// guard keeps an object that one goroutine at a time may use from being used by two, or after Close.
type guard struct {
	what   string
	mu     sync.Mutex
	closed bool
}

// enter fails if the object is closed or in use; otherwise leave must follow.
func (g *guard) enter() error {
	if !g.mu.TryLock() {
		return &Error{Code: int(State), Text: g.what + " is in use"}
	}
	if g.closed {
		g.mu.Unlock()
		return &Error{Code: int(State), Text: g.what + " is closed"}
	}
	return nil
}

func (g *guard) leave() { g.mu.Unlock() }

// close runs release, once. It fails while the object is in use.
func (g *guard) close(release func()) error {
	if !g.mu.TryLock() {
		return &Error{Code: int(State), Text: g.what + " is in use"}
	}
	defer g.mu.Unlock()
	if !g.closed {
		g.closed = true
		release()
	}
	return nil
}
