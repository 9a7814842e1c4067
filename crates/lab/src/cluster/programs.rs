//! Programs of nodes other than those that their recipe found: the same store's server in another version.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard};

use plimsoll_core::{Node, Nodes, ProgramChange, Servers, StoreError};
use serde::{Deserialize, Serialize};

use super::{ClusterHandle, Running, locked};
use crate::version::program_version;

/// Program with which a node is started instead of its recipe's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OtherProgram {
    /// Path of the program.
    pub path: PathBuf,
    /// Version of the program, as it prints it.
    pub version: String,
}

impl ClusterHandle {
    /// Returns the program of a node, if it is not its recipe's.
    pub(crate) fn other_program(&self, number: usize) -> Option<OtherProgram> {
        self.0.other_programs().get(&number).cloned()
    }

    /// Returns the program with which a node starts; `None` if it cannot start with another one, or there is no such
    /// node.
    pub(crate) fn program(&self, number: usize) -> Option<PathBuf> {
        if let Some(other) = self.other_program(number) {
            return Some(other.path);
        }
        self.0.recipe.version_marks(number).ok()?;
        self.0.own_program(number).ok()
    }

    /// Fails if the nodes cannot be started with another program.
    ///
    /// # Errors
    /// The refusals of [`Servers::restart_with`].
    pub(crate) fn check_program(&self, nodes: Nodes, program: &Path) -> Result<(), StoreError> {
        self.0.program_changes(nodes, program).map(drop)
    }
}

impl Running {
    /// Returns the programs of nodes that are not their recipe's, by the nodes' numbers.
    pub(super) fn other_programs(&self) -> MutexGuard<'_, BTreeMap<usize, OtherProgram>> {
        locked(&self.other_programs)
    }

    /// Returns the program that a node's recipe found.
    fn own_program(&self, number: usize) -> Result<PathBuf, StoreError> {
        let nodes = self.nodes();
        Ok(self.recipe.launch(self.member(&nodes, number, false)?)?.program)
    }

    /// Returns the change of each of `nodes` whose program is the store's.
    fn program_changes(&self, nodes: Nodes, program: &Path) -> Result<Vec<ProgramChange>, StoreError> {
        let marks_of = |node: &Arc<Node>| self.recipe.version_marks(node.number);
        self.nodes().iter().map(marks_of).reduce(Result::or).transpose()?;
        let option = self.recipe.version_option();
        let mut changes = Vec::new();
        for number in self.numbers(nodes)? {
            let Ok(marks) = self.recipe.version_marks(number) else { continue };
            let to = program_version(program, (option, marks), &self.user)?;
            let other = self.other_programs().get(&number).cloned();
            let (former, from) = match other {
                Some(OtherProgram { path, version }) => (path, version),
                None => {
                    let own = self.own_program(number)?;
                    let version = program_version(&own, (option, marks), &self.user)?;
                    (own, version)
                }
            };
            changes.push(ProgramChange { node: number, former, from, to });
        }
        Ok(changes)
    }

    /// Starts a node with a program from now on.
    fn set_program(&self, number: usize, path: &Path, version: &str) -> Result<(), StoreError> {
        let is_own = self.own_program(number)? == path;
        let mut programs = self.other_programs();
        match is_own {
            true => programs.remove(&number),
            false => programs.insert(number, OtherProgram { path: path.to_owned(), version: version.to_owned() }),
        };
        Ok(())
    }

    /// Restarts nodes as [`Servers::restart_with`] does.
    pub(super) fn change_program(&self, nodes: Nodes, program: &Path) -> Result<Vec<ProgramChange>, StoreError> {
        let changes = self.program_changes(nodes, program)?;
        changes.iter().try_for_each(|change| self.set_program(change.node, program, &change.to))?;
        let Err(error) = self.restart(nodes) else { return Ok(changes) };
        let Some(first) = changes.first() else { return Err(error) };
        changes.iter().try_for_each(|change| self.set_program(change.node, &change.former, &change.from))?;
        if error.is_interrupt() {
            return Err(error);
        }
        let what = format!("{} does not start with {} ({})", self.spec.name, program.display(), first.to);
        let (what, detail) = match self.restart(nodes) {
            Ok(_) => (format!("{what}, and runs its former version again ({})", first.from), error.to_string()),
            Err(again) => {
                let what = format!("{what}, nor then with its former version ({})", first.from);
                (what, format!("{error}; then: {again}"))
            }
        };
        let next = "compare both versions in the store's notes of upgrades: data may need a conversion first";
        Err(StoreError { what, detail: Some(detail), ..error }.or_next(next))
    }
}
