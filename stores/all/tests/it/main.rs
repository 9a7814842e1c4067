//! Specifications of all stores hold, and the book agrees with them.

mod tables;

/// `cargo xtask test` installs what this names.
#[test]
fn what_stores_need_is_installed() {
    let mut all = true;
    for kind in plimsoll_stores::kinds() {
        if let Err(missing) = kind.installed() {
            all = false;
            let spec = kind.spec();
            spec.packages.iter().for_each(|package| println!("needs\t{package}\t{}: {missing}", spec.name));
        }
    }
    assert!(all, "install these packages");
}

#[test]
fn settings_that_make_cycles_rarer_are_parameters_of_their_store() {
    for kind in plimsoll_stores::kinds() {
        let spec = kind.spec();
        for (counter, setting) in spec.rarer_cycles {
            let (name, value) = setting.split_once('=').unwrap_or_default();
            let param = spec.params.iter().find(|param| param.name == name);
            assert!(param.is_some_and(|param| param.default != value), "{}, {counter}: {setting}", spec.name);
        }
    }
}
