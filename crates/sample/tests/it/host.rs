use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Barrier;
use std::time::{Duration, Instant};

use plimsoll_core::Sampler;
use plimsoll_sample::{ServerProcesses, open, specs};

/// Opens one sampler.
fn one(name: &str) -> Box<dyn Sampler> {
    let (mut opened, unavailable) = open(&[name.to_owned()], &ServerProcesses::default());
    assert_eq!(unavailable, [], "{name}");
    opened.pop().unwrap()
}

/// The named value of the next reading of `sampler`; `elapsed` has gone by since the last.
fn value(sampler: &mut dyn Sampler, elapsed: Duration, subject: &str, name: &str) -> Option<f64> {
    let mut readings = Vec::new();
    sampler.sample(elapsed.as_nanos() as u64, &mut readings);
    let position = sampler.series().iter().position(|series| series.subject == subject && series.name == name);
    let position = position.unwrap_or_else(|| panic!("no series {subject} {name}")) as u32;
    readings.iter().find(|reading| reading.series == position).map(|reading| reading.value)
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
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 9);
    let (opened, unavailable) = open(&names, &ServerProcesses::default());
    // What the store counts is read by whoever holds the store.
    assert_eq!(opened.len() + unavailable.len(), 8);
    for (name, reason) in &unavailable {
        assert!(matches!(name.as_str(), "pressure" | "disk" | "network" | "server"), "{name}: {reason}");
    }
    let (opened, unavailable) = open(&["weather".to_owned()], &ServerProcesses::default());
    assert_eq!((opened.len(), unavailable[0].1.to_string()), (0, "there is no sampler of this name".into()));
}

#[test]
fn every_reading_is_of_a_series_that_was_announced_and_each_at_most_once() {
    let names: Vec<String> = specs().iter().map(|spec| spec.name.to_owned()).collect();
    let server = ServerProcesses::default();
    server.set(vec![std::process::id()]);
    for mut sampler in open(&names, &server).0 {
        let subjects: BTreeSet<_> = sampler.series().iter().map(|series| (&series.subject, &series.name)).collect();
        assert_eq!(subjects.len(), sampler.series().len(), "{}: two series of one name", sampler.name());
        for reading_number in 0..3 {
            let mut readings = Vec::new();
            let elapsed = burn(Duration::from_millis(60));
            sampler.sample(elapsed.as_nanos() as u64, &mut readings);
            let positions: BTreeSet<u32> = readings.iter().map(|reading| reading.series).collect();
            assert_eq!(positions.len(), readings.len());
            assert!(reading_number == 0 || !readings.is_empty(), "{} reads nothing", sampler.name());
            for reading in readings {
                let series = &sampler.series()[reading.series as usize];
                assert!(reading.value.is_finite() && reading.value >= 0.0, "{series:?}: {}", reading.value);
                if series.unit == "%" && !matches!(sampler.name(), "generator" | "server") {
                    assert!(reading.value <= 100.0, "{series:?}: {}", reading.value);
                }
            }
            // No time has gone by: nothing to divide by.
            sampler.sample(0, &mut Vec::new());
        }
    }
}

#[test]
fn the_shares_of_a_core_add_up_and_a_busy_one_is_seen() {
    let mut cpu = one("cpu");
    cpu.sample(0, &mut Vec::new());
    let mut readings = Vec::new();
    let elapsed = burn(Duration::from_millis(300));
    cpu.sample(elapsed.as_nanos() as u64, &mut readings);
    let all: Vec<f64> = readings.iter().filter(|reading| reading.series < 5).map(|reading| reading.value).collect();
    assert!((all.iter().sum::<f64>() - 100.0).abs() < 1e-6, "{all:?}");
    // One of the cores was ours for a part of the time at least.
    assert!(all[4] < 100.0 && all[0] > 0.0, "{all:?}");
    let cores = cpu.series().iter().filter(|series| series.name == "idle").count() - 1;
    assert!(cores >= std::thread::available_parallelism().unwrap().get(), "{cores}");
}

