// Chats: messages in, events out.

package reprise

// #include "shim.h"
// #include <stdlib.h>
import "C"

import (
	"context"
	"encoding/json"
	"runtime"
	"unsafe"
)

// ToolCall is a call that is complete. Arguments are a JSON object.
type ToolCall struct{ ID, Name, Arguments string }

// ChatMessage is a message of the role "system", "user", "assistant" or "tool". Calls are those of the assistant; CallID is that of the
// call whose result the message of a tool is.
type ChatMessage struct {
	Role, Text string
	Calls      []ToolCall
	CallID     string
}

// Tool is a function that the model may call. Parameters are a JSON Schema; "" for none.
type Tool struct{ Name, Description, Parameters string }

// ChatRequest is what a chat gets.
type ChatRequest struct {
	Messages     []ChatMessage
	Tools        []Tool
	RequireCall  bool           // the reply is a call of a tool
	AnswerSchema string         // the answer is JSON by this JSON Schema; "": it is free
	More         map[string]any // other members, such as "stop", and variables of the template, such as "enable_thinking"
}

// JSON of an OpenAI client.
func (r ChatRequest) JSON() ([]byte, error) {
	type object = map[string]any
	all := object{}
	for key, value := range r.More {
		all[key] = value
	}
	messages := []object{}
	for _, m := range r.Messages {
		message := object{"role": m.Role, "content": m.Text}
		calls := []object{}
		for _, c := range m.Calls {
			calls = append(calls, object{"id": c.ID, "type": "function", "function": object{"name": c.Name, "arguments": c.Arguments}})
		}
		if len(calls) > 0 {
			message["tool_calls"] = calls
		}
		if m.CallID != "" {
			message["tool_call_id"] = m.CallID
		}
		messages = append(messages, message)
	}
	all["messages"] = messages
	tools := []object{}
	for _, t := range r.Tools {
		function := object{"name": t.Name, "description": t.Description}
		if t.Parameters != "" {
			function["parameters"] = json.RawMessage(t.Parameters)
		}
		tools = append(tools, object{"type": "function", "function": function})
	}
	if len(tools) > 0 {
		all["tools"] = tools
	}
	if r.RequireCall {
		all["tool_choice"] = "required"
	}
	if r.AnswerSchema != "" {
		all["response_format"] = object{"type": "json_schema", "schema": json.RawMessage(r.AnswerSchema)}
	}
	return json.Marshal(all)
}

// ChatOptions say how a reply is made (RpChatOptions).
type ChatOptions struct {
	MaxTokens       int32    // 0: until the context is full
	ReasoningBudget int32    // tokens of reasoning, after which it is closed; 0: no limit
	IDSeed          uint64   // ids of calls are a function of it and of their number
	Stop            []string // texts that end the answer; never given
	FreeCalls       bool     // calls that the model begins by itself are not held to the tools
	Calls           string   // format of calls, such as "hermes"; "": that of the template
	Reasoning       string   // format of the reasoning, such as "think"; "": that of the template
}

// ChatEventKind is what a ChatEvent is (RpReplyEventKind).
type ChatEventKind int

const (
	ChatText          ChatEventKind = C.RP_REPLY_TEXT
	ChatReasoning     ChatEventKind = C.RP_REPLY_REASONING
	ChatCallBegin     ChatEventKind = C.RP_REPLY_CALL_BEGIN
	ChatCallArguments ChatEventKind = C.RP_REPLY_CALL_ARGUMENTS // pieces, which together are one JSON object
	ChatCallEnd       ChatEventKind = C.RP_REPLY_CALL_END       // Text: how the model wrote the call
	ChatMalformed     ChatEventKind = C.RP_REPLY_MALFORMED      // what began as a call and is none
)

// ChatEvent is a piece of a reply (RpReplyEvent). Call is the number of the call, -1 for none; ID and Name are those of a call that
// begins or ends.
type ChatEvent struct {
	Kind           ChatEventKind
	Call           int
	Text, ID, Name string
}

// ChatReply that has ended (RpChatResult).
type ChatReply struct {
	Reason                         StopReason
	Text, Reasoning                string
	Calls                          []ToolCall
	Prompt, Kept                   int // tokens of the prompt; and of these, those that the session had
	Generated, ReasoningTokens     int
	Held                           int  // calls that were held to the tools
	DescribesTools                 bool // the template has no tools, so that a message describes them
	PrefillS, DecodeS, FirstTokenS float64
}

// Chat talks to a session: what a request has in common with the one before is not computed again, and calls come back as the model
// wrote them.
type Chat struct {
	guard
	session  *Session
	template *C.RpChatTemplate
	log      *C.RpToolCallLog
	context  *C.RpTokenList // of the session; in memory of C
}

