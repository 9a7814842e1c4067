//! HTTP/2 with servers that speak it, and with servers that do not.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};

use plimsoll_core::{
    Call, Durability, HttpCall, HttpHeader, HttpTake, OpKind, Outcome, ParamValue, Sessions, StoreError,
    StoreErrorKind, Template, Value, ValueType,
};
use plimsoll_drive::Pace;
use plimsoll_lab::OpenStore;
use plimsoll_store_http::endpoint::Version;
use plimsoll_store_http::{NginxRecipe, kind};
use plimsoll_testkit::ask::{Script, ask};
use plimsoll_testkit::certificates::Authority;
use plimsoll_testkit::conformance;

use crate::closing::driven_in;
use crate::fixture::{GET, HEAD, LOOK, PUT, Server, kept, kinds, open, open_with};

fn two() -> (&'static str, ParamValue) {
    ("http_version", ParamValue::Int(2))
}

fn open2(url: &str) -> Result<OpenStore, StoreError> {
    open_with(url, None, &[two()])
}

/// An nginx that speaks HTTP/2 and nothing else.
fn clear(words: &str) -> Server {
    Server::listening(words, "http2", |_| {})
}

/// Starts a server with TLS and a certificate, which listens with the words `how`.
fn encrypted(authority: &Authority, how: &str, words: &str) -> Server {
    let pair = authority.sign("127.0.0.1");
    let certificate =
        format!("ssl_certificate {}; ssl_certificate_key {};", pair.certificate.display(), pair.key.display());
    Server::listening(&format!("{certificate} {words}"), how, large)
}

fn large(place: &Path) {
    std::fs::write(place.join("files/large"), vec![b'x'; 3_000_000]).unwrap();
}

#[test]
fn requests_come_to_the_same_over_http1_and_http2_with_and_without_tls() {
    let words = "client_max_body_size 9m; log_format said '$server_protocol $request_method $host'; access_log access.log said;";
    let authority = Authority::default();
    let root = ("cacert", ParamValue::Text(authority.root().display().to_string()));
    let body: Vec<u8> = (0..2_000_000_u32).map(|at| (at % 251) as u8).collect();
    for (version, tls) in [(1, false), (1, true), (2, false), (2, true)] {
        let how = if version == 2 { "http2" } else { "" };
        let (server, scheme, mut params) = match tls {
            true => (encrypted(&authority, &format!("ssl {how}"), words), "https", vec![root.clone()]),
            false => (Server::listening(words, how, large), "http", Vec::new()),
        };
        params.extend((version == 2).then(two));
        let url = format!("{scheme}://127.0.0.1:{}", server.port);
        let mut store = open_with(&url, None, &params).unwrap();
        assert!(store.describe().unwrap().version.starts_with("nginx/"));
        let mut script = Script::new();
        for target in ["/", "/there", "/nothing", "/none", "/teapot", "/down", "/large"] {
            script.op(GET, [Value::Text(target)]);
        }
        script.op(HEAD, [Value::Text("/")]).op(LOOK, [Value::Text("/large")]);
        script.op(PUT, [Value::Text("a b"), Value::Bytes(&body)]).op(GET, [Value::Text("/put/a b")]);
        script.op(PUT, [Value::Text("none"), Value::Bytes(b"")]).op(GET, [Value::Text("/put/none")]);
        let replies = ask(&mut *store, &kinds(), Durability::AtEnd, &script).unwrap();
        let all: Vec<_> = replies.iter().map(|reply| (reply.outcome, reply.answer.code.as_str())).collect();
        use Outcome::{Ok, Rejected};
        assert_eq!(
            all[..7],
            [(Ok, ""), (Ok, ""), (Ok, ""), (Rejected, "404"), (Rejected, "418"), (Rejected, "503"), (Ok, "")]
        );
        assert_eq!(all[7..], [(Ok, ""); 6]);
        assert_eq!(replies[5].answer.message, "Service Unavailable");
        let bodies: Vec<_> = replies.iter().map(|reply| kept(&reply.answer)).collect();
        let shape = |at: usize| bodies[at].as_ref().map(|(status, body)| (*status, body.len()));
        assert_eq!((shape(0), shape(1).unwrap().0, shape(2)), (Some((200, 612)), 302, Some((204, 0))));
        assert_eq!((shape(6), shape(7), shape(8)), (Some((200, 3_000_000)), Some((200, 0)), None));
        assert!(bodies[10] == Some((200, body.clone())) && shape(12) == Some((200, 0)));
        let (said, begin) = (server.accesses(), if version == 2 { "HTTP/2.0 " } else { "HTTP/1.1 " });
        let is_so = |line: &String| line.starts_with(begin) && line.ends_with(" 127.0.0.1");
        assert!(!said.is_empty() && said.iter().all(is_so), "{said:?}");
    }
}

