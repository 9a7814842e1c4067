#![doc = include_str!("../README.md")]
//!
//! # Where things are
//!
//! | module | what |
//! |---|---|
//! | `url` | [`Url`]: a URL's parts, hosts and ports |
//! | `name` | the message about an unknown parameter |
//! | `environment` | [`Environment`]: variables, and who we are to the operating system |
//! | `tls` | TLS, or its absence; the files that a URL names for it |
//! | `connect` | [`connect()`]: a socket to a server |
//! | `socket` | [`SessionSocket`]: a connection of an asynchronous client, in clear or inside TLS |
//! | `reader` | [`Reader`]: numbers and texts off the front of a message |
//! | `channel` | [`Channel`]: bytes to and from a server, with a bound on its silence |
//! | `connection` | [`Connection`]: a wire session over a channel, call by call |
//! | `branched` | [`Branched`]: a session over several servers, such as reads and writes apart |
//! | `instances` | [`Instances`]: several servers that share nothing, as one store |
//! | `equals` | [`equals::Equals`]: a cluster whose servers all take every request, and sessions that move among them |
//! | `several` | [`must_be_one_server()`]: refusal of an address that leads to several servers |
//! | `link` | [`Link`]: a connection that is made again when it has ended, and the probe of a store's counters over another one |

mod branched;
mod channel;
mod connect;
mod connection;
mod environment;
pub mod equals;
mod instances;
mod link;
mod name;
mod reader;
mod several;
mod socket;
pub mod tls;
mod url;

pub use branched::{Branched, READS, Reads, Route};
pub use channel::Channel;
pub use connect::connect;
pub use connection::{Asked, Connection, TextSession, text};
pub use environment::Environment;
pub use instances::{INSTANCES, Instances};
pub use link::{Connected, Link};
pub use name::unknown;
pub use plimsoll_core::Password;
pub use reader::Reader;
pub use several::must_be_one_server;
pub use socket::{Cause, Encrypted, SessionSocket, Socket};
pub use tls::{Endpoint, TlsFiles};
pub use url::{Url, decode, each_host, host_and_port, one_host, port, shown_host};

use plimsoll_core::{Address, StoreError};

/// Returns the error for a mistake in a URL, with its correction.
pub fn usage(what: impl Into<String>, next: impl Into<String>) -> StoreError {
    StoreError::usage(what).next(next)
}

/// The host that a server's certificate has to be for.
pub fn certified_host(address: &Address) -> &str {
    match address {
        Address::Tcp(host, _) => host,
        Address::Unix(_) => "localhost",
    }
}
