//! The contract of an adapter of clusters, rule by rule.

use std::time::Duration;

use wardroom_api::{
    client::ClusterQuery,
    cluster::{AdapterStatus, ClusterCreate, ClusterPatch, Exact},
    token::TokenCreate,
};

use super::{Absent, Card, Subject, program::Running, site::Site, within};
use crate::bar;

const CLUSTER: &str = "conform-1";
const SECOND: &str = "conform-2";

const REPORTS: &str = "it reports on a new cluster";
const COMPLETE: &str = "its report has Applied, Available and Health";
const ALIVE: &str = "it says Finalized only of a cluster that is being deleted";
const BRINGS_ABOUT: &str = "it says Available=True once its part is done";
const FOLLOWS: &str = "it reports on every new generation";
const RETURNS: &str = "it goes on after the server was away";
const FINALIZES: &str = "it says Finalized=True of a cluster that is being deleted";
const SECRET: &str = "it writes its token nowhere";
const ENDS: &str = "it ends within 10 seconds after SIGTERM";

/// The adapter that is judged, and the spec of the clusters that it is shown.
pub(crate) struct Adapter {
    pub(crate) name: String,
    pub(crate) spec: Exact,
    pub(crate) subject: Subject,
}

impl Adapter {
    /// Judges it, and writes the score card.
    pub(crate) async fn judge(self) -> anyhow::Result<()> {
        let Self { name, spec, subject } = self;
        let settings =
            vec![("clusters.required_adapters", name.clone()), ("clusters.recheck_seconds", "1".to_owned())];
        let mut site = Site::start(settings).await?;
        let file = site.folder.path().join("adapter.token");
        let create = TokenCreate {
            name: "adapter".to_owned(),
            role: "adapter".to_owned(),
            adapter: Some(name.clone()),
            ..TokenCreate::default()
        };
        let token = site.token(&create, &file).await?;
        let mut program = subject.start(&site.url, &file, &name)?;
        let mut card = Card::new(subject.json);
        let patience = subject.patience;

        made(&site, CLUSTER, &spec).await?;
        if card.judge(REPORTS, reported(&site, &mut program, &name, CLUSTER, 1, patience)).await? {
            card.judge(COMPLETE, complete(&site, &name)).await?;
            card.judge(ALIVE, unfinalized(&site, &name)).await?;
            card.judge(BRINGS_ABOUT, available(&site, &name, CLUSTER, patience)).await?;
            let patch = ClusterPatch {
                labels: Some([("conform".to_owned(), "changed".to_owned())].into()),
                ..ClusterPatch::default()
            };
            site.admin.patch_cluster(CLUSTER, &patch).await?;
            card.judge(FOLLOWS, reported(&site, &mut program, &name, CLUSTER, 2, patience)).await?;
            site.stop().await;
            tokio::time::sleep(Duration::from_secs(1)).await;
            site.resume().await?;
            made(&site, SECOND, &spec).await?;
            card.judge(RETURNS, reported(&site, &mut program, &name, SECOND, 1, patience)).await?;
            site.admin.delete_cluster(CLUSTER).await?;
            card.judge(FINALIZES, gone(&site, patience)).await?;
        } else {
            card.skip(&[COMPLETE, ALIVE, BRINGS_ABOUT, FOLLOWS, RETURNS, FINALIZES])?;
        }
        card.judge(ENDS, program.ends()).await?;
        card.judge(SECRET, async { program.keeps(&token) }).await?;
        site.stop().await;
        card.finish()
    }
}

async fn made(site: &Site, name: &str, spec: &Exact) -> anyhow::Result<()> {
    let create = ClusterCreate { name: name.to_owned(), spec: spec.clone(), ..ClusterCreate::default() };
    site.admin.create_cluster(&create).await?;
    Ok(())
}

/// What the adapter said last of a cluster.
async fn status(site: &Site, name: &str, cluster: &str) -> Result<AdapterStatus, String> {
    let found = site.admin.cluster_statuses(cluster, &ClusterQuery::default()).await;
    let found = found.map_err(|error| error.to_string())?.items;
    found.into_iter().find(|status| status.adapter == name).ok_or_else(|| "no report was accepted".to_owned())
}

fn is(status: &AdapterStatus, condition: &str, wanted: &str) -> bool {
    status.conditions.iter().any(|found| found.type_ == condition && found.status == wanted)
}

async fn reported(
    site: &Site,
    program: &mut Running,
    name: &str,
    cluster: &str,
    generation: i64,
    patience: Duration,
) -> Result<String, String> {
    let program = std::cell::RefCell::new(program);
    let look = async || {
        let found = status(site, name, cluster).await;
        if found.is_err() {
            program.borrow_mut().still_runs().map_err(Absent::Never)?;
        }
        let seen = found?.observed_generation;
        if seen == generation {
            Ok(())
        } else {
            Err(format!("its report is of generation {seen}, not {generation}").into())
        }
    };
    let ((), took) = within(patience, look).await?;
    Ok(format!("generation {generation} after {}", bar::length(took)))
}

async fn complete(site: &Site, name: &str) -> Result<String, String> {
    let status = status(site, name, CLUSTER).await?;
    let has = |wanted: &&str| status.conditions.iter().any(|found| found.type_ == **wanted);
    let missing: Vec<_> =
        ["Applied", "Available", "Health"].into_iter().filter(|wanted| !has(wanted)).collect();
    match missing.is_empty() {
        true => Ok(format!("{} conditions", status.conditions.len())),
        false => Err(format!("it lacks {}", missing.join(", "))),
    }
}

async fn unfinalized(site: &Site, name: &str) -> Result<String, String> {
    match is(&status(site, name, CLUSTER).await?, "Finalized", "True") {
        true => Err("it says Finalized=True of a cluster that lives".to_owned()),
        false => Ok("the cluster lives".to_owned()),
    }
}

async fn available(site: &Site, name: &str, cluster: &str, patience: Duration) -> Result<String, String> {
    let look = async || {
        let found = status(site, name, cluster).await?;
        if is(&found, "Available", "True") {
            return Ok(());
        }
        let available = found.conditions.iter().find(|condition| condition.type_ == "Available");
        let said =
            available.and_then(|condition| condition.message.clone().or_else(|| condition.reason.clone()));
        Err(format!("Available is not True: {}", said.as_deref().unwrap_or("it gives no reason")).into())
    };
    let ((), took) = within(patience, look).await?;
    Ok(format!("after {}", bar::length(took)))
}

/// The server removes a cluster once its adapters have finalized.
async fn gone(site: &Site, patience: Duration) -> Result<String, String> {
    let look = async || match site.admin.cluster(CLUSTER).await {
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error.to_string().into()),
        Ok(_) => Err("the cluster waits for Finalized=True".to_owned().into()),
    };
    let ((), took) = within(patience, look).await?;
    Ok(format!("after {}", bar::length(took)))
}
