use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use plimsoll_sample::{ServerProcesses, groups, open, specs};

use crate::read::Read;

/// Opens one sampler.
fn one(name: &str) -> Read {
    Read::open(name, &ServerProcesses::default())
}

/// Keeps one core busy; returns how long it took.
fn burn(time: Duration) -> Duration {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::black_box(start.elapsed());
    }
    start.elapsed()
}

#[test]
fn each_name_opens_or_says_why_not() {
    let names: Vec<String> = specs().iter().map(|spec| spec.name.to_owned()).collect();
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 15);
    let (opened, unavailable) = open(&names, &ServerProcesses::default());
    // The counters of a store are read by the owner of the store.
    assert_eq!(opened.len() + unavailable.len(), 14);
    for (name, reason) in &unavailable {
        let may_be_away =
            ["pressure", "disk", "network", "server", "fsync", "block", "offcpu", "cgroup"].contains(&name.as_str());
        assert!(may_be_away, "{name}: {reason}");
    }
    let (opened, unavailable) = open(&["weather".to_owned()], &ServerProcesses::default());
    assert_eq!((opened.len(), unavailable[0].1.to_string()), (0, "there is no sampler of this name".into()));
}

#[test]
fn samplers_that_may_take_long_are_groups_of_their_own_and_all_others_are_read_together() {
    let names = ["cpu", "tcp", "generator", "interrupts"].map(str::to_owned);
    let (opened, _) = open(&names, &ServerProcesses::default());
    let groups: Vec<Vec<&str>> = groups(opened).iter().map(|all| all.iter().map(|(name, _)| *name).collect()).collect();
    assert_eq!(groups, [vec!["cpu", "generator", "interrupts"], vec!["tcp"]]);
}

#[test]
fn retransmits_and_segments_of_this_host_are_counted() {
    let mut tcp = one("tcp");
    tcp.next(Duration::ZERO);
    let start = Instant::now();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let found = tcp.next(start.elapsed());
    let of = |name: &str| found.iter().find(|(series, _)| series.name == name).unwrap().1;
    assert!(of("sent_segments") > 0.0 && of("connections") >= 1.0 && of("retransmits") >= 0.0, "{found:?}");
    drop(client);
}

#[test]
fn every_reading_is_of_a_series_of_its_own_and_no_share_is_more_than_all() {
    let names: Vec<String> = specs().iter().map(|spec| spec.name.to_owned()).collect();
    let server = ServerProcesses::default();
    server.set(vec![crate::site(0, std::process::id())]);
    for mut read in open(&names, &server).0.into_iter().map(Read::new) {
        let (source, mut since) = (read.name, Instant::now());
        for reading_number in 0..3 {
            let elapsed = burn(Duration::from_millis(60));
            let began = Instant::now();
            let found = read.next(elapsed);
            // A busy machine may stop this test on its way to a reading, which is then of a longer time.
            let longer = since.elapsed().as_secs_f64() / elapsed.as_secs_f64();
            since = began;
            let subjects: BTreeSet<_> = found.iter().map(|(series, _)| (&series.subject, &series.name)).collect();
            assert_eq!(subjects.len(), found.len(), "{source}: two of one name");
            assert!(reading_number == 0 || !found.is_empty(), "{source} reads nothing");
            for (series, value) in found {
                assert!(value.is_finite() && value >= 0.0, "{series:?}: {value}");
                if series.unit == "%" && !matches!(source, "generator" | "server" | "cgroup" | "offcpu") {
                    // A clock that ticks every 4 ms has seen two of them too many in 60 ms, and pressure is added up later.
                    let most = if source == "pressure" { 200.0 } else { 115.0 };
                    assert!(value <= most * longer, "{series:?}: {value}");
                }
            }
        }
        // No time has gone by: nothing to divide by.
        assert!(read.next(Duration::ZERO).iter().all(|(_, value)| value.is_finite()), "{source}");
    }
}

