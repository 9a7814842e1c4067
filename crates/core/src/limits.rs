//! Limits on a private server's use of the machine: parameters of every store that has servers, beside those of the
//! [`mod@crate::disk`] of its data.

use serde::{Deserialize, Serialize};

use crate::catalogue::{ParamSpec, Params};
use crate::disk;
use crate::error::StoreError;
use crate::store::Setting;

const CPUS: &str = "cpus";
const CPUSET: &str = "cpuset";
const MEMORY: &str = "memory";
/// The parameters, with their names in plans.
const PARAMS: [ParamSpec; 7] = [
    ParamSpec::text(
        CPUS,
        "",
        "processors that each private server may use, 0.5 is half the time of one; by default all",
    ),
    ParamSpec::text(CPUSET, "", "which processors those are: \"0-1,3\"; by default all"),
    ParamSpec::bytes(MEMORY, "0B", "memory that each private server may use, page cache included; 0 is no limit"),
    ParamSpec::bytes("read_bps", "0B", "bytes a second that each private server may read from its disk; 0 is no limit"),
    ParamSpec::bytes("write_bps", "0B", "bytes a second that each private server may write to its disk; 0 is no limit"),
    ParamSpec::int(
        "read_iops",
        0..=i64::MAX,
        "0",
        "reads a second of each private server from its disk; 0 is no limit",
    ),
    ParamSpec::int(
        "write_iops",
        0..=i64::MAX,
        "0",
        "writes a second of each private server to its disk; 0 is no limit",
    ),
];

/// True if `name` is one of these parameters, or one of the disk's.
pub fn is_one(name: &str) -> bool {
    PARAMS.iter().chain(&disk::PARAMS).any(|param| param.name == name)
}

/// Appends the parameters of limits and of the disk to a store's `own`: `ALL` is 13 more than `OWN`.
pub const fn with_limits<const OWN: usize, const ALL: usize>(own: [ParamSpec; OWN]) -> [ParamSpec; ALL] {
    disk::joined(&[&own, &PARAMS, &disk::PARAMS])
}

/// Limits of a server; without a limit, it may use all there is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Limits {
    /// Processors: 0.5 is half the time of one, 2 all the time of two.
    pub cpus: Option<f64>,
    /// List of processors, as in cpuset(7): `0-1,3`.
    pub cpuset: Option<String>,
    /// Bytes of memory, page cache included.
    pub memory_bytes: Option<u64>,
    /// Limits of the disk with its files: bytes read and written per second, reads and writes per second.
    pub disk: [Option<u64>; 4],
}

impl Limits {
    /// Reads the limits from a store's parameters.
    ///
    /// # Errors
    /// `Usage` for values that cannot be parsed.
    pub fn of(params: &Params) -> Result<Self, StoreError> {
        let given = |name: &str| Some(params.text(name).trim()).filter(|text| !text.is_empty());
        let number = |name: &str| u64::try_from(params.int(name)).ok().filter(|number| *number > 0);
        let cpus = given(CPUS).map(|text| {
            text.parse().map_err(|_| {
                StoreError::usage(format!("{CPUS} = \"{text}\" is not a number of processors")).next("write 0.5, or 2")
            })
        });
        let cpuset = given(CPUSET).map(str::to_owned);
        if let Some(set) = cpuset.as_ref().filter(|set| !set.chars().all(|c| c.is_ascii_digit() || ",-".contains(c))) {
            return Err(
                StoreError::usage(format!("{CPUSET} = \"{set}\" is not a list of processors")).next("write 0-1,3")
            );
        }
        let disk = ["read_bps", "write_bps", "read_iops", "write_iops"].map(number);
        Ok(Self { cpus: cpus.transpose()?, cpuset, memory_bytes: number(MEMORY), disk })
    }

    /// Size in bytes from the parameter `name`; if that has its `default` and memory is limited, this share of the
    /// memory.
    pub fn sized(params: &Params, name: &str, default: i64, share: f64) -> i64 {
        match params.int(MEMORY) {
            memory if memory > 0 && params.int(name) == default => (memory as f64 * share) as i64,
            _ => params.int(name),
        }
    }

    /// Describes the limits as settings of the server.
    pub fn settings(&self) -> Vec<Setting> {
        let [read_bps, write_bps, read_iops, write_iops] = self.disk.map(|limit| limit.map(|limit| limit.to_string()));
        let all = [
            (CPUS, self.cpus.map(|cpus| cpus.to_string())),
            (CPUSET, self.cpuset.clone()),
            (MEMORY, self.memory_bytes.map(|bytes| bytes.to_string())),
            ("read_bps", read_bps),
            ("write_bps", write_bps),
            ("read_iops", read_iops),
            ("write_iops", write_iops),
        ];
        let limit = |(name, value): (&str, Option<String>)| {
            Some(Setting::new(&format!("limit {name}"), value?, Some("none"), "plimsoll"))
        };
        all.into_iter().filter_map(limit).collect()
    }
}
