//! The store: attached or private, what it makes, and what it can be asked.

use std::fs::File;
use std::sync::Arc;
use std::time::Instant;

use plimsoll_core::{
    CacheSize, Durability, Footprint, KindId, Layout, LdapCall, LdapChange, LdapChangeKind, LdapScope, Nodes, OpKind,
    Outcome, Probe, Reading, Removal, Servers, Sessions, Setting, Store, StoreDescription, StoreError, StoreErrorKind,
    Value, ValueBuf, Waits, WireClient, WireSession, is_run_id,
};
use plimsoll_endpoint::{Branched, Link};

use crate::control::{Control, refused};
use crate::dn;
use crate::endpoint::{Endpoint, Identity, Login};
use crate::ldif;
use crate::offline;
use crate::request::{Request, entries};
use crate::server::{BASE, SlapdRecipe};
use crate::start_tls;
use crate::wire::LdapSession;

/// The private server's database in its own configuration.
const OWN_DATABASE: &str = "olcDatabase={1}mdb,cn=config";
const OWN_MONITOR: &str = "cn=Database 1,cn=Databases,cn=Monitor";
/// Bytes of a page of LMDB: the machine's.
const PAGE_BYTES: u64 = 4096;
/// Entry above the workload's entries.
const PEOPLE: &str = "ou=People";
/// Beginning of the DNs of runs in attached servers.
const UNIT: &str = "ou=plimsoll-";
/// Finds what earlier runs left.
const UNITS: &str = "(&(objectClass=organizationalUnit)(ou=plimsoll-*))";

/// The entry below the base under which a run's entries are in an attached server.
pub(crate) fn unit_of(run_id: &str) -> String {
    let plain: String = run_id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    format!("{UNIT}{plain}")
}

/// Reports whether an entry has the DN of a run's.
fn is_of_run(dn: &str) -> bool {
    dn.strip_prefix(UNIT).and_then(|rest| rest.split(',').next()).is_some_and(is_run_id)
}

pub(crate) struct LdapStore {
    /// The private server, and what it was told; `None` when attached.
    own: Option<(Arc<dyn Servers>, SlapdRecipe)>,
    /// Servers of one directory, which sessions are dealt to in turn; a private one alone.
    endpoints: Vec<Endpoint>,
    /// Login at the first.
    login: Arc<Login>,
    control: Link<Control>,
    /// The directory's base.
    base: String,
    /// Relative to it, what is made in an attached server.
    unit: String,
    /// True after the entry was made.
    is_made: bool,
    /// A private server is loaded while it is stopped.
    loads_offline: bool,
    /// Limits of what waits for the server.
    waits: Waits,
    /// True if an attached server syncs writes; `None` if the caller does not know.
    syncs: Option<bool>,
}

impl LdapStore {
    pub fn private(server: Arc<dyn Servers>, settings: SlapdRecipe, loads_offline: bool, waits: &Waits) -> Self {
        let endpoint = settings.endpoint(&server.first());
        Self { loads_offline, ..Self::new(Some((server, settings)), vec![endpoint], String::new(), waits) }
    }

    pub fn attach(
        endpoints: Vec<Endpoint>,
        run_id: &str,
        syncs: Option<bool>,
        waits: &Waits,
        progress: &mut dyn FnMut(&str),
    ) -> Result<Self, StoreError> {
        let mut store = Self::new(None, endpoints, unit_of(run_id), waits);
        store.syncs = syncs;
        let place = store.login.place.clone();
        store.control.get()?;
        if store.base.is_empty() {
            let root = store.control.get()?.entry("", &["namingContexts"])?;
            let base = root.and_then(|values| values.into_iter().next()).filter(|base| !base.is_empty());
            store.base = base.ok_or_else(|| {
                let what = format!("{place} does not say which base it has");
                StoreError::usage(what).next("Write it into the URL: ldap://host/dc=example,dc=com")
            })?;
            progress(&format!("{place} has the base {}", store.base));
        }
        let base = store.base.clone();
        let units = store.control.get()?.entries(&base, LdapScope::One, UNITS, &["ou"])?;
        for (dn, _) in units.into_iter().filter(|(dn, _)| is_of_run(dn)) {
            progress(&Removal::note(&dn, store.removal(&dn).as_ref()));
        }
        Ok(store)
    }