#[test]
fn steps_take_headers_bodies_and_cookies() {
    let words = "map $http_cookie $seen { default none; ~k=v yes; }";
    let server = Server::listening(words, "http2", |place| {
        let conf = "location /in { add_header Set-Cookie k=v; add_header X-Next /then; return 200 '{\"id\": 7}'; }\n\
                    location /then { return 200 \"$seen $http_x_id $request_method\"; }";
        std::fs::write(place.join("more"), conf).unwrap();
    });
    let call =
        |target: &str, take: &[HttpTake]| HttpCall { take: take.to_vec(), cookies: true, ..HttpCall::get(target) };
    let login =
        call("/in", &[HttpTake::Json(vec!["id".to_owned()]), HttpTake::Header("X-Next".to_owned()), HttpTake::Status]);
    let header = HttpHeader { name: "X-Id".to_owned(), value: Template::of(" <{}> ") };
    let mut then = call("{}", &[HttpTake::Body]);
    then.headers = vec![header];
    let mut host = call("/in", &[]);
    host.headers = vec![HttpHeader { name: "Connection".to_owned(), value: Template::of("close") }];
    let of = |name: &str, call: HttpCall, params: &[ValueType]| OpKind {
        keep_answer: true,
        ..OpKind::new(name, Call::Http(call), params)
    };
    let kinds = [of("login", login, &[]), of("then", then, &[ValueType::Text, ValueType::Int])];
    let mut store = open2(&server.url()).unwrap();
    let mut script = Script::new();
    script.op(0, []).op(1, [Value::Text("/then"), Value::Int(7)]);
    let replies = ask(&mut *store, &kinds, Durability::AtEnd, &script).unwrap();
    let shown: Vec<_> = replies
        .iter()
        .map(|reply| reply.answer.values.values().iter().map(|v| format!("{v:?}")).collect::<Vec<_>>().join(" "))
        .collect();
    assert_eq!((&*shown[0], &*shown[1]), ("Int(7) Text(\"/then\") Int(200)", "Text(\"yes <7> GET\")"));
    let error = ask(&mut *store, &[of("host", host, &[])], Durability::AtEnd, Script::new().op(0, [])).err().unwrap();
    assert!(error.contains("HTTP/2 has no header Connection"), "{error}");
}

#[test]
fn a_server_that_does_not_offer_it_gives_one_clear_error() {
    let authority = Authority::default();
    let old = encrypted(&authority, "ssl", "");
    let insecure = ("insecure", ParamValue::Bool(true));
    let error = open_with(&format!("https://127.0.0.1:{}", old.port), None, &[two(), insecure]).err().unwrap();
    let plain = Server::start("");
    let plain = open2(&plain.url()).err().unwrap();
    for error in [error, plain] {
        assert_eq!(error.kind, StoreErrorKind::Usage, "{error:?}");
        assert!(error.what.ends_with("does not offer HTTP/2"), "{error:?}");
        assert!(error.next.unwrap().contains("Leave out http_version=2"));
    }
    // One that has no words for it.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || listener.incoming().for_each(|stream| drop(stream.unwrap().write_all(b""))));
    let error = open2(&format!("http://127.0.0.1:{port}")).err().unwrap();
    assert!(error.kind == StoreErrorKind::Unreachable && error.next.unwrap().contains("http_version"));
    // And who is asked for the other one says so.
    let only = clear("");
    let error = open(&only.url(), None).err().unwrap();
    assert!(
        error.kind == StoreErrorKind::Usage && error.next.as_ref().unwrap().contains("http_version=2"),
        "{error:?}"
    );
}

