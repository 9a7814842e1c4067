//! The work that a server puts off and does in the background, and how often that comes: rewriting its append-only file
//! when that has grown, saving a snapshot when enough keys have changed.
//!
//! Only what the server's settings have it do by itself is a cycle. (What `settle` and `sync` ask for is not under load.)

use std::time::Instant;

use plimsoll_core::{Cycle, Reading, StoreError, StoreErrorKind};

use crate::control::Control;
use crate::facts::{Info, config};

/// Conditions of a server's background work, by its settings.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Rules {
    /// `auto-aof-rewrite-percentage`: how much the append-only file grows until it is rewritten; `None` is never.
    growth_percent: Option<f64>,
    /// `auto-aof-rewrite-min-size`, bytes.
    least_bytes: f64,
    /// `save`, as it stands in the settings.
    save: String,
    /// Pairs of `save`: seconds, and the number of changed keys that is needed.
    points: Vec<(f64, f64)>,
}

/// A server's rules, and where it stood when sessions were opened.
pub(crate) struct Background {
    rules: Rules,
    begun: Instant,
    before: Info,
}

impl Rules {
    /// `None` where settings may not be asked for.
    pub fn read(control: &mut Control) -> Result<Option<Self>, StoreError> {
        let mut value = |name: &str| config(control, name).map(Option::unwrap_or_default);
        let (percent, least, save) = match value("auto-aof-rewrite-percentage") {
            // Some have no CONFIG at all.
            Err(error) if matches!(error.kind, StoreErrorKind::Permission | StoreErrorKind::Store) => return Ok(None),
            percent => (percent?, value("auto-aof-rewrite-min-size")?, value("save")?),
        };
        Ok(Some(Self::of(&percent, &least, save)))
    }

    fn of(percent: &str, least: &str, save: String) -> Self {
        let numbers: Vec<f64> = save.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let points = numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
        let growth_percent = percent.parse().ok().filter(|percent| *percent > 0.0);
        Self { growth_percent, least_bytes: least.parse().unwrap_or(0.0), save, points }
    }

    /// Counts the server's own cycles by these rules, or by all rules if they are unknown.
    /// Versions before 7.0 count neither.
    pub fn cycles(rules: Option<&Self>, info: &Info, node: &str) -> Vec<Reading> {
        let rewrites = rules.is_none_or(|rules| rules.growth_percent.is_some()) && info.number("aof_enabled") > 0;
        let saves = rules.is_none_or(|rules| !rules.points.is_empty());
        let counted = [("aof_rewrites", rewrites), ("rdb_saves", saves)];
        let counted = counted.into_iter().filter(|(name, is_done)| *is_done && !info.text(name).is_empty());
        counted.map(|(name, _)| Reading::cycle(node, name, "", info.number(name) as f64)).collect()
    }

    /// Returns the cycle of rewriting the append-only file.
    fn rewrite(&self, before: &Info, now: &Info, elapsed_s: f64) -> Option<Cycle> {
        let percent = self.growth_percent.filter(|_| now.number("aof_enabled") > 0)?;
        let of = |info: &Info, name: &str| info.text(name).parse::<f64>().unwrap_or(0.0);
        let begun_at = of(now, "aof_base_size");
        let until = self.least_bytes.max(begun_at * (1.0 + percent / 100.0));
        let rewrites = of(now, "aof_rewrites") - of(before, "aof_rewrites");
        let between_s = if rewrites > 0.0 {
            elapsed_s / rewrites
        } else {
            let grown = of(now, "aof_current_size") - of(before, "aof_current_size");
            (until - begun_at).max(0.0) * elapsed_s / grown.max(0.0)
        };
        let seconds = between_s + of(now, "aof_last_rewrite_time_sec").max(0.0);
        seconds.is_finite().then(|| Cycle {
            seconds,
            by_work: true,
            words: format!(
                "The append-only file is rewritten when it has {:.0} MiB (auto-aof-rewrite-min-size, \
                 auto-aof-rewrite-percentage): after {seconds:.0} s at this pace. A smaller one (aof_rewrite_min_size) brings \
                 a rewrite into shorter load steps",
                until / f64::from(1 << 20)
            ),
        })
    }

