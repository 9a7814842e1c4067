//! Servers of our own.

use plimsoll_core::{
    Address, CacheSize, Durability, Layout, Outcome, ParamValue, Sessions, StoreErrorKind, Value, ValueBuf,
};
use plimsoll_lab::{Cluster, OpenStore};
use plimsoll_store_ldap::SlapdRecipe;
use plimsoll_testkit::ask::{Script, ask};
use plimsoll_testkit::wire::values;

use crate::fixture::{ADD, LOOK, kinds, opening, private};

fn started(dir: &std::path::Path, index: &str) -> Result<Cluster, plimsoll_core::StoreError> {
    let recipe =
        SlapdRecipe { threads: 4, maxsize_bytes: 1 << 28, index: index.to_owned(), load_threads: 1, own_host: false };
    Cluster::start(Box::new(recipe), &[dir.to_owned(), "/var/tmp".into()], dir, &Default::default(), &mut |_| {})
}

#[test]
fn it_dies_and_comes_back_with_what_it_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = private(dir.path());
    let mut script = Script::new();
    for number in 0..50 {
        script.op(ADD, [Value::Int(number), Value::Int(number)]);
    }
    let replies = ask(&mut *store, &kinds(), Durability::Durable, &script).unwrap();
    assert!(replies.iter().all(|reply| reply.outcome == Outcome::Ok), "{replies:?}");
    assert_eq!(store.processes().len(), 1);
    let counters = plimsoll_testkit::ask::counters(&mut *store);
    let of = |name: &str| counters.iter().find(|counter| counter.name == name).unwrap().number();
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
fn what_it_does_not_take_is_told_with_its_words() {
    let dir = tempfile::tempdir().unwrap();
    let error = started(dir.path(), "uid perhaps").err().unwrap();
    assert_eq!(error.kind, StoreErrorKind::Broken, "{error:?}");
    assert!(error.to_string().contains("perhaps") || error.next.is_some(), "{error:?}");
    let error = started(dir.path(), "uid eq\ninclude /etc/passwd").err().unwrap();
    assert_eq!(error.kind, StoreErrorKind::Usage);
}

/// Adds an entry for each number.
fn adds(numbers: impl IntoIterator<Item = i64>) -> impl FnMut(&mut ValueBuf) -> Option<u16> {
    let mut numbers = numbers.into_iter();
    move |params| {
        let number = numbers.next()?;
        params.extend(values(&[Value::Int(number); 2]).values());
        Some(ADD)
    }
}

/// A store of our own, loaded with `count` entries at once.
fn loaded(dir: &std::path::Path, durability: Durability, count: i64) -> OpenStore {
    let mut store = private(dir);
    let how = store.load_at_once(&kinds(), durability, &mut adds(0..count));
    assert!(how.unwrap().unwrap().contains(&format!("{count} entries")));
    store
}

#[test]
fn a_load_at_once_is_there_and_can_be_added_to() {
    let dir = tempfile::tempdir().unwrap();
    for durability in [Durability::Durable, Durability::AtEnd] {
        let mut store = loaded(dir.path(), durability, 3_000);
        let mut script = Script::new();
        script.op(LOOK, [Value::Int(0)]).op(LOOK, [Value::Int(2_999)]).op(LOOK, [Value::Int(3_000)]);
        script.op(ADD, [Value::Int(7), Value::Int(7)]).op(ADD, [Value::Int(3_000), Value::Int(3_000)]);
        script.op(LOOK, [Value::Int(3_000)]);
        let replies = ask(&mut *store, &kinds(), Durability::Durable, &script).unwrap();
        let outcomes: Vec<_> = replies.iter().map(|reply| reply.outcome).collect();
        use Outcome::{NotFound, Ok, Rejected};
        assert_eq!(outcomes, [Ok, Ok, NotFound, Rejected, Ok, Ok], "{replies:?}");
        assert_eq!(replies[3].answer.code, "entryAlreadyExists");
        store.restart().unwrap();
        // Made again it is empty, and is loaded again.
        store.create(&Layout::default()).unwrap();
        let again = store.load_at_once(&kinds(), durability, &mut adds([5]));
        assert!(again.unwrap().is_some());
        let mut script = Script::new();
        script.op(LOOK, [Value::Int(5)]).op(LOOK, [Value::Int(0)]);
        let replies = ask(&mut *store, &kinds(), Durability::Durable, &script).unwrap();
        assert_eq!((replies[0].outcome, replies[1].outcome), (Ok, NotFound));
        store.close().unwrap();
    }
    assert_eq!(std::fs::read_dir(dir.path().join("data")).unwrap().count(), 0, "nothing is left");
}

#[test]
fn a_server_on_a_host_of_its_own_is_loaded_quickly_and_answers_over_the_network() {
    let dir = tempfile::tempdir().unwrap();
    let mut opening = opening(dir.path()).int("load_threads", 2);
    opening.options.params.0.insert("own_host".to_owned(), ParamValue::Bool(true));
    let mut store = opening.open().unwrap();
    store.create(&Layout::default()).unwrap();
    let how = store.load_at_once(&kinds(), Durability::AtEnd, &mut adds(0..100)).unwrap();
    assert!(how.unwrap().contains("100 entries"));
    let Sessions::Wire(clients) = store.sessions(1, Durability::Durable).unwrap() else { panic!("wire sessions") };
    let Address::Tcp(host, 1389) = &clients[0].address else { panic!("{:?}", clients[0].address) };
    assert!(host.starts_with("10.77."), "{host}");
    let mut script = Script::new();
    script.op(LOOK, [Value::Int(99)]).op(LOOK, [Value::Int(100)]);
    script.op(ADD, [Value::Int(100), Value::Int(100)]).op(LOOK, [Value::Int(100)]);
    let replies = ask(&mut *store, &kinds(), Durability::Durable, &script).unwrap();
    let outcomes: Vec<_> = replies.iter().map(|reply| reply.outcome).collect();
    assert_eq!(outcomes, [Outcome::Ok, Outcome::NotFound, Outcome::Ok, Outcome::Ok], "{replies:?}");
    store.close().unwrap();
}

#[test]
fn what_slapadd_refuses_is_told_in_its_words() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = loaded(dir.path(), Durability::AtEnd, 3);
    let error = store.load_at_once(&kinds(), Durability::AtEnd, &mut adds([1, 1])).unwrap_err();
    assert!(error.to_string().contains("slapadd") && error.to_string().contains("uid=1"), "{error:?}");
    let error = store.load_at_once(&kinds(), Durability::AtEnd, &mut |params| {
        params.push(Value::Int(1));
        Some(LOOK)
    });
    assert_eq!(error.unwrap_err().kind, StoreErrorKind::Usage);
}
