//! Drawing of the display: a pure function of the run's state and the settings that keys change.

use std::borrow::Cow;

use plimsoll_analysis::live::LiveGoal;
use plimsoll_analysis::number;
use plimsoll_analysis::slices::SliceRow;
use plimsoll_record::data::FaultSpan;
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};
use ratatui::widgets::{Sparkline, Widget};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use super::heat::Columns;
use super::keys::{HELP, LiveKeys};
use super::panels::{LivePanel, WHOLE, panels};
use super::state::LiveFrame;
use crate::progress;

/// Columns for labels to the left of plots.
const LABELS: u16 = 9;
/// Columns for labels to the left of percentiles.
const ROW_LABELS: usize = 6;
/// Most columns of a percentile.
const PERCENTILE_MAX: usize = 14;
/// Below these columns, lines are shortened.
const NARROW: u16 = 60;
/// Percentiles of the display, by the name that rows and times know.
const PERCENTILES: [&str; 3] = ["p50", "p95", "p99"];
/// Keys, in a line.
const KEYS: &str = "q leave  space pause  + - zoom  p percentiles  o type  ? help  Ctrl-C end run";

/// Emphasis of a text.
#[derive(Clone, Copy)]
enum Emphasis {
    Plain,
    Heading,
    Good,
    Bad,
}

/// Draws `run` on the whole of `frame`; in colours if `colour` is true.
pub fn draw(frame: &mut Frame<'_>, run: &LiveFrame<'_>, keys: &LiveKeys, colour: bool) {
    let area = frame.area();
    if area.is_empty() {
        return;
    }
    let (panels, is_cut) = panels(run, keys, area.height);
    let mut canvas = Canvas { buffer: frame.buffer_mut(), area, colour };
    let mut y = area.y;
    for (panel, rows) in panels {
        let place = Rect { y, height: rows, ..area };
        match panel {
            LivePanel::Title => canvas.line(y, &title(run, keys), Emphasis::Heading),
            LivePanel::Goals => canvas.goals(place, run.goals),
            LivePanel::Throughput => canvas.throughput(place, run, keys),
            LivePanel::Percentiles => canvas.percentiles(y, run),
            LivePanel::Errors => canvas.errors(y, run),
            LivePanel::Faults => canvas.faults(place, run.faults),
            LivePanel::Heat => canvas.heat(place, run, keys),
            LivePanel::Moments => canvas.list(place, "Slow moments so far", &run.moments),
            LivePanel::Servers => canvas.list(place, "Servers", &run.servers),
            LivePanel::Unusual => canvas.list(place, "Unusual now", &run.unusual),
            LivePanel::Cells => canvas.cells(place, run),
            LivePanel::Remarks => canvas.remarks(place, run.remarks),
            LivePanel::Help => canvas.help(y, rows),
            LivePanel::Keys => canvas.keys(is_cut),
        }
        y += rows;
    }
}

/// Returns the first line: a pause of the display, trial, phase, elapsed and remaining time, and the selected operation
/// type.
fn title(run: &LiveFrame<'_>, keys: &LiveKeys) -> String {
    let mut parts: Vec<String> = keys.paused.then(|| "PAUSED".to_owned()).into_iter().collect();
    parts.push(run.cells.map_or_else(|| run.position.to_owned(), progress::cells_head));
    if run.cells.is_none() {
        if let Some(phase) = run.phase {
            parts.push(phase.to_owned());
            if run.is_over {
                parts.push("ended".to_owned());
            } else {
                parts.extend(progress::course(run.elapsed, run.loaded, run.takes));
            }
        }
        let is_warmup = run.newest.and_then(|newest| newest.back()).is_some_and(|row| row.warmup) && !run.is_over;
        parts.extend(is_warmup.then(|| "warm-up".to_owned()));
        parts.extend(run.selected.map(|selected| format!("only {selected}")));
    }
    if run.is_over || run.newest.is_none_or(|newest| newest.is_empty()) {
        parts.push(run.step.to_owned());
    }
    parts.retain(|part| !part.is_empty());
    parts.join(" · ")
}

