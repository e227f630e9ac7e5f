//! Which groups a satellite is in and which config it reads.
//!
//! Both are part of the satellite's own record, so that one commit changes them together with its history.
//! What must stay true: no satellite refers to a missing group or config; see
//! [`crate::platform::change::named`]. A group to be removed is closed first, then its satellites leave it
//! page by page, then it is deleted. A satellite that has not left yet still shows the group, replicates its
//! artifacts and may read its projects; the group itself cannot be read, joined or replaced meanwhile.

use std::collections::{BTreeMap, BTreeSet};

use wardroom_api::satellite_group::Member;
use wardroom_store::{
    Change, Effect, Entry, Error as StoreError, Held, List, Page, Resource, attempts, unless_conflict,
};

use crate::{
    kinds::{
        satellite::{
            asked,
            document::{Document, KIND, group_field, name_key, state},
        },
        satellite::{config::CONFIGS, group::GROUPS},
    },
    platform::{
        app::{App, by_person},
        change::named::REMOVING,
        http::{
            error::Error,
            list::{self, Pages},
        },
        identity::auth::Caller,
    },
};

/// The field by which the satellites that read a config are found.
pub(crate) const CONFIG_FIELD: &str = "config";

/// Groups of one satellite at most.
const MOST_GROUPS: usize = 100;

/// How many satellites leave a group in one step.
const PAGE: usize = 50;

/// Returns the preconditions of a commit with these assignments; refuses references to missing objects.
pub(crate) async fn holds(
    app: &App,
    groups: &BTreeSet<String>,
    config: Option<&str>,
) -> Result<Vec<Held>, Error> {
    if groups.len() > MOST_GROUPS {
        return Err(Error::invalid("groups", format!("are more than {MOST_GROUPS}")));
    }
    let mut holds = Vec::with_capacity(groups.len() + 1);
    for group in groups {
        holds.push(GROUPS.held(app, "groups", group).await?);
    }
    if let Some(config) = config {
        holds.push(CONFIGS.held(app, "config_name", config).await?);
    }
    Ok(holds)
}

/// Returns a page of the satellites with a field value.
pub(crate) async fn members(app: &App, field: &str, value: &str, pages: &Pages) -> Result<Page, Error> {
    list::page(app, List { fields: having(field, value).fields, ..pages.of(KIND)? }).await
}

/// Returns one of the satellites with a field value.
pub(crate) async fn some_member(app: &App, field: &str, value: &str) -> Result<Option<Resource>, Error> {
    Ok(app.store.list(&List { limit: 1, ..having(field, value) }).await?.items.pop())
}

fn having(field: &str, value: &str) -> List {
    let fields = BTreeMap::from([(field.to_owned(), value.to_owned())]);
    List { kind: KIND.to_owned(), fields, ..List::default() }
}

/// A satellite as the lists of its group show it.
pub(crate) fn member(satellite: &Resource) -> Result<Member, Error> {
    let document = Document::of(satellite)?;
    Ok(Member {
        id: satellite.content.id.clone(),
        name: satellite.content.name.clone(),
        state: satellite.content.state.clone(),
        groups: document.groups.into_iter().collect(),
        config: document.config,
    })
}

pub(crate) async fn join(app: &App, caller: &Caller, satellite: &str, group: &str) -> Result<Member, Error> {
    let id = find(app, satellite).await?;
    attempts(async || {
        let held = GROUPS.held(app, "group", group).await?;
        let joined = reassign(app, caller, &id, vec![held], |document| {
            if document.groups.len() >= MOST_GROUPS {
                return Err(Error::invalid("group", format!("a satellite is in at most {MOST_GROUPS}")));
            }
            Ok(document.groups.insert(group.to_owned()))
        });
        joined.await
    })
    .await
}

/// Takes a satellite out of a group, also if the group no longer exists.
pub(crate) async fn leave(app: &App, caller: &Caller, satellite: &str, group: &str) -> Result<Member, Error> {
    let id = find(app, satellite).await?;
    let found = app.store.get(KIND, &id).await?;
    let is_in = found.as_ref().map(Document::of).transpose()?.is_some_and(|it| it.groups.contains(group));
    if !is_in && GROUPS.find(app, group).await?.is_none() {
        return Err(Error::not_found(GROUPS.kind, group));
    }
    attempts(|| reassign(app, caller, &id, Vec::new(), |document| Ok(document.groups.remove(group)))).await
}

/// How far the removal of a group is.
pub(crate) enum Removal {
    /// Some satellites left; there may be more.
    UnderWay,
    /// The group, as it was read, has no satellites.
    Empty(Box<Resource>),
    /// The group is gone, or was created again.
    Over,
}

/// Takes some satellites out of a group that is being removed. Satellites that changed concurrently are left
/// to the next call.
pub(crate) async fn take_out(app: &App, group: &str, entry: impl Fn() -> Entry) -> Result<Removal, Error> {
    let found = GROUPS.find(app, group).await?.filter(|found| found.content.state == REMOVING);
    let Some(closed) = found else { return Ok(Removal::Over) };
    let met = take_out_of(app, &closed, entry).await?;
    Ok(if met { Removal::UnderWay } else { Removal::Empty(Box::new(closed)) })
}

