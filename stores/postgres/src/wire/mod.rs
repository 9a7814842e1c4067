//! Connection to PostgreSQL as a protocol without I/O: frontend/backend protocol 3.0, its extended
//! query part for operations.
//!
//! | module | part |
//! |---|---|
//! | `session` | [`PgSession`]: operations in flight and their answers |
//! | `calls` | its operations one at a time, for the control plane |
//! | `failure` | what errors make of operations and of the connection |
//! | `dropped` | statements and settings that operations drop, prepared and set again |
//! | `opening` | its way from the greeting to the first operation |
//! | `secured` | [`Secured`]: the same on a connection that may be encrypted |
//! | `auth` | [`Login`], [`Password`]: authentication |
//! | `statement` | statements as bytes to be copied, rows as values |
//! | `text` | statements with their values inside |
//! | `value` | values in binary format |
//! | `text_value` | values as text |
//! | `joined` | reads of several clients under one Sync |
//! | `message` | frames, and the fields of an error |
//! | `given_up` | [`GivenUp`]: what may still be at work on the server |

mod auth;
mod calls;
mod dropped;
mod failure;
mod given_up;
mod joined;
mod message;
mod opening;
mod secured;
mod session;
mod statement;
mod text;
mod text_value;
mod value;

pub use auth::{Binding, Login};
pub use given_up::{BackendKey, GivenUp};
pub use plimsoll_endpoint::Password;
pub(crate) use secured::around;
pub use secured::{Secured, SslRequest, TlsEnd};
pub(crate) use session::PrimarySearch;
pub use session::{PIPELINE_ABORTED, PgSession, Protocol};
