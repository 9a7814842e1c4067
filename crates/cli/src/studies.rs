//! The built-in plans: one TOML file each in `studies/`, part of the program.

/// A built-in plan.
pub struct Study {
    /// Name as in `plimsoll run NAME`.
    pub name: &'static str,
    /// Its TOML.
    pub text: &'static str,
}

/// All studies, in the order in which they are listed.
pub const ALL: &[Study] = &[Study { name: "coupons", text: include_str!("../../../studies/coupons.toml") }];

/// The study of this name.
pub fn find(name: &str) -> Option<&'static Study> {
    ALL.iter().find(|study| study.name == name)
}
