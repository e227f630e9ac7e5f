//! Satellite groups: which artifacts satellites replicate.
//!
//! A satellite is in any number of groups; the assignment is part of the satellite's own record. Deleting a
//! group takes its satellites out of it, so that none replicates artifacts of a missing group. The group is
//! 404 at once; the satellites of a large one leave it after the answer.

use std::collections::BTreeSet;

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use serde::{Deserialize, Serialize};
use wardroom_api::{
    Envelope, FieldError, Page,
    satellite::EffectProgress,
    satellite_group::{Artifact, GroupSync, Member, Membership, SatelliteGroup},
};
use wardroom_core::{action::Call, table::Role};
use wardroom_store::Resource;

use crate::{
    kinds::{
        satellite::assignment::{self, Removal},
        satellite::{
            self,
            document::group_field,
            pull,
            settings::{Settings, pull::address},
        },
    },
    platform::{
        app::{App, by_person},
        change::{
            named::{self, Asked, Named, READY},
            preconditions::nothing_held,
        },
        http::{
            body::Body,
            error::Error,
            list::{ListQuery, Pages},
            path::Path,
            problems::Problems,
            warning,
        },
        identity::auth::Caller,
    },
};

/// Satellites never prevent the deletion of a group, because they are taken out of it.
pub(crate) const GROUPS: Named =
    Named { kind: "satellite-group", word: "satellite group", create: SYNC, edit: SYNC, users: &[] };

const SYNC: Call =
    Call::new("satellite-group", "sync", "POST", "/api/groups/sync").named_by("group").needing(&["registry"]);

/// Lists the satellites of a group.
const MEMBERS: Call =
    Call::new("satellite-group", "list_satellites", "GET", "/api/groups/{group}/satellites").by(Role::Viewer);

/// Names of routes and of the built-in empty group.
const RESERVED: &[&str] = &["default", "satellite", "sync"];

/// How many pages of satellites the request itself takes out of a group; a worker does the rest.
const PAGES: usize = 3;

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Document {
    pub(crate) registry: String,
    pub(crate) artifacts: Vec<Artifact>,
}

impl Document {
    pub(crate) fn of(group: &Resource) -> Result<Self, Error> {
        Ok(group.content.document.read()?)
    }

    /// The projects that satellites must be able to read: the first part of each repository.
    pub(crate) fn projects(&self) -> BTreeSet<String> {
        let project = |artifact: &Artifact| artifact.repository.split('/').next().map(str::to_owned);
        self.artifacts.iter().filter(|artifact| !artifact.deleted).filter_map(project).collect()
    }
}

/// Lists satellite groups.
#[utoipa::path(get, path = "/api/groups", operation_id = "list_satellite_groups", params(Pages), responses((status = 200, body = Page<SatelliteGroup>), Problems))]
pub(crate) async fn list(
    State(app): State<App>,
    ListQuery(pages): ListQuery<Pages>,
) -> Result<Json<Page<SatelliteGroup>>, Error> {
    GROUPS.list_in(&app, &pages, READY, view).await
}

/// Reads one satellite group.
#[utoipa::path(get, path = "/api/groups/{group}", operation_id = "get_satellite_group", params(("group" = String, Path)), responses((status = 200, body = Envelope<SatelliteGroup>), Problems))]
pub(crate) async fn get(State(app): State<App>, Path(group): Path<String>) -> Result<Response, Error> {
    let found = GROUPS.find(&app, &group).await?.filter(|found| found.content.state == READY);
    answer(StatusCode::OK, &found.ok_or_else(|| Error::not_found(GROUPS.kind, &group))?)
}

/// Lists the satellites of a group; while it is being deleted, those still in it.
#[utoipa::path(get, path = "/api/groups/{group}/satellites", operation_id = "list_satellites_of_group", params(("group" = String, Path), Pages), responses((status = 200, body = Page<Member>), Problems))]
pub(crate) async fn satellites(
    State(app): State<App>,
    Path(group): Path<String>,
    ListQuery(pages): ListQuery<Pages>,
) -> Result<Json<Page<Member>>, Error> {
    GROUPS.get(&app, &group).await?;
    let page = assignment::members(&app, &group_field(&group), "1", &pages).await?;
    let data = page.items.iter().map(assignment::member).collect::<Result<_, _>>()?;
    Ok(Json(Page { success: true, data, next: page.next }))
}

