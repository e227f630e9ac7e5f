//! A minimal HTTP/1.1 client that can also send malformed requests.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use serde_json::Value;

/// How long an answer may take before the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// One server, as one caller sees it.
#[derive(Clone, Debug)]
pub(crate) struct Api {
    pub(crate) address: SocketAddr,
    pub(crate) headers: Vec<(String, String)>,
    patience: Duration,
}

/// The answer.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Api {
    pub(crate) fn new(address: SocketAddr, token: Option<&str>) -> Self {
        let api = Self { address, headers: Vec::new(), patience: PATIENCE };
        match token {
            Some(token) => api.with("authorization", &format!("Bearer {token}")),
            None => api,
        }
    }

    /// The same, with one more header.
    pub(crate) fn with(&self, name: &str, value: &str) -> Self {
        let mut api = self.clone();
        api.headers.retain(|(known, _)| known != name);
        api.headers.push((name.to_owned(), value.to_owned()));
        api
    }

    /// The same, by a caller that gives up sooner.
    pub(crate) fn within(&self, patience: Duration) -> Self {
        Self { patience, ..self.clone() }
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.send("GET", path, b"")
    }

    pub(crate) fn delete(&self, path: &str) -> Reply {
        self.send("DELETE", path, b"")
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Reply {
        self.json("POST", path, body)
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> Reply {
        self.json("PUT", path, body)
    }

    pub(crate) fn patch(&self, path: &str, body: &Value) -> Reply {
        self.json("PATCH", path, body)
    }

    /// One of the numbers for Prometheus.
    pub(crate) fn number(&self, name: &str) -> f64 {
        let text = self.get("/metrics").text();
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or("0");
        line.trim().parse().unwrap()
    }

    /// Moves a node.
    pub(crate) fn to_state(&self, id: &str, state: &str) -> Reply {
        self.patch(&format!("/api/v1/nodes/{id}/state"), &serde_json::json!({"state": state}))
    }

    pub(crate) fn json(&self, method: &str, path: &str, body: &Value) -> Reply {
        self.with("content-type", "application/json").send(method, path, body.to_string().as_bytes())
    }

    /// Any request; an answer is expected.
    pub(crate) fn send(&self, method: &str, path: &str, body: &[u8]) -> Reply {
        self.try_send(method, path, body)
            .unwrap_or_else(|error| panic!("{method} {path} was not answered: {error}"))
    }

    /// Any request to a server that may be dying.
    pub(crate) fn try_send(&self, method: &str, path: &str, body: &[u8]) -> io::Result<Reply> {
        let mut stream = self.open(method, path, body.len(), "close")?;
        // A server may refuse a large body before it has read it.
        let written = stream.write_all(body);
        let mut bytes = Vec::new();
        match stream.read_to_end(&mut bytes) {
            Err(error) if bytes.is_empty() => return Err(error),
            _ => {}
        }
        if bytes.is_empty() {
            written?;
        }
        parse(&bytes)
    }

    /// Sends the head of a request and leaves its body to the caller.
    pub(crate) fn open(
        &self,
        method: &str,
        path: &str,
        length: usize,
        connection: &str,
    ) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(self.patience))?;
        stream.set_write_timeout(Some(self.patience))?;
        stream.set_nodelay(true)?;
        let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: {connection}\r\n");
        if length > 0 || matches!(method, "POST" | "PUT" | "PATCH") {
            head += &format!("content-length: {length}\r\n");
        }
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        stream.write_all(head.as_bytes())?;
        stream.write_all(b"\r\n")?;
        Ok(stream)
    }

    /// Follows the feed.
    pub(crate) fn follow(&self, path: &str) -> Events {
        let mut stream = BufReader::new(self.open("GET", path, 0, "close").unwrap());
        let status = line(&mut stream).unwrap();
        assert!(status.contains(" 200 "), "{path}: {status}");
        while !line(&mut stream).unwrap().is_empty() {}
        Events { lines: BufReader::new(Chunks { stream, left: 0 }) }
    }
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The answer, which must have this status.
    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        self.json()
    }

    /// The refusal, which must be a problem with this status.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16) -> Value {
        assert_eq!(self.header("content-type"), Some("application/problem+json"), "{}", self.text());
        let problem = self.expect(status);
        assert_eq!(problem["status"], status, "{problem}");
        for field in ["type", "title", "detail", "code", "request_id"] {
            assert!(problem[field].as_str().is_some_and(|text| !text.is_empty()), "no {field}: {problem}");
        }
        problem
    }

    /// The fields that a refusal names.
    #[track_caller]
    pub(crate) fn wrong_fields(&self) -> Vec<String> {
        let problem = self.problem(400);
        let errors = problem["errors"].as_array().unwrap();
        errors.iter().map(|error| error["field"].as_str().unwrap().to_owned()).collect()
    }
}