#[test]
fn fine_readings_are_of_series_of_slices_and_of_some_samplers() {
    let names: Vec<String> = specs().iter().map(|spec| spec.name.to_owned()).collect();
    let server = ServerProcesses::default();
    server.set(vec![crate::site(0, std::process::id())]);
    let have_fine = ["memory", "disk", "network", "tcp", "interrupts", "pressure", "cgroup"];
    for mut read in open(&names, &server).0.into_iter().map(Read::new) {
        read.next(Duration::ZERO);
        let fine = read.fine();
        assert_eq!(!fine.is_empty(), have_fine.contains(&read.name), "{}: {fine:?}", read.name);
        let of_slices: Vec<_> = read.next(Duration::from_secs(1)).into_iter().map(|(series, _)| series).collect();
        assert!(fine.iter().all(|series| of_slices.contains(series)), "{}: {fine:?}, {of_slices:?}", read.name);
    }
}

#[test]
fn the_shares_of_a_core_add_up_and_a_busy_one_is_seen() {
    let mut cpu = one("cpu");
    cpu.next(Duration::ZERO);
    let found = cpu.next(burn(Duration::from_millis(300)));
    let all: Vec<f64> = found.iter().filter(|(series, _)| series.subject.is_empty()).map(|(_, value)| *value).collect();
    assert!((all.iter().sum::<f64>() - 100.0).abs() < 1e-6, "{all:?}");
    // One of the cores was ours for a part of the time at least.
    assert!(all[4] < 100.0 && all[0] > 0.0, "{all:?}");
    let cores = found.iter().filter(|(series, _)| series.name == "idle").count() - 1;
    assert!(cores >= std::thread::available_parallelism().unwrap().get(), "{cores}");
}

#[test]
fn the_generators_cpu_memory_and_threads_are_its_own() {
    let mut generator = one("generator");
    assert_eq!(generator.value(Duration::ZERO, "", "user"), None);
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let elapsed = burn(Duration::from_millis(200));
    let found = generator.next(elapsed);
    let of = |name: &str| found.iter().find(|(series, _)| series.name == name).unwrap().1;
    let after = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let used_s = (after.tv_sec - cpu.tv_sec) as f64 + (after.tv_nsec - cpu.tv_nsec) as f64 / 1e9;
    let expected = used_s * 100.0 / elapsed.as_secs_f64();
    let used = of("user") + of("system");
    assert!((used - expected).abs() < 10.0 + expected * 0.1, "{used} %, by the process's clock {expected} %");
    assert!((1e6..1e11).contains(&of("memory")), "{} B", of("memory"));
    let threads = of("threads");
    let held = Barrier::new(6);
    std::thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| held.wait());
        }
        let now = generator.value(elapsed, "", "threads").unwrap();
        held.wait();
        // Other tests begin and end beside this one.
        assert!(now >= threads.min(2.0) + 1.0, "{now} threads after {threads}");
    });
}

#[test]
fn threads_that_want_one_processor_together_wait_for_it_and_that_is_the_generators_run_queue_delay() {
    let mut generator = one("generator");
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let mut only = rustix::thread::CpuSet::new();
    only.set((0..1_024).find(|&number| allowed.is_set(number)).unwrap());
    let (begins, ends, read) = (Barrier::new(3), Barrier::new(4), Barrier::new(4));
    let begun = Instant::now();
    generator.value(Duration::ZERO, "", "run_queue_delay");
    let (seen_s, own_s) = std::thread::scope(|scope| {
        let work = || {
            rustix::thread::sched_setaffinity(None, &only).unwrap();
            begins.wait();
            burn(Duration::from_millis(400));
            let own = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
            ends.wait();
            read.wait();
            own.split_ascii_whitespace().nth(1).unwrap().parse::<f64>().unwrap() / 1e9
        };
        let threads = [(); 3].map(|()| scope.spawn(work));
        ends.wait();
        let elapsed = begun.elapsed();
        let delay = generator.value(elapsed, "", "run_queue_delay").unwrap();
        read.wait();
        (delay / 100.0 * elapsed.as_secs_f64(), threads.map(|thread| thread.join().unwrap()).iter().sum::<f64>())
    });
    // Each of the three has a third of a processor, if it has it to itself with them.
    assert!(own_s > 0.3, "they waited {own_s} s");
    assert!(seen_s > 0.99 * own_s, "{seen_s} s were read of {own_s} s");
}

