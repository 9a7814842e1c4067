//! Tests of statements: origins of parameters, tables, literals, and reasons to refuse a statement.

use super::*;

fn origins(text: &str, dialect: Dialect) -> Vec<String> {
    let shown = |origin| match origin {
        Origin::Column { qualifier, column, is_array, is_listed } => {
            let qualifier = qualifier.map_or(String::new(), |qualifier| format!("{qualifier}."));
            format!("{qualifier}{column}{}{}", if is_array { "[]" } else { "" }, if is_listed { ",…" } else { "" })
        }
        Origin::Fixed(value) => format!("={value}"),
        Origin::Unknown => "?".to_owned(),
    };
    Statement::new(text, dialect).origins().into_iter().map(shown).collect()
}

#[test]
fn what_is_cut_within_a_literal_is_left_out_and_no_number_of_a_parameter_is_too_large() {
    let foreign = |text: &str| Statement::new(text, Dialect::Postgres).foreign(&[]);
    assert_eq!(foreign("SELECT a FROM t WHERE b = 'abc"), Some("is cut off"));
    assert_eq!(foreign("SELECT a FROM t WHERE b = '"), Some("is cut off"));
    assert_eq!(foreign("SELECT a FROM t WHERE b = 'abc'"), None);
    for number in ["65536", "2000000000", "9000000000000000000", "99999999999999999999"] {
        assert_eq!(Statement::new(&format!("SELECT ${number}"), Dialect::Postgres).params(), 0, "{number}");
    }
    assert_eq!(Statement::new("SELECT $65535", Dialect::Postgres).params(), 65_535);
}

#[test]
fn a_parameter_is_of_the_column_that_it_is_compared_with() {
    for (text, wanted) in [
        ("SELECT * FROM o WHERE o.id = $1 AND \"Total\" >= $2", &["o.id", "\"Total\""][..]),
        ("SELECT a FROM t WHERE $1 < a AND b BETWEEN $2 AND $3", &["a", "b", "b"]),
        ("SELECT a FROM t WHERE a IN ($1, $2 /*, ... */) AND b NOT IN ($3)", &["a,…", "a,…", "b,…"]),
        ("SELECT a FROM t WHERE a = ANY($1) AND b = ANY ($2::int[])", &["a[]", "b[]"]),
        ("SELECT a FROM t WHERE lower(b) = $1 AND c::text NOT LIKE $2", &["b", "c"]),
        ("SELECT a FROM t WHERE a > $1::date + b ORDER BY a LIMIT $2 OFFSET $3", &["a", "=10", "=0"]),
        ("SELECT a FROM t WHERE c > now() - interval $1", &["=1 day"]),
        ("INSERT INTO t (a, b) VALUES ($1, $2), ($3, $4)", &["a", "b", "a", "b"]),
        ("UPDATE t SET a = $1, b = b + $2 WHERE c = $3", &["a", "?", "c"]),
        ("SELECT $1", &["?"]),
        ("$1", &["?"]),
    ] {
        assert_eq!(origins(text, Dialect::Postgres), wanted, "{text}");
    }
    assert_eq!(origins("SELECT c FROM s WHERE `s` . `id` = ? LIMIT ?, ?", Dialect::Mysql), ["s.`id`", "=0", "=10"]);
}

#[test]
fn tables_are_found_with_their_aliases() {
    let text = "SELECT 1 FROM shop.orders AS o, \"Items\" i JOIN c USING (id) WHERE EXISTS (SELECT FROM d LIMIT 1)";
    let tables = Statement::new(text, Dialect::Postgres).tables();
    let shown: Vec<_> = tables.iter().map(|table| (&*table.name, &*table.alias)).collect();
    assert_eq!(shown, [("shop.orders", "o"), ("\"Items\"", "i"), ("c", "c"), ("d", "d")]);
}

