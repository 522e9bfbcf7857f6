// One sequence of a model with its KV cache.

package reprise

// #include "shim.h"
// #include <stdlib.h>
import "C"

import (
	"context"
	"runtime"
	"unsafe"
)

// Mode is how the steps of a plan reach a GPU (RpExecMode).
type Mode int

const (
	ModeAuto   Mode = C.RP_MODE_AUTO
	ModeEager  Mode = C.RP_MODE_EAGER
	ModeReplay Mode = C.RP_MODE_REPLAY
	ModeLoop   Mode = C.RP_MODE_LOOP
)

func (m Mode) String() string { return C.GoString(C.rp_mode_name(C.RpExecMode(m))) }

// SessionOptions as in RpSessionOptions; the zero value has the defaults of the library.
type SessionOptions struct {
	Context      int32  // positions of the KV cache; 0: the training context of the model, at most 4096
	Threads      int    // 0: REPRISE_THREADS, or one per core
	PrefillChunk int32  // tokens of the longest chunk of a prefill; 0: 256
	Passes       string // to switch off, such as "-attention"
	KVType       Dtype  // F16 (also 0) or Q8_0
	Device       string // "auto", "cpu", "cuda" or "cuda:N"; "": REPRISE_DEVICE
	RequireCuda  bool   // fail instead of falling back to the CPU
	RequireGraph bool   // fail if the plan cannot be captured
	Mode         Mode
	CountExperts bool
	// The weights to a faster layout on the CPU: "on", "off", "auto" (if it is faster and fits) or "codebook" (auto, for IQ1,
	// IQ2, IQ3 and TQ1_0); "": REPRISE_REPACK or "codebook"
	Repack string
}

// SessionMemory is what a session would allocate, in bytes.
type SessionMemory struct {
	Weights, KV, Arena, Total uint64
	Context                   int32
	RecurrentStates           int32  // the current one included; 0: the model has none
	States                    uint64 // bytes of all of them; part of Total, not of KV
}

// Session is one sequence of a model with its KV cache.
type Session struct {
	guard
	model *Model
	raw   *C.RpSession
	vocab vocab // for grammars
}

// with calls f with the options in C.
func (o SessionOptions) with(f func(c *C.RpSessionOptions) error) error {
	passes, err := optionalCString("rp_session_open", "passes", o.Passes)
	if err != nil {
		return err
	}
	defer free(passes)
	device, err := optionalCString("rp_session_open", "device", o.Device)
	if err != nil {
		return err
	}
	defer free(device)
	repack, err := optionalCString("rp_session_open", "repack", o.Repack)
	if err != nil {
		return err
	}
	defer free(repack)
	return f(&C.RpSessionOptions{
		n_ctx: C.int32_t(o.Context), n_threads: C.int(o.Threads), prefill_chunk: C.int32_t(o.PrefillChunk), passes: passes,
		kv_type: C.RpDtype(o.KVType), device: device, require_cuda: C.bool(o.RequireCuda),
		require_graph: C.bool(o.RequireGraph), mode: C.RpExecMode(o.Mode), count_experts: C.bool(o.CountExperts),
		repack: repack,
	})
}

// NewSession opens a session, which keeps the model open until it is closed.
func (m *Model) NewSession(options SessionOptions) (*Session, error) {
	if err := m.enter(); err != nil {
		return nil, err
	}
	var raw *C.RpSession
	err := options.with(func(o *C.RpSessionOptions) error {
		return call(func() C.RpStatus { return C.rp_session_open(m.raw, o, &raw) })
	})
	if err != nil {
		m.leave()
		return nil, err
	}
	s := &Session{guard: guard{what: "session"}, model: m, raw: raw}
	runtime.SetFinalizer(s, (*Session).Close)
	return s, nil
}

