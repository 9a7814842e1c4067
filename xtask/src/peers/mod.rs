//! `cargo xtask peers [ROW …]`: what an operation costs Plimsoll's client and what it costs the best known clients of
//! the same server, side by side.
//!
//! All are whole processes on their own. Their CPU time, user and system, is what the kernel accounts them with when
//! they end (wait4). Peers and ours take turns in an order drawn by lot, in the same session, on the same server, with
//! the same affinity. A pair is dropped, and counted, when other processes took more than 15 % of the machine during one
//! of its halves, or when ours was void: its generator was the limit. A goal is met when the upper end of the 95 % interval of the paired ratio is at most the goal, missed
//! when the lower end is above it, and open in between. It is about the row's first peer, the best known one; the others
//! stand there for comparison. A row whose peer cannot be had is not compared, never met.
//!
//! Beside the peers stands the *floor*: a bare loop that sends the same bytes by the same kernel calls and does nothing
//! else (`floor`). Ours is to cost at most 1.15 times as much. `--floor` compares with it alone, which needs no other
//! client; with `--profile` it says where what is above it goes.
//!
//! | module | what |
//! |---|---|
//! | `rows` | the comparisons: who asks what of which server, and the goal |
//! | `commands` | how each client is told what to do, and what it prints |
//! | `tools` | where the other clients are, and how some are installed |
//! | `servers` | the servers, private, and gone with this program |
//! | `client` | Plimsoll's side: a child process that drives an attached server |
//! | `floor` | the bare loop, and the tape of bytes that it sends |
//! | `compare` | a row, and its lines |
//! | `others` | how much of the machine everybody else took |
//! | `honesty` | `--honesty`: what each client says of a server that was stopped for a second |
//! | `turns` | `--in-turn`: ours against ours, built or run differently |
//! | `profile` | `--profile`: where the time goes, ours and the peer's, or the floor's |

mod client;
mod commands;
mod compare;
mod floor;
mod honesty;
mod others;
mod profile;
mod rows;
mod servers;
mod tools;
mod turns;

use std::error::Error;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::Command;

pub use client::AS_CLIENT;
use rows::{ROWS, Row};
use servers::Servers;
use tools::Tools;

const PAIRS: usize = 10;
/// What this program was made of, whatever the checkout is by now: `cargo xtask peers` says so when it builds it.
const BUILT_OF: &str = match option_env!("PLIMSOLL_COMMIT") {
    Some(commit) => commit,
    None => "unknown (not built by `cargo xtask peers`)",
};
const USAGE: &str = "\
cargo xtask peers [ROW …] [--pairs N] [--page FILE]   compare; FILE is begun, or gone on with
cargo xtask peers --floor [ROW …] [--pairs N]          compare with the floor alone, a bare loop of the same bytes
cargo xtask peers --in-turn WAY,WAY ROW … [--pairs N]  ours against ours: a WAY is io=NAME, or the path of another
                                                       build of this program, or both with a + between
cargo xtask peers --profile [--floor] ROW …            where the time goes, ours and the peer's, or the floor's
cargo xtask peers --honesty [NAME …]                   what each says of a server that was stopped for a second";

/// What was asked for.
#[derive(Default)]
struct Wanted {
    pairs: Option<usize>,
    page: Option<PathBuf>,
    profile: bool,
    floor: bool,
    in_turn: Option<String>,
    honesty: bool,
    names: Vec<String>,
}

