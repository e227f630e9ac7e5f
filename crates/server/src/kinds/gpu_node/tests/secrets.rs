//! Which secrets references lead to, which callers see them, and how often they are tried.

use std::{collections::BTreeMap, sync::Arc};

use axum::http::Method;
use serde_json::json;
use wardroom_core::{gpu_node::maas::Status, run::plan::Stage};
use wardroom_fakes::{maas::Change, redfish};
use wardroom_store::Resource;

use super::{
    super::{
        begin,
        document::{self, Document},
        secret,
    },
    decommission::cancel,
    harness::{Trick, Tricky},
    rig::{LOOPBACK, Rig, mac, quick},
};
use crate::platform::app::{Decided, by_system};

/// A caller that may register a node chooses the address of its BMC, too: no file and no variable of the
/// server is sent there.
#[tokio::test]
async fn a_node_refers_only_to_secrets_of_bmcs() {
    let rig = Rig::new().await;
    for reference in
        ["file:/etc/hostname", "file:../server.key", "file:maas", "env:PATH", "env:WARDROOM_SECRET_MAAS"]
    {
        let body = json!({
            "hostname": "gpu-1", "bmc": {"address": "https://127.0.0.1:1", "credential": reference},
        });
        let refused = rig.post("/api/v1/gpu-nodes", body).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (400, "invalid"), "{reference}: {refused:?}");
        assert_eq!(refused.body["errors"][0]["field"], "bmc.credential", "{refused:?}");
    }
    let settings = json!({
        "url": "http://maas", "key": "file:/etc/hostname", "boot_disk": {"model": "X"}, "provisioning_subnet": "pxe",
    });
    let refused = rig.post("/api/v1/sites", json!({"name": "hamburg", "settings": settings})).await;
    assert_eq!(refused.body["errors"][0]["field"], "settings.key", "{refused:?}");
}

/// An address is where a BMC, or a MAAS, is: what comes after its path would be lost, or end up in the middle of another
/// one. How its scheme is written does not matter.
#[tokio::test]
async fn an_address_is_a_place_and_no_more() {
    let rig = Rig::new().await;
    let node = |address: &str| {
        let bmc = json!({"address": address, "credential": "file:bmc/rack"});
        rig.post("/api/v1/gpu-nodes", json!({"hostname": "gpu-1", "bmc": bmc}))
    };
    let settings = rig.get("/api/v1/sites/berlin").await["data"]["settings"].clone();
    for tail in ["?a=b", "/redfish?", "#top", "/redfish/#"] {
        let url = format!("https://10.0.0.7{tail}");
        let refused = node(&url).await;
        assert_eq!(refused.status.as_u16(), 400, "{url}: {refused:?}");
        assert_eq!(refused.body["errors"][0]["field"], "bmc.address", "{refused:?}");
        for field in ["url", "server_url"] {
            let mut settings = settings.clone();
            settings[field] = json!(url);
            let refused = rig.post("/api/v1/sites", json!({"name": "hamburg", "settings": settings})).await;
            assert_eq!(refused.body["errors"][0]["field"], format!("settings.{field}"), "{refused:?}");
        }
    }
    node("HTTPS://10.0.0.7/").await.ok();
}

