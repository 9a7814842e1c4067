use std::collections::BTreeMap;
use std::fs;

use plimsoll_record::data::{PhaseEnd, PhaseHeader, PhaseKind, ResultName, RunState};
use plimsoll_record::schema::{
    AFFECTED_DDL, APPLICATION_ID, DDL, FAULT_DETAIL_DDL, FINE_DDL, FORMAT, KEY_PARTS_DDL, OPERATIONS_DDL,
    SERVER_TICKS_DDL, SILENCES_DDL,
};
use rusqlite::Connection;

use crate::synthetic;

fn page() -> String {
    fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/recording.md")).unwrap()
}

#[test]
fn the_book_names_every_table_and_column_in_order() {
    let connection = Connection::open_in_memory().unwrap();
    connection.execute_batch(DDL).unwrap();
    connection.execute_batch(OPERATIONS_DDL).unwrap();
    connection.execute_batch(FINE_DDL).unwrap();
    connection.execute_batch(AFFECTED_DDL).unwrap();
    connection.execute_batch(SILENCES_DDL).unwrap();
    connection.execute_batch(SERVER_TICKS_DDL).unwrap();
    connection.execute_batch(KEY_PARTS_DDL).unwrap();
    connection.execute_batch(FAULT_DETAIL_DDL).unwrap();
    let mut real: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let sql = "SELECT t.name, c.name FROM pragma_table_list t, pragma_table_xinfo(t.name) c \
               WHERE t.schema = 'main' AND t.name NOT LIKE 'sqlite%' ORDER BY t.name, c.cid";
    let mut statement = connection.prepare(sql).unwrap();
    let mut rows = statement.query([]).unwrap();
    while let Some(row) = rows.next().unwrap() {
        real.entry(row.get(0).unwrap()).or_default().push(row.get(1).unwrap());
    }

    let page = page();
    let mut told: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut table = None;
    for line in page.lines() {
        if let Some(name) = line.strip_prefix("### `") {
            table = Some(told.entry(name.trim_end_matches('`').to_owned()).or_default());
        } else if let (Some(row), Some(table)) = (line.strip_prefix("| `"), &mut table) {
            let (name, what) = row.split_once("` | ").expect("a name and what it is");
            assert!(what.len() > 4, "{line}");
            table.push(name.to_owned());
        }
    }
    assert_eq!(told, real);
    assert!(page.contains(&format!("`PRAGMA application_id` is {APPLICATION_ID} ")));
    assert!(page.contains(&format!("version of these tables: {FORMAT}.")));
}

#[test]
fn the_books_queries_answer() {
    let place = tempfile::tempdir().unwrap();
    let recorder = synthetic::recorder(place.path(), "20261121-202403-4f1c");
    recorder.begin_trial(synthetic::trial(0)).unwrap();
    let load = PhaseHeader { name: "load".into(), kind: PhaseKind::Load, ..synthetic::phase(0, 0) };
    recorder.begin_phase(load).unwrap();
    let mut end = PhaseEnd::default();
    end.push(ResultName::Seconds, 1.5);
    recorder.end_phase(0, 0, end).unwrap();
    recorder.begin_phase(synthetic::phase(0, 1)).unwrap();
    for ordinal in 0..3 {
        recorder.slice(0, 1, synthetic::slice(ordinal)).unwrap();
        recorder.sample(synthetic::sample(0, ordinal)).unwrap();
    }
    recorder.fault(synthetic::fault(0, 1, 0)).unwrap();
    let path = recorder.finish(RunState::Complete, 5).unwrap();
    let connection = Connection::open(path).unwrap();
    let page = page();
    let queries: Vec<&str> =
        page.split("```sql\n").skip(1).map(|rest| rest.split("```").next().expect("an end")).collect();
    // The second slice and the third, not the warm-up; one load; all series; one fault.
    let rows = queries.iter().map(|query| {
        let mut statement = connection.prepare(query).unwrap_or_else(|error| panic!("{query}: {error}"));
        statement.query_map([], |_| Ok(())).unwrap().count()
    });
    assert_eq!(rows.collect::<Vec<_>>(), [2, 1, 96, 1]);
}