/// Compares, prints, and keeps a whole run in the journal.
pub fn run(arguments: &[String]) -> Result<(), Box<dyn Error>> {
    if arguments.first().is_some_and(|word| word == AS_CLIENT) {
        return client::be(&arguments[1..]);
    }
    if arguments.first().is_some_and(|word| word == floor::AS_FLOOR) {
        return floor::be(&arguments[1..]);
    }
    let wanted = wanted(arguments)?;
    let (mut servers, mut tools) = (Servers::default(), Tools::default());
    if wanted.honesty {
        return honesty::run(&wanted.names, &mut servers, &mut tools);
    }
    let known: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
    if let Some(name) = wanted.names.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(format!("there is no row `{name}`; there are: {}\n{USAGE}", known.join(", ")).into());
    }
    let is_wanted = |row: &&Row| wanted.names.is_empty() || wanted.names.iter().any(|name| name == row.name);
    let chosen: Vec<&'static Row> = ROWS.iter().filter(is_wanted).collect();
    if wanted.profile {
        return chosen.into_iter().try_for_each(|row| profile::run(row, wanted.floor, &mut servers, &mut tools));
    }
    let pairs = wanted.pairs.unwrap_or(PAIRS);
    if let Some(ways) = &wanted.in_turn {
        return chosen.into_iter().try_for_each(|row| turns::run(row, ways, pairs, &mut servers));
    }
    let page = wanted.page.or_else(|| (wanted.names.is_empty() && !wanted.floor).then(new_page));
    let mut say = Say::new(page, &head(pairs))?;
    for row in chosen {
        say.say(&compare::row(row, pairs, wanted.floor, &mut servers, &mut tools))?;
    }
    println!("\nLoad at the end: {}.", load());
    Ok(())
}

fn wanted(arguments: &[String]) -> Result<Wanted, Box<dyn Error>> {
    let mut wanted = Wanted::default();
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        match word.as_str() {
            "--pairs" => wanted.pairs = Some(words.next().ok_or(USAGE)?.parse().map_err(|_| USAGE)?),
            "--page" => wanted.page = Some(words.next().ok_or(USAGE)?.into()),
            "--in-turn" => wanted.in_turn = Some(words.next().ok_or(USAGE)?.clone()),
            "--profile" => wanted.profile = true,
            "--floor" => wanted.floor = true,
            "--honesty" => wanted.honesty = true,
            _ if word.starts_with('-') => return Err(format!("there is no option {word}\n{USAGE}").into()),
            _ => wanted.names.push(word.clone()),
        }
    }
    Ok(wanted)
}

/// Where lines go: to the terminal, and to a page at once, so that a comparison that is ended half-way is half a page.
struct Say {
    page: Option<std::fs::File>,
}

impl Say {
    fn new(page: Option<PathBuf>, head: &str) -> Result<Say, Box<dyn Error>> {
        let begun = page.as_ref().is_some_and(|path| path.exists());
        if let Some(path) = &page {
            eprintln!("kept in {}", path.display());
        }
        let open = |path: PathBuf| std::fs::File::options().create(true).append(true).open(path);
        let mut say = Say { page: page.map(open).transpose()? };
        if begun {
            print!("{head}")
        } else {
            say.say(head)?
        }
        Ok(say)
    }

    fn say(&mut self, text: &str) -> Result<(), Box<dyn Error>> {
        print!("{text}");
        std::io::stdout().flush()?;
        if let Some(page) = &mut self.page {
            page.write_all(text.as_bytes())?;
        }
        Ok(())
    }
}

fn head(pairs: usize) -> String {
    format!(
        "# What an operation costs: Plimsoll and its peers, {}\n\nBuilt of commit {BUILT_OF}; {pairs} pairs a row, {} s a run; load at the start {}; {} processors, {}.\nCPU time (user + system) of the whole client \
         process a unit of work: median (least … most). Ratio: median of the pairs (95 % interval).\n\n| case | peer | peer µs | ours µs | ratio or figure | goal | state | pairs (dropped) |\n|---|---|---|---|---|---|---|---|\n",
        date("%Y-%m-%d %H:%M UTC"),
        commands::SECONDS,
        load(),
        std::thread::available_parallelism().map_or(0, usize::from),
        output("uname", &["-sr"]),
    )
}

/// The page of a whole run.
fn new_page() -> PathBuf {
    crate::root().join("docs/journal").join(format!("{}-peers-{}.md", date("%Y-%m-%d"), date("%H%M")))
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

fn date(format: &str) -> String {
    output("date", &["-u", &format!("+{format}")])
}

fn output(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default()
}
