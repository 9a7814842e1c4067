//! The suite for SQL stores over wire sessions.
//!
//! A store's tests implement [`SqlServer`] and [`Dialect`] for what differs, and pass the suite with a few lines.
//!
//! | file | content |
//! |---|---|
//! | `hostile` | bytes in pieces, cut, and damaged |
//! | `statements` | records and statements over one connection, and connections that end |
//! | `store` | what a store makes in an attached server, and removes |
//! | `private` | a private store through sync, cold and restart |

mod hostile;
mod private;
mod statements;
mod store;

use plimsoll_core::{
    Address, Answer, Durability, Layout, Nodes, Op, OpKind, Outcome, Sessions, Store, StoreError, StoreKind, Ticket,
    Value, WireSession,
};
use plimsoll_endpoint::{Asked, Connection, TextSession};
use plimsoll_lab::Cluster;

pub use hostile::{Recorded, bytes_are_taken_in_pieces, refuses_a_larger_answer};
pub use private::data_outlives_cold_and_restart;
pub use statements::statements;
pub use store::attached;

use crate::opening::Opening;
use crate::wire::{Wire, values};

/// Words and statements that differ from server to server.
pub struct Dialect {
    /// Returns the store.
    pub kind: fn() -> Box<dyn StoreKind>,
    /// Beginning of the version.
    pub version: &'static str,
    /// Administrator without a password.
    pub admin: &'static str,
    /// Code of an insert of a key that exists, and words of its message.
    pub taken: (&'static str, &'static [&'static str]),
    /// Codes of a syntax error and of a table that does not exist.
    pub refusals: [&'static str; 2],
    /// Statement that adds two parameters.
    pub sum: &'static str,
    /// Statement that takes longer than a test.
    pub sleep: &'static str,
    /// Statement for the ids of the connections that run [`Dialect::sleep`] in this database.
    pub sleepers: &'static str,
    /// Statement for the id of this connection.
    pub own_id: &'static str,
    /// Statement that ends the connection with the id `{}`.
    pub end: &'static str,
    /// Codes of an operation whose connection was ended.
    pub ended: &'static [&'static str],
    /// Statement that bounds the time of later ones to 0.5 s, and the code of one that took longer.
    pub bounded: (&'static str, &'static str),
    /// Holder of the tables of a run: `schema` or `database`.
    pub holder: &'static str,
    /// Error of a holder that exists.
    pub exists: &'static str,
    /// Statement for everything that a run must leave as it was.
    pub inventory: &'static str,
    /// Statement that makes the role `The Guest`.
    pub guest: &'static str,
    /// Words of the refusal to make a holder, and those before the statement that allows it.
    pub refused: [&'static str; 2],
    /// Statement that analyzes the table `theirs`.
    pub analyze: &'static str,
    /// Statement for the bytes of the table `theirs`.
    pub size: &'static str,
    /// Setting of the cache's size, and a statement for its bytes.
    pub cache: (&'static str, &'static str),
    /// Value of the setting in a private server with 32 MiB.
    pub cache_shown: &'static str,
    /// An attached server is checked for damage.
    pub checks: bool,
    /// Parameters of a small private server.
    pub small: &'static [(&'static str, i64)],
    /// Words of the plans of a find by index, and by scan.
    pub plans: [&'static [&'static str]; 2],
}

impl Dialect {
    /// Returns the name of the holder of a run's tables.
    pub fn holder_of(&self, run_id: &str) -> String {
        format!("plimsoll_{}", run_id.replace('-', "_"))
    }

    /// Returns options for a small private server with its files under `dir`.
    pub fn private(&self, dir: &std::path::Path) -> Opening {
        self.small.iter().fold(Opening::private(self.kind, dir), |opening, (name, value)| opening.int(name, *value))
    }
}

/// A server of tests.
pub trait SqlServer: Sized {
    /// Session without TLS.
    type Session: WireSession;
    /// Session of the control plane.
    type Control: TextSession + 'static;
    /// The store's dialect.
    const DIALECT: Dialect;

    /// Returns a database of its own on the server that all tests of this process share.
    fn start() -> Self;

    /// Starts a server of its own, which listens on TCP too.
    fn alone() -> Self;

    /// The server's processes.
    fn cluster(&self) -> &Cluster;

    /// Address of its socket.
    fn address(&self) -> Address;

    /// URL of a user.
    fn url(&self, user: &str) -> String;

    /// Connects the administrator to the server's database.
    ///
    /// # Errors
    /// The session's.
    fn open(&self, layout: &Layout, kinds: &[OpKind]) -> Result<Connection<Self::Control>, StoreError>;

    /// Returns a session of the administrator that nothing was said to.
    fn session(&self, layout: &Layout) -> Self::Session;

    /// Returns the statements that make the tables of `layout`.
    fn tables(layout: &Layout) -> Vec<String>;

    /// Connects the administrator.
    ///
    /// # Panics
    /// If there is no connection.
    fn control(&self) -> Connection<Self::Control> {
        self.open(&Layout::default(), &[]).expect("a connection")
    }

    /// Kills the server.
    ///
    /// # Panics
    /// If it does not run.
    fn kill(&self) {
        self.cluster().kill(Nodes::All).expect("it runs");
    }

    /// Makes the tables of `layout`, as the store does.
    ///
    /// # Panics
    /// If a statement fails.
    fn create(&self, layout: &Layout) {
        let mut control = self.control();
        for statement in Self::tables(layout) {
            control.simple(&statement).expect("created");
        }
    }

    /// Returns options for this server, which `user` is asked as.
    fn attach(&self, user: &str) -> Opening {
        Opening::attached(Self::DIALECT.kind, &self.url(user), None)
    }
}

/// Runs one operation to its end.
///
/// # Panics
/// If it comes to nothing.
pub fn ask<S: Asked>(connection: &mut Connection<S>, kind: u16, params: &[Value<'_>]) -> (Outcome, Answer) {
    let params = values(params);
    let mut result = None;
    let op = Op::new(kind, params.values());
    let ended = connection.run(|session, out| session.start(Ticket(0), &op, out), &mut |_, outcome, answer| {
        result = Some((outcome, answer.clone()))
    });
    let result = result.expect("every operation comes to something");
    assert!(ended.is_ok() || result.0 == Outcome::Unknown, "{ended:?}");
    result
}

/// Opens one session of `store` with `kinds`.
///
/// # Panics
/// If there is none.
pub fn wire(store: &mut dyn Store, durability: Durability, kinds: &[OpKind]) -> Wire {
    let Sessions::Wire(mut clients) = store.sessions(1, durability).expect("a session") else { panic!("no wire") };
    Wire::open(clients.remove(0), kinds)
}
