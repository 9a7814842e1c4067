//! Servers of our own.

use plimsoll_core::{CacheSize, Durability, Layout, OpenOptions, Outcome, StoreErrorKind, Target, Value};
use plimsoll_store_ldap::server::{BASE, Settings};
use plimsoll_store_ldap::{Control, PrivateSlapd, kind};
use plimsoll_testkit::ask::{Script, ask};

use crate::fixture::{ADD, LOOK, TIMEOUT, kinds, params};

fn started(dir: &std::path::Path, index: &str) -> Result<PrivateSlapd, plimsoll_core::StoreError> {
    let settings = Settings { threads: 4, maxsize_bytes: 1 << 28, index: index.to_owned() };
    PrivateSlapd::start(&[dir.to_owned(), "/var/tmp".into()], dir, &settings, &mut |_| {})
}

#[test]
fn it_dies_and_comes_back_with_what_it_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let target = Target::Private { data_dir: dir.path().to_owned(), log_dir: dir.path().to_owned() };
    let options = OpenOptions { target, params: params("ask"), run_id: "test-1".to_owned() };
    let mut store = kind().open(options, &mut |_| {}).unwrap();
    store.create(&Layout::default()).unwrap();
    let mut script = Script::new();
    for number in 0..50 {
        script.op(ADD, [Value::Int(number), Value::Int(number)]);
    }
    let replies = ask(&mut *store, &kinds(), Durability::Durable, &script).unwrap();
    assert!(replies.iter().all(|reply| reply.outcome == Outcome::Ok), "{replies:?}");
    assert_eq!(store.processes().len(), 1);
    let counters = store.counters().unwrap();
    let of = |name: &str| counters.iter().find(|counter| counter.name == name).unwrap().value;
    assert!(of("operations_completed") > 50.0 && of("database_used") > 4096.0, "{counters:?}");
    let footprint = store.footprint().unwrap();
    assert!(footprint.data_bytes > 4096 && footprint.total_bytes.unwrap() >= footprint.data_bytes, "{footprint:?}");
    store.restart().unwrap();
    let mut script = Script::new();
    script.op(LOOK, [Value::Int(49)]).op(LOOK, [Value::Int(50)]);
    let replies = ask(&mut *store, &kinds(), Durability::Buffered, &script).unwrap();
    assert_eq!((replies[0].outcome, replies[1].outcome), (Outcome::Ok, Outcome::NotFound));
    let description = store.describe().unwrap();
    assert!(description.version.starts_with("OpenLDAP 2."), "{description:?}");
    assert!(description.settings.iter().any(|setting| setting.name == "dbnosync"));
    // LMDB reads its map of the file.
    assert_eq!(store.cache_bytes().unwrap(), Some(CacheSize::PageCache));
    store.close().unwrap();
}

#[test]
fn it_is_killed_and_started_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = started(dir.path(), "").unwrap();
    server.kill().unwrap();
    assert_eq!(server.check().unwrap_err().kind, StoreErrorKind::Unreachable);
    assert!(Control::open(&server.endpoint(), TIMEOUT).is_err());
    server.start_again().unwrap();
    let root = Control::open(&server.endpoint(), TIMEOUT).unwrap().entry("", &["namingContexts"]).unwrap();
    assert_eq!(root, Some(vec![BASE.to_owned()]));
    let data = server.data_dir().to_owned();
    server.close().unwrap();
    assert!(!data.exists());
}

#[test]
fn what_it_does_not_take_is_told_with_its_words() {
    let dir = tempfile::tempdir().unwrap();
    let error = started(dir.path(), "uid perhaps").err().unwrap();
    assert_eq!(error.kind, StoreErrorKind::Broken, "{error:?}");
    assert!(error.to_string().contains("perhaps") || error.next.is_some(), "{error:?}");
    let error = started(dir.path(), "uid eq\ninclude /etc/passwd").err().unwrap();
    assert_eq!(error.kind, StoreErrorKind::Usage);
}
