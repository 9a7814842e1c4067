//! Tests that all scripts that pgbench refuses are refused with exit code 2, the script's file and line, and the
//! reason. Its own tests say what that is (PostgreSQL, `src/bin/pgbench/t/001_pgbench_with_server.pl`, "script
//! error"); each case here has one there. The scripts were written for this test.

use crate::bench::Place;
use crate::servers::Postgres;

/// Script and message: one mistake of those that are found in the text, which tests of scripts have all, and those that values and the server
/// show.
const CASES: &[(&str, &str)] = &[
    ("\\set a-b 2\nSELECT 2;", "invalid variable name"),
    ("SELECT 2 * FROM;", "does not take the statement: SELECT 2 * FROM"),
    ("\\set c 7 / (3 - 3)\nSELECT 2;", ":1: division by zero"),
    ("SELECT 2;\n\n\\set c random(90, 7)", ":3: empty range given to random"),
    ("\\set c random(:lowest + 5, :highest - 5)\nSELECT 2;", ":1: random range is too large"),
    ("\\set c random_gaussian(3, 30, 1.5)\nSELECT 2;", ":1: gaussian parameter"),
    ("\\set c random_exponential(3, 30, -2)\nSELECT 2;", ":1: exponential param"),
    ("\\set c random_zipfian(2, 9, 1.0)\nSELECT 2;", ":1: zipfian parameter"),
    ("\\set c random_zipfian(2, 9, 1001)\nSELECT 2;", ":1: zipfian parameter"),
    ("\\set c 2 * :word\nSELECT 2;", ":1: malformed value of variable \"word\""),
    ("\\set c :almost and true\nSELECT 2;", ":1: malformed value of variable \"almost\""),
    ("\\set c random(4, TRUE)\nSELECT 2;", ":1: cannot coerce boolean to int"),
    ("\\set c int(3e20)\nSELECT 2;", ":1: double to int overflow for 300"),
    ("\\set c 9000000000000000000 + 900000000000000000\nSELECT 2;", ":1: bigint add out of range"),
    ("\\set c :lowest / (2 - 3)\nSELECT 2;", ":1: bigint div out of range"),
    ("\\set c permute(5, 0)\nSELECT 2;", ":1: permute size parameter must be greater than zero"),
    ("\\set c least()\nSELECT 2;", "`least` takes"),
    ("\\set c greatest(9,8,7,6,5,4,3,2,1,9,8,7,6,5,4,3,2)\nSELECT 2;", "too many function arguments, maximum is 16"),
    ("SELECT 2;\nSELECT 3 AS c WHERE 1 = 2 \\gset", ":2: \\gset: expected one row, got 0"),
    ("DROP VIEW IF EXISTS absent \\gset", "\\gset needs to know the columns"),
    ("SELECT 2 + 2 \\gset", "\\gset"),
    ("SELECT 2 AS \"two words\" \\gset", "\\gset cannot make a variable of the column `two words`"),
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
    let long = (too_many.as_str(), "256 parameters, of at most 255");
    let mut wrong = Vec::new();
    for (script, words) in CASES.iter().copied().chain([long]) {
        std::fs::write(&file, script).unwrap();
        let ran = place.run(&args);
        let words = if words.starts_with(':') { format!("case.sql{words}") } else { words.to_owned() };
        if ran.code != Some(2) || !ran.err.contains(&words) {
            wrong.push(format!("{script}: {words}: {ran:?}"));
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
    let args = ["drive", "-f", path, "--on", "sqlite", "--for", "600s", "--set", "define=n=500", "--clients", "1"];
    let started = std::time::Instant::now();
    let ran = place.run(&args).expect(2).says("countdown.sql:3: division by zero");
    assert!(started.elapsed() < std::time::Duration::from_secs(300), "it did not end the run: {ran:?}");
}
