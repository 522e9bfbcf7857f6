//! Chats: messages in, events out.
use crate::error::{c_string, check, text_of, Error, Result};
use crate::grammar::Vocab;
use crate::model::Callback;
use crate::sampler::Sampler;
use crate::session::{Session, StopReason};
use crate::tokenizer::TokenList;
use reprise_sys as sys;
use std::ffi::CString;
use std::fmt::Write;
use std::mem::{size_of, zeroed};
use std::os::raw::{c_char, c_void};
use std::ptr::{null_mut, NonNull};

/// A request in the making: the JSON of an OpenAI client.
///
/// ```
/// use reprise::ChatRequest;
///
/// let request = ChatRequest::new()
///     .message("user", "Weather in \"Oslo\"?")
///     .tool("weather", "The weather of a city.", r#"{"type": "object", "properties": {"city": {"type": "string"}}}"#);
/// assert!(request.to_json().starts_with(r#"{"messages":[{"role":"user","content":"Weather in \"Oslo\"?"}]"#));
/// ```
#[derive(Debug, Clone, Default)]
pub struct ChatRequest {
    messages: Vec<String>,
    tools: Vec<String>,
    members: Vec<(String, String)>,
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if (c as u32) < 0x20 => write!(out, "\\u{:04x}", c as u32).expect("a string takes every text"),
            c => out.push(c),
        }
    }
    out + "\""
}

impl ChatRequest {
    pub fn new() -> ChatRequest {
        ChatRequest::default()
    }

    /// A message of the role `system`, `user` or `assistant`.
    pub fn message(self, role: &str, text: &str) -> ChatRequest {
        let json = format!("{{\"role\":{},\"content\":{}}}", quoted(role), quoted(text));
        self.message_json(json)
    }

    /// The calls of a reply, as a message of the assistant with its text. Arguments are JSON.
    pub fn calls(self, text: &str, calls: &[ToolCall]) -> ChatRequest {
        let each: Vec<String> = calls
            .iter()
            .map(|c| {
                let (id, name, arguments) = (quoted(&c.id), quoted(&c.name), quoted(&c.arguments));
                format!(
                    "{{\"id\":{},\"type\":\"function\",\"function\":{{\"name\":{},\"arguments\":{}}}}}",
                    id, name, arguments
                )
            })
            .collect();
        let json =
            format!("{{\"role\":\"assistant\",\"content\":{},\"tool_calls\":[{}]}}", quoted(text), each.join(","));
        self.message_json(json)
    }

    /// The result of a call.
    pub fn result(self, id: &str, text: &str) -> ChatRequest {
        let json = format!("{{\"role\":\"tool\",\"tool_call_id\":{},\"content\":{}}}", quoted(id), quoted(text));
        self.message_json(json)
    }

    /// A message as JSON.
    pub fn message_json(mut self, json: impl Into<String>) -> ChatRequest {
        self.messages.push(json.into());
        self
    }

    /// A function that the model may call. `parameters` is a JSON Schema.
    pub fn tool(mut self, name: &str, description: &str, parameters: &str) -> ChatRequest {
        let (name, description) = (quoted(name), quoted(description));
        self.tools.push(format!(
            "{{\"type\":\"function\",\"function\":{{\"name\":{},\"description\":{},\"parameters\":{}}}}}",
            name, description, parameters
        ));
        self
    }

    /// The reply is a call of a tool.
    pub fn require_call(self) -> ChatRequest {
        self.member("tool_choice", "\"required\"")
    }

    /// The answer is JSON by a JSON Schema.
    pub fn answer_schema(self, schema: &str) -> ChatRequest {
        self.member("response_format", &format!("{{\"type\":\"json_schema\",\"schema\":{}}}", schema))
    }

    /// Another member as JSON, such as `max_tokens`, or a variable of the template, such as `enable_thinking`.
    pub fn member(mut self, name: &str, json: &str) -> ChatRequest {
        self.members.push((name.to_string(), json.to_string()));
        self
    }

    pub fn to_json(&self) -> String {
        let mut out = format!("{{\"messages\":[{}]", self.messages.join(","));
        if !self.tools.is_empty() {
            write!(out, ",\"tools\":[{}]", self.tools.join(",")).expect("a string takes every text");
        }
        for (name, json) in &self.members {
            write!(out, ",{}:{}", quoted(name), json).expect("a string takes every text");
        }
        out + "}"
    }
}

/// How a reply is made (`RpChatOptions`).
#[derive(Debug, Clone, Default)]
pub struct ChatOptions {
    /// 0: until the context is full.
    pub max_tokens: i32,
    /// Tokens of reasoning, after which it is closed; 0: no limit.
    pub reasoning_budget: i32,
    /// Ids of calls are a function of it and of their number.
    pub id_seed: u64,
    /// Texts that end the answer; they are never given.
    pub stop: Vec<String>,
    /// Calls that the model begins by itself are not held to the tools.
    pub free_calls: bool,
    /// Format of calls, such as `hermes`; None: that of the template.
    pub calls: Option<String>,
    /// Format of the reasoning, such as `think`; None: that of the template.
    pub reasoning: Option<String>,
}

