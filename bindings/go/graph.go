// Graphs without a model.

package reprise

// #include "shim.h"
// #include <stdlib.h>
// #include <string.h>
import "C"

import (
	"runtime"
	"unsafe"
)

// Graph is a graph under construction. Shapes are four dimensions, the innermost first; include/reprise/ops.h has the formulas.
// A call that fails returns a node that stands for nothing, and Compile reports the first failure, with op, node and shapes.
// One goroutine at a time may use it.
type Graph struct {
	raw     *C.ComputeGraph
	weights []unsafe.Pointer // copies in C memory
	failure error            // of this package itself
	taken   bool             // by an executor
}

// Node of a graph. A graph does not know the nodes of another one.
type Node struct {
	raw   *C.TensorNode
	graph *Graph
}

// Shape4 lists elements, the innermost dimension first.
type Shape4 [4]int64

// NewGraph makes an empty graph. Compile takes it over; otherwise it must be closed.
func NewGraph() (*Graph, error) {
	raw := C.rp_graph_new()
	if raw == nil {
		return nil, &Error{Code: int(OutOfMemory), Text: "out of memory"}
	}
	g := &Graph{raw: raw}
	runtime.SetFinalizer(g, (*Graph).Close)
	return g, nil
}

// Close frees a graph that was not compiled, with all its nodes.
func (g *Graph) Close() error {
	if g.taken {
		return &Error{Code: int(State), Text: "graph belongs to an executor"}
	}
	g.release()
	return nil
}

func (g *Graph) release() {
	C.rp_graph_free(g.raw) // NULL is allowed
	for _, w := range g.weights {
		C.free(w)
	}
	g.raw, g.weights = nil, nil
}

// fail keeps the first failure.
func (g *Graph) fail(err error) {
	if g.failure == nil {
		g.failure = err
	}
}

func (g *Graph) node(raw *C.TensorNode) Node { return Node{raw, g} }

// source is the address of a node of this graph, NULL for any other. A closed graph has no nodes.
func (g *Graph) source(n Node) *C.TensorNode {
	if n.graph != g || g.raw == nil {
		return nil
	}
	return n.raw
}

func (g *Graph) leaf(name string, make func(name *C.char) *C.TensorNode) Node {
	c, err := cString("graph", "name", name)
	if err != nil {
		g.fail(err)
		return g.node(nil)
	}
	defer free(c)
	return g.node(make(c))
}

func (s *Shape4) c() *C.int64_t { return (*C.int64_t)(&s[0]) }

// Input is written before each run.
func (g *Graph) Input(name string, d Dtype, ne Shape4) Node {
	return g.leaf(name, func(c *C.char) *C.TensorNode { return C.rp_graph_input(g.raw, c, C.RpDtype(d), ne.c()) })
}

// State is zero at first and keeps its contents between runs.
func (g *Graph) State(name string, d Dtype, ne Shape4) Node {
	return g.leaf(name, func(c *C.char) *C.TensorNode { return C.rp_graph_state(g.raw, c, C.RpDtype(d), ne.c()) })
}

// Weight is a constant of f32, which is copied.
func (g *Graph) Weight(name string, data []float32, ne Shape4) Node {
	return g.weight(name, F32, unsafe.Pointer(first(data)), 4*int64(len(data)), ne)
}

// WeightQuantized is a constant of quantised blocks, as Quantize makes them. It is copied.
func (g *Graph) WeightQuantized(name string, d Dtype, blocks []byte, ne Shape4) Node {
	return g.weight(name, d, unsafe.Pointer(first(blocks)), int64(len(blocks)), ne)
}

func (g *Graph) weight(name string, d Dtype, data unsafe.Pointer, bytes int64, ne Shape4) Node {
	wanted := float64(d.RowBytes(ne[0])) * float64(ne[1]) * float64(ne[2]) * float64(ne[3]) // exact below 2^53
	if ne[0] > 0 && ne[1] > 0 && ne[2] > 0 && ne[3] > 0 && wanted != float64(bytes) {
		g.fail(argumentError("rp_graph_weight: %s has %d bytes, must be %v of %v", name, bytes, ne, d))
		return g.node(nil)
	}
	memory := C.malloc(C.size_t(bytes + 1))
	if bytes > 0 {
		C.memcpy(memory, data, C.size_t(bytes))
	}
	g.weights = append(g.weights, memory)
	return g.leaf(name, func(c *C.char) *C.TensorNode {
		view := C.rp_view_contiguous(C.RpDtype(d), ne.c(), memory)
		return C.rp_graph_weight(g.raw, c, &view)
	})
}

// SetName names a node in dumps and errors.
func (g *Graph) SetName(n Node, name string) {
	g.leaf(name, func(c *C.char) *C.TensorNode { return C.rp_node_set_name(g.source(n), c) })
}

// DumpFormat of Dump.
type DumpFormat int

const (
	DumpText DumpFormat = C.RP_DUMP_TEXT
	DumpDOT  DumpFormat = C.RP_DUMP_DOT
	DumpJSON DumpFormat = C.RP_DUMP_JSON
)

// Dump is the graph as a text, a drawing in DOT, or JSON.
func (g *Graph) Dump(format DumpFormat) (string, error) {
	var out *C.char
	err := call(func() C.RpStatus { return C.reprise_go_dump(g.raw, C.int(format), &out) })
	defer free(out)
	return C.GoString(out), err
}

// ---- the ops of graph.h, with its shapes; a zero Node is an absent source ----

