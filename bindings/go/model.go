// Model files.

package reprise

// #include "shim.h"
// #include <stdlib.h>
import "C"

import (
	"runtime"
	"sync"
	"unsafe"
)

// Model is an open model file. It does not change, and any number of goroutines and sessions may use it.
type Model struct {
	mu     sync.Mutex
	users  int // calls under way and open sessions; the model is freed when it is closed and there are none
	closed bool
	raw    *C.RpModel
	memory unsafe.Pointer // what OpenModelMemory reads from
	vocab  int
}

// ModelOptions may be nil where they are wanted.
type ModelOptions struct {
	Copy     bool                          // read the file into private memory instead of mapping it
	Progress func(done, total uint64) bool // reads all weights in; returns false to stop with Cancelled
}

// ModelInfo has facts about a model (RpModelInfo).
type ModelInfo struct {
	Arch, Name                                                      string
	Vocab, Embedding, Layers, Heads, HeadsKV, HeadDim, TrainContext int
	Experts, ExpertsUsed                                            int
	Params, ParamsActive                                            int64
	WeightBytes                                                     uint64
}

// OpenModel opens a GGUF file. The weights stay in the mapped file: replace it by a rename, do not write into it.
func OpenModel(path string, options *ModelOptions) (*Model, error) {
	p, err := cString("rp_model_open", "path", path)
	if err != nil {
		return nil, err
	}
	defer free(p)
	var raw *C.RpModel
	var copied bool
	callbacks := &callbacks{}
	if options != nil {
		copied, callbacks.progress = options.Copy, options.Progress
	}
	err = callbacks.with(func(handle C.uintptr_t) error {
		return call(func() C.RpStatus { return C.reprise_go_model_open(p, C.bool(copied), handle, &raw) })
	})
	return newModel(raw, nil, err)
}

// OpenModelMemory opens a model in memory, which it copies. The name stands for the path in errors.
func OpenModelMemory(data []byte, name string) (*Model, error) {
	n, err := cString("rp_model_open_memory", "name", name)
	if err != nil {
		return nil, err
	}
	defer free(n)
	memory := C.CBytes(data)
	var raw *C.RpModel
	err = call(func() C.RpStatus { return C.rp_model_open_memory(memory, C.size_t(len(data)), n, &raw) })
	if err != nil {
		C.free(memory)
		memory = nil
	}
	return newModel(raw, memory, err)
}

func newModel(raw *C.RpModel, memory unsafe.Pointer, err error) (*Model, error) {
	if err != nil {
		return nil, err
	}
	m := &Model{raw: raw, memory: memory, vocab: int(C.rp_model_info(raw).n_vocab)}
	runtime.SetFinalizer(m, (*Model).Close)
	return m, nil
}

// isOpen is an error if the model is closed. The caller holds mu.
func (m *Model) isOpen() error {
	if m.closed {
		return &Error{Code: int(State), Text: "model is closed"}
	}
	return nil
}

// enter keeps the model open until leave.
func (m *Model) enter() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.isOpen(); err != nil {
		return err
	}
	m.users++
	return nil
}

func (m *Model) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.users--
	m.release()
}

func (m *Model) release() {
	if m.closed && m.users == 0 && m.raw != nil {
		C.rp_model_free(m.raw)
		C.free(m.memory)
		m.raw, m.memory = nil, nil
	}
}

// Close closes the model. Sessions that are open keep its memory until they are closed too.
func (m *Model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	m.release()
	return nil
}

// Info has facts about the model.
func (m *Model) Info() (ModelInfo, error) {
	if err := m.enter(); err != nil {
		return ModelInfo{}, err
	}
	defer m.leave()
	i := C.rp_model_info(m.raw)
	return ModelInfo{
		Arch: C.GoString(i.arch), Name: C.GoString(i.name),
		Vocab: int(i.n_vocab), Embedding: int(i.n_embd), Layers: int(i.n_layer), Heads: int(i.n_head),
		HeadsKV: int(i.n_head_kv), HeadDim: int(i.head_dim), TrainContext: int(i.n_ctx_train),
		Experts: int(i.n_expert), ExpertsUsed: int(i.n_expert_used),
		Params: int64(i.n_params), ParamsActive: int64(i.n_params_active), WeightBytes: uint64(i.weight_bytes),
	}, nil
}

// AddAdapter applies a LoRA adapter, a GGUF file, whenever the model runs: y = w x + scale * alpha / rank * b (a x) for
// each matrix that it adapts. Several add up. It is a State error while sessions of the model are open.
func (m *Model) AddAdapter(path string, scale float32) error {
	p, err := cString("rp_model_add_adapter", "path", path)
	if err != nil {
		return err
	}
	defer free(p)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.isOpen(); err != nil {
		return err
	}
	if m.users > 0 {
		text := "rp_model_add_adapter: a session of the model is open, or a call under way"
		return &Error{Code: int(State), Text: text}
	}
	return call(func() C.RpStatus { return C.rp_model_add_adapter(m.raw, p, C.float(scale)) })
}

// MergeAdapters writes the model with its adapters added into the weights. An adapted matrix is written in the type, such
// as "f16"; "": in its own. All else is copied.
func (m *Model) MergeAdapters(path, dtype string) error {
	if err := m.enter(); err != nil {
		return err
	}
	defer m.leave()
	texts, release, err := cStrings("rp_merge_adapters", "text", []string{path, dtype})
	if err != nil {
		return err
	}
	defer release()
	c := unsafe.Slice(texts, 2)
	kind := c[1]
	if dtype == "" {
		kind = nil
	}
	return call(func() C.RpStatus { return C.rp_merge_adapters(m.raw, c[0], kind, nil, nil) })
}

// Logits are those after every token of sequences of seq tokens, each from an empty context: [len(ids)/seq][seq][Vocab].
func (m *Model) Logits(ids []int32, seq int) ([]float32, error) {
	if err := m.enter(); err != nil {
		return nil, err
	}
	defer m.leave()
	if seq <= 0 || len(ids)%seq != 0 {
		return nil, argumentError("rp_model_logits: %d ids are no sequences of %d", len(ids), seq)
	}
	out := make([]float32, len(ids)*m.vocab)
	return out, call(func() C.RpStatus {
		return C.rp_model_logits(m.raw, (*C.int32_t)(first(ids)), C.size_t(len(ids)/seq), C.size_t(seq), (*C.float)(first(out)))
	})
}
