//! Connection to MariaDB or MySQL as a protocol without I/O: the client/server protocol with handshake v10,
//! prepared statements in the binary format for operations, and text for what cannot be prepared.
//!
//! | module | part |
//! |---|---|
//! | `session` | [`MySession`]: connections from greeting to good-bye, the operation in flight |
//! | `calls` | what an operation sends; operations one at a time, for the control plane |
//! | `failure` | what errors make of the operation and of the connection |
//! | `opening` | the greeting, the login and what follows it up to the first operation |
//! | `auth` | [`Login`], [`Password`]: authentication |
//! | `ed25519` | a password's signature, for MariaDB |
//! | `rsa` | a password for a server of MySQL's without TLS |
//! | `statement` | prepared statements as bytes to be copied |
//! | `value` | values in binary and text format |
//! | `packet` | packets, and what they say at an answer's end |

mod auth;
mod calls;
mod ed25519;
mod failure;
mod opening;
mod packet;
mod rsa;
mod session;
mod statement;
mod value;

pub use auth::{Encryption, Login};
pub(crate) use opening::{AT_PRIMARY, READ_ONLY};
pub use plimsoll_endpoint::Password;
pub use session::MySession;
