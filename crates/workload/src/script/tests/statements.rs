//! Boundaries of statements in scripts, and the way of values into them.

use super::*;

fn texts(text: &str) -> Vec<String> {
    sent(&Setting { defines: &[("tbl", "orders"), ("n", "7")], tries_max: 2, ..Setting::default() }, text)
}

#[test]
fn statements_end_where_psql_ends_them() {
    for (text, wanted) in [
        ("SELECT 1; SELECT 2", &["SELECT 1", "SELECT 2"][..]),
        ("-- a; comment\n  SELECT 1 -- ;\n + 2 ;\n\n;", &["SELECT 1 -- ;\n + 2"]),
        ("/* ; /* nested ; */ */ SELECT ';' /* ; */;", &["SELECT ';'"]),
        // What MariaDB runs, and hints of how to plan, are no comments: they are sent.
        ("SELECT 1 /*! + 1 */ /* note */;", &["SELECT 1 /*! + 1 */"]),
        ("/*!100100 SET a = 1 */; /*M! SET b = 2; */;", &["/*!100100 SET a = 1 */", "/*M! SET b = 2; */"]),
        ("/*+ SeqScan(t) */ SELECT 1;", &["/*+ SeqScan(t) */ SELECT 1"]),
        ("SELECT 'it''s; one', E'a\\';b', \"c;d\";", &["SELECT 'it''s; one', E'a\\';b', \"c;d\""]),
        ("SELECT $$ ; ' $$, $x$ ; $$ $x$, a$b$c;", &["SELECT $$ ; ' $$, $x$ ; $$ $x$, a$b$c"]),
        ("SELECT (1; 2); SELECT 3", &["SELECT (1; 2)", "SELECT 3"]),
        (
            "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1; END; SELECT 2; END; SELECT 3",
            &[
                "CREATE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT CASE WHEN true THEN 1; END; SELECT 2; END",
                "SELECT 3",
            ],
        ),
        ("SELECT 1 \\sleep 0 us\nSELECT 2", &["SELECT 1", "SELECT 2"]),
        ("SELECT 1::int, '2'::text, x[1:2], a \\:b", &["SELECT 1::int, '2'::text, x[1:2], a :b"]),
        ("SELECT '12:30', 'a:unknown'", &["SELECT '12:30', 'a:unknown'"]),
    ] {
        assert_eq!(texts(text), wanted, "{text}");
    }
}

#[test]
fn a_value_is_a_parameter_where_one_may_stand() {
    let set = "\\set x random(5, 5)\n";
    for (statement, wanted) in [
        ("SELECT a FROM t WHERE b = :x AND c=:x LIMIT :x", "SELECT a FROM t WHERE b = $1 AND c=$2 LIMIT $3 <- 5, 5, 5"),
        ("INSERT INTO t VALUES (:x, :client_id, :scale)", "INSERT INTO t VALUES ($1, $2, $3) <- 5, 0, 1"),
        ("/* hint */ update t set a = a + :x", "update t set a = a + $1 <- 5"),
        ("WITH w AS (SELECT :x AS y) SELECT * FROM w", "WITH w AS (SELECT $1 AS y) SELECT * FROM w <- 5"),
        // Where none may stand the value is written into the text.
        ("SET work_mem = :x", "text: SET work_mem = 5"),
        ("SELECT * FROM t_:x", "text: SELECT * FROM t_5"),
        ("SELECT * FROM :x", "text: SELECT * FROM 5"),
        ("SELECT ':x seconds'::interval, :x", "text: SELECT '5 seconds'::interval, 5"),
        ("SELECT a FROM t ORDER BY :x", "text: SELECT a FROM t ORDER BY 5"),
        ("SELECT interval :x", "text: SELECT interval 5"),
        ("NOTIFY c_:x", "text: NOTIFY c_5"),
        // What never changes is written once.
        ("SELECT a FROM :tbl WHERE b = :x", "SELECT a FROM orders WHERE b = $1 <- 5"),
        ("SET work_mem = :n", "SET work_mem = 7"),
        ("SELECT ':tbl', :n, :tbl", "SELECT 'orders', $1, $2 <- 7, orders"),
    ] {
        assert_eq!(texts(&format!("{set}{statement}")), [wanted], "{statement}");
    }
    let simple = Setting { as_text: true, tries_max: 2, ..Setting::default() };
    assert_eq!(sent(&simple, &format!("{set}SELECT :x, :scale, 1.5")), ["text: SELECT 5, 1, 1.5"]);
}