    /// `endpoints` are not empty.
    fn new(
        own: Option<(Arc<dyn Servers>, SlapdRecipe)>,
        endpoints: Vec<Endpoint>,
        unit: String,
        waits: &Waits,
    ) -> Self {
        let login = Arc::new(endpoints[0].login.clone());
        let base = login.base.clone();
        let connect = {
            let (endpoints, waits) = (endpoints.clone(), waits.clone());
            move || open_first(&endpoints, &waits)
        };
        Self {
            control: Link::new(own.as_ref().map(|(server, _)| (Arc::clone(server), Nodes::All)), connect),
            own,
            endpoints,
            login,
            base,
            unit,
            is_made: false,
            loads_offline: false,
            waits: waits.clone(),
            syncs: None,
        }
    }

    /// Returns the command that deletes a run's entry, with all entries below, from an attached server.
    fn removal(&self, dn: &str) -> Option<Removal> {
        if self.own.is_some() {
            return None;
        }
        let (scheme, rest) = self.login.place.split_once("://")?;
        let (host, _) = rest.split_once('/')?;
        let url = format!("{scheme}://{host}");
        let mut words = vec!["ldapdelete", "-H", &url];
        if self.login.starts_tls {
            words.push("-ZZ");
        }
        match &self.login.identity {
            Identity::Anonymous => words.push("-x"),
            Identity::Simple { dn, .. } => words.extend(["-x", "-D", dn, "-W"]),
            Identity::External => words.extend(["-Y", "EXTERNAL"]),
        }
        words.extend(["-r", dn]);
        Removal::new(&words, &url, dn)
    }

    /// Base that is appended to the DNs of operations.
    fn operations_base(&self) -> String {
        match self.own.is_none() && self.is_made {
            true => dn::below(&self.unit, &self.base),
            false => self.base.clone(),
        }
    }

    /// Deletes our entry in an attached server with everything below it, the lowest first.
    fn clear(&mut self) -> Result<(), StoreError> {
        let (unit, place) = (dn::below(&self.unit, &self.base), self.login.place.clone());
        let (waits, began) = (self.waits.clone(), Instant::now());
        let control = self.control.get()?;
        loop {
            waits.check_whole(began, &format!("the removal of entries below {unit}"))?;
            let (outcome, answer) = control.ask(&entries(unit.clone(), LdapScope::Sub))?;
            match outcome {
                Outcome::NotFound => return Ok(()),
                Outcome::Ok if answer.rows == 0 => return Ok(()),
                Outcome::Ok => {}
                // Servers that limit how many entries a search finds are asked again.
                _ if answer.rows > 0 => {}
                _ => return Err(refused(&place, &format!("search entries below {unit}"), outcome, &answer)),
            }
            let text = |value: Value<'_>| if let Value::Text(dn) = value { dn.to_owned() } else { String::new() };
            let mut dns: Vec<String> = answer.row_iter().map(|row| text(row.get(0))).collect();
            dns.sort_by_key(|dn| std::cmp::Reverse(dn.matches(',').count()));
            let mut progressed = false;
            for level in dns.chunk_by(|a, b| a.matches(',').count() == b.matches(',').count()) {
                let calls: Vec<LdapCall> = level.iter().map(|dn| LdapCall::Delete { dn: dn.clone() }).collect();
                for (outcome, answer) in control.ask_all(&calls)? {
                    match (outcome, answer.code.as_str()) {
                        (Outcome::Ok | Outcome::NotFound, _) => progressed = true,
                        // Some of what is below it was not found yet.
                        (_, "notAllowedOnNonLeaf") => {}
                        _ => return Err(refused(&place, &format!("delete entries below {unit}"), outcome, &answer)),
                    }
                }
            }
            if !progressed {
                let what = format!("{place} neither deletes nor refuses to delete entries below {unit}");
                return Err(StoreError::broken(what));
            }
        }
    }

    /// Reports whether an attached server is as durable as requested; `None` if that is unknown.
    fn is_durable_there(&mut self, durability: Durability) -> Result<Option<bool>, StoreError> {
        if matches!(durability, Durability::AtEnd | Durability::AsConfigured) {
            return Ok(Some(true));
        }
        // What survives power loss survives the process.
        Ok(self.syncs_there()?.map(|syncs| syncs || durability == Durability::Buffered))
    }

    /// Reports whether an attached server syncs each write; `None` if that is unknown.
    fn syncs_there(&mut self) -> Result<Option<bool>, StoreError> {
        Ok(match self.syncs {
            Some(syncs) => Some(syncs),
            None => {
                let filter = format!("(&(objectClass=olcMdbConfig)(olcSuffix={}))", filter_value(&self.base));
                let found = self.control.get()?.entries("cn=config", LdapScope::One, &filter, &["olcDbNoSync"])?;
                found.first().map(|(_, values)| values.first().is_none_or(|value| value != "TRUE"))
            }
        })
    }

