//! A private store through sync, cold and restart, and what it says of itself.

use plimsoll_core::{CacheSize, ColdStart, Durability, IndexMode, OpKind, Outcome, Value};
use plimsoll_lab::OpenStore;

use super::{Dialect, wire};
use crate::records::{COUNT, FIND, INSERT, SCAN, batch, kinds, layout};
use crate::wire::values;

/// Fills a private store, settles it and checks its sizes, plans and processes. Then makes it cold, and restarts it.
/// `settled` checks more before that.
///
/// # Panics
/// If anything is otherwise.
pub fn data_outlives_cold_and_restart(dialect: &Dialect, settled: impl FnOnce(&mut OpenStore)) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut said = Vec::new();
    let mut store = dialect.private(dir.path()).open_saying(&mut said).expect("a private server");
    assert!(!said.is_empty(), "what takes a while is said");
    let described = store.describe().expect("described");
    assert!(described.version.starts_with(dialect.version), "{}", described.version);
    assert_eq!(described.place, "private server");
    let (cache, _) = dialect.cache;
    let shown = described.settings.iter().find(|setting| setting.name == cache).expect("it differs");
    assert_eq!((shown.value.as_str(), shown.source.as_str()), (dialect.cache_shown, "plimsoll"));
    let bytes = CacheSize::Own { setting: cache, bytes: 32 << 20 };
    assert_eq!(store.cache_bytes().expect("a size"), Some(bytes), "as it describes itself");

    store.create(&layout(IndexMode::Own)).expect("created");
    let names: Vec<String> = (0..5_000).map(|n| format!("c{n:05}")).collect();
    let mut session = wire(&mut *store, Durability::AtEnd, &kinds());
    for chunk in names.chunks(500) {
        assert_eq!(session.ask(INSERT, &batch(chunk)).0, Outcome::Ok);
    }
    drop(session);
    store.sync().expect("synced");
    store.settle().expect("settled");

    let footprint = store.footprint().expect("a size");
    let index_bytes = footprint.index_bytes.expect("it can tell");
    assert!(footprint.data_bytes > 5_000 * 40, "{footprint:?}");
    assert!((30_000..=footprint.data_bytes).contains(&index_bytes), "{footprint:?}");
    assert!(footprint.total_bytes.expect("it is ours") > footprint.data_bytes + index_bytes, "{footprint:?}");
    let range = values(&[Value::Int(3), Value::Int(5)]);
    for (kind, words) in [FIND, SCAN].into_iter().zip(dialect.plans) {
        let kind: &OpKind = &kinds()[usize::from(kind)];
        let plan = store.explain(kind, range.values()).expect("explained").expect("a plan");
        assert!(words.iter().all(|words| plan.contains(words)), "{}: {plan}", kind.name);
        assert_eq!(plan.contains("items_index_0"), kind.name == "find", "{}: {plan}", kind.name);
    }
    settled(&mut store);

    let pids = store.processes();
    assert_eq!(pids.len(), 1);
    let ColdStart::Done { file_bytes, resident_bytes } = store.cold().expect("cold") else { panic!("it is ours") };
    assert!(file_bytes > footprint.data_bytes && resident_bytes <= file_bytes);
    assert_ne!(store.processes(), pids, "it was restarted");
    store.restart().expect("restarted");
    let mut session = wire(&mut *store, Durability::Durable, &kinds());
    assert_eq!(session.ask(COUNT, &[]).1.rows, 5_000);
    drop(session);
    store.close().expect("closed");
}
