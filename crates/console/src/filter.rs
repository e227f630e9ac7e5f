//! The filter of a list, as it is typed: the selectors of the command line.

use wardroom_api::words::quoted;

/// A filter in the parts that the API takes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Labels.
    pub labels: Option<String>,
    /// Fields.
    pub fields: Option<String>,
}

impl Filter {
    /// Tells labels from the fields of the kind, which a filter may mix.
    #[must_use]
    pub fn of(typed: &str, fields: &[&str]) -> Self {
        let (mut of_labels, mut of_fields) = (Vec::new(), Vec::new());
        for part in split(typed).into_iter().map(str::trim).filter(|part| !part.is_empty()) {
            let is_plain = !part.contains("!=");
            let key = part.split_once('=').map(|(key, _)| key.trim()).filter(|_| is_plain);
            match key {
                Some(key) if fields.contains(&key) => of_fields.push(part),
                Some(_) | None => of_labels.push(part),
            }
        }
        let joined = |parts: Vec<&str>| (!parts.is_empty()).then(|| parts.join(","));
        Self { labels: joined(of_labels), fields: joined(of_fields) }
    }

    /// The command that lists the same.
    #[must_use]
    pub fn command(&self, segment: &str, state: &str) -> String {
        let mut command = format!("wardroom get {segment}");
        let options = [
            ("-l", self.labels.as_deref()),
            ("--field-selector", self.fields.as_deref()),
            ("--state", Some(state).filter(|state| !state.is_empty())),
        ];
        for (option, value) in options.into_iter().filter_map(|(option, value)| Some((option, value?))) {
            command.push_str(&format!(" {option} {}", quoted(value)));
        }
        command
    }
}

/// Splits at commas that are not inside brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0_i32);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            b',' if depth <= 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_fields_are_told_apart() {
        let fields = &["site", "hostname"];
        for (typed, labels, of_fields) in [
            ("", None, None),
            ("rack in (a,b), site=berlin", Some("rack in (a,b)"), Some("site=berlin")),
            ("site!=berlin", Some("site!=berlin"), None),
            ("!spare,hostname == x", Some("!spare"), Some("hostname == x")),
            ("pool=train", Some("pool=train"), None),
            (")),,((", Some(")),(("), None),
        ] {
            let found = Filter::of(typed, fields);
            assert_eq!((found.labels.as_deref(), found.fields.as_deref()), (labels, of_fields), "{typed}");
        }
        let both = Filter::of("rack in (a,b),site=berlin", fields);
        assert_eq!(
            both.command("gpu-nodes", "active"),
            "wardroom get gpu-nodes -l 'rack in (a,b)' --field-selector site=berlin --state active"
        );
    }
}
