//! Explanations, word by word.

use crate::fixture::Server;

/// What a command wrote, with every length of time as `TIME`.
fn explained(server: &Server, arguments: &[&str]) -> String {
    let written = server.ok(arguments);
    let (first, rest) = written.split_once('\n').unwrap();
    let (start, time) = first.rsplit_once(" for ").unwrap();
    let end = time.find([',', '.']).unwrap();
    assert!(time[..end].ends_with('s') && time[..end].len() < 4, "{time}");
    format!("{start} for TIME{}\n{rest}", &time[end..])
}

#[test]
fn a_node_that_has_nothing_to_install() {
    let server = Server::start();
    server.node("52:54:00:00:00:01", &["--hostname", "n1"]);
    let expected = "\
n1 has been discovered for TIME.
Registered, by a person or because it booted over the network; it awaits approval.

Next   wardroom node move n1 --to pending   approves the node
Or     wardroom node move n1 --to retired   takes the node out of service for good
";
    assert_eq!(explained(&server, &["why", "node", "n1"]), expected);
    server.ok(&["node", "approve", "n1"]);
    let expected = "\
n1 has been pending for TIME.
Approved; it installs its workflow at the next boot.

  ✗ no workflow is assigned, so the node has nothing to install when it boots

Next   wardroom node assign n1 --workflow NAME
Or     wardroom node move n1 --to retired        takes the node out of service for good
       wardroom node move n1 --to installing     instead of waiting until the node reports `started`
";
    assert_eq!(explained(&server, &["why", "node", "n1"]), expected);
    let all = server.ok(&["why", "node", "n1", "--all"]);
    assert!(all.contains("\nEvery way out of pending:\n  - to installing, by node_report: "), "{all}");
}

/// The run and its node are explained together, each cause once.
#[test]
fn a_run_that_stands_still() {
    let server = Server::start();
    let site = "kind: site\nname: berlin\nsettings:\n  url: http://127.0.0.1:9/MAAS\n  key: env:WARDROOM_SECRET_NONE\n  \
                provisioning_subnet: 10.0.0.0/24\n  boot_disk: {model: SSD}\n";
    std::fs::write(server.dir.path().join("site.yaml"), site).unwrap();
    server.ok(&["apply", "-f", "site.yaml"]);
    let create = ["gpu-node", "create", "gpu-2", "--site", "berlin", "--mac", "52:54:00:00:00:02"];
    server
        .run(&[&create[..], &["--wait", "--wait-timeout", "60s"]].concat())
        .says(1, &["failed_manual_intervention"]);
    let expected = "\
gpu-2 has been enrolling for TIME.
Onboarding is in progress; nothing may be scheduled on the node.

  ✗ its onboarding run stopped at load_site_config
  ✗ load_site_config failed once: the secret at env:WARDROOM_SECRET_NONE: environment variable not found

Next   wardroom run rerun gpu-2   correct the setting that it names first (`wardroom apply -f` changes a site); the run then loads the settings again
Or     wardroom run resume gpu-2   continues from the last safe stage
       wardroom gpu-node quarantine gpu-2   blocks the node from scheduling
       all 8 ways out: --all
";
    let plain = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(plain(&explained(&server, &["why", "gpu-node", "gpu-2"])), plain(expected));
    let evidence = "environment variable not found";
    for kind in ["run", "gpu-node"] {
        let described = server.ok(&["describe", kind, "gpu-2"]);
        assert_eq!(described.matches(evidence).count(), 1, "{described}");
        let (shown, _) = described.split_once("\nHistory:").unwrap();
        assert!(!shown.contains("<none>"), "{shown}");
    }
    // What the API says is what is shown.
    let answer = std::process::Command::new("curl")
        .args(["--silent", "--header"])
        .arg(format!(
            "Authorization: Bearer {}",
            std::fs::read_to_string(server.data_dir().join("admin.token")).unwrap().trim()
        ))
        .arg(format!("{}/api/v1/resources/run/{}/why", server.url, run(&server)))
        .output()
        .unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&answer.stdout).unwrap();
    let shown = server.ok(&["why", "run", "gpu-2"]);
    assert!(
        answer["brief"]["sentence"]
            .as_str()
            .unwrap()
            .starts_with("run gpu-2 has been failed_manual_intervention for ")
    );
    for said in
        [&answer["brief"]["meaning"], &answer["brief"]["blockers"][0], &answer["brief"]["next"]["what"]]
    {
        assert!(shown.contains(said.as_str().unwrap()), "{said}: {shown}");
    }
}

fn run(server: &Server) -> String {
    let run: serde_json::Value =
        serde_json::from_str(&server.ok(&["get", "run", "gpu-2", "-o", "json"])).unwrap();
    run["id"].as_str().unwrap().to_owned()
}
