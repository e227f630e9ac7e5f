//! The fakes as programs: the address they print, their control calls, and the state they keep.

use std::{path::Path, process::Command};

use reqwest::Method;
use serde_json::{Value, json};

use crate::Program;

impl Program {
    async fn call(&self, method: Method, path: &str, body: Option<Value>) -> (u16, Value) {
        let request = self.client.request(method, format!("{}{path}", self.url));
        let mut request = request.basic_auth("admin", Some("Harbor12345"));
        if let Some(body) = body {
            request = request.json(&body);
        }
        crate::answer(request).await
    }

    async fn get(&self, path: &str) -> Value {
        let (status, body) = self.call(Method::GET, path, None).await;
        assert_eq!(status, 200, "{path}: {body}");
        body
    }
}

fn robot() -> Value {
    let access = json!([{"resource": "repository", "action": "pull"}]);
    let permissions = json!([{"kind": "project", "namespace": "library", "access": access}]);
    json!({"name": "edge-01", "level": "system", "duration": 30, "permissions": permissions})
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

#[tokio::test]
async fn harbor_takes_orders_counts_and_remembers() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state.json");
    let arguments = ["harbor", "--listen", "127.0.0.1:0", "--state", text(&state)];
    let harbor = Program::start(&arguments);
    let robots = "/api/v2.0/robots";

    let order = json!({"on": "POST /robots", "kind": "503", "times": 2});
    assert_eq!(harbor.call(Method::POST, "/_fault", Some(order)).await.0, 200);
    for expected in [503, 503, 201, 409] {
        let (status, body) = harbor.call(Method::POST, robots, Some(robot())).await;
        assert_eq!(status, expected, "{body}");
    }
    assert_eq!(harbor.get("/_effects").await, json!({"robot.create": 1}));
    let odd = json!({"on": "POST /robots", "kind": "explode"});
    assert_eq!(harbor.call(Method::POST, "/_fault", Some(odd)).await.0, 400);

    // Orders that were not used can be removed.
    let order = json!({"on": "GET /robots", "kind": "hang", "times": 9});
    assert_eq!(harbor.call(Method::POST, "/_fault", Some(order)).await.0, 200);
    assert_eq!(harbor.call(Method::DELETE, "/_fault", None).await.0, 200);
    let listed = harbor.get(robots).await;
    assert_eq!(listed[0]["name"], "robot$edge-01");
    assert_eq!(listed[0].get("secret"), None, "a secret is told once");
    assert_eq!(harbor.call(Method::POST, "/_clock", Some(json!({"advance": 60}))).await.0, 200);

    let before = harbor.get("/_state").await;
    drop(harbor);
    let harbor = Program::start(&arguments);
    assert_eq!(harbor.get("/_state").await, before);
}

#[tokio::test]
async fn harbor_refuses_what_the_real_one_refuses() {
    let harbor = Program::start(&["harbor"]);
    let (status, created) = harbor.call(Method::POST, "/api/v2.0/robots", Some(robot())).await;
    assert_eq!(status, 201);
    let one = format!("/api/v2.0/robots/{}", created["id"]);
    let whole = harbor.get(&one).await;
    let with = |name: &str, value: Value| {
        let mut changed = whole.clone();
        changed[name] = value;
        changed
    };
    for (body, expected) in [
        (whole.clone(), 200),
        (with("name", json!("edge-01")), 400),
        (with("level", json!("project")), 400),
        (with("permissions", json!([])), 400),
        (with("duration", json!(0)), 400),
        (with("duration", json!(-2)), 400),
        (with("duration", json!(-1)), 200),
        (with("disable", json!(true)), 200),
    ] {
        assert_eq!(harbor.call(Method::PUT, &one, Some(body.clone())).await.0, expected, "{body}");
    }
    for (secret, expected, told) in
        [("short1A", 400, Value::Null), ("alllowercase1", 400, Value::Null), ("LongEnough1", 200, json!(""))]
    {
        let (status, body) = harbor.call(Method::PATCH, &one, Some(json!({"secret": secret}))).await;
        assert_eq!((status, &body["secret"]), (expected, &told), "{secret}");
    }
    for name in ["a--b", "A", "a.", "-a", ""] {
        let mut body = robot();
        body["name"] = json!(name);
        assert_eq!(harbor.call(Method::POST, "/api/v2.0/robots", Some(body)).await.0, 400, "{name}");
    }
}

#[tokio::test]
async fn spire_lets_nodes_join_when_told() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("api.sock");
    let state = folder.path().join("state.json");
    let tokens = json!({"join_tokens": {"first": 4_000_000_000_i64, "late": 1}, "entries": {}, "agents": {}});
    std::fs::write(&state, tokens.to_string()).unwrap();
    let spire = Program::start(&["spire", "--socket", text(&socket), "--state", text(&state)]);
    assert!(socket.exists());

    let attest = async |token: &str| {
        let body = json!({"type": "join_token", "token": token});
        spire.call(Method::POST, "/_attest", Some(body)).await
    };
    let (status, joined) = attest("first").await;
    assert_eq!((status, &joined["id"]), (200, &json!("spiffe://example.org/spire/agent/join_token/first")));
    for spent in ["first", "late", "never"] {
        assert_eq!(attest(spent).await.0, 403, "{spent}");
    }
    assert_eq!(spire.get("/_effects").await, json!({"agent.attest": 1}));
    let agents = spire.get("/_state").await["agents"].clone();
    assert_eq!(agents.as_object().unwrap().len(), 1);
}

#[test]
fn an_unknown_fake_is_refused() {
    for arguments in [&[][..], &["nonesuch"]] {
        let output = Command::new(env!("CARGO_BIN_EXE_wardroom-fakes")).args(arguments).output().unwrap();
        assert!(!output.status.success() && output.stdout.is_empty());
    }
}
