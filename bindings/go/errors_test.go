// The errors of bad input.

package reprise

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
)

func last[T any](_ T, err error) error { return err }

// Bad input gives the codes and texts of bindings/errors.txt, which other languages have too.
func TestBadInputHasTheCodesAndTextsOfTheTable(t *testing.T) {
	table := must[[]byte](t)(os.ReadFile(source("bindings/errors.txt")))
	n := 0
	for _, line := range strings.Split(strings.TrimSpace(string(table)), "\n") {
		name := strings.Split(line, "\t")[0]
		if strings.HasPrefix(line, "#") || strings.HasPrefix(name, "nn_") {
			continue
		}
		var e *Error
		if err := ofCase(t, name); !errors.As(err, &e) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := fmt.Sprintf("%s\treprise\t%d\t%s", name, e.Code, e.Text); got != line || e.Nn {
			t.Errorf("got    %s\nwanted %s", got, line)
		}
		n++
	}
	if n <= 20 {
		t.Error(n)
	}
}

func ofCase(t *testing.T, name string) error {
	nan := float32(math.NaN())
	switch name {
	case "open_missing":
		return last(OpenModel("/nonexistent/model.gguf", nil))
	case "open_nul":
		return last(OpenModel("a\x00b", nil))
	case "open_junk":
		return last(OpenModelMemory([]byte("no model at all, but long enough"), "junk"))
	case "sampler_temperature":
		return last(NewSampler(SamplerParams{Temperature: nan}, 3))
	case "sampler_vocabulary":
		return last(NewSampler(SamplerParams{}, 0))
	case "sample_nan":
		return last(must[*Sampler](t)(NewSampler(SamplerParams{}, 2)).Sample([]float32{nan, nan}))
	case "sample_length":
		return last(must[*Sampler](t)(NewSampler(SamplerParams{}, 2)).Sample(make([]float32, 3)))
	case "token_bytes":
		return last(tiny(t).Detokenize([]int32{-1}, false))
	case "chat_format":
		return last(tiny(t).ChatTokens(nil, "nope", 0))
	case "chat_order":
		return last(tiny(t).ChatTokens([]Message{{"assistant", "no"}}, "chatml", AddSpecial))
	case "chat_role":
		return last(tiny(t).ChatTokens([]Message{{"king", "no"}}, "chatml", AddSpecial))
	case "quantize_block":
		return last(Quantize(Q4_0, make([]float32, 31)))
	case "quantize_nan":
		return last(Quantize(Q8_0, append([]float32{nan}, make([]float32, 31)...)))
	case "quantize_type":
		return last(Quantize(I32, make([]float32, 32)))
	}
	return ofSession(t, name)
}

func ofSession(t *testing.T, name string) error {
	m, ctx := tiny(t), context.Background()
	switch name {
	case "session_context":
		return last(m.NewSession(SessionOptions{Context: -1, Threads: 1, Device: "cpu"}))
	case "session_device":
		return last(m.NewSession(SessionOptions{Context: 8, Threads: 1, Device: "tpu"}))
	case "session_repack":
		return last(m.NewSession(SessionOptions{Context: 8, Threads: 1, Device: "cpu", Repack: "yes"}))
	}
	s := session(t, m, SessionOptions{Context: 8})
	sampler := must[*Sampler](t)(m.NewSampler(SamplerParams{}))
	switch name {
	case "prefill_token":
		return s.Prefill(ctx, []int32{-1})
	case "prefill_nothing":
		return s.Prefill(ctx, nil)
	case "prefill_long":
		return s.Prefill(ctx, []int32{1, 1, 1, 1, 1, 1, 1, 1, 1})
	case "rewind":
		return s.Rewind(1)
	case "generate_stop":
		return last(s.Generate(ctx, sampler, []int32{1}, GenerateOptions{Stop: []string{""}}, nil))
	case "generate_sampler":
		return last(s.Generate(ctx, must[*Sampler](t)(NewSampler(SamplerParams{}, 3)), []int32{1}, GenerateOptions{}, nil))
	case "generate_nothing":
		return last(s.Generate(ctx, sampler, nil, GenerateOptions{}, nil))
	}
	return ofGraph(t, name)
}

func ofGraph(t *testing.T, name string) error {
	cpu := ExecutorOptions{Device: "cpu"}
	g := must[*Graph](t)(NewGraph())
	x := g.Input("x", F32, Shape4{4, 3, 1, 1})
	switch name {
	case "graph_shapes":
		return last(g.Compile(cpu, g.Mul(x, g.MulMat(x, x))))
	case "graph_outputs":
		return last(g.Compile(cpu))
	case "graph_foreign":
		other := must[*Graph](t)(NewGraph())
		return last(g.Compile(cpu, g.Add(x, other.Input("z", F32, Shape4{4, 3, 1, 1}))))
	case "graph_name":
		return last(g.Compile(cpu, g.Add(x, g.Input("a\x00b", F32, Shape4{1, 1, 1, 1}))))
	case "executor_length":
		return Write(must[*Executor](t)(g.Compile(cpu, g.Silu(x))), x, []float32{1})
	case "executor_type":
		y := g.Silu(x)
		return last(Read[int32](must[*Executor](t)(g.Compile(cpu, y)), y))
	}
	return errors.New("errors.txt has a case that this test lacks")
}
