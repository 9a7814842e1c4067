//! A store whose panics are errors: of an embedded store, its library runs in this process.

use plimsoll_core::panics::{self, Panic};
use plimsoll_core::{
    CacheSize, Cycle, Durability, Footprint, KindId, Layout, OpKind, OpenOptions, Probe, Sessions, Setting, Store,
    StoreDescription, StoreError, StoreKind, ValueBuf, Values,
};

/// A store that returns a panic as an error of the call. Its sessions are not covered: `drive` catches their panics.
pub(crate) struct GuardedStore {
    name: &'static str,
    /// `None` after the store was dropped.
    store: Option<Box<dyn Store>>,
}

/// Opens a store of `kind`.
///
/// # Errors
/// The errors of the store, and its panics.
pub(crate) fn open(
    kind: &dyn StoreKind,
    options: OpenOptions,
    progress: &mut dyn FnMut(&str),
) -> Result<Box<dyn Store>, StoreError> {
    let name = kind.spec().name;
    let store = caught(name, "its opening", || kind.open(options, progress))?;
    Ok(Box::new(GuardedStore { name, store: Some(store) }))
}

fn caught<T>(name: &str, activity: &str, work: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    panics::caught(work).unwrap_or_else(|panic| Err(panic.error(name, activity)))
}

impl GuardedStore {
    fn call<T>(
        &mut self,
        activity: &str,
        work: impl FnOnce(&mut dyn Store) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let Some(store) = &mut self.store else { return Err(StoreError::broken(format!("{} is closed", self.name))) };
        caught(self.name, activity, || work(&mut **store))
    }

    /// Calls `work`, whose panic is only printed: the next call shows what became of the store.
    fn tell(&mut self, work: impl FnOnce(&mut dyn Store)) {
        let _ = self.store.as_mut().map(|store| panics::caught(|| work(&mut **store)));
    }
}

impl Drop for GuardedStore {
    fn drop(&mut self) {
        let store = self.store.take();
        let _: Result<(), Panic> = panics::caught(|| drop(store));
    }
}

impl Store for GuardedStore {
    fn describe(&mut self) -> Result<StoreDescription, StoreError> {
        self.call("its description", |store| store.describe())
    }

    fn settings_in_force(&mut self, durability: Durability) -> Result<Option<Vec<Setting>>, StoreError> {
        self.call("reading its settings", |store| store.settings_in_force(durability))
    }

    fn demand(&mut self, durability: Durability) -> Result<(), StoreError> {
        self.call("reading its durability", |store| store.demand(durability))
    }

    fn promise(&mut self) -> Result<String, StoreError> {
        self.call("reading its durability", |store| store.promise())
    }

    fn create(&mut self, layout: &Layout) -> Result<(), StoreError> {
        self.call("creating its collections", |store| store.create(layout))
    }

    fn after_load(&mut self, layout: &Layout) -> Result<(), StoreError> {
        self.call("the end of the load", |store| store.after_load(layout))
    }

    fn set_read_only(&mut self, read_only: bool) {
        self.tell(|store| store.set_read_only(read_only));
    }

    fn sessions(&mut self, count: u32, durability: Durability) -> Result<Sessions, StoreError> {
        self.call("opening sessions", |store| store.sessions(count, durability))
    }

    fn load_at_once(
        &mut self,
        kinds: &[OpKind],
        durability: Durability,
        next: &mut dyn FnMut(&mut ValueBuf) -> Option<KindId>,
    ) -> Result<Option<String>, StoreError> {
        self.call("the load", |store| store.load_at_once(kinds, durability, next))
    }

    fn copies(&mut self) -> Result<Vec<usize>, StoreError> {
        self.call("the wait for its copies", |store| store.copies())
    }

    fn read_copy(&mut self, node: Option<usize>) {
        self.tell(|store| store.read_copy(node));
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        self.call("a sync", |store| store.sync())
    }

    fn settle(&mut self) -> Result<(), StoreError> {
        self.call("its maintenance", |store| store.settle())
    }

    fn disconnect(&mut self) -> Result<(), StoreError> {
        self.call("closing its files", |store| store.disconnect())
    }

    fn reconnect(&mut self) -> Result<(), StoreError> {
        self.call("opening its files again", |store| store.reconnect())
    }

    fn footprint(&mut self) -> Result<Footprint, StoreError> {
        self.call("reading its size", |store| store.footprint())
    }

    fn cache_bytes(&mut self) -> Result<Option<CacheSize>, StoreError> {
        self.call("reading its cache's size", |store| store.cache_bytes())
    }

    fn explain(&mut self, kind: &OpKind, params: Values<'_>) -> Result<Option<String>, StoreError> {
        self.call("explaining an operation", |store| store.explain(kind, params))
    }

    fn check_integrity(&mut self) -> Result<Option<String>, StoreError> {
        self.call("its integrity check", |store| store.check_integrity())
    }

    fn probes(&mut self) -> Vec<Probe> {
        let name = self.name;
        let Some(store) = self.store.as_mut() else { return Vec::new() };
        let probes = panics::caught(|| store.probes()).unwrap_or_default();
        let guarded =
            |mut probe: Probe| -> Probe { Box::new(move || caught(name, "reading its counters", &mut probe)) };
        probes.into_iter().map(guarded).collect()
    }

    fn cycle(&mut self) -> Result<Option<Cycle>, StoreError> {
        self.call("reading its maintenance cycle", |store| store.cycle())
    }

    fn close(&mut self) -> Result<(), StoreError> {
        self.call("its closing", |store| store.close())
    }
}
