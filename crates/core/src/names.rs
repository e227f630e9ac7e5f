//! Enums with wire names: one list gives the variants, their names on the wire and what each one means.

/// An enum declared by `names!`: every variant has a wire name and a meaning.
pub trait Named: Copy + Eq + 'static {
    /// Every variant, in the order of its declaration.
    const ALL: &'static [Self];

    /// The name on the wire, exactly as the design document spells it.
    fn as_str(self) -> &'static str;

    /// The variant's doc comment: what documentation, API and `why` say about it.
    fn meaning(self) -> &'static str;
}

/// A name that is not one of an enum's wire names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName {
    /// The given value.
    pub given: String,
    /// The accepted values.
    pub expected: Vec<&'static str>,
}

impl std::fmt::Display for UnknownName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "unknown value {:?}, expected one of: {}", self.given, self.expected.join(", "))
    }
}

impl std::error::Error for UnknownName {}

/// Declares an enum whose variants carry a wire name and, as doc comment, their meaning.
///
/// The doc comment is the published text: a state that is not explained does not compile.
macro_rules! names {
    (
        $(#[$attribute:meta])*
        pub enum $Name:ident {
            $( $(#[doc = $meaning:literal])+ $Variant:ident = $wire:literal, )+
        }
    ) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $Name {
            $( $(#[doc = $meaning])+ $Variant, )+
        }

        impl $Name {
            /// The name on the wire, exactly as the design document spells it.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$Variant => $wire, )+ }
            }
        }

        impl $crate::Named for $Name {
            const ALL: &'static [Self] = &[ $( Self::$Variant, )+ ];

            fn as_str(self) -> &'static str {
                self.as_str()
            }

            fn meaning(self) -> &'static str {
                match self { $( Self::$Variant => concat!($($meaning),+).trim_ascii_start(), )+ }
            }
        }

        impl std::fmt::Display for $Name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $Name {
            type Err = $crate::UnknownName;

            fn from_str(given: &str) -> Result<Self, Self::Err> {
                match given {
                    $( $wire => Ok(Self::$Variant), )+
                    _ => Err($crate::UnknownName {
                        given: given.chars().take(100).collect(),
                        expected: vec![ $( $wire, )+ ],
                    }),
                }
            }
        }

        impl serde::Serialize for $Name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $Name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let given = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                given.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

pub(crate) use names;

#[cfg(test)]
mod tests {
    use crate::{Named, satellite::State};

    #[test]
    fn a_name_round_trips_and_an_unknown_one_lists_what_is_known() {
        for &state in State::ALL {
            assert_eq!(state.as_str().parse(), Ok(state));
            assert_eq!(
                serde_json::from_str::<State>(&serde_json::to_string(&state).unwrap()).unwrap(),
                state
            );
            assert!(state.meaning().ends_with('.'), "{state} is explained in a sentence");
        }
        let unknown = "Online".parse::<State>().unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "unknown value \"Online\", expected one of: pending, online, stale, revoked"
        );
    }
}