    fn not_durable(&self, durability: Durability) -> StoreError {
        let what =
            format!("{} does not sync writes before it answers: it is not {}", self.login.place, durability.name());
        StoreError::usage(what)
            .detail("olcDbNoSync is TRUE there, or ldap.syncs is no")
            .next("Ask for durability `as-configured`, or set olcDbNoSync to FALSE.")
    }

    /// Switches the private server's syncs.
    fn set_sync(&mut self, durability: Durability) -> Result<(), StoreError> {
        let value = if is_synced(durability) { "FALSE" } else { "TRUE" };
        let change = LdapChange {
            how: LdapChangeKind::Replace,
            attribute: "olcDbNoSync".to_owned(),
            value: Some(value.to_owned()),
        };
        let call = LdapCall::Modify { dn: OWN_DATABASE.to_owned(), changes: vec![change] };
        self.control.get()?.must(&call, "set olcDbNoSync")
    }
}

/// Returns the addresses of servers for messages.
pub(crate) fn places(endpoints: &[Endpoint]) -> String {
    endpoints.iter().map(|endpoint| endpoint.login.place.as_str()).collect::<Vec<_>>().join(", ")
}

/// Connects to the first server that can be reached.
fn open_first(endpoints: &[Endpoint], waits: &Waits) -> Result<Control, StoreError> {
    let (last, others) = endpoints.split_last().ok_or_else(|| StoreError::usage("the URL names no host"))?;
    for endpoint in others {
        match Control::open(endpoint, waits) {
            Err(error) if error.kind == StoreErrorKind::Unreachable => {}
            opened => return opened,
        }
    }
    Control::open(last, waits)
}

/// Reports whether the private server syncs each write for `durability`, as by its default.
fn is_synced(durability: Durability) -> bool {
    matches!(durability, Durability::Durable | Durability::AsConfigured)
}

/// A value as a filter has it.
fn filter_value(value: &str) -> String {
    let escape = |c: char| match c {
        '*' | '(' | ')' | '\\' | '{' => format!("\\{:02x}", c as u32),
        c => c.to_string(),
    };
    value.chars().map(escape).collect()
}

fn add(dn: String, attributes: &[(&str, &str)]) -> LdapCall {
    let attributes = attributes.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    LdapCall::Add { dn, attributes }
}

/// An entry that holds others.
fn unit(dn: String, name: &str) -> LdapCall {
    add(dn, &[("objectClass", "organizationalUnit"), ("ou", name)])
}

impl Store for LdapStore {
    fn describe(&mut self) -> Result<StoreDescription, StoreError> {
        let is_private = self.own.is_some();
        let place = if is_private { "private server".to_owned() } else { places(&self.endpoints) };
        let control = self.control.get()?;
        let root = control.entry("", &["vendorName", "vendorVersion", "monitorContext"])?.unwrap_or_default();
        let of = |at: usize| root.get(at).cloned().unwrap_or_default();
        let mut version = format!("{} {}", of(0), of(1)).trim().to_owned();
        if version.is_empty() && !of(2).is_empty() {
            // OpenLDAP: `OpenLDAP: slapd 2.5.13+dfsg-5 (Feb  8 2023 01:56:12)`.
            let monitor = control.entry(&of(2), &["monitoredInfo"])?.unwrap_or_default();
            version = monitor.into_iter().next().unwrap_or_default().replacen("OpenLDAP: slapd", "OpenLDAP", 1);
        }
        if version.is_empty() {
            version = "a server that does not say which".to_owned();
        }
        let mut settings = Vec::new();
        if let Some((_, own)) = &self.own {
            settings.push(Setting::ours("dbnosync", "FALSE for durable, TRUE for buffered and at-end", "FALSE"));
            settings.push(Setting::ours("index", own.index.clone(), "none"));
            settings.push(Setting::ours("maxsize", own.maxsize_bytes.to_string(), "10485760"));
            if own.load_threads != 1 {
                settings.push(Setting::ours("tool-threads", own.load_threads.to_string(), "1"));
            }
            if own.own_host {
                settings.push(Setting::ours("own_host", "true", "false"));
            }
            if own.threads != 16 {
                settings.push(Setting::ours("threads", own.threads.to_string(), "16"));
            }
        }
        Ok(StoreDescription { version: version.trim().to_owned(), place, settings })
    }