#[test]
fn statements_that_differ_in_literals_are_one() {
    let (one, values, is_text) =
        Statement::of_literals("SELECT a FROM t WHERE a = 7 AND b = 'it''s' ORDER BY 1, 2 LIMIT 5;", Dialect::Postgres);
    assert_eq!(one.text, "SELECT a FROM t WHERE a = $1 AND b = $2 ORDER BY 1, 2 LIMIT $3");
    assert_eq!((values, is_text), (["7", "it's", "5"].map(str::to_owned).to_vec(), vec![false, true, false]));
    let (one, values, is_text) =
        Statement::of_literals("SELECT a FROM t WHERE b = \"x\\'y\" AND d > DATE '2020-01-01'", Dialect::Mysql);
    assert_eq!(one.text, "SELECT a FROM t WHERE b = ? AND d > DATE '2020-01-01'");
    assert_eq!((values, is_text), (vec!["x'y".to_owned()], vec![true]));
}

#[test]
fn a_sign_goes_with_its_number_and_what_has_to_stay_a_literal_does() {
    for (text, wanted, wanted_values) in [
        ("SELECT a FROM t WHERE d = -5 AND e>-1.5", "SELECT a FROM t WHERE d = $1 AND e>$2", &["-5", "-1.5"][..]),
        ("SELECT a FROM t WHERE d = e - 5", "SELECT a FROM t WHERE d = e - $1", &["5"]),
        ("SELECT a FROM t WHERE d IN (-1, - 2)", "SELECT a FROM t WHERE d IN ($1, $2)", &["-1", "-2"]),
        ("SELECT a FROM t WHERE d BETWEEN -1 AND -2", "SELECT a FROM t WHERE d BETWEEN $1 AND $2", &["-1", "-2"]),
        (
            "SELECT date_trunc('day', c), 'x' FROM t WHERE d = 'day' GROUP BY date_trunc('day', c), 2 LIMIT 5",
            "SELECT date_trunc('day', c), $1 FROM t WHERE d = $2 GROUP BY date_trunc('day', c), 2 LIMIT $3",
            &["x", "day", "5"],
        ),
        (
            "SELECT a FROM (SELECT b FROM t ORDER BY 1) u WHERE c = 1",
            "SELECT a FROM (SELECT b FROM t ORDER BY 1) u WHERE c = $1",
            &["1"],
        ),
        (
            "SELECT a::varchar(10), CAST(d AS numeric(10,2)), e::character varying(3) FROM t WHERE f::int IN (1, 2)",
            "SELECT a::varchar(10), CAST(d AS numeric(10,2)), e::character varying(3) FROM t WHERE f::int IN ($1, $2)",
            &["1", "2"],
        ),
        ("INSERT INTO t AS x VALUES (1, -2)", "INSERT INTO t AS x VALUES ($1, $2)", &["1", "-2"]),
    ] {
        let (one, values, _) = Statement::of_literals(text, Dialect::Postgres);
        assert_eq!((&*one.text, values), (wanted, wanted_values.iter().map(|value| (*value).to_owned()).collect()));
    }
}

#[test]
fn what_a_script_cannot_have_is_told_why() {
    for (text, wanted) in [
        ("BEGIN", Some("transaction")),
        ("SELECT 1 FROM public.pg_class", Some("catalogue")),
        ("SELECT 1 FROM a JOIN Own.b USING (c)", Some("catalogue")),
        ("SELECT a FROM t; SELECT b FROM t", Some("several")),
        ("SELECT a[1:n] FROM t", Some("colon")),
        ("SELECT a FROM t WHERE b IN (...", Some("cut off")),
        ("SELECT a::int, '12:30:x' FROM t WHERE b = $1;", None),
    ] {
        let foreign = Statement::new(text, Dialect::Postgres).foreign(&["pg_*", "own"]);
        assert_eq!(foreign.is_some(), wanted.is_some(), "{text}");
        assert!(wanted.is_none_or(|wanted| foreign.unwrap().contains(wanted)), "{text}: {foreign:?}");
    }
}
