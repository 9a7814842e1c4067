//! Tests of a phase's totals, from slices made by hand.

use plimsoll_core::{AFFECTED_NS, ClientSet, KeyParts, PartTick};

use super::*;
use crate::board::BoardSizes;

#[test]
fn lateness_is_held_against_what_was_scheduled() {
    let grid = Grid { start_ns: 0, warmup_end_ns: 0, slice_ns: 1_000, end_ns: None };
    let pace = plimsoll_core::pace::Pace::even(1.0);
    let arrivals = crate::schedule::Schedule::new(&pace, 0, std::time::Duration::ZERO, 0).unwrap();
    let flow = Flow { arrivals, workers: 0..1, taken: None };
    let boards = || {
        (0..2)
            .map(|_| Board::new(&BoardSizes { kinds: 2, open: true, ..BoardSizes::default() }).unwrap())
            .collect::<Vec<_>>()
    };
    let kind = OpKind::new("ask", plimsoll_core::Call::Nothing, &[]);
    let times = |kind, measure, ns| {
        let mut histogram = Digits::Three.empty();
        histogram.record(ns).unwrap();
        SliceHistogram { kind, outcome: Outcome::Ok, measure, histogram }
    };
    // The first kind waited, the second did not.
    let (service, response) = (Measure::Service, Measure::Response);
    let histograms =
        vec![times(0, service, 10), times(0, response, 900), times(1, service, 10), times(1, response, 10)];
    let slice = Slice { histograms, end_ns: 1_000, ..Slice::default() };
    let scheduled = |flow: Flow| {
        let mut collector = Collector::new(grid, vec![flow], boards(), &[kind.clone(), kind.clone()]);
        collector.count(&slice);
        collector.response.map(|response| (response.len(), response.max()))
    };
    assert_eq!(scheduled(flow.clone()), Some((1, 900)));
    // Where all are scheduled, all are, however little they waited.
    assert_eq!(scheduled(Flow { workers: 0..2, ..flow }), Some((2, 900)));
}

#[test]
fn ticks_of_all_workers_are_added_up_cut_at_the_slices_end_and_emptied() {
    const MS_NS: u64 = 1_000_000;
    // Slices of 25 ms; the second has 20 ms.
    let grid = Grid { start_ns: 0, warmup_end_ns: 0, slice_ns: 25 * MS_NS, end_ns: Some(45 * MS_NS) };
    let boards: Vec<_> = (0..2)
        .map(|_| Board::new(&BoardSizes { kinds: 1, ticks: 3, clients: 2, ..BoardSizes::default() }).unwrap())
        .collect();
    let kind = OpKind::new("ask", plimsoll_core::Call::Nothing, &[]);
    let shared = Shared::default();
    let mut collector = Collector::new(grid, Vec::new(), boards.clone(), &[kind]);
    let count = |slice: u32, worker: usize, at_ms: u64, outcome| {
        boards[worker].tally(slice).record_tick(at_ms * MS_NS, outcome, worker as u32, 0);
    };
    let mut take = |slice: u32| {
        boards.iter().for_each(|board| board.move_to(slice + 1));
        let slice = collector.take(u64::from(slice + 1) * 30 * MS_NS, &shared, &|_| false).unwrap();
        slice.ticks.iter().map(|tick| (tick.answered, tick.failed)).collect::<Vec<_>>()
    };
    count(0, 0, 1, Outcome::Ok);
    count(0, 1, 9, Outcome::NotFound);
    count(0, 1, 12, Outcome::Unknown);
    // In a slice that was taken late.
    count(0, 0, 70, Outcome::Rejected);
    assert_eq!(take(0), [(2, 0), (0, 1), (0, 1)]);
    count(1, 0, 12, Outcome::Ok);
    count(1, 1, 22, Outcome::Ok);
    assert_eq!(take(1), [(0, 0), (2, 0)]);
    assert_eq!(take(2), [(0, 0), (0, 0), (0, 0)], "counts of the first slice are gone");
}

