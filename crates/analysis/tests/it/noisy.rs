//! Searches on simulated stores on a machine that stands still now and then: how often the stated interval holds the line
//! of the undisturbed store, how far searches differ, and how many of them decide.

use plimsoll_analysis::line::{LineSearch, LineSpec, Next, RungSummary};
use plimsoll_analysis::view::{GoalSeen, LineResult, LineState, Rung};
use plimsoll_record::data::Goal;

use crate::simulated::{Dice, p99, worst};

/// A machine that stands still: pauses of a millisecond and more come at random, and one in ten is longer than 5 ms. As
/// seen on a virtual machine of two processors (three a second above 1 ms, 0.7 % of the time, longest 16 ms in 30 s; once
/// 48 ms; in bad minutes 9 % of the time).
#[derive(Clone, Copy)]
struct Machine {
    pauses_per_s: f64,
    /// Share of rungs whose minute is a bad one.
    bad: f64,
}

const QUIET: Machine = Machine { pauses_per_s: 0.0, bad: 0.0 };
const VIRTUAL: Machine = Machine { pauses_per_s: 3.0, bad: 0.05 };

impl Machine {
    /// Begins and ends of pauses within `seconds`, in order.
    fn pauses(self, seconds: f64, dice: &mut Dice) -> Vec<(f64, f64)> {
        let mut pauses = Vec::new();
        let per_s = self.pauses_per_s * if dice.unit() < self.bad { 10.0 } else { 1.0 };
        let mut at = dice.exponential(1.0 / per_s.max(1e-9));
        while at < seconds {
            // Pareto: one in nine above 5 ms, one in forty above 16 ms.
            let length = (1e-3 * (1.0 - dice.unit()).powf(-1.0 / 1.37)).min(0.048);
            pauses.push((at, at + length));
            at += length + dice.exponential(1.0 / per_s);
        }
        pauses
    }
}

/// Knowledge of pauses when goals are judged.
#[derive(Clone, Copy, PartialEq)]
enum Judged {
    /// Operations as they were seen.
    AsSeen,
    /// Without operations in flight at a pause, or due in its aftermath (four times as long as the pause, and at least
    /// 10 ms); one pause of ten is not noticed.
    Undisturbed,
}

/// A queue with servers on such a machine.
#[derive(Clone)]
struct Store {
    name: &'static str,
    servers: usize,
    service_s: f64,
    /// Mean of what is added to each response and does not depend on the load.
    beside_s: f64,
    /// The store's own stalls.
    stalls_per_s: f64,
    stall_s: f64,
    /// Standard deviation of its capacity from rung to rung, as a share.
    wanders: f64,
    /// Number of waiting operations above which service takes `slower` times as long.
    thrashes_at: f64,
    slower: f64,
}

impl Store {
    /// Answers from memory on one thread.
    fn redis(capacity_per_s: f64) -> Store {
        Store {
            name: "Redis-like",
            servers: 1,
            service_s: 1.0 / capacity_per_s,
            beside_s: 1.1e-4,
            stalls_per_s: 0.0,
            stall_s: 0.0,
            wanders: 0.02,
            thrashes_at: f64::INFINITY,
            slower: 1.0,
        }
    }

    /// Transactions on eight sessions, and a disk that stops now and then.
    fn postgres() -> Store {
        Store {
            name: "PostgreSQL-like",
            servers: 8,
            service_s: 0.004,
            beside_s: 0.002,
            stalls_per_s: 1.0,
            stall_s: 0.015,
            ..Store::redis(1.0)
        }
    }

    /// Does half as much once it has fallen behind.
    fn falls() -> Store {
        Store { name: "falls when overloaded", thrashes_at: 0.05, slower: 1.5, ..Store::redis(5_000.0) }
    }

