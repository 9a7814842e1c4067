//! A set of nodes of a cluster, by their numbers.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Several nodes of a cluster, of the first 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeSet(u64);

impl NodeSet {
    /// Most nodes of a cluster of which sets are possible.
    pub const NODES_MAX: usize = u64::BITS as usize;

    /// Returns the set of these numbers, from 0; `None` if there are none, or one of them is too large.
    pub fn of(numbers: &[usize]) -> Option<Self> {
        let bit = |number: &usize| 1_u64.checked_shl(u32::try_from(*number).ok()?);
        let bits = numbers.iter().try_fold(0_u64, |bits, number| Some(bits | bit(number)?))?;
        (bits != 0).then_some(Self(bits))
    }

    /// Returns true if the node with this number, from 0, is one of them.
    pub fn has(self, number: usize) -> bool {
        number < Self::NODES_MAX && self.0 & (1_u64 << number) != 0
    }

    /// Returns true if a node is in both sets.
    pub fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    /// Returns the numbers, from 0, in order.
    pub fn numbers(self) -> impl Iterator<Item = usize> {
        (0..Self::NODES_MAX).filter(move |number| self.has(*number))
    }
}

/// The numbers from 1, as plans have them: `1,2`.
impl fmt::Display for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, number) in self.numbers().enumerate() {
            write!(f, "{}{}", if at > 0 { "," } else { "" }, number + 1)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_its_numbers_and_no_others() {
        let set = NodeSet::of(&[4, 0, 63]).unwrap();
        assert_eq!((set.to_string(), set.numbers().collect::<Vec<_>>()), ("1,5,64".to_owned(), vec![0, 4, 63]));
        assert!(set.has(4) && !set.has(1) && !set.has(64) && !set.has(usize::MAX));
        assert!(set.meets(NodeSet::of(&[4, 5]).unwrap()) && !set.meets(NodeSet::of(&[1, 5]).unwrap()));
        assert_eq!([NodeSet::of(&[]), NodeSet::of(&[1, 64]), NodeSet::of(&[usize::MAX])], [None; 3]);
    }
}
