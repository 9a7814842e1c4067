//! A phase when it ends: its state, its results, and remarks of the store.

use plimsoll_core::{Footprint, Outcome};
use serde::{Deserialize, Serialize};

/// Words in the reason of a phase that was overloaded: recordings of earlier versions have nothing else that tells it.
const OVERLOADED: &str = "had been due for longer than the backlog";

/// A phase when it ends.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PhaseEnd {
    /// End. Of a phase that did not end, read back: the end of its last slice, or its start.
    pub end_ns: u64,
    /// State at the end of the phase.
    pub state: PhaseState,
    /// The phase ended since operations had been due for longer than its backlog: the store did not carry the rate, or
    /// the generator was late as well.
    #[serde(default)]
    pub overloaded: bool,
    /// Delay of the generator in an open loop, with its cause, if it may have changed the measurements.
    pub late: Option<String>,
    /// Times at which the first and the last of its lost connections were lost; `None` without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_between_ns: Option<(u64, u64)>,
    /// Results of the phase.
    #[serde(skip)]
    pub results: Vec<PhaseResult>,
    /// Operations that were timed one by one (`ask`).
    pub asked: Vec<Asked>,
    /// Bytes the store takes, where it was looked at.
    pub footprint: Option<Footprint>,
    /// Remarks of the store itself, by subject: its plan for the query, its integrity check, the reason that it could
    /// not be made cold.
    pub remarks: Vec<(About, String)>,
}

plimsoll_core::words! {
    /// Subject of a store's remark.
    pub enum About {
        /// Method of the bulk load.
        Load = "load",
        /// Plan of the store for a query.
        Plan = "plan of the store",
        /// Integrity check of the store.
        Integrity = "integrity check of the store",
        /// Promise about acknowledged writes that follows from the settings found.
        Promise = "acknowledged writes",
        /// Reaction of the store after its disk had failed.
        Fault = "after the disk's fault",
        /// End of its maintenance cycle, and the setting to change.
        Cycle = "cycle",
        /// Reason that its records cannot be compared with a ledger.
        Ledger = "ledger",
        /// Action or power cut of the plan that did not take place.
        NotDone = "not done",
        /// Reason that it could not be made cold.
        NotCold = "not possible",
        /// Reason that the size of its data is unknown.
        DataSize = "size of the data",
        /// Reason that the size of its cache is unknown.
        CacheSize = "size of the cache",
    }
}

impl PhaseEnd {
    /// Returns the end with the overload that earlier versions had in the reason alone.
    pub(crate) fn completed(self) -> Self {
        let is_told = matches!(&self.state, PhaseState::Failed(why) if why.contains(OVERLOADED));
        Self { overloaded: self.overloaded || is_told, ..self }
    }

    /// Adds a result of one observation.
    pub fn push(&mut self, name: ResultName, value: f64) {
        self.results.push(PhaseResult { name, subject: String::new(), value, n: 1 });
    }

    /// The first result of that name.
    pub fn result(&self, name: ResultName) -> Option<&PhaseResult> {
        self.results.iter().find(|result| result.name == name)
    }
}

/// State at the end of a phase.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PhaseState {
    /// Not ended: the program died in it.
    #[default]
    Unfinished,
    /// Ended as planned.
    Complete,
    /// Stopped by the user.
    Interrupted,
    /// Ended with this error.
    Failed(String),
    /// Counts for nothing, for this reason: the generator was late, and strictness was asked for.
    Void(String),
}

