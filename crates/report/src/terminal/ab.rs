//! Two sides in turn, as text.

use owo_colors::Style;
use plimsoll_analysis::ab::{AbView, Decision};
use plimsoll_analysis::{RunView, number};

use crate::comparison::{interval_text, value};

use super::Text;
use super::table::{Cell, Side, Table};

impl Text {
    /// What differs, the numbers of both sides, the conditions.
    pub(super) fn ab(&mut self, view: &RunView) {
        let Some(ab) = &view.ab else { return };
        // The verdict above says it of a comparison that came to its end.
        if view.verdict.sentence != ab.sentence {
            self.heading("In turn", "");
            self.paragraph("  ", Style::new(), &ab.sentence, Style::new().bold());
        }
        self.heading("Configured differently", "");
        let mut table = Table::new(
            [("where", Side::Left), ("what", Side::Left), ("A", Side::Left), ("B", Side::Left)]
                .map(|(head, side)| (head.to_string(), side))
                .to_vec(),
        );
        let or_none = |text: &str| if text.is_empty() { "–".to_string() } else { text.to_string() };
        for one in &ab.differences {
            let cells = [one.place.clone(), one.name.clone(), or_none(&one.a), or_none(&one.b)];
            table.row(cells.map(Cell::new).to_vec());
        }
        if ab.differences.is_empty() {
            self.line("  nothing");
        }
        for text in table.lines(self.colour, self.width) {
            self.line(&text);
        }
        self.both(ab);
        for rule in &ab.rules {
            let (word, style) = match rule.met {
                Some(true) => ("FAILED   ", Style::new().red().bold()),
                Some(false) => ("ok       ", Style::new().green()),
                None => ("UNDECIDED", Style::new().yellow().bold()),
            };
            self.paragraph(&format!("  {word}  "), style, &rule.rule, Style::new());
        }
        for note in &ab.notes {
            self.paragraph("  ", Style::new(), note, Style::new().dimmed());
        }
    }

    /// The table of both sides.
    fn both(&mut self, ab: &AbView) {
        let heads = ["A", "B", "change", "95 % interval", "pairs", "n of A", "n of B"];
        let mut table = Table::new(
            std::iter::once((String::new(), Side::Left))
                .chain(heads.map(|head| (head.to_string(), Side::Right)))
                .chain([(String::new(), Side::Left)])
                .collect(),
        );
        for metric in ab.metrics.iter().filter(|metric| metric.asked || metric.pairs > 0) {
            let style = match metric.decision {
                Decision::Open => Style::new().dimmed(),
                Decision::Same => Style::new(),
                Decision::More | Decision::Less => Style::new().bold(),
            };
            table.row(vec![
                Cell::new(crate::metric_name(ab, metric)),
                Cell::new(value(&metric.a)),
                Cell::new(value(&metric.b)),
                Cell::new(
                    metric.change_percent.map_or("–".to_string(), plimsoll_analysis::compare::rule::signed_percent),
                ),
                Cell::new(interval_text(metric.interval_percent)),
                Cell::new(number::count(metric.pairs)),
                Cell::new(number::count(metric.a.n)),
                Cell::new(number::count(metric.b.n)),
                Cell::styled(crate::decision(metric), style),
            ]);
        }
        let percent = |used: Option<f64>| used.map_or("–".to_string(), |used| number::with_unit(used, "%"));
        let mut cells = vec!["generator CPU".to_string()];
        cells.extend(ab.generator_percent.map(percent));
        cells.extend(["–", "–", "", "", "", ""].map(str::to_string));
        table.row(cells.into_iter().map(Cell::new).collect());
        let note = format!(
            "medians of turns, change by pairs; {} in {}; a difference below {} % does not matter",
            number::plural(ab.pairs, "pair", "pairs"),
            number::seconds(ab.seconds),
            number::significant(ab.difference_percent)
        );
        self.table("Both sides", &note, &table);
    }
}
