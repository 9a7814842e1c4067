//! Operation types that a phase draws from a workload, with their shares and order.

use plimsoll_core::{KindId, StreamSpec};

use crate::scramble::{below, hash};

/// The kinds that `spec` asks of the workload `workload`, by their position in `names`, each with a share above zero.
///
/// # Errors
/// A sentence that says why it cannot: a load, a kind that is not among them, no share at all.
pub(crate) fn shares(
    workload: &str,
    names: &[impl AsRef<str>],
    spec: &StreamSpec,
) -> Result<Vec<(KindId, u32)>, String> {
    let one;
    let mix = match spec {
        StreamSpec::Load { .. } => {
            return Err(format!("`{workload}` has no records to load: leave the load phase out"));
        }
        StreamSpec::One { kind, .. } => {
            one = vec![(kind.clone(), 1)];
            &one
        }
        StreamSpec::Mix { mix, .. } => mix,
    };
    let mut shares = Vec::new();
    for (name, share) in mix.iter().filter(|(_, share)| *share > 0) {
        let Some(kind) = names.iter().position(|known| known.as_ref() == name) else {
            let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
            return Err(format!("`{workload}` has no operation type `{name}`, only {}", names.join(", ")));
        };
        shares.push((kind as KindId, *share));
    }
    if shares.is_empty() { Err("the mix gives no operation type a share".to_owned()) } else { Ok(shares) }
}

/// Kinds drawn by lot, each operation by itself.
#[derive(Debug, Clone)]
pub(crate) struct Lot {
    seed: u64,
    /// Upper ends of the kinds' shares.
    ends: Vec<(u64, KindId)>,
}

impl Lot {
    /// Draws by `shares`, which are not empty.
    pub fn new(seed: u64, shares: &[(KindId, u32)]) -> Self {
        let mut total = 0;
        let ends = shares.iter().map(|(kind, share)| {
            total += u64::from(*share);
            (total, *kind)
        });
        Self { seed, ends: ends.collect() }
    }

    /// Returns true if `kind` is among those that are drawn.
    pub fn has(&self, kind: KindId) -> bool {
        self.ends.iter().any(|(_, one)| *one == kind)
    }

    #[inline]
    pub fn draw(&self, client: u32, cycle: u64) -> Option<KindId> {
        if let [(_, only)] = self.ends[..] {
            return Some(only);
        }
        let (total, _) = self.ends.last()?;
        let choice = below(hash(self.seed, u64::from(client), cycle), *total);
        self.ends.iter().find(|(end, _)| choice < *end).map(|(_, kind)| *kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KINDS: [&str; 2] = ["read", "write"];

    fn of(mix: &[(&str, u32)]) -> Result<Vec<(KindId, u32)>, String> {
        let mix = mix.iter().map(|(kind, share)| ((*kind).to_owned(), *share)).collect();
        shares("toy", &KINDS, &StreamSpec::Mix { mix, clients: 1 })
    }

    #[test]
    fn a_mix_without_a_kind_or_with_an_unknown_one_is_refused() {
        assert_eq!(of(&[("write", 3), ("read", 0)]).unwrap(), [(1, 3)]);
        assert!(of(&[("read", 0)]).unwrap_err().contains("share"));
        assert_eq!(of(&[("scan", 1)]).unwrap_err(), "`toy` has no operation type `scan`, only read, write");
        assert!(shares("toy", &KINDS, &StreamSpec::Load { batch: 1, clients: 1 }).unwrap_err().contains("load"));
    }

    #[test]
    fn lots_fall_as_the_shares_say() {
        let lot = Lot::new(5, &of(&[("read", 3), ("write", 1)]).unwrap());
        let writes = (0..40_000).filter(|cycle| lot.draw(2, *cycle) == Some(1)).count();
        assert!((9_500..10_500).contains(&writes), "{writes}");
        assert_eq!(Lot::new(5, &[(1, 7)]).draw(0, 0), Some(1));
    }
}
