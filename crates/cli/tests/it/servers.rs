//! Servers that tests attach to, as to a user's.

use std::path::{Path, PathBuf};
use std::process::Command;

use plimsoll_core::Recipe;
use plimsoll_lab::Cluster;
use plimsoll_store_mariadb::MariadbRecipe;
use plimsoll_store_postgres::PostgresRecipe;
use plimsoll_store_redis::RedisRecipe;
use plimsoll_store_redis::server::Shape;

/// A server by `recipe`; `missing` is what to install.
pub fn start(recipe: impl Recipe + 'static, log_dir: &Path, missing: &str) -> Cluster {
    Cluster::start(Box::new(recipe), &["/var/tmp".into()], log_dir, &Default::default(), &mut |_| {}).expect(missing)
}

fn owned(settings: &[(&str, &str)]) -> Vec<(String, String)> {
    settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// The file `name`, wherever below its data it is.
fn below(server: &Cluster, name: &str) -> PathBuf {
    let data = &server.first().data_dir;
    let mut folders = vec![data.clone()];
    folders.extend(std::fs::read_dir(data).unwrap().flatten().map(|entry| entry.path()).filter(|path| path.is_dir()));
    let found = folders.into_iter().map(|folder| folder.join(name)).find(|path| path.exists());
    found.unwrap_or_else(|| panic!("{name} is not below {}", data.display()))
}

/// An attached PostgreSQL, with a database `postgres`.
pub struct Postgres {
    pub server: Cluster,
    port: String,
}

impl Postgres {
    pub fn start(log_dir: &Path) -> Self {
        Self::start_with(&[], log_dir)
    }

    pub fn start_with(settings: &[(&str, &str)], log_dir: &Path) -> Self {
        let missing = "PostgreSQL: apt-get install postgresql, or run `cargo xtask test`";
        let port = settings.iter().find(|(name, _)| *name == "port").map_or("5432", |(_, port)| port).to_owned();
        let recipe = PostgresRecipe { settings: owned(settings), ..Default::default() };
        Self { server: start(recipe, log_dir, missing), port }
    }

    /// A file of its own.
    pub fn file(&self, name: &str) -> PathBuf {
        below(&self.server, name)
    }

    /// Returns the URL of its socket's directory.
    pub fn url(&self) -> String {
        let directory = self.server.first().socket_dir.display().to_string();
        format!("postgres://postgres@/postgres?host={directory}&port={}", self.port)
    }

    /// Returns the answer to a statement, without alignment.
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

/// An attached MariaDB, with a database `shop`.
pub struct Mariadb {
    server: Cluster,
    database: &'static str,
}

impl Mariadb {
    pub fn start(log_dir: &Path) -> Self {
        Self::start_with(&[("innodb-buffer-pool-size", "32M")], log_dir)
    }

    pub fn start_with(settings: &[(&str, &str)], log_dir: &Path) -> Self {
        let settings = owned(settings);
        let missing = "MariaDB: apt-get install mariadb-server, or run `cargo xtask test`";
        let mut mariadb = Self {
            server: start(MariadbRecipe { settings, ..Default::default() }, log_dir, missing),
            database: "mysql",
        };
        mariadb.sql("CREATE DATABASE shop");
        mariadb.database = "shop";
        mariadb
    }

    /// A file of its own.
    pub fn file(&self, name: &str) -> PathBuf {
        below(&self.server, name)
    }

    fn socket(&self) -> String {
        self.server.first().socket_dir.join("socket").display().to_string()
    }

    pub fn url(&self) -> String {
        format!("mysql://root@/shop?socket={}", self.socket())
    }

    /// Returns the answer to a statement, without names of columns.
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

/// An attached Redis.
pub struct Redis {
    pub server: Cluster,
}

impl Redis {
    pub fn start(log_dir: &Path) -> Self {
        Self::start_with(&[], log_dir)
    }

    /// Starts it as a package does: with snapshots, and without a log.
    pub fn start_as_packaged(log_dir: &Path) -> Self {
        Self::start_with(
            &[("save", "3600 1 300 100 60 10000"), ("appendonly", "no"), ("appendfsync", "everysec")],
            log_dir,
        )
    }

    pub fn start_with(settings: &[(&str, &str)], log_dir: &Path) -> Self {
        let missing = "Redis: apt-get install redis-server, or run `cargo xtask test`";
        Self { server: start(RedisRecipe::new(None, owned(settings), Shape::ALONE).expect(missing), log_dir, missing) }
    }

    /// A file of its own.
    pub fn file(&self, name: &str) -> PathBuf {
        below(&self.server, name)
    }

    fn socket(&self) -> String {
        self.server.first().socket_dir.join("redis.sock").display().to_string()
    }

    pub fn url(&self) -> String {
        format!("redis+unix://{}", self.socket())
    }

    /// Returns the answer to a command.
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
