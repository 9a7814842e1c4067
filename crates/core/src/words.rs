//! Enums whose values have one word each, used in plans, recordings, JSON and reports.

/// Defines an enum and, once, the word of each value: serde writes it, `name` returns it and `named` parses it.
#[macro_export]
macro_rules! words {
    ($(#[$about:meta])* pub enum $Name:ident { $($(#[$doc:meta])* $Value:ident = $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        pub enum $Name { $($(#[$doc])* #[serde(rename = $word)] $Value,)* }

        impl $Name {
            /// All values, in order.
            pub const ALL: [$Name; [$($word),*].len()] = [$($Name::$Value),*];

            /// The value's word in plans, recordings and reports.
            pub fn name(self) -> &'static str {
                match self { $($Name::$Value => $word,)* }
            }

            /// Finds the value with this word.
            pub fn named(word: &str) -> Option<$Name> {
                $Name::ALL.into_iter().find(|one| one.name() == word)
            }
        }
    };
}
