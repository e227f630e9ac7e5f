//! What needs a person.

use serde_json::Value;

use crate::fixture::Server;

#[test]
fn what_needs_a_person_is_listed_by_cause() {
    let server = Server::start();
    let calm = server.run(&["get", "--needs-attention"]);
    calm.says(0, &["nothing needs attention"]);
    assert_eq!(calm.out, "");
    for n in 1..=3 {
        server.node(&format!("52:54:00:00:00:0{n}"), &["--hostname", &format!("n{n}")]);
    }
    server.ok(&["node", "approve", "n3"]);
    let site = "kind: site\nname: berlin\nsettings:\n  url: http://127.0.0.1:9/MAAS\n  key: env:WARDROOM_SECRET_NONE\n  \
                provisioning_subnet: 10.0.0.0/24\n  boot_disk: {model: SSD}\n";
    std::fs::write(server.dir.path().join("site.yaml"), site).unwrap();
    server.ok(&["apply", "-f", "site.yaml"]);
    let create = ["gpu-node", "create", "gpu-2", "--site", "berlin", "--mac", "52:54:00:00:00:12"];
    server
        .run(&[&create[..], &["--wait", "--wait-timeout", "60s"]].concat())
        .says(1, &["failed_manual_intervention"]);

    let needs = server.run(&["get", "--needs-attention"]);
    needs.says(0, &["3 causes. What to do: `wardroom why KIND NAME`"]);
    let lines: Vec<_> = needs.out.lines().collect();
    assert!(lines[0].starts_with("KIND/NAME") && lines[0].contains("STATE") && lines[0].contains("WHY"));
    // What stands still comes before what waits for a decision.
    let at = |text: &str| {
        lines.iter().position(|line| line.contains(text)).unwrap_or_else(|| panic!("{}", needs.out))
    };
    let stuck = at("environment variable not found");
    assert!(lines[stuck].starts_with("gpu-node/gpu-2 "), "{}", needs.out);
    let waits = at("waits until a person approves the node");
    assert!(lines[waits].starts_with("node/n1 and 1 more "), "{}", needs.out);
    assert!(lines[at("no workflow is assigned")].starts_with("node/n3 "), "{}", needs.out);
    assert!(stuck < waits, "{}", needs.out);

    let of_kind = server.ok(&["get", "gpu", "--needs-attention", "-o", "name"]);
    assert_eq!(of_kind, "gpu-node/gpu-2\n");
    let json: Vec<Value> =
        serde_json::from_str(&server.ok(&["get", "--needs-attention", "-o", "json"])).unwrap();
    assert_eq!(json.len(), 3);
    assert!(json.iter().any(|need| need["count"] == 2 && need["urgency"] == "person"), "{json:?}");
    server
        .run(&["get", "sites", "--needs-attention"])
        .says(1, &["must be one of: node, gpu-node, satellite"]);
    // A cure is seen at once.
    server.ok(&["node", "approve", "n1", "n2", "--yes"]);
    assert!(!server.ok(&["get", "--needs-attention"]).contains("approves the node"));
}
