//! Clusters under load: reports of adapters, reads, lists at 100,000 clusters, and how soon an adapter is told.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use jiff::Timestamp;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    runtime::Runtime,
};
use wardroom_bench::say;

use crate::{
    PERIOD,
    client::{self, Connection},
    compare, raw, seed,
    server::Server,
};

const CLUSTERS: &str = "/api/hyperfleet/v1/clusters";
const ADAPTERS: [&str; 5] = ["dns", "placement", "validation", "pull-secret", "hypershift"];

/// How many adapters wait for changes, and how many changes they are told of.
const WAITING: usize = 1000;
const TOLD: usize = 100;

pub(crate) fn clusters(runtime: &Runtime) {
    reports(runtime);
    reads(runtime);
    lists(runtime);
    told(runtime);
    reconciled(runtime);
}

fn start(flags: &[&str]) -> Server {
    Server::start_with(flags, &[("WARDROOM_CLUSTERS_REQUIRED_ADAPTERS", &ADAPTERS.join(","))])
}

fn reports(runtime: &Runtime) {
    println!(
        "reports stored, 64 clients, 1,000 clusters with 5 adapters each, every one changes a status, SQLite:"
    );
    let written = runtime.block_on(seed::written());
    let raw = || {
        let folder = tempfile::tempdir().unwrap();
        runtime.block_on(seed::schema(folder.path(), 64));
        raw::transitions(folder.path(), &written, 64, PERIOD)
    };
    let server = start(&[]);
    runtime.block_on(make(&server, 1000));
    compare(
        "raw SQLite, 64 rows with history in one commit",
        0.5,
        || runtime.block_on(report_all(&server)),
        raw,
    );
    let Ok(admin) = std::env::var("WARDROOM_TEST_POSTGRES") else {
        println!("PostgreSQL: WARDROOM_TEST_POSTGRES is not set, not measured");
        return;
    };
    println!("the same, PostgreSQL:");
    let database = seed::new_database(&admin);
    let server = start(&["--database-url", &database]);
    runtime.block_on(make(&server, 1000));
    let pgbench = || raw::pgbench(&admin, 64, PERIOD);
    compare("pgbench -N, 64 clients", 0.8, || runtime.block_on(report_all(&server)), pgbench);
}

