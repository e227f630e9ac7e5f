//! Our answers about clusters, checked against HyperFleet's own OpenAPI document.

#![expect(clippy::print_stdout, reason = "a test says what it leaves out")]

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::support::{
    Backend, Site,
    cluster::{CLUSTERS, REQUIRED, REQUIRED_OF_POOLS, cluster, pool, report},
    on_both,
};

on_both! {
    contract_of_the_clusters,
}

/// Where we differ from the document, and why: the path in the schema, and the reason.
const DIFFERENCES: &[(&str, &str)] = &[
    (
        "force-delete, default",
        "refusals have a type of ours, `urn:wardroom:problem:…`, and a request_id instead of a trace_id",
    ),
    ("AdapterStatus.metadata", "any object, as document 003 has it: nothing is left out, nothing is typed"),
    ("ClusterCreateRequest.kind", "may be left out: the path says it"),
    ("ClusterCreateRequest.id", "refused, like href: the server sets both"),
    ("QueryParams.size", "at most 500, so that a page has a limit"),
    ("QueryParams.order", "created_time only, with asc or desc; desc unless told"),
    ("POST statuses", "accepted as document 003 has it, with 200; PUT answers as this document has it"),
];

fn document() -> Option<Value> {
    let default = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data"));
    let folder = std::env::var_os("WARDROOM_CONTRACT_DATA").map_or(default, PathBuf::from);
    let Ok(text) = std::fs::read_to_string(folder.join("specs/hyperfleet-openapi.yaml")) else {
        println!("specs/hyperfleet-openapi.yaml is not there: no answer is compared with it");
        return None;
    };
    Some(serde_saphyr::from_str(&text).unwrap())
}

fn contract_of_the_clusters(on: Backend) {
    let Some(document) = document() else { return };
    assert!(DIFFERENCES.iter().all(|(place, why)| !place.is_empty() && !why.is_empty()));
    let site = Site::start_with(on, &[(REQUIRED, "adapter1,adapter2"), (REQUIRED_OF_POOLS, "adapter1")]);
    let check = |shown: &Value, schema: &str| {
        let mut wrong = Vec::new();
        let schema = &document["components"]["schemas"][schema];
        assert!(schema.is_object(), "the document has the schema");
        validate(&document, schema, shown, "", &mut wrong);
        assert!(wrong.is_empty(), "{wrong:#?}\n{shown}");
    };
    // The requests that the document itself gives as examples.
    let example = |schema: &str| document["components"]["schemas"][schema]["example"].clone();
    let made = site.admin().post(CLUSTERS, &example("ClusterCreateRequest")).expect(201);
    check(&made, "Cluster");
    let path = format!("{CLUSTERS}/cluster-123");
    let pools = format!("{path}/nodepools");
    let worker = site.admin().post(&pools, &example("NodePoolCreateRequest")).expect(201);
    check(&worker, "NodePoolCreateResponse");
    check(&site.admin().patch(&path, &example("ClusterPatchRequest")).expect(200), "Cluster");
    let worker = format!("{pools}/worker-pool-1");
    check(&site.admin().patch(&worker, &example("NodePoolPatchRequest")).expect(200), "NodePool");
    let mut said = example("AdapterStatusCreateRequest");
    said["observed_time"] = report("x", 1, "True", None)["observed_time"].clone();
    for place in [&path, &worker] {
        check(&site.admin().put(&format!("{place}/statuses"), &said).expect(201), "AdapterStatus");
        check(&site.admin().get(&format!("{place}/statuses")).expect(200), "AdapterStatusList");
    }
    for adapter in ["adapter1", "adapter2"] {
        site.admin().put(&format!("{path}/statuses"), &report(adapter, 2, "True", None)).expect(201);
    }
    check(&site.admin().get(&path).expect(200), "Cluster");
    check(&site.admin().get(&worker).expect(200), "NodePool");
    check(&site.admin().get(CLUSTERS).expect(200), "ClusterList");
    check(&site.admin().get(&pools).expect(200), "NodePoolList");
    check(&site.admin().get("/api/hyperfleet/v1/nodepools").expect(200), "NodePoolList");
    check(
        &site.admin().get(&format!("{CLUSTERS}?search=name%3D'cluster-123'&page=1&size=5")).expect(200),
        "ClusterList",
    );
    check(&site.admin().delete(&worker).expect(202), "NodePool");
    check(&site.admin().delete(&path).expect(202), "Cluster");
    let force = json!({"reason": "a test"});
    assert_eq!(site.admin().post(&format!("{worker}/force-delete"), &force).status, 204);
    assert_eq!(site.admin().post(&format!("{path}/force-delete"), &force).status, 204);
    statuses_of_refusals(&site, &document);
}

