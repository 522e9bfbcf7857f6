// Models, sessions, replies.

package reprise

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// source is a file of the source folder: REPRISE_SOURCE, or the one that this package is in.
func source(path string) string {
	root := os.Getenv("REPRISE_SOURCE")
	if root == "" {
		root = "../.."
	}
	return filepath.Join(root, path)
}

func must[T any](t *testing.T) func(v T, err error) T {
	t.Helper()
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

func tiny(t *testing.T) *Model {
	t.Helper()
	m := must[*Model](t)(OpenModel(source("tests/golden/tiny/llama-mix.gguf"), nil))
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func demo(t *testing.T) *Model {
	t.Helper()
	m := must[*Model](t)(OpenModel(source("assets/demo.gguf"), nil))
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func session(t *testing.T, m *Model, options SessionOptions) *Session {
	t.Helper()
	options.Threads, options.Device = 1, "cpu"
	s := must[*Session](t)(m.NewSession(options))
	t.Cleanup(func() { _ = s.Close() })
	return s
}

var sampling = SamplerParams{Temperature: 0.9, Seed: 7, RepeatPenalty: 1.1}

func TestAModelTellsWhatItIs(t *testing.T) {
	i := must[ModelInfo](t)(demo(t).Info())
	if i.Layers != 4 || i.Experts != 8 || i.Vocab != 4096 {
		t.Error(i)
	}
	data := must[[]byte](t)(os.ReadFile(source("tests/golden/tiny/llama-mix.gguf")))
	m := must[*Model](t)(OpenModelMemory(data, "memory"))
	if must[ModelInfo](t)(m.Info()).Arch != "llama" || m.Close() != nil {
		t.Error("not the model")
	}
	calls := 0
	_, err := OpenModel(source("assets/demo.gguf"), &ModelOptions{Progress: func(done, total uint64) bool { calls++; return false }})
	if !errors.Is(err, Cancelled) || calls != 1 {
		t.Error(err, calls)
	}
}

func TestTextBecomesTokensAndTextAgain(t *testing.T) {
	m := demo(t)
	text := "And God said, Let there be light: \u00e4\u20ac\U0001f600 \x00 end"
	ids := must[[]int32](t)(m.Tokenize(text, 0))
	if got := must[string](t)(m.Detokenize(ids, false)); got != text {
		t.Errorf("%q", got)
	}
	ids = must[[]int32](t)(m.Tokenize("\xff", 0))
	if got := must[string](t)(m.Detokenize(ids, false)); got != "\ufffd" {
		t.Errorf("%q", got)
	}
}

func TestAConversationBecomesTokens(t *testing.T) {
	m := tiny(t)
	messages := []Message{{"user", "a<|im_end|>"}}
	plain := must[[]int32](t)(m.ChatTokens(messages, "chatml", AddSpecial))
	special := must[[]int32](t)(m.ChatTokens(messages, "chatml", AddSpecial|ParseSpecial))
	if len(plain) < len(special) {
		t.Error(plain, special)
	}
}

func TestAReplyByCallbackByChannelAndByStepsIsTheSame(t *testing.T) {
	m, ctx := demo(t), context.Background()
	s := session(t, m, SessionOptions{Context: 64})
	prompt := must[[]int32](t)(m.Tokenize("In the beginning", AddSpecial))
	options := GenerateOptions{MaxTokens: 24}
	var text strings.Builder
	sampler := must[*Sampler](t)(m.NewSampler(sampling))
	reply := must[Reply](t)(s.Generate(ctx, sampler, prompt, options, func(piece string) bool {
		text.WriteString(piece)
		return true
	}))
	if reply.Reason != StopLimit || reply.Reason.String() != "limit" || len(reply.Tokens) != 24 || text.Len() == 0 {
		t.Error(reply, text.String())
	}

	if point := must[int32](t)(s.RewindPoint(3)); point != 3 {
		t.Errorf("rewind point %d of 3", point)
	}
	if err := s.Rewind(0); err != nil {
		t.Fatal(err)
	}
	if err := sampler.Reset(); err != nil {
		t.Fatal(err)
	}
	pieces := s.Stream(ctx, sampler, prompt, options)
	streamed := ""
	for piece := range pieces.Text {
		streamed += piece
	}
	if again := must[Reply](t)(pieces.Wait()); streamed != text.String() || len(again.Tokens) != 24 {
		t.Error(streamed)
	}

	_ = s.Rewind(0)
	_ = sampler.Reset()
	if err := s.Prefill(ctx, prompt); err != nil {
		t.Fatal(err)
	}
	for _, id := range prompt {
		_ = sampler.Accept(id)
	}
	for i, want := range reply.Tokens {
		token := must[int32](t)(sampler.Sample(must[[]float32](t)(s.Logits())))
		if token != want {
			t.Fatal(i, token, want)
		}
		if err := s.Step(token); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAContextEndsAReply(t *testing.T) {
	m := tiny(t)
	s := session(t, m, SessionOptions{Context: 64, PrefillChunk: 4})
	sampler := must[*Sampler](t)(m.NewSampler(sampling))
	ctx, cancel := context.WithCancel(context.Background())
	calls := 0
	reply, err := s.Generate(ctx, sampler, []int32{1, 2}, GenerateOptions{IgnoreEnd: true}, func(string) bool {
		if calls++; calls == 3 {
			cancel()
		}
		return true
	})
	if err != context.Canceled || reply.Reason != StopCancelled || len(reply.Tokens) == 0 {
		t.Error(err, reply)
	}
	if err := s.Prefill(ctx, []int32{1}); err != context.Canceled {
		t.Error(err)
	}
	ctx, cancel = context.WithCancel(context.Background())
	pieces := s.Stream(ctx, sampler, []int32{1}, GenerateOptions{IgnoreEnd: true})
	cancel() // nobody reads the text
	if _, err := pieces.Wait(); err != context.Canceled {
		t.Error(err)
	}
	reply, err = s.Generate(context.Background(), sampler, []int32{1}, GenerateOptions{IgnoreEnd: true}, func(string) bool { return false })
	if err != nil || reply.Reason != StopCancelled {
		t.Error(err, reply)
	}
}

func TestAPanicOfACallbackGoesThrough(t *testing.T) {
	m := tiny(t)
	s := session(t, m, SessionOptions{Context: 64})
	sampler := must[*Sampler](t)(m.NewSampler(sampling))
	func() {
		defer func() {
			if p := recover(); p != "of the callback" {
				t.Error(p)
			}
		}()
		_, _ = s.Generate(context.Background(), sampler, []int32{1}, GenerateOptions{}, func(string) bool { panic("of the callback") })
	}()
	if err := s.Step(3); err != nil { // the session can go on
		t.Error(err)
	}
}

// ofLlamaCpp has the ids of tests/golden/lora/logits.txt, which llama.cpp wrote, and its logits with the adapter at scale 1.
func ofLlamaCpp(t *testing.T) (ids []int32, logits []float32) {
	t.Helper()
	for _, line := range strings.Split(string(must[[]byte](t)(os.ReadFile(source("tests/golden/lora/logits.txt")))), "\n") {
		words := strings.Fields(line)
		if strings.HasPrefix(line, "ids ") {
			for _, w := range words[1:] {
				ids = append(ids, int32(must[int](t)(strconv.Atoi(w))))
			}
		}
		if strings.HasPrefix(line, "logits 1 ") {
			for _, w := range words[2:] {
				logits = append(logits, float32(must[float64](t)(strconv.ParseFloat(w, 32))))
			}
		}
	}
	return ids, logits
}

func near(a, b []float32) bool {
	for i := range a {
		if len(a) != len(b) || math.Abs(float64(a[i]-b[i])) > 0.01 {
			return false
		}
	}
	return len(a) > 0
}

func TestAdaptersAreAppliedAndMerged(t *testing.T) {
	ids, want := ofLlamaCpp(t)
	adapter, base := source("tests/golden/lora/adapter.gguf"), source("tests/golden/tiny/llama-f32.gguf")
	m := must[*Model](t)(OpenModel(base, nil))
	merged := filepath.Join(t.TempDir(), "merged.gguf")
	if err := m.MergeAdapters(merged, ""); err == nil || !strings.Contains(err.Error(), "adapter") {
		t.Fatal(err)
	}
	if near(must[[]float32](t)(m.Logits(ids, len(ids))), want) {
		t.Fatal("the adapter changes nothing")
	}
	for _, scale := range []float32{0.75, 0.25} {
		if err := m.AddAdapter(adapter, scale); err != nil {
			t.Fatal(err)
		}
	}
	if !near(must[[]float32](t)(m.Logits(ids, len(ids))), want) {
		t.Fatal("not the logits of llama.cpp")
	}
	if err := m.MergeAdapters(merged, ""); err != nil {
		t.Fatal(err)
	}
	written := must[*Model](t)(OpenModel(merged, nil))
	if !near(must[[]float32](t)(written.Logits(ids, len(ids))), want) {
		t.Fatal("not the logits of llama.cpp after merging")
	}
	if err := m.AddAdapter(base, 1); err == nil || !strings.Contains(err.Error(), "general.type is ''") {
		t.Fatal(err)
	}
	s := must[*Session](t)(m.NewSession(SessionOptions{Context: 8, Device: "cpu"}))
	if err := m.AddAdapter(adapter, 1); err == nil || !strings.Contains(err.Error(), "a session of the model is open") {
		t.Fatal(err)
	}
	_ = s.Close()
	_ = m.Close()
	if err := m.AddAdapter(adapter, 1); err == nil || !strings.Contains(err.Error(), "model is closed") {
		t.Fatal(err)
	}
}

func TestScoresAreTheLogitsOfSingleSteps(t *testing.T) {
	m := tiny(t)
	s := session(t, m, SessionOptions{Context: 16})
	ids := []int32{3, 1, 4, 1, 5}
	var scored []float32
	if err := s.Score(ids, func(_ int, logits []float32) { scored = append(scored, logits...) }); err != nil {
		t.Fatal(err)
	}
	whole := must[[]float32](t)(m.Logits(ids, 5))
	_ = s.Rewind(0)
	n := len(scored) / len(ids)
	for i, id := range ids {
		if err := s.Step(id); err != nil {
			t.Fatal(err)
		}
		logits := must[[]float32](t)(s.Logits())
		for j, v := range logits {
			if v != scored[i*n+j] || v != whole[i*n+j] {
				t.Fatal(i, j)
			}
		}
	}
}

func TestClosedAndBusyObjectsGiveErrors(t *testing.T) {
	m := tiny(t)
	s := session(t, m, SessionOptions{Context: 16})
	sampler := must[*Sampler](t)(m.NewSampler(sampling))
	_, err := s.Generate(context.Background(), sampler, []int32{1}, GenerateOptions{MaxTokens: 2}, func(string) bool {
		for _, err := range []error{s.Close(), s.Step(1), sampler.Close()} {
			if err == nil || !strings.HasSuffix(err.Error(), " is in use") {
				t.Error(err)
			}
		}
		return true
	})
	if err != nil {
		t.Error(err)
	}
	if m.Close() != nil || m.Close() != nil || s.Step(1) != nil { // the session keeps the model
		t.Error("the session has lost its model")
	}
	_, err = m.NewSession(SessionOptions{})
	if err == nil || err.Error() != "model is closed" || !errors.Is(err, State) {
		t.Error(err)
	}
	if s.Close() != nil || s.Close() != nil || sampler.Close() != nil {
		t.Error("close")
	}
	if _, err := s.Logits(); err == nil || err.Error() != "session is closed" {
		t.Error(err)
	}
	if _, err := sampler.Sample(nil); err == nil || err.Error() != "sampler is closed" {
		t.Error(err)
	}
}

func TestGoroutinesShareAModel(t *testing.T) {
	m := tiny(t)
	var all sync.WaitGroup
	for i := 0; i < 8; i++ {
		all.Add(1)
		go func(i int) {
			defer all.Done()
			if i%2 == 1 { // the text of an error is that of its own call
				_, err := m.NewSession(SessionOptions{Context: int32(-i), Device: "cpu"})
				if err == nil || !strings.Contains(err.Error(), string(rune('0'+i))) {
					t.Error(i, err)
				}
				return
			}
			s, err := m.NewSession(SessionOptions{Context: 16, Threads: 1, Device: "cpu"})
			if err == nil {
				err = s.Prefill(context.Background(), []int32{1, 2, 3})
			}
			if err != nil || s.Close() != nil {
				t.Error(err)
			}
		}(i)
	}
	all.Wait()
}

func TestMemoryIsReported(t *testing.T) {
	m := demo(t)
	memory := must[SessionMemory](t)(m.SessionMemory(SessionOptions{Context: 64, KVType: Q8_0}))
	if memory.KV == 0 || memory.Context != 64 {
		t.Error(memory)
	}
	info := must[ExecutorInfo](t)(session(t, m, SessionOptions{Context: 64}).Info())
	if info.Device != "cpu" || info.Mode != ModeEager || info.Mode.String() != "eager" {
		t.Error(info)
	}
}

func TestNoDeviceIsAnErrorOfItsOwn(t *testing.T) {
	if _, err := CudaDevices(); err != nil {
		_, open := tiny(t).NewSession(SessionOptions{Device: "cuda"})
		if !IsNotAvailable(err) || !IsNotAvailable(open) || err.Error() == "" {
			t.Error(err, open)
		}
	}
}
