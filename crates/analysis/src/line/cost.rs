//! Processor time of the server for an operation: next to the line, and how far apart it is in load steps at comparable
//! rates.

use crate::number;
use crate::resource::SERVER_CPU;
use crate::stat;
use crate::view::CpuSpread;

use super::estimate::is_within;
use super::explain::middle;
use super::{LineSpec, LoadStep, Purpose, ResourceUse};

/// Distance from the line, as a share, within which operations cost what they cost at the line.
const NEXT_TO: f64 = 0.1;

/// Least number of load steps at comparable rates from which a spread is told.
const STEPS_MIN: usize = 5;

/// Length of the ticks in which the kernel counts processor time, and the number of them in a sample that is told apart.
const TICK_S: f64 = 0.01;
const TICKS_MIN: f64 = 3.0;

/// Returns the processors that the server used in a load step; `None` if its processes were not sampled.
fn server_cpu(step: &LoadStep) -> Option<&ResourceUse> {
    step.resources.iter().find(|one| one.resource.name == SERVER_CPU && one.resource.unit == "%")
}

/// Returns the processor time of the server for an operation in a load step, in seconds.
fn per_op_s(step: &LoadStep) -> Option<f64> {
    Some(middle([server_cpu(step)?])? / 100.0 / step.ended_per_s)
}

/// Returns the time that the server's processors worked for an operation, in seconds: the median of the load steps next
/// to `line`.
pub(super) fn server_cpu_per_op_s(steps: &[LoadStep], line: f64) -> Option<f64> {
    let is_next = |step: &&LoadStep| step.rung.rate_per_s.is_some_and(|rate| (rate / line - 1.0).abs() <= NEXT_TO);
    stat::median(&steps.iter().filter(is_next).filter_map(per_op_s).collect::<Vec<f64>>())
}

/// Returns the widest spread of this time in load steps at rates within the precision of each other.
/// `None` with too few load steps, with too little use of processors to tell, and with faults, which are work too.
///
/// At a higher rate an operation may cost less, since a server takes several at once. It does not use less in all, so
/// that the rate explains at most a difference of the precision.
pub(super) fn spread(spec: &LineSpec, steps: &[LoadStep]) -> Option<CpuSpread> {
    if !spec.faults.is_empty() {
        return None;
    }
    let cost = |step: &LoadStep| {
        let (rate_per_s, used) = (step.rung.rate_per_s?, server_cpu(step)?);
        let tick_percent = 100.0 * TICK_S * used.values.len() as f64 / step.rung.seconds;
        // A store that falls behind, and one in its maintenance, have other work.
        let is_beside = matches!(step.rung.purpose, Purpose::Beyond | Purpose::Cycle);
        let is_usual = !is_beside && step.failed.is_none() && step.unsent_ratio() <= 1.0;
        let is_told = is_usual && middle([used])? * spec.precision >= TICKS_MIN * tick_percent;
        Some((rate_per_s, per_op_s(step)?)).filter(|(_, cost_s)| is_told && cost_s.is_finite())
    };
    let mut costs: Vec<(f64, f64)> = steps.iter().filter_map(cost).collect();
    costs.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Of equal ones the last counts: the group with all load steps at its lowest rate.
    let groups = costs.iter().enumerate().rev().filter_map(|(at, (lowest, _))| {
        let near = costs.iter().skip(at).take_while(|(rate, _)| is_within(spec.precision, *lowest, *rate));
        of_group(&near.copied().collect::<Vec<_>>())
    });
    groups.max_by(|a, b| a.ratio().total_cmp(&b.ratio()))
}

/// Returns the spread of a group of rates, in ascending order, each with its cost. One odd load step at either end says
/// nothing.
fn of_group(group: &[(f64, f64)]) -> Option<CpuSpread> {
    let mut costs: Vec<f64> = group.iter().map(|(_, cost_s)| *cost_s).collect();
    costs.sort_by(f64::total_cmp);
    if costs.len() < STEPS_MIN {
        return None;
    }
    Some(CpuSpread {
        low_s: *costs.get(1)?,
        high_s: *costs.iter().rev().nth(1)?,
        from_per_s: group.first()?.0,
        to_per_s: group.last()?.0,
        n: costs.len() as u64,
    })
}

