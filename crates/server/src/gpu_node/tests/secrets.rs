//! What secrets lead to, who is shown them, and how often they are tried.

use serde_json::json;
use wardroom_fakes::redfish;

use super::rig::{LOOPBACK, Rig, mac, quick};

/// Whoever may register a node chooses where its BMC is, too: no file and no variable of the server is sent there.
#[tokio::test]
async fn a_node_cannot_refer_to_what_is_no_secret_of_a_bmc() {
    let rig = Rig::new().await;
    for reference in ["file:/etc/hostname", "file:../server.key", "file:maas", "env:PATH", "env:WARDROOM_SECRET_MAAS"]
    {
        let body = json!({
            "hostname": "gpu-1", "bmc": {"address": "https://127.0.0.1:1", "credential": reference},
        });
        let refused = rig.post("/api/v1/gpu-nodes", body).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (400, "invalid"), "{reference}: {refused:?}");
        assert_eq!(refused.body["errors"][0]["field"], "bmc.credential", "{refused:?}");
    }
    let settings = json!({"url": "http://maas", "key": "file:/etc/hostname", "boot_disk": {"model": "X"}});
    let refused = rig.post("/api/v1/sites", json!({"name": "hamburg", "settings": settings})).await;
    assert_eq!(refused.body["errors"][0]["field"], "settings.key", "{refused:?}");
}

/// The BMCs of a site are known by the certificates that the site names; anybody else gets no password.
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

/// Registers a node with the BMC at an address.
async fn onboard(rig: &Rig, number: u32, bmc: &str) -> String {
    let body = json!({
        "hostname": format!("gpu-{number}"), "site": "berlin", "macs": [mac(number)],
        "bmc": {"address": bmc, "credential": "file:bmc/rack", "system": "1"},
    });
    let made = rig.post("/api/v1/gpu-nodes", body).await.ok();
    made["data"]["id"].as_str().unwrap().to_owned()
}