    fn settings_in_force(&mut self, durability: Durability) -> Result<Option<Vec<Setting>>, StoreError> {
        if self.own.is_none() {
            return Ok(None);
        }
        self.set_sync(durability)?;
        let found = self.control.get()?.entry(OWN_DATABASE, &["olcDbNoSync"])?.unwrap_or_default();
        let mut settings = self.describe()?.settings;
        for setting in settings.iter_mut().filter(|setting| setting.name == "dbnosync") {
            setting.value = found.first().cloned().unwrap_or_default();
        }
        Ok(Some(settings))
    }

    fn demand(&mut self, durability: Durability) -> Result<(), StoreError> {
        match if self.own.is_some() { Some(true) } else { self.is_durable_there(durability)? } {
            Some(true) => Ok(()),
            Some(false) => Err(self.not_durable(durability)),
            None => Err(StoreError::usage(format!("{} does not say whether it syncs writes", self.login.place))
                .next("Bind as a user that may read its configuration, or ask for durability `as-configured`.")),
        }
    }

    fn promise(&mut self) -> Result<String, StoreError> {
        let syncs = match &self.own {
            None => self.syncs_there()?,
            Some(_) => {
                let found = self.control.get()?.entry(OWN_DATABASE, &["olcDbNoSync"])?.unwrap_or_default();
                Some(found.first().is_none_or(|value| value != "TRUE"))
            }
        };
        let what = match syncs {
            Some(true) => {
                "The directory syncs each write before it answers: by that setting an acknowledged write survives power loss."
            }
            Some(false) => {
                "The directory does not sync writes (olcDbNoSync): an acknowledged write survives the process, \
                            not power loss."
            }
            None => {
                "The directory does not tell whether it syncs writes: durability of acknowledged writes is unknown."
            }
        };
        Ok(what.to_owned())
    }

    fn create(&mut self, _: &Layout) -> Result<(), StoreError> {
        let base = self.base.clone();
        if let Some((server, _)) = &self.own {
            if self.is_made {
                self.control.hang_up();
                offline::empty(&**server)?;
            }
            self.set_sync(Durability::AtEnd)?;
            let root = add(
                BASE.to_owned(),
                &[("objectClass", "dcObject"), ("objectClass", "organization"), ("dc", "example"), ("o", "Example")],
            );
            self.control.get()?.must(&root, "add the base")?;
            self.control.get()?.must(&unit(dn::below(PEOPLE, &base), "People"), "add ou=People")?;
        } else {
            self.is_made = true;
            self.clear()?;
            let own = dn::below(&self.unit, &base);
            let name = self.unit.trim_start_matches("ou=").to_owned();
            let control = self.control.get()?;
            control.must(&unit(own.clone(), &name), &format!("add {own}"))?;
            control.must(&unit(dn::below(PEOPLE, &own), "People"), &format!("add {PEOPLE},{own}"))?;
        }
        self.is_made = true;
        Ok(())
    }

    fn sessions(&mut self, count: u32, durability: Durability) -> Result<Sessions, StoreError> {
        let may_write = if self.own.is_some() {
            self.set_sync(durability)?;
            true
        } else {
            match self.is_durable_there(durability)? {
                Some(false) => return Err(self.not_durable(durability)),
                known => known.is_some(),
            }
        };
        let tls = self.endpoints[0].tls_client()?;
        let base = self.operations_base();
        let logins: Vec<_> = self.endpoints.iter().map(|endpoint| Arc::new(endpoint.login.clone())).collect();
        let to = |at: usize| -> Result<WireClient, StoreError> {
            let endpoint = &self.endpoints[at];
            let plain = LdapSession::new(Arc::clone(&logins[at]), base.as_str(), may_write);
            let session: Box<dyn WireSession> = match &tls {
                None => Box::new(plain),
                tls => Box::new(start_tls::around(plain, tls.clone(), endpoint)?),
            };
            Ok(WireClient { address: endpoint.address.clone(), session })
        };
        let servers = self.endpoints.len();
        let client = |number: u32| {
            let clients = (0..servers).map(|at| to((number as usize + at) % servers));
            clients.collect::<Result<Vec<_>, StoreError>>().map(Branched::in_turn)
        };
        Ok(Sessions::Wire((0..count).map(client).collect::<Result<_, StoreError>>()?))
    }

