//! Survivors among the unsynced changes at a cut, as a pure function of their order.

use std::collections::HashMap;

use plimsoll_core::fault::Survivors;
use plimsoll_core::random::SplitMix;

use crate::survivors::surviving;

/// Unit of unsynced data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unit {
    /// A change of names, sizes or attributes.
    Change,
    /// A page, by its file and number, and its sectors that were written.
    Page(u64, u64, u8),
}

/// Choice of survivors.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    /// Changes up to this one.
    pub(crate) upto: u64,
    /// Sectors of pages, by file and number.
    pub(crate) pages: HashMap<(u64, u64), u8>,
}

/// Chooses the survivors of `units`, which are in the order of their positions among all changes.
///
/// Changes survive in their order: none is there without all before it. Pages are there or not, each by itself.
pub(crate) fn choose(units: &[(u64, Unit)], survivors: Survivors) -> Choice {
    let mut choice = Choice::default();
    let pages: Vec<(u64, u64, u8)> =
        units
            .iter()
            .filter_map(|(_, unit)| {
                if let Unit::Page(file, number, sectors) = unit { Some((*file, *number, *sectors)) } else { None }
            })
            .collect();
    let changes: Vec<u64> = units.iter().filter(|(_, unit)| *unit == Unit::Change).map(|(seq, _)| *seq).collect();
    let (kept_changes, page_survivors) = match survivors {
        Survivors::None => (0, survivors),
        Survivors::All => (changes.len(), survivors),
        Survivors::Random { seed, share, .. } => {
            // The mean of u to the power of a is 1 / (1 + a), for u even between 0 and 1.
            let lot = SplitMix::new(!seed).share().powf(1.0 / share - 1.0);
            (((changes.len() + 1) as f64 * lot) as usize, survivors)
        }
        Survivors::Prefix { writes, tear } => {
            let is_before = |at: usize| (at as u64) < writes;
            let kept =
                units.iter().enumerate().filter(|(at, (_, unit))| is_before(*at) && *unit == Unit::Change).count();
            let of_pages =
                units.iter().enumerate().filter(|(at, (_, unit))| is_before(*at) && *unit != Unit::Change).count();
            // The next one is torn where it is a page.
            let tear = tear && units.get(writes as usize).is_some_and(|(_, unit)| *unit != Unit::Change);
            (kept, Survivors::Prefix { writes: of_pages as u64, tear })
        }
    };
    choice.upto = changes.get(..kept_changes.min(changes.len())).and_then(|kept| kept.last()).copied().unwrap_or(0);
    let shapes = pages.iter().map(|(_, _, sectors)| (u64::from(sectors.count_ones()), true));
    for piece in surviving(shapes, page_survivors) {
        let Some((file, number, sectors)) = pages.get(piece.operation) else { continue };
        let written = (0..8).filter(|sector| sectors & (1 << sector) != 0);
        let kept = written.skip(piece.first as usize).take(piece.sectors as usize);
        *choice.pages.entry((*file, *number)).or_default() |= kept.fold(0, |set, sector| set | (1 << sector));
    }
    choice
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNITS: [(u64, Unit); 4] =
        [(1, Unit::Change), (2, Unit::Page(7, 0, 0b1111)), (3, Unit::Change), (4, Unit::Page(7, 1, 0b1100))];

    #[test]
    fn a_prefix_counts_changes_and_pages_and_tears_the_page_behind_it() {
        let kept = |writes, tear| {
            let choice = choose(&UNITS, Survivors::Prefix { writes, tear });
            let page = |number| choice.pages.get(&(7, number)).copied().unwrap_or(0);
            (choice.upto, page(0), page(1))
        };
        assert_eq!(kept(0, true), (0, 0, 0));
        assert_eq!(kept(1, false), (1, 0, 0));
        assert_eq!(kept(1, true), (1, 0b11, 0));
        assert_eq!(kept(2, true), (1, 0b1111, 0));
        assert_eq!(kept(3, true), (3, 0b1111, 0b0100));
        assert_eq!(kept(9, true), (3, 0b1111, 0b1100));
    }

    #[test]
    fn by_lot_changes_survive_as_far_as_their_share_on_average() {
        let units: Vec<(u64, Unit)> = (1..=100).map(|seq| (seq, Unit::Change)).collect();
        let upto = |seed, share| choose(&units, Survivors::Random { seed, share, tear: false }).upto;
        assert_eq!((upto(1, 0.0), upto(1, 1.0)), (0, 100));
        for share in [0.25, 0.5, 0.75] {
            let mean = (0..2000).map(|seed| upto(seed, share)).sum::<u64>() as f64 / 2000.0;
            assert!((mean - 100.0 * share).abs() < 3.0, "{share}: {mean}");
        }
    }
}
