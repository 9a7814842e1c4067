//! An honest store is never accused, whatever the interleaving and whatever stays unanswered.

use proptest::prelude::*;

use crate::simulation::{Simulation, Troubles};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn an_honest_store_is_never_accused(seed: u64, clients in 1u64..5, per_client in 1u64..4, unknown in 0u64..12, rejected in 0u64..12) {
        let troubles = Troubles { unknown, rejected };
        let mut simulation = Simulation::new(seed, clients * per_client, clients, troubles);
        simulation.storm(120);
        simulation.storm(30);
        simulation.next_phase(1);
        simulation.storm(60);
        let (answers, ledger) = simulation.judge(|_, _| {});
        for verdict in &answers {
            prop_assert!(verdict.is_right(), "{verdict:#?}");
        }
        prop_assert!(ledger.is_kept(), "{ledger:#?}");
        prop_assert_eq!(unknown > 0 && unknown < 6 && ledger.unknown == 0, false);
    }
}

#[test]
fn a_quiet_answer_has_to_have_every_record() {
    let mut simulation = Simulation::new(7, 40, 4, Troubles { unknown: 0, rejected: 0 });
    simulation.storm(200);
    let held = simulation.held.len() as u64;
    assert!(held > 5);
    simulation.quietly(0, crate::simulation::Ask::All, |_, _| {});
    let (answers, ledger) = simulation.judge(|_, _| {});
    assert!(answers.iter().all(|verdict| verdict.is_right()) && ledger.is_kept(), "{}", ledger.sentence());
    let all = answers.iter().find(|verdict| verdict.kind_name == "all").unwrap();
    assert!(all.expected >= held && all.got >= held);
    assert_eq!(ledger.read_back, held);
}
