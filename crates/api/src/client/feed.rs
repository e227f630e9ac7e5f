//! History, and the feed of changes as pages and as a stream.

use reqwest::{Response, header::ACCEPT};

use super::{Client, Error, accepted};
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
        self.get(&["events"], &[("after", after), ("limit", limit.as_deref()), ("wait", Some("0"))]).await
    }

    /// Opens the feed behind a cursor.
    ///
    /// # Errors
    /// As for every call.
    pub async fn follow(&self, after: &str) -> Result<Feed, Error> {
        let request = self.http.get(self.url(&["events"], &[]));
        let request = request.header(ACCEPT, "text/event-stream").header("last-event-id", after);
        Ok(Feed { response: accepted(request).await?, buffer: Vec::new() })
    }
}

/// An open stream of changes.
#[derive(Debug)]
pub struct Feed {
    response: Response,
    buffer: Vec<u8>,
}

impl Feed {
    /// The next change; nothing when the server closed the stream. Open another behind the last cursor then.
    ///
    /// # Errors
    /// When the connection is cut or what comes is not an event.
    pub async fn next(&mut self) -> Result<Option<Row>, Error> {
        loop {
            while let Some(event) = take_event(&mut self.buffer) {
                if let Some(data) = data(&event) {
                    return serde_json::from_str(&data)
                        .map(Some)
                        .map_err(|error| unexpected(&error.to_string()));
                }
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

/// The data of an event; a comment has none.
fn data(event: &str) -> Option<String> {
    let lines: Vec<_> = event
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::{data, take_event};

    #[test]
    fn events_are_cut_at_empty_lines() {
        let mut buffer = b": keep\n\nid: 1\nevent: changed\ndata: {\"a\":\ndata: 1}\n\ndata: cut".to_vec();
        assert_eq!(take_event(&mut buffer).and_then(|event| data(&event)), None);
        let event = take_event(&mut buffer);
        assert_eq!(event.and_then(|event| data(&event)).as_deref(), Some("{\"a\":\n1}"));
        assert_eq!(take_event(&mut buffer), None);
        assert_eq!(buffer, b"data: cut");
    }
}
