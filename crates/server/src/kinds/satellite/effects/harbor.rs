//! Makes the Harbor robot of a satellite match its record.
//!
//! What must stay true: whether a robot is disabled is always computed from our own state, so that no edit of
//! groups enables a revoked one. A robot belongs to the satellite whose id is in its description, also when
//! the answer to its creation was lost. The robot of a deleted satellite of the same name is removed; a robot
//! made elsewhere is not touched, unless the settings allow to adopt it. A robot that matches already is not
//! written.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use wardroom_core::satellite::State;
use wardroom_store::{ClaimedEffect, Resource};
use wardroom_upstream::{
    Failure, Secret,
    harbor::{Harbor, Lifetime, NewRobot, Permission, Robot, Wanted, extension, robot_name},
};

use super::{EffectError, Worker, claim::Permit};
use crate::kinds::satellite::settings::Settings;
use crate::{
    kinds::{
        satellite::{
            artifact::PROJECT,
            group::{self as satellite_group, GROUPS},
        },
        satellite::{
            document::{self, Document, KIND, basis, state},
            secret,
        },
    },
    platform::{
        app::{App, Decided, by_system},
        http::error::Error,
    },
};

const DAY: SignedDuration = SignedDuration::from_hours(24);

/// Makes the robot of a satellite match its record.
pub(super) async fn fit(worker: &Worker, harbor: &Harbor, effect: &ClaimedEffect) -> Result<(), EffectError> {
    let (app, id) = (&worker.app, &*effect.resource_id);
    let found = app.store.get(KIND, id).await.map_err(Error::from)?;
    let Some(satellite) = found else { return Ok(()) };
    let document = Document::of(&satellite)?;
    let permit = &Permit::of(worker, effect, &satellite, basis)?;
    let robot = find(app, harbor, &satellite, &document).await?;
    if satellite.content.deleted {
        return match robot {
            Found::Own(robot) => Ok(permit.to(harbor).await?.delete_robot(robot.id).await?),
            Found::Others(_) | Found::Strange(_) | Found::None => Ok(()),
        };
    }
    if state(&satellite)? == State::Revoked {
        return match robot {
            Found::Own(robot) => {
                let wanted = Wanted { disable: true, ..as_it_is(&robot) };
                update(permit, harbor, &robot, &wanted).await?;
                let is_known = document.robot.as_ref().is_some_and(|known| known.id == robot.id);
                // Secrets of other robots were never handed out.
                let epoch = if is_known { known_epoch(&document) } else { 0 };
                let expires_at = end(robot.expires_at);
                record(app, id, Some(seen(app, &robot, epoch, expires_at, true))).await
            }
            // A missing robot cannot log in; the satellite still shows the robot's name and is recognised by
            // it.
            Found::Others(_) | Found::Strange(_) | Found::None => {
                let gone = |known| document::Robot { epoch: 0, renew_at: None, disabled: true, ..known };
                record(app, id, document.robot.map(gone)).await
            }
        };
    }
    enabled(app, permit, harbor, (&satellite, &document), robot).await
}

/// Makes a robot usable: its secret is set before it is enabled.
async fn enabled(
    app: &App,
    permit: &Permit<'_>,
    harbor: &Harbor,
    (satellite, document): (&Resource, &Document),
    found: Found,
) -> Result<(), EffectError> {
    let id = &satellite.content.id;
    let permissions = permissions(app, document).await?;
    if !found.reads_states() {
        // Permissions name projects, so this one must be there.
        harbor.ensure_project(PROJECT).await?;
    }
    let (robot, is_new) = match found {
        Found::Own(robot) => (robot, false),
        Found::Others(robot) => {
            settle_with_others(app, permit, harbor, &robot).await?;
            (create(app, permit, harbor, satellite, permissions.clone()).await?, true)
        }
        Found::Strange(robot) => return Err(EffectError::NotOurs(robot.name)),
        Found::None => (create(app, permit, harbor, satellite, permissions.clone()).await?, true),
    };
    let epoch = document.wanted_epoch();
    let has_secret =
        document.robot.as_ref().is_some_and(|known| known.id == robot.id && known.epoch == epoch);
    if is_new || !has_secret {
        let secret = Secret::new(secret::credential(&app.key, id, epoch));
        permit.to(harbor).await?.set_secret(robot.id, &secret).await?;
    }
    let lifetime = lifetime(app, &robot);
    let wanted = Wanted { description: description(id), disable: false, lifetime, permissions };
    update(permit, harbor, &robot, &wanted).await?;
    let expires_at = match lifetime {
        Lifetime::Endless => Timestamp::MAX,
        Lifetime::Days(days) => {
            let end = robot.creation_time.saturating_add(DAY * i32::try_from(days).unwrap_or(i32::MAX));
            end.unwrap_or(Timestamp::MAX)
        }
    };
    record(app, id, Some(seen(app, &robot, epoch, expires_at, false))).await
}

