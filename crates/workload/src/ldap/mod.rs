//! A directory's people: entries searched, compared, changed, added and deleted.
//!
//! What is loaded is as in the examples of the directories' own load generators: `uid=user.0,ou=People` and so on, each
//! an `inetOrgPerson`. Searches are base searches of one entry by default, as `searchrate` is mostly used.
//!
//! | kind | what |
//! |---|---|
//! | `search` | the search that the parameters say, for one entry by its number |
//! | `compare` | whether the entry's `employeeNumber` is its number |
//! | `modify` | puts another `description` in the place of the entry's |
//! | `add` | an entry that was not there |
//! | `delete` | with `add` in the mix: the oldest that its client has added and not deleted; alone: a loaded one |
//!
//! | file | what |
//! |---|---|
//! | `person` | what an entry holds |
//! | `stream` | which operation each client does next |

mod person;
mod stream;

use plimsoll_core::{
    Call, Extent, Interface, KindId, LdapCall, LdapChange, LdapChangeKind, LdapScope, OpKind, ParamSpec, Params,
    Stream, StreamSpec, Value, ValueBuf, ValueType, Workload, WorkloadError, WorkloadSpec,
};

use crate::kv::Chooser;
use person::Person;

const SEARCH: KindId = 0;
const COMPARE: KindId = 1;
const MODIFY: KindId = 2;
const ADD: KindId = 3;
const DELETE: KindId = 4;
const KINDS: [&str; 5] = ["search", "compare", "modify", "add", "delete"];
/// Parameter by which `base` means the entry itself.
const ENTRY: &str = "entry";

const PARAMS: &[ParamSpec] = &[
    ParamSpec::int("entries", 1..=1_000_000_000, "10000", "entries to load, and asked for: their numbers begin with 0"),
    ParamSpec::int(
        "description_bytes",
        32..=1 << 20,
        "100",
        "bytes of an entry's description, which `modify` writes anew",
    ),
    ParamSpec::one_of(
        "distribution",
        &["uniform", "zipfian", "scrambled", "hotspot"],
        "distribution of operations over entries",
    ),
    ParamSpec::int("hot_entries", 0..=100, "20", "percent of the entries that are hot, with `hotspot`"),
    ParamSpec::int("hot_operations", 0..=100, "80", "percent of the operations that go to them"),
    ParamSpec::text("dn", "uid=user.{},ou=People", "an entry's DN below the directory's base, with {} for its number"),
    ParamSpec::text(
        "base",
        ENTRY,
        "base of searches: a DN below the directory's base, or `entry` for the entry itself",
    ),
    ParamSpec::one_of("scope", &["base", "one", "sub"], "scope of searches"),
    ParamSpec::text("filter", "(objectClass=*)", "filter of searches, with {} for the entry's number"),
    ParamSpec::text(
        "attributes",
        "all",
        "attributes that searches return: names separated by commas, `all`, or `none`",
    ),
];

/// The workload's name, interfaces, kinds and parameters.
pub fn spec() -> WorkloadSpec {
    WorkloadSpec {
        name: "ldap",
        summary: "a directory's people: entries searched, compared, changed, added and deleted",
        interfaces: &[Interface::Ldap],
        dialects: &[],
        kinds: &KINDS,
        params: PARAMS,
        presets: &[],
        make: |seed, params, _| Ok(Box::new(People::new(seed, params)?)),
    }
}

struct People {
    seed: u64,
    entries: u64,
    /// Occurrences of an entry's number in the parameters of each operation type.
    numbers: [usize; 5],
    person: Person,
    chooser: Chooser,
    kinds: Vec<OpKind>,
}

