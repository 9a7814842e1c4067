//! The list of stores, and nothing else: one line a store.

use plimsoll_core::StoreKind;

/// Every store, in the order in which they are listed.
pub fn kinds() -> Vec<Box<dyn StoreKind>> {
    vec![
        plimsoll_store_sqlite::kind(),
        plimsoll_store_fjall::kind(),
        plimsoll_store_postgres::kind(),
        plimsoll_store_mariadb::kind(),
        plimsoll_store_redis::kind(),
        plimsoll_store_etcd::kind(),
        plimsoll_store_nats::kind(),
        plimsoll_store_http::kind(),
        plimsoll_store_ldap::kind(),
        plimsoll_store_null::kind(),
    ]
}
