//! Harbor, over its API v2.0: robot accounts, projects, repositories and health.
//!
//! It retries nothing and holds no state. Two writers of one robot must take turns, because the last write
//! wins. So every update sets all fields of a robot, `disable` above all, from our own records.

use std::{fmt, time::Duration};

use reqwest::{Method, Url};
use serde_json::json;

use crate::{
    Failure, Secret,
    exchange::{self, Reply},
};

mod robot;
mod secret;

pub use robot::{Access, Created, Lifetime, NewRobot, Permission, Robot, Wanted, extension, robot_name};

/// The address of Harbor and the account to use. It is a user's: robots may create robots but not change them.
#[derive(Debug, Clone)]
pub struct Options {
    /// Such as `https://harbor.example`.
    pub url: String,
    /// The user.
    pub username: String,
    /// The user's password.
    pub password: Secret,
    /// The only certificates to trust, as PEM; the system's when absent.
    pub certificates: Option<Vec<u8>>,
    /// How long an answer may take; half a minute when absent.
    pub timeout: Option<Duration>,
}

/// A client of one Harbor.
#[derive(Clone)]
pub struct Harbor {
    http: reqwest::Client,
    base: Url,
    username: String,
    password: Secret,
    timeout: Duration,
}

impl fmt::Debug for Harbor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Harbor").field("base", &self.base.as_str()).finish_non_exhaustive()
    }
}

/// Harbor's own health.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
pub struct Health {
    /// `healthy` when every component is.
    #[serde(default)]
    pub status: String,
    /// Each component.
    #[serde(default)]
    pub components: Vec<Component>,
}

/// A part of Harbor.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
pub struct Component {
    /// Its name.
    #[serde(default)]
    pub name: String,
    /// `healthy` or `unhealthy`.
    #[serde(default)]
    pub status: String,
}

/// Components that neither robots nor pulls depend on.
const SPARE: &[&str] = &["jobservice", "portal", "registryctl", "trivy"];

impl Health {
    /// Whether the components that satellites need are up.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        let needed = || self.components.iter().filter(|part| !SPARE.contains(&part.name.as_str()));
        if self.components.is_empty() {
            return self.status == "healthy";
        }
        needed().all(|part| part.status == "healthy")
    }
}

/// An existing project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Project {
    /// Whether this call created it.
    pub is_new: bool,
    /// Whether it can be read without credentials: configs of satellites must not be in such a project.
    pub is_public: bool,
}

impl Harbor {
    /// Makes a client; nothing is sent yet.
    ///
    /// # Errors
    /// [`Failure::Setup`] when an option cannot be used.
    pub fn new(options: Options) -> Result<Self, Failure> {
        let base = exchange::base(&options.url)?;
        let http = exchange::client(&base, options.certificates.as_deref())?;
        let timeout = options.timeout.unwrap_or(exchange::ANSWER);
        Ok(Self { http, base, username: options.username, password: options.password, timeout })
    }

    /// Asks how Harbor is.
    ///
    /// # Errors
    /// See [`Failure`]; nothing is changed.
    pub async fn health(&self) -> Result<Health, Failure> {
        self.call(Method::GET, &["health"], &[], None, &[200]).await?.json()
    }

    /// Finds a robot by its name without Harbor's prefix, at the level of the system.
    ///
    /// # Errors
    /// See [`Failure`]; nothing is changed.
    pub async fn find_robot(&self, name: &str) -> Result<Option<Robot>, Failure> {
        let query = format!("name={name}");
        let reply = self.call(Method::GET, &["robots"], &[("q", &query)], None, &[200]).await?;
        // Harbor sends null for an empty list.
        let robots: Option<Vec<Robot>> = reply.json()?;
        let mut matching = robots.unwrap_or_default();
        // The prefix is a setting of Harbor, and prefixed names are all it returns.
        matching.retain(|robot| robot.level == robot::SYSTEM && robot.name.ends_with(name));
        match matching.len() {
            0 | 1 => Ok(matching.pop()),
            several => Err(Failure::Unexpected(format!("{several} robots with the same name"))),
        }
    }

    /// Creates a robot. The secret is in the answer and nowhere else: when the answer is lost, find the robot and
    /// refresh its secret.
    ///
    /// # Errors
    /// [`Failure::Conflict`] when there is one with this name; else see [`Failure`].
    pub async fn create_robot(&self, robot: &NewRobot) -> Result<Created, Failure> {
        let body = json!({
            "name": robot.name,
            "description": robot.description,
            "level": robot::SYSTEM,
            "duration": robot.lifetime.days(),
            "disable": false,
            "permissions": robot.permissions,
        });
        self.call(Method::POST, &["robots"], &[], Some(&body), &[201]).await?.json()
    }

