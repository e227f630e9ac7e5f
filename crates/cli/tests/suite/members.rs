//! Sites, GPU nodes and their runs; satellites with their groups and configs.

use serde_json::Value;

use crate::fixture::Server;

const SITE: &str = "kind: site\nname: berlin\nsettings:\n  url: http://127.0.0.1:9/MAAS\n  key: env:WARDROOM_SECRET_NONE\n  \
                    provisioning_subnet: 10.0.0.0/24\n  boot_disk: {model: SSD}\n";

fn write(server: &Server, name: &str, text: &str) {
    std::fs::write(server.dir.path().join(name), text).unwrap();
}

fn json(server: &Server, arguments: &[&str]) -> Value {
    serde_json::from_str(&server.ok(&[arguments, &["-o", "json"]].concat())).unwrap()
}

#[test]
fn sites_are_made_changed_and_deleted() {
    let server = Server::start();
    let made =
        ["--url", "http://maas/MAAS", "--key", "file:key", "--subnet", "boot", "--boot-disk-model", "SSD"];
    assert_eq!(server.ok(&[&["create", "site", "hamburg"], &made[..]].concat()), "site/hamburg created\n");
    server.run(&[&["create", "site", "hamburg"], &made[..]].concat()).says(4, &["already"]);
    server.run(&["create", "site", "x"]).says(2, &["--url"]);
    server.run(&["get", "site", ""]).says(2, &["NAME"]);
    write(&server, "wrong.yaml", "kind: site\nname: x\nsettings: {url: 3}\n");
    server.run(&["apply", "-f", "wrong.yaml"]).says(1, &["settings.url: "]);
    write(&server, "site.yaml", SITE);
    assert_eq!(server.ok(&["create", "site", "-f", "site.yaml"]), "site/berlin created\n");
    server
        .run(&["create", "satellite-group", "-f", "site.yaml"])
        .says(1, &["must be of kind satellite-group"]);

    write(&server, "site.yaml", "kind: site\nname: berlin\nsettings: {pool: gpu, boot_disk: {serial: S1}}\n");
    assert_eq!(server.ok(&["apply", "-f", "site.yaml"]), "site/berlin applied\n");
    let settings = json(&server, &["get", "site", "berlin"])["settings"].clone();
    let disk = &settings["boot_disk"];
    assert_eq!((&disk["model"], &disk["serial"]), (&Value::from("SSD"), &Value::from("S1")));
    assert_eq!(
        (&settings["pool"], &settings["key"]),
        (&Value::from("gpu"), &Value::from("env:WARDROOM_SECRET_NONE"))
    );
    assert!(server.ok(&["get", "sites", "-o", "wide"]).contains("env:WARDROOM_SECRET_NONE"));
    assert!(server.ok(&["describe", "site", "berlin"]).contains("pool: gpu"));
    server.ok(&["gpu-node", "create", "gpu-1", "--site", "berlin", "--mac", "52:54:00:00:00:01"]);
    server.run(&["delete", "site", "berlin"]).says(
        4,
        &[
            "uses it: remove it from there first",
            "next: `wardroom get gpu-nodes --field-selector site=berlin` lists its users",
        ],
    );
    assert!(server.ok(&["get", "gpu-nodes", "--field-selector", "site=berlin"]).contains("gpu-1"));
    assert_eq!(server.ok(&["delete", "site", "hamburg"]), "site/hamburg deleted\n");
}

