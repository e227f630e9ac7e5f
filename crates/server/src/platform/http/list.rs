//! Lists: pages, label and field selectors.

use std::collections::BTreeMap;

use axum::{
    extract::FromRequestParts,
    http::{Uri, request::Parts},
};
use serde::{Deserialize, de::DeserializeOwned};
use utoipa::IntoParams;
use wardroom_store::{List, Page, Requirement, Selector, cursor};

use crate::platform::{
    app::App,
    http::{error::Error, text},
};

/// A query string, with errors that name the parameter.
pub(crate) struct ListQuery<T>(pub(crate) T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for ListQuery<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Error> {
        read(&parts.uri).map(Self)
    }
}

fn read<T: DeserializeOwned>(uri: &Uri) -> Result<T, Error> {
    let query = axum::extract::Query::try_from_uri(uri);
    query.map(|query| query.0).map_err(|error| wrong_query(&error.body_text()))
}

/// Refuses parameters on routes that read none, instead of ignoring them.
pub(crate) fn refuse_query(uri: &Uri) -> Result<(), Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Nothing {}

    read(uri).map(|Nothing {}| ())
}

/// How many characters of an unknown name an error repeats.
const TOLD: usize = 100;

/// Names the parameter, which the error of the query parser begins with.
fn wrong_query(said: &str) -> Error {
    let said = said.strip_prefix("Failed to deserialize query string: ").unwrap_or(said);
    if let Some(name) = said.strip_prefix("duplicate field `").and_then(|rest| rest.strip_suffix('`')) {
        return Error::invalid(name, "appears more than once");
    }
    match said.split_once(": ") {
        Some((name, message)) if !name.contains(' ') => {
            let name: String = name.chars().take(TOLD).collect();
            let name = if name.is_empty() { "query" } else { &name };
            let known = message.split_once("`, expected ").filter(|_| message.starts_with("unknown field"));
            let message = match known {
                Some((_, known)) => format!("is not known here; expected {}", known.replace('`', "")),
                None if message.ends_with("`, there are no fields") => {
                    "is not known here; expected none".to_owned()
                }
                None => message.replace("provided string was not `true` or `false`", "must be true or false"),
            };
            Error::invalid(name, message)
        }
        Some(_) | None => Error::invalid("query", said.chars().take(TOLD).collect::<String>()),
    }
}

/// Which page of a list.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pages {
    /// The most items on a page, 1 to 1000; default 100.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<String>,
    /// The cursor of the page before.
    #[serde(rename = "continue")]
    cursor: Option<String>,
}

impl Pages {
    /// Returns the page of the living resources of a kind.
    pub(crate) fn of(&self, kind: &str) -> Result<List, Error> {
        let limit = number("limit", self.limit.as_deref(), 100, 1..=1000)?;
        Ok(List { kind: kind.to_owned(), after: self.cursor.clone(), limit, ..List::default() })
    }
}

/// A whole number from a query string.
pub(crate) fn number(
    field: &str,
    text: Option<&str>,
    default: usize,
    range: std::ops::RangeInclusive<usize>,
) -> Result<usize, Error> {
    let Some(text) = text else { return Ok(default) };
    let parsed = text.parse().ok().filter(|number| range.contains(number));
    parsed.ok_or_else(|| {
        Error::invalid(field, format!("must be a whole number from {} to {}", range.start(), range.end()))
    })
}

