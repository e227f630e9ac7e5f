//! Schemathesis over the OpenAPI document: no failure, no undocumented answer, no breach of a schema.

#![expect(clippy::print_stdout, reason = "a test says what it leaves out")]

use std::process::Command;

use serde_json::json;

use crate::support::{Backend, Site, on_both};

on_both! {
    fuzz_every_operation,
}

fn fuzz_every_operation(on: Backend) {
    let Some(program) = std::env::var_os("WARDROOM_TEST_SCHEMATHESIS") else {
        println!("schemathesis is not there: run ./dev test");
        return;
    };
    let examples = std::env::var("WARDROOM_FUZZ_EXAMPLES").unwrap_or_else(|_| "10".to_owned());
    let site = Site::start(on);
    let dir = tempfile::tempdir().unwrap();
    // A stream has no end to wait for, so the feed is asked for pages; and the walk may not revoke its own token.
    let (victim, _) = site.new_token(&json!({"name": "victim", "role": "viewer"}));
    let config = format!(
        "[[operations]]\ninclude-path = \"/api/v1/events\"\nparameters = {{ wait = 0 }}\n\
         [[operations]]\ninclude-path = \"/api/v1/tokens/{{id}}\"\nparameters = {{ id = \"{victim}\" }}\n"
    );
    std::fs::write(dir.path().join("schemathesis.toml"), config).unwrap();
    let output = Command::new(program)
        .arg("--config-file")
        .arg(dir.path().join("schemathesis.toml"))
        .args(["run", &format!("http://{}/openapi.json", site.servers[0].address)])
        .args(["--header", &format!("Authorization: Bearer {}", site.token)])
        .args(["--seed", "7", "--max-examples", &examples, "--phases", "examples,coverage,fuzzing"])
        .args(["--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,response_headers_conformance,unsupported_method,ignored_auth"])
        .args(["--generation-database", "none", "--no-color", "--continue-on-failure"])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    site.admin().get("/api/v1/nodes").expect(200);
}
