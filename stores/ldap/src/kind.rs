//! The store as `stores/all` lists it.

use plimsoll_core::{
    ErrorCodes, Interface, OpenOptions, ParamSpec, Params, Reading, Recipe, SessionShape, SessionSpec, Store,
    StoreError, StoreKind, StoreSpec, Target, WriteKind, with_limits,
};
use plimsoll_endpoint::each_host;

use crate::endpoint::{self, Endpoint};
use crate::server::{SLAPD, SlapdRecipe};
use crate::store::{LdapStore, places, unit_of};

const PARAMS: [ParamSpec; 20] = with_limits([
    ParamSpec::int("threads", 2..=1024, "16", "threads of a private server that work on operations").of_private(),
    ParamSpec::bytes("maxsize", "16GiB", "most bytes of a private server's database; adds beyond it are refused")
        .of_private(),
    ParamSpec::text(
        "index",
        "objectClass,uid eq",
        "indexes of a private server in slapd.conf's syntax, separated by semicolons",
    )
    .of_private(),
    ParamSpec::one_of(
        "load",
        &["offline", "wire"],
        "method of loading a private server: slapadd while it is stopped, or adds over the wire",
    )
    .of_private(),
    ParamSpec::int(
        "load_threads",
        1..=64,
        "1",
        "threads of slapadd; more than 1 make it quick (-q): less is checked, and the file becomes as long as maxsize",
    )
    .of_private(),
    ParamSpec::flag("own_host", "a private server is on a host of its own, and operations come over a network")
        .of_private(),
    ParamSpec::one_of(
        "syncs",
        &["ask", "yes", "no"],
        "an attached server syncs a write before it answers: read from OpenLDAP's cn=config, or set here",
    ),
]);

static SPEC: StoreSpec = StoreSpec {
    name: "ldap",
    aliases: &["openldap"],
    summary: "any LDAP directory server, or a private OpenLDAP",
    schemes: &["ldap", "ldaps", "ldapi"],
    error_codes: ErrorCodes::Names,
    interfaces: &[Interface::Ldap],
    sessions: SessionSpec::new(SessionShape::Wire, 48 << 10),
    params: &PARAMS,
    packages: &["slapd"],
    write_kind: |path| if path.ends_with("data.mdb") { WriteKind::DataPages } else { WriteKind::Other },
    ..StoreSpec::PLAIN
};

/// LDAP directory servers.
pub fn kind() -> Box<dyn StoreKind> {
    Box::new(Ldap)
}

struct Ldap;

impl StoreKind for Ldap {
    fn spec(&self) -> &StoreSpec {
        &SPEC
    }

    fn installed(&self) -> Result<String, StoreError> {
        SLAPD.find().map(|program| program.display().to_string())
    }

    fn counters(&self, _: &Params) -> Vec<Reading> {
        vec![
            Reading::level("", "database_used", "B", 0.0),
            Reading::level("", "operations_pending", "", 0.0),
            Reading::total("", "operations_completed", "", 0.0),
        ]
    }

    fn announce(&self, options: &OpenOptions) -> Result<Vec<String>, StoreError> {
        let endpoints = resolve(&options.target)?;
        endpoints[0].tls_client()?;
        Ok(vec![
            format!("attaches to {}", places(&endpoints)),
            format!(
                "adds entries below {} under its base there, and deletes them afterwards",
                unit_of(&options.run_id)
            ),
            "changes no setting".to_owned(),
        ])
    }

    fn recipe(&self, params: &Params) -> Result<Option<Box<dyn Recipe>>, StoreError> {
        Ok(Some(Box::new(slapd(params))))
    }

    fn open(&self, options: OpenOptions, progress: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, StoreError> {
        let OpenOptions { target, params, run_id, waits } = options;
        let store = match target {
            Target::Servers(servers) => {
                LdapStore::private(servers, slapd(&params), params.text("load") != "wire", &waits)
            }
            target => {
                let syncs = match params.text("syncs") {
                    "yes" => Some(true),
                    "no" => Some(false),
                    _ => None,
                };
                LdapStore::attach(resolve(&target)?, &run_id, syncs, &waits, progress)?
            }
        };
        Ok(Box::new(store))
    }
}

/// Returns the servers of the target's URL: one for each of its hosts.
fn resolve(target: &Target) -> Result<Vec<Endpoint>, StoreError> {
    let (url, password) = target.url()?;
    each_host(url)?.iter().map(|url| endpoint::resolve(url, password)).collect()
}

fn slapd(params: &Params) -> SlapdRecipe {
    SlapdRecipe {
        threads: u32::try_from(params.int("threads")).unwrap_or(16),
        maxsize_bytes: params.int("maxsize").unsigned_abs().max(1 << 20),
        index: params.text("index").to_owned(),
        load_threads: u32::try_from(params.int("load_threads")).unwrap_or(1).max(1),
        own_host: params.bool("own_host"),
    }
}
