//! Recipe of a private nginx.
//!
//! It listens on a Unix socket only, in a directory that only its user and root can enter, and serves files that are
//! made for it: `/`, of 612 bytes as the page that nginx comes with, and `/bytes/N` for the sizes of [`SIZES_BYTES`].

use std::path::Path;

use plimsoll_core::{Address, Launch, Member, Node, Recipe, ServerSpec, StoreError, Waits};
use plimsoll_lab::Program;

use crate::control::look;
use crate::endpoint::{Endpoint, Login, Version};

/// Sizes of the files `/bytes/N`.
pub const SIZES_BYTES: [usize; 6] = [64, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 1 << 20];
/// Size of `/`.
pub const INDEX_BYTES: usize = 612;
/// The server's program.
pub const NGINX: Program = Program { name: "nginx", directories: &["/usr/local/nginx/sbin"], package: "nginx" };

/// A private nginx.
#[derive(Debug, Clone, Copy)]
pub struct NginxRecipe {
    /// True if the server logs each request.
    pub access_log: bool,
    /// Most connections that it takes.
    pub connections: i64,
    /// The version of HTTP that it speaks, and no other.
    pub version: Version,
}

/// Returns the address of a private server.
pub fn endpoint(node: &Node, version: Version) -> Endpoint {
    let (host, place) = ("localhost".to_owned(), "the private nginx".to_owned());
    let login = Login { host, place, version, ..Login::default() };
    Endpoint { address: Address::Unix(node.socket_dir.join("http.sock")), tls: None, login }
}

impl Recipe for NginxRecipe {
    fn spec(&self) -> ServerSpec {
        // A user that every Debian has.
        ServerSpec { reloads: true, ..ServerSpec::new("nginx", "www-data", "base-passwd") }
    }

    fn files(&self, node: Member<'_>) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        let text = configuration(&node.socket_dir.join("http.sock"), self);
        let mut files = vec![
            ("nginx.conf".to_owned(), text.into_bytes()),
            ("files/".to_owned(), Vec::new()),
            ("files/index.html".to_owned(), content(INDEX_BYTES)),
            ("files/bytes/".to_owned(), Vec::new()),
        ];
        files.extend(SIZES_BYTES.map(|size| (format!("files/bytes/{size}"), content(size))));
        Ok(files)
    }

    fn launch(&self, node: Member<'_>) -> Result<Launch, StoreError> {
        let (data, configuration) = (&node.data_dir, node.data_dir.join("nginx.conf"));
        // Before it has read its configuration, nginx would log to where only root may write.
        let arguments = ["-e", "stderr", "-p", &data.display().to_string(), "-c", &configuration.display().to_string()];
        Ok(Launch::new("nginx", NGINX.find()?, arguments))
    }

    fn version_option(&self) -> &'static str {
        "-v"
    }

    fn version_marks(&self, _: usize) -> Result<&'static [&'static str], StoreError> {
        Ok(&["nginx version: nginx/"])
    }

    fn ready(&self, node: &Node, waits: &Waits) -> Result<(), StoreError> {
        look(&endpoint(node, self.version), waits).map(drop)
    }
}

/// Returns a configuration with one worker, no network, and connections as long as clients want: with the default each
/// would end after 1,000 requests.
fn configuration(socket: &Path, nginx: &NginxRecipe) -> String {
    let connections = nginx.connections;
    let http2 = if nginx.version == Version::Http2 { " http2" } else { "" };
    let access_log = if nginx.access_log { "access.log" } else { "off" };
    format!(
        "daemon off;\n\
         worker_processes 1;\n\
         pid nginx.pid;\n\
         error_log stderr warn;\n\
         events {{ worker_connections {connections}; }}\n\
         http {{\n\
         \x20 access_log {access_log};\n\
         \x20 client_body_temp_path temp-body;\n\
         \x20 proxy_temp_path temp-proxy;\n\
         \x20 fastcgi_temp_path temp-fastcgi;\n\
         \x20 uwsgi_temp_path temp-uwsgi;\n\
         \x20 scgi_temp_path temp-scgi;\n\
         \x20 types {{ text/html html; }}\n\
         \x20 default_type application/octet-stream;\n\
         \x20 sendfile on;\n\
         \x20 keepalive_timeout 1d;\n\
         \x20 keepalive_time 1d;\n\
         \x20 keepalive_requests 1000000000;\n\
         \x20 server {{\n\
         \x20   listen \"unix:{}\"{http2};\n\
         \x20   root files;\n\
         \x20   index index.html;\n\
         \x20 }}\n\
         }}\n",
        socket.display()
    )
}

/// Returns the contents of a file of `count` bytes: printable, and no two neighbours alike.
pub fn content(count: usize) -> Vec<u8> {
    (0..count).map(|at| b'0' + (at % 75) as u8).collect()
}
