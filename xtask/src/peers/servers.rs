//! The servers that rows ask, each started when the first row wants it. They die with this program.

use std::error::Error;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use plimsoll_lab::Cluster;
use plimsoll_store_postgres::PostgresRecipe;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::commands::Asks;
use super::{client, others};
use crate::child_cost;

/// pgbench's scale: no two clients of eight on the same branch most of the time.
pub const SCALE: u32 = 10;
/// sysbench's database and the size of its one table.
pub const SBTEST: &str = "sbtest";
pub const SBTEST_ROWS: u32 = 100_000;
/// Records of go-ycsb's table, and their one field of 100 bytes.
const GO_YCSB_RECORDS: u32 = 20_000;
pub const GO_YCSB_SHAPE: [&str; 4] = ["recordcount=20000", "fieldcount=1", "fieldlength=100", "insertorder=ordered"];
/// Where the directory's people are, and how many.
pub const LDAP_BASE: &str = "dc=plimsoll";
pub const LDAP_ENTRIES: u32 = 10_000;
/// Longest that a server may take to answer.
const START: Duration = Duration::from_secs(30);

/// All servers that were wanted so far.
#[derive(Default)]
pub struct Servers {
    postgres: Option<Postgres>,
    mariadb: Option<Mariadb>,
    redis: Option<Redis>,
    nginx: Option<Nginx>,
    slapd: Option<Slapd>,
    sysbench_null: Option<PathBuf>,
    places: Vec<tempfile::TempDir>,
}

pub struct Postgres {
    server: Cluster,
    pub pgbench: PathBuf,
    pub socket_dir: String,
    pub port: u16,
    pub user: String,
    pub database: String,
    pipeline: Option<String>,
    sysbench: bool,
    go_ycsb: bool,
}

pub struct Mariadb {
    child: Running,
    pub socket: String,
}

pub struct Redis {
    child: Running,
    pub port: u16,
    go_ycsb: bool,
}

pub struct Slapd {
    child: Running,
    pub port: u16,
}

pub struct Nginx {
    child: Running,
    pub port: u16,
}