/// A piece of a reply (`RpReplyEvent`). `call` is the number of a call, from 0.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChatEvent {
    Text(String),
    Reasoning(String),
    CallBegin {
        call: i32,
        id: String,
        name: String,
    },
    /// The pieces of a call together are one JSON object.
    CallArguments {
        call: i32,
        text: String,
    },
    /// `written`: how the model wrote the call.
    CallEnd {
        call: i32,
        id: String,
        name: String,
        written: String,
    },
    /// What began as a call and is none; of a call that has begun, its number.
    Malformed {
        call: Option<i32>,
        text: String,
    },
}

/// A call that is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolCall {
    pub id: String,
    pub name: String,
    /// A JSON object.
    pub arguments: String,
}

/// A reply that has ended (`RpChatResult`).
#[derive(Debug, Clone, PartialEq)]
pub struct ChatReply {
    pub reason: StopReason,
    pub text: String,
    pub reasoning: String,
    pub calls: Vec<ToolCall>,
    pub n_prompt: i32,
    /// Tokens of the prompt that the session had.
    pub n_kept: i32,
    pub n_generated: i32,
    pub n_reasoning: i32,
    /// Calls that were held to the tools.
    pub n_held: i32,
    /// The template has no tools, so that a message describes them.
    pub describes_tools: bool,
    /// Seconds.
    pub prefill_s: f64,
    pub decode_s: f64,
    pub first_token_s: f64,
}

#[derive(Debug)]
struct Template(NonNull<sys::RpChatTemplate>);

impl Drop for Template {
    fn drop(&mut self) {
        unsafe { sys::rp_chat_template_free(self.0.as_ptr()) }
    }
}

#[derive(Debug)]
struct CallLog(NonNull<sys::RpToolCallLog>);

impl Drop for CallLog {
    fn drop(&mut self) {
        unsafe { sys::rp_tool_call_log_free(self.0.as_ptr()) }
    }
}

/// A session that is talked to: what a request has in common with the one before is not computed again, and calls come
/// back as the model wrote them.
///
/// ```no_run
/// use reprise::{Chat, ChatEvent, ChatOptions, ChatRequest, Model, Sampler, SamplerParams, Session, SessionOptions};
///
/// # fn main() -> reprise::Result<()> {
/// let model = Model::open("model.gguf")?;
/// let session = Session::open(&model, &SessionOptions::default())?;
/// let mut sampler = Sampler::new(&SamplerParams::default(), model.info().n_vocab)?;
/// let mut chat = Chat::new(session)?;
/// let request = ChatRequest::new().message("user", "Hi there");
/// let reply = chat.reply(&mut sampler, &request, &ChatOptions::default(), |event| {
///     if let ChatEvent::Text(text) = event {
///         print!("{}", text);
///     }
///     true
/// })?;
/// for call in &reply.calls {
///     println!("{} {}", call.name, call.arguments);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Chat<'m> {
    session: Session<'m>,
    template: Template,
    log: CallLog,
    context: TokenList,
}

// A chat is for one thread at a time, whichever it is.
unsafe impl Send for Chat<'_> {}

