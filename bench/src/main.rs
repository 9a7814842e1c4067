//! Measurements of Plimsoll's own client and of keyindex, beside other clients on the same machine.
//!
//! | module | content |
//! |---|---|
//! | `rows` | `peers`: the comparisons, each with its peer and its goal |
//! | `turns` | runs of several ways in turn, and their table |
//! | `client` | Plimsoll's side: a child process that drives an attached server |
//! | `commands` | command lines of the other clients, and their output |
//! | `tools` | where the other clients are, and how some are installed |
//! | `servers` | private servers, started when a row first needs them |
//! | `cost` | processor time of a child, and of everything else meanwhile |
//! | `honesty` | `peers --honesty`: percentiles that each client prints of a server that was stopped for a second |
//! | `keyindex` | `keyindex`: cost of an index to an insert on fjall, and of a query as records grow |

mod client;
mod commands;
mod cost;
mod honesty;
mod keyindex;
mod rows;
mod servers;
mod tools;
mod turns;

use std::error::Error;
use std::process::{Command, ExitCode};

use rows::{ROWS, Row};
use servers::Servers;

type Result<T = ()> = std::result::Result<T, Box<dyn Error>>;

const PAIRS: usize = 10;
/// Commit that this program was built of. `cargo xtask` sets the variable.
const BUILT_OF: &str = match option_env!("PLIMSOLL_COMMIT") {
    Some(commit) => commit,
    None => "unknown (not built by `cargo xtask`)",
};
const USAGE: &str = "\
cargo xtask peers [ROW …] [--pairs N]                  processor time of an operation, beside the best known client
cargo xtask peers --in-turn WAY,WAY ROW … [--pairs N]  Plimsoll beside Plimsoll: a WAY is `here`, io=NAME, wake=NAME, `apart`
                                                       (server and worker on processors of their own), the path of
                                                       another build of this program, or several with + between
cargo xtask peers --honesty [NAME …]                   percentiles of a server that was stopped for a second
cargo xtask bench keyindex                             inserts and queries of keyindex on fjall";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["keyindex"] => keyindex::run(),
        [client::AS_CLIENT, spec] => client::be(spec),
        ["peers", ref rest @ ..] => {
            let mut servers = Servers::default();
            peers(rest, &mut servers).and(servers.close())
        }
        _ => Err(USAGE.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn peers(words: &[&str], servers: &mut Servers) -> Result {
    let (mut pairs, mut in_turn, mut is_honesty, mut names) = (PAIRS, None, false, Vec::new());
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--pairs" => pairs = words.next().ok_or(USAGE)?.parse()?,
            "--in-turn" => in_turn = Some(*words.next().ok_or(USAGE)?),
            "--honesty" => is_honesty = true,
            _ if word.starts_with('-') => return Err(format!("there is no option {word}\n{USAGE}").into()),
            name => names.push(name),
        }
    }
    if is_honesty {
        return honesty::run(&names, servers);
    }
    let rows: Vec<&Row> = chosen(ROWS, |row| row.name, &names)?;
    println!(
        "Commit {BUILT_OF}; {pairs} rounds a row of {} s each; load {} at the start; {} processors, {}.\n",
        client::SECONDS,
        std::fs::read_to_string("/proc/loadavg")?.split(' ').next().unwrap_or_default(),
        std::thread::available_parallelism()?,
        String::from_utf8_lossy(&Command::new("uname").arg("-sr").output()?.stdout).trim(),
    );
    println!("{}", turns::HEAD);
    for row in rows {
        let done = match in_turn {
            Some(ways) => turns::in_turn(row, ways, pairs, servers),
            None => turns::compare(row, pairs, servers),
        };
        match done {
            Ok(lines) => print!("{lines}"),
            Err(error) => println!("| {} | not compared: {} | | | | | | |", row.name, one_line(&*error)),
        }
    }
    Ok(())
}

/// Selects from `all` by these names. Without names, all are selected.
fn chosen<'a, T>(all: &'a [T], name: fn(&T) -> &'static str, names: &[&str]) -> Result<Vec<&'a T>> {
    if let Some(unknown) = names.iter().find(|wanted| !all.iter().any(|one| name(one) == **wanted)) {
        let known: Vec<&str> = all.iter().map(name).collect();
        return Err(format!("there is no `{unknown}`; there are: {}", known.join(", ")).into());
    }
    Ok(all.iter().filter(|one| names.is_empty() || names.contains(&name(one))).collect())
}

/// First line of an error, as a cell of a table.
fn one_line(error: &dyn Error) -> String {
    error.to_string().lines().next().unwrap_or_default().replace('|', "/")
}