#[test]
fn satellites_are_assigned_groups_and_configs() {
    let server = Server::start();
    server.ok(&["satellite", "create", "edge-01", "--secret-file", "edge-01.token"]);
    let group = ["create", "satellite-group", "base", "--registry", "https://registry.example"];
    let artifact = ["--artifact", "library/nginx:1.27,1.28"];
    let made = server.run(&[&group[..], &artifact].concat());
    assert_eq!(made.out, "satellite-group/base created\n");
    made.says(0, &["warning: this server does not pull from https://registry.example", "pull.registries"]);
    server.run(&[&group[..], &artifact].concat()).says(4, &["already", "next: ", "apply"]);
    write(
        &server,
        "settings.yaml",
        "app_config:\n  log_level: debug\n  local_registry: {password: hunter2}\n",
    );
    server
        .run(&["create", "satellite-config", "fast", "--settings", "settings.yaml"])
        .says(0, &["warning: config.app_config.ground_control_url: is missing", "use_unsecure"]);

    let assign = ["satellite", "assign", "edge-01", "--group", "base", "--config", "fast"];
    assert_eq!(server.ok(&assign), "satellite/edge-01 groups base, config fast\n");
    server.run(&["satellite", "assign", "edge-01"]).says(2, &["--group or --config"]);
    server
        .run(&["satellite", "assign", "edge-01", "--group", "nope"])
        .says(1, &["create it first: `wardroom create satellite-group nope --help`"]);
    server.run(&["satellite", "unassign", "edge-01", "--group", "nope"]).says(3, &["nope"]);
    assert!(server.ok(&["describe", "sg", "base"]).contains("edge-01"));
    let described = server.ok(&["describe", "sc", "fast"]);
    assert!(described.contains("log_level: debug") && !described.contains("hunter2"), "{described}");
    server.run(&["delete", "satellite-config", "fast"]).says(
        4,
        &[
            "give it another one first",
            "allowed now: wardroom satellite unassign edge-01 --config\n",
            "wardroom satellite assign edge-01 --config CONFIG\n",
            "wardroom get satellites --field-selector config_name=fast",
        ],
    );
    assert!(server.ok(&["get", "satellites", "--field-selector", "config_name=fast"]).contains("edge-01"));

    // What the server gives can be applied, and secrets that it hides are kept when they are left out.
    let yaml = server.ok(&["get", "sg", "base", "-o", "yaml"]).replace("1.28", "1.29");
    write(&server, "group.yaml", &yaml);
    assert_eq!(server.ok(&["apply", "-f", "group.yaml"]), "satellite-group/base applied\n");
    assert_eq!(json(&server, &["get", "sg", "base"])["artifacts"][0]["tag"][1], "1.29");
    write(
        &server,
        "config.yaml",
        "kind: satellite-config\nname: fast\nconfig: {app_config: {log_level: info}}\n",
    );
    assert_eq!(server.ok(&["apply", "-f", "config.yaml"]), "satellite-config/fast applied\n");
    let settings = json(&server, &["get", "sc", "fast"])["config"]["app_config"].clone();
    assert_eq!(
        (&settings["log_level"], &settings["local_registry"]["password"]),
        (&"info".into(), &"<hidden>".into())
    );

    write(&server, "group.yaml", "kind: satellite-group\nname: sync\nregistry: https://registry.example\n");
    server.run(&["apply", "-f", "group.yaml"]).says(1, &["reserved"]);

    let unassign = ["satellite", "unassign", "edge-01", "--group", "base", "--config"];
    assert_eq!(server.ok(&unassign), "satellite/edge-01 groups <none>, config <built-in>\n");
    server.ok(&["delete", "satellite-config", "fast"]);
    server.ok(&["delete", "satellite-group", "base"]);
    server.ok(&["satellite", "revoke", "edge-01", "--comment", "stolen"]);
    let again = server.run(&["satellite", "revoke", "edge-01", "--comment", "sold"]);
    again.says(0, &["was revoked already"]);
    assert_eq!(again.out, "satellite/edge-01 revoked\n");
    server.ok(&["satellite", "reenable", "edge-01", "--mode", "reissue", "--comment", "it was found"]);
    server.ok(&["satellite", "delete", "edge-01"]);
    let history = server.ok(&["history", "satellite", "edge-01"]);
    for said in ["deleted", "stolen", "mode reissue; it was found", "   edge-01   "] {
        assert!(history.contains(said), "{said:?}: {history}");
    }
    assert!(!server.ok(&["history", "satellite", "edge-01", "-o", "yaml"]).contains("cursor"));
    assert!(server.ok(&["history", "-o", "yaml"]).contains("cursor"));
    // The next one of that name has a history of its own.
    server.ok(&["satellite", "create", "edge-01", "--secret-file", "again.token"]);
    assert!(!server.ok(&["history", "satellite", "edge-01"]).contains("stolen"));
}

