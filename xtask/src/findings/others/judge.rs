//! Judgement of the answer about a data set: whether the right class of resource is named.

use serde_json::Value;

use super::columns::{self, RESOURCES, Resource};
use crate::Result;

/// Names, and classes, among which the right one is searched.
const FIRST: usize = 3;

/// Way in which the analysis was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// The region was given: series that are higher in it.
    Risen,
    /// The region was given: all series that differ in it.
    Differing,
    /// Findings searched for slow moments themselves.
    Found,
}

/// All ways.
pub const WAYS: [Way; 3] = [Way::Risen, Way::Differing, Way::Found];

impl Way {
    /// Returns the name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Way::Risen => "region given, series that rise",
            Way::Differing => "region given, series that differ",
            Way::Found => "region not given, causes of findings",
        }
    }
}

/// A series that an answer names.
#[derive(Debug, Clone, PartialEq)]
pub struct Named {
    /// Name of the series.
    pub name: String,
    /// Class of the series.
    pub resource: Resource,
}

/// Judgement of one answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Judgement {
    /// A series is named.
    pub is_named: bool,
    /// The first series is of a right class.
    pub is_first: bool,
    /// Right classes are among the first three series; of a compound anomaly, a series for each part.
    pub is_in_names: bool,
    /// Right classes are among the first three; of a compound anomaly, a class for each part. A class has the place of
    /// its first series.
    pub is_in_classes: bool,
}

/// Returns the series that an answer names when it is asked in that way, in order.
///
/// # Errors
/// Fails if the answer is none, or names a series that is no column of the source.
pub fn named(answer: &Value, source: &str, way: Way) -> Result<Vec<Named>> {
    let list = |key: &str| answer[key].as_array().ok_or_else(|| format!("the answer has no list {key}"));
    let names: Vec<&Value> = match way {
        Way::Found => list("found")?.iter().collect(),
        Way::Differing => list("given")?.iter().map(|one| &one["name"]).collect(),
        Way::Risen => list("given")?.iter().filter(|one| one["rises"] == true).map(|one| &one["name"]).collect(),
    };
    let one = |name: &&Value| -> Result<Named> {
        let name = name.as_str().ok_or("the answer has a series without a name")?;
        let resource = columns::resource(source, name, way == Way::Found)?;
        Ok(Named { name: name.to_owned(), resource })
    };
    names.iter().map(one).collect()
}

/// Judges the names by the right classes of each part of the anomaly.
pub fn judge(parts: &[&[Resource]], named: &[Named]) -> Judgement {
    let all: Vec<Resource> = named.iter().map(|one| one.resource).collect();
    let mut classes: Vec<Resource> = Vec::new();
    for resource in &all {
        if !classes.contains(resource) {
            classes.push(*resource);
        }
    }
    classes.truncate(FIRST);
    Judgement {
        is_named: !all.is_empty(),
        is_first: all.first().is_some_and(|first| is_any(parts, *first)),
        is_in_names: has_all(parts, &all[..all.len().min(FIRST)]),
        is_in_classes: has_all(parts, &classes),
    }
}

/// Returns the probabilities that the first of all classes in a random order is right, and that the first three are.
pub fn by_chance(parts: &[&[Resource]]) -> (f64, f64) {
    let share = |right: usize, all: usize| right as f64 / all as f64;
    let first = RESOURCES.iter().filter(|one| is_any(parts, **one)).count();
    let (mut right, mut all) = (0, 0);
    for (a, one) in RESOURCES.iter().enumerate() {
        for (b, two) in RESOURCES.iter().enumerate().skip(a + 1) {
            for three in RESOURCES.iter().skip(b + 1) {
                all += 1;
                right += usize::from(has_all(parts, &[*one, *two, *three]));
            }
        }
    }
    (share(first, RESOURCES.len()), share(right, all))
}

fn is_any(parts: &[&[Resource]], resource: Resource) -> bool {
    parts.iter().any(|right| right.contains(&resource))
}

fn has_all(parts: &[&[Resource]], named: &[Resource]) -> bool {
    parts.iter().all(|right| named.iter().any(|one| right.contains(one)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::columns::Resource::{Disk, Locks, Network, Processor, Workload};
    use super::*;

    fn series(resources: &[Resource]) -> Vec<Named> {
        resources.iter().map(|one| Named { name: one.name().to_owned(), resource: *one }).collect()
    }

    #[test]
    fn a_class_has_the_place_of_its_first_series() {
        let judge = |right: &[&[Resource]], named: &[Resource]| {
            let Judgement { is_named, is_first, is_in_names, is_in_classes } = super::judge(right, &series(named));
            [is_named, is_first, is_in_names, is_in_classes]
        };
        let many = [Processor, Processor, Processor, Disk, Network, Locks];
        assert_eq!(judge(&[&[Processor]], &many), [true, true, true, true]);
        assert_eq!(judge(&[&[Network]], &many), [true, false, false, true]);
        assert_eq!(judge(&[&[Locks]], &many), [true, false, false, false]);
        assert_eq!(judge(&[&[Disk, Locks]], &[Locks]), [true, true, true, true]);
        assert_eq!(judge(&[&[Locks]], &[]), [false, false, false, false]);
        // Of a compound anomaly each part has to be named, and the first name is right for any of them.
        let compound: [&[Resource]; 2] = [&[Workload], &[Disk]];
        assert_eq!(judge(&compound, &many), [true, false, false, false]);
        assert_eq!(judge(&compound, &[Disk, Locks, Locks, Workload]), [true, true, false, true]);
    }

    #[test]
    fn chance_is_the_share_of_the_orders_that_are_right() {
        let near = |(first, three): (f64, f64), wanted: (f64, f64)| {
            assert!((first - wanted.0).abs() < 1e-9 && (three - wanted.1).abs() < 1e-9, "{first} {three}");
        };
        near(by_chance(&[&[Disk]]), (1.0 / 7.0, 3.0 / 7.0));
        near(by_chance(&[&[Disk, Processor]]), (2.0 / 7.0, 25.0 / 35.0));
        near(by_chance(&[&[Disk], &[Processor]]), (2.0 / 7.0, 5.0 / 35.0));
    }

    #[test]
    fn an_answer_names_series_of_its_source_in_each_way() {
        let answer = json!({
            "given": [
                { "name": "store mysql commits", "rises": false },
                { "name": "cpu iowait", "rises": true },
            ],
            "found": ["the machine's CPU"],
        });
        let names = |way| {
            let named = named(&answer, "dbpa", way).unwrap();
            named.into_iter().map(|one| (one.name, one.resource)).collect::<Vec<_>>()
        };
        let (commits, waiting) = (("store mysql commits".to_owned(), Workload), ("cpu iowait".to_owned(), Disk));
        assert_eq!(names(Way::Risen), std::slice::from_ref(&waiting));
        assert_eq!(names(Way::Differing), [commits, waiting]);
        assert_eq!(names(Way::Found), [("the machine's CPU".to_owned(), Processor)]);
        let unknown = json!({ "given": [], "found": ["disk vda"] });
        assert_eq!(named(&unknown, "dbpa", Way::Found).unwrap_err(), "no column of dbpa has the name disk vda");
        assert!(named(&json!({}), "dbpa", Way::Risen).is_err());
    }
}
