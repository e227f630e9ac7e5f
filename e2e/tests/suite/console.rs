//! The console: sessions that are never more than their token, and forms that only its own pages send.

use serde_json::{Value, json};

use crate::support::{
    Api, Backend, Reply, Site, node_in, on_both,
    satellite::{self, create},
    wait_for,
};

mod bulk;

on_both! {
    a_session_is_opened_by_a_token_and_ends_with_it,
    a_session_counts_on_every_server,
    a_login_link_opens_one_session,
    forms_of_other_pages_are_refused,
    a_failed_installation_is_repaired_with_plain_forms,
    a_viewer_sees_commands_and_no_forms,
    a_refusal_keeps_what_was_typed,
    lists_are_filtered_and_paged,
    history_is_filtered,
    tokens_are_revoked_in_the_console,
}

/// The policy of the specification, as it stands.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// A browser with a session.
pub(crate) struct Browser {
    pub(crate) api: Api,
}

impl Browser {
    /// Logs in.
    #[track_caller]
    pub(crate) fn with(site: &Site, index: usize, token: &str) -> Self {
        Self::at_server(&site.caller(index, None), token)
    }

    /// Logs in at a server.
    #[track_caller]
    pub(crate) fn at_server(stranger: &Api, token: &str) -> Self {
        let login = log_in(stranger, token);
        assert_eq!((login.status, login.header("location")), (303, Some("/console")), "{}", login.text());
        let set = login.header("set-cookie").unwrap().to_owned();
        assert!(set.contains("; HttpOnly; SameSite=Strict"), "{set}");
        let cookie = set.split(';').next().unwrap();
        Self { api: stranger.with("cookie", cookie) }
    }

    /// The same session at another server.
    fn at(&self, site: &Site, index: usize) -> Self {
        let cookie = &self.api.headers.iter().find(|(name, _)| name == "cookie").unwrap().1;
        Self { api: site.caller(index, None).with("cookie", cookie) }
    }

    /// Reads a page.
    #[track_caller]
    pub(crate) fn read(&self, path: &str) -> String {
        let page = self.api.get(path);
        assert_eq!(page.status, 200, "{path}: {}", page.text());
        assert_eq!(page.header("content-security-policy"), Some(POLICY));
        assert_eq!(page.header("cache-control"), Some("no-store"));
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
        let text = page.text();
        assert!(!text.contains("style=") && !text.contains("<script>") && !has_handler(&text), "{path}");
        text
    }

    /// Sends the form of a page as a browser does, with these fields beside its hidden ones.
    #[track_caller]
    pub(crate) fn send(&self, path: &str, fields: &[(&str, &str)]) -> Reply {
        let page = self.read(path);
        let form = page.split("<main").nth(1).unwrap_or(&page);
        let hidden = ["csrf", "once"].map(|name| (name, hidden(form, name)));
        let all: Vec<_> =
            hidden.iter().map(|(name, value)| (*name, &**value)).chain(fields.iter().copied()).collect();
        post(&self.api.with("sec-fetch-site", "same-origin"), path, &all)
    }

    /// The path of the button with these words.
    #[track_caller]
    pub(crate) fn button(&self, path: &str, words: &str) -> String {
        let page = self.read(path);
        let found = page
            .split("<a ")
            .find(|link| link.split_once('>').is_some_and(|(_, rest)| rest.starts_with(words)));
        let link = found.unwrap_or_else(|| panic!("no button {words:?} on {path}"));
        link.split("href=\"").nth(1).unwrap().split('"').next().unwrap().to_owned()
    }
}

/// Whether an element has an attribute such as `onclick`.
fn has_handler(page: &str) -> bool {
    let tags = page.split('<').filter_map(|tag| tag.split_once('>').map(|(inside, _)| inside));
    let is_handler = |word: &str| word.starts_with("on") && word.contains('=');
    // Texts are attributes too, between quotation marks.
    let outside = |tag: &str| tag.split('"').step_by(2).collect::<Vec<_>>().join(" ");
    tags.map(outside).any(|tag| tag.split_whitespace().skip(1).any(is_handler))
}

/// The value of a hidden field.
fn hidden(form: &str, name: &str) -> String {
    let after = form.split(&format!("name=\"{name}\" value=\"")).nth(1);
    after.map(|rest| rest.split('"').next().unwrap().to_owned()).unwrap_or_default()
}

