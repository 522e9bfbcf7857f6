// The functions of reprise/nn.h: on slices, and on a device where there is one.

package nn

import (
	"math"
	"testing"

	"reprise"
)

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

func TestFunctionsCompute(t *testing.T) {
	x, y := []float32{1, 2, 3, 4, -1, 0}, make([]float32, 6)
	if err := Softmax(x, y, 2, 3); err != nil || math.Abs(float64(y[0]+y[1]+y[2]-1)) > 1e-6 {
		t.Error(err, y)
	}
	z := append([]float32(nil), x...)
	if err := Softmax(z, z, 2, 3); err != nil || z[0] != y[0] { // in place
		t.Error(err, z)
	}
	if err := Rmsnorm(x, nil, y, 1, 6, 0); err != nil {
		t.Error(err)
	}
	values, ids := make([]float32, 4), make([]int32, 4)
	if err := Topk(x, values, ids, 2, 3, 2); err != nil || values[0] != 3 || ids[0] != 2 || ids[3] != 2 {
		t.Error(err, values, ids)
	}
	if err := Silu(nil, nil); err != nil {
		t.Error(err)
	}
	for _, err := range []error{Silu(x[:4], x[1:5]), Add(x, z, z)} {
		if err == nil || !err.(*reprise.Error).Nn {
			t.Error("overlap", err)
		}
	}
	if err := Add(x, z, x); err != nil { // y may be a
		t.Error(err)
	}
	if ABIVersion() < 1 {
		t.Error(ABIVersion())
	}
}

const q8 = int32(reprise.Q8_0)

// product is a matrix [2,32] of q8_0, a vector, and their product.
func product(t *testing.T) (blocks []byte, x, wanted []float32) {
	w, x, wanted := make([]float32, 64), make([]float32, 32), make([]float32, 2)
	for i := range w {
		w[i], x[i%32] = float32(math.Cos(float64(i))), float32(math.Sin(float64(i%32)))
	}
	for i := range w {
		wanted[i/32] += w[i] * x[i%32]
	}
	blocks = make([]byte, must[int64](t)(QuantizedBytes(q8, 64)))
	if err := Quantize(q8, w, blocks); err != nil {
		t.Fatal(err)
	}
	return blocks, x, wanted
}

func near(t *testing.T, err error, got, wanted []float32) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if math.Abs(float64(got[i]-wanted[i])) > 0.2 {
			t.Fatal(got, wanted)
		}
	}
}

func TestQuantisedProductsAndGradients(t *testing.T) {
	blocks, x, wanted := product(t)
	y := make([]float32, 2)
	near(t, GemvQ(q8, blocks, x, y, 2, 32), y, wanted)
	grad, sums := []float32{3, 4}, make([]float32, 1028)
	if err := GradNorm(grad, sums, 1); err != nil {
		t.Fatal(err)
	}
	near(t, GradClip(grad, sums, 1), grad, []float32{0.6, 0.8}) // the sums are the norm too
	if err := GemvQ(99, blocks, x, y, 2, 32); err == nil {
		t.Error("type 99")
	}
}

// On the simulated device in the gate.
func TestTheDeviceGivesWhatTheHostGives(t *testing.T) {
	s, err := NewStream(0)
	if err != nil {
		if _, count := Devices(); !reprise.IsNotAvailable(err) || !reprise.IsNotAvailable(count) {
			t.Error(err, count)
		}
		return
	}
	data, want, got := make([]float32, 1000), make([]float32, 1000), make([]float32, 1000)
	for i := range data {
		data[i] = float32(math.Sin(float64(i)))
	}
	x := must[*Buffer[float32]](t)(Upload(s, data))
	y := must[*Buffer[float32]](t)(NewBuffer[float32](s, 1000))
	if err := s.Silu(x, y); err != nil || y.Read(got) != nil || Silu(data, want) != nil {
		t.Fatal(err)
	}
	for i := range got {
		if math.Abs(float64(got[i]-want[i])) > 1e-5 {
			t.Fatal(i, got[i], want[i])
		}
	}
	blocks, v, wanted := product(t)
	planes, sum := make([]byte, len(blocks)), make([]float32, 2)
	if err := Repack(q8, blocks, planes, 64); err != nil { // as a device wants them
		t.Fatal(err)
	}
	workspace := must[*Buffer[byte]](t)(NewBuffer[byte](s, int(must[int64](t)(s.GemvQWorkspace(q8, 2, 32)))))
	w, d := must[*Buffer[byte]](t)(Upload(s, planes)), must[*Buffer[float32]](t)(Upload(s, v))
	p := must[*Buffer[float32]](t)(NewBuffer[float32](s, 2))
	near(t, s.GemvQ(q8, w, d, p, 2, 32, workspace), nil, nil)
	near(t, p.Read(sum), sum, wanted)
	other := must[*Stream](t)(NewStream(0))
	z := must[*Buffer[float32]](t)(NewBuffer[float32](other, 1000))
	expect := func(err error, text string) {
		t.Helper()
		if err == nil || err.Error() != text {
			t.Error(err)
		}
	}
	expect(s.Silu(x, z), "silu: y belongs to another stream")
	expect(s.Softmax(x, y, 10, 10), "softmax: x has 1000 elements, must be 100")
	if err := s.Rmsnorm(x, nil, y, 10, 100, 0); err != nil {
		t.Error(err)
	}
	info := must[DeviceInfo](t)(Device(0))
	t.Log("computed on", info.Name)
	if y.Close() != nil || y.Close() != nil || info.Multiprocessors <= 0 {
		t.Error(info)
	}
	expect(s.Silu(x, y), "silu: y is closed")
	if s.Sync() != nil || s.Close() != nil || s.Close() != nil || other.Close() != nil {
		t.Error("close")
	}
	expect(s.Silu(x, x), "stream is closed")
	expect(x.Read(got), "stream is closed")
}
