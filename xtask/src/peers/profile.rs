//! `cargo xtask peers --profile ROW`: where the time of a row's clients goes, ours and the best peer's or the floor's,
//! sampled by perf.
//!
//! A sample's class is that of the innermost function on its stack that has one: what a system call does on behalf of
//! sending is sending, also when it wakes up the server, or hands bytes to it, on the way.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::process::{Command, Stdio};

use super::floor::Floor;
use super::rows::Row;
use super::servers::Servers;
use super::tools::{Tools, on_path};
use super::{client, compare};

const SAMPLES_PER_S: &str = "1999";
const SYMBOLS: usize = 15;

/// Kernel functions that say what a sample was about: names that begin with these.
const CLASSES: [(&str, &[&str]); 4] = [
    (
        "timer",
        &[
            "hrtimer_",
            "__hrtimer_",
            "schedule_hrtimeout",
            "do_nanosleep",
            "hrtimer_nanosleep",
            "timerfd_",
            "__x64_sys_timerfd_",
            "io_timeout",
        ],
    ),
    (
        "send",
        &[
            "__sys_sendto",
            "__sys_sendmsg",
            "___sys_sendmsg",
            "ksys_write",
            "vfs_write",
            "do_writev",
            "io_send",
            "io_write",
            "sock_sendmsg",
            "sock_write_iter",
            "tcp_sendmsg",
            "unix_stream_sendmsg",
        ],
    ),
    (
        "receive",
        &[
            "__sys_recvfrom",
            "__sys_recvmsg",
            "___sys_recvmsg",
            "ksys_read",
            "vfs_read",
            "io_recv",
            "io_read",
            "sock_recvmsg",
            "sock_read_iter",
            "tcp_recvmsg",
            "unix_stream_recvmsg",
            "unix_stream_read",
        ],
    ),
    (
        "sleep + switch",
        &[
            "schedule",
            "__schedule",
            "finish_task_switch",
            "do_epoll_wait",
            "ep_poll",
            "do_epoll_pwait",
            "do_sys_poll",
            "do_poll",
            "do_select",
            "core_sys_select",
            "do_futex",
            "futex_wait",
            "io_cqring_wait",
        ],
    ),
];
const USER: &str = "user";
const OTHER: &str = "other kernel";

/// What was sampled of one client.
struct Profile {
    samples: usize,
    classes: BTreeMap<&'static str, usize>,
    symbols: Vec<(String, usize)>,
    cpu_us_per_op: f64,
}

/// Profiles ours, and the best peer or the floor, and prints them side by side.
pub fn run(
    row: &'static Row,
    with_floor: bool,
    servers: &mut Servers,
    tools: &mut Tools,
) -> Result<(), Box<dyn Error>> {
    let perf = on_path("perf")
        .ok_or("perf is not on the PATH: install it (Debian: apt-get install linux-perf), then run this again")?;
    let place = tempfile::tempdir()?;
    let asks = (row.ours)(servers)?;
    let ours = profile(&perf, &client::command(&asks)?, client::ops, 1.0, place.path())?;
    println!("## {}\n", row.name);
    let (title, theirs) = if with_floor {
        let floor = Floor::new(&asks)?.ok_or("a row that sends nothing has no floor")?;
        let theirs = profile(&perf, &floor.command(&asks)?, client::ops, 1.0, place.path())?;
        (floor.title().to_owned(), Some(theirs))
    } else {
        let peer = row.peers.first().ok_or("a row has a peer")?;
        let theirs = match compare::their_command(peer, servers, tools) {
            Ok(command) => Some(profile(&perf, &command, peer.ops, peer.ops_per_unit, place.path())?),
            Err(error) => {
                println!("{}: {error}\n", tools.title(peer.tool));
                None
            }
        };
        (format!("{}, {}", tools.title(peer.tool), peer.told), theirs)
    };
    let both: Vec<(&str, &Profile)> = [("ours", Some(&ours)), (&*title, theirs.as_ref())]
        .into_iter()
        .filter_map(|(name, it)| Some((name, it?)))
        .collect();
    print_classes(&both);
    for (name, profile) in both {
        println!("\n{name}, the functions that most samples ended in:\n");
        for (symbol, count) in &profile.symbols {
            println!("    {:5.1} %  {symbol}", share(*count, profile.samples));
        }
    }
    println!();
    Ok(())
}

fn share(count: usize, of: usize) -> f64 {
    count as f64 / of.max(1) as f64 * 100.0
}

