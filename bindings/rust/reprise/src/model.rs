//! Model files.
use crate::error::{c_string, check, text_of, Error, Result};
use crate::tokenizer::{ChatKind, Message, Tokenizer};
use reprise_sys as sys;
use std::any::Any;
use std::ffi::CString;
use std::mem::{size_of, zeroed};
use std::os::raw::c_void;
use std::os::unix::ffi::OsStrExt;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::path::Path;
use std::ptr::{null, null_mut, NonNull};

/// An open model. It does not change, and any number of sessions and threads may use it.
///
/// A session cannot outlive its model:
///
/// ```compile_fail,E0505
/// use reprise::{Model, Session, SessionOptions};
///
/// # fn main() -> reprise::Result<()> {
/// let model = Model::open("model.gguf")?;
/// let session = Session::open(&model, &SessionOptions::default())?;
/// drop(model);
/// session.n_past();
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Model {
    raw: NonNull<sys::RpModel>,
    /// The memory of [`Model::open_memory`].
    _memory: Option<Box<[u8]>>,
}

// "A model, a GGUF file and a tokenizer do not change once they are open" (docs/api.md).
unsafe impl Send for Model {}
unsafe impl Sync for Model {}

#[derive(Debug, Clone, Default)]
pub struct ModelOptions {
    /// Read the file into private memory instead of mapping it.
    pub copy: bool,
}

/// Facts about a model (`RpModelInfo`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelInfo {
    pub arch: String,
    pub name: String,
    pub n_vocab: i32,
    pub n_embd: i32,
    pub n_layer: i32,
    pub n_head: i32,
    pub n_head_kv: i32,
    pub head_dim: i32,
    pub n_ctx_train: i32,
    pub n_expert: i32,
    pub n_expert_used: i32,
    pub n_params: i64,
    pub n_params_active: i64,
    pub weight_bytes: usize,
}

impl Model {
    /// Opens a GGUF file. The weights stay in the mapped file: replace it by a rename, do not write into it.
    pub fn open(path: impl AsRef<Path>) -> Result<Model> {
        let path = path_string("rp_model_open", "path", path.as_ref())?;
        Model::open_raw(&path, &unsafe { zeroed() })
    }

    /// Opens a file, reads all weights in, and reports bytes done and in all. The closure returns false to stop with
    /// [`crate::Status::Cancelled`].
    pub fn open_with<F: FnMut(usize, usize) -> bool>(
        path: impl AsRef<Path>,
        options: &ModelOptions,
        progress: F,
    ) -> Result<Model> {
        let path = path_string("rp_model_open", "path", path.as_ref())?;
        let mut call = Callback::new(progress);
        let mut raw: sys::RpModelOptions = unsafe { zeroed() };
        raw.copy = options.copy;
        raw.progress = Some(on_progress::<F>);
        raw.user = call.user();
        let model = Model::open_raw(&path, &raw);
        call.finish();
        model
    }

    fn open_raw(path: &CString, options: &sys::RpModelOptions) -> Result<Model> {
        let mut out = null_mut();
        let bytes = size_of::<sys::RpModelOptions>();
        check(unsafe { sys::rp_model_open_sized(path.as_ptr(), options, bytes, &mut out) })?;
        Model::of(out, None)
    }

    /// Opens a model in memory. `name` stands for the path in errors.
    pub fn open_memory(data: impl Into<Box<[u8]>>, name: &str) -> Result<Model> {
        let name = c_string("rp_model_open_memory", "name", name)?;
        let data: Box<[u8]> = data.into();
        let mut out = null_mut();
        check(unsafe { sys::rp_model_open_memory(data.as_ptr().cast(), data.len(), name.as_ptr(), &mut out) })?;
        Model::of(out, Some(data))
    }

    /// A preset without weights, which read as zeros (`reprise synth list`).
    pub fn open_preset(preset: &str, kind: &str) -> Result<Model> {
        let preset = c_string("rp_model_open_preset", "preset", preset)?;
        let kind = c_string("rp_model_open_preset", "type", kind)?;
        let mut out = null_mut();
        check(unsafe { sys::rp_model_open_preset(preset.as_ptr(), kind.as_ptr(), &mut out) })?;
        Model::of(out, None)
    }

    fn of(raw: *mut sys::RpModel, memory: Option<Box<[u8]>>) -> Result<Model> {
        let raw = NonNull::new(raw).ok_or_else(|| Error::argument("no model".to_string()))?;
        Ok(Model { raw, _memory: memory })
    }

    pub(crate) fn raw(&self) -> *mut sys::RpModel {
        self.raw.as_ptr()
    }

    pub fn info(&self) -> ModelInfo {
        let raw = unsafe { &*sys::rp_model_info(self.raw()) };
        ModelInfo {
            arch: unsafe { text_of(raw.arch) },
            name: unsafe { text_of(raw.name) },
            n_vocab: raw.n_vocab,
            n_embd: raw.n_embd,
            n_layer: raw.n_layer,
            n_head: raw.n_head,
            n_head_kv: raw.n_head_kv,
            head_dim: raw.head_dim,
            n_ctx_train: raw.n_ctx_train,
            n_expert: raw.n_expert,
            n_expert_used: raw.n_expert_used,
            n_params: raw.n_params,
            n_params_active: raw.n_params_active,
            weight_bytes: raw.weight_bytes,
        }
    }

