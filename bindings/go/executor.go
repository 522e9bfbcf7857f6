// Runs a graph.

package reprise

// #include "shim.h"
// #include <stdlib.h>
import "C"

import (
	"runtime"
	"unsafe"
)

// ExecutorOptions as in RpExecutorOptions; the zero value has the defaults of the library.
type ExecutorOptions struct {
	Threads      int
	Device       string // "auto", "cpu", "cuda" or "cuda:N"; "": REPRISE_DEVICE
	RequireCuda  bool
	RequireGraph bool
	Mode         Mode
	Passes       string // to switch off, such as "-attention"
}

// Executor is a graph with its plan and its memory, ready to run.
type Executor struct {
	guard
	graph *Graph
	plan  *C.ExecPlan
	raw   *C.RpExecutor
}

// Compile ends the construction, runs the passes, plans the graph and allocates its memory. Outputs are computed nodes. The
// executor takes over the graph, also where it fails.
func (g *Graph) Compile(options ExecutorOptions, outputs ...Node) (e *Executor, err error) {
	if g.taken || g.raw == nil {
		return nil, &Error{Code: int(State), Text: "graph is closed or belongs to an executor"}
	}
	g.taken = true
	e = &Executor{guard: guard{what: "executor"}, graph: g}
	if err = e.open(options, outputs); err != nil {
		e.release()
		return nil, err
	}
	runtime.SetFinalizer(e, (*Executor).Close)
	return e, nil
}

func (e *Executor) open(options ExecutorOptions, outputs []Node) error {
	g := e.graph
	if g.failure != nil {
		return g.failure
	}
	passes, err := optionalCString("rp_graph_optimize", "disable", options.Passes)
	if err != nil {
		return err
	}
	defer free(passes)
	device, err := optionalCString("rp_executor_open", "device", options.Device)
	if err != nil {
		return err
	}
	defer free(device)
	nodes := make([]*C.TensorNode, len(outputs)) // addresses of C memory
	for i, n := range outputs {
		nodes[i] = g.source(n)
	}
	o := C.RpExecutorOptions{n_threads: C.int(options.Threads), device: device, require_cuda: C.bool(options.RequireCuda),
		require_graph: C.bool(options.RequireGraph), mode: C.RpExecMode(options.Mode)}
	for _, step := range []func() C.RpStatus{
		func() C.RpStatus { return C.rp_graph_finish(g.raw, first(nodes), C.int(len(nodes))) },
		func() C.RpStatus { return C.rp_graph_optimize(g.raw, passes) },
		func() C.RpStatus { return C.rp_plan_new(g.raw, &e.plan) },
		func() C.RpStatus { return C.rp_executor_open(e.plan, &o, &e.raw) },
	} {
		if err := call(step); err != nil {
			return err
		}
	}
	return nil
}

func (e *Executor) release() {
	C.rp_executor_free(e.raw)
	C.rp_plan_free(e.plan)
	e.graph.release()
	e.raw, e.plan = nil, nil
}

// Close frees the executor and its graph. It fails while a call uses it.
func (e *Executor) Close() error { return e.close(e.release) }

// Run runs every step once.
func (e *Executor) Run() error {
	if err := e.enter(); err != nil {
		return err
	}
	defer e.leave()
	return call(func() C.RpStatus { return C.rp_executor_run(e.raw) })
}

// Number is what tensors are written and read as: f32 and i32.
type Number interface{ float32 | int32 }

func dtypeOf[T Number]() Dtype {
	var zero T
	if _, ok := any(zero).(float32); ok {
		return F32
	}
	return I32
}

// length is the number of elements of a node of this graph, if they are of type d.
func (e *Executor) length(n Node, d Dtype, function string) (int64, error) {
	raw := e.graph.source(n)
	if raw == nil {
		return 0, argumentError("%s: node is of another graph", function)
	}
	view := C.rp_node_view(raw)
	if Dtype(view.dtype) != d {
		return 0, argumentError("%s: the node is %v, not %v", function, Dtype(view.dtype), d)
	}
	if !C.rp_view_is_contiguous(&view) {
		return 0, argumentError("%s: the node is not contiguous", function)
	}
	return int64(view.ne[0] * view.ne[1] * view.ne[2] * view.ne[3]), nil
}

// Write writes an input or a state.
func Write[T Number](e *Executor, n Node, data []T) error {
	return e.write(n, dtypeOf[T](), unsafe.Pointer(first(data)), int64(len(data)))
}

func (e *Executor) write(n Node, d Dtype, data unsafe.Pointer, elements int64) error {
	if err := e.enter(); err != nil {
		return err
	}
	defer e.leave()
	wanted, err := e.length(n, d, "rp_executor_set")
	if err != nil {
		return err
	}
	if elements != wanted {
		return argumentError("rp_executor_set: data has %d elements, must be %d", elements, wanted)
	}
	raw := e.graph.source(n)
	if host := C.rp_executor_data(e.raw, raw); host != nil {
		copy(unsafe.Slice((*byte)(host), 4*wanted), unsafe.Slice((*byte)(data), 4*wanted))
		return nil
	}
	return call(func() C.RpStatus { return C.rp_executor_set(e.raw, raw, data, C.size_t(4*wanted)) })
}

// Read gives the contents of an input, an output or a state.
func Read[T Number](e *Executor, n Node) ([]T, error) {
	if err := e.enter(); err != nil {
		return nil, err
	}
	defer e.leave()
	length, err := e.length(n, dtypeOf[T](), "rp_executor_get")
	if err != nil {
		return nil, err
	}
	out := make([]T, length)
	return out, e.get(n, unsafe.Pointer(first(out)), 4*length)
}

func (e *Executor) get(n Node, out unsafe.Pointer, bytes int64) error {
	return call(func() C.RpStatus { return C.rp_executor_get(e.raw, e.graph.source(n), out, C.size_t(bytes)) })
}

// Info is the device and launch mode in use.
func (e *Executor) Info() (ExecutorInfo, error) {
	if err := e.enter(); err != nil {
		return ExecutorInfo{}, err
	}
	defer e.leave()
	return infoOf(C.rp_executor_info(e.raw)), nil
}
