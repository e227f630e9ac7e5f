//! Heads of requests that cannot be read: answered with a problem like everything else, then hung up on.

use std::{
    io::{Read as _, Write as _},
    net::{Shutdown, SocketAddr, TcpStream},
    time::Duration,
};

use crate::support::{Backend, Reply, Site, http::parse, on_both};

on_both! {
    a_head_that_cannot_be_read_is_a_problem,
    a_head_that_does_not_come_is_a_problem,
}

fn open(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream
}

/// Sends bytes, and reads until the server hangs up.
fn answer(address: SocketAddr, bytes: &[u8]) -> Reply {
    let mut stream = open(address);
    // The server may refuse before it has read everything.
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    parse(&answer).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&answer)))
}

fn a_head_that_cannot_be_read_is_a_problem(on: Backend) {
    let site = Site::start(on);
    let many: String = (0..200).map(|number| format!("x-{number}: y\r\n")).collect();
    let heads: &[(&str, Vec<u8>, u16, &str)] = &[
        ("not HTTP", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n".to_vec(), 400, "bad_head"),
        ("no version", b"GET /livez\r\nhost: localhost\r\n\r\n".to_vec(), 400, "bad_head"),
        ("another version", b"GET /livez HTTP/9.9\r\nhost: localhost\r\n\r\n".to_vec(), 400, "bad_head"),
        ("a bad method", b"G\0T /livez HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec(), 400, "bad_head"),
        ("a bad path", b"GET /\x7f<\0> HTTP/1.1\r\nhost: localhost\r\n\r\n".to_vec(), 400, "bad_head"),
        ("a bad header", b"GET /livez HTTP/1.1\r\na b: c\r\n\r\n".to_vec(), 400, "bad_head"),
        (
            "two lengths",
            b"POST /livez HTTP/1.1\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n".to_vec(),
            400,
            "bad_head",
        ),
        ("a length of words", b"POST /livez HTTP/1.1\r\ncontent-length: x\r\n\r\n".to_vec(), 400, "bad_head"),
        (
            "an unknown coding",
            b"POST /livez HTTP/1.1\r\ntransfer-encoding: zip\r\n\r\n".to_vec(),
            400,
            "bad_head",
        ),
        ("many headers", format!("GET /livez HTTP/1.1\r\n{many}\r\n").into_bytes(), 431, "head_too_large"),
        (
            "a large header",
            format!("GET /livez HTTP/1.1\r\nx: {}\r\n\r\n", "y".repeat(300_000)).into_bytes(),
            431,
            "head_too_large",
        ),
        ("no host", b"GET /livez HTTP/1.1\r\nconnection: close\r\n\r\n".to_vec(), 400, "invalid"),
        ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), 505, "http_version"),
    ];
    for server in &site.servers {
        for address in [server.address, server.boot_address] {
            for (what, head, status, code) in heads {
                let reply = answer(address, head);
                assert_eq!(reply.problem(*status)["code"], *code, "{what}");
                assert_eq!(reply.header("x-request-id"), reply.json()["request_id"].as_str(), "{what}");
                assert_eq!(reply.header("connection"), Some("close"), "{what}");
            }
        }
    }
    // Before HTTP/1.1 the header was optional.
    let old = answer(site.servers[0].address, b"GET /livez HTTP/1.0\r\n\r\n");
    assert_eq!(old.status, 200, "{}", old.text());
    // It depends on how it arrives whether the path or the whole head is found to be too long.
    let long =
        answer(site.servers[0].address, format!("GET /{} HTTP/1.1\r\n\r\n", "y".repeat(70_000)).as_bytes());
    assert!(matches!(long.status, 414 | 431), "{}", long.text());
    long.problem(long.status);
    // Earlier requests are answered first.
    let first = "GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let mut stream = open(site.servers[0].address);
    stream.write_all(format!("{first}{first}nonsense\r\n\r\n").as_bytes()).unwrap();
    let mut answers = String::new();
    stream.read_to_string(&mut answers).unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 2, "{answers}");
    assert_eq!(answers.matches("HTTP/1.1 400 Bad Request").count(), 1, "{answers}");
    assert!(answers.ends_with('}') && answers.contains("bad_head"), "{answers}");
    // A body that cannot be read belongs to a request.
    let head = "POST /api/v1/nodes HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
                transfer-encoding: chunked\r\nconnection: close\r\n";
    let bad = format!("{head}authorization: Bearer {}\r\n\r\nzz\r\n{{}}\r\n0\r\n\r\n", site.token);
    assert_eq!(answer(site.servers[0].address, bad.as_bytes()).wrong_fields(), ["body"]);
    site.admin().get("/readyz").expect(200);
}

fn a_head_that_does_not_come_is_a_problem(on: Backend) {
    let site = Site::start(on);
    let mut half = open(site.servers[0].address);
    half.write_all(b"GET /livez HTTP/1.1\r\nhost: localhost\r\n").unwrap();
    // A connection without a request gets no answer: it could be mistaken for the answer to a later request.
    let mut silent = open(site.servers[0].address);
    let mut gone = open(site.servers[0].address);
    gone.write_all(b"GET /livez HT").unwrap();
    gone.shutdown(Shutdown::Write).unwrap();
    let all = |stream: &mut TcpStream| {
        let mut bytes = Vec::new();
        stream.read_to_end(&mut bytes).unwrap();
        bytes
    };
    assert_eq!(parse(&all(&mut half)).unwrap().problem(408)["code"], "head_late");
    assert_eq!(all(&mut silent), b"");
    assert_eq!(all(&mut gone), b"");
}
