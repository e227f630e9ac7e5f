//! What the server advises, as commands: people type those, not requests.

use clap::ValueEnum as _;
use serde_json::Value;

use crate::kind::Kind;

/// What a request was about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Subject {
    pub(crate) kind: Kind,
    pub(crate) id: String,
}

impl Subject {
    /// What a path is about, if it is about one resource.
    pub(crate) fn of(path: &str) -> Option<Self> {
        // A server may be found below a path of its own.
        let path = path.find("/api/").map(|at| &path[at..])?;
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        let (kind, id) = match segments.as_slice() {
            ["api", "v1", "resources", kind, id, ..] => (Kind::from_str(kind, false).ok()?, id),
            ["api", "v1", "nodes", "bulk", ..] | ["api", "groups" | "configs", "satellite" | "sync"] => {
                return None;
            }
            ["api", "v1", collection, id, ..] => (Kind::from_str(collection, false).ok()?, id),
            ["api", "satellites", id, ..] => (Kind::Satellite, id),
            ["api", "groups", id, ..] => (Kind::SatelliteGroup, id),
            ["api", "configs", id, ..] => (Kind::SatelliteConfig, id),
            _ => return None,
        };
        Some(Self { kind, id: (*id).to_owned() })
    }
}

/// What is allowed instead of what was refused, as a command: a request, or only the name of a state or an action of
/// what was asked for.
pub(crate) fn allowed(said: &str, subject: Option<&Subject>) -> String {
    let Some(Subject { kind, id }) = subject else { return command(said) };
    // What a node uses is taken out of it.
    if let (Kind::Workflow | Kind::Group, Some(node)) = (kind, said.strip_prefix("PATCH /api/v1/nodes/")) {
        return format!("wardroom node assign {node} --{} \"\"", kind.as_str());
    }
    if said.contains(' ') {
        return command(&said.replace("{id}", id).replace("{name}", id));
    }
    match kind {
        Kind::Node => format!("wardroom node move {id} --to {said}"),
        Kind::GpuNode => format!("wardroom gpu-node {} {id}", kebab(said)),
        Kind::Run => act_on_run(id, said, None),
        Kind::Satellite if said == "reissue" => format!("wardroom satellite reenable {id} --mode reissue"),
        Kind::Satellite => format!("wardroom satellite {said} {id}"),
        Kind::Workflow
        | Kind::Group
        | Kind::Site
        | Kind::SatelliteGroup
        | Kind::SatelliteConfig
        | Kind::Incident
        | Kind::Token => said.to_owned(),
    }
}

/// How to make what a text of the server says is missing; nothing for any other text.
pub(crate) fn make(text: &str) -> Option<String> {
    let (what, name) =
        text.strip_prefix("there is no ")?.strip_suffix(": make it first")?.split_once(" \"")?;
    let (kind, name) = (what.replace(' ', "-"), name.trim_end_matches('"'));
    Some(format!("`wardroom create {kind} {name} --help` says how"))
}

/// A text of the server in which requests are named, with commands instead.
pub(crate) fn spoken(text: &str, subject: Option<&Subject>) -> String {
    const METHODS: &[&str] = &["GET /", "POST /", "PUT /", "PATCH /", "DELETE /"];
    let (mut said, mut rest) = (String::new(), text);
    while let Some(at) = METHODS.iter().filter_map(|method| rest.find(method)).min() {
        let (before, from) = rest.split_at(at);
        let request = &from[..length(from)];
        let after = &from[request.len()..];
        let command = allowed(request, subject);
        let quoted = before.ends_with('`') && after.starts_with('`') || command == request;
        said.push_str(before);
        said.push_str(&if quoted { command } else { format!("`{command}`") });
        rest = after;
    }
    said + rest
}

