//! Workloads that a plan may name, as operations on a store.
//!
//! A workload is pure. Its operations are a function of (seed, client, cycle), its records a function
//! of (seed, record number, version), so that the right answer to everything it asks can be computed
//! again afterwards and nothing has to be remembered but who wrote when. It performs no I/O, reads no
//! clock and knows no store.
//!
//! | module | what |
//! |---|---|
//! | [`coupons`] | records with one indexed field, found by a condition: what does an index cost and bring? |
//! | [`kv`] | YCSB's core workloads: values under keys, some more popular than others |
//! | `http` | requests: paths of an HTTP server, in shares |
//! | `ldap` | a directory's people: searched, compared, changed, added and deleted |
//! | `nothing` | operations that do nothing: what the generator itself costs |
//! | `tpcb` | pgbench's built-in scripts on its tables; `select`, the one of them that only reads, by its own name |
//! | `oltp` | sysbench's OLTP operations on its tables |
//! | `inserts` | rows, one statement each, many to a commit: what a commit costs |
//! | [`script`] | the user's own scripts, in pgbench's language |
//! | `shares` | which of a workload's kinds a phase asks for, and which of them is next |
//! | [`scramble`] | the seeded bijections and the hash that the others are made of |
//!
//! To add one: a file beside these, and a line in [`all`].

pub mod coupons;
mod http;
mod inserts;
pub mod kv;
mod ldap;
mod nothing;
mod numbers;
mod oltp;
pub mod scramble;
pub mod script;
mod shares;
mod tpcb;

use plimsoll_core::WorkloadSpec;

/// All workloads, in the order in which they are listed.
pub fn all() -> Vec<WorkloadSpec> {
    vec![
        coupons::spec(),
        kv::spec(),
        tpcb::select(),
        tpcb::spec(),
        oltp::spec(),
        inserts::spec(),
        script::spec(),
        script::commands_spec(),
        http::spec(),
        ldap::spec(),
        nothing::spec(),
    ]
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use plimsoll_core::{Interface, KindId, ParamSpec, ParamType, ParamValue, Params, Script, Stream, ValueBuf};

    /// The defaults of `specs`, as a plan fills them in.
    pub(crate) fn defaults(specs: &[ParamSpec]) -> Params {
        let value = |spec: &ParamSpec| match spec.param_type {
            ParamType::Int { .. } => ParamValue::Int(spec.default.parse().expect("an integer as default")),
            ParamType::Bool => ParamValue::Bool(spec.default == "true"),
            _ => ParamValue::Text(spec.default.to_owned()),
        };
        Params(specs.iter().map(|spec| (spec.name.to_owned(), value(spec))).collect())
    }

    /// Visits the operations of these clients and cycles, up to the end of each client's stream.
    pub(crate) fn each_op(
        stream: &dyn Stream,
        clients: Range<u32>,
        cycles: Range<u64>,
        mut visit: impl FnMut((u32, u64), KindId, &ValueBuf),
    ) {
        let mut params = ValueBuf::new();
        for client in clients {
            for cycle in cycles.clone() {
                params.clear();
                let Some(kind) = stream.op(client, cycle, &mut params) else { break };
                visit((client, cycle), kind, &params);
            }
        }
    }

    #[test]
    fn a_preset_is_of_kinds_and_values_that_its_workload_has_and_its_name_is_taken_once() {
        let all = super::all();
        let mut names: Vec<_> = all.iter().flat_map(plimsoll_core::WorkloadSpec::names).collect();
        for spec in &all {
            for preset in spec.presets {
                let known = |(kind, share): &(&str, u32)| spec.kinds.contains(kind) && *share > 0;
                assert!(!preset.mix.is_empty() && preset.mix.iter().all(known), "{preset:?}");
                for (name, value) in preset.params {
                    let param = spec.params.iter().find(|param| param.name == *name).expect("a parameter of it");
                    assert!(matches!(param.param_type, ParamType::OneOf(words) if words.contains(value)), "{preset:?}");
                }
            }
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn a_spec_lists_the_kinds_and_interfaces_that_its_workload_has() {
        for spec in super::all() {
            let own = Script { name: "own".into(), weight: 1, text: "SELECT 1".into(), ..Script::default() };
            let scripts = if spec.takes_scripts() { vec![own] } else { Vec::new() };
            let workload = (spec.make)(1, &defaults(spec.params), &scripts).expect("made of its defaults");
            let names: Vec<_> =
                workload.kinds().iter().filter(|kind| kind.step_of.is_none()).map(|kind| kind.name.as_str()).collect();
            let scripts = scripts.iter().map(|script| script.name.as_str());
            assert_eq!(names, spec.kinds.iter().copied().chain(scripts).collect::<Vec<_>>(), "{}", spec.name);
            let asked: Vec<_> = workload.kinds().iter().filter_map(|kind| kind.interface()).collect();
            assert!(spec.interfaces.iter().all(|named| asked.contains(named)), "{}: {asked:?}", spec.name);
            // Not every store of the others has to do this one.
            let beyond = |interface: &&Interface| !spec.interfaces.contains(interface);
            assert!(asked.iter().filter(beyond).all(|more| *more == Interface::KvScan), "{}: {asked:?}", spec.name);
        }
    }
}
