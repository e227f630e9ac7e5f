//! A page that is left open: it shows what changes, and says when it cannot.

use std::{net::TcpListener, process::Command};

use serde_json::json;

use crate::support::{
    Backend, Site,
    browser::Browser,
    satellite,
    site::{self, Server},
};

const STATE: &str = "#live button";

/// The words of the live mark.
fn mark(word: &str) -> String {
    format!("return document.querySelector('{STATE}')?.innerText.startsWith('{word}')")
}

/// The text of the row of a member.
fn row(name: &str) -> String {
    format!(
        "return [...document.querySelectorAll('tbody tr')].find((row) => row.innerText.includes('{name}'))?.innerText ?? ''"
    )
}

fn shows(name: &str, word: &str) -> String {
    format!(
        "{}.includes('{word}')",
        row(name).trim_end_matches(" ?? ''").replace("return ", "return (") + " ?? '')"
    )
}

#[test]
fn an_open_page_shows_what_changes_in_place_and_keeps_what_a_person_does() {
    let site = Site::alone(Backend::Sqlite, &[]);
    for name in ["ware-a-1", "ware-b-2", "ware-c-3"] {
        satellite::online(&site, name);
    }
    let browser = Browser::start(site.servers[0].address);
    browser.log_in(&site.token);
    browser.open("/console/satellites");
    browser.wait("the page to be live", &mark("Live"));

    // What is typed, and where the person is, stays.
    browser.type_into(".filter input[type=search]", "site=ber");
    browser.run("window.untouched = document.querySelector('tbody tr:last-child')", &[]);
    satellite::revoke(&site, "ware-b-2");
    browser.wait("the revoked satellite to be shown", &shows("ware-b-2", "revoked"));
    let kept = browser.run(
        "const input = document.querySelector('.filter input[type=search]');
         return [input.value, document.activeElement === input, window.untouched === document.querySelector('tbody tr:last-child')]",
        &[],
    );
    assert_eq!(kept, json!(["site=ber", true, true]));
    let order = "return [...document.querySelectorAll('tbody th')].map((cell) => cell.innerText.trim().split(/\\s/)[0]).join()";
    assert_eq!(browser.text(order), "ware-a-1,ware-b-2,ware-c-3");

    // A new member waits: the list does not move by itself.
    satellite::create(&site, "ware-d-4");
    browser.wait(
        "the new satellite to wait",
        "return document.getElementById('arrived')?.innerText === '1 change waiting'",
    );
    assert_eq!(browser.text(order), "ware-a-1,ware-b-2,ware-c-3");
    browser.click("#arrived a");
    browser.wait("the new satellite to be shown", &shows("ware-d-4", "pending"));

    // Under the pointer nothing changes.
    browser.wait("the page to be live", &mark("Live"));
    browser.point_at("tbody tr");
    satellite::revoke(&site, "ware-c-3");
    browser.wait("the change to wait", &mark("Live · 1 waiting"));
    assert!(browser.text(&row("ware-c-3")).contains("online"));
    browser.point_away();
    browser.wait("the change to be shown", &shows("ware-c-3", "revoked"));

    // Paused, nothing changes and the changes are counted; afterwards all are shown.
    browser.wait("the page to be live", &mark("Live"));
    browser.run("document.activeElement.blur()", &[]);
    browser.click(STATE);
    satellite::revoke(&site, "ware-a-1");
    browser.wait("the change to be counted", &mark("Paused · 1 waiting"));
    assert!(browser.text(&row("ware-a-1")).contains("online"));
    browser.click(STATE);
    browser.wait("the change to be shown", &shows("ware-a-1", "revoked"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// A server on the port of the first, over the same data.
fn start_at(site: &Site, port: u16) -> Server {
    let mut command = Command::new(site::binary());
    let given = site.command(0);
    let arguments = given.get_args().map(|argument| {
        // The first listener is that of the console.
        argument.to_str().unwrap().to_owned()
    });
    let mut arguments: Vec<_> = arguments.collect();
    arguments[2] = format!("127.0.0.1:{port}");
    command.args(arguments);
    command.envs(given.get_envs().filter_map(|(name, value)| Some((name, value?))));
    Server::start(command, &site.data_dir(0).with_extension("again.log"))
        .unwrap_or_else(|log| panic!("{log}"))
}

#[test]
fn a_page_says_that_its_server_is_away_and_misses_nothing_afterwards() {
    let mut site = Site::alone(Backend::Sqlite, &[]);
    satellite::online(&site, "ware-a-1");
    let browser = Browser::start(site.servers[0].address);
    browser.log_in(&site.token);
    browser.open("/console/satellites");
    browser.wait("the page to be live", &mark("Live"));

    let port = site.servers[0].address.port();
    site.servers[0].kill();
    browser.wait("the page to notice", &mark("Reconnecting"));
    assert!(browser.text(&row("ware-a-1")).contains("online"), "what was shown stays");

    // A change that the page cannot hear of: it is made before the port of the page is open again.
    assert!(TcpListener::bind(("127.0.0.1", port)).is_ok(), "the port is free");
    site.restart(0);
    satellite::revoke(&site, "ware-a-1");
    site.servers[0].kill();
    site.servers[0] = start_at(&site, port);
    browser.wait("the missed change to be shown", &shows("ware-a-1", "revoked"));
    browser.wait("the page to be live again", &mark("Live"));
}

/// A page whose session ended says so, and keeps what was typed.
#[test]
fn a_page_says_that_its_session_is_over() {
    let site = Site::alone(Backend::Sqlite, &[]);
    satellite::online(&site, "ware-a-1");
    let (id, secret) = site.new_token(&json!({"name": "mara", "role": "operator"}));
    let browser = Browser::start(site.servers[0].address);
    browser.log_in(&secret);
    browser.open("/console/satellites");
    browser.wait("the page to be live", &mark("Live"));
    browser.type_into(".filter input[type=search]", "site=ber");
    site.admin().delete(&format!("/api/v1/tokens/{id}"));
    browser.wait(
        "the page to say so",
        "return document.querySelector('dialog[open]')?.innerText.includes('session is over')",
    );
    assert_eq!(browser.text("return document.querySelector('.filter input').value"), "site=ber");
}

/// A browser opens six connections to a server: eight tabs share them, because only the one that is seen is live.
#[test]
fn eight_tabs_of_one_browser_work() {
    let site = Site::alone(Backend::Sqlite, &[]);
    satellite::online(&site, "ware-a-1");
    let browser = Browser::start(site.servers[0].address);
    browser.log_in(&site.token);
    let mut tabs = Vec::new();
    for _ in 0..7 {
        browser.open("/console/satellites");
        browser.wait("the page to be live", &mark("Live"));
        tabs.push(browser.new_tab());
    }
    browser.open("/console/satellites");
    browser.wait("the page to be live", &mark("Live"));
    satellite::revoke(&site, "ware-a-1");
    browser.wait("the revoked satellite in the eighth tab", &shows("ware-a-1", "revoked"));
    for tab in &tabs {
        browser.look_at(tab);
        browser.wait("the revoked satellite in another tab", &shows("ware-a-1", "revoked"));
    }
}
