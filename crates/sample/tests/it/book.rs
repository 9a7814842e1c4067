use std::collections::BTreeMap;

use plimsoll_sample::{ServerProcesses, open, specs};

#[test]
fn the_book_tells_of_every_sampler_and_series_with_its_unit() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/samplers.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut told: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
    let mut order = Vec::new();
    for line in page.lines() {
        if let Some(name) = line.strip_prefix("## `") {
            order.push(name.trim_end_matches('`'));
        } else if let Some(row) = line.strip_prefix("| `") {
            let (name, rest) = row.split_once("` | ").unwrap();
            let (unit, what) = rest.split_once(" | ").unwrap();
            assert!(what.len() > 3, "{line}");
            told.entry(order.last().unwrap()).or_default().push((name, unit));
        }
    }
    let names: Vec<String> = specs().iter().map(|spec| spec.name.to_owned()).collect();
    assert_eq!(order, names);
    let (opened, unavailable) = open(&names, &ServerProcesses::default());
    assert!(unavailable.iter().all(|(name, _)| name != plimsoll_sample::STORE.name));
    for sampler in &opened {
        // The same for each subject: those of the first are all.
        let first = &sampler.series()[0].subject;
        let series = sampler.series().iter().filter(|series| series.subject == *first);
        let real: Vec<_> = series.map(|series| (series.name.as_str(), series.unit.as_str())).collect();
        assert_eq!(told[sampler.name()], real, "{}", sampler.name());
    }
}
