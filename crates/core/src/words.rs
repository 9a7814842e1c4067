//! Enums whose values have one word each: in plans, in recordings, in JSON and in reports.

/// Defines an enum and, once, the word of each of its values: what serde writes, what `name` gives and `named` takes.
#[macro_export]
macro_rules! words {
    ($(#[$about:meta])* pub enum $Name:ident { $($(#[$doc:meta])* $Value:ident = $word:literal,)* }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
        pub enum $Name { $($(#[$doc])* #[serde(rename = $word)] $Value,)* }

        impl $Name {
            /// All of them, in order.
            pub const ALL: [$Name; [$($word),*].len()] = [$($Name::$Value),*];

            /// Its word, as in plans, recordings and reports.
            pub fn name(self) -> &'static str {
                match self { $($Name::$Value => $word,)* }
            }

            /// The one with this word.
            pub fn named(word: &str) -> Option<$Name> {
                $Name::ALL.into_iter().find(|one| one.name() == word)
            }
        }
    };
}
