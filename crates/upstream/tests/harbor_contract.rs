//! Client and fake, with the official interface of Harbor between them: each request and each answer is held to it.

#![expect(clippy::unwrap_used, reason = "a panic is how a test says no")]
#![expect(clippy::print_stdout, reason = "a test says what it leaves out")]

use std::{
    collections::BTreeSet,
    path::PathBuf,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::{Body, Bytes},
    http::{HeaderMap, Method, Response, Uri},
};
use serde_json::{Value, json};
use wardroom_fakes::{fault::Order, harbor as fake};
use wardroom_upstream::{
    Failure, Secret,
    harbor::{Harbor, Lifetime, NewRobot, Options, Permission, Wanted, robot_name},
};

/// Answers of the real Harbor that its interface does not list.
const UNLISTED: &[(&str, &str, u16)] = &[
    // A second robot with one name breaks a rule of its database, which it answers as a conflict.
    ("post", "/robots", 409),
    ("get", "/robots", 401),
];

/// All that the client calls, so that nothing goes unchecked.
const CALLS: &[(&str, &str)] = &[
    ("delete", "/projects/{project_name}/repositories/{repository_name}"),
    ("delete", "/robots/{robot_id}"),
    ("get", "/health"),
    ("get", "/projects/{project_name_or_id}"),
    ("get", "/robots"),
    ("get", "/robots/{robot_id}"),
    ("head", "/projects"),
    ("patch", "/robots/{robot_id}"),
    ("post", "/projects"),
    ("post", "/robots"),
    ("put", "/robots/{robot_id}"),
];

fn swagger() -> Option<Swagger> {
    let default = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data"));
    let folder = std::env::var_os("WARDROOM_CONTRACT_DATA").map_or(default, PathBuf::from);
    let Ok(text) = std::fs::read_to_string(folder.join("specs/harbor-swagger.yaml")) else {
        println!("specs/harbor-swagger.yaml is not there: nothing is checked against it");
        return None;
    };
    Some(Swagger(Arc::new(serde_saphyr::from_str(&text).unwrap())))
}

#[tokio::test]
async fn contract_of_harbor() {
    let Some(swagger) = swagger() else { return };
    let fake = fake::Harbor::start(fake::Options::default()).await.unwrap();
    let proxy = Proxy::start(swagger, fake.url()).await;
    let client = |password: &str| {
        let (url, username, password) = (proxy.url.clone(), "admin".to_owned(), Secret::new(password));
        Harbor::new(Options { url, username, password, certificates: None, timeout: None }).unwrap()
    };
    story(&client("Harbor12345"), &fake).await;
    assert!(client("wrong").find_robot("edge-01").await.unwrap_err().is_denied());
    for status in ["400", "403", "404", "500"] {
        fake.faults().order(Order::once("POST /robots", status)).unwrap();
        let refused = client("Harbor12345").create_robot(&robot("other", "satellite")).await;
        assert!(refused.is_err(), "{status}");
    }

    let found = proxy.found.lock().unwrap();
    assert!(found.wrong.is_empty(), "{}", found.wrong.join("\n"));
    let called: Vec<_> = found.called.iter().map(|(method, path)| (method.as_str(), path.as_str())).collect();
    assert_eq!(called, CALLS, "every call is checked");
    println!("{} exchanges were held to the interface", found.exchanges);
}

fn robot(satellite: &str, project: &str) -> NewRobot {
    NewRobot {
        name: robot_name(satellite),
        description: "a satellite".to_owned(),
        lifetime: Lifetime::Days(30),
        permissions: vec![Permission::pull(project)],
    }
}