#[test]
fn clients_are_affected_by_failures_and_long_waits_of_operations_that_ended_in_the_slice() {
    let grid = Grid { start_ns: 0, warmup_end_ns: 0, slice_ns: 1_000_000, end_ns: None };
    let boards: Vec<_> = (0..2)
        .map(|_| Board::new(&BoardSizes { kinds: 1, ticks: 1, clients: 130, ..BoardSizes::default() }).unwrap())
        .collect();
    let kind = OpKind::new("ask", plimsoll_core::Call::Nothing, &[]);
    let shared = Shared::default();
    let mut collector = Collector::new(grid, Vec::new(), boards.clone(), &[kind]);
    let mut take = |slice: u32| {
        boards.iter().for_each(|board| board.move_to(slice + 1));
        let slice = collector.take(u64::from(slice + 1) * 10_000_000, &shared, &|_| false).unwrap();
        slice.affected.unwrap()
    };
    boards[0].tally(0).record_tick(0, Outcome::Rejected, 0, 5);
    boards[0].tally(0).record_tick(0, Outcome::Ok, 0, AFFECTED_NS);
    boards[0].tally(0).record_tick(0, Outcome::NotFound, 1, AFFECTED_NS - 1);
    boards[1].tally(0).record_tick(0, Outcome::Ok, 129, AFFECTED_NS);
    boards[1].tally(0).record_tick(0, Outcome::Unknown, 64, 5);
    let first = take(0);
    let mut wanted = ClientSet::none_of(130);
    [0, 64, 129].into_iter().for_each(|client| wanted.insert(client));
    assert_eq!(first, wanted);
    assert_eq!(take(1), ClientSet::none_of(130));
    assert!(take(2).is_empty(), "clients of the first slice are gone");
}

#[test]
fn parts_of_the_keys_are_cut_at_the_slices_end() {
    const MS_NS: u64 = 1_000_000;
    let grid = Grid { start_ns: 0, warmup_end_ns: 0, slice_ns: 15 * MS_NS, end_ns: None };
    let board = Board::new(&BoardSizes { kinds: 1, ticks: 3, clients: 1, parts: 8, ..BoardSizes::default() }).unwrap();
    let kind = OpKind::new("ask", plimsoll_core::Call::Nothing, &[]);
    let mut collector = Collector::new(grid, Vec::new(), vec![board.clone()], &[kind]);
    let parts = &board.tally(0).key_parts;
    parts.ask(12 * MS_NS, 0);
    parts.ask(13 * MS_NS, 1);
    // In a slice that was taken late.
    parts.answer(25 * MS_NS, 0);
    parts.ask(26 * MS_NS, 2);
    board.move_to(1);
    let slice = collector.take(30 * MS_NS, &Shared::default(), &|_| false).unwrap();
    let ticks = vec![PartTick::default(), PartTick { asked: 0b110, answered: 0b001 }];
    assert_eq!(slice.key_parts, Some(KeyParts { of: 8, ticks }));
}

#[test]
fn servers_that_answered_are_told_by_ticks_and_cut_at_the_slices_end() {
    const MS_NS: u64 = 1_000_000;
    let grid = Grid { start_ns: 0, warmup_end_ns: 0, slice_ns: 25 * MS_NS, end_ns: None };
    let sizes = BoardSizes { kinds: 1, servers: 64, ticks: 3, ..BoardSizes::default() };
    let boards: Vec<_> = (0..2).map(|_| Board::new(&sizes).unwrap()).collect();
    let kind = OpKind::new("ask", plimsoll_core::Call::Nothing, &[]);
    let mut collector = Collector::new(grid, Vec::new(), boards.clone(), &[kind]);
    for (worker, server, at_ms) in [(0, 0, 1), (1, 63, 9), (0, 1, 12), (1, 1, 13), (0, 2, 24), (0, 3, 70), (0, 64, 1)] {
        boards[worker].tally(0).record_server(server, at_ms * MS_NS, 5);
    }
    let mut take = |slice: u32| {
        boards.iter().for_each(|board| board.move_to(slice + 1));
        let slice = collector.take(u64::from(slice + 1) * 30 * MS_NS, &Shared::default(), &|_| false).unwrap();
        slice.server_ticks.unwrap().answered
    };
    assert_eq!(take(0), [1 | 1 << 63, 1 << 1, 1 << 2 | 1 << 3]);
    assert_eq!(take(1), [0, 0, 0]);
}