#[test]
fn kinds_are_the_script_its_retried_runs_and_its_statements() {
    let text = "\\set a 1\nBEGIN;\nSELECT x\n FROM t WHERE y = :a \\gset\nSET z = :x;\nEND;";
    let setting = Setting { tries_max: 3, ..Setting::default() };
    let compiled = setting.one(text);
    let kinds: Vec<_> = compiled
        .kinds
        .iter()
        .map(|kind| (kind.name.as_str(), kind.step_of, kind.keep_answer, kind.params.as_slice()))
        .collect();
    use plimsoll_core::ValueType::{Int, Text};
    assert_eq!(
        kinds,
        [
            ("s", None, false, &[][..]),
            ("s retried", None, false, &[]),
            ("s/1 BEGIN", Some(0), false, &[]),
            ("s/2 SELECT x FROM t WHERE y = :a", Some(0), true, &[Int]),
            ("s/3 SET z = :x", Some(0), false, &[Text]),
            ("s/4 END", Some(0), false, &[]),
            ("s/rollback", Some(0), false, &[]),
        ]
    );
    assert_eq!(compiled.kinds[4].call, Call::SqlText);
}

#[test]
fn one_statement_that_needs_no_answer_is_a_plain_operation() {
    for text in [
        "SELECT 1",
        "\\set aid random(1, 100000 * :scale)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;",
        "\\set a random_zipfian(1, 10, 1.5) * 2 - 1\n\\set b permute(:a, 100) % 7\n\\set c :b / 2.0\nSELECT :a, :b, :c",
        "\\set a case when random(0, 1) = 0 then 5 else hash(:client_id) end\nSELECT :a, :scale, :client_id",
    ] {
        let compiled = Setting::default().one(text);
        assert_eq!(compiled.kinds.len(), 1, "{text}");
        assert!(matches!(compiled.kinds[0].call, Call::Sql(_)));
        assert_eq!(plain_params(&compiled, 1, 2).len(), compiled.kinds[0].params.len());
    }
    for text in [
        // Two statements; an answer that is wanted; what may fail; what lasts; what is sent as text.
        "SELECT 1; SELECT 2",
        "SELECT 1 AS x \\gset",
        "\\set a 5 / random(0, 1)\nSELECT :a",
        "\\set a :a + 1\nSELECT :a",
        "\\set x random(1, 2)\nSET work_mem = :x",
        "SELECT 1;\n\\sleep 1 us",
        "\\if random(0, 1) = 0\nSELECT 1;\n\\endif",
    ] {
        let setting = Setting { defines: &[("a", "1")], ..Setting::default() };
        assert_eq!(setting.one(text).kinds[0].call, Call::Steps, "{text}");
    }
}

#[test]
fn a_plain_operation_has_the_values_that_steps_would_have() {
    let text = "\\set a random(1, 1000)\n\\set b random_gaussian(:a, 5000, 2.5)\n\\set a :a * 2\nSELECT :a, :b, :n";
    let defines = &[("n", "x")];
    let plain = Setting { defines, ..Setting::default() }.one(text);
    let steps = Setting { defines, tries_max: 2, ..Setting::default() }.one(text);
    let mut client = Client::new(steps, 3, |_| (Outcome::Ok, Answer::default()));
    for cycle in 0..50 {
        client.run(cycle);
        let params = plain_params(&plain, 3, cycle);
        let values: Vec<String> = params.values().iter().map(|value| format!("{value:?}")).collect();
        let (Value::Int(a), Value::Int(b)) = (params.values().get(0), params.values().get(1)) else {
            panic!("two integers: {values:?}");
        };
        assert_eq!(client.log.pop(), Some(format!("SELECT $1, $2, $3 <- {a}, {b}, x")));
    }
}
