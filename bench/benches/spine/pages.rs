//! Pages of the console beside the call of the API that each of them wraps, with 100,000 members.

use std::time::{Duration, Instant};

use wardroom_bench::say;

use crate::{client::Connection, seed, server::Server};

/// The longest that the server may take for a page, at the 99th of 100.
const MOST: Duration = Duration::from_millis(50);
/// The largest first page of a list.
const LARGEST: usize = 150 << 10;
/// Requests of each path.
const REQUESTS: usize = 300;

/// A page of the console, and what it wraps.
const PAGES: &[(&str, &str)] = &[
    ("/console", "/api/v1/attention"),
    ("/console/nodes", "/api/v1/nodes?limit=100"),
    ("/console/nodes?state=active", "/api/v1/nodes?limit=100&state=active"),
    ("/console/nodes?q=rack%3Dr7", "/api/v1/nodes?limit=100&labelSelector=rack%3Dr7"),
    ("/console/nodes/{id}", "/api/v1/resources/node/{id}/why"),
    ("/console/nodes/{id}/history", "/api/v1/history?kind=node&id={id}&limit=100"),
    ("/console/history", "/api/v1/history?limit=50"),
    ("/console/lifecycles/node", "/api/v1/lifecycles"),
];

/// Measures every page, one request after the other on one connection.
pub(crate) fn pages(runtime: &tokio::runtime::Runtime) {
    let folder = tempfile::tempdir().unwrap();
    runtime.block_on(seed::fleet(folder.path(), 100_000, 2));
    let server = Server::start_in(folder.path(), &[]);
    println!("pages of the console with 100,000 members, beside the call that each wraps, one client:");
    runtime.block_on(async {
        let mut api = Connection::open(server.address, &server.token).await;
        let mut browser = Connection::logged_in(server.address, &server.token).await;
        for (page, call) in PAGES {
            let of_node = |path: &str| path.replace("{id}", &seed::id_of(50_000));
            let (page, call) = (of_node(page), of_node(call));
            let wrapped = measure(&mut api, &call).await;
            let shown = measure(&mut browser, &page).await;
            say(
                shown.late < MOST && shown.bytes < LARGEST,
                &format!(
                    "  {page}: {:.1} ms, p99 {:.1} ms, {} KB; {call}: {:.1} ms, p99 {:.1} ms; ratio {:.1} (p99 under {} ms, under {} KB)",
                    millis(shown.middle), millis(shown.late), shown.bytes >> 10, millis(wrapped.middle),
                    millis(wrapped.late), millis(shown.middle) / millis(wrapped.middle), MOST.as_millis(), LARGEST >> 10,
                ),
            );
        }
    });
}

struct Measured {
    middle: Duration,
    late: Duration,
    bytes: usize,
}

async fn measure(connection: &mut Connection, path: &str) -> Measured {
    let (mut took, mut bytes) = (Vec::new(), 0);
    for _ in 0..REQUESTS {
        let began = Instant::now();
        let (status, answer) = connection.send("GET", path, "").await;
        took.push(began.elapsed());
        assert_eq!(status, 200, "{path}: {answer}");
        bytes = answer.len();
    }
    took.sort_unstable();
    Measured { middle: took[REQUESTS / 2], late: took[REQUESTS * 99 / 100], bytes }
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}
