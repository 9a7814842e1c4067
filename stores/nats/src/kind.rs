//! The store as `stores/all` lists it.

use plimsoll_core::{
    Durability, ErrorCodes, Interface, OpenOptions, ParamSpec, Params, Reading, Recipe, SessionShape, SessionSpec,
    Store, StoreError, StoreKind, StoreSpec, WriteKind, with_limits,
};
use plimsoll_endpoint::equals::{Addresses, Equals, NODES};

use crate::bucket::bucket_of;
use crate::control::Control;
use crate::server::{NATS, NatsRecipe, SERVER, SYNC_INTERVAL};
use crate::store::{NatsStore, Wanted};

const PARAMS: [ParamSpec; 17] = with_limits([
    NODES,
    ParamSpec::int("replicas", 1..=5, "3", "copies of a bucket that is made, at most one on each server"),
    ParamSpec::one_of(
        "reads",
        &["leader", "any"],
        "who answers reads: the bucket's leader, or any copy of it, which may be behind",
    ),
    ParamSpec::text(
        "sync_interval",
        SYNC_INTERVAL,
        "how often a private server syncs what it has acknowledged; `always`, before it acknowledges, from NATS 2.10 on",
    )
    .of_private(),
]);

static SPEC: StoreSpec = StoreSpec {
    name: "nats",
    summary: "NATS' key-value store over JetStream, private servers or a cluster that runs already",
    schemes: &NATS.schemes,
    error_codes: ErrorCodes::Numbers,
    interfaces: &[Interface::Kv],
    durabilities: &[Durability::Buffered],
    sessions: SessionSpec::new(SessionShape::Async, 40 << 10),
    params: &PARAMS,
    packages: &["nats-server"],
    write_kind: |path| if path.ends_with(".blk") { WriteKind::Log } else { WriteKind::Other },
    password_places: "--password-file, or nats://USER:@HOST and NATS_PASSWORD",
    ..StoreSpec::PLAIN
};

/// NATS.
pub fn kind() -> Box<dyn StoreKind> {
    Box::new(Nats)
}

struct Nats;

fn number(params: &Params, name: &str) -> usize {
    usize::try_from(params.int(name)).unwrap_or(1).max(1)
}

impl StoreKind for Nats {
    fn spec(&self) -> &StoreSpec {
        &SPEC
    }

    fn installed(&self) -> Result<String, StoreError> {
        SERVER.find().map(|program| program.display().to_string())
    }

    fn counters(&self, params: &Params) -> Vec<Reading> {
        let mut all = vec![
            Reading::level("", "stored", "B", 0.0),
            Reading::total("", "api_requests", "", 0.0),
            Reading::total("", "api_errors", "", 0.0),
            Reading::total("", "last_seq", "", 0.0),
            Reading::level("", "messages", "", 0.0),
        ];
        if number(params, "replicas") > 1 {
            all.push(Reading::level("", "lag", "", 0.0));
        }
        all
    }

    fn announce(&self, options: &OpenOptions) -> Result<Vec<String>, StoreError> {
        let addresses = Addresses::of_target(&NATS, &options.target)?;
        addresses.tls_client()?;
        Ok(vec![
            format!("attaches to {}", addresses.place),
            format!("makes the bucket {} there, and deletes it afterwards", bucket_of(&options.run_id)),
        ])
    }

    fn recipe(&self, params: &Params) -> Result<Option<Box<dyn Recipe>>, StoreError> {
        let (nodes, copies) = (number(params, NODES.name), number(params, "replicas"));
        Ok(Some(Box::new(NatsRecipe::new(nodes, copies, params.text("sync_interval"))?)))
    }

    fn open(&self, options: OpenOptions, progress: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, StoreError> {
        let OpenOptions { target, params, run_id, waits } = options;
        let wanted = Wanted {
            replicas: number(&params, "replicas"),
            any_reads: params.text("reads") == "any",
            sync_interval: params.text("sync_interval").to_owned(),
        };
        let cluster = Equals::of_target(&NATS, &target, None, Control::open, &waits)?;
        Ok(Box::new(NatsStore::open(cluster, wanted, &run_id, waits, progress)?))
    }
}
