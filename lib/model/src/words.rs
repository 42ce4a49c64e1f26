//! Enums of which each variant has one word.

/// Defines an enum with a word for each variant: `ALL` in the order of definition, `word`, and `Display`.
/// Behind `else` stand the error of `FromStr` and a function that makes it of the text.
///
/// ```
/// millpond_model::words! {
///     /// A fruit.
///     #[derive(Debug, Clone, Copy, PartialEq)]
///     pub enum Fruit {
///         /// It keeps.
///         Apple = "apple",
///         /// It does not.
///         Plum = "plum",
///     }
///     else String, |text| text
/// }
/// assert_eq!("plum".parse(), Ok(Fruit::Plum));
/// assert_eq!(Fruit::ALL.map(Fruit::word), ["apple", "plum"]);
/// ```
#[macro_export]
macro_rules! words {
    (
        $(#[$meta:meta])*
        pub enum $name:ident { $($(#[$doc:meta])* $variant:ident = $word:literal,)+ }
        $(else $error:ty, $make:expr)?
    ) => {
        $(#[$meta])*
        pub enum $name { $($(#[$doc])* $variant,)+ }

        impl $name {
            /// All of them, in order.
            pub const ALL: [$name; [$($word),+].len()] = [$($name::$variant),+];

            /// The word for it.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)+
                }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.pad(self.word())
            }
        }

        $(
            impl ::std::str::FromStr for $name {
                type Err = $error;

                fn from_str(text: &str) -> Result<Self, $error> {
                    let found = $name::ALL.into_iter().find(|one| one.word() == text);
                    found.ok_or_else(|| ($make)(text.to_owned()))
                }
            }
        )?
    };
}
