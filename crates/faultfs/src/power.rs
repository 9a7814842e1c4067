//! The power of a device, and what goes wrong with it: when it goes, what becomes of each request, and how late that is said.

use std::time::Duration;

use plimsoll_core::fault::{CutMoment, ErrorMode, Fault, RequestKind};
use plimsoll_core::random::SplitMix;
use rustix::io::Errno;

use crate::counters::{AtRisk, Counters, Cut, SECTOR_BYTES};
use crate::log::now_ns;

/// What is wrong now.
#[derive(Debug, Default)]
struct Faults {
    ignores_flushes: bool,
    is_full: bool,
    eio: [Option<ErrorMode>; 3],
    delay: [Option<(Duration, Duration, SplitMix)>; 3],
    bit_rot: Option<(u64, f64)>,
}

/// What becomes of a request.
pub(crate) enum Fate {
    Done,
    Failed(Errno),
    /// Answered "done" without being so.
    Dropped,
}

/// A cut that is armed, and what has arrived since.
#[derive(Debug)]
struct Armed {
    at: CutMoment,
    freezes: bool,
    writes: u64,
    flushes: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Power {
    faults: Faults,
    armed: Option<Armed>,
    cut: Option<Cut>,
    is_frozen: bool,
    /// When it freezes, or has: flushes fail from then on.
    halts: bool,
    pub(crate) counters: Counters,
}

impl Power {
    /// The cut that has happened.
    pub(crate) fn cut(&self) -> Option<Cut> {
        self.cut
    }

    /// Whether the cut that has happened is one that those above do not notice.
    pub(crate) fn is_frozen(&self) -> bool {
        self.is_frozen
    }

    /// Whether everything is answered EIO.
    pub(crate) fn is_dead(&self) -> bool {
        self.cut.is_some() && !self.is_frozen
    }

    /// Has the power go as told, or with `freezes` the device freeze; false when it has gone, and cannot go later. A cut that is to be
    /// now is the caller's to carry out, where [`Self::cut`] is none.
    pub(crate) fn arm(&mut self, at: CutMoment, freezes: bool) -> bool {
        if self.cut.is_some() {
            return at == CutMoment::Now;
        }
        // A cut now has seen what one that was awaited had.
        let (writes, flushes) = match &self.armed {
            Some(armed) if at == CutMoment::Now => (armed.writes, armed.flushes),
            _ => (0, 0),
        };
        self.armed = Some(Armed { at, freezes, writes, flushes });
        true
    }

    /// Has flushes fail from the freeze on that comes.
    pub(crate) fn halt(&mut self) {
        self.halts |= self.cut.is_none();
    }

    /// Whether flushes fail when it freezes.
    pub(crate) fn halts(&self) -> bool {
        self.halts
    }

    /// Whether the power is to go.
    pub(crate) fn is_armed(&self) -> bool {
        self.armed.is_some()
    }

    /// Whether it is to freeze when the power goes.
    pub(crate) fn freezes(&self) -> bool {
        self.armed.as_ref().is_some_and(|armed| armed.freezes)
    }

    /// The cut; what is answered to the request that it comes with.
    pub(crate) fn off(&mut self, at_risk: AtRisk) -> Result<(), Errno> {
        let armed = self.armed.take();
        let (writes_seen, flushes_seen) = armed.as_ref().map_or((0, 0), |armed| (armed.writes, armed.flushes));
        self.cut = Some(Cut { at_ns: now_ns(), at_risk, writes_seen, flushes_seen });
        self.is_frozen = armed.is_some_and(|armed| armed.freezes);
        if self.is_frozen { Ok(()) } else { Err(Errno::IO) }
    }

    /// The end of a cut. Faults stay as they are set.
    pub(crate) fn on(&mut self) {
        (self.cut, self.is_frozen, self.halts) = (None, false, false);
    }

    pub(crate) fn set(&mut self, fault: Fault) {
        match fault {
            Fault::IgnoreFlushes => self.faults.ignores_flushes = true,
            Fault::Eio { on, how } => self.faults.eio[on as usize] = Some(how),
            Fault::Delay { on, median, jitter, seed } => {
                let is_late = !median.is_zero() || !jitter.is_zero();
                self.faults.delay[on as usize] = is_late.then(|| (median, jitter, SplitMix::new(seed)));
            }
            Fault::Full => self.faults.is_full = true,
            Fault::BitRot { seed, share } => self.faults.bit_rot = Some((seed, share)),
        }
    }

    /// Nothing is wrong any more; a cut that is armed stays so.
    pub(crate) fn mend(&mut self) {
        self.faults = Faults::default();
    }

    /// Nothing is wrong any more, and no cut is armed.
    pub(crate) fn clear(&mut self) {
        self.mend();
        (self.armed, self.halts) = (None, false);
    }

    /// How late the next such request is to be answered.
    pub(crate) fn delay(&mut self, on: RequestKind) -> Option<Duration> {
        if self.cut.is_some() {
            return None;
        }
        let (median, jitter, random) = self.faults.delay[on as usize].as_mut()?;
        Some(*median - *jitter + jitter.mul_f64(2.0 * random.share()))
    }

    /// Counts a write; whether the power goes with it.
    pub(crate) fn count_write(&mut self, bytes: u64) -> bool {
        self.counters.writes += 1;
        self.counters.bytes += bytes;
        self.armed.as_mut().is_some_and(|armed| {
            armed.writes += 1;
            armed.at == CutMoment::Write(armed.writes)
        })
    }

    /// Counts a flush; whether the power goes with it.
    pub(crate) fn count_flush(&mut self) -> bool {
        self.counters.flushes += 1;
        self.armed.as_mut().is_some_and(|armed| {
            armed.flushes += 1;
            armed.at == CutMoment::Flush(armed.flushes)
        })
    }

    /// Whether flushes are answered, and make nothing durable.
    pub(crate) fn ignores_flushes(&self) -> bool {
        self.faults.ignores_flushes
    }

    /// Whether there is no room for what is written.
    pub(crate) fn is_full(&self) -> bool {
        self.faults.is_full
    }

    pub(crate) fn fate(&mut self, on: RequestKind) -> Fate {
        let how = &mut self.faults.eio[on as usize];
        match how {
            None if on == RequestKind::Flush && self.faults.ignores_flushes => Fate::Dropped,
            None => Fate::Done,
            Some(ErrorMode::Always) => Fate::Failed(Errno::IO),
            Some(ErrorMode::Once) => {
                *how = None;
                Fate::Failed(Errno::IO)
            }
            Some(ErrorMode::Silent(0)) => {
                *how = None;
                self.fate(on)
            }
            Some(ErrorMode::Silent(left)) => {
                *left -= 1;
                Fate::Dropped
            }
        }
    }

    /// Flips the bits of what is read from a sector on that have rotted.
    pub(crate) fn rot(&self, first_sector: u64, bytes: &mut [u8]) {
        let Some((seed, share)) = self.faults.bit_rot else { return };
        for (sector, bytes) in (first_sector..).zip(bytes.chunks_mut(SECTOR_BYTES as usize)) {
            let mut random = SplitMix::new(seed ^ sector.wrapping_mul(0xd6e8_feb8_6659_fd93));
            if random.share() < share {
                let bit = random.bits() % (8 * SECTOR_BYTES);
                if let Some(byte) = bytes.get_mut((bit / 8) as usize) {
                    *byte ^= 1 << (bit % 8);
                }
            }
        }
    }
}
