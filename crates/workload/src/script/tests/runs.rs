//! Ways through scripts: branches, answers, pipelines, errors and further tries.

use super::*;

const NOTHING: (Outcome, fn() -> Answer) = (Outcome::Ok, Answer::default);

fn fine() -> (Outcome, Answer) {
    (NOTHING.0, NOTHING.1())
}

#[test]
fn branches_are_taken_by_what_is_true() {
    let text = "\\if :n < 0\nSELECT 'neg';\n\\elif :n = 0\nSELECT 'zero';\n\\if :client_id\nSELECT 'other';\n\\else\n\
                SELECT 'first';\n\\endif\n\\else\nSELECT 'pos';\n\\endif\nSELECT 'end';";
    for (n, wanted) in
        [("-1", &["SELECT 'neg'"][..]), ("0", &["SELECT 'zero'", "SELECT 'first'"]), ("1", &["SELECT 'pos'"])]
    {
        let defines: &'static [(&str, &str)] = Box::leak(Box::new([("n", n)]));
        let mut log = sent(&Setting { defines, ..Setting::default() }, text);
        assert_eq!(log.pop().as_deref(), Some("SELECT 'end'"));
        assert_eq!(log, wanted, "{n}");
    }
}

#[test]
fn an_answer_goes_into_variables() {
    let text = "SELECT a AS x, b FROM t \\gset p_\n\\set y :p_x + 1\nSELECT :y, :p_b;";
    let answers = |text: &str| match text.contains("FROM t") {
        true => (Outcome::Ok, row(&[Value::Int(41), Value::Text("word")])),
        false => fine(),
    };
    let mut client = Client::new(Setting::default().one(text), 0, answers);
    assert_eq!(client.run(0), ("s".into(), Outcome::Ok));
    assert_eq!(client.log, ["SELECT a AS x, b FROM t", "SELECT $1, $2 <- 42, word"]);
}

#[test]
fn gset_wants_one_row_and_aset_takes_the_last() {
    let rows = |count: u64| {
        let mut answer = Answer { columns: 1, rows: count, ..Answer::default() };
        (0..count).for_each(|number| answer.values.push(Value::Int(number as i64)));
        answer
    };
    for (command, count, log, outcome) in [
        ("gset", 0, "BAD_ANSWER: \\gset: expected one row, got 0", Outcome::Rejected),
        ("gset", 2, "BAD_ANSWER: \\gset: expected one row, got 2", Outcome::Rejected),
        ("aset", 3, "SELECT $1 <- 2", Outcome::Ok),
        ("aset", 0, "SELECT $1 <- 9", Outcome::Ok),
    ] {
        let text = format!("\\set x 9\nSELECT x FROM t \\{command}\nSELECT :x;");
        let mut client = Client::new(Setting::default().one(&text), 0, |_| (Outcome::Ok, rows(count)));
        assert_eq!(client.run(0).1, outcome);
        assert_eq!(client.log.last().map(String::as_str), Some(log));
    }
}

#[test]
fn variables_last_from_one_operation_to_the_next() {
    let setting = Setting { defines: &[("n", "0")], ..Setting::default() };
    let mut client = Client::new(setting.one("\\set n :n + 1\nSELECT :n;"), 0, |_| fine());
    for cycle in 0..3 {
        client.run(cycle);
    }
    assert_eq!(client.log, ["SELECT $1 <- 1", "SELECT $1 <- 2", "SELECT $1 <- 3"]);
}

#[test]
fn a_pipeline_waits_only_for_its_last_statement() {
    let text = "\\startpipeline\nSELECT 1;\n\\set x 2\nSELECT :x;\n\\syncpipeline\nSELECT 3;\n\\if false\nSELECT 4;\n\
                \\endif\n\\endpipeline\nSELECT 5;";
    assert_eq!(sent(&Setting::default(), text), ["SELECT 1 …", "SELECT $1 <- 2 …", "sync", "SELECT 3", "SELECT 5"]);
    assert_eq!(
        sent(&Setting::default(), "SELECT 1\\; SELECT 2\\; SELECT 3; SELECT 4"),
        ["SELECT 1 …", "SELECT 2 …", "SELECT 3", "SELECT 4"]
    );
    assert_eq!(
        sent(&Setting::default(), "\\startpipeline\n\\endpipeline\nSELECT 1;SELECT 2"),
        ["SELECT 1", "SELECT 2"]
    );
}

