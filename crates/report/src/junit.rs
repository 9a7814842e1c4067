//! Results of a comparison as JUnit XML.

use plimsoll_analysis::view::Comparison;

use crate::html::Esc;

/// Writes a comparison's conditions as JUnit XML: one test case for each condition, or without conditions for each
/// number that has an interval.
pub fn junit(comparison: &Comparison) -> String {
    let mut cases = Vec::new();
    if comparison.rules.is_empty() {
        for group in &comparison.groups {
            for metric in group.metrics.iter().filter(|metric| metric.significant.is_some()) {
                let name = format!("{}, {} {}", group.phase, metric.name, metric.op);
                cases.push((group.trial.clone(), name.trim().to_string(), &[][..], &[][..], 1));
            }
        }
    }
    for rule in &comparison.rules {
        let class = "plimsoll.compare".to_string();
        cases.push((class, rule.rule.clone(), &rule.failures, &rule.undecided, rule.checked));
    }
    let failures = cases.iter().filter(|(_, _, failures, ..)| !failures.is_empty()).count();
    let skipped = cases.iter().filter(|(_, _, failed, open, _)| failed.is_empty() && !open.is_empty()).count();
    let suite = format!("{} against {}", comparison.b.id, comparison.a.id);
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites tests=\"{0}\" failures=\"{failures}\">\n  \
         <testsuite name=\"{1}\" tests=\"{0}\" failures=\"{failures}\" errors=\"0\" skipped=\"{skipped}\">\n",
        cases.len(),
        xml(&suite)
    );
    for (class, name, failures, undecided, checked) in &cases {
        let open =
            format!("    <testcase classname=\"{}\" name=\"{}\" assertions=\"{checked}\"", xml(class), xml(name));
        match (*failures, *undecided) {
            ([], []) => out.push_str(&format!("{open}/>\n")),
            ([], [..]) => out.push_str(&format!(
                "{open}>\n      <skipped message=\"UNDECIDED: {}\"/>\n    </testcase>\n",
                xml(&undecided.join("\n"))
            )),
            ([first, ..], _) => out.push_str(&format!(
                "{open}>\n      <failure message=\"{}\">{}</failure>\n    </testcase>\n",
                xml(first),
                xml(&failures.join("\n"))
            )),
        }
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

/// A text for an attribute or an element of XML 1.0.
fn xml(text: &str) -> String {
    Esc(text).to_string().replace('\n', "&#10;")
}