/// Every refusal has a status that the document lists, or is its `default`.
fn statuses_of_refusals(site: &Site, document: &Value) {
    cluster(&site.admin(), "east");
    pool(&site.admin(), "east", "workers");
    let path = "/api/hyperfleet/v1/clusters/{cluster_id}";
    for (method, served, target, body, status) in [
        ("post", "/api/hyperfleet/v1/clusters".to_owned(), CLUSTERS.to_owned(), json!({}), "400"),
        (
            "post",
            "/api/hyperfleet/v1/clusters".to_owned(),
            CLUSTERS.to_owned(),
            json!({"name": "east", "spec": {}}),
            "409",
        ),
        ("patch", path.to_owned(), format!("{CLUSTERS}/east"), json!({}), "400"),
        ("patch", path.to_owned(), format!("{CLUSTERS}/none"), json!({"spec": {}}), "404"),
        (
            "post",
            format!("{path}/force-delete"),
            format!("{CLUSTERS}/east/force-delete"),
            json!({"reason": "x"}),
            "409",
        ),
        (
            "put",
            format!("{path}/statuses"),
            format!("{CLUSTERS}/none/statuses"),
            report("a", 1, "True", None),
            "404",
        ),
        ("put", format!("{path}/statuses"), format!("{CLUSTERS}/east/statuses"), json!({}), "400"),
    ] {
        let reply = site.admin().json(&method.to_uppercase(), &target, &body);
        assert_eq!(reply.status.to_string(), status, "{method} {target}: {}", reply.text());
        let listed = &document["paths"][&served][method]["responses"];
        assert!(listed.get(status).is_some() || listed.get("default").is_some(), "{served}: {status}");
    }
}

/// The part of JSON Schema that the document uses.
fn validate(document: &Value, schema: &Value, value: &Value, at: &str, wrong: &mut Vec<String>) {
    if let Some(name) = schema["$ref"].as_str() {
        let schema = document.pointer(name.trim_start_matches('#')).unwrap();
        return validate(document, schema, value, at, wrong);
    }
    // The table of differences.
    if at.ends_with(".metadata") {
        return;
    }
    let is_of = match schema["type"].as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64(),
        Some("boolean") => value.is_boolean(),
        Some(other) => panic!("{at}: the type {other} is not known here"),
        None => true,
    };
    if !is_of {
        wrong.push(format!("{at}: {value} is not of type {}", schema["type"]));
        return;
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        validate(document, part, value, at, wrong);
    }
    if let Some(values) = schema["enum"].as_array()
        && !values.contains(value)
    {
        wrong.push(format!("{at}: {value} is none of {values:?}"));
    }
    bounds(schema, value, at, wrong);
    for field in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if value.get(field).is_none() {
            wrong.push(format!("{at}.{field}: is missing"));
        }
    }
    for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = value.get(field) {
            validate(document, schema, value, &format!("{at}.{field}"), wrong);
        }
    }
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        validate(document, &schema["items"], item, &format!("{at}[{index}]"), wrong);
    }
}

fn bounds(schema: &Value, value: &Value, at: &str, wrong: &mut Vec<String>) {
    let text = value.as_str().unwrap_or_default();
    let length = text.chars().count() as u64;
    let items = value.as_array().map_or(0, Vec::len) as u64;
    let number = value.as_i64().unwrap_or_default();
    let broken = [
        schema["minLength"].as_u64().is_some_and(|least| length < least),
        schema["maxLength"].as_u64().is_some_and(|most| length > most),
        schema["minItems"].as_u64().is_some_and(|least| items < least),
        schema["minimum"].as_i64().is_some_and(|least| number < least),
        schema["format"] == "date-time" && text.parse::<jiff::Timestamp>().is_err(),
    ];
    if broken.contains(&true) {
        wrong.push(format!("{at}: {value} is out of the bounds of {schema}"));
    }
}
