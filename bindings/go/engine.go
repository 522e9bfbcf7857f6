// Many requests at a time.

package reprise

// #include "shim.h"
// #include <stdlib.h>
import "C"

import (
	"context"
	"runtime"
	"unsafe"
)

// EngineOptions as in RpEngineOptions; the zero value has the defaults of the library.
type EngineOptions struct {
	Context      int32   // positions of a request; 0: the training context of the model, at most 4096
	Requests     int32   // that run at the same time, 1 to 64; 0: 4
	CacheTokens  int32   // positions of the KV cache; 0: of whole requests
	Block        int32   // positions of a block of the cache, a multiple of 32; 0: 32
	StepTokens   int32   // tokens of the longest step; 0: 256
	StepMs       float64 // while replies are running, prompts are cut so that a step takes no longer; 0: no limit
	Threads      int     // 0: REPRISE_THREADS, or one per core
	Passes       string  // to switch off, such as "-attention"
	KVType       Dtype   // F16 (also 0) or Q8_0
	Device       string  // "auto", "cpu", "cuda" or "cuda:N"; "": REPRISE_DEVICE
	RequireCuda  bool    // fail instead of falling back to the CPU
	RequireGraph bool    // fail if a plan cannot be captured
	StateBytes   uint64  // of recurrent states of prefixes; 0: 256 MiB
	Repack       string  // as in SessionOptions, but "": REPRISE_REPACK, or "auto" with several requests
	Draft        *Model  // or nil: a smaller model of the same vocabulary, which guesses tokens of requests that ask for guesses
	MTP          int32   // tokens that the model's own layer for multi-token prediction guesses at most; 0: 3; -1: it does not guess
}

// EngineMemory is what an engine would allocate, in bytes.
type EngineMemory struct {
	Weights, KV, Arena, States, Total uint64
	Context, Blocks, Block            int32
	RecurrentStates                   int32
	Draft                             uint64 // of the draft model
	WindowBlocks                      int32  // blocks of the caches of layers with a window; 0: no layer has one
	Repack                            uint64 // of the repacked copy of the weights at most, not part of Total
}

// Request is a prompt, and how its reply is made (RpRequest).
type Request struct {
	Prompt       []int32
	Sampler      SamplerParams
	MaxTokens    int32    // 0: until the context is full
	Stop         []string // texts that end the reply; never printed
	IgnoreEnd    bool     // go on after end tokens
	PrintSpecial bool     // print the text of control tokens
	Priority     int32    // higher ones first, -1000 to 1000
	Grammar      *Grammar // or nil: the reply is one of its texts
	Draft        int32    // tokens that a step guesses at most, 0 to 15; the reply stays the same
}

// EngineEvent is a token of a request, or its end (RpEngineEvent).
type EngineEvent struct {
	Request                      uint64 // the number that Add returned
	Token                        int32  // -1 at the end of a request that failed or was cancelled
	Text                         string // complete characters; "" while text is held back
	End                          bool   // the last event of the request
	Reason                       StopReason
	Err                          error // at the end: why the request failed
	Prompt, Cached               int   // tokens of the prompt; and of these, found in the cache
	Generated, Drafted, Accepted int
	QueuedS, FirstTokenS, TotalS float64 // seconds
}

// EngineStats are sums since the engine was opened, and what it holds now (RpEngineStats).
type EngineStats struct {
	Steps, Tokens, Padding, Generated, PromptTokens, Cached, Preempted, Evicted, Drafted, Accepted uint64
	Running, Waiting, Blocks, Used, Kept                                                           int32
	LastStepS                                                                                      float64
	LastStepTokens                                                                                 int32
	WindowBlocks, WindowUsed, WindowKept                                                           int32 // of layers with a window
}

// Engine runs many requests at a time, in one pass over the weights for each step. Each has the tokens that it has alone.
type Engine struct {
	guard
	models   []*Model // that it keeps open
	raw      *C.RpEngine
	samplers map[uint64]*Sampler // of requests whose last event has not come
	matchers map[uint64]matcher  // of the same requests
	vocab    vocab               // for grammars
}

