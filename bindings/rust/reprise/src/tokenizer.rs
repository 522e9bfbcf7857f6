//! Text to token ids and back, and conversations.
use crate::error::{c_string, check, text_of, Error, Result, Status};
use reprise_sys as sys;
use std::ffi::CString;
use std::fmt;
use std::marker::PhantomData;
use std::mem::size_of;
use std::os::raw::c_char;

/// The tokenizer of a model.
#[derive(Debug, Clone, Copy)]
pub struct Tokenizer<'m> {
    raw: *const sys::RpTokenizer,
    model: PhantomData<&'m ()>,
}

// A tokenizer does not change.
unsafe impl Send for Tokenizer<'_> {}
unsafe impl Sync for Tokenizer<'_> {}

/// The marks around the messages of a conversation (`RpChatKind`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChatKind(pub(crate) sys::RpChatKind);

impl ChatKind {
    /// chatml, llama3, mistral, gemma or llama2.
    pub fn from_name(name: &str) -> Result<ChatKind> {
        let name = c_string("rp_chat_from_name", "name", name)?;
        let mut kind = 0;
        check(unsafe { sys::rp_chat_from_name(name.as_ptr(), &mut kind) })?;
        Ok(ChatKind(kind))
    }

    pub fn name(self) -> String {
        unsafe { text_of(sys::rp_chat_name(self.0)) }
    }
}

/// A message of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    /// `system`, `user` or `assistant`.
    pub role: &'a str,
    pub text: &'a str,
}

impl<'a> Message<'a> {
    pub fn system(text: &'a str) -> Self {
        Message { role: "system", text }
    }

    pub fn user(text: &'a str) -> Self {
        Message { role: "user", text }
    }

    pub fn assistant(text: &'a str) -> Self {
        Message { role: "assistant", text }
    }
}

/// A list of ids that the library fills in.
pub(crate) struct TokenList(pub(crate) sys::RpTokenList);

impl TokenList {
    pub(crate) fn new() -> TokenList {
        TokenList(sys::RpTokenList { ids: std::ptr::null_mut(), n: 0, capacity: 0 })
    }

    pub(crate) fn to_vec(&self) -> Vec<i32> {
        if self.0.n == 0 {
            return Vec::new();
        }
        unsafe { std::slice::from_raw_parts(self.0.ids, self.0.n).to_vec() }
    }
}

impl fmt::Debug for TokenList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_vec().fmt(f)
    }
}

impl Drop for TokenList {
    fn drop(&mut self) {
        unsafe { sys::rp_token_list_free(&mut self.0) }
    }
}

fn flags(add_special: bool, parse_special: bool) -> u32 {
    let add = if add_special { sys::RP_TOK_ADD_SPECIAL } else { 0 };
    let parse = if parse_special { sys::RP_TOK_PARSE_SPECIAL } else { 0 };
    (add | parse) as u32
}

/// A chat template of the library.
struct Template(*mut sys::RpChatTemplate);

impl Drop for Template {
    fn drop(&mut self) {
        unsafe { sys::rp_chat_template_free(self.0) }
    }
}

