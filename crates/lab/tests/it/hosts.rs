//! Hosts: which addresses they reach, and that nothing remains of them.

mod link_changes;
mod neighbours;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream, UdpSocket};
use std::ops::RangeInclusive;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plimsoll_core::{Link, LinkPeers, LinkWays, StoreErrorKind};
use plimsoll_lab::UserCommand;
use plimsoll_lab::hosts::{Host, Network};

fn own_network() -> PathBuf {
    fs::read_link("/proc/thread-self/ns/net").unwrap()
}

/// Starts a server on `host` that answers each byte with one.
pub fn echo(host: &Host) -> std::net::SocketAddr {
    let _guard = host.enter().unwrap();
    let listener = TcpListener::bind((host.address(), 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.set_nodelay(true).unwrap();
        let mut byte = [0];
        while stream.read_exact(&mut byte).is_ok() && stream.write_all(&byte).is_ok() {}
    });
    address
}

#[test]
fn hosts_reach_each_other_and_nobody_else() {
    let home = own_network();
    let network = Network::shared().unwrap();
    let (one, two) = (network.add_host().unwrap(), network.add_host().unwrap());
    let address = echo(&two);
    let outside = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    {
        let _guard = one.enter().unwrap();
        let _again = one.enter().unwrap();
        drop(_again);
        let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(10)).unwrap();
        assert_eq!(stream.local_addr().unwrap().ip(), one.address());
        stream.write_all(b"x").unwrap();
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        assert!(TcpStream::connect_timeout(&outside, Duration::from_secs(1)).is_err(), "its loopback is its own");
        let sent = UdpSocket::bind("0.0.0.0:0").unwrap().send_to(b"x", (Ipv4Addr::new(192, 0, 2, 1), 9));
        assert_eq!(sent.unwrap_err().raw_os_error(), Some(libc::ENETUNREACH), "there is no way out");
    }
    assert_eq!(own_network(), home);
    assert!(TcpStream::connect_timeout(&address, Duration::from_millis(200)).is_err(), "nor a way in");
}

#[test]
fn twenty_hosts_are_made_at_once_and_go_with_their_last_user() {
    let since = Instant::now();
    let network = Network::shared().unwrap();
    let hosts: Vec<Host> = (0..20).map(|_| network.add_host().unwrap()).collect();
    let took = since.elapsed();
    println!("twenty hosts: {took:?}");
    assert!(took < Duration::from_secs(100), "{took:?}");
    let mut addresses: Vec<_> = hosts.iter().map(Host::address).collect();
    addresses.sort();
    addresses.dedup();
    assert_eq!(addresses.len(), 20);
    let path = hosts[0].namespace();
    assert!(path.exists());
    drop(hosts);
    assert!(fs::read_link(&path).map_or(true, |link| !link.to_string_lossy().starts_with("net:")), "{path:?}");
}