impl People {
    fn new(seed: u64, params: &Params) -> Result<Self, WorkloadError> {
        let int = |name: &str| params.int(name).unsigned_abs();
        let dn = params.text("dn");
        let Some((name, value)) = dn.split(',').next().and_then(|first| first.split_once('=')) else {
            return Err(WorkloadError::new(format!("`{dn}` is not a DN"), "write it as uid=user.{},ou=People"));
        };
        if !value.contains("{}") || dn.matches("{}").count() > 1 {
            let what = format!("`{dn}` does not have {{}} for an entry's number, once, in its first part");
            return Err(WorkloadError::new(what, "write it as uid=user.{},ou=People"));
        }
        let (hot, hot_operations) = (int("hot_entries"), int("hot_operations"));
        let chooser = Chooser::new(params.text("distribution"), int("entries"), hot, hot_operations);
        let person = Person::new(seed, int("description_bytes") as usize);
        let search = search(params, dn);
        let LdapCall::Search { base, filter, .. } = &search else { unreachable!("it is a search") };
        let searched = base.matches("{}").count() + filter.matches("{}").count();
        let (add, parts) = person::add(dn, name, value);
        let calls = [
            (search, vec![ValueType::Int; searched]),
            (
                LdapCall::Compare { dn: dn.into(), attribute: "employeeNumber".into(), value: "{}".into() },
                vec![ValueType::Int; 2],
            ),
            (
                LdapCall::Modify {
                    dn: dn.into(),
                    changes: vec![LdapChange {
                        how: LdapChangeKind::Replace,
                        attribute: "description".into(),
                        value: Some("{}".into()),
                    }],
                },
                vec![ValueType::Int, ValueType::Text],
            ),
            (add, parts),
            (LdapCall::Delete { dn: dn.into() }, vec![ValueType::Int]),
        ];
        let kinds: Vec<OpKind> = KINDS
            .iter()
            .zip(calls)
            .map(|(name, (call, params))| OpKind::new(*name, Call::Ldap(call), &params))
            .collect();
        let mut numbers = [0; 5];
        for (count, kind) in numbers.iter_mut().zip(&kinds) {
            *count = kind.params.iter().filter(|value_type| **value_type == ValueType::Int).count();
        }
        Ok(Self { seed, entries: int("entries"), numbers, person, chooser, kinds })
    }
}

fn search(params: &Params, dn: &str) -> LdapCall {
    let attributes = match params.text("attributes") {
        "all" => Vec::new(),
        "none" => vec!["1.1".to_owned()],
        names => names.split([',', ' ']).filter(|name| !name.is_empty()).map(str::to_owned).collect(),
    };
    let base = match params.text("base") {
        ENTRY => dn,
        base => base,
    };
    let scope = match params.text("scope") {
        "one" => LdapScope::One,
        "sub" => LdapScope::Sub,
        _ => LdapScope::Base,
    };
    LdapCall::Search { base: base.to_owned(), scope, filter: params.text("filter").to_owned(), attributes }
}

impl Workload for People {
    fn kinds(&self) -> &[OpKind] {
        &self.kinds
    }

    fn stream(&self, spec: &StreamSpec) -> Result<Box<dyn Stream>, String> {
        stream::stream(self, spec)
    }

    fn extent(&self) -> Option<Extent> {
        let kind = self.kinds[usize::from(SEARCH)].clone();
        Some(Extent { param: "entries", of: ["entry", "entries"], exact: false, kind, by_record: true })
    }

    fn record_key(&self, id: u64, params: &mut ValueBuf) {
        (0..self.numbers[usize::from(SEARCH)]).for_each(|_| params.push(Value::Int(id as i64)));
    }

    fn record_count(&self) -> u64 {
        self.entries
    }