/// Returns the line of a goal: `p99 12.3 ms · 38 % left · ≤ 20.0 ms`.
fn goal_line(goal: &LiveGoal) -> (String, Emphasis) {
    let sign = if goal.at_least { '≥' } else { '≤' };
    let limit = format!("{sign} {}", number::limit(goal.limit, &goal.unit));
    let Some(seen) = goal.seen else {
        let when = if goal.at_end { "judged at the end" } else { "no value so far" };
        return (format!("{} {limit} · {when}", goal.name), Emphasis::Plain);
    };
    let emphasis = if goal.holds == Some(false) { Emphasis::Bad } else { Emphasis::Good };
    let margin = match goal.margin() {
        Some(margin) if margin >= 0.0 => format!("{:.0} % left", margin * 100.0),
        Some(margin) if margin <= -9.0 => format!("{} times the limit", number::significant(1.0 - margin)),
        Some(margin) => format!("{:.0} % {}", -margin * 100.0, if goal.at_least { "short" } else { "over" }),
        None if goal.holds == Some(false) => "missed".to_owned(),
        None => "holds".to_owned(),
    };
    let seen = number::lower_bound(number::beside_limit(seen, goal.limit, &goal.unit), goal.open);
    (format!("{} {seen} · {margin} · {limit}", goal.name), emphasis)
}

/// Returns the margin of a goal, by which the worst comes first.
fn room(goal: &LiveGoal) -> f64 {
    let without = if goal.holds == Some(false) { f64::NEG_INFINITY } else { f64::INFINITY };
    goal.margin().unwrap_or(without)
}

/// Returns `text` with an ellipsis if it is wider than `width`.
fn fit(text: &str, width: usize) -> Cow<'_, str> {
    if text.width() <= width {
        return Cow::Borrowed(text);
    }
    let mut taken = 1;
    let mut shown: String = text
        .chars()
        .take_while(|letter| {
            taken += letter.width().unwrap_or(0);
            taken <= width
        })
        .collect();
    shown.push('…');
    Cow::Owned(shown)
}

/// Buffer of a frame, its area, and the use of colours.
struct Canvas<'b> {
    buffer: &'b mut Buffer,
    area: Rect,
    colour: bool,
}

