//! The Kubernetes fake as a program: its kubeconfig, its controls, and the state it keeps.

use serde_json::{Value, json};

use crate::Program;

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";

async fn send(fake: &Program, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let request =
        fake.client.request(method.parse().unwrap(), format!("{}{path}", fake.url)).bearer_auth("secret");
    crate::answer(request.header("content-type", "application/json").body(body.to_string())).await
}

#[tokio::test]
async fn the_program_obeys_its_controls_and_remembers() {
    let folder = tempfile::tempdir().unwrap();
    let (state, kubeconfig) = (folder.path().join("state.json"), folder.path().join("config"));
    let paths = [state.to_str().unwrap(), kubeconfig.to_str().unwrap()];
    let arguments = ["kubernetes", "--token", "secret", "--state", paths[0], "--kubeconfig", paths[1]];
    let fake = Program::start(&arguments);
    let config = std::fs::read_to_string(&kubeconfig).unwrap();
    assert!(config.contains(&fake.url) && config.contains("secret"), "{config}");
    assert_eq!(crate::answer(fake.client.get(format!("{}{JOBS}", fake.url))).await.0, 401);

    let order = json!({"kind": "Job", "name": "j", "outcome": "fail", "after_ms": 0});
    assert_eq!(send(&fake, "POST", "/_outcomes", &order).await.0, 200);
    assert_eq!(send(&fake, "POST", "/_outcomes", &json!({"kind": "Job", "outcome": "explode"})).await.0, 422);
    let job = json!({"metadata": {"name": "j"}, "spec": {"template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    assert_eq!(send(&fake, "POST", JOBS, &job).await.0, 201);
    let mut seen = Value::Null;
    for _ in 0..500 {
        seen = send(&fake, "GET", &format!("{JOBS}/j"), &Value::Null).await.1;
        if seen["status"]["failed"] == 7 {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert_eq!(seen["status"]["failed"], 7, "{seen}");

    let version = seen["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    assert_eq!(send(&fake, "PUT", "/_watches", &json!({"order": "expire"})).await.0, 200);
    let watch = format!("{JOBS}?watch=1&timeoutSeconds=5&resourceVersion={version}");
    let (status, event) = send(&fake, "GET", &watch, &Value::Null).await;
    assert_eq!((status, &event["type"], &event["object"]["code"]), (200, &json!("ERROR"), &json!(410)));

    let order = json!({"on": "GET /apis/batch", "kind": "429"});
    assert_eq!(send(&fake, "POST", "/_fault", &order).await.0, 200);
    assert_eq!(send(&fake, "GET", JOBS, &Value::Null).await.0, 429);
    drop(fake);

    let fake = Program::start(&arguments);
    let (status, again) = send(&fake, "GET", &format!("{JOBS}/j"), &Value::Null).await;
    assert_eq!((status, again), (200, seen));
}

#[tokio::test]
async fn a_custom_kind_is_served_once_it_is_defined() {
    let fake = Program::start(&["kubernetes"]);
    let works = "/apis/work.example.com/v1/namespaces/default/works";
    let work = json!({"metadata": {"name": "w"}, "spec": {"anything": [1, {"a": null}]}});
    assert_eq!(send(&fake, "POST", works, &work).await.0, 404);
    let definition = json!({"metadata": {"name": "works.work.example.com"}, "spec": {"group": "work.example.com",
        "scope": "Namespaced", "names": {"plural": "works", "kind": "Work"},
        "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(send(&fake, "POST", definitions, &definition).await.0, 201);
    let (status, made) = send(&fake, "POST", works, &work).await;
    assert_eq!((status, &made["metadata"]["generation"]), (201, &json!(1)), "{made}");
    let (_, list) = send(&fake, "GET", "/apis/work.example.com/v1", &Value::Null).await;
    assert_eq!(list["resources"][0]["kind"], "Work");
}