#[test]
fn joined_statements_give_their_answers_to_aset() {
    let text = "SELECT 1 AS a\\; SELECT 2 AS b \\aset\nSELECT :a, :b;";
    let answers = |text: &str| (Outcome::Ok, row(&[Value::Int(if text.ends_with("a") { 1 } else { 2 })]));
    let mut client = Client::new(Setting::default().one(text), 0, answers);
    client.run(0);
    assert_eq!(client.log.last().map(String::as_str), Some("SELECT $1, $2 <- 1, 2"));
}

#[test]
fn what_is_joined_to_nothing_is_answered_at_once() {
    let answers = |text: &str| (Outcome::Ok, row(&[Value::Int(if text.contains('5') { 5 } else { 0 })]));
    for (text, wanted) in [
        (
            "\\; \\; SELECT 0 AS i \\; SELECT 5 AS i \\; \\; \\gset\nSELECT :i;",
            &["SELECT 0 AS i …", "SELECT 5 AS i"][..],
        ),
        ("\\; SELECT 4 AS i \\; SELECT 5 AS i \\; \\aset\nSELECT :i;", &["SELECT 4 AS i …", "SELECT 5 AS i"]),
        ("SELECT 5 AS i\\;; SELECT 7;", &["SELECT 5 AS i", "SELECT 7"]),
    ] {
        let mut client = Client::new(Setting::default().one(text), 0, answers);
        assert_eq!(client.run(0).1, Outcome::Ok, "{text}");
        let rest = client.log.split_off(wanted.len());
        assert_eq!(client.log, wanted);
        assert!(rest.is_empty() || rest == ["SELECT $1 <- 5"], "{rest:?}");
    }
}

#[test]
fn a_script_sleeps_in_its_units() {
    let text = "\\sleep 3 us\n\\sleep 2ms\n\\sleep :n\n\\sleep 0\nSELECT 1;";
    let setting = Setting { defines: &[("n", "4")], ..Setting::default() };
    assert_eq!(sent(&setting, text), ["sleep 3000", "sleep 2000000", "sleep 4000000000", "SELECT 1"]);
}

#[test]
fn an_error_in_a_transaction_is_rolled_back_and_ends_the_operation() {
    let text = "BEGIN;\nUPDATE a;\nUPDATE b;\nEND;";
    for (failing, wanted) in [
        ("BEGIN", &["BEGIN"][..]),
        ("UPDATE a", &["BEGIN", "UPDATE a", "ROLLBACK"]),
        ("END", &["BEGIN", "UPDATE a", "UPDATE b", "END", "ROLLBACK"]),
    ] {
        let answers = |text: &str| if text == failing { refusal("23505") } else { fine() };
        let mut client = Client::new(Setting { tries_max: 5, ..Setting::default() }.one(text), 0, answers);
        assert_eq!(client.run(0), ("s".into(), Outcome::Rejected));
        assert_eq!(client.log, wanted);
        // The next operation begins as if nothing had been.
        client.log.clear();
        client.run(1);
        assert_eq!(client.log, wanted);
    }
}

#[test]
fn another_try_has_the_same_values_and_is_counted_apart() {
    let text = "\\set x random(1, 1000000000)\n\\set n :n + 1\nBEGIN;\nUPDATE t SET a = :x, b = :n;\nEND;";
    for (refusals, kind, outcome) in [
        (0, "s", Outcome::Ok),
        (1, "s retried", Outcome::Ok),
        (2, "s retried", Outcome::Ok),
        (3, "s retried", Outcome::Rejected),
    ] {
        let mut left = refusals;
        let answers = move |text: &str| {
            if left > 0 && text.starts_with("UPDATE") {
                left -= 1;
                return refusal(GAVE_WAY);
            }
            fine()
        };
        let setting = Setting { tries_max: 3, defines: &[("n", "0")], ..Setting::default() };
        let mut client = Client::new(setting.one(text), 0, answers);
        assert_eq!(client.run(0), (kind.into(), outcome), "{refusals} refusals");
        let updates: Vec<_> = client.log.iter().filter(|text| text.starts_with("UPDATE")).collect();
        assert_eq!(updates.len(), if refusals == 3 { 3 } else { refusals + 1 });
        assert!(updates.iter().all(|update| *update == updates[0] && update.ends_with(", 1")), "{updates:?}");
        assert_eq!(client.log.iter().filter(|text| *text == "ROLLBACK").count(), refusals);
    }
}