#[test]
fn streams_go_over_one_connection_and_outlive_those_that_end() {
    let server = clear("keepalive_requests 1000000; log_format said '$connection'; access_log access.log said;");
    let mut store = open2(&server.url()).unwrap();
    let Sessions::Wire(wires) = store.sessions(1, Durability::Durable).unwrap() else { panic!("no wire") };
    assert_eq!(wires[0].session.depth_max(), 128, "as nginx says");
    let result = driven_in(&mut store, 100, Pace::Closed);
    assert_eq!(
        (result.kinds[usize::from(LOOK)], result.errors.len(), result.ended_connections),
        ([8_000, 0, 0, 0], 0, 0)
    );
    let mut connections = server.accesses();
    connections.sort_unstable();
    connections.dedup();
    assert_eq!(connections.len(), 8 + 1, "and one look, when it was attached");
    let server = clear("keepalive_requests 100;");
    let result = driven_in(&mut open2(&server.url()).unwrap(), 1, Pace::Closed);
    assert_eq!(
        (result.kinds[usize::from(LOOK)], result.errors.len(), result.lost_connections),
        ([8_000, 0, 0, 0], 0, 0)
    );
    assert!(result.ended_connections >= 8 * 9, "{}", result.ended_connections);
    // Of those at its end some have certainly not happened: they are asked again on the next connection.
    let other = clear("keepalive_requests 100;");
    for url in [server.url(), format!("{},127.0.0.1:{}", server.url(), other.port)] {
        let result = driven_in(&mut open2(&url).unwrap(), 8, Pace::Closed);
        assert_eq!(
            (result.kinds[usize::from(LOOK)], result.errors.len()),
            ([8_000, 0, 0, 0], 0),
            "{:?}",
            result.errors
        );
        assert!(result.lost_connections == 0 && result.asked_again > 0, "{result:?}");
    }
}

/// Answers requests over HTTP/2, but refuses to begin with every third stream of a connection. Returns the port.
fn refusing() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let serve = |mut stream: TcpStream| -> std::io::Result<()> {
        let (mut preface, mut header, mut payload, mut streams) = ([0; 24], [0; 9], Vec::new(), 0);
        stream.set_nodelay(true)?;
        stream.read_exact(&mut preface)?;
        stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0])?;
        loop {
            stream.read_exact(&mut header)?;
            let [_, a, b, kind, flags, id @ ..] = header;
            payload.resize(usize::from(u16::from_be_bytes([a, b])), 0);
            stream.read_exact(&mut payload)?;
            let [head, rest] = match kind {
                1 if streams % 3 == 2 => [&[0, 0, 4, 3, 0], &[0, 0, 0, 7][..]],
                1 => [&[0, 0, 1, 1, 5], &[0x88][..]],
                4 if flags == 0 => [&[0, 0, 0, 4, 1], &[][..]],
                _ => continue,
            };
            streams += usize::from(kind == 1);
            stream.write_all(&[head, &id[..], rest].concat())?;
        }
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || serve(stream));
        }
    });
    port
}

#[test]
fn requests_that_a_server_refuses_to_begin_are_sent_again_and_counted() {
    let mut store = open2(&format!("http://127.0.0.1:{}", refusing())).unwrap();
    let result = driven_in(&mut store, 4, Pace::Closed);
    assert_eq!((result.kinds[usize::from(LOOK)], result.errors.len()), ([8_000, 0, 0, 0], 0), "{:?}", result.errors);
    assert_eq!((result.lost_connections, result.ended_connections), (0, 0));
    // A third of all streams, and so half as many as were answered.
    assert!((3_900..=4_000).contains(&result.asked_again), "{}", result.asked_again);
}

#[test]
fn a_private_server_and_an_attached_one_conform() {
    conformance::run_with(&*kind(), &[two()]);
    conformance::run_attached_with(&*kind(), &clear("").url(), None, &[two()]);
}

#[test]
fn a_private_server_speaks_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let recipe = Box::new(NginxRecipe { access_log: false, connections: 64, version: Version::Http2 });
    let places = [PathBuf::from("/var/tmp")];
    let server = plimsoll_lab::Cluster::start(recipe, &places, dir.path(), &Default::default(), &mut |_| {}).unwrap();
    let look = |version| {
        let endpoint = plimsoll_store_http::server::endpoint(&server.first(), version);
        plimsoll_store_http::look(&endpoint, crate::fixture::TIMEOUT)
    };
    assert!(look(Version::Http2).unwrap().starts_with("nginx/"));
    assert!(look(Version::Http11).unwrap_err().next.unwrap().contains("http_version=2"));
    server.close().unwrap();
}
