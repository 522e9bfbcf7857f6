// Logits to the next token.

package reprise

// #include "shim.h"
import "C"

import "runtime"

// SamplerParams say how a token is chosen (RpSamplerParams). The zero value is greedy; TopP 0, RepeatPenalty 0 and RepeatLast 0
// stand for the defaults of the library (off, off and 64).
type SamplerParams struct {
	Temperature   float32
	TopK          int32
	TopP, MinP    float32
	RepeatPenalty float32
	RepeatLast    int32
	Seed          uint64
}

// Sampler owns its parameters, the recent tokens and the position in its random sequence.
type Sampler struct {
	guard
	raw   *C.RpSampler
	vocab int
}

// NewSampler makes a sampler for logits of a vocabulary.
func NewSampler(p SamplerParams, vocab int32) (*Sampler, error) {
	raw := C.rp_sampler_defaults()
	raw.temperature, raw.top_k, raw.min_p = C.float(p.Temperature), C.int32_t(p.TopK), C.float(p.MinP)
	raw.seed = C.uint64_t(p.Seed)
	if p.TopP != 0 {
		raw.top_p = C.float(p.TopP)
	}
	if p.RepeatPenalty != 0 {
		raw.repeat_penalty = C.float(p.RepeatPenalty)
	}
	if p.RepeatLast != 0 {
		raw.repeat_last_n = C.int32_t(p.RepeatLast)
	}
	var out *C.RpSampler
	if err := call(func() C.RpStatus { return C.rp_sampler_new(&raw, C.int32_t(vocab), &out) }); err != nil {
		return nil, err
	}
	s := &Sampler{guard: guard{what: "sampler"}, raw: out, vocab: int(vocab)}
	runtime.SetFinalizer(s, (*Sampler).Close)
	return s, nil
}

// NewSampler makes a sampler for the vocabulary of the model.
func (m *Model) NewSampler(p SamplerParams) (*Sampler, error) {
	if err := m.enter(); err != nil {
		return nil, err
	}
	defer m.leave()
	return NewSampler(p, int32(m.vocab))
}

// Close frees the sampler. It fails while a reply uses it.
func (s *Sampler) Close() error {
	return s.close(func() { C.rp_sampler_free(s.raw) })
}

// Accept tells the sampler about a token of the context, for the repetition penalty.
func (s *Sampler) Accept(token int32) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	C.rp_sampler_accept(s.raw, C.int32_t(token))
	return nil
}

// Sample chooses a token, and accepts it.
func (s *Sampler) Sample(logits []float32) (int32, error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.leave()
	if len(logits) != s.vocab {
		return 0, argumentError("rp_sampler_sample: logits has %d elements, must be %d", len(logits), s.vocab)
	}
	var token C.int32_t
	err := call(func() C.RpStatus { return C.rp_sampler_sample(s.raw, (*C.float)(first(logits)), &token) })
	return int32(token), err
}

// Reset forgets the accepted tokens and starts the random sequence again.
func (s *Sampler) Reset() error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	C.rp_sampler_reset(s.raw)
	return nil
}
