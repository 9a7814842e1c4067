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