#[test]
fn the_first_slice_is_shown_before_its_end_and_then_as_a_whole() {
    let grid = Grid { start_ns: 0, warmup_end_ns: 0, slice_ns: 1_000, end_ns: None };
    let boards: Vec<_> =
        (0..2).map(|_| Board::new(&BoardSizes { kinds: 1, ..BoardSizes::default() }).unwrap()).collect();
    let kind = OpKind::new("ask", plimsoll_core::Call::Nothing, &[]);
    let mut collector = Collector::new(grid, Vec::new(), boards.clone(), &[kind]);
    let lengths = |slice: &Slice| slice.histograms.iter().map(|one| one.histogram.len()).collect::<Vec<_>>();
    boards.iter().for_each(|board| board.tally(0).record(0, Outcome::Ok, 10, 10));
    let preview = collector.preview(500).unwrap();
    assert_eq!((preview.preview, preview.start_ns, preview.end_ns, lengths(&preview)), (true, 0, 500, vec![2]));
    boards[0].tally(0).record(0, Outcome::Ok, 20, 20);
    boards.iter().for_each(|board| board.move_to(1));
    assert!(collector.preview(1_000).is_none(), "the slice is over");
    let slice = collector.take(2_000_000, &Shared::default(), &|_| false).unwrap();
    assert_eq!((slice.preview, slice.end_ns, lengths(&slice)), (false, 1_000, vec![3]));
    assert!(collector.preview(999).is_none());
}

#[test]
fn the_last_slice_waits_for_workers_that_sleep_and_no_other_does() {
    let grid = Grid { start_ns: 0, warmup_end_ns: 0, slice_ns: 1_000, end_ns: Some(2_000) };
    let board = Board::new(&BoardSizes { kinds: 1, open: true, ..BoardSizes::default() }).unwrap();
    let kind = OpKind::new("ask", plimsoll_core::Call::Nothing, &[]);
    let mut collector = Collector::new(grid, Vec::new(), vec![board.clone()], &[kind]);
    board.fall_asleep();
    assert!(collector.take(2_000_000, &Shared::default(), &|_| false).is_some());
    // It wakes up, and counts an operation that it did not send.
    assert!(collector.take(4_000_000, &Shared::default(), &|_| false).is_none());
    board.tally(1).unfinished.record(10);
    let last = collector.take(4_000_000, &Shared::default(), &|_| true).unwrap();
    assert_eq!(last.unfinished.map(|unfinished| unfinished.len()), Some(1));
}

#[test]
fn of_pauses_over_the_end_of_a_slice_that_overlap_all_time_counts_and_none_twice() {
    const MS_NS: u64 = 1_000_000;
    let pause = |start: u64, end: u64, cpu| Pause { start_ns: start * MS_NS, end_ns: end * MS_NS, cpu };
    let mut counted = Counted::default();
    // Disturbs 80 to 140.
    assert_eq!(counted.count(&[pause(80, 92, 0)], 100 * MS_NS), 20 * MS_NS);
    // 145 to 156 and 190 to 200 by the next; one of before reaches from 30 to 170.
    let later = [pause(145, 146, 1), pause(190, 195, 0), pause(30, 58, 1)];
    assert_eq!(counted.more_ns(&later, 0, 200 * MS_NS), (170 - 30 - 20 + 10) * MS_NS);
    assert_eq!(counted.count(&later, 200 * MS_NS), (170 - 30 - 20 + 10) * MS_NS);
    // Began before what was counted last.
    assert_eq!(counted.count(&[pause(160, 180, 1)], 300 * MS_NS), (260 - 160 - 20) * MS_NS);
    assert_eq!(counted.count(&[], 400 * MS_NS), 0);
}
