//! A reply as an iterator.
use crate::error::{Error, Result};
use crate::sampler::Sampler;
use crate::session::Session;
use crate::tokenizer::{Tokenizer, Utf8Stream};

/// A sampled token, and the characters that it completes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    pub id: i32,
    /// Empty for a control token, and while a character is not complete.
    pub text: String,
}

/// A reply, token by token. It ends after an end token, after the given number of tokens, where the context is
/// full, and after an error.
pub struct Tokens<'a, 'm> {
    session: &'a mut Session<'m>,
    sampler: &'a mut Sampler,
    text: Utf8Stream,
    /// The token that the next step appends.
    last: Option<i32>,
    left: usize,
}

impl<'m> Session<'m> {
    /// Appends the prompt and returns the reply as an iterator: a step for each token, `max_tokens` of them at most. An
    /// empty prompt continues from the logits.
    ///
    /// As with [`Session::generate`], every token but the last one is appended to the context.
    ///
    /// ```no_run
    /// # use reprise::*;
    /// # fn main() -> Result<()> {
    /// # let model = Model::open("model.gguf")?;
    /// # let mut session = Session::open(&model, &SessionOptions::default())?;
    /// # let mut sampler = Sampler::new(&SamplerParams::default(), model.info().n_vocab)?;
    /// let prompt = model.tokenizer()?.encode("Once", true, false)?;
    /// for token in session.tokens(&mut sampler, &prompt, 64)? {
    ///     print!("{}", token?.text);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn tokens<'a>(
        &'a mut self,
        sampler: &'a mut Sampler,
        prompt: &[i32],
        max_tokens: usize,
    ) -> Result<Tokens<'a, 'm>> {
        if !prompt.is_empty() {
            self.prefill(prompt)?;
        }
        for &token in prompt {
            sampler.accept(token);
        }
        Ok(Tokens { session: self, sampler, text: Utf8Stream::new(), last: None, left: max_tokens })
    }
}

impl Tokens<'_, '_> {
    fn sample(&mut self) -> Result<Token> {
        if let Some(token) = self.last.take() {
            self.session.step(token)?;
        }
        let logits = self.session.logits();
        let logits = logits.ok_or_else(|| Error::argument("the session has no logits".to_string()))?;
        let id = self.sampler.sample(logits)?;
        let mut text = String::new();
        if let Ok(tokenizer) = Tokenizer::of_model(self.session.raw_tokenizer()) {
            text = self.text.feed(tokenizer.bytes(id, false)?);
            if tokenizer.is_end(id) {
                self.left = 0;
            }
        }
        self.last = Some(id);
        if self.left == 0 || self.session.n_past() >= self.session.n_ctx() {
            text.push_str(&self.text.flush());
            self.left = 0;
        }
        Ok(Token { id, text })
    }
}

impl Iterator for Tokens<'_, '_> {
    type Item = Result<Token>;

    fn next(&mut self) -> Option<Result<Token>> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let token = self.sample();
        if token.is_err() {
            self.left = 0;
        }
        Some(token)
    }
}
