use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plimsoll_sample::{ServerProcesses, open, specs};

use crate::read::Read;

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
    for spec in specs().iter().filter(|spec| spec.name != plimsoll_sample::STORE.name) {
        assert_eq!(told[spec.name], spec.series, "{}", spec.name);
    }
    let server = ServerProcesses::default();
    server.set(vec![crate::site(0, std::process::id())]);
    let (opened, unavailable) = open(&names, &server);
    assert!(unavailable.iter().all(|(name, _)| name != plimsoll_sample::STORE.name));
    for mut read in opened.into_iter().map(Read::new) {
        let source = read.name;
        read.next(Duration::ZERO);
        // Shares are of ticks, of which some have to go by.
        std::thread::sleep(Duration::from_millis(60));
        // The same for each subject. What takes a request to be told of may not be there.
        let real: BTreeSet<_> =
            read.next(Duration::from_secs(1)).into_iter().map(|(one, _)| (one.name, one.unit)).collect();
        let said = &told[source];
        let unsaid: Vec<_> =
            real.iter().filter(|(name, unit)| !said.contains(&(name.as_str(), unit.as_str()))).collect();
        assert!(unsaid.is_empty(), "{source} reads {unsaid:?}");
        let unread = said.iter().filter(|(name, unit)| !real.iter().any(|one| (&*one.0, &*one.1) == (*name, *unit)));
        // Control groups report what their version and their controllers have; queues are those of a few sockets.
        let may_be_away = ["flushes", "unacknowledged", "unread", "not_accepted"];
        let is_sure = |name: &str| !name.ends_with("_time") && !may_be_away.contains(&name) && source != "cgroup";
        let unread: Vec<_> = unread.filter(|(name, _)| is_sure(name)).collect();
        assert!(unread.is_empty(), "{source} does not read {unread:?}");
    }
}