    pub(crate) fn n_vocab(&self) -> usize {
        unsafe { (*sys::rp_model_info(self.raw())).n_vocab as usize }
    }

    /// [`crate::Status::Unsupported`] for a file without a tokenizer.
    pub fn tokenizer(&self) -> Result<Tokenizer<'_>> {
        Tokenizer::of_model(unsafe { sys::rp_model_tokenizer(self.raw()) })
    }

    /// The chat format whose marks the template of the file contains. [`Model::chat_tokens`] runs the template itself.
    pub fn chat_kind(&self) -> Result<ChatKind> {
        let mut kind = 0;
        check(unsafe { sys::rp_chat_detect(sys::rp_model_file(self.raw()), &mut kind) })?;
        Ok(ChatKind(kind))
    }

    /// Applies a LoRA adapter, a GGUF file, whenever the model runs: y = w x + `scale` * alpha / rank * b (a x) for
    /// each matrix that it adapts. Several add up. Sessions borrow the model, so none of them sees it change.
    pub fn add_adapter(&mut self, path: impl AsRef<Path>, scale: f32) -> Result<()> {
        let path = path_string("rp_model_add_adapter", "path", path.as_ref())?;
        check(unsafe { sys::rp_model_add_adapter(self.raw(), path.as_ptr(), scale) })
    }

    /// Writes the model with its adapters added into the weights. An adapted matrix is written in `kind`, such as
    /// `f16`; `None`: in its own type. All else is copied.
    pub fn merge_adapters(&self, path: impl AsRef<Path>, kind: Option<&str>) -> Result<()> {
        let path = path_string("rp_merge_adapters", "path", path.as_ref())?;
        let kind = kind.map(|k| c_string("rp_merge_adapters", "type", k)).transpose()?;
        let kind = kind.as_ref().map_or(null(), |k| k.as_ptr());
        check(unsafe { sys::rp_merge_adapters(self.raw(), path.as_ptr(), kind, None, null_mut()) })
    }

    /// A conversation as token ids, which end where the reply of the assistant begins. Messages are plain text: one that
    /// spells a control token does not end its turn. The template of the file is run; it decides which roles it takes.
    pub fn chat_tokens(&self, messages: &[Message<'_>]) -> Result<Vec<i32>> {
        self.tokenizer()?.encode_by_template(unsafe { sys::rp_model_file(self.raw()) }, messages)
    }

    /// The logits after every token of sequences that are `seq` tokens long, each from an empty context:
    /// f32 `[ids.len() / seq][seq][n_vocab]`.
    pub fn logits(&self, ids: &[i32], seq: usize) -> Result<Vec<f32>> {
        if seq == 0 || ids.len() % seq != 0 {
            let text = format!("rp_model_logits: {} ids are no sequences of {}", ids.len(), seq);
            return Err(Error::argument(text));
        }
        let n = ids.len() * self.n_vocab();
        let mut out: Vec<f32> = Vec::new();
        if out.try_reserve_exact(n).is_err() {
            let text = format!("rp_model_logits: {} floats could not be allocated", n);
            return Err(Error::Reprise { status: crate::Status::OutOfMemory, text });
        }
        out.resize(n, 0.0);
        let batch = ids.len() / seq;
        check(unsafe { sys::rp_model_logits(self.raw(), ids.as_ptr(), batch, seq, out.as_mut_ptr()) })?;
        Ok(out)
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        unsafe { sys::rp_model_free(self.raw()) }
    }
}

pub(crate) fn path_string(function: &str, argument: &str, path: &Path) -> Result<CString> {
    c_string(function, argument, path.as_os_str().as_bytes())
}

/// A closure behind the `user` pointer of a C function. A panic is kept until the C function has returned.
pub(crate) struct Callback<F> {
    function: F,
    panic: Option<Box<dyn Any + Send>>,
}

impl<F> Callback<F> {
    pub(crate) fn new(function: F) -> Box<Callback<F>> {
        Box::new(Callback { function, panic: None })
    }

    pub(crate) fn user(&mut self) -> *mut c_void {
        (self as *mut Callback<F>).cast()
    }

    /// Calls the closure. After a panic, and from then on, the answer is `stop`.
    ///
    /// # Safety
    /// `user` is from [`Callback::user`] of this type, and the callback is not in use elsewhere.
    pub(crate) unsafe fn run<R>(user: *mut c_void, stop: R, call: impl FnOnce(&mut F) -> R) -> R {
        let callback = &mut *user.cast::<Callback<F>>();
        if callback.panic.is_some() {
            return stop;
        }
        let function = &mut callback.function;
        match catch_unwind(AssertUnwindSafe(|| call(function))) {
            Ok(result) => result,
            Err(panic) => {
                callback.panic = Some(panic);
                stop
            }
        }
    }

    /// The closure, after [`Callback::finish`].
    pub(crate) fn into_inner(self) -> F {
        self.function
    }

    /// Continues a panic of the closure.
    pub(crate) fn finish(&mut self) {
        if let Some(panic) = self.panic.take() {
            resume_unwind(panic);
        }
    }
}

unsafe extern "C" fn on_progress<F: FnMut(usize, usize) -> bool>(done: usize, total: usize, user: *mut c_void) -> bool {
    Callback::<F>::run(user, false, |f| f(done, total))
}
