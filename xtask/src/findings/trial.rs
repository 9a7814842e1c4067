//! Run of one trial: a drive of the program, with causes planted in its servers from outside.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::cause::{Cause, Stand};
use super::drawn::{self, GAP_S, MARGIN_S, Trial};
use super::judge;
use super::planted;
use super::table::Judged;
use crate::Result;
use crate::process::{is_interrupted, line_of, signal};

/// Length of a slice: a drive has more than 200, and an episode takes several. Shorter ones have too few operations for
/// a percentile, and ticks of processors that are too coarse.
const SLICE: &str = "250ms";
/// Fewest episodes of a cause, and greatest share of a drive in which causes are planted: more are no moments.
const EPISODES_MIN: usize = 6;
const PLANTED_MAX: f64 = 0.4;
/// Longest time until the drive begins, and after its planned end until the program ends.
const START_BOUND: Duration = Duration::from_secs(90);
const END_BOUND: Duration = Duration::from_secs(60);
/// Longest time in which an interrupted program ends before it is killed.
const LEAVE_BOUND: Duration = Duration::from_secs(20);
/// Interval of looks whether this program was interrupted.
const LOOK: Duration = Duration::from_millis(200);
/// Exit codes of a run that was measured: all was well, the load was not carried, and undecided.
const MEASURED: [i32; 3] = [0, 1, 11];

/// An episode as it was planted, by the wall clock, in seconds since 1970.
struct Planted {
    cause: Cause,
    from_s: f64,
    until_s: f64,
}

/// A program that is interrupted, and killed if it does not end, when this is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let begun = Instant::now();
        if matches!(self.0.try_wait(), Ok(None)) {
            signal("INT", self.0.id());
        }
        while matches!(self.0.try_wait(), Ok(None)) && begun.elapsed() < LEAVE_BOUND {
            sleep(LOOK);
        }
        // Its supervisor ends the servers.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Directory of a trial, which is removed when this is dropped, unless it is kept.
struct Place {
    path: PathBuf,
    is_kept: bool,
}

