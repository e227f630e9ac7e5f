//! Changes seen before they are made: `diff`, `apply --dry-run`, `edit`.

use std::fs;

use crate::fixture::{Ran, Server};

const WORKFLOW: &str = "kind: workflow\nname: debian\nkernel: http://boot/vmlinuz\n";

#[test]
fn a_difference_is_shown_and_nothing_is_changed() {
    let server = Server::start();
    let file = server.dir.path().join("all.yaml");
    fs::write(&file, WORKFLOW).unwrap();
    let new = server.run(&["diff", "-f", "all.yaml"]);
    new.says(1, &["1 of 1 resource would change"]);
    assert!(new.out.starts_with("--- server/workflow/debian\n+++ file/workflow/debian\n@@ "), "{}", new.out);
    assert!(new.out.contains("+kernel: http://boot/vmlinuz\n"), "{}", new.out);
    let planned = server.ok(&["apply", "-f", "all.yaml", "--dry-run"]);
    assert_eq!(planned, "workflow/debian would be created\n");
    server.run(&["get", "workflow", "debian"]).says(3, &["debian"]);

    server.ok(&["apply", "-f", "all.yaml"]);
    assert_eq!(server.ok(&["diff", "-f", "all.yaml"]), "");
    let node = "---\nkind: node\nmac_address: 52:54:00:00:00:01\nhostname: alpha\nlabels: {rack: r1}\n";
    fs::write(&file, WORKFLOW.replace("vmlinuz", "other") + node).unwrap();
    let both = server.run(&["diff", "-f", "all.yaml"]);
    both.says(1, &["2 of 2 resources would change"]);
    assert!(both.out.contains("-kernel: http://boot/vmlinuz\n+kernel: http://boot/other\n"), "{}", both.out);
    let planned = server.ok(&["apply", "-f", "all.yaml", "--dry-run"]);
    assert_eq!(planned, "workflow/debian would be changed\nnode/52:54:00:00:00:01 would be created\n");

    server.ok(&["apply", "-f", "all.yaml"]);
    fs::write(&file, node.replace("alpha", "beta")).unwrap();
    let node = server.run(&["diff", "-f", "all.yaml"]);
    assert!(node.out.contains("-hostname: alpha\n+hostname: beta\n"), "{}", node.out);
}

#[test]
fn what_no_document_describes_is_pruned_by_its_labels() {
    let server = Server::start();
    let file = server.dir.path().join("fleets.yaml");
    let fleet = |name: &str, app: &str| {
        format!("---\nkind: Fleet\nmetadata: {{name: {name}, labels: {{app: {app}}}}}\nspec: {{}}\n")
    };
    fs::write(&file, ["tills", "kiosks"].map(|name| fleet(name, "pos")).concat() + &fleet("signs", "ads"))
        .unwrap();
    server.ok(&["apply", "-f", "fleets.yaml"]);
    fs::write(&file, fleet("tills", "pos")).unwrap();
    let prune = ["apply", "-f", "fleets.yaml", "--prune", "-l", "app=pos"];
    let with = |more: &[&str]| server.run(&[&prune[..], more].concat());
    assert!(with(&["--dry-run"]).success().ends_with("fleet/kiosks would be deleted\n"));
    // One alone is asked for too: the command does not name it.
    let asked = with(&[]);
    asked.says(2, &["to prune: fleet/kiosks", "confirm with --yes"]);
    assert_eq!(server.ok(&["get", "fleets", "-o", "name"]).lines().count(), 3);
    assert!(with(&["--yes"]).success().contains("fleet/kiosks deleted"));
    assert_eq!(server.ok(&["get", "fleets", "-o", "name"]), "fleet/signs\nfleet/tills\n");

    server.run(&prune[..4]).says(2, &["--selector"]);
    server
        .run(&["apply", "-f", "fleets.yaml", "--prune", "-l", "!app"])
        .says(2, &["write labels with their values"]);
    // What the files say is wrong somewhere: nothing is deleted because of them.
    fs::write(&file, fleet("other", "pos").replace("spec: {}", "spec: {colour: red}")).unwrap();
    let refused = with(&["--yes"]);
    assert!(refused.code != 0 && refused.err.contains("nothing is pruned"), "{}", refused.err);
    fs::write(&file, "").unwrap();
    with(&["--yes"]).says(1, &["contains no document"]);
    assert_eq!(server.ok(&["get", "fleets", "-o", "name"]).lines().count(), 2);
}

