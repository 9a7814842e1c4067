//! Times of requests on a slow device, or on several: a seek for each request that does not begin where the previous one
//! ended, then a throughput. A device does one request after the other.
//!
//! The devices have no cache: a write takes its time before it is answered, and a flush only waits for what came before.
//! A flush costs the next request a seek, because the platter has turned on by then. A discard takes no time.

use plimsoll_core::DiskLayout;
use plimsoll_core::fault::RequestKind;

/// Bytes of a stripe on one device, before the next on the other.
const STRIPE_BYTES: u64 = 64 << 10;

/// Devices of a disk, and the time that each is busy until.
#[derive(Debug)]
pub(crate) struct Throttle {
    seek_ns: u64,
    bytes_per_s: u64,
    layout: DiskLayout,
    devices: Vec<Head>,
}

/// State of a device.
#[derive(Debug, Clone, Copy, Default)]
struct Head {
    /// End of its last request, on the clock of the caller.
    free_at_ns: u64,
    /// Position at which a request needs no seek.
    next: Option<u64>,
}

impl Throttle {
    pub(crate) fn new(seek_ns: u64, bytes_per_s: u64, layout: DiskLayout) -> Self {
        let count = if layout == DiskLayout::Single { 1 } else { 2 };
        Self { seek_ns, bytes_per_s, layout, devices: vec![Head::default(); count] }
    }

    /// Returns the time at which a request ends that arrives at `now_ns`. Requests arrive in the order of their times.
    pub(crate) fn ends_ns(&mut self, now_ns: u64, on: RequestKind, offset: u64, bytes: u64) -> u64 {
        match (on, self.layout) {
            (RequestKind::Flush, _) => self.devices.iter_mut().fold(now_ns, |until, device| {
                device.next = None;
                until.max(device.free_at_ns)
            }),
            // A discard.
            _ if bytes == 0 => now_ns,
            (_, DiskLayout::Stripe) => self.striped(now_ns, offset, bytes),
            (RequestKind::Read, _) => {
                let first_free = (0..self.devices.len()).min_by_key(|device| self.devices[*device].free_at_ns);
                self.on(first_free.unwrap_or(0), now_ns, offset, bytes)
            }
            (RequestKind::Write, _) => {
                (0..self.devices.len()).fold(now_ns, |until, device| until.max(self.on(device, now_ns, offset, bytes)))
            }
        }
    }

    /// Adds each part of a request to the device that it is on.
    fn striped(&mut self, now_ns: u64, offset: u64, bytes: u64) -> u64 {
        let count = self.devices.len() as u64;
        let (mut at, end, mut until) = (offset, offset + bytes, now_ns);
        while at < end {
            let (stripe, within) = (at / STRIPE_BYTES, at % STRIPE_BYTES);
            let length = (STRIPE_BYTES - within).min(end - at);
            let place = stripe / count * STRIPE_BYTES + within;
            until = until.max(self.on((stripe % count) as usize, now_ns, place, length));
            at += length;
        }
        until
    }

    /// Adds a request to a device, and returns when it ends there.
    fn on(&mut self, device: usize, now_ns: u64, offset: u64, bytes: u64) -> u64 {
        let Some(head) = self.devices.get_mut(device) else { return now_ns };
        let seek_ns = if head.next == Some(offset) { 0 } else { self.seek_ns };
        let transfer_ns = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_s);
        let ends_ns = head.free_at_ns.max(now_ns) + seek_ns + transfer_ns as u64;
        *head = Head { free_at_ns: ends_ns, next: Some(offset + bytes) };
        ends_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use RequestKind::{Flush, Read, Write};

    const MS: u64 = 1_000_000;
    const KIB: u64 = 1 << 10;

    /// A disk with seeks of 8 ms that reads and writes 64 KiB in a millisecond.
    fn disk(layout: DiskLayout) -> Throttle {
        Throttle::new(8 * MS, 64_000 * KIB, layout)
    }

    /// Ends of requests that all arrive at `now_ms`, in milliseconds.
    fn ends<const N: usize>(disk: &mut Throttle, now_ms: u64, requests: [(RequestKind, u64, u64); N]) -> [u64; N] {
        requests.map(|(on, kib, length_kib)| disk.ends_ns(now_ms * MS, on, kib * KIB, length_kib * KIB) / MS)
    }

    #[test]
    fn a_seek_is_for_requests_elsewhere_and_after_a_flush_and_requests_wait_for_each_other() {
        let mut disk = disk(DiskLayout::Single);
        let first = [(Write, 0, 64), (Write, 64, 64), (Read, 1_000, 128), (Flush, 0, 0)];
        assert_eq!(ends(&mut disk, 0, first), [9, 10, 20, 20]);
        // Where the last one ended, but after the flush.
        assert_eq!(ends(&mut disk, 100, [(Read, 1_128, 64), (Read, 1_192, 64), (Flush, 0, 0)]), [109, 110, 110]);
        assert_eq!(ends(&mut disk, 200, [(Flush, 0, 0), (Write, 5_000, 0)]), [200, 200]);
    }

    #[test]
    fn a_mirror_writes_twice_at_the_same_time_and_reads_from_the_device_that_is_free() {
        let mut disk = disk(DiskLayout::Mirror);
        assert_eq!(
            ends(&mut disk, 0, [(Write, 0, 64), (Read, 500, 64), (Read, 900, 64), (Read, 700, 64)]),
            [9, 18, 18, 27]
        );
        assert_eq!(ends(&mut disk, 18, [(Write, 0, 64)]), [36]);
    }

    #[test]
    fn a_stripe_takes_turns() {
        let mut disk = disk(DiskLayout::Stripe);
        // One long request is half on each: a seek, and half the time.
        assert_eq!(ends(&mut disk, 0, [(Write, 0, 256)]), [10]);
        // It goes on where both have ended.
        assert_eq!(ends(&mut disk, 10, [(Write, 256, 128)]), [11]);
        // Two short ones on different devices do not wait for each other, on the same one they do.
        assert_eq!(ends(&mut disk, 20, [(Write, 6_400, 64), (Write, 8_000, 64), (Write, 0, 64)]), [29, 29, 38]);
    }
}
