//! Checks of texts that people and machines send.

use std::{collections::BTreeMap, ops::RangeInclusive};

use axum::http::Uri;

use crate::platform::http::error::Error;

/// A text of some length without control characters.
pub(crate) fn check(field: &str, text: &str, length: RangeInclusive<usize>) -> Result<(), Error> {
    let count = text.chars().count();
    if !length.contains(&count) {
        let (least, most) = (length.start(), length.end());
        return Err(Error::invalid(field, format!("has {count} characters, must have {least} to {most}")));
    }
    if text.chars().any(char::is_control) {
        return Err(Error::invalid(field, "contains control characters"));
    }
    Ok(())
}

/// As [`check`], for a text that may be absent.
pub(crate) fn check_some(field: &str, text: Option<&str>, most: usize) -> Result<(), Error> {
    text.map_or(Ok(()), |text| check(field, text, 0..=most))
}

/// A longer text in which lines may be broken.
pub(crate) fn check_prose(field: &str, text: Option<&str>, most: usize) -> Result<(), Error> {
    let Some(text) = text else { return Ok(()) };
    if text.chars().count() > most {
        return Err(Error::invalid(field, format!("is longer than {most} characters")));
    }
    if text.chars().any(breaks_prose) {
        return Err(Error::invalid(field, "contains control characters"));
    }
    Ok(())
}

/// Cleans a text that a program wrote: without control characters, cut to its limit. It is never refused,
/// because a program cannot correct it.
pub(crate) fn scrub(text: &mut String, most: usize) {
    clean(text, most, char::is_control);
}

/// The same of a longer text in which lines may be broken.
pub(crate) fn scrub_prose(text: &mut String, most: usize) {
    clean(text, most, breaks_prose);
}

fn clean(text: &mut String, most: usize, is_bad: impl Fn(char) -> bool) {
    if text.chars().count() > most || text.chars().any(&is_bad) {
        let decent = |character: char| if is_bad(character) { ' ' } else { character };
        *text = text.chars().take(most).map(decent).collect();
    }
}

fn breaks_prose(character: char) -> bool {
    character.is_control() && !matches!(character, '\n' | '\t' | '\r')
}

/// Refuses in a machine's report only text that no machine sends by itself; the rest is cleaned.
pub(crate) fn check_reported(field: &str, text: Option<&str>) -> Result<(), Error> {
    match text {
        Some(text) if text.contains('\0') => Err(Error::invalid(field, "contains control characters")),
        Some(_) | None => Ok(()),
    }
}

/// Checks a URL: it names a host, and no user or password, because every reader of the record would see them.
pub(crate) fn check_url(
    field: &str,
    url: &str,
    schemes: &[&str],
    most: usize,
    such_as: &str,
) -> Result<(), Error> {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let host = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    if host.contains('@') {
        return Err(Error::invalid(field, "must contain no user and no password: refer to a secret instead"));
    }
    let decent = url.len() <= most && url.bytes().all(|byte| byte.is_ascii_graphic());
    let known = schemes.iter().any(|known| known.eq_ignore_ascii_case(scheme));
    if !decent || !known || !url.parse().is_ok_and(|url| names_host(&url)) {
        return Err(Error::invalid(field, format!("must be a URL such as {such_as}")));
    }
    Ok(())
}

/// Checks the base URL of an HTTP server, to which paths are appended: without query and fragment.
pub(crate) fn check_address(field: &str, url: &str, such_as: &str) -> Result<(), Error> {
    check_url(field, url, &["http", "https"], 255, such_as)?;
    if url.contains(['?', '#']) {
        return Err(Error::invalid(field, format!("must have no query and no fragment, such as {such_as}")));
    }
    Ok(())
}

/// Whether a URL has a host, and a valid port if any.
pub(crate) fn names_host(url: &Uri) -> bool {
    let is_host = |host: &str| {
        host.starts_with('[') || host.split('.').all(|label| !label.is_empty() && !label.starts_with('-'))
    };
    let port = url.authority().and_then(|authority| authority.as_str().strip_prefix(authority.host()));
    let has_port = port.is_some_and(|port| port.is_empty() || url.port_u16().is_some_and(|port| port > 0));
    has_port && url.host().is_some_and(is_host)
}

/// Checks a name that people type and that is part of URLs.
pub(crate) fn check_name(field: &str, name: &str) -> Result<(), Error> {
    let decent = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte);
    let starts = name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if name.len() > 63 || !starts || !name.bytes().all(decent) {
        return Err(Error::invalid(
            field,
            "must be 1 to 63 lower case letters, digits, '.', '_' and '-', starting with a letter or digit",
        ));
    }
    Ok(())
}

/// Checks a label: a key of 1 to 63 characters, and a value of at most 63.
pub(crate) fn check_label(key: &str, value: &str) -> Result<(), Error> {
    let decent = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
    if key.is_empty() || key.len() > 63 || !key.bytes().all(decent) {
        return Err(Error::invalid(
            "labels",
            format!("the key {key:?} must be 1 to 63 letters, digits, '.', '_', '-' and '/'"),
        ));
    }
    if value.len() > 63 || !value.bytes().all(|byte| decent(byte) && byte != b'/') {
        return Err(Error::invalid(
            format!("labels.{key}"),
            "must be at most 63 letters, digits, '.', '_' and '-'",
        ));
    }
    Ok(())
}

/// Refuses too many labels, and labels that selectors cannot express.
pub(crate) fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), Error> {
    if labels.len() > 100 {
        return Err(Error::invalid("labels", "has more than 100 entries"));
    }
    labels.iter().try_for_each(|(key, value)| check_label(key, value))
}

/// Sets labels and takes them off, as a patch says.
pub(crate) fn merge_labels(
    labels: &mut BTreeMap<String, String>,
    patch: &BTreeMap<String, Option<String>>,
) -> Result<(), Error> {
    for (key, value) in patch {
        match value {
            Some(value) => labels.insert(key.clone(), value.clone()),
            None => labels.remove(key),
        };
    }
    check_labels(labels)
}

/// A MAC address with colons or hyphens in any case, as lower case with colons.
pub(crate) fn mac(field: &str, text: &str) -> Result<String, Error> {
    let parts: Vec<_> = text.split([':', '-']).collect();
    let is_byte = |part: &&str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    if parts.len() != 6 || !parts.iter().all(is_byte) {
        return Err(Error::invalid(field, "must be a MAC address such as 52:54:00:12:34:56"));
    }
    let mac = parts.join(":").to_ascii_lowercase();
    // The lowest bit of the first byte says that it is the address of a group.
    let is_group = u8::from_str_radix(&mac[..2], 16).is_ok_and(|first| first & 1 == 1);
    if is_group || mac == "00:00:00:00:00:00" {
        return Err(Error::invalid(field, "must be the address of one machine"));
    }
    Ok(mac)
}