/// Lists the effects of a satellite group on other systems, deleted or not: done and outstanding.
#[utoipa::path(get, path = "/api/groups/{group}/effects", operation_id = "list_effects_of_satellite_group", params(("group" = String, Path)), responses((status = 200, body = Page<EffectProgress>), Problems))]
pub(crate) async fn effects(
    State(app): State<App>,
    Path(group): Path<String>,
) -> Result<Json<Page<EffectProgress>>, Error> {
    satellite::view::effects_on(&app, GROUPS.kind, &group).await
}

/// Creates a satellite group, or replaces the one of that name.
#[utoipa::path(post, path = "/api/groups/sync", operation_id = "sync_satellite_group", request_body = GroupSync, responses((status = 200, body = Envelope<SatelliteGroup>), Problems))]
pub(crate) async fn sync(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Body(group): Body<GroupSync>,
) -> Result<Response, Error> {
    check(&group)?;
    let document = Document { registry: group.registry.clone(), artifacts: group.artifacts.clone() };
    let content = GROUPS.content(&group.group, &document)?;
    let asked = Asked { app: &app, caller: &caller, headers: &headers };
    let step = |entry_type: &str| {
        asked.step(entry_type, content.clone(), satellite::asked::of_group(&app, entry_type))
    };
    loop {
        if GROUPS.find(&app, &group.group).await?.is_none() {
            match GROUPS.make(&app, step("registered"), nothing_held).await? {
                Some(resource) => return warned(&app, &resource),
                None => continue,
            }
        }
        let is_publishing = satellite::asked::is_publishing(&app, GROUPS.kind, &group.group).await?;
        let changed = GROUPS.change(&asked, &group.group, nothing_held, |before| {
            if before.content.state != READY {
                return Err(removing(&group.group));
            }
            if before.content == content {
                // A caller that repeats a change may miss its state in the registry.
                let again = || asked.again(before, satellite::asked::of_group(&app, "said again"));
                return Ok(if is_publishing { None } else { again() });
            }
            let mut step = step("changed");
            if Document::of(before)?.projects() != document.projects() {
                step.effects.extend(satellite::asked::of_projects(&app, "changed"));
            }
            Ok(Some(step))
        });
        match changed.await {
            Ok(resource) => return warned(&app, &resource),
            // It was deleted meanwhile: create it again.
            Err(Error::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Puts a satellite into a group.
#[utoipa::path(post, path = "/api/groups/satellite", operation_id = "add_satellite_to_group", request_body = Membership, responses((status = 200, body = Envelope<Member>), Problems))]
pub(crate) async fn assign(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(membership): Body<Membership>,
) -> Result<Json<Envelope<Member>>, Error> {
    let Membership { satellite, group } = membership;
    let member = assignment::join(&app, &caller, &satellite, &group).await?;
    Ok(Json(Envelope::said(member, format!("{satellite} is in {group}"))))
}

/// Takes a satellite out of a group.
#[utoipa::path(delete, path = "/api/groups/satellite", operation_id = "remove_satellite_from_group", request_body = Membership, responses((status = 200, body = Envelope<Member>), Problems))]
pub(crate) async fn unassign(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(membership): Body<Membership>,
) -> Result<Json<Envelope<Member>>, Error> {
    let Membership { satellite, group } = membership;
    let member = assignment::leave(&app, &caller, &satellite, &group).await?;
    Ok(Json(Envelope::said(member, format!("{satellite} is not in {group}"))))
}

/// Deletes a group, and takes its satellites out of it: of a large group after the answer.
#[utoipa::path(delete, path = "/api/groups/{group}", operation_id = "delete_satellite_group", params(("group" = String, Path)), responses((status = 200, body = Envelope<SatelliteGroup>), (status = 202, description = "Its satellites are still being removed from it.", body = Envelope<SatelliteGroup>), Problems))]
pub(crate) async fn delete(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(group): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let asked = Asked { app: &app, caller: &caller, headers: &headers };
    // From here on no satellite can join, and a worker completes the removal even if this request is
    // interrupted.
    let closed = GROUPS.begin_removal(&asked, &group, satellite::asked::of_removal()).await?;
    let entry = |entry_type| by_person(&app, &caller, entry_type, None);
    for _ in 0..PAGES {
        match assignment::take_out(&app, &group, || entry("assigned")).await? {
            Removal::Over => return answer(StatusCode::OK, &closed),
            Removal::Empty(read) => {
                let effects = satellite::asked::of_group(&app, "deleted");
                if let Some(gone) = GROUPS.end_removal(&app, &read, entry("deleted"), effects).await? {
                    return answer(StatusCode::OK, &gone);
                }
            }
            Removal::UnderWay => {}
        }
    }
    answer(StatusCode::ACCEPTED, &closed)
}

fn removing(group: &str) -> Error {
    Error::Conflict {
        code: "in_use",
        detail: format!("the group {group:?} is being deleted, and satellites are still in it: retry later"),
        allowed: vec![MEMBERS.of(group)],
    }
}

/// Refuses values that satellites cannot handle or registries refuse.
fn check(group: &GroupSync) -> Result<(), Error> {
    const MOST_ARTIFACTS: usize = 10_000;
    named::check_name("group", &group.group)?;
    if RESERVED.contains(&group.group.as_str()) {
        return Err(Error::invalid("group", format!("{:?} is reserved: choose another name", group.group)));
    }
    check_registry("registry", &group.registry)?;
    if group.artifacts.len() > MOST_ARTIFACTS {
        return Err(Error::invalid("artifacts", format!("are more than {MOST_ARTIFACTS}")));
    }
    let mut errors = Vec::new();
    for (at, artifact) in group.artifacts.iter().enumerate() {
        if let Err((field, message)) = check_artifact(artifact) {
            errors.push(FieldError {
                field: format!("artifacts[{at}].{field}"),
                message: message.to_owned(),
                fix: None,
            });
        }
        // Enough errors to see the problem.
        if errors.len() == 20 {
            break;
        }
    }
    named::refuse(errors)
}

pub(crate) fn check_registry(field: &str, registry: &str) -> Result<(), Error> {
    let (scheme, rest) = registry.split_once("://").unwrap_or(("https", registry));
    // All readers of a group see this, so credentials are refused.
    let decent = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:/[]".contains(&byte);
    let url = format!("{scheme}://{rest}").parse::<axum::http::Uri>();
    let is_url =
        url.is_ok_and(|url| crate::platform::http::text::names_host(&url) && !url.path().contains("//"));
    let is_known = matches!(scheme, "http" | "https");
    if !is_known || registry.len() > 255 || !rest.bytes().all(decent) || !is_url {
        return Err(Error::invalid(field, "must be a registry such as https://registry.example.com"));
    }
    Ok(())
}

fn check_artifact(artifact: &Artifact) -> Result<(), (&'static str, &'static str)> {
    let component = |part: &str| {
        let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        part.bytes().next().is_some_and(inner)
            && part.bytes().last().is_some_and(inner)
            && part.bytes().all(|byte| inner(byte) || b"._-".contains(&byte))
    };
    let tag = |tag: &String| {
        (1..=128).contains(&tag.len())
            && !tag.starts_with(['.', '-'])
            && tag.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    let hex =
        |hex: &str| hex.len() == 64 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let repository = &artifact.repository;
    if !repository.contains('/') || repository.len() > 255 || !repository.split('/').all(component) {
        return Err((
            "repository",
            "must be a project and a repository in lower case, such as library/nginx",
        ));
    }
    if artifact.tag.is_empty() && !artifact.deleted {
        return Err(("tag", "must have at least one tag: satellites ignore an artifact without tags"));
    }
    if artifact.tag.len() > 1000 || !artifact.tag.iter().all(tag) {
        return Err(("tag", "must be at most 1000 tags of 1 to 128 letters, digits, '.', '_' and '-'"));
    }
    if !artifact.digest.is_empty() && !artifact.digest.strip_prefix("sha256:").is_some_and(hex) {
        return Err(("digest", "must be empty, or sha256: and 64 lower case hexadecimal digits"));
    }
    let short = |text: &str| text.len() <= 255 && !text.chars().any(char::is_control);
    if !short(&artifact.type_)
        || artifact.labels.len() > 100
        || !artifact.labels.iter().all(|text| short(text))
    {
        return Err(("labels", "type and at most 100 labels must be texts of at most 255 bytes"));
    }
    Ok(())
}

fn view(resource: &Resource) -> Result<SatelliteGroup, Error> {
    let document = Document::of(resource)?;
    let projects = document.projects().into_iter().collect();
    let Document { registry, artifacts } = document;
    let (id, name) = (resource.content.id.clone(), resource.content.name.clone());
    let (state, created_at, updated_at) =
        (resource.content.state.clone(), resource.created_at, resource.updated_at);
    Ok(SatelliteGroup { id, name, state, registry, projects, artifacts, created_at, updated_at })
}

/// Returns an answer with a warning if no satellite can pull the group's artifacts.
fn warned(app: &App, resource: &Resource) -> Result<Response, Error> {
    let mut response = answer(StatusCode::OK, resource)?;
    warning::add(&mut response, &unserved(app, resource)?.into_iter().collect::<Vec<_>>());
    Ok(response)
}

/// Returns why satellites replicate nothing of a group: they pull from this server, which does not pull from its registry.
pub(crate) fn unserved(app: &App, group: &Resource) -> Result<Option<String>, Error> {
    let document = Document::of(group)?;
    let settings = Settings::of(&app.config);
    let names_images = document.artifacts.iter().any(|artifact| !artifact.deleted);
    if settings.registry.is_some() || !names_images {
        return Ok(None);
    }
    let registry = address(&document.registry).unwrap_or(document.registry);
    let is_listed = settings.pull.registries.contains(&registry);
    Ok((!is_listed).then(|| pull::unlisted(&group.content.name, &registry)))
}

fn answer(status: StatusCode, resource: &Resource) -> Result<Response, Error> {
    named::answer(status, resource, view(resource)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl Fn(&mut GroupSync)) -> Vec<String> {
        let artifact = Artifact {
            repository: "library/nginx".to_owned(),
            tag: vec!["1.27".to_owned()],
            ..Artifact::default()
        };
        let mut group = GroupSync {
            group: "edge".to_owned(),
            registry: "https://registry.example.com:5000".to_owned(),
            artifacts: vec![artifact],
        };
        change(&mut group);
        match check(&group) {
            Ok(()) => Vec::new(),
            Err(Error::Invalid(errors)) => errors.into_iter().map(|error| error.field).collect(),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn names_that_satellites_or_registries_refuse_are_refused() {
        assert_eq!(refused(|_| {}), [""; 0]);
        for name in ["", "default", "sync", "satellite", "a--b", "a.", "-a", "A", "a/b", &"a".repeat(129)] {
            assert_eq!(refused(|group| group.group = name.to_owned()), ["group"], "{name}");
        }
        for registry in ["", "ftp://x", "https://", "https://user:secret@host", "a b"] {
            assert_eq!(refused(|group| group.registry = registry.to_owned()), ["registry"], "{registry}");
        }
        for repository in ["nginx", "", "/nginx", "library/", "Library/nginx", "a//b", "a/b?"] {
            let field = refused(|group| group.artifacts[0].repository = repository.to_owned());
            assert_eq!(field, ["artifacts[0].repository"], "{repository}");
        }
        for tag in ["", "-x", "a b", &"a".repeat(129)] {
            let field = refused(|group| group.artifacts[0].tag = vec![tag.to_owned()]);
            assert_eq!(field, ["artifacts[0].tag"], "{tag}");
        }
        assert_eq!(refused(|group| group.artifacts[0].tag.clear()), ["artifacts[0].tag"]);
        assert_eq!(
            refused(|group| group.artifacts[0].digest = "sha256:12".to_owned()),
            ["artifacts[0].digest"]
        );
    }

    #[test]
    fn an_artifact_that_is_gone_needs_no_tag_and_gives_no_project() {
        let gone = |group: &mut GroupSync| {
            group.artifacts[0].tag.clear();
            group.artifacts[0].deleted = true;
        };
        assert_eq!(refused(gone), [""; 0]);
        let artifact = |repository: &str, deleted| Artifact {
            repository: repository.to_owned(),
            deleted,
            ..Artifact::default()
        };
        let artifacts = vec![artifact("a/x", false), artifact("b/x", true), artifact("a/y/z", false)];
        let document = Document { registry: String::new(), artifacts };
        assert_eq!(document.projects(), BTreeSet::from(["a".to_owned()]));
    }

    #[test]
    fn a_registry_is_a_url() {
        for good in [
            "https://registry.example.com",
            "http://10.0.0.1:5000/v2",
            "registry:5000",
            "https://[::1]:443/a/b",
        ] {
            assert!(check_registry("registry", good).is_ok(), "{good}");
        }
        let bad = [
            "",
            "https://",
            "ftp://registry",
            "https:///path",
            "https://a:b",
            "https://a:99999",
            ":5000",
            "a..b",
            "-a",
            "https://user@registry",
            "https://a//b",
            "http://[::1",
            "a b",
            "https://a:0",
            "://a",
        ];
        for bad in bad {
            assert!(check_registry("registry", bad).is_err(), "{bad}");
        }
    }
}