/// Returns one page of a list, whose cursors are as callers see them. Inside, a cursor is the last id that
/// was seen, so it never expires.
pub(crate) async fn page(app: &App, mut list: List) -> Result<Page, Error> {
    if let Some(cursor) = &list.after {
        let place = cursor::place(&list.kind, cursor).ok_or_else(|| foreign("continue"))?;
        list.after = Some(place.to_owned());
    }
    // The number of fields is bounded, so the labels are too many.
    let (labels, fields) =
        (list.labels.len(), list.fields.len() + list.field_requirements.len() + list.states.len());
    if labels + fields > MOST_REQUIREMENTS {
        let message = format!(
            "has {labels} requirements beside {fields} fields, at most {MOST_REQUIREMENTS} are looked at"
        );
        return Err(Error::invalid("labelSelector", message));
    }
    if let Some((field, _)) = list.fields.iter().find(|(_, value)| value.contains('\0')) {
        return Err(Error::invalid(field, "contains NUL"));
    }
    let mut page = app.store.list(&list).await?;
    page.next = page.next.map(|place| cursor::at(&list.kind, &place));
    Ok(page)
}

/// Refuses a cursor that is damaged or of another list, because it would skip resources.
pub(crate) fn foreign(field: &str) -> Error {
    Error::invalid(field, "is not a cursor of this list, or is damaged: start again without it")
}

/// Reads `key=value, key!=value, key in (a,b), key notin (a,b), key, !key`.
pub(crate) fn label_selector(text: &str) -> Result<Vec<Selector>, Error> {
    selector("labelSelector", text)?.into_iter().map(of_label).collect()
}

/// Reads the same grammar about anything; `field` is the parameter that it came with.
pub(crate) fn selector(field: &'static str, text: &str) -> Result<Vec<Selector>, Error> {
    let parts = split(text);
    if parts.len() > MOST_REQUIREMENTS {
        let message = format!("has {} requirements, at most {MOST_REQUIREMENTS} are looked at", parts.len());
        return Err(Error::invalid(field, message));
    }
    parts.into_iter().map(|part| requirement(field, part.trim())).collect()
}

/// As many as the store takes.
const MOST_REQUIREMENTS: usize = 32;

/// Splits at commas that are not inside brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth -= 1,
            b',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn requirement(field: &'static str, part: &str) -> Result<Selector, Error> {
    let wrong = || {
        Error::invalid(
            field,
            format!(
                "cannot read {part:?}; write key=value, key!=value, key in (a,b), key notin (a,b), key or !key"
            ),
        )
    };
    let one = |value: &str| vec![value.trim().to_owned()];
    let (key, requirement) = if let Some((key, value)) = part.split_once("!=") {
        (key, Requirement::NotIn(one(value)))
    } else if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        (key, Requirement::In(one(value)))
    } else if let Some((key, values)) = part.split_once(" notin ") {
        (key, Requirement::NotIn(values_of(values).ok_or_else(wrong)?))
    } else if let Some((key, values)) = part.split_once(" in ") {
        (key, Requirement::In(values_of(values).ok_or_else(wrong)?))
    } else if let Some(key) = part.strip_prefix('!') {
        (key, Requirement::Missing)
    } else {
        (part, Requirement::Exists)
    };
    let key = key.trim();
    let decent =
        !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte));
    if !decent {
        return Err(wrong());
    }
    Ok(Selector { key: key.to_owned(), requirement })
}

fn of_label(Selector { key, requirement }: Selector) -> Result<Selector, Error> {
    let values = match &requirement {
        Requirement::In(values) | Requirement::NotIn(values) => values.as_slice(),
        Requirement::Exists | Requirement::Missing => &[],
    };
    // No label can have such a value, so the selector would never match.
    if let Some(value) = values.iter().find(|value| text::check_label(&key, value).is_err()) {
        let message = format!(
            "{value:?} is not valid as the value of a label: at most 63 letters, digits, '.', '_' and '-'"
        );
        return Err(Error::invalid("labelSelector", message));
    }
    Ok(Selector { key, requirement })
}

fn values_of(text: &str) -> Option<Vec<String>> {
    let inner = text.trim().strip_prefix('(')?.strip_suffix(')')?;
    let values: Vec<_> = inner.split(',').map(|value| value.trim().to_owned()).collect();
    values.iter().all(|value| !value.is_empty()).then_some(values)
}