/// No registry listens there, so that everything waits.
#[test]
fn what_a_registry_has_not_been_told_is_described() {
    let server = Server::start_with(&[("WARDROOM_REGISTRY_URL", "http://127.0.0.1:1")]);
    server.ok(&[
        "create",
        "satellite-group",
        "base",
        "--registry",
        "https://registry.example",
        "--artifact",
        "a/b:1",
    ]);
    write(&server, "settings.yaml", "app_config: {log_level: debug}\n");
    server.ok(&["create", "satellite-config", "fast", "--settings", "settings.yaml"]);
    server.ok(&["satellite", "create", "edge-01", "--secret-file", "token"]);
    server.ok(&["satellite", "assign", "edge-01", "--group", "base", "--config", "fast"]);
    let id = json(&server, &["get", "satellite", "edge-01"])["id"].as_str().unwrap().to_owned();
    let why = server.ok(&["why", "satellite", "edge-01", "--all"]);
    for waits in ["of the satellite group base, publish_state", "of the satellite config fast, publish_state"]
    {
        assert!(why.contains(waits), "{why}");
    }
    server.ok(&["satellite", "delete", "edge-01"]);
    server.ok(&["delete", "satellite-config", "fast"]);
    for (kind, id, is_gone) in [
        ("sg", "base", false),
        ("sc", "fast", true),
        ("satellite", &*id, true),
        ("satellite", "edge-01", true),
    ] {
        let described = server.ok(&["describe", kind, id]);
        assert!(
            described.contains("\nOther systems:\n") && described.contains("\npublish_state"),
            "{described}"
        );
        let is_shown = described.lines().any(|line| line.starts_with("State:") && line.contains(" deleted"));
        assert_eq!(is_shown, is_gone, "{described}");
        assert!(described.contains("\nHistory:\n"), "{described}");
    }
}

#[test]
fn the_deleted_and_the_guard_can_be_seen() {
    let server = Server::start();
    for name in ["gone", "stays"] {
        server.ok(&["satellite", "create", name, "--secret-file", name]);
    }
    server.ok(&["satellite", "set", "gone", "--label", "zone=a"]);
    server.run(&["satellite", "delete", "-l", "zone=a"]).says(2, &["delete: 1 satellite", "--yes"]);
    assert_eq!(server.ok(&["satellite", "delete", "-l", "zone=a", "--yes"]), "satellite/gone deleted\n");
    let names = |arguments: &[&str]| -> Vec<String> {
        let listed = json(&server, arguments);
        listed.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&["get", "satellites"]), ["stays"]);
    assert_eq!(names(&["get", "satellites", "--deleted"]), ["gone"]);
    let table = server.ok(&["get", "satellites", "--deleted"]);
    let deleted: Vec<Value> =
        serde_json::from_str(&server.ok(&["get", "satellites", "--deleted", "-o", "json"])).unwrap();
    let id = deleted[0]["id"].as_str().unwrap();
    assert_eq!(server.ok(&["get", "satellites", "--deleted", "-o", "name"]), format!("satellite/{id}\n"));
    assert!(table.contains(&format!("gone ({id})")) && table.contains("deleted (was "), "{table}");
    server.run(&["get", "sites", "--deleted"]).says(2, &["only nodes, gpu-nodes and satellites"]);
    server.run(&["get", "satellite", "gone"]).says(3, &["history"]);
    assert!(server.ok(&["get", "satellite", "gone", "--deleted"]).contains(id));
    for called in [id, "gone"] {
        let why = server.ok(&["why", "satellite", called]);
        assert!(why.contains("has been deleted for") && why.contains("Deleted for good by "), "{why}");
        assert!(server.ok(&["describe", "satellite", called]).contains("deleted (was pending)"));
    }
    let guard = server.ok(&["liveness"]);
    assert!(guard.contains("listening") && guard.contains("the whole fleet"), "{guard}");
    assert_eq!(json(&server, &["liveness"])["fleet"]["phase"], "watching");
}

