//! Hostile texts, on every page: what members and people may send is shown as text, and never as markup.

use std::collections::{BTreeSet, VecDeque};

use serde_json::json;

use crate::{
    console::Browser,
    support::{
        Backend, Site, cluster,
        device::{Device, open_token},
        long_on_both, mac, node_in, satellite,
    },
};

long_on_both! {
    hostile_text_is_shown_harmlessly_on_every_page,
}

/// Texts, and what no page may contain because of them.
const HOSTILE: &[(&str, &str)] = &[
    ("<img src=x onerror=alert(1)>", "<img"),
    ("\"><script>alert(1)</script>", "<script>alert"),
    ("\" onfocus=\"x", "\" onfocus"),
    ("' onblur='x", "=' onblur"),
    ("</textarea></title><svg onload=alert(1)>", "</textarea></title>"),
    ("\u{202e}desrever\u{200f}", "\u{202e}"),
    ("\u{2066}isolated\u{2069}", "\u{2066}"),
    ("\u{1b}[31mred\u{7f}", "\u{1b}"),
    ("nul\0nul", "\0"),
    ("🚀 日本 é", "\u{fffd}"),
    ("`code` **bold** [link](javascript:alert(1))", "href=\"javascript"),
];

/// The most that a page may have, though 10 KB are sent for each field.
const LARGEST: usize = 400 << 10;

fn hostile_text_is_shown_harmlessly_on_every_page(on: Backend) {
    let site = Site::start_with(on, &[(cluster::REQUIRED, "dns")]);
    let long = "x".repeat(10_000);
    let token = open_token(&site);
    let taken: usize = HOSTILE
        .iter()
        .map(|(text, _)| *text)
        .chain([&*long])
        .enumerate()
        .map(|(at, text)| plant(&site, &token, at, text))
        .sum();
    // Many are refused on the way in: names have few characters. What is stored is shown.
    assert!(taken > 40, "only {taken} texts were taken");

    let browser = Browser::with(&site, 0, &site.token);
    let started = [
        "/console",
        "/console/attention",
        "/console/nodes?state=install_failed",
        "/console/history?kind=token",
    ];
    let (mut seen, mut waiting) = (BTreeSet::new(), VecDeque::from(started.map(str::to_owned)));
    let mut of_a_kind = std::collections::BTreeMap::<String, usize>::new();
    let mut told = String::new();
    while let Some(path) = waiting.pop_front() {
        let kind = kind_of(&path);
        // Each text has members of its own; other pages that are made alike show the same.
        let most = if kind.ends_with("/*") { HOSTILE.len() + 1 } else { 2 };
        let count = of_a_kind.entry(kind).or_default();
        if *count >= most || !seen.insert(path.clone()) {
            continue;
        }
        *count += 1;
        let page = browser.read(&path);
        check(&path, &page);
        waiting.extend(links(&page));
        told.push_str(&page);
    }
    assert!(of_a_kind.len() > 30, "a walk over the pages has found few: {of_a_kind:?}");
    // They are shown, not swallowed.
    for shown in
        ["⟨RLO⟩desrever⟨RLM⟩", "⟨LRI⟩isolated⟨PDI⟩", "🚀 日本 é", "&lt;img src=x onerror=alert(1)&gt;"]
    {
        assert!(told.contains(shown), "{shown} is on no page");
    }
    asked(&browser);
}

