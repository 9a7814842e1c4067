//! Addresses that lead to several servers, as that of a proxy in front of them does.

use plimsoll_core::StoreError;

/// Further connections whose server is asked for its name.
const LOOKS: usize = 3;

/// Refuses an address of several servers, because what is `made` there, such as `keys`, would be removed from some of them
/// only. `name` is that of the control connection's server; `ask` connects again, and returns the name of that server.
///
/// # Errors
/// Errors of `ask`; `Usage` if a connection leads to another server.
pub fn must_be_one_server(
    place: &str,
    made: &str,
    name: &str,
    mut ask: impl FnMut() -> Result<String, StoreError>,
) -> Result<(), StoreError> {
    for _ in 0..LOOKS {
        let other = ask()?;
        if other != name {
            return Err(StoreError::usage(format!("{place} leads to several servers, and {made} would stay on some"))
                .detail(format!("one connection leads to {name}, and another one to {other}"))
                .next("Name one of them in the URL, or all servers of one cluster."));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use plimsoll_core::StoreErrorKind;

    use super::*;

    #[test]
    fn a_server_that_is_met_once_in_four_connections_is_refused_and_one_alone_is_not() {
        let asked = |names: [&str; 3]| {
            let mut names = names.into_iter().map(str::to_owned);
            must_be_one_server("kv://front", "keys", "a", || Ok(names.next().expect("a fourth look")))
        };
        assert_eq!(asked(["a"; 3]), Ok(()));
        let error = asked(["a", "a", "b"]).expect_err("another server");
        assert_eq!(error.kind, StoreErrorKind::Usage);
        assert_eq!(error.what, "kv://front leads to several servers, and keys would stay on some");
        assert_eq!(error.detail.as_deref(), Some("one connection leads to a, and another one to b"));
        let lost = must_be_one_server("p", "keys", "a", || Err(StoreError::broken("lost")));
        assert_eq!(lost, Err(StoreError::broken("lost")));
    }
}
