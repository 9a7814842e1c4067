//! Servers that stand for somebody's own: tests attach to them.

use std::path::Path;
use std::process::Command;

use plimsoll_core::{Address, Waits};
use plimsoll_store_mariadb::PrivateMariadb;
use plimsoll_store_postgres::PrivatePostgres;
use plimsoll_store_redis::PrivateRedis;

/// Somebody's PostgreSQL, with a database `postgres`.
pub struct Postgres {
    server: PrivatePostgres,
}

impl Postgres {
    pub fn start(log_dir: &Path) -> Self {
        let server = PrivatePostgres::start(&["/var/tmp".into()], log_dir, &[], &Waits::default(), &mut |_| {})
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

/// Somebody's MariaDB, with a database `shop`.
pub struct Mariadb {
    server: PrivateMariadb,
    database: &'static str,
}

impl Mariadb {
    pub fn start(log_dir: &Path) -> Self {
        let settings = [("innodb-buffer-pool-size".to_owned(), "32M".to_owned())];
        let server = PrivateMariadb::start(&["/var/tmp".into()], log_dir, &settings, &Waits::default(), &mut |_| {})
            .expect("MariaDB: apt-get install mariadb-server, or run `cargo xtask test`");
        let mut mariadb = Self { server, database: "mysql" };
        mariadb.sql("CREATE DATABASE shop");
        mariadb.database = "shop";
        mariadb
    }

    fn socket(&self) -> String {
        let Address::Unix(socket) = self.server.address() else { panic!("a Unix socket") };
        socket.display().to_string()
    }

    pub fn url(&self) -> String {
        format!("mysql://root@/shop?socket={}", self.socket())
    }

    /// What a statement answers, without names of columns.
    #[track_caller]
    pub fn sql(&self, statement: &str) -> String {
        let output = Command::new("mariadb")
            .args(["--no-defaults", "-u", "root", "-S", &self.socket(), "-D", self.database])
            .args(["-N", "-B", "--delimiter", "@@", "-e", statement])
            .output()
            .expect("mariadb: apt-get install mariadb-client");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}

/// Somebody's Redis.
pub struct Redis {
    server: PrivateRedis,
}

impl Redis {
    pub fn start(log_dir: &Path) -> Self {
        let server =
            PrivateRedis::start(None, &["/var/tmp".into()], log_dir, &[], None, &Waits::default(), &mut |_| {})
                .expect("Redis: apt-get install redis-server, or run `cargo xtask test`");
        Self { server }
    }

    fn socket(&self) -> String {
        let Address::Unix(socket) = self.server.endpoint().address else { panic!("a Unix socket") };
        socket.display().to_string()
    }

    pub fn url(&self) -> String {
        format!("redis+unix://{}", self.socket())
    }

    /// What a command answers.
    #[track_caller]
    pub fn ask(&self, words: &[&str]) -> String {
        let output = Command::new("redis-cli")
            .args(["-s", &self.socket()])
            .args(words)
            .output()
            .expect("redis-cli: redis-tools");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }
}
