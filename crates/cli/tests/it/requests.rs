//! Requests of the user's own: steps, values out of answers, cookies, statuses, and secrets that go nowhere else.

use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use plimsoll_testkit::certificates::Authority;
use plimsoll_testkit::process::free_port;

use crate::bench::{Guarded, Place, Ran, wait_for};

/// An nginx that lets in who has logged in: `/login` gives a token and a cookie, and `/me` wants both.
pub struct Shop {
    pub url: String,
    /// URL through TLS, with a certificate for 127.0.0.1 whose authority is the file `ca.pem` of the place.
    pub tls_url: String,
    log: PathBuf,
    _authority: Authority,
    _server: Guarded,
}

impl Shop {
    pub fn new(place: &Place) -> Self {
        let [port, tls_port] = [free_port(), free_port()];
        let authority = Authority::default();
        let pair = authority.sign("127.0.0.1");
        std::fs::copy(authority.root(), place.path().join("ca.pem")).unwrap();
        let (certificate, key) = (pair.certificate.display(), pair.key.display());
        let (config, dir) = (place.path().join("nginx.conf"), place.path().display());
        let text = format!(
            "daemon off; master_process off; pid {dir}/pid; error_log {dir}/error.log; events {{}}\n\
             http {{ access_log {dir}/access.log; client_body_temp_path {dir}; proxy_temp_path {dir};\n\
             fastcgi_temp_path {dir}; uwsgi_temp_path {dir}; scgi_temp_path {dir}; keepalive_requests 1000000;\n\
             server {{ listen 127.0.0.1:{port}; listen 127.0.0.1:{tls_port} ssl http2;\n\
             ssl_certificate {certificate}; ssl_certificate_key {key};\n\
             location = /items {{ if ($request_method = POST) {{ return 201; }} return 200; }}\n\
             location = /login {{ if ($request_method != POST) {{ return 405; }} if ($content_length = '') {{ return 411; }}\n\
             add_header Set-Cookie 'sid=c00kie-7; Path=/'; return 201 '{{\"data\": {{\"token\": \"t0ken-7\"}}}}'; }}\n\
             location = /me {{ if ($http_authorization != 'Bearer t0ken-7') {{ return 401; }}\n\
             if ($cookie_sid != 'c00kie-7') {{ return 403; }} return 200 'hello ada'; }}\n\
             location / {{ return 204; }} }} }}"
        );
        std::fs::write(&config, text).unwrap();
        let mut command = place.program("nginx");
        command.arg("-e").arg("stderr").arg("-c").arg(&config).stdout(Stdio::null()).stderr(Stdio::null());
        let server = Guarded(command.spawn().expect("nginx is needed: apt-get install nginx-light"));
        wait_for("nginx", Duration::from_secs(100), || TcpStream::connect(("127.0.0.1", port)).is_ok());
        let (url, tls_url) = (format!("http://127.0.0.1:{port}"), format!("https://127.0.0.1:{tls_port}"));
        Self { url, tls_url, log: place.path().join("access.log"), _authority: authority, _server: server }
    }

    /// Waits until so many requests of the log have `words`: the server may write there after its reply.
    #[track_caller]
    fn has_seen(&self, words: &str, count: usize) {
        wait_for(&format!("{count} times {words}"), Duration::from_secs(100), || {
            let log = std::fs::read_to_string(&self.log).unwrap();
            log.lines().filter(|line| line.contains(words)).count() == count
        });
    }
}

const STEPS: &str = r#"
allow_writes = true
[workload]
name = "http"
cookies = true
define = "user=ada"
[[workload.request]]
name = "visit"
[[workload.request.step]]
path = "/login?access_token=s3cret-path"
body = '{"user": "${user}", "password": "s3cret-body"}'
headers = { "X-Api-Key" = "s3cret-header" }
expect = 201
take = { token = "json:data.token" }
[[workload.request.step]]
path = "/me"
headers = ["Authorization: Bearer ${token}", "X-Env: ${env.PLIMSOLL_TEST_SECRET}"]
contains = "hello ada"
[[phase]]
do = "drive"
durability = "as-configured"
clients = 2
ops = 20
"#;

fn files(dir: PathBuf) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files(path) } else { vec![path] }).collect()
}

/// Checks that no file of a run, and no output, contains any of `secrets`.
pub fn kept_nowhere(place: &Place, ran: &Ran, secrets: &[&str]) {
    let all = files(place.path().join("plimsoll"));
    assert!(!all.is_empty());
    for secret in secrets {
        assert!(!ran.out.contains(secret) && !ran.err.contains(secret), "{secret}: {}{}", ran.out, ran.err);
        for file in &all {
            let bytes = std::fs::read(file).unwrap();
            let found = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!found, "{secret} stands in {}", file.display());
        }
    }
}

