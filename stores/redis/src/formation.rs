//! How servers of our own become a cluster: each is master of an equal part of the slots.

use std::collections::BTreeSet;
use std::time::Duration;

use plimsoll_core::{Node, StoreError, Waits};

use crate::control::Control;
use crate::server::RedisRecipe;
use crate::slots::SLOTS;

/// Between two looks whether nodes have found each other.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// How long one look may take.
const LOOK_BOUND: Duration = Duration::from_secs(10);

/// Shares the slots out among nodes that know of nobody yet, and has them meet.
pub(crate) fn form(recipe: &RedisRecipe, nodes: &[Node], waits: &Waits) -> Result<(), StoreError> {
    let count = nodes.len();
    for (place, node) in nodes.iter().enumerate() {
        let first = |place: usize| usize::from(SLOTS) * place / count;
        let part = [first(place).to_string(), (first(place + 1) - 1).to_string()];
        let mut control = Control::open(&recipe.endpoint(node), waits)?;
        // Nodes with equal epochs would quarrel about them first.
        control.command(&[b"CLUSTER", b"SET-CONFIG-EPOCH", (place + 1).to_string().as_bytes()])?;
        control.command(&[b"CLUSTER", b"ADDSLOTSRANGE", part[0].as_bytes(), part[1].as_bytes()])?;
    }
    let [first, others @ ..] = nodes else { return Ok(()) };
    let mut control = Control::open(&recipe.endpoint(first), waits)?;
    for node in others {
        let ports: Vec<String> = node.ports.iter().map(u16::to_string).collect();
        let meet: [&[u8]; 3] = [b"CLUSTER", b"MEET", b"127.0.0.1"];
        let words: Vec<&[u8]> = meet.into_iter().chain(ports.iter().map(String::as_bytes)).collect();
        control.command(&words)?;
    }
    Ok(())
}

/// Waits until every node can be reached and knows who has which slots, all of them.
pub(crate) fn until_whole(recipe: &RedisRecipe, nodes: &[Node], waits: &Waits) -> Result<(), StoreError> {
    let looks = waits.with_answer(LOOK_BOUND);
    nodes.iter().try_for_each(|node| {
        waits.until(LOOK_INTERVAL, "Read the nodes' logs", || {
            let mut control = Control::open(&recipe.endpoint(node), &looks)?;
            let says = control.command(&[b"CLUSTER", b"INFO"])?.text();
            let masters = control.slots()?.into_iter().map(|range| range.master).collect::<BTreeSet<_>>();
            let is_whole = says.contains("cluster_state:ok") && masters.len() == nodes.len();
            let said = || says.split_ascii_whitespace().take(4).collect::<Vec<_>>().join(" ");
            Ok(if is_whole { Ok(()) } else { Err(format!("the private cluster has not come about ({})", said())) })
        })
    })
}