async fn story(harbor: &Harbor, fake: &fake::Harbor) {
    harbor.health().await.unwrap();
    assert!(harbor.ensure_project("satellite").await.unwrap().is_new);
    assert!(!harbor.ensure_project("satellite").await.unwrap().is_new);
    fake.faults().order(Order::once("HEAD /projects", "404")).unwrap();
    harbor.ensure_project("satellite").await.unwrap();

    assert_eq!(harbor.find_robot("edge-01").await, Ok(None));
    let created = harbor.create_robot(&robot("edge-01", "satellite")).await.unwrap();
    let twice = harbor.create_robot(&robot("edge-01", "satellite")).await;
    assert!(matches!(twice, Err(Failure::Conflict(_))), "{twice:?}");
    harbor.create_robot(&robot("a--b", "satellite")).await.unwrap();
    assert!(harbor.create_robot(&robot("c", "no-such-project")).await.is_err());
    assert!(harbor.find_robot("edge-01").await.unwrap().is_some());
    for (disable, lifetime) in [(true, Lifetime::Days(60)), (false, Lifetime::Endless)] {
        let permissions = vec![Permission::pull("satellite"), Permission::pull("library")];
        let wanted = Wanted { description: String::new(), disable, lifetime, permissions };
        harbor.update_robot(created.id, &wanted).await.unwrap();
    }
    let nothing = Wanted {
        description: String::new(),
        disable: false,
        lifetime: Lifetime::Endless,
        permissions: Vec::new(),
    };
    assert!(harbor.update_robot(created.id, &nothing).await.is_err());
    harbor.refresh_secret(created.id).await.unwrap();
    for _ in 0..2 {
        harbor.delete_robot(created.id).await.unwrap();
        harbor.delete_repository("satellite", "group-state/eu/state").await.unwrap();
    }
    assert_eq!(harbor.robot(created.id).await, Err(Failure::NotFound));
}

/// The traffic that the proxy saw.
#[derive(Default)]
struct Found {
    exchanges: usize,
    called: BTreeSet<(String, String)>,
    wrong: Vec<String>,
}

struct Proxy {
    url: String,
    found: Arc<Mutex<Found>>,
}

impl Proxy {
    async fn start(swagger: Swagger, target: String) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let found = Arc::new(Mutex::new(Found::default()));
        let (seen, http) = (Arc::clone(&found), reqwest::Client::new());
        let pass = async move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| {
            let request = http.request(method.clone(), format!("{target}{uri}")).headers(headers.clone());
            let response = request.body(body.clone()).send().await.unwrap();
            let status = response.status();
            let answer = response.bytes().await.unwrap();
            let mut seen = seen.lock().unwrap();
            seen.exchanges += 1;
            match swagger.operation(&method, uri.path()) {
                None => seen.wrong.push(format!("{method} {uri}: no such call")),
                Some(operation) => {
                    let wrong = [
                        operation.request(&uri, &headers, &body),
                        operation.response(status.as_u16(), &answer),
                    ];
                    let say = |what: String| format!("{method} {uri} {status}: {what}");
                    seen.wrong.extend(wrong.concat().into_iter().map(say));
                    seen.called.insert((operation.method, operation.path));
                }
            }
            Response::builder().status(status).body(Body::from(answer)).unwrap()
        };
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(pass)).await });
        Self { url, found }
    }
}

#[derive(Clone)]
struct Swagger(Arc<Value>);

/// A call of the interface, as a request names it.
struct Operation {
    swagger: Swagger,
    method: String,
    path: String,
    /// The parameters of the path, by name.
    places: Vec<(String, String)>,
    definition: Value,
}

impl Swagger {
    fn operation(&self, method: &Method, path: &str) -> Option<Operation> {
        let path = path.strip_prefix(self.0["basePath"].as_str()?)?;
        let method = method.as_str().to_lowercase();
        let mut operations = self.0["paths"].as_object()?.iter().filter_map(|(template, methods)| {
            let places = places(template, path)?;
            let definition = methods.get(&method)?.clone();
            let (swagger, method, path) = (self.clone(), method.clone(), template.clone());
            Some(Operation { swagger, method, path, places, definition })
        });
        operations.next()
    }

    fn resolve<'a>(&'a self, value: &'a Value) -> &'a Value {
        match value.get("$ref").and_then(Value::as_str) {
            Some(name) => self.0.pointer(name.strip_prefix('#').unwrap()).expect("references lead somewhere"),
            None => value,
        }
    }

