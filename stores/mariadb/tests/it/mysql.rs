//! MySQL itself, on demand: the only one that the registries have is 5.6, which `cargo xtask mysql` fetches.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;

use plimsoll_core::{Address, Interface, OpenOptions, Store, StoreError, StoreErrorKind, StoreKind, StoreSpec};
use plimsoll_lab::ServerUser;
use plimsoll_store_mariadb::kind;
use plimsoll_testkit::conformance::CheckResult;
use plimsoll_testkit::process::ServerProcess;

use crate::fixture::{login, open_login};

/// A MySQL that lives as long as this value.
struct Mysql(ServerProcess);

/// Directory where `cargo xtask mysql` puts it.
fn fetched() -> PathBuf {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/servers/mysql-5.6/package/server");
    place.canonicalize().expect("MySQL 5.6 is fetched by `cargo xtask mysql`")
}

impl Mysql {
    fn start() -> Mysql {
        let dir = ServerProcess::dir("/var/tmp");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
        let user = ServerUser::caller_or("mysql", "mariadb-server").expect("a user for the server");
        for name in ["data", "data/mysql", "server"] {
            let path = dir.path().join(name);
            fs::create_dir(&path).expect("a directory");
            chown(&path, Some(user.uid), Some(user.gid)).expect("the server's own");
        }
        // The server's user may not get to where it was fetched.
        let fetched = fetched();
        let copied = Command::new("cp").arg("-r").arg(&fetched).arg(dir.path()).status().expect("cp runs");
        assert!(copied.success());
        let tables = ["mysql_system_tables.sql", "mysql_system_tables_data.sql"]
            .map(|name| fs::read_to_string(fetched.join("share").join(name)).expect("it comes with the server"));
        let script = dir.path().join("tables.sql");
        fs::write(&script, format!("USE mysql;\n{}", tables.concat())).expect("written");
        let made = Self::command(dir.path(), &user)
            .arg("--bootstrap")
            .stdin(fs::File::open(&script).expect("it was just written"))
            .output()
            .expect("mysqld runs");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let socket = dir.path().join("data/socket");
        let mut command = Self::command(dir.path(), &user);
        command.args(["--skip-networking", "--socket"]).arg(&socket);
        Mysql(ServerProcess::start(dir, &mut command, || UnixStream::connect(&socket).is_ok()))
    }

    fn command(dir: &Path, user: &ServerUser) -> Command {
        use std::os::unix::process::CommandExt;
        let server = dir.join("server");
        let mut command = Command::new(server.join("mysqld"));
        command.arg("--no-defaults").arg("--basedir").arg(&server).arg("--datadir").arg(dir.join("data"));
        command.arg("--lc-messages-dir").arg(server.join("share"));
        command.env("LD_LIBRARY_PATH", &server).current_dir(dir.join("data")).uid(user.uid).gid(user.gid);
        command
    }

    fn socket(&self) -> PathBuf {
        self.0.path("data/socket")
    }

    fn url(&self) -> String {
        format!("mysql://root@/?socket={}", self.socket().display())
    }
}

/// The store without what such a server is refused for: see `records` in the README.
struct WithoutRecords {
    whole: Box<dyn StoreKind>,
    spec: StoreSpec,
}

impl StoreKind for WithoutRecords {
    fn spec(&self) -> &StoreSpec {
        &self.spec
    }

    fn announce(&self, options: &OpenOptions) -> Result<Vec<String>, StoreError> {
        self.whole.announce(options)
    }

    fn open(&self, options: OpenOptions, progress: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, StoreError> {
        self.whole.open(options, progress)
    }
}

#[test]
#[ignore = "needs MySQL 5.6, which `cargo xtask mysql` fetches, and runs this"]
fn mysql_itself_conforms_but_for_records() {
    let mysql = Mysql::start();
    let whole = kind();
    let spec = StoreSpec { interfaces: &[Interface::Sql], ..whole.spec().clone() };
    let report = plimsoll_testkit::conformance::run_attached(&WithoutRecords { whole, spec }, &mysql.url(), None);
    assert!(
        report.checks.iter().any(|(name, verdict)| name.contains("select") && *verdict == CheckResult::Passed),
        "{report}"
    );
    let report = std::panic::catch_unwind(|| plimsoll_testkit::conformance::run_attached(&*kind(), &mysql.url(), None));
    let said = report.expect_err("records are refused");
    let said = said.downcast_ref::<String>().expect("words");
    assert!(said.contains("no collation in which texts compare as their bytes"), "{said}");
}

#[test]
#[ignore = "needs MySQL 5.6, which `cargo xtask mysql` fetches, and runs this"]
fn a_password_is_proven_to_mysql_itself() {
    let mysql = Mysql::start();
    let address = Address::Unix(mysql.socket());
    let mut control = open_login(&address, login("root", None)).expect("root");
    control.simple("CREATE USER ada@`%` IDENTIFIED BY 'word'").expect("a user");
    control.simple("DELETE FROM mysql.user WHERE user = ''").expect("nobody else");
    control.simple("FLUSH PRIVILEGES").expect("done");
    let mut connection = open_login(&address, login("ada", Some("word"))).expect("let in");
    assert_eq!(connection.value("SELECT CURRENT_USER()").expect("an answer"), "ada@%");
    let wrong = open_login(&address, login("ada", Some("other"))).map(|_| ()).expect_err("refused");
    assert_eq!(wrong.kind, StoreErrorKind::Authentication, "{wrong}");
}