/// A child that is ended with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Servers {
    /// Ids of the processes at their roots.
    pub fn pids(&self) -> Vec<u32> {
        let children = [
            self.mariadb.as_ref().map(|it| &it.child),
            self.redis.as_ref().map(|it| &it.child),
            self.nginx.as_ref().map(|it| &it.child),
            self.slapd.as_ref().map(|it| &it.child),
        ];
        let postgres = self.postgres.iter().flat_map(|it| it.server.pids());
        children.into_iter().flatten().map(|child| child.0.id()).chain(postgres).collect()
    }

    pub fn postgres(&mut self) -> Result<&Postgres, Box<dyn Error>> {
        if self.postgres.is_none() {
            self.postgres = Some(start_postgres()?);
        }
        self.postgres.as_ref().ok_or_else(|| "it was just started".into())
    }

    /// pgbench's script of 16 selects in a pipeline.
    pub fn pipeline_script(&mut self) -> Result<String, Box<dyn Error>> {
        self.postgres()?;
        let Some(postgres) = &mut self.postgres else { return Err("it was just started".into()) };
        if postgres.pipeline.is_none() {
            let place = tempfile::tempdir()?;
            let mut script = String::from("\\startpipeline\n");
            for at in 0..16 {
                script.push_str(&format!(
                    "\\set aid{at} random(1, 100000 * :scale)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid{at};\n"
                ));
            }
            script.push_str("\\endpipeline\n");
            let path = place.path().join("pipeline.sql");
            std::fs::write(&path, script)?;
            postgres.pipeline = Some(path.display().to_string());
            self.places.push(place);
        }
        postgres.pipeline.clone().ok_or_else(|| "it was just written".into())
    }

    pub fn mariadb(&mut self) -> Result<&Mariadb, Box<dyn Error>> {
        if self.mariadb.is_none() {
            let place = place()?;
            self.mariadb = Some(start_mariadb(place.path())?);
            self.places.push(place);
        }
        self.mariadb.as_ref().ok_or_else(|| "it was just started".into())
    }

    pub fn redis(&mut self) -> Result<&Redis, Box<dyn Error>> {
        if self.redis.is_none() {
            let place = place()?;
            self.redis = Some(start_redis(place.path())?);
            self.places.push(place);
        }
        self.redis.as_ref().ok_or_else(|| "it was just started".into())
    }

    pub fn nginx(&mut self) -> Result<&Nginx, Box<dyn Error>> {
        if self.nginx.is_none() {
            let program = plimsoll_store_http::server::NGINX.find()?;
            let place = place()?;
            self.nginx = Some(start_nginx(&program, place.path())?);
            self.places.push(place);
        }
        self.nginx.as_ref().ok_or_else(|| "it was just started".into())
    }

    pub fn slapd(&mut self) -> Result<&Slapd, Box<dyn Error>> {
        if self.slapd.is_none() {
            let place = place()?;
            self.slapd = Some(start_slapd(place.path())?);
            self.places.push(place);
        }
        self.slapd.as_ref().ok_or_else(|| "it was just started".into())
    }

    /// Lets the servers, with all that they start from now on, run on these processors only.
    pub fn bind(&self, processors: &[usize]) -> Result<(), Box<dyn Error>> {
        let mut set = CpuSet::new();
        processors.iter().for_each(|&processor| set.set(processor));
        for thread in others::tree(&self.pids()).into_iter().flat_map(others::threads) {
            match sched_setaffinity(Pid::from_raw(thread as i32), &set) {
                // It ended meanwhile.
                Ok(()) | Err(rustix::io::Errno::SRCH) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// The options that say where sysbench's table on PostgreSQL is. A later `--pgsql-host` wins over the first.
    pub fn sysbench_on_postgres(&mut self) -> Result<Vec<String>, Box<dyn Error>> {
        self.postgres()?;
        let Some(postgres) = &mut self.postgres else { return Err("it was just started".into()) };
        let options = vec![
            "--db-driver=pgsql".to_owned(),
            format!("--pgsql-host={}", postgres.socket_dir),
            format!("--pgsql-port={}", postgres.port),
            format!("--pgsql-user={}", postgres.user),
            format!("--pgsql-db={}", postgres.database),
            "--tables=1".to_owned(),
            format!("--table-size={SBTEST_ROWS}"),
        ];
        if !postgres.sysbench {
            quietly(Command::new("sysbench").arg("oltp_point_select").args(&options).arg("prepare"))?;
            postgres.sysbench = true;
        }
        Ok(options)
    }

    /// A script of sysbench whose event does nothing.
    pub fn sysbench_null(&mut self) -> Result<&Path, Box<dyn Error>> {
        if self.sysbench_null.is_none() {
            let place = tempfile::tempdir()?;
            let path = place.path().join("null.lua");
            std::fs::write(&path, "function event()\nend\n")?;
            self.places.push(place);
            self.sysbench_null = Some(path);
        }
        self.sysbench_null.as_deref().ok_or_else(|| "it was just written".into())
    }

    /// The properties that say where go-ycsb's table on PostgreSQL is.
    pub fn go_ycsb_on_postgres(&mut self) -> Result<Vec<String>, Box<dyn Error>> {
        self.postgres()?;
        let Some(postgres) = &mut self.postgres else { return Err("it was just started".into()) };
        if !postgres.go_ycsb {
            let sql = format!(
                "CREATE TABLE usertable (ycsb_key varchar(64) PRIMARY KEY, field0 varchar(100)); INSERT INTO usertable \
                 SELECT 'user' || n, repeat('x', 100) FROM generate_series(0, {GO_YCSB_RECORDS} - 1) n; ANALYZE usertable"
            );
            let mut psql = Command::new(postgres.pgbench.with_file_name("psql"));
            psql.args(["-X", "-q", "-h", &postgres.socket_dir, "-p", &postgres.port.to_string(), "-U", &postgres.user]);
            quietly(psql.args(["-c", &sql, &postgres.database]))?;
            postgres.go_ycsb = true;
        }
        Ok(vec![
            "pg.host=127.0.0.1".to_owned(),
            format!("pg.port={}", postgres.port),
            format!("pg.user={}", postgres.user),
            format!("pg.db={}", postgres.database),
        ])
    }

    /// The same on Redis, which `program` fills itself: what its values look like is its own business.
    pub fn go_ycsb_on_redis(&mut self, program: &Command) -> Result<Vec<String>, Box<dyn Error>> {
        self.redis()?;
        let Some(redis) = &mut self.redis else { return Err("it was just started".into()) };
        let place = vec![format!("redis.addr=127.0.0.1:{}", redis.port), "redis.datatype=string".to_owned()];
        if !redis.go_ycsb {
            let mut load = Command::new(program.get_program());
            load.args(["load", "redis", "0"]).args(GO_YCSB_SHAPE).args(&place).arg("threadcount=8");
            quietly(&mut load)?;
            redis.go_ycsb = true;
        }
        Ok(place)
    }
}

/// Where a server that is not root's may write.
fn place() -> std::io::Result<tempfile::TempDir> {
    tempfile::Builder::new().prefix("plimsoll-peers-").tempdir_in("/var/tmp")
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// A server that the kernel ends when this program is gone, however.
fn server(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", program]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

fn wait_for(what: &str, mut ready: impl FnMut() -> bool) -> Result<(), Box<dyn Error>> {
    let started = Instant::now();
    while !ready() {
        if started.elapsed() > START {
            return Err(format!("{what} did not answer within {START:?}").into());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

fn quietly(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let done = command.output()?;
    if done.status.success() {
        return Ok(());
    }
    Err(format!("{}: {}", command.get_program().display(), String::from_utf8_lossy(&done.stderr)).into())
}

fn start_postgres() -> Result<Postgres, Box<dyn Error>> {
    let port = free_port()?;
    let settings = [("listen_addresses", "127.0.0.1".to_owned()), ("port", port.to_string())];
    let settings = settings.map(|(name, value)| (name.to_owned(), value)).into();
    let bases = [std::env::temp_dir(), PathBuf::from("/var/tmp")];
    let recipe = Box::new(PostgresRecipe { settings, ..Default::default() });
    let server = Cluster::start(recipe, &bases, &std::env::temp_dir(), &Default::default(), &mut |_| {})?;
    let socket_dir = server.first().socket_dir.display().to_string();
    let pgbench = plimsoll_store_postgres::server::POSTGRES.find()?.with_file_name("pgbench");
    let (user, database) = ("postgres".to_owned(), "postgres".to_owned());
    let mut made = Command::new(&pgbench);
    made.args([
        "-h",
        &socket_dir,
        "-p",
        &port.to_string(),
        "-U",
        &user,
        "-i",
        "-q",
        "-s",
        &SCALE.to_string(),
        &database,
    ]);
    quietly(&mut made)?;
    Ok(Postgres { server, pgbench, socket_dir, port, user, database, pipeline: None, sysbench: false, go_ycsb: false })
}

impl Mariadb {
    pub fn sysbench_options(&self) -> [String; 6] {
        [
            "--db-driver=mysql".to_owned(),
            format!("--mysql-socket={}", self.socket),
            "--mysql-user=root".to_owned(),
            format!("--mysql-db={SBTEST}"),
            "--tables=1".to_owned(),
            format!("--table-size={SBTEST_ROWS}"),
        ]
    }
}

fn start_mariadb(place: &Path) -> Result<Mariadb, Box<dyn Error>> {
    let data = place.join("data");
    quietly(Command::new("chown").arg("mysql").arg(place))?;
    let mut install = Command::new("mariadb-install-db");
    install.args(["--no-defaults", "--user=mysql", "--auth-root-authentication-method=normal", "--skip-test-db"]);
    quietly(install.arg(format!("--datadir={}", data.display())))?;
    let socket = place.join("s").display().to_string();
    let mut command = server("mariadbd");
    command.args(["--no-defaults", "--user=mysql", "--skip-networking", "--innodb-buffer-pool-size=512M"]);
    command.arg(format!("--datadir={}", data.display())).arg(format!("--socket={socket}"));
    let mariadb = Mariadb { child: Running(command.spawn()?), socket };
    let client = |sql: &str| {
        let mut command = Command::new("mariadb");
        command.args(["--no-defaults", "-u", "root", &format!("--socket={}", mariadb.socket), "-e", sql]);
        quietly(&mut command)
    };
    wait_for("MariaDB", || client("SELECT 1").is_ok())?;
    client(&format!("CREATE DATABASE {SBTEST}"))?;
    let mut prepare = Command::new("sysbench");
    quietly(prepare.arg("oltp_read_write").args(mariadb.sysbench_options()).arg("prepare"))?;
    Ok(mariadb)
}

/// Values of 100 bytes, as redis-benchmark is told too.
pub fn kv_params() -> Vec<(&'static str, String)> {
    vec![
        ("records", "100000".to_owned()),
        ("field_count", "1".to_owned()),
        ("field_length", "100".to_owned()),
        ("distribution", "uniform".to_owned()),
    ]
}

fn start_redis(place: &Path) -> Result<Redis, Box<dyn Error>> {
    let port = free_port()?;
    let mut command = server("redis-server");
    command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes"]);
    // What `buffered` wants; a GET writes nothing.
    command.args(["--appendfsync", "no"]);
    command.arg("--dir").arg(place);
    let redis = Redis { child: Running(command.spawn()?), port, go_ycsb: false };
    wait_for("Redis", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok())?;
    // Both sorts of keys: those that redis-benchmark asks for, and ours.
    let mut fill = Command::new("redis-benchmark");
    fill.args(["-p", &port.to_string(), "-t", "set", "-n", "300000", "-r", "100000", "-d", "100", "-P", "50", "-q"]);
    quietly(&mut fill)?;
    let asks = Asks {
        store: "redis".to_owned(),
        url: Some(format!("redis://127.0.0.1:{port}/")),
        workload: "kv",
        op: client::LOAD,
        params: kv_params(),
        ..Asks::default()
    };
    child_cost::run(client::command(&asks)?)?;
    Ok(redis)
}

/// One process that serves a file of 612 bytes, as nginx' own page is, and ends no connection by itself.
fn start_nginx(program: &Path, place: &Path) -> Result<Nginx, Box<dyn Error>> {
    let port = free_port()?;
    std::fs::create_dir(place.join("files"))?;
    std::fs::write(place.join("files/index.html"), plimsoll_store_http::server::content(612))?;
    let configuration = format!(
        "daemon off; master_process off; pid nginx.pid; error_log stderr warn; events {{ worker_connections 1024; }}\n\
         http {{ access_log off; types {{ text/html html; }} sendfile on; keepalive_timeout 1d; keepalive_time 1d;\n\
         keepalive_requests 1000000000; client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f;\n\
         uwsgi_temp_path u; scgi_temp_path s;\n\
         server {{ listen 127.0.0.1:{port}; root files; index index.html; }} }}\n"
    );
    let path = place.join("nginx.conf");
    std::fs::write(&path, configuration)?;
    let mut command = server(&program.display().to_string());
    command.args(["-e", "stderr", "-p"]).arg(place).arg("-c").arg(path);
    let nginx = Nginx { child: Running(command.spawn()?), port };
    wait_for("nginx", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok())?;
    Ok(nginx)
}

/// On TCP, as searchrate knows no other way, with people that anybody may read.
fn start_slapd(place: &Path) -> Result<Slapd, Box<dyn Error>> {
    let port = free_port()?;
    let data = place.join("data");
    std::fs::create_dir(&data)?;
    let at = place.display();
    let mut configuration = String::new();
    if Path::new("/usr/lib/ldap/back_mdb.so").exists() {
        configuration.push_str("modulepath /usr/lib/ldap\nmoduleload back_mdb\n");
    }
    for schema in ["core", "cosine", "inetorgperson"] {
        configuration.push_str(&format!("include /etc/ldap/schema/{schema}.schema\n"));
    }
    configuration.push_str(&format!(
        "pidfile {at}/pid\ndatabase mdb\nsuffix {LDAP_BASE}\ndirectory {}\nmaxsize 268435456\n",
        data.display()
    ));
    let mut people = format!(
        "dn: {LDAP_BASE}\nobjectClass: dcObject\nobjectClass: organization\no: plimsoll\ndc: plimsoll\n\n\
         dn: ou=People,{LDAP_BASE}\nobjectClass: organizationalUnit\nou: People\n\n"
    );
    for number in 0..LDAP_ENTRIES {
        people.push_str(&format!(
            "dn: uid=user.{number},ou=People,{LDAP_BASE}\nobjectClass: inetOrgPerson\nuid: user.{number}\ncn: User \
             {number}\nsn: {number}\nemployeeNumber: {number}\ndescription: {}\n\n",
            "x".repeat(100)
        ));
    }
    let (settings, file) = (place.join("slapd.conf"), place.join("people.ldif"));
    std::fs::write(&settings, configuration)?;
    std::fs::write(&file, people)?;
    quietly(Command::new("/usr/sbin/slapadd").args(["-q", "-f"]).arg(&settings).arg("-l").arg(file))?;
    let mut command = server("/usr/sbin/slapd");
    command.args(["-d", "0", "-h", &format!("ldap://127.0.0.1:{port}/"), "-f"]).arg(settings);
    let slapd = Slapd { child: Running(command.spawn()?), port };
    wait_for("slapd", || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok())?;
    Ok(slapd)
}
