//! Masters of a store: those that a URL leads to, and those of the present.

use std::collections::BTreeSet;
use std::sync::Arc;

use plimsoll_core::{Address, StoreError, StoreErrorKind, Waits};
use plimsoll_endpoint::Reads;

use super::RedisStore;
use super::runs::prefix_of;
use crate::endpoint::{Endpoint, Found};
use crate::facts::Info;
use crate::formation::present_masters;
use crate::member::Member;
use crate::watched::Sentinels;
use crate::wire::Protocol;
use crate::{readers, slots};

impl RedisStore {
    /// A store on the first of a URL's servers that answers, or on the master that its Sentinels name.
    pub fn attach(
        found: Found,
        asked: (Protocol, Reads),
        run_id: &str,
        waits: &Waits,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self, StoreError> {
        let Found { endpoint, addresses, master } = found;
        if let Some(name) = master {
            let sentinels = Sentinels { addresses, name, endpoint, waits: waits.clone() };
            let endpoint = Endpoint { address: sentinels.master()?, ..sentinels.endpoint.clone() };
            let mut store = Self::attach_one(endpoint, asked, run_id, waits, progress)?;
            store.sentinels = Some(sentinels);
            return Ok(store);
        }
        let is_one = addresses.len() < 2;
        let mut last = None;
        for address in addresses.into_iter().filter(|_| !is_one) {
            match Self::attach_one(Endpoint { address, ..endpoint.clone() }, asked, run_id, waits, progress) {
                Ok(store) if store.cluster.is_none() => {
                    return Err(StoreError::usage(
                        "several hosts are those of a cluster, and one that answers is in none",
                    )
                    .next("Name its master alone, or Sentinels: redis-sentinel://host1,host2"));
                }
                Err(error) if error.is_nobody_there() => last = Some(error),
                attached => return attached,
            }
        }
        last.map_or_else(|| Self::attach_one(endpoint, asked, run_id, waits, progress), Err)
    }

    fn attach_one(
        endpoint: Endpoint,
        (protocol, reads): (Protocol, Reads),
        run_id: &str,
        waits: &Waits,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self, StoreError> {
        let mut store = Self::new(vec![Member::new(endpoint, None, waits)], protocol, prefix_of(run_id), run_id, waits);
        store.reads = reads;
        store.meet()?;
        match store.tell_runs(progress) {
            // Not every workload makes keys, so that not every user may have those of runs.
            Err(error) if error.kind != StoreErrorKind::Permission => Err(error),
            _ => Ok(store),
        }
    }

    /// All of them, with the one that Sentinels have made the master meanwhile in the place of the one before.
    pub(super) fn current(&mut self) -> &mut [Member] {
        if let Some(watched) = &self.watched
            && let Some(master) = watched.master()
        {
            let endpoint = watched.recipe.endpoint(&master);
            if endpoint.address != self.members[0].endpoint.address {
                self.members = vec![watched.member(master)];
            }
        }
        if let Some(sentinels) = &self.sentinels
            && let Ok(master) = sentinels.master()
            && master != self.members[0].endpoint.address
        {
            let endpoint = Endpoint { address: master, ..self.members[0].endpoint.clone() };
            self.members = vec![Member::new(endpoint, None, &sentinels.waits)];
        }
        &mut self.members
    }

    /// The first server, which stands for all where they are alike.
    pub(super) fn first(&mut self) -> &mut Member {
        &mut self.current()[0]
    }

    /// Finds out what stands at the URL: a server, or a cluster whose masters are the members from then on. Says no to a
    /// replica.
    pub(super) fn meet(&mut self) -> Result<(), StoreError> {
        let place = self.login.place.clone();
        let first = self.first();
        let endpoint = first.endpoint.clone();
        let control = first.control.get()?;
        let waits = control.waits().clone();
        // Without it, a cluster's node or a replica refuses what it does not take.
        let Some(info) = Info::read_if_permitted(control)? else { return Ok(()) };
        if info.number("cluster_enabled") > 0 {
            let ranges = control.slots()?;
            slots::demand_all(&ranges, &place)?;
            let named: BTreeSet<(String, u16)> = ranges.into_iter().map(|range| range.master).collect();
            if named.len() > 1 {
                let all = named.iter().map(|node| slots::address(node, &endpoint.address));
                return self.meet_cluster(&endpoint, all.collect(), &waits);
            }
        }
        if matches!(info.text("role"), "slave" | "replica") && info.text("slave_read_only") != "0" {
            let what = format!("{place} is a replica, which takes no writes");
            let master = format!("{}:{}", info.text("master_host"), info.text("master_port"));
            return Err(StoreError::usage(what).next(format!("Attach to its master, {master}.")));
        }
        Ok(())
    }

    /// Takes the masters at `addresses` for the members, and sees that each of them lets us in.
    fn meet_cluster(&mut self, endpoint: &Endpoint, addresses: Vec<Address>, waits: &Waits) -> Result<(), StoreError> {
        if self.reads != Reads::Primary {
            return Err(readers::not_in_cluster());
        }
        self.cluster.get_or_insert_with(Arc::default);
        let mut members = Vec::new();
        for address in addresses {
            let known = self.members.iter().position(|member| member.endpoint.address == address);
            members.push(match known {
                Some(place) => self.members.swap_remove(place),
                None => {
                    let mut endpoint = Endpoint { address: address.clone(), ..endpoint.clone() };
                    if let Address::Tcp(host, port) = &address {
                        endpoint.login.place = format!("{host}:{port}, a node of the cluster of {}", self.login.place);
                    }
                    Member::new(endpoint, None, waits)
                }
            });
        }
        self.members = members;
        self.members.iter_mut().try_for_each(|member| match member.control.get() {
            Ok(_) => Ok(()),
            Err(error) => {
                let next = error.next.clone().unwrap_or_default();
                Err(error.next(format!(
                    "{next} Nodes are connected to where CLUSTER SLOTS says they are; \
                     cluster-announce-ip and cluster-announce-hostname change that."
                )))
            }
        })
    }

    /// Takes the present masters of a private cluster for the members.
    pub(super) fn meet_ours(&mut self) {
        let Some((servers, recipe)) = &self.ours else { return };
        let waits = &self.waits;
        let masters = present_masters(recipe, &servers.nodes(), waits);
        let members = masters.into_iter().map(|node| {
            let endpoint = recipe.endpoint(&node);
            let known = self.members.iter().position(|member| member.endpoint.address == endpoint.address);
            let made = || Member::new(endpoint, Some((Arc::clone(servers), node)), waits);
            known.map_or_else(made, |place| self.members.remove(place))
        });
        self.members = members.collect();
    }
}
