//! One server with a store of its own, and a client.

use std::time::Duration;

use reqwest::{Client, Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinHandle};
use wardroom_server::{
    platform::config::{Sources, resolve},
    serve::Server,
};

use crate::testing;

/// Makes two tests of each function: on SQLite, and on PostgreSQL.
macro_rules! on_both {
    ($($test:ident),+ $(,)?) => {
        $(mod $test {
            use crate::site::{Backend, DATABASE};

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_sqlite() {
                DATABASE.scope(Backend::Sqlite, super::$test()).await;
            }

            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn on_postgres() {
                DATABASE.scope(Backend::Postgres, super::$test()).await;
            }
        })+
    };
}
pub(crate) use on_both;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Backend {
    Sqlite,
    Postgres,
}

tokio::task_local! {
    /// Where the servers of a test keep their data.
    pub(crate) static DATABASE: Backend;
}

pub(crate) struct Site {
    pub(crate) url: String,
    pub(crate) spiffe: Option<std::net::SocketAddr>,
    pub(crate) http: Client,
    pub(crate) dir: tempfile::TempDir,
    file: String,
    token: String,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
    _database: Option<testing::Database>,
}

/// The credential of a satellite.
#[derive(Debug, Clone)]
pub(crate) struct Credential {
    pub(crate) state: String,
    pub(crate) username: String,
    pub(crate) password: String,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: Value,
}

impl Answer {
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.body);
        self.body
    }
}

impl Site {
    /// Starts a server with these sections in its configuration, which may begin with keys of `[server]`.
    pub(crate) async fn start(sections: &str) -> Self {
        let database = match DATABASE.get() {
            Backend::Sqlite => None,
            Backend::Postgres => Some(testing::database().await),
        };
        Self::open(sections, tempfile::tempdir().unwrap(), database, None).await
    }

    /// Ends the server, and starts it again with other sections.
    pub(crate) async fn restart(self, sections: &str) -> Self {
        self.stop.send_replace(true);
        self.task.await.unwrap();
        Self::open(sections, self.dir, self._database, Some(self.token)).await
    }

    /// Kills the server at any point, and starts another one.
    pub(crate) async fn kill(self, sections: &str) -> Self {
        self.task.abort();
        assert!(self.task.await.is_err_and(|error| error.is_cancelled()));
        // Its connections are closed a moment later.
        tokio::time::sleep(Duration::from_secs(1)).await;
        Self::open(sections, self.dir, self._database, Some(self.token)).await
    }

    async fn open(
        sections: &str,
        dir: tempfile::TempDir,
        database: Option<testing::Database>,
        token: Option<String>,
    ) -> Self {
        let data = dir.path().join("data");
        let database_url = database.as_ref().map_or("", |database| &database.url);
        let file = format!(
            "[boot]\nlisten = \"\"\n[server]\nlisten = \"127.0.0.1:0\"\ndata_dir = {data:?}\ndatabase_url = {database_url:?}\nshutdown_seconds = 3\n{sections}"
        );
        Self::run(dir, file, database, token).await
    }

    /// Starts another server on the same database, which must be PostgreSQL.
    pub(crate) async fn beside(&self) -> Self {
        self.beside_with("", "").await
    }

    /// The same, with another text instead of one in its configuration.
    pub(crate) async fn beside_with(&self, instead_of: &str, this: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (old, new) = (self.dir.path().join("data"), dir.path().join("data"));
        let key = format!("data_dir = {new:?}\nkey_file = {:?}", old.join("server.key"));
        let file = self.file.replacen(&format!("data_dir = {old:?}"), &key, 1);
        let file = file.replace(instead_of, this);
        Self::run(dir, file, None, Some(self.token.clone())).await
    }

    async fn run(
        dir: tempfile::TempDir,
        file: String,
        database: Option<testing::Database>,
        token: Option<String>,
    ) -> Self {
        let config =
            resolve(&Sources { file: Some(file.clone()), ..Sources::default() }, wardroom_server::KINDS)
                .unwrap();
        let server = Server::start(config).await.unwrap();
        let first = || std::fs::read_to_string(server.first_token.clone().unwrap()).unwrap();
        let token = token.unwrap_or_else(first).trim().to_owned();
        let (url, spiffe) = (format!("http://{}", server.address), server.spiffe_address);
        let (stop, stopped) = watch::channel(false);
        let task = tokio::spawn(server.run(stopped));
        let http = Client::builder().no_proxy().build().unwrap();
        Self { url, spiffe, http, dir, file, token, stop, task, _database: database }
    }

