//! Found and mended: from the overview of the console to the problem and its cure, in three steps at most.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::{
    console,
    demo::{Demo, next},
    fleets::{applies, change, create, fails, fleet, some, stands, with_policy},
    support::{Backend, Site, browser::Browser, device::open_token, wait_for, wait_long_for},
};

/// The stuck GPU node of the demo is repaired by keyboard alone, the silent adapter without script.
#[test]
fn planted_problems_are_mended_from_the_overview() {
    let demo = Demo::start(&["--seed", "7", "--members", "60", "--listen", "127.0.0.1:0"]);
    let node = demo.name("wardroom why gpu-node ");
    let adapter = demo.name("--adapter ");
    let planted = [("gpu-node", &node), ("adapter", &adapter)];
    wait_long_for("what is planted", || {
        let needs = demo.needs();
        planted
            .iter()
            .all(|(kind, name)| needs.contains(&((*kind).to_owned(), (*name).clone())))
            .then_some(())
    });
    node_by_keyboard(&demo, &node);
    adapter_without_script(&demo, &adapter);
    for (kind, name) in planted {
        wait_long_for(&format!("{kind} {name} to be well"), || demo.is_calm((kind, name)));
    }
    demo.ends();
}

fn node_by_keyboard(demo: &Demo, node: &str) {
    let secret = demo.token("mara", "operator");
    let browser = Browser::start(demo.stranger().address);
    browser.open("/console/login");
    browser.tab_to("input[name=token]");
    browser.type_text(&secret);
    browser.enter();
    browser.wait("the overview", "return location.pathname === '/console'");

    // The first step: its line on the overview leads to its page.
    browser.tab_to(&format!("#needs .who a[href='/console/gpu-nodes/{}']", id_of(&browser, node)));
    browser.enter();
    browser.wait("why", "return document.querySelector('#why .first') !== null");
    // The page follows what changes; once it and the command line have seen the same, they advise the same.
    let command = wait_for("the page to name the command of `why`", || {
        let command = next(&demo.ok(&format!("wardroom why gpu-node {node}")));
        (browser.text("return document.querySelector('#why .command code')?.innerText") == command)
            .then_some(command)
    });
    // The second: the button that `why` names.
    let words = browser.text("return document.querySelector('#why .first').innerText");
    assert!(command.contains(&words.to_lowercase().replace(' ', "-")), "{words}: {command}");
    browser.tab_to("#why .first");
    browser.enter();
    browser.wait("the form", "return document.querySelector('form textarea') !== null");
    assert_eq!(browser.text("return document.querySelector('.dialog .command code').innerText"), command);
    browser.tab_to("textarea[name=comment]");
    browser.type_text("the image server is back");
    // The third: it is done.
    browser.tab_to("form button.first");
    browser.enter();
    browser.wait("the answer", "return document.body.innerText.includes('was accepted')");
    let history = browser.wait(
        "history with the person and the reason",
        "const line = [...document.querySelectorAll('#timeline li')].find((line) => line.innerText.includes('the image server is back'));
         return line?.innerText",
    );
    assert!(history.as_str().unwrap().contains("mara"), "{history}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// The id in the link of the line of a node.
fn id_of(browser: &Browser, node: &str) -> String {
    let script = format!(
        "return [...document.querySelectorAll('#needs .who a')].find((link) => link.innerText === '{node}')?.pathname"
    );
    let path = browser.wait("the line of the node", &script);
    path.as_str().unwrap().rsplit('/').next().unwrap().to_owned()
}

fn adapter_without_script(demo: &Demo, adapter: &str) {
    let browser = console::Browser::at_server(&demo.stranger(), &demo.token("ada", "admin"));
    // The line names the step; its form tells the effect, and sending it does it.
    let form = browser.button("/console", "Create token");
    assert!(form.starts_with(&format!("/console/adapters/{adapter}/act/")), "{form}");
    let done = browser.send(&form, &[]);
    assert_eq!(done.status, 200, "{}", done.text());
    let page = done.text();
    let secret = page.split("wrt_").nth(1).unwrap().split('<').next().unwrap();
    // The adapter's operator gives it the new token.
    let line = demo.line("wardroom token create ");
    let file = line.rsplit('>').next().unwrap().trim().trim_matches('\'');
    fs::write(Path::new(file), format!("wrt_{secret}\n")).unwrap();
    let history = browser.read("/console/history?kind=token");
    assert!(history.contains("ada") && history.contains(&format!("{adapter}-2")), "{history}");
}

/// A broken rollout is found on the overview, paused and rolled back, without script.
#[test]
fn a_broken_rollout_is_paused_and_rolled_back() {
    let site = Site::alone(Backend::Sqlite, &[]);
    let devices = some(&site, &open_token(&site), 3);
    let policy = json!({"batches": [{"limit": 1}, {"limit": 1}], "successThreshold": 60});
    let staged = |content: &str| with_policy(fleet("web", "web", content), policy.clone());
    create(&site, &staged("good"));
    for (at, device) in devices.iter().enumerate() {
        let updated = u64::try_from(at).unwrap();
        stands(&site, "web", "Active", [updated, 1, 0, 2 - updated]);
        applies(&site, device);
    }
    stands(&site, "web", "Inactive", [3, 0, 0, 0]);
    change(&site, &staged("bad")).expect(200);
    stands(&site, "web", "Active", [0, 1, 0, 2]);

    let (_, secret) = site.new_token(&json!({"name": "mara", "role": "operator"}));
    let browser = console::Browser::with(&site, 0, &secret);
    let pause = browser.button("/console/fleets/web", "Pause");
    assert_eq!(browser.send(&pause, &[("comment", "look at the first one")]).status, 303);
    stands(&site, "web", "Paused", [0, 1, 0, 2]);
    fails(&site, &devices[0], "1");
    stands(&site, "web", "Paused", [0, 0, 1, 2]);

    // From the overview to the cure: the line of the fleet, its button, its form.
    let overview = browser.read("/console");
    assert!(overview.contains("no room on /var") && overview.contains("href=\"/console/fleets/web\""));
    let back = browser.button("/console/fleets/web", "Rollback");
    let done = browser.send(&back, &[("comment", "it fills the disk")]);
    assert_eq!(done.status, 303, "{}", done.text());
    let history = browser.read("/console/fleets/web/history");
    for (comment, event) in [("look at the first one", "pause"), ("it fills the disk", "rollback")] {
        let rows = site.admin().get("/api/v1/history?kind=fleet&id=web").expect(200);
        let row =
            rows["data"].as_array().unwrap().iter().find(|row| row["comment"] == comment).unwrap().clone();
        assert_eq!((&row["user_id"], &row["metadata"]["event"]), (&json!("mara"), &json!(event)));
        assert!(history.contains(comment) && history.contains("mara"), "{history}");
    }
    let fleet: Value = site.admin().get("/api/v1/fleets/web").expect(200);
    assert_eq!(fleet["status"]["rollout"]["restores"], json!("1"), "{fleet}");
}
