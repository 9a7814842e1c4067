//! Everything that pgbench's own tests expect to be refused (`src/bin/pgbench/t/001_pgbench_with_server.pl`, "script
//! error") is refused here too: exit code 2, the script's file and line, and why.

use crate::bench::Place;
use crate::servers::Postgres;

/// pgbench's name of the case, the script, and what is said. Most of pgbench's scripts have no statement at all, which
/// is refused before anything else: they get one.
const CASES: &[(&str, &str, &str)] = &[
    ("sql syntax error", "SELECT 1 + ;", "does not take the statement: SELECT 1 +"),
    ("shell bad command", "\\shell no-such-command\nSELECT 1;", "\\shell would run a program"),
    ("shell undefined variable", "\\shell echo ::foo :nosuchvariable\nSELECT 1;", "\\shell would run a program"),
    ("shell missing command", "\\shell\nSELECT 1;", "\\shell would run a program"),
    ("set syntax error", "\\set i 1 +\nSELECT 1;", "the expression ends too early"),
    ("set no such function", "\\set i noSuchFunction()\nSELECT 1;", "unexpected function name"),
    ("set invalid variable name", "\\set . 1\nSELECT 1;", "invalid variable name"),
    ("set division by zero", "\\set i 1/0\nSELECT 1;", ":1: division by zero"),
    ("set undefined variable", "\\set i :nosuchvariable\nSELECT 1;", "undefined variable `:nosuchvariable`"),
    ("set unexpected char", "\\set i ;\nSELECT 1;", "unexpected character"),
    (
        "set too many args",
        "\\set i least(0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16)\nSELECT 1;",
        "too many function arguments, maximum is 16",
    ),
    ("set empty random range", "SELECT 1;\n\n\\set i random(5,3)", ":3: empty range given to random"),
    ("set random range too large", "\\set i random(:minint, :maxint)\nSELECT 1;", ":1: random range is too large"),
    ("set gaussian param too small", "\\set i random_gaussian(0, 10, 1.0)\nSELECT 1;", ":1: gaussian parameter"),
    ("set exponential param greater 0", "\\set i random_exponential(0, 10, 0.0)\nSELECT 1;", ":1: exponential param"),
    ("set zipfian param to 1", "\\set i random_zipfian(0, 10, 1)\nSELECT 1;", ":1: zipfian parameter"),
    ("set zipfian param too large", "\\set i random_zipfian(0, 10, 1000000)\nSELECT 1;", ":1: zipfian parameter"),
    ("set non numeric value", "\\set i :foo + 1\nSELECT 1;", ":1: malformed value of variable \"foo\""),
    ("set no expression", "\\set i\nSELECT 1;", "the expression ends too early"),
    ("set missing argument", "\\set\nSELECT 1;", "missing argument"),
    ("set not a bool", "\\set b NOT 0.0\nSELECT 1;", ":1: cannot coerce double to boolean"),
    ("set not an int", "\\set i TRUE + 2\nSELECT 1;", ":1: cannot coerce boolean to int"),
    ("set not a double", "\\set d ln(TRUE)\nSELECT 1;", ":1: cannot coerce boolean to double"),
    ("set case error", "\\set i CASE TRUE THEN 1 ELSE 0 END\nSELECT 1;", "syntax error"),
    ("set random error", "\\set b random(FALSE, TRUE)\nSELECT 1;", ":1: cannot coerce boolean to int"),
    ("set number of args mismatch", "\\set d ln(1.0, 2.0))\nSELECT 1;", "`ln` takes 1 argument, not 2"),
    ("set at least one arg", "\\set i greatest())\nSELECT 1;", "`greatest` takes"),
    ("set double to int overflow", "\\set i int(1E32)\nSELECT 1;", ":1: double to int overflow for 100"),
    ("set bigint add overflow", "\\set i (1<<62) + (1<<62)\nSELECT 1;", ":1: bigint add out of range"),
    ("set bigint sub overflow", "\\set i 0 - (1<<62) - (1<<62) - (1<<62)\nSELECT 1;", ":1: bigint sub out of range"),
    ("set bigint mul overflow", "\\set i 2 * (1<<62)\nSELECT 1;", ":1: bigint mul out of range"),
    ("set bigint div out of range", "\\set i :minint / -1\nSELECT 1;", ":1: bigint div out of range"),
    ("setshell not an int", "\\setshell i echo -n one\nSELECT 1;", "\\setshell would run a program"),
    ("setshell missing arg", "\\setshell var\nSELECT 1;", "\\setshell would run a program"),
    ("setshell no such command", "\\setshell var no-such-command\nSELECT 1;", "\\setshell would run a program"),
    ("sleep undefined variable", "\\sleep :nosuchvariable\nSELECT 1;", "undefined variable `:nosuchvariable`"),
    ("sleep too many args", "\\sleep too many args\nSELECT 1;", "argument too many"),
    ("sleep missing arg", "\\sleep\nSELECT 1;", "missing argument"),
    ("sleep unknown unit", "\\sleep 1 week\nSELECT 1;", "unrecognized time unit"),
    ("misc invalid backslash command", "\\nosuchcommand\nSELECT 1;", "invalid command `\\nosuchcommand`"),
    ("misc empty script", "", "the script has no statement"),
    ("bad boolean", "\\set b :badtrue or true\nSELECT 1;", ":1: malformed value of variable \"badtrue\""),
    (
        "invalid permute size",
        "\\set i permute(0, 0)\nSELECT 1;",
        ":1: permute size parameter must be greater than zero",
    ),
    ("gset no row", "SELECT 1;\nSELECT 1 AS i WHERE FALSE \\gset", ":2: \\gset: expected one row, got 0"),
    ("gset alone", "\\gset", "\\gset must follow an SQL command"),
    ("gset no SQL", "SELECT 1;\n\\set i +1\n\\gset", "\\gset must follow an SQL command"),
    ("gset too many arguments", "SELECT 1 \\gset a b", "argument too many"),
    ("gset after gset", "SELECT 1 AS i \\gset\n\\gset", "\\gset must follow an SQL command"),
    ("gset non SELECT", "DROP TABLE IF EXISTS no_such_table \\gset", "\\gset needs to know the columns"),
    ("gset bad default name", "SELECT 1 \\gset", "\\gset"),
    ("gset bad name", "SELECT 1 AS \"bad name!\" \\gset", "\\gset cannot make a variable of the column `bad name!`"),
    // Its own test beside the table.
    ("incomplete transaction block", "BEGIN;SELECT 1;", "the script ends in the transaction"),
];

