//! Explains why an online satellite replicates nothing: it beats, but holds none of its groups' images.

use jiff::{SignedDuration, Timestamp};
use wardroom_core::why::Blocker;
use wardroom_store::Resource;

use super::{
    document::Document,
    facts::Facts,
    group::{self, GROUPS},
    pull::Sources,
    settings::pull::address,
};
use crate::platform::{app::App, http::error::Error};

/// How long an online satellite may hold no image before a person is asked to look.
const PATIENCE: SignedDuration = SignedDuration::from_mins(10);

/// The replication of a satellite, for `why`.
pub(crate) struct Replication {
    /// The reasons why it does not replicate.
    pub(crate) blockers: Vec<Blocker>,
    /// The images that it should hold and reports to hold, in words.
    pub(crate) said: String,
}

pub(crate) async fn of(app: &App, satellite: &Resource, now: Timestamp) -> Result<Replication, Error> {
    let document = Document::of(satellite)?;
    let (mut blockers, mut wanted) = (Vec::new(), 0);
    for name in &document.groups {
        let Some(found) = GROUPS.find(app, name).await? else { continue };
        let group = group::Document::of(&found)?;
        wanted += group.artifacts.iter().filter(|artifact| !artifact.deleted).count();
        if let Some(reason) = group::unserved(app, &found)? {
            blockers.push(Blocker { what: reason.into(), fix: None });
            continue;
        }
        let failed = address(&group.registry).and_then(|registry| Sources::of(app).failure(&registry, now));
        blockers.extend(failed.map(|(at, failure)| {
            Blocker {
                what: format!(
                    "pulling from {}, the registry of the group {name}, failed at {at:.0}: {failure}",
                    group.registry
                )
                .into(),
                fix: None,
            }
        }));
    }
    let id = &satellite.content.id;
    let reported = Facts::at(app).0.latest(&app.store, &[id]).await?.remove(id);
    let holds = reported.and_then(|reported| reported.image_count);
    let said = said(&document, wanted, holds);
    let is_settled = now.duration_since(satellite.state_changed_at) >= PATIENCE;
    if blockers.is_empty() && holds == Some(0) && wanted > 0 && is_settled {
        let what = format!(
            "it says that it holds no image, although its groups name {wanted}: look at its log, its config and its local registry"
        );
        blockers.push(Blocker { what: what.into(), fix: None });
    }
    Ok(Replication { blockers, said })
}

fn said(document: &Document, wanted: usize, holds: Option<u64>) -> String {
    let named = match (document.groups.is_empty(), wanted) {
        (true, _) => " It is in no group, so it replicates nothing".to_owned(),
        (false, 0) => " Its groups name no artifact, so it replicates nothing".to_owned(),
        (false, 1) => " Its groups name 1 artifact".to_owned(),
        (false, wanted) => format!(" Its groups name {wanted} artifacts"),
    };
    match holds {
        Some(1) => format!("{named}; it says that it holds 1 image."),
        Some(holds) => format!("{named}; it says that it holds {holds} images."),
        None => format!("{named}; it has not said how many images it holds."),
    }
}

#[cfg(test)]
mod tests {
    use super::{Document, said};

    #[test]
    fn what_it_holds_is_told_beside_what_it_shall_hold() {
        let of = |groups: &[&str]| Document {
            groups: groups.iter().map(|&group| group.to_owned()).collect(),
            ..Document::default()
        };
        for (groups, wanted, holds, expected) in [
            (
                &[][..],
                0,
                None,
                " It is in no group, so it replicates nothing; it has not said how many images it holds.",
            ),
            (
                &["g"],
                0,
                Some(0),
                " Its groups name no artifact, so it replicates nothing; it says that it holds 0 images.",
            ),
            (&["g"], 1, Some(1), " Its groups name 1 artifact; it says that it holds 1 image."),
            (&["g", "h"], 3, Some(2), " Its groups name 3 artifacts; it says that it holds 2 images."),
        ] {
            assert_eq!(said(&of(groups), wanted, holds), expected);
        }
    }
}
