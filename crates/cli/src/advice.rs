//! What the server advises, as commands: people type those, not requests.

use serde_json::Value;

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
        ("PATCH", ["api", "v1", "nodes", id]) if body["workflow_id"].is_string() => {
            format!("wardroom node assign {id} --workflow NAME")
        }
        ("POST", ["api", "satellites", name, verb]) => {
            format!("wardroom satellite {verb} {name}{}", mode(&body))
        }
        ("POST", ["api", "v1", "gpu-nodes", id, "actions", action]) => {
            format!("wardroom gpu-node {} {id}", kebab(action))
        }
        ("POST", ["api", "v1", "gpu-nodes", id, "onboardings"]) => format!("wardroom gpu-node onboard {id}"),
        ("POST", ["api", "v1", "gpu-nodes", id, "decommissions"]) => {
            format!("wardroom gpu-node decommission {id}{}", mode(&body))
        }
        ("POST", ["api", "v1", "runs", id, "actions", action]) => {
            let abandon = if body["abandon"] == true { " --abandon --reason TEXT" } else { "" };
            format!("{}{abandon}", act_on_run(id, action, None))
        }
        ("GET", ["api", "v1", collection, id]) => format!("wardroom describe {collection} {id}"),
        ("PUT", ["api", "v1", _, _]) | ("PATCH", ["api", "configs", _]) => {
            "wardroom apply -f FILE".to_owned()
        }
        ("DELETE", ["api", "groups", name]) => format!("wardroom delete satellite-group {name}"),
        ("POST", ["api", "configs", "satellite"]) => {
            "wardroom satellite assign NAME --config CONFIG".to_owned()
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

    use super::command;
    use crate::arguments::Arguments;

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
        check("GET /api/v1/runs/r1", "wardroom describe runs r1");
        check("PUT /api/v1/sites/berlin", "wardroom apply -f FILE");
        check("DELETE /api/groups/base", "wardroom delete satellite-group base");
        check("POST /api/configs/satellite", "wardroom satellite assign NAME --config CONFIG");
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
