//! A private cluster: several servers of our own that share the slots among them.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plimsoll_core::{StoreError, StoreErrorKind, Waits};
use plimsoll_lab::Supervisor;

use crate::control::Control;
use crate::endpoint::Password;
use crate::member::Member;
use crate::server::{ClusterNode, Make, PrivateRedis};
use crate::slots::SLOTS;

/// How long nodes may take to find each other, which they do in a second or two.
const FORM_BOUND: Duration = Duration::from_secs(60);
/// Between two looks whether they have.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// How long one look may take.
const LOOK_BOUND: Duration = Duration::from_secs(10);
/// Bytes of the password of a cluster's nodes.
const PASSWORD_BYTES: usize = 24;

/// Starts `count` nodes, each master of an equal part of the slots; returns when all of them know of all.
pub(crate) fn start(
    count: u16,
    make: Option<Make>,
    bases: &[PathBuf],
    log_dir: &Path,
    settings: &[(String, String)],
    waits: &Waits,
    progress: &mut dyn FnMut(&str),
) -> Result<Vec<Member>, StoreError> {
    let (password, supervisor) = (password()?, Supervisor::start()?);
    let mut members = Vec::new();
    for (port, bus_port) in free_ports(count)? {
        let (password, supervisor) = (password.clone(), supervisor.clone());
        let node = ClusterNode { port, bus_port, password, supervisor };
        let server = PrivateRedis::start(make, bases, log_dir, settings, Some(node), waits, progress)?;
        members.push(Member::new(server.endpoint(), Some(server), waits));
    }
    progress(&format!("making a cluster of {count} nodes"));
    let ports: Vec<(u16, u16)> = members
        .iter()
        .filter_map(|member| member.own.as_ref()?.node().map(|node| (node.port, node.bus_port)))
        .collect();
    for (place, member) in (0_u32..).zip(&mut members) {
        let part = |place: u32| (u32::from(SLOTS) * place / u32::from(count)).to_string();
        let last = (u32::from(SLOTS) * (place + 1) / u32::from(count) - 1).to_string();
        let control = member.control()?;
        // Nodes with equal epochs would quarrel about them first.
        control.command(&[b"CLUSTER", b"SET-CONFIG-EPOCH", (place + 1).to_string().as_bytes()])?;
        control.command(&[b"CLUSTER", b"ADDSLOTSRANGE", part(place).as_bytes(), last.as_bytes()])?;
    }
    if let Some(first) = members.first_mut() {
        let control = first.control()?;
        for (port, bus_port) in ports.iter().skip(1) {
            let (port, bus_port) = (port.to_string(), bus_port.to_string());
            control.command(&[b"CLUSTER", b"MEET", b"127.0.0.1", port.as_bytes(), bus_port.as_bytes()])?;
        }
    }
    until_whole(&mut members)?;
    Ok(members)
}

/// Waits until every node can be reached and knows who has which slots, all of them.
pub(crate) fn until_whole(members: &mut [Member]) -> Result<(), StoreError> {
    let until = Instant::now() + FORM_BOUND;
    let count = members.len();
    for member in members {
        loop {
            let mut control = Control::open(&member.endpoint, member.waits().with_answer(LOOK_BOUND))?;
            let says = control.command(&[b"CLUSTER", b"INFO"])?.text();
            let masters =
                control.slots()?.into_iter().map(|range| range.master).collect::<std::collections::BTreeSet<_>>();
            if says.contains("cluster_state:ok") && masters.len() == count {
                break;
            }
            if Instant::now() > until {
                let what = format!("the private cluster has not come about within {} s", FORM_BOUND.as_secs());
                let said = says.split_ascii_whitespace().take(4).collect::<Vec<_>>().join(" ");
                return Err(StoreError::new(StoreErrorKind::Broken, what).detail(said));
            }
            member.waits().pause(LOOK_INTERVAL)?;
        }
    }
    Ok(())
}

/// Pairs of ports of the loopback interface that nobody listens on.
fn free_ports(count: u16) -> Result<Vec<(u16, u16)>, StoreError> {
    // All are held until all are known, so that none is found twice.
    let find = || {
        let all: Vec<TcpListener> =
            (0..2 * count).map(|_| TcpListener::bind(("127.0.0.1", 0))).collect::<std::io::Result<_>>()?;
        all.iter().map(|listener| Ok(listener.local_addr()?.port())).collect::<std::io::Result<Vec<u16>>>()
    };
    let ports = find().map_err(|error| StoreError::io("looking for free ports of 127.0.0.1", &error))?;
    Ok(ports.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect())
}

fn password() -> Result<Password, StoreError> {
    let mut bytes = [0; PASSWORD_BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| StoreError::new(StoreErrorKind::Broken, format!("no random bytes to be had: {error}")))?;
    Ok(Password::new(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
}
