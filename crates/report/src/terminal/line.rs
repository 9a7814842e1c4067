//! The search for the load line as text.

use owo_colors::Style;
use plimsoll_analysis::line::{GoalSeen, asked_words};
use plimsoll_analysis::{RunView, number};

use super::Text;
use super::table::{Cell, Side, Table};

impl Text {
    /// Each search: its sentence, then its rungs.
    pub(super) fn lines(&mut self, view: &RunView) {
        for line in &view.lines {
            self.heading("Load line", &line.store);
            // The verdict above says it of a single one.
            if !view.verdict.sentence.ends_with(line.result.sentence.get(1..).unwrap_or_default()) {
                self.paragraph("  ", Style::new(), &line.result.sentence, Style::new().bold());
            }
            if let Some(words) = &line.result.cycle_words {
                self.paragraph("  ", Style::new(), &format!("{words}."), Style::new());
            }
            let has_cycles = line.result.cycles.is_some();
            let mut head = vec![
                ("rung".to_string(), Side::Right),
                ("for".to_string(), Side::Left),
                ("asked".to_string(), Side::Right),
                ("done".to_string(), Side::Right),
                ("time".to_string(), Side::Right),
                ("n".to_string(), Side::Right),
            ];
            let goals: &[GoalSeen] = line.rungs.first().map_or(&[], |rung| &rung.goals);
            head.extend(goals.iter().map(|goal| {
                (format!("{} ≤ {}", goal.what.name(), number::with_unit(goal.limit, &goal.unit)), Side::Right)
            }));
            if has_cycles {
                head.push(("cycles".to_string(), Side::Right));
            }
            head.push((String::new(), Side::Left));
            let mut table = Table::new(head);
            for rung in &line.rungs {
                let mut cells = vec![
                    Cell::new(number::count(u64::from(rung.rung.ordinal) + 1)),
                    Cell::new(rung.rung.purpose.name()),
                    Cell::new(asked_words(&rung.rung)),
                    Cell::new(number::with_unit(rung.rate_per_s, "1/s")),
                    Cell::new(number::seconds(rung.rung.seconds)),
                    Cell::new(number::count(rung.n)),
                ];
                cells.extend(rung.goals.iter().map(|goal| {
                    Cell::new(goal.value.map_or("–".to_string(), |value| number::with_unit(value, &goal.unit)))
                }));
                let style = match rung.state.as_str() {
                    "held" => Style::new().green(),
                    "failed" => Style::new().red(),
                    _ => Style::new().yellow(),
                };
                if has_cycles {
                    cells.push(Cell::new(number::count(rung.cycles as u64)));
                }
                cells.push(Cell::styled(rung.state.replace('_', " "), style));
                table.row(cells);
            }
            for text in table.lines(self.colour, self.width) {
                self.line(&text);
            }
            for note in &line.notes {
                self.paragraph("  ", Style::new(), note, Style::new().dimmed());
            }
        }
    }
}
