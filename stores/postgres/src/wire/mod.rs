//! One connection to PostgreSQL as a protocol without I/O: frontend/backend protocol 3.0, its extended
//! query part for operations.
//!
//! | module | part |
//! |---|---|
//! | `session` | [`PgSession`]: connections from greeting to good-bye, operations in flight |
//! | `auth` | [`Login`], [`Password`]: authentication |
//! | `statement` | prepared statements as bytes to be copied, rows as values |
//! | `value` | values in binary format |
//! | `message` | frames, and the fields of an error |

mod auth;
mod message;
mod session;
mod statement;
mod value;

pub use auth::{Login, Password};
pub use session::PgSession;