fn post(api: &Api, path: &str, fields: &[(&str, &str)]) -> Reply {
    let encoded = |text: &str| -> String {
        text.bytes()
            .map(|byte| {
                if byte.is_ascii_alphanumeric() {
                    char::from(byte).to_string()
                } else {
                    format!("%{byte:02X}")
                }
            })
            .collect()
    };
    let body: Vec<_> =
        fields.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(value))).collect();
    let api = api.with("content-type", "application/x-www-form-urlencoded");
    api.send("POST", path, body.join("&").as_bytes())
}

fn log_in(api: &Api, token: &str) -> Reply {
    post(&api.with("sec-fetch-site", "same-origin"), "/console/login", &[("token", token)])
}

fn a_session_is_opened_by_a_token_and_ends_with_it(on: Backend) {
    let site = Site::start(on);
    let stranger = site.caller(0, None);
    let root = stranger.with("accept", "text/html,*/*").get("/");
    assert_eq!((root.status, root.header("location")), (303, Some("/console")));
    stranger.with("accept", "*/*").get("/").problem(404);
    let asked = stranger.get("/console/nodes?q=rack%3Da");
    assert_eq!(asked.status, 303);
    assert_eq!(asked.header("location"), Some("/console/login?next=%2Fconsole%2Fnodes%3Fq%3Drack%253Da"));

    let (id, secret) = site.new_token(&json!({"name": "ada", "role": "operator"}));
    let mut texts = Vec::new();
    let (expired_id, expired) = site.new_token(&json!({"name": "gone", "role": "viewer"}));
    site.admin().delete(&format!("/api/v1/tokens/{expired_id}")).expect(200);
    for wrong in ["", "nonsense", "wrt_unknown", &expired] {
        let refused = log_in(&stranger, wrong);
        assert_eq!((refused.status, refused.header("set-cookie")), (401, None), "{wrong}");
        texts.push(refused.text());
    }
    assert!(texts.iter().all(|text| *text == texts[0]), "the refusal tells what is wrong with a token");

    let browser = Browser::with(&site, 0, &secret);
    let page = browser.read("/console");
    assert!(page.contains("ada") && page.contains("operator") && !page.contains(&secret));
    // The session is nothing to the API.
    browser.api.get("/api/v1/nodes").problem(401);
    // History knows the login, and no secret.
    let rows = site.admin().get("/api/v1/history?limit=20").expect(200);
    let login = rows["data"].as_array().unwrap().iter().find(|row| row["kind"] == "session").unwrap();
    assert_eq!((&login["user_id"], &login["type"]), (&json!("ada"), &json!("registered")));

    site.admin().delete(&format!("/api/v1/tokens/{id}")).expect(200);
    assert_eq!(browser.api.get("/console").status, 303, "the session ended with its token");
    assert_eq!(post(&browser.api.with("sec-fetch-site", "same-origin"), "/console/logout", &[]).status, 403);
}

fn a_session_counts_on_every_server(on: Backend) {
    let site = Site::start(on);
    let browser = Browser::with(&site, 0, &site.token);
    let other = browser.at(&site, 1);
    let csrf = hidden(&other.read("/console"), "csrf");
    let out = post(&other.api.with("sec-fetch-site", "same-origin"), "/console/logout", &[("csrf", &csrf)]);
    assert_eq!((out.status, out.header("location")), (303, Some("/console/login")));
    assert!(out.header("set-cookie").unwrap().contains("Max-Age=0"));
    for one in [&browser, &other] {
        assert_eq!(one.api.get("/console").status, 303, "logged out");
    }
    let forged = site.caller(0, None).with("cookie", "wardroom-session=AAAA.BBBB");
    assert_eq!(forged.get("/console").status, 303);
}

