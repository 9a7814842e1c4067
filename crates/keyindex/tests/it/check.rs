//! The check of indexes against records.

use plimsoll_core::{IndexMode, Kv, StoreErrorKind};
use plimsoll_keyindex::records::Records;
use proptest::prelude::*;

use crate::coupons::*;
use crate::mem_kv::MemKv;

fn detail(records: &Records, kv: &mut MemKv) -> String {
    let error = records.check(kv).unwrap_err();
    assert_eq!(error.kind, StoreErrorKind::Corrupt);
    error.detail.unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(400) })]

    #[test]
    fn damage_is_found_and_counted(
        all in prop::collection::vec(some_row(), 1..8),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 1..6),
    ) {
        let (mut kv, records) = (MemKv::atomic(), Records::new(&layout(IndexMode::Keyindex)).unwrap());
        let mut session = session_on(&kv, &records);
        let rows = all.into_iter().map(|row| (row.1.clone(), row)).collect::<Model>();
        Write::Insert(rows.into_values().collect()).to_store(&mut session);
        for (at, remove_record) in damage {
            let role = if remove_record { b'r' } else { b'x' };
            let candidates: Vec<_> = kv.pairs().into_keys().filter(|key| key[0] == role).collect();
            if !candidates.is_empty() {
                let victim: &Vec<u8> = at.get(&candidates);
                kv.delete(victim).unwrap();
            }
        }
        let count = |role| kv.pairs().keys().filter(|key| key[0] == role).count();
        let (kept, index_keys) = (count(b'r'), count(b'x'));
        let said = records.check(&mut kv).map_err(|error| error.detail.unwrap());
        let Err(said) = said else {
            // Records that went with all of their index keys leave no trace.
            prop_assert_eq!(2 * kept, index_keys);
            return Ok(());
        };
        let number = |words: &str| {
            let before = said.split(words).next().unwrap();
            before.rsplit(' ').next().unwrap().parse::<usize>().unwrap()
        };
        // Every index key is of a record or dangles; every entry has its index key or misses it.
        let (dangling, missing) = (number(" index keys without"), number(" records without"));
        prop_assert_eq!(index_keys - dangling + missing, 2 * kept);
        prop_assert!(dangling + missing > 0 && said.contains(" 0 unreadable"), "{}", said);
    }
}

#[test]
fn more_records_than_a_page_holds_are_checked() {
    let (mut kv, records) = (MemKv::atomic(), Records::new(&layout(IndexMode::Keyindex)).unwrap());
    let mut session = session_on(&kv, &records);
    let all = (0..1_234).map(|n| coupon(Some(&format!("n{}", n % 7)), &format!("{n}"), n % 100)).collect();
    Write::Insert(all).to_store(&mut session);
    let said = records.check(&mut kv).unwrap();
    assert_eq!(said, "`other`: 0 index keys agree with 0 records; `coupons`: 2468 index keys agree with 1234 records");
    let last = kv.pairs().into_keys().rfind(|key| key[0] == b'r').unwrap();
    kv.delete(&last).unwrap();
    assert!(detail(&records, &mut kv).contains("2 index keys without their record, 0 records without"));
}

#[test]
fn index_keys_of_an_index_that_is_no_more_dangle() {
    let (mut kv, mut fewer) = (MemKv::atomic(), layout(IndexMode::Keyindex));
    let mut session = session_on(&kv, &Records::new(&fewer).unwrap());
    Write::Insert(vec![coupon(None, "c", 1)]).to_store(&mut session);
    fewer.collections[1].indexes.pop();
    let said = detail(&Records::new(&fewer).unwrap(), &mut kv);
    assert!(
        said.starts_with("coupons: 1 index keys without") && said.contains("for example the index key x\\x01\\x01"),
        "{said}"
    );
}

#[test]
fn a_record_that_cannot_be_read_is_said() {
    let (mut kv, records) = (MemKv::atomic(), Records::new(&layout(IndexMode::Keyindex)).unwrap());
    let mut session = session_on(&kv, &records);
    Write::Insert(vec![coupon(None, "c", 1)]).to_store(&mut session);
    kv.put(b"r\x01c", b"?").unwrap();
    let said = detail(&records, &mut kv);
    assert!(said.starts_with("coupons: 0 index keys without their record, 0 records without"), "{said}");
    assert!(said.contains("1 unreadable, for example the record c: it is too short"), "{said}");
}