// with calls f with the options in C.
func (o EngineOptions) with(f func(c *C.RpEngineOptions) error) error {
	passes, err := optionalCString("rp_engine_open", "passes", o.Passes)
	if err != nil {
		return err
	}
	defer free(passes)
	device, err := optionalCString("rp_engine_open", "device", o.Device)
	if err != nil {
		return err
	}
	defer free(device)
	repack, err := optionalCString("rp_engine_open", "repack", o.Repack)
	if err != nil {
		return err
	}
	defer free(repack)
	c := &C.RpEngineOptions{
		n_ctx: C.int32_t(o.Context), n_seq: C.int32_t(o.Requests), cache_tokens: C.int32_t(o.CacheTokens),
		block: C.int32_t(o.Block), step_tokens: C.int32_t(o.StepTokens), step_ms: C.double(o.StepMs),
		n_threads: C.int(o.Threads), passes: passes, kv_type: C.RpDtype(o.KVType), device: device,
		require_cuda: C.bool(o.RequireCuda), require_graph: C.bool(o.RequireGraph),
		state_bytes: C.size_t(o.StateBytes), repack: repack, n_mtp: C.int32_t(o.MTP),
	}
	if o.Draft != nil {
		c.draft = o.Draft.raw
	}
	return f(c)
}

// enterAll keeps the model and the draft model open until leaveAll.
func (m *Model) enterAll(options EngineOptions) ([]*Model, error) {
	models := []*Model{m}
	if options.Draft != nil {
		models = append(models, options.Draft)
	}
	for i, model := range models {
		if err := model.enter(); err != nil {
			leaveAll(models[:i])
			return nil, err
		}
	}
	return models, nil
}

func leaveAll(models []*Model) {
	for _, m := range models {
		m.leave()
	}
}

// NewEngine opens an engine, which keeps the model and the draft model open until it is closed.
func (m *Model) NewEngine(options EngineOptions) (*Engine, error) {
	models, err := m.enterAll(options)
	if err != nil {
		return nil, err
	}
	var raw *C.RpEngine
	err = options.with(func(o *C.RpEngineOptions) error {
		return call(func() C.RpStatus { return C.rp_engine_open(m.raw, o, &raw) })
	})
	if err != nil {
		leaveAll(models)
		return nil, err
	}
	e := &Engine{guard: guard{what: "engine"}, models: models, raw: raw, samplers: map[uint64]*Sampler{}, matchers: map[uint64]matcher{}}
	runtime.SetFinalizer(e, (*Engine).Close)
	return e, nil
}

// EngineMemory plans an engine without allocating its memory.
func (m *Model) EngineMemory(options EngineOptions) (EngineMemory, error) {
	models, err := m.enterAll(options)
	if err != nil {
		return EngineMemory{}, err
	}
	defer leaveAll(models)
	var c C.RpEngineMemory
	err = options.with(func(o *C.RpEngineOptions) error {
		return call(func() C.RpStatus { return C.rp_engine_memory(m.raw, o, &c) })
	})
	return EngineMemory{
		Weights: uint64(c.weights), KV: uint64(c.kv), Arena: uint64(c.arena), States: uint64(c.states), Total: uint64(c.total),
		Context: int32(c.n_ctx), Blocks: int32(c.n_blocks), Block: int32(c.block), RecurrentStates: int32(c.n_states),
		Draft: uint64(c.draft), WindowBlocks: int32(c.n_window_blocks), Repack: uint64(c.repack),
	}, err
}

// Close frees the engine and drops the requests that are not finished. It fails while a call uses it.
func (e *Engine) Close() error {
	return e.close(func() {
		C.rp_engine_free(e.raw)
		for _, s := range e.samplers {
			_ = s.Close()
		}
		for _, m := range e.matchers {
			m.free()
		}
		e.vocab.free()
		leaveAll(e.models)
	})
}

// Add queues a request, and returns its number.
func (e *Engine) Add(r Request) (uint64, error) {
	if err := e.enter(); err != nil {
		return 0, err
	}
	defer e.leave()
	sampler, err := e.models[0].NewSampler(r.Sampler)
	if err != nil {
		return 0, err
	}
	held, err := newMatcher(r.Grammar, &e.vocab, e.models[0].raw)
	if err != nil {
		_ = sampler.Close()
		return 0, err
	}
	id, err := e.add(r, sampler, held)
	if err != nil {
		_ = sampler.Close()
		held.free()
		return 0, err
	}
	e.samplers[id], e.matchers[id] = sampler, held
	return id, nil
}

func (e *Engine) add(r Request, sampler *Sampler, held matcher) (uint64, error) {
	stop, release, err := cStrings("rp_engine_add", "stop", r.Stop)
	if err != nil {
		return 0, err
	}
	defer release()
	// in memory of C: the request refers to it
	prompt := (*C.int32_t)(C.calloc(C.size_t(len(r.Prompt)+1), C.sizeof_int32_t))
	defer C.free(unsafe.Pointer(prompt))
	copy(unsafe.Slice((*int32)(prompt), len(r.Prompt)), r.Prompt)
	request := C.RpRequest{
		prompt: prompt, n_prompt: C.size_t(len(r.Prompt)), sampler: sampler.raw, max_tokens: C.int32_t(r.MaxTokens),
		stop: stop, n_stop: C.size_t(len(r.Stop)), ignore_end: C.bool(r.IgnoreEnd), print_special: C.bool(r.PrintSpecial),
		priority: C.int32_t(r.Priority), n_draft: C.int32_t(r.Draft), matcher: held.raw,
	}
	var id C.uint64_t
	err = call(func() C.RpStatus { return C.rp_engine_add(e.raw, &request, &id) })
	return uint64(id), err
}

