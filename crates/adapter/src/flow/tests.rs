//! The six patterns of the document, deletion, and what nothing that is shown may contain.

use serde_json::{Value as Json, json};

use super::{Outcome, process};
use crate::{
    config::Config,
    world::{Recorded, World},
};

mod document;

/// A validation adapter with a job, in the document's shape.
const VALIDATION: &str = r#"
adapter: {name: validation}
params:
  - {name: region, source: cluster.spec.region, type: string, required: true}
  - {name: image, source: env.IMAGE}
preconditions:
  - name: clusterIsKnown
    expression: cluster.spec.known ?? true
resources:
  - name: job
    manifest:
      apiVersion: batch/v1
      kind: Job
      metadata: {name: "validation-{{ .clusterId }}", namespace: jobs}
      spec: {backoffLimit: "{{ 3 | int }}", template: {spec: {containers: [{name: c, image: "{{ .image }}"}]}}}
track:
  discovery:
    - {name: zone, apiVersion: v1, kind: ConfigMap, namespace: dns, byName: "zone-{{ .region }}", external: true}
post:
  parameters:
    - name: clusterStatusPayload
      build:
        conditions:
          applied: {status: {expression: resources.job != nil}}
          available:
            status: {expression: "resources.job.status.conditions[?(@.type=='Complete')].status == 'True'"}
            reason: {expression: "resources.job.status.conditions[?(@.type=='Failed')] != nil ? 'WorkloadFailed' : nil"}
          health: {status: {expression: "true"}}
        data:
          zone: {expression: externalResources.zone.data.id}
"#;

fn config(text: &str) -> Config {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("adapter.yaml");
    std::fs::write(&path, text).unwrap();
    Config::read(&path).unwrap_or_else(|problems| panic!("{problems:#?}"))
}

fn cluster() -> Json {
    json!({"id": "c-1", "name": "one", "kind": "Cluster", "generation": 3, "spec": {"region": "eu"}})
}

async fn run(config: &Config, cluster: &Json, objects: Json, answers: Json) -> Outcome {
    let event = json!({"id": "c-1", "kind": "Cluster", "href": "/clusters/c-1", "generation": 2});
    let mut world = World::Recorded(Recorded::of(objects, answers));
    process(config, &event, cluster, &mut world, "2026-11-19T12:00:00Z".parse().unwrap()).await
}

/// Returns `Type=Status Reason` of each condition.
fn conditions(outcome: &Outcome) -> Vec<String> {
    let payload = outcome.trace.payload.as_ref().unwrap();
    let conditions = payload["conditions"].as_array().unwrap().iter();
    let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
    conditions
        .map(|condition| {
            format!(
                "{}={} {}",
                text(&condition["type"]),
                text(&condition["status"]),
                text(&condition["reason"])
            )
        })
        .collect()
}

fn job(status: &Json) -> Json {
    json!({"job": {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "validation-c-1", "namespace": "jobs"}, "status": status}})
}

#[tokio::test]
async fn each_pattern_of_the_document_comes_from_its_facts() {
    let config = config(VALIDATION);
    let mut unknown = cluster();
    unknown["spec"]["known"] = json!(false);
    let ended = |kind: &str| json!({"conditions": [{"type": kind, "status": "True"}]});
    let nameless = json!({"id": "c-1", "generation": 3});
    let cases = [
        ("Pattern 1", unknown, json!({})),
        ("Pattern 2", cluster(), json!({})),
        ("Pattern 3", cluster(), job(&json!({"active": 1}))),
        ("Pattern 4", cluster(), job(&ended("Complete"))),
        ("Pattern 5", cluster(), job(&ended("Failed"))),
        ("Pattern 6", nameless, json!({})),
    ];
    for (pattern, cluster, objects) in cases {
        let outcome = run(&config, &cluster, objects, json!({})).await;
        let ours = outcome.trace.payload.clone().unwrap();
        assert_eq!(ours["observed_generation"], 3, "the cluster's, not that of the event");
        assert_eq!(
            (&ours["adapter"], &ours["observed_time"]),
            (&json!("validation"), &json!("2026-11-19T12:00:00Z"))
        );
        let Some(theirs) = document::json_after(&format!("### {pattern}")) else { return };
        let words = |payload: &Json| -> Vec<(Json, Json)> {
            let conditions = payload["conditions"].as_array().unwrap().iter();
            conditions.map(|condition| (condition["type"].clone(), condition["status"].clone())).collect()
        };
        assert_eq!(words(&ours), words(&theirs), "{pattern}: {ours:#}");
        for (ours, theirs) in
            ours["conditions"].as_array().unwrap().iter().zip(theirs["conditions"].as_array().unwrap())
        {
            // Health of pattern 5 says in the document that the event was processed.
            let is_same = ours["reason"] == theirs["reason"] || theirs["reason"] == "EventProcessed";
            assert!(is_same, "{pattern}: {ours} instead of {theirs}");
        }
    }
}

