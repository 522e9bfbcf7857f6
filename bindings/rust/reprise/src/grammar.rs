//! Structured output: replies that are texts of a grammar.
use crate::error::{check, text_of, Error, Result};
use reprise_sys as sys;
use std::fmt;
use std::os::raw::c_char;
use std::ptr::{null_mut, NonNull};
use std::sync::Arc;

/// Which texts a reply may be (`RpGrammar`): those of a JSON Schema, a GBNF grammar, a regular expression or a list. A
/// clone is the same grammar; threads may share it.
///
/// ```
/// use reprise::Grammar;
///
/// let colour = Grammar::json_schema(r#"{"enum": ["red", "green"]}"#)?;
/// assert!(colour.notes().is_empty());
/// assert!(Grammar::regex("(").is_err());
/// # Ok::<(), reprise::Error>(())
/// ```
#[derive(Clone)]
pub struct Grammar(Arc<Raw>);

struct Raw(NonNull<sys::RpGrammar>);

// The automata of a grammar are under a lock of the library.
unsafe impl Send for Raw {}
unsafe impl Sync for Raw {}

impl Drop for Raw {
    fn drop(&mut self) {
        unsafe { sys::rp_grammar_free(self.0.as_ptr()) }
    }
}

impl fmt::Debug for Grammar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Grammar")
    }
}

impl Grammar {
    fn make(call: impl FnOnce(*mut *mut sys::RpGrammar) -> sys::RpStatus) -> Result<Grammar> {
        let mut out = null_mut();
        check(call(&mut out))?;
        let raw = NonNull::new(out).ok_or_else(|| Error::argument("no grammar".to_string()))?;
        Ok(Grammar(Arc::new(Raw(raw))))
    }

    /// JSON that satisfies a JSON Schema. A keyword that cannot be kept is refused by name.
    pub fn json_schema(schema: &str) -> Result<Grammar> {
        Grammar::json_schema_with(schema, 0)
    }

    /// The same; a keyword that cannot be kept is dropped, and [`Grammar::notes`] names it.
    pub fn json_schema_weakened(schema: &str) -> Result<Grammar> {
        Grammar::json_schema_with(schema, sys::RP_GRAMMAR_WEAKEN as u32)
    }

    fn json_schema_with(schema: &str, flags: u32) -> Result<Grammar> {
        let (text, n) = (schema.as_ptr().cast::<c_char>(), schema.len());
        Grammar::make(|out| unsafe { sys::rp_grammar_json_schema(text, n, flags, out) })
    }

    /// Any JSON object.
    pub fn json() -> Result<Grammar> {
        Grammar::make(|out| unsafe { sys::rp_grammar_json(0, out) })
    }

    /// A grammar in GBNF, the format of llama.cpp.
    pub fn gbnf(text: &str) -> Result<Grammar> {
        Grammar::make(|out| unsafe { sys::rp_grammar_gbnf(text.as_ptr().cast(), text.len(), out) })
    }

    /// Texts that match a regular expression of ECMAScript as a whole.
    pub fn regex(pattern: &str) -> Result<Grammar> {
        Grammar::make(|out| unsafe { sys::rp_grammar_regex(pattern.as_ptr().cast(), pattern.len(), out) })
    }

    /// One of the texts.
    pub fn choices(texts: &[&str]) -> Result<Grammar> {
        let raw: Vec<sys::RpGgufString> =
            texts.iter().map(|t| sys::RpGgufString { ptr: t.as_ptr().cast(), len: t.len() }).collect();
        Grammar::make(|out| unsafe { sys::rp_grammar_choices(raw.as_ptr(), raw.len(), out) })
    }

    /// What [`Grammar::json_schema_weakened`] dropped.
    pub fn notes(&self) -> Vec<String> {
        let raw = (self.0).0.as_ptr();
        let n = unsafe { sys::rp_grammar_n_notes(raw) };
        (0..n).map(|i| unsafe { text_of(sys::rp_grammar_note_at(raw, i)) }).collect()
    }
}

/// The tokens of a tokenizer, for grammars. The tokenizer must outlive it.
#[derive(Debug)]
pub(crate) struct Vocab(NonNull<sys::RpGrammarVocab>);

// It is not changed after it has been made.
unsafe impl Send for Vocab {}

impl Vocab {
    pub(crate) fn new(tokenizer: *const sys::RpTokenizer) -> Result<Vocab> {
        let mut out = null_mut();
        check(unsafe { sys::rp_grammar_vocab_new(tokenizer, &mut out) })?;
        Ok(Vocab(NonNull::new(out).ok_or_else(|| Error::argument("no vocabulary".to_string()))?))
    }

    pub(crate) fn raw(&self) -> *const sys::RpGrammarVocab {
        self.0.as_ptr()
    }
}

impl Drop for Vocab {
    fn drop(&mut self) {
        unsafe { sys::rp_grammar_vocab_free(self.0.as_ptr()) }
    }
}

/// The place of one reply in its grammar, which it keeps. The vocabulary must outlive it.
#[derive(Debug)]
pub(crate) struct Matcher {
    raw: NonNull<sys::RpMatcher>,
    _grammar: Grammar,
}

unsafe impl Send for Matcher {}

impl Matcher {
    pub(crate) fn new(grammar: &Grammar, vocab: &Vocab) -> Result<Matcher> {
        let mut out = null_mut();
        check(unsafe { sys::rp_matcher_new((grammar.0).0.as_ptr(), vocab.raw(), &mut out) })?;
        let raw = NonNull::new(out).ok_or_else(|| Error::argument("no matcher".to_string()))?;
        Ok(Matcher { raw, _grammar: grammar.clone() })
    }

    pub(crate) fn raw(&self) -> *mut sys::RpMatcher {
        self.raw.as_ptr()
    }
}

impl Drop for Matcher {
    fn drop(&mut self) {
        unsafe { sys::rp_matcher_free(self.raw()) }
    }
}
