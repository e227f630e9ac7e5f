//! Verbs on many members in the console, with plain forms: a dry run, then exactly what it showed.

use serde_json::json;

use super::{Browser, hidden, post};
use crate::support::{Backend, Site, mac, on_both, satellite};

on_both! {
    many_are_tried_and_then_changed,
    a_member_that_changed_since_the_dry_run_is_left_alone,
    a_run_needs_its_dry_run,
}

/// The key of the verb that is called so.
#[track_caller]
fn verb(page: &str, name: &str) -> String {
    let option = page.split("<option value=\"").find(|option| option.contains(&format!(">{name}<")));
    let option = option.unwrap_or_else(|| panic!("no verb {name:?} in {page}"));
    option.split('"').next().unwrap().to_owned()
}

/// Five new nodes, two of them in rack a.
fn nodes(site: &Site) -> Vec<String> {
    let made = (0..5).map(|number| {
        let rack = if number < 2 { "a" } else { "b" };
        let node =
            json!({"mac_address": mac(number), "hostname": format!("n{number}"), "labels": {"rack": rack}});
        site.admin().post("/api/v1/nodes", &node).expect(201)["data"]["id"].as_str().unwrap().to_owned()
    });
    made.collect()
}

fn state(site: &Site, id: &str) -> String {
    let node = site.admin().get(&format!("/api/v1/nodes/{id}")).expect(200);
    node["data"]["state"].as_str().unwrap().to_owned()
}

/// Sends the form of a dry run.
fn confirm(browser: &Browser, path: &str, page: &str, fields: &[(&str, &str)]) -> crate::support::Reply {
    let form = page.split("<main").nth(1).unwrap();
    let own = ["csrf", "once", "members", "of"].map(|name| (name, hidden(form, name)));
    let own = own.iter().filter(|(_, value)| !value.is_empty()).map(|(name, value)| (*name, &**value));
    let all: Vec<_> = own.chain(fields.iter().copied()).collect();
    post(&browser.api.with("sec-fetch-site", "same-origin"), path, &all)
}

fn many_are_tried_and_then_changed(on: Backend) {
    let site = Site::start(on);
    let ids = nodes(&site);
    site.admin().to_state(&ids[4], "pending").expect(200);
    let browser = Browser::with(&site, 0, &site.token);
    let list = browser.read("/console/nodes?q=rack%3Db");
    assert_eq!(list.matches("type=\"checkbox\" name=\"member\"").count(), 3);
    assert!(!list.contains(" checked"), "a list begins without ticks");
    let key = verb(&list, "Approve (pending)");
    let path = format!("/console/bulk/nodes?verb={key}&who=all&q=rack%3Db");
    let page = browser.read(&path);
    assert!(page.contains("Nothing was done yet.") && page.contains("2 of 5 (40 %)"), "{page}");
    assert!(page.contains("Would be refused (1)") && page.contains("pending already"), "{page}");
    assert_eq!(state(&site, &ids[2]), "discovered", "a dry run changes nothing");

    // So many are counted by the person.
    let wrong = confirm(&browser, &path, &page, &[("comment", "the new rack"), ("count", "3")]);
    assert!(
        wrong.status == 200 && wrong.text().contains("Nothing was done: 2 would be changed."),
        "{}",
        wrong.text()
    );
    assert!(wrong.text().contains("the new rack"), "what was typed is kept");
    assert_eq!(state(&site, &ids[2]), "discovered");
    let done = confirm(&browser, &path, &wrong.text(), &[("comment", "the new rack"), ("count", "2")]).text();
    assert!(done.contains("Changed (2)") && done.contains("Back to the list"), "{done}");
    assert_eq!(
        (state(&site, &ids[2]), state(&site, &ids[0])),
        ("pending".to_owned(), "discovered".to_owned())
    );
    let newest = site.admin().get(&format!("/api/v1/nodes/{}/history?limit=1", ids[2])).expect(200);
    assert_eq!(newest["data"][0]["comment"], "the new rack");

    let (_, token) = site.new_token(&json!({"name": "vera", "role": "viewer"}));
    let viewer = Browser::with(&site, 0, &token);
    assert!(!viewer.read("/console/nodes").contains("checkbox"));
    assert_eq!(viewer.api.get(&path).status, 303, "a viewer has no verbs");
}

fn a_member_that_changed_since_the_dry_run_is_left_alone(on: Backend) {
    let site = Site::start(on);
    for name in ["edge-1", "edge-2", "edge-3"] {
        satellite::online(&site, name);
    }
    let id = |name: &str| satellite::get(&site, name)["id"].as_str().unwrap().to_owned();
    let browser = Browser::with(&site, 0, &site.token);
    let key = verb(&browser.read("/console/satellites"), "Revoke");
    let path = format!(
        "/console/bulk/satellites?verb={key}&who=ticked&member={}&member={}",
        id("edge-1"),
        id("edge-2")
    );
    let page = browser.read(&path);
    assert!(page.contains("2 ticked") && page.contains("2 would be changed"), "{page}");
    site.admin().patch("/api/satellites/edge-2", &json!({"labels": {"keep": "yes"}})).expect(200);
    let done = confirm(&browser, &path, &page, &[("count", "2")]).text();
    assert!(
        done.contains("Changed (1)") && done.contains("Left alone: they changed since the dry run (1)"),
        "{done}"
    );
    let status = |name: &str| satellite::get(&site, name)["status"].clone();
    assert_eq!([status("edge-1"), status("edge-2"), status("edge-3")], ["revoked", "online", "online"]);
    // Sent again, the form has no second effect and shows the same.
    let again = confirm(&browser, &path, &page, &[("count", "2")]).text();
    assert!(again.contains("Changed (1)"), "{again}");
}

fn a_run_needs_its_dry_run(on: Backend) {
    let site = Site::start(on);
    let ids = nodes(&site);
    let browser = Browser::with(&site, 0, &site.token);
    let key = verb(&browser.read("/console/nodes"), "Approve (pending)");
    let none = format!("/console/bulk/nodes?verb={key}&who=ticked");
    let page = browser.api.get(&none);
    assert!(page.status == 400 && page.text().contains("no member is ticked"), "{}", page.text());
    assert_eq!(browser.api.get("/console/bulk/nodes?verb=explode&who=all").status, 303);
    assert_eq!(browser.api.get(&format!("/console/bulk/nodes?verb={key}&who=all&q=rack%3Dz")).status, 400);

    let path = format!("/console/bulk/nodes?verb={key}&who=ticked&member={}", ids[0]);
    let page = browser.read(&path);
    let csrf = hidden(page.split("<main").nth(1).unwrap(), "csrf");
    let own = browser.api.with("sec-fetch-site", "same-origin");
    assert_eq!(post(&own, &path, &[("csrf", &csrf)]).status, 303, "no member was shown");
    let ids_only = format!("{}*x", ids[0]);
    assert_eq!(
        post(&own, &path, &[("csrf", &csrf), ("members", &ids_only)]).status,
        303,
        "no version was shown"
    );
    let seen = format!("{}*1", ids[0]);
    assert_eq!(post(&own, &path, &[("csrf", "x"), ("members", &seen)]).status, 403);
    let foreign = browser.api.with("sec-fetch-site", "cross-site");
    assert_eq!(post(&foreign, &path, &[("csrf", &csrf), ("members", &seen)]).status, 403);
    assert_eq!(state(&site, &ids[0]), "discovered");
}