    /// Reads a robot.
    ///
    /// # Errors
    /// [`Failure::NotFound`] when there is none; else see [`Failure`].
    pub async fn robot(&self, id: i64) -> Result<Robot, Failure> {
        self.call(Method::GET, &["robots", &id.to_string()], &[], None, &[200]).await?.json()
    }

    /// Updates a robot. Harbor takes the whole object and wants its name and level unchanged, so
    /// these are read first; everything else is the caller's. Repeating it changes nothing more.
    ///
    /// # Errors
    /// [`Failure::NotFound`] when there is none; else see [`Failure`].
    pub async fn update_robot(&self, id: i64, wanted: &Wanted) -> Result<(), Failure> {
        let robot = self.robot(id).await?;
        let body = json!({
            "id": id,
            "name": robot.name,
            "level": robot.level,
            "description": wanted.description,
            "duration": wanted.lifetime.days(),
            "disable": wanted.disable,
            "permissions": wanted.permissions,
        });
        self.call(Method::PUT, &["robots", &id.to_string()], &[], Some(&body), &[200]).await.map(drop)
    }

    /// Gives a robot a new secret at once; the old one is void, and the robot expires no later than before.
    ///
    /// # Errors
    /// [`Failure::NotFound`] when there is none; else see [`Failure`].
    pub async fn refresh_secret(&self, id: i64) -> Result<Secret, Failure> {
        #[derive(serde::Deserialize)]
        struct Answer {
            secret: Secret,
        }
        let body = json!({"secret": ""});
        let reply = self.call(Method::PATCH, &["robots", &id.to_string()], &[], Some(&body), &[200]).await?;
        let Answer { secret } = reply.json()?;
        if secret.expose().is_empty() {
            return Err(Failure::Unexpected("the refreshed secret is missing".to_owned()));
        }
        Ok(secret)
    }

    /// Deletes a robot; a missing one counts as success.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn delete_robot(&self, id: i64) -> Result<(), Failure> {
        self.call(Method::DELETE, &["robots", &id.to_string()], &[], None, &[200, 404]).await.map(drop)
    }

    /// Creates a private project, unless it exists. An existing one is not changed.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn ensure_project(&self, name: &str) -> Result<Project, Failure> {
        let query = [("project_name", name)];
        let there = self.call(Method::HEAD, &["projects"], &query, None, &[200, 404]).await?.status == 200;
        let is_new = !there && self.create_project(name).await?;
        #[derive(serde::Deserialize)]
        struct Answer {
            #[serde(default)]
            metadata: std::collections::BTreeMap<String, Option<String>>,
        }
        let answer: Answer = self.call(Method::GET, &["projects", name], &[], None, &[200]).await?.json()?;
        let is_public = answer.metadata.get("public").is_some_and(|public| public.as_deref() == Some("true"));
        Ok(Project { is_new, is_public })
    }

    async fn create_project(&self, name: &str) -> Result<bool, Failure> {
        let body = json!({"project_name": name, "metadata": {"public": "false"}, "storage_limit": -1});
        let reply = self.call(Method::POST, &["projects"], &[], Some(&body), &[201, 409]).await?;
        Ok(reply.status == 201)
    }

    /// Deletes a repository with all its contents; a missing one counts as success.
    ///
    /// # Errors
    /// See [`Failure`].
    pub async fn delete_repository(&self, project: &str, repository: &str) -> Result<(), Failure> {
        // Harbor decodes the name twice; the second time is that of the URL itself.
        let once = repository.replace('%', "%25").replace('/', "%2F");
        let path = ["projects", project, "repositories", &once];
        self.call(Method::DELETE, &path, &[], None, &[200, 404]).await.map(drop)
    }

    async fn call(
        &self,
        method: Method,
        path: &[&str],
        query: &[(&str, &str)],
        body: Option<&serde_json::Value>,
        expected: &[u16],
    ) -> Result<Reply, Failure> {
        let mut url = self.base.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(["api", "v2.0"]).extend(path);
        }
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let is_name = path.first() == Some(&"projects") && method == Method::GET;
        let mut request =
            self.http.request(method, url).basic_auth(&self.username, Some(self.password.expose()));
        if is_name {
            // A project may be called `7`, which is not the seventh project.
            request = request.header("x-is-resource-name", "true");
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        exchange::send(request, self.timeout).await?.expect(expected, &[self.password.expose()])
    }
}
