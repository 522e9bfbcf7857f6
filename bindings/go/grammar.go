// Structured output: replies that are texts of a grammar.

package reprise

// #include "shim.h"
// #include <stdlib.h>
import "C"

import (
	"runtime"
	"unsafe"
)

// Grammar says which texts a reply may be (RpGrammar). It is freed when nothing refers to it, and any number of goroutines may use it.
type Grammar struct{ raw *C.RpGrammar }

func newGrammar(text string, make func(c *C.char, n C.size_t, out **C.RpGrammar) C.RpStatus) (*Grammar, error) {
	c := C.CString(text) // its length is given
	defer free(c)
	var raw *C.RpGrammar
	if err := call(func() C.RpStatus { return make(c, C.size_t(len(text)), &raw) }); err != nil {
		return nil, err
	}
	g := &Grammar{raw}
	runtime.SetFinalizer(g, func(g *Grammar) { C.rp_grammar_free(g.raw) })
	return g, nil
}

// GrammarOfSchema has the JSON that satisfies a JSON Schema. A keyword that cannot be kept is refused by name; with weaken it is
// dropped, and Notes names it.
func GrammarOfSchema(schema string, weaken bool) (*Grammar, error) {
	flags := C.uint(0)
	if weaken {
		flags = C.RP_GRAMMAR_WEAKEN
	}
	return newGrammar(schema, func(c *C.char, n C.size_t, out **C.RpGrammar) C.RpStatus {
		return C.rp_grammar_json_schema(c, n, flags, out)
	})
}

// GrammarOfJSON has any JSON object.
func GrammarOfJSON() (*Grammar, error) {
	return newGrammar("", func(_ *C.char, _ C.size_t, out **C.RpGrammar) C.RpStatus { return C.rp_grammar_json(0, out) })
}

// GrammarOfGBNF reads the format of llama.cpp.
func GrammarOfGBNF(text string) (*Grammar, error) {
	return newGrammar(text, func(c *C.char, n C.size_t, out **C.RpGrammar) C.RpStatus { return C.rp_grammar_gbnf(c, n, out) })
}

// GrammarOfRegex has the texts that match a regular expression of ECMAScript as a whole.
func GrammarOfRegex(pattern string) (*Grammar, error) {
	return newGrammar(pattern, func(c *C.char, n C.size_t, out **C.RpGrammar) C.RpStatus { return C.rp_grammar_regex(c, n, out) })
}

// GrammarOfChoices has the texts.
func GrammarOfChoices(texts ...string) (*Grammar, error) {
	array := (*C.RpGgufString)(C.calloc(C.size_t(len(texts)+1), C.sizeof_RpGgufString))
	defer C.free(unsafe.Pointer(array))
	for i, text := range texts {
		c := C.CString(text)
		defer free(c)
		unsafe.Slice(array, len(texts))[i] = C.RpGgufString{ptr: c, len: C.size_t(len(text))}
	}
	return newGrammar("", func(_ *C.char, _ C.size_t, out **C.RpGrammar) C.RpStatus {
		return C.rp_grammar_choices(array, C.size_t(len(texts)), out)
	})
}

// Notes are what a weakened schema has dropped.
func (g *Grammar) Notes() []string {
	notes := make([]string, int(C.rp_grammar_n_notes(g.raw)))
	for i := range notes {
		notes[i] = C.GoString(C.rp_grammar_note_at(g.raw, C.size_t(i)))
	}
	runtime.KeepAlive(g)
	return notes
}

// vocab has the tokens of a model for grammars, made for the first one. The model must outlive it.
type vocab struct{ raw *C.RpGrammarVocab }

func (v *vocab) of(model *C.RpModel) (*C.RpGrammarVocab, error) {
	t := C.rp_model_tokenizer(model)
	if t == nil {
		return nil, &Error{Code: int(Unsupported), Text: "the model has no tokenizer"}
	}
	if v.raw != nil {
		return v.raw, nil
	}
	return v.raw, call(func() C.RpStatus { return C.rp_grammar_vocab_new(t, &v.raw) })
}

func (v *vocab) free() { C.rp_grammar_vocab_free(v.raw) }

// matcher is the place of one reply in its grammar, which it keeps; the zero value is none.
type matcher struct {
	raw     *C.RpMatcher
	grammar *Grammar
}

func newMatcher(g *Grammar, v *vocab, model *C.RpModel) (matcher, error) {
	if g == nil {
		return matcher{}, nil
	}
	raw, err := v.of(model)
	if err != nil {
		return matcher{}, err
	}
	m := matcher{grammar: g}
	return m, call(func() C.RpStatus { return C.rp_matcher_new(g.raw, raw, &m.raw) })
}

func (m matcher) free() {
	C.rp_matcher_free(m.raw)
	runtime.KeepAlive(m.grammar)
}
