//! Operations are sysbench's, and are tried again as they were.

use plimsoll_core::{Answer, Call, Outcome, ParamValue, Step, Value};

use super::*;
use crate::tests::defaults;

fn made(changes: &[(&str, i64)]) -> Oltp {
    let mut params = defaults(spec().params);
    for (name, value) in changes {
        params.0.insert((*name).to_owned(), ParamValue::Int(*value));
    }
    Oltp::new(7, &params).unwrap()
}

/// Runs operation `cycle` of the kind; what was sent and what it came to.
fn run(
    oltp: &Oltp,
    kind: &str,
    cycle: u64,
    mut answer: impl FnMut(&str, &mut Answer) -> Outcome,
) -> (Vec<String>, String, Outcome) {
    let stream = oltp.stream(&StreamSpec::One { kind: kind.into(), clients: 1 }).unwrap();
    let mut params = ValueBuf::new();
    let kind = stream.op(0, cycle, &mut params).unwrap();
    let mut steps = stream.steps(0).expect("an operation of steps");
    steps.begin(cycle, kind, params.values());
    let mut sent = Vec::new();
    loop {
        params.clear();
        match steps.next(&mut params) {
            Step::Send { kind, more: false } => {
                let kind = &oltp.kinds[usize::from(kind)];
                assert_eq!(kind.params.len(), params.len(), "{kind:?}");
                for (value, value_type) in params.values().iter().zip(&kind.params) {
                    assert_eq!(value.value_type(), Some(*value_type), "{kind:?}");
                }
                let (Call::Sql(text) | Call::SqlRow(text)) = &kind.call else { panic!("{kind:?}") };
                sent.push(format!("{text} {:?}", params.values()));
                let mut said = Answer::default();
                let outcome = answer(text, &mut said);
                steps.answered(outcome, &said);
            }
            Step::End { kind, outcome } => return (sent, oltp.kinds[usize::from(kind)].name.clone(), outcome),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn an_operation_has_sysbenchs_statements() {
    let oltp = made(&[]);
    let (sent, name, outcome) = run(&oltp, "read_write", 0, |_, _| Outcome::Ok);
    assert_eq!((name.as_str(), outcome), ("read_write", Outcome::Ok));
    let firsts: Vec<&str> = sent.iter().map(|text| text.split(" [").next().unwrap_or("")).collect();
    assert_eq!(firsts[..2], ["BEGIN", "SELECT c FROM sbtest1 WHERE id = $1"]);
    assert_eq!(firsts[1..11], ["SELECT c FROM sbtest1 WHERE id = $1"; 10]);
    assert_eq!(
        firsts[11..],
        [
            "SELECT c FROM sbtest1 WHERE id BETWEEN $1 AND $2",
            "SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN $1 AND $2",
            "SELECT c FROM sbtest1 WHERE id BETWEEN $1 AND $2 ORDER BY c",
            "SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN $1 AND $2 ORDER BY c",
            "UPDATE sbtest1 SET k = k + 1 WHERE id = $1",
            "UPDATE sbtest1 SET c = $1 WHERE id = $2",
            "DELETE FROM sbtest1 WHERE id = $1",
            "INSERT INTO sbtest1 (id, k, c, pad) VALUES ($1, $2, $3, $4)",
            "COMMIT",
        ]
    );
    // The row that is inserted is the one that was deleted.
    let id = |text: &str| text.split(['(', ')']).find_map(|part| part.parse::<i64>().ok());
    let insert = sent[18].split_once("[Int").map_or("", |(_, values)| values);
    assert_eq!((id(insert), id(insert).is_some()), (id(&sent[17]), true));
    assert_eq!(run(&oltp, "read_only", 0, |_, _| Outcome::Ok).0.len(), 16);
    assert_eq!(run(&oltp, "write_only", 0, |_, _| Outcome::Ok).0.len(), 6);
    assert_eq!(run(&made(&[("point_selects", 0), ("sum_ranges", 3)]), "read_only", 0, |_, _| Outcome::Ok).0.len(), 8);
}

#[test]
fn single_statements_on_one_table_are_plain_operations() {
    let oltp = made(&[]);
    for kind in ["point_select", "update_index", "update_non_index", "insert", "delete"] {
        let stream = oltp.stream(&StreamSpec::One { kind: kind.into(), clients: 1 }).unwrap();
        assert!(stream.steps(0).is_none());
        let mut params = ValueBuf::new();
        let position = stream.op(3, 9, &mut params).unwrap();
        let kind = &oltp.kinds[usize::from(position)];
        let types: Vec<_> = params.values().iter().filter_map(|value| value.value_type()).collect();
        assert_eq!(types, kind.params, "{kind:?}");
    }
    let names: Vec<&str> =
        oltp.kinds.iter().filter(|kind| kind.step_of.is_none()).map(|kind| kind.name.as_str()).collect();
    assert_eq!(names, operations::NAMES);
}

#[test]
fn with_several_tables_all_are_asked() {
    let oltp = made(&[("tables", 4)]);
    let mut asked = std::collections::BTreeSet::new();
    for cycle in 0..100 {
        let (sent, ..) = run(&oltp, "point_select", cycle, |_, _| Outcome::Ok);
        asked.insert(sent[0].split(" WHERE").next().unwrap_or("").to_owned());
    }
    assert_eq!(asked.len(), 4);
    assert!(oltp.kinds.iter().any(|kind| kind.name == "read_write/point_select 4"));
    // One transaction's point selects all ask the same table.
    let (sent, ..) = run(&oltp, "read_only", 5, |_, _| Outcome::Ok);
    let tables: std::collections::BTreeSet<_> = sent[1..11].iter().map(|text| text.split(" WHERE").next()).collect();
    assert_eq!(tables.len(), 1);
}

#[test]
fn a_conflict_is_rolled_back_and_tried_again_with_the_same_values() {
    for (code, gave_way) in [("40001", true), ("23505", false)] {
        let oltp = made(&[("max_tries", 3)]);
        let mut left = 2;
        let (sent, name, outcome) = run(&oltp, "write_only", 1, |text, answer| {
            if text.starts_with("DELETE") && left > 0 {
                left -= 1;
                let refused = answer.fail(Outcome::Rejected, code, "give way");
                answer.gave_way = gave_way;
                return refused;
            }
            Outcome::Ok
        });
        assert_eq!((name.as_str(), outcome), ("write_only retried", Outcome::Ok));
        assert_eq!(sent.len(), 2 * 5 + 6);
        assert!(sent[4].starts_with("ROLLBACK"));
        assert_eq!(sent[..4], sent[5..9]);
    }
    let oltp = made(&[("max_tries", 3)]);
    let refuse = |text: &str, answer: &mut Answer| match text {
        "COMMIT" => answer.fail(Outcome::Rejected, "53100", "disk full"),
        _ => Outcome::Ok,
    };
    let (sent, name, outcome) = run(&oltp, "write_only", 1, refuse);
    assert_eq!((name.as_str(), outcome, sent.len()), ("write_only", Outcome::Rejected, 7));
}

#[test]
fn contents_have_sysbenchs_form() {
    let oltp = made(&[]);
    let stream = oltp.stream(&StreamSpec::One { kind: "insert".into(), clients: 1 }).unwrap();
    let mut params = ValueBuf::new();
    stream.op(0, 0, &mut params);
    for (position, groups) in [(1, 10), (2, 5)] {
        let Value::Text(text) = params.values().get(position) else { panic!("a text") };
        let parts: Vec<&str> = text.split('-').collect();
        assert_eq!(parts.len(), groups);
        assert!(parts.iter().all(|part| part.len() == 11 && part.bytes().all(|byte| byte.is_ascii_digit())));
    }
}

#[test]
fn a_parameter_that_is_no_number_is_told() {
    let mut params = defaults(spec().params);
    params.0.insert("pareto_h".into(), ParamValue::Text("2".into()));
    let error = Oltp::new(1, &params).err().expect("refused");
    assert_eq!(error.what, "`pareto_h` is `2`");
}
