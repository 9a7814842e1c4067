//! The list of stores, and nothing else: one feature and one line a store.

use plimsoll_core::StoreKind;

/// Every store that was built in, in the order in which they are listed.
pub fn kinds() -> Vec<Box<dyn StoreKind>> {
    vec![
        #[cfg(feature = "sqlite")]
        plimsoll_store_sqlite::kind(),
        #[cfg(feature = "fjall")]
        plimsoll_store_fjall::kind(),
        #[cfg(feature = "postgres")]
        plimsoll_store_postgres::kind(),
        #[cfg(feature = "mariadb")]
        plimsoll_store_mariadb::kind(),
        #[cfg(feature = "redis")]
        plimsoll_store_redis::kind(),
        #[cfg(feature = "http")]
        plimsoll_store_http::kind(),
        #[cfg(feature = "ldap")]
        plimsoll_store_ldap::kind(),
        #[cfg(feature = "null")]
        plimsoll_store_null::kind(),
    ]
}
