//! A browser: Chromium, driven as a person would, and asked what only its developer tools know.

use std::{
    ffi::OsString,
    fs,
    io::{BufRead as _, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use fantoccini::{Client, ClientBuilder, wd::WindowHandle};
use hyper_util::client::legacy::connect::HttpConnector;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// How often a test looks whether a page became what it waits for, and the pause between.
const ROUNDS: usize = 600;
const LOOK: Duration = Duration::from_millis(50);

/// How long the driver may take to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// What keeps a browser from speaking with its makers, and what a container does not have.
const FLAGS: &[&str] = &[
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--lang=en-US",
];

/// A browser with one page. It ends with the value.
pub(crate) struct Browser {
    runtime: Runtime,
    client: Client,
    driver: Driver,
    session: String,
    /// Where paths lead.
    address: SocketAddr,
    /// The browser's files, removed with it.
    _profile: tempfile::TempDir,
}

/// The program that speaks to the browser.
struct Driver {
    child: Child,
    port: u16,
}

impl Drop for Driver {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program or a file that `./dev` names.
fn named(variable: &str, otherwise: &str) -> OsString {
    std::env::var_os(variable).unwrap_or_else(|| otherwise.into())
}

impl Driver {
    fn start() -> Self {
        let program = named("WARDROOM_TEST_CHROMEDRIVER", "chromedriver");
        let mut child = Command::new(&program)
            .arg("--port=0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{} does not start: {error}; run ./dev setup", program.display()));
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let said = "was started successfully on port ";
        let port = lines.find_map(|line| line.split_once(said)?.1.trim_end_matches('.').parse().ok());
        // Read on, or the driver would wait for room to write.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, port: port.expect("the driver of the browser ended at once") }
    }
}

impl Browser {
    /// Starts a browser for the pages of a server.
    pub(crate) fn start(address: SocketAddr) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (driver, profile) = (Driver::start(), tempfile::tempdir().unwrap());
        let mut flags: Vec<_> = FLAGS.iter().map(|&flag| flag.to_owned()).collect();
        flags.push(format!("--user-data-dir={}", profile.path().display()));
        let chromium = named("WARDROOM_TEST_CHROMIUM", "chromium").into_string().unwrap();
        let mut options = json!({"args": flags});
        if Path::new(&chromium).is_absolute() {
            options["binary"] = json!(chromium);
        }
        let capabilities = json!({
            "browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"},
            "timeouts": {"script": 120_000},
        });
        let Value::Object(capabilities) = capabilities else { unreachable!() };
        let client = runtime.block_on(
            ClientBuilder::new(HttpConnector::new())
                .capabilities(capabilities)
                .connect(&format!("http://127.0.0.1:{}", driver.port)),
        );
        let client = client.unwrap_or_else(|error| panic!("no browser: {error}; run ./dev setup"));
        let session = runtime.block_on(client.session_id()).unwrap().unwrap();
        let browser = Self { runtime, client, driver, session, address, _profile: profile };
        browser.resize(1280, 800);
        browser
    }

    /// Opens a page of the server.
    pub(crate) fn open(&self, path: &str) {
        let url = format!("http://{}{path}", self.address);
        self.runtime.block_on(self.client.goto(&url)).unwrap_or_else(|error| panic!("{url}: {error}"));
        self.point_away();
    }

    /// Opens another tab and looks at it; returns the one that was looked at before.
    pub(crate) fn new_tab(&self) -> WindowHandle {
        self.runtime.block_on(async {
            let before = self.client.window().await.unwrap();
            let made = self.client.new_window(true).await.unwrap();
            self.client.switch_to_window(made.handle).await.unwrap();
            before
        })
    }

    /// Looks at a tab.
    pub(crate) fn look_at(&self, tab: &WindowHandle) {
        self.runtime.block_on(self.client.switch_to_window(tab.clone())).unwrap();
        self.tool("Page.bringToFront", &json!({}));
    }

    /// The path that the page has now, with its query.
    pub(crate) fn path(&self) -> String {
        self.text("return location.pathname + location.search")
    }

    /// Runs the body of a function in the page; the arguments are `arguments[0]` and so on.
    pub(crate) fn run(&self, script: &str, arguments: &[Value]) -> Value {
        let ran = self.runtime.block_on(self.client.execute(script, arguments.to_vec()));
        ran.unwrap_or_else(|error| panic!("{script}: {error}"))
    }

    /// The same for a promise.
    pub(crate) fn run_promise(&self, script: &str, arguments: &[Value]) -> Value {
        let whole = format!(
            "const done = arguments[arguments.length - 1];
             (async function () {{ {script} }}).apply(null, arguments)
               .then((value) => done({{ value }}), (error) => done({{ error: String(error) }}));"
        );
        let ran = self.runtime.block_on(self.client.execute_async(&whole, arguments.to_vec()));
        let ran = ran.unwrap_or_else(|error| panic!("{script}: {error}"));
        assert!(ran["error"].is_null(), "{script}: {}", ran["error"]);
        ran["value"].clone()
    }

    /// What a script returns, as text; empty for nothing.
    pub(crate) fn text(&self, script: &str) -> String {
        self.run(script, &[]).as_str().unwrap_or_default().to_owned()
    }

    /// Waits until a script returns something that is true, and returns it.
    #[track_caller]
    pub(crate) fn wait(&self, what: &str, script: &str) -> Value {
        let mut last = None;
        for _ in 0..ROUNDS {
            // Between two pages there is nothing to run a script in.
            let ran = self.runtime.block_on(self.client.execute(script, Vec::new()));
            match ran {
                Ok(value) if !matches!(value, Value::Null | Value::Bool(false)) && value != json!("") => {
                    return value;
                }
                ran => last = Some(ran),
            }
            std::thread::sleep(LOOK);
        }
        panic!("waited in vain for {what} at {}: {last:?}\n{}", self.path(), self.body())
    }

    /// The text that is seen.
    pub(crate) fn body(&self) -> String {
        self.text("return document.body.innerText")
    }

    /// Types a text into a field, character by character.
    pub(crate) fn type_into(&self, css: &str, text: &str) {
        let typed = self
            .runtime
            .block_on(async { self.client.find(fantoccini::Locator::Css(css)).await?.send_keys(text).await });
        typed.unwrap_or_else(|error| panic!("{css}: {error}"));
    }

    /// Presses a key while no field has the focus.
    pub(crate) fn press(&self, key: &str) {
        self.run(
            "document.body.dispatchEvent(new KeyboardEvent('keydown', { key: arguments[0], bubbles: true }))",
            &[json!(key)],
        );
    }

    /// Presses Tab until an element has the focus, as a person without a pointer does.
    #[track_caller]
    pub(crate) fn tab_to(&self, css: &str) {
        const MOST: usize = 150;
        for _ in 0..MOST {
            self.strike("Tab", 9, None);
            if self.run("return document.activeElement?.matches(arguments[0]) === true", &[json!(css)])
                == json!(true)
            {
                return;
            }
        }
        panic!("{css} is not reached with Tab at {}", self.path())
    }

    /// Presses Enter.
    pub(crate) fn enter(&self) {
        self.strike("Enter", 13, Some("\r"));
    }

    /// Types a text where the focus is.
    pub(crate) fn type_text(&self, text: &str) {
        self.tool("Input.insertText", &json!({"text": text}));
    }

    /// Strikes a key as a keyboard does, so that the browser itself answers.
    fn strike(&self, key: &str, code: u32, text: Option<&str>) {
        let mut event = json!({"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code});
        if let Some(text) = text {
            event["text"] = json!(text);
        }
        self.tool("Input.dispatchKeyEvent", &event);
        event["type"] = json!("keyUp");
        self.tool("Input.dispatchKeyEvent", &event);
    }

    /// Clicks on an element, where a person would.
    pub(crate) fn click(&self, css: &str) {
        let clicked = self
            .runtime
            .block_on(async { self.client.find(fantoccini::Locator::Css(css)).await?.click().await });
        clicked.unwrap_or_else(|error| panic!("{css}: {error}"));
    }

    /// Moves the pointer over an element.
    pub(crate) fn point_at(&self, css: &str) {
        let script = "const box = document.querySelector(arguments[0]).getBoundingClientRect();
            return [box.x + box.width / 2, box.y + box.height / 2]";
        let place = self.run(script, &[json!(css)]);
        self.point(&place[0], &place[1]);
    }

    /// Moves the pointer to a corner, where it is over nothing of the page.
    pub(crate) fn point_away(&self) {
        self.point(&json!(1), &json!(1));
    }

    fn point(&self, x: &Value, y: &Value) {
        self.tool("Input.dispatchMouseEvent", &json!({"type": "mouseMoved", "x": x, "y": y}));
    }

    /// Logs in with a token, and waits for the overview.
    pub(crate) fn log_in(&self, token: &str) {
        self.open("/console/login");
        self.type_into("input[name=token]", token);
        self.click("form button");
        self.wait("the overview after the login", "return location.pathname === '/console'");
    }

    /// Changes the size of the page; a phone has a touch screen as well.
    pub(crate) fn resize(&self, width: u32, height: u32) {
        let phone = width < 600;
        self.tool(
            "Emulation.setDeviceMetricsOverride",
            &json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": phone}),
        );
        self.tool("Emulation.setTouchEmulationEnabled", &json!({"enabled": phone}));
    }

    /// Changes what the system of the person prefers, such as `prefers-color-scheme`.
    pub(crate) fn prefer(&self, feature: &str, value: &str) {
        self.tool("Emulation.setEmulatedMedia", &json!({"features": [{"name": feature, "value": value}]}));
    }

    /// Saves a picture of the whole page.
    pub(crate) fn save_picture(&self, path: &Path) {
        let size = self.run("return [innerWidth, document.documentElement.scrollHeight]", &[]);
        let clip = json!({"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1});
        let taken = self.tool(
            "Page.captureScreenshot",
            &json!({"format": "png", "captureBeyondViewport": true, "clip": clip}),
        );
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, BASE64_STANDARD.decode(taken["data"].as_str().unwrap()).unwrap()).unwrap();
    }

    /// What the page complained of since this was asked last: scripts that failed, what the policy forbade, files that
    /// did not load.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let logged = self.vendor("se/log", &json!({"type": "browser"}));
        let lines = logged.as_array().unwrap().iter();
        let bad = lines.filter(|line| matches!(line["level"].as_str(), Some("SEVERE" | "WARNING")));
        bad.map(|line| line["message"].as_str().unwrap().to_owned()).collect()
    }

    /// Asks the developer tools.
    fn tool(&self, command: &str, parameters: &Value) -> Value {
        self.vendor("goog/cdp/execute", &json!({"cmd": command, "params": parameters}))
    }

    /// Asks the driver for what only this browser has.
    fn vendor(&self, call: &str, body: &Value) -> Value {
        let url = format!("http://127.0.0.1:{}/session/{}/{call}", self.driver.port, self.session);
        let answer: Value = self.runtime.block_on(async {
            let sent = reqwest::Client::new().post(&url).json(body).timeout(PATIENCE).send().await.unwrap();
            sent.json().await.unwrap()
        });
        assert!(answer["value"]["error"].is_null(), "{call} {body}: {answer}");
        answer["value"].clone()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Ends the browser with its processes; killing the driver alone would leave them.
        let closing = self.client.clone().close();
        let _ = self.runtime.block_on(async { tokio::time::timeout(Duration::from_secs(10), closing).await });
    }
}
