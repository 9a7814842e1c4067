//! Judgement of a trial: what the findings name, and whether the planted causes had an effect.
//!
//! A finding counts if one of its slow moments overlaps an episode. Findings of other moments have other causes, which
//! nothing is known about. Of rules only `fault`, `pause` and `cause` name a cause. The name is the rule itself, or the
//! first series of the evidence of `cause`.

use serde_json::Value;

use super::cause::Cause;
use super::drawn::Share;

/// Least change of a percentile or of throughput with which a trial counts.
pub const MOVED_MIN: f64 = 0.1;
/// Names among which the right one is searched.
const FIRST_NAMES: usize = 3;
/// Words of the sentence of moments that nothing explains, as against those that are undecided.
const NOTHING: &str = "explained by no rise of any watched series";
/// Percentiles of a slice, best first: the first is taken that most slices have.
const PERCENTILES: [&str; 3] = ["p99_ns", "p95_ns", "p90_ns"];
/// Fewest slices beside the episodes.
const SLICES_MIN: usize = 8;

/// Answer of the findings about a planted cause, best first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Judgement {
    /// The first name is right.
    First,
    /// The second or third name is right.
    FirstThree,
    /// No name, and slow moments that are too few to tell.
    Undecided,
    /// No name: explained by no rise of any watched series.
    Nothing,
    /// No finding about the episodes.
    Silent,
    /// Names, and none of the first three is right.
    Wrong,
}

/// Returns the names of causes that `findings` have for moments in `spans_s`, in order.
pub fn names(findings: &[Value], spans_s: &[(f64, f64)]) -> Vec<String> {
    let about = findings.iter().filter(|finding| is_about(finding, spans_s));
    let name = |finding: &Value| match finding["rule"].as_str()? {
        "cause" => finding["evidence"][0]["series"].as_str().map(str::to_owned),
        rule @ ("pause" | "fault") => Some(rule.to_owned()),
        _ => None,
    };
    about.filter_map(name).collect()
}

/// Judges the answer about `cause`, planted in `spans_s` on the run's clock.
pub fn judge(findings: &[Value], cause: Cause, spans_s: &[(f64, f64)]) -> Judgement {
    let names = names(findings, spans_s);
    let right = names.iter().take(FIRST_NAMES).position(|name| cause.is_named_by(name));
    let says = |is_nothing: bool| {
        findings.iter().filter(|finding| finding["rule"] == "unexplained" && is_about(finding, spans_s)).any(
            |finding| finding["sentence"].as_str().is_some_and(|sentence| sentence.contains(NOTHING) == is_nothing),
        )
    };
    match right {
        Some(0) => Judgement::First,
        Some(_) => Judgement::FirstThree,
        None if !names.is_empty() => Judgement::Wrong,
        None if says(true) => Judgement::Nothing,
        None if says(false) => Judgement::Undecided,
        None => Judgement::Silent,
    }
}

/// Returns true if the trial is answered as it has to be.
pub fn is_right(share: Share, judgement: Judgement) -> bool {
    match share {
        Share::Single => judgement == Judgement::First,
        Share::Two => judgement <= Judgement::FirstThree,
        Share::Unwatched => judgement == Judgement::Nothing,
    }
}

fn is_about(finding: &Value, spans_s: &[(f64, f64)]) -> bool {
    let moments = finding["spans_s"].as_array().into_iter().flatten();
    let mut moments = moments.filter_map(|moment| moment[0].as_f64().zip(moment[1].as_f64()));
    moments.any(|(from, until)| spans_s.iter().any(|(start, end)| from < *end && until > *start))
}

/// Returns the change in the slices that overlap `spans_s`: of the percentile upwards or of throughput downwards, the
/// larger of both, as a share of the median in the other slices. `slices` are those of `plimsoll drive --json`. `None`
/// without slices on both sides. `all_spans_s` are all episodes of the trial, which are not compared with.
pub fn moved(slices: &[Value], spans_s: &[(f64, f64)], all_spans_s: &[(f64, f64)]) -> Option<f64> {
    let touches = |slice: &Value, spans: &[(f64, f64)]| {
        let own = slice["start_s"].as_f64().zip(slice["end_s"].as_f64());
        own.is_some_and(|(from, until)| spans.iter().any(|(start, end)| from < *end && until > *start))
    };
    let affected: Vec<&Value> = slices.iter().filter(|slice| touches(slice, spans_s)).collect();
    let others: Vec<&Value> = slices.iter().filter(|slice| !touches(slice, all_spans_s)).collect();
    if affected.is_empty() || others.len() < SLICES_MIN {
        return None;
    }
    let values = |of: &[&Value], field: &str| of.iter().filter_map(|slice| slice[field].as_f64()).collect::<Vec<f64>>();
    let ratio = |field: &str| {
        let usual = median(values(&others, field)).filter(|usual| *usual > 0.0)?;
        Some(median(values(&affected, field))? / usual)
    };
    let percentile = PERCENTILES.iter().find(|field| values(&others, field).len() * 2 > others.len());
    // A pause leaves no operations to take a percentile of.
    let slower = percentile.and_then(|field| ratio(field)).map(|ratio| ratio - 1.0);
    let fewer = ratio("rate_per_s").map(|ratio| 1.0 - ratio);
    slower.into_iter().chain(fewer).max_by(f64::total_cmp)
}

