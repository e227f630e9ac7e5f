//! Bodies: multipart or urlencoded, as MAAS takes both.

use percent_encoding::percent_decode_str;

use crate::wire::Request;

/// The fields of a body, in their order.
#[derive(Debug, Clone, Default)]
pub(super) struct Fields(pub(super) Vec<(String, String)>);

impl Fields {
    pub(super) fn of(request: &Request) -> Self {
        let kind = request.header("content-type");
        let text = String::from_utf8_lossy(&request.body);
        if let Some((_, boundary)) = kind.split_once("boundary=") {
            return Self(multipart(&text, boundary.trim_matches('"')));
        }
        Self(pairs(&text))
    }

    pub(super) fn query(request: &Request) -> Self {
        Self(pairs(&request.query))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    pub(super) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    pub(super) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Returns whether a value means yes.
    pub(super) fn is_set(&self, name: &str) -> bool {
        matches!(self.text(name).to_ascii_lowercase().as_str(), "1" | "true" | "on" | "yes")
    }
}

fn multipart(text: &str, boundary: &str) -> Vec<(String, String)> {
    let separator = format!("--{boundary}");
    let parts = text.split(separator.as_str()).filter_map(|part| {
        let (head, value) = part.split_once("\r\n\r\n")?;
        let (_, name) = head.split_once("name=\"")?;
        let (name, _) = name.split_once('"')?;
        Some((name.to_owned(), value.strip_suffix("\r\n").unwrap_or(value).to_owned()))
    });
    parts.collect()
}

/// Splits `a=b&c=d` and takes off its encoding.
pub(super) fn pairs(text: &str) -> Vec<(String, String)> {
    text.split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(name), decoded(value))
        })
        .collect()
}

/// Decodes percent-encoding, and plus signs as spaces.
pub(super) fn decoded(text: &str) -> String {
    percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned()
}
