//! The live display in a pseudo-terminal.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use rustix::pty::{OpenptFlags, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::bench::{Guarded, Place, Ran, wait_for};
use crate::watch::{append, line, now_s};

/// Beginning and end of the alternate screen.
const ENTER: &str = "\u{1b}[?1049h";
const LEAVE: &str = "\u{1b}[?1049l";
/// Kind of terminal.
const TERM: &str = "xterm-256color";
/// Longest wait for anything on the screen.
const LIMIT: Duration = Duration::from_secs(50);

/// Terminal of a program under test.
struct Pty {
    keys: File,
    terminal: OwnedFd,
    written: Arc<Mutex<Vec<u8>>>,
}

impl Pty {
    fn new(columns: u16, rows: u16) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let master = openpt(flags).unwrap();
        unlockpt(&master).unwrap();
        let terminal = ioctl_tiocgptpeer(&master, flags).unwrap();
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal, size).unwrap();
        let keys = File::from(master);
        let mut output = keys.try_clone().unwrap();
        let written = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&written);
        // It ends with the test: this process has the terminal open, too.
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut bytes) {
                to.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        Self { keys, terminal, written }
    }

    /// Starts the program with this as its terminal, of a kind called `term`.
    fn start(&self, place: &Place, term: &str, args: &[&str]) -> Guarded {
        // `setsid` of util-linux gives the program a session with this terminal, and becomes the program.
        let mut command = place.program("setsid");
        command.args(["--ctty", env!("CARGO_BIN_EXE_plimsoll")]).args(args);
        command.env("TERM", term).env_remove("NO_COLOR");
        let terminal = || Stdio::from(self.terminal.try_clone().unwrap());
        Guarded(command.stdin(terminal()).stdout(terminal()).stderr(terminal()).spawn().expect("setsid of util-linux"))
    }

    fn press(&self, key: &str) {
        (&self.keys).write_all(key.as_bytes()).unwrap();
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().unwrap()).into_owned()
    }

    /// Lines of the screen, as a terminal would show them that knows positions and clearing.
    fn screen(&self) -> Vec<String> {
        let text = self.text();
        let empty = || vec![vec![' '; 200]; 60];
        let (mut cells, mut x, mut y) = (empty(), 0, 0);
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '\u{1b}' => {
                    // `[`, numbers, and a letter.
                    let _ = letters.next();
                    let mut numbers = String::new();
                    let last = loop {
                        match letters.next() {
                            Some(letter) if !letter.is_ascii_alphabetic() => numbers.push(letter),
                            last => break last,
                        }
                    };
                    match last {
                        Some('H') => {
                            let mut at = numbers.split(';').map(|number| number.parse::<usize>().unwrap_or(1));
                            (y, x) = (at.next().unwrap_or(1) - 1, at.next().unwrap_or(1) - 1);
                        }
                        Some('J') => cells = empty(),
                        _ => {}
                    }
                }
                '\r' => x = 0,
                '\n' => y += 1,
                letter => {
                    if let Some(cell) = cells.get_mut(y).and_then(|row| row.get_mut(x)) {
                        *cell = letter;
                    }
                    x += 1;
                }
            }
        }
        cells.iter().map(|row| row.iter().collect::<String>().trim_end().to_owned()).collect()
    }

    /// Waits for a percentile of the newest slice, and returns the screen with it.
    #[track_caller]
    fn wait_for_a_percentile(&self) -> Vec<String> {
        let mut screen = Vec::new();
        wait_for("a percentile", LIMIT, || {
            screen = self.screen();
            screen.iter().any(|line| has_percentile(line))
        });
        screen
    }

    /// Returns true if the terminal reads lines and shows what is typed, as a shell leaves it.
    fn is_restored(&self) -> bool {
        tcgetattr(&self.terminal).unwrap().local_modes.contains(LocalModes::ICANON | LocalModes::ECHO)
    }
}

