//! `openapi.json` and `docs/site-settings.md` are generated from the handlers; these tests compare, and with
//! `WARDROOM_BLESS=1` rewrite.

use std::path::Path;

use serde_json::Value;
use wardroom_api::site::SiteSettings;
use wardroom_core::{gpu_node, lifecycles, node, run, satellite};
use wardroom_server::{
    KINDS,
    platform::{
        console,
        http::{access, router},
    },
};

#[test]
fn the_document_says_what_the_handlers_say() {
    check("openapi.json", &(router::openapi(KINDS).to_pretty_json().unwrap() + "\n"));
}

#[test]
fn the_page_says_what_a_site_can_be_told() {
    let document = serde_json::to_value(router::openapi(KINDS)).unwrap();
    let usual = serde_json::to_value(SiteSettings::default()).unwrap();
    let schema = &document["components"]["schemas"]["SiteSettings"]["properties"];
    let mut page = String::from(
        "# Settings of a site\n\nGenerated from the code by `./dev bless`; do not edit.\n\n\
         `wardroom create site` has options for the usual ones, and takes each with `--set NAME=VALUE`, a setting \
         inside another\nby its path (`--set boot_disk.serial=B1`). To change one of a site that is there:\n\n\
         ```text\necho '{kind: site, name: berlin, settings: {bmc_insecure: true}}' | wardroom apply -f -\n```\n\n\
         | Setting | What it is | Default |\n|---|---|---|\n",
    );
    for (name, setting) in schema.as_object().unwrap() {
        page.push_str(&row(name, setting, &usual[name]));
        // Nested settings are settings too.
        let inside = setting["$ref"].as_str().or(setting["items"]["$ref"].as_str());
        let inside = inside.map(|path| &document["components"]["schemas"][path.rsplit('/').next().unwrap()]);
        let parts = inside.and_then(|inside| inside["properties"].as_object());
        for (part, setting) in parts.into_iter().flatten() {
            page.push_str(&row(&format!("{name}.{part}"), setting, &Value::Null));
        }
        if let Some(values) = inside.and_then(|inside| inside["enum"].as_array()) {
            let values: Vec<_> = values.iter().filter_map(Value::as_str).collect();
            page.push_str(&format!("| | one of {} | |\n", values.join(", ")));
        }
    }
    check("docs/site-settings.md", &page);
}

fn row(name: &str, setting: &Value, usual: &Value) -> String {
    let what = setting["description"].as_str().unwrap_or_else(|| panic!("{name} is not described"));
    // A cell of a table is one line.
    let what = what.replace('\n', " ");
    let usual = if usual.is_null() || usual == "" { String::new() } else { format!("`{usual}`") };
    format!("| `{name}` | {what} | {usual} |\n")
}

fn check(file: &str, generated: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    if std::env::var_os("WARDROOM_BLESS").is_some() {
        std::fs::write(&path, generated).expect("a file that can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(written == generated, "{file} differs from the code: run `./dev bless` and look at the change");
}

/// Deny by default: a route without a row in the access table is refused to every caller, so it is a mistake.
#[test]
fn every_route_has_a_row_in_the_access_table_and_every_row_a_route() {
    let document = serde_json::to_value(router::openapi(KINDS)).unwrap();
    // OpenAPI has no path of any length.
    let undocumented = ["/openapi.json", "/v2/{*path}"];
    let mut routes: Vec<_> = undocumented.map(|path| ("GET".to_owned(), path.to_owned())).into();
    // Pages for people: no client is generated for them. Their tests walk these rows.
    routes.extend(console::ACCESS.iter().map(|page| (page.method.to_owned(), page.path.to_owned())));
    for (path, methods) in document["paths"].as_object().unwrap() {
        routes
            .extend(methods.as_object().unwrap().keys().map(|method| (method.to_uppercase(), path.clone())));
    }
    routes.sort();
    let mut rows: Vec<_> =
        access::every(KINDS).map(|route| (route.method.to_owned(), route.path.to_owned())).collect();
    rows.sort();
    assert_eq!(rows, routes);
}

/// A request that is made of an action works when it is pasted: its route exists, and admits the role that it names.
#[test]
fn every_action_of_the_tables_is_a_route() {
    let published = lifecycles::all();
    let of_tables = published.iter().flat_map(|table| {
        let moves = table.moves.iter().filter_map(|row| row.call);
        moves.chain(table.states.iter().filter_map(|state| state.remedy))
    });
    let others = [
        node::ASSIGN,
        node::RELEASE_WORKFLOW,
        node::RELEASE_GROUP,
        node::READ,
        gpu_node::READ,
        gpu_node::LIFECYCLE,
        gpu_node::DECOMMISSION,
        run::READ,
        satellite::READ,
    ];
    let calls: Vec<_> = of_tables.chain(others).collect();
    assert!(calls.len() > 60, "{}", calls.len());
    for call in calls {
        let action = call.of("x1");
        assert!(!action.path.contains(['{', '}']), "{}", action.path);
        let route = access::every(KINDS)
            .find(|route| route.method == action.method && fits(route.path, &action.path))
            .unwrap_or_else(|| panic!("no route: {} {}", action.method, action.path));
        assert_eq!(route.kind, action.kind, "{}", action.path);
        let access::Allow::Roles(roles) = route.allow else { panic!("{}: not for people", action.path) };
        assert!(roles.contains(&action.role), "{} {}: not for {}", action.method, action.path, action.role);
    }
}

/// Whether a path is one of a route's.
fn fits(route: &str, path: &str) -> bool {
    let (route, path): (Vec<_>, Vec<_>) = (route.split('/').collect(), path.split('/').collect());
    route.len() == path.len()
        && route.iter().zip(path).all(|(pattern, part)| pattern.starts_with('{') || *pattern == part)
}

/// Generators of clients need an id that no other operation has, a tag, and a description of each answer.
#[test]
fn every_operation_is_described() {
    let document = serde_json::to_value(router::openapi(KINDS)).unwrap();
    let (mut ids, mut wrong) = (std::collections::BTreeSet::new(), Vec::new());
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap_or_default();
            let described =
                |response: &Value| response["description"].as_str().is_some_and(|text| !text.is_empty());
            let answers = operation["responses"].as_object().unwrap();
            if id.is_empty()
                || !ids.insert(id.to_owned())
                || operation["tags"].as_array().is_none_or(Vec::is_empty)
                || answers.is_empty()
                || !answers.values().all(described)
            {
                wrong.push(format!("{method} {path} ({id})"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(ids.len() > 80, "found the operations");
    let text = document.to_string();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    for reference in text.split("\"#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "there is no schema {name}");
    }
}
