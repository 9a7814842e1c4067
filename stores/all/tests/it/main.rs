//! What stores say of themselves is so, and the book says the same.

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
    for kind in plimsoll_stores::kinds() {
        for preset in kind.spec().presets {
            if let Err(missing) = kind.recipe(&plimsoll_plan::defaults_but(kind.spec().params, preset.params)) {
                all = false;
                preset.packages.iter().for_each(|package| println!("needs\t{package}\t{}: {missing}", preset.name));
            }
        }
    }
    assert!(all, "install these packages");
}