/// Creates clusters, several at once.
async fn make(server: &Server, count: usize) {
    const CLIENTS: usize = 32;
    let mut tasks = Vec::new();
    for client in 0..CLIENTS {
        let (address, token) = (server.address, server.token.clone());
        tasks.push(tokio::spawn(async move {
            let mut connection = Connection::open(address, &token).await;
            for number in (client..count).step_by(CLIENTS) {
                create(&mut connection, number).await;
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
}

async fn create(connection: &mut Connection, number: usize) {
    let body =
        format!(r#"{{"kind":"Cluster","name":"c{number}","spec":{{"region":"eu","number":{number}}}}}"#);
    let (status, answer) = connection.send("POST", CLUSTERS, &body).await;
    assert_eq!(status, 201, "{answer}");
}

fn report(adapter: &str, is_available: bool) -> String {
    let (at, status) = (Timestamp::now(), if is_available { "True" } else { "False" });
    format!(
        r#"{{"adapter":"{adapter}","observed_generation":1,"observed_time":"{at}","conditions":[{{"type":"Available","status":"{status}","reason":"Said","message":"{adapter} said so"}},{{"type":"Applied","status":"True"}},{{"type":"Health","status":"{status}"}}]}}"#
    )
}

/// Reports stored a second.
async fn report_all(server: &Server) -> f64 {
    const CLIENTS: usize = 64;
    let (done, began) = (Arc::new(AtomicU64::new(0)), Instant::now());
    let mut tasks = Vec::new();
    for client in 0..CLIENTS {
        let (address, token, done) = (server.address, server.token.clone(), Arc::clone(&done));
        tasks.push(tokio::spawn(async move {
            let mut connection = Connection::open(address, &token).await;
            for (turn, number) in (client..1000).step_by(CLIENTS).cycle().enumerate() {
                for adapter in ADAPTERS {
                    if began.elapsed() > PERIOD {
                        return;
                    }
                    let (path, body) =
                        (format!("{CLUSTERS}/c{number}/statuses"), report(adapter, turn / 16 % 2 == 0));
                    let (status, answer) = connection.send("POST", &path, &body).await;
                    assert_eq!(status, 200, "{answer}");
                    done.fetch_add(1, Ordering::Relaxed);
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    done.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64()
}

fn reads(runtime: &Runtime) {
    let server = start(&[]);
    runtime.block_on(async {
        make(&server, 1).await;
        let mut connection = Connection::open(server.address, &server.token).await;
        for adapter in ADAPTERS {
            let (status, answer) =
                connection.send("POST", &format!("{CLUSTERS}/c0/statuses"), &report(adapter, true)).await;
            assert_eq!(status, 200, "{answer}");
        }
    });
    let reads = |path: &str| runtime.block_on(client::reads(server.address, &server.token, path, 32, PERIOD));
    println!("GET of one cluster with the reports of 5 adapters, 32 clients:");
    compare("no-op handler on the same stack", 0.5, || reads(&format!("{CLUSTERS}/c0")), || reads("/livez"));
}

fn lists(runtime: &Runtime) {
    let (server, began) = (start(&[]), Instant::now());
    runtime.block_on(make(&server, 100_000));
    println!("created 100,000 clusters over HTTP in {:.0} s", began.elapsed().as_secs_f64());
    let page = |number: usize| {
        let path = format!("{CLUSTERS}?size=100&page={number}");
        runtime.block_on(client::reads(server.address, &server.token, &path, 4, PERIOD))
    };
    let mut ratios: Vec<_> = (0..5).map(|_| page(1000) / page(1)).collect();
    ratios.sort_by(f64::total_cmp);
    say(
        ratios[2] >= 0.8,
        &format!("  the last of 1,000 pages to the first: ratio {:.2} (at least 0.8)", ratios[2]),
    );
}

/// From the request that changes a cluster to the event of each waiting adapter.
fn told(runtime: &Runtime) {
    let server = start(&[]);
    let mut times = runtime.block_on(async {
        make(&server, TOLD).await;
        let heard = Arc::new(std::sync::Mutex::new(Vec::new()));
        let mut streams = Vec::new();
        for number in 0..WAITING {
            let stream = listen(server.address, &server.token, ADAPTERS[number % ADAPTERS.len()]).await;
            streams.push(tokio::spawn(follow(stream, Arc::clone(&heard))));
        }
        // A new stream first sends an event for each existing cluster.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let mut connection = Connection::open(server.address, &server.token).await;
        let (mut times, wanted) = (Vec::new(), WAITING);
        for number in 0..TOLD {
            heard.lock().unwrap().clear();
            let (path, body) =
                (format!("{CLUSTERS}/c{number}"), format!(r#"{{"spec":{{"round":{number}}}}}"#));
            let began = Instant::now();
            let (status, answer) = connection.send("PATCH", &path, &body).await;
            assert_eq!(status, 200, "{answer}");
            while heard.lock().unwrap().len() < wanted && began.elapsed() < Duration::from_secs(10) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            times.extend(heard.lock().unwrap().iter().map(|at: &Instant| at.duration_since(began)));
            times.extend(vec![Duration::from_secs(10); wanted.saturating_sub(heard.lock().unwrap().len())]);
        }
        streams.iter().for_each(tokio::task::JoinHandle::abort);
        times
    });
    times.sort();
    let (median, late) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    say(
        late < Duration::from_secs(1),
        &format!(
            "change to told, {WAITING} adapters wait: median {} ms, p99 {} ms (under 1,000)",
            median.as_millis(),
            late.as_millis()
        ),
    );
}

/// Opens the event stream of an adapter.
async fn listen(address: SocketAddr, token: &str, adapter: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "GET /api/v1/events?adapter={adapter} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\naccept: text/event-stream\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Notes when an event of a change arrives.
async fn follow(mut stream: TcpStream, heard: Arc<std::sync::Mutex<Vec<Instant>>>) {
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = stream.read(&mut buffer).await.unwrap_or(0);
        if read == 0 {
            return;
        }
        if buffer[..read].windows(6).any(|six| six == b"\"href\"") {
            heard.lock().unwrap().push(Instant::now());
        }
    }
}

/// From the creation of a cluster to `Reconciled`, with adapters that answer at once.
fn reconciled(runtime: &Runtime) {
    let server = start(&[]);
    let took = runtime.block_on(async {
        for adapter in ADAPTERS {
            let (address, token) = (server.address, server.token.clone());
            tokio::spawn(async move {
                let mut stream = listen(address, &token, adapter).await;
                let (mut connection, mut buffer) =
                    (Connection::open(address, &token).await, vec![0; 1 << 16]);
                loop {
                    let read = stream.read(&mut buffer).await.unwrap_or(0);
                    if read == 0 {
                        return;
                    }
                    if !buffer[..read].windows(6).any(|six| six == b"\"href\"") {
                        continue;
                    }
                    let path = format!("{CLUSTERS}/c0/statuses");
                    connection.send("POST", &path, &report(adapter, true)).await;
                }
            });
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut connection = Connection::open(server.address, &server.token).await;
        let began = Instant::now();
        create(&mut connection, 0).await;
        while began.elapsed() < Duration::from_secs(20) {
            let (_, shown) = connection.send("GET", &format!("{CLUSTERS}/c0"), "").await;
            let after = shown.split(r#""type":"Reconciled""#).nth(1).unwrap_or_default();
            if after.split('}').next().unwrap_or_default().contains(r#""status":"True""#) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        began.elapsed()
    });
    let text = format!(
        "create to Reconciled, 5 adapters that answer at once: {} ms (under 2,000)",
        took.as_millis()
    );
    say(took < Duration::from_secs(2), &text);
}
