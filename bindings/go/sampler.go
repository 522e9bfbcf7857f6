// Logits to the next token.

package reprise

// #include "shim.h"
// #include <stdlib.h>
import "C"

import (
	"runtime"
	"unsafe"
)

// LogitBias is added to the logit of a token; negative infinity: never sampled.
type LogitBias struct {
	Token int32
	Bias  float32
}

// SamplerParams say how a token is chosen (RpSamplerParams). The zero value is greedy; TopP 0, RepeatPenalty 0, RepeatLast 0, and 0
// for the members of DRY, XTC, Mirostat and the dynamic temperature that need a value stand for the defaults of the library. DRY has
// no sequence breakers. Samplers is another order of the steps, "top_k;top_p;temperature".
type SamplerParams struct {
	Temperature                       float32
	TopK                              int32
	TopP, MinP                        float32
	RepeatPenalty                     float32
	RepeatLast                        int32
	Seed                              uint64
	TypicalP, TopNSigma               float32
	FrequencyPenalty, PresencePenalty float32
	DryMultiplier, DryBase            float32
	DryAllowedLength, DryPenaltyLast  int32
	XtcProbability, XtcThreshold      float32
	MinKeep, Mirostat                 int32
	MirostatTau, MirostatEta          float32
	DynatempRange, DynatempExponent   float32
	LogitBias                         []LogitBias
	Samplers                          string
}

// set replaces the default of a number that is given.
func set[V ~int32 | ~float32, T int32 | float32](to *V, value T) {
	if value != 0 {
		*to = V(value)
	}
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
	set(&raw.top_p, p.TopP)
	set(&raw.repeat_penalty, p.RepeatPenalty)
	set(&raw.repeat_last_n, p.RepeatLast)
	set(&raw.typical_p, p.TypicalP)
	set(&raw.top_n_sigma, p.TopNSigma)
	set(&raw.frequency_penalty, p.FrequencyPenalty)
	set(&raw.presence_penalty, p.PresencePenalty)
	set(&raw.dry_multiplier, p.DryMultiplier)
	set(&raw.dry_base, p.DryBase)
	set(&raw.dry_allowed_length, p.DryAllowedLength)
	set(&raw.dry_penalty_last_n, p.DryPenaltyLast)
	set(&raw.xtc_probability, p.XtcProbability)
	set(&raw.xtc_threshold, p.XtcThreshold)
	set(&raw.min_keep, p.MinKeep)
	set(&raw.mirostat, p.Mirostat)
	set(&raw.mirostat_tau, p.MirostatTau)
	set(&raw.mirostat_eta, p.MirostatEta)
	set(&raw.dynatemp_range, p.DynatempRange)
	set(&raw.dynatemp_exponent, p.DynatempExponent)
	// in memory of C: the parameters refer to it
	bias := (*C.RpLogitBias)(C.calloc(C.size_t(len(p.LogitBias)+1), C.sizeof_RpLogitBias))
	defer C.free(unsafe.Pointer(bias))
	for i, b := range p.LogitBias {
		unsafe.Slice(bias, len(p.LogitBias))[i] = C.RpLogitBias{token: C.int32_t(b.Token), bias: C.float(b.Bias)}
	}
	raw.logit_bias, raw.n_logit_bias = bias, C.size_t(len(p.LogitBias))
	if p.Samplers != "" {
		order, err := cString("rp_sampler_new", "samplers", p.Samplers)
		if err != nil {
			return nil, err
		}
		defer C.free(unsafe.Pointer(order))
		raw.samplers = order
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
