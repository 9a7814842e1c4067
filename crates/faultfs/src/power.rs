//! The power of a device, and what goes wrong with it: when it goes, what becomes of each request, and how late that is said.

use std::time::Duration;

use plimsoll_core::fault::{CutMoment, ErrorMode, Fault, RequestKind};
use plimsoll_core::random::SplitMix;
use rustix::io::Errno;

use crate::counters::{AtRisk, Counters, Cut, SECTOR_BYTES};
use crate::log::now_ns;
use crate::throttle::Throttle;

/// Present faults.
#[derive(Debug, Default)]
struct Faults {
    ignores_flushes: bool,
    is_full: bool,
    eio: [Option<ErrorMode>; 3],
    delay: [Option<(Duration, Duration, SplitMix)>; 3],
    bit_rot: Option<(u64, f64)>,
    throttle: Option<Throttle>,
}

/// Kinds of faults of which the requests are counted apart: errors and delays of three kinds of requests, and others.
const COUNTED: usize = 10;
const DELAYED: usize = 3;
const IGNORED: usize = 6;
const FULL: usize = 7;
const ROTTEN: usize = 8;
const SLOW: usize = 9;

/// Fate of a request.
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
    /// True if flushes fail after a freeze.
    halts: bool,
    pub(crate) counters: Counters,
    /// Requests that have met a fault so far, by its kind.
    met: [u64; COUNTED],
}

impl Power {
    /// The cut that has happened.
    pub(crate) fn cut(&self) -> Option<Cut> {
        self.cut
    }

    /// Returns true if the cut that has happened was a freeze, which the layers above do not notice.
    pub(crate) fn is_frozen(&self) -> bool {
        self.is_frozen
    }

    /// Returns true if every request is answered with EIO.
    pub(crate) fn is_dead(&self) -> bool {
        self.cut.is_some() && !self.is_frozen
    }

    /// Arms a power cut, or with `freezes` a freeze; returns false if power was cut before, and cannot be cut later.
    /// The caller carries out a cut that is due now, if [`Self::cut`] is `None`.
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

    /// Makes flushes fail from the armed freeze on.
    pub(crate) fn halt(&mut self) {
        self.halts |= self.cut.is_none();
    }

    /// Returns true if flushes fail after a freeze.
    pub(crate) fn halts(&self) -> bool {
        self.halts
    }

    /// Returns true if a cut is armed.
    pub(crate) fn is_armed(&self) -> bool {
        self.armed.is_some()
    }

    /// Returns true if the armed cut is a freeze.
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
            Fault::Speed { seek, bytes_per_s, layout } => {
                let seek_ns = u64::try_from(seek.as_nanos()).unwrap_or(u64::MAX);
                self.faults.throttle = Some(Throttle::new(seek_ns, bytes_per_s, layout));
            }
        }
    }

    /// Returns the number of requests that have met a fault of this kind so far, also before it was set again.
    pub(crate) fn met(&self, fault: Fault) -> u64 {
        self.met[match fault {
            Fault::Eio { on, .. } => on as usize,
            Fault::Delay { on, .. } => DELAYED + on as usize,
            Fault::IgnoreFlushes => IGNORED,
            Fault::Full => FULL,
            Fault::BitRot { .. } => ROTTEN,
            Fault::Speed { .. } => SLOW,
        }]
    }

    /// Removes all faults; an armed cut stays so.
    pub(crate) fn mend(&mut self) {
        self.faults = Faults::default();
    }

    /// Removes all faults and disarms the cut.
    pub(crate) fn clear(&mut self) {
        self.mend();
        (self.armed, self.halts) = (None, false);
    }

    /// Returns the delay of the next such request.
    pub(crate) fn delay(&mut self, on: RequestKind) -> Option<Duration> {
        if self.cut.is_some() {
            return None;
        }
        let (median, jitter, random) = self.faults.delay[on as usize].as_mut()?;
        self.met[DELAYED + on as usize] += 1;
        Some(*median - *jitter + jitter.mul_f64(2.0 * random.share()))
    }

    /// Returns the delay of the next such request, which is for `bytes` at `offset` of a device.
    pub(crate) fn delay_at(&mut self, on: RequestKind, offset: u64, bytes: u64) -> Option<Duration> {
        let delay = self.delay(on);
        let throttle = self.faults.throttle.as_mut().filter(|_| self.cut.is_none());
        let slow = throttle.map(|throttle| {
            let now_ns = now_ns();
            Duration::from_nanos(throttle.ends_ns(now_ns, on, offset, bytes) - now_ns)
        });
        self.met[SLOW] += u64::from(slow.is_some());
        delay.max(slow)
    }

    /// Counts a write; returns true if power is cut with it.
    pub(crate) fn count_write(&mut self, bytes: u64) -> bool {
        self.counters.writes += 1;
        self.counters.bytes += bytes;
        self.armed.as_mut().is_some_and(|armed| {
            armed.writes += 1;
            armed.at == CutMoment::Write(armed.writes)
        })
    }

    /// Counts a flush; returns true if power is cut with it.
    pub(crate) fn count_flush(&mut self) -> bool {
        self.counters.flushes += 1;
        self.armed.as_mut().is_some_and(|armed| {
            armed.flushes += 1;
            armed.at == CutMoment::Flush(armed.flushes)
        })
    }

    /// Returns true if flushes are acknowledged without making anything durable.
    pub(crate) fn ignores_flushes(&self) -> bool {
        self.faults.ignores_flushes
    }

    /// Returns true if there is no room for a write, which has met the fault then.
    pub(crate) fn has_no_room(&mut self) -> bool {
        self.met[FULL] += u64::from(self.faults.is_full);
        self.faults.is_full
    }

    pub(crate) fn fate(&mut self, on: RequestKind) -> Fate {
        if on == RequestKind::Read {
            self.met[ROTTEN] += u64::from(self.faults.bit_rot.is_some());
        }
        let (how, met) = (&mut self.faults.eio[on as usize], &mut self.met[on as usize]);
        match how {
            None if on == RequestKind::Flush && self.faults.ignores_flushes => {
                self.met[IGNORED] += 1;
                Fate::Dropped
            }
            None => Fate::Done,
            Some(ErrorMode::Always) => {
                *met += 1;
                Fate::Failed(Errno::IO)
            }
            Some(ErrorMode::Once) => {
                (*how, *met) = (None, *met + 1);
                Fate::Failed(Errno::IO)
            }
            Some(ErrorMode::Silent(0)) => {
                *how = None;
                self.fate(on)
            }
            Some(ErrorMode::Silent(left)) => {
                *left -= 1;
                *met += 1;
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
