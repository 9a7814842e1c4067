//! Servers described in a plan: shell commands, files, and a check for readiness.

use std::io::Read;
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use plimsoll_core::{
    Launch, Member, Node, Params, Recipe, ServerDescription, ServerSpec, StoreError, StoreErrorKind, StoreKind, Waits,
};

use crate::supervisor::ends_within;

/// Bytes kept of a command's output.
const SAID_BYTES_MAX: u64 = 2048;

/// Recipe of a described server.
pub struct DescribedServer(pub ServerDescription);

/// Returns the recipe of a described server, or of a store's private servers with `params`; `None` if it has no servers.
///
/// # Errors
/// Parameters that the store does not have.
pub fn recipe(
    described: Option<&ServerDescription>,
    kind: &dyn StoreKind,
    params: &Params,
) -> Result<Option<Box<dyn Recipe>>, StoreError> {
    match described {
        Some(server) => Ok(Some(Box::new(DescribedServer(server.clone())))),
        None => kind.recipe(params),
    }
}

/// Returns `text` with the node's values in place of `{data}`, `{sockets}` and `{port}`.
pub fn filled(text: &str, node: &Node) -> String {
    let path = |path: &PathBuf| path.display().to_string();
    text.replace("{data}", &path(&node.data_dir))
        .replace("{sockets}", &path(&node.socket_dir))
        .replace("{port}", &node.listens_at(0).port().to_string())
}

fn shell(name: &'static str, command: &str, node: &Node) -> Launch {
    Launch::new(name, "/bin/sh".into(), ["-c".to_owned(), filled(command, node)])
}

impl Recipe for DescribedServer {
    fn spec(&self) -> ServerSpec {
        ServerSpec { ports: &[0], reloads: true, ..ServerSpec::new("server", "nobody", "base-passwd") }
    }

    fn takes_tcp(&self, _: usize) -> bool {
        self.0.url.contains("{port}")
    }

    fn files(&self, node: Member<'_>) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let mut files: Vec<(String, Vec<u8>)> = Vec::new();
        for (name, text) in &self.0.files {
            // Each directory before its contents.
            for (end, _) in name.match_indices('/') {
                let directory = name[..=end].to_owned();
                if !files.iter().any(|(name, _)| *name == directory) {
                    files.push((directory, Vec::new()));
                }
            }
            files.push((name.clone(), filled(text, &node).into_bytes()));
        }
        Ok(files)
    }

    fn set_up(&self, node: Member<'_>) -> Result<Option<Launch>, StoreError> {
        Ok(Some(&self.0.set_up).filter(|command| !command.is_empty()).map(|command| shell("set_up", command, &node)))
    }

    fn launch(&self, node: Member<'_>) -> Result<Launch, StoreError> {
        // Replaces the shell, so that signals reach the server.
        Ok(shell("the server", &format!("exec {}", self.0.command), &node))
    }

    fn ready(&self, node: &Node, waits: &Waits) -> Result<(), StoreError> {
        match self.0.ready.is_empty() {
            true => listens(&self.0, node),
            false => succeeds("ready", &filled(&self.0.ready, node), node, waits.answer()),
        }
    }

    fn reload(&self, node: &Node, waits: &Waits) -> Result<bool, StoreError> {
        if self.0.reload.is_empty() {
            return Ok(false);
        }
        let done = succeeds("reload", &filled(&self.0.reload, node), node, waits.answer());
        // Not asked again, unlike `ready`.
        done.map(|()| true).map_err(|error| StoreError { kind: StoreErrorKind::Broken, ..error })
    }
}

/// Succeeds if the server accepts connections at its URL's address.
fn listens(server: &ServerDescription, node: &Node) -> Result<(), StoreError> {
    let not_yet = |what: String| StoreError::new(StoreErrorKind::Unreachable, what);
    if server.url.contains("{port}") {
        let at = node.listens_at(0);
        return TcpStream::connect(at).map(drop).map_err(|error| not_yet(format!("nothing listens at {at}: {error}")));
    }
    let sockets = std::fs::read_dir(&node.socket_dir).into_iter().flatten().flatten();
    let takes = sockets.filter(|entry| UnixStream::connect(entry.path()).is_ok()).count();
    (takes > 0)
        .then_some(())
        .ok_or_else(|| not_yet(format!("no socket in {} takes connections", node.socket_dir.display())))
}

/// Succeeds if the shell command that a plan calls `name` exits with status 0 within `bound`.
fn succeeds(name: &str, command: &str, node: &Node, bound: Duration) -> Result<(), StoreError> {
    let failed = |error: std::io::Error| StoreError::io("/bin/sh", &error);
    let mut child = Command::new("/bin/sh")
        .args(["-c", command])
        .current_dir(&node.data_dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    if !ends_within(&mut child, bound) {
        // The command may have ended just now.
        let _ = child.kill();
        let _ = child.wait();
        let what = format!("`{name}` did not end within {} s", bound.as_secs());
        return Err(StoreError::new(StoreErrorKind::Unreachable, what));
    }
    let status = child.wait().map_err(failed)?;
    if status.success() {
        return Ok(());
    }
    let mut said = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        // Processes that the command left may hold the other end. Output that cannot be read is ignored.
        let _ = rustix::io::ioctl_fionbio(&stderr, true);
        let _ = stderr.take(SAID_BYTES_MAX).read_to_end(&mut said);
    }
    let said = String::from_utf8_lossy(&said).trim().to_owned();
    let error = StoreError::new(StoreErrorKind::Unreachable, format!("`{name}` failed ({status})"));
    Err(if said.is_empty() { error } else { error.detail(said) })
}
