//! Tables of the results, for the terminal and the book, and rows of CSV.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::Value;

use super::columns::Resource;
use super::expected::{EXPECTED, Expected};
use super::judge::{Judgement, Named, WAYS, Way, by_chance, judge, named};
use crate::Result;

/// Heading of the CSV table.
pub const CSV_HEADING: &str = "file,source,anomalies,way,first,in_three_names,in_three_classes,series\n";

/// Series of an answer that are in a row of CSV.
const SERIES_MAX: usize = 10;

/// Result about a data set.
pub struct Judged {
    /// Name of the file.
    pub file: String,
    /// Anomalies of the set.
    pub parts: Vec<&'static Expected>,
    /// For each way the series that are named, and their judgement.
    pub ways: Vec<(Way, Vec<Named>, Judgement)>,
}

impl Judged {
    fn source(&self) -> &'static str {
        self.parts.first().map_or("", |part| part.source)
    }

    fn anomalies(&self) -> String {
        self.parts.iter().map(|part| part.name).collect::<Vec<_>>().join(" + ")
    }

    /// Judges the answer in each way.
    ///
    /// # Errors
    /// As [`named`].
    pub fn take(&mut self, answer: &Value) -> Result {
        for way in WAYS {
            let named = named(answer, self.source(), way)?;
            let judgement = judge(&self.right(), &named);
            self.ways.push((way, named, judgement));
        }
        Ok(())
    }

    /// Returns the right classes of each anomaly.
    fn right(&self) -> Vec<&'static [Resource]> {
        self.parts.iter().map(|part| part.right).collect()
    }

    /// Returns the part of the table that the set belongs to.
    fn share(&self) -> (&'static str, &'static str) {
        (self.source(), if self.parts.len() > 1 { "compound" } else { "single" })
    }
}

/// Counts of a row, and sums of the probabilities of right answers by chance.
#[derive(Default)]
struct Counts {
    sets: usize,
    first: usize,
    in_names: usize,
    in_classes: usize,
    nothing: usize,
    by_chance: (f64, f64),
}

impl Counts {
    fn add(&mut self, judged: &Judged, judgement: Judgement) {
        self.sets += 1;
        self.first += usize::from(judgement.is_first);
        self.in_names += usize::from(judgement.is_in_names);
        self.in_classes += usize::from(judgement.is_in_classes);
        self.nothing += usize::from(!judgement.is_named);
        let (first, three) = by_chance(&judged.right());
        self.by_chance.0 += first;
        self.by_chance.1 += three;
    }

    fn percent(&self, count: f64) -> f64 {
        count * 100.0 / self.sets.max(1) as f64
    }

    fn row(&self, name: &str) -> String {
        let Counts { sets, first, in_names, in_classes, nothing, .. } = self;
        let wrong = sets - in_classes - nothing;
        format!("| {name} | {sets} | {first} | {in_names} | {in_classes} | {wrong} | {nothing} |\n")
    }

    /// Returns the sentence of a share of the sets, whose anomalies have these rows.
    fn sentence(&self, (source, share): (&str, &str), rows: &[&Counts]) -> String {
        let Counts { sets, first, in_names, in_classes, .. } = self;
        let percent = |count: &usize| self.percent(*count as f64);
        // Some anomalies have many more sets than others.
        let mean = |of: &dyn Fn(&Counts) -> usize| {
            rows.iter().map(|row| row.percent(of(row) as f64)).sum::<f64>() / rows.len().max(1) as f64
        };
        format!(
            "{source}, {share}: first {:.1} % ({first} of {sets}; by chance {:.1} %), wanted 70 %; in the first three \
             classes {:.1} % ({in_classes}; by chance {:.1} %), wanted 90 %; in the first three names {:.1} % \
             ({in_names}). Means of the anomalies: first {:.1} %, in the first three classes {:.1} %.",
            percent(first),
            self.percent(self.by_chance.0),
            percent(in_classes),
            self.percent(self.by_chance.1),
            percent(in_names),
            mean(&|row| row.first),
            mean(&|row| row.in_classes),
        )
    }
}

/// Returns the table of right classes as Markdown.
pub fn expectations() -> String {
    let mut text = "| source | anomaly | right classes | reason |\n|---|---|---|---|\n".to_owned();
    for one in &EXPECTED {
        let right: Vec<&str> = one.right.iter().map(|resource| resource.name()).collect();
        let _ = writeln!(text, "| {} | {} | {} | {} |", one.source, one.name, right.join(", "), one.reason);
    }
    text
}