// SessionMemory plans a session without allocating its memory.
func (m *Model) SessionMemory(options SessionOptions) (SessionMemory, error) {
	if err := m.enter(); err != nil {
		return SessionMemory{}, err
	}
	defer m.leave()
	var c C.RpSessionMemory
	err := options.with(func(o *C.RpSessionOptions) error {
		return call(func() C.RpStatus { return C.rp_session_memory(m.raw, o, &c) })
	})
	return SessionMemory{uint64(c.weights), uint64(c.kv), uint64(c.arena), uint64(c.total), int32(c.n_ctx), int32(c.n_states), uint64(c.states)}, err
}

// Close frees the session. It fails while a call uses it.
func (s *Session) Close() error {
	return s.close(func() {
		C.rp_session_free(s.raw)
		s.vocab.free()
		s.model.leave()
	})
}

// Prefill appends tokens to the context; Logits are then those after the last one. A context that ends stops it with the error of
// the context; the chunks that are done stay.
func (s *Session) Prefill(ctx context.Context, tokens []int32) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := ctx.Err(); err != nil {
		return err
	}
	c := &callbacks{ctx: ctx}
	err := c.with(func(handle C.uintptr_t) error {
		return call(func() C.RpStatus {
			return C.reprise_go_prefill(s.raw, (*C.int32_t)(first(tokens)), C.size_t(len(tokens)), handle)
		})
	})
	return causeOf(ctx, err)
}

// causeOf is the error of the context where it has cancelled the call.
func causeOf(ctx context.Context, err error) error {
	if e, ok := err.(*Error); ok && e.Is(Cancelled) && ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// Step appends one token.
func (s *Session) Step(token int32) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	return call(func() C.RpStatus { return C.rp_session_step(s.raw, C.int32_t(token)) })
}

// Logits is a copy of those after the latest token; nil before the first one and after a rewind.
func (s *Session) Logits() ([]float32, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	logits := C.rp_session_logits(s.raw)
	if logits == nil {
		return nil, nil
	}
	return append([]float32(nil), unsafe.Slice((*float32)(logits), s.model.vocab)...), nil
}

// Score appends tokens and calls back with the index of each and the logits after it, which are valid during the call.
func (s *Session) Score(tokens []int32, f func(i int, logits []float32)) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	c := &callbacks{logits: f, vocab: s.model.vocab}
	return c.with(func(handle C.uintptr_t) error {
		return call(func() C.RpStatus {
			return C.reprise_go_score(s.raw, (*C.int32_t)(first(tokens)), C.size_t(len(tokens)), handle)
		})
	})
}

// Past is the number of tokens in the context.
func (s *Session) Past() (int32, error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.leave()
	return int32(C.rp_session_n_past(s.raw)), nil
}

// Context is the number of positions.
func (s *Session) Context() (int32, error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.leave()
	return int32(C.rp_session_n_ctx(s.raw)), nil
}

// Rewind forgets every token at position n and later.
func (s *Session) Rewind(n int32) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	return call(func() C.RpStatus { return C.rp_session_rewind(s.raw, C.int32_t(n)) })
}

// RewindPoint is the position nearest to n, at it or before, to which the session can go back: n itself unless the model
// has recurrent states.
func (s *Session) RewindPoint(n int32) (int32, error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.leave()
	return int32(C.rp_session_rewind_point(s.raw, C.int32_t(n))), nil
}

// Info is the device and launch mode of the decode step.
func (s *Session) Info() (ExecutorInfo, error) {
	if err := s.enter(); err != nil {
		return ExecutorInfo{}, err
	}
	defer s.leave()
	return infoOf(C.rp_session_info(s.raw)), nil
}

// ExecutorInfo says what runs a plan.
type ExecutorInfo struct {
	Device, DeviceName string
	Mode               Mode
	Reason             string // why not the GPU, or not the requested mode; "" without a fallback
	FellBack           bool
	Threads            int
	DeviceBytes        uint64
}

func infoOf(c C.RpExecutorInfo) ExecutorInfo {
	return ExecutorInfo{
		Device: C.GoString(c.device), DeviceName: C.GoString(c.device_name), Mode: Mode(c.mode),
		Reason: C.GoString(c.reason), FellBack: bool(c.fell_back), Threads: int(c.n_threads),
		DeviceBytes: uint64(c.device_bytes),
	}
}
