//! What an adapter asks for: events, resources by their path, and its reports.

use reqwest::{Url, header::ACCEPT};
use serde_json::Value;

use super::{Client, Error, Feed};

impl Client {
    /// Reads what is at a path of the server, such as the `href` of an event.
    ///
    /// # Errors
    /// As for every call.
    pub async fn read(&self, path: &str) -> Result<Value, Error> {
        self.answer(self.http.get(self.at(path))).await
    }

    /// Sends a status report to a path of the server. It can be repeated.
    ///
    /// # Errors
    /// As for every call.
    pub async fn report(&self, path: &str, report: &Value) -> Result<Value, Error> {
        self.answer(self.http.post(self.at(path)).json(report)).await
    }

    /// Opens the feed of what an adapter has to look at, behind a cursor, or from now on.
    ///
    /// # Errors
    /// As for every call.
    pub async fn follow_adapter(&self, adapter: &str, after: Option<&str>) -> Result<Feed, Error> {
        let url = self.url(&["events"], &[("adapter", Some(adapter))]);
        let mut request = self.http.get(url).header(ACCEPT, "text/event-stream");
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        Feed::open(request).await
    }

    /// The URL of a path with its query, on this server and no other.
    fn at(&self, path: &str) -> Url {
        let (path, query) = path.split_once('?').map_or((path, None), |(path, query)| (path, Some(query)));
        let mut url = self.base.clone();
        let prefix = self.base.path().trim_end_matches('/');
        url.set_path(&format!("{prefix}/{}", path.trim_start_matches('/')));
        url.set_query(query);
        url
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Options;

    #[test]
    fn a_path_stays_on_the_server() {
        let client =
            |server: &str| Client::new(&Options { server: server.to_owned(), ..Options::default() }).unwrap();
        for (server, path, expected) in [
            ("http://127.0.0.1:8440", "/api/x/1?page=2", "http://127.0.0.1:8440/api/x/1?page=2"),
            ("http://127.0.0.1:8440/w/", "api/x", "http://127.0.0.1:8440/w/api/x"),
            ("http://127.0.0.1:8440", "http://example.com/", "http://127.0.0.1:8440/http://example.com/"),
            ("http://127.0.0.1:8440", "//example.com/x", "http://127.0.0.1:8440/example.com/x"),
        ] {
            assert_eq!(client(server).at(path).as_str(), expected);
        }
    }
}
