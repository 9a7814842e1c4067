//! Table of the results, for the terminal and the book, and a row of CSV for each trial.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::drawn::{Share, Trial};
use super::judge::{Judgement, MOVED_MIN, is_right};

/// Heading of the CSV table.
pub const CSV_HEADING: &str = "trial,seed,share,stand,causes,episodes,moved,judgement,names,error,commit\n";

/// Cells of trials that have no judgement.
const NO_EFFECT: &str = "NoEffect";
const FAILED: &str = "Failed";

/// Result of a trial that was run.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    /// Least change by a cause, as a share.
    pub moved: f64,
    /// Judgement, of two causes the worse one.
    pub judgement: Judgement,
    /// Names that the findings have, in order.
    pub names: Vec<String>,
}

/// Counts of a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    trials: usize,
    failed: usize,
    no_effect: usize,
    /// Trials by their judgements, in the order of [`JUDGEMENTS`].
    judged: [usize; 6],
    right: usize,
}

const JUDGEMENTS: [Judgement; 6] = [
    Judgement::First,
    Judgement::FirstThree,
    Judgement::Wrong,
    Judgement::Nothing,
    Judgement::Undecided,
    Judgement::Silent,
];

impl Counts {
    fn add(&mut self, share: Share, result: Result<&Judged, &String>) {
        self.trials += 1;
        match result {
            Err(_) => self.failed += 1,
            Ok(judged) if judged.moved < MOVED_MIN => self.no_effect += 1,
            Ok(judged) => {
                let at = JUDGEMENTS.iter().position(|one| *one == judged.judgement).unwrap_or_default();
                self.judged[at] += 1;
                self.right += usize::from(is_right(share, judged.judgement));
            }
        }
    }

    fn counted(&self) -> usize {
        self.judged.iter().sum()
    }

    fn row(&self, name: &str) -> String {
        let [first, later, wrong, nothing, undecided, silent] = self.judged;
        let Counts { trials, failed, no_effect, .. } = self;
        format!(
            "| {name} | {trials} | {} | {first} | {} | {wrong} | {nothing} | {undecided} | {silent} | {no_effect} | \
             {failed} |\n",
            self.counted(),
            first + later
        )
    }

    /// Returns the share of the counted trials in percent, as [`percent`] does.
    fn percent(&self, count: usize) -> String {
        percent(count, self.counted())
    }
}

/// Returns a share in percent: `95.0 % (19 of 20)`.
fn percent(count: usize, of: usize) -> String {
    match of {
        0 => "none counted".to_owned(),
        _ => format!("{:.1} % ({count} of {of})", count as f64 * 100.0 / of as f64),
    }
}

/// Returns the table as Markdown, with a sentence for each share. Trials that were not run have no result.
pub fn table(results: &[(&Trial, Result<Judged, String>)]) -> String {
    let mut rows: BTreeMap<(Share, String), Counts> = BTreeMap::new();
    let mut shares: BTreeMap<Share, Counts> = BTreeMap::new();
    for (trial, result) in results {
        let row = match trial.share {
            Share::Two => "two causes".to_owned(),
            _ => causes(trial),
        };
        rows.entry((trial.share, row)).or_default().add(trial.share, result.as_ref());
        shares.entry(trial.share).or_default().add(trial.share, result.as_ref());
    }
    let mut text = "| cause | trials | counted | named first | in first three | wrong name | explained by nothing | \
                    undecided | no finding | no effect | failed |\n|---|---|---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for ((_, name), counts) in &rows {
        text.push_str(&counts.row(name));
    }
    text.push('\n');
    for (share, counts) in &shares {
        let right = counts.percent(counts.right);
        let wrong = counts.percent(counts.judged[2]);
        let sentence = match share {
            Share::Single => format!("One cause: named first {right}, wanted 95 %."),
            Share::Two => format!("Two causes: both in the first three {right}, wanted 85 %."),
            Share::Unwatched => format!(
                "A cause that nothing watches: explained by nothing {right}, wanted 90 %; a wrong name {wrong}, \
                 at most 2 %."
            ),
        };
        let (trials, failed) = (counts.trials, counts.failed);
        let without = percent(counts.no_effect, trials - failed);
        let _ = writeln!(text, "{sentence} Without effect {without}; failed {failed} of {trials}.");
    }
    text
}

