//! Values that the server fills in, and those that it leaves out.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::kinds::Kind;

/// Numbers of a status that are left out while they are 0.
const OMITTED: &[&str] = &[
    "observedGeneration",
    "updatedReplicas",
    "readyReplicas",
    "availableReplicas",
    "unavailableReplicas",
    "fullyLabeledReplicas",
    "active",
    "succeeded",
    "failed",
];

/// Fills in what an object lacks.
pub(super) fn complete(kind: &Kind, object: &mut Value) {
    for field in ["labels", "annotations", "finalizers", "ownerReferences"] {
        let is_empty = match &object["metadata"][field] {
            Value::Object(map) => map.is_empty(),
            Value::Array(list) => list.is_empty(),
            Value::Null => true,
            Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
        };
        if is_empty && let Some(metadata) = object["metadata"].as_object_mut() {
            metadata.remove(field);
        }
    }
    match kind.kind.as_str() {
        "Namespace" => {
            let name = object["metadata"]["name"].clone();
            object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
        }
        "Deployment" => {
            fill(
                object,
                &json!({"spec": {"replicas": 1, "strategy": {"type": "RollingUpdate"},
                "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600}}),
            );
            if object["spec"]["strategy"]["type"] == "RollingUpdate" {
                let rolling = json!({"maxUnavailable": "25%", "maxSurge": "25%"});
                fill(&mut object["spec"]["strategy"], &json!({"rollingUpdate": rolling}));
            }
            pod(&mut object["spec"]["template"]["spec"], "Always");
        }
        "ReplicaSet" => {
            fill(object, &json!({"spec": {"replicas": 1}}));
            pod(&mut object["spec"]["template"]["spec"], "Always");
        }
        "Job" => job(object),
        "Pod" => {
            pod(&mut object["spec"], "Always");
            fill(object, &json!({"status": {"phase": "Pending", "qosClass": "BestEffort"}}));
        }
        "Service" => service(object),
        "Secret" => secret(object),
        _ => {}
    }
    if kind.has_status {
        fill(object, &json!({"status": {}}));
    }
    let is_replica_set = kind.kind == "ReplicaSet";
    if let Some(status) = object["status"].as_object_mut() {
        let is_omitted = |name: &str| OMITTED.contains(&name) || name == "replicas" && !is_replica_set;
        status.retain(|name, value| !(is_omitted(name) && *value == 0));
        if is_replica_set {
            status.entry("replicas").or_insert(json!(0));
        }
    }
    drop_nulls(object);
}

/// Adds the entries of `defaults` that are missing.
fn fill(value: &mut Value, defaults: &Value) {
    if value.is_null() {
        *value = json!({});
    }
    let (Some(map), Some(defaults)) = (value.as_object_mut(), defaults.as_object()) else { return };
    for (name, default) in defaults {
        match map.get_mut(name) {
            Some(below) if below.is_object() => fill(below, default),
            Some(below) if !below.is_null() => {}
            _ => drop(map.insert(name.clone(), default.clone())),
        }
    }
}

fn pod(spec: &mut Value, restart: &str) {
    if !spec.is_object() {
        return;
    }
    fill(
        spec,
        &json!({"restartPolicy": restart, "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
        "securityContext": {}, "schedulerName": "default-scheduler"}),
    );
    if let Some(account) = spec["serviceAccountName"].as_str().map(str::to_owned) {
        fill(spec, &json!({"serviceAccount": account}));
    }
    for list in ["containers", "initContainers"] {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let image = container["image"].as_str().unwrap_or_default();
            let tag = image.rsplit('/').next().unwrap_or_default().split_once(':').map(|(_, tag)| tag);
            let is_moving = !image.contains('@') && matches!(tag, None | Some("latest"));
            let pull = if is_moving { "Always" } else { "IfNotPresent" };
            fill(
                container,
                &json!({"resources": {}, "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File", "imagePullPolicy": pull}),
            );
            for port in container.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
                fill(port, &json!({"protocol": "TCP"}));
            }
        }
    }
    for volume in spec.get_mut("volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        for source in ["configMap", "secret", "downwardAPI", "projected"] {
            if volume[source].is_object() {
                fill(&mut volume[source], &json!({"defaultMode": 420}));
            }
        }
    }
}

fn job(object: &mut Value) {
    let (uid, name) = (object["metadata"]["uid"].clone(), object["metadata"]["name"].clone());
    fill(
        object,
        &json!({"spec": {"parallelism": 1, "completions": 1, "backoffLimit": 6, "manualSelector": false,
        "completionMode": "NonIndexed", "suspend": false, "podReplacementPolicy": "TerminatingOrFailed",
        "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}},
        "template": {"metadata": {"labels": {"batch.kubernetes.io/controller-uid": uid,
            "batch.kubernetes.io/job-name": name, "controller-uid": uid, "job-name": name}}}}}),
    );
    pod(&mut object["spec"]["template"]["spec"], "Never");
}

fn service(object: &mut Value) {
    fill(
        object,
        &json!({"spec": {"type": "ClusterIP", "sessionAffinity": "None"}, "status": {"loadBalancer": {}}}),
    );
    let spec = &mut object["spec"];
    if spec["type"] != "ExternalName" {
        // One address for all: nothing is routed to it.
        fill(
            spec,
            &json!({"clusterIP": "10.96.0.10", "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack"}),
        );
        let address = spec["clusterIP"].clone();
        fill(spec, &json!({"clusterIPs": [address]}));
    }
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let target = port["port"].clone();
        fill(port, &json!({"protocol": "TCP", "targetPort": target}));
    }
}

fn secret(object: &mut Value) {
    fill(object, &json!({"type": "Opaque"}));
    let Some(texts) = object.as_object_mut().and_then(|object| object.remove("stringData")) else { return };
    for (name, text) in texts.as_object().into_iter().flatten() {
        object["data"][name] = json!(BASE64_STANDARD.encode(text.as_str().unwrap_or_default()));
    }
}

/// Removes entries without a value from all maps.
pub(super) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