// NewChat talks to a session that is empty, and that nothing else uses until the chat is closed. template is a Jinja program; "": that
// of the model.
func NewChat(session *Session, template string) (*Chat, error) {
	if err := session.enter(); err != nil {
		return nil, err
	}
	defer session.leave()
	c := &Chat{guard: guard{what: "chat"}, session: session}
	runtime.SetFinalizer(c, (*Chat).Close)
	file, t := C.rp_model_file(session.model.raw), C.rp_model_tokenizer(session.model.raw)
	var err error
	if t == nil {
		err = &Error{Code: int(Unsupported), Text: "the model has no tokenizer"}
	} else if template == "" {
		err = call(func() C.RpStatus { return C.rp_chat_template_of(file, t, &c.template) })
	} else {
		name, text := C.CString("template"), C.CString(template)
		defer free(name)
		defer free(text)
		err = call(func() C.RpStatus { return C.rp_chat_template_new(t, name, text, C.size_t(len(template)), &c.template) })
	}
	if err == nil {
		err = call(func() C.RpStatus { return C.rp_tool_call_log_new(0, &c.log) })
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	c.context = (*C.RpTokenList)(C.calloc(1, C.sizeof_RpTokenList))
	return c, nil
}

// Close frees the chat, not its session. It fails while a reply is made.
func (c *Chat) Close() error {
	return c.close(func() {
		C.rp_chat_template_free(c.template)
		C.rp_tool_call_log_free(c.log)
		if c.context != nil {
			C.rp_token_list_free(c.context)
			C.free(unsafe.Pointer(c.context))
		}
	})
}

// Reply makes the reply to a request. onEvent, which may be nil, gets its pieces as they come; it returns false to stop. A context that
// ends stops the reply with the error of the context.
func (c *Chat) Reply(ctx context.Context, sampler *Sampler, request ChatRequest, options ChatOptions,
	onEvent func(event ChatEvent) bool) (ChatReply, error) {
	if err := c.enter(); err != nil {
		return ChatReply{}, err
	}
	defer c.leave()
	if err := c.session.enter(); err != nil {
		return ChatReply{}, err
	}
	defer c.session.leave()
	if err := sampler.enter(); err != nil {
		return ChatReply{}, err
	}
	defer sampler.leave()
	if err := ctx.Err(); err != nil {
		return ChatReply{}, err
	}
	text, err := request.JSON()
	if err != nil {
		return ChatReply{}, argumentError("rp_chat_generate: the request is no JSON: %v", err)
	}
	return c.reply(ctx, sampler, text, options, onEvent)
}

func (c *Chat) reply(ctx context.Context, sampler *Sampler, request []byte, options ChatOptions,
	onEvent func(event ChatEvent) bool) (ChatReply, error) {
	var reply ChatReply
	tokens, err := c.session.vocab.of(c.session.model.raw)
	if err != nil {
		return reply, err
	}
	calls, err := optionalCString("rp_chat_generate", "calls", options.Calls)
	if err != nil {
		return reply, err
	}
	defer free(calls)
	reasoning, err := optionalCString("rp_chat_generate", "reasoning", options.Reasoning)
	if err != nil {
		return reply, err
	}
	defer free(reasoning)
	stop, release, err := cStrings("rp_chat_generate", "stop", options.Stop)
	if err != nil {
		return reply, err
	}
	defer release()
	text := C.CBytes(request)
	defer C.free(text)
	o := C.RpChatOptions{
		json: (*C.char)(text), json_bytes: C.size_t(len(request)), format: C.RpReplyFormat{calls: calls, reasoning: reasoning},
		log: c.log, chat_template: c.template, context: c.context, max_tokens: C.int32_t(options.MaxTokens),
		reasoning_budget: C.int32_t(options.ReasoningBudget), id_seed: C.uint64_t(options.IDSeed),
		stop: stop, n_stop: C.size_t(len(options.Stop)), vocab: tokens, free_calls: C.bool(options.FreeCalls),
	}
	var result C.RpChatResult
	arguments := ""
	back := &callbacks{ctx: ctx, event: func(event ChatEvent) bool {
		switch event.Kind {
		case ChatText:
			reply.Text += event.Text
		case ChatReasoning:
			reply.Reasoning += event.Text
		case ChatCallBegin:
			arguments = ""
		case ChatCallArguments:
			arguments += event.Text
		case ChatCallEnd:
			reply.Calls = append(reply.Calls, ToolCall{event.ID, event.Name, arguments})
		}
		return onEvent == nil || onEvent(event)
	}}
	err = back.with(func(handle C.uintptr_t) error {
		return call(func() C.RpStatus { return C.reprise_go_chat(c.session.raw, sampler.raw, &o, handle, &result) })
	})
	reply.Reason, reply.Prompt, reply.Kept = StopReason(result.reason), int(result.n_prompt), int(result.n_kept)
	reply.Generated, reply.ReasoningTokens, reply.Held = int(result.n_generated), int(result.n_reasoning), int(result.n_held)
	reply.DescribesTools = bool(result.describes_tools)
	reply.PrefillS, reply.DecodeS, reply.FirstTokenS = float64(result.prefill_s), float64(result.decode_s), float64(result.first_token_s)
	if err == nil && reply.Reason == StopCancelled {
		err = ctx.Err()
	}
	return reply, err
}