    fn record_bytes(&self) -> u64 {
        self.person.bytes()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use plimsoll_core::ParamValue;

    use super::*;
    use crate::tests::each_op;

    fn people(set: &[(&str, &str)]) -> Result<People, WorkloadError> {
        let mut params = crate::tests::defaults(PARAMS);
        for (name, value) in set {
            let value = value.parse().map_or_else(|_| ParamValue::Text((*value).into()), ParamValue::Int);
            params.0.insert((*name).into(), value);
        }
        People::new(3, &params)
    }

    fn mix(people: &People, shares: &[(&str, u32)]) -> Box<dyn Stream> {
        let mix = shares.iter().map(|(kind, share)| ((*kind).to_owned(), *share)).collect();
        people.stream(&StreamSpec::Mix { mix, clients: 4 }).unwrap()
    }

    fn number(params: &ValueBuf) -> i64 {
        match params.values().get(0) {
            Value::Int(number) => number,
            other => panic!("{other:?} is no number"),
        }
    }

    #[test]
    fn every_kind_has_its_parameters() {
        let people = people(&[("entries", "100"), ("filter", "(|(uid=user.{})(employeeNumber={}))")]).unwrap();
        let stream = mix(&people, &[("search", 3), ("compare", 1), ("modify", 2), ("add", 1), ("delete", 1)]);
        each_op(&*stream, 0..4, 0..2_000, |_, kind, params| {
            let types: Vec<_> = params.values().iter().map(|value| value.value_type().unwrap()).collect();
            assert_eq!(types, people.kinds[usize::from(kind)].params, "{}", KINDS[usize::from(kind)]);
            assert!(kind > MODIFY || (0..100).contains(&number(params)));
        });
    }

    #[test]
    fn the_load_adds_every_entry_once_and_adds_are_new() {
        let people = people(&[("entries", "1000")]).unwrap();
        let mut there = BTreeSet::new();
        let load = people.stream(&StreamSpec::Load { batch: 10, clients: 3 }).unwrap();
        each_op(&*load, 0..3, 0..u64::MAX, |_, kind, params| assert!(kind == ADD && there.insert(number(params))));
        assert!(there.iter().copied().eq(0..1_000));
        let stream = mix(&people, &[("add", 1)]);
        each_op(&*stream, 0..4, 0..50, |_, kind, params| {
            assert!(kind == ADD && there.insert(number(params)), "{} is there already", number(params));
        });
        assert_eq!(there.len(), 1_200);
    }

    #[test]
    fn what_was_added_is_deleted_again() {
        let people = people(&[("entries", "1000")]).unwrap();
        let stream = mix(&people, &[("search", 5), ("add", 2), ("delete", 2)]);
        let (mut there, mut not_there) = (BTreeSet::new(), 0);
        each_op(&*stream, 2..3, 0..9_000, |_, kind, params| match kind {
            ADD => assert!(there.insert(number(params))),
            DELETE => not_there += u32::from(!there.remove(&number(params))),
            _ => {}
        });
        assert_eq!(not_there, 2, "only the first round deletes what is not there");
        assert_eq!(there.len(), 2);
    }

    #[test]
    fn deletes_alone_delete_what_was_loaded_until_there_is_none() {
        let people = people(&[("entries", "10")]).unwrap();
        let stream = people.stream(&StreamSpec::One { kind: "delete".into(), clients: 4 }).unwrap();
        let mut gone = BTreeSet::new();
        // The phase after the load.
        each_op(&*stream, 0..4, 1 << 32..u64::MAX, |_, kind, params| {
            assert!(kind == DELETE && gone.insert(number(params)));
        });
        assert!(gone.into_iter().eq(0..10));
    }

    #[test]
    fn a_search_is_what_the_parameters_say() {
        let people =
            people(&[("base", "ou=People"), ("scope", "sub"), ("filter", "(uid=user.{})"), ("attributes", "cn,sn")]);
        let expected = LdapCall::Search {
            base: "ou=People".into(),
            scope: LdapScope::Sub,
            filter: "(uid=user.{})".into(),
            attributes: vec!["cn".into(), "sn".into()],
        };
        assert_eq!(people.unwrap().kinds[0].call, Call::Ldap(expected));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_a_reason() {
        for (name, value) in [("dn", "people"), ("dn", "uid=user,ou=People"), ("dn", "uid={}{}")] {
            let error = people(&[(name, value)]).err().unwrap_or_else(|| panic!("{value} was taken"));
            assert!(error.help.is_some(), "{value}");
        }
        let people = people(&[]).unwrap();
        let refused = people.stream(&StreamSpec::One { kind: "read".into(), clients: 1 }).err().unwrap();
        assert!(refused.contains("search"));
    }
}
