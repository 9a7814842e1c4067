//! How a private PostgreSQL is made.
//!
//! It listens on a Unix socket only, in a directory that only its user and root can enter; so nobody is asked
//! for a password (`trust`). Everything else is as PostgreSQL's own defaults are, `fsync` and `full_page_writes`
//! included, but for what the caller sets; all of it is on the server's command line, where `pg_settings`
//! shows it as such. The collation is `C` in UTF-8, so that text orders by bytes as in every other store.

use std::sync::Arc;

use plimsoll_core::{Address, Launch, Member, Node, Recipe, ServerSpec, StopSignal, StoreError, Waits};
use plimsoll_lab::Program;

use crate::reach::Endpoint;
use crate::shared_memory;
use crate::wire::Login;

/// The server's program.
pub const POSTGRES: Program = Program {
    name: "postgres",
    directories: &["/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin"],
    package: "postgresql",
};
/// The database and its owner, as PostgreSQL's own tools call them.
const NAME: &str = "postgres";

/// A private PostgreSQL.
#[derive(Debug, Clone, Default)]
pub struct PostgresRecipe {
    /// Its settings, by PostgreSQL's names.
    pub settings: Vec<(String, String)>,
}

impl PostgresRecipe {
    /// Where it listens, and as whom one logs in, without a password.
    pub fn endpoint(&self, node: &Node) -> Endpoint {
        let port = self.settings.iter().find(|(name, _)| name == "port").map_or("5432", |(_, port)| port);
        let login = Login {
            user: NAME.to_owned(),
            database: NAME.to_owned(),
            application_name: "plimsoll".to_owned(),
            place: "the private PostgreSQL".to_owned(),
            ..Login::default()
        };
        Endpoint::plain(Address::Unix(node.socket_dir.join(format!(".s.PGSQL.{port}"))), login)
    }
}

impl Recipe for PostgresRecipe {
    fn spec(&self) -> ServerSpec {
        // SIGQUIT is PostgreSQL's immediate shutdown: no checkpoint, but shared memory is given back.
        let (stop, leave) = (StopSignal::Int, StopSignal::Quit);
        ServerSpec { stop, leave, ..ServerSpec::new("PostgreSQL", NAME, POSTGRES.package) }
    }

    fn set_up(&self, node: Member<'_>) -> Result<Option<Launch>, StoreError> {
        // initdb syncs what it wrote. Without that the kernel would write it half a minute later, in a trial.
        let data = node.data_dir.display().to_string();
        let arguments = ["-D", &data, "-U", NAME, "-A", "trust", "-E", "UTF8", "--no-locale"];
        Ok(Some(Launch::new("initdb", POSTGRES.find()?.with_file_name("initdb"), arguments)))
    }

    fn launch(&self, node: Member<'_>) -> Result<Launch, StoreError> {
        // Without a mention the linker might leave it out.
        std::hint::black_box(&shared_memory::BEFORE_MAIN);
        let (data, sockets) = (node.data_dir.display(), node.socket_dir.display());
        let mut arguments = vec!["-D".to_owned(), data.to_string()];
        arguments.extend(["-c", "listen_addresses=", "-c"].map(str::to_owned));
        arguments.push(format!("unix_socket_directories={sockets}"));
        for (name, value) in &self.settings {
            arguments.extend(["-c".to_owned(), format!("{name}={value}")]);
        }
        Ok(Launch::new("postgres", POSTGRES.find()?, arguments))
    }

    fn ready(&self, node: &Node, waits: &Waits) -> Result<(), StoreError> {
        self.endpoint(node).open(Arc::default(), "", &[], waits).map(drop)
    }
}