/// Returns the row of a trial that was run with the program of `commit`.
pub fn csv_row(trial: &Trial, result: &Result<Judged, String>, commit: &str) -> String {
    let episode = |episode: &super::drawn::Episode| {
        format!("{} {:.2} s for {:.2} s", episode.cause.name(), episode.at_s, episode.length_s)
    };
    let episodes: Vec<String> = trial.episodes.iter().map(episode).collect();
    let (moved, judgement, names, error) = match result {
        Ok(judged) => {
            let counts = judged.moved >= MOVED_MIN;
            let judgement = if counts { format!("{:?}", judged.judgement) } else { NO_EFFECT.to_owned() };
            // Rounded down, so that a trial that is read again counts as before.
            (format!("{:.3}", (judged.moved * 1e3).floor() / 1e3), judgement, judged.names.join("; "), String::new())
        }
        Err(what) => (String::new(), FAILED.to_owned(), String::new(), what.clone()),
    };
    let cells = [
        trial.number.to_string(),
        trial.seed.to_string(),
        format!("{:?}", trial.share),
        trial.stand.name.to_owned(),
        causes(trial),
        episodes.join("; "),
        moved,
        judgement,
        names,
        error,
        commit.to_owned(),
    ];
    let cell = |text: &String| text.replace(['"', '\n'], " ").replace(',', ";");
    format!("{}\n", cells.iter().map(cell).collect::<Vec<_>>().join(","))
}

/// Returns the results in a CSV table of these trials, with its heading.
///
/// # Errors
/// Fails with the line if that is not of one of these trials.
pub fn read_csv<'t>(text: &str, trials: &'t [Trial]) -> crate::Result<Vec<(&'t Trial, crate::Result<Judged>)>> {
    let rows = text.strip_prefix(CSV_HEADING).ok_or("line 1: not the heading of trials with planted causes")?;
    let row = |(at, line): (usize, &str)| {
        result_of(line, trials).ok_or_else(|| format!("line {}: no row of these trials", at + 2))
    };
    rows.lines().enumerate().map(row).collect()
}

fn result_of<'t>(line: &str, trials: &'t [Trial]) -> Option<(&'t Trial, Result<Judged, String>)> {
    let cells: Vec<&str> = line.split(',').collect();
    let &[number, seed, _, _, of_causes, _, moved, judgement, names, error, _] = cells.as_slice() else { return None };
    let trial = trials.get(number.parse::<usize>().ok()?.checked_sub(1)?)?;
    if seed != trial.seed.to_string() || of_causes != causes(trial) {
        return None;
    }
    if judgement == FAILED {
        return Some((trial, Err(error.to_owned())));
    }
    let is_meant = |one: &Judgement| format!("{one:?}") == judgement;
    let known = JUDGEMENTS.into_iter().find(is_meant);
    // Without an effect the judgement does not count, and has no cell.
    let judgement = known.or((judgement == NO_EFFECT).then_some(Judgement::Silent))?;
    let names = names.split("; ").filter(|name| !name.is_empty()).map(str::to_owned).collect();
    Some((trial, Ok(Judged { moved: moved.parse().ok()?, judgement, names })))
}

/// Returns the names of the causes of a trial: `disk + lock`.
pub fn causes(trial: &Trial) -> String {
    trial.causes.iter().map(|cause| cause.name()).collect::<Vec<_>>().join(" + ")
}

#[cfg(test)]
mod tests {
    use super::super::cause::Cause;
    use super::super::drawn::Episode;
    use super::*;

    fn trial(share: Share, causes: &[Cause]) -> Trial {
        let episodes = causes.iter().map(|cause| Episode { cause: *cause, at_s: 4.5, length_s: 0.75 }).collect();
        Trial { number: 3, seed: 9, share, stand: &causes[0].stands()[0], causes: causes.to_vec(), episodes }
    }

    fn judged(moved: f64, judgement: Judgement) -> Result<Judged, String> {
        Ok(Judged { moved, judgement, names: vec!["disk vda, busy".to_owned()] })
    }

