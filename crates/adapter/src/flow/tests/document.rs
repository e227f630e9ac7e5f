//! The blocks of the document, cut out of it.

use std::path::PathBuf;

use serde_json::{Value as Json, json};

use super::{conditions, config, run};

/// Returns the document, or says in one line that it is not there.
fn document() -> Option<String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/seeds");
    let files = std::fs::read_dir(folder).ok()?;
    let mut files = files.filter_map(|file| Some(file.ok()?.path()));
    let path =
        files.find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("003_")));
    let text = path.and_then(|path| std::fs::read_to_string(path).ok());
    if text.is_none() {
        println!("the document is not there: this test checked nothing");
    }
    text
}

/// Returns the first block of a language behind a heading.
fn block_after(heading: &str, language: &str) -> Option<String> {
    let text = document()?;
    let rest = text.split_once(heading).unwrap_or_else(|| panic!("{heading} is not in the document")).1;
    let rest = rest.split_once(&format!("```{language}\n")).unwrap().1;
    Some(rest.split_once("```").unwrap().0.to_owned())
}

pub(super) fn json_after(heading: &str) -> Option<Json> {
    Some(serde_json::from_str(&block_after(heading, "json")?).unwrap())
}

/// The document shows only `post`: these are the objects that its expressions name.
const AROUND: &str = r#"
adapter: {name: hypershift}
resources:
  - name: clusterNamespace
    manifest: {apiVersion: v1, kind: Namespace, metadata: {name: "{{ .clusterId }}"}}
track:
  discovery:
    - {name: clusterController, apiVersion: apps/v1, kind: Deployment, namespace: "{{ .clusterId }}", by_name: controller}
    - {name: exampleResource, apiVersion: example.com/v1, kind: Example, namespace: "{{ .clusterId }}", by_name: example}
"#;

#[tokio::test]
async fn contract_the_configuration_of_the_document_works_as_it_stands() {
    let Some(post) = block_after("**Example Configuration**", "yaml") else { return };
    // The token is the framework's own; the document's template for it is never rendered.
    assert!(post.contains(".hyperfleetApiToken") && post.contains("?? \"ResourcesCreated\""));
    let config = config(&format!("{AROUND}\n{post}"));
    let cluster = super::cluster();
    let available = |status: &str| json!([{"type": "Available", "status": status, "reason": "MinimumReplicasAvailable", "message": "it has them"}]);
    let namespace = json!({"kind": "Namespace", "metadata": {"name": "c-1"}, "status": {"phase": "Active"}});
    let objects = |status: Json| {
        json!({"c-1": namespace, "controller": {"kind": "Deployment", "metadata": {"name": "controller"}, "status": status},
            "example": {"kind": "Example", "metadata": {"name": "example"}, "status": {"value": 7}}})
    };
    let fresh = run(&config, &cluster, json!({}), json!({})).await;
    assert_eq!(
        conditions(&fresh),
        ["Applied=False ResourcesCreated", "Available=False DeploymentReady", "Health=True AllChecksPass"]
    );
    assert_eq!(fresh.trace.payload.unwrap()["data"], json!({"recordCreated": false}));
    let starting = json!({"replicas": 2, "unavailableReplicas": 2, "conditions": available("False")});
    let starting = run(&config, &cluster, objects(starting), json!({})).await;
    assert_eq!(
        conditions(&starting),
        [
            "Applied=False MinimumReplicasAvailable",
            "Available=False MinimumReplicasAvailable",
            "Health=False AllChecksPass"
        ]
    );
    let ready = json!({"replicas": 2, "readyReplicas": 2, "conditions": available("True")});
    let ready = run(&config, &cluster, objects(ready), json!({})).await;
    assert_eq!(
        conditions(&ready),
        [
            "Applied=True MinimumReplicasAvailable",
            "Available=True MinimumReplicasAvailable",
            "Health=True AllChecksPass"
        ]
    );
    let payload = ready.trace.payload.unwrap();
    assert_eq!(payload["data"], json!({"recordCreated": true}));
    assert_eq!(payload["conditions"][0]["message"], "it has them");
}
