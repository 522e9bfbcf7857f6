// Chats and grammars, on the demo model.

package reprise

import (
	"context"
	"errors"
	"strings"
	"testing"
)

const chatTemplate = "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% for c in m.tool_calls %}<tool_call>" +
	"{{ c.function | tojson }}</tool_call>{% endfor %}{% endfor %}{% if tools %}.{% endif %}[assistant]"
const chatSchema = `{"type": "object", "properties": {"a": {"enum": ["x", "yy"]}}, "required": ["a"], "additionalProperties": false}`

var hermes = ChatOptions{MaxTokens: 60, Calls: "hermes"}

func chatOf(t *testing.T) (*Chat, func(temperature float32) *Sampler) {
	t.Helper()
	m := demo(t)
	c := must[*Chat](t)(NewChat(session(t, m, SessionOptions{Context: 256}), chatTemplate))
	t.Cleanup(func() { _ = c.Close() })
	return c, func(temperature float32) *Sampler {
		return must[*Sampler](t)(m.NewSampler(SamplerParams{Temperature: temperature, Seed: 3}))
	}
}

func TestTheEventsOfAChatAreItsText(t *testing.T) {
	c, sampler := chatOf(t)
	request := ChatRequest{Messages: []ChatMessage{{Role: "system", Text: "Be\n\"brief\"."}, {Role: "user", Text: "Hi \U0001F600"}}}
	text := ""
	reply := must[ChatReply](t)(c.Reply(context.Background(), sampler(0), request, ChatOptions{MaxTokens: 12}, func(e ChatEvent) bool {
		if e.Kind != ChatText || e.Call != -1 {
			t.Errorf("%+v", e)
		}
		text += e.Text
		return true
	}))
	if reply.Text != text || reply.Generated != 12 || reply.Kept != 0 || reply.Reason != StopLimit {
		t.Errorf("%+v, %q", reply, text)
	}
	request.Messages = append(request.Messages, ChatMessage{Role: "assistant", Text: text}, ChatMessage{Role: "user", Text: "And then?"})
	if reply = must[ChatReply](t)(c.Reply(context.Background(), sampler(0), request, ChatOptions{MaxTokens: 3}, nil)); reply.Kept <= 10 {
		t.Errorf("the second request goes on from the first: %+v", reply)
	}
}

func TestCallsOfAChatAreHeld(t *testing.T) {
	c, sampler := chatOf(t)
	request := ChatRequest{Messages: []ChatMessage{{Role: "user", Text: "Hi"}}, Tools: []Tool{{"f", "What it does", chatSchema}}}
	required, begun := request, 0
	required.RequireCall = true
	reply := must[ChatReply](t)(c.Reply(context.Background(), sampler(1), required, hermes, func(e ChatEvent) bool {
		if e.Kind == ChatCallBegin && e.Name == "f" && e.ID != "" && e.Call == 0 {
			begun++
		}
		return true
	}))
	if begun != 1 || len(reply.Calls) != 1 || reply.Held != 1 || reply.Reason != StopGrammar || reply.DescribesTools {
		t.Fatalf("%+v", reply)
	}
	if !strings.Contains(reply.Calls[0].Arguments, `"a"`) {
		t.Error(reply.Calls[0])
	}
	request.Messages = append(request.Messages, ChatMessage{Role: "assistant", Calls: reply.Calls},
		ChatMessage{Role: "tool", CallID: reply.Calls[0].ID, Text: "7 C"})
	must[ChatReply](t)(c.Reply(context.Background(), sampler(0), request, hermes, nil))
}

func TestAnswersOfAChat(t *testing.T) {
	c, sampler := chatOf(t)
	request := ChatRequest{Messages: []ChatMessage{{Role: "user", Text: "Hi"}}, AnswerSchema: chatSchema}
	reply := must[ChatReply](t)(c.Reply(context.Background(), sampler(1), request, hermes, nil))
	if text := strings.Join(strings.Fields(reply.Text), ""); text != `{"a":"x"}` && text != `{"a":"yy"}` {
		t.Error(reply.Text)
	}
	free := ChatRequest{Messages: request.Messages}
	reply = must[ChatReply](t)(c.Reply(context.Background(), sampler(0), free, ChatOptions{}, func(ChatEvent) bool { return false }))
	if reply.Reason != StopCancelled {
		t.Errorf("%+v", reply)
	}
	ctx, cancel := context.WithCancel(context.Background())
	_, err := c.Reply(ctx, sampler(0), free, ChatOptions{}, func(ChatEvent) bool { cancel(); return true })
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	_, err = c.Reply(context.Background(), sampler(0), ChatRequest{More: map[string]any{"stop": 1}}, hermes, nil)
	refusedWith(t, err, "stop must be a string or an array of strings")
	_, err = c.Reply(context.Background(), sampler(0), ChatRequest{AnswerSchema: "{"}, hermes, nil)
	refusedWith(t, err, "the request is no JSON")
	if err = c.Close(); err != nil {
		t.Error(err)
	}
	_, err = c.Reply(context.Background(), sampler(0), free, hermes, nil)
	refusedWith(t, err, "chat is closed")
}

func TestGrammarsHoldReplies(t *testing.T) {
	m := demo(t)
	ids := must[[]int32](t)(m.Tokenize("In the", AddSpecial))
	e := engine(t, m, EngineOptions{Context: 128})
	cases := []struct {
		grammar *Grammar
		want    []string
	}{
		{must[*Grammar](t)(GrammarOfChoices("yes", "no")), []string{"yes", "no"}},
		{must[*Grammar](t)(GrammarOfRegex("a|bb")), []string{"a", "bb"}},
		{must[*Grammar](t)(GrammarOfGBNF(`root ::= "q" | "r"`)), []string{"q", "r"}},
		{must[*Grammar](t)(GrammarOfSchema(`{"enum": [12, 345]}`, false)), []string{"12", "345"}},
	}
	params := SamplerParams{Temperature: 1, Seed: 3}
	for _, c := range cases {
		alone := ""
		s, sampler := session(t, m, SessionOptions{Context: 128}), must[*Sampler](t)(m.NewSampler(params))
		reply := must[Reply](t)(s.Generate(context.Background(), sampler, ids, GenerateOptions{Grammar: c.grammar},
			func(piece string) bool { alone += piece; return true }))
		if reply.Reason != StopGrammar || alone != c.want[0] && alone != c.want[1] {
			t.Errorf("%q, %v", alone, reply.Reason)
		}
		id := must[uint64](t)(e.Add(Request{Prompt: ids, Sampler: params, Grammar: c.grammar}))
		if all, _ := replies(t, e); all[id].text != alone {
			t.Errorf("%q, alone %q", all[id].text, alone)
		}
	}
	_, err := GrammarOfSchema(`{"uniqueItems": true}`, false)
	refusedWith(t, err, "uniqueItems")
	if notes := must[*Grammar](t)(GrammarOfSchema(`{"uniqueItems": true}`, true)).Notes(); len(notes) != 1 {
		t.Error(notes)
	}
	if notes := must[*Grammar](t)(GrammarOfJSON()).Notes(); len(notes) != 0 {
		t.Error(notes)
	}
}
