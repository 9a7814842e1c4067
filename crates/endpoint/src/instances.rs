//! Several independent servers as one store: instances on one machine in place of one server.
//!
//! Of bytes under bytes each key is one server's, by its hash, so that the ledger vouches for all of them together. Tables are
//! made and filled in every server, and each session is one server's, in turn: a statement may ask for anything, and no two
//! servers have parts of one table. What is true of one server is said of the first, and what adds up is the sum of all.

use plimsoll_core::{
    CacheSize, Cycle, Durability, Footprint, Layout, OpKind, ParamSpec, Probe, Reading, Sessions, Setting, Store,
    StoreDescription, StoreError, Values,
};

use crate::branched::{Branched, Route};

/// The parameter of stores that can be several.
pub const INSTANCES: ParamSpec = ParamSpec::int(
    "instances",
    1..=32,
    "1",
    "private servers on this machine that share nothing; each has some of the keys, or tables of its own and some of the clients",
)
.of_private();

/// See the module.
pub struct Instances {
    all: Vec<Box<dyn Store>>,
    /// True if a key-value space was created; false for tables.
    has_keys: bool,
}

impl Instances {
    /// Joins the stores `all`, of which there must be at least one.
    pub fn new(all: Vec<Box<dyn Store>>) -> Self {
        Self { all, has_keys: false }
    }

    fn each(&mut self, act: impl FnMut(&mut Box<dyn Store>) -> Result<(), StoreError>) -> Result<(), StoreError> {
        self.all.iter_mut().try_for_each(act)
    }

    fn first(&mut self) -> &mut dyn Store {
        &mut *self.all[0]
    }
}

impl Store for Instances {
    fn describe(&mut self) -> Result<StoreDescription, StoreError> {
        let place = format!("{} private servers", self.all.len());
        Ok(StoreDescription { place, ..self.first().describe()? })
    }

    fn settings_in_force(&mut self, durability: Durability) -> Result<Option<Vec<Setting>>, StoreError> {
        let settings: Result<Vec<_>, _> =
            self.all.iter_mut().map(|store| store.settings_in_force(durability)).collect();
        Ok(settings?.swap_remove(0))
    }

    fn demand(&mut self, durability: Durability) -> Result<(), StoreError> {
        self.each(|store| store.demand(durability))
    }

    fn promise(&mut self) -> Result<String, StoreError> {
        self.first().promise()
    }

    fn create(&mut self, layout: &Layout) -> Result<(), StoreError> {
        if !layout.collections.is_empty() {
            let what = "searches need all records, and each instance has a part of them";
            return Err(StoreError::usage(what)
                .next("Use a workload of keys or SQL: kv, oltp, tpcb; or leave `instances` out."));
        }
        self.has_keys = layout.statements.is_empty();
        self.each(|store| store.create(layout))
    }

    fn after_load(&mut self, layout: &Layout) -> Result<(), StoreError> {
        self.each(|store| store.after_load(layout))
    }

    fn set_read_only(&mut self, read_only: bool) {
        self.all.iter_mut().for_each(|store| store.set_read_only(read_only));
    }

    fn sessions(&mut self, count: u32, durability: Durability) -> Result<Sessions, StoreError> {
        let servers = self.all.len();
        let mut of_servers = Vec::with_capacity(servers);
        for store in &mut self.all {
            let Sessions::Wire(clients) = store.sessions(count, durability)? else {
                return Err(StoreError::usage("instances need sessions over a wire")
                    .next("Leave `instances` out, or `index = \"keyindex\"`."));
            };
            of_servers.push(clients.into_iter());
        }
        let mut all = Vec::with_capacity(count as usize);
        for number in 0..count as usize {
            // Nothing is connected yet: those that are not taken cost nothing.
            let mut clients: Vec<_> = of_servers.iter_mut().filter_map(Iterator::next).collect();
            all.push(match self.has_keys {
                true => Branched::client(clients.into_iter().map(|client| vec![client]).collect(), Route::Key),
                false => clients.swap_remove(number % servers),
            });
        }
        Ok(Sessions::Wire(all))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.each(|store| store.sync())
    }

    fn settle(&mut self) -> Result<(), StoreError> {
        self.each(|store| store.settle())
    }

    fn disconnect(&mut self) -> Result<(), StoreError> {
        self.each(|store| store.disconnect())
    }

    fn reconnect(&mut self) -> Result<(), StoreError> {
        self.each(|store| store.reconnect())
    }

    fn footprint(&mut self) -> Result<Footprint, StoreError> {
        let mut sum = Footprint { data_bytes: 0, index_bytes: Some(0), total_bytes: Some(0) };
        let add = |one: Option<u64>, other: Option<u64>| one.zip(other).map(|(one, other)| one + other);
        for store in &mut self.all {
            let own = store.footprint()?;
            sum.data_bytes += own.data_bytes;
            sum.index_bytes = add(sum.index_bytes, own.index_bytes);
            sum.total_bytes = add(sum.total_bytes, own.total_bytes);
        }
        Ok(sum)
    }

    fn cache_bytes(&mut self) -> Result<Option<CacheSize>, StoreError> {
        let mut sum = None;
        for store in &mut self.all {
            sum = match (sum, store.cache_bytes()?) {
                (Some(CacheSize::Own { bytes: before, .. }), Some(CacheSize::Own { setting, bytes })) => {
                    Some(CacheSize::Own { setting, bytes: before + bytes })
                }
                (_, own) => own,
            };
        }
        Ok(sum)
    }

    fn explain(&mut self, kind: &OpKind, params: Values<'_>) -> Result<Option<String>, StoreError> {
        self.first().explain(kind, params)
    }

    fn check_integrity(&mut self) -> Result<Option<String>, StoreError> {
        let said: Result<Vec<_>, _> = self.all.iter_mut().map(|store| store.check_integrity()).collect();
        let mut said: Vec<String> = said?.into_iter().flatten().collect();
        said.dedup();
        Ok((!said.is_empty()).then(|| said.join("; ")))
    }

    fn probes(&mut self) -> Vec<Probe> {
        let of_node = |number: usize, mut probe: Probe| -> Probe {
            let named = move |reading: Reading| Reading { subject: format!("node {number}"), ..reading };
            Box::new(move || Ok(probe()?.into_iter().map(named).collect()))
        };
        let all = self.all.iter_mut().zip(1..);
        all.flat_map(|(store, number)| store.probes().into_iter().map(move |probe| of_node(number, probe))).collect()
    }

    fn cycle(&mut self) -> Result<Option<Cycle>, StoreError> {
        let mut longest: Option<Cycle> = None;
        for store in &mut self.all {
            let cycle = store.cycle()?;
            longest = longest.into_iter().chain(cycle).max_by(|one, other| one.seconds.total_cmp(&other.seconds));
        }
        Ok(longest)
    }

    fn close(&mut self) -> Result<(), StoreError> {
        self.all.iter_mut().map(|store| store.close()).fold(Ok(()), Result::and)
    }
}
