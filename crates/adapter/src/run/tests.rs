//! What goes over the wire, against a server of a few lines. The whole is tested with the real server in `e2e`.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value as Json, json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader},
    net::{TcpListener, TcpStream},
    sync::broadcast,
    task::JoinHandle,
};
use wardroom_api::client::{Client, Options};

use super::{Connection, run};
use crate::config::Config;

/// What a client asked for.
#[derive(Debug, Clone)]
struct Asked {
    line: String,
    token: String,
    place: Option<String>,
    body: Json,
}

/// A server with clusters, events, and statuses by which some requests are refused.
struct Server {
    address: String,
    asked: Mutex<Vec<Asked>>,
    clusters: Mutex<Vec<Json>>,
    /// The beginning of a request line, and the status that it is answered with.
    refuse: Mutex<HashMap<String, u16>>,
    events: broadcast::Sender<String>,
}

fn cluster(id: &str, generation: i64) -> Json {
    json!({"id": id, "kind": "Cluster", "name": id, "href": format!("/api/hyperfleet/v1/clusters/{id}"), "generation": generation})
}

impl Server {
    async fn start(clusters: &[Json]) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Arc::new(Self {
            address: format!("http://{}", listener.local_addr().unwrap()),
            asked: Mutex::default(),
            clusters: Mutex::new(clusters.to_vec()),
            refuse: Mutex::default(),
            events: broadcast::channel(16).0,
        });
        let accepting = Arc::clone(&server);
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let server = Arc::clone(&accepting);
                tokio::spawn(async move { server.serve(stream).await });
            }
        });
        server
    }

    async fn serve(&self, stream: TcpStream) -> Option<()> {
        let mut stream = BufReader::new(stream);
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
            if line.trim().is_empty() {
                break;
            }
            lines.push(line.trim().to_owned());
        }
        let header = |name: &str| {
            let found = lines
                .iter()
                .find_map(|line| line.to_lowercase().starts_with(name).then(|| line.split_once(": ")));
            found.flatten().map(|(_, value)| value.to_owned())
        };
        let length = header("content-length:").map_or(0, |length| length.parse().unwrap());
        let mut body = vec![0; length];
        stream.read_exact(&mut body).await.ok()?;
        let asked = Asked {
            line: lines[0].trim_end_matches(" HTTP/1.1").to_owned(),
            token: header("authorization:").unwrap_or_default(),
            place: header("last-event-id:"),
            body: serde_json::from_slice(&body).unwrap_or_default(),
        };
        self.asked.lock().unwrap().push(asked.clone());
        let refused = self
            .refuse
            .lock()
            .unwrap()
            .iter()
            .find(|(begin, _)| asked.line.starts_with(*begin))
            .map(|(_, status)| *status);
        if let Some(status) = refused {
            return answer(&mut stream, status, &json!({"type": "x", "title": "x", "status": status, "detail": "refused", "code": "x", "request_id": "x"})).await;
        }
        if asked.line.starts_with("GET /api/v1/events") {
            let mut events = self.events.subscribe();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\nid: 7\n\n").await.ok()?;
            while let Ok(event) = events.recv().await {
                if event == "close" {
                    break;
                }
                stream.write_all(event.as_bytes()).await.ok()?;
            }
            return None;
        }
        let clusters = self.clusters.lock().unwrap().clone();
        let path = asked.line.split(['?', ' ']).nth(1).unwrap_or_default();
        let body = match path {
            "/api/hyperfleet/v1/clusters" => json!({"items": clusters, "page": 1, "size": 1, "total": 1}),
            _ => clusters.into_iter().find(|cluster| cluster["href"] == path).unwrap_or(json!({})),
        };
        answer(&mut stream, 200, &body).await
    }

    fn tell(&self, cluster: &Json, place: u32) {
        let event = json!({"specversion": "1.0", "data": cluster});
        self.events.send(format!("id: {place}\ndata: {event}\n\n")).unwrap();
    }

    /// Waits until so many requests begin like this, and returns them.
    async fn wait(&self, begin: &str, count: usize) -> Vec<Asked> {
        for _ in 0..1000 {
            let found: Vec<_> = self
                .asked
                .lock()
                .unwrap()
                .iter()
                .filter(|asked| asked.line.starts_with(begin))
                .cloned()
                .collect();
            if found.len() >= count {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("no {count} times {begin}: {:#?}", self.asked.lock().unwrap());
    }
}

async fn answer(stream: &mut BufReader<TcpStream>, status: u16, body: &Json) -> Option<()> {
    let body = body.to_string();
    let head = format!("HTTP/1.1 {status} x\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    stream.write_all(head.as_bytes()).await.ok()?;
    stream.write_all(body.as_bytes()).await.ok()
}

/// An adapter that runs until it is dropped.
struct Adapter {
    task: JoinHandle<()>,
    folder: tempfile::TempDir,
}

impl Drop for Adapter {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn start(server: &Server) -> Adapter {
    let folder = tempfile::tempdir().unwrap();
    let (path, token) = (folder.path().join("adapter.yaml"), folder.path().join("token"));
    let text = "adapter: {name: dns}\npost: {payloads: [{name: p, build: {conditions: {applied: {status: {expression: true}},
        available: {status: {expression: cluster.generation > 1}}, health: {status: {expression: true}}}}}]}";
    std::fs::write(&path, text).unwrap();
    std::fs::write(&token, "first").unwrap();
    let config = Config::read(&path).unwrap_or_else(|problems| panic!("{problems:?}"));
    let address = server.address.clone();
    let connection = Connection::new(&server.address, move || {
        let token = std::fs::read_to_string(&token)?;
        Ok(Client::new(&Options { server: address.clone(), token: Some(token), ..Options::default() })?)
    });
    Adapter { task: tokio::spawn(run(config, connection.unwrap(), None)), folder }
}

