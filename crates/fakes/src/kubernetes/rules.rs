//! Rules about values: what the server refuses with 422 though the schema permits it.

use serde_json::Value;

use super::{kinds::Kind, reply::Refusal};

/// Checks an object, against what it was before.
pub(super) fn check(kind: &Kind, name: &str, before: Option<&Value>, after: &Value) -> Result<(), Refusal> {
    let refuse = |field: &str, message: &str| Err(Refusal::invalid(kind, name, field, message));
    let is_letter = |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit();
    let is_role = kind.group == "rbac.authorization.k8s.io";
    let is_name = name.len() <= 253
        && name.starts_with(is_letter)
        && name.ends_with(is_letter)
        && name.chars().all(|letter| is_letter(letter) || letter == '-' || letter == '.');
    if !is_name && !is_role {
        let rule = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', \
            and must start and end with an alphanumeric character";
        return refuse("metadata.name", &format!("Invalid value: {name:?}: {rule}"));
    }
    let spec = &after["spec"];
    for field in ["replicas", "parallelism", "completions", "backoffLimit"] {
        if spec[field].as_i64().is_some_and(|number| number < 0) && !kind.group.contains('.') {
            let message = format!("Invalid value: {}: must be greater than or equal to 0", spec[field]);
            return refuse(&format!("spec.{field}"), &message);
        }
    }
    let fixed: &[&str] = match kind.kind.as_str() {
        "Deployment" | "ReplicaSet" => &["selector"],
        "Job" => &["template", "selector", "completions"],
        _ => &[],
    };
    for field in fixed {
        if before.is_some_and(|before| before["spec"][field] != spec[field]) {
            let message = format!("Invalid value: {}: field is immutable", spec[field]);
            return refuse(&format!("spec.{field}"), &message);
        }
    }
    let is_binding = kind.kind == "RoleBinding" || kind.kind == "ClusterRoleBinding";
    if is_binding && before.is_some_and(|before| before["roleRef"] != after["roleRef"]) {
        return refuse("roleRef", &format!("Invalid value: {}: cannot change roleRef", after["roleRef"]));
    }
    let is_fixed =
        before.is_some_and(|before| before["immutable"] == true && before["data"] != after["data"]);
    if is_fixed {
        return refuse("data", "Forbidden: field is immutable when `immutable` is set");
    }
    match kind.kind.as_str() {
        "Deployment" | "ReplicaSet" | "Job" => {
            workload(kind, name, spec)?;
            containers(kind, name, "spec.template.spec", &spec["template"]["spec"])
        }
        "Pod" => containers(kind, name, "spec", spec),
        _ => Ok(()),
    }
}

fn workload(kind: &Kind, name: &str, spec: &Value) -> Result<(), Refusal> {
    let labels = &spec["template"]["metadata"]["labels"];
    let Some(wanted) = spec["selector"]["matchLabels"].as_object() else {
        return Err(Refusal::invalid(kind, name, "spec.selector", "Required value"));
    };
    if wanted.iter().any(|(label, value)| labels[label] != *value) {
        let message = format!("Invalid value: {labels}: `selector` does not match template `labels`");
        return Err(Refusal::invalid(kind, name, "spec.template.metadata.labels", &message));
    }
    Ok(())
}

fn containers(kind: &Kind, name: &str, path: &str, spec: &Value) -> Result<(), Refusal> {
    let refuse =
        |field: &str| Err(Refusal::invalid(kind, name, &format!("{path}.{field}"), "Required value"));
    let containers = spec["containers"].as_array().filter(|list| !list.is_empty());
    let Some(containers) = containers else { return refuse("containers") };
    for (index, container) in containers.iter().enumerate() {
        for field in ["name", "image"] {
            if container[field].as_str().is_none_or(str::is_empty) {
                return refuse(&format!("containers[{index}].{field}"));
            }
        }
    }
    Ok(())
}