/// Returns the median, of an even number the upper one; `None` of none.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const SPANS: [(f64, f64); 2] = [(10.0, 10.6), (14.0, 14.8)];

    fn cause(series: &str, at_s: f64) -> Value {
        json!({ "rule": "cause", "sentence": "…", "spans_s": [[at_s, at_s + 0.5]], "evidence": [{ "series": series }] })
    }

    fn unexplained(sentence: &str) -> Value {
        json!({ "rule": "unexplained", "sentence": sentence, "spans_s": [[14.0, 14.5]], "evidence": [] })
    }

    #[test]
    fn the_first_name_the_first_three_and_wrong_names_are_told_apart() {
        let (right, wrong) = (cause("disk vda", 10.2), cause("tcp: retransmits", 14.1));
        let judge = |findings: &[&Value]| {
            let findings: Vec<Value> = findings.iter().map(|one| (*one).clone()).collect();
            super::judge(&findings, Cause::Disk, &SPANS)
        };
        assert_eq!(judge(&[&right, &wrong]), Judgement::First);
        assert_eq!(judge(&[&wrong, &right]), Judgement::FirstThree);
        assert_eq!(judge(&[&wrong, &wrong, &wrong, &right]), Judgement::Wrong);
        // A pause of the machine was not planted.
        let pause = json!({ "rule": "pause", "sentence": "…", "spans_s": [[10.0, 10.5]], "evidence": [] });
        assert_eq!(judge(&[&pause]), Judgement::Wrong);
        assert_eq!(judge(&[&pause, &right]), Judgement::FirstThree);
        assert_eq!(judge(&[]), Judgement::Silent);
    }

    #[test]
    fn findings_about_other_moments_and_other_rules_name_nothing() {
        let elsewhere = cause("tcp: retransmits", 20.0);
        let level = json!({ "rule": "level", "sentence": "…", "spans_s": [[10.0, 28.0]], "evidence": [] });
        let findings = [elsewhere, level, cause("disk vda", 10.1)];
        assert_eq!(judge(&findings, Cause::Disk, &SPANS), Judgement::First);
        assert_eq!(names(&findings, &SPANS), ["disk vda"]);
    }

    #[test]
    fn nothing_and_undecided_are_different_answers() {
        let nothing = unexplained(
            "pg, phase mixed: 3 of 3 slow moments are explained by no rise of any watched series (80 series).",
        );
        let undecided = unexplained("pg, phase mixed: 3 of 3 slow moments are undecided: 40 slices are too few.");
        let judge = |findings: &[Value]| super::judge(findings, Cause::Trigger, &SPANS);
        assert_eq!(judge(std::slice::from_ref(&nothing)), Judgement::Nothing);
        assert_eq!(judge(&[undecided]), Judgement::Undecided);
        // A cause that nothing watches has no right name.
        assert_eq!(judge(&[cause("the server's CPU", 10.0), nothing]), Judgement::Wrong);
        assert!(is_right(Share::Unwatched, Judgement::Nothing) && !is_right(Share::Single, Judgement::Nothing));
        assert!(is_right(Share::Two, Judgement::FirstThree) && !is_right(Share::Single, Judgement::FirstThree));
    }

    #[test]
    fn an_effect_is_a_slower_percentile_or_less_throughput_beside_the_other_slices() {
        let slices = |p99: f64, rate: f64| -> Vec<Value> {
            let slice = |at: u32| {
                let start = 8.0 + f64::from(at) * 0.25;
                let is_affected = SPANS.iter().any(|(from, until)| start < *until && start + 0.25 > *from);
                let (p99, rate) = if is_affected { (json!(p99), rate) } else { (json!(1e6), 1000.0) };
                json!({ "start_s": start, "end_s": start + 0.25, "rate_per_s": rate, "p99_ns": p99 })
            };
            (0..40).map(slice).collect()
        };
        let moved = |p99, rate| super::moved(&slices(p99, rate), &SPANS, &SPANS).unwrap();
        assert!((moved(1.5e6, 1000.0) - 0.5).abs() < 1e-9);
        assert!((moved(1e6, 300.0) - 0.7).abs() < 1e-9);
        assert!(moved(1.05e6, 990.0) < MOVED_MIN);
        assert_eq!(super::moved(&slices(2e6, 1000.0), &[(50.0, 51.0)], &SPANS), None);
    }
}
