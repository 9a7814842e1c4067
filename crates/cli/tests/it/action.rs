//! The GitHub Action of the book's page on comparing: its steps are taken out of the page and run, so that they keep
//! working.

use std::path::Path;
use std::process::{Command, Output};

use crate::bench::{Place, small_coupons};

/// The page that holds the workflow.
const PAGE: &str = include_str!("../../../../docs/src/comparing.md");

/// Commands that set up a hosted runner: the packages and the program are here already.
const SET_UP: [&str; 2] = ["sudo apt-get install ", "cargo install "];

/// The scripts of the workflow's steps, in order.
fn steps() -> Vec<String> {
    let workflow = PAGE.split("```yaml\n").nth(1).unwrap().split("```").next().unwrap();
    let mut steps = Vec::new();
    let mut lines = workflow.lines().peekable();
    while let Some(line) = lines.next() {
        let Some((before, script)) =
            line.split_once("run: ").filter(|(before, _)| before.trim_matches([' ', '-']).is_empty())
        else {
            continue;
        };
        let indent = before.len();
        let mut text = script.trim().to_owned();
        if text == "|" {
            text.clear();
            while let Some(line) = lines.next_if(|line| line.starts_with(&" ".repeat(indent + 1))) {
                text.push_str(line.trim());
                text.push('\n');
            }
        }
        steps.push(text);
    }
    steps
}

/// Runs `script` as a runner does, in the checkout.
fn bash(place: &Place, checkout: &Path, script: &str) -> Output {
    let program = Path::new(env!("CARGO_BIN_EXE_plimsoll")).parent().unwrap();
    let path = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    Command::new("bash")
        .args(["--noprofile", "--norc", "-eo", "pipefail", "-c", script])
        .current_dir(checkout)
        .env("PATH", path)
        .env("HOME", place.path())
        .env("GITHUB_STEP_SUMMARY", place.path().join("summary.md"))
        .env_remove("XDG_STATE_HOME")
        .output()
        .unwrap()
}

#[track_caller]
fn done(place: &Place, checkout: &Path, script: &str) -> String {
    let output = bash(place, checkout, script);
    let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{script}\n{out}\n{err}");
    out.trim().to_owned()
}

#[test]
fn the_workflow_of_the_book_runs() {
    let place = Place::new();
    let checkout = place.path().join("checkout");
    std::fs::create_dir_all(checkout.join("bench")).unwrap();
    let commit = |seed: u32| {
        // Of all 8 clients as many operations as a p99 needs, however busy the machine is.
        let counted = small_coupons(r#"["sqlite"]"#, 300, 1).replace("for = \"1s\"", "ops = 250");
        let plan = format!("seed = {seed}\n{counted}");
        std::fs::write(checkout.join("bench/plan.toml"), plan).unwrap();
        let who = "-c user.name=me -c user.email=me@example.org -c commit.gpgsign=false";
        done(&place, &checkout, &format!("git add . && git {who} commit -q -m 'Seed {seed}' && git rev-parse HEAD"))
    };
    done(&place, &checkout, "git init -q .");
    let (base, head) = (commit(1), commit(2));

    let steps = steps();
    let (set_up, ours): (Vec<&String>, Vec<&String>) =
        steps.iter().partition(|step| SET_UP.iter().any(|begin| step.starts_with(begin)));
    assert_eq!((set_up.len(), ours.len()), (2, 4), "{steps:?}");
    assert!(set_up[1].ends_with(&format!("/plimsoll {}", env!("CARGO_PKG_NAME"))), "{set_up:?}");
    for step in ours {
        let script = step
            .replace("${{ github.event.pull_request.base.sha }}", &base)
            .replace("${{ github.event.pull_request.head.sha }}", &head);
        assert!(!script.contains("${{"), "{script}");
        let output = bash(&place, &checkout, &script);
        let err = String::from_utf8_lossy(&output.stderr);
        let code = output.status.code();
        if script.contains("plimsoll compare") {
            // So few operations may differ by more than the conditions allow, or decide nothing: code and file must agree.
            let junit =
                std::fs::read_to_string(checkout.join("compare.xml")).unwrap_or_else(|_| panic!("{script}\n{err}"));
            let told = if junit.contains("<failure") {
                1
            } else if junit.contains("UNDECIDED") {
                11
            } else {
                0
            };
            assert_eq!(code, Some(told), "{script}\n{err}\n{junit}");
        } else {
            assert_eq!(code, Some(0), "{script}\n{err}");
        }
    }
    let summary = std::fs::read_to_string(place.path().join("summary.md")).unwrap();
    assert!(summary.starts_with("### ") && summary.contains("seed"), "{summary}");
    assert!(place.path().join(".local/state/plimsoll/runs").is_dir());
}
