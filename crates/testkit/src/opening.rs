//! Stores that tests open.

use std::path::Path;

use plimsoll_core::{OpenOptions, ParamValue, Params, Password, StoreError, StoreKind, Target, Waits};
use plimsoll_lab::OpenStore;

/// Run id unless another is set.
pub const RUN_ID: &str = "20260102-030405-ab12";

/// Options of one store.
pub struct Opening {
    kind: fn() -> Box<dyn StoreKind>,
    /// The options.
    pub options: OpenOptions,
}

impl Opening {
    /// Options for the server at `url`.
    pub fn attached(kind: fn() -> Box<dyn StoreKind>, url: &str, password: Option<&str>) -> Self {
        Self::of(kind, Target::Attach { url: url.to_owned(), password: password.map(Password::new) })
    }

    /// Options for a private store with its files in `data` under `dir`, and its logs in `dir`.
    ///
    /// # Panics
    /// If the directory cannot be made.
    pub fn private(kind: fn() -> Box<dyn StoreKind>, dir: &Path) -> Self {
        let data_dir = dir.join("data");
        std::fs::create_dir_all(&data_dir).expect("a directory");
        Self::of(kind, Target::Private { data_dir, said: false, log_dir: dir.to_owned() })
    }

    fn of(kind: fn() -> Box<dyn StoreKind>, target: Target) -> Self {
        let (params, run_id, waits) = (Params::default(), RUN_ID.to_owned(), Waits::default());
        Self { kind, options: OpenOptions { target, params, run_id, waits } }
    }

    /// Sets the run id.
    #[must_use]
    pub fn run(mut self, run_id: &str) -> Self {
        self.options.run_id = run_id.to_owned();
        self
    }

    /// Sets an integer parameter.
    #[must_use]
    pub fn int(mut self, name: &str, value: i64) -> Self {
        self.options.params.0.insert(name.to_owned(), ParamValue::Int(value));
        self
    }

    /// Sets a text parameter.
    #[must_use]
    pub fn text(mut self, name: &str, value: &str) -> Self {
        self.options.params.0.insert(name.to_owned(), ParamValue::Text(value.to_owned()));
        self
    }

    /// Opens the store.
    ///
    /// # Errors
    /// The errors of the store.
    pub fn open(&self) -> Result<OpenStore, StoreError> {
        self.open_saying(&mut Vec::new())
    }

    /// Opens the store; `said` receives its messages.
    ///
    /// # Errors
    /// The errors of the store.
    pub fn open_saying(&self, said: &mut Vec<String>) -> Result<OpenStore, StoreError> {
        plimsoll_lab::open(&*(self.kind)(), self.options.clone(), &mut |words| said.push(words.to_owned()))
    }

    /// Opens and drops the store. Returns its messages.
    ///
    /// # Panics
    /// If the store does not open.
    pub fn messages(&self) -> Vec<String> {
        let mut said = Vec::new();
        drop(self.open_saying(&mut said).expect("the store opens"));
        said
    }
}
