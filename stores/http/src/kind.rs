//! The store as `stores/all` lists it.

use plimsoll_core::{
    ErrorCodes, Interface, OpenOptions, ParamSpec, Params, Recipe, SessionShape, SessionSpec, Store, StoreError,
    StoreKind, StoreSpec, Target, with_limits,
};
use plimsoll_endpoint::{TlsFiles, each_host};

use crate::endpoint::{self, Endpoint, Version};
use crate::server::{NGINX, NginxRecipe};
use crate::store::{HttpStore, places};

const PARAMS: [ParamSpec; 20] = with_limits([
    ParamSpec::flag("access_log", "a private server writes a line for each request").of_private(),
    ParamSpec::text("cacert", "", "https: the file of whom to trust, instead of this machine's roots"),
    ParamSpec::text("cert", "", "https: the file of our own certificate, with `key`"),
    ParamSpec::text("key", "", "https: the file of its key"),
    ParamSpec::flag("insecure", "https: the server's certificate is not checked"),
    ParamSpec::int("http_version", 1..=2, "1", "the version of HTTP that is spoken: 1 (HTTP/1.1) or 2"),
    ParamSpec::int("worker_connections", 100..=1_000_000, "4096", "most connections a private server takes")
        .of_private(),
]);

static SPEC: StoreSpec = StoreSpec {
    name: "http",
    aliases: &["nginx"],
    summary: "any HTTP server, or a private nginx",
    schemes: &["http", "https", "http+unix"],
    interfaces: &[Interface::Http],
    sessions: SessionSpec { bounded_by: Some("worker_connections"), ..SessionSpec::new(SessionShape::Wire, 16 << 10) },
    keeps_data: false,
    error_codes: ErrorCodes::Statuses,
    params: &PARAMS,
    packages: &["nginx"],
    ..StoreSpec::PLAIN
};

/// HTTP servers.
pub fn kind() -> Box<dyn StoreKind> {
    Box::new(Http)
}

struct Http;

impl StoreKind for Http {
    fn spec(&self) -> &StoreSpec {
        &SPEC
    }

    fn installed(&self) -> Result<String, StoreError> {
        NGINX.find().map(|program| program.display().to_string())
    }

    fn announce(&self, options: &OpenOptions) -> Result<Vec<String>, StoreError> {
        let endpoints = resolve(&options.target, &options.params)?;
        endpoints[0].tls_client()?;
        Ok(vec![
            format!("attaches to {} and speaks {}", places(&endpoints), version(&options.params).name()),
            "asks once for what the URL names (GET), and sends the workload's requests; makes nothing there itself"
                .to_owned(),
        ])
    }

    fn recipe(&self, params: &Params) -> Result<Option<Box<dyn Recipe>>, StoreError> {
        Ok(Some(Box::new(nginx(params))))
    }

    fn open(&self, options: OpenOptions, progress: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, StoreError> {
        let store = match options.target {
            Target::Servers(servers) => HttpStore::private(servers, nginx(&options.params), options.waits),
            target => HttpStore::attach(resolve(&target, &options.params)?, options.waits, progress)?,
        };
        Ok(Box::new(store))
    }
}

/// Returns the servers of the target's URL: one for each of its hosts.
fn resolve(target: &Target, params: &Params) -> Result<Vec<Endpoint>, StoreError> {
    let (url, password) = target.url()?;
    let server = |url: &String| endpoint::resolve(url, password, tls_files(params), version(params));
    each_host(url)?.iter().map(server).collect()
}

fn version(params: &Params) -> Version {
    if params.int("http_version") == 2 { Version::Http2 } else { Version::Http11 }
}

fn tls_files(params: &Params) -> TlsFiles {
    let mut files = TlsFiles::default();
    for name in ["cacert", "cert", "key"] {
        let value = params.text(name);
        // All of these names are known.
        let _ = !value.is_empty() && files.take(name, value);
    }
    let _ = params.bool("insecure") && files.take("insecure", "yes");
    files
}

fn nginx(params: &Params) -> NginxRecipe {
    NginxRecipe {
        access_log: params.bool("access_log"),
        connections: params.int("worker_connections"),
        version: version(params),
    }
}