#[test]
fn the_generators_cpu_memory_and_threads_are_its_own() {
    let mut generator = one("generator");
    assert_eq!(value(&mut *generator, Duration::ZERO, "", "user"), None);
    let cpu = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let elapsed = burn(Duration::from_millis(200));
    let mut readings = Vec::new();
    generator.sample(elapsed.as_nanos() as u64, &mut readings);
    let after = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let used_s = (after.tv_sec - cpu.tv_sec) as f64 + (after.tv_nsec - cpu.tv_nsec) as f64 / 1e9;
    let expected = used_s * 100.0 / elapsed.as_secs_f64();
    let found = readings[0].value + readings[1].value;
    assert!((found - expected).abs() < 10.0 + expected * 0.1, "{found} %, by the process's clock {expected} %");
    assert!((1e6..1e11).contains(&readings[2].value), "{} B", readings[2].value);
    let threads = readings[3].value;
    let held = Barrier::new(6);
    std::thread::scope(|scope| {
        for _ in 0..5 {
            scope.spawn(|| held.wait());
        }
        let now = value(&mut *generator, elapsed, "", "threads").unwrap();
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
    value(&mut *generator, Duration::ZERO, "", "run_queue_delay");
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
        let delay = value(&mut *generator, elapsed, "", "run_queue_delay").unwrap();
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
    let mut readings = Vec::new();
    memory.sample(0, &mut readings);
    let (used, available) = (readings[0].value, readings[1].value);
    let info = std::fs::read_to_string("/proc/meminfo").unwrap();
    let total: f64 = info.split_ascii_whitespace().nth(1).unwrap().parse::<f64>().unwrap() * 1024.0;
    assert_eq!(used + available, total);
}

#[test]
fn a_sync_is_seen_on_the_disk_as_a_write() {
    let place = crate::directory_on_a_device();
    let mut disk = one("disk");
    let mut readings = Vec::new();
    disk.sample(0, &mut readings);
    assert!(readings.is_empty());
    let start = Instant::now();
    let mut file = std::fs::File::create(place.path().join("data")).unwrap();
    file.write_all(&vec![7; 4 << 20]).unwrap();
    file.sync_all().unwrap();
    disk.sample(start.elapsed().as_nanos() as u64, &mut readings);
    let written = readings.iter().filter(|reading| disk.series()[reading.series as usize].name == "written");
    let bytes: f64 = written.map(|reading| reading.value * start.elapsed().as_secs_f64()).sum();
    assert!(bytes >= 4e6, "{bytes} B written to all devices after a sync of 4 MiB to {}", place.path().display());
    let subjects: BTreeSet<&str> = disk.series().iter().map(|series| series.subject.as_str()).collect();
    for subject in subjects {
        assert!(std::path::Path::new("/sys/block").join(subject).exists(), "{subject} is no whole device");
    }
}

#[test]
fn what_goes_over_the_loopback_is_seen_on_it() {
    let mut network = one("network");
    network.sample(0, &mut Vec::new());
    let start = Instant::now();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let reader = std::thread::spawn(move || std::io::copy(&mut server, &mut std::io::sink()).unwrap());
    client.write_all(&vec![0; 1 << 20]).unwrap();
    drop(client);
    assert_eq!(reader.join().unwrap(), 1 << 20);
    let elapsed = start.elapsed();
    let rate = value(&mut *network, elapsed, "lo", "sent").unwrap();
    assert!(rate * elapsed.as_secs_f64() >= 1e6, "{rate} B/s in {elapsed:?}");
}

#[test]
fn this_test_is_a_running_task_and_the_host_switches() {
    let mut tasks = one("tasks");
    assert!(value(&mut *tasks, Duration::ZERO, "", "running").unwrap() >= 1.0);
    std::thread::sleep(Duration::from_millis(20));
    assert!(value(&mut *tasks, Duration::from_millis(20), "", "switches").unwrap() >= 1.0);
    assert!(value(&mut *tasks, Duration::from_millis(20), "", "load").is_some());
}