/// Returns true if a line of the display has a time of the newest slice: a number and its unit.
fn has_percentile(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    let is_time = |pair: &[&str]| pair[0].parse::<f64>().is_ok() && ["ns", "µs", "ms", "s"].contains(&pair[1]);
    words.first() == Some(&"slice") && words.windows(2).any(is_time)
}

/// Processor time of a thread called `name` of a process.
fn cpu_of(process: u32, name: &str) -> Duration {
    let mut tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten().map(|task| task.path());
    let named = |task: &std::path::PathBuf| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|known| known.trim_end() == name)
    };
    let task = tasks.find(named).expect("the thread");
    // The first number is the time on a processor.
    let times = std::fs::read_to_string(task.join("schedstat")).unwrap();
    Duration::from_nanos(times.split(' ').next().unwrap().parse().unwrap())
}

/// Server of tmux with one window, in which a program runs.
struct Tmux<'p> {
    place: &'p Place,
}

impl Tmux<'_> {
    fn ask(&self, args: &[&str]) -> String {
        let mut tmux = self.place.program("tmux");
        tmux.args(["-u", "-f"]).arg(self.place.path().join("tmux.conf"));
        tmux.arg("-S").arg(self.place.path().join("tmux")).args(args);
        let output = tmux.output().expect("tmux is not installed: apt-get install tmux (or run `cargo xtask test`)");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    fn screen(&self) -> String {
        self.ask(&["capture-pane", "-p"])
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        self.ask(&["kill-server"]);
    }
}

/// Drive without data, shown live. In a closed loop a busy machine leaves nothing unsent.
const DRIVE: [&str; 8] = ["drive", "nothing", "--on", "null", "--no-load", "--think", "1ms", "--live"];

#[test]
fn the_display_shows_percentiles_and_goals_and_the_report_stands_on_the_normal_screen() {
    let (place, pty) = (Place::new(), Pty::new(80, 24));
    assert!(pty.is_restored());
    let begun = Instant::now();
    let mut child = pty.start(&place, TERM, &[&DRIVE[..], &["--for", "6s", "--goal", "p50=1s"]].concat());
    pty.wait_for_a_percentile();
    assert!(!pty.is_restored(), "keys come at once while it is shown");
    let (first, cpu) = (begun.elapsed(), cpu_of(child.0.id(), "live"));
    println!("first percentile {first:?} after the start of the program; the display took {cpu:?} until then");
    assert!(cpu < first / 10, "{cpu:?} of {first:?}");
    // Goals are judged by whole slices, percentiles are shown before the first one has ended.
    wait_for("the goal's margin", LIMIT, || {
        pty.screen().iter().any(|line| line.starts_with("p50 ") && line.contains(" % left · ≤ 1.00 s"))
    });
    wait_for("the end", LIMIT, || child.0.try_wait().unwrap().is_some());
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
    wait_for("the report", LIMIT, || pty.text().contains("recording  "));
    let text = pty.text();
    let (shown, after) = text.split_once(LEAVE).expect("it leaves its screen");
    assert!(shown.contains(ENTER) && after.contains("PASS") && after.contains("page       "), "{after}");
    assert!(pty.is_restored());
}

#[test]
fn tmux_shows_the_display_at_three_sizes() {
    for (columns, rows, last) in
        [(80, 24, "q leave"), (40, 12, "40 × 12: all panels need 80 × 24"), (200, 60, "q leave")]
    {
        let place = Place::new();
        std::fs::write(place.path().join("tmux.conf"), "set -g status off\nset -g remain-on-exit on\n").unwrap();
        let tmux = Tmux { place: &place };
        let (width, height) = (columns.to_string(), rows.to_string());
        let window = ["new-session", "-d", "-x", &width, "-y", &height, env!("CARGO_BIN_EXE_plimsoll")];
        tmux.ask(&[&window[..], &DRIVE, &["--for", "60s"]].concat());
        let mut screen = String::new();
        wait_for("a percentile", LIMIT, || {
            screen = tmux.screen();
            screen.lines().any(has_percentile)
        });
        let bottom = screen.lines().nth(rows - 1);
        assert!(bottom.is_some_and(|line| line.starts_with(last)), "{screen}");
        assert!(screen.lines().all(|line| line.chars().count() <= columns), "{screen}");
        tmux.ask(&["send-keys", "C-c"]);
        wait_for("the end", LIMIT, || tmux.ask(&["display-message", "-p", "#{pane_dead}"]).trim() == "1");
        assert!(tmux.screen().contains("recording"), "{}", tmux.screen());
    }
}

