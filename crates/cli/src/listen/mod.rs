//! `--listen`: the newest figures of a run over HTTP, for reading only.
//!
//! | module | what |
//! |---|---|
//! | `watched` | the state of the run, as a sink with a queue of its own |
//! | `figures` | the state as one tree, in JSON and XML |
//! | `metrics` | the state as metrics of Prometheus |
//! | `prometheus_text`, `prometheus_protobuf` | metrics in Prometheus' two formats |
//! | `serve` | HTTP: paths, token, limits |

mod figures;
mod metrics;
mod prometheus_protobuf;
mod prometheus_text;
mod serve;
mod watched;

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use plimsoll_core::shown;
use plimsoll_trial::{QueuedSink, TrialError, io_error};
use tokio::sync::oneshot;

use crate::listen::serve::Door;
use crate::listen::watched::Watched;

/// Address without a value of `--listen`.
pub const DEFAULT_ADDRESS: &str = "127.0.0.1:8417";
/// Variable with the token that clients have to send.
const TOKEN: &str = "PLIMSOLL_LISTEN_TOKEN";
/// Fewest characters of a token.
const TOKEN_MIN: usize = 16;
/// Longest wait for events that are still in the queue at the end of the run.
const QUEUE_LIMIT: Duration = Duration::from_secs(1);
/// Time for which the last figures are served, if a client asked for any.
const LAST: Duration = Duration::from_secs(1);

/// Server of the newest figures. Dropped, it ends at once.
pub struct Listening {
    /// Sink that receives the run's events.
    pub queued: QueuedSink,
    watched: Arc<Watched>,
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Listening {
    /// Serves the last figures for a moment, and ends the server.
    pub fn end(self) {
        let lost = self.queued.end(QUEUE_LIMIT);
        if lost > 0 {
            crate::say(&format!("--listen: {lost} observations were not shown: the reader of figures was too slow"));
        }
        if let Some(left) = self.watched.since_end().and_then(|since| LAST.checked_sub(since)) {
            thread::sleep(left);
        }
        // A server that has failed has nothing to end.
        let _ = self.stop.send(());
        let _ = self.thread.join();
    }
}

/// Starts the server at the address that `--listen` has, and prints the address.
///
/// # Errors
/// `Usage` for a malformed address, one that this machine does not have, or one without a token that other machines can
/// reach; `AddressTaken`; other errors of the operating system.
pub fn start(given: Option<&str>) -> Result<Option<Listening>, TrialError> {
    let Some(given) = given else { return Ok(None) };
    // A token that is not UTF-8 is refused, not taken for none.
    let token = std::env::var_os(TOKEN).map(|token| token.to_string_lossy().into_owned());
    let token = token.filter(|token| !token.is_empty());
    let address = permitted(given, token.as_deref())?;
    let socket = TcpListener::bind(address).map_err(|error| not_bound(address, &error))?;
    let failed = |error: io::Error| io_error(format!("--listen {address}"), &error);
    socket.set_nonblocking(true).map_err(failed)?;
    let address = socket.local_addr().map_err(failed)?;
    let runtime = serve::runtime().map_err(failed)?;
    let watched = Arc::<Watched>::default();
    let queued = QueuedSink::start("figures", Arc::clone(&watched) as _)?;
    let (stop, stopped) = oneshot::channel();
    let door = Arc::new(Door { watched: Arc::clone(&watched), token });
    let serving = move || {
        if let Err(error) = serve::serve(&runtime, socket, &door, stopped) {
            crate::say(&format!("warning: --listen: {error}; the run continues without it"));
        }
    };
    let thread = thread::Builder::new().name("listen".to_owned()).spawn(serving).map_err(failed)?;
    crate::say(&format!("listening on http://{address}/"));
    Ok(Some(Listening { queued, watched, stop, thread }))
}

/// Parses an address, and refuses one that needs a token without one.
fn permitted(given: &str, token: Option<&str>) -> Result<SocketAddr, TrialError> {
    let local = |port: u16| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    let port = given.strip_prefix("localhost:").unwrap_or(given).parse().ok().map(local);
    let Some(address) = port.or_else(|| given.parse().ok()) else {
        let what = format!("--listen {}: this is no address with a port", shown::clean(given));
        return Err(TrialError::usage(what).next("write --listen=127.0.0.1:8417, or --listen as the last word"));
    };
    let is_strong = |token: &str| token.len() >= TOKEN_MIN && token.bytes().all(|byte| byte.is_ascii_graphic());
    match token {
        Some(token) if !is_strong(token) => {
            let next = format!("write {TOKEN_MIN} or more ASCII characters without blanks: openssl rand -hex 16");
            Err(TrialError::usage(format!("{TOKEN} is not a token")).next(next))
        }
        None if !address.ip().is_loopback() => {
            let what = format!("--listen {address}: other machines can read the figures there, without a token");
            Err(TrialError::usage(what).next(format!("set {TOKEN}, or listen on 127.0.0.1")))
        }
        _ => Ok(address),
    }
}

fn not_bound(address: SocketAddr, error: &io::Error) -> TrialError {
    let place = format!("--listen {address}");
    let port = address.port();
    match error.kind() {
        ErrorKind::AddrNotAvailable => {
            TrialError::usage(format!("{place}: this machine does not have that address")).next("see `ip address`")
        }
        ErrorKind::AddrInUse => io_error(place, error).next(format!(
            "choose another port, or 0 for any that is free; `plimsoll doctor --holds {port}` names the process"
        )),
        ErrorKind::PermissionDenied => io_error(place, error).next("choose a port from 1024 on"),
        _ => io_error(place, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_other_machines_reach_need_a_token() {
        let long = "0123456789abcdef";
        for (given, token, wanted) in [
            ("8417", None, Ok("127.0.0.1:8417")),
            ("localhost:0", None, Ok("127.0.0.1:0")),
            ("[::1]:9000", None, Ok("[::1]:9000")),
            ("0.0.0.0:9000", Some(long), Ok("0.0.0.0:9000")),
            ("0.0.0.0:9000", None, Err("without a token")),
            ("[::]:9000", None, Err("without a token")),
            ("127.0.0.1:9000", Some("short"), Err("is not a token")),
            ("0.0.0.0:9000", Some("0123456789 abcdef"), Err("is not a token")),
            ("kv", None, Err("--listen kv: this is no address")),
            ("127.0.0.1", None, Err("no address with a port")),
            ("127.0.0.1:99999", None, Err("no address with a port")),
        ] {
            match (permitted(given, token), wanted) {
                (Ok(address), Ok(wanted)) => assert_eq!(address.to_string(), wanted),
                (Err(error), Err(words)) => assert!(error.what.contains(words) && error.next.is_some(), "{error:?}"),
                (came_to, _) => panic!("{given}: {came_to:?}"),
            }
        }
    }
}
