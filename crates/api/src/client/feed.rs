//! History, and the feed of changes as pages and as a stream.

use reqwest::{RequestBuilder, Response, header::ACCEPT};
use serde::de::DeserializeOwned;

use super::{Client, Error, accepted, warning};
use crate::history::{Row, Rows};

/// An event that is longer than this is not one of ours.
const LONGEST: usize = 4 << 20;

/// Which history, and which page of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HistoryQuery {
    /// Only of this kind and resource.
    pub resource: Option<(String, String)>,
    /// How many at most in the page.
    pub limit: Option<usize>,
    /// The cursor of the page before.
    pub cursor: Option<String>,
}

impl Client {
    /// One page of history, newest first.
    ///
    /// # Errors
    /// As for every call.
    pub async fn history(&self, query: &HistoryQuery) -> Result<Rows, Error> {
        let limit = query.limit.map(|limit| limit.to_string());
        let (kind, id) = match &query.resource {
            Some((kind, id)) => (Some(kind.as_str()), Some(id.as_str())),
            None => (None, None),
        };
        let query =
            [("kind", kind), ("id", id), ("limit", limit.as_deref()), ("continue", query.cursor.as_deref())];
        self.get(&["history"], &query).await
    }

    /// One page of the feed, oldest first, without waiting; it always has a cursor to go on from. `after` is a
    /// cursor or `start`; without it the page is the empty one at the end.
    ///
    /// # Errors
    /// As for every call.
    pub async fn events(&self, after: Option<&str>, limit: Option<usize>) -> Result<Rows, Error> {
        let limit = limit.map(|limit| limit.to_string());
        self.get(&["events"], &[("continue", after), ("limit", limit.as_deref()), ("wait", Some("0"))]).await
    }

    /// Opens the feed behind a cursor, or from now on. It has a place to resume from before its first change.
    ///
    /// # Errors
    /// As for every call.
    pub async fn follow(&self, after: Option<&str>) -> Result<Feed, Error> {
        let mut request = self.http.get(self.url(&["events"], &[])).header(ACCEPT, "text/event-stream");
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        Feed::open(request).await
    }
}

/// An open stream of changes.
#[derive(Debug)]
pub struct Feed {
    response: Response,
    buffer: Vec<u8>,
    place: String,
}

impl Feed {
    /// Opens a stream, and reads where it begins.
    pub(super) async fn open(request: RequestBuilder) -> Result<Self, Error> {
        let mut feed = Self { response: accepted(request).await?, buffer: Vec::new(), place: String::new() };
        while feed.place.is_empty() {
            let Some(event) = feed.event().await? else {
                return Err(Error::Unreachable("the feed ended before it began".to_owned()));
            };
            feed.place = field(&event, "id").unwrap_or_default();
            if field(&event, "data").is_some() {
                return Err(unexpected("it came before the place where the feed begins"));
            }
        }
        Ok(feed)
    }

    /// What the server warned of when it opened the stream.
    #[must_use]
    pub fn warning(&self) -> Option<&str> {
        warning(self.response.headers())
    }

    /// The next event as it is, with the cursor to resume behind it; nothing when the server closed the stream.
    ///
    /// # Errors
    /// When the connection is lost, or the data cannot be read.
    pub async fn next_with_place<T: DeserializeOwned>(&mut self) -> Result<Option<(String, T)>, Error> {
        while let Some(event) = self.event().await? {
            if let Some(place) = field(&event, "id") {
                self.place = place;
            }
            if let Some(data) = field(&event, "data") {
                let data = serde_json::from_str(&data).map_err(|error| unexpected(&error.to_string()))?;
                return Ok(Some((self.place.clone(), data)));
            }
        }
        Ok(None)
    }

    /// The cursor of the place where the feed began.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The next change; nothing when the server closed the stream. Open another behind the last cursor then.
    ///
    /// # Errors
    /// When the connection is lost, or the data is no event.
    pub async fn next(&mut self) -> Result<Option<Row>, Error> {
        while let Some(event) = self.event().await? {
            if let Some(data) = field(&event, "data") {
                return serde_json::from_str(&data).map(Some).map_err(|error| unexpected(&error.to_string()));
            }
        }
        Ok(None)
    }

    /// The next event or comment, as it came.
    async fn event(&mut self) -> Result<Option<String>, Error> {
        loop {
            if let Some(event) = take_event(&mut self.buffer) {
                return Ok(Some(event));
            }
            match self.response.chunk().await {
                Ok(Some(bytes)) => self.buffer.extend_from_slice(&bytes),
                Ok(None) => return Ok(None),
                Err(error) => return Err(Error::network(&error)),
            }
            if self.buffer.len() > LONGEST {
                return Err(unexpected("it is too long"));
            }
        }
    }
}

fn unexpected(detail: &str) -> Error {
    Error::Unexpected { status: 200, detail: format!("an event cannot be read: {detail}") }
}

/// Cuts the first complete event off, which an empty line ends.
fn take_event(buffer: &mut Vec<u8>) -> Option<String> {
    let end = buffer.windows(2).position(|pair| pair == b"\n\n")?;
    let event: Vec<u8> = buffer.drain(..end + 2).collect();
    Some(String::from_utf8_lossy(&event).into_owned())
}

/// A field of an event, which may come in several lines; a comment has none.
fn field(event: &str, name: &str) -> Option<String> {
    let value = |line: &str| {
        let rest = line.strip_prefix(name)?.strip_prefix(':')?;
        Some(rest.strip_prefix(' ').unwrap_or(rest).to_owned())
    };
    let lines: Vec<_> = event.lines().filter_map(value).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::{field, take_event};

    #[test]
    fn events_are_cut_at_empty_lines() {
        let mut buffer = b": keep\n\nid: 1\ndata: {\"a\":\ndata: 1}\n\ndata: cut".to_vec();
        assert_eq!(take_event(&mut buffer).and_then(|event| field(&event, "data")), None);
        let event = take_event(&mut buffer).unwrap();
        assert_eq!(field(&event, "id").as_deref(), Some("1"));
        assert_eq!(field(&event, "data").as_deref(), Some("{\"a\":\n1}"));
        assert_eq!(take_event(&mut buffer), None);
        assert_eq!(buffer, b"data: cut");
    }
}
