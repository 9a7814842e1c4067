//! TCP of this network namespace and of those of nodes, from `/proc/net/snmp`, `netstat`, `sockstat`, `sockstat6`,
//! `tcp` and `tcp6` (proc_pid_net(5), the kernel's networking/snmp_counter and networking/proc_net_tcp).

use plimsoll_core::{Reading, Sampler, Unavailable};

use crate::namespaces::{NodeNetworks, short_text};
use crate::proc_file::ProcFile;
use crate::server::ServerProcesses;

/// Files, in the order in which they are read.
const FILES: [&str; 4] = ["snmp", "netstat", "sockstat", "sockstat6"];

/// Counters: file, section, the kernel's name, and that of the series.
const COUNTERS: [(usize, &str, &str, &str); 6] = [
    (0, "Tcp:", "InSegs", "received_segments"),
    (0, "Tcp:", "OutSegs", "sent_segments"),
    (0, "Tcp:", "RetransSegs", "retransmits"),
    (0, "Tcp:", "OutRsts", "resets"),
    (1, "TcpExt:", "TCPTimeouts", "timeouts"),
    (1, "TcpExt:", "ListenDrops", "listen_drops"),
];

/// Returns the value of `name` in a text whose sections have a line of names and a line of values.
fn counter(text: &str, section: &str, name: &str) -> Option<u64> {
    let mut lines = text.lines().filter(|line| line.split_ascii_whitespace().next() == Some(section));
    let (names, values) = (lines.next()?, lines.next()?);
    let position = names.split_ascii_whitespace().position(|one| one == name)?;
    values.split_ascii_whitespace().nth(position)?.parse().ok()
}

/// Returns the number behind `name` in the line `section` of a `sockstat` or `sockstat6` file.
fn sockets(text: &str, section: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(section))?;
    let mut fields = line.split_ascii_whitespace();
    fields.find(|field| *field == name)?;
    fields.next()?.parse().ok()
}

/// State of a listening socket in the lists of sockets.
const LISTENS: &str = "0A";
/// Lists of sockets, of both families, each with the file and section that have the number of sockets in use.
const LISTS: [(&str, usize, &str); 2] = [("tcp", 2, "TCP:"), ("tcp6", 3, "TCP6:")];

/// Returns the readings of the queues of all sockets in two lists: bytes that the peers have not acknowledged, bytes
/// that the programs have not read, and connections that they have not accepted. None if a list is too long.
fn queues(subject: &str, lists: [Option<String>; 2]) -> Vec<Reading> {
    let [mut unsent, mut unread, mut waiting] = [0u64; 3];
    for list in lists {
        let Some(list) = list else { return Vec::new() };
        for line in list.lines().skip(1) {
            let mut fields = line.split_ascii_whitespace().skip(3);
            let (Some(state), Some((sent, received))) =
                (fields.next(), fields.next().and_then(|both| both.split_once(':')))
            else {
                continue;
            };
            let [sent, received] = [sent, received].map(|hex| u64::from_str_radix(hex, 16).unwrap_or(0));
            match state {
                LISTENS => waiting = waiting.saturating_add(received),
                _ => (unsent, unread) = (unsent.saturating_add(sent), unread.saturating_add(received)),
            }
        }
    }
    let level = |name, unit, value: u64| Reading::level(subject, name, unit, value as f64);
    vec![level("unacknowledged", "B", unsent), level("unread", "B", unread), level("not_accepted", "sockets", waiting)]
}

/// Returns the readings of a namespace from the texts of its files.
fn readings(subject: &str, texts: [&str; 4]) -> Vec<Reading> {
    let total = |(file, section, name, series): (usize, &str, &str, &str)| {
        let value = counter(texts.get(file)?, section, name)?;
        Some(Reading::total(subject, series, "", value as f64))
    };
    let [.., sockstat, sockstat6] = texts;
    // Each family counts its own sockets in use; the first has the waiting ones of both.
    let second = sockets(sockstat6, "TCP6:", "inuse").unwrap_or(0);
    let in_use = sockets(sockstat, "TCP:", "inuse").map(|first| first.saturating_add(second));
    let levels = [("connections", in_use), ("time_wait", sockets(sockstat, "TCP:", "tw"))];
    let level = |(series, count): (&str, Option<u64>)| Some(Reading::level(subject, series, "sockets", count? as f64));
    COUNTERS.into_iter().filter_map(total).chain(levels.into_iter().filter_map(level)).collect()
}

/// Returns all readings of a namespace. `read` returns the text of a file of its `/proc/net`, as [`short_text`].
fn all_of(subject: &str, read: impl Fn(&str) -> Option<String>) -> Vec<Reading> {
    let texts = FILES.map(|name| read(name).unwrap_or_default());
    let mut all = readings(subject, texts.each_ref().map(String::as_str));
    // For a list the kernel searches the table of all namespaces, which takes a millisecond or more.
    let list = |(name, file, section): (&str, usize, &str)| {
        let in_use = texts.get(file).and_then(|text| sockets(text, section, "inuse"));
        if in_use == Some(0) { Some(String::new()) } else { read(name) }
    };
    all.extend(queues(subject, LISTS.map(list)));
    all
}

/// Returns the readings of a namespace without the numbers of its sockets and their queues, which take long. `read` is
/// that of [`all_of`].
fn counted(subject: &str, read: impl Fn(&str) -> Option<String>) -> Vec<Reading> {
    let [snmp, netstat] = ["snmp", "netstat"].map(|name| read(name).unwrap_or_default());
    readings(subject, [&snmp, &netstat, "", ""])
}