/// Of several that open it at once, at different servers, one gets in.
fn a_login_link_opens_one_session(on: Backend) {
    let site = Site::start(on);
    let (id, token) = site.new_token(&json!({"name": "ada", "role": "viewer"}));
    let made = site.caller(0, Some(&token)).post("/api/v1/login-links", &json!({})).expect(201);
    let secret = |made: &Value| {
        let path = made["data"]["path"].as_str().unwrap();
        path.strip_prefix("/console/login#").unwrap().to_owned()
    };
    let link = secret(&made);
    let refused = log_in(&site.caller(0, None), "wrt_unknown");
    let tries: Vec<_> = std::thread::scope(|scope| {
        let tries: Vec<_> = (0..6)
            .map(|index| {
                scope.spawn({
                    let (site, link) = (&site, &link);
                    move || log_in(&site.caller(index, None), link)
                })
            })
            .collect();
        tries.into_iter().map(|tried| tried.join().unwrap()).collect()
    });
    let (opened, others): (Vec<_>, Vec<_>) = tries.into_iter().partition(|tried| tried.status == 303);
    assert_eq!(opened.len(), 1, "one link opened {} sessions", opened.len());
    for other in others {
        assert_eq!((other.status, other.header("set-cookie")), (401, None));
        assert_eq!(other.text(), refused.text(), "the refusal says nothing of the link");
    }
    let cookie = opened[0].header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let page = site.caller(1, None).with("cookie", &cookie).get("/console");
    assert!(page.status == 200 && page.text().contains("ada") && page.text().contains("viewer"));
    // The session is not the token: it makes no further link.
    site.caller(0, None).with("cookie", &cookie).post("/api/v1/login-links", &json!({})).problem(401);

    // A link ends with its token, and a part of it is none.
    let unused = secret(&site.caller(0, Some(&token)).post("/api/v1/login-links", &json!({})).expect(201));
    for wrong in
        [unused.split('.').next().unwrap(), "wrl_", "wrl_x.y", "wrl_.", &unused.replace("wrl_", "wrl_A")]
    {
        assert_eq!(log_in(&site.caller(0, None), wrong).status, 401, "{wrong}");
    }
    site.admin().delete(&format!("/api/v1/tokens/{id}")).expect(200);
    assert_eq!(log_in(&site.caller(0, None), &unused).status, 401, "its token is revoked");
    assert_eq!(site.caller(1, None).with("cookie", &cookie).get("/console").status, 303);
    let history = site.admin().get("/api/v1/history?limit=50").expect(200).to_string();
    assert!(history.contains("offered") && !history.contains("wrl_"), "{history}");
}

fn forms_of_other_pages_are_refused(on: Backend) {
    let site = Site::start(on);
    create(&site, "edge-1");
    let browser = Browser::with(&site, 0, &site.token);
    let path = "/console/satellites/edge-1/act/satellite~revoke";
    let csrf = hidden(&browser.read("/console"), "csrf");
    let good = [("csrf", &*csrf)];
    let own = browser.api.with("sec-fetch-site", "same-origin");
    for (name, api, fields) in [
        ("without its token", own.clone(), &[][..]),
        ("with another token", own.clone(), &[("csrf", "x")][..]),
        ("of another site", browser.api.with("sec-fetch-site", "cross-site"), &good[..]),
        ("of another subdomain", browser.api.with("sec-fetch-site", "same-site"), &good[..]),
        ("of no page", browser.api.with("sec-fetch-site", "none"), &good[..]),
        ("without an origin", browser.api.clone(), &good[..]),
        ("with another origin", browser.api.with("origin", "http://evil.example"), &good[..]),
        ("without a session", site.caller(0, None).with("sec-fetch-site", "same-origin"), &good[..]),
    ] {
        for path in [path, "/console/logout", "/console/theme"] {
            assert_eq!(post(&api, path, fields).status, 403, "a form {name} at {path}");
        }
    }
    let login = site.caller(0, None).with("sec-fetch-site", "cross-site");
    assert_eq!(post(&login, "/console/login", &[("token", &site.token)]).status, 403);
    assert_eq!(site.admin().get("/api/satellites/edge-1").expect(200)["data"]["status"], "pending");
    let themed =
        post(&own, "/console/theme", &[("csrf", &csrf), ("theme", "dark"), ("back", "//evil.example")]);
    assert_eq!((themed.status, themed.header("location")), (303, Some("/console")));
    let dark = browser.api.with("cookie", &format!("{}; wardroom-theme=dark", cookie(&browser)));
    assert!(dark.get("/console").text().contains("data-theme=\"dark\""));
}

fn cookie(browser: &Browser) -> &str {
    &browser.api.headers.iter().find(|(name, _)| name == "cookie").unwrap().1
}

/// From the overview to the repaired node in three clicks, without script.
fn a_failed_installation_is_repaired_with_plain_forms(on: Backend) {
    let site = Site::start(on);
    let id = node_in(&site.admin(), "install_failed", 1);
    let (_, secret) = site.new_token(&json!({"name": "ada", "role": "operator"}));
    let browser = Browser::with(&site, 0, &secret);
    let overview = browser.read("/console");
    assert!(overview.contains("Needs a person"), "{overview}");
    // The line on the overview names the step that `why` names on the page of the node.
    let form = browser.button("/console", "Reset");
    assert_eq!(form, browser.button(&format!("/console/nodes/{id}"), "Reset"));
    let done = browser.send(&form, &[("comment", "the mirror is back")]);
    assert_eq!(done.status, 303, "{}", done.text());
    let shown = browser.read(done.header("location").unwrap());
    assert!(shown.contains("was accepted") && shown.contains("the mirror is back") && shown.contains("ada"));
    assert_eq!(site.admin().get(&format!("/api/v1/nodes/{id}")).expect(200)["data"]["state"], "pending");
    let row = &site.admin().get(&format!("/api/v1/history?kind=node&id={id}&limit=1")).expect(200)["data"][0];
    assert_eq!((&row["user_id"], &row["comment"]), (&json!("ada"), &json!("the mirror is back")));
}

