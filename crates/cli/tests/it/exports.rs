//! Traces and tables of a run, read by the programs that they are made for.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::bench::{Place, Ran};

/// Environment variable with the directory of Python libraries that `cargo xtask test` fetched.
const PYTHON: &str = "PLIMSOLL_TEST_PYTHON";

/// Prints the number of rows of each query.
const COUNT_ROWS: &str = "import duckdb, sys
for query in sys.argv[1].split(';'):
    if query.strip():
        print(len(duckdb.sql(query).fetchall()))";

/// Runs queries by DuckDB in a directory.
fn duckdb(place: &Place, directory: &Path, queries: &str) -> Ran {
    let mut command = place.program("python3");
    command.args(["-c", COUNT_ROWS, queries]).current_dir(directory);
    if let Some(python) = std::env::var_os(PYTHON) {
        command.env("PYTHONPATH", python);
    }
    let ran = Ran::of(&command.output().expect("python3"));
    let is_missing = ran.err.contains("No module named 'duckdb'");
    assert!(!is_missing, "DuckDB is missing: `cargo xtask test` fetches it, or: python3 -m pip install duckdb");
    ran
}

/// Drives SQLite as `more` says.
fn driven(place: &Place, more: &str) {
    let drive = "drive kv --mix read=1,update=1 --on sqlite --set records=200 --clients 2 --slice 100ms --warmup 0s";
    place.line(&format!("{drive} -q {more}")).expect(0);
}

#[test]
fn the_queries_of_the_book_work_on_the_tables_of_a_run() {
    let place = Place::new();
    // Long enough for ten slices with operations on a busy machine.
    driven(&place, "--for 3s --keep-operations 1M");
    place.line("report latest --format parquet").expect(0).says("/tables");
    let run = place.all_runs().remove(0);
    let names = |directory: &Path| -> BTreeSet<String> {
        let files = std::fs::read_dir(directory).unwrap();
        files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
    };
    assert_eq!(names(&run.join("tables")).len(), 10);
    let book = include_str!("../../../../docs/src/exports.md");
    let queries: Vec<&str> = book.split("```sql\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(queries.len(), 7);
    let ran = duckdb(&place, &run, &queries.concat()).expect(0);
    let rows: Vec<u64> = ran.out.lines().map(|line| line.parse().unwrap()).collect();
    // Reads and updates; ten slices, each beside every disk; both types, all together and those of the load. There
    // were no faults.
    assert_eq!((rows[0], rows[4], rows[6]), (2, 0, 10), "{rows:?}");
    assert!(rows[1] >= 10 && rows[1].is_multiple_of(10) && rows[2] >= 4, "{rows:?}");
    let query = |at: usize| queries[at].trim().trim_end_matches(';').to_owned();
    let longest = "SELECT max(max_ns) / 1e6 FROM 'tables/slices.parquet' WHERE phase_kind = 'drive' AND NOT warmup";
    let truths = [
        // The longest operation of all is that of a type, and ended in the first of the ten slices.
        format!("SELECT 1 FROM ({}) GROUP BY ALL HAVING max(longest_ms) = ({longest})", query(0)),
        format!("SELECT DISTINCT start_s FROM ({}) WHERE longest_ms = ({longest})", query(1)),
        // The percentile is the report's: no other phase is in it. A busy machine has too few operations for p99.
        format!(
            "SELECT 1 FROM ({}) q JOIN 'tables/phases.parquet' p ON p.phase = q.phase
             WHERE q.op = 'all' AND p.phase_kind = 'drive' AND abs(q.p99_ms * 1e6 / p.p90_ns - 1) < 0.02",
            query(2).replace("0.99", "0.9")
        ),
        // The operations one by one are those of the slices, and the longest is the longest there, to 3 digits.
        "SELECT 1 FROM (SELECT op, count(*) AS n, max(response_ns) FILTER (WHERE outcome <> 'rejected') AS longest
                        FROM 'tables/operations.parquet' GROUP BY op) o
         JOIN (SELECT op, sum(count) AS n, max(max_ns) AS longest FROM 'tables/slices.parquet'
               WHERE phase_kind = 'drive' GROUP BY op) s ON s.op = o.op
         WHERE s.n = o.n AND abs(s.longest / o.longest - 1) < 0.01"
            .to_owned(),
        "SELECT 1 FROM 'tables/operations.parquet' WHERE service_ns > response_ns OR sent_s < due_s OR end_s < sent_s"
            .to_owned(),
    ];
    let ran = duckdb(&place, &run, &truths.join(";")).expect(0);
    assert_eq!(ran.out.lines().collect::<Vec<_>>(), ["1", "1", "1", "2", "0"], "{truths:?}");
    // A second time the files are replaced, and a recording is never.
    place.line("report latest --format parquet").expect(0);
    let recording = run.join("run.sqlite");
    std::fs::remove_file(run.join("tables/goals.parquet")).unwrap();
    std::fs::hard_link(&recording, run.join("tables/goals.parquet")).unwrap();
    place.line("report latest --format parquet").expect(2).says("is a recording, or a part of one");
}

#[test]
fn a_trace_is_printed_and_outputs_that_cannot_be_written_are_named_with_advice() {
    let place = Place::new();
    driven(&place, "--for 1s --think 2ms");
    let printed = place.line("report latest --format perfetto").expect(0).out;
    assert!(serde_json::from_str::<Value>(&printed).unwrap()["traceEvents"].is_array(), "{printed}");
    let directory = place.path().join("directory");
    std::fs::create_dir(&directory).unwrap();
    let file = place.plan("a file");
    let report = |format: &str, output: &str| place.line(&format!("report latest --format {format} -o {output}"));
    report("perfetto", directory.to_str().unwrap()).expect(8).says("Is a directory … --output");
    report("perfetto", "/dev/full").expect(7).says("/dev/full … No space left on device");
    report("parquet", &file).expect(8).says("File exists … several files: give --output a directory");
    report("parquet", "-").expect(2).says("several files … --output DIRECTORY");
    report("parket", "x").expect(2).says("csv, hdr, perfetto, parquet");
}