/// The owner of an existing robot.
enum Found {
    Own(Robot),
    /// Another satellite, which has or had the name.
    Others(Robot),
    /// None of ours: it was made elsewhere.
    Strange(Robot),
    None,
}

impl Found {
    fn reads_states(&self) -> bool {
        let Self::Own(robot) = self else { return false };
        robot.permissions.iter().any(|permission| permission.namespace == PROJECT)
    }
}

async fn find(
    app: &App,
    harbor: &Harbor,
    satellite: &Resource,
    document: &Document,
) -> Result<Found, EffectError> {
    let id = &satellite.content.id;
    let known = match &document.robot {
        Some(known) => match harbor.robot(known.id).await {
            Ok(robot) => Some(robot),
            Err(Failure::NotFound) => None,
            Err(error) => return Err(error.into()),
        },
        None => None,
    };
    let robot = match known {
        Some(robot) => Some(robot),
        None => harbor.find_robot(&robot_name(&satellite.content.name)).await?,
    };
    let Some(robot) = robot else { return Ok(Found::None) };
    let is_recorded = |known: &document::Robot| known.id == robot.id && known.name == robot.name;
    match owner(&robot.description) {
        Some(owner) if owner == id => return Ok(Found::Own(robot)),
        // Another server may drive the same Harbor.
        Some(owner) if app.store.get(KIND, owner).await.map_err(Error::from)?.is_some() => {
            return Ok(Found::Others(robot));
        }
        // An edited description does not change the owner of the robot.
        None if document.robot.as_ref().is_some_and(is_recorded) => return Ok(Found::Own(robot)),
        Some(_) | None => {}
    }
    let adopts = Settings::of(&app.config).harbor.as_ref().is_some_and(|harbor| harbor.adopt_robots);
    // A deleted satellite does not adopt robots.
    Ok(if adopts && !satellite.content.deleted { Found::Own(robot) } else { Found::Strange(robot) })
}

/// Removes the robot of a deleted satellite; that of a living one stays.
async fn settle_with_others(
    app: &App,
    permit: &Permit<'_>,
    harbor: &Harbor,
    robot: &Robot,
) -> Result<(), EffectError> {
    let owner = owner(&robot.description).unwrap_or_default();
    let living = app.store.get(KIND, owner).await.map_err(Error::from)?;
    if living.is_some_and(|living| !living.content.deleted) {
        return Err(EffectError::Waiting("has a robot of this name that belongs to another satellite"));
    }
    Ok(permit.to(harbor).await?.delete_robot(robot.id).await?)
}

async fn create(
    app: &App,
    permit: &Permit<'_>,
    harbor: &Harbor,
    satellite: &Resource,
    permissions: Vec<Permission>,
) -> Result<Robot, EffectError> {
    let new = NewRobot {
        name: robot_name(&satellite.content.name),
        description: description(&satellite.content.id),
        lifetime: Lifetime::Days(robot_days(app)),
        permissions,
    };
    let created = permit.to(harbor).await?.create_robot(&new).await.map_err(no_project)?;
    Ok(harbor.robot(created.id).await?)
}

async fn update(
    permit: &Permit<'_>,
    harbor: &Harbor,
    robot: &Robot,
    wanted: &Wanted,
) -> Result<(), EffectError> {
    let is_so = robot.disable == wanted.disable
        && robot.description == wanted.description
        && robot.lifetime == wanted.lifetime
        && sorted(&robot.permissions) == sorted(&wanted.permissions);
    if is_so {
        return Ok(());
    }
    permit.to(harbor).await?.update_robot(robot.id, wanted).await.map_err(no_project)
}

