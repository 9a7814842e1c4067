//! Limits on a private server's use of the machine: parameters of every store that has servers, beside those of the
//! [`mod@crate::disk`] of its data.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::catalogue::{ParamSpec, Params};
use crate::disk;
use crate::error::StoreError;
use crate::shown::clean;
use crate::store::Setting;

/// Value that removes a limit.
const NONE: &str = "none";
const CPUS: &str = "cpus";
const CPUSET: &str = "cpuset";
const MEMORY: &str = "memory";
const OF_DISK: [&str; 4] = ["read_bps", "write_bps", "read_iops", "write_iops"];
/// The parameters, with their names in plans.
const PARAMS: [ParamSpec; 7] = [
    ParamSpec::text(
        CPUS,
        "",
        "processors that each private server may use, 0.5 is half the time of one; by default all",
    ),
    ParamSpec::text(CPUSET, "", "which processors those are: \"0-1,3\"; by default all"),
    ParamSpec::bytes(MEMORY, "0B", "memory that each private server may use, page cache included; 0 is no limit"),
    ParamSpec::bytes(OF_DISK[0], "0B", "bytes a second that each private server may read from its disk; 0 is no limit"),
    ParamSpec::bytes(OF_DISK[1], "0B", "bytes a second that each private server may write to its disk; 0 is no limit"),
    ParamSpec::int(OF_DISK[2], 0..=i64::MAX, "0", "reads a second of each private server from its disk; 0 is no limit"),
    ParamSpec::int(OF_DISK[3], 0..=i64::MAX, "0", "writes a second of each private server to its disk; 0 is no limit"),
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

/// Change of one limit of a server while it runs; `None` removes the limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LimitChange {
    /// Processors.
    Cpus(Option<f64>),
    /// List of processors.
    Cpuset(Option<String>),
    /// Bytes of memory.
    Memory(Option<u64>),
    /// Limit of the disk with this position in [`Limits::disk`].
    Disk(usize, Option<u64>),
}

impl LimitChange {
    /// Parses `NAME=VALUE`, or `NAME=none`; `number` parses sizes and counts.
    ///
    /// # Errors
    /// `Usage` for names and values that cannot be parsed.
    pub fn parse(
        given: &str,
        number: impl Fn(&ParamSpec, &str) -> Result<u64, StoreError>,
    ) -> Result<Self, StoreError> {
        let (name, value) = given.split_once('=').unwrap_or((given, ""));
        let Some((position, param)) = PARAMS.iter().enumerate().find(|(_, param)| param.name == name) else {
            let names = PARAMS.map(|param| param.name).join(", ");
            return Err(StoreError::usage(format!("unknown limit `{}`", clean(name))).next(format!("limits: {names}")));
        };
        let value = Some(value).filter(|value| *value != NONE);
        let number = || {
            let number = value.map(|value| number(param, value)).transpose()?;
            Ok(number.filter(|number| *number > 0))
        };
        Ok(match name {
            CPUS => Self::Cpus(value.map(cpus).transpose()?),
            CPUSET => Self::Cpuset(value.map(cpuset).transpose()?),
            MEMORY => Self::Memory(number()?),
            _ => Self::Disk(position + OF_DISK.len() - PARAMS.len(), number()?),
        })
    }

    /// Returns the name of the limit, a store's parameter.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Cpus(_) => CPUS,
            Self::Cpuset(_) => CPUSET,
            Self::Memory(_) => MEMORY,
            Self::Disk(position, _) => OF_DISK.get(*position).copied().unwrap_or_default(),
        }
    }
}

impl fmt::Display for LimitChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = match self {
            Self::Cpus(cpus) => cpus.map(|cpus| cpus.to_string()),
            Self::Cpuset(cpuset) => cpuset.clone(),
            Self::Memory(bytes) => bytes.map(|bytes| format!("{bytes}B")),
            Self::Disk(_, number) => number.map(|number| number.to_string()),
        };
        write!(f, "{}={}", self.name(), value.as_deref().unwrap_or(NONE))
    }
}

/// Smallest share of a processor that a control group gives, and more than any machine has.
const CPUS_MIN: f64 = 0.01;
const CPUS_MAX: f64 = 100_000.0;

