// Engines: each request has the reply that it has alone.

package reprise

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

var prompts = []string{"In the beginning", "And God said", "Jesus", "And it came to pass in those days, that"}

func engine(t *testing.T, m *Model, options EngineOptions) *Engine {
	t.Helper()
	options.Threads, options.Device = 1, "cpu"
	e := must[*Engine](t)(m.NewEngine(options))
	t.Cleanup(func() { _ = e.Close() })
	return e
}

type text struct {
	text   string
	tokens []int32
}

// replies runs the engine to the end.
func replies(t *testing.T, e *Engine) (map[uint64]text, map[uint64]EngineEvent) {
	t.Helper()
	all, ends := map[uint64]text{}, map[uint64]EngineEvent{}
	err := e.Run(context.Background(), func(event EngineEvent) bool {
		r := all[event.Request]
		r.text += event.Text
		if event.Token >= 0 {
			r.tokens = append(r.tokens, event.Token)
		}
		all[event.Request] = r
		if event.End {
			ends[event.Request] = event
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return all, ends
}

func refusedWith(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("%v, not %s", err, text)
	}
}

func TestRequestsHaveTheRepliesThatTheyHaveAlone(t *testing.T) {
	m := demo(t)
	e := engine(t, m, EngineOptions{Context: 128, Requests: 3, StepTokens: 16})
	want, generated := map[uint64]text{}, 0
	for i, prompt := range prompts {
		ids, params := must[[]int32](t)(m.Tokenize(prompt, AddSpecial)), SamplerParams{Temperature: 1, Seed: uint64(i)}
		r := text{}
		s, sampler := session(t, m, SessionOptions{Context: 128}), must[*Sampler](t)(m.NewSampler(params))
		reply := must[Reply](t)(s.Generate(context.Background(), sampler, ids, GenerateOptions{MaxTokens: 20},
			func(piece string) bool { r.text += piece; return true }))
		r.tokens, generated = reply.Tokens, generated+len(reply.Tokens)
		want[must[uint64](t)(e.Add(Request{Prompt: ids, Sampler: params, MaxTokens: 20, Draft: int32(i)}))] = r
	}
	got, ends := replies(t, e)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, not %v", got, want)
	}
	for id, end := range ends {
		if end.Err != nil || end.Reason != StopLimit && end.Reason != StopEndToken || end.Generated != len(got[id].tokens) {
			t.Error(end)
		}
	}
	stats := must[EngineStats](t)(e.Stats())
	if len(ends) != 4 || stats.Running != 0 || stats.Waiting != 0 || stats.Used != 0 || stats.Generated != uint64(generated) {
		t.Error(stats)
	}
	if len(e.samplers) != 0 || must[ExecutorInfo](t)(e.Info()).Device != "cpu" {
		t.Error(e.samplers)
	}
}

func TestPrefixesAreFoundAndRequestsCancelled(t *testing.T) {
	e := engine(t, demo(t), EngineOptions{Context: 128})
	request := Request{MaxTokens: 2, IgnoreEnd: true}
	for i := int32(3); i < 83; i++ {
		request.Prompt = append(request.Prompt, i)
	}
	first := must[uint64](t)(e.Add(request))
	if _, ends := replies(t, e); ends[first].Reason != StopLimit {
		t.Error(ends)
	}
	second := must[uint64](t)(e.Add(request))
	request.MaxTokens = 100
	third := must[uint64](t)(e.Add(request))
	if _, err := e.Step(); err != nil {
		t.Fatal(err)
	}
	if err := e.Cancel(third); err != nil {
		t.Fatal(err)
	}
	_, ends := replies(t, e)
	if end := ends[third]; end.Reason != StopCancelled || end.Token != -1 || ends[second].Cached != 64 {
		t.Error(ends)
	}
	err := e.Cancel(third)
	refusedWith(t, err, "request 3 is not pending")
	if !errors.Is(err, Argument) {
		t.Error(err)
	}
}

func TestRequestsAreAddedBetweenEventsAndAContextEndsThem(t *testing.T) {
	e := engine(t, tiny(t), EngineOptions{Context: 64})
	first := must[uint64](t)(e.Add(Request{Prompt: []int32{1, 2}, IgnoreEnd: true}))
	ctx, cancel := context.WithCancel(context.Background())
	n := 0
	err := e.Run(ctx, func(event EngineEvent) bool {
		if n++; n == 1 {
			must[uint64](t)(e.Add(Request{Prompt: []int32{3}, MaxTokens: 2, IgnoreEnd: true}))
		}
		if event.End {
			cancel()
		}
		return true
	})
	if err != context.Canceled || must[int](t)(e.Pending()) != 1 || e.Cancel(first) != nil {
		t.Error(err)
	}
	stopped := 0
	if err := e.Run(context.Background(), func(EngineEvent) bool { stopped++; return false }); err != nil || stopped != 1 {
		t.Error(err, stopped)
	}
}

func TestBadRequestsAreRefused(t *testing.T) {
	m := demo(t)
	refusedWith(t, last(m.NewEngine(EngineOptions{Requests: 65})), "n_seq of an engine is 65: must be from 1 to 64")
	refusedWith(t, last(m.EngineMemory(EngineOptions{Requests: 65})), "n_seq of an engine is 65: must be from 1 to 64")
	e := engine(t, m, EngineOptions{Context: 64})
	refusedWith(t, last(e.Add(Request{Prompt: make([]int32, 65)})), "a prompt of 65 tokens does not fit: a sequence holds 64")
	refusedWith(t, last(e.Add(Request{Prompt: []int32{5}, Draft: 16})), "guesses of 16 tokens: must be from 0 to 15")
	refusedWith(t, last(e.Add(Request{Prompt: []int32{5}, Stop: []string{"a\x00b"}})), "rp_engine_add: stop contains a NUL byte")
	refusedWith(t, last(e.Add(Request{})), "prompt")
	must[uint64](t)(e.Add(Request{Prompt: []int32{5}, MaxTokens: 3})) // dropped with the engine
	if must[int](t)(e.Pending()) != 1 || m.Close() != nil || e.Close() != nil || e.Close() != nil {
		t.Error("pending or close")
	}
	_, err := e.Step()
	refusedWith(t, err, "engine is closed")
	refusedWith(t, last(m.NewEngine(EngineOptions{})), "model is closed")
	refusedWith(t, last(tiny(t).NewEngine(EngineOptions{Draft: m})), "model is closed")
}

func TestADraftModelChangesNoToken(t *testing.T) {
	m, draft := demo(t), demo(t)
	var all []map[uint64]text
	for _, guess := range []*Model{nil, draft} {
		options := EngineOptions{Context: 64, Requests: 2, Draft: guess}
		if memory := must[EngineMemory](t)(m.EngineMemory(options)); (memory.Draft > 0) != (guess != nil) {
			t.Error(memory)
		}
		e := engine(t, m, options)
		if guess != nil {
			_ = draft.Close() // the engine keeps it
		}
		for _, prompt := range prompts[:2] {
			must[uint64](t)(e.Add(Request{Prompt: must[[]int32](t)(m.Tokenize(prompt, AddSpecial)), MaxTokens: 16, Draft: 4}))
		}
		got, _ := replies(t, e)
		all = append(all, got)
		if stats := must[EngineStats](t)(e.Stats()); guess != nil && (stats.Accepted != stats.Drafted || stats.Drafted == 0) {
			t.Error(stats)
		}
	}
	if !reflect.DeepEqual(all[0], all[1]) {
		t.Error(all)
	}
	refusedWith(t, last(m.NewEngine(EngineOptions{Context: 64, Draft: tiny(t)})), "the draft model has another vocabulary")
}

func TestAnEngineThatIsForgottenIsFreed(t *testing.T) {
	m := tiny(t)
	func() {
		e := must[*Engine](t)(m.NewEngine(EngineOptions{Context: 32, Threads: 1, Device: "cpu"}))
		must[uint64](t)(e.Add(Request{Prompt: []int32{1}}))
	}()
	for i := 0; i < 100; i++ {
		runtime.GC()
		m.mu.Lock()
		users := m.users
		m.mu.Unlock()
		if users == 0 {
			return
		}
		runtime.Gosched()
	}
	t.Error("the engine is still open")
}
