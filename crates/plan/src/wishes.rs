//! What a plan wants of its results: goals and figures.

use std::collections::BTreeMap;

use plimsoll_core::quantity;

use crate::document::{Kind, Node, Reading, short};
use crate::formulas::Names;
use crate::keys::{FIGURE, GOALS, PUBLISHED, PUBLISHED_TABLE, Takes};
use crate::model::{Figure, Goal, GoalKind, PhaseKind, Published};
use crate::phases::PhaseDraft;

/// Another spelling of `p999`.
pub(crate) const FINEST: &str = "p99.9";

/// Most figures of a plan.
const FIGURES_MAX: usize = 1000;

impl Reading<'_> {
    /// What has to hold.
    pub(crate) fn goals(&self, node: &Node<'_>) -> Vec<Goal> {
        let Some(section) = self.table(node, "[goals]") else {
            return Vec::new();
        };
        let finest = section.get(FINEST).map(|_| FINEST);
        let names: Vec<&str> = GOALS.iter().map(|key| key.name).chain(finest).collect();
        self.known_names(&section, &names, &|_| None);
        let goal = |node| {
            let node = &self.undotted(node)?;
            let key = GOALS.iter().find(|key| key.name == quantity::plain(node.key))?;
            let (limit, unit) = match key.takes {
                Takes::Share(..) => (self.share(node, &key.takes)?, "%"),
                Takes::Rate => (self.rate(node)?, "1/s"),
                Takes::Time(..) => (self.whole(node, &key.takes)? as f64, "ns"),
                _ => (self.whole(node, &key.takes)? as f64, ""),
            };
            Some(Goal { what: GoalKind::named(key.name)?, limit, unit: unit.to_owned() })
        };
        section.entries().into_iter().filter_map(goal).collect()
    }

    /// TOML takes `p99.9` without quotes for the key `9` of a table `p99`; the node of what was meant.
    fn undotted<'a>(&self, node: Node<'a>) -> Option<Node<'a>> {
        if node.key != "p99" || !matches!(node.kind, Kind::Table(_)) {
            return Some(node);
        }
        let parts = self.table(&node, "p99 of [goals]")?;
        self.known_names(&parts, &["9"], &|_| None);
        parts.get("9").map(|node| Node { key: FINEST, ..node })
    }

    /// Checks that some phase measures each goal.
    pub(crate) fn measured(&self, node: &Node<'_>, phases: &[PhaseDraft]) {
        let Some(section) = self.table(node, "[goals]") else { return };
        for node in section.entries() {
            let by: &[PhaseKind] = match node.key {
                "lost" => &[PhaseKind::Check],
                "wrong" => &[PhaseKind::Check, PhaseKind::Ask, PhaseKind::Drive],
                _ => &[PhaseKind::Drive],
            };
            if !phases.iter().any(|phase| by.contains(&phase.kind)) {
                let what = format!("no phase measures `{}`", node.key);
                let needed = by.iter().map(|kind| format!("do = \"{}\"", kind.name())).collect::<Vec<_>>().join(" or ");
                self.problem(node.span.clone(), what, Some(format!("it needs a phase with {needed}")));
            }
        }
    }

    /// The figures that are wanted.
    pub(crate) fn figures(&self, node: &Node<'_>, names: &Names<'_>) -> Vec<Figure> {
        let tables = self.tables(node).unwrap_or_default();
        if tables.len() > FIGURES_MAX {
            self.problem(node.span.clone(), format!("{} figures are more than {FIGURES_MAX}", tables.len()), None);
            return Vec::new();
        }
        let mut figures: Vec<Figure> = Vec::new();
        for table in &tables {
            let Some(section) = self.section(table, "a figure", &[FIGURE]) else {
                continue;
            };
            let name = self.required(&section, "name", "`name = \"load\"`");
            let formula = self.required(&section, "formula", "`formula = \"load.seconds\"`");
            let unit = section.get("unit").and_then(|node| self.text(&node)).unwrap_or_default();
            let mut published = section.get("published").map(|node| self.published(&node)).unwrap_or_default();
            if let Some(node) = section.get("published_table") {
                for table in self.tables(&node).unwrap_or_default() {
                    published.extend(self.published_table(&table).unwrap_or_default());
                }
            }
            let (Some(name), Some(formula)) = (name, formula) else {
                continue;
            };
            let text = self.text(&formula).inspect(|text| self.formula(&formula, text, names));
            let (Some(called), Some(text)) = (self.text(&name), text) else { continue };
            if figures.iter().any(|figure| figure.name == called) {
                self.problem(name.span, format!("another figure is named `{}` already", short(called)), None);
            }
            let (name, formula) = (called.to_owned(), text.to_owned());
            figures.push(Figure { name, unit: unit.to_owned(), formula, published });
        }
        figures
    }

    fn published(&self, node: &Node<'_>) -> Vec<Published> {
        let mut published = Vec::new();
        for table in self.tables(node).unwrap_or_default() {
            let Some(section) = self.section(&table, "a published value", &[PUBLISHED]) else {
                continue;
            };
            let value = self.required(&section, "value", "`value = 1.91`").and_then(|node| self.number(&node));
            let of = self.required(&section, "of", "`of = \"what it was measured on\"`");
            if let (Some(value), Some(of)) = (value, of.and_then(|node| self.text(&node))) {
                published.push(Published { value, of: of.to_owned(), at: BTreeMap::new() });
            }
        }
        published
    }
}

impl Reading<'_> {
    /// Values published for each point of two swept keys: a line of values of the one, then lines that begin with a
    /// value of the other.
    fn published_table(&self, node: &Node<'_>) -> Option<Vec<Published>> {
        let section = self.section(node, "a published table", &[PUBLISHED_TABLE])?;
        let of = self.required(&section, "of", "`of = \"what it was measured on\"`").and_then(|node| self.text(&node));
        let swept = |key: &str| {
            let node = self.required(&section, key, &format!("`{key} = \"clients\"`"))?;
            self.swept_key(&node)?;
            self.text(&node).map(str::to_owned)
        };
        let (rows, columns) = (swept("rows"), swept("columns"));
        let text = self.required(&section, "text", "`text = \"\"\"…\"\"\"`")?;
        let (of, rows, columns) = (of?, rows?, columns?);
        let mut lines = self.text(&text)?.lines().map(str::trim).filter(|line| !line.is_empty());
        let head: Vec<&str> = lines.next().unwrap_or_default().split_whitespace().collect();
        let mut all = Vec::new();
        for line in lines {
            let mut words = line.split_whitespace();
            let row = words.next().unwrap_or_default();
            let values: Option<Vec<f64>> =
                words.map(|word| word.parse().ok().filter(|v: &f64| v.is_finite())).collect();
            let Some(values) = values.filter(|values| values.len() == head.len()) else {
                let what =
                    format!("the line of {} needs {} numbers, one for each of the first line", short(row), head.len());
                return self.refuse(text.span.clone(), what, None);
            };
            for (column, value) in head.iter().zip(values) {
                let at = [(rows.clone(), row.to_owned()), (columns.clone(), (*column).to_owned())];
                all.push(Published { value, of: of.to_owned(), at: at.into() });
            }
        }
        Some(all)
    }
}
