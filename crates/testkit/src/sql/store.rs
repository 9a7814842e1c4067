//! Runs in an attached server: what they make, and how it goes.

use std::time::{Duration, Instant};

use plimsoll_core::{CacheSize, Durability, IndexMode, Outcome, StoreErrorKind, Waits};

use super::{SqlServer, wire};
use crate::advice::{follow, of_error};
use crate::opening::RUN_ID;
use crate::records::{ALL, INSERT, kinds, layout, record};

/// Passes all that this file checks. `removal` returns the advised command that removes a holder of this name.
///
/// # Panics
/// If a check fails.
pub fn attached<S: SqlServer>(removal: fn(&S, &str) -> String) {
    crate::steps!(
        an_attached_server_is_left_as_it_was::<S>,
        a_holder_of_the_same_name_is_not_touched::<S>,
        an_operation_that_was_given_up_does_not_keep_the_holder::<S>,
        a_role_that_may_not_make_a_holder_is_told_how_it_may::<S>,
        data_and_cache_are_those_of_the_server::<S>,
    );
    crate::steps!(with removal; what_a_killed_run_left_is_named, what_cannot_be_dropped_is_named_with_the_command);
}

/// Returns whether the server has the holder of `run_id`.
fn has<S: SqlServer>(server: &S, run_id: &str) -> bool {
    let name = S::DIALECT.holder_of(run_id);
    let query = format!("SELECT COUNT(*) FROM information_schema.schemata WHERE schema_name = '{name}'");
    server.control().value(&query).expect("an answer") == "1"
}

fn an_attached_server_is_left_as_it_was<S: SqlServer>() {
    let (server, dialect) = (S::start(), S::DIALECT);
    let mut control = server.control();
    control.simple("CREATE TABLE items (code INT)").expect("a table of the user");
    control.simple("INSERT INTO items VALUES (7)").expect("a record of the user");
    let before = control.value(dialect.inventory).expect("an inventory");
    let opening = server.attach(dialect.admin);
    let announced = (dialect.kind)().announce(&opening.options).expect("lines").join("\n");
    let makes = format!("makes {} {}", dialect.holder, dialect.holder_of(RUN_ID));
    assert!(announced.contains(&makes) && announced.contains("drops it afterwards"), "{announced}");

    let mut store = opening.open().expect("attached");
    let modes = (dialect.kind)().spec().index_modes;
    for index in modes.iter().chain([&IndexMode::Own; 2]) {
        store.create(&layout(*index)).expect("created");
    }
    let mut session = wire(&mut *store, Durability::Durable, &kinds());
    assert_eq!(session.ask(INSERT, &record("a", Some(1))).0, Outcome::Ok);
    assert_eq!(session.ask(ALL, &[]).1.rows, 1, "it does not see their table of the same name");
    drop(session);
    assert!(has(&server, RUN_ID));
    store.sync().expect("synced");
    store.settle().expect("settled");
    assert_eq!(store.check_integrity().expect("an answer").is_some(), dialect.checks);
    store.close().expect("closed");
    assert!(!has(&server, RUN_ID));
    assert_eq!(control.value(dialect.inventory).expect("an inventory"), before);
    assert_eq!(control.value("SELECT code FROM items").expect("theirs"), "7");

    // Not closed, but dropped, as after an error.
    let mut store = opening.open().expect("attached");
    store.create(&layout(IndexMode::Own)).expect("created");
    drop(store);
    assert!(!has(&server, RUN_ID));
    assert_eq!(control.value(dialect.inventory).expect("an inventory"), before);
}

fn a_holder_of_the_same_name_is_not_touched<S: SqlServer>() {
    let (server, dialect) = (S::start(), S::DIALECT);
    let mut control = server.control();
    let theirs = format!("{} {}", dialect.holder, dialect.holder_of("theirs"));
    control.simple(&format!("CREATE {theirs}")).expect("made");
    let mut store = server.attach(dialect.admin).run("theirs").open().expect("attached");
    let error = store.create(&layout(IndexMode::Own)).expect_err("it is there already");
    assert!(error.to_string().contains(dialect.exists), "{error}");
    store.close().expect("closed");
    assert!(has(&server, "theirs"));
    control.simple(&format!("DROP {theirs}")).expect("dropped");
}

