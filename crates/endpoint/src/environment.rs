//! Defaults from the process's environment for the parts that a URL omits.

use std::path::PathBuf;

/// Access to the process's environment.
pub struct Environment<'a> {
    /// The value of an environment variable.
    pub var: &'a dyn Fn(&str) -> Option<String>,
    /// The operating system's name of the user, if it has one.
    pub user: Option<String>,
}

impl Environment<'static> {
    /// Reads the environment of this process.
    pub fn of_process() -> Self {
        let var = &|name: &str| std::env::var(name).ok();
        Environment { var, user: user_name(rustix::process::geteuid().as_raw()).or_else(|| var("USER")) }
    }
}

impl Environment<'_> {
    /// The value of a variable that is set and not empty.
    pub fn get(&self, name: &str) -> Option<String> {
        (self.var)(name).filter(|value| !value.is_empty())
    }

    /// The user's own directory.
    pub fn home(&self) -> Option<PathBuf> {
        self.get("HOME").map(PathBuf::from)
    }
}

/// The system's name for a user, from /etc/passwd.
fn user_name(uid: u32) -> Option<String> {
    let text = std::fs::read_to_string("/etc/passwd").ok()?;
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid.to_string()).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_empty_is_not_set_and_root_has_a_name() {
        let environment =
            Environment { var: &|name| Some(if name == "HOME" { "/h" } else { "" }.to_owned()), user: None };
        assert_eq!((environment.home(), environment.get("OTHER")), (Some(PathBuf::from("/h")), None));
        assert_eq!(user_name(0).as_deref(), Some("root"));
    }
}
