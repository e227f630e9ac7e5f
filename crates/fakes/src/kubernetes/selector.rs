//! Label and field selectors of lists and watches.

use serde_json::Value;

use super::reply::Refusal;

/// Which objects a list or a watch is about.
#[derive(Debug, Clone, Default)]
pub(super) struct Selector {
    labels: Vec<Requirement>,
    /// Path, value, and whether it has to be that value.
    fields: Vec<(String, String, bool)>,
}

#[derive(Debug, Clone)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Present(String),
    Absent(String),
}

impl Selector {
    pub(super) fn parse(labels: &str, fields: &str) -> Result<Self, Refusal> {
        Ok(Self {
            labels: split(labels).into_iter().map(requirement).collect::<Result<_, _>>()?,
            fields: fields.split(',').filter(|term| !term.is_empty()).map(field).collect::<Result<_, _>>()?,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    pub(super) fn selects(&self, object: &Value) -> bool {
        let labels = &object["metadata"]["labels"];
        let label = |name: &str| labels.get(name).and_then(Value::as_str);
        let has_labels = self.labels.iter().all(|requirement| match requirement {
            Requirement::In(name, values) => {
                label(name).is_some_and(|is| values.iter().any(|value| value == is))
            }
            Requirement::NotIn(name, values) => {
                !label(name).is_some_and(|is| values.iter().any(|value| value == is))
            }
            Requirement::Present(name) => label(name).is_some(),
            Requirement::Absent(name) => label(name).is_none(),
        });
        has_labels
            && self.fields.iter().all(|(path, value, is)| {
                let found = path.split('.').fold(object, |value, name| &value[name]);
                (found.as_str().unwrap_or_default() == value) == *is
            })
    }
}

/// Splits at commas that are not within parentheses.
fn split(labels: &str) -> Vec<&str> {
    let (mut terms, mut depth, mut start) = (Vec::new(), 0, 0);
    for (index, letter) in labels.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                terms.push(&labels[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    terms.push(&labels[start..]);
    terms.into_iter().map(str::trim).filter(|term| !term.is_empty()).collect()
}

fn requirement(term: &str) -> Result<Requirement, Refusal> {
    let list = |values: &str| {
        let values = values.trim().strip_prefix('(').and_then(|values| values.strip_suffix(')'));
        values.map(|values| values.split(',').map(|value| value.trim().to_owned()).collect::<Vec<_>>())
    };
    let parsed = if let Some((name, values)) = term.split_once(" notin ") {
        list(values).map(|values| Requirement::NotIn(name.trim().to_owned(), values))
    } else if let Some((name, values)) = term.split_once(" in ") {
        list(values).map(|values| Requirement::In(name.trim().to_owned(), values))
    } else if let Some((name, value)) = term.split_once("!=") {
        Some(Requirement::NotIn(name.trim().to_owned(), vec![value.trim().to_owned()]))
    } else if let Some((name, value)) = term.split_once('=') {
        let value = value.strip_prefix('=').unwrap_or(value).trim().to_owned();
        Some(Requirement::In(name.trim().to_owned(), vec![value]))
    } else if let Some(name) = term.strip_prefix('!') {
        Some(Requirement::Absent(name.trim().to_owned()))
    } else {
        Some(Requirement::Present(term.to_owned()))
    };
    let name = |requirement: &Requirement| match requirement {
        Requirement::In(name, _) | Requirement::NotIn(name, _) => name.clone(),
        Requirement::Present(name) | Requirement::Absent(name) => name.clone(),
    };
    let is_name = |name: String| {
        !name.is_empty()
            && name.chars().all(|letter| letter.is_ascii_alphanumeric() || "-._/".contains(letter))
    };
    parsed
        .filter(|requirement| is_name(name(requirement)))
        .ok_or_else(|| Refusal::bad(&format!("found '{term}', expected: !, identifier, or 'end of string'")))
}

fn field(term: &str) -> Result<(String, String, bool), Refusal> {
    let (path, value, is) = if let Some((path, value)) = term.split_once("!=") {
        (path, value, false)
    } else if let Some((path, value)) = term.split_once('=') {
        (path, value.strip_prefix('=').unwrap_or(value), true)
    } else {
        return Err(Refusal::bad(&format!("invalid selector: '{term}'; can't understand '{term}'")));
    };
    Ok((path.to_owned(), value.to_owned(), is))
}