    fn load_at_once(
        &mut self,
        kinds: &[OpKind],
        durability: Durability,
        next: &mut dyn FnMut(&mut ValueBuf) -> Option<KindId>,
    ) -> Result<Option<String>, StoreError> {
        let base = self.operations_base();
        let Some((server, recipe)) = self.own.as_ref().filter(|_| self.loads_offline) else { return Ok(None) };
        self.control.hang_up();
        let mut entries: u64 = 0;
        offline::add(&**server, is_synced(durability), recipe.load_threads > 1, |file| {
            let requests = kinds.iter().map(|kind| Request::new(kind, &base)).collect::<Result<Vec<_>, _>>()?;
            let (mut params, mut message, mut text) = (ValueBuf::new(), Vec::new(), String::new());
            while let Some(kind) = next(&mut params) {
                message.clear();
                text.clear();
                let request = requests.get(usize::from(kind));
                request.inspect(|request| request.template.write(1, params.values(), &mut message));
                ldif::push(&mut text, &message).map_err(|_| {
                    StoreError::usage("a load of a directory adds entries and nothing else")
                        .next("Load it over the wire: --set ldap.load=wire")
                })?;
                file.write_all(text.as_bytes()).map_err(|error| StoreError::io("the file for slapadd", &error))?;
                entries += 1;
                params.clear();
            }
            Ok(())
        })?;
        Ok(Some(format!("offline: slapadd of {entries} entries while the server was stopped")))
    }

    fn sync(&mut self) -> Result<(), StoreError> {
        // The server writes what it acknowledges; the kernel needs to be told to keep it.
        let Some((server, _)) = &self.own else { return Ok(()) };
        let file = offline::data_file(&server.first());
        File::open(&file).and_then(|open| open.sync_all()).map_err(|error| StoreError::io(file.display(), &error))
    }

    fn disconnect(&mut self) -> Result<(), StoreError> {
        self.control.hang_up();
        Ok(())
    }

    fn footprint(&mut self) -> Result<Footprint, StoreError> {
        let Some((server, _)) = &self.own else { return Ok(Footprint::default()) };
        let file = offline::data_file(&server.first());
        let file_bytes = file.metadata().map_err(|error| StoreError::io(file.display(), &error))?.len();
        let pages =
            self.control.get()?.entry(OWN_MONITOR, &["olmMDBPagesUsed", "olmMDBPagesFree"])?.unwrap_or_default();
        let number = |at: usize| pages.get(at).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
        let data_bytes = number(0).saturating_sub(number(1)) * PAGE_BYTES;
        Ok(Footprint { data_bytes, index_bytes: None, total_bytes: Some(file_bytes) })
    }

    fn cache_bytes(&mut self) -> Result<Option<CacheSize>, StoreError> {
        // LMDB reads its map. Which database an attached server has is not asked.
        Ok(self.own.as_ref().map(|_| CacheSize::PageCache))
    }

    fn check_integrity(&mut self) -> Result<Option<String>, StoreError> {
        self.own.as_ref().map(|(servers, _)| offline::read_all(&**servers)).transpose()
    }

    fn probes(&mut self) -> Vec<Probe> {
        self.own.iter().map(|_| self.control.probe(read_counters)).collect()
    }

    fn close(&mut self) -> Result<(), StoreError> {
        if !std::mem::take(&mut self.is_made) {
            return Ok(());
        }
        let unit = dn::below(&self.unit, &self.base);
        self.clear().map_err(|error| error.leaves(format!("{unit} at {}", self.login.place), self.removal(&unit)))
    }
}

/// Reads the counters of slapd.
fn read_counters(control: &mut Control) -> Result<Vec<Reading>, StoreError> {
    let number = |values: Option<Vec<String>>| {
        values.and_then(|values| values.first().and_then(|text| text.parse::<f64>().ok())).unwrap_or(0.0)
    };
    let pages = number(control.entry(OWN_MONITOR, &["olmMDBPagesUsed"])?);
    let pending = number(control.entry("cn=Pending,cn=Threads,cn=Monitor", &["monitoredInfo"])?);
    let done = number(control.entry("cn=Operations,cn=Monitor", &["monitorOpCompleted"])?);
    Ok(vec![
        Reading::level("", "database_used", "B", pages * PAGE_BYTES as f64),
        Reading::level("", "operations_pending", "", pending),
        Reading::total("", "operations_completed", "", done),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_an_entry_of_its_own() {
        assert_eq!(unit_of("2026-11-22 a,b=c"), "ou=plimsoll-2026-11-22-a-b-c");
        assert_eq!(filter_value("o=a*(b)\\{}"), "o=a\\2a\\28b\\29\\5c\\7b}");
    }
}