/// Reads an answer.
pub(crate) fn parse(bytes: &[u8]) -> io::Result<Reply> {
    let broken = || io::Error::new(io::ErrorKind::UnexpectedEof, "the answer is cut off");
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").ok_or_else(broken)?;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let mut reply = Reply { status: status.ok_or_else(broken)?, headers, body: bytes[end + 4..].to_vec() };
    if reply.header("transfer-encoding") == Some("chunked") {
        let mut body = Vec::new();
        Chunks { stream: &reply.body[..], left: 0 }.read_to_end(&mut body)?;
        reply.body = body;
    }
    let length = reply.header("content-length").and_then(|length| length.parse::<usize>().ok());
    if length.is_some_and(|length| reply.body.len() < length && reply.status != 304) {
        return Err(broken());
    }
    Ok(reply)
}

/// The content of a body that comes in chunks.
#[derive(Debug)]
struct Chunks<R> {
    stream: R,
    left: usize,
}

impl<R: BufRead> Read for Chunks<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 {
            let mut size = line(&mut self.stream)?;
            if size.is_empty() {
                size = line(&mut self.stream)?;
            }
            self.left = usize::from_str_radix(&size, 16).unwrap_or(0);
            if self.left == 0 {
                return Ok(0);
            }
        }
        let most = buffer.len().min(self.left);
        let count = self.stream.read(&mut buffer[..most])?;
        self.left -= count;
        Ok(count)
    }
}

fn line(stream: &mut impl BufRead) -> io::Result<String> {
    let mut text = String::new();
    stream.read_line(&mut text)?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

/// A stream of events.
#[derive(Debug)]
pub(crate) struct Events {
    lines: BufReader<Chunks<BufReader<TcpStream>>>,
}

/// A stream of events.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Sent {
    /// The first frame: where the stream begins.
    Place {
        id: String,
    },
    /// An event has no name: that is what every client listens for.
    Event {
        id: String,
        row: Value,
    },
    Comment,
    End,
}

impl Events {
    /// The next event or comment.
    pub(crate) fn next(&mut self) -> Sent {
        let (mut id, mut data) = (String::new(), String::new());
        let mut text = String::new();
        loop {
            text.clear();
            if self.lines.read_line(&mut text).unwrap_or(0) == 0 {
                return Sent::End;
            }
            match text.trim_end().split_once(':') {
                Some(("", _)) => return Sent::Comment,
                Some(("id", value)) => id = value.trim().to_owned(),
                Some(("data", value)) => data += value.trim(),
                Some(other) => panic!("unexpected: {other:?}"),
                None if !data.is_empty() => {
                    return Sent::Event { id, row: serde_json::from_str(&data).unwrap() };
                }
                None if !id.is_empty() => return Sent::Place { id },
                None => {}
            }
        }
    }

    /// The next event; a stream that only shows signs of life has none.
    pub(crate) fn event(&mut self) -> (String, Value) {
        for _ in 0..3 {
            match self.next() {
                Sent::Event { id, row } => return (id, row),
                Sent::Comment | Sent::Place { .. } => {}
                Sent::End => break,
            }
        }
        panic!("no event came");
    }
}