    /// Waits with the second in which they ended, and the waits that count for goals.
    fn drive(&self, rate: f64, rung: (f64, f64), pauses: &[(f64, f64)], judged: Judged, dice: &mut Dice) -> Seen {
        let (warmup_s, end_s) = (rung.0, rung.0 + rung.1);
        let normal = (0..12).map(|_| dice.unit()).sum::<f64>() - 6.0;
        let service_s = self.service_s / (self.wanders * normal).exp();
        let mut stalls = stalls(self.stalls_per_s, self.stall_s, end_s, dice);
        stalls.extend(pauses);
        stalls.sort_by(|a, b| a.0.total_cmp(&b.0));
        let known: Vec<(f64, f64)> = pauses.iter().filter(|_| dice.unit() < 0.9).copied().collect();
        let aftermath = |(from, to): (f64, f64)| (from, to + (4.0 * (to - from)).max(0.01));
        let disturbed: Vec<(f64, f64)> = match judged {
            Judged::AsSeen => Vec::new(),
            Judged::Undisturbed => known.into_iter().map(aftermath).collect(),
        };
        let mut free = vec![0.0f64; self.servers];
        let mut seen = Seen { slices: vec![Vec::new(); (rung.1 as usize).max(1)], ..Seen::default() };
        let (mut stall, mut disturbance, mut due) = (0, 0, 0.0);
        loop {
            due += dice.exponential(1.0 / rate);
            if due >= end_s {
                break;
            }
            let server = match self.servers {
                1 => 0,
                n => (0..n).min_by(|a, b| free[*a].total_cmp(&free[*b])).unwrap(),
            };
            let mut start = free[server].max(due);
            while stalls.get(stall).is_some_and(|(_, to)| *to <= start) {
                stall += 1;
            }
            if let Some((from, to)) = stalls.get(stall)
                && *from <= start
            {
                start = *to;
            }
            let slower = if start - due > self.thrashes_at { self.slower } else { 1.0 };
            free[server] = start + dice.exponential(service_s) * slower;
            let end = free[server] + dice.exponential(self.beside_s);
            if due < warmup_s {
                continue;
            }
            seen.due += 1;
            seen.sent += u64::from(start < end_s);
            while disturbed.get(disturbance).is_some_and(|(_, to)| *to <= due) {
                disturbance += 1;
            }
            if disturbed.get(disturbance).is_none_or(|(from, _)| *from > end) {
                let last = seen.slices.len() - 1;
                seen.slices[((end - warmup_s) as usize).min(last)].push(end.min(end_s) - due);
            }
        }
        seen
    }

    fn answer(&self, spec: &LineSpec, rung: &Rung, on: (Machine, Judged), dice: &mut Dice) -> RungSummary {
        let base =
            RungSummary { seconds: rung.seconds, took_s: rung.seconds + rung.warmup_s + 0.5, ..RungSummary::default() };
        let capacity = self.servers as f64 / self.service_s;
        let Some(rate) = rung.rate_per_s else {
            let rate = capacity * (0.8 + 0.15 * dice.unit());
            return RungSummary { rate_per_s: rate, ended_per_s: rate, ..base };
        };
        let pauses = on.0.pauses(rung.warmup_s + rung.seconds, dice);
        let seen = self.drive(rate, (rung.warmup_s, rung.seconds), &pauses, on.1, dice);
        RungSummary {
            rate_per_s: seen.sent as f64 / rung.seconds,
            ended_per_s: seen.sent as f64 / rung.seconds,
            unsent_share: (seen.due - seen.sent) as f64 / seen.due.max(1) as f64,
            goals: spec.goals.iter().map(|goal| seen.goal(goal)).collect(),
            ..base
        }
    }

    /// The line on this machine, as it is judged, of a store that does not wander.
    fn truth(&self, goal: &Goal, on: (Machine, Judged), operations: f64) -> f64 {
        let capacity = self.servers as f64 / self.service_s;
        let still = Store { wanders: 0.0, ..self.clone() };
        let machine = Machine { bad: 0.0, ..on.0 };
        let (mut low, mut high) = (0.3 * capacity, 1.05 * capacity);
        while high / low > 1.004 {
            let rate = (low * high).sqrt();
            let mut dice = Dice(7);
            let mut seen = Seen::default();
            // As rungs are: the queue is empty at first.
            let n = (operations / rate / 10.0) as u32 + 4;
            for _ in 0..n {
                let pauses = machine.pauses(11.0, &mut dice);
                seen.slices.extend(still.drive(rate, (1.0, 10.0), &pauses, on.1, &mut dice).slices);
            }
            if seen.goal(goal).value.unwrap() <= goal.limit { low = rate } else { high = rate }
        }
        (low * high).sqrt()
    }
}