plimsoll_core::words! {
    /// Name of a number that a phase results in. Only observations: rates and percentiles are derived by `analysis`.
    /// Formulas name them: `load.seconds`.
    pub enum ResultName {
        /// Duration of the phase; of a drive, its measured part.
        Seconds = "seconds",
        /// Planned duration.
        PlannedSeconds = "planned_seconds",
        /// Part of it for the one sync at a load's end.
        SyncSeconds = "sync_seconds",
        /// Operations.
        Ops = "ops",
        /// Records that a load inserted.
        Records = "records",
        /// Bytes that the store wrote to devices.
        DeviceBytes = "device_bytes",
        /// Operations that were due and never sent.
        Unfinished = "unfinished",
        /// Operations that were under way when the user wanted an end.
        Stopped = "stopped",
        /// Connections that broke.
        LostConnections = "lost_connections",
        /// Connections that the server ended.
        EndedConnections = "ended_connections",
        /// Connections that could not be opened, or not again.
        FailedConnects = "failed_connects",
        /// Requests that the server had refused to begin, and that were sent again.
        AskedAgain = "asked_again",
        /// Tries of operations after the first (`retry`).
        Retries = "retries",
        /// Operations that failed and were not sent again, with `retry`.
        GivenUp = "given_up",
        /// Number of times that the circuit of a client opened, with `breaker`.
        BreakerOpened = "breaker_opened",
        /// Operations that were due at a client with an open circuit, and were not sent.
        BreakerRejected = "breaker_rejected",
        /// Answers with one status of their protocol, by the status. Those of the warm-up are among them.
        AnswerStatus = "answer_status",
        /// Size of the bodies of these answers: median, within 1 %.
        BodyMedianBytes = "body_median_bytes",
        /// Size of the largest of these bodies.
        BodyMaxBytes = "body_max_bytes",
        /// Time in which the clients of a closed loop had a connection, added up over clients.
        ClientSeconds = "client_seconds",
        /// Think time after each answer: the longest, or with a subject the mean of a distribution without one.
        ThinkSeconds = "think_seconds",
        /// Operations that were due by the schedule of an open loop.
        Due = "due",
        /// Connections that were opened anew because that was asked for (`reconnect`).
        Connects = "connects",
        /// Time to connect, up to a session that takes operations: mean.
        ConnectMean = "connect_mean",
        /// Time to connect: median.
        ConnectP50 = "connect_p50",
        /// Time to connect: 95th percentile.
        ConnectP95 = "connect_p95",
        /// Time to connect: 99th percentile.
        ConnectP99 = "connect_p99",
        /// Scheduling delay of the generator: median.
        LagP50 = "lag_p50",
        /// Scheduling delay of the generator: 99th percentile.
        LagP99 = "lag_p99",
        /// Scheduling delay of the generator: maximum.
        LagMax = "lag_max",
        /// Time until a node that was added during the phase was a member of its cluster.
        JoinSeconds = "join_seconds",
        /// Number of times that the system took a processor from the generator's workers.
        InvoluntarySwitches = "involuntary_switches",
        /// CPU time of the witness of the machine's pauses.
        WitnessCpuSeconds = "witness_cpu_seconds",
        /// Maintenance cycles of the store that ended in it, by counter: `cycles_checkpoints`.
        Cycles = "cycles",
        /// Longest time that a settled store works, by its settings, until a maintenance cycle has ended.
        CycleSeconds = "cycle_seconds",
        /// Operations of the phase until a maintenance cycle has ended, in a store whose cycles depend on work instead
        /// of time.
        CycleOperations = "cycle_operations",
        /// Bytes of the store's files.
        FileBytes = "file_bytes",
        /// Part of them in the page cache.
        ResidentBytes = "resident_bytes",
        /// Operations that failed with one code, by the code: an HTTP status, an SQLSTATE. Those of the warm-up are among them.
        ErrorCode = "error_code",
        /// Size of the store's own cache, by its name of the setting. Without a name it has none, and reads through
        /// the kernel's page cache.
        CacheBytes = "cache_bytes",
        /// Limit of the memory in which the store keeps all its data, by its name of the setting; 0 without a limit.
        MemoryLimitBytes = "memory_limit_bytes",
        /// Memory available to the store on its machine.
        MemoryBytes = "memory_bytes",
        /// Time at which the disk lost power, since the beginning of the phase that was driven before.
        CutSeconds = "cut_seconds",
        /// Writes that had come to the disk in that phase when it lost power.
        Writes = "writes",
        /// Flushes that had.
        Flushes = "flushes",
        /// Writes that no flush had made durable then.
        AtRiskWrites = "at_risk_writes",
        /// Bytes of them.
        AtRiskBytes = "at_risk_bytes",
        /// Writes at risk by kind; the number of data pages also if it is 0.
        AtRiskKind = "at_risk_writes_of",
        /// Setting of the trial that protects data pages.
        PageGuard = "page_guard",
        /// Time between the first disk that lost power in a cut and the last, seconds.
        CutApart = "cut_apart_seconds",
        /// Reads that the store refused when everything was read back.
        Unreadable = "unreadable",
        /// Errors that the file system on the store's disk had found by itself by then.
        FileSystemErrors = "file_system_errors",
    }
}

impl ResultName {
    /// The unit of its values; empty for counts.
    pub fn unit(self) -> &'static str {
        match self.name() {
            name if name.ends_with("seconds") => "s",
            name if name.ends_with("bytes") => "B",
            name if name.starts_with("lag_") || name.starts_with("connect_") => "ns",
            _ => "",
        }
    }
}

/// A number that a phase results in.
#[derive(Debug, Clone, PartialEq)]
pub struct PhaseResult {
    /// Name of the number.
    pub name: ResultName,
    /// Subject, if there are several of the name: a store's counter, the name of a setting; mostly empty.
    pub subject: String,
    /// Value.
    pub value: f64,
    /// Number of observations behind it.
    pub n: u64,
}

/// An operation of an `ask` phase.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Position of its kind.
    pub kind: u16,
    /// Sent.
    pub start_ns: u64,
    /// Answered.
    pub end_ns: u64,
    /// Outcome of the operation.
    pub outcome: Outcome,
    /// Rows in the answer.
    pub rows: u64,
}