/// Sends a text in every field that takes one; returns how many took it.
fn plant(site: &Site, token: &str, at: usize, text: &str) -> usize {
    let api = site.admin();
    let mut taken = Vec::new();
    let id = node_in(&api, "installing", at + 1);
    taken.push(
        api.patch(&format!("/api/v1/nodes/{id}"), &json!({"labels": {"note": text}, "hostname": text})),
    );
    taken.push(api.patch(&format!("/api/v1/nodes/{id}"), &json!({"labels": {"note": text}})));
    let failed = json!({
        "mac_address": mac(at + 1), "installation_status": "failed", "installation_error": text, "vendor": text,
        "model": text, "hostname": text,
    });
    taken.push(api.post("/api/v1/report", &failed));
    let failed = json!({"state": "install_failed", "comment": text});
    taken.push(api.patch(&format!("/api/v1/nodes/{id}/state"), &failed));
    let name = format!("edge-{at}");
    satellite::create(site, &name);
    taken.push(api.patch(&format!("/api/satellites/{name}"), &json!({"labels": {"note": text}})));
    taken.push(api.post(&format!("/api/satellites/{name}/revoke"), &json!({"comment": text})));
    let gpu = json!({"hostname": format!("gpu-{at}"), "model": text, "serial_number": text, "labels": {"note": text}});
    taken.push(api.post("/api/v1/gpu-nodes", &gpu));
    taken.push(api.post("/api/v1/tokens", &json!({"name": text, "role": "viewer"})));
    let workflow = json!({
        "name": format!("w{at}"), "kernel": "http://boot.example/vmlinuz", "initrd": ["http://boot.example/initrd"],
        "arguments": text,
    });
    taken.push(api.post("/api/v1/workflows", &workflow));
    let id = cluster::cluster(&api, &format!("cluster-{at}"))["id"].as_str().unwrap().to_owned();
    taken.push(api.patch(
        &format!("{}/{id}", cluster::CLUSTERS),
        &json!({"spec": {"note": text}, "labels": {"note": text}}),
    ));
    let mut report = cluster::report("dns", 1, "False", None);
    report["conditions"][0]["message"] = json!(text);
    taken.push(cluster::tell(&api, &id, &report));
    taken.extend(of_device(site, token, text));
    taken.iter().for_each(|reply| assert!(reply.status < 500, "{text:?}: {}", reply.text()));
    taken.iter().filter(|reply| reply.status < 300).count()
}

fn of_device(site: &Site, token: &str, text: &str) -> [crate::support::Reply; 2] {
    let device = Device::enrolled(site, token);
    let report = json!({
        "systemInfo": {"operatingSystem": text, "hostname": text},
        "conditions": [{"type": "Updating", "status": "False", "reason": "Error", "message": text}],
        "applications": [{"name": "app", "status": "Error", "ready": "0/1", "message": text}],
    });
    let waits = Device::new(site);
    [device.report(site, 0, &report), waits.ask(site, 0, token, &json!({"note": text}))]
}

fn check(path: &str, page: &str) {
    for (_, never) in HOSTILE {
        assert!(!page.contains(never), "{path} contains {never:?}");
    }
    let largest = if path.ends_with("/json") { 2 * LARGEST } else { LARGEST };
    assert!(page.len() < largest, "{path} has {} bytes", page.len());
}

/// The pages of the console that a page leads to.
fn links(page: &str) -> Vec<String> {
    let found = page.split("<a ").skip(1).filter_map(|link| link.split("href=\"").nth(1)?.split('"').next());
    let paths = found.map(|path| path.split('#').next().unwrap().replace("&amp;", "&"));
    paths.filter(|path| path.starts_with("/console") && !path.starts_with("/console/assets")).collect()
}

/// What pages that are made alike have in common.
fn kind_of(path: &str) -> String {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let parts: Vec<_> = path.trim_matches('/').split('/').collect();
    let query: Vec<_> = query.split('&').map(|pair| pair.split('=').next().unwrap()).collect();
    match parts[..] {
        [_, section, _, tab, ..] => format!("{section}/*/{tab}"),
        [_, section, _] => format!("{section}/*"),
        _ => format!("{path}?{}", query.join("&")),
    }
}

/// What is asked for is shown again, too.
fn asked(browser: &Browser) {
    for (text, never) in HOSTILE {
        let query: String = text.bytes().map(|byte| format!("%{byte:02X}")).collect();
        for path in [
            format!("/console/nodes?q={query}"),
            format!("/console/nodes?state={query}"),
            format!("/console/nodes?after={query}&trail={query}"),
            format!("/console/find?name={query}"),
            format!("/console/history?text={query}&since={query}&who={query}"),
            format!("/console/nodes/{query}"),
            format!("/console/nodes/{query}/act/{query}"),
            format!("/console/lifecycles/run?state={query}"),
            format!("/console/login?next={query}"),
            format!("/console/satellites/edge-0?done={query}"),
        ] {
            let page = browser.api.get(&path);
            assert!(page.status < 500, "{path}: {}", page.status);
            assert!(!page.text().contains(never), "{path} contains {never:?}");
        }
    }
}