impl<'m> Chat<'m> {
    /// With the chat template of the model. The session must be empty.
    pub fn new(session: Session<'m>) -> Result<Chat<'m>> {
        let (tokenizer, mut out) = (session.raw_tokenizer(), null_mut());
        let file = unsafe { sys::rp_model_file(sys::rp_session_model(session.raw())) };
        check(unsafe { sys::rp_chat_template_of(file, tokenizer, &mut out) })?;
        Chat::of(session, out)
    }

    /// With another template, a Jinja program.
    pub fn with_template(session: Session<'m>, source: &str) -> Result<Chat<'m>> {
        let (tokenizer, mut out) = (session.raw_tokenizer(), null_mut());
        let (name, text) = (c_string("rp_chat_template_new", "name", "template")?, source.as_ptr().cast::<c_char>());
        check(unsafe { sys::rp_chat_template_new(tokenizer, name.as_ptr(), text, source.len(), &mut out) })?;
        Chat::of(session, out)
    }

    fn of(session: Session<'m>, template: *mut sys::RpChatTemplate) -> Result<Chat<'m>> {
        let none = || Error::argument("no chat".to_string());
        let template = Template(NonNull::new(template).ok_or_else(none)?);
        let mut log = null_mut();
        check(unsafe { sys::rp_tool_call_log_new(0, &mut log) })?;
        Ok(Chat { session, template, log: CallLog(NonNull::new(log).ok_or_else(none)?), context: TokenList::new() })
    }

    pub fn session(&self) -> &Session<'m> {
        &self.session
    }

    /// Makes the reply to a request. `on_event` gets its pieces as they come; it returns false to stop.
    pub fn reply<F: FnMut(&ChatEvent) -> bool>(
        &mut self,
        sampler: &mut Sampler,
        request: &ChatRequest,
        options: &ChatOptions,
        on_event: F,
    ) -> Result<ChatReply> {
        let json = request.to_json();
        let text = |argument, text: &Option<String>| {
            text.as_ref().map(|t| c_string("rp_chat_generate", argument, t.as_str())).transpose()
        };
        let (calls, reasoning) = (text("calls", &options.calls)?, text("reasoning", &options.reasoning)?);
        let stop = options.stop.iter().map(|s| c_string("rp_chat_generate", "stop", s.as_str()));
        let stop: Vec<CString> = stop.collect::<Result<_>>()?;
        let pointers: Vec<*const c_char> = stop.iter().map(|s| s.as_ptr()).collect();
        let mut call = Callback::new((on_event, Collected::default()));
        let mut raw: sys::RpChatOptions = unsafe { zeroed() };
        let mut result: sys::RpChatResult = unsafe { zeroed() };
        raw.json = json.as_ptr().cast();
        raw.json_bytes = json.len();
        raw.format.calls = calls.as_ref().map_or(std::ptr::null(), |t| t.as_ptr());
        raw.format.reasoning = reasoning.as_ref().map_or(std::ptr::null(), |t| t.as_ptr());
        raw.log = self.log.0.as_ptr();
        raw.chat_template = self.template.0.as_ptr();
        raw.context = &mut self.context.0;
        raw.max_tokens = options.max_tokens;
        raw.reasoning_budget = options.reasoning_budget;
        raw.id_seed = options.id_seed;
        raw.on_event = Some(on_event_of::<F>);
        raw.user = call.user();
        raw.stop = pointers.as_ptr();
        raw.n_stop = pointers.len();
        raw.vocab = self.session.vocab().map(Vocab::raw)?;
        raw.free_calls = options.free_calls;
        let (bytes, result_bytes) = (size_of::<sys::RpChatOptions>(), size_of::<sys::RpChatResult>());
        let done = check(unsafe {
            sys::rp_chat_generate_sized(self.session.raw(), sampler.raw(), &raw, bytes, &mut result, result_bytes)
        });
        call.finish();
        done?;
        let all = call.into_inner().1;
        Ok(ChatReply {
            reason: StopReason::of(result.reason),
            text: all.text,
            reasoning: all.reasoning,
            calls: all.calls,
            n_prompt: result.n_prompt,
            n_kept: result.n_kept,
            n_generated: result.n_generated,
            n_reasoning: result.n_reasoning,
            n_held: result.n_held,
            describes_tools: result.describes_tools,
            prefill_s: result.prefill_s,
            decode_s: result.decode_s,
            first_token_s: result.first_token_s,
        })
    }
}

/// The pieces of a reply, joined.
#[derive(Default)]
struct Collected {
    text: String,
    reasoning: String,
    arguments: String,
    calls: Vec<ToolCall>,
}

impl Collected {
    fn take(&mut self, event: &ChatEvent) {
        match event {
            ChatEvent::Text(text) => self.text.push_str(text),
            ChatEvent::Reasoning(text) => self.reasoning.push_str(text),
            ChatEvent::CallBegin { .. } => self.arguments.clear(),
            ChatEvent::CallArguments { text, .. } => self.arguments.push_str(text),
            ChatEvent::CallEnd { id, name, .. } => {
                let arguments = std::mem::take(&mut self.arguments);
                self.calls.push(ToolCall { id: id.clone(), name: name.clone(), arguments });
            }
            ChatEvent::Malformed { .. } => {}
        }
    }
}

/// # Safety
/// The event is one of the library, during its callback.
unsafe fn event_of(raw: &sys::RpReplyEvent) -> Option<ChatEvent> {
    let bytes = if raw.len == 0 { &[][..] } else { std::slice::from_raw_parts(raw.text.cast(), raw.len) };
    let (call, text) = (raw.call, String::from_utf8_lossy(bytes).into_owned());
    match raw.kind {
        sys::RP_REPLY_TEXT => Some(ChatEvent::Text(text)),
        sys::RP_REPLY_REASONING => Some(ChatEvent::Reasoning(text)),
        sys::RP_REPLY_CALL_BEGIN => Some(ChatEvent::CallBegin { call, id: text_of(raw.id), name: text_of(raw.name) }),
        sys::RP_REPLY_CALL_ARGUMENTS => Some(ChatEvent::CallArguments { call, text }),
        sys::RP_REPLY_CALL_END => {
            Some(ChatEvent::CallEnd { call, id: text_of(raw.id), name: text_of(raw.name), written: text })
        }
        sys::RP_REPLY_MALFORMED => Some(ChatEvent::Malformed { call: Some(call).filter(|&c| c >= 0), text }),
        _ => None,
    }
}

unsafe extern "C" fn on_event_of<F: FnMut(&ChatEvent) -> bool>(
    event: *const sys::RpReplyEvent,
    user: *mut c_void,
) -> bool {
    Callback::<(F, Collected)>::run(user, false, |(f, all)| match event_of(&*event) {
        None => true,
        Some(event) => {
            all.take(&event);
            f(&event)
        }
    })
}
