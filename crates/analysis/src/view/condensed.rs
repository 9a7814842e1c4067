//! Panels with fewer points than slices: columns of several slices, with their mean and their extremes.

use std::ops::Range;

use super::{Line, Panel, Plots};

/// Fewest columns of a line, however many lines there are.
const COLUMNS_MIN: usize = 100;
/// Longest time from the end of a phase to the gap after it, in seconds. The gap is 1 µs after the end.
const GAP_S: f64 = 2e-6;

impl Plots {
    /// Returns the plots with about `values_max` values at most in all lines over time together.
    ///
    /// Lines with more values get columns of several slices. A column has the mean, and the lowest and highest value,
    /// so that a peak of one slice remains. Each phase begins a new column.
    pub fn condensed(&self, values_max: usize) -> Plots {
        let drive = [&self.throughput, &self.loading];
        let panels = drive.into_iter().chain(&self.latency).chain(&self.store).chain(&self.host).chain(&self.fine);
        let lines: usize = panels.map(|panel| panel.lines.len()).sum();
        let columns_max = (values_max / lines.max(1)).max(COLUMNS_MIN);
        let all =
            |panels: &[Panel]| -> Vec<Panel> { panels.iter().map(|panel| panel.in_columns(columns_max)).collect() };
        Plots {
            end_s: self.end_s,
            bands: self.bands.clone(),
            ops: self.ops.clone(),
            throughput: self.throughput.in_columns(columns_max),
            loading: self.loading.in_columns(columns_max),
            latency: all(&self.latency),
            heat: self.heat.clone(),
            curves: self.curves.clone(),
            store: all(&self.store),
            cycles: self.cycles.clone(),
            pauses: self.pauses.clone(),
            acts: self.acts.clone(),
            host: all(&self.host),
            fine: all(&self.fine),
            host_zero: self.host_zero.clone(),
        }
    }
}

impl Panel {
    /// Returns the panel with about `columns_max` times at most; unchanged if it has no more.
    fn in_columns(&self, columns_max: usize) -> Panel {
        let together = self.t_s.len().div_ceil(columns_max.max(1));
        if together <= 1 {
            return self.clone();
        }
        let columns = self.columns(together);
        let time = |points: &Range<usize>| {
            let points = self.t_s.get(points.clone()).unwrap_or_default();
            let (first, last) = (points.first().copied()?, points.last().copied()?);
            // A step lasts from its time to the next one; a reading is drawn in the middle of those it stands for.
            Some(if self.steps { first } else { f64::midpoint(first, last) })
        };
        Panel {
            name: self.name.clone(),
            unit: self.unit.clone(),
            source: self.source.clone(),
            steps: self.steps,
            primary: self.primary,
            t_s: columns.iter().filter_map(time).collect(),
            lines: self.lines.iter().map(|line| line.in_columns(&columns)).collect(),
        }
    }

    /// Returns the points of each column: `together` or fewer. A gap after a phase is a column of its own, and the end
    /// of a phase, where its last values are repeated, is in none.
    fn columns(&self, together: usize) -> Vec<Range<usize>> {
        let end = self.t_s.len();
        let mut columns = Vec::new();
        let mut from = 0;
        for gap in (1..end).filter(|at| self.is_gap(*at)).chain([end + 1]) {
            let last = gap - 1;
            columns.extend((from..last).step_by(together).map(|at| at..(at + together).min(last)));
            columns.extend((gap < end).then_some(gap..gap + 1));
            from = gap + 1;
        }
        columns
    }

    /// Returns true for the point without values just after the end of a phase.
    fn is_gap(&self, at: usize) -> bool {
        let (Some(before), Some(here)) = (at.checked_sub(1).and_then(|at| self.t_s.get(at)), self.t_s.get(at)) else {
            return false;
        };
        let is_close = *here > *before && *here - *before < GAP_S;
        self.steps && is_close && self.lines.iter().all(|line| line.values.get(at).is_none_or(Option::is_none))
    }
}

impl Line {
    fn in_columns(&self, columns: &[Range<usize>]) -> Line {
        let mean = |points: &Range<usize>| {
            let (sum, count) = self.known(points).fold((0.0, 0u32), |(sum, count), value| (sum + value, count + 1));
            (count > 0).then(|| sum / f64::from(count))
        };
        Line {
            name: self.name.clone(),
            values: columns.iter().map(mean).collect(),
            median: self.median,
            low: columns.iter().map(|points| self.known(points).reduce(f64::min)).collect(),
            high: columns.iter().map(|points| self.known(points).reduce(f64::max)).collect(),
        }
    }

    /// Iterates over the values that there are at these points.
    fn known(&self, points: &Range<usize>) -> impl Iterator<Item = f64> {
        self.values.get(points.clone()).unwrap_or_default().iter().flatten().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(steps: bool, t_s: &[f64], values: &[Option<f64>]) -> Panel {
        let name = || "one".to_owned();
        let lines = vec![Line::new(name(), values.to_vec())];
        let (unit, source) = (String::new(), name());
        Panel { name: name(), unit, source, steps, primary: true, t_s: t_s.to_vec(), lines }
    }

    #[test]
    fn a_column_has_the_mean_and_the_extremes_and_none_spans_two_phases() {
        // Two phases of three and two slices, the second of which follows the first at once.
        let t_s = [0.0, 1.0, 2.0, 3.0, 3.0 + 1e-6, 3.0, 4.0, 5.0, 5.0 + 1e-6];
        let values = [Some(1.0), Some(9.0), Some(4.0), Some(4.0), None, None, Some(6.0), Some(6.0), None];
        let panel = panel(true, &t_s, &values).in_columns(5);
        assert_eq!(panel.t_s, [0.0, 2.0, 3.0 + 1e-6, 3.0, 5.0 + 1e-6]);
        let line = &panel.lines[0];
        assert_eq!(line.values, [Some(5.0), Some(4.0), None, Some(6.0), None]);
        assert_eq!(line.low, [Some(1.0), Some(4.0), None, Some(6.0), None]);
        assert_eq!(line.high, [Some(9.0), Some(4.0), None, Some(6.0), None]);
        assert_eq!(line.median, Some(5.0), "the median is that of all slices");
    }

    #[test]
    fn readings_stand_in_the_middle_of_their_column_and_few_of_them_are_kept() {
        let read = panel(false, &[1.0, 2.0, 3.0, 4.0, 5.0], &[1.0, 2.0, 3.0, 4.0, 50.0].map(Some));
        let columns = read.in_columns(3);
        assert_eq!(columns.t_s, [1.5, 3.5, 5.0]);
        assert_eq!(columns.lines[0].values, [Some(1.5), Some(3.5), Some(50.0)]);
        assert_eq!(columns.lines[0].high, [Some(2.0), Some(4.0), Some(50.0)]);
        assert_eq!(read.in_columns(5), read);
    }
}
