//! The documents by which a client finds out which kinds are served and what their paths take.

use serde_json::{Map, Value, json};

use super::kinds::Kind;

/// Returns the document of a path, or nothing when the path is none of these.
pub(super) fn document(path: &[&str], kinds: &[Kind]) -> Option<Value> {
    match path {
        ["version"] => Some(version()),
        ["api"] => Some(json!({"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": []})),
        ["apis"] => Some(groups(kinds)),
        ["api", "v1"] => resources("", "v1", kinds),
        ["apis", group] => {
            groups(kinds)["groups"].as_array()?.iter().find(|known| known["name"] == *group).cloned()
        }
        ["apis", group, version] => resources(group, version, kinds),
        ["openapi", "v3"] => Some(openapi_index(kinds)),
        ["openapi", "v3", "api", version] => Some(openapi("", version, kinds)),
        ["openapi", "v3", "apis", group, version] => Some(openapi(group, version, kinds)),
        _ => None,
    }
}

fn version() -> Value {
    json!({"major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36", "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35", "gitVersion": "v1.36.4", "gitCommit": "bb826b1d48562f110659e64e8ec444327433db95",
        "gitTreeState": "", "buildDate": "1970-01-01T00:00:00Z", "goVersion": "go1.26.5", "compiler": "gc",
        "platform": "linux/amd64"})
}

/// Returns the groups and versions, each once, in the order of the kinds.
fn versions(kinds: &[Kind]) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for kind in kinds {
        let one = (kind.group.as_str(), kind.version.as_str());
        if !found.contains(&one) {
            found.push(one);
        }
    }
    found
}

fn groups(kinds: &[Kind]) -> Value {
    let all = versions(kinds);
    let mut names: Vec<&str> =
        all.iter().map(|(group, _)| *group).filter(|group| !group.is_empty()).collect();
    names.dedup();
    let group = |name: &str| {
        let versions = all.iter().filter(|(group, _)| *group == name);
        let versions: Vec<_> = versions
            .map(|(_, version)| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
            .collect();
        json!({"name": name, "versions": versions, "preferredVersion": versions[0]})
    };
    let groups: Vec<_> = names.into_iter().map(group).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

fn resources(group: &str, version: &str, kinds: &[Kind]) -> Option<Value> {
    let served = kinds.iter().filter(|kind| kind.group == group && kind.version == version);
    let resources: Vec<_> = served.flat_map(Kind::resources).collect();
    if resources.is_empty() {
        return None;
    }
    let place = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut list = json!({"kind": "APIResourceList", "groupVersion": place, "resources": resources});
    if !group.is_empty() {
        list["apiVersion"] = json!("v1");
    }
    Some(list)
}

fn openapi_index(kinds: &[Kind]) -> Value {
    let paths: Map<_, _> = versions(kinds)
        .into_iter()
        .map(|(group, version)| {
            let path =
                if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
            let url = json!({"serverRelativeURL": format!("/openapi/v3/{path}?hash=0")});
            (path, url)
        })
        .collect();
    json!({"paths": paths})
}

/// Returns as much of the interface as `kubectl` needs to let the server check fields: the parameters of patches.
fn openapi(group: &str, version: &str, kinds: &[Kind]) -> Value {
    let base = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    let parameters = ["dryRun", "fieldManager", "fieldValidation", "force"]
        .map(|name| json!({"name": name, "in": "query", "schema": {"type": "string"}}));
    let paths: Map<_, _> = kinds
        .iter()
        .filter(|kind| kind.group == group && kind.version == version)
        .map(|kind| {
            let within = if kind.is_namespaced { "/namespaces/{namespace}" } else { "" };
            let about = json!({"group": group, "version": version, "kind": kind.kind});
            let patch = json!({"parameters": parameters, "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": about, "responses": {}});
            (format!("{base}{within}/{}/{{name}}", kind.plural), json!({"patch": patch}))
        })
        .collect();
    json!({"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.36.4"}, "paths": paths,
        "components": {"schemas": {}}})
}