#[test]
fn without_further_tries_the_first_error_ends_the_operation() {
    let mut client = Client::new(Setting::default().one("BEGIN;\nUPDATE a;\nEND;"), 0, |text| {
        if text == "UPDATE a" { refusal(GAVE_WAY) } else { fine() }
    });
    assert_eq!(client.run(0), ("s".into(), Outcome::Rejected));
    assert_eq!(client.log, ["BEGIN", "UPDATE a", "ROLLBACK"]);
}

#[test]
fn an_error_in_a_pipeline_is_seen_at_its_end() {
    let text = "\\startpipeline\nBEGIN;\nUPDATE a;\nEND;\n\\endpipeline\nSELECT 1;";
    let mut aborted = false;
    let mut tries = 0;
    let answers = move |text: &str| {
        tries += usize::from(text == "UPDATE a");
        aborted = text != "ROLLBACK" && text != "BEGIN" && (aborted || (text == "UPDATE a" && tries == 1));
        if aborted && text != "END" {
            refusal(GAVE_WAY)
        } else if aborted {
            refusal("25P02")
        } else {
            fine()
        }
    };
    let mut client = Client::new(Setting { tries_max: 2, ..Setting::default() }.one(text), 0, answers);
    assert_eq!(client.run(0), ("s retried".into(), Outcome::Ok));
    let one_try = ["BEGIN …", "UPDATE a …", "END"];
    let wanted: Vec<&str> = one_try.into_iter().chain(["ROLLBACK"]).chain(one_try).chain(["SELECT 1"]).collect();
    assert_eq!(client.log, wanted);
}

#[test]
fn a_fault_of_the_script_ends_the_operation_with_its_words() {
    for (text, wanted) in [
        ("BEGIN;\n\\set x 1 / :n\nSELECT :x;\nEND;", &["BEGIN", "ROLLBACK", "DIVISION_BY_ZERO: division by zero"][..]),
        (
            "\\startpipeline\nSELECT 1;\n\\set x 1 / :n\nSELECT :x;\n\\endpipeline",
            &["SELECT 1", "DIVISION_BY_ZERO: division by zero"],
        ),
        ("\\if :n\n\\set x 1\n\\endif\nSELECT :x;", &["UNDEFINED_VARIABLE: undefined variable \"x\""]),
        (
            "\\if :n = 0\n\\startpipeline\n\\endif\n\\startpipeline\nSELECT 1;\n\\endpipeline",
            &["PIPELINE: already in pipeline mode"],
        ),
    ] {
        let setting = Setting { defines: &[("n", "0")], tries_max: 4, ..Setting::default() };
        let mut client = Client::new(setting.one(text), 0, |_| fine());
        assert_eq!(client.run(0), ("s".into(), Outcome::Rejected), "{text}");
        assert_eq!(client.log, wanted, "{text}");
    }
}

#[test]
fn an_operation_is_a_function_of_seed_client_and_cycle() {
    let text = "\\set x random(1, 1000000)\nSELECT :x; SELECT 2;";
    let log = |seed: u64, client: u32, cycles: &[u64]| {
        let mut client = Client::new(Setting { seed, ..Setting::default() }.one(text), client, |_| fine());
        cycles.iter().for_each(|cycle| drop(client.run(*cycle)));
        client.log
    };
    let first = log(1, 0, &[5, 6]);
    assert_eq!(first[..2], log(1, 0, &[5])[..]);
    assert_eq!(first[2..], log(1, 0, &[6])[..]);
    assert!(first[0] != first[2] && first[0] != log(2, 0, &[5])[0] && first[0] != log(1, 1, &[5])[0]);
}

#[test]
fn scripts_are_chosen_by_their_shares() {
    let scripts = [script("SELECT 1"), Script { name: "t".into(), ..script("SELECT 2; SELECT 3") }];
    let compiled = Setting::default().compile(&scripts).unwrap();
    let mix = vec![("s".to_owned(), 3), ("t".to_owned(), 1)];
    let stream = compiled.stream("script", &StreamSpec::Mix { mix, clients: 1 }).unwrap();
    let mut params = ValueBuf::new();
    let second = (0..10_000).filter(|cycle| stream.op(0, *cycle, &mut params) == Some(1)).count();
    assert!((2_300..2_700).contains(&second), "{second} of 10,000");
    let refused = |spec| compiled.stream("script", &spec).err().expect("refused");
    assert!(refused(StreamSpec::Load { batch: 1, clients: 1 }).contains("load phase"));
    assert!(refused(StreamSpec::One { kind: "s retried".into(), clients: 1 }).contains("only s, t"));
    assert!(refused(StreamSpec::Mix { mix: vec![("s".into(), 0)], clients: 1 }).contains("share"));
}
