//! Panels of the display, and the rows that each of them gets.

use super::keys::{HELP, LiveKeys};
use super::state::LiveFrame;

/// Size of a terminal that has room for every panel.
pub const WHOLE: (u16, u16) = (80, 24);

/// Panel of the display, in the order from top to bottom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LivePanel {
    /// Trial, phase, elapsed and remaining time.
    Title,
    /// Goals with the margin left.
    Goals,
    /// Throughput, and its course.
    Throughput,
    /// Percentiles of the newest slice and since the phase began.
    Percentiles,
    /// Errors since the phase began.
    Errors,
    /// Faults in progress.
    Faults,
    /// Heat map of response times over time.
    Heat,
    /// Slow moments of the phase so far.
    Moments,
    /// Answers of each of several servers.
    Servers,
    /// Unusual series.
    Unusual,
    /// Cells in progress.
    Cells,
    /// Newest remarks.
    Remarks,
    /// Help on keys.
    Help,
    /// Keys, or the size that all panels need.
    Keys,
}

/// Panels in the order in which they get their first rows.
const BY_WEIGHT: [LivePanel; 14] = [
    LivePanel::Title,
    LivePanel::Help,
    LivePanel::Goals,
    LivePanel::Percentiles,
    LivePanel::Throughput,
    LivePanel::Errors,
    LivePanel::Keys,
    LivePanel::Faults,
    LivePanel::Cells,
    LivePanel::Remarks,
    LivePanel::Moments,
    LivePanel::Heat,
    LivePanel::Unusual,
    LivePanel::Servers,
];

/// Returns the panels of a display with `height` rows from top to bottom, each with its number of rows; and true if a
/// panel with contents has no room.
pub fn panels(frame: &LiveFrame<'_>, keys: &LiveKeys, height: u16) -> (Vec<(LivePanel, u16)>, bool) {
    let mut left = height;
    let mut is_cut = false;
    let mut given: Vec<(LivePanel, u16)> = Vec::new();
    for panel in BY_WEIGHT {
        let (least, _) = wants(panel, frame, keys, height);
        let fits = least <= left;
        is_cut |= !fits;
        if fits && least > 0 {
            left -= least;
            given.push((panel, least));
        }
    }
    // The heat map gets the rest.
    for (panel, rows) in given.iter_mut().filter(|(panel, _)| *panel != LivePanel::Heat) {
        let more = wants(*panel, frame, keys, height).1.saturating_sub(*rows).min(left);
        (*rows, left) = (*rows + more, left - more);
    }
    if let Some((_, rows)) = given.iter_mut().find(|(panel, _)| *panel == LivePanel::Heat) {
        *rows += left;
    }
    given.sort_unstable();
    (given, is_cut)
}

/// Returns the least number of rows that a panel needs, 0 without contents, and the largest that it uses.
fn wants(panel: LivePanel, frame: &LiveFrame<'_>, keys: &LiveKeys, height: u16) -> (u16, u16) {
    let count = |count: usize| u16::try_from(count).unwrap_or(u16::MAX);
    let lines = |lines: usize, most: u16| (count(lines).min(1), count(lines).min(most.max(1)));
    // A heading above the lines.
    let list = |lines: usize, most: u16| if lines == 0 { (0, 0) } else { (2, 1 + count(lines).min(most.max(1))) };
    let has_slices = frame.newest.is_some_and(|newest| !newest.is_empty());
    let if_so = |is_so: bool, rows: (u16, u16)| if is_so { rows } else { (0, 0) };
    match panel {
        LivePanel::Title | LivePanel::Keys => (1, 1),
        LivePanel::Help => if_so(keys.help, (1, count(HELP.len()) + 1)),
        _ if keys.help => (0, 0),
        LivePanel::Goals => lines(frame.goals.len(), height / 6),
        LivePanel::Throughput => if_so(has_slices, (1, if height >= 40 { 6 } else { 3 })),
        LivePanel::Percentiles => if_so(has_slices && keys.percentiles, (3, 3)),
        LivePanel::Errors => if_so(has_slices, (1, 1)),
        LivePanel::Faults => lines(frame.faults.iter().filter(|span| span.healed_ns.is_none()).count(), 4),
        LivePanel::Heat => if_so(has_slices, (5, 5)),
        LivePanel::Moments => list(frame.moments.len(), height / 12),
        LivePanel::Servers => list(frame.servers.len(), height / 4),
        LivePanel::Unusual => list(frame.unusual.len(), height / 12),
        LivePanel::Cells => lines(frame.cells.map_or(0, |cells| cells.now.len()), height / 2),
        LivePanel::Remarks => lines(frame.remarks.len(), height / 8),
    }
}
