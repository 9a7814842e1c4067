//! The variables that scripts name, each with a place of its own.

use std::collections::HashMap;
use std::ops::Range;

/// Variables by name; all scripts of a workload share them, as they do in pgbench.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    /// All names, by place.
    pub(crate) names: Vec<String>,
    places: HashMap<String, usize>,
    /// True if a script assigns it.
    pub(crate) assigned: Vec<bool>,
    /// Reads: script, variable, where. For what is never given a value.
    pub(crate) reads: Vec<(usize, usize, Range<usize>)>,
    /// The script that is being read.
    pub(crate) script: usize,
}

impl Symbols {
    /// The place of the variable `name`.
    pub(crate) fn slot(&mut self, name: &str) -> usize {
        if let Some(slot) = self.places.get(name) {
            return *slot;
        }
        let slot = self.names.len();
        self.names.push(name.to_owned());
        self.assigned.push(false);
        self.places.insert(name.to_owned(), slot);
        slot
    }

    /// The place of a variable that is read at `range` of the script.
    pub(crate) fn read(&mut self, name: &str, range: Range<usize>) -> usize {
        let slot = self.slot(name);
        self.reads.push((self.script, slot, range));
        slot
    }

    /// The place of a variable that is given a value.
    pub(crate) fn assign(&mut self, name: &str) -> usize {
        let slot = self.slot(name);
        self.assigned[slot] = true;
        slot
    }

    /// The place of `name` if anybody has named it.
    pub(crate) fn known(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// Returns true if a script assigns the variable.
    pub(crate) fn is_assigned(&self, slot: usize) -> bool {
        self.assigned.get(slot).copied().unwrap_or(false)
    }
}

/// Returns true if `byte` is allowed in a variable's name.
pub(crate) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// Returns true if `name` is valid as a variable's name.
pub(crate) fn is_name(name: &str) -> bool {
    name.bytes().all(is_name_byte) && name.bytes().next().is_some_and(|byte| !byte.is_ascii_digit())
}