/// Connects from one host to an echo on another.
pub fn connect(from: &Host, to: &Host) -> TcpStream {
    let address = echo(to);
    let _guard = from.enter().unwrap();
    let stream = TcpStream::connect_timeout(&address, Duration::from_secs(10)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// Returns the first quartile of `count` round trips: a busy machine delays most of them.
pub fn round_trip(stream: &mut TcpStream, count: usize) -> Duration {
    let mut times: Vec<Duration> = (0..count)
        .map(|_| {
            let since = Instant::now();
            stream.write_all(b"x").unwrap();
            stream.read_exact(&mut [0]).unwrap();
            since.elapsed()
        })
        .collect();
    times.sort();
    times[count / 4]
}

/// Makes two hosts.
pub fn pair() -> (Host, Host) {
    let network = Network::shared().unwrap();
    (network.add_host().unwrap(), network.add_host().unwrap())
}

#[test]
fn a_delayed_link_takes_its_time_and_connections_outlive_its_changes() {
    let (one, two) = pair();
    let (other, plain) = pair();
    let (mut stream, mut undelayed) = (connect(&one, &two), connect(&other, &plain));
    let delay = Duration::from_millis(10);
    let mut takes = |link: Link, asked: f64| {
        two.set_link(link).unwrap();
        // Other tests and programs delay both links, and may disturb a quartile throughout.
        let is_asked = (0..30).any(|_| {
            let (seen, usual) = (round_trip(&mut stream, 50), round_trip(&mut undelayed, 50));
            println!("first quartile of a round trip of {asked} s: {seen:?}, without a delay {usual:?}");
            (0.95..=1.07).contains(&(seen.saturating_sub(usual).as_secs_f64() / asked))
        });
        assert!(is_asked, "{asked} s");
    };
    takes(Link { delay, jitter: Duration::from_millis(1), ..Link::default() }, 0.020);
    takes(Link { delay: delay * 2, ..Link::default() }, 0.040);
    two.set_link(Link::default()).unwrap();
    let is_plain = (0..30).any(|_| round_trip(&mut stream, 50) < Duration::from_millis(2));
    assert!(is_plain, "it still takes 40 ms");
}

#[test]
fn a_link_that_was_slow_is_as_fast_again_as_one_that_never_was() {
    // Other tests and programs may disturb one pair of measurements throughout.
    let is_as_fast = (0..12).any(|_| {
        let share = share_of_the_rate();
        println!("share of the rate: median of 15 {share:.3}");
        if share < 0.9 {
            std::thread::sleep(Duration::from_secs(1));
        }
        share >= 0.9
    });
    assert!(is_as_fast, "it has less than nine tenths of the rate, twelve times");
}

/// Returns the rate of a link that was slow before, relative to one that never was: the median of 15.
fn share_of_the_rate() -> f64 {
    let (one, two) = pair();
    let (other, never) = pair();
    two.set_link(Link { delay: Duration::from_millis(1), ..Link::default() }).unwrap();
    let mut streams = [connect(&one, &two), connect(&other, &never)];
    round_trip(&mut streams[0], 10);
    two.set_link(Link::default()).unwrap();
    // Alternating, because other tests run meanwhile.
    let mut shares: Vec<f64> = (0..15)
        .map(|turn| {
            let mut times = [Duration::ZERO; 2];
            for at in [turn % 2, 1 - turn % 2] {
                times[at] = round_trip(&mut streams[at], 1000);
            }
            times[1].as_secs_f64() / times[0].as_secs_f64()
        })
        .collect();
    shares.sort_by(f64::total_cmp);
    shares[7]
}

#[test]
fn a_lossy_link_loses_its_share() {
    let (one, two) = pair();
    // Both learn the other's Ethernet address before frames are lost: three lost ARP requests end an attempt.
    round_trip(&mut connect(&one, &two), 3);
    two.set_link(Link { loss: 0.1, ..Link::default() }).unwrap();
    // A receiver that other tests and programs hold up loses more.
    let loses_its_share = (0..5).any(|_| {
        let count = 4_000;
        let loss = 1.0 - datagrams(&one, &two, count).len() as f64 / f64::from(count);
        println!("loss of {loss:.3}, n = {count}");
        (0.07..=0.13).contains(&loss)
    });
    assert!(loses_its_share);
}

/// Opens a socket on a host whose buffer holds all datagrams of a test: other tests may hold its reader up.
pub fn socket(host: &Host) -> UdpSocket {
    let _guard = host.enter().unwrap();
    let socket = UdpSocket::bind((host.address(), 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let _ = rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 64 << 20);
    socket
}

/// Sends numbered datagrams from one host to another, and returns the numbers that arrive, in their order.
fn datagrams(from: &Host, to: &Host, count: u32) -> Vec<u32> {
    let (sender, receiver) = (socket(from), socket(to));
    receiver.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let address = receiver.local_addr().unwrap();
    let sending = std::thread::spawn(move || {
        for number in 0..count {
            sender.send_to(&number.to_be_bytes(), address).unwrap();
            if number % 20 == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
    let (mut seen, mut bytes) = (Vec::new(), [0; 4]);
    loop {
        // The sender may be held up, too.
        let are_sent = sending.is_finished();
        match receiver.recv(&mut bytes) {
            Ok(_) => seen.push(u32::from_be_bytes(bytes)),
            Err(_) if are_sent => break,
            Err(_) => {}
        }
    }
    sending.join().unwrap();
    seen
}

#[test]
fn packets_are_duplicated_reordered_and_corrupted_by_their_shares() {
    let (one, two) = pair();
    round_trip(&mut connect(&one, &two), 3);
    // A receiver that other tests and programs hold up loses some.
    let shares = |link: Link, is_right: &dyn Fn(&[u32]) -> bool| {
        two.set_link(link).unwrap();
        let is_seen = (0..5).any(|_| {
            let seen = datagrams(&one, &two, 2_000);
            println!("{link}: {} of 2000 arrived", seen.len());
            assert!(seen.iter().all(|number| *number < 2_000), "a damaged datagram was delivered");
            is_right(&seen)
        });
        assert!(is_seen, "{link}");
    };
    shares(Link { duplicate: 0.2, ..Link::default() }, &|seen| {
        let twice = seen.windows(2).filter(|pair| pair[0] == pair[1]).count();
        (300..=500).contains(&twice) && seen.is_sorted()
    });
    let delay = Duration::from_millis(5);
    shares(Link { delay, reorder: 0.2, ..Link::default() }, &|seen| {
        let early = seen.windows(2).filter(|pair| pair[0] > pair[1]).count();
        (20..=500).contains(&early) && seen.len() > 1_900
    });
    // Receivers drop them by the checksums of IP and UDP.
    shares(Link { corrupt: 0.2, ..Link::default() }, &|seen| (1_500..=1_700).contains(&seen.len()));
}

#[test]
fn a_link_that_is_cut_in_one_direction_carries_the_other() {
    for (ways, [to_two, to_one]) in [(LinkWays::In, [0, 100]), (LinkWays::Out, [100, 0])] {
        // New hosts know no Ethernet addresses yet.
        let (one, two) = pair();
        two.set_link(Link { ways, ..Link::CUT }).unwrap();
        assert_eq!((datagrams(&one, &two, 100).len(), datagrams(&two, &one, 100).len()), (to_two, to_one), "{ways:?}");
    }
}

#[test]
fn a_host_that_is_cut_from_clients_still_reaches_other_hosts() {
    let network = Network::shared().unwrap();
    let (one, two) = pair();
    let from_load = |limit_ms| {
        let address = echo(&two);
        let _guard = network.enter().unwrap();
        TcpStream::connect_timeout(&address, Duration::from_millis(limit_ms))
    };
    let mut before = from_load(10_000).unwrap();
    round_trip(&mut before, 3);
    before.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    two.set_link_to_clients(Link { peers: LinkPeers::Clients, ..Link::CUT }).unwrap();
    assert!(from_load(500).is_err(), "no packet of the load host arrives");
    before.write_all(b"x").unwrap();
    assert!(before.read_exact(&mut [0]).is_err(), "nor one of a connection that was there");
    round_trip(&mut connect(&one, &two), 3);
    round_trip(&mut connect(&two, &one), 3);
    two.set_link(Link::default()).unwrap();
    before.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    before.read_exact(&mut [0]).unwrap();
    round_trip(&mut before, 3);
    from_load(10_000).unwrap();
}

#[test]
fn two_hosts_that_are_cut_from_each_other_still_reach_a_third() {
    let ((one, two), (third, _fourth)) = (pair(), pair());
    let mut before = connect(&one, &two);
    round_trip(&mut before, 3);
    two.set_link_to(Link { peers: LinkPeers::Node(0), ..Link::CUT }, one.address()).unwrap();
    before.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    before.write_all(b"x").unwrap();
    assert!(before.read_exact(&mut [0]).is_err(), "no packet between the two arrives");
    for (from, to) in [(&third, &two), (&two, &third), (&one, &third), (&third, &one)] {
        round_trip(&mut connect(from, to), 3);
    }
    two.set_link(Link::default()).unwrap();
    before.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    before.read_exact(&mut [0]).unwrap();
    round_trip(&mut before, 3);
}

#[test]
fn a_cut_of_one_direction_between_two_hosts_carries_all_else() {
    for (ways, [to_two, to_one]) in [(LinkWays::In, [0, 100]), (LinkWays::Out, [100, 0])] {
        let ((one, two), (third, _fourth)) = (pair(), pair());
        two.set_link_to(Link { ways, peers: LinkPeers::Node(0), ..Link::CUT }, one.address()).unwrap();
        let between = (datagrams(&one, &two, 100).len(), datagrams(&two, &one, 100).len());
        assert_eq!(between, (to_two, to_one), "{ways:?}");
        let others = [datagrams(&third, &two, 100).len(), datagrams(&two, &third, 100).len()];
        assert_eq!(others, [100; 2], "{ways:?}");
    }
}

/// Sends to a host without end, from the network that `enter` enters. Returns the other side, with which it ends.
pub fn flood<G>(to: &Host, enter: impl FnOnce() -> G) -> (TcpStream, JoinHandle<()>) {
    let listener = {
        let _guard = to.enter().unwrap();
        TcpListener::bind((to.address(), 0)).unwrap()
    };
    let mut stream = {
        let _guard = enter();
        TcpStream::connect_timeout(&listener.local_addr().unwrap(), Duration::from_secs(10)).unwrap()
    };
    let (receiving, _) = listener.accept().unwrap();
    (receiving, std::thread::spawn(move || while stream.write_all(&[0; 16 << 10]).is_ok() {}))
}

/// Returns true if so many bytes arrive at a rate in this range, in Mbit/s, after two fifths of them.
pub fn arrives_at(receiving: &mut TcpStream, bytes: usize, wanted: RangeInclusive<f64>) -> bool {
    let mut buffer = vec![0; bytes];
    receiving.read_exact(&mut buffer[..bytes * 2 / 5]).unwrap();
    // Other tests and programs may hold the reader up.
    (0..8).any(|_| {
        let since = Instant::now();
        receiving.read_exact(&mut buffer).unwrap();
        // 1448 of each frame's 1514 bytes are payload.
        let rate = bytes as f64 * 8.0 / since.elapsed().as_secs_f64() * 1514.0 / 1448.0 / 1e6;
        wanted.contains(&rate)
    })
}

#[test]
fn a_narrow_link_keeps_its_rate() {
    let (one, two) = pair();
    let delay = Duration::from_millis(1);
    two.set_link(Link { rate_bits_per_s: Some(50_000_000), delay, ..Link::default() }).unwrap();
    let (mut receiving, sending) = flood(&two, || one.enter().unwrap());
    assert!(arrives_at(&mut receiving, 6_000_000, 45.0..=55.0));
    drop(receiving);
    sending.join().unwrap();
}

#[test]
fn a_link_that_closes_late_holds_the_ends_of_connections_and_nothing_else() {
    let (one, two) = pair();
    let (mut ends, mut goes_on) = (connect(&one, &two), connect(&one, &two));
    // A busy machine does not delay a round trip by as long.
    let close = Duration::from_secs(3);
    two.set_link(Link { close, ..Link::default() }).unwrap();
    let since = Instant::now();
    ends.write_all(b"x").unwrap();
    ends.shutdown(Shutdown::Write).unwrap();
    ends.read_exact(&mut [0]).unwrap();
    assert!(since.elapsed() < close, "the answer was late, too");
    let trip = round_trip(&mut goes_on, 50);
    assert!(trip < Duration::from_secs(1), "{trip:?}");
    // The echo sees the end of the one side late, and its own end is as late.
    assert_eq!(ends.read(&mut [0]).unwrap(), 0);
    let took = since.elapsed();
    println!("closed after {took:?}");
    assert!((close * 2..close * 20).contains(&took), "{took:?}");
    two.set_link(Link::default()).unwrap();
    round_trip(&mut goes_on, 10);
    let since = Instant::now();
    goes_on.shutdown(Shutdown::Write).unwrap();
    assert_eq!(goes_on.read(&mut [0]).unwrap(), 0);
    assert!(since.elapsed() < close, "{:?}", since.elapsed());
}

#[test]
fn commands_of_a_user_run_in_the_machines_own_network() {
    let (home, host) = (own_network(), Network::shared().unwrap().add_host().unwrap());
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("network");
    let command = format!("readlink /proc/self/ns/net > {}", file.display());
    {
        let _guard = host.enter().unwrap();
        assert_ne!(own_network(), home);
        UserCommand::start(&command, None).unwrap().begun(|| false).unwrap();
    }
    assert_eq!(Path::new(fs::read_to_string(&file).unwrap().trim()), home);
}

#[test]
fn a_link_that_cannot_be_is_refused() {
    let plain = Link::default();
    let second = Duration::from_secs(1);
    for (link, said) in [
        (Link { delay: 61 * second, ..plain }, "a link's delay is at most 60 s, not 61s"),
        (Link { jitter: second, ..plain }, "a link's jitter is at most its delay, 0ns, not 1s"),
        (Link { loss: f64::NAN, ..plain }, "a link's loss is a share from 0 to 1, not NaN"),
        (Link { loss: 1.5, ..plain }, "a link's loss is a share from 0 to 1, not 1.5"),
        (Link { close: 61 * second, ..plain }, "a link's close is at most 60 s, not 61s"),
        (Link { corrupt: -0.1, ..plain }, "a link's corrupt is a share from 0 to 1, not -0.1"),
        (Link { reorder: 0.1, ..plain }, "a link's `reorder` needs a delay: a packet overtakes those that are delayed"),
        (
            Link { rate_bits_per_s: Some(0), ..plain },
            "a link's rate is at least 1 bit/s, not 0: to cut it, set a loss of 1",
        ),
    ] {
        let error = link.check().unwrap_err();
        assert_eq!((error.kind, error.what.as_str()), (StoreErrorKind::Usage, said));
    }
}

#[test]
fn nobody_makes_hosts_and_nothing_of_them_outlives_a_kill() {
    let base = crate::base();
    let program = base.path().join("hosts");
    // `target/debug/examples`, beside the tests' `deps`.
    let built = std::env::current_exe().unwrap().parent().unwrap().with_file_name("examples").join("hosts");
    fs::copy(&built, &program).expect("build it: cargo build -p plimsoll-lab --examples");
    for user in [None, Some(65534)] {
        let mut command = Command::new(&program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).current_dir("/");
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        println!("{user:?}: {line}");
        let words: Vec<&str> = line.split_whitespace().collect();
        let [own, _, ambient, took, _, networks @ ..] = &words[..] else { panic!("{line:?}") };
        let is_own = *own != fs::read_link("/proc/self/ns/user").unwrap().to_string_lossy();
        // CAP_NET_ADMIN, CAP_NET_RAW and CAP_SYS_ADMIN.
        assert!(user.is_none() || (is_own && *ambient == "0000000000203000"), "{line}");
        assert!((20_000..20_000_000).contains(&took.parse::<u32>().unwrap()), "{line}");
        assert_eq!(networks.len(), 3, "{line}");
        let used = || networks.iter().flat_map(|network| users_of(network)).collect::<BTreeSet<_>>();
        let before = used();
        assert!(!before.is_empty(), "its cable is in one");
        process.kill().unwrap();
        process.wait().unwrap();
        // Numbers of networks are reused, by other tests, too. Another process that looks into all of them counts until then.
        let left = || used().intersection(&before).cloned().collect::<Vec<_>>();
        let until = Instant::now() + Duration::from_secs(60);
        while !left().is_empty() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(left(), Vec::<PathBuf>::new());
    }
}

/// Returns the threads in a network namespace, and the open files of processes that are it, as links of `/proc`.
fn users_of(network: &str) -> Vec<PathBuf> {
    let entries = |path: &Path| fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path());
    // Other tests make networks in this process.
    let own = format!("/proc/{}", std::process::id());
    let processes = entries(Path::new("/proc")).filter(|process| *process != Path::new(&own));
    let links = processes.flat_map(|process| {
        let threads = entries(&process.join("task")).map(|thread| thread.join("ns/net")).collect::<Vec<_>>();
        threads.into_iter().chain(entries(&process.join("fd")))
    });
    links.filter(|link| fs::read_link(link).is_ok_and(|is| is == Path::new(network))).collect()
}
