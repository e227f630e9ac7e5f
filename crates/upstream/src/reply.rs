//! Reading answers of programs that we do not trust to be brief, nor to be in their right mind.

use std::time::Duration;

use reqwest::{Response, header::RETRY_AFTER};

/// Why a body could not be read; the status was known by then.
#[derive(Debug)]
pub(crate) enum Cut {
    /// The connection ended, or the time did.
    Broken(String),
    /// The answer is larger than the limit.
    TooLarge,
}

/// The body, as long as it has at most `limit` bytes.
pub(crate) async fn body(mut response: Response, limit: usize) -> Result<Vec<u8>, Cut> {
    if response.content_length().is_some_and(|length| length > limit as u64) {
        return Err(Cut::TooLarge);
    }
    let mut body = Vec::new();
    loop {
        match response.chunk().await {
            Ok(Some(chunk)) if body.len() + chunk.len() > limit => return Err(Cut::TooLarge),
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Ok(None) => return Ok(body),
            Err(error) => return Err(Cut::Broken(why(error))),
        }
    }
}

/// Returns the seconds of a `Retry-After`; a date is left to the caller.
pub(crate) fn retry_after(response: &Response) -> Option<&str> {
    response.headers().get(RETRY_AFTER).map(|value| value.to_str().unwrap_or_default().trim())
}

/// Returns how long to wait after a `Retry-After`, at most ten minutes: an upstream that is back earlier would not be
/// noticed, and a wrong number would keep us away for ever.
pub(crate) fn later(seconds: u64) -> Duration {
    Duration::from_secs(seconds.min(600))
}

/// Returns the text of a transport error with its causes, without the address.
pub(crate) fn why(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(&error);
    while let Some(next) = cause {
        let said = next.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = next.source();
    }
    text
}

/// The text for an explanation that cannot be read: the body of an answer is never shown unchanged.
pub(crate) const UNEXPLAINED: &str = "without a readable explanation";

/// Returns the explanation of a refusal as one short line. It comes from the field, or the kind of text, that the upstream
/// explains refusals with: any other body may be that of another program, and is not shown.
pub(crate) fn explanation(text: Option<&str>) -> String {
    const MOST: usize = 160;
    let words = text.unwrap_or_default().split(|c: char| c.is_whitespace() || c.is_control());
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    let line: String = words.join(" ").chars().take(MOST).collect();
    if line.is_empty() { UNEXPLAINED.to_owned() } else { line }
}

/// Returns where an answer stops being JSON of the expected shape. The words of the parser quote the answer.
pub(crate) fn malformed(error: &serde_json::Error) -> String {
    format!("not the expected JSON, at {}:{}", error.line(), error.column())
}