/// Takes satellites out of this version of a group; returns whether there were any.
async fn take_out_of(app: &App, closed: &Resource, entry: impl Fn() -> Entry) -> Result<bool, Error> {
    let group = &closed.content.id;
    let members = app.store.list(&List { limit: PAGE, ..having(&group_field(group), "1") }).await?.items;
    let are_there = !members.is_empty();
    let mut changes = Vec::with_capacity(members.len());
    for before in members {
        // A group that was created again keeps its satellites.
        let holds = vec![Held::at(closed)];
        let mut document = Document::of(&before)?;
        let effects = asked::effects_for(app, &document, "assigned");
        document.groups.remove(group);
        changes.push(assigned(before, document, entry(), effects, holds)?);
    }
    for committed in app.commit_all(changes).await {
        match committed {
            Ok(_) | Err(StoreError::Conflict) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(are_there)
}

/// Gives a satellite a config, or the built-in one.
pub(crate) async fn configure(
    app: &App,
    caller: &Caller,
    satellite: &str,
    config: Option<&str>,
) -> Result<Member, Error> {
    let id = find(app, satellite).await?;
    attempts(async || {
        let held = match config {
            Some(config) => vec![CONFIGS.held(app, "config_name", config).await?],
            None => Vec::new(),
        };
        let configured = reassign(app, caller, &id, held, |document| {
            let config = config.map(str::to_owned);
            let changed = document.config != config;
            document.config = config;
            Ok(changed)
        });
        configured.await
    })
    .await
}

/// The id of the living satellite of a name.
async fn find(app: &App, satellite: &str) -> Result<String, Error> {
    let found = app.store.get_by_key(KIND, &name_key(satellite)).await?;
    found.map(|found| found.content.id).ok_or_else(|| Error::not_found(KIND, satellite))
}

/// Changes the assignments of a satellite; returns nothing if another writer was faster.
async fn reassign(
    app: &App,
    caller: &Caller,
    id: &str,
    holds: Vec<Held>,
    change: impl Fn(&mut Document) -> Result<bool, Error>,
) -> Result<Option<Member>, Error> {
    let found = app.store.get(KIND, id).await?.filter(|found| !found.content.deleted);
    let before = found.ok_or_else(|| Error::not_found(KIND, id))?;
    let mut document = Document::of(&before)?;
    let effects = asked::effects_for(app, &document, "assigned");
    if !change(&mut document)? {
        return member(&before).map(Some);
    }
    let entry = by_person(app, caller, "assigned", None);
    let change = assigned(before, document, entry, effects, holds)?;
    unless_conflict(app.commit(change).await)?.as_ref().map(member).transpose()
}

/// The change to a satellite's new assignments, which its history names.
fn assigned(
    before: Resource,
    document: Document,
    mut entry: Entry,
    effects: Vec<Effect>,
    holds: Vec<Held>,
) -> Result<Change, Error> {
    entry.metadata = serde_json::json!({"groups": document.groups, "config": document.config});
    let after = document.into_content_of(&before, state(&before)?)?;
    Ok(Change { before: Some(before), after, entry, effects, fence: None, holds })
}

#[cfg(test)]
mod tests {
    use wardroom_core::satellite::State;
    use wardroom_store::Content;

    use super::*;
    use crate::{kinds::satellite::group as satellite_group, platform::app::by_system};

    /// A worker that was slow finds another group under the name of the one that it was to empty.
    #[tokio::test]
    async fn a_satellite_in_a_group_made_anew_stays_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let app = crate::platform::bare::app(&dir).await;
        let entry = || by_system(&app, "assigned", serde_json::Value::Null);
        let content = GROUPS.content("g", &satellite_group::Document::default()).unwrap();
        let content = Content { state: REMOVING.to_owned(), ..content };
        let closed = app.create(content, entry()).await.unwrap();
        let satellite = Document { groups: BTreeSet::from(["g".to_owned()]), ..Document::default() };
        let satellite = satellite.content("1".to_owned(), "edge".to_owned(), State::Pending, BTreeMap::new());
        app.create(satellite.unwrap(), entry()).await.unwrap();
        let groups = async || {
            let found = app.store.get(KIND, "1").await.unwrap().unwrap();
            Document::of(&found).unwrap().groups.len()
        };
        // Gone and made again since it was read.
        let anew =
            Content { state: crate::platform::change::named::READY.to_owned(), ..closed.content.clone() };
        let (before, effects, holds) = (Some(closed.clone()), Vec::new(), Vec::new());
        let change = Change { before, after: anew, entry: entry(), effects, fence: None, holds };
        let made = app.commit(change).await.unwrap();
        assert!(take_out_of(&app, &closed, entry).await.unwrap(), "a satellite is in it");
        assert_eq!(groups().await, 1, "but not in the one that was to go");
        assert!(take_out_of(&app, &made, entry).await.unwrap());
        assert_eq!(groups().await, 0);
    }
}