/// How long a request is that a text begins with: its method, its path, and its body if it has one.
fn length(text: &str) -> usize {
    let path = text.find(' ').map_or(0, |at| at + 1);
    let ends = |character: char| character.is_whitespace() || "`),;".contains(character);
    let end = text[path..].find(ends).map_or(text.len(), |at| path + at);
    let body = text[end..].strip_prefix(" {").and_then(|body| body.find('}'));
    match body {
        Some(close) => end + 2 + close + 1,
        None => text[..end].trim_end_matches(['.', ':']).len(),
    }
}

/// The command that makes a request, or the request where no command does.
pub(crate) fn command(request: &str) -> String {
    let (call, body) = request.find(" {").map_or((request, ""), |at| request.split_at(at));
    let body: Value = serde_json::from_str(body.trim()).unwrap_or_default();
    let Some((method, path)) = call.split_once(' ') else { return request.to_owned() };
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    match (method, segments.as_slice()) {
        ("PATCH", ["api", "v1", "nodes", id, "state"]) if body["state"].is_string() => {
            let state = body["state"].as_str().unwrap_or_default();
            let force = if body["force"] == true { " --force" } else { "" };
            format!("wardroom node move {id} --to {state}{force}")
        }
        ("PATCH", ["api", "v1", "nodes", id]) => format!("wardroom node assign {id} --workflow NAME"),
        ("POST", ["api", "satellites", name, verb]) => {
            format!("wardroom satellite {verb} {name}{}", mode(&body))
        }
        ("POST", ["api", "v1", "gpu-nodes", id, "actions", action]) => {
            let unproven = if body["unproven"] == true { " --unproven --reason TEXT" } else { "" };
            format!("wardroom gpu-node {} {id}{}{unproven}", kebab(action), skip(&body))
        }
        ("POST", ["api", "v1", "gpu-nodes", id, "onboardings"]) => format!("wardroom gpu-node onboard {id}"),
        ("POST", ["api", "v1", "gpu-nodes", id, "decommissions"]) => {
            format!("wardroom gpu-node decommission {id}{}{}", mode(&body), skip(&body))
        }
        ("POST", ["api", "v1", "runs", id, "actions", action]) => {
            let abandon = if body["abandon"] == true { " --abandon --reason TEXT" } else { "" };
            let digest = body["expected_observation_digest"].as_str();
            format!("{}{abandon}", act_on_run(id, action, digest))
        }
        ("GET", ["api", "v1", collection, id] | ["api", "v1", collection, id, "lifecycle"])
            if Kind::from_str(collection, false).is_ok() =>
        {
            let kind = Kind::from_str(collection, false).map_or("", Kind::as_str);
            format!("wardroom describe {kind} {id}")
        }
        ("GET", ["api", "satellites", name]) => format!("wardroom describe satellite {name}"),
        ("POST", ["api", "v1", "tokens"]) => {
            format!("wardroom token create NAME --role {}", body["role"].as_str().unwrap_or("ROLE"))
        }
        ("POST", ["api", "v1", "groups"]) => "wardroom create group NAME".to_owned(),
        ("PUT", ["api", "v1", _, _]) | ("PATCH", ["api", "configs", _]) => {
            "wardroom apply -f FILE".to_owned()
        }
        ("DELETE", ["api", "groups", name]) => format!("wardroom delete satellite-group {name}"),
        ("POST", ["api", "configs", "satellite"]) => {
            let name = body["satellite"].as_str().unwrap_or("NAME");
            match body["config_name"].as_str() {
                Some(config) => format!("wardroom satellite assign {name} --config {config}"),
                None => format!("wardroom satellite unassign {name} --config"),
            }
        }
        _ => request.to_owned(),
    }
}

/// The command for an action on a run; what is adopted is named by its digest.
pub(crate) fn act_on_run(id: &str, action: &str, digest: Option<&str>) -> String {
    let digest = match action {
        "adopt_observed_state" => format!(" --digest {}", digest.unwrap_or("DIGEST")),
        _ => String::new(),
    };
    format!("wardroom run {} {id}{digest}", kebab(action))
}

