//! Satellites, as they and their administrators see them.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};

use super::{Api, Reply, Site};

/// The credential of a satellite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Robot {
    pub(crate) username: String,
    pub(crate) password: String,
}

impl Robot {
    /// The answer to a registration or a refresh.
    #[track_caller]
    pub(crate) fn of(reply: &Reply) -> Self {
        let auth = &reply.expect(200)["auth"];
        let text = |field: &str| auth[field].as_str().unwrap().to_owned();
        Self { username: text("username"), password: text("password") }
    }

    /// A server, as this satellite.
    pub(crate) fn at(&self, site: &Site, index: usize) -> Api {
        let basic = BASE64_STANDARD.encode(format!("{}:{}", self.username, self.password));
        site.caller(index, None).with("authorization", &format!("Basic {basic}"))
    }

    /// A heartbeat.
    pub(crate) fn beat(&self, site: &Site, index: usize) -> Reply {
        self.at(site, index).post("/satellites/sync", &json!({}))
    }

    /// An exchange of the credential.
    pub(crate) fn refresh(&self, site: &Site, index: usize) -> Reply {
        self.at(site, index).send("POST", "/satellites/refresh", b"")
    }
}

/// Creates a satellite and gives its registration token.
#[track_caller]
pub(crate) fn create(site: &Site, name: &str) -> String {
    let made = site.admin().post("/api/satellites", &json!({"name": name})).expect(200);
    assert_eq!(made["data"]["status"], "pending");
    made["token"].as_str().unwrap().to_owned()
}

/// Exchanges a token, as clients do.
pub(crate) fn ztr(site: &Site, index: usize, token: &str) -> Reply {
    site.caller(index, None).get(&format!("/satellites/ztr/{token}"))
}

/// A satellite that is online.
#[track_caller]
pub(crate) fn online(site: &Site, name: &str) -> Robot {
    let token = create(site, name);
    Robot::of(&ztr(site, name.len(), &token))
}

pub(crate) fn get(site: &Site, name: &str) -> Value {
    site.admin().get(&format!("/api/satellites/{name}")).expect(200)["data"].clone()
}

#[track_caller]
pub(crate) fn revoke(site: &Site, name: &str) -> Value {
    site.admin().post(&format!("/api/satellites/{name}/revoke"), &json!({"comment": "lost"})).expect(200)
}

#[track_caller]
pub(crate) fn reenable(site: &Site, name: &str, mode: &str) -> Value {
    site.admin().post(&format!("/api/satellites/{name}/reenable"), &json!({"mode": mode})).expect(200)
}
