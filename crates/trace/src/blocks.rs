//! Requests to block devices: programs that the kernel runs when a device gets a request and when the request is done.
//!
//! A request in progress is known by its device, kind and first sector. Its time is counted in the map `times` by device,
//! kind and bucket. Its end without a known beginning is that of an earlier beginning, or of a request that never reached
//! the device: an fsync without data, whose flush is a request of its own.

use std::collections::BTreeMap;

use crate::TraceError;
use crate::assembler::{Assembler, Call as Function, FP, If, R0, R1, R2, R6, R7, Width};
use crate::bpf::{Attached, word_at};
use crate::programs::{BUCKETS_MAX, bucket, count_in, leave, lookup, time_since, update};
use crate::sys::{Map, MapKind};
use crate::times::Times;
use crate::tracefs::{Tracefs, Tracepoint};

/// Most requests in progress of all devices. If there are more, the oldest are forgotten.
const REQUESTS_MAX: u32 = 32_768;

/// Key of `times` on the stack: device (4 bytes), kind (2), bucket (2).
const KEY: i32 = -16;
/// Key of `issued` on the stack: device (4 bytes), kind (4), first sector (8).
const REQUEST: i32 = -32;
/// A value of either map.
const VALUE: i32 = -40;

/// Kind of a request to a block device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum BlockRequest {
    /// Reads data.
    Read,
    /// Writes data.
    Write,
    /// Makes the device move its volatile cache to where data survives power loss.
    Flush,
}

impl BlockRequest {
    const ALL: [BlockRequest; 3] = [BlockRequest::Read, BlockRequest::Write, BlockRequest::Flush];

    fn number(self) -> i32 {
        self as i32
    }
}

/// Major and minor number of a whole device.
pub type DeviceNumber = (u32, u32);

/// Requests to block devices that were done.
#[derive(Debug, Clone, Default)]
pub struct BlocksSeen {
    /// Times of the requests that were done since the previous reading, from the moment at which the device got them;
    /// without those that had none.
    pub new: BTreeMap<(DeviceNumber, BlockRequest), Times>,
    /// Number of requests that could not be counted since the trace began, as far as known.
    pub lost: u64,
}

/// A trace of the requests to all block devices, until this is dropped.
///
/// Devices that pass requests on (device mapper, RAID) and those without a queue (zram, pmem) have none of their own.
pub struct BlockTracer {
    maps: Maps,
    attached: Attached,
    before: BTreeMap<(DeviceNumber, BlockRequest), Times>,
}

impl BlockTracer {
    /// Begins to trace.
    ///
    /// # Errors
    /// The kernel does not let this user, or does not support programs or these tracepoints.
    pub fn start() -> Result<Self, TraceError> {
        let tracefs = Tracefs::open()?;
        let maps = Maps::new()?;
        let (issue, complete) = (tracefs.needed("block/block_rq_issue")?, tracefs.needed("block/block_rq_complete")?);
        let mut attached = Attached::default();
        attached.run(&maps.issue(&issue)?, &issue)?;
        attached.run(&maps.complete(&complete)?, &complete)?;
        Ok(Self { maps, attached, before: BTreeMap::new() })
    }

    /// Returns the requests that were done since the previous reading.
    ///
    /// # Errors
    /// The kernel's own, which are not expected.
    pub fn read(&mut self) -> Result<BlocksSeen, TraceError> {
        let mut all: BTreeMap<_, Times> = BTreeMap::new();
        let add = |key: &[u8; 8], count: &[u8; 8]| {
            let count = u64::from_ne_bytes(*count);
            if let Some((device, request, bucket)) = in_key(key).filter(|_| count > 0) {
                all.entry((device, request)).or_default().add(bucket, count);
            }
        };
        self.maps.times.each::<8, 8>(add)?;
        let lost = self.maps.lost.read_number()?;
        let nothing = Times::default();
        let new = all.iter().map(|(key, times)| (*key, times.since(self.before.get(key).unwrap_or(&nothing))));
        let new = new.filter(|(_, times)| !times.is_empty()).collect();
        self.before = all;
        Ok(BlocksSeen { new, lost: lost + self.attached.misses() })
    }
}

/// Device, kind and bucket of a key of `times`.
fn in_key(key: &[u8; 8]) -> Option<(DeviceNumber, BlockRequest, u16)> {
    let device = word_at(key, 0);
    let [.., kind_low, kind_high, bucket_low, bucket_high] = *key;
    let kind = u16::from_ne_bytes([kind_low, kind_high]);
    let request = BlockRequest::ALL.into_iter().find(|one| one.number() == i32::from(kind))?;
    // 12 bits of major number above 20 of minor, in the kernel.
    Some(((device >> 20, device & 0xf_ffff), request, u16::from_ne_bytes([bucket_low, bucket_high])))
}