// Cancel ends a request before the next step. It is an Argument error for one that is not pending.
func (e *Engine) Cancel(request uint64) error {
	if err := e.enter(); err != nil {
		return err
	}
	defer e.leave()
	return call(func() C.RpStatus { return C.rp_engine_cancel(e.raw, C.uint64_t(request)) })
}

// Pending is the number of requests that are queued or running.
func (e *Engine) Pending() (int, error) {
	if err := e.enter(); err != nil {
		return 0, err
	}
	defer e.leave()
	return int(C.rp_engine_pending(e.raw)), nil
}

// Step runs one step, and returns what it brought. After an error it can be tried again.
func (e *Engine) Step() ([]EngineEvent, error) {
	if err := e.enter(); err != nil {
		return nil, err
	}
	defer e.leave()
	if err := call(func() C.RpStatus { return C.rp_engine_step(e.raw) }); err != nil {
		return nil, err
	}
	var events []EngineEvent
	var c C.RpEngineEvent
	for C.rp_engine_poll(e.raw, &c) {
		events = append(events, e.event(&c))
	}
	return events, nil
}

func (e *Engine) event(c *C.RpEngineEvent) EngineEvent {
	event := EngineEvent{
		Request: uint64(c.id), Token: int32(c.token), Text: C.GoStringN(c.text, C.int(c.n_text)), End: bool(c.end),
		Prompt: int(c.n_prompt), Cached: int(c.n_cached), Generated: int(c.n_generated),
		Drafted: int(c.n_drafted), Accepted: int(c.n_accepted),
		QueuedS: float64(c.queued_s), FirstTokenS: float64(c.first_token_s), TotalS: float64(c.total_s),
	}
	if !event.End {
		return event
	}
	if c.status == C.RP_OK {
		event.Reason = StopReason(c.reason)
	} else {
		event.Err = &Error{Code: int(c.status), Text: C.GoString(c.error)}
	}
	if s := e.samplers[event.Request]; s != nil {
		_ = s.Close()
		delete(e.samplers, event.Request)
		e.matchers[event.Request].free()
		delete(e.matchers, event.Request)
	}
	return event
}

// Run runs steps until no request is pending, and calls back with each event; the callback, which may add and cancel requests,
// returns false to stop, and gets no further events of that step. A context that ends stops it before the next step with the
// error of the context. Requests that are pending stay so.
func (e *Engine) Run(ctx context.Context, f func(event EngineEvent) bool) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if n, err := e.Pending(); n == 0 || err != nil {
			return err
		}
		events, err := e.Step()
		if err != nil {
			return err
		}
		for _, event := range events {
			if !f(event) {
				return nil
			}
		}
	}
}

// Stats are sums since the engine was opened, and what it holds now.
func (e *Engine) Stats() (EngineStats, error) {
	if err := e.enter(); err != nil {
		return EngineStats{}, err
	}
	defer e.leave()
	c := C.rp_engine_stats(e.raw)
	return EngineStats{
		Steps: uint64(c.steps), Tokens: uint64(c.tokens), Padding: uint64(c.padding), Generated: uint64(c.generated),
		PromptTokens: uint64(c.prompt_tokens), Cached: uint64(c.cached), Preempted: uint64(c.preempted),
		Evicted: uint64(c.evicted), Drafted: uint64(c.drafted), Accepted: uint64(c.accepted),
		Running: int32(c.running), Waiting: int32(c.waiting), Blocks: int32(c.n_blocks), Used: int32(c.used), Kept: int32(c.kept),
		LastStepS: float64(c.last_step_s), LastStepTokens: int32(c.last_step_tokens),
		WindowBlocks: int32(c.n_window_blocks), WindowUsed: int32(c.window_used), WindowKept: int32(c.window_kept),
	}, nil
}

// Info is the device and launch mode of the step with one token.
func (e *Engine) Info() (ExecutorInfo, error) {
	if err := e.enter(); err != nil {
		return ExecutorInfo{}, err
	}
	defer e.leave()
	return infoOf(C.rp_engine_info(e.raw)), nil
}
