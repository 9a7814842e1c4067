//! One connection to MariaDB or MySQL as a protocol without I/O: the client/server protocol with handshake v10,
//! prepared statements in the binary format for operations, and text for what cannot be prepared.
//!
//! | module | part |
//! |---|---|
//! | `session` | [`MySession`]: connections from greeting to good-bye, the operation in flight |
//! | `opening` | the greeting, the login and what follows it up to the first operation |
//! | `auth` | [`Login`], [`Password`]: authentication |
//! | `ed25519` | a password's signature, for MariaDB |
//! | `rsa` | a password for a server of MySQL's without TLS |
//! | `statement` | prepared statements as bytes to be copied |
//! | `value` | values in binary and text format |
//! | `packet` | packets, and what they say at an answer's end |

mod auth;
mod ed25519;
mod opening;
mod packet;
mod rsa;
mod session;
mod statement;
mod value;

pub use auth::{Encryption, Login};
pub(crate) use opening::kind_of_number;
pub use plimsoll_endpoint::Password;
pub use session::MySession;