#[test]
fn steps_go_on_with_what_answers_gave_and_secrets_are_kept_nowhere() {
    let place = Place::new();
    let shop = Shop::new(&place);
    let run = |store: &str| {
        let plan = place.plan(&format!("stores = [{store}]\n{STEPS}"));
        Ran::of(&place.command(&["run", &plan, "--full"]).env("PLIMSOLL_TEST_SECRET", "s3cret-env").output().unwrap())
    };
    let over_2 = |url: &str| format!("{{ store = \"{url}\", http_version = 2, insecure = true }}");
    // Over HTTP/2 the same, where it is offered.
    for (store, version) in [(format!("\"{}\"", shop.url), "1.1"), (over_2(&shop.tls_url), "2.0")] {
        let ran = run(&store).expect(0);
        assert!(ran.out.contains("visit") && ran.out.contains("/me"), "{}", ran.out);
        shop.has_seen(&format!("\"POST /login?access_token=s3cret-path HTTP/{version}\" 201"), 40);
        shop.has_seen(&format!("\"GET /me HTTP/{version}\" 200"), 40);
        kept_nowhere(&place, &ran, &["s3cret", "t0ken-7", "c00kie-7"]);
    }
    run(&over_2(&shop.url)).expect(2).says("does not offer HTTP/2 … Leave out http_version=2");
    // A secret that is not there is missed before anything is sent.
    let plan = place.plan(&format!("stores = [\"{}\"]\n{STEPS}", shop.url));
    place.run(&["run", &plan]).expect(2).says("the environment variable PLIMSOLL_TEST_SECRET is not set");
}

#[test]
fn requests_have_the_values_of_a_row() {
    let place = Place::new();
    let shop = Shop::new(&place);
    std::fs::write(place.path().join("users.csv"), "id,Api key\n1,s3cret-a\n2,s3cret-b\n").unwrap();
    let plan = format!(
        "stores = [\"{}\"]\n[workload]\nname = \"http\"\n[[workload.csv]]\nfile = \"users.csv\"\norder = \"in-order\"\n\
         prefix = \"u_\"\n[[workload.request]]\npath = \"/users/${{u_id}}/${{:u_id * 10}}\"\n\
         headers = {{ \"X-Api-Key\" = \"${{u_Api_key}}\" }}\n[[phase]]\ndo = \"drive\"\nclients = 2\nops = 10\n",
        shop.url
    );
    let ran = place.run(&["run", &place.plan(&plan)]).expect(0);
    shop.has_seen("\"GET /users/1/10 ", 10);
    shop.has_seen("\"GET /users/2/20 ", 10);
    kept_nowhere(&place, &ran, &["s3cret"]);
}

#[test]
fn a_request_is_described_by_options_and_its_status_by_number() {
    let place = Place::new();
    let shop = Shop::new(&place);
    let body = place.path().join("body.json");
    std::fs::write(&body, "{\"n\": ${sequence}, \"password\": \"s3cret-file\"}").unwrap();
    let body = format!("@{}", body.display());
    let on = format!("{}/login", shop.url);
    let drive = |options: &[&str]| place.run(&[&["drive", "http", "--on", &on, "--ops", "10", "-q"], options].concat());
    let secret = "Authorization: Bearer s3cret-typed";
    let ran = drive(&["-H", secret, "-H", "Accept: text/html", "--body", &body, "--expect", "201"]).expect(0);
    kept_nowhere(&place, &ran, &["s3cret"]);
    drive(&["-X", "PUT", "--body", "x"]).expect(1).says("rejected 405");
    drive(&["--expect", "405"]).expect(0);
    // The server's status is right, and not what was expected.
    drive(&["--body", "x", "--expect", "200"]).expect(1).says("201");
    drive(&["--body", "x", "--contains", "nothing of it"]).expect(1).says("does not contain `nothing of it`");
    let printed = drive(&["-H", secret, "--print-plan"]).expect(0);
    assert!(printed.out.contains("Authorization: ***") && !printed.out.contains("s3cret"), "{}", printed.out);
    let plan = place.plan(&printed.out);
    place.run(&["run", &plan]).expect(2).says("was masked when this plan was saved");
}

#[test]
fn what_is_wrong_in_a_request_is_said_where_it_stands_and_shows_no_secret() {
    let place = Place::new();
    let request = |lines: &str| {
        let plan = format!(
            "stores = [\"http\"]\n[workload]\nname = \"http\"\n[[workload.request]]\n{lines}\n[[phase]]\ndo = \"drive\"\nops = 1\n"
        );
        place.run(&["check", &place.plan(&plan)]).expect(2)
    };
    for (lines, words) in [
        ("headers = [\"Authorization Bearer s3cret\"]", "a header without a colon"),
        ("headers = [\"Authorization: Bearer s3cret\"]\nexpect = 99", "`99` is not a status"),
        ("body = \"@/nowhere/body\"", "the body `/nowhere/body` cannot be read"),
        ("path = \"/${id}\"", "nothing gives `id` a value"),
        ("take = { a = \"xpath:b\" }", "nothing that can be taken"),
        ("step = []\npath = \"/\"", "is not allowed in a request with steps"),
    ] {
        let ran = request(lines).says(words).says("plan.toml:");
        assert!(!ran.err.contains("s3cret"), "{}", ran.err);
    }
    place.run(&["drive", "kv:a", "--on", "redis", "-X", "PUT"]).expect(2).says("a request was described");
}
