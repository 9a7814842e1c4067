//! Tests that all scripts that pgbench refuses are refused with exit code 2, the script's file and line, and the
//! reason. Its own tests say what that is (PostgreSQL, `src/bin/pgbench/t/001_pgbench_with_server.pl`, "script
//! error"); each case here has one there. The scripts were written for this test.

use crate::bench::Place;
use crate::servers::Postgres;

/// Mistake, script and message. A script without a statement is refused first: the other cases have a statement.
const CASES: &[(&str, &str, &str)] = &[
    ("a statement that the server cannot parse", "SELECT 2 * FROM;", "does not take the statement: SELECT 2 * FROM"),
    ("a program", "\\shell ./measure\nSELECT 2;", "\\shell would run a program"),
    ("a program with an argument", "\\shell ./measure :absent\nSELECT 2;", "\\shell would run a program"),
    ("no program", "\\shell\nSELECT 2;", "\\shell would run a program"),
    ("half an expression", "\\set c 4 *\nSELECT 2;", "the expression ends too early"),
    ("a function that nobody has", "\\set c frobnicate()\nSELECT 2;", "unexpected function name"),
    ("a name with a dash", "\\set a-b 2\nSELECT 2;", "invalid variable name"),
    ("a division by nothing", "\\set c 7 / (3 - 3)\nSELECT 2;", ":1: division by zero"),
    ("a variable that nobody set", "\\set c 2 * :absent\nSELECT 2;", "undefined variable `:absent`"),
    ("a sign of no language", "\\set c 3 ? 4\nSELECT 2;", "unexpected character"),
    (
        "seventeen arguments",
        "\\set c greatest(9,8,7,6,5,4,3,2,1,9,8,7,6,5,4,3,2)\nSELECT 2;",
        "too many function arguments, maximum is 16",
    ),
    ("a range from high to low", "SELECT 2;\n\n\\set c random(90, 7)", ":3: empty range given to random"),
    (
        "a range of nearly all numbers",
        "\\set c random(:lowest + 5, :highest - 5)\nSELECT 2;",
        ":1: random range is too large",
    ),
    ("a bell that is too flat", "\\set c random_gaussian(3, 30, 1.5)\nSELECT 2;", ":1: gaussian parameter"),
    ("an exponent below nothing", "\\set c random_exponential(3, 30, -2)\nSELECT 2;", ":1: exponential param"),
    ("Zipf's exponent at its bound", "\\set c random_zipfian(2, 9, 1.0)\nSELECT 2;", ":1: zipfian parameter"),
    ("Zipf's exponent above its bound", "\\set c random_zipfian(2, 9, 1001)\nSELECT 2;", ":1: zipfian parameter"),
    ("arithmetic with a word", "\\set c 2 * :word\nSELECT 2;", ":1: malformed value of variable \"word\""),
    ("a name without a value", "\\set c\nSELECT 2;", "the expression ends too early"),
    ("neither name nor value", "\\set\nSELECT 2;", "missing argument"),
    ("a fraction for a truth", "\\set c NOT 2.5\nSELECT 2;", ":1: cannot coerce double to boolean"),
    ("a truth for a number", "\\set c 4 * FALSE\nSELECT 2;", ":1: cannot coerce boolean to int"),
    ("a truth for a fraction", "\\set c exp(FALSE)\nSELECT 2;", ":1: cannot coerce boolean to double"),
    ("a case without when", "\\set c CASE 3 THEN 5 ELSE 6 END\nSELECT 2;", "syntax error"),
    ("a truth for a bound", "\\set c random(4, TRUE)\nSELECT 2;", ":1: cannot coerce boolean to int"),
    ("two arguments for one", "\\set c sqrt(4, 9)\nSELECT 2;", "`sqrt` takes 1 argument, not 2"),
    ("none of at least one", "\\set c least()\nSELECT 2;", "`least` takes"),
    ("a fraction beyond integers", "\\set c int(3e20)\nSELECT 2;", ":1: double to int overflow for 300"),
    (
        "a sum beyond integers",
        "\\set c 9000000000000000000 + 900000000000000000\nSELECT 2;",
        ":1: bigint add out of range",
    ),
    ("a difference beyond integers", "\\set c :lowest - 7\nSELECT 2;", ":1: bigint sub out of range"),
    ("a product beyond integers", "\\set c 4000000000000000000 * 3\nSELECT 2;", ":1: bigint mul out of range"),
    ("a quotient beyond integers", "\\set c :lowest / (2 - 3)\nSELECT 2;", ":1: bigint div out of range"),
    ("a program's word as a number", "\\setshell c echo two\nSELECT 2;", "\\setshell would run a program"),
    ("a name without a program", "\\setshell c\nSELECT 2;", "\\setshell would run a program"),
    ("a program's number", "\\setshell c ./measure\nSELECT 2;", "\\setshell would run a program"),
    ("sleep for a variable that nobody set", "\\sleep :absent ms\nSELECT 2;", "undefined variable `:absent`"),
    ("sleep and something else", "\\sleep 2 ms please\nSELECT 2;", "argument too many"),
    ("sleep without a time", "\\sleep\nSELECT 2;", "missing argument"),
    ("sleep in a unit of its own", "\\sleep 2 fortnights\nSELECT 2;", "unrecognized time unit"),
    ("a command of no program", "\\frobnicate\nSELECT 2;", "invalid command `\\frobnicate`"),
    ("nothing but blank lines", "\n\n", "the script has no statement"),
    ("almost a truth", "\\set c :almost and true\nSELECT 2;", ":1: malformed value of variable \"almost\""),
    (
        "a permutation of none",
        "\\set c permute(5, 0)\nSELECT 2;",
        ":1: permute size parameter must be greater than zero",
    ),
    ("variables of no row", "SELECT 2;\nSELECT 3 AS c WHERE 1 = 2 \\gset", ":2: \\gset: expected one row, got 0"),
    ("variables of no statement", "\\gset p_", "\\gset must follow an SQL command"),
    ("variables of a variable", "SELECT 2;\n\\set c 5\n\\gset", "\\gset must follow an SQL command"),
    ("variables with two prefixes", "SELECT 2 AS c \\gset p_ q_", "argument too many"),
    ("variables twice", "SELECT 2 AS c \\gset\n\\gset p_", "\\gset must follow an SQL command"),
    ("variables of what answers nothing", "DROP VIEW IF EXISTS absent \\gset", "\\gset needs to know the columns"),
    ("a column without a name", "SELECT 2 + 2 \\gset", "\\gset"),
    (
        "a column with a blank",
        "SELECT 2 AS \"two words\" \\gset",
        "\\gset cannot make a variable of the column `two words`",
    ),
    // It has a test of its own in pgbench too.
    ("a transaction without an end", "BEGIN;\nSELECT 2;\nSELECT 3;", "the script ends in the transaction"),
];

const DEFINES: &str = "define=word=pear;almost=truely;lowest=-9223372036854775808;highest=9223372036854775807";

#[test]
fn what_pgbench_refuses_is_refused_with_its_place() {
    let place = Place::new();
    let server = Postgres::start(place.path());
    let file = place.path().join("case.sql");
    let path = file.to_str().unwrap();
    let args = ["drive", "-f", path, "--on", &server.url(), "--ops", "1", "-q", "--set", DEFINES];
    let too_many = format!("\\set c 4\nSELECT greatest({})", [":c"; 256].join(", "));
    let long = ("256 parameters", too_many.as_str(), "256 parameters, of at most 255");
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
    std::fs::write(&file, format!("\\set c 4\nSELECT greatest({})", [":c"; 255].join(", "))).unwrap();
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