fn stalls(per_s: f64, mean_s: f64, seconds: f64, dice: &mut Dice) -> Vec<(f64, f64)> {
    let mut stalls = Vec::new();
    let mut at = dice.exponential(1.0 / per_s.max(1e-9));
    while at < seconds {
        let length = dice.exponential(mean_s);
        stalls.push((at, at + length));
        at += length + dice.exponential(1.0 / per_s);
    }
    stalls
}

#[derive(Default)]
struct Seen {
    slices: Vec<Vec<f64>>,
    due: u64,
    sent: u64,
}

impl Seen {
    fn goal(&self, goal: &Goal) -> GoalSeen {
        let all: Vec<f64> = self.slices.concat();
        let n = all.len() as u64;
        let above = |waits: &Vec<f64>| waits.iter().filter(|wait| **wait * 1e9 > goal.limit).count() as u64;
        GoalSeen {
            what: goal.what,
            of: goal.of.clone(),
            limit: goal.limit,
            unit: goal.unit.clone(),
            value: (n >= 1_000).then(|| worst(&all, 100) * 1e9),
            missing: (n < 1_000).then(|| format!("needs 1,000 samples, has {n}")),
            n,
            slices: self.slices.iter().map(|waits| (waits.len() as u64, above(waits))).collect(),
        }
    }
}

fn search(store: &Store, spec: &LineSpec, on: (Machine, Judged), seed: u64) -> (LineResult, LineSearch) {
    let mut dice = Dice(seed.wrapping_mul(0x9876_5432_1abc_def1));
    let mut search = LineSearch::new(spec.clone());
    loop {
        match search.next() {
            Next::Rung(rung) => {
                let summary = store.answer(spec, &rung, on, &mut dice);
                search.take(rung, summary);
            }
            Next::Done(result) => return (*result, search),
        }
    }
}

/// Results of many searches.
struct Tally {
    n: usize,
    decided: usize,
    covers: usize,
    rates: Vec<f64>,
    halves: Vec<f64>,
    took_s: f64,
    truth: f64,
    /// The line on a machine that does not stand still.
    alone: f64,
}

impl Tally {
    /// `truth` and `alone` are the lines on this machine and on one without pauses.
    fn of(
        store: &Store,
        goal: &Goal,
        budget_s: f64,
        on: (Machine, Judged),
        n: u64,
        (truth, alone): (f64, f64),
    ) -> Tally {
        let spec = LineSpec { goals: vec![goal.clone()], budget_s, ..LineSpec::default() };
        let mut tally = Tally {
            n: n as usize,
            decided: 0,
            covers: 0,
            rates: Vec::new(),
            halves: Vec::new(),
            took_s: 0.0,
            truth,
            alone,
        };
        for seed in 0..n {
            let (result, search) = search(store, &spec, on, seed);
            let verbose = std::env::var_os("PLIMSOLL_VERBOSE").is_some();
            if verbose {
                eprintln!("seed {seed}, truth {truth:.0}: {}", result.sentence);
                for (rung, seen) in search.rungs() {
                    let ratio = seen.goals.first().and_then(GoalSeen::ratio);
                    eprintln!(
                        "   {:?} {:?} {:.1} s {ratio:.2?} {:?}",
                        rung.purpose,
                        rung.rate_per_s,
                        rung.seconds,
                        seen.goals.first().map(|goal| &goal.slices)
                    );
                }
            }
            tally.took_s += result.took_s / n as f64;
            let (Some(rate), LineState::Decided) = (result.rate_per_s, &result.state) else { continue };
            let (low, high) = (result.low_per_s.unwrap(), result.high_per_s.unwrap());
            tally.decided += 1;
            tally.covers += usize::from(low <= truth && truth <= high);
            tally.rates.push(rate);
            tally.halves.push(result.uncertainty_per_s.unwrap() / rate);
        }
        tally.rates.sort_by(f64::total_cmp);
        tally.halves.sort_by(f64::total_cmp);
        tally
    }