/// The robot itself was read a moment ago, so a project is missing.
fn no_project(failure: Failure) -> EffectError {
    if failure == Failure::NotFound {
        return EffectError::Waiting("lacks some of the projects that the satellite's groups name");
    }
    failure.into()
}

fn as_it_is(robot: &Robot) -> Wanted {
    Wanted {
        description: robot.description.clone(),
        disable: robot.disable,
        lifetime: robot.lifetime,
        permissions: robot.permissions.clone(),
    }
}

type Plain = BTreeSet<(String, String, BTreeSet<(String, String)>)>;

fn sorted(permissions: &[Permission]) -> Plain {
    let plain = |permission: &Permission| {
        let access = permission.access.iter().map(|access| (access.resource.clone(), access.action.clone()));
        (permission.kind.clone(), permission.namespace.clone(), access.collect())
    };
    permissions.iter().map(plain).collect()
}

/// Read access to states and to the projects of the satellite's groups.
async fn permissions(app: &App, document: &Document) -> Result<Vec<Permission>, EffectError> {
    let mut projects = BTreeSet::from([PROJECT.to_owned()]);
    for group in &document.groups {
        if let Some(group) = GROUPS.find(app, group).await? {
            projects.extend(satellite_group::Document::of(&group)?.projects());
        }
    }
    Ok(projects.iter().map(|project| Permission::pull(project)).collect())
}

/// A robot is extended before half of its lifetime is over.
fn lifetime(app: &App, robot: &Robot) -> Lifetime {
    let (now, whole) = (app.now(), whole(app));
    let after = |wait| now.saturating_add(wait).unwrap_or(Timestamp::MAX);
    let is_due = end(robot.expires_at) < after(whole / 2);
    let longer = if is_due { extension(robot.creation_time, robot.lifetime, after(whole)) } else { None };
    longer.unwrap_or(robot.lifetime)
}

fn whole(app: &App) -> SignedDuration {
    DAY * i32::try_from(robot_days(app)).unwrap_or(i32::MAX)
}

fn robot_days(app: &App) -> u32 {
    Settings::of(&app.config).harbor.as_ref().map_or(30, |harbor| harbor.robot_days)
}

fn end(expires_at: i64) -> Timestamp {
    if expires_at < 0 { Timestamp::MAX } else { Timestamp::from_second(expires_at).unwrap_or(Timestamp::MAX) }
}

const OWNER: &str = "satellite of Wardroom: ";

fn description(id: &str) -> String {
    format!("{OWNER}{id}")
}

fn owner(description: &str) -> Option<&str> {
    description.strip_prefix(OWNER)
}

fn known_epoch(document: &Document) -> u64 {
    document.robot.as_ref().map_or(0, |robot| robot.epoch)
}

fn seen(app: &App, robot: &Robot, epoch: u64, expires_at: Timestamp, disabled: bool) -> document::Robot {
    let renew_at = (expires_at < Timestamp::MAX).then(|| expires_at.saturating_sub(whole(app) / 2));
    let renew_at = renew_at.map(|at| at.unwrap_or(Timestamp::MIN));
    document::Robot { id: robot.id, name: robot.name.clone(), expires_at, renew_at, epoch, disabled }
}

/// Stores the robot in the satellite's record, where registrations read it.
async fn record(app: &App, id: &str, robot: Option<document::Robot>) -> Result<(), EffectError> {
    let recorded = app.change(KIND, id, |satellite| {
        let mut document = Document::of(satellite)?;
        if document.robot == robot {
            return Ok(Decided::Nothing(()));
        }
        document.robot.clone_from(&robot);
        let known = robot.as_ref().map(|robot| {
            serde_json::json!({
                "name": robot.name, "disabled": robot.disabled, "epoch": robot.epoch, "expires_at": robot.expires_at,
            })
        });
        let entry = by_system(app, "effect", serde_json::json!({"type": "harbor_robot", "robot": known}));
        Ok(Decided::Commit(Box::new((document.into_content_of(satellite, state(satellite)?)?, entry)), ()))
    });
    match recorded.await {
        // Deleted meanwhile; the deletion has its own effect.
        Ok(_) | Err(Error::NotFound { .. }) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
