//! Words of a wrong clock: `by=5s`, `drift=-500ppm`.

use plimsoll_core::ClockChange;

use crate::document::short;
use crate::quantity::{self, Dimension};

/// Parses the error of a clock, `by=5s drift=500ppm`.
///
/// # Errors
/// The mistake, with advice.
pub fn parse_clock(words: &[&str]) -> Result<ClockChange, (String, Option<String>)> {
    let advice = |text: &str| Some(text.to_owned());
    let (mut by_ns, mut drift_ppm) = (None, None);
    for word in words {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let place = match name {
            "by" => &mut by_ns,
            "drift" => &mut drift_ppm,
            _ => {
                let help = advice("write by=5s, drift=500ppm, or both");
                return Err((format!("`{}` is no error of a clock", short(word)), help));
            }
        };
        if place.is_some() {
            return Err((format!("`{name}` of the clock is given twice"), advice("leave one of them out")));
        }
        *place = Some(if name == "by" { offset(word, value)? } else { drift(word, value)? });
    }
    if words.is_empty() {
        let help = advice("write \"clock node 2 by=5s at 10s\", or drift=500ppm");
        return Err(("the error of the clock is missing".to_owned(), help));
    }
    Ok(ClockChange { by_ns: by_ns.unwrap_or(0), drift_ppm: drift_ppm.unwrap_or(0) })
}

/// Parses an offset, and returns it in nanoseconds.
fn offset(word: &str, value: &str) -> Result<i64, (String, Option<String>)> {
    let time = value.strip_prefix(['-', '+']).unwrap_or(value);
    let mistake = |(what, help): (String, Option<String>)| (format!("`{}`: {what}", short(word)), help);
    let ns = quantity::parse(time, Dimension::Time).map_err(mistake)?.round();
    if !(1.0..=ClockChange::BY_NS_MAX as f64).contains(&ns) {
        let what = format!("`{}`: a clock is wrong by 1ns to 3650d", short(word));
        return Err((what, Some("write by=5s, or by=-5s for a clock that is slow".to_owned())));
    }
    Ok(if value.starts_with('-') { -(ns as i64) } else { ns as i64 })
}

/// Parses a drift, and returns it in parts per million.
fn drift(word: &str, value: &str) -> Result<i64, (String, Option<String>)> {
    let most = ClockChange::DRIFT_PPM_MAX;
    let ppm = value.strip_suffix("ppm").and_then(|number| number.parse::<i64>().ok());
    let is_number = ppm.is_some();
    ppm.filter(|ppm| *ppm != 0 && (-most..=most).contains(ppm)).ok_or_else(|| {
        let what = match is_number {
            true => format!("`{}`: a clock drifts by 1ppm to {most}ppm", short(word)),
            false => format!("`{}`: a drift is a whole number of parts per million, with the unit ppm", short(word)),
        };
        (what, Some("write drift=500ppm, or drift=-500ppm for a clock that runs slow".to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use plimsoll_core::NodeChoice;

    use super::*;
    use crate::timeline::{FaultAction, PlannedFault, overlap};

    fn fault(text: &str) -> PlannedFault {
        PlannedFault::parse(text).unwrap_or_else(|(what, _)| panic!("{text}: {what}"))
    }

    #[test]
    fn a_clock_is_fast_or_slow_and_runs_fast_or_slow() {
        for (words, by_ns, drift_ppm) in [
            ("by=5s", 5_000_000_000, 0),
            ("by=-1m30s", -90_000_000_000, 0),
            ("by=+20ms", 20_000_000, 0),
            ("drift=500ppm", 0, 500),
            ("by=3650d drift=-100000ppm", ClockChange::BY_NS_MAX, -100_000),
        ] {
            let text = format!("clock node 2 {words} at 1s for 2s");
            let fault = fault(&text);
            let wanted = FaultAction::Clock(NodeChoice::Number(2), ClockChange { by_ns, drift_ppm });
            assert_eq!((&fault.what, fault.what.verb(), fault.to_string()), (&wanted, "clock", text));
        }
        for words in ["by=-2s drift=7ppm", "by=3650d", "by=-5h", "by=90s", "by=2min", "by=1.5s", "drift=-1ppm"] {
            let change = parse_clock(&words.split(' ').collect::<Vec<_>>()).unwrap();
            assert_eq!(change.to_string(), words);
        }
    }

    #[test]
    fn a_clock_has_one_error_at_a_time_beside_any_other_fault() {
        let clock = fault("clock node 2 by=5s at 1s for 3s");
        assert!(overlap(&[clock.clone(), fault("clock all drift=5ppm at 2s")], None).is_some());
        for other in ["clock node 1 by=5s at 1s", "clock node 2 by=5s at 4s", "kill node 2 at 2s", "hang all at 2s"] {
            assert_eq!(overlap(&[clock.clone(), fault(other)], None), None, "{other}");
        }
    }

    #[test]
    fn mistakes_in_clocks_come_with_a_remedy() {
        for (words, wanted, remedy) in [
            ("", "the error of the clock is missing", "write \"clock node 2 by=5s at 10s\", or drift=500ppm"),
            ("5s", "`5s` is no error of a clock", "write by=5s, drift=500ppm, or both"),
            ("by=5", "`by=5`: needs a unit", "units of time"),
            ("by=0s", "`by=0s`: a clock is wrong by 1ns to 3650d", "write by=5s"),
            ("by=-4000d", "`by=-4000d`: a clock is wrong by 1ns to 3650d", "write by=5s"),
            ("by=1s by=2s", "`by` of the clock is given twice", "leave one"),
            ("drift=500", "`drift=500`: a drift is a whole number of parts per million, with", "write drift=500ppm"),
            ("drift=1%", "`drift=1%`: a drift is a whole number of parts per million", "write drift=500ppm"),
            ("drift=0ppm", "`drift=0ppm`: a clock drifts by 1ppm to 100000ppm", "write drift=500ppm"),
            ("drift=-100001ppm", "`drift=-100001ppm`: a clock drifts by", "write drift=500ppm"),
        ] {
            let (what, help) = PlannedFault::parse(&format!("clock all {words} at 1s")).unwrap_err();
            let help = help.unwrap_or_default();
            assert!(what.starts_with(wanted) && help.starts_with(remedy), "{words}: {what}: {help}");
        }
    }
}
