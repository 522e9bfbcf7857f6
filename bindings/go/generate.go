// Whole replies: by a callback, or through a channel.

package reprise

// #include "shim.h"
// #include <stdlib.h>
import "C"

import (
	"context"
	"unsafe"
)

// GenerateOptions say when a reply ends and what is printed of it (RpGenerateOptions).
type GenerateOptions struct {
	MaxTokens    int32    // 0: until the context is full
	Stop         []string // texts that end the reply; never printed
	IgnoreEnd    bool     // go on after end tokens
	PrintSpecial bool     // print the text of control tokens
	Grammar      *Grammar // or nil: the reply is one of its texts
}

// StopReason is why a reply ended.
type StopReason int

const (
	StopEndToken  StopReason = C.RP_STOP_END_TOKEN
	StopString    StopReason = C.RP_STOP_STRING
	StopLimit     StopReason = C.RP_STOP_LIMIT
	StopContext   StopReason = C.RP_STOP_CONTEXT
	StopCancelled StopReason = C.RP_STOP_CANCELLED
	StopGrammar   StopReason = C.RP_STOP_GRAMMAR // nothing can follow in the grammar
)

func (r StopReason) String() string { return C.GoString(C.rp_stop_reason_name(C.RpStopReason(r))) }

// Reply that has ended.
type Reply struct {
	Reason                         StopReason
	Tokens                         []int32 // every sampled token, the end token too
	Prompt                         int     // tokens of the prompt
	PrefillS, DecodeS, FirstTokenS float64 // seconds
}

// Generate appends the prompt to the context and samples a reply. onText, which may be nil, gets whole characters as they come,
// at least once per token; it returns false to stop. A context that ends stops the reply with the error of the context. Every
// sampled token but the last one is appended too: to continue, begin the next prompt with it.
func (s *Session) Generate(ctx context.Context, sampler *Sampler, prompt []int32, options GenerateOptions,
	onText func(text string) bool) (Reply, error) {
	if err := s.enter(); err != nil {
		return Reply{}, err
	}
	defer s.leave()
	if err := sampler.enter(); err != nil {
		return Reply{}, err
	}
	defer sampler.leave()
	if err := ctx.Err(); err != nil {
		return Reply{}, err
	}
	stop, release, err := cStrings("rp_generate", "stop", options.Stop)
	if err != nil {
		return Reply{}, err
	}
	defer release()
	held, err := newMatcher(options.Grammar, &s.vocab, s.model.raw)
	if err != nil {
		return Reply{}, err
	}
	defer held.free()
	var tokens C.RpTokenList
	var result C.RpGenerateResult
	c := &callbacks{ctx: ctx, text: onText}
	defer func() { C.rp_token_list_free(&tokens) }()
	err = c.with(func(handle C.uintptr_t) error {
		return call(func() C.RpStatus {
			return C.reprise_go_generate(s.raw, sampler.raw, (*C.int32_t)(first(prompt)), C.size_t(len(prompt)),
				C.int32_t(options.MaxTokens), stop, C.size_t(len(options.Stop)), C.bool(options.IgnoreEnd),
				C.bool(options.PrintSpecial), handle, held.raw, &tokens, &result)
		})
	})
	reply := Reply{
		Reason: StopReason(result.reason), Tokens: idsOf(&tokens), Prompt: int(result.n_prompt),
		PrefillS: float64(result.prefill_s), DecodeS: float64(result.decode_s), FirstTokenS: float64(result.first_token_s),
	}
	if err == nil && reply.Reason == StopCancelled {
		err = ctx.Err()
	}
	return reply, err
}

// cStrings is an array of C strings, which release frees.
func cStrings(function, argument string, texts []string) (array **C.char, release func(), err error) {
	array = (**C.char)(C.calloc(C.size_t(len(texts)+1), C.size_t(unsafe.Sizeof((*C.char)(nil)))))
	copies := unsafe.Slice(array, len(texts)+1)
	release = func() {
		for _, c := range copies {
			free(c)
		}
		C.free(unsafe.Pointer(array))
	}
	for i, text := range texts {
		if copies[i], err = cString(function, argument, text); err != nil {
			release()
			return nil, nil, err
		}
	}
	return array, release, nil
}

// Pieces is a reply whose text comes through a channel.
type Pieces struct {
	Text  <-chan string // closed at the end of the reply
	done  chan struct{}
	reply Reply
	err   error
}

// Stream is Generate in a goroutine of its own. Read Text to its end, or end the context; then Wait.
func (s *Session) Stream(ctx context.Context, sampler *Sampler, prompt []int32, options GenerateOptions) *Pieces {
	text := make(chan string)
	p := &Pieces{Text: text, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		defer close(text)
		p.reply, p.err = s.Generate(ctx, sampler, prompt, options, func(piece string) bool {
			if piece == "" {
				return true
			}
			select {
			case text <- piece:
				return true
			case <-ctx.Done():
				return false
			}
		})
	}()
	return p
}

// Wait returns the reply when it has ended.
func (p *Pieces) Wait() (Reply, error) {
	<-p.done
	return p.reply, p.err
}
