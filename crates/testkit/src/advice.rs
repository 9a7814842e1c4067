//! Shell commands that messages advise.

use std::process::Command;

use plimsoll_core::StoreError;

/// Returns the command of a message: the text between its first and its last backtick.
pub fn command(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once('`')?;
    rest.rsplit_once('`').map(|(command, _)| command)
}

/// Runs the command of the only message that has one, as a user does who copies it into a shell.
///
/// # Panics
/// If not exactly one message has a command, or if the command fails.
pub fn follow(messages: &[String], variables: &[(&str, &str)]) -> String {
    let commands: Vec<&str> = messages.iter().filter_map(|message| command(message)).collect();
    let [command] = commands[..] else { panic!("not one command: {messages:?}") };
    let mut shell = Command::new("/bin/sh");
    let output = shell.args(["-c", command]).envs(variables.iter().copied()).output().expect("a shell");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command}: {said}");
    command.to_owned()
}

/// Returns the command that an error advises.
///
/// # Panics
/// If the error advises none.
pub fn of_error(error: &StoreError) -> &str {
    let next = error.next.as_deref().unwrap_or_else(|| panic!("no advice: {error:?}"));
    command(next).unwrap_or_else(|| panic!("no command: {error:?}"))
}
