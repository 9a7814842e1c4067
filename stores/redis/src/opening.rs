//! Questions to a server before operations, and the errors of a refused login.

use std::collections::VecDeque;

use plimsoll_core::{NO_SPACE, StoreError, StoreErrorKind};

use crate::endpoint::{Login, Password};
use crate::resp::command;
use crate::wire::Protocol;

/// The name by which a server's CLIENT LIST knows our connections.
const CLIENT_NAME: &[u8] = b"plimsoll";

/// Advice for a user that lacks rights.
pub(crate) const ALLOW: &str =
    "Allow it: ACL SETUSER with +@read +@write +@connection +info +config|get +scan, its keys, ~plimsoll:* of runs.";

/// Necessity of the questions before operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Opening {
    /// Required: without its answer there is no session.
    Needed,
    /// A name or a ping, which may be forbidden to a user that may do everything that is needed.
    Liked,
    /// Types of the user's own commands. Without the right to ask, the server refuses each of them instead.
    Commands,
}

/// Appends what the server is asked before it is asked operations, and says what that is.
pub(crate) fn greeting(login: &Login, protocol: Protocol, out: &mut Vec<u8>) -> VecDeque<Opening> {
    let mut asked = VecDeque::new();
    let password = login.password.as_ref().map(Password::text);
    let password = password.as_ref().map(|password| password.as_bytes());
    // HELLO is not for those who have not said who they are: that comes first.
    match (&login.user, password) {
        (None, None) => {}
        // A user without a password may be one whom the server asks for none.
        (Some(user), password) => command(out, &[b"AUTH", user.as_bytes(), password.unwrap_or_default()]),
        (None, Some(password)) => command(out, &[b"AUTH", password]),
    }
    asked.extend((login.user.is_some() || password.is_some()).then_some(Opening::Needed));
    if protocol == Protocol::Resp3 {
        command(out, &[b"HELLO", b"3"]);
        asked.push_back(Opening::Needed);
    }
    command(out, &[b"CLIENT", b"SETNAME", CLIENT_NAME]);
    asked.push_back(Opening::Liked);
    if login.database != 0 {
        command(out, &[b"SELECT", login.database.to_string().as_bytes()]);
        asked.push_back(Opening::Needed);
    }
    asked
}

/// Takes an error for an answer to that.
pub(crate) fn greeted(asked: Opening, words: &[u8], login: &Login) -> Result<(), StoreError> {
    if asked != Opening::Needed && words.starts_with(b"NOPERM") { Ok(()) } else { Err(refusal(words, login)) }
}

/// Converts the server's refusal of the login to an error.
pub(crate) fn refusal(words: &[u8], login: &Login) -> StoreError {
    use StoreErrorKind as K;
    let Login { place, user, database, .. } = login;
    let user = user.as_deref().unwrap_or("default");
    let text = String::from_utf8_lossy(words).into_owned();
    let (kind, what, next) = match text.split(' ').next().unwrap_or_default() {
        "NOAUTH" => (
            K::Authentication,
            format!("{place} asks for a password and none is known"),
            "Set REDISCLI_AUTH, or use --password-file.",
        ),
        "WRONGPASS" => (
            K::Authentication,
            format!("{place} does not accept user `{user}` with this password"),
            "Check the user in the URL, and REDISCLI_AUTH or the file given with --password-file.",
        ),
        "NOPERM" => (K::Permission, format!("user `{user}` lacks rights at {place} that Plimsoll needs"), ALLOW),
        "DENIED" => (
            K::Permission,
            format!("{place} is in protected mode and takes no connections from other machines"),
            "Give it a password, or connect from its own machine.",
        ),
        "LOADING" => (K::Unreachable, format!("{place} is still loading its data"), "Wait until it has."),
        "BUSY" => (
            K::Unreachable,
            format!("{place} runs a script or a function, and begins no other command"),
            "Wait until that has ended, or end it: redis-cli SCRIPT KILL, or FUNCTION KILL.",
        ),
        "MASTERDOWN" => (
            K::Unreachable,
            format!("{place} has no link to its master, and begins no command"),
            "Wait until it has one, or name another server.",
        ),
        "NOPROTO" => (K::Usage, format!("{place} does not speak RESP3"), "Set protocol = 2."),
        _ if text.contains("AUTH") && text.contains("without any password") => (
            K::Authentication,
            format!("{place} has no password for user `{user}`, and one was given"),
            "Leave it out: unset REDISCLI_AUTH.",
        ),
        _ if text.contains("invalid password") => (
            K::Authentication,
            format!("{place} does not accept this password"),
            "Check REDISCLI_AUTH or the file given with --password-file.",
        ),
        _ if text.contains("DB index") => (
            K::Usage,
            format!("there is no database {database} at {place}"),
            "Name another in the URL, or raise `databases` in the server's configuration.",
        ),
        "MISCONF" => (
            if text.contains(NO_SPACE) { K::DiskFull } else { K::Store },
            format!("{place} takes no writes: it cannot write them to its disk"),
            "Free some space of its disk, or read the server's log.",
        ),
        _ if text.contains("max number of clients") => {
            (K::Store, format!("{place} takes no more connections"), "Use fewer clients, or raise maxclients.")
        }
        _ if text.contains("unknown command") => (
            K::Usage,
            format!("{place} does not know a command that Plimsoll needs"),
            "Use Redis 6 or later, or Valkey; set protocol = 2 for older ones.",
        ),
        _ => (K::Store, format!("{place} refused the connection"), "Ask the server's administrator."),
    };
    StoreError::new(kind, what).detail(text).next(next)
}

/// Returns the error for bytes that are not a reply of Redis.
#[cold]
pub(crate) fn not_redis(bytes: &[u8], place: &str) -> StoreError {
    let begin = bytes[..bytes.len().min(64)].escape_ascii();
    StoreError::broken(format!("{place} sent a reply that no Redis server sends"))
        .detail(format!("it began with `{begin}`"))
        .next("Check host and port.")
}