    fn quantile(of: &[f64], share: f64) -> f64 {
        of.get((share * of.len() as f64) as usize).copied().unwrap_or(f64::NAN)
    }

    /// Quartiles over the median.
    fn spread(&self) -> f64 {
        (Self::quantile(&self.rates, 0.75) - Self::quantile(&self.rates, 0.25)) / Self::quantile(&self.rates, 0.5)
    }

    fn row(&self, what: &str) -> String {
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        format!(
            "| {what} | {} | {} | {} | {} | {} | {} | {} | {:.0} s |",
            self.n,
            percent(self.decided as f64 / self.n as f64),
            percent(self.covers as f64 / self.decided.max(1) as f64),
            percent(Self::quantile(&self.rates, 0.5) / self.truth - 1.0),
            percent(Self::quantile(&self.rates, 0.5) / self.alone - 1.0),
            percent(self.spread()),
            percent(Self::quantile(&self.halves, 0.5)),
            self.took_s,
        )
    }
}

#[test]
fn intervals_hold_the_line_on_a_machine_that_stands_still_now_and_then() {
    // A store that falls has two states, and which it is in for how long takes long to be known.
    for (store, goal, operations) in [(Store::redis(4_000.0), p99(5.0), 4e5), (Store::falls(), p99(20.0), 4e6)] {
        let on = (VIRTUAL, Judged::Undisturbed);
        let truth = store.truth(&goal, on, operations);
        let tally = Tally::of(&store, &goal, 150.0, on, 8, (truth, truth));
        let row = tally.row(store.name);
        assert!(tally.decided >= 4 && tally.covers + 1 >= tally.decided && tally.spread() < 0.1, "{row}");
    }
}

#[test]
fn pauses_as_seen_leave_it_undecided_where_undisturbed_time_decides() {
    let (store, goal) = (Store::redis(4_000.0), p99(5.0));
    let spec = LineSpec { goals: vec![goal], budget_s: 60.0, ..LineSpec::default() };
    let undecided = (0..4).map(|seed| search(&store, &spec, (VIRTUAL, Judged::AsSeen), seed).0);
    let undecided: Vec<_> = undecided.filter(|one| matches!(one.state, LineState::Undecided(_))).collect();
    assert!(!undecided.is_empty());
    for one in undecided {
        assert!(one.sentence.contains("which is undecided: "), "{}", one.sentence);
        assert!(one.uncertainty_per_s.unwrap() > 0.1 * one.rate_per_s.unwrap(), "{}", one.sentence);
    }
}

#[test]
#[ignore = "minutes: what the journal's table is made of"]
fn many_searches() {
    let n = std::env::var("PLIMSOLL_SEEDS").map_or(200, |seeds| seeds.parse().unwrap());
    let only = std::env::var("PLIMSOLL_STORE").unwrap_or_default();
    println!(
        "| store, machine, budget | n | decided | interval holds the line | median off it | off the line without pauses | quartiles over median | median ± | took |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for (store, goal) in
        [(Store::redis(120_000.0), p99(5.0)), (Store::postgres(), p99(50.0)), (Store::falls(), p99(20.0))]
    {
        if !store.name.contains(&only) {
            continue;
        }
        for budget_s in [60.0, 300.0] {
            for (machine, judged, words) in [
                (QUIET, Judged::AsSeen, "quiet"),
                (VIRTUAL, Judged::AsSeen, "pauses, as seen"),
                (VIRTUAL, Judged::Undisturbed, "pauses, undisturbed"),
            ] {
                let lines =
                    (store.truth(&goal, (machine, judged), 4e6), store.truth(&goal, (QUIET, Judged::AsSeen), 4e6));
                let tally = Tally::of(&store, &goal, budget_s, (machine, judged), n, lines);
                println!("{}", tally.row(&format!("{}, {words}, {budget_s:.0} s", store.name)));
            }
        }
    }
}
