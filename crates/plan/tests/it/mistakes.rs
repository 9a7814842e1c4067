//! Every mistake is shown where it is, with what was meant.
//!
//! A case is a plan with the mistake between `«` and `»`: that is what must be underlined.

use miette::Diagnostic;
use plimsoll_plan::timeline::FaultAction;
use plimsoll_plan::{Overrides, parse};

use crate::catalogue::catalogue;

/// A right plan to make mistakes in.
const RIGHT: &str = r#"stores = ["sqlite"]
[workload]
name = "coupons"
[[phase]]
do = "load"
[[phase]]
do = "drive"
for = "10s"
mix = { read = 1 }
"#;

/// Reads `marked` without its marks; its only mistake must be between them, as `what` and `help` say.
#[track_caller]
fn expect(marked: &str, what: &str, help: &str) {
    let start = marked.find('«').expect("a mark");
    let end = marked.find('»').expect("a second mark") - '«'.len_utf8();
    let text = marked.replace(['«', '»'], "");
    let error = parse("test", &text, &catalogue(), &Overrides::default()).expect_err(&text);
    let found: Vec<_> = error.problems().iter().map(|problem| (problem.what(), problem.span())).collect();
    assert_eq!(found, [(what, start..end)], "{text}");
    assert_eq!(error.problems()[0].help().unwrap_or_default(), help, "{text}");
    assert_eq!(error.to_string(), what);
    // The same holds for the diagnostic; of a very long plan only a part is shown.
    let label = error.problems()[0].labels().expect("labels").next().expect("a label");
    let shown = if end - start > 240 { 60 } else { end - start };
    assert_eq!((label.offset(), label.len()), (start, shown));
}

/// Cases: changes of the right plan, then `!` with what is wrong, then `?` with the help if there is any.
///
/// `A => B` replaces a piece, `- A` leaves one out, and any other line goes to the end of the plan.
const CASES: &str = include_str!("mistakes.txt");

#[test]
fn each_mistake_is_shown_where_it_is() {
    parse("test", RIGHT, &catalogue(), &Overrides::default()).unwrap();
    let mut lines = CASES.lines().filter(|line| !line.is_empty() && !line.starts_with("//")).peekable();
    while lines.peek().is_some() {
        let mut plan = RIGHT.to_owned();
        let what = loop {
            let line = lines.next().expect("a case says what is wrong").replace("\\n", "\n");
            if let Some(what) = line.strip_prefix("! ") {
                break what.to_owned();
            }
            let (right, wrong) = match line.strip_prefix("- ") {
                Some(left_out) => (left_out, ""),
                None => line.split_once(" => ").unwrap_or(("", &line)),
            };
            if right.is_empty() {
                plan += wrong;
            } else {
                assert!(plan.contains(right), "{right} is not in {plan}");
                plan = plan.replacen(right, wrong, 1);
            }
        };
        let help = lines.next_if(|line| line.starts_with("? ")).map_or("", |line| &line[2..]);
        expect(&plan, &what, help);
    }
}

#[test]
fn a_store_is_called_what_the_plan_says_or_that_is_refused() {
    for name in ["", "two\nlines", "a|b", &"x".repeat(41)] {
        let named = format!("{{ store = \"sqlite\", as = «{}» }}", toml::Value::from(name));
        let help = "up to 40 letters, digits and spaces, with - _ . and / among them";
        expect(&RIGHT.replace("\"sqlite\"", &named), "this is not a valid name for a store", help);
    }
}

