//! Satellite configs: the settings that satellites read.
//!
//! Settings may hold secrets of the site, such as the password of a local registry. They reach satellites in
//! their state; the API hides them, history does not contain them, and they are stored encrypted.

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use wardroom_api::{
    Envelope, Page,
    satellite::EffectProgress,
    satellite_config::{ConfigAssignment, ConfigPatch, ConfigSpec, SatelliteConfig},
    satellite_group::Member,
};
use wardroom_core::action::{self, Call};
use wardroom_store::{Content, Document as Text, Resource};

use crate::{
    kinds::{
        satellite,
        satellite::{assignment, group::check_registry},
    },
    platform::{
        app::App,
        change::{
            named::{self, Asked, Named},
            preconditions::{User, nothing_held},
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

mod lacking;
mod secrets;

use secrets::{HIDDEN, Place, hide, masked, unhide};

pub(crate) const CONFIGS: Named = Named {
    kind: "satellite-config",
    word: "satellite config",
    create: Call::new("satellite-config", "create", "POST", "/api/configs")
        .named_by("config_name")
        .needing(&["config"]),
    edit: Call::new("satellite-config", "update", "PATCH", "/api/configs/{config}").needing(&["config"]),
    users: &[User::by(satellite::KIND, assignment::CONFIG_FIELD)],
};

/// Gives a satellite a config.
const GIVE: Call = Call::new("satellite", "assign_config", "POST", "/api/configs/satellite")
    .named_by("satellite")
    .needing(&["config_name"]);

/// Names of a route and of the built-in config.
const RESERVED: &[&str] = &["default", "satellite"];

/// The size of a config as JSON.
const MOST_BYTES: usize = 256 << 10;

/// Secrets in a config: each is sealed and opened by itself.
const MOST_SECRETS: usize = 1000;

/// A config; when stored, its secrets are sealed.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Document {
    pub(crate) registry: Option<String>,
    pub(crate) config: Value,
}

impl Document {
    /// Reads the stored config, with its secrets sealed.
    fn of(config: &Resource) -> Result<Self, Error> {
        Ok(config.content.document.read()?)
    }

    /// Returns the config with its secrets opened.
    pub(crate) fn opened(app: &App, config: &Resource) -> Result<Self, Error> {
        let mut document = Self::of(config)?;
        if secrets::open(&app.key, &config.content.id, &mut document.config) {
            return Ok(document);
        }
        tracing::error!(config = config.content.id, "a stored secret cannot be decrypted");
        Err(Error::Internal)
    }

    /// As it is stored.
    fn sealed(mut self, app: &App, name: &str) -> Result<Text, Error> {
        secrets::seal(&app.key, name, &mut self.config);
        Ok(Text::of(&self)?)
    }

    fn check(&mut self) -> Result<(), Error> {
        if let Some(registry) = &self.registry {
            check_registry("registry", registry)?;
        }
        if !self.config.is_object() {
            return Err(Error::invalid("config", "must be an object"));
        }
        if let Some(path) = masked(&self.config, "config") {
            return Err(Error::invalid(
                path,
                format!(
                    "{HIDDEN:?} stands for a secret that is not shown: leave the setting out to keep its value"
                ),
            ));
        }
        if serde_json::to_string(&self.config).map_err(|_| Error::Internal)?.len() > MOST_BYTES {
            return Err(Error::invalid("config", format!("is larger than {MOST_BYTES} bytes")));
        }
        let secrets = secrets::count(&mut self.config);
        if secrets > MOST_SECRETS {
            let message = format!("has {secrets} secrets, at most {MOST_SECRETS} are allowed in one config");
            return Err(Error::invalid("config", message));
        }
        Ok(())
    }
}

pub(crate) fn has_secrets(config: &Resource) -> Result<bool, Error> {
    Ok(secrets::count(&mut Document::of(config)?.config) > 0)
}

/// Lists satellite configs.
#[utoipa::path(get, path = "/api/configs", operation_id = "list_satellite_configs", params(Pages), responses((status = 200, body = Page<SatelliteConfig>), Problems))]
pub(crate) async fn list(
    State(app): State<App>,
    ListQuery(pages): ListQuery<Pages>,
) -> Result<Json<Page<SatelliteConfig>>, Error> {
    CONFIGS.list(&app, &pages, view).await
}

/// Creates a satellite config.
#[utoipa::path(post, path = "/api/configs", operation_id = "create_satellite_config", request_body = ConfigSpec, responses((status = 201, body = Envelope<SatelliteConfig>), Problems))]
pub(crate) async fn create(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Body(spec): Body<ConfigSpec>,
) -> Result<Response, Error> {
    let ConfigSpec { config_name: name, registry, config } = spec;
    named::check_name("config_name", &name)?;
    if RESERVED.contains(&name.as_str()) {
        return Err(Error::invalid("config_name", format!("{name:?} is reserved: choose another name")));
    }
    let mut document = Document { registry, config };
    document.check()?;
    let content = Content { document: document.sealed(&app, &name)?, ..CONFIGS.content(&name, &())? };
    let asked = Asked { app: &app, caller: &caller, headers: &headers };
    let effects = satellite::asked::of_config(&app, "registered");
    let step = asked.step("registered", content, effects);
    warned(&app, StatusCode::CREATED, &CONFIGS.create(&app, step, nothing_held).await?)
}

/// Reads one satellite config.
#[utoipa::path(get, path = "/api/configs/{config}", operation_id = "get_satellite_config", params(("config" = String, Path)), responses((status = 200, body = Envelope<SatelliteConfig>), Problems))]
pub(crate) async fn get(State(app): State<App>, Path(config): Path<String>) -> Result<Response, Error> {
    answer(StatusCode::OK, &CONFIGS.get(&app, &config).await?)
}

/// Lists the effects of a satellite config on other systems, deleted or not: done and outstanding.
#[utoipa::path(get, path = "/api/configs/{config}/effects", operation_id = "list_effects_of_satellite_config", params(("config" = String, Path)), responses((status = 200, body = Page<EffectProgress>), Problems))]
pub(crate) async fn effects(
    State(app): State<App>,
    Path(config): Path<String>,
) -> Result<Json<Page<EffectProgress>>, Error> {
    satellite::view::effects_on(&app, CONFIGS.kind, &config).await
}

/// Changes a satellite config.
#[utoipa::path(patch, path = "/api/configs/{config}", operation_id = "patch_satellite_config", request_body = ConfigPatch, params(("config" = String, Path)), responses((status = 200, body = Envelope<SatelliteConfig>), Problems))]
pub(crate) async fn patch(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(config): Path<String>,
    headers: HeaderMap,
    Body(patch): Body<ConfigPatch>,
) -> Result<Response, Error> {
    if patch.config.as_ref().is_some_and(|config| !config.is_object()) {
        return Err(Error::invalid("config", "must be an object of settings to merge"));
    }
    let asked = Asked { app: &app, caller: &caller, headers: &headers };
    let is_publishing = satellite::asked::is_publishing(&app, CONFIGS.kind, &config).await?;
    let changed = CONFIGS.change(&asked, &config, nothing_held, |before| {
        let mut document = Document::opened(&app, before)?;
        if let Some(registry) = &patch.registry {
            document.registry.clone_from(registry);
        }
        if let Some(mut settings) = patch.config.clone() {
            unhide(&mut settings, &document.config, Place::default());
            merge(&mut document.config, &settings);
        }
        document.check()?;
        let document = document.sealed(&app, &before.content.id)?;
        let content = Content { document, ..before.content.clone() };
        let effects = |cause| satellite::asked::of_config(&app, cause);
        if content != before.content {
            return Ok(Some(asked.step("changed", content, effects("changed"))));
        }
        // A caller may repeat a change because its state is missing in the registry.
        Ok(if is_publishing { None } else { asked.again(before, effects("said again")) })
    });
    warned(&app, StatusCode::OK, &changed.await?)
}

/// Deletes a satellite config that no satellite reads.
#[utoipa::path(delete, path = "/api/configs/{config}", operation_id = "delete_satellite_config", params(("config" = String, Path)), responses((status = 200, body = Envelope<SatelliteConfig>), Problems))]
pub(crate) async fn delete(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(config): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    refuse_used(&app, &config).await?;
    let asked = Asked { app: &app, caller: &caller, headers: &headers };
    let effects = satellite::asked::of_config(&app, "deleted");
    answer(StatusCode::OK, &CONFIGS.delete(&asked, &config, effects).await?)
}

/// Gives a satellite a config; null gives it the built-in one.
#[utoipa::path(post, path = "/api/configs/satellite", operation_id = "give_satellite_config", request_body = ConfigAssignment, responses((status = 200, body = Envelope<Member>), Problems))]
pub(crate) async fn assign(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Body(assignment): Body<ConfigAssignment>,
) -> Result<Json<Envelope<Member>>, Error> {
    let ConfigAssignment { satellite, config_name } = assignment;
    let member = assignment::configure(&app, &caller, &satellite, config_name.as_deref()).await?;
    let config = config_name.unwrap_or_else(|| "the built-in config".to_owned());
    Ok(Json(Envelope::said(member, format!("{satellite} reads {config}"))))
}

/// Refuses with the satellites that use the config and the next step; the commit itself would refuse in fewer
/// words.
async fn refuse_used(app: &App, config: &str) -> Result<(), Error> {
    let one = assignment::some_member(app, assignment::CONFIG_FIELD, config).await?;
    let Some(one) = one else { return Ok(()) };
    let name = &one.content.name;
    Err(Error::Conflict {
        code: "in_use",
        detail: format!("satellite {name} uses the config: give it another one first"),
        allowed: vec![GIVE.of(name).with("config_name", action::Value::Null), GIVE.of(name)],
    })
}

/// RFC 7396.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

fn view(resource: &Resource) -> Result<SatelliteConfig, Error> {
    let Document { registry, mut config } = Document::of(resource)?;
    hide(&mut config, Place::default());
    let (id, config_name) = (resource.content.id.clone(), resource.content.name.clone());
    let (created_at, updated_at) = (resource.created_at, resource.updated_at);
    Ok(SatelliteConfig { id, config_name, registry, config, created_at, updated_at })
}

/// Returns why a satellite that reads this config may be silent.
pub(crate) async fn silences(app: &App, name: &str) -> Result<Option<String>, Error> {
    let Some(config) = CONFIGS.find(app, name).await? else { return Ok(None) };
    let silences = lacking::silences(&Document::of(&config)?.config, app.config.public_url.as_deref());
    Ok(silences.then(|| {
        format!(
            "its config {name} does not say app_config.use_unsecure: true: over plain HTTP a satellite that has read it sends no heartbeat"
        )
    }))
}

/// Returns an answer that warns of settings that the config lacks.
fn warned(app: &App, status: StatusCode, resource: &Resource) -> Result<Response, Error> {
    let mut response = answer(status, resource)?;
    let config = Document::of(resource)?.config;
    warning::add(&mut response, &lacking::lacking(&config, app.config.public_url.as_deref()));
    Ok(response)
}

fn answer(status: StatusCode, resource: &Resource) -> Result<Response, Error> {
    named::answer(status, resource, view(resource)?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The cases of RFC 7396's appendix that concern objects.
    #[test]
    fn patches_merge_as_the_rfc_says() {
        for (target, patch, expected) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            let mut merged = target.clone();
            merge(&mut merged, &patch);
            assert_eq!(merged, expected, "{target} and {patch}");
        }
    }

    #[test]
    fn secrets_are_hidden_and_the_mask_is_not_taken_back() {
        let mut config = json!({
            "app_config": {"local_registry": {"username": "u", "password": "p"}, "tokens": ["t"], "use_token": true},
        });
        hide(&mut config, Place::default());
        let local = &config["app_config"]["local_registry"];
        assert_eq!((local["username"].as_str(), local["password"].as_str()), (Some("u"), Some(HIDDEN)));
        assert_eq!(config["app_config"]["tokens"][0], HIDDEN);
        assert_eq!(config["app_config"]["use_token"], true);
        let Err(Error::Invalid(errors)) = (Document { registry: None, config }).check() else {
            panic!("the mask was taken for a password")
        };
        assert!(errors[0].field.starts_with("config.app_config."), "{}", errors[0].field);
    }

    #[test]
    fn everything_under_a_telling_name_is_hidden_and_comes_back_as_it_was() {
        let stored = json!({
            "credentials": {"registry": {"user": "u", "key": "k1", "pins": [17, {"of": "k2"}]}, "enabled": true},
            "api_keys": [["k3"], {"a": "k4"}],
            "log": {"level": "info"},
        });
        let mut shown = stored.clone();
        hide(&mut shown, Place::default());
        let text = shown.to_string();
        assert!(
            !["k1", "k2", "k3", "k4", "17", "\"u\""].iter().any(|secret| text.contains(secret)),
            "{text}"
        );
        assert_eq!(
            (&shown["credentials"]["enabled"], &shown["log"]),
            (&json!(true), &json!({"level": "info"}))
        );

        let merged = |change: fn(&mut Value)| {
            let (mut patch, mut config) = (shown.clone(), stored.clone());
            change(&mut patch);
            unhide(&mut patch, &config, Place::default());
            merge(&mut config, &patch);
            let checked = Document { registry: None, config: config.clone() }.check();
            checked.map(|()| config).ok()
        };
        assert_eq!(merged(|_| {}), Some(stored.clone()), "sent back as it was shown");
        let mut quiet = stored.clone();
        quiet["log"]["level"] = json!("warn");
        quiet["credentials"]["registry"]["user"] = json!("v");
        let change = |patch: &mut Value| {
            patch["log"]["level"] = json!("warn");
            patch["credentials"]["registry"]["user"] = json!("v");
        };
        assert_eq!(merged(change), Some(quiet), "the other secrets are kept");
        assert_eq!(merged(|patch| patch["api_keys"][0] = json!("new")), None, "whose is the other one?");
        assert_eq!(merged(|patch| patch["log"]["level"] = json!(HIDDEN)), None, "there is no secret");
    }

    #[test]
    fn a_config_has_so_many_secrets_at_most() {
        let with = |secrets: usize| Document {
            registry: None,
            config: json!({"tokens": vec!["t"; secrets - 1], "levels": vec!["l"; 2000], "tls": {"key": "k"}}),
        };
        assert!(with(MOST_SECRETS).check().is_ok());
        let Err(Error::Invalid(errors)) = with(MOST_SECRETS + 1).check() else {
            panic!("one secret too many was taken")
        };
        assert_eq!(errors[0].field, "config");
    }
}
