// Tensors in memory of others, without a copy.

package reprise

// #include "shim.h"
// #include <stdlib.h>
import "C"

import (
	"runtime"
	"unsafe"
)

// External is memory that somebody else owns, as a weight, an input or an output. Graphs and executors that have it hold it too.
type External struct {
	raw *C.RpExternalTensor
}

// NewExternal describes contiguous f32, f16, bf16 or i32 on the host. The memory is not Go's (C memory, a mapped
// file), or pinned, and is there as long as the tensor and every graph and executor that it was given to. A run writes to it if it
// is bound to an output.
func NewExternal(name string, d Dtype, data unsafe.Pointer, ne Shape4, readOnly bool) (*External, error) {
	c, err := cString("rp_external_new", "name", name)
	if err != nil {
		return nil, err
	}
	defer free(c)
	x := &External{}
	err = call(func() C.RpStatus {
		return C.reprise_go_external_new(c, C.int(d), data, ne.c(), C.bool(readOnly), &x.raw)
	})
	if err != nil {
		return nil, err
	}
	runtime.SetFinalizer(x, (*External).Close)
	return x, nil
}

// Close lets go of the memory; graphs and executors that have it still hold it.
func (x *External) Close() {
	C.rp_external_free(x.raw) // NULL is allowed
	x.raw = nil
}

// WeightExternal is a constant in the memory of x.
func (g *Graph) WeightExternal(name string, x *External) Node {
	defer runtime.KeepAlive(x)
	return g.leaf(name, func(c *C.char) *C.TensorNode { return C.rp_graph_weight_external(g.raw, c, x.raw) })
}

// Bind puts an input or output into the memory of x, from now on; nil: into memory of the executor again.
func (e *Executor) Bind(n Node, x *External) error {
	if err := e.enter(); err != nil {
		return err
	}
	defer e.leave()
	var raw *C.RpExternalTensor
	if x != nil {
		raw = x.raw
	}
	defer runtime.KeepAlive(x)
	return call(func() C.RpStatus { return C.rp_executor_tensor_bind(e.raw, e.graph.source(n), raw) })
}