/// Calls `run` with the messages as the library takes them: pointer, bytes of one, number.
fn with_messages<T>(
    messages: &[Message<'_>],
    run: impl FnOnce(*const sys::RpChatMessage, usize, usize) -> Result<T>,
) -> Result<T> {
    let texts = messages.iter().map(|m| {
        let role = c_string("rp_chat_tokenize", "role", m.role)?;
        Ok((role, c_string("rp_chat_tokenize", "text", m.text)?))
    });
    let texts: Vec<(CString, CString)> = texts.collect::<Result<_>>()?;
    let raw = |(role, text): &(CString, CString)| sys::RpChatMessage { role: role.as_ptr(), text: text.as_ptr() };
    let raw: Vec<sys::RpChatMessage> = texts.iter().map(raw).collect();
    run(raw.as_ptr(), size_of::<sys::RpChatMessage>(), raw.len())
}

impl<'m> Tokenizer<'m> {
    pub(crate) fn of_model(raw: *const sys::RpTokenizer) -> Result<Tokenizer<'m>> {
        if raw.is_null() {
            let text = "the model has no tokenizer".to_string();
            return Err(Error::Reprise { status: Status::Unsupported, text });
        }
        Ok(Tokenizer { raw, model: PhantomData })
    }

    /// The tokens of a text. `add_special`: BOS and EOS as the file asks. `parse_special`: `<|im_end|>` in the text
    /// becomes that control token; otherwise it is plain text.
    pub fn encode(&self, text: impl AsRef<[u8]>, add_special: bool, parse_special: bool) -> Result<Vec<i32>> {
        let (text, mut list) = (text.as_ref(), TokenList::new());
        let flags = flags(add_special, parse_special);
        check(unsafe { sys::rp_tokenize(self.raw, text.as_ptr().cast(), text.len(), flags, &mut list.0) })?;
        Ok(list.to_vec())
    }

    /// A conversation in a format: see [`crate::Model::chat_tokens`].
    pub fn encode_chat(
        &self,
        kind: ChatKind,
        messages: &[Message<'_>],
        add_special: bool,
        parse_special: bool,
    ) -> Result<Vec<i32>> {
        with_messages(messages, |raw, bytes, n| {
            let (mut list, flags) = (TokenList::new(), flags(add_special, parse_special));
            check(unsafe { sys::rp_chat_tokenize_sized(self.raw, kind.0, raw, bytes, n, flags, &mut list.0) })?;
            Ok(list.to_vec())
        })
    }

    /// A conversation by the template of the file: see [`crate::Model::chat_tokens`].
    pub(crate) fn encode_by_template(&self, file: *const sys::RpGgufFile, messages: &[Message<'_>]) -> Result<Vec<i32>> {
        let mut raw = std::ptr::null_mut();
        check(unsafe { sys::rp_chat_template_of(file, self.raw, &mut raw) })?;
        let template = Template(raw);
        with_messages(messages, |raw, bytes, n| {
            let (mut list, flags) = (TokenList::new(), flags(true, false));
            check(unsafe {
                sys::rp_chat_template_tokenize_sized(self.raw, template.0, raw, bytes, n, flags, &mut list.0)
            })?;
            Ok(list.to_vec())
        })
    }

    /// The text of ids, with U+FFFD for bytes that are not UTF-8. `special`: control tokens give their text.
    pub fn decode(&self, ids: &[i32], special: bool) -> Result<String> {
        let (mut stream, mut out) = (Utf8Stream::new(), String::new());
        for &id in ids {
            out.push_str(&stream.feed(self.bytes(id, special)?));
        }
        out.push_str(&stream.flush());
        Ok(out)
    }

    /// The bytes of one token, which may be a part of a character.
    pub fn bytes(&self, id: i32, special: bool) -> Result<&'m [u8]> {
        let mut out = sys::RpGgufString { ptr: std::ptr::null(), len: 0 };
        check(unsafe { sys::rp_token_bytes(self.raw, id, special, &mut out) })?;
        if out.len == 0 {
            return Ok(&[]);
        }
        Ok(unsafe { std::slice::from_raw_parts(out.ptr.cast(), out.len) })
    }

    pub fn n_vocab(&self) -> i32 {
        unsafe { sys::rp_tokenizer_n_vocab(self.raw) }
    }

    /// `gpt2` (byte-level BPE) or `llama` (SentencePiece).
    pub fn kind(&self) -> String {
        unsafe { text_of(sys::rp_tokenizer_kind(self.raw)) }
    }

    pub fn bos(&self) -> Option<i32> {
        Some(unsafe { sys::rp_tokenizer_bos(self.raw) }).filter(|&id| id >= 0)
    }

    pub fn eos(&self) -> Option<i32> {
        Some(unsafe { sys::rp_tokenizer_eos(self.raw) }).filter(|&id| id >= 0)
    }

    /// True for every token that ends a reply.
    pub fn is_end(&self, id: i32) -> bool {
        unsafe { sys::rp_tokenizer_is_end(self.raw, id) }
    }

    pub fn is_control(&self, id: i32) -> bool {
        unsafe { sys::rp_tokenizer_is_control(self.raw, id) }
    }

    /// The id of a token by its text exactly as the file stores it.
    pub fn find(&self, text: &str) -> Option<i32> {
        let text = CString::new(text).ok()?;
        Some(unsafe { sys::rp_tokenizer_find(self.raw, text.as_ptr()) }).filter(|&id| id >= 0)
    }
}

/// Joins the bytes of successive tokens to whole characters.
#[derive(Clone, Copy)]
pub(crate) struct Utf8Stream(sys::RpUtf8Stream);

impl Utf8Stream {
    pub(crate) fn new() -> Utf8Stream {
        Utf8Stream(sys::RpUtf8Stream { held: [0; 4], n_held: 0 })
    }

    pub(crate) fn feed(&mut self, bytes: &[u8]) -> String {
        let mut out = vec![0u8; 4 * bytes.len() + 16];
        let (from, to) = (bytes.as_ptr().cast::<c_char>(), out.as_mut_ptr().cast::<c_char>());
        let n = unsafe { sys::rp_utf8_feed(&mut self.0, from, bytes.len(), to) };
        String::from_utf8_lossy(&out[..n]).into_owned()
    }

    pub(crate) fn flush(&mut self) -> String {
        let mut out = [0u8; 4];
        let n = unsafe { sys::rp_utf8_flush(&mut self.0, out.as_mut_ptr().cast()) };
        String::from_utf8_lossy(&out[..n]).into_owned()
    }
}