#[tokio::test]
async fn an_error_of_any_step_is_reported() {
    let broken = ["Applied=False AdapterError", "Available=False AdapterError", "Health=False AdapterError"];
    let with = |from: &str, to: &str| {
        assert!(VALIDATION.contains(from), "{from}");
        config(&VALIDATION.replace(from, to))
    };
    let cases = [
        (with("source: cluster.spec.region", "source: cluster.spec.gone"), "params region"),
        (
            with("source: cluster.spec.region, type: string", "source: cluster.spec, type: string"),
            "params region",
        ),
        (with("source: cluster.spec.region", "api_call: {url: /x}"), "params region"),
        (
            with("expression: cluster.spec.known ?? true", "expression: cluster.spec.region"),
            "preconditions clusterIsKnown",
        ),
        (with("resources.job != nil", "cluster.spec.region > 1"), "post clusterStatusPayload"),
        (with("resources.job != nil", "cluster.spec.region"), "post clusterStatusPayload"),
        (with("externalResources.zone.data.id", "cluster.name + 1"), "post clusterStatusPayload"),
        (with("namespace: jobs", "namespace: \"{{ .cluster.gone }}\""), "resources job"),
    ];
    for (config, step) in cases {
        let outcome = run(&config, &cluster(), json!({}), json!({})).await;
        assert_eq!(conditions(&outcome), broken, "{step}");
        let error = outcome.error.unwrap();
        assert_eq!(format!("{} {}", error.phase, error.step), step, "{error:?}");
        assert_eq!(outcome.trace.status, "failed");
    }
}

#[tokio::test]
async fn a_cluster_is_finalized_when_nothing_is_left() {
    let config = config(VALIDATION);
    let mut deleted = cluster();
    deleted["deleted_time"] = json!("2026-11-19T11:00:00Z");
    // A precondition does not hold a deletion up.
    deleted["spec"]["known"] = json!(false);
    let outcome = run(&config, &deleted, job(&json!({})), json!({})).await;
    assert_eq!(conditions(&outcome).last().unwrap(), "Finalized=False ResourcesRemain");
    assert_eq!(outcome.trace.resources[0]["action"], "delete");
    let outcome = run(&config, &deleted, json!({}), json!({})).await;
    assert_eq!(conditions(&outcome).last().unwrap(), "Finalized=True ResourcesGone");
    // An adapter that failed does not know whether anything is left.
    deleted["spec"] = json!({});
    let outcome = run(&config, &deleted, json!({}), json!({})).await;
    assert_eq!(conditions(&outcome).last().unwrap(), "Finalized=False ResourcesRemain");
    // Nor does a configuration that claims it.
    let claiming = VALIDATION.replace(
        "          health:",
        "          finalized: {status: {expression: \"true\"}}\n          health:",
    );
    let outcome = run(&self::config(&claiming), &cluster(), json!({}), json!({})).await;
    assert!(conditions(&outcome).contains(&"Finalized=False NotDeleting".to_owned()));
}

#[tokio::test]
async fn no_value_changes_the_structure_of_a_manifest() {
    let config = config(VALIDATION);
    let mut cluster = cluster();
    cluster["id"] = json!("x\", \"namespace\": \"kube-system\n  labels: {a: b}");
    let outcome = run(&config, &cluster, json!({}), json!({})).await;
    let manifest = &outcome.trace.resources[0]["manifest"];
    assert_eq!(manifest["metadata"]["namespace"], "jobs");
    assert_eq!(manifest["metadata"]["name"], format!("validation-{}", cluster["id"].as_str().unwrap()));
    assert_eq!(manifest["spec"]["backoffLimit"], 3);
}

