//! Contents of an entry: an `inetOrgPerson` (RFC 2798), a function of its number except for the description, which
//! identifies the writer.

use std::fmt::Write as _;

use plimsoll_core::{LdapCall, ValueBuf, ValueType, Version};

use crate::scramble::hash;

/// Fills a description up.
const FILLER: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyz ABCDEFGHIJKLMNOPQRSTUVWXYZ 0123456789";

/// Contents of entries.
#[derive(Debug, Clone)]
pub(super) struct Person {
    seed: u64,
    description_bytes: usize,
}

impl Person {
    pub fn new(seed: u64, description_bytes: usize) -> Self {
        Self { seed, description_bytes }
    }

    /// Appends an entry's parameters as [`add`] has them.
    pub fn push(&self, number: u64, version: Version, numbers: usize, params: &mut ValueBuf) {
        for _ in 0..numbers {
            params.push(plimsoll_core::Value::Int(number as i64));
        }
        params.push_text_with(|text| self.write_description(number, version, text));
    }

    /// Appends a description: who wrote it, and letters that differ from entry to entry.
    pub fn write_description(&self, number: u64, version: Version, text: &mut String) {
        let end = text.len() + self.description_bytes;
        // A text takes every write.
        let _ = match version {
            Version::Loaded => write!(text, "loaded "),
            Version::Written { client, cycle } => write!(text, "written {client} {cycle} "),
        };
        let mut at = hash(self.seed, number, version.stamp() as u64);
        while text.len() < end {
            text.push(char::from(FILLER[(at & 63) as usize]));
            at = at.rotate_right(6).wrapping_add(1);
        }
        text.truncate(end);
    }

    /// Bytes of an entry's values, on average.
    pub fn bytes(&self) -> u64 {
        // Names and numbers with four digits, and the four object classes.
        self.description_bytes as u64 + 170
    }
}

/// The add of the entry `dn`, whose first part is `name`=`value`, and the types of its parameters.
pub(super) fn add(dn: &str, name: &str, value: &str) -> (LdapCall, Vec<ValueType>) {
    let mut attributes: Vec<(&str, String)> = ["top", "person", "organizationalPerson", "inetOrgPerson"]
        .into_iter()
        .map(|class| ("objectClass", class.to_owned()))
        .collect();
    attributes.push((name, value.to_owned()));
    for (other, value) in [
        ("uid", "user.{}"),
        ("cn", "Person {}"),
        ("sn", "Surname{}"),
        ("givenName", "Given{}"),
        ("employeeNumber", "{}"),
        ("mail", "user.{}@example.com"),
        ("telephoneNumber", "+1 555 {}"),
    ] {
        if !name.eq_ignore_ascii_case(other) {
            attributes.push((other, value.to_owned()));
        }
    }
    let numbers = dn.matches("{}").count() + attributes.iter().filter(|(_, value)| value.contains("{}")).count();
    attributes.push(("description", "{}".to_owned()));
    let attributes = attributes.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    let mut types = vec![ValueType::Int; numbers];
    types.push(ValueType::Text);
    (LdapCall::Add { dn: dn.to_owned(), attributes }, types)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_says_who_wrote_it_and_is_as_long_as_asked() {
        let person = Person::new(1, 64);
        let described = |number, version| {
            let mut text = String::from("before");
            person.write_description(number, version, &mut text);
            text.split_off(6)
        };
        let written = described(4, Version::Written { client: 7, cycle: 1_000_000 });
        assert!(written.starts_with("written 7 1000000 ") && written.len() == 64 && written.is_ascii());
        assert!(described(4, Version::Loaded).starts_with("loaded "));
        assert_ne!(described(4, Version::Loaded), described(5, Version::Loaded));
        let longest = Version::Written { client: u32::MAX >> 9, cycle: (1 << 40) - 2 };
        let mut text = String::new();
        Person::new(1, 32).write_description(0, longest, &mut text);
        assert_eq!(text.len(), 32);
    }

    #[test]
    fn an_entry_has_its_name_once() {
        for name in ["uid", "cn", "UID"] {
            let (LdapCall::Add { attributes, .. }, types) = add("x=a.{},ou=b", name, "a.{}") else { panic!("an add") };
            assert_eq!(attributes.iter().filter(|(one, _)| one.eq_ignore_ascii_case(name)).count(), 1);
            assert_eq!(types.len(), 9, "{attributes:?}");
        }
        assert_eq!(add("o={}", "o", "{}").1.len(), 10);
    }
}
