//! Servers that stand for somebody's own: tests attach to them.

use std::path::Path;
use std::process::Command;

use plimsoll_core::Address;
use plimsoll_store_postgres::PrivatePostgres;

/// Somebody's PostgreSQL, with a database `postgres`.
pub struct Postgres {
    server: PrivatePostgres,
}

impl Postgres {
    pub fn start(log_dir: &Path) -> Self {
        let server = PrivatePostgres::start(&["/var/tmp".into()], log_dir, &[], &mut |_| {})
            .expect("PostgreSQL: apt-get install postgresql, or run `cargo xtask test`");
        Self { server }
    }

    /// Of its socket's directory.
    pub fn url(&self) -> String {
        let Address::Unix(socket) = self.server.address() else { panic!("a Unix socket") };
        format!("postgres://postgres@/postgres?host={}", socket.parent().unwrap().display())
    }

    /// What a statement answers, without alignment.
    #[track_caller]
    pub fn sql(&self, statement: &str) -> String {
        let output = Command::new("psql")
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", &self.url(), "-c", statement])
            .output()
            .expect("psql: apt-get install postgresql-client");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}