/// A command and the reason for it, or only the reason.
pub(crate) fn recommended(command: Option<&str>, because: &str) -> String {
    match command {
        Some(command) => format!("{command} ({because})"),
        None => because.to_owned(),
    }
}

/// A name of the API as commands spell it.
pub(crate) fn kebab(name: &str) -> String {
    name.replace('_', "-")
}

/// Stages that are skipped, for reasons that only a person knows.
fn skip(body: &Value) -> String {
    let stages = body["skip"].as_array().into_iter().flatten().filter_map(|skip| skip["stage"].as_str());
    stages.map(|stage| format!(" --skip {stage}=REASON")).collect()
}

fn mode(body: &Value) -> String {
    body["mode"].as_str().map_or_else(String::new, |mode| format!(" --mode {mode}"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use wardroom_core::{
        gpu_node, node, run, satellite,
        table::{Call, Event, State, Table},
    };

    use super::{Subject, allowed, command, make, spoken};
    use crate::{arguments::Arguments, kind::Kind};

    #[test]
    fn a_path_says_what_it_is_about() {
        let check = |path: &str, expected: Option<(Kind, &str)>| {
            let expected = expected.map(|(kind, id)| Subject { kind, id: id.to_owned() });
            assert_eq!(Subject::of(path), expected, "{path}");
        };
        check("/api/v1/runs/r1/actions/cancel", Some((Kind::Run, "r1")));
        check("/below/api/v1/gpu-nodes/g1", Some((Kind::GpuNode, "g1")));
        check("/api/v1/resources/node/n1/why", Some((Kind::Node, "n1")));
        check("/api/satellites/edge/revoke", Some((Kind::Satellite, "edge")));
        check("/api/configs/quiet", Some((Kind::SatelliteConfig, "quiet")));
        check("/api/v1/nodes/bulk/state", None);
        check("/api/groups/satellite", None);
        check("/api/v1/nodes", None);
        check("/livez", None);
    }

    #[test]
    fn names_of_states_and_actions_become_commands() {
        let check = |kind: Kind, said: &str, expected: &str| {
            let subject = Subject { kind, id: "x1".to_owned() };
            assert_eq!(allowed(said, Some(&subject)), expected);
            let parsed = Arguments::command().try_get_matches_from(expected.split(' '));
            assert!(parsed.is_ok(), "{expected}: {}", parsed.unwrap_err());
        };
        check(Kind::Node, "retired", "wardroom node move x1 --to retired");
        check(Kind::GpuNode, "stop-drain", "wardroom gpu-node stop-drain x1");
        check(Kind::Run, "retry_stage", "wardroom run retry-stage x1");
        check(Kind::Satellite, "revoke", "wardroom satellite revoke x1");
        check(Kind::Satellite, "reissue", "wardroom satellite reenable x1 --mode reissue");
        check(Kind::GpuNode, "POST /api/v1/gpu-nodes/{id}/actions/resume", "wardroom gpu-node resume x1");
    }

    #[test]
    fn requests_in_texts_become_commands() {
        let subject = Subject { kind: Kind::Node, id: "n1".to_owned() };
        let check = |text: &str, expected: &str| assert_eq!(spoken(text, Some(&subject)), expected);
        check(
            "there is none: make it with POST /api/v1/groups",
            "there is none: make it with `wardroom create group NAME`",
        );
        check(
            "assign another first (PATCH /api/v1/nodes/{id} {\"workflow_id\":\"…\"}) when it cannot work",
            "assign another first (`wardroom node assign n1 --workflow NAME`) when it cannot work",
        );
        check("ask `GET /api/v1/runs/r1`.", "ask `wardroom describe run r1`.");
        check("GET /api/v1/runs/r1. Then wait", "`wardroom describe run r1`. Then wait");
        check("see GET /elsewhere, or not", "see GET /elsewhere, or not");
        check("nothing to say", "nothing to say");
    }

    #[test]
    fn what_is_missing_can_be_made_and_what_is_used_let_go() {
        let made = make("there is no satellite group \"base\": make it first");
        assert_eq!(made.as_deref(), Some("`wardroom create satellite-group base --help` says how"));
        assert_eq!(make("there is no node \"x\""), None);
        let of = |kind| Subject { kind, id: "x".to_owned() };
        let used = "PATCH /api/v1/nodes/n1";
        assert_eq!(allowed(used, Some(&of(Kind::Workflow))), "wardroom node assign n1 --workflow \"\"");
        assert_eq!(allowed(used, Some(&of(Kind::Group))), "wardroom node assign n1 --group \"\"");
    }

    #[test]
    fn requests_become_commands() {
        let check = |request: &str, expected: &str| assert_eq!(command(request), expected);
        check(r#"PATCH /api/v1/nodes/n1/state {"state":"active"}"#, "wardroom node move n1 --to active");
        check(
            r#"PATCH /api/v1/nodes/n1/state {"state":"pending","force":true}"#,
            "wardroom node move n1 --to pending --force",
        );
        check(r#"PATCH /api/v1/nodes/n1 {"workflow_id":"…"}"#, "wardroom node assign n1 --workflow NAME");
        check("POST /api/satellites/edge/revoke", "wardroom satellite revoke edge");
        check(
            r#"POST /api/satellites/edge/reenable {"mode":"reissue"}"#,
            "wardroom satellite reenable edge --mode reissue",
        );
        check("POST /api/v1/runs/r1/actions/retry_stage", "wardroom run retry-stage r1");
        check(
            r#"POST /api/v1/runs/r1/actions/cancel {"abandon":true}"#,
            "wardroom run cancel r1 --abandon --reason TEXT",
        );
        check(
            r#"POST /api/v1/gpu-nodes/g1/decommissions {"mode":"reimage"}"#,
            "wardroom gpu-node decommission g1 --mode reimage",
        );
        check(
            r#"POST /api/v1/gpu-nodes/g1/actions/recover {"unproven":true}"#,
            "wardroom gpu-node recover g1 --unproven --reason TEXT",
        );
        check(
            r#"POST /api/v1/runs/r1/actions/adopt_observed_state {"expected_observation_digest":"d1"}"#,
            "wardroom run adopt-observed-state r1 --digest d1",
        );
        check("GET /api/v1/runs/r1", "wardroom describe run r1");
        check("PUT /api/v1/sites/berlin", "wardroom apply -f FILE");
        check("DELETE /api/groups/base", "wardroom delete satellite-group base");
        check(
            r#"POST /api/configs/satellite {"config_name":"fast","satellite":"edge"}"#,
            "wardroom satellite assign edge --config fast",
        );
        check(
            r#"POST /api/configs/satellite {"config_name":null,"satellite":"edge"}"#,
            "wardroom satellite unassign edge --config",
        );
        check(r#"POST /api/v1/tokens {"role":"admin"}"#, "wardroom token create NAME --role admin");
        check("GET /api/v1/elsewhere", "GET /api/v1/elsewhere");
        check("pending", "pending");
    }

    /// Every call of the tables has a command, and the command line takes it.
    #[test]
    fn every_call_of_the_tables_is_a_command() {
        fn calls<S: State, E: Event>(table: Table<S, E>) -> Vec<Call> {
            let rows = table.0.iter().filter_map(|row| row.on.call());
            rows.chain(S::ALL.iter().filter_map(|state| state.remedy())).collect()
        }
        let calls = [calls(node::TABLE), calls(satellite::TABLE), calls(gpu_node::TABLE), calls(run::TABLE)];
        for call in calls.concat() {
            let request = call.request.replace("{id}", "x1").replace("{name}", "x1");
            let command = command(&request);
            let parsed = Arguments::command().try_get_matches_from(command.split(' '));
            assert!(parsed.is_ok(), "{request}: {command}: {}", parsed.unwrap_err());
        }
    }
}
