// Graphs without a model.

package reprise

import (
	"errors"
	"math"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

var onCPU = ExecutorOptions{Threads: 1, Device: "cpu"}

// y = silu(w x) * x, as in examples/graph.c
func TestAGraphComputes(t *testing.T) {
	g := must[*Graph](t)(NewGraph())
	x := g.Input("x", F32, Shape4{4, 1, 1, 1})
	w := g.Weight("w", []float32{1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 3, 0, 1, 1, 1, 1}, Shape4{4, 4, 1, 1})
	y := g.Mul(g.Silu(g.MulMat(w, x)), x)
	g.SetName(y, "y")
	e := must[*Executor](t)(g.Compile(onCPU, y))
	in := []float32{1, 2, 3, 4}
	if err := Write(e, x, in); err != nil {
		t.Fatal(err)
	}
	if err := e.Run(); err != nil {
		t.Fatal(err)
	}
	got := must[[]float32](t)(Read[float32](e, y))
	for i, v := range []float64{1, 4, 9, 10} {
		if want := v / (1 + math.Exp(-v)) * float64(in[i]); math.Abs(float64(got[i])-want) > 1e-5 {
			t.Error(i, got[i], want)
		}
	}
	if text := must[string](t)(g.Dump(DumpText)); !strings.Contains(text, "silu") {
		t.Error(text)
	}
	if info := must[ExecutorInfo](t)(e.Info()); info.Device != "cpu" {
		t.Error(info)
	}
	if err := g.Close(); err == nil || err.Error() != "graph belongs to an executor" {
		t.Error(err)
	}
	if _, err := g.Compile(onCPU, y); !errors.Is(err, State) {
		t.Error(err)
	}
	if e.Close() != nil || e.Close() != nil {
		t.Error("close")
	}
	if err := e.Run(); err == nil || err.Error() != "executor is closed" {
		t.Error(err)
	}
	if _, err := g.Dump(DumpText); err == nil {
		t.Error("a closed graph was dumped")
	}
}

func TestStatesKeepTheirContentsAndWeightsCanBeQuantised(t *testing.T) {
	row, ones, sum := make([]float32, 64), make([]float32, 64), float32(0)
	for i := range row {
		row[i], ones[i] = float32(i)/64, 1
		sum += row[i]
	}
	g := must[*Graph](t)(NewGraph())
	x := g.Input("x", F32, Shape4{64, 1, 1, 1})
	state := g.State("s", F32, Shape4{1, 1, 1, 1})
	w := g.WeightQuantized("w", Q8_0, must[[]byte](t)(Quantize(Q8_0, row)), Shape4{64, 1, 1, 1})
	out := g.Scale(g.Store(g.Add(g.MulMat(w, x), state), state, Node{}), 1, 0)
	e := must[*Executor](t)(g.Compile(onCPU, out))
	if Write(e, x, ones) != nil || e.Run() != nil || e.Run() != nil {
		t.Fatal("run")
	}
	got := must[[]float32](t)(Read[float32](e, out))[0]
	if math.Abs(float64(got-2*sum)) > 0.5 || must[[]float32](t)(Read[float32](e, state))[0] != got {
		t.Error(got, sum)
	}
}

func TestMemoryOfTheCallerIsUsedWhereItLies(t *testing.T) {
	memory := must[[]byte](t)(syscall.Mmap(-1, 0, 4096, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE))
	defer syscall.Munmap(memory)
	floats := unsafe.Slice((*float32)(unsafe.Pointer(&memory[0])), 8)
	w, x, y := floats[:4], floats[4:6], floats[6:]
	copy(floats, []float32{1, 0, 0, 2, 3, 4})
	tensor := func(name string, data []float32, ne Shape4, readOnly bool) *External {
		return must[*External](t)(NewExternal(name, F32, unsafe.Pointer(&data[0]), ne, readOnly))
	}
	g := must[*Graph](t)(NewGraph())
	xn := g.Input("x", F32, Shape4{2, 1, 1, 1})
	yn := g.MulMat(g.WeightExternal("w", tensor("w", w, Shape4{2, 2, 1, 1}, true)), xn)
	e := must[*Executor](t)(g.Compile(onCPU, yn))
	xt, yt := tensor("x", x, Shape4{2, 1, 1, 1}, true), tensor("y", y, Shape4{2, 1, 1, 1}, false)
	if e.Bind(xn, xt) != nil || e.Bind(yn, yt) != nil || e.Run() != nil || y[0] != 3 || y[1] != 8 {
		t.Error(y)
	}
	w[0] = 10
	if e.Run() != nil || y[0] != 30 {
		t.Error(y)
	}
	if err := e.Bind(yn, xt); err == nil || !strings.Contains(err.Error(), "external tensor 'x' f32 [2] is for reading only") {
		t.Error(err)
	}
	x[0] = 1
	if e.Bind(yn, nil) != nil || e.Run() != nil || must[[]float32](t)(Read[float32](e, yn))[0] != 10 || y[0] != 30 {
		t.Error(y)
	}
	if _, err := NewExternal("q", F32, unsafe.Pointer(&y[0]), Shape4{0, 1, 1, 1}, false); err == nil ||
		!strings.Contains(err.Error(), "external tensor 'q' f32 [0]: dimensions must be positive") {
		t.Error(err)
	}
	xt.Close()
	yt.Close()
	e.Close()
}

func TestAWeightOfAnotherLengthIsRefused(t *testing.T) {
	g := must[*Graph](t)(NewGraph())
	y := g.MulMat(g.Weight("w", []float32{1, 2, 3}, Shape4{2, 2, 1, 1}), g.Input("x", F32, Shape4{2, 1, 1, 1}))
	if _, err := g.Compile(onCPU, y); err == nil || !strings.Contains(err.Error(), "w has 12 bytes") {
		t.Error(err)
	}
}

func TestTypesHaveNamesAndSizes(t *testing.T) {
	for d := Dtype(0); d.String() != "?"; d++ {
		if again, err := DtypeFromName(d.String()); err != nil || again != d {
			t.Error(d, again, err)
		}
	}
	if Q8_0.RowBytes(64) != 68 {
		t.Error(Q8_0.RowBytes(64))
	}
	blocks := must[[]byte](t)(Quantize(Q8_0, []float32{31: 31}))
	if x := must[[]float32](t)(Dequantize(Q8_0, blocks)); math.Abs(float64(x[31]-31)) > 0.2 {
		t.Error(x[31])
	}
}
