//! Clients that a fault affected.

use plimsoll_analysis::view;
use plimsoll_analysis::view::{AffectedView, FaultView};
use plimsoll_core::ClientSet;
use plimsoll_record::data::Run;

use crate::faulted::{KILL, PAUSE, fault, killed_primary, ticked};

/// Sets the affected clients of a slice; the phase has 64.
fn affect(run: &mut Run, slice: usize, clients: &[u32]) {
    let mut all = ClientSet::none_of(64);
    clients.iter().for_each(|client| all.insert(*client));
    run.trials[0].phases[0].slices[slice].affected = Some(all);
}

/// Returns a run whose slices name no affected clients.
fn looked_for(mut run: Run) -> Run {
    (0..run.trials[0].phases[0].slices.len()).for_each(|slice| affect(&mut run, slice, &[]));
    run
}

fn of(one: &FaultView) -> Option<(u64, u64, u64)> {
    one.affected.map(|AffectedView { clients, of, usual }| (clients, of, usual))
}

#[test]
fn clients_count_once_from_the_slice_of_the_fault_until_it_was_over() {
    // The fault lasts from 8 to 9.3 s, and its outage to 9.37 s.
    let mut run = looked_for(killed_primary());
    affect(&mut run, 7, &[60]);
    affect(&mut run, 8, &[1, 2, 3]);
    affect(&mut run, 9, &[3, 4]);
    affect(&mut run, 10, &[50]);
    let one = view(&run).faults.remove(0);
    assert_eq!(of(&one), Some((4, 64, 1)));
    assert!(one.sentence.ends_with("; 8 outcomes unknown, 4 of 64 clients affected"), "{}", one.sentence);
    // As many as in a slice before it.
    affect(&mut run, 5, &[5, 6, 7, 8]);
    let one = view(&run).faults.remove(0);
    assert_eq!(of(&one), Some((4, 64, 4)));
    assert!(one.sentence.ends_with("; 8 outcomes unknown"), "{}", one.sentence);
}

#[test]
fn the_slice_in_which_the_next_fault_began_is_that_ones() {
    let mut run = looked_for(killed_primary());
    fault(&mut run, PAUSE, 9_100, Some(9_300));
    affect(&mut run, 8, &[1, 2]);
    affect(&mut run, 9, &[3]);
    assert_eq!(view(&run).faults.iter().map(of).collect::<Vec<_>>(), [Some((2, 64, 0)), Some((1, 64, 0))]);
}

#[test]
fn recordings_without_affected_clients_have_none_and_a_fault_without_effect_names_none() {
    assert_eq!(of(&view(&killed_primary()).faults[0]), None);
    let mut run = looked_for(ticked(20, |_| (10, 0)));
    fault(&mut run, KILL, 8_000, Some(9_000));
    affect(&mut run, 8, &[9]);
    let one = view(&run).faults.remove(0);
    assert_eq!(of(&one), Some((1, 64, 0)));
    assert!(one.sentence.ends_with(": no client noticed"), "one slow operation: {}", one.sentence);
}