const DEFINES: &str = "define=foo=bla;null=null;true=true;one=1;zero=0.0;badtrue=trueXXX;\
                       maxint=9223372036854775807;minint=-9223372036854775808";

#[test]
fn what_pgbench_refuses_is_refused_with_its_place() {
    let place = Place::new();
    let server = Postgres::start(place.path());
    let file = place.path().join("case.sql");
    let path = file.to_str().unwrap();
    let args = ["drive", "-f", path, "--on", &server.url(), "--ops", "1", "-q", "--set", DEFINES];
    let too_many = format!("\\set i 0\nSELECT LEAST({})", [":i"; 256].join(", "));
    let long = ("sql too many args", too_many.as_str(), "256 parameters, of at most 255");
    let mut wrong = Vec::new();
    for (name, script, words) in CASES.iter().copied().chain([long]) {
        std::fs::write(&file, script).unwrap();
        let ran = place.run(&args);
        let words = if words.starts_with(':') { format!("case.sql{words}") } else { words.to_owned() };
        if ran.code != Some(2) || !ran.err.contains(&words) {
            wrong.push(format!("{name}: {words}: {ran:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // At 255 nothing is wrong.
    std::fs::write(&file, format!("\\set i 0\nSELECT LEAST({})", [":i"; 255].join(", "))).unwrap();
    place.run(&args).expect(0);
}

#[test]
fn a_mistake_that_shows_in_the_middle_of_a_run_ends_it_and_is_reported_with_it() {
    let place = Place::new();
    let file = place.path().join("countdown.sql");
    std::fs::write(&file, "\\set n :n - 1\nSELECT 1;\n\\set x 1 / :n\n").unwrap();
    let path = file.to_str().unwrap();
    let args = ["drive", "-f", path, "--on", "sqlite", "--for", "60s", "--set", "define=n=1000", "--clients", "1"];
    let started = std::time::Instant::now();
    let ran = place.run(&args).expect(2).says("countdown.sql:3: division by zero");
    assert!(started.elapsed() < std::time::Duration::from_secs(30), "it did not end the run: {ran:?}");
}