    /// Returns the violations of a schema by a value. An unknown field is one, because it would be ignored.
    fn wrong(&self, schema: &Value, value: &Value, at: &str) -> Vec<String> {
        let schema = self.resolve(schema);
        if value.is_null() && schema["x-nullable"] == true {
            return Vec::new();
        }
        let kind = schema["type"].as_str().unwrap_or("object");
        let say = |what: &str| vec![format!("{at} {what}: {value}")];
        match (kind, value) {
            ("object", Value::Object(fields)) => {
                let known = schema["properties"].as_object();
                let required = schema["required"].as_array().into_iter().flatten();
                let missing = required.filter(|name| !fields.contains_key(name.as_str().unwrap()));
                let mut wrong: Vec<_> = missing.map(|name| format!("{at} lacks {name}")).collect();
                for (name, value) in fields {
                    match known.and_then(|known| known.get(name)) {
                        Some(schema) => wrong.extend(self.wrong(schema, value, &format!("{at}.{name}"))),
                        None => wrong.push(format!("{at}.{name} is unknown")),
                    }
                }
                wrong
            }
            ("array", Value::Array(items)) => {
                items.iter().flat_map(|item| self.wrong(&schema["items"], item, &format!("{at}[]"))).collect()
            }
            ("string", Value::String(text)) => {
                let longest = schema["maxLength"].as_u64().unwrap_or(u64::MAX);
                let is_time = schema["format"] == "date-time";
                if text.chars().count() as u64 > longest {
                    say("is too long")
                } else if is_time && text.parse::<jiff::Timestamp>().is_err() {
                    say("is no time")
                } else {
                    Vec::new()
                }
            }
            ("integer", Value::Number(number)) if number.is_i64() => {
                let largest = schema["maximum"].as_i64().unwrap_or(i64::MAX);
                if number.as_i64().unwrap() > largest { say("is too large") } else { Vec::new() }
            }
            ("boolean", Value::Bool(_)) => Vec::new(),
            _ => say(&format!("is no {kind}")),
        }
    }
}

/// Returns the values of the parameters of a path template, if the path matches.
fn places(template: &str, path: &str) -> Option<Vec<(String, String)>> {
    let (template, path): (Vec<_>, Vec<_>) = (template.split('/').collect(), path.split('/').collect());
    if template.len() != path.len() {
        return None;
    }
    let mut places = Vec::new();
    for (part, found) in template.iter().zip(path) {
        match part.strip_prefix('{').and_then(|part| part.strip_suffix('}')) {
            Some(name) if !found.is_empty() => places.push((name.to_owned(), found.to_owned())),
            None if *part == found => {}
            _ => return None,
        }
    }
    Some(places)
}

impl Operation {
    fn request(&self, uri: &Uri, headers: &HeaderMap, body: &Bytes) -> Vec<String> {
        let listed = self.definition["parameters"].as_array().cloned().unwrap_or_default();
        let listed: Vec<_> = listed.iter().map(|parameter| self.swagger.resolve(parameter)).collect();
        let query = uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty());
        let query: Vec<_> = query.map(|pair| pair.split_once('=').unwrap_or((pair, ""))).collect();
        let ours = |name: &str| name.starts_with("x-");
        let headers = headers.iter().filter(|(name, _)| ours(name.as_str()));
        let headers: Vec<_> = headers.map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
        let places: Vec<_> =
            self.places.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();

