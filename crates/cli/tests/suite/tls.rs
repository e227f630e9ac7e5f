//! A server with a certificate, and a command line that checks it.

use crate::fixture::Server;

#[test]
fn the_command_line_speaks_tls_and_trusts_only_what_it_is_told_to() {
    let dir = tempfile::tempdir().unwrap();
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(dir.path().join("cert.pem"), made.cert.pem()).unwrap();
    std::fs::write(dir.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
    let server = Server::start_with_tls(dir, "cert.pem", "key.pem");

    assert!(server.ok(&["summary", "--ca-file", "cert.pem"]).contains("token"));
    server.run(&["get", "nodes"]).says(7, &["cannot be reached"]);
    let plain = server.url.replace("https://", "http://");
    server.run(&["get", "nodes", "--server", &plain]).says(7, &["cannot be reached"]);
}
