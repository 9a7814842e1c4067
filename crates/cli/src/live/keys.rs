//! Keys of the display, and the settings that they change.

/// Keys and their effects, as the help shows them.
pub const HELP: [(&str, &str); 8] = [
    ("q, Esc", "leave the display; progress lines follow"),
    ("space", "pause the display, or go on; the run continues meanwhile"),
    ("+", "zoom in: fewer slices to a column of the plots"),
    ("-", "zoom out: more slices to a column"),
    ("p", "show or hide percentiles"),
    ("o", "next operation type"),
    ("?", "show or hide this help"),
    ("Ctrl-C", "end the run and report; twice: abort"),
];

/// The key Esc.
const ESC: char = '\u{1b}';
/// Most slices of a column.
const ZOOM_MAX: usize = 16;

/// Settings of the display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveKeys {
    /// Number of slices in a column.
    pub zoom: usize,
    /// True if percentiles are shown.
    pub percentiles: bool,
    /// Selected operation type, from 1; 0 for all together.
    pub selected: usize,
    /// True if the display keeps the contents that it had when it was paused.
    pub paused: bool,
    /// True if the help is shown.
    pub help: bool,
}

impl Default for LiveKeys {
    fn default() -> Self {
        Self { zoom: 1, percentiles: true, selected: 0, paused: false, help: false }
    }
}

impl LiveKeys {
    /// Takes a key while `types` operation types are known. Returns true if it leaves the display.
    pub fn press(&mut self, key: char, types: usize) -> bool {
        match key {
            'q' | ESC => return true,
            ' ' => self.paused = !self.paused,
            // `+` without Shift, as most keyboards have it.
            '+' | '=' => self.zoom = (self.zoom / 2).max(1),
            '-' => self.zoom = (self.zoom * 2).min(ZOOM_MAX),
            'p' => self.percentiles = !self.percentiles,
            'o' => self.selected = if self.selected >= types { 0 } else { self.selected + 1 },
            '?' => self.help = !self.help,
            _ => {}
        }
        false
    }
}

/// Returns the keys in `bytes` that a terminal sent at once. A sequence, such as that of an arrow key, is ignored.
pub fn pressed(bytes: &[u8]) -> Vec<char> {
    match bytes {
        [0x1b, _, ..] => Vec::new(),
        bytes => bytes.iter().map(|byte| char::from(*byte)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_change_the_settings_within_their_bounds() {
        let mut keys = LiveKeys::default();
        let mut press = |typed: &str| {
            assert!(typed.chars().all(|key| !keys.press(key, 2)), "{typed}");
            keys.clone()
        };
        assert_eq!(press("+").zoom, 1);
        assert_eq!(press("-------").zoom, ZOOM_MAX);
        assert_eq!(press("=").zoom, ZOOM_MAX / 2);
        assert!(!press("p").percentiles && press("p").percentiles);
        assert!(press(" ").paused && !press(" ").paused);
        assert_eq!(["o", "o", "o"].map(|key| press(key).selected), [1, 2, 0]);
        assert!(press("?").help && !press("?x").help);
    }

    #[test]
    fn q_and_esc_leave_and_an_arrow_does_not() {
        for (typed, leaves) in [("q", true), ("\u{1b}", true), ("\u{1b}[A", false), ("xp", false)] {
            let mut keys = LiveKeys::default();
            let left = pressed(typed.as_bytes()).into_iter().any(|key| keys.press(key, 0));
            assert_eq!(left, leaves, "{typed:?}");
        }
    }
}
