use plimsoll_analysis::line::Purpose;
use plimsoll_analysis::view::Ending;
use plimsoll_drive::DriveSpec;
use plimsoll_plan::model::{Io, WakeMode};

use super::*;
use crate::drive_spec;

#[test]
fn a_load_step_is_as_long_as_its_faults_need() {
    let needed = |text: &str| needed_s(&PlannedFault::parse(text).unwrap(), 9.0);
    let is_near = |text: &str, wanted: f64| (needed(text) - wanted).abs() < 0.01;
    assert!(is_near("kill all at 5s for 2s", 16.0));
    assert!(is_near("kill all at 40% for 3s", 20.0), "9 s are left after 43 % and 3 s");
    assert!(is_near("pause all at 40% for 10%", 18.0));
    assert!(is_near("restart all at 10%", 30.0), "3 s lie before it");
    assert!(needed("kill all at 99%").is_finite() && needed("pause all at 50% for 60%").is_finite());
}

#[test]
fn a_result_is_announced_with_its_cycle_and_with_unequal_speed_of_the_machine() {
    let result = line::LineSearch::new(LineSpec::default()).result(Ending::Stopped);
    assert_eq!(result_words(&result), [result.sentence.as_str()]);
    let (cycle_words, unequal_words) =
        (Some("checkpoint_timeout is long".to_owned()), Some("the machine was not equally fast".to_owned()));
    let result = LineResult { cycle_words, unequal_words, ..result };
    let wanted = [&*result.sentence, "checkpoint_timeout is long.", "The machine was not equally fast."];
    assert_eq!(result_words(&result), wanted);
}

#[test]
fn a_rung_goes_on_until_it_had_its_time_undisturbed_up_to_what_the_search_says() {
    let drive = Drive {
        clients: 1,
        depth: 1,
        workers: 1,
        client_hosts: None,
        backlog_ns: 1,
        wake: WakeMode::Precise,
        io: Io::Auto,
        pin: Vec::new(),
        mix: Vec::new(),
        pace: Pace::Closed,
        scenarios: Vec::new(),
        faults: Vec::new(),
        think: None,
        stages: Vec::new(),
        reconnect: None,
        connect_timeout_ns: None,
        backoff: None,
        retry: None,
        breaker: None,
        warmup_ns: 0,
        warmup_is_found: true,
        limit: DriveLimit::DurationNs(1),
        undisturbed_within_ns: None,
        durability: plimsoll_core::Durability::Buffered,
        op_timeout_ns: 1,
        keep_operations: None,
        power_cut: None,
        power_node: Default::default(),
    };
    let context = DriveSpec::default();
    assert_eq!(drive_spec::of(&drive, 1, &context).undisturbed, None, "it was not asked for");
    let rung = Rung { ordinal: 0, rate_per_s: Some(9.0), purpose: Purpose::Climb, warmup_s: 1.0, seconds: 3.0 };
    let spec = drive_spec::of(&at(&drive, &rung, 5.5), 1, &context);
    let wanted = spec.undisturbed.unwrap();
    assert_eq!((wanted.at_least, wanted.at_most), (Duration::from_secs(3), Duration::from_millis(5_500)));
    assert_eq!((spec.limit, spec.warmup), (plimsoll_drive::Limit::Duration(wanted.at_least), Duration::from_secs(1)));
    // Only what is held at a rate has faults, at their times whatever the machine does meanwhile.
    let faults = vec![PlannedFault::parse("kill all at 40%").unwrap()];
    let drive = Drive { faults, ..drive };
    assert_eq!(drive_spec::of(&at(&drive, &rung, 5.5), 1, &context).undisturbed, None);
    assert_eq!(at(&drive, &rung, 5.5).faults, drive.faults);
    assert!(at(&drive, &Rung { rate_per_s: None, ..rung }, 5.5).faults.is_empty());
}
