//! A server with a certificate, and a command line that checks it.

use std::process::Command;

use tempfile::TempDir;

use crate::fixture::Server;

#[test]
fn the_command_line_speaks_tls_and_trusts_only_what_it_is_told_to() {
    let server = Server::start_with_tls(certified(), "cert.pem", "key.pem");

    assert!(server.ok(&["summary", "--ca-file", "cert.pem"]).contains("token"));
    server.run(&["get", "nodes"]).says(7, &["cannot be reached"]);
    let plain = server.url.replace("https://", "http://");
    server.run(&["get", "nodes", "--server", &plain]).says(7, &["cannot be reached", "try https://"]);
    let server = Server::start();
    let secure = server.url.replace("http://", "https://");
    server.run(&["get", "nodes", "--server", &secure]).says(7, &["cannot be reached", "try http://"]);
}

/// What cannot be read as a request is refused in the same words inside of TLS.
#[test]
fn a_head_that_is_too_large_is_a_problem() {
    let server = Server::start_with_tls(certified(), "cert.pem", "key.pem");

    let mut curl = Command::new("curl");
    curl.current_dir(server.dir.path()).args(["--silent", "--include", "--http1.1", "--cacert", "cert.pem"]);
    for number in 0..200 {
        curl.args(["--header", &format!("x-{number}: y")]);
    }
    let answer = curl.arg(format!("{}/livez", server.url)).output().unwrap();
    let text = String::from_utf8(answer.stdout).unwrap();
    assert!(text.starts_with("HTTP/1.1 431 "), "{text}");
    assert!(text.contains("application/problem+json") && text.contains("head_too_large"), "{text}");
}

/// A folder that has a certificate for this address.
fn certified() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(dir.path().join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(dir.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    dir
}