    /// Ends the server and gives its folder.
    pub(crate) async fn end(self) -> tempfile::TempDir {
        self.stop.send_replace(true);
        self.task.await.unwrap();
        self.dir
    }

    /// The administrator's.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Everything that is stored, as far as it is text.
    pub(crate) async fn stored(&self) -> String {
        if let Some(database) = &self._database {
            return texts(&database.url).await;
        }
        let files = std::fs::read_dir(self.dir.path().join("data")).unwrap();
        let files = files.filter_map(|file| std::fs::read(file.unwrap().path()).ok());
        files.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).collect()
    }

    pub(crate) async fn ask(&self, method: Method, path: &str, body: Option<Value>) -> Answer {
        let request = self.http.request(method, format!("{}{path}", self.url)).bearer_auth(&self.token);
        send(if let Some(body) = body { request.json(&body) } else { request }).await
    }

    pub(crate) async fn get(&self, path: &str) -> Value {
        self.ask(Method::GET, path, None).await.expect(200)
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.ask(Method::POST, path, Some(body)).await
    }

    /// Makes or replaces a group with these repositories.
    pub(crate) async fn group(&self, name: &str, repositories: &[&str]) {
        let artifact = |repository: &&str| json!({"repository": repository, "tag": ["latest"]});
        let artifacts: Vec<_> = repositories.iter().map(artifact).collect();
        let group =
            json!({"group": name, "registry": "https://registry.example.com", "artifacts": artifacts});
        self.post("/api/groups/sync", group).await.expect(200);
    }

    /// Creates a satellite and gives its registration token.
    pub(crate) async fn create(&self, name: &str, groups: &[&str]) -> String {
        let created = self.post("/api/satellites", json!({"name": name, "groups": groups})).await.expect(200);
        created["token"].as_str().unwrap().to_owned()
    }

    /// Registers a satellite as soon as it can be.
    pub(crate) async fn register(&self, token: &str) -> Credential {
        let registered = eventually("a registration", async || {
            let request = self.http.post(format!("{}/satellites/ztr", self.url));
            let answer = send(request.json(&json!({"token": token}))).await;
            assert!(matches!(answer.status, 200 | 503), "{}: {}", answer.status, answer.body);
            (answer.status == 200).then_some(answer.body)
        });
        Credential::of(&registered.await)
    }

    pub(crate) async fn beat(&self, credential: &Credential) -> u16 {
        let request = self.http.post(format!("{}/satellites/sync", self.url));
        send(credential.sign(request).json(&json!({}))).await.status
    }

    /// The effects of a satellite: type, progress and last error.
    pub(crate) async fn effects(&self, name: &str) -> Vec<(String, String, String)> {
        let effects = self.get(&format!("/api/satellites/{name}/effects")).await;
        let text = |effect: &Value, field: &str| effect[field].as_str().unwrap_or_default().to_owned();
        let effects = effects["data"].as_array().unwrap().iter();
        effects
            .map(|effect| (text(effect, "type"), text(effect, "progress"), text(effect, "last_error")))
            .collect()
    }

    /// Waits until a satellite has no pending effects, except the named ones.
    pub(crate) async fn settled(&self, name: &str, but: &[&str]) {
        eventually("effects to be done", async || {
            let effects = self.effects(name).await;
            effects
                .iter()
                .all(|(type_, progress, _)| progress == "done" || but.contains(&&**type_))
                .then_some(())
        })
        .await;
    }
}

impl Credential {
    pub(crate) fn of(registration: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let auth = &registration["auth"];
        Self {
            state: text(&registration["state"]),
            username: text(&auth["username"]),
            password: text(&auth["password"]),
        }
    }

    pub(crate) fn sign(&self, request: RequestBuilder) -> RequestBuilder {
        request.basic_auth(&self.username, Some(&self.password))
    }
}

async fn texts(url: &str) -> String {
    const ALL: &str = "SELECT document FROM resources UNION ALL SELECT metadata FROM history";
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    let read = async {
        let rows = client.query(ALL, &[]).await.unwrap();
        drop(client);
        rows.iter().filter_map(|row| row.get::<_, Option<String>>(0)).collect()
    };
    tokio::join!(read, connection).0
}

pub(crate) async fn send(request: RequestBuilder) -> Answer {
    let response = request.send().await.unwrap();
    let status = response.status().as_u16();
    let bytes = response.bytes().await.unwrap();
    Answer { status, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null) }
}

/// Asks until there is an answer, for a bounded time.
pub(crate) async fn eventually<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..1200 {
        if let Some(answer) = ask().await {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("waited a minute for {what}");
}
