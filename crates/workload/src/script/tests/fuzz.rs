//! Tests that any text is compiled as a script: to a program that ends, or to a mistake within the text.
//! `PROPTEST_CASES=100000` increases the number of cases; `fuzz/` does so with coverage.

use proptest::prelude::*;

use super::*;

/// Pieces that mean something somewhere.
const PIECES: &[&str] = &[
    "\\set x ",
    "\\set ",
    "\\if ",
    "\\elif ",
    "\\else\n",
    "\\endif\n",
    "\\gset\n",
    "\\aset p\n",
    "\\sleep ",
    "\\startpipeline\n",
    "\\syncpipeline\n",
    "\\endpipeline\n",
    "\\;",
    "\\:",
    "\\",
    "\n",
    "\r\n",
    "\\\n",
    ";",
    ":x",
    ":scale",
    "::",
    ":",
    "'",
    "''",
    "\"",
    "$$",
    "$a$",
    "--",
    "/*",
    "*/",
    "(",
    ")",
    "BEGIN;\n",
    "END;\n",
    "SELECT 1 AS x",
    "SELECT x FROM t;\n",
    "UPDATE t SET a = :x;\n",
    "SET a = :x;\n",
    "random(1, 10)",
    "hash(:x)",
    "permute(1, 2)",
    "case when ",
    " then ",
    " else ",
    " end",
    "1",
    "2.5e3",
    "null",
    " + ",
    " - ",
    "~",
    "not ",
    " is null",
    " and ",
    " < ",
    " % ",
    "0",
    "é",
    "E'\\",
    "9223372036854775808",
    "CREATE FUNCTION f() BEGIN ",
    "ms",
    " 5 us\n",
    "\0",
];

/// Reads the text and, if it is a script, runs it a few times.
fn try_script(text: &str) {
    for commands in [false, true] {
        try_as(&Setting { tries_max: 2, commands, ..Setting::default() }, text);
    }
}

fn try_as(setting: &Setting, text: &str) {
    let compiled = match setting.compile(&[script(text)]) {
        Ok(compiled) => compiled,
        Err((position, mistake)) => {
            assert_eq!(position, 0);
            assert!(text.get(mistake.range.clone()).is_some(), "{:?} of {text:?}", mistake.range);
            assert!(!mistake.what.is_empty());
            return;
        }
    };
    let mut turn = 0;
    let mut client = Client::new(compiled, 1, move |_| {
        turn += 1;
        match turn % 5 {
            0 => refusal(GAVE_WAY),
            1 => (Outcome::Ok, Answer::default()),
            _ => (Outcome::Ok, row(&[Value::Text("7")])),
        }
    });
    for cycle in 0..3 {
        client.run(cycle);
    }
}

proptest! {
    #[test]
    fn pieces_of_scripts_are_read(pieces in prop::collection::vec(prop::sample::select(PIECES), 0..40)) {
        try_script(&pieces.concat());
    }

    #[test]
    fn any_text_is_read(text in "\\PC{0,60}") {
        try_script(&text);
    }

    #[test]
    fn a_script_cut_anywhere_is_read(cut in 0usize..400) {
        const WHOLE: &str = "\\set aid random(1, 100000 * :scale)\n\\set d case when :aid % 2 = 0 then -1 else hash(:aid) end\n\
            BEGIN;\nSELECT abalance AS bal FROM pgbench_accounts WHERE aid = :aid \\gset\n\\if :bal is not null\n\
            \\startpipeline\nUPDATE t SET a = :d, b = 'x:bal' WHERE c = $q$ ; $q$;\n\\endpipeline\n\\endif\n\\sleep 5 us\nEND;\n";
        let end = (0..=cut.min(WHOLE.len())).rev().find(|end| WHOLE.is_char_boundary(*end)).unwrap_or(0);
        try_script(&WHOLE[..end]);
    }
}
