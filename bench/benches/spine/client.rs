//! A small HTTP client over keep-alive connections: as little work as a client can do.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::server::Server;

pub(crate) struct Connection {
    stream: TcpStream,
    authorization: String,
    buffer: Vec<u8>,
}

impl Connection {
    pub(crate) async fn open(address: SocketAddr, token: &str) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, authorization: format!("Bearer {token}"), buffer: vec![0; 1 << 20] }
    }

    /// A connection of a browser that has logged in to the console.
    pub(crate) async fn logged_in(address: SocketAddr, token: &str) -> Self {
        let mut connection = Self::open(address, token).await;
        let body = format!("token={token}");
        let request = format!(
            "POST /console/login HTTP/1.1\r\nhost: localhost\r\nsec-fetch-site: same-origin\r\ncontent-type: application/x-www-form-urlencoded\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        connection.stream.write_all(request.as_bytes()).await.unwrap();
        let (_, head, _) = connection.answer().await;
        let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
        // The console knows its visitors by their cookie alone.
        connection.authorization = format!("none\r\ncookie: {}", cookie.split(';').next().unwrap());
        connection
    }

    /// Sends a request with other credentials.
    async fn send_as(&mut self, authorization: &str, method: &str, path: &str, body: &str) -> (u16, String) {
        authorization.clone_into(&mut self.authorization);
        self.send(method, path, body).await
    }

    /// Sends a request and reads the whole answer.
    pub(crate) async fn send(&mut self, method: &str, path: &str, body: &str) -> (u16, String) {
        let (authorization, length) = (&self.authorization, body.len());
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: {authorization}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
        );
        self.stream.write_all(request.as_bytes()).await.unwrap();
        let (status, _, body) = self.answer().await;
        (status, body)
    }

    /// Reads a whole answer: its status, its head and its body.
    async fn answer(&mut self) -> (u16, String, String) {
        let mut filled = 0;
        loop {
            let read = self.stream.read(&mut self.buffer[filled..]).await.unwrap();
            assert!(read > 0, "the server closed the connection");
            filled += read;
            let Some(end) = self.buffer[..filled].windows(4).position(|four| four == b"\r\n\r\n") else {
                continue;
            };
            let head = std::str::from_utf8(&self.buffer[..end]).unwrap();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            let whole = end + 4 + length.parse::<usize>().unwrap();
            if filled >= whole {
                let (status, head) = (head[9..12].parse().unwrap(), head.to_owned());
                return (status, head, String::from_utf8_lossy(&self.buffer[end + 4..whole]).into_owned());
            }
        }
    }
}

/// Registers nodes and says their ids.
pub(crate) async fn make_nodes(server: &Server, count: usize) -> Vec<String> {
    let mut connection = Connection::open(server.address, &server.token).await;
    let mut ids = Vec::new();
    for number in 0..count {
        let body = format!("{{\"mac_address\":\"02:00:00:00:{:02x}:{:02x}\"}}", number / 256, number % 256);
        let (status, answer) = connection.send("POST", "/api/v1/nodes", &body).await;
        assert_eq!(status, 201, "{answer}");
        ids.push(answer.split("\"id\":\"").nth(1).unwrap().split('"').next().unwrap().to_owned());
    }
    ids
}

/// Transitions a second: every client moves a node of its own between active and migrating.
pub(crate) async fn transitions(server: &Server, clients: usize, period: Duration) -> f64 {
    let ids = make_nodes(server, clients).await;
    let mut connections = Vec::new();
    for id in ids {
        let mut connection = Connection::open(server.address, &server.token).await;
        let path = format!("/api/v1/nodes/{id}/state");
        for state in ["pending", "installing", "installed", "active"] {
            let (status, answer) =
                connection.send("PATCH", &path, &format!("{{\"state\":\"{state}\"}}")).await;
            assert_eq!(status, 200, "{answer}");
        }
        connections.push((connection, path));
    }
    let done = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let mut tasks = Vec::new();
    for (mut connection, path) in connections {
        let done = Arc::clone(&done);
        tasks.push(tokio::spawn(async move {
            let states = [r#"{"state":"migrating"}"#, r#"{"state":"active"}"#];
            for body in states.iter().cycle() {
                if began.elapsed() > period {
                    return;
                }
                let (status, answer) = connection.send("PATCH", &path, body).await;
                assert_eq!(status, 200, "{answer}");
                done.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    done.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64()
}

/// Reads a second of one path.
pub(crate) async fn reads(
    address: SocketAddr,
    token: &str,
    path: &str,
    clients: usize,
    period: Duration,
) -> f64 {
    let callers = vec![format!("Bearer {token}")];
    calls(address, callers, Request { method: "GET", path: path.to_owned(), body: "" }, clients, period).await
}

/// What is sent over and over.
#[derive(Clone)]
pub(crate) struct Request {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) body: &'static str,
}

/// Requests a second over keep-alive connections, by each of the callers in turn.
pub(crate) async fn calls(
    address: SocketAddr,
    callers: Vec<String>,
    request: Request,
    clients: usize,
    period: Duration,
) -> f64 {
    let done = Arc::new(AtomicU64::new(0));
    let callers = Arc::new(callers);
    let began = Instant::now();
    let mut tasks = Vec::new();
    for client in 0..clients {
        let (done, callers, request) = (Arc::clone(&done), Arc::clone(&callers), request.clone());
        tasks.push(tokio::spawn(async move {
            let mut connection = Connection::open(address, "").await;
            let first = client * callers.len() / clients;
            for caller in callers.iter().cycle().skip(first) {
                if began.elapsed() >= period {
                    return;
                }
                let Request { method, path, body } = &request;
                let (status, answer) = connection.send_as(caller, method, path, body).await;
                assert_eq!(status, 200, "{answer}");
                done.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    done.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64()
}

/// One beat of each caller over keep-alive connections; beats a second.
pub(crate) async fn each(address: SocketAddr, callers: &[String], body: &'static str, clients: usize) -> f64 {
    let began = Instant::now();
    let mut tasks = Vec::new();
    for callers in callers.chunks(callers.len().div_ceil(clients)) {
        let callers = callers.to_vec();
        tasks.push(tokio::spawn(async move {
            let mut connection = Connection::open(address, "").await;
            for caller in &callers {
                let (status, answer) = connection.send_as(caller, "POST", "/satellites/sync", body).await;
                assert_eq!(status, 200, "{answer}");
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    callers.len() as f64 / began.elapsed().as_secs_f64()
}

/// Registers satellites and says how each shows itself.
pub(crate) async fn make_satellites(server: &Server, count: usize) -> Vec<String> {
    let mut connection = Connection::open(server.address, &server.token).await;
    let text = |answer: &str, field: &str| {
        let after = answer.split(&format!("\"{field}\":\"")).nth(1).unwrap();
        after.split('"').next().unwrap().to_owned()
    };
    let mut callers = Vec::new();
    for number in 0..count {
        let body = format!("{{\"name\":\"sat-{number}\"}}");
        let (status, answer) = connection.send("POST", "/api/satellites", &body).await;
        assert_eq!(status, 200, "{answer}");
        let path = format!("/satellites/ztr/{}", text(&answer, "token"));
        let (status, answer) = connection.send("GET", &path, "").await;
        assert_eq!(status, 200, "{answer}");
        let pair = format!("{}:{}", text(&answer, "username"), text(&answer, "password"));
        callers.push(format!("Basic {}", BASE64_STANDARD.encode(pair)));
    }
    callers
}
