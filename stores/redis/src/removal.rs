//! The `redis-cli` commands that remove what a run left in an attached server.

use plimsoll_core::{Address, Removal};
use plimsoll_tls::{Roots, Verify};

use crate::endpoint::Endpoint;

/// Returns the command that removes all keys with this prefix from one server.
pub(crate) fn of_keys(endpoint: &Endpoint, prefix: &str, in_cluster: bool) -> Option<Removal> {
    let (client, server) = client(endpoint);
    let pattern = format!("{prefix}*");
    let scan = words(&client, &["--scan", "--pattern", &pattern]);
    // In a cluster, one command must name keys of one slot.
    let (cluster, keys_at_once) = if in_cluster { (&["-c"][..], "1") } else { (&[][..], "100") };
    let mut unlink = vec!["xargs", "-r", "-d", "\\n", "-n", keys_at_once];
    unlink.extend(words(&client, cluster));
    unlink.push("unlink");
    Some(Removal::new(&scan, &server, prefix)?.pipe(&unlink)?.with(variables(endpoint)))
}

/// Returns the command that removes `member` from the set `key`.
pub(crate) fn of_member(endpoint: &Endpoint, key: &str, member: &str, in_cluster: bool) -> Option<Removal> {
    let (client, server) = client(endpoint);
    let cluster = if in_cluster { &["-c"][..] } else { &[] };
    let words = [&words(&client, cluster)[..], &["srem", key, member]].concat();
    Some(Removal::new(&words, &server, member)?.with(variables(endpoint)))
}

fn words<'w>(client: &'w [String], more: &[&'w str]) -> Vec<&'w str> {
    client.iter().map(String::as_str).chain(more.iter().copied()).collect()
}

/// The password is passed in a variable, so that no message shows it.
fn variables(endpoint: &Endpoint) -> &'static str {
    if endpoint.login.password.is_some() { "REDISCLI_AUTH" } else { "" }
}

/// `redis-cli` with the options that connect to the server, and the one of these words that names it.
fn client(endpoint: &Endpoint) -> (Vec<String>, String) {
    let mut words = vec!["redis-cli".to_owned()];
    let mut option = |name: &str, value: &str| words.extend([name.to_owned(), value.to_owned()]);
    let server = match &endpoint.address {
        Address::Tcp(host, port) => {
            option("-h", host);
            option("-p", &port.to_string());
            host.clone()
        }
        Address::Unix(path) => {
            let path = path.display().to_string();
            option("-s", &path);
            path
        }
    };
    if endpoint.login.database > 0 {
        option("-n", &endpoint.login.database.to_string());
    }
    if let Some(user) = &endpoint.login.user {
        option("--user", user);
    }
    if let Some(tls) = &endpoint.tls {
        if let Roots::File(file) = &tls.roots {
            option("--cacert", &file.display().to_string());
        }
        if let Some(own) = &tls.certificate {
            option("--cert", &own.certificate.display().to_string());
            option("--key", &own.key.display().to_string());
        }
        words.push("--tls".to_owned());
        if tls.verify == Verify::None {
            words.push("--insecure".to_owned());
        }
    }
    (words, server)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::resolve;

    fn command(url: &str, in_cluster: bool) -> String {
        let endpoint = resolve(url, None, &|_| None).unwrap().endpoint;
        of_keys(&endpoint, "plimsoll:1:", in_cluster).unwrap().to_string()
    }

    #[test]
    fn a_command_connects_to_the_server_of_the_url_and_shows_no_password() {
        assert_eq!(
            command("redis://ada:s3cret@db.example:7000/3", false),
            "with REDISCLI_AUTH set, `redis-cli -h db.example -p 7000 -n 3 --user ada --scan --pattern 'plimsoll:1:*' \
             | xargs -r -d '\\n' -n 100 redis-cli -h db.example -p 7000 -n 3 --user ada unlink` removes it"
        );
        assert_eq!(
            command("redis://h", true),
            "`redis-cli -h h -p 6379 --scan --pattern 'plimsoll:1:*' \
             | xargs -r -d '\\n' -n 1 redis-cli -h h -p 6379 -c unlink` removes it"
        );
        let tls = command("rediss://h?cacert=/a%20b&insecure=yes", false);
        assert!(tls.contains("redis-cli -h h -p 6379 --cacert '/a b' --tls --insecure --scan"), "{tls}");
    }

    #[test]
    fn no_prefix_and_no_member_give_no_command() {
        let endpoint = resolve("redis://h", None, &|_| None).unwrap().endpoint;
        assert_eq!(of_keys(&endpoint, "", false), None);
        assert_eq!(of_member(&endpoint, "plimsoll:runs", "", false), None);
    }
}