#[test]
fn an_error_of_a_comparison_is_told_from_a_difference() {
    let server = Server::start();
    let file = server.dir.path().join("all.yaml");
    server.run(&["diff", "-f", "missing.yaml"]).says(2, &["cannot read missing.yaml"]);
    fs::write(&file, "kind: unicorn\nname: x\n").unwrap();
    server.run(&["diff", "-f", "all.yaml"]).says(2, &["\"unicorn\" cannot be applied"]);
    fs::write(&file, "kind: workflow\nname: x\nkernl: http://boot\n").unwrap();
    server.run(&["diff", "-f", "all.yaml"]).says(2, &["kernl"]);
    server.run(&["diff", "-f", "all.yaml", "--server", "http://127.0.0.1:1"]).says(7, &["next: "]);
}

#[test]
fn the_files_of_a_folder_are_applied_together() {
    let server = Server::start();
    let folder = server.dir.path().join("fleet");
    fs::create_dir(&folder).unwrap();
    server.run(&["apply", "-f", "fleet"]).says(1, &["fleet: the folder has no file that ends in .yaml"]);
    // The node is in the first file; what it refers to is applied before.
    let node = "kind: node\nmac_address: 52:54:00:00:00:01\nworkflow_id: debian\n";
    for (name, text) in [("a.yml", node), ("b.yaml", WORKFLOW), ("notes.txt", "no document")] {
        fs::write(folder.join(name), text).unwrap();
    }
    fs::write(server.dir.path().join("more.json"), r#"{"kind": "group", "name": "edge"}"#).unwrap();
    let applied = server.ok(&["apply", "-f", "fleet", "-f", "more.json"]);
    assert_eq!(applied, "workflow/debian created\ngroup/edge created\nnode/52:54:00:00:00:01 created\n");
}

fn edit(server: &Server, editor: &str) -> Ran {
    let mut command = server.command(&["edit", "workflow", "debian"]);
    command.env("WARDROOM_EDITOR", editor);
    Ran::of(command)
}

/// The file that a message says the text is kept in.
fn kept(ran: &Ran) -> String {
    let after = ran.err.split("your text is kept in ").nth(1).unwrap_or_else(|| panic!("{}", ran.err));
    let file = after.lines().next().unwrap().trim().to_owned();
    let text = fs::read_to_string(&file).unwrap();
    fs::remove_file(&file).unwrap();
    text
}

#[test]
fn a_resource_is_edited_as_a_text() {
    let server = Server::start();
    fs::write(server.dir.path().join("all.yaml"), WORKFLOW).unwrap();
    server.ok(&["apply", "-f", "all.yaml"]);
    let kernel = || server.ok(&["get", "workflow", "debian", "-o", "yaml"]);
    edit(&server, "true").says(0, &["nothing was changed"]);
    let edited = edit(&server, "sed -i s/vmlinuz/other/");
    assert_eq!(edited.out, "workflow/debian applied\n", "{}", edited.err);
    assert!(kernel().contains("http://boot/other"));

    edit(&server, "false").says(1, &["the editor \"false\" failed", "WARDROOM_EDITOR"]);
    let wrong = edit(&server, "sed -i s/^kernel:/kernl:/");
    wrong.says(1, &["kernl"]);
    assert!(kept(&wrong).contains("kernl: http://boot/other"));
    let renamed = edit(&server, "sed -i 's/^name: .*/name: other/'");
    renamed.says(1, &["kind and name cannot be edited"]);
    kept(&renamed);

    // Somebody else changes it while the editor is open.
    fs::write(server.dir.path().join("all.yaml"), WORKFLOW.replace("vmlinuz", "theirs")).unwrap();
    let program = env!("CARGO_BIN_EXE_wardroom");
    let meanwhile = edit(&server, &format!("{program} apply -f all.yaml >&2 && sed -i s/other/mine/"));
    meanwhile.says(4, &["was changed meanwhile"]);
    assert!(kept(&meanwhile).contains("http://boot/mine"));
    assert!(kernel().contains("http://boot/theirs"));
    server.run(&["edit", "run", "x"]).says(2, &["cannot be edited as a text"]);
}