#[test]
fn a_signal_that_stops_or_quits_finds_the_terminal_restored() {
    let place = Place::new();
    let start = || {
        let pty = Pty::new(80, 24);
        let child = pty.start(&place, TERM, &[&DRIVE[..], &["--for", "60s"]].concat());
        pty.wait_for_a_percentile();
        assert!(!pty.is_restored());
        (pty, child)
    };
    let (pty, mut child) = start();
    // A child without a shell is in an orphaned process group, whose processes TSTP never stops.
    child.signal(Signal::TSTP);
    wait_for("the normal screen", LIMIT, || pty.text().contains(LEAVE) && pty.is_restored());
    wait_for("a progress line", LIMIT, || {
        pty.text().split_once(LEAVE).is_some_and(|(_, after)| after.contains("1/1 null · drive · "))
    });
    child.signal(Signal::TERM);
    wait_for("the end", LIMIT, || child.0.try_wait().unwrap().is_some());
    let (pty, mut child) = start();
    child.signal(Signal::QUIT);
    wait_for("the end", LIMIT, || child.0.try_wait().unwrap().is_some());
    wait_for("the normal screen", LIMIT, || pty.text().contains(LEAVE) && pty.is_restored());
}

#[test]
fn q_leaves_the_display_and_the_run_goes_on_with_progress_lines() {
    let (place, pty) = (Place::new(), Pty::new(80, 24));
    let mut child = pty.start(&place, TERM, &[&DRIVE[..], &["--for", "60s"]].concat());
    pty.wait_for_a_percentile();
    pty.press("?");
    wait_for("help", LIMIT, || pty.screen().iter().any(|line| line.contains("next operation type")));
    pty.press("q");
    wait_for("a progress line", LIMIT, || {
        pty.text().split_once(LEAVE).is_some_and(|(_, after)| after.contains("1/1 null · drive · "))
    });
    assert!(pty.is_restored() && child.0.try_wait().unwrap().is_none());
    // Ctrl-C is a signal of the terminal.
    pty.press("\u{3}");
    wait_for("the end", LIMIT, || child.0.try_wait().unwrap().is_some());
    assert_eq!(child.0.wait().unwrap().code(), Some(130));
}

#[test]
fn a_log_that_is_followed_is_shown_while_it_grows() {
    let (place, pty) = (Place::new(), Pty::new(80, 24));
    let log = place.path().join("access.log");
    append(&log, &line(now_s(), "GET /before", 200, 2_000));
    let mut child = pty.start(&place, TERM, &["watch", log.to_str().unwrap(), "--follow", "--live"]);
    wait_for("a percentile", LIMIT, || {
        append(&log, &line(now_s(), "GET /item", 200, 2_000).repeat(20));
        pty.screen().iter().any(|line| line.starts_with("slice") && line.contains(" ms"))
    });
    pty.press(" ");
    wait_for("the pause", LIMIT, || pty.screen().iter().any(|line| line.starts_with("PAUSED · access.log")));
    child.signal(Signal::INT);
    wait_for("the end", LIMIT, || child.0.try_wait().unwrap().is_some());
    assert_eq!(child.0.wait().unwrap().code(), Some(0));
    wait_for("the report", LIMIT, || pty.text().contains("recording  "));
    assert!(pty.text().contains(LEAVE) && pty.is_restored());
}

