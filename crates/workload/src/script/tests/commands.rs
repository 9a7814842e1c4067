//! Scripts of commands: what they send, and what is found to be wrong with them.

use super::*;

const COMMANDS: Setting =
    Setting { seed: 42, scale: 3, defines: &[("tbl", "orders")], tries_max: 1, as_text: false, commands: true };

/// The only kind's command as it is shown, and the operation's parameters.
fn plain(text: &str) -> (String, Vec<String>) {
    let compiled = COMMANDS.one(text);
    let Call::Command(words) = &compiled.kinds[0].call else { panic!("{text} is no plain operation") };
    let stream = compiled.stream("commands", &StreamSpec::One { kind: "s".into(), clients: 1 }).unwrap();
    let mut params = ValueBuf::new();
    stream.op(0, 0, &mut params).unwrap();
    let params =
        params.values().iter().map(|value| value.with_bytes(|bytes| String::from_utf8_lossy(bytes).into_owned()));
    (plimsoll_core::command::shown(words), params.collect())
}

#[test]
fn values_stand_in_words_as_parameters_and_what_never_changes_as_text() {
    for (text, command, params) in [
        ("GET k", "GET k", &[][..]),
        ("\\set x random(5, 5)\nHSET user::x n :x", "HSET user:{} n {}", &["5", "5"]),
        ("# note\n-- note\n\\set x 5\n  GET :tbl::scale:x:y  \n", "GET orders:3{}:y", &["5"]),
        (
            "\\set x 5\nEVAL \"return ARGV[1] .. ':x' .. s:sub(1)\" 0 x\\:x",
            "EVAL \"return ARGV[1] .. '{}' .. s:sub(1)\" 0 x:x",
            &["5"],
        ),
    ] {
        let (shown, given) = plain(text);
        assert_eq!((shown.as_str(), given.len()), (command, params.len()), "{text}");
        assert_eq!(given, params, "{text}");
    }
}

#[test]
fn a_transaction_is_steps_and_is_discarded_after_an_error() {
    let compiled = COMMANDS.one("MULTI\nINCR a\nEXEC");
    let names = |name: &str| compiled.kinds.iter().any(|kind| kind.name == name);
    assert!(names("s/1 MULTI") && names("s/2 INCR a") && names("s/3 EXEC") && names("s/discard"));
    for (fails_at, asked) in [(1, vec!["MULTI", "INCR a", "DISCARD"]), (2, vec!["MULTI", "INCR a", "EXEC"])] {
        let mut turn = 0;
        let mut client = Client::new(compiled.clone(), 1, move |_| {
            turn += 1;
            if turn == fails_at + 1 { refusal("ERR") } else { (Outcome::Ok, Answer::default()) }
        });
        client.run(0);
        assert_eq!(client.log, asked);
    }
}

#[test]
fn an_answer_becomes_the_variable_that_is_named() {
    let compiled = COMMANDS.one("GET n\n\\gset n\n\\if :n is null\nSET n 1\n\\else\nINCRBY n :n\n\\endif");
    for (answer, second) in [(Value::Null, "SET n 1"), (Value::Text("7"), "INCRBY n {} <- 7")] {
        let said = row(&[answer]);
        let mut client = Client::new(compiled.clone(), 1, move |_| (Outcome::Ok, said.clone()));
        client.run(0);
        assert_eq!(client.log, ["GET n", second]);
    }
}

#[test]
fn what_is_wrong_is_found_before_anything_runs() {
    for (text, what) in [
        ("SET k:__rand_int__ v", "`__rand_int__` belongs to another tool"),
        ("", "the script has no statement"),
        ("GET a;", "a command ends with its line"),
        ("GET :nobody", "undefined variable `:nobody`"),
        ("GET user::nobody", "undefined variable `:nobody`"),
        ("\\set c 1\n:c a", "the name of a command cannot be"),
        ("SET a \"b", "a quote that is not closed"),
        ("MULTI\nGET a", "the script ends in the transaction"),
        ("\\gset x", "must follow a command"),
        ("GET a\n\\gset", "\\gset cannot make a variable"),
        ("GET a\n\\gst x", "invalid command `\\gst`"),
    ] {
        let (_, mistake) = COMMANDS.compile(&[script(text)]).expect_err(text);
        assert!(mistake.what.contains(what), "{text}: {mistake:?}");
    }
}
