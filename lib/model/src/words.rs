//! Enums with one word for each variant.

/// Defines an enum with a word for each variant: `ALL` in the order of definition, `word`, and `Display`. After an optional `else` follow
/// the error type of `FromStr` and a function that creates the error from the text.
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
            /// All variants, in order.
            pub const ALL: [$name; [$($word),+].len()] = [$($name::$variant),+];

            /// Its word.
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
