//! One resource, by every name that people have for it.

use serde_json::Value;

use crate::fixture::Server;

#[test]
fn a_node_is_found_by_its_name_its_mac_and_the_start_of_its_id() {
    let server = Server::start();
    let id = server.node("52:54:00:00:00:01", &["--hostname", "n00001"]);
    let unique = &id[..30];
    for (typed, shown) in
        [("n00001", "n00001"), ("52-54-00-00-00-01", "52-54-00-00-00-01"), (&*id, &*id), (unique, "n00001")]
    {
        let node: Value = serde_json::from_str(&server.ok(&["get", "node", typed, "-o", "json"])).unwrap();
        assert_eq!(node["id"], id.as_str());
        assert!(server.ok(&["describe", "node", typed]).contains(&id));
        assert!(server.ok(&["history", "node", typed]).contains("registered"));
        // A suggestion and a result name the node as the command did.
        let why = server.ok(&["why", "node", typed]);
        assert!(why.contains(&format!("wardroom node move {shown} --to pending")), "{why}");
        let set = server.ok(&["node", "assign", typed, "--label", "rack=1"]);
        assert_eq!(set, format!("node/{shown} changed\n"));
    }
    server.run(&["get", "node", "019"]).says(3, &["there is no node \"019\""]);
    server.run(&["node", "move", "n00001", "--to", "active"]).says(
        4,
        &["allowed now: wardroom node move n00001 --to pending\n", "next: `wardroom why node n00001`"],
    );
}

#[test]
fn an_ambiguous_name_lists_its_candidates() {
    let server = Server::start();
    let one = server.node("52:54:00:00:00:01", &["--hostname", "twin"]);
    let two = server.node("52:54:00:00:00:02", &["--hostname", "twin"]);
    let ambiguous = server.run(&["why", "node", "twin"]);
    ambiguous.says(2, &["\"twin\" names several nodes: give one of their ids", "discovered"]);
    for id in [&one, &two] {
        assert!(ambiguous.err.contains(&**id), "{}", ambiguous.err);
    }
    server.run(&["node", "approve", "twin"]).says(2, &["several nodes"]);
    server.run(&["get", "node", &one[..8]]).says(2, &["several nodes", "twin"]);
    // Selected nodes of one name are told apart.
    let approved = server.ok(&["node", "approve", "--state", "discovered", "--yes"]);
    assert_eq!(approved, format!("node/{one} pending\nnode/{two} pending\n"));
    // A retired node yields its name to the machine that is there now.
    server.ok(&["node", "retire", &one]);
    assert!(server.ok(&["describe", "node", "twin"]).contains(&two));
}

#[test]
fn every_kind_is_found_by_the_start_of_an_id() {
    let server = Server::start();
    server.ok(&["gpu-node", "create", "gpu-1", "--secret-file", "gpu-1.token"]);
    server.ok(&["satellite", "create", "edge", "--secret-file", "edge.token"]);
    let id = |arguments: &[&str]| -> String {
        let shown: Value = serde_json::from_str(&server.ok(&[arguments, &["-o", "json"]].concat())).unwrap();
        shown["id"].as_str().unwrap().to_owned()
    };
    for (kind, name) in
        [("gpu-node", "gpu-1"), ("satellite", "edge"), ("token", "first-admin"), ("run", "gpu-1")]
    {
        let whole = id(&["get", kind, name]);
        assert_eq!(id(&["get", kind, &whole[..30]]), whole, "{kind}");
        assert_eq!(id(&["get", kind, &whole]), whole, "{kind}");
        assert!(!server.ok(&["get", kind]).contains(&whole), "{kind}: the id is for wide tables");
        assert!(server.ok(&["get", kind, "-o", "wide"]).contains(&whole), "{kind}");
    }
    // A name that people chose is never cut short.
    server.ok(&["create", "workflow", "debian", "--kernel", "http://boot/vmlinuz"]);
    server.run(&["delete", "workflow", "debi"]).says(3, &["there is no workflow \"debi\""]);
    server.ok(&["satellite", "revoke", &id(&["get", "satellite", "edge"])[..30]]);
}