impl Drop for Place {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Runs a trial with `program` and judges the answer. With `is_kept` its directory stays.
///
/// # Errors
/// Fails if the drive does not begin or fails, a cause cannot be planted, began too rarely or took too long, or this
/// program is interrupted.
pub fn run(program: &Path, trial: &Trial, is_kept: bool) -> Result<Judged> {
    // The servers' users enter it, and the path of a socket in it is short.
    let path = Path::new("/var/tmp").join(format!("findings-{}-{}", std::process::id(), trial.number));
    fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let place = Place { path, is_kept };
    let (planted, slices) = drive(program, trial, &place.path)?;
    check(&trial.causes, &planted)?;
    let mut ask = Command::new(program);
    ask.args(["ask", "latest", "findings", "--json"]).env("XDG_STATE_HOME", state(&place.path));
    let answer: Value = serde_json::from_str(&line_of(&mut ask)?).map_err(|error| format!("plimsoll ask: {error}"))?;
    let findings = answer["findings"].as_array().ok_or("plimsoll ask: no findings in the answer")?;
    judged(trial, &planted, &slices, findings)
}

/// Checks that the causes came and went often enough to be told from chance, whatever the findings are.
fn check(causes: &[Cause], planted: &[Planted]) -> Result {
    for cause in causes {
        let begun = planted.iter().filter(|episode| episode.cause == *cause).count();
        if begun < EPISODES_MIN {
            return Err(format!("{} began {begun} times, wanted {EPISODES_MIN}: episodes took too long", cause.name()));
        }
    }
    let planted_s: f64 = planted.iter().map(|episode| episode.until_s - episode.from_s).sum();
    let share = planted_s / drawn::drive_s(causes);
    if share > PLANTED_MAX {
        return Err(format!("episodes took {:.0} % of the drive, at most {:.0} %", share * 100.0, PLANTED_MAX * 100.0));
    }
    Ok(())
}

/// Judges the findings about each cause, and returns the worst judgement and the least effect.
fn judged(trial: &Trial, planted: &[Planted], slices: &[Value], findings: &[Value]) -> Result<Judged> {
    let start_s = slices.first().and_then(run_start_s).ok_or("the drive has no slices")?;
    let spans = |is_meant: &dyn Fn(&Planted) -> bool| -> Vec<(f64, f64)> {
        let meant = planted.iter().filter(|episode| is_meant(episode));
        meant.map(|episode| (episode.from_s - start_s, episode.until_s - start_s)).collect()
    };
    let all = spans(&|_| true);
    let mut result: Option<Judged> = None;
    for cause in &trial.causes {
        let own = spans(&|episode| episode.cause == *cause);
        let moved = judge::moved(slices, &own, &all).ok_or("too few slices beside the episodes")?;
        let judgement = judge::judge(findings, *cause, &own);
        let (moved, judgement) = match &result {
            Some(other) => (moved.min(other.moved), judgement.max(other.judgement)),
            None => (moved, judgement),
        };
        result = Some(Judged { moved, judgement, names: judge::names(findings, &all) });
    }
    result.ok_or_else(|| "the trial has no cause".to_owned())
}

/// Returns the start of the run by the wall clock, in seconds since 1970, from a slice.
fn run_start_s(slice: &Value) -> Option<f64> {
    Some(slice["wall_ns"].as_f64()? / 1e9 - slice["end_s"].as_f64()?)
}

/// Directory of recordings of a trial.
fn state(place: &Path) -> PathBuf {
    place.join("state")
}

/// Returns the arguments of `plimsoll` for a trial.
fn arguments(stand: &Stand, causes: &[Cause], seed: u64, place: &Path) -> Vec<String> {
    let store = stand.drive.iter().skip_while(|word| **word != "--on").nth(1).copied().unwrap_or_default();
    let own = causes.iter().flat_map(|cause| cause.arguments()).map(|word| word.replace("STORE", store));
    let words = std::iter::once(&"drive").chain(stand.drive).map(|word| (*word).to_owned()).chain(own);
    let (place, length, seed) = (place.display().to_string(), format!("{}s", drawn::drive_s(causes)), seed.to_string());
    let fixed = ["--for", &length, "--slice", SLICE, "--seed", &seed, "--dir", &place, "--json", "--quiet"];
    words.chain(fixed.map(str::to_owned)).collect()
}

/// Drives and plants. Returns the episodes as they were planted, and the slices.
fn drive(program: &Path, trial: &Trial, place: &Path) -> Result<(Vec<Planted>, Vec<Value>)> {
    let messages = place.join("messages");
    let failed = |error: std::io::Error| format!("plimsoll drive: {error}");
    let mut command = Command::new(program);
    command.args(arguments(trial.stand, &trial.causes, trial.seed, place)).env("XDG_STATE_HOME", state(place));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(File::create(&messages).map_err(failed)?);
    let mut running = Running(command.spawn().map_err(failed)?);
    let lines = lines(running.0.stdout.take().ok_or("plimsoll drive: no output")?);
    let said = |what: &str| {
        let messages = fs::read_to_string(&messages).unwrap_or_default();
        format!("plimsoll drive: {what}\n{}", messages.trim_end())
    };
    let is_drive = |line: &Value| line["type"] == "phase" && line["kind"] == "drive";
    let mut slices = Vec::new();
    read(&lines, Instant::now() + START_BOUND, &mut slices, is_drive).map_err(|what| said(&what))?;
    let begun = Instant::now();
    for cause in &trial.causes {
        planted::prepare(*cause, place)?;
    }
    let drive_s = drawn::drive_s(&trial.causes);
    let (mut done, mut free) = (Vec::new(), begun);
    for episode in &trial.episodes {
        let planned = begun + Duration::from_secs_f64(episode.at_s);
        // Work that took long, as a backup may, delays the next one.
        sleep(planned.max(free).saturating_duration_since(Instant::now()));
        if is_interrupted() {
            return Err("interrupted".to_owned());
        }
        if begun.elapsed().as_secs_f64() + episode.length_s > drive_s - MARGIN_S {
            break;
        }
        let from_s = wall_s();
        planted::plant(episode.cause, place, episode.length_s, done.len()).map_err(|what| said(&what))?;
        done.push(Planted { cause: episode.cause, from_s, until_s: wall_s() });
        free = Instant::now() + Duration::from_secs_f64(GAP_S);
    }
    let end = begun + Duration::from_secs_f64(drive_s) + END_BOUND;
    read(&lines, end, &mut slices, |line| line["type"] == "end").map_err(|what| said(&what))?;
    let status = running.0.wait().map_err(failed)?;
    match status.code().is_some_and(|code| MEASURED.contains(&code)) {
        true => Ok((done, slices)),
        false => Err(said(&status.to_string())),
    }
}

fn wall_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Returns the lines of a program's output, read by a thread that ends with the output.
fn lines(output: ChildStdout) -> Receiver<Value> {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(std::io::Result::ok) {
            let Ok(line) = serde_json::from_str::<Value>(&line) else { continue };
            // The receiver is gone after an error.
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Reads lines until one is the last, and keeps the slices among them.
fn read(lines: &Receiver<Value>, end: Instant, slices: &mut Vec<Value>, is_last: impl Fn(&Value) -> bool) -> Result {
    loop {
        match lines.recv_timeout(LOOK) {
            Ok(line) if is_last(&line) => return Ok(()),
            Ok(line) if line["type"] == "slice" => slices.push(line),
            Ok(_) => {}
            Err(RecvTimeoutError::Disconnected) => return Err("ended early".to_owned()),
            Err(RecvTimeoutError::Timeout) if is_interrupted() => return Err("interrupted".to_owned()),
            Err(RecvTimeoutError::Timeout) if Instant::now() > end => return Err("takes too long".to_owned()),
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::drawn::{Episode, Share};
    use super::super::judge::Judgement;
    use super::*;

    #[test]
    fn arguments_name_the_store_of_the_stand_in_limits() {
        let stand = Cause::Throttle.stands().iter().find(|stand| stand.name.starts_with("mariadb")).unwrap();
        let words = arguments(stand, &[Cause::Throttle, Cause::Quota], 7, Path::new("/p")).join(" ");
        assert!(words.starts_with("drive simple-update --on mariadb "), "{words}");
        assert!(words.contains(" --set mariadb.write_bps=4GiB --set mariadb.cpus=1 --for 96s --slice 250ms --seed 7 "));
        assert!(words.ends_with(" --dir /p --json --quiet"), "{words}");
    }

    #[test]
    fn causes_that_began_too_rarely_or_took_too_long_are_no_trial() {
        let planted = |count: u32, length_s: f64| -> Vec<Planted> {
            let from_s = |at: u32| 4.0 + 6.0 * f64::from(at);
            let planted = |at| Planted { cause: Cause::Backup, from_s: from_s(at), until_s: from_s(at) + length_s };
            (0..count).map(planted).collect()
        };
        let check = |planted: &[Planted]| super::check(&[Cause::Backup], planted);
        assert_eq!(check(&planted(8, 1.0)), Ok(()));
        assert_eq!(check(&planted(5, 1.0)).unwrap_err(), "backup began 5 times, wanted 6: episodes took too long");
        // The drive lasts 52 s.
        assert_eq!(check(&planted(8, 3.25)).unwrap_err(), "episodes took 50 % of the drive, at most 40 %");
    }

    #[test]
    fn of_two_causes_the_worse_answer_and_the_smaller_effect_count() {
        let wall_s = 1_000.0;
        let planted = |cause, from_s: f64| Planted { cause, from_s: wall_s + from_s, until_s: wall_s + from_s + 0.5 };
        let all = [planted(Cause::Disk, 2.0), planted(Cause::Lock, 4.0)];
        let slice = |at: u32| {
            let end_s = f64::from(at + 1) * 0.5;
            let p99 = match at {
                4 => 3e6,
                8 => 2e6,
                _ => 1e6,
            };
            let wall_ns = (wall_s + end_s) * 1e9;
            json!({ "start_s": end_s - 0.5, "end_s": end_s, "wall_ns": wall_ns, "rate_per_s": 10.0, "p99_ns": p99 })
        };
        let slices: Vec<Value> = (0..20).map(slice).collect();
        let found = |series: &str, at_s: f64| {
            let (spans, evidence) = (json!([[at_s, at_s + 0.5]]), json!([{ "series": series }]));
            json!({ "rule": "cause", "sentence": "…", "spans_s": spans, "evidence": evidence })
        };
        let findings = [found("disk vda", 2.0), found("postgres: waiting for locks", 4.0)];
        let causes = vec![Cause::Disk, Cause::Lock];
        let stand = &Cause::Disk.stands()[0];
        let episodes: Vec<Episode> = Vec::new();
        let trial = Trial { number: 1, seed: 1, share: Share::Two, stand, causes, episodes };
        let judged = |findings: &[Value]| super::judged(&trial, &all, &slices, findings).unwrap();
        let both = judged(&findings);
        assert_eq!((both.judgement, both.names.len()), (Judgement::First, 2));
        assert!((both.moved - 1.0).abs() < 1e-6, "{}", both.moved);
        assert_eq!(judged(&findings[..1]).judgement, Judgement::Silent);
    }

    #[test]
    fn lines_are_read_to_the_last_and_an_early_end_is_an_error() {
        let mut child = Command::new("printf")
            .arg("%s\n{\"type\":\"slice\",\"end_s\":1}\nno json\n{\"type\":\"end\"}\n")
            .arg("{\"type\":\"phase\"}")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = lines(child.stdout.take().unwrap());
        let (end, mut slices) = (Instant::now() + Duration::from_secs(10), Vec::new());
        read(&lines, end, &mut slices, |line| line["type"] == "end").unwrap();
        assert_eq!(slices.len(), 1);
        assert_eq!(read(&lines, end, &mut slices, |_| false).unwrap_err(), "ended early");
        assert!(child.wait().unwrap().success());
    }
}