/// Describes a spread that is wider than the precision, with the next step.
pub(super) fn words(spread: &CpuSpread, precision: f64) -> Option<String> {
    if spread.ratio() <= 1.0 + precision {
        return None;
    }
    let [from, to] = [spread.from_per_s, spread.to_per_s].map(number::significant);
    let rates = if from == to { from } else { format!("{from} to {to}") };
    let [low, high] = [spread.low_s, spread.high_s].map(number::seconds);
    let [apart, precision] = [spread.ratio() - 1.0, precision].map(|share| number::significant(100.0 * share));
    Some(format!(
        "the machine was not equally fast, or the store's work changed: at {rates} ops/s an operation took the server \
         {low} of a processor or less in 2 of {n} load steps, and {high} or more in 2 others. That is {apart} %, more \
         than the precision of {precision} %. Search on a quiet machine with a fixed clock speed, or with a coarser \
         --precision",
        n = number::count(spread.n),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::{Resource, Rung};
    use super::*;

    /// A load step in which an operation cost the server so much.
    fn step(rate: f64, cost_us: f64) -> LoadStep {
        let values = vec![cost_us * 1e-6 * rate * 100.0; 10];
        let resource = Resource { name: SERVER_CPU.to_owned(), unit: "%".to_owned(), ..Resource::default() };
        let used = ResourceUse { resource, values, ..ResourceUse::default() };
        let rung = Rung { rate_per_s: Some(rate), purpose: Purpose::Decide, seconds: 10.0, ..Rung::default() };
        LoadStep { rung, rate_per_s: rate, ended_per_s: rate, resources: vec![used], ..LoadStep::default() }
    }

    fn said(steps: &[LoadStep]) -> Option<String> {
        let spec = LineSpec::default();
        spread(&spec, steps).and_then(|spread| words(&spread, spec.precision))
    }

    #[test]
    fn a_machine_that_changes_its_speed_is_named_with_both_costs() {
        let costs = [5.92, 7.64, 5.92, 7.64, 5.92, 7.64];
        let steps = costs.map(|cost_us| step(140_000.0, cost_us));
        let words = "the machine was not equally fast, or the store's work changed: at 140,000 ops/s an operation took \
                     the server 5.92 µs of a processor or less in 2 of 6 load steps, and 7.64 µs or more in 2 others. \
                     That is 29.1 %, more than the precision of 10.0 %. Search on a quiet machine with a fixed clock speed, \
                     or with a coarser --precision";
        assert_eq!(said(&steps).as_deref(), Some(words));
        // Rates that are nearly equal are compared, and others are not.
        let near = [0.0, 1.0, 2.0, 3.0, 4.0].map(|at| step(100_000.0 + at * 2_000.0, 5.92 + at % 2.0));
        let named = said(&near);
        assert!(named.as_ref().is_some_and(|words| words.contains("at 100,000 to 108,000 ops/s")), "{named:?}");
        let far = [0.0, 1.0, 2.0, 3.0, 4.0].map(|at| step(100_000.0 + at * 4_000.0, 5.92 + at % 2.0));
        assert_eq!(spread(&LineSpec::default(), &far), None);
    }

    #[test]
    fn a_cost_that_falls_with_the_load_and_one_odd_load_step_are_no_change_of_speed() {
        let rates = (0..20).map(|at| 100_000.0 + f64::from(at) * 1_000.0);
        let batching: Vec<LoadStep> = rates.map(|rate| step(rate, 8e5 / rate)).collect();
        assert!(spread(&LineSpec::default(), &batching).is_some_and(|spread| spread.ratio() > 1.05));
        assert_eq!(said(&batching), None);
        let odd = [5.9, 5.9, 12.0, 5.9, 5.9, 5.9].map(|cost_us| step(140_000.0, cost_us));
        assert_eq!(said(&odd), None);
    }

    #[test]
    fn load_steps_of_other_work_and_processors_hardly_used_tell_nothing() {
        let costs = [5.92, 7.64, 5.92, 7.64, 5.92, 7.64];
        let none = |change: &dyn Fn(LoadStep) -> LoadStep| {
            let steps = costs.map(|cost_us| change(step(140_000.0, cost_us)));
            assert_eq!(spread(&LineSpec::default(), &steps), None);
        };
        none(&|step| LoadStep { unsent_share: 0.5, ..step });
        none(&|step| LoadStep { failed: Some("it ended".to_owned()), ..step });
        none(&|step| LoadStep { rung: Rung { purpose: Purpose::Beyond, ..step.rung }, ..step });
        none(&|step| LoadStep { rung: Rung { rate_per_s: None, ..step.rung }, ..step });
        none(&|step| LoadStep { resources: Vec::new(), ..step });
        let steps = costs.map(|cost_us| step(140_000.0, cost_us));
        let spec = LineSpec { faults: vec!["kill primary".to_owned()], ..LineSpec::default() };
        assert_eq!(spread(&spec, &steps), None);
        // A twentieth of a processor: a tick more or less is as much.
        let idle = costs.map(|cost_us| step(8_000.0, cost_us));
        assert_eq!(spread(&LineSpec::default(), &idle), None);
    }
}
