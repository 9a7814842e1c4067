//! Results from which a report calculates the number of operations that a timed phase must have done.

use plimsoll_core::pace::{Stage, ThinkTime};
use plimsoll_drive::{DriveResult, StopReason};
use plimsoll_plan::model;
use plimsoll_record::data::{PhaseResult, ResultName};

/// Returns the operations that were due, or the time that the clients had and their think time. Returns nothing for a phase
/// that its time did not end. Of a phase with clients of both sorts, whose operations are counted together, only those of
/// the open loops are known: there must be at least as many.
pub(crate) fn results(drive: &model::Drive, result: &DriveResult) -> Vec<PhaseResult> {
    let Some(end_ns) = result.planned_end_ns.filter(|_| result.stop == StopReason::Limit) else { return Vec::new() };
    let of = |name, subject: &str, value, n| PhaseResult { name, subject: subject.to_owned(), value, n };
    let groups: Vec<_> = match drive.scenarios.as_slice() {
        [] => vec![(&drive.pace, drive.think)],
        scenarios => scenarios.iter().map(|one| (&one.pace, one.think)).collect(),
    };
    if groups.iter().any(|(pace, _)| pace.is_open()) {
        return vec![of(ResultName::Due, "", result.due as f64, result.due)];
    }
    let thinks = || groups.iter().filter_map(|(_, think)| *think);
    let longest_ns = thinks().map(|think| match think {
        ThinkTime::Constant(ns) | ThinkTime::Uniform(_, ns) | ThinkTime::Exponential(ns) => ns,
    });
    let has_tail = thinks().any(|think| matches!(think, ThinkTime::Exponential(_)));
    let connecting_ns = result.connects.as_ref().map_or(0.0, |connects| connects.mean() * connects.len() as f64);
    // A session without connection keeps all clients of its pipeline waiting.
    let away_ns = result.down_ns as f64 * f64::from(drive.depth) + connecting_ns;
    let places = u64::from(drive.clients) * u64::from(drive.depth);
    // A client whose circuit is open rests. Each may have opened in the warm-up, too, which is not counted.
    let rests = drive.breaker.zip(result.breaker);
    let rested_ns = rests.map_or(0.0, |(breaker, counts)| (counts.opened + places) as f64 * breaker.wait_ns as f64);
    let away_s = (away_ns + rested_ns) / 1e9;
    let seconds = end_ns.saturating_sub(result.measured_from_ns) as f64 / 1e9;
    let clients_s = clients(drive) * f64::from(drive.depth) * seconds;
    vec![
        of(ResultName::ClientSeconds, "", (clients_s - away_s).max(0.0), places),
        of(
            ResultName::ThinkSeconds,
            if has_tail { "exponential" } else { "" },
            longest_ns.max().unwrap_or(0) as f64 / 1e9,
            places,
        ),
    ]
}

/// Returns the mean number of clients at work.
fn clients(drive: &model::Drive) -> f64 {
    let length_ns: f64 = drive.stages.iter().map(|stage| stage.for_ns as f64).sum();
    if length_ns == 0.0 {
        return f64::from(drive.clients);
    }
    // A client works while the level is at least its number: of a level of 2.5, two do.
    let least = |stage: &Stage| match stage.from == stage.to {
        true => stage.from.floor(),
        false => ((stage.from + stage.to) / 2.0 - 1.0).max(0.0),
    };
    drive.stages.iter().map(|stage| least(stage) * stage.for_ns as f64).sum::<f64>() / length_ns
}

#[cfg(test)]
#[path = "expected_tests.rs"]
mod tests;
