//! Files and settings of the store, and errors of both.

use plimsoll_core::{Durability, IndexMode, OpenOptions, Params, StoreErrorKind, Target};

use plimsoll_testkit::records::{blocking, layout};

use crate::open;

#[test]
fn it_says_what_it_is_and_what_differs_from_the_defaults() {
    let mut fixture = open();
    let described = fixture.store.describe().unwrap();
    assert!(described.version.starts_with("SQLite 3."), "{described:?}");
    assert_eq!(described.place, "embedded");
    let settings: Vec<String> =
        described.settings.iter().map(|setting| format!("{}={}", setting.name, setting.value)).collect();
    assert_eq!(
        settings,
        [
            "journal_mode=wal",
            "foreign_keys=1",
            "busy_timeout=30000",
            "synchronous=FULL for durable, NORMAL for buffered, OFF for at-end"
        ]
    );
    assert!(fixture.store.processes().is_empty());
}

#[test]
fn what_it_makes_it_makes_anew_and_removes() {
    let mut fixture = open();
    for _ in 0..2 {
        fixture.store.create(&layout(IndexMode::Own)).unwrap();
        let sessions = blocking(&mut *fixture.store, 3, Durability::AtEnd, &[]);
        fixture.store.sync().unwrap();
        drop(sessions);
    }
    assert!(fixture.dir.path().join("data/store.sqlite").exists());
    fixture.store.close().unwrap();
    assert_eq!(fixture.dir.path().join("data").read_dir().unwrap().count(), 0);
}

#[test]
fn a_directory_that_is_not_there_is_no_place() {
    let dir = tempfile::tempdir().unwrap();
    let nowhere = dir.path().join("nowhere");
    let target = Target::Private { data_dir: nowhere.clone(), said: false, log_dir: nowhere };
    let options = OpenOptions { target, params: Params::default(), run_id: "test".into(), waits: Default::default() };
    let error = plimsoll_store_sqlite::kind().open(options, &mut |_| {}).err().expect("no directory");
    assert_eq!(error.kind, StoreErrorKind::Permission);
    assert!(error.what.starts_with("sqlite: cannot open /") && error.next.is_some(), "{error}");
}

#[test]
fn damage_is_found() {
    use std::os::unix::fs::FileExt;
    let mut fixture = open();
    fixture.store.create(&layout(IndexMode::None)).unwrap();
    fixture.store.sync().unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(fixture.dir.path().join("data/store.sqlite")).unwrap();
    // The second page is the table's; its type byte is made nonsense.
    file.write_at(&[0xee; 8], 4096).unwrap();
    fixture.store.restart().unwrap();
    let error = fixture.store.check_integrity().unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Corrupt, "{error}");
}