pub(crate) struct Tcp(NodeNetworks);

impl Tcp {
    pub(crate) fn open(processes: ServerProcesses) -> Result<Self, Unavailable> {
        ProcFile::open("/proc/self/net/snmp")?;
        Ok(Self(NodeNetworks::new(processes)))
    }
}

impl Sampler for Tcp {
    fn sample(&mut self) -> Vec<Reading> {
        let mut all = all_of("", |name| short_text(&format!("/proc/self/net/{name}")));
        for node in self.0.now() {
            all.extend(all_of(&node.subject, |name| node.read(name)));
        }
        all
    }

    fn fine(&mut self) -> Vec<Reading> {
        let mut all = counted("", |name| short_text(&format!("/proc/self/net/{name}")));
        for node in self.0.now() {
            all.extend(counted(&node.subject, |name| node.read(name)));
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::proc_file::garbled;

    const SNMP: &str = "Ip: Forwarding DefaultTTL\nIp: 1 64\n\
        Tcp: RtoAlgorithm RtoMin RtoMax MaxConn InSegs OutSegs RetransSegs InErrs OutRsts InCsumErrors\n\
        Tcp: 1 200 120000 -1 127 126 14 0 12 0\nUdp: InDatagrams\nUdp: 7\n";
    const NETSTAT: &str = "TcpExt: SyncookiesSent ListenOverflows ListenDrops TCPTimeouts\nTcpExt: 0 2 3 9\n";
    const SOCKSTAT6: &str = "TCP6: inuse 4\nUDP6: inuse 1\n";
    const SOCKSTAT: &str = "sockets: used 96\nTCP: inuse 8 orphan 0 tw 2 alloc 12 mem 3\nUDP: inuse 1 mem 0\n";

    #[test]
    fn values_are_found_by_the_names_above_them() {
        let all = readings("node 2", [SNMP, NETSTAT, SOCKSTAT, SOCKSTAT6]);
        assert!(all.iter().all(|one| one.subject == "node 2"));
        let all: Vec<_> = all.iter().map(|one| (&*one.name, one.number())).collect();
        let counters = [("received_segments", 127.0), ("sent_segments", 126.0), ("retransmits", 14.0)];
        let others = [("resets", 12.0), ("timeouts", 9.0), ("listen_drops", 3.0)];
        assert_eq!(all, [&counters[..], &others, &[("connections", 12.0), ("time_wait", 2.0)]].concat());
        assert_eq!(readings("", ["", "TcpExt: TCPTimeouts\n", "TCP: inuse\n", SOCKSTAT6]), []);
    }

    const SOCKETS: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt\n   \
        0: 0100007F:A4B1 00000000:0000 0A 00000000:00000003 00:00000000 00000000     0        0 1 1 0\n   \
        1: 0100007F:A4B1 0100007F:8F2C 01 00000010:00000200 00:00000000 00000000     0        0 2 1 0\n   \
        2: 0100007F:8F2C 0100007F:A4B1 01 00000001:00000000 00:00000000 00000000     0        0 3 1 0\n";

    #[test]
    fn queues_are_sums_over_all_sockets_and_those_that_listen_have_connections_in_theirs() {
        let named = |one: &Reading| (one.name.clone(), one.number());
        let found = |lists| queues("", lists).iter().map(named).collect::<Vec<_>>();
        let wanted = [("unacknowledged", 17.0), ("unread", 512.0), ("not_accepted", 3.0)];
        let wanted = wanted.map(|(name, value)| (name.to_owned(), value));
        assert_eq!(found([Some(SOCKETS.to_owned()), Some(String::new())]), wanted);
        assert_eq!(found([Some(SOCKETS.to_owned()), None]), [], "a part would be taken for the whole");
    }

    #[test]
    fn a_list_is_read_if_sockets_of_its_family_are_in_use_and_has_empty_queues_otherwise() {
        let asked = RefCell::new(Vec::new());
        let all = all_of("", |name| {
            asked.borrow_mut().push(name.to_owned());
            let text = match name {
                "sockstat" => "TCP: inuse 0 orphan 0\n",
                "sockstat6" => SOCKSTAT6,
                "tcp" | "tcp6" => SOCKETS,
                _ => "",
            };
            Some(text.to_owned())
        });
        assert_eq!(asked.into_inner(), ["snmp", "netstat", "sockstat", "sockstat6", "tcp6"]);
        let unread = all.iter().find(|one| &*one.name == "unread").map(Reading::number);
        assert_eq!(unread, Some(512.0), "of one list");
    }

    #[test]
    fn around_a_fault_no_list_of_sockets_is_read() {
        let asked = RefCell::new(Vec::new());
        let fine = counted("node 2", |name| {
            asked.borrow_mut().push(name.to_owned());
            Some(if name == "snmp" { SNMP } else { NETSTAT }.to_owned())
        });
        assert_eq!(asked.into_inner(), ["snmp", "netstat"]);
        assert_eq!(fine, readings("node 2", [SNMP, NETSTAT, "", ""]));
        assert_eq!(fine.len(), COUNTERS.len(), "{fine:?}");
    }

    #[test]
    fn garbled_text_is_taken() {
        for text in garbled(SOCKETS) {
            assert_eq!(queues("", [Some(text.clone()), Some(text)]).len(), 3);
        }
        for text in garbled(SNMP).chain(garbled(NETSTAT)).chain(garbled(SOCKSTAT)).chain(garbled(SOCKSTAT6)) {
            assert!(readings("", [&text, &text, &text, &text]).len() <= 8);
        }
    }
}