/// Maps shared by the programs and this process.
struct Maps {
    /// Requests in progress, with their beginnings.
    issued: Map,
    /// Counts by device, kind and bucket.
    times: Map,
    lost: Map,
}

impl Maps {
    fn new() -> Result<Self, TraceError> {
        Ok(Self {
            issued: Map::new(MapKind::RecentHash, 16, 8, REQUESTS_MAX)?,
            times: Map::new(MapKind::Hash, 8, 8, BUCKETS_MAX)?,
            lost: Map::number()?,
        })
    }

    /// Assembles the program for the moment at which a device gets a request. A request that a device has refused for
    /// now begins again.
    fn issue(&self, point: &Tracepoint) -> Result<Vec<u64>, TraceError> {
        let mut asm = Assembler::default();
        find_request(&mut asm, point)?;
        asm.call(Function::KtimeNs);
        asm.store(Width::Double, FP, VALUE as i16, R0);
        update(&mut asm, &self.issued, REQUEST, VALUE, 0);
        asm.jump_if(R0, If::NotEqual, 0, "lost");
        Ok(leave(asm, &self.lost))
    }

    /// Assembles the program for the moment at which a request, or the first part of it, is done.
    fn complete(&self, point: &Tracepoint) -> Result<Vec<u64>, TraceError> {
        let mut asm = Assembler::default();
        find_request(&mut asm, point)?;
        lookup(&mut asm, &self.issued, REQUEST);
        asm.jump_if(R0, If::NotEqual, 0, "issued");
        // Of two flushes at once, by several queues of a device, one is known.
        asm.jump_if(R7, If::Equal, BlockRequest::Flush.number(), "lost");
        asm.jump("out");
        asm.label("issued");
        time_since(&mut asm, &self.issued, REQUEST);
        asm.transfer(Width::Word, (FP, KEY as i16), (FP, REQUEST as i16));
        asm.store(Width::Half, FP, KEY as i16 + 4, R7);
        bucket(&mut asm);
        asm.store(Width::Half, FP, KEY as i16 + 6, R1);
        count_in(&mut asm, &self.times, KEY, VALUE);
        Ok(leave(asm, &self.lost))
    }
}

/// Keeps the request at [`REQUEST`], and its kind in R7; leaves if it is of another kind. The kind is in `rwbs`, after an F
/// for a flush before it (`blk_fill_rwbs` in kernel/trace/blktrace.c): `R`, `W`, `FW`, `FF`.
fn find_request(asm: &mut Assembler, point: &Tracepoint) -> Result<(), TraceError> {
    let rwbs = point.offset("rwbs")? as i16;
    asm.copy(R6, R1);
    asm.load(Width::Byte, R1, R6, rwbs);
    asm.load(Width::Byte, R2, R6, rwbs + 1);
    asm.set(R7, BlockRequest::Read.number());
    asm.jump_if(R1, If::Equal, i32::from(b'R'), "kind");
    asm.set(R7, BlockRequest::Write.number());
    asm.jump_if(R1, If::Equal, i32::from(b'W'), "kind");
    asm.jump_if(R1, If::NotEqual, i32::from(b'F'), "out");
    asm.jump_if(R2, If::Equal, i32::from(b'W'), "kind");
    asm.set(R7, BlockRequest::Flush.number());
    asm.label("kind");
    asm.store(Width::Word, FP, REQUEST as i16 + 4, R7);
    asm.transfer(Width::Word, (FP, REQUEST as i16), (R6, point.offset("dev")? as i16));
    asm.load(Width::Double, R1, R6, point.offset("sector")? as i16);
    // A flush has no sector: 0 at its beginning, and -1 at its end.
    asm.jump_if(R7, If::NotEqual, BlockRequest::Flush.number(), "sector");
    asm.set(R1, 0);
    asm.label("sector");
    asm.store(Width::Double, FP, REQUEST as i16 + 8, R1);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_tells_device_kind_and_bucket() {
        let key = |device: u32, kind: u16, bucket: u16| {
            let mut key = [0; 8];
            key[..4].copy_from_slice(&device.to_ne_bytes());
            key[4..6].copy_from_slice(&kind.to_ne_bytes());
            key[6..].copy_from_slice(&bucket.to_ne_bytes());
            key
        };
        assert_eq!(in_key(&key(254 << 20 | 1, 1, 700)), Some(((254, 1), BlockRequest::Write, 700)));
        assert_eq!(in_key(&key(7 << 20, 2, 3)), Some(((7, 0), BlockRequest::Flush, 3)));
        assert_eq!(in_key(&key(7 << 20, 3, 3)), None);
    }
}
