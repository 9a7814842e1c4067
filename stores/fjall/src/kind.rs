//! What fjall says of itself before it is opened.

use plimsoll_core::{
    Durability, IndexMode, Interface, OpenOptions, ParamSpec, ParamType, Store, StoreError, StoreErrorKind, StoreKind,
    StoreSpec, Target,
};

use crate::store::FjallStore;

/// The kind that the list of stores has.
pub fn kind() -> Box<dyn StoreKind> {
    Box::new(FjallKind)
}

struct FjallKind;

static SPEC: StoreSpec = StoreSpec {
    name: "fjall",
    summary: "fjall, an embedded log-structured key-value store; indexes by keyindex",
    schemes: &[],
    private: true,
    interfaces: &[Interface::Kv, Interface::KvScan, Interface::Records],
    durabilities: &[Durability::Durable, Durability::Buffered, Durability::AtEnd],
    dialect: None,
    index_modes: &[IndexMode::None, IndexMode::Keyindex],
    concurrent: true,
    keeps_data: true,
    params: &[ParamSpec {
        name: "cache",
        param_type: ParamType::Bytes,
        default: "32MiB",
        summary: "Size of the cache of blocks read from disk",
    }],
    packages: &[],
};

/// fjall's own default, and that of the parameter.
pub(crate) const CACHE_BYTES_DEFAULT: u64 = 32 << 20;

impl StoreKind for FjallKind {
    fn spec(&self) -> &StoreSpec {
        &SPEC
    }

    fn announce(&self, options: &OpenOptions) -> Result<Vec<String>, StoreError> {
        Ok(match &options.target {
            Target::Private { data_dir, .. } => {
                vec![format!("makes an embedded fjall database under {} and removes it afterwards", data_dir.display())]
            }
            Target::Attach { .. } => Vec::new(),
        })
    }

    fn open(&self, options: OpenOptions, _progress: &mut dyn FnMut(&str)) -> Result<Box<dyn Store>, StoreError> {
        let Target::Private { data_dir, .. } = &options.target else {
            return Err(StoreError::new(StoreErrorKind::Usage, "fjall is embedded: there is none to attach to")
                .next("Name it without a URL: `--on fjall`."));
        };
        let cache_bytes = match options.params.int("cache") {
            0 => CACHE_BYTES_DEFAULT,
            bytes => u64::try_from(bytes).map_err(|_| {
                StoreError::new(StoreErrorKind::Usage, format!("fjall: a cache of {bytes} bytes is none"))
            })?,
        };
        Ok(Box::new(FjallStore::open(data_dir, cache_bytes)?))
    }
}