    #[test]
    fn a_table_has_a_row_for_each_cause_and_a_sentence_for_each_share() {
        let (disk, lock) = (trial(Share::Single, &[Cause::Disk]), trial(Share::Single, &[Cause::Lock]));
        let two = trial(Share::Two, &[Cause::Disk, Cause::Lock]);
        let trigger = trial(Share::Unwatched, &[Cause::Trigger]);
        let table = table(&[
            (&disk, judged(0.8, Judgement::First)),
            (&disk, judged(0.8, Judgement::FirstThree)),
            (&disk, judged(0.05, Judgement::Silent)),
            (&lock, judged(2.0, Judgement::Wrong)),
            (&lock, Err("the server did not start".to_owned())),
            (&two, judged(0.8, Judgement::FirstThree)),
            (&trigger, judged(0.8, Judgement::Nothing)),
            (&trigger, judged(0.8, Judgement::Undecided)),
        ]);
        for line in [
            "| disk | 3 | 2 | 1 | 2 | 0 | 0 | 0 | 0 | 1 | 0 |",
            "| lock | 2 | 1 | 0 | 0 | 1 | 0 | 0 | 0 | 0 | 1 |",
            "| two causes | 1 | 1 | 0 | 1 | 0 | 0 | 0 | 0 | 0 | 0 |",
            "| trigger | 2 | 2 | 0 | 0 | 0 | 1 | 1 | 0 | 0 | 0 |",
            "One cause: named first 33.3 % (1 of 3), wanted 95 %. Without effect 25.0 % (1 of 4); failed 1 of 5.",
            "Two causes: both in the first three 100.0 % (1 of 1), wanted 85 %. Without effect 0.0 % (0 of 1); failed \
             0 of 1.",
        ] {
            assert!(table.lines().any(|known| known == line), "{line}\n{table}");
        }
        let last = table.lines().last().unwrap();
        assert!(last.contains("explained by nothing 50.0 % (1 of 2)") && last.contains("a wrong name 0.0 %"), "{last}");
    }

    #[test]
    fn a_row_of_csv_has_all_cells_and_no_further_commas() {
        let (disk, columns) = (trial(Share::Single, &[Cause::Disk]), CSV_HEADING.split(',').count());
        let row = csv_row(&disk, &judged(0.8, Judgement::First), "c1");
        assert_eq!(row, "3,9,Single,postgres tpcb,disk,disk 4.50 s for 0.75 s,0.800,First,disk vda; busy,,c1\n");
        assert_eq!(row.split(',').count(), columns);
        let failed = csv_row(&disk, &Err("no server, \"really\"\nnone".to_owned()), "c1");
        assert_eq!(failed.split(',').count(), columns);
        assert!(failed.ends_with(",Failed,,no server;  really  none,c1\n"), "{failed}");
        assert!(csv_row(&disk, &judged(0.01, Judgement::Wrong), "").contains(",NoEffect,"));
    }

    #[test]
    fn a_table_that_is_read_again_counts_as_before() {
        let mut trials = vec![trial(Share::Single, &[Cause::Disk]); 4];
        for (at, trial) in trials.iter_mut().enumerate() {
            (trial.number, trial.seed) = (at + 1, 7 + at as u64);
        }
        let results = [
            (&trials[3], judged(0.8, Judgement::Wrong)),
            (&trials[0], judged(0.0999, Judgement::Wrong)),
            (&trials[2], judged(0.1, Judgement::First)),
            (&trials[1], Err("no server, \"really\"".to_owned())),
        ];
        let rows: Vec<String> = results.iter().map(|(trial, result)| csv_row(trial, result, "c1")).collect();
        let text = format!("{CSV_HEADING}{}", rows.concat());
        let read = read_csv(&text, &trials).unwrap();
        assert_eq!(table(&read), table(&results));
        assert_eq!(read.iter().map(|(trial, _)| trial.number).collect::<Vec<usize>>(), [4, 1, 3, 2]);
        assert_eq!(read_csv(CSV_HEADING, &trials), Ok(Vec::new()));
        // Of other trials, and of another table.
        let other = text.replace("3,9,Single", "3,8,Single");
        assert_eq!(read_csv(&other, &trials).unwrap_err(), "line 4: no row of these trials");
        assert!(read_csv(&text, &trials[..3]).unwrap_err().starts_with("line 2:"));
        assert!(read_csv("a,b\n", &trials).unwrap_err().starts_with("line 1:"));
    }
}
