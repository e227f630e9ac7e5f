//! Ids as memory keeps them: 24 bytes and no allocation for a UUID, which ids are.

use std::fmt;

use uuid::Uuid;

#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Id(Form);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Form {
    Uuid(Uuid),
    /// Any other text, so that every id keeps its spelling.
    Text(Box<str>),
}

impl Id {
    pub(crate) fn new(text: &str) -> Self {
        let uuid = Uuid::try_parse(text).ok();
        // Only a UUID in canonical spelling, so that it is shown unchanged.
        let uuid = uuid.filter(|uuid| *text == *uuid.hyphenated().encode_lower(&mut Uuid::encode_buffer()));
        Self(uuid.map_or_else(|| Form::Text(text.into()), Form::Uuid))
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Form::Uuid(uuid) => uuid.hyphenated().fmt(f),
            Form::Text(text) => f.write_str(text),
        }
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::Id;

    #[test]
    fn every_id_keeps_its_spelling() {
        let uuid = "01920000-0000-7000-8000-00000000abcd";
        for text in [uuid, &uuid.to_uppercase(), &uuid.replace('-', ""), "node-1", ""] {
            assert_eq!(Id::new(text).to_string(), text);
        }
        assert_ne!(Id::new(uuid), Id::new(&uuid.to_uppercase()));
        assert_eq!(size_of::<Id>(), 24);
    }
}
