//! Sites: the MAAS that manages machines, and how it is used.

use axum::{
    Extension, Json,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::Response,
};
use wardroom_api::{
    Envelope, Page,
    site::{Site, SiteSettings, SiteSpec},
};
use wardroom_core::{action::Call, run::plan::Stage, table::Role};
use wardroom_store::Resource;

use crate::{
    kinds::gpu_node::{document::KIND as NODE, reach, site::KIND, stages::image::check_user_data},
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
            text,
        },
        identity::{
            auth::Caller,
            reference::{self, Use},
        },
    },
};

pub(crate) const SITES: Named = Named {
    kind: KIND,
    word: "site",
    create: Call::new("site", "create", "POST", "/api/v1/sites")
        .named_by("name")
        .needing(&["settings"])
        .by(Role::Admin),
    edit: Call::new("site", "replace", "PUT", "/api/v1/sites/{id}").needing(&["settings"]).by(Role::Admin),
    users: &[User::by(NODE, "site")],
};

/// Lists sites.
#[utoipa::path(get, path = "/api/v1/sites", params(Pages), responses((status = 200, body = Page<Site>), Problems))]
pub(crate) async fn list(
    State(app): State<App>,
    ListQuery(pages): ListQuery<Pages>,
) -> Result<Json<Page<Site>>, Error> {
    SITES.list(&app, &pages, view).await
}

/// Creates a site. Keys and certificates are given by reference: a file in the server's folder of secrets, or
/// a variable.
#[utoipa::path(post, path = "/api/v1/sites", request_body = SiteSpec, responses((status = 201, body = Envelope<Site>), Problems))]
pub(crate) async fn create(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
    Body(spec): Body<SiteSpec>,
) -> Result<Response, Error> {
    check(&app, &spec)?;
    let asked = Asked { app: &app, caller: &caller, headers: &headers };
    let step = asked.step("registered", SITES.content(&spec.name, &spec.settings)?, Vec::new());
    answer(StatusCode::CREATED, &SITES.create(&app, step, nothing_held).await?)
}

/// Reads one site.
#[utoipa::path(get, path = "/api/v1/sites/{id}", params(("id" = String, Path)), responses((status = 200, body = Envelope<Site>), Problems))]
pub(crate) async fn get(State(app): State<App>, Path(id): Path<String>) -> Result<Response, Error> {
    answer(StatusCode::OK, &SITES.get(&app, &id).await?)
}

/// Replaces a site. Open runs keep the settings that they loaded.
#[utoipa::path(put, path = "/api/v1/sites/{id}", request_body = SiteSpec, params(("id" = String, Path)), responses((status = 200, body = Envelope<Site>), Problems))]
pub(crate) async fn replace(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
    Body(spec): Body<SiteSpec>,
) -> Result<Response, Error> {
    check(&app, &spec)?;
    SITES.keeps_its_name(&id, &spec.name)?;
    let asked = Asked { app: &app, caller: &caller, headers: &headers };
    let content = SITES.content(&id, &spec.settings)?;
    let changed = SITES.change(&asked, &id, nothing_held, |before| Ok(asked.to(content.clone(), before)));
    answer(StatusCode::OK, &changed.await?)
}

/// Deletes a site that manages no node.
#[utoipa::path(delete, path = "/api/v1/sites/{id}", params(("id" = String, Path)), responses((status = 200, body = Envelope<Site>), Problems))]
pub(crate) async fn delete(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    headers: HeaderMap,
) -> Result<Response, Error> {
    let asked = Asked { app: &app, caller: &caller, headers: &headers };
    answer(StatusCode::OK, &SITES.delete(&asked, &id, Vec::new()).await?)
}