#[test]
fn signals_end_the_run_and_restore_the_terminal() {
    for (signal, key) in [(Some(Signal::TERM), ""), (None, "\u{3}")] {
        let (place, pty) = (Place::new(), Pty::new(80, 24));
        let mut child = pty.start(&place, TERM, &[&DRIVE[..], &["--for", "60s"]].concat());
        pty.wait_for_a_percentile();
        signal.into_iter().for_each(|signal| child.signal(signal));
        pty.press(key);
        wait_for("the end", LIMIT, || child.0.try_wait().unwrap().is_some());
        assert_eq!(child.0.wait().unwrap().code(), Some(130));
        wait_for("the report", LIMIT, || pty.text().contains("recording  "));
        let text = pty.text();
        let (_, after) = text.split_once(LEAVE).expect("it leaves its screen");
        assert!(after.contains("ending this phase") && pty.is_restored(), "{after}");
    }
}

#[test]
fn an_error_of_the_run_stands_on_the_normal_screen() {
    let (place, pty) = (Place::new(), Pty::new(80, 24));
    let drive = ["drive", "kv", "--on", "redis://127.0.0.1:1/", "--mix", "read=1", "--for", "1s", "--live"];
    let mut child = pty.start(&place, TERM, &drive);
    wait_for("the end", LIMIT, || child.0.try_wait().unwrap().is_some());
    assert_eq!(child.0.wait().unwrap().code(), Some(3));
    wait_for("the error", LIMIT, || pty.text().contains("error: "));
    let text = pty.text();
    let after = text.split_once(LEAVE).map_or(text.as_str(), |(_, after)| after);
    assert!(after.contains("error: ") && pty.is_restored(), "{text}");
    assert_eq!(text.matches(ENTER).count(), text.matches(LEAVE).count(), "{text}");
}

#[test]
fn without_a_terminal_and_on_a_dumb_one_there_are_progress_lines() {
    let (place, pty) = (Place::new(), Pty::new(80, 24));
    let mut child = pty.start(&place, "dumb", &[&DRIVE[..], &["--for", "3s"]].concat());
    wait_for("the end", LIMIT, || child.0.try_wait().unwrap().is_some());
    wait_for("the report", LIMIT, || pty.text().contains("recording  "));
    assert!(pty.text().contains("1/1 null · drive · ") && !pty.text().contains(ENTER), "{}", pty.text());
    let ran = place.run(&[&DRIVE[..], &["--for", "1s", "--progress", "300ms"]].concat()).expect(0);
    assert!(ran.err.contains("1/1 null · drive · ") && !ran.err.contains('\u{1b}'), "{}", ran.err);
    place.refuses(&[
        (
            "drive nothing --on null --live --quiet",
            "--live cannot be used with --quiet … → they exclude each other: leave",
        ),
        (
            "drive nothing --on null --live --json",
            "--live cannot be used with --json … → they exclude each other: leave",
        ),
    ]);
}

#[test]
fn a_page_that_cannot_be_opened_is_named() {
    let place = Place::new();
    let without = |args: &[&str]| {
        let mut command = place.command(args);
        command.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY").env_remove("BROWSER");
        Ran::of(&command.output().unwrap())
    };
    let drive = ["drive", "nothing", "--on", "null", "--no-load", "--for", "300ms", "--quiet", "--open"];
    without(&drive).expect(0).says("cannot open the page: there is no display … report.html yourself");
    without(&["report", "latest", "--open"]).expect(0).says("cannot open the page");
    without(&["report", "latest", "--open", "--format", "csv"]).expect(2).says("--open opens a page in a file");
    // An opener of the user is started with the page, and without variables that may hold passwords.
    let opener = place.path().join("xdg-open");
    let script = format!("#!/bin/sh\necho \"$1 $PGPASSWORD\" > {}/opened\n", place.path().display());
    std::fs::write(&opener, script).unwrap();
    std::fs::set_permissions(&opener, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", place.path().display(), std::env::var("PATH").unwrap());
    let mut command = place.command(&["report", "latest", "--open"]);
    command.env("DISPLAY", ":1").env("PATH", path).env("PGPASSWORD", "s3cret");
    Ran::of(&command.output().unwrap()).expect(0);
    let opened = std::fs::read_to_string(place.path().join("opened")).unwrap();
    assert!(opened.trim_end().ends_with("report.html") && !opened.contains("s3cret"), "{opened}");
}