    /// Returns the cycle of saving a snapshot.
    fn save(&self, before: &Info, now: &Info, elapsed_s: f64) -> Option<Cycle> {
        let of = |info: &Info, name: &str| info.text(name).parse::<f64>().unwrap_or(0.0);
        let changes = |info: &Info| of(info, "rdb_changes_since_last_save");
        let saves = of(now, "rdb_saves") - of(before, "rdb_saves");
        // What has changed since a save that ended meanwhile is more recent than all of the time.
        let changed = if saves > 0.0 { changes(now) } else { changes(now) - changes(before) };
        let (mut seconds, mut by_work) = (f64::INFINITY, false);
        for (at_least_s, least) in &self.points {
            let changed_s = least * elapsed_s / changed.max(0.0);
            if changed_s.max(*at_least_s) < seconds {
                (seconds, by_work) = (changed_s.max(*at_least_s), changed_s > *at_least_s);
            }
        }
        if saves > 0.0 {
            seconds = seconds.min(elapsed_s / saves);
        }
        seconds += of(now, "rdb_last_bgsave_time_sec").max(0.0);
        seconds.is_finite().then(|| Cycle {
            seconds,
            by_work,
            words: format!(
                "save is `{}`: a snapshot is saved every {seconds:.0} s at this pace. Other pairs bring one into shorter load steps",
                self.save
            ),
        })
    }
}

impl Background {
    /// Looks what the server does by itself and where it stands. `None` where settings or INFO may not be asked for.
    pub fn begin(control: &mut Control) -> Result<Option<Self>, StoreError> {
        let Some(rules) = Rules::read(control)? else { return Ok(None) };
        let before = Info::read_if_permitted(control)?;
        Ok(before.map(|before| Self { rules, begun: Instant::now(), before }))
    }

    /// Returns the cycle that comes first at the pace since then; `None` if none will come.
    pub fn cycle(&self, control: &mut Control) -> Result<Option<Cycle>, StoreError> {
        let now = Info::read(control)?;
        let elapsed_s = self.begun.elapsed().as_secs_f64();
        let both = [self.rules.rewrite(&self.before, &now, elapsed_s), self.rules.save(&self.before, &now, elapsed_s)];
        Ok(both.into_iter().flatten().min_by(|one, other| one.seconds.total_cmp(&other.seconds)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(lines: &[(&str, u64)]) -> Info {
        Info::parse(&lines.iter().map(|(name, value)| format!("{name}:{value}\r\n")).collect::<String>())
    }

    #[test]
    fn a_rewrite_comes_when_the_file_has_grown_enough() {
        let rules = Rules::of("100", "64000", String::new());
        let size = |base, current| {
            info(&[("aof_enabled", 1), ("aof_rewrites", 1), ("aof_base_size", base), ("aof_current_size", current)])
        };
        // Ten seconds brought 2,000 bytes: 60,000 more than the smallest take 300 s, 100,000 more 500 s.
        let cycle = rules.rewrite(&size(4_000, 4_000), &size(4_000, 6_000), 10.0).unwrap();
        assert_eq!((cycle.seconds, cycle.by_work), (300.0, true), "{}", cycle.words);
        let cycle = rules.rewrite(&size(100_000, 100_000), &size(100_000, 102_000), 10.0).unwrap();
        assert_eq!(cycle.seconds, 500.0, "{}", cycle.words);
        assert_eq!(rules.rewrite(&size(4_000, 4_000), &size(4_000, 4_000), 10.0), None, "nothing was written");
        let off = Rules::of("0", "64000", String::new());
        assert_eq!(off.rewrite(&size(4_000, 4_000), &size(4_000, 6_000), 10.0), None, "never by itself");
    }

    #[test]
    fn a_save_comes_by_the_pair_that_is_met_first() {
        let rules = Rules::of("100", "0", "3600 1 300 100 60 10000".to_owned());
        let changed = |count| info(&[("rdb_saves", 0), ("rdb_changes_since_last_save", count)]);
        let cycle = |count| rules.save(&changed(0), &changed(count), 10.0).map(|cycle| (cycle.seconds, cycle.by_work));
        // 1,000 a second are 10,000 long before the minute is over; 50 a second need 200 s; one in ten seconds an hour.
        assert_eq!(cycle(10_000), Some((60.0, false)));
        assert_eq!(cycle(500), Some((200.0, true)));
        assert_eq!(cycle(5), Some((300.0, false)));
        assert_eq!(cycle(1), Some((1_000.0, true)));
        assert_eq!(cycle(0), None);
        assert_eq!(Rules::of("100", "0", String::new()).save(&changed(0), &changed(500), 10.0), None);
    }
}
