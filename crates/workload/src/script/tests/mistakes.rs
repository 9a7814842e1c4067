//! Mistakes are found before anything runs, and told with their place.

use super::*;

/// The text at the place of the mistake, what it is, and the help.
fn mistake_in(text: &str) -> (String, String, String) {
    let Err((_, mistake)) = Setting::default().compile(&[script(text)]) else { panic!("no mistake in {text:?}") };
    let at = text.get(mistake.range.clone()).unwrap_or_else(|| panic!("{:?} of {text:?}", mistake.range));
    (at.to_owned(), mistake.what, mistake.help.unwrap_or_default())
}

#[test]
fn a_mistake_says_where_what_and_what_was_meant() {
    for (text, at, what, help) in [
        ("\\set x 1 +\nSELECT 1;", "", "ends too early", ""),
        ("\\set x 1 $ 2\nSELECT 1;", "$", "unexpected character", ""),
        ("\\set x 1 2\nSELECT 1;", "2", "syntax error at `2`", ""),
        ("\\set x randon(1, 2)\nSELECT 1;", "randon", "unexpected function name `randon`", "`random`"),
        ("\\set x random(1)\nSELECT 1;", "random(1)", "`random` takes 2 arguments, not 1", ""),
        ("\\set x hash()\nSELECT 1;", "hash()", "`hash` takes 1 or 2 arguments, not 0", ""),
        ("\\set x (1 + 2\nSELECT 1;", "", "ends too early", "`)` is missing"),
        ("\\set x 1 < 2 < 3\nSELECT 1;", "<", "syntax error", "chain"),
        ("\\set x 9223372036854775808\nSELECT 1;", "9223372036854775808", "bigint constant overflow", ""),
        ("\\set x 1e999\nSELECT 1;", "1e999", "double constant overflow", ""),
        ("\\set 1x 1\nSELECT 1;", "1x", "invalid variable name", ""),
        ("\\set\nSELECT 1;", "\\set", "missing argument", ""),
        ("\\sett x 1\nSELECT 1;", "\\sett", "invalid command `\\sett`", "`\\set`"),
        ("\\set aid 1\nSELECT :aud;", ":aud", "undefined variable `:aud`", "`:aid`"),
        ("\\set x :foo + 1\nSELECT 1;", ":foo", "undefined variable `:foo`", "define"),
        ("\\if true\nSELECT 1;", "\\if true", "\\if without matching \\endif", ""),
        ("SELECT 1;\n\\endif", "\\endif", "without matching \\if", ""),
        ("\\if true\n\\else\n\\elif false\n\\endif\nSELECT 1;", "\\elif false", "\\elif after \\else", ""),
        ("\\gset\nSELECT 1;", "\\gset", "must follow an SQL command", ""),
        ("SELECT * FROM t \\gset\n", "SELECT * FROM t", "`*` names no columns", ""),
        ("SELECT 1 AS x \\gset p q\n", "q", "argument too many", ""),
        ("SELECT 1 AS x \\gset 1\n", "\\gset 1", "cannot make a variable of the column `1x`", ""),
        ("\\sleep 1 h\nSELECT 1;", "h", "unrecognized time unit `h`", "us, ms and s"),
        ("\\sleep x\nSELECT 1;", "x", "invalid sleep time", ""),
        ("\\startpipeline\nSELECT 1;", "\\startpipeline", "without \\endpipeline", ""),
        ("SELECT 1;\n\\endpipeline", "\\endpipeline", "without \\startpipeline", ""),
        ("\\startpipeline\nSELECT 1 AS a \\gset\n\\endpipeline", "SELECT 1 AS a", "cannot stand in a pipeline", ""),
        ("\\shell rm -rf x\nSELECT 1;", "\\shell rm -rf x", "would run a program", "define"),
        ("\\setshell x echo 1\nSELECT 1;", "\\setshell x echo 1", "would run a program", ""),
        ("BEGIN;\nSELECT 1;", "BEGIN", "ends in the transaction", "COMMIT"),
        ("SELECT 'x;", "'", "not closed", ""),
        ("SELECT $a$ x;", "$a$", "not closed", ""),
        ("SELECT 1 /* x", "/*", "does not end", ""),
        ("-- nothing\n", "-", "no statement", ""),
        ("", "", "no statement", ""),
    ] {
        let found = mistake_in(text);
        assert_eq!(found.0, at, "{text:?}: {found:?}");
        assert!(found.1.contains(what), "{text:?}: {found:?}");
        assert!(found.2.contains(help), "{text:?}: {found:?}");
    }
}

#[test]
fn the_first_undefined_variable_of_several_scripts_is_told() {
    let scripts = [script("\\set a 1\nSELECT :a"), Script { name: "t".into(), ..script("SELECT :b, :c") }];
    let (position, mistake) = Setting::default().compile(&scripts).unwrap_err();
    assert_eq!((position, &scripts[1].text[mistake.range]), (1, ":b"));
    // A script may use what another sets, as clients keep their variables.
    let scripts = [script("\\set b 1\nSELECT :b"), Script { name: "t".into(), ..script("SELECT :b") }];
    assert!(Setting::default().compile(&scripts).is_ok());
}
