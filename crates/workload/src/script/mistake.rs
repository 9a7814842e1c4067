//! Mistakes in scripts, with their position and a suggestion.

use std::ops::Range;

/// A mistake at a place in a script's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mistake {
    /// Bytes of the script's text.
    pub(crate) range: Range<usize>,
    /// Description of the mistake.
    pub(crate) what: String,
    /// Suggested remedy.
    pub(crate) help: Option<String>,
}

/// A mistake without help.
pub(super) fn mistake(range: Range<usize>, what: String) -> Mistake {
    Mistake { range, what, help: None }
}

impl Mistake {
    /// Adds a remedy.
    pub(super) fn with_help(self, help: impl Into<String>) -> Self {
        Mistake { help: Some(help.into()), ..self }
    }
}
