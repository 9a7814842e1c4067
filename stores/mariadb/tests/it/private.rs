//! Private servers: what they listen on and keep, how they restart and fail, what stays after a kill.

use plimsoll_lab::Cluster;
use plimsoll_store_mariadb::{Connection, MariadbRecipe, kind};
use plimsoll_testkit::opening::Opening;
use plimsoll_testkit::private::{Private, base};

use crate::fixture::{address, login, open_login};

const PRIVATE: Private = Private {
    program: "mariadbd",
    start: |base, settings, progress| {
        let settings = settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        let recipe = Box::new(MariadbRecipe { settings, ..Default::default() });
        Cluster::start(recipe, &[base.to_owned()], &base.join("logs"), &Default::default(), progress)
    },
    write: |server| {
        let rows = "INSERT INTO d.t SELECT seq FROM d.seq_1_to_1000";
        for statement in ["CREATE DATABASE d", "CREATE TABLE d.t (n INT)", rows] {
            root(server).simple(statement).expect("done");
        }
    },
    holds: |server| {
        root(server).value("SELECT CONCAT(COUNT(*), ' ', SUM(n)) FROM d.t").expect("a sum") == "1000 500500"
    },
    refused: ["no-such-setting", "1", "unknown variable 'no-such-setting=1'"],
    closing: "private::closing_removes_everything",
};

fn root(mariadb: &Cluster) -> Connection {
    open_login(&address(mariadb), login("root", None)).expect("a connection")
}

#[test]
fn its_log_is_on_a_disk_of_its_own_if_that_is_asked_for() {
    let base = base();
    let opening = Opening::private(kind, base.path()).text("disk", "ext4").text("log_disk", "full");
    let mut store = opening.int("disk_size", 512 << 20).open().expect("a private server");
    let node = store.servers().expect("servers").first();
    let log = node.log_dir.clone().expect("a directory");
    assert!(log.join("ib_logfile0").exists() && !node.data_dir.join("db/ib_logfile0").exists());
    assert!(node.data_dir.join("db/ibdata1").exists());
    store.restart().expect("it starts again");
    store.close().expect("closed");
}

#[test]
fn it_keeps_its_promises_from_its_start_to_its_end() {
    PRIVATE.lives(|mariadb| {
        let settings = "SELECT CONCAT_WS(' ', @@skip_networking, @@port, @@log_bin, @@innodb_flush_log_at_trx_commit, \
                        @@innodb_doublewrite, @@innodb_buffer_pool_load_at_startup)";
        assert_eq!(root(mariadb).value(settings).expect("settings"), "ON 0 OFF 1 ON OFF");
        assert!(mariadb.first().socket_dir.join("socket").exists());
    });
}

#[test]
fn a_setting_it_refuses_is_an_error_in_its_own_words_and_its_log_is_kept() {
    PRIVATE.a_setting_it_refuses_is_told();
}

/// A test of its own, and, started again by the next one, the process that is killed.
#[test]
fn closing_removes_everything() {
    PRIVATE.closing_removes_everything();
}

#[test]
fn nothing_is_left_5_s_after_plimsoll_is_killed() {
    PRIVATE.nothing_is_left_5_s_after_a_kill(|_| 0);
}
