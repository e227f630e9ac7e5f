//! Booting: a script for every state, and install tokens for the reports that follow.

use serde_json::json;

use crate::support::{
    Api, Backend, Site,
    fleet::{STATES, token_in, workflow},
    mac, node_in, on_both,
};

on_both! {
    the_script_fits_the_state,
    a_workflow_that_is_missing_is_said,
    an_install_report_needs_the_token_of_its_node,
    the_token_of_an_earlier_round_is_void,
    a_site_may_do_without_install_tokens,
    machines_reach_only_what_they_need,
    a_machine_that_boots_and_never_reports_is_seen,
}

fn boot(site: &Site, number: usize) -> String {
    let reply = site.machine(None).get(&format!("/api/v1/boot?mac={}", mac(number)));
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert_eq!(reply.header("content-type"), Some("text/plain; charset=utf-8"));
    reply.text()
}

fn a_machine_that_boots_and_never_reports_is_seen(on: Backend) {
    let mut site = Site::start_with(on, &[("WARDROOM_NODES_BOOTS_WITHOUT_REPORT", "3")]);
    workflow(&site.admin(), "debian");
    let id = node_in(&site.admin(), "discovered", 1);
    assign(&site, &id);
    let node = |site: &Site| site.admin_at(0).get(&format!("/api/v1/nodes/{id}")).expect(200)["data"].clone();
    let why = |site: &Site| {
        site.admin_at(0).get(&format!("/api/v1/resources/node/{id}/why")).expect(200)["data"][0].clone()
    };
    let boot_at_first = |site: &Site| {
        let machine = Api::new(site.servers[0].boot_address, None);
        assert_eq!(machine.get(&format!("/api/v1/boot?mac={}", mac(1))).status, 200);
    };
    assert_eq!((&node(&site)["last_boot_at"], &node(&site)["boot_scripts"]), (&json!(null), &json!(0)));
    boot_at_first(&site);
    assert!(node(&site)["last_boot_at"].is_string());
    assert_eq!(node(&site)["boot_scripts"], 0, "nothing was installed before the approval");
    site.admin().to_state(&id, "pending").expect(200);
    let tag =
        |site: &Site| site.admin_at(0).get(&format!("/api/v1/nodes/{id}")).header("etag").unwrap().to_owned();
    let (before, rows) = (tag(&site), history(&site, &id));
    for count in 1..=2 {
        boot_at_first(&site);
        assert_eq!(node(&site)["boot_scripts"], count);
    }
    let explained = why(&site);
    assert!(
        explained["meaning"].as_str().unwrap().contains("2 install scripts were handed out"),
        "{explained}"
    );
    assert_eq!((&explained["blockers"], &explained["next"]["do"]), (&json!([]), &json!("wait")));
    // The count survives the server, and a boot is neither a change nor a row of history.
    site.servers[0].terminate();
    assert!(site.servers[0].wait().success());
    site.restart(0);
    boot_at_first(&site);
    assert_eq!(node(&site)["boot_scripts"], 3);
    let explained = why(&site);
    assert_eq!(explained["next"]["do"], "mend", "{explained}");
    assert!(explained["blockers"][0]["what"].as_str().unwrap().contains("3 install scripts"), "{explained}");
    assert_eq!((before, rows), (tag(&site), history(&site, &id)));
    // Another approval restarts the count; the list shows the same.
    for state in ["installing", "install_failed", "pending"] {
        site.admin().to_state(&id, state).expect(200);
    }
    assert_eq!(node(&site)["boot_scripts"], 0);
    boot_at_first(&site);
    assert_eq!(site.admin_at(0).get("/api/v1/nodes").expect(200)["data"][0]["boot_scripts"], 1);
    // A machine that reports needs no person.
    for _ in 0..3 {
        boot_at_first(&site);
    }
    assert_eq!(why(&site)["next"]["do"], "mend");
    site.admin().to_state(&id, "installing").expect(200);
    assert_eq!(why(&site)["blockers"], json!([]));
}

fn history(site: &Site, id: &str) -> i64 {
    let rows = site.admin().get(&format!("/api/v1/history?kind=node&id={id}")).expect(200);
    rows["data"].as_array().unwrap().len() as i64
}

fn assign(site: &Site, id: &str) {
    site.admin().patch(&format!("/api/v1/nodes/{id}"), &json!({"workflow_id": "debian"})).expect(200);
}

fn the_script_fits_the_state(on: Backend) {
    let site = Site::start(on);
    workflow(&site.admin(), "debian");
    for (number, state) in STATES.iter().enumerate() {
        let id = node_in(&site.admin(), state, number);
        assign(&site, &id);
        let script = boot(&site, number);
        assert!(script.starts_with("#!ipxe\n"), "{state}: {script}");
        let installs = matches!(*state, "pending" | "installing");
        assert_eq!(
            script.contains("kernel http://boot.example/vmlinuz quiet "),
            installs,
            "{state}: {script}"
        );
        assert_eq!(script.contains("sanboot"), !installs, "{state}: {script}");
        if installs {
            for part in [
                " initrd=initrd0 || goto failed\n",
                "\ninitrd --name initrd0 http://boot.example/initrd || goto failed\n",
                "\n:failed\n",
                &format!("/api/v1/boot?mac={} || goto failed\n", mac(number)),
                &format!("wardroom.node={id}"),
                &format!("wardroom.mac={}", mac(number)),
                "wardroom.image=http://boot.example/disk.img",
                "/api/v1/report",
                "\nboot || goto failed\n",
            ] {
                assert!(script.contains(part), "{state}: no {part} in {script}");
            }
        }
    }
    // In any spelling of the address.
    let upper = mac(1).to_uppercase().replace(':', "-");
    let script = site.machine(None).get(&format!("/api/v1/boot?mac={upper}")).text();
    assert!(script.contains("kernel "), "{script}");
}