const REPORT: &str = "POST /api/hyperfleet/v1/clusters/";

#[tokio::test]
async fn clusters_are_listed_then_followed_and_each_is_reported() {
    let server = Server::start(&[cluster("a", 1)]).await;
    let _adapter = start(&server);
    let first = server.wait(REPORT, 1).await.remove(0);
    assert_eq!(first.line, "POST /api/hyperfleet/v1/clusters/a/statuses");
    assert_eq!((&first.body["adapter"], &first.body["observed_generation"]), (&json!("dns"), &json!(1)));
    assert_eq!(first.token, "Bearer first");
    let asked: Vec<_> = server.asked.lock().unwrap().iter().map(|asked| asked.line.clone()).collect();
    assert_eq!(
        asked[0], "GET /api/v1/events?adapter=dns",
        "before the list, so that nothing falls between them"
    );
    assert!(asked[1].starts_with("GET /api/hyperfleet/v1/clusters?page=1"), "{asked:?}");

    // The event is older than the cluster: what is read counts.
    *server.clusters.lock().unwrap() = vec![cluster("a", 3)];
    server.tell(&cluster("a", 2), 8);
    let second = server.wait(REPORT, 2).await.remove(1);
    assert_eq!(
        (&second.body["observed_generation"], &second.body["conditions"][1]["status"]),
        (&json!(3), &json!("True"))
    );

    // The stream goes on behind the last event, without another list.
    server.events.send("close".to_owned()).unwrap();
    let streams = server.wait("GET /api/v1/events", 2).await;
    assert_eq!((streams[0].place.as_deref(), streams[1].place.as_deref()), (None, Some("8")));
    server.wait("GET /api/v1/events", 2).await;
    assert_eq!(server.wait("GET /api/hyperfleet/v1/clusters?", 1).await.len(), 1);
}

#[tokio::test]
async fn a_cluster_that_fails_delays_no_other_and_is_tried_again() {
    let server = Server::start(&[cluster("bad", 1), cluster("worse", 1), cluster("good", 2)]).await;
    let refuse = |begin: &str, status: Option<u16>| {
        let mut refused = server.refuse.lock().unwrap();
        match status {
            Some(status) => refused.insert(begin.to_owned(), status),
            None => refused.remove(begin),
        };
    };
    refuse("GET /api/hyperfleet/v1/clusters/bad", Some(500));
    refuse("POST /api/hyperfleet/v1/clusters/worse", Some(503));
    let _adapter = start(&server);
    server.wait("POST /api/hyperfleet/v1/clusters/good", 1).await;
    server.wait("GET /api/hyperfleet/v1/clusters/bad", 2).await;
    let tries = server.wait("POST /api/hyperfleet/v1/clusters/worse", 2).await;
    refuse("POST /api/hyperfleet/v1/clusters/worse", None);
    server.wait("POST /api/hyperfleet/v1/clusters/worse", tries.len() + 1).await;
    assert!(
        server.asked.lock().unwrap().iter().filter(|asked| asked.line.contains("/bad/statuses")).count() == 0
    );
}

#[tokio::test]
async fn a_new_token_is_read_and_a_lost_place_begins_anew() {
    let server = Server::start(&[cluster("a", 1)]).await;
    let adapter = start(&server);
    server.wait(REPORT, 1).await;
    server.tell(&cluster("a", 1), 9);
    server.wait(REPORT, 2).await;
    std::fs::write(adapter.folder.path().join("token"), "second").unwrap();
    server.refuse.lock().unwrap().insert("GET /api/v1/events".to_owned(), 401);
    server.events.send("close".to_owned()).unwrap();
    server.wait("GET /api/v1/events", 2).await;
    server.refuse.lock().unwrap().insert("GET /api/v1/events".to_owned(), 410);
    server.wait("GET /api/v1/events", 4).await;
    server.refuse.lock().unwrap().clear();
    // Everything is listed again, with the new token, and from now on.
    let lists = server.wait("GET /api/hyperfleet/v1/clusters?", 2).await;
    assert_eq!(lists[1].token, "Bearer second");
    let streams = server.wait("GET /api/v1/events", 5).await;
    assert_eq!(streams.last().unwrap().place, None);
}
