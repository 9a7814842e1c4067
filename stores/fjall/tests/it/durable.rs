//! Durable commits in the files.

use plimsoll_core::{Durability, Kv, Store};
use plimsoll_store_fjall::{FjallStore, Sizes};
/// Looks at a copy of the files made when an acknowledgement comes, without anything that only this process knows.
#[test]
fn what_is_acknowledged_stands_in_the_files() {
    for (durability, expected) in
        [(Durability::Durable, true), (Durability::Buffered, true), (Durability::AtEnd, false)]
    {
        let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut store = FjallStore::open(dir.path(), Sizes::default()).unwrap();
        let mut kv = store.kv(durability).unwrap();
        kv.put(b"rkey", b"value").unwrap();
        copy_files(&dir.path().join("fjall"), &copy.path().join("fjall"));
        let there = FjallStore::open(copy.path(), Sizes::default()).unwrap();
        let found = there.kv(durability).unwrap().get(b"rkey", &mut Vec::new()).unwrap();
        assert_eq!(found, expected, "{durability:?}");
        // The one sync of `at-end` makes up for it.
        drop(there);
        store.sync().unwrap();
        let copy = tempfile::tempdir().unwrap();
        copy_files(&dir.path().join("fjall"), &copy.path().join("fjall"));
        let there = FjallStore::open(copy.path(), Sizes::default()).unwrap();
        assert!(there.kv(durability).unwrap().get(b"rkey", &mut Vec::new()).unwrap());
    }
}

fn copy_files(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_files(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}
