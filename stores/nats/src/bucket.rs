//! Buckets: streams of JetStream that keep the last message of each subject. Each key is a subject.

use std::fmt::Write as _;

use serde_json::{Value, json};

/// Prefix of the names of buckets that runs make on attached servers.
pub(crate) const ALL_RUNS: &str = "plimsoll-";
/// Prefix of the name of a bucket's stream.
const STREAM: &str = "KV_";
/// Bucket of private servers.
pub(crate) const PRIVATE: &str = "plimsoll";

/// Returns the name of the bucket that a run makes on attached servers.
pub(crate) fn bucket_of(run_id: &str) -> String {
    let fits = |letter: char| if is_plain(letter) { letter } else { '_' };
    format!("{ALL_RUNS}{}", run_id.chars().map(fits).collect::<String>())
}

/// True if a bucket may have this name.
pub(crate) fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_plain)
}

fn is_plain(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_')
}

/// Returns the name of the bucket's stream.
pub(crate) fn stream(bucket: &str) -> String {
    format!("{STREAM}{bucket}")
}

/// Returns the bucket of `stream`; `None` if the stream is not a bucket.
pub(crate) fn bucket(stream: &str) -> Option<&str> {
    stream.strip_prefix(STREAM)
}

/// Configuration of a bucket's stream. NATS' own clients make the same one for a bucket with a history of 1.
pub(crate) fn configuration(bucket: &str, replicas: usize) -> Value {
    json!({
        "name": stream(bucket),
        "subjects": [format!("$KV.{bucket}.>")],
        "max_msgs_per_subject": 1,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_msg_size": -1,
        "max_age": 0,
        "retention": "limits",
        "discard": "new",
        "storage": "file",
        "num_replicas": replicas,
        "allow_rollup_hdrs": true,
        "allow_direct": true,
        "deny_delete": true,
        "deny_purge": false,
    })
}

/// Appends the subject of `key` in `bucket`. Letters, digits, `-`, `_`, `/` and a dot between two of them stand for
/// themselves. Any other byte is `=` and two hexadecimal digits. An empty key is `=`.
pub(crate) fn subject(bucket: &str, key: &[u8], out: &mut String) {
    let stands = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'/');
    out.push_str("$KV.");
    out.push_str(bucket);
    out.push('.');
    if key.is_empty() {
        out.push('=');
    }
    for (at, byte) in key.iter().copied().enumerate() {
        let is_between = || at > 0 && stands(key[at - 1]) && key.get(at + 1).copied().is_some_and(stands);
        if stands(byte) || (byte == b'.' && is_between()) {
            out.push(char::from(byte));
        } else {
            // A write to memory cannot fail.
            let _ = write!(out, "={byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn of(key: &[u8]) -> String {
        let mut out = String::new();
        subject("b", key, &mut out);
        out
    }

    #[test]
    fn keys_are_subjects_and_usual_ones_stand_as_they_are() {
        for (key, subject) in [
            (&b"user123"[..], "$KV.b.user123"),
            (b"app.port/x-1_y", "$KV.b.app.port/x-1_y"),
            (b".a..b.", "$KV.b.=2Ea=2E=2Eb=2E"),
            (b"a b=*>", "$KV.b.a=20b=3D=2A=3E"),
            (b"", "$KV.b.="),
            (b"\0\r\n", "$KV.b.=00=0D=0A"),
        ] {
            assert_eq!(of(key), subject);
        }
        assert_eq!(bucket_of("2026-11-24 a.b"), "plimsoll-2026-11-24_a_b");
        assert!(is_name(PRIVATE) && !is_name("a.b") && !is_name(""));
    }

    proptest! {
        #[test]
        fn two_keys_have_two_subjects(keys in prop::collection::btree_set(prop::collection::vec(prop::sample::select(&b"a.=*2E\0"[..]), 0..5), 2..40)) {
            let subjects: BTreeMap<String, &Vec<u8>> = keys.iter().map(|key| (of(key), key)).collect();
            prop_assert_eq!(subjects.len(), keys.len());
            for subject in subjects.keys() {
                let is_valid = subject.split('.').all(|token| !token.is_empty()) && !subject.contains(['*', '>', ' ']);
                prop_assert!(is_valid, "{}", subject);
            }
        }
    }
}