/// The BMCs of a site are known by the certificates that the site names; no other server gets a password.
#[tokio::test]
async fn a_bmc_is_known_by_the_authorities_of_its_site() {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let (certificate, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    for (trusted, ends) in [(true, "active"), (false, "failed_manual_intervention")] {
        let tls = Some((certificate.clone().into_bytes(), key.clone().into_bytes()));
        let bmc = redfish::Fake::start(redfish::Config { tls, ..redfish::Config::default() }, LOOPBACK);
        let bmc = bmc.await.unwrap();
        let mut rig = Rig::with(quick(), |site| {
            site.bmc_insecure = false;
            site.bmc_ca = Some("file:bmc.pem".to_owned());
        })
        .await;
        let other = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap().cert.pem();
        let authorities = if trusted { certificate.clone() } else { other };
        std::fs::write(rig.secret("file:bmc.pem"), authorities).unwrap();
        std::fs::write(rig.secret("file:bmc/rack"), "root:calvin").unwrap();
        rig.work();
        rig.agents();
        let id = onboard(&rig, 1, &bmc.url()).await;
        if trusted {
            rig.until(&id, ends).await;
        } else {
            let run = rig.until_run(&id, ends).await;
            assert_eq!(run["stage"], "resolve_power_credentials", "{run}");
        }
    }
}

/// The credential of the agent that a node has.
async fn credential(rig: &Rig, id: &str) -> String {
    let node = begin::read(&rig.app, id).await.unwrap();
    let epoch = Document::of(&node).unwrap().agent.unwrap().epoch;
    secret::credential(&rig.app.key, id, epoch)
}

/// What an agent hears that beats with a credential.
async fn beat(rig: &Rig, id: &str, credential: &str) -> u16 {
    let path = format!("/api/v1/gpu-nodes/{id}/heartbeat");
    rig.as_agent(credential, &path, json!({"checks": []})).await.status.as_u16()
}

/// The credential of a system ends with it: before the release that gives its disk up, and also when the
/// machine was released outside of Wardroom.
async fn a_credential_dies_with_the_system_it_was_on() {
    for released in [false, true] {
        let mut rig = Rig::new().await;
        let id = rig.active(1).await;
        let old = credential(&rig, &id).await;
        assert_eq!(beat(&rig, &id, &old).await, 200);
        rig.act(&id, "quarantine", json!({"comment": "the board burnt"})).await.ok();
        rig.long_silence(&id).await;
        if released {
            let free = Change { status: Some(Status::Ready), ..Change::default() };
            rig.maas.change(&rig.system_id(&id).await, &free);
        }
        let skip = ["drain_node", "scrub_gpu", "validate_clean_node"]
            .map(|stage| json!({"stage": stage, "comment": "the board burnt"}));
        let body = json!({"mode": "reimage", "skip": skip});
        rig.post(&format!("/api/v1/gpu-nodes/{id}/decommissions"), body).await.ok();
        rig.until_stage_or(&id, "wait_for_agent_enrollment", "active").await;
        assert_eq!(beat(&rig, &id, &old).await, 401, "released outside of Wardroom: {released}");
        // Nor does it come back when the reimage is given up.
        let run = rig.lifecycle(&id).await["run"]["id"].as_str().unwrap().to_owned();
        cancel(&rig, &run).await;
        rig.until_run(&id, "cancelled").await;
        assert_eq!(beat(&rig, &id, &old).await, 401, "released outside of Wardroom: {released}");
        let node = rig.get(&format!("/api/v1/gpu-nodes/{id}")).await["data"].clone();
        assert_eq!((&node["enrolled"], &node["identity_kept"]), (&json!(false), &json!(false)));
    }
}

/// A node whose secrets are gone has no identity that could be kept, also when its host was never asked to uninstall.
async fn a_removed_node_keeps_no_identity() {
    let mut rig = Rig::new().await;
    let id = rig.active(1).await;
    rig.act(&id, "quarantine", json!({"comment": "the board burnt"})).await.ok();
    rig.long_silence(&id).await;
    for (action, stage, state) in
        [("retire", "drain_node", "retired"), ("remove", "remove_gpuaas_node_record", "deleted")]
    {
        let skip = json!({"skip": [{"stage": stage, "comment": "the board burnt"}]});
        rig.act(&id, action, skip).await.ok();
        rig.until(&id, state).await;
    }
    let node = rig.get(&format!("/api/v1/gpu-nodes/{id}")).await["data"].clone();
    assert_eq!((&node["enrolled"], &node["identity_kept"]), (&json!(false), &json!(false)), "{node}");
}

/// A BMC that many nodes share, with a password that is wrong: however many runs come at once, it hears it twice.
async fn many_runs_at_once_try_a_wrong_password_twice() {
    let bmc = redfish::Fake::start(redfish::Config::default(), LOOPBACK).await.unwrap();
    let mut rig = Rig::new().await;
    std::fs::write(rig.secret("file:bmc/rack"), "root:wrong").unwrap();
    let mut ids = Vec::new();
    for number in 1..=12 {
        ids.push(onboard(&rig, number, &bmc.url()).await);
    }
    rig.work();
    for id in &ids {
        let run = rig.until_run(id, "failed_manual_intervention").await;
        assert_eq!(run["stage"], "resolve_power_credentials", "{run}");
    }
    assert_eq!(bmc.wrong_passwords(), 2);
}

/// A BMC that takes its time to refuse a password, and stages whose worker can die as soon as it has.
async fn late_bmc(rig: &Rig) -> (Arc<redfish::Fake>, Tricky) {
    let bmc = Arc::new(redfish::Fake::start(redfish::Config::default(), LOOPBACK).await.unwrap());
    for _ in 0..20 {
        bmc.fault(redfish::Fault::Late(300));
    }
    std::fs::write(rig.secret("file:bmc/rack"), "root:wrong").unwrap();
    let heard = Arc::clone(&bmc);
    let tries = move || {
        let logins = BTreeMap::from([("login".to_owned(), heard.wrong_passwords().into())]);
        BTreeMap::from([("bmc".to_owned(), logins)])
    };
    (bmc, Tricky::of(rig, tries))
}

/// A worker that crashes between the BMC's answer and its record has used up a try all the same.
async fn a_try_counts_although_its_server_dies_with_the_answer() {
    let mut rig = Rig::new().await;
    let (bmc, tricky) = late_bmc(&rig).await;
    // The address is written otherwise in each. Whichever comes first dies with the answer.
    let both = [onboard(&rig, 1, &bmc.url()).await, onboard(&rig, 2, &format!("{}/", bmc.url())).await];
    for id in &both {
        tricky.plan(id, Trick::Cut, Some(Stage::ResolvePowerCredentials));
    }
    rig.work_with(tricky.clone());
    let mut told = Vec::new();
    for id in &both {
        let run = rig.until_run(id, "failed_manual_intervention").await;
        assert_eq!(run["failure_class"], "credentials", "{run}");
        told.push(run["failure"].to_string());
    }
    // A run that finds its tries used up got no answer of the BMC, and says so.
    assert!(told.iter().any(|told| told.contains("it may be right")), "{told:?}");
    assert!(both.iter().any(|id| tricky.played(id) > 0), "no worker crashed");
    assert_eq!(bmc.wrong_passwords(), 2);
}

/// A person who sends a run on allows two tries of a password, not two for each crash after an answer.
async fn one_press_has_a_wrong_password_tried_twice() {
    let mut rig = Rig::new().await;
    let (bmc, tricky) = late_bmc(&rig).await;
    let id = onboard(&rig, 1, &bmc.url()).await;
    rig.work_with(tricky.clone());
    let run = rig.until_run(&id, "failed_manual_intervention").await;
    assert_eq!(bmc.wrong_passwords(), 2);
    tricky.plan(&id, Trick::Cut, Some(Stage::ResolvePowerCredentials));
    let run = run["id"].as_str().unwrap();
    rig.post(&format!("/api/v1/runs/{run}/actions/retry_stage"), json!({})).await.ok();
    rig.until_run(&id, "failed_manual_intervention").await;
    assert!(tricky.played(&id) > 0, "no worker crashed");
    assert_eq!(bmc.wrong_passwords(), 4);
}

/// Users and passwords have no place in an address, which every reader sees.
#[tokio::test]
async fn an_address_holds_no_password() {
    let rig = Rig::new().await;
    let settings = rig.get("/api/v1/sites/berlin").await["data"]["settings"].clone();
    for url in [
        "https://root:calvin@10.0.0.7",
        "https://root@10.0.0.7/x",
        "https://",
        "https:///x",
        "https://a:b",
        "x",
    ] {
        let node = json!({"hostname": "gpu-1", "bmc": {"address": url, "credential": "file:bmc/rack"}});
        let mut site = json!({"name": "potsdam", "settings": settings});
        for (path, body, field) in [
            ("/api/v1/gpu-nodes", node, "bmc.address"),
            (
                "/api/v1/sites",
                {
                    site["settings"]["url"] = json!(url);
                    site.clone()
                },
                "settings.url",
            ),
            ("/api/v1/workflows", json!({"name": "w", "kernel": url}), "kernel"),
        ] {
            let refused = rig.post(path, body).await;
            assert_eq!(
                (refused.status.as_u16(), &refused.body["errors"][0]["field"]),
                (400, &json!(field)),
                "{url}"
            );
            assert!(!refused.body.to_string().contains("calvin"), "{refused:?}");
        }
    }
}

/// A BMC that was registered with the wrong secret is corrected while its run waits for that, and the run goes on.
async fn a_wrong_bmc_is_corrected_and_the_run_goes_on() {
    let bmc = redfish::Fake::start(redfish::Config::default(), LOOPBACK).await.unwrap();
    let mut rig = Rig::new().await;
    std::fs::write(rig.secret("file:bmc/rack"), "root:wrong").unwrap();
    std::fs::write(rig.secret("file:bmc/right"), "root:calvin").unwrap();
    rig.work();
    rig.agents();
    let id = onboard(&rig, 1, &bmc.url()).await;
    rig.until_run(&id, "failed_manual_intervention").await;
    let node = format!("/api/v1/gpu-nodes/{id}");
    let known = rig.get(&node).await["data"]["bmc"].clone();
    let mut right = json!({"bmc": known, "labels": {"rack": "a1"}});
    right["bmc"]["credential"] = json!("file:/etc/hostname");
    assert_eq!(rig.call(Method::PATCH, &node, right.clone()).await.status, 400);
    right["bmc"]["credential"] = json!("file:bmc/right");
    let changed = rig.call(Method::PATCH, &node, right.clone()).await.ok();
    assert_eq!((&changed["data"]["bmc"], &changed["data"]["labels"]["rack"]), (&right["bmc"], &json!("a1")));
    rig.act(&id, "resume", json!({})).await.ok();
    rig.until(&id, "active").await;
    let (rows, _) = rig.app.store.history("gpu-node", &id, wardroom_store::Rows::All, 100, 0).await.unwrap();
    let told = |row: &wardroom_store::HistoryRow| row.entry.metadata["bmc"] == right["bmc"];
    assert_eq!(rows.iter().filter(|row| told(row)).count(), 1, "one row of history");
}

/// A node whose BMC was registered before references were bounded is corrected piece by piece; its reference
/// is refused where it is used, and where a request names it again.
async fn a_patch_that_leaves_the_bmc_alone_is_taken() {
    let rig = Rig::new().await;
    let id = onboard(&rig, 1, "https://10.0.0.7").await;
    let old = |node: &Resource| {
        let mut document = Document::of(node)?;
        document.bmc.as_mut().unwrap().credential = "file:/etc/wardroom/bmc".to_owned();
        let content = document.into_content_of(node, document::state(node)?)?;
        Ok(Decided::Commit(Box::new((content, by_system(&rig.app, "changed", json!({})))), ()))
    };
    rig.app.change("gpu-node", &id, old).await.unwrap();
    let path = format!("/api/v1/gpu-nodes/{id}");
    let bmc = rig.get(&path).await["data"]["bmc"].clone();
    let patch = async |body| rig.call(Method::PATCH, &path, body).await;
    let changed = patch(json!({"labels": {"rack": "a1"}, "model": "x", "hostname": "gpu-7"})).await.ok();
    assert_eq!((&changed["data"]["bmc"], &changed["data"]["hostname"]), (&bmc, &json!("gpu-7")));
    assert_eq!(patch(json!({"bmc": bmc})).await.status, 400);
    assert_eq!(patch(json!({"bmc": null})).await.ok()["data"]["bmc"], json!(null));
}

/// Registers a node with the BMC at an address.
async fn onboard(rig: &Rig, number: u32, bmc: &str) -> String {
    let body = json!({
        "hostname": format!("gpu-{number}"), "site": "berlin", "macs": [mac(number)],
        "bmc": {"address": bmc, "credential": "file:bmc/rack", "system": "1"},
    });
    let made = rig.post("/api/v1/gpu-nodes", body).await.ok();
    made["data"]["id"].as_str().unwrap().to_owned()
}

on_both! {
    a_credential_dies_with_the_system_it_was_on
    a_removed_node_keeps_no_identity
    many_runs_at_once_try_a_wrong_password_twice
    a_wrong_bmc_is_corrected_and_the_run_goes_on
    a_patch_that_leaves_the_bmc_alone_is_taken
    a_try_counts_although_its_server_dies_with_the_answer
    one_press_has_a_wrong_password_tried_twice
}
