//! Columns of data sets as the series that samplers would have recorded, each of a class of resource.
//!
//! The classes follow from what the names of the columns say, and from nothing else: the table was written before any
//! answer was seen. Columns that are not in it are not told to the analysis: constants, running totals, repetitions
//! of other columns (single processors, shares of a total), and counts that belong to no class (files, messages).

use serde_json::{Value, json};

use self::Resource::{Disk, Locks, Memory, Network, Processor, Rows, Workload};
use super::set::Set;
use crate::Result;

/// Class of resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// Processors, and tasks that use them or wait for them.
    Processor,
    /// Devices, and tasks that wait for them; pages and log that the server reads from them or writes to them.
    Disk,
    /// Interfaces.
    Network,
    /// Locks of rows and tables, and sessions that wait for them.
    Locks,
    /// Memory of the machine, and pages that the server keeps in its cache.
    Memory,
    /// Rows and pages in the cache that statements read or write.
    Rows,
    /// Requests of clients: connections, transactions and statements.
    Workload,
}

/// All classes.
pub const RESOURCES: [Resource; 7] = [
    Resource::Processor,
    Resource::Disk,
    Resource::Network,
    Resource::Locks,
    Resource::Memory,
    Resource::Rows,
    Resource::Workload,
];

impl Resource {
    /// Returns the name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Resource::Processor => "processor",
            Resource::Disk => "disk",
            Resource::Network => "network",
            Resource::Locks => "locks",
            Resource::Memory => "memory",
            Resource::Rows => "rows",
            Resource::Workload => "workload",
        }
    }
}

/// A series that a column becomes.
struct Column {
    column: &'static str,
    resource: Resource,
    source: &'static str,
    subject: &'static str,
    name: &'static str,
    unit: &'static str,
    /// Factor of the values.
    scale: f64,
    /// The series is the growth of a counter.
    is_total: bool,
}

/// Columns of a source with the time and the number of operations: both in seconds, and per second.
struct Source {
    name: &'static str,
    operations: &'static str,
    latency: Option<&'static str>,
    columns: &'static [Column],
}

static SOURCES: [Source; 2] = [
    Source {
        name: "dbsherlock",
        operations: "dbmsCommittedCommands",
        latency: Some("Combined Avg Latency"),
        columns: &DBSHERLOCK,
    },
    Source { name: "dbpa", operations: "mysql5 all comm", latency: None, columns: &DBPA },
];

const KIB: f64 = 1_024.0;
const MIB: f64 = 1_048_576.0;