/// Reads `field=value, field=value`; the error for an unknown field lists the known ones.
pub(crate) fn field_selector(text: &str, known: &[&str]) -> Result<BTreeMap<String, String>, Error> {
    let mut fields = BTreeMap::new();
    for part in text.split(',') {
        let (field, value) = part.split_once("==").or_else(|| part.split_once('=')).ok_or_else(|| {
            Error::invalid(
                "fieldSelector",
                format!("cannot read {part:?}; write field=value with one of: {}", known.join(", ")),
            )
        })?;
        let field = field.trim();
        if !known.contains(&field) {
            return Err(Error::invalid(
                "fieldSelector",
                format!("cannot select by {field:?}, only by: {}", known.join(", ")),
            ));
        }
        if value.contains('\0') {
            return Err(Error::invalid("fieldSelector", format!("the value of {field} contains NUL")));
        }
        if fields.insert(field.to_owned(), value.trim().to_owned()).is_some() {
            return Err(Error::invalid("fieldSelector", format!("{field} appears more than once")));
        }
    }
    Ok(fields)
}

#[cfg(test)]
mod tests {
    use axum::{extract::FromRequestParts as _, http::Request};

    use super::{ListQuery, field_selector, label_selector, refuse_query};
    use crate::platform::http::error::Error;

    /// The parameters of some list.
    #[derive(Debug, serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    struct SomeQuery {
        #[serde(rename = "limit")]
        _limit: Option<String>,
        #[serde(rename = "deleted", default)]
        _deleted: bool,
    }

    /// Returns the refusal of a query: the parameter, and the mistake.
    async fn refused(query: &str) -> (String, String) {
        let request = Request::get(format!("/api/satellites?{query}")).body(()).unwrap();
        let read = ListQuery::<SomeQuery>::from_request_parts(&mut request.into_parts().0, &()).await;
        let Err(Error::Invalid(mut errors)) = read else { panic!("{query} was taken") };
        let error = errors.remove(0);
        (error.field, error.message)
    }

    #[tokio::test]
    async fn a_wrong_query_names_its_parameter() {
        let long = "x".repeat(5000);
        for (query, field, message) in [
            ("limit=1&limit=2", "limit", "appears more than once"),
            ("deleted=maybe", "deleted", "must be true or false"),
            ("colour=red", "colour", "is not known here"),
            ("=", "query", "is not known here"),
            (&long, &long[..100], "is not known here"),
        ] {
            let (named, said) = refused(query).await;
            assert_eq!(named, field, "{query}: {said}");
            assert!(said.starts_with(message) && said.len() < 300, "{query}: {said}");
        }
    }

    #[test]
    fn parameters_on_a_route_without_any_are_refused() {
        let refused = |query: &str| match refuse_query(&format!("/livez{query}").parse().unwrap()) {
            Err(Error::Invalid(mut errors)) => Some(errors.remove(0)),
            _ => None,
        };
        assert!(["", "?", "?&"].iter().all(|query| refused(query).is_none()));
        for (query, field) in [("?colour=red&b=1", "colour"), ("?dry-run", "dry-run"), ("?=x", "query")] {
            let error = refused(query).unwrap();
            assert_eq!((&*error.field, &*error.message), (field, "is not known here; expected none"));
        }
    }

    #[test]
    fn selectors_are_told_apart() {
        let Err(Error::Invalid(errors)) = field_selector("name=a\0b", &["name"]) else { panic!("was taken") };
        assert_eq!(errors[0].field, "fieldSelector");
        let Err(Error::Invalid(errors)) = field_selector("name=a, name=b", &["name"]) else {
            panic!("was taken")
        };
        assert_eq!(
            (&*errors[0].field, &*errors[0].message),
            ("fieldSelector", "name appears more than once")
        );

        assert_eq!(label_selector(&["a"; 32].join(",")).unwrap().len(), 32);
        let Err(Error::Invalid(errors)) = label_selector(&["a"; 33].join(",")) else { panic!("was taken") };
        assert_eq!(errors[0].field, "labelSelector");
    }
}