impl Canvas<'_> {
    /// Writes `text` on row `y`, shortened to the width.
    fn line(&mut self, y: u16, text: &str, emphasis: Emphasis) {
        let width = usize::from(self.area.width);
        if y < self.area.bottom() && width > 0 {
            let style = self.style(emphasis);
            self.buffer.set_stringn(self.area.x, y, fit(text, width), width, style);
        }
    }

    /// Returns the style of an emphasis. Green and red of the terminal's own sixteen colours are legible on light and
    /// dark.
    fn style(&self, emphasis: Emphasis) -> Style {
        let colour = |colour: Color| if self.colour { Style::new().fg(colour) } else { Style::new() };
        match emphasis {
            Emphasis::Plain => Style::new(),
            Emphasis::Heading => Style::new().add_modifier(Modifier::BOLD),
            Emphasis::Good => colour(Color::Green),
            Emphasis::Bad => colour(Color::Red).add_modifier(Modifier::BOLD),
        }
    }

    fn is_narrow(&self) -> bool {
        self.area.width < NARROW
    }

    fn columns(&self, run: &LiveFrame<'_>, keys: &LiveKeys) -> Columns {
        Columns { zoom: keys.zoom, width: usize::from(self.area.width.saturating_sub(LABELS)), last: run.slice }
    }

    /// Writes the goals with the least margin first.
    fn goals(&mut self, place: Rect, goals: &[LiveGoal]) {
        let mut goals: Vec<&LiveGoal> = goals.iter().collect();
        goals.sort_by(|a, b| room(a).total_cmp(&room(b)));
        let rows = usize::from(place.height);
        let hidden = goals.len().saturating_sub(rows);
        for ((y, at), goal) in (place.y..).zip(1..=rows).zip(goals) {
            let (mut text, emphasis) = goal_line(goal);
            if at == rows && hidden > 0 {
                text.push_str(&format!(" · +{hidden}{}", if self.is_narrow() { "" } else { " more" }));
            }
            self.line(y, &text, emphasis);
        }
    }

    fn throughput(&mut self, place: Rect, run: &LiveFrame<'_>, keys: &LiveKeys) {
        let (Some(newest), Some(done)) = (run.newest, run.done) else { return };
        let row = run.row();
        let per_s = |rate: f64| format!("{}/s", number::significant(rate));
        let now = row.map_or(Some(0.0), |row| row.rate_per_s);
        let mut text = format!("Throughput {}", now.map_or("–".to_owned(), per_s));
        if let Some(mean) = done.rate_per_s() {
            text.push_str(&format!(", mean {}", per_s(mean)));
        }
        if let Some(silence_s) = run.silence_s {
            text.push_str(&format!(" · no answer for {}", number::lower_bound(number::seconds(silence_s), true)));
        }
        if let Some(row) = row.filter(|_| run.selected.is_none() && !self.is_narrow()) {
            let (in_flight, due) = (number::count(row.in_flight), number::count(row.due_unsent));
            text.push_str(&format!(" · {in_flight} in flight · {due} due and not sent"));
        }
        self.line(place.y, &text, Emphasis::Heading);
        let columns = self.columns(run, keys);
        if place.height > 1 && columns.width > 0 {
            let area = Rect {
                x: self.area.x + LABELS,
                y: place.y + 1,
                width: self.area.width - LABELS,
                height: place.height - 1,
            };
            Sparkline::default().data(columns.rates(newest)).render(area, self.buffer);
        }
    }

    fn percentiles(&mut self, y: u16, run: &LiveFrame<'_>) {
        let Some(done) = run.done else { return };
        let row = run.row();
        let labels = ROW_LABELS;
        let width = usize::from(self.area.width).saturating_sub(labels) / (PERCENTILES.len() + 1);
        let width = width.min(PERCENTILE_MAX);
        // Rejected operations have no time.
        let max = |ns: u64| Some(ns).filter(|ns| *ns > 0);
        let of_slice = PERCENTILES.map(|name| row?.percentile_ns(name)).into_iter();
        let of_slice = of_slice.chain([row.and_then(|row| max(row.max_ns))]);
        let of_phase = PERCENTILES.map(|name| done.times.percentile(name).ok());
        let of_phase = of_phase.into_iter().chain([max(done.times.max_ns())]);
        let cell = |ns: Option<u64>| format!("{:>width$}", ns.map_or("–".to_owned(), number::nanoseconds));
        let names: String = PERCENTILES.iter().chain(&["max"]).map(|name| format!("{name:>width$}")).collect();
        self.line(y, &format!("{:labels$}{names}", ""), Emphasis::Heading);
        self.line(y + 1, &format!("{:labels$}{}", "slice", of_slice.map(cell).collect::<String>()), Emphasis::Plain);
        self.line(y + 2, &format!("{:labels$}{}", "phase", of_phase.map(cell).collect::<String>()), Emphasis::Plain);
    }

    fn errors(&mut self, y: u16, run: &LiveFrame<'_>) {
        let Some(done) = run.done else { return };
        let newest = run.row().map_or(0, |row| row.rejected + row.unknown);
        let all = number::count(done.count + done.unfinished);
        // Errors of the warm-up are in the newest slice alone.
        if done.failed == 0 && newest == 0 {
            return self.line(y, &format!("Errors none of {all}"), Emphasis::Plain);
        }
        let share = done.error_percent().unwrap_or(0.0);
        let mut text = format!("Errors {} of {all} ({} %)", number::count(done.failed), number::significant(share));
        if !self.is_narrow() {
            let (rejected, unknown) = (number::count(done.rejected), number::count(done.unknown));
            text.push_str(&format!(": {rejected} rejected, {unknown} unknown"));
            if done.unfinished > 0 {
                text.push_str(&format!(", {} never sent", number::count(done.unfinished)));
            }
            text.push_str(&format!("; newest slice {}", number::count(newest)));
        }
        self.line(y, &text, Emphasis::Bad);
    }

    fn faults(&mut self, place: Rect, faults: &[FaultSpan]) {
        let in_progress = faults.iter().filter(|span| span.healed_ns.is_none());
        for (y, span) in (place.y..place.bottom()).zip(in_progress) {
            let name = span.with_subject(" · ");
            let since = number::seconds(span.begun_ns as f64 / 1e9);
            let state = match (&span.error, span.taken_ns) {
                (Some(_), _) => "failed",
                (None, Some(_)) => "in effect",
                (None, None) => "begins",
            };
            let text = format!("Fault {name} · since {since} of the run · {state}");
            self.line(y, &text, Emphasis::Bad);
        }
    }

    fn heat(&mut self, place: Rect, run: &LiveFrame<'_>, keys: &LiveKeys) {
        let Some((newest, row)) = run.newest.and_then(|newest| Some((newest, newest.back()?))) else { return };
        let length = |row: &SliceRow| row.end_s - row.start_s;
        // The newest slice may be a short one.
        let slice_s = newest.iter().rev().take(2).map(length).fold(0.0, f64::max);
        let column = number::seconds(slice_s * keys.zoom as f64);
        let shades = if self.is_narrow() { "" } else { " · ░ few █ most" };
        let what = number::capital(row.measure);
        self.line(place.y, &format!("{what} time, {column} a column{shades}"), Emphasis::Heading);
        let rows = self.columns(run, keys).heat(newest, usize::from(place.height.saturating_sub(1)));
        for (y, (label, cells)) in (place.y + 1..place.bottom()).zip(rows) {
            let labels = usize::from(LABELS) - 1;
            self.line(y, &format!("{label:>labels$} {cells}"), Emphasis::Plain);
        }
    }

    fn list(&mut self, place: Rect, heading: &str, lines: &[String]) {
        self.line(place.y, heading, Emphasis::Heading);
        for (y, line) in (place.y + 1..place.bottom()).zip(lines) {
            self.line(y, &format!("  {line}"), Emphasis::Plain);
        }
    }

    fn cells(&mut self, place: Rect, run: &LiveFrame<'_>) {
        let now = run.cells.map(|cells| cells.now.as_slice()).unwrap_or_default();
        for (y, (name, step)) in (place.y..place.bottom()).zip(now) {
            self.line(y, &format!("{name}: {step}"), Emphasis::Plain);
        }
    }

    /// Writes the newest remarks, the newest last.
    fn remarks(&mut self, place: Rect, remarks: &[String]) {
        let older = remarks.len().saturating_sub(usize::from(place.height));
        for (y, remark) in (place.y..place.bottom()).zip(remarks.iter().skip(older)) {
            self.line(y, &remark.replace('\n', " "), Emphasis::Plain);
        }
    }

    fn help(&mut self, y: u16, rows: u16) {
        self.line(y, "Keys", Emphasis::Heading);
        for (y, (key, effect)) in (y + 1..y + rows).zip(HELP) {
            self.line(y, &format!("  {key:8}{effect}"), Emphasis::Plain);
        }
    }

    /// Writes the last line: keys, or the size that all panels need if this one is too small.
    fn keys(&mut self, is_cut: bool) {
        let Rect { width, height, .. } = self.area;
        let y = self.area.bottom().saturating_sub(1);
        match is_cut || width < WHOLE.0 {
            true => {
                let text = format!("{width} × {height}: all panels need {} × {}", WHOLE.0, WHOLE.1);
                self.line(y, &text, Emphasis::Heading);
            }
            false => self.line(y, KEYS, Emphasis::Plain),
        }
    }
}