fn a_workflow_that_is_missing_is_said(on: Backend) {
    let site = Site::start(on);
    node_in(&site.admin(), "pending", 1);
    let script = boot(&site, 1);
    assert!(script.contains("no workflow is assigned") && script.contains("sanboot"), "{script}");
    for (query, field) in
        [("", "mac"), ("?mac=", "mac"), ("?mac=nonsense", "mac"), ("?mac=00:00:00:00:00:00", "mac")]
    {
        assert_eq!(site.machine(None).get(&format!("/api/v1/boot{query}")).wrong_fields(), [field]);
    }
}

fn an_install_report_needs_the_token_of_its_node(on: Backend) {
    let site = Site::start(on);
    workflow(&site.admin(), "debian");
    let ids: Vec<_> = (0..2).map(|number| node_in(&site.admin(), "pending", number)).collect();
    ids.iter().for_each(|id| assign(&site, id));
    let tokens: Vec<_> = (0..2).map(|number| token_in(&boot(&site, number))).collect();
    let (start, end) = tokens[0].split_at(tokens[0].len() - 10);
    let altered = format!("{start}{}{}", if end.starts_with('A') { 'B' } else { 'A' }, &end[1..]);
    let later = tokens[0].replacen("wri_", "wri_9", 1);

    let report = json!({"mac_address": mac(0), "installation_status": "started"});
    let status = json!({"status": "started"});
    let path = format!("/api/v1/nodes/{}/installation-status", ids[0]);
    let both = |api: &Api, token: Option<&str>| {
        let (mut report, mut status) = (report.clone(), status.clone());
        if let Some(token) = token {
            report["install_token"] = json!(token);
            status["install_token"] = json!(token);
        }
        [api.post("/api/v1/report", &report), api.post(&path, &status)]
    };
    for wrong in
        [None, Some("nonsense"), Some(&*altered), Some(&*later), Some(&*tokens[1]), Some("wri_1_1_x")]
    {
        for reply in [both(&site.machine(wrong), None), both(&site.machine(None), wrong)].concat() {
            assert_eq!(reply.problem(401)["code"], "unauthenticated", "{wrong:?}");
            assert!(reply.header("www-authenticate").is_some());
        }
    }
    let node = site.admin().get(&format!("/api/v1/nodes/{}", ids[0])).expect(200);
    assert_eq!(node["data"]["state"], "pending");

    // As a header or in the body, at either server, on either listener.
    let (in_header, in_body) =
        (both(&site.machine(Some(&tokens[0])), None), both(&site.machine(None), Some(&tokens[0])));
    let at_people = both(&site.caller(1, Some(&tokens[0])), None);
    for reply in [in_header, in_body, at_people].concat() {
        assert_eq!(reply.expect(200)["data"]["state"], "installing");
    }
}

fn the_token_of_an_earlier_round_is_void(on: Backend) {
    let site = Site::start(on);
    workflow(&site.admin(), "debian");
    let id = node_in(&site.admin(), "pending", 1);
    assign(&site, &id);
    let old = token_in(&boot(&site, 1));
    let report = |token: &str, status: &str| {
        let report = json!({"mac_address": mac(1), "installation_status": status});
        site.machine(Some(token)).post("/api/v1/report", &report)
    };
    report(&old, "started").expect(200);
    report(&old, "complete").expect(200);
    for state in ["active", "reprovision", "pending"] {
        site.admin().to_state(&id, state).expect(200);
    }
    report(&old, "started").problem(401);
    let new = token_in(&boot(&site, 1));
    assert_eq!(report(&new, "started").expect(200)["data"]["state"], "installing");
    // The script of the second attempt is of the same round.
    report(&new, "failed").expect(200);
    let again = token_in(&boot(&site, 1));
    assert_eq!(report(&again, "complete").expect(200)["data"]["state"], "installed");
}

fn a_site_may_do_without_install_tokens(on: Backend) {
    let site = Site::start_with(on, &[("WARDROOM_BOOT_REQUIRE_INSTALL_TOKEN", "false")]);
    node_in(&site.admin(), "pending", 1);
    let report = json!({"mac_address": mac(1), "installation_status": "started"});
    assert_eq!(site.machine(None).post("/api/v1/report", &report).expect(200)["data"]["state"], "installing");
}

fn machines_reach_only_what_they_need(on: Backend) {
    let site = Site::start(on);
    let document = site.admin().get("/openapi.json").expect(200);
    let machine = site.machine(Some(&site.token));
    for path in document["paths"].as_object().unwrap().keys() {
        let is_theirs =
            matches!(&**path, "/api/v1/boot" | "/api/v1/report" | "/api/v1/nodes/{id}/installation-status");
        let answer = machine.get(&path.replace("{id}", "x").replace("{kind}", "node"));
        // Clients of a registry and of Flight Control understand only its own way of refusing.
        let is_missing = match ["/v2/", "/flightctl/"].iter().any(|prefix| path.starts_with(prefix)) {
            true => answer.status == 404,
            false => answer.json()["code"] == "no_route",
        };
        assert_eq!(is_missing, !is_theirs, "{path}: {answer:?}");
    }
}