#[test]
fn gpu_nodes_and_runs_are_acted_on_by_name() {
    let server = Server::start();
    let first = server.ok(&["gpu-node", "create", "gpu-1"]);
    server.run(&["gpu-node", "create", "gpu-1", "--secret-file", "t"]).says(4, &["already"]);
    assert!(!server.dir.path().join("t").exists(), "a file without a secret is taken away");
    // The token is alone on standard output, also when it is issued anew.
    let again = server.run(&["gpu-node", "resume", "gpu-1"]);
    assert!(again.err.contains("bootstrap_issued (token_issued)"), "{}", again.err);
    assert!(again.out.lines().count() == 1 && again.out != first, "{}", again.out);
    server.ok(&["gpu-node", "resume", "gpu-1", "--secret-file", "token"]);
    assert!(server.dir.path().join("token").exists());
    server
        .run(&["gpu-node", "resume", "gpu-1", "--skip", "a=b"])
        .says(2, &["--skip cannot be used with resume"]);
    server.run(&["gpu-node", "retire", "gpu-1"]).says(4, &["allowed now: ", "wardroom run cancel "]);
    server.run(&["gpu-node", "decommission", "gpu-1", "--mode", "gently"]).says(2, &["soft_reset"]);

    let node = json(&server, &["get", "gpu", "gpu-1"]);
    let run = node["run"].as_str().unwrap();
    server.run(&["run", "retry-stage", "gpu-1"]).says(0, &[]);
    assert!(server.ok(&["get", "runs"]).lines().nth(1).unwrap().starts_with("gpu-1 "));
    assert!(server.ok(&["describe", "run", "gpu-1"]).contains(run));
    server.run(&["run", "adopt-observed-state", run]).says(2, &["--digest", "describe run"]);
    server
        .run(&["run", "resume", run, "--abandon", "--comment", "x"])
        .says(2, &["--abandon cannot be used with resume"]);
    server.run(&["run", "cancel", "nope"]).says(3, &["nope"]);
    server.run(&["run", "mark_manual_intervention_required", run, "--comment", "look"]).says(0, &[]);
    let waited = server.run(&["run", "cancel", run, "--wait", "--wait-timeout", "30s"]);
    waited.says(0, &[]);
    assert!(waited.out.ends_with(&format!("run/{run} cancelled\n")), "{}", waited.out);
    // What was given up with the run is no failure of it, and no attempt of it is under way.
    let shown = server.ok(&["get", "runs"]);
    assert!(shown.lines().any(|line| line.contains("cancelled") && line.contains(" <none> ")), "{shown}");
    assert!(!server.ok(&["describe", "gpu-node", "gpu-1"]).contains("Failure:"));
    server
        .run(&["run", "retry-stage", "gpu-1"])
        .says(4, &["the run is cancelled", "`wardroom why run gpu-1`"]);
    server.run(&["run", "cancel", "--state", "lost", "--yes"]).says(1, &["failed_retryable"]);
    server.run(&["run", "cancel", "--state", "failed_retryable", "--yes"]).says(3, &["no run matches"]);

    // What was done to a node that is gone is found by its name.
    server.ok(&["gpu-node", "onboard", "gpu-1"]);
    server.ok(&["gpu-node", "quarantine", "gpu-1", "--comment", "it is sold"]);
    server.ok(&["run", "cancel", "gpu-1", "--wait"]);
    server.ok(&["gpu-node", "retire", "gpu-1", "--skip", "drain_node=it is sold", "--wait"]);
    server.ok(&["gpu-node", "remove", "gpu-1", "--skip", "remove_gpuaas_node_record=it is sold", "--wait"]);
    assert!(server.ok(&["describe", "gpu-node", "gpu-1"]).contains("has been deleted for "));
    let described = server.ok(&["describe", "run", "gpu-1"]);
    assert!(described.contains("it is sold") && described.contains("completed"), "{described}");
    assert!(server.ok(&["get", "gpu-nodes", "--deleted"]).contains("gpu-1"));
    server.run(&["describe", "run", "gpu-9"]).says(3, &["gpu-9"]);
}

