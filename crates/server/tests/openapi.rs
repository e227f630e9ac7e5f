//! `openapi.json` is generated from the handlers; this test compares, and with `WARDROOM_BLESS=1` rewrites.

use std::path::Path;

use wardroom_server::{access, router};

#[test]
fn the_document_says_what_the_handlers_say() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../openapi.json");
    let document = router::openapi().to_pretty_json().unwrap() + "\n";
    if std::env::var_os("WARDROOM_BLESS").is_some() {
        std::fs::write(&path, &document).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == document,
        "openapi.json differs from the handlers: run `./dev bless` and look at the change"
    );
}

/// Deny by default: a route that the access table does not know is refused to everybody, so it is a mistake.
#[test]
fn every_route_has_a_row_in_the_access_table_and_every_row_a_route() {
    let document = serde_json::to_value(router::openapi()).unwrap();
    let mut routes = vec![("GET".to_owned(), "/openapi.json".to_owned())];
    for (path, methods) in document["paths"].as_object().unwrap() {
        routes
            .extend(methods.as_object().unwrap().keys().map(|method| (method.to_uppercase(), path.clone())));
    }
    routes.sort();
    let mut rows: Vec<_> =
        access::ROUTES.iter().map(|route| (route.method.to_owned(), route.path.to_owned())).collect();
    rows.sort();
    assert_eq!(rows, routes);
}