#[test]
fn memory_is_bytes_that_the_host_has() {
    let mut memory = one("memory");
    let found = memory.next(Duration::ZERO);
    let of = |name: &str| found.iter().find(|(series, _)| series.name == name).unwrap().1;
    let (used, available) = (of("used"), of("available"));
    let info = std::fs::read_to_string("/proc/meminfo").unwrap();
    let total: f64 = info.split_ascii_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 1024.0;
    assert_eq!(used + available, total);
}

#[test]
fn a_sync_is_seen_on_the_disk_as_a_write() {
    let place = crate::directory_on_a_device();
    let mut disk = one("disk");
    assert!(disk.next(Duration::ZERO).iter().all(|(series, _)| series.name == "in_flight"));
    let start = Instant::now();
    let mut file = std::fs::File::create(place.path().join("data")).unwrap();
    file.write_all(&vec![7; 4 << 20]).unwrap();
    file.sync_all().unwrap();
    let found = disk.next(start.elapsed());
    let written = found.iter().filter(|(series, _)| series.name == "written");
    let bytes: f64 = written.map(|(_, rate)| rate * start.elapsed().as_secs_f64()).sum();
    assert!(bytes >= 4e6, "{bytes} B written to all devices after a sync of 4 MiB to {}", place.path().display());
    let subjects: BTreeSet<&str> = found.iter().map(|(series, _)| series.subject.as_str()).collect();
    for subject in subjects {
        assert!(std::path::Path::new("/sys/block").join(subject).exists(), "{subject} is no whole device");
    }
}

#[test]
fn requests_to_the_disk_are_timed_one_by_one() {
    use plimsoll_core::SampleValue;
    let place = crate::directory_on_a_device();
    let (mut opened, unavailable) = open(&["block".to_owned()], &ServerProcesses::default());
    assert_eq!(unavailable, [], "this needs root");
    let (_, sampler) = &mut opened[0];
    sampler.sample();
    let start = Instant::now();
    let mut file = std::fs::File::create(place.path().join("data")).unwrap();
    for _ in 0..20 {
        file.write_all(&[7; 4096]).unwrap();
        file.sync_all().unwrap();
    }
    let elapsed_ns = start.elapsed().as_nanos() as u64;
    let mut count = 0;
    for one in sampler.sample().iter().filter(|one| one.name == "write_time") {
        let SampleValue::Distribution(times) = &one.found else { panic!("{one:?}") };
        assert!(std::path::Path::new("/sys/block").join(&one.subject).exists(), "{} is no device", one.subject);
        assert!(one.unit == "ns" && times.value_at_quantile(0.5) < elapsed_ns, "{one:?} in {elapsed_ns} ns");
        count += times.len();
    }
    assert!(count >= 20, "{count} writes of 20 syncs");
}

#[test]
fn what_goes_over_the_loopback_is_seen_on_it() {
    let mut network = one("network");
    network.next(Duration::ZERO);
    let start = Instant::now();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let reader = std::thread::spawn(move || std::io::copy(&mut server, &mut std::io::sink()).unwrap());
    client.write_all(&vec![0; 1 << 20]).unwrap();
    drop(client);
    assert_eq!(reader.join().unwrap(), 1 << 20);
    let elapsed = start.elapsed();
    let rate = network.value(elapsed, "lo", "sent").unwrap();
    assert!(rate * elapsed.as_secs_f64() >= 1e6, "{rate} B/s in {elapsed:?}");
}

#[test]
fn this_test_is_a_running_task_and_the_host_switches() {
    let mut tasks = one("tasks");
    assert!(tasks.value(Duration::ZERO, "", "running").unwrap() >= 1.0);
    std::thread::sleep(Duration::from_millis(20));
    assert!(tasks.value(Duration::from_millis(20), "", "switches").unwrap() >= 1.0);
    assert!(tasks.value(Duration::from_millis(20), "", "load").is_some());
}
