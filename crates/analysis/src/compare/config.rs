//! What was not the same before anything was measured.

use std::collections::BTreeMap;

use plimsoll_record::data::{Run, Trial};

use crate::trial;

use super::ConfigDifference;

/// All differences: program, plan, environment, then trial by trial. `pairs` are the trials that belong together.
pub fn differences(a: &Run, b: &Run, pairs: &[(&Trial, &Trial)]) -> Vec<ConfigDifference> {
    let mut all = Vec::new();
    let mut add = |place: &str, name: &str, a: String, b: String| {
        let one = ConfigDifference { place: place.to_string(), name: name.to_string(), a, b };
        if one.a != one.b && !all.contains(&one) {
            all.push(one);
        }
    };
    let (head_a, head_b) = (&a.header, &b.header);
    add("run", "Plimsoll", head_a.plimsoll_version.clone(), head_b.plimsoll_version.clone());
    add("run", "plan", head_a.plan_name.clone(), head_b.plan_name.clone());
    add("run", "seed", head_a.seed.to_string(), head_b.seed.to_string());
    add("run", "slice", crate::number::nanoseconds(head_a.slice_ns), crate::number::nanoseconds(head_b.slice_ns));
    for (a, b) in changed_lines(&head_a.plan_text, &head_b.plan_text) {
        add("plan", "line", a, b);
    }
    let map = |entries: &[(String, String)]| entries.iter().cloned().collect::<BTreeMap<_, _>>();
    both(&map(&head_a.environment), &map(&head_b.environment), |name, a, b| add("environment", name, a, b));
    for (a, b) in pairs {
        let (head_a, head_b) = (&a.header, &b.header);
        let place = trial::name(head_a);
        add(&place, "store", head_a.store.clone(), head_b.store.clone());
        add(&place, "version", head_a.version.clone(), head_b.version.clone());
        add(&place, "workload", head_a.workload.clone(), head_b.workload.clone());
        add(&place, "records", head_a.record_count.to_string(), head_b.record_count.to_string());
        both(&head_a.params, &head_b.params, |name, a, b| add(&place, name, a, b));
        let settings = |trial: &Trial| -> BTreeMap<String, String> {
            trial.header.settings.iter().map(|one| (one.name.clone(), one.value.clone())).collect()
        };
        both(&settings(a), &settings(b), |name, a, b| add(&place, &format!("setting {name}"), a, b));
        for phase_a in &a.phases {
            let Some(phase_b) = b.phases.iter().find(|phase| phase.header.name == phase_a.header.name) else {
                continue;
            };
            let of = format!("{place}, {}", phase_a.header.name);
            let (a, b) = (&phase_a.header, &phase_b.header);
            add(&of, "clients", a.clients.to_string(), b.clients.to_string());
            let text = |durability: &Option<String>| durability.clone().unwrap_or_default();
            add(&of, "durability", text(&a.durability), text(&b.durability));
            let rate =
                |rate: Option<f64>| rate.map_or("closed loop".into(), |rate| crate::number::with_unit(rate, "1/s"));
            add(&of, "rate", rate(a.rate_per_s), rate(b.rate_per_s));
        }
    }
    all
}

/// Entries that are not equal, or in one of the maps only.
fn both(a: &BTreeMap<String, String>, b: &BTreeMap<String, String>, mut differ: impl FnMut(&str, String, String)) {
    let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    for name in names {
        let text = |map: &BTreeMap<String, String>| map.get(name).cloned().unwrap_or_default();
        if text(a) != text(b) {
            differ(name, text(a), text(b));
        }
    }
}

/// Lines that only one of the texts has, beside each other in their order.
fn changed_lines(a: &str, b: &str) -> Vec<(String, String)> {
    let only = |one: &str, other: &str| -> Vec<String> {
        let has = |line: &str| other.lines().any(|known| known.trim() == line);
        one.lines().map(str::trim).filter(|line| !line.is_empty() && !has(line)).map(str::to_string).collect()
    };
    let (mut a, mut b) = (only(a, b), only(b, a));
    let n = a.len().max(b.len());
    a.resize(n, String::new());
    b.resize(n, String::new());
    a.into_iter().zip(b).collect()
}

#[cfg(test)]
mod tests {
    use super::changed_lines;

    #[test]
    fn only_lines_that_differ_are_shown() {
        let changed = changed_lines("a = 1\nclients = 8\n\nb = 2", "a = 1\n  clients = 16\nb = 2\nc = 3");
        assert_eq!(changed, [("clients = 8".into(), "clients = 16".into()), (String::new(), "c = 3".into())]);
        assert_eq!(changed_lines("x", " x "), []);
    }
}
