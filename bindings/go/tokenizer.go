// Text to token ids and back, and conversations.

package reprise

// #include "shim.h"
// #include <stdlib.h>
import "C"

import (
	"unsafe"
)

// TokenizeFlags of Tokenize and ChatTokens.
type TokenizeFlags uint

const (
	AddSpecial   TokenizeFlags = C.RP_TOK_ADD_SPECIAL   // BOS in front and EOS behind, as the file asks
	ParseSpecial TokenizeFlags = C.RP_TOK_PARSE_SPECIAL // "<|im_end|>" becomes that control token; else it is plain text
)

// Message of a conversation. The role is "system", "user" or "assistant".
type Message struct{ Role, Text string }

// withTokenizer runs f with the tokenizer of the model.
func (m *Model) withTokenizer(f func(t *C.RpTokenizer) error) error {
	if err := m.enter(); err != nil {
		return err
	}
	defer m.leave()
	t := C.rp_model_tokenizer(m.raw)
	if t == nil {
		return &Error{Code: int(Unsupported), Text: "the model has no tokenizer"}
	}
	return f(t)
}

// idsOf copies a list and frees it.
func idsOf(list *C.RpTokenList) []int32 {
	ids := make([]int32, int(list.n))
	if list.n > 0 {
		copy(ids, unsafe.Slice((*int32)(list.ids), int(list.n)))
	}
	C.rp_token_list_free(list)
	return ids
}

// Tokenize gives the tokens of a text.
func (m *Model) Tokenize(text string, flags TokenizeFlags) (ids []int32, err error) {
	err = m.withTokenizer(func(t *C.RpTokenizer) error {
		var list C.RpTokenList
		c := C.CString(text) // a NUL byte is part of the text: its length is given
		defer free(c)
		err := call(func() C.RpStatus { return C.rp_tokenize(t, c, C.size_t(len(text)), C.uint(flags), &list) })
		ids = idsOf(&list)
		return err
	})
	return ids, err
}

// Detokenize gives the text of ids, with U+FFFD for bytes that are not UTF-8. special: control tokens give their text.
func (m *Model) Detokenize(ids []int32, special bool) (text string, err error) {
	err = m.withTokenizer(func(t *C.RpTokenizer) error {
		var stream C.RpUtf8Stream
		for _, id := range ids {
			piece, err := feed(t, &stream, id, special)
			if err != nil {
				return err
			}
			text += piece
		}
		var end [4]byte
		n := C.rp_utf8_flush(&stream, (*C.char)(unsafe.Pointer(&end[0])))
		text += string(end[:n])
		return nil
	})
	return text, err
}

// feed gives the characters that the bytes of one more token complete.
func feed(t *C.RpTokenizer, stream *C.RpUtf8Stream, id int32, special bool) (string, error) {
	var bytes C.RpGgufString
	err := call(func() C.RpStatus { return C.rp_token_bytes(t, C.int32_t(id), C.bool(special), &bytes) })
	if err != nil {
		return "", err
	}
	out := make([]byte, 4*int(bytes.len)+16)
	n := C.rp_utf8_feed(stream, bytes.ptr, bytes.len, (*C.char)(unsafe.Pointer(&out[0])))
	return string(out[:n]), nil
}

// IsEnd is true for every token that ends a reply.
func (m *Model) IsEnd(id int32) (end bool, err error) {
	err = m.withTokenizer(func(t *C.RpTokenizer) error {
		end = bool(C.rp_tokenizer_is_end(t, C.int32_t(id)))
		return nil
	})
	return end, err
}

// FindToken gives the id of a token by its text exactly as the file stores it, or -1.
func (m *Model) FindToken(text string) (id int32, err error) {
	c, err := cString("rp_tokenizer_find", "text", text)
	if err != nil {
		return -1, err
	}
	defer free(c)
	err = m.withTokenizer(func(t *C.RpTokenizer) error {
		id = int32(C.rp_tokenizer_find(t, c))
		return nil
	})
	return id, err
}

// ChatTokens gives a conversation as token ids, which end where the reply of the assistant begins. Messages are plain text:
// one that spells a control token does not end its turn. The format is "chatml", "llama3", "mistral", "gemma" or "llama2",
// where the roles must be: system? (user assistant)* user; or "": the template of the file is run.
func (m *Model) ChatTokens(messages []Message, format string, flags TokenizeFlags) (ids []int32, err error) {
	err = m.withTokenizer(func(t *C.RpTokenizer) error {
		kind, err := chatKind(format)
		if err != nil {
			return err
		}
		var template *C.RpChatTemplate
		if format == "" {
			err = call(func() C.RpStatus { return C.rp_chat_template_of(C.rp_model_file(m.raw), t, &template) })
			if err != nil {
				return err
			}
			defer C.rp_chat_template_free(template)
		}
		list := (*C.RpChatMessage)(C.calloc(C.size_t(len(messages)+1), C.sizeof_RpChatMessage))
		texts := unsafe.Slice(list, len(messages)+1)
		defer func() {
			for _, m := range texts {
				free(m.role)
				free(m.text)
			}
			C.free(unsafe.Pointer(list))
		}()
		for i, message := range messages {
			if texts[i].role, err = cString("rp_chat_tokenize", "role", message.Role); err != nil {
				return err
			}
			if texts[i].text, err = cString("rp_chat_tokenize", "text", message.Text); err != nil {
				return err
			}
		}
		var out C.RpTokenList
		err = call(func() C.RpStatus {
			if template != nil {
				return C.rp_chat_template_tokenize(t, template, list, C.size_t(len(messages)), C.uint(flags), &out)
			}
			return C.rp_chat_tokenize(t, kind, list, C.size_t(len(messages)), C.uint(flags), &out)
		})
		ids = idsOf(&out)
		return err
	})
	return ids, err
}

func chatKind(format string) (kind C.RpChatKind, err error) {
	if format == "" {
		return kind, nil
	}
	name, err := cString("rp_chat_from_name", "name", format)
	if err != nil {
		return kind, err
	}
	defer free(name)
	return kind, call(func() C.RpStatus { return C.rp_chat_from_name(name, &kind) })
}