/// Parses a number of processors.
fn cpus(text: &str) -> Result<f64, StoreError> {
    let number = text.parse().ok().filter(|number| (CPUS_MIN..=CPUS_MAX).contains(number));
    number.ok_or_else(|| {
        let what = format!("{CPUS} = \"{}\" is not a number of processors from {CPUS_MIN} to {CPUS_MAX}", clean(text));
        StoreError::usage(what).next("write 0.5, or 2")
    })
}

/// Parses a list of processors.
fn cpuset(text: &str) -> Result<String, StoreError> {
    let is_list = !text.is_empty() && text.chars().all(|c| c.is_ascii_digit() || ",-".contains(c));
    if is_list {
        return Ok(text.to_owned());
    }
    Err(StoreError::usage(format!("{CPUSET} = \"{}\" is not a list of processors", clean(text))).next("write 0-1,3"))
}

impl Limits {
    /// Returns these limits after a change.
    pub fn with(mut self, change: &LimitChange) -> Self {
        match change {
            LimitChange::Cpus(cpus) => self.cpus = *cpus,
            LimitChange::Cpuset(cpuset) => self.cpuset.clone_from(cpuset),
            LimitChange::Memory(bytes) => self.memory_bytes = *bytes,
            LimitChange::Disk(position, limit) => {
                if let Some(one) = self.disk.get_mut(*position) {
                    *one = *limit;
                }
            }
        }
        self
    }

    /// Returns the change back to these limits from `change`.
    pub fn before(&self, change: &LimitChange) -> LimitChange {
        match change {
            LimitChange::Cpus(_) => LimitChange::Cpus(self.cpus),
            LimitChange::Cpuset(_) => LimitChange::Cpuset(self.cpuset.clone()),
            LimitChange::Memory(_) => LimitChange::Memory(self.memory_bytes),
            LimitChange::Disk(position, _) => LimitChange::Disk(*position, self.disk.get(*position).copied().flatten()),
        }
    }

    /// Returns the limits as changes of a server without any.
    pub fn changes(&self) -> Vec<LimitChange> {
        let cpus = self.cpus.map(|cpus| LimitChange::Cpus(Some(cpus)));
        let cpuset = self.cpuset.clone().map(|cpuset| LimitChange::Cpuset(Some(cpuset)));
        let memory = self.memory_bytes.map(|bytes| LimitChange::Memory(Some(bytes)));
        let disk = self.disk.into_iter().enumerate().filter(|(_, limit)| limit.is_some());
        let disk = disk.map(|(position, limit)| LimitChange::Disk(position, limit));
        cpus.into_iter().chain(cpuset).chain(memory).chain(disk).collect()
    }

    /// Reads the limits from a store's parameters.
    ///
    /// # Errors
    /// `Usage` for values that cannot be parsed.
    pub fn of(params: &Params) -> Result<Self, StoreError> {
        let given = |name: &str| Some(params.text(name).trim()).filter(|text| !text.is_empty());
        let number = |name: &str| u64::try_from(params.int(name)).ok().filter(|number| *number > 0);
        let (cpus, cpuset) = (given(CPUS).map(cpus).transpose()?, given(CPUSET).map(cpuset).transpose()?);
        Ok(Self { cpus, cpuset, memory_bytes: number(MEMORY), disk: OF_DISK.map(number) })
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
            Some(Setting::new(&format!("limit {name}"), value?, Some(NONE), "plimsoll"))
        };
        all.into_iter().filter_map(limit).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_change_back_restores_a_limit_or_its_absence() {
        let limits = Limits { cpus: Some(2.0), disk: [None, Some(5), None, None], ..Limits::default() };
        let changes = [
            LimitChange::Cpus(Some(0.5)),
            LimitChange::Cpuset(Some("0".to_owned())),
            LimitChange::Memory(Some(1 << 30)),
            LimitChange::Disk(0, Some(1)),
            LimitChange::Disk(1, None),
        ];
        for change in changes {
            assert_eq!(limits.clone().with(&change).with(&limits.before(&change)), limits, "{change}");
        }
    }
}