        let mut wrong = Vec::new();
        for (place, given) in [("query", &query), ("header", &headers), ("path", &places)] {
            let known: Vec<_> = listed.iter().filter(|parameter| parameter["in"] == place).collect();
            let is = |parameter: &Value, name: &str| {
                parameter["name"].as_str().is_some_and(|known| known.eq_ignore_ascii_case(name))
            };
            for (name, value) in given {
                match known.iter().find(|parameter| is(parameter, name)) {
                    None => wrong.push(format!("{place} {name} is unknown")),
                    Some(schema) => wrong.extend(self.swagger.wrong(schema, &typed(schema, value), name)),
                }
            }
            let missing = known.iter().filter(|parameter| {
                parameter["required"] == true && !given.iter().any(|(name, _)| is(parameter, name))
            });
            wrong.extend(missing.map(|parameter| format!("{place} lacks {}", parameter["name"])));
        }
        match listed.iter().find(|parameter| parameter["in"] == "body") {
            Some(parameter) => match serde_json::from_slice(body) {
                Ok(body) => wrong.extend(self.swagger.wrong(&parameter["schema"], &body, "body")),
                Err(error) => wrong.push(format!("the body is no JSON: {error}")),
            },
            None if body.is_empty() => {}
            None => wrong.push("there should be no body".to_owned()),
        }
        wrong
    }

    fn response(&self, status: u16, body: &Bytes) -> Vec<String> {
        let Some(listed) = self.definition["responses"].get(status.to_string()) else {
            let is_known = UNLISTED.contains(&(&self.method, &self.path, status));
            return if is_known { Vec::new() } else { vec!["this status is not listed".to_owned()] };
        };
        if self.method == "head" {
            return if body.is_empty() { Vec::new() } else { vec!["HEAD with a body".to_owned()] };
        }
        match self.swagger.resolve(listed).get("schema") {
            None if body.is_empty() => Vec::new(),
            None => vec!["there should be no body".to_owned()],
            Some(schema) => match serde_json::from_slice(body) {
                Ok(body) => self.swagger.wrong(schema, &body, "answer"),
                Err(error) => vec![format!("the answer is no JSON: {error}")],
            },
        }
    }
}

/// A text of a URL as the type that is expected, where it is one.
fn typed(schema: &Value, text: &str) -> Value {
    match schema["type"].as_str() {
        Some("integer") => text.parse::<i64>().map_or_else(|_| json!(text), |number| json!(number)),
        Some("boolean") => text.parse::<bool>().map_or_else(|_| json!(text), |value| json!(value)),
        _ => json!(text),
    }
}

#[test]
fn contract_checks_notice_what_is_wrong() {
    let Some(swagger) = swagger() else { return };
    let operation = |method, path: &str| swagger.operation(&method, &format!("/api/v2.0{path}"));
    let bytes = |value: Value| Bytes::from(value.to_string());
    let none = HeaderMap::new();
    let update = operation(Method::PUT, "/robots/7").unwrap();
    let uri = Uri::from_static("/api/v2.0/robots/7");
    assert_eq!(update.request(&uri, &none, &bytes(json!({"name": "a", "disable": true}))), [""; 0]);
    for wrong in [
        json!({"name": 1}),
        json!({"nmae": "a"}),
        json!({"disable": "yes"}),
        json!({"permissions": {}}),
        json!({"permissions": [{"access": [{"resource": 1}]}]}),
        json!({"creation_time": "yesterday"}),
        json!({"expires_at": 1.5}),
        json!({"name": null}),
    ] {
        assert_eq!(update.request(&uri, &none, &bytes(wrong.clone())).len(), 1, "{wrong}");
    }
    assert_eq!(update.request(&uri, &none, &Bytes::new()).len(), 1, "a body is needed");
    assert_eq!(update.response(418, &Bytes::new()).len(), 1, "a status must be listed");
    assert_eq!(update.response(404, &bytes(json!({"message": "x"}))).len(), 1);
    assert_eq!(update.response(200, &bytes(json!({}))).len(), 1);

    let list = operation(Method::GET, "/robots").unwrap();
    for (query, count) in [("q=name=a", 0), ("page_size=101", 1), ("page=x", 1), ("name=a", 1)] {
        let uri: Uri = format!("/api/v2.0/robots?{query}").parse().unwrap();
        assert_eq!(list.request(&uri, &none, &Bytes::new()).len(), count, "{query}");
    }
    let named = operation(Method::GET, "/robots/seven").unwrap();
    assert_eq!(named.request(&"/api/v2.0/robots/seven".parse().unwrap(), &none, &Bytes::new()).len(), 1);
    let head = operation(Method::HEAD, "/projects").unwrap();
    assert_eq!(head.request(&Uri::from_static("/api/v2.0/projects"), &none, &Bytes::new()).len(), 1);
    assert!(operation(Method::POST, "/robots/7").is_none());
    assert!(operation(Method::DELETE, "/projects/p/repositories/a/b").is_none(), "slashes are encoded");
}
