use plimsoll_core::{Call, Catalogue};
use plimsoll_plan::model::Plan;

use super::*;
use crate::open::make_workload;

fn catalogue() -> Catalogue {
    Catalogue {
        labs: Vec::new(),
        stores: vec![plimsoll_store_null::kind()],
        workloads: plimsoll_workload::all(),
        samplers: Vec::new(),
    }
}

/// Returns a plan with a workload, whose drive has scenarios of a name, clients and an operation type each.
fn planned(workload: &str, scenarios: &[(&str, u32, &str)]) -> Plan {
    let scenario = |(name, clients, op): &(&str, u32, &str)| {
        format!("[[phase.scenario]]\nname = \"{name}\"\nclients = {clients}\nmix = {{ {op} = 1 }}\n")
    };
    let scenarios: String = scenarios.iter().map(scenario).collect();
    let text = format!(
        "stores = [\"null\"]\nsamplers = []\n[workload]\nname = \"{workload}\"\n[[phase]]\ndo = \"load\"\n\
         [[phase]]\ndo = \"drive\"\nfor = \"3s\"\n{scenarios}"
    );
    plimsoll_plan::parse("scenarios", &text, &catalogue(), &Default::default()).unwrap()
}

fn drive(plan: &Plan) -> &Drive {
    plan.trials[0].drives().next().unwrap().1
}

/// Returns the name of a client's first operation.
fn first_op(workload: &dyn Workload, stream: &dyn Stream, client: u32) -> Option<String> {
    let kind = stream.op(client, 0, &mut ValueBuf::new())?;
    Some(workload.kinds()[usize::from(kind)].name.clone())
}

#[test]
fn each_scenario_has_all_operation_types_under_its_name_and_clients_of_its_own() {
    let plan = planned("kv", &[("readers", 2, "read"), ("writers", 3, "update")]);
    let workload = make_workload(&catalogue(), &plan.trials[0]).unwrap();
    let names: Vec<&str> = workload.kinds().iter().map(|kind| kind.name.as_str()).collect();
    let own = names.len() / 3;
    let is_of =
        |at: usize, scenario: &str| (0..own).all(|kind| names[at + kind] == format!("{scenario}{}", names[kind]));
    assert!(own > 1 && is_of(0, "") && is_of(own, "readers/") && is_of(2 * own, "writers/"), "{names:?}");
    let stream = stream(&*workload, drive(&plan)).unwrap();
    let ops: Vec<_> = (0..6).map(|client| first_op(&*workload, &*stream, client)).collect();
    let [read, update] = ["readers/read", "writers/update"].map(|name| Some(name.to_owned()));
    let wanted = [read.clone(), read, update.clone(), update.clone(), update, None];
    assert_eq!(ops, wanted);
}

#[test]
fn a_trial_without_scenarios_has_the_operation_types_of_its_workload() {
    let plain = make_workload(&catalogue(), &planned("kv", &[]).trials[0]).unwrap();
    assert!(plain.kinds().iter().all(|kind| !kind.name.contains('/')), "{:?}", plain.kinds());
    let plan = planned("kv", &[("readers", 2, "read")]);
    let named = make_workload(&catalogue(), &plan.trials[0]).unwrap();
    let size = |workload: &dyn Workload| (workload.record_count(), workload.record_bytes());
    assert_eq!((size(&*named), named.kinds().len()), (size(&*plain), 2 * plain.kinds().len()));
    assert!(named.truth().is_some() && named.layout() == plain.layout());
    let error = stream(&*plain, drive(&plan)).err().unwrap();
    assert_eq!(error, "there is no scenario `readers`");
}

#[test]
fn the_steps_of_a_scenarios_operation_are_its_own() {
    let plan = planned("tpcb", &[("others", 1, "select"), ("cashiers", 1, "tpcb")]);
    let workload = make_workload(&catalogue(), &plan.trials[0]).unwrap();
    let stream = stream(&*workload, drive(&plan)).unwrap();
    assert_eq!(first_op(&*workload, &*stream, 0).as_deref(), Some("others/select"));
    let mut params = ValueBuf::new();
    let whole = stream.op(1, 0, &mut params).unwrap();
    let kinds = workload.kinds();
    assert_eq!(kinds[usize::from(whole)].name, "cashiers/tpcb");
    let mut steps = stream.steps(1).unwrap();
    steps.begin(0, whole, params.values());
    let mut sent = 0;
    loop {
        params.clear();
        match steps.next(&mut params) {
            Step::Send { kind, .. } => {
                let step = &kinds[usize::from(kind)];
                assert!(step.step_of == Some(whole) && step.name.starts_with("cashiers/"), "{step:?}");
                sent += 1;
                steps.answered(Outcome::Ok, &Answer::default());
            }
            Step::End { kind, outcome } => {
                assert_eq!((kind, outcome), (whole, Outcome::Ok));
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(sent, 7, "the statements of a transaction, with its beginning and its end");
    assert!(stream.steps(2).is_none(), "there are two clients");
}

#[test]
fn an_operation_type_is_of_a_scenario_by_its_whole_name() {
    let is_named = |kind: &str, scenario| is_of(&OpKind::new(kind, Call::Nothing, &[]), scenario);
    assert!(is_named("readers/read", "readers") && is_named("readers/a/b", "readers"));
    assert!(!is_named("readers", "readers") && !is_named("readers2/read", "readers"));
    assert!(!is_named("read", "readers") && !is_named("others/readers/read", "readers"));
}