/// Returns a table for each way as Markdown, with a sentence for each share of the sets.
pub fn tables(results: &[Judged]) -> String {
    let mut text = String::new();
    for way in WAYS {
        let mut rows: BTreeMap<((&str, &str), String), Counts> = BTreeMap::new();
        let mut shares: BTreeMap<(&str, &str), Counts> = BTreeMap::new();
        for judged in results {
            for (_, _, judgement) in judged.ways.iter().filter(|(own, ..)| *own == way) {
                rows.entry((judged.share(), judged.anomalies())).or_default().add(judged, *judgement);
                shares.entry(judged.share()).or_default().add(judged, *judgement);
            }
        }
        let _ = write!(
            text,
            "## {}\n\n| anomaly | sets | first | in first three names | in first three classes | wrong | nothing |\n\
             |---|---|---|---|---|---|---|\n",
            way.name()
        );
        for (((source, _), anomalies), counts) in &rows {
            text.push_str(&counts.row(&format!("{source}: {anomalies}")));
        }
        text.push('\n');
        for (share, counts) in &shares {
            let own = rows.iter().filter(|((of, _), _)| of == share).map(|(_, counts)| counts);
            let _ = writeln!(text, "{}", counts.sentence(*share, &own.collect::<Vec<_>>()));
        }
        text.push('\n');
    }
    text
}

/// Returns the rows of a data set, one for each way.
pub fn csv_rows(judged: &Judged) -> String {
    let mut text = String::new();
    for (way, named, judgement) in &judged.ways {
        let Judgement { is_first, is_in_names, is_in_classes, .. } = judgement;
        let series = named.iter().take(SERIES_MAX).map(|one| format!("{} ({})", one.name, one.resource.name()));
        let cells = [
            judged.file.clone(),
            judged.source().to_owned(),
            judged.anomalies(),
            way.name().to_owned(),
            is_first.to_string(),
            is_in_names.to_string(),
            is_in_classes.to_string(),
            series.collect::<Vec<_>>().join("; "),
        ];
        let _ = writeln!(text, "{}", cells.map(|cell| cell.replace(',', ";")).join(","));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::expected::expected;
    use super::*;

    fn judged(source: &str, anomalies: &[&str], named: &[Resource]) -> Judged {
        let parts = anomalies.iter().map(|name| expected(source, name).unwrap()).collect();
        let mut judged = Judged { file: "a.csv".to_owned(), parts, ways: Vec::new() };
        let named: Vec<Named> =
            named.iter().map(|one| Named { name: format!("a {}", one.name()), resource: *one }).collect();
        let judgement = judge(&judged.right(), &named);
        judged.ways.push((Way::Risen, named, judgement));
        judged
    }

    #[test]
    fn a_table_has_a_row_for_each_anomaly_and_a_sentence_for_each_share() {
        use Resource::{Disk, Locks, Memory, Network, Processor, Workload};
        let both = ["Workload Spike", "CPU Saturation"];
        let tables = tables(&[
            judged("dbpa", &["lock waits"], &[Locks]),
            judged("dbpa", &["lock waits"], &[Disk, Disk, Disk, Locks]),
            judged("dbpa", &["lock waits"], &[Disk, Memory, Network, Locks]),
            judged("dbpa", &["lock waits"], &[]),
            judged("dbpa", &["io saturation"], &[Disk]),
            judged("dbsherlock", &both, &[Processor, Workload]),
        ]);
        for line in [
            "## region given, series that rise",
            "| dbpa: lock waits | 4 | 1 | 1 | 2 | 1 | 1 |",
            "| dbsherlock: Workload Spike + CPU Saturation | 1 | 1 | 1 | 1 | 0 | 0 |",
            "dbpa, single: first 40.0 % (2 of 5; by chance 14.3 %), wanted 70 %; in the first three classes 60.0 % \
             (3; by chance 42.9 %), wanted 90 %; in the first three names 40.0 % (2). Means of the anomalies: first \
             62.5 %, in the first three classes 75.0 %.",
        ] {
            assert!(tables.lines().any(|known| known == line), "{line}\n{tables}");
        }
        assert!(tables.contains("dbsherlock, compound: first 100.0 % (1 of 1; by chance 28.6 %)"), "{tables}");
    }

    #[test]
    fn a_row_of_csv_has_all_cells_and_the_names_of_series() {
        let rows = csv_rows(&judged("dbpa", &["lock waits"], &[Resource::Disk, Resource::Locks]));
        assert_eq!(
            rows,
            "a.csv,dbpa,lock waits,region given; series that rise,false,true,true,a disk (disk); a locks (locks)\n"
        );
        assert_eq!(rows.split(',').count(), CSV_HEADING.split(',').count());
    }

    #[test]
    fn every_anomaly_has_a_right_class_and_a_reason() {
        for one in &EXPECTED {
            assert!(!one.right.is_empty() && !one.reason.is_empty(), "{}", one.name);
            // Several right classes need an excuse.
            assert_eq!(one.right.len() > 1, one.reason.starts_with("ambiguous: "), "{}", one.name);
        }
        assert_eq!(expectations().lines().count(), EXPECTED.len() + 2);
        assert!(expected("dbpa", "Lock Contention").is_err());
    }
}