fn a_viewer_sees_commands_and_no_forms(on: Backend) {
    let site = Site::start(on);
    satellite::online(&site, "edge-1");
    let (_, secret) = site.new_token(&json!({"name": "watcher", "role": "viewer"}));
    let browser = Browser::with(&site, 0, &secret);
    let page = browser.read("/console/satellites/edge-1");
    assert!(!page.contains("/act/"), "a viewer is offered an action");
    let form = "/console/satellites/edge-1/act/satellite~revoke";
    let shown = browser.read(form);
    assert!(shown.contains("Needs the role operator") && shown.contains("wardroom satellite revoke edge-1"));
    assert!(!shown.split("<main").nth(1).unwrap().contains("<form"));
    let csrf = hidden(&browser.read("/console"), "csrf");
    let forced = post(&browser.api.with("sec-fetch-site", "same-origin"), form, &[("csrf", &csrf)]);
    assert_eq!(forced.status, 403, "{}", forced.text());
    assert_eq!(site.admin().get("/api/satellites/edge-1").expect(200)["data"]["status"], "online");
}

/// Another person was faster: nothing is lost, and the page says what is possible now.
fn a_refusal_keeps_what_was_typed(on: Backend) {
    let site = Site::start(on);
    let id = node_in(&site.admin(), "install_failed", 1);
    let browser = Browser::with(&site, 0, &site.token);
    let page = format!("/console/nodes/{id}");
    let form = browser.button(&page, "Reset");
    let csrf = hidden(&browser.read(&form), "csrf");
    site.admin().to_state(&id, "retired").expect(200);
    let own = browser.api.with("sec-fetch-site", "same-origin");
    let late = post(&own, &form, &[("csrf", &csrf), ("comment", "the mirror is back")]);
    assert_eq!(late.status, 409);
    let text = late.text();
    assert!(
        text.contains("Nothing was done") && text.contains("the mirror is back") && text.contains("retired")
    );
    // What the API itself refuses stays in its form.
    satellite::online(&site, "edge-1");
    site.admin().post("/api/satellites/edge-1/revoke", &json!({})).expect(200);
    let form = &browser.button("/console/satellites/edge-1", "Reenable");
    let refused = browser.send(form, &[("mode", "nonsense"), ("comment", "try <again>")]);
    assert_eq!(refused.status, 400, "{}", refused.text());
    let text = refused.text();
    assert!(
        text.contains("nonsense") && text.contains("try &lt;again&gt;") && text.contains("Request "),
        "{text}"
    );
    // A new token is shown once.
    let done = browser.send(form, &[("mode", "reissue")]);
    assert_eq!(done.status, 200);
    let token = site.admin().get("/api/satellites/edge-1").expect(200);
    assert_eq!(token["data"]["status"], "pending");
    assert!(done.text().contains("shown only now"));
}

fn lists_are_filtered_and_paged(on: Backend) {
    let site = Site::start(on);
    for index in 0..105 {
        let rack = if index < 3 { "a" } else { "b" };
        let node = json!({"mac_address": crate::support::mac(index), "hostname": format!("n{index:03}"), "labels": {"rack": rack}});
        site.admin().post("/api/v1/nodes", &node).expect(201);
    }
    let browser = Browser::with(&site, 0, &site.token);
    let rows = |page: &str| page.matches("<tr id=\"row-").count();
    let first = browser.read("/console/nodes");
    assert_eq!(rows(&first), 100);
    assert!(first.contains("105 in all") && first.len() < 150 << 10, "{}", first.len());
    let next =
        first.split("rel=\"next\" href=\"").nth(1).unwrap().split('"').next().unwrap().replace("&amp;", "&");
    let second = browser.read(&next);
    assert_eq!(rows(&second), 5);
    assert!(second.contains("n104") && second.contains("rel=\"prev\""));
    let few = browser.read("/console/nodes?q=rack+in+(a,c),hostname%3Dn002&state=discovered");
    assert_eq!(rows(&few), 1);
    assert!(
        few.contains("wardroom get nodes -l &#39;rack in (a,c)&#39;")
            || few.contains("wardroom get nodes -l '"),
        "{few}"
    );
    let wrong = browser.api.get("/console/nodes?q=a%3D%3D%3D(");
    assert_eq!(wrong.status, 400);
    assert!(wrong.text().contains("Fields: "), "{}", wrong.text());
    assert!(browser.read("/console/nodes?q=rack%3Dz").contains("No node matches"));
    // A name leads to its member.
    let found = browser.api.get("/console/find?name=n007");
    assert_eq!(found.status, 303);
    let location = found.header("location").unwrap().to_owned();
    wait_for("the page of the node", || Some(browser.read(&location)).filter(|page| page.contains("n007")));
    for empty in ["satellites", "gpu-nodes", "clusters", "devices", "runs"] {
        assert!(browser.read(&format!("/console/{empty}")).contains("None yet"), "{empty}");
    }
}