#[test]
fn goals_are_of_any_percentile_of_one_operation_type_and_of_codes() {
    let plan = |goal: &str| parse("test", &format!("{RIGHT}[goals]\n{goal}\n"), &catalogue(), &Overrides::default());
    for (goal, name, limit) in [
        ("p999 = \"20ms\"", "p99.9", 20e6),
        ("p99.9 = \"20ms\"", "p99.9", 20e6),
        ("\"p99.9\" = \"20ms\"", "p99.9", 20e6),
        ("p97.5 = \"20ms\"", "p97.5", 20e6),
        ("mean = \"1ms\"", "mean", 1e6),
        ("outage = \"5s\"", "outage", 5e9),
        ("stale = 3", "stale", 3.0),
        ("read.p99 = \"5ms\"", "read.p99", 5e6),
        ("read.p99.95 = \"5ms\"", "read.p99.95", 5e6),
        ("read = { rate = \"10/s\" }", "read.rate", 10.0),
        ("status.SQLITE_BUSY = \"1%\"", "status.SQLITE_BUSY", 1.0),
        ("status = { timeout = \"0%\" }", "status.timeout", 0.0),
    ] {
        let goals = plan(goal).unwrap_or_else(|error| panic!("{goal}: {error:?}")).goals;
        let found: Vec<_> = goals.iter().map(|goal| (goal.name(), goal.limit)).collect();
        assert_eq!(found, [(name.to_owned(), limit)], "{goal}");
    }
    let outline = plan("stale = 3").unwrap().outline(&|_| None);
    assert!(outline.contains(&"goals: stale at most 3".to_owned()), "{outline:?}");
    for wrong in [
        "p0 = \"1ms\"",
        "p99.x = \"1ms\"",
        "p99.9.9 = \"1ms\"",
        "status = \"1%\"",
        "status.200 = \"99%\"",
        "status.500 = \"0%\"",
        "status.abc = \"0%\"",
        "read.lost = 0",
        "read.stale = 0",
        "stale = -1",
        "read.read.p99 = \"1s\"",
    ] {
        assert!(plan(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_goal_on_a_code_that_no_store_gives_is_refused() {
    let plan = |code: &str| {
        let text = format!("{RIGHT}[goals.status]\n\"{code}\" = \"0%\"\n").replace("\"sqlite\"", "\"slow\"");
        parse("test", &text, &catalogue(), &Overrides::default())
    };
    for (code, name) in [("500", "500"), ("5xx", "5xx"), ("5XX", "5xx"), ("timeout", "timeout")] {
        let goals = plan(code).unwrap_or_else(|error| panic!("{code}: {error:?}")).goals;
        assert_eq!(goals[0].name(), format!("status.{name}"));
    }
    let refused = |code: &str, advice: &str| {
        let error = plan(code).expect_err(code);
        assert_eq!(error.to_string(), format!("no operation of `slow` fails with the code `{code}`"));
        assert_eq!(error.problems()[0].help().unwrap_or_default(), advice);
    };
    for code in ["50x", "xx", "", "HTTP500", "abc", "40001", "5Xx"] {
        refused(code, "codes of `slow` are three digits, or a digit and xx: status.503, status.5xx");
    }
    refused("connect", "attempts to connect are not operations: limit `outage`, or read `failed_connects`");
}

#[test]
fn sweeps_have_an_end() {
    let list = |count: usize| (1..=count).map(|number| number.to_string()).collect::<Vec<_>>().join(", ");
    expect(
        &format!("{RIGHT}workers = [{}]\nclients = «[{}]»", list(100), list(101)),
        "this sweep comes to more than 10000 trials",
        "shorten the lists, or make several plans",
    );
    let text = format!("{RIGHT}clients = «[{}]»", list(10_001));
    expect(&text, "`clients` is a list of 10001 values; at most 10000", "");
}

#[test]
fn a_password_in_a_mistyped_url_is_not_shown() {
    for store in ["me:hunter2@h:1/db", "//me:hunter2@h", "postgres:me:hunter2@h"] {
        let overrides = Overrides { on: Some(vec![store.into()]), seed: None };
        let shown = format!("{:?}", miette::Report::new(parse("test", RIGHT, &catalogue(), &overrides).unwrap_err()));
        assert!(shown.contains("unknown store") && !shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn passwords_are_refused_and_not_shown() {
    let text = RIGHT.replace("\"sqlite\"", "\"postgres://me:hunter2@h/\"");
    let error = parse("test", &text, &catalogue(), &Overrides::default()).unwrap_err();
    assert_eq!(error.to_string(), "a plan must not hold a password");
    assert_eq!(error.problems()[0].span(), 25..32);
    let help = "remove it; supply it with PGPASSWORD, PGPASSFILE, a service file or --password-file";
    assert_eq!(error.problems()[0].help(), Some(help));
    let debugged = format!("{error:?}");
    let shown = format!("{debugged}{:?}", miette::Report::new(error));
    assert!(shown.contains("postgres://me:*******@h/") && !shown.contains("hunter2"), "{shown}");

    let several = RIGHT.replace("\"sqlite\"", "\"postgres://u:hunter2@a,v:hunter2@b/\"");
    let error = parse("test", &several, &catalogue(), &Overrides::default()).unwrap_err();
    assert_eq!(error.to_string(), "the URL has a comma between two `@`, and a plan must not hold a password");
    let help = error.problems()[0].help().unwrap_or_default();
    assert!(help.starts_with("name the user once, before the first host; of a password, remove it; "), "{help}");
    let debugged = format!("{error:?}");
    assert!(!format!("{debugged}{:?}", miette::Report::new(error)).contains("hunter2"));

    // Not in a comment, not in a list that is replaced, and not in what TOML itself complains about.
    let overrides = Overrides { on: Some(vec!["sqlite".into()]), seed: None };
    let of = |url: &str| RIGHT.replace("\"sqlite\"", url);
    for text in [
        format!("# postgres://me:hunter2@h/\n{RIGHT}"),
        text,
        "a = \"x://u:hunter2@h\" b".to_owned(),
        of("\"nats://hunter2@h\""),
        of("\"postgres://me:a hunter2@h\""),
        of("'postgres://me too:a\"hunter2@h'"),
        of("\"postgres://h/d?pass%77ord=hunter2\""),
    ] {
        let shown = format!("{:?}", miette::Report::new(parse("test", &text, &catalogue(), &overrides).unwrap_err()));
        assert!(shown.contains("a plan must not hold a password") && !shown.contains("hunter2"), "{shown}");
    }
}

#[test]
fn passwords_in_commands_of_faults_are_read_and_not_shown() {
    let with = |faults: &str| RIGHT.replace("mix", &format!("fault = {faults}\nmix"));
    let read = |text: &str| parse("test", text, &catalogue(), &Overrides::default());
    let command =
        |end: &str| format!(r#"run "true http://bob:hunter2@h/x?password=hunter3" heal "a x://u:hunter2@h" {end}"#);
    let [literal, right] = [format!("'{}'", command("at 2s for 1s")), format!("{:?}", command("at 5s for 1s"))];
    for faults in [literal.clone(), right.clone(), format!("[{literal}, {right}]"), format!("[[{literal}, {right}]]")] {
        let plan = read(&with(&faults)).unwrap_or_else(|error| panic!("{faults}: {error}"));
        let all: Vec<_> =
            plan.trials.iter().flat_map(|trial| trial.drives()).flat_map(|(_, one)| &one.faults).collect();
        for fault in &all {
            let FaultAction::Command { begin, heal } = &fault.what else { panic!("{fault}") };
            assert_eq!(begin, "true http://bob:hunter2@h/x?password=hunter3");
            assert_eq!(heal.as_deref(), Some("a x://u:hunter2@h"));
            assert!(!fault.to_string().contains("hunter"), "{fault}");
        }
        assert_eq!(all.len(), if faults.starts_with('[') { 2 } else { 1 });
        let mut labels = plan.trials.iter().map(|trial| format!("{:?}", trial.labels));
        assert!(labels.all(|labels| !labels.contains("hunter")));
    }
    // The mistake alone is told.
    let text = with(&format!("{:?}", command("x://u:hunter2@h at 2s")));
    let error = read(&text).unwrap_err();
    assert_eq!(error.to_string(), "`x://u:***@h` has no meaning behind a command");
    let shown = [format!("{error:?}"), format!("{:?}", miette::Report::new(error))].concat();
    assert!(!shown.contains("hunter"), "{shown}");
    // A message shows the beginning of a long word only.
    let long = format!("x://u:{}@h at 2s", "hunter".repeat(15));
    let error = read(&with(&format!("{:?}", command(&long)))).unwrap_err();
    assert_eq!(error.to_string(), "`x://u:***@h` has no meaning behind a command");
    // Elsewhere a password is refused as before.
    for text in [
        with(&right).replace("[workload]", "title = 'x://u:hunter2@h'\n[workload]"),
        with("'kill x://u:hunter2@h at 1s'"),
    ] {
        let shown = format!("{:?}", miette::Report::new(read(&text).unwrap_err()));
        assert!(shown.contains("a plan must not hold a password") && !shown.contains("hunter"), "{shown}");
    }
}

#[test]
fn what_is_no_toml_is_shown_too() {
    let error = parse("test", "a = 1\nb = = 2\n", &catalogue(), &Overrides::default()).unwrap_err();
    assert_eq!(error.problems()[0].span().start, "a = 1\nb = ".len());
    assert!(error.to_string().starts_with("this is not TOML: "), "{error}");
}

#[test]
fn all_mistakes_are_shown_at_once_in_the_order_of_the_text() {
    let text =
        RIGHT.replace("\"10s\"", "10").replace("\"sqlite\"", "\"sqlit\"") + "client = 8\n[goals]\np99 = \"2MiB\"\n";
    let error = parse("test", &text, &catalogue(), &Overrides::default()).unwrap_err();
    let meant: Vec<_> = error.problems().iter().map(|problem| &text[problem.span()]).collect();
    assert_eq!(meant, ["\"sqlit\"", "10", "client", "\"2MiB\""]);
    assert_eq!(error.to_string(), "4 mistakes in `test`");
    assert_eq!(error.related().unwrap().count(), 4);
}

#[test]
fn the_command_line_is_shown_as_the_file_is() {
    for (on, what, start) in [
        (vec!["sqlite", "fjal"], "unknown store `fjal`", 7),
        (vec!["sqlite", "sqlite"], "`sqlite` is named twice", 7),
        (vec![], "`--on` names no store", 0),
        (vec!["postgres://me:hunter2@h/", "x://y:hunter2@h"], "no store has the URL scheme `x://`", 17),
    ] {
        let overrides = Overrides { on: Some(on.iter().map(|entry| (*entry).to_owned()).collect()), seed: None };
        let error = parse("test", RIGHT, &catalogue(), &overrides).unwrap_err();
        assert_eq!((error.to_string().as_str(), error.problems()[0].span().start), (what, start));
        assert_eq!(error.problems()[0].source_name(), "--on");
        assert!(!format!("{error:?}").contains("hunter2"));
    }
}

#[test]
fn stages_are_checked() {
    for (keys, what) in [
        ("clients = 4\nstages = [\"1@1s\"]", "the stages determine the number of clients: leave out `clients`"),
        ("rate = \"1/s\"\nstages = [\"1@1s\"]", "the stages determine the rate: leave out `rate`"),
        ("loop = \"closed\"\nstages = [\"1/s@1s\"]", "a closed loop has no rate: it goes as fast as the answers come"),
        ("stages = []", "`stages` is a list of 1 to 10000 texts"),
        ("stages = [\"0/s@1s\"]", "the stages have no load above 0"),
        ("stages = [\"5/s\"]", "`5/s` is not a stage: it has no length"),
        ("stages = [\"1..5/s@1s\"]", "`1..5/s@1s` is not a stage: one of its ends is a rate, the other is not"),
        (
            "stages = [\"1/s@1s\", \"7@1s\"]",
            "`7@1s` is not a stage: it has clients, and the stages before have rates: a rate is 500/s",
        ),
        (
            "stages = [\"7@1s\", \"1/s@1s\"]",
            "`1/s@1s` is not a stage: it has rates, and the stages before have clients",
        ),
        ("stages = [\"1000000@1s\"]", "`1000000@1s` is not a stage: there are at most 100000 clients"),
        ("stages = [\"1/s@0s\"]", "`1/s@0s` is not a stage: `0s` is not 1ms to 720h"),
        ("stages = [\"1/s@720h\", \"1/s@1s\"]", "the stages last longer than 720h"),
        ("stages = [\"1e9/s@1s\"]", "`1e9/s@1s` is not a stage: `e9/s` is not a unit of rate"),
    ] {
        let text = format!("{}{keys}", RIGHT.replace("for = \"10s\"\n", ""));
        let error = parse("test", &text, &catalogue(), &Overrides::default()).expect_err(&text);
        assert_eq!(error.to_string(), what);
    }
}

#[test]
fn goals_of_scenarios_are_right() {
    let scenario = RIGHT.replace("mix = { read = 1 }", "scenario = [{ name = \"r\", mix = { read = 1 } }]");
    for right in ["r.p99", "read.p99", "\"r/read\".p99"] {
        let text = format!("{scenario}[goals]\n{right} = \"5ms\"\n");
        parse("test", &text, &catalogue(), &Overrides::default()).unwrap();
    }
}