fn check(app: &App, spec: &SiteSpec) -> Result<(), Error> {
    let settings = &spec.settings;
    let mut checks = vec![
        text::check_name("name", &spec.name),
        text::check_address("settings.url", &settings.url, "https://maas.example/MAAS"),
        text::check_name("settings.tag", &settings.tag),
        text::check("settings.series", &settings.series, 1..=63),
        text::check("settings.architecture", &settings.architecture, 1..=63),
        text::check("settings.provisioning_subnet", &settings.provisioning_subnet, 1..=255),
        text::check_prose("settings.user_data", Some(&settings.user_data), 60_000),
        check_user_data(&settings.user_data).map_err(|message| Error::invalid("settings.user_data", message)),
        check_boot_disk(settings),
    ];
    let references =
        [("key", Some(&settings.key)), ("ca", settings.ca.as_ref()), ("bmc_ca", settings.bmc_ca.as_ref())];
    checks.extend(references.into_iter().filter_map(|(field, reference)| {
        let field = format!("settings.{field}");
        Some(reference::check(&field, reference?, Use::Site, &app.config.secrets))
    }));
    if settings.bmc_ca.is_some() && settings.bmc_insecure {
        let message = "must be false where bmc_ca names the authority to trust";
        checks.push(Err(Error::invalid("settings.bmc_insecure", message)));
    }
    checks.extend(
        settings
            .server_url
            .as_ref()
            .map(|url| text::check_address("settings.server_url", url, "https://wardroom.example")),
    );
    let fabric = settings.fabric.iter().enumerate();
    checks.extend(fabric.map(|(index, fabric)| {
        text::check(&format!("settings.fabric[{index}].interface"), &fabric.interface, 1..=63)
    }));
    checks.extend(check_rates(settings));
    checks.extend(reach::check_settings(settings, &app.config));
    Error::all(checks)
}

fn check_boot_disk(settings: &SiteSettings) -> Result<(), Error> {
    if settings.boot_disk.model.is_none() && settings.boot_disk.serial.is_none() {
        return Err(Error::invalid("settings.boot_disk", "needs a model or a serial number"));
    }
    Ok(())
}

fn check_rates(settings: &SiteSettings) -> Vec<Result<(), Error>> {
    let within = |field: &str, fits: bool, range: &str| {
        if fits { Ok(()) } else { Err(Error::invalid(field, format!("must be from {range}"))) }
    };
    let rate = |rate: f64| (0.01..=10_000.0).contains(&rate);
    let pause = |pause: u64| (100..=3_600_000).contains(&pause);
    let budgets = settings.budgets.iter().flat_map(|(stage, budget)| {
        let field = format!("settings.budgets.{stage}");
        let known = stage.parse::<Stage>().map(drop);
        let known = known.map_err(|error| Error::invalid(&field, error.to_string()));
        let retries = budget.retries.is_none_or(|retries| retries <= 1000);
        let patience = budget.patience_minutes.is_none_or(|minutes| (1..=10_080).contains(&minutes));
        let seconds = budget.patience_seconds.is_none_or(|seconds| (1..=59).contains(&seconds));
        let seconds_field = format!("{field}.patience_seconds");
        let twice = budget.patience_minutes.is_some() && budget.patience_seconds.is_some();
        let once = if twice {
            Err(Error::invalid(&seconds_field, "must be absent beside patience_minutes"))
        } else {
            Ok(())
        };
        [
            known,
            within(&format!("{field}.retries"), retries, "0 to 1000"),
            within(&format!("{field}.patience_minutes"), patience, "1 to 10080, a week"),
            within(&seconds_field, seconds, "1 to 59"),
            once,
        ]
    });
    let rates = [
        within("settings.requests_per_second", rate(settings.requests_per_second), "0.01 to 10000"),
        within("settings.deploys_per_minute", rate(settings.deploys_per_minute), "0.01 to 10000"),
        within("settings.deploys_at_once", (1..=10_000).contains(&settings.deploys_at_once), "1 to 10000"),
        within("settings.poll_millis", pause(settings.poll_millis), "100 to 3600000"),
        within("settings.sweep_millis", pause(settings.sweep_millis), "100 to 3600000"),
    ];
    rates.into_iter().chain(budgets).collect()
}

fn view(site: &Resource) -> Result<Site, Error> {
    Ok(Site {
        name: site.content.id.clone(),
        settings: site.content.document.read()?,
        created_at: site.created_at,
        updated_at: site.updated_at,
    })
}

fn answer(status: StatusCode, site: &Resource) -> Result<Response, Error> {
    named::answer(status, site, view(site)?)
}
