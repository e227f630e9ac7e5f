//! The console in a browser, as people see it: each page, in both themes and on a phone.

use std::{
    collections::{BTreeSet, VecDeque},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{
    demo::Demo,
    support::{Backend, Site, browser::Browser, wait_long_for},
};

mod colours;
mod fleet;
mod live;

/// What axe-core checks: the rules of WCAG 2.2 at level AA, and what its authors advise.
const RULES: &[&str] = &["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa", "best-practice"];

/// The narrowest screen that a page fits.
const NARROWEST: u32 = 320;
/// The widths of a desk and of a phone.
const WIDTHS: [u32; 2] = [1280, 390];

/// Every page that links lead to is readable by everybody, fits a phone, loads nothing else and breaks no rule of its
/// policy. Pictures of all are saved.
#[test]
fn every_page_is_accessible_and_fits_in_both_themes() {
    let site = Site::alone(Backend::Sqlite, &[]);
    fleet::set_up(&site);
    let browser = Browser::start(site.servers[0].address);
    let pictures = Pictures::folder();

    let started = [
        "/console",
        "/console/find?name=ware",
        "/console/nodes?state=active",
        "/console/lifecycles/run?state=pending",
    ];
    let (seen, wrong) = walk(&browser, &site.token, &started, &pictures);
    assert!(seen.len() > 10, "a walk over the pages has found few: {seen:?}");
    assert!(wrong.is_empty(), "{} findings on {} pages:\n{}", wrong.len(), seen.len(), wrong.join("\n"));
}

/// The pictures of the documentation, of the fleet of the demo: `./dev screenshots` asks for them.
#[test]
#[ignore = "takes minutes, and writes into docs/console"]
fn pictures_of_the_demo() {
    let demo = Demo::start(&["--seed", "7", "--members", "200", "--listen", "127.0.0.1:0"]);
    let node = demo.name("wardroom why gpu-node ");
    let adapter = demo.name("--adapter ");
    wait_long_for("what is planted", || {
        let needs = demo.needs();
        let found = |kind: &str, name: &str| needs.contains(&(kind.to_owned(), name.to_owned()));
        (found("gpu-node", &node) && found("adapter", &adapter)).then_some(())
    });
    let browser = Browser::start(demo.stranger().address);
    let of_node = format!("/console/gpu-nodes/{node}");
    let failed = format!("/console/nodes/{}", demo.name("wardroom why node "));
    let revoked = format!("/console/satellites/{}", demo.name("wardroom why satellite "));
    let started =
        ["/console", &of_node, &failed, &revoked, "/console/find?name=edge", "/console/nodes?state=active"];
    let (_, wrong) = walk(&browser, &demo.token("mara", "admin"), &started, &Pictures::folder());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    demo.ends();
}

/// Looks at every page that links lead to, from the login on; returns their names, and what is wrong with them.
fn walk(
    browser: &Browser,
    token: &str,
    started: &[&str],
    pictures: &Pictures,
) -> (BTreeSet<String>, Vec<String>) {
    let mut wrong = Vec::new();
    browser.open("/console/login");
    check(browser, "login", pictures, &mut wrong);
    browser.log_in(token);

    let (mut seen, mut waiting) =
        (BTreeSet::new(), started.iter().map(|path| (*path).to_owned()).collect::<VecDeque<_>>());
    while let Some(path) = waiting.pop_front() {
        let name = name(&path);
        if !seen.insert(name.clone()) {
            continue;
        }
        browser.open(&path);
        let links = browser.run("return [...document.links].filter((link) => link.origin === location.origin).map((link) => link.pathname + link.search)", &[]);
        let links = links.as_array().unwrap().iter().filter_map(Value::as_str);
        waiting.extend(links.filter(|link| link.starts_with("/console")).map(str::to_owned));
        check(browser, &name, pictures, &mut wrong);
    }
    for (name, key) in [("help", "?"), ("palette", "/")] {
        browser.open("/console/nodes");
        browser.press(key);
        browser.wait(name, "return document.querySelector('dialog[open]') !== null");
        check(browser, name, pictures, &mut wrong);
    }
    (seen, wrong)
}

/// The name of a page, the same for all that are made alike: the first that is met stands for them.
fn name(path: &str) -> String {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let path = path.split('#').next().unwrap_or(path);
    let parts: Vec<_> = path.trim_matches('/').split('/').skip(1).collect();
    match (&parts[..], query.is_empty()) {
        ([], _) => "overview".to_owned(),
        ([one], true) => (*one).to_owned(),
        (["find"], false) => "find".to_owned(),
        ([_], false) => "list-of-a-state".to_owned(),
        (["lifecycles", one], true) => format!("lifecycle-{one}"),
        (["lifecycles", _], false) => "lifecycle-of-a-state".to_owned(),
        ([section, _], _) => format!("{section}-one"),
        ([section, _, "act", ..], _) => format!("{section}-action"),
        ([_, _, tab, ..], _) => format!("tab-{tab}"),
    }
}

/// Looks at the page that is open, in both themes and widths.
fn check(browser: &Browser, name: &str, pictures: &Pictures, wrong: &mut Vec<String>) {
    for theme in ["light", "dark"] {
        browser.prefer("prefers-color-scheme", theme);
        for width in WIDTHS {
            browser.resize(width, 800);
            wrong.extend(
                axe(browser, theme).into_iter().map(|found| format!("{name}, {theme}, {width}: {found}")),
            );
            if pictures.takes(name, theme, width) {
                browser.save_picture(&pictures.folder.join(format!("{name}-{theme}-{width}.png")));
            }
        }
    }
    browser.prefer("prefers-color-scheme", "light");
    browser.resize(NARROWEST, 800);
    let over = browser.run("return document.documentElement.scrollWidth - innerWidth", &[]);
    if over.as_i64().unwrap() > 0 {
        wrong.push(format!("{name} scrolls sideways at {NARROWEST} px, by {over} px: {}", widest(browser)));
    }
    browser.resize(WIDTHS[0], 800);
    wrong.extend(browser.complaints().into_iter().map(|said| format!("{name}: {said}")));
    let styled = browser.run("return document.querySelectorAll('[style]').length", &[]);
    if styled != json!(0) {
        wrong.push(format!("{name} has {styled} elements with a style of their own"));
    }
}

/// What axe-core finds, a line for each rule.
fn axe(browser: &Browser, theme: &str) -> Vec<String> {
    if browser.run("return typeof axe === 'undefined'", &[]) == json!(true) {
        browser.run(axe_source(), &[]);
    }
    // Themes differ in their colours only.
    let only = if theme == "light" {
        json!({"type": "tag", "values": RULES})
    } else {
        json!({"type": "rule", "values": ["color-contrast", "link-in-text-block"]})
    };
    let found = browser.run_promise(
        "const found = await axe.run(document, { runOnly: arguments[0], resultTypes: ['violations'] });
         return found.violations.map((one) => one.id + ': ' + one.help + ': '
           + one.nodes.slice(0, 3).map((node) => node.html.slice(0, 160) + ' ' + node.any.map((any) => any.message).join(', ')).join(' | ')
           + ' (' + one.nodes.length + ')');",
        &[only],
    );
    found.as_array().unwrap().iter().map(|line| line.as_str().unwrap().to_owned()).collect()
}

fn axe_source() -> &'static str {
    static SOURCE: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    SOURCE.get_or_init(|| {
        let path = std::env::var_os("WARDROOM_TEST_AXE").map_or_else(
            || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/axe/node_modules/axe-core/axe.min.js"),
            PathBuf::from,
        );
        std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}; run ./dev setup", path.display()))
    })
}

/// The element that sticks out most.
fn widest(browser: &Browser) -> String {
    browser.text(
        "const all = [...document.body.querySelectorAll('*')].filter((one) => !one.closest('.scroll'));
         all.sort((a, b) => b.getBoundingClientRect().right - a.getBoundingClientRect().right);
         return all[0].outerHTML.slice(0, 200)",
    )
}

/// Where pictures are saved, and which.
struct Pictures {
    folder: PathBuf,
    /// Only those of the documentation, which are kept in the repository and have to be few.
    few: bool,
}

/// The pages of which the documentation has every theme and width.
const SHOWN: &[&str] = &["overview", "gpu-nodes", "gpu-nodes-one", "runs-one"];

impl Pictures {
    /// All, in a folder under `target`; or few, in the one that `./dev screenshots` names.
    fn folder() -> Self {
        match std::env::var_os("WARDROOM_TEST_PICTURES") {
            Some(folder) => Self { folder: folder.into(), few: true },
            None => {
                Self { folder: Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/console"), few: false }
            }
        }
    }

    fn takes(&self, name: &str, theme: &str, width: u32) -> bool {
        !self.few || SHOWN.contains(&name) || (theme == "light" && width == WIDTHS[0])
    }
}
