//! Parts of the un-flushed writes that survive a cut, as a pure function of their order and lengths.

use plimsoll_core::fault::Survivors;
use plimsoll_core::random::SplitMix;

/// Sectors of one un-flushed operation that are there after the cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SurvivingSectors {
    /// Index of the operation.
    pub operation: usize,
    /// First surviving sector, counted from the write's first one.
    pub first: u64,
    /// Number of sectors.
    pub sectors: u64,
}

/// Returns the surviving parts of operations, each given as its number of sectors and true for a write; a discard is
/// not torn. Pieces come in the order in which they are to be applied.
pub(crate) fn surviving(operations: impl Iterator<Item = (u64, bool)>, survivors: Survivors) -> Vec<SurvivingSectors> {
    let mut pieces = Vec::new();
    let mut random = SplitMix::new(if let Survivors::Random { seed, .. } = survivors { seed } else { 0 });
    let mut writes_before = 0;
    for (operation, (sectors, is_write)) in operations.enumerate() {
        let mut keep = |first, sectors| pieces.push(SurvivingSectors { operation, first, sectors });
        match survivors {
            Survivors::None => {}
            Survivors::All => keep(0, sectors),
            Survivors::Random { share, tear: true, .. } if is_write => {
                for sector in 0..sectors {
                    if random.share() < share {
                        keep(sector, 1);
                    }
                }
            }
            Survivors::Random { share, .. } => {
                if random.share() < share {
                    keep(0, sectors);
                }
            }
            Survivors::Prefix { writes, .. } if writes_before < writes => keep(0, sectors),
            Survivors::Prefix { writes, tear } => {
                if tear && is_write && writes_before == writes && sectors > 1 {
                    keep(0, sectors / 2);
                }
            }
        }
        writes_before += u64::from(is_write);
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_ends_before_what_follows_its_last_write_but_one_and_tears_the_next() {
        let operations = [(8, true), (100, false), (4, true), (4, true)];
        let kept = |survivors| surviving(operations.into_iter(), survivors);
        let piece = |operation, sectors| SurvivingSectors { operation, first: 0, sectors };
        assert_eq!(kept(Survivors::Prefix { writes: 1, tear: false }), [piece(0, 8)]);
        assert_eq!(kept(Survivors::Prefix { writes: 0, tear: true }), [piece(0, 4)]);
        let two = kept(Survivors::Prefix { writes: 2, tear: true });
        assert_eq!(two, [piece(0, 8), piece(1, 100), piece(2, 4), piece(3, 2)]);
        assert_eq!(kept(Survivors::Prefix { writes: 9, tear: true }), kept(Survivors::All));
    }

    #[test]
    fn a_share_is_kept_whole_unless_it_may_tear() {
        let operations = || (0..10_000).map(|_| (8, true));
        let whole = surviving(operations(), Survivors::Random { seed: 1, share: 0.25, tear: false });
        assert!(whole.iter().all(|piece| piece.sectors == 8));
        assert!((2_300..2_700).contains(&whole.len()), "{}", whole.len());
        let torn = surviving(operations(), Survivors::Random { seed: 1, share: 0.25, tear: true });
        assert!((19_000..21_000).contains(&torn.len()), "{}", torn.len());
        assert!(torn.iter().any(|piece| piece.first == 0) && torn.iter().any(|piece| piece.first == 7));
        let again = surviving(operations(), Survivors::Random { seed: 1, share: 0.25, tear: true });
        assert_eq!(torn, again);
        assert!(surviving(operations(), Survivors::Random { seed: 1, share: 0.0, tear: false }).is_empty());
    }
}