/// A site that cannot be reached: the run comes to a stop, and the waiting command shows the next step.
#[test]
fn waiting_for_a_run_shows_its_end() {
    let server = Server::start();
    write(&server, "site.yaml", SITE);
    server.ok(&["apply", "-f", "site.yaml"]);
    let create = ["gpu-node", "create", "gpu-2", "--site", "berlin", "--mac", "52:54:00:00:00:02"];
    let waited = server.run(&[&create[..], &["--wait", "--wait-timeout", "60s"]].concat());
    waited.says(
        1,
        &[
            "gpu-node/gpu-2",
            "run/gpu-2 is failed_manual_intervention at load_site_config",
            "next: `wardroom describe run gpu-2",
        ],
    );

    let watched = server.watch(&["gpu-node", "create", "gpu-3", "--wait"]);
    watched.note_with("is running at wait_for_agent_enrollment, waiting: ");
    // Waiting changes nothing, and needs no confirmation.
    server
        .run(&["gpu-node", "wait", "gpu-2", "gpu-3", "--wait-timeout", "1s"])
        .says(6, &["the run continues"]);
    let run = json(&server, &["get", "gpu", "gpu-3"])["run"].as_str().unwrap().to_owned();
    server.ok(&["run", "cancel", &run]);
    watched.note_with("run/gpu-3 was cancelled");
}

#[test]
fn what_is_known_of_members_is_corrected() {
    let server = Server::start();
    server.ok(&["satellite", "create", "edge-01", "--label", "zone=a", "--secret-file", "edge-01.token"]);
    let set = ["satellite", "set", "edge-01"];
    server.run(&set).says(2, &["--label"]);
    let changed =
        server.ok(&[&set[..], &["--label", "zone=b", "--heartbeat-interval", "@every 40s"]].concat());
    assert_eq!(changed, "satellite/edge-01 changed\n");
    let satellite = json(&server, &["get", "satellite", "edge-01"]);
    assert_eq!(
        (&satellite["labels"]["zone"], satellite["heartbeat_interval"].as_str()),
        (&"b".into(), Some("@every 00h00m40s"))
    );
    server.ok(&[&set[..], &["--label", "zone-", "--heartbeat-interval", ""]].concat());
    let satellite = json(&server, &["get", "satellite", "edge-01"]);
    assert!(
        satellite["labels"]["zone"].is_null() && satellite["heartbeat_interval"].is_null(),
        "{satellite}"
    );
    server.run(&[&set[..], &["--heartbeat-interval", "often"]].concat()).says(1, &["--heartbeat-interval"]);

    server.ok(&["gpu-node", "create", "gpu-1", "--secret-file", "gpu-1.token"]);
    let set = ["gpu-node", "set", "gpu-1"];
    server.run(&set).says(2, &["--bmc"]);
    server.run(&[&set[..], &["--bmc-credential", "file:bmc/a"]].concat()).says(2, &["give --bmc"]);
    let bmc = ["--bmc", "https://10.0.0.7", "--bmc-credential", "file:bmc/a", "--mac", "52-54-00-00-00-01"];
    server.run(&[&set[..], &bmc].concat()).says(0, &[]);
    server.run(&[&set[..], &["--bmc-credential", "file:bmc/b", "--label", "rack=a1"]].concat()).says(0, &[]);
    let node = json(&server, &["get", "gpu", "gpu-1"]);
    let known =
        (&node["bmc"]["address"], &node["bmc"]["credential"], &node["macs"][0], &node["labels"]["rack"]);
    let wanted = ["https://10.0.0.7", "file:bmc/b", "52:54:00:00:00:01", "a1"].map(Value::from);
    assert_eq!(known, (&wanted[0], &wanted[1], &wanted[2], &wanted[3]));
    server
        .run(&[&set[..], &["--bmc-credential", "file:/etc/hostname"]].concat())
        .says(1, &["--bmc-credential"]);
    server.run(&[&set[..], &["--bmc", ""]].concat()).says(0, &[]);
    assert!(json(&server, &["get", "gpu", "gpu-1"])["bmc"].is_null());
    server.ok(&["gpu-node", "create", "gpu-2", "--secret-file", "gpu-2.token"]);
    server.run(&["gpu-node", "set", "gpu-2", "--hostname", "gpu-1"]).says(4, &["already"]);
}