#[tokio::test]
async fn the_environment_is_in_manifests_and_nowhere_else() {
    let secret = "registry.example/s3cret";
    let answers = json!({"environment": {"IMAGE": secret}});
    let outcome = run(&config(VALIDATION), &cluster(), json!({}), answers.clone()).await;
    let trace = serde_json::to_string(&outcome.trace).unwrap();
    assert!(!trace.contains(secret) && trace.contains("(image, from the environment)"), "{trace}");
    // Nor does a query over all variables find it.
    let text =
        VALIDATION.replace("preconditions:", "  - {name: found, source: \"{.image}\"}\npreconditions:");
    let outcome = run(&config(&text), &cluster(), json!({}), answers.clone()).await;
    assert_eq!(outcome.trace.params["found"], Json::Null);
    // What another system says about it is concealed as well.
    let text = VALIDATION.replace("source: cluster.spec.region", "api_call: {url: \"/{{ .image }}\"}");
    let text = text
        .replace("  - {name: image, source: env.IMAGE}\n", "")
        .replace("params:\n", "params:\n  - {name: image, source: env.IMAGE}\n");
    let outcome = run(&config(&text), &cluster(), json!({}), answers).await;
    assert!(!serde_json::to_string(&outcome.trace).unwrap().contains(secret));
    assert!(!format!("{:?}", outcome.error).contains(secret));
}

#[tokio::test]
async fn the_newer_shape_is_reported_as_it_is_built() {
    let text = r#"
adapter: {name: dns}
params:
  - {name: addresses, dns: "api.{{ .clusterName }}.example.com"}
preconditions:
  - name: fetch
    api_call: {method: GET, url: "/clusters/{{ .clusterId }}"}
    capture:
      - {name: phase, field: status.phase}
      - {name: ready, expression: "status.phase == 'Ready'"}
  - name: isReady
    conditions: [{field: phase, operator: in, value: [Ready, Installing]}]
post:
  payloads:
    - name: payload
      build:
        adapter: "{{ .adapter.name }}"
        conditions:
          - type: Applied
            status: {expression: "!adapter.resourcesSkipped"}
          - type: Available
            status: {expression: addresses.size() > 0}
            reason: {expression: "addresses.size() > 0 ? 'Resolved' : 'NotResolved'"}
          - {type: Health, status: "True", reason: {field: adapter.executionStatus}, message: "{{ .clusterName }} is fine"}
        data: {addresses: {expression: addresses}, phase: {field: phase, default: none}}
  post_actions:
    - name: report
      api_call: {method: PUT, url: "/clusters/{{ .clusterId }}/statuses", body: "{{ .payload }}"}
    - {name: tell, log: {message: "{{ .clusterName }} is {{ .phase }}"}}
"#;
    let config = config(text);
    let answers = |phase: &str| {
        json!({"dns": {"api.one.example.com": ["10.0.0.1"]}, "responses": [
            {"match": {"method": "GET", "urlPattern": "/clusters/c-1$"}, "responses": [{"statusCode": 200, "body": {"status": {"phase": phase}}}]}]})
    };
    let outcome = run(&config, &cluster(), json!({}), answers("Ready")).await;
    assert_eq!(conditions(&outcome), ["Applied=True ", "Available=True Resolved", "Health=True success"]);
    let payload = outcome.trace.payload.unwrap();
    assert_eq!(payload["data"], json!({"addresses": ["10.0.0.1"], "phase": "Ready"}));
    assert_eq!(payload["conditions"][2]["message"], "one is fine");
    assert_eq!(outcome.messages, ["one is Ready"]);
    let outcome = run(&config, &cluster(), json!({}), answers("Gone")).await;
    assert_eq!(conditions(&outcome)[0], "Applied=False ");
    assert_eq!(outcome.trace.status, "skipped");
    // A payload that hides an error is replaced by one that tells it.
    let outcome = run(&config, &cluster(), json!({}), json!({})).await;
    assert_eq!(conditions(&outcome)[2], "Health=False AdapterError");
}