/// Returns a growth: per second, of bytes per second, or in per cent of a time.
const fn total(
    column: &'static str,
    resource: Resource,
    [source, subject, name, unit]: [&'static str; 4],
    scale: f64,
) -> Column {
    Column { column, resource, source, subject, name, unit, scale, is_total: true }
}

const fn level(
    column: &'static str,
    resource: Resource,
    [source, subject, name, unit]: [&'static str; 4],
    scale: f64,
) -> Column {
    Column { column, resource, source, subject, name, unit, scale, is_total: false }
}

/// Returns a counter of the server.
const fn counted(column: &'static str, resource: Resource, name: &'static str) -> Column {
    total(column, resource, ["store", "mysql", name, "1/s"], 1.0)
}

/// Returns bytes that the server counts in MiB.
const fn bytes(column: &'static str, resource: Resource, name: &'static str) -> Column {
    total(column, resource, ["store", "mysql", name, "B/s"], MIB)
}

/// Returns a level that the server tells.
const fn told(column: &'static str, resource: Resource, name: &'static str) -> Column {
    level(column, resource, ["store", "mysql", name, ""], 1.0)
}

/// Columns of DBSherlock: of `/proc` by dstat, and counters of MySQL 5.6. The source has reads, writes and sectors as
/// parts of 2²⁰.
const DBSHERLOCK: [Column; 62] = [
    total("AvgCpuUser", Processor, ["cpu", "", "user", "%"], 1.0),
    total("AvgCpuSys", Processor, ["cpu", "", "system", "%"], 1.0),
    total("AvgCpuWai", Disk, ["cpu", "", "iowait", "%"], 1.0),
    total("AvgCpuHiq", Processor, ["cpu", "", "irq", "%"], 1.0),
    total("AvgCpuSiq", Processor, ["cpu", "", "softirq", "%"], 1.0),
    total("osNumberOfContextSwitches", Processor, ["tasks", "", "switches", "1/s"], 1.0),
    total("osCountOfInterruptsServicedSinceBootTime", Processor, ["interrupts", "", "all", "1/s"], 1.0),
    total("osNumberOfProcessesCreated", Processor, ["tasks", "", "forks", "1/s"], 1.0),
    level("osNumberOfProcessesCurrentlyRunning", Processor, ["tasks", "", "running", "tasks"], 1.0),
    total("dbmsMeasuredCPU", Processor, ["server", "", "user", "%"], 1.0),
    total("osNumberOfSectorReads", Disk, ["disk", "sda", "read", "B/s"], MIB),
    total("osNumberOfSectorWrites", Disk, ["disk", "sda", "written", "B/s"], MIB),
    total("osNumberOfReadsIssued", Disk, ["disk", "sda", "reads", "1/s"], MIB),
    total("osNumberOfWritesCompleted", Disk, ["disk", "sda", "writes", "1/s"], MIB),
    total("osDiskUtilization", Disk, ["disk", "sda", "busy", "%"], 1.0),
    level("osAsynchronousIO", Disk, ["disk", "sda", "asynchronous", "requests"], 1.0),
    total("osNetworkSendKB", Network, ["network", "eth0", "sent", "B/s"], KIB),
    total("osNetworkRecvKB", Network, ["network", "eth0", "received", "B/s"], KIB),
    total("osNumberOfSwapInSinceLastBoot", Memory, ["memory", "", "swapped in", "1/s"], 1.0),
    total("osNumberOfSwapOutSinceLastBoot", Memory, ["memory", "", "swapped out", "1/s"], 1.0),
    level("osUsedSwapSpace", Memory, ["memory", "", "swapped", "B"], 1.0),
    total("osNumberOfAllocatedPage", Memory, ["memory", "", "allocated pages", "1/s"], 1.0),
    total("osNumberOfFreePages", Memory, ["memory", "", "freed pages", "1/s"], 1.0),
    total("osNumberOfMajorPageFaults", Memory, ["memory", "", "major faults", "1/s"], 1.0),
    total("osNumberOfMinorPageFaults", Memory, ["memory", "", "minor faults", "1/s"], 1.0),
    told("dbmsCurrentDirtyPages", Memory, "dirty pages"),
    told("dbmsDataPages", Memory, "pages with data"),
    told("dbmsFreePages", Memory, "free pages"),
    counted("dbmsFlushedPages", Disk, "flushed pages"),
    bytes("dbmsTotalWritesMB", Disk, "data written"),
    bytes("dbmsLogWritesMB", Disk, "log written"),
    bytes("dbmsPageWritesMB", Disk, "pages written"),
    bytes("dbmsDoublePageWritesMB", Disk, "pages written twice"),
    bytes("dbmsPhysicalReadsMB", Disk, "data read"),
    counted("dbmsNumberOfPhysicalLogWrites", Disk, "log writes"),
    counted("dbmsNumberOfDataReads", Disk, "data reads"),
    counted("dbmsNumberOfDataWrites", Disk, "data writes"),
    counted("dbmsNumberOfFysncLogWrites", Disk, "log syncs"),
    told("dbmsNumberOfPendingLogWrites", Disk, "pending log writes"),
    told("dbmsNumberOfPendingLogFsyncs", Disk, "pending log syncs"),
    counted("dbmsDoubleWritesOperations", Disk, "double writes"),
    told("dbmsNumberOfPendingWrites", Disk, "pending writes"),
    told("dbmsNumberOfPendingReads", Disk, "pending reads"),
    counted("dbmsNumberOfLogicalReadsFromDisk", Disk, "pages read"),
    counted("dbmsRandomReadAheads", Disk, "random read-aheads"),
    counted("dbmsSequentialReadAheads", Disk, "sequential read-aheads"),
    counted("dbmsNumberOfWaitsForFlush", Disk, "waits for a flush"),
    counted("dbmsChangedRows", Rows, "changed rows"),
    counted("dbmsNumberOfRowInsertRequests", Rows, "inserts of rows"),
    counted("dbmsNumberOfNextRowReadRequests", Rows, "reads of the next row"),
    counted("dbmsNumberOfFirstEntryReadRequests", Rows, "reads of the first entry"),
    counted("dbmsNumberOfKeyBasedReadRequests", Rows, "reads by key"),
    counted("dbmsNumberOfNextKeyBasedReadRequests", Rows, "reads of the next key"),
    counted("dbmsNumberOfLogWriteRequests", Rows, "log records"),
    counted("dbmsNumberOfLogicalReadRequests", Rows, "read requests"),
    counted("dbmsBufferPoolWrites", Rows, "write requests"),
    told("dbmsThreadsRunning", Workload, "running threads"),
    counted("dbmsCommittedCommands", Workload, "commits"),
    counted("dbmsRolledbackCommands", Workload, "rollbacks"),
    told("dbmsCurrentLockWaits", Locks, "sessions that wait for locks"),
    counted("dbmsLockWaits", Locks, "lock waits"),
    level("dbmsLockWaitTime", Locks, ["store", "mysql", "time of lock waits", "ms"], 1.0),
];

/// Columns of DBPA: of dool, with its plug-ins for MySQL.
const DBPA: [Column; 46] = [
    total("total cpu usage usr", Processor, ["cpu", "", "user", "%"], 1.0),
    total("total cpu usage sys", Processor, ["cpu", "", "system", "%"], 1.0),
    total("total cpu usage wai", Disk, ["cpu", "", "iowait", "%"], 1.0),
    total("total cpu usage stl", Processor, ["cpu", "", "steal", "%"], 1.0),
    total("system int", Processor, ["interrupts", "", "all", "1/s"], 1.0),
    total("system csw", Processor, ["tasks", "", "switches", "1/s"], 1.0),
    level("procs run", Processor, ["tasks", "", "running", "tasks"], 1.0),
    total("procs new", Processor, ["tasks", "", "forks", "1/s"], 1.0),
    level("procs blk", Disk, ["tasks", "", "blocked", "tasks"], 1.0),
    total("dsk/total read", Disk, ["disk", "sda", "read", "B/s"], 1.0),
    total("dsk/total writ", Disk, ["disk", "sda", "written", "B/s"], 1.0),
    total("io/total read", Disk, ["disk", "sda", "reads", "1/s"], 1.0),
    total("io/total writ", Disk, ["disk", "sda", "writes", "1/s"], 1.0),
    level("async #aio", Disk, ["disk", "sda", "asynchronous", "requests"], 1.0),
    total("net/total recv", Network, ["network", "eth0", "received", "B/s"], 1.0),
    total("net/total send", Network, ["network", "eth0", "sent", "B/s"], 1.0),
    total("paging in", Memory, ["memory", "", "swapped in", "B/s"], 1.0),
    total("paging out", Memory, ["memory", "", "swapped out", "B/s"], 1.0),
    level("memory usage used", Memory, ["memory", "", "used", "B"], 1.0),
    level("memory usage free", Memory, ["memory", "", "available", "B"], 1.0),
    level("memory usage cach", Memory, ["memory", "", "cached", "B"], 1.0),
    level("swap used", Memory, ["memory", "", "swapped", "B"], 1.0),
    total("virtual memory majpf", Memory, ["memory", "", "major faults", "1/s"], 1.0),
    total("virtual memory minpf", Memory, ["memory", "", "minor faults", "1/s"], 1.0),
    total("virtual memory alloc", Memory, ["memory", "", "allocated pages", "1/s"], 1.0),
    total("virtual memory free", Memory, ["memory", "", "freed pages", "1/s"], 1.0),
    total("advanced virtual memory steal", Memory, ["memory", "", "reclaimed pages", "1/s"], 1.0),
    total("advanced virtual memory astll", Memory, ["memory", "", "allocation stalls", "1/s"], 1.0),
    told("mysql5 all data", Memory, "pages with data"),
    told("mysql5 all free", Memory, "free pages"),
    told("mysql5 all dirty", Memory, "dirty pages"),
    level("mysql5 all ratio", Memory, ["store", "mysql", "hit ratio", "%"], 1.0),
    counted("mysql5 all flushed", Disk, "flushed pages"),
    counted("mysql5 all reads", Disk, "pages read"),
    told("mysql5 all size", Disk, "size of the data"),
    told("mysql5 all grow", Disk, "growth of the data"),
    counted("mysql5 all readr", Rows, "read requests"),
    counted("mysql5 all insert", Workload, "insert statements"),
    counted("mysql5 all update", Workload, "update statements"),
    counted("mysql5 all delete", Workload, "delete statements"),
    counted("mysql5 all comm", Workload, "commits"),
    counted("mysql5 all roll", Workload, "rollbacks"),
    told("mysql5 conn Conn", Workload, "connections"),
    told("mysql5 conn Act", Workload, "running threads"),
    level("tcp sockets act", Workload, ["tcp", "", "connections", ""], 1.0),
    told("mysql5 locks Locks", Locks, "locks"),
];

impl Column {
    /// Returns the name of the series in a selection.
    fn selected(&self) -> String {
        let words = [self.source, self.subject, &self.name.replace('_', " ")].map(str::to_owned);
        words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
    }

    /// Returns the name of the series in findings.
    fn found(&self) -> String {
        match (self.source, self.name) {
            ("cpu", "user" | "system") => "the machine's CPU".to_owned(),
            ("cpu", "iowait") => "waiting for disks".to_owned(),
            ("cpu", "steal") => "what the hypervisor took".to_owned(),
            ("server", "user") => "the server's CPU".to_owned(),
            ("disk", "busy") => format!("disk {}", self.subject),
            (source, name) if self.subject.is_empty() => format!("{source}: {name}"),
            (_, name) => format!("{}: {name}", self.subject),
        }
    }
}

/// Returns what the analysis is told of a set, as one line of its input.
///
/// # Errors
/// Fails if the source is unknown, or a column of it is missing.
pub fn question(set: &Set) -> Result<Value> {
    let source = source(&set.source)?;
    let values = |name: &str| set.column(name).ok_or_else(|| format!("the column {name} is missing"));
    let latency = source.latency.map(values).transpose()?;
    let series = |column: &Column| -> Result<Value> {
        let values = values(column.column)?.iter().map(|value| value.map(|value| value * column.scale));
        Ok(json!({
            "source": column.source,
            "subject": column.subject,
            "name": column.name,
            "unit": column.unit,
            "is_total": column.is_total,
            "values": values.collect::<Vec<Option<f64>>>(),
        }))
    };
    Ok(json!({
        "step_s": set.step_s,
        "region": [set.region.start, set.region.end],
        "operations": values(source.operations)?,
        "latency_s": latency.unwrap_or_default(),
        "series": source.columns.iter().map(series).collect::<Result<Vec<Value>>>()?,
    }))
}

/// Returns the class of a series by its name in a selection, or in findings if `is_found`.
///
/// # Errors
/// Fails if no column has the name.
pub fn resource(source_name: &str, name: &str, is_found: bool) -> Result<Resource> {
    let own = |column: &&Column| if is_found { column.found() == name } else { column.selected() == name };
    let column = source(source_name)?.columns.iter().find(own);
    column.map(|column| column.resource).ok_or_else(|| format!("no column of {source_name} has the name {name}"))
}

fn source(name: &str) -> Result<&'static Source> {
    SOURCES.iter().find(|source| source.name == name).ok_or_else(|| format!("there is no source {name}"))
}

#[cfg(test)]
mod tests {
    use super::super::set::parse;
    use super::*;

    /// A set of DBPA with these values of one column, and zeros elsewhere.
    fn set(column: &str, values: &[&str]) -> Set {
        let names: Vec<&str> = DBPA.iter().map(|column| column.column).collect();
        let mut text = format!("# source: dbpa\n# class: lock waits\n# step_s: 5\nabnormal,{}\n", names.join(","));
        for (at, value) in values.iter().enumerate() {
            let cells = names.iter().map(|name| if *name == column { *value } else { "0" });
            text.push_str(&format!("{},{}\n", u8::from(at > 0), cells.collect::<Vec<_>>().join(",")));
        }
        parse(&text).unwrap()
    }

    #[test]
    fn a_column_becomes_a_series_with_source_unit_and_scale() {
        let asked = question(&set("dsk/total writ", &["1", "", "3"])).unwrap();
        assert_eq!(asked["region"], json!([1, 3]));
        assert_eq!((&asked["step_s"], &asked["latency_s"]), (&json!(5.0), &json!([])));
        assert_eq!(asked["operations"], json!([0.0, 0.0, 0.0]));
        let written = asked["series"].as_array().unwrap().iter().find(|one| one["name"] == "written").unwrap();
        assert_eq!(
            *written,
            json!({
                "source": "disk", "subject": "sda", "name": "written", "unit": "B/s", "is_total": true,
                "values": [1.0, null, 3.0],
            })
        );
        let scaled = DBSHERLOCK.iter().find(|column| column.column == "osNetworkSendKB").unwrap();
        assert_eq!(scaled.scale, 1_024.0);
    }

    #[test]
    fn every_series_has_its_class_by_both_names() {
        for source in &SOURCES {
            for column in source.columns {
                assert_eq!(resource(source.name, &column.selected(), false), Ok(column.resource), "{}", column.column);
                // Findings add up what is of the same name.
                assert_eq!(resource(source.name, &column.found(), true), Ok(column.resource), "{}", column.column);
            }
            let mut names: Vec<String> = source.columns.iter().map(Column::selected).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), source.columns.len(), "{}", source.name);
        }
        for (name, is_found, wanted) in [
            ("cpu iowait", false, Disk),
            ("waiting for disks", true, Disk),
            ("the machine's CPU", true, Processor),
            ("store mysql lock waits", false, Locks),
            ("mysql: lock waits", true, Locks),
            ("disk sda busy", false, Disk),
            ("disk sda", true, Disk),
            ("eth0: sent", true, Network),
            ("store mysql commits", false, Workload),
        ] {
            assert_eq!(resource("dbsherlock", name, is_found), Ok(wanted), "{name}");
        }
        assert!(resource("dbsherlock", "vda: read", true).is_err() && resource("other", "disk sda", true).is_err());
    }

    #[test]
    fn a_set_without_a_column_of_its_source_is_refused() {
        let text = "# source: dbpa\n# class: lock waits\n# step_s: 5\nabnormal,procs run\n0,1\n1,2\n";
        let what = question(&parse(text).unwrap()).unwrap_err();
        assert_eq!(what, "the column mysql5 all comm is missing");
    }
}