// RopeParams of Rope (RpRopeParams).
type RopeParams struct {
	Neox                                                           bool
	Dims                                                           int32
	FreqBase, FreqScale, ExtFactor, AttnFactor, BetaFast, BetaSlow float32
	OriginalContext                                                int32
}

func (g *Graph) GetRows(w, ids Node) Node {
	return g.node(C.rp_get_rows(g.raw, g.source(w), g.source(ids)))
}

func (g *Graph) RmsNorm(x, w Node, eps float32) Node {
	return g.node(C.rp_rms_norm(g.raw, g.source(x), g.source(w), C.float(eps)))
}

func (g *Graph) MulMat(w, x Node) Node {
	return g.node(C.rp_mul_mat(g.raw, g.source(w), g.source(x)))
}

func (g *Graph) Rope(x, pos, factors Node, p RopeParams) Node {
	c := C.RpRopeParams{n_dims: C.int32_t(p.Dims), freq_base: C.float(p.FreqBase), freq_scale: C.float(p.FreqScale),
		ext_factor: C.float(p.ExtFactor), attn_factor: C.float(p.AttnFactor), beta_fast: C.float(p.BetaFast),
		beta_slow: C.float(p.BetaSlow), n_ctx_orig: C.int32_t(p.OriginalContext)}
	if p.Neox {
		c.mode = C.RP_ROPE_NEOX
	}
	return g.node(C.rp_rope(g.raw, g.source(x), g.source(pos), g.source(factors), &c))
}

func (g *Graph) SoftMax(x, mask, pos, sinks Node, scale float32, window int32) Node {
	c := C.RpSoftMaxParams{scale: C.float(scale), window: C.int32_t(window)}
	return g.node(C.rp_soft_max_sinks(g.raw, g.source(x), g.source(mask), g.source(pos), g.source(sinks), &c))
}

func (g *Graph) Attention(q, k, v, pos, sinks Node, scale float32, window int32) Node {
	c := C.RpAttentionParams{scale: C.float(scale), window: C.int32_t(window)}
	return g.node(C.rp_attention(g.raw, g.source(q), g.source(k), g.source(v), g.source(pos), g.source(sinks), &c))
}

func (g *Graph) Silu(x Node) Node    { return g.node(C.rp_silu(g.raw, g.source(x))) }
func (g *Graph) Sigmoid(x Node) Node { return g.node(C.rp_sigmoid(g.raw, g.source(x))) }

// Gelu by the error function if exact, else by tanh.
func (g *Graph) Gelu(x Node, exact bool) Node {
	kind := C.RpGeluKind(C.RP_GELU_TANH)
	if exact {
		kind = C.RP_GELU_ERF
	}
	return g.node(C.rp_gelu(g.raw, g.source(x), kind))
}

func (g *Graph) SwigluOai(gate, up Node, alpha, limit float32) Node {
	return g.node(C.rp_swiglu_oai(g.raw, g.source(gate), g.source(up), C.float(alpha), C.float(limit)))
}

func (g *Graph) Mul(a, b Node) Node { return g.node(C.rp_mul(g.raw, g.source(a), g.source(b))) }
func (g *Graph) Add(a, b Node) Node { return g.node(C.rp_add(g.raw, g.source(a), g.source(b))) }

func (g *Graph) Scale(x Node, scale, bias float32) Node {
	return g.node(C.rp_scale(g.raw, g.source(x), C.float(scale), C.float(bias)))
}

func (g *Graph) TopK(x, bias Node, k int32) Node {
	c := C.RpTopKParams{k: C.int32_t(k)}
	return g.node(C.rp_top_k(g.raw, g.source(x), g.source(bias), &c))
}

func (g *Graph) Route(probs, ids Node, softMax, normalize bool, scale float32) Node {
	c := C.RpRouteParams{soft_max: C.bool(softMax), normalize: C.bool(normalize), scale: C.float(scale)}
	return g.node(C.rp_route(g.raw, g.source(probs), g.source(ids), &c))
}

func (g *Graph) MulMatID(w, x, ids Node) Node {
	return g.node(C.rp_mul_mat_id(g.raw, g.source(w), g.source(x), g.source(ids)))
}

func (g *Graph) AddID(x, b, ids Node) Node {
	return g.node(C.rp_add_id(g.raw, g.source(x), g.source(b), g.source(ids)))
}

func (g *Graph) Combine(x, weights Node) Node {
	return g.node(C.rp_combine(g.raw, g.source(x), g.source(weights)))
}

// Store writes row i of x to row pos[i] of dst, a state. The result is dst after the store.
func (g *Graph) Store(x, dst, pos Node) Node {
	return g.node(C.rp_store(g.raw, g.source(x), g.source(dst), g.source(pos)))
}

func (g *Graph) Cast(x Node, d Dtype) Node {
	return g.node(C.rp_cast(g.raw, g.source(x), C.RpDtype(d)))
}

func (g *Graph) Reshape(x Node, ne Shape4) Node {
	return g.node(C.rp_reshape(g.raw, g.source(x), C.int64_t(ne[0]), C.int64_t(ne[1]), C.int64_t(ne[2]), C.int64_t(ne[3])))
}

func (g *Graph) Permute(x Node, axis0, axis1, axis2, axis3 int) Node {
	return g.node(C.rp_permute(g.raw, g.source(x), C.int(axis0), C.int(axis1), C.int(axis2), C.int(axis3)))
}

func (g *Graph) Transpose(x Node) Node { return g.node(C.rp_transpose(g.raw, g.source(x))) }