fn print_classes(both: &[(&str, &Profile)]) {
    print!("| class |");
    both.iter().for_each(|(name, profile)| {
        print!(" {name}: {} samples, {:.2} µs an operation |", profile.samples, profile.cpu_us_per_op)
    });
    println!("\n|---|{}", "---|".repeat(both.len()));
    for class in [USER].into_iter().chain(CLASSES.map(|(name, _)| name)).chain([OTHER]) {
        print!("| {class} |");
        for (_, profile) in both {
            let part = share(profile.classes.get(class).copied().unwrap_or_default(), profile.samples);
            print!(" {part:.0} %, {:.2} µs |", part / 100.0 * profile.cpu_us_per_op);
        }
        println!();
    }
}

fn profile(
    perf: &Path,
    command: &Command,
    ops: super::rows::Parse,
    per_unit: f64,
    place: &Path,
) -> Result<Profile, Box<dyn Error>> {
    let data = place.join("perf.data");
    let mut recorded = Command::new(perf);
    // The clock rather than cycles, which virtual machines often do not count.
    recorded.args(["record", "-q", "-g", "-e", "cpu-clock", "-F", SAMPLES_PER_S, "-o"]).arg(&data).arg("--");
    recorded.arg(command.get_program()).args(command.get_args());
    let (printed, cost) = crate::child_cost::run(recorded)?;
    let ops = ops(&printed).ok_or_else(|| format!("no operations: {printed}"))? * per_unit;
    let mut script = Command::new(perf);
    script.args(["script", "-F", "ip,sym", "-i"]).arg(&data).stderr(Stdio::null());
    let text = script.output()?.stdout;
    let mut profile = read(&String::from_utf8_lossy(&text));
    profile.cpu_us_per_op = cost.cpu_us() / ops;
    Ok(profile)
}

/// Reads perf's samples: a block of lines each, innermost function first, an address and a name in a line.
fn read(text: &str) -> Profile {
    let mut classes = BTreeMap::new();
    let mut leaves: BTreeMap<&str, usize> = BTreeMap::new();
    let mut samples = 0;
    for block in text.split("\n\n") {
        let frame =
            |line: &'_ str| line.trim().split_once(' ').map(|(ip, name)| (ip.starts_with("ffff"), name.to_owned()));
        let frames: Vec<(bool, String)> = block.lines().filter_map(frame).collect();
        let Some((kernel, _)) = frames.first() else { continue };
        samples += 1;
        *classes.entry(if *kernel { class(&frames) } else { USER }).or_default() += 1;
        let leaf = block.lines().find_map(|line| line.trim().split_once(' ')).map_or("", |(_, name)| name);
        *leaves.entry(leaf).or_default() += 1;
    }
    let mut symbols: Vec<(String, usize)> = leaves.into_iter().map(|(name, count)| (name.to_owned(), count)).collect();
    symbols.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    symbols.truncate(SYMBOLS);
    Profile { samples, classes, symbols, cpu_us_per_op: f64::NAN }
}

fn class(frames: &[(bool, String)]) -> &'static str {
    let kernel = frames.iter().filter(|(kernel, _)| *kernel);
    let of = |name: &str| CLASSES.iter().find(|(_, begins)| begins.iter().any(|begin| begins_with(name, begin)));
    kernel.filter_map(|(_, name)| of(name)).next().map_or(OTHER, |(class, _)| class)
}

/// Names that end in `_` stand for all that begin so; the others for themselves, and what compilers made of them.
fn begins_with(name: &str, begin: &str) -> bool {
    name.strip_prefix(begin).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ' ']) || begin.ends_with('_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_of_the_innermost_class_on_its_stack() {
        let text = "\n\tffffffff81 _raw_spin_unlock_irqrestore\n\tffffffff82 ep_poll_callback\n\tffffffff83 tcp_sendmsg_locked\n\
                    \tffffffff84 __sys_sendto\n\t5581 main\n\n\n\tffffffff85 finish_task_switch.isra.0\n\tffffffff86 schedule\n\
                    \tffffffff87 schedule_hrtimeout_range\n\tffffffff88 ep_poll\n\n\n\t5582 plimsoll::drive\n\n\n\
                    \tffffffff89 clear_page\n\n";
        let profile = read(text);
        let found: Vec<_> = profile.classes.iter().map(|(class, count)| (*class, *count)).collect();
        assert_eq!(found, [(OTHER, 1), ("send", 1), ("sleep + switch", 1), (USER, 1)]);
        assert_eq!(profile.samples, 4);
    }
}