/// An operation that was given up after its time-out still runs on the server, and holds its locks.
fn an_operation_that_was_given_up_does_not_keep_the_holder<S: SqlServer>() {
    let (server, dialect) = (S::start(), S::DIALECT);
    let mut store = server.attach(dialect.admin).run("given-up").open().expect("attached");
    store.create(&layout(IndexMode::Own)).expect("created");
    let mut given_up = server.control();
    given_up.set_waits(Waits::default().with_answer(Duration::from_millis(300)));
    let items = format!("{}.items", dialect.holder_of("given-up"));
    let slow = format!("{} FROM (SELECT COUNT(*) FROM {items}) AS counted", dialect.sleep);
    assert_eq!(given_up.simple(&slow).expect_err("too slow").kind, StoreErrorKind::Unreachable);
    drop(given_up);
    let began = Instant::now();
    store.close().expect("closed");
    assert!(began.elapsed() < Duration::from_secs(20), "took {:?}", began.elapsed());
    assert!(!has(&server, "given-up"));
}

fn a_role_that_may_not_make_a_holder_is_told_how_it_may<S: SqlServer>() {
    let (server, dialect) = (S::start(), S::DIALECT);
    let mut control = server.control();
    control.simple(dialect.guest).expect("a role");
    let opening = server.attach("The%20Guest").run("guest");
    let mut store = opening.open().expect("attached");
    let error = store.create(&layout(IndexMode::Own)).expect_err("no permission");
    assert_eq!(error.kind, StoreErrorKind::Permission, "{error}");
    let [refused, before] = dialect.refused;
    assert!(error.what.contains(refused), "{error}");
    let next = error.next.expect("it says what to do");
    let grant = next.strip_prefix(before).expect("a statement").trim_end_matches(';');
    control.simple(grant).expect("what it says works");
    // Some servers look privileges up only when a connection is made.
    store = opening.open().expect("attached");
    store.create(&layout(IndexMode::Own)).expect("created");
    store.settle().expect("settled without any other privilege");
    store.sync().expect("synced without any other privilege");
    assert!(!store.describe().expect("described").version.is_empty());
    store.close().expect("closed");
}

fn data_and_cache_are_those_of_the_server<S: SqlServer>() {
    let (server, dialect) = (S::start(), S::DIALECT);
    let mut control = server.control();
    control.simple("CREATE TABLE theirs (n INT PRIMARY KEY)").expect("a table of the user");
    let rows: Vec<String> = (0..20_000).map(|n| format!("({n})")).collect();
    control.simple(&format!("INSERT INTO theirs VALUES {}", rows.join(", "))).expect("filled");
    control.simple(dialect.analyze).expect("analyzed");
    let mut number = |query: &str| control.value(query).expect("an answer").parse::<u64>().expect("a number");
    let bytes = number(dialect.size);
    assert!(bytes > 20_000 * 4, "{bytes}");
    let (setting, query) = dialect.cache;
    let cache = CacheSize::Own { setting, bytes: number(query) };
    let mut store = server.attach(dialect.admin).open().expect("attached");
    // There is nothing of this run: the tables in the URL's database are measured.
    let footprint = store.footprint().expect("a size");
    assert_eq!((footprint.data_bytes, footprint.index_bytes), (bytes, Some(0)));
    assert_eq!(store.cache_bytes().expect("a size"), Some(cache));
    store.close().expect("closed");
}

fn what_a_killed_run_left_is_named<S: SqlServer>(removal: fn(&S, &str) -> String) {
    const KILLED: &str = "20260102-030405-dead";
    let (server, dialect) = (S::start(), S::DIALECT);
    let mut control = server.control();
    control.simple(&format!("CREATE {} plimsoll_results", dialect.holder)).expect("made");
    let mut store = server.attach(dialect.admin).run(KILLED).open().expect("attached");
    store.create(&layout(IndexMode::Own)).expect("created");
    // As if it had been killed.
    std::mem::forget(store);
    let noted = || {
        let mut told = server.attach(dialect.admin).messages();
        // Other tests may share the server.
        told.retain(|line| line.contains("_dead") || line.contains("results"));
        told
    };
    let (told, holder) = (noted(), dialect.holder_of(KILLED));
    let begin = format!("{} {holder} of another run is still there; if that", dialect.holder);
    assert!(told[0].starts_with(&begin), "{told:?}");
    assert_eq!(follow(&told, &[]), removal(&server, &holder));
    assert_eq!(noted(), [""; 0]);
    assert!(has(&server, "results"), "only a run's name says that it is one's");
    control.simple(&format!("DROP {} plimsoll_results", dialect.holder)).expect("dropped");
}

fn what_cannot_be_dropped_is_named_with_the_command<S: SqlServer>(removal: fn(&S, &str) -> String) {
    let (server, dialect) = (S::alone(), S::DIALECT);
    let mut store = server.attach(dialect.admin).open().expect("attached");
    store.create(&layout(IndexMode::Own)).expect("created");
    server.kill();
    let error = store.close().expect_err("its server is gone");
    assert_eq!(of_error(&error), removal(&server, &dialect.holder_of(RUN_ID)));
}
