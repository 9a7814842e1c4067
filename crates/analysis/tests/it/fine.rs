//! Fine readings around faults: they have panels of their own, and are in no other figure.

use plimsoll_analysis::view;
use plimsoll_record::data::Sample;

use crate::study;

#[test]
fn fine_readings_are_steps_around_each_fault_and_change_no_other_figure() {
    let mut run = study::complete();
    let without = view(&run);
    assert_eq!(without.plots.fine, []);
    let is_wanted = |source: &str, name: &str| source == "disk" && name == "writes";
    let writes = run.series.iter().position(|one| is_wanted(&one.source, &one.name)).unwrap() as u32;
    let fine = |at_ms: u64, value: f64| {
        let values = vec![(writes, value)];
        Sample { at_ns: at_ms * 1_000_000, values, ..Sample::default() }
    };
    run.fine_samples = vec![fine(1_050, 5.0), fine(1_100, 7.0), fine(9_050, 3.0)];
    let mut with = view(&run);
    let panels = std::mem::take(&mut with.plots.fine);
    assert_eq!(format!("{with:?}"), format!("{without:?}"));
    let [panel] = &panels[..] else { panic!("{panels:?}") };
    assert_eq!((&*panel.name, &*panel.unit, panel.steps), ("Disk vda", "1/s", true));
    // A step begins with the time that its reading covers; after each fault the last one has an end, and a gap follows.
    let times_us: Vec<u64> = panel.t_s.iter().map(|t_s| (t_s * 1e6).round() as u64).collect();
    assert_eq!(times_us, [1_000_000, 1_050_000, 1_100_000, 1_100_001, 9_000_000, 9_050_000, 9_050_001]);
    let values = [Some(5.0), Some(7.0), Some(7.0), None, Some(3.0), Some(3.0), None];
    assert_eq!((&*panel.lines[0].name, &panel.lines[0].values[..]), ("writes", &values[..]));
}
