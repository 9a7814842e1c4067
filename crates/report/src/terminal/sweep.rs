//! Sweeps as text.

use owo_colors::Style;
use plimsoll_analysis::{RunView, number};

use super::Text;
use super::table::{Cell, Side, Table};

impl Text {
    /// Each sweep: its table and what the scalability law says.
    pub(super) fn sweeps(&mut self, view: &RunView) {
        for sweep in &view.sweeps {
            let single = sweep.columns.len() == 1;
            let mut head = vec![(sweep.row_label.clone(), Side::Right)];
            if single {
                head.extend(["median", "least", "most", "n"].map(|head| (head.to_string(), Side::Right)));
            } else {
                head.extend(sweep.columns.iter().map(|column| (column.clone(), Side::Right)));
            }
            let mut table = Table::new(head);
            for (row, cells) in sweep.rows.iter().zip(&sweep.cells) {
                let mut all = vec![Cell::new(row)];
                for cell in cells {
                    match cell {
                        Some(cell) if single => {
                            all.push(Cell::styled(&cell.text, Style::new().bold()));
                            all.push(Cell::new(number::with_unit(cell.range.0, "1/s")));
                            all.push(Cell::new(number::with_unit(cell.range.1, "1/s")));
                            all.push(Cell::new(number::count(cell.n)));
                        }
                        Some(cell) => all.push(Cell::new(number::marked(number::significant(cell.value), cell.late))),
                        None => all.extend(std::iter::repeat_n(Cell::new("–"), if single { 4 } else { 1 })),
                    }
                }
                table.row(all);
            }
            let place = format!("{}, {}", sweep.name, sweep.phase);
            let note =
                if single { place } else { format!("{place}; operations a second, columns: {}", sweep.column_label) };
            self.table("Sweep", &note, &table);
            if let Some(scale) = &sweep.scale {
                self.paragraph("  ", Style::new(), &scale.sentence, Style::new());
            }
        }
    }
}