fn history_is_filtered(on: Backend) {
    let site = Site::start(on);
    let (_, secret) = site.new_token(&json!({"name": "ada", "role": "operator"}));
    create(&site, "edge-1");
    create(&site, "edge-2");
    let ada = site.caller(0, Some(&secret)).with("x-request-id", "req-1");
    ada.post("/api/satellites/edge-1/revoke", &json!({"comment": "The laptop was Stolen"})).expect(200);
    let admin = site.admin();
    let found = |query: &str| -> Vec<String> {
        let rows = admin.get(&format!("/api/v1/history?{query}")).expect(200);
        let kinds = rows["data"].as_array().unwrap().iter();
        kinds
            .map(|row| format!("{} {}", row["kind"].as_str().unwrap(), row["type"].as_str().unwrap()))
            .collect()
    };
    for (query, expected) in [
        ("who=ada", &["satellite transition"][..]),
        ("text=stolen", &["satellite transition"]),
        ("request_id=req-1", &["satellite transition"]),
        ("kind=satellite&type=transition", &["satellite transition"]),
        ("kind=satellite&type=registered", &["satellite registered", "satellite registered"]),
        ("kind=satellite&limit=1", &["satellite transition"]),
        ("text=nothing", &[]),
        ("kind=satellite&since=2099-01-01T00:00:00Z", &[]),
    ] {
        wait_for("the rows in the feed", || (found(query) == expected).then_some(()));
    }
    // A page that is full has a next one, and the last one has not.
    let page = admin.get("/api/v1/history?kind=satellite&limit=2").expect(200);
    let next = page["continue"].as_str().unwrap();
    let rest = admin.get(&format!("/api/v1/history?kind=satellite&limit=2&continue={next}")).expect(200);
    assert_eq!((rest["data"].as_array().unwrap().len(), &rest["continue"]), (1, &json!(null)));
    assert_eq!(admin.get("/api/v1/history?since=yesterday").wrong_fields(), ["since"]);
    assert_eq!(admin.get("/api/v1/history?kind=satellite&id=edge-1&who=ada").wrong_fields(), ["id"]);
    assert_eq!(admin.get("/api/v1/history?id=edge-1").wrong_fields(), ["kind"]);

    let browser = Browser::with(&site, 0, &site.token);
    let shown = browser.read("/console/history?who=ada");
    assert!(shown.contains("The laptop was Stolen") && shown.contains("edge-1"), "{shown}");
    assert_eq!(shown.matches("<tr id=\"change-").count(), 1);
}

fn tokens_are_revoked_in_the_console(on: Backend) {
    let site = Site::start(on);
    let (id, secret) = site.new_token(&json!({"name": "ada", "role": "viewer"}));
    let browser = Browser::with(&site, 0, &site.token);
    assert!(browser.read("/console/tokens").contains("ada"));
    let form = browser.button(&format!("/console/tokens/{id}"), "Revoke");
    assert_eq!(browser.send(&form, &[]).status, 303);
    site.caller(0, Some(&secret)).get("/api/v1/nodes").problem(401);
    assert!(browser.read("/console/tokens?state=revoked").contains("ada"));
    // A viewer does not see tokens, and is told why.
    let (_, secret) = site.new_token(&json!({"name": "eve", "role": "viewer"}));
    let viewer = Browser::with(&site, 0, &secret);
    let refused = viewer.api.get("/console/tokens");
    assert_eq!(refused.status, 403);
    assert!(refused.text().contains("admin"), "{}", refused.text());
    for section in ["incidents", "adapters", "sites", "workflows", "groups", "enrolment"] {
        assert!(viewer.read(&format!("/console/{section}")).contains("None yet"), "{section}");
    }
}
