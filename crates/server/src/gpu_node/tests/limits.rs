//! What a site allows is kept to, and nobody holds more than they use.

use std::time::Duration;

use wardroom_fakes::maas::{Outcome, Pace};

use super::rig::{Rig, quick};

/// How often MAAS did something, to all machines together.
fn total(rig: &Rig, op: &str) -> u64 {
    rig.maas.effects().values().filter_map(|ops| ops.get(op)).sum()
}

/// Six machines at a site that deploys two at once: never more, and in the end all of them.
#[tokio::test]
async fn no_more_deployments_are_under_way_than_the_site_allows() {
    let moment = Duration::from_millis(20);
    let pace = Pace { deploying: None, ..Pace::all(moment) };
    let config = wardroom_fakes::maas::Config { pace, ..quick() };
    let mut rig = Rig::with(config, |site| site.deploys_at_once = 2).await;
    rig.work();
    rig.agents();
    let mut ids = Vec::new();
    for number in 1..=6 {
        ids.push(rig.onboard(number).await);
    }
    // Everybody has come to the deployment, and has it or waits for it.
    for id in &ids {
        for look in 0.. {
            assert!(look < 500, "{:#}", rig.lifecycle(id).await);
            let run = rig.lifecycle(id).await["run"].clone();
            if run["stage"] == "wait_for_deployed"
                || (run["stage"] == "deploy_via_maas" && run["waiting_for"].is_string())
            {
                break;
            }
            tokio::time::sleep(moment).await;
        }
    }
    assert_eq!(total(&rig, "deploy"), 2);
    let mut ended = Vec::new();
    while ended.len() < ids.len() {
        let begun: Vec<_> =
            rig.maas.effects().into_iter().filter(|(_, ops)| ops.contains_key("deploy")).collect();
        assert!(begun.len() - ended.len() <= 2, "{} begun, {} ended", begun.len(), ended.len());
        if let Some((machine, _)) = begun.into_iter().find(|(machine, _)| !ended.contains(machine)) {
            ended.push(machine.clone());
            rig.maas.finish(&machine, &Outcome::Pass);
        }
        tokio::time::sleep(moment).await;
    }
    for id in &ids {
        rig.until(id, "active").await;
    }
    assert_eq!(total(&rig, "deploy"), 6);
}
