//! Systems of a BMC: which there are, whether they are on, how they boot.

use reqwest::Method;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::json;

use super::{
    Class, Error, Redfish,
    call::{Answer, Op},
};
use crate::reply;

/// One system, as far as we use it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct System {
    /// Where it is in the tree; calls take this.
    #[serde(rename = "@odata.id")]
    pub path: String,
    /// The BMC's id.
    #[serde(default, rename = "Id")]
    pub id: String,
    /// The name for people.
    #[serde(default, rename = "Name", deserialize_with = "or_default")]
    pub name: String,
    /// The UUID in the firmware.
    #[serde(default, rename = "UUID")]
    pub uuid: Option<String>,
    /// The serial number.
    #[serde(default, rename = "SerialNumber")]
    pub serial: Option<String>,
    /// The vendor.
    #[serde(default, rename = "Manufacturer")]
    pub manufacturer: Option<String>,
    /// The model.
    #[serde(default, rename = "Model")]
    pub model: Option<String>,
    /// Whether it is on.
    #[serde(default, rename = "PowerState", deserialize_with = "or_default")]
    pub power: PowerState,
    /// How it boots the next time.
    #[serde(default, rename = "Boot", deserialize_with = "or_default")]
    pub boot: Override,
    #[serde(default, rename = "Actions", deserialize_with = "or_default")]
    actions: Actions,
}

/// Whether a system is on. On its way it is neither: only `Off` is off.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
pub enum PowerState {
    /// It is on.
    On,
    /// It is off.
    Off,
    /// It will be on.
    PoweringOn,
    /// It will be off.
    PoweringOff,
    /// The BMC reports another state, or none.
    #[default]
    #[serde(other)]
    Unknown,
}

/// A boot source instead of the usual one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Override {
    /// `Disabled`, `Once` or `Continuous`.
    #[serde(default, rename = "BootSourceOverrideEnabled")]
    pub enabled: Option<String>,
    /// Such as `Pxe`.
    #[serde(default, rename = "BootSourceOverrideTarget")]
    pub target: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
struct Actions {
    #[serde(default, rename = "#ComputerSystem.Reset")]
    reset: Option<ResetAction>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct ResetAction {
    target: String,
    #[serde(default, rename = "ResetType@Redfish.AllowableValues")]
    allowed: Vec<String>,
}

/// A change of power.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    /// Turn it on.
    On,
    /// Cut the power.
    ForceOff,
    /// Ask the operating system to shut down.
    GracefulShutdown,
    /// Cut the power and turn it on.
    ForceRestart,
}

impl Reset {
    /// The name in Redfish.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::On => "On",
            Self::ForceOff => "ForceOff",
            Self::GracefulShutdown => "GracefulShutdown",
            Self::ForceRestart => "ForceRestart",
        }
    }
}

const SYSTEMS: &str = "/redfish/v1/Systems";

impl Redfish {
    /// Whether user and password work, by one read that needs them. One try: a BMC counts the wrong ones.
    ///
    /// # Errors
    /// [`Class::Credentials`] when they do not; any other class leaves open whether they would.
    pub async fn check_credentials(&self) -> Result<(), Error> {
        self.members("check_credentials").await.map(drop)
    }

    /// The paths of the systems that this BMC has.
    ///
    /// # Errors
    /// When the BMC does not answer with them.
    pub async fn systems(&self) -> Result<Vec<String>, Error> {
        self.members("systems").await
    }

    /// One system, by its path, or by its id.
    ///
    /// # Errors
    /// When the BMC does not answer with it.
    pub async fn system(&self, system: &str) -> Result<System, Error> {
        self.read("system", system).await.map(|(system, _)| system)
    }

    /// Whether a system is on.
    ///
    /// # Errors
    /// When the BMC does not answer.
    pub async fn power(&self, system: &str) -> Result<PowerState, Error> {
        self.read("power", system).await.map(|(system, _)| system.power)
    }

    /// Changes the power. The BMC takes it before it is done: look at the power afterwards.
    ///
    /// # Errors
    /// When the BMC does not take it.
    pub async fn reset(&self, system: &str, reset: Reset) -> Result<(), Error> {
        let op = Op("reset", reset != Reset::ForceRestart);
        let (found, _) = self.read("reset", system).await?;
        let usual = || format!("{}/Actions/ComputerSystem.Reset", found.path.trim_end_matches('/'));
        let action = found.actions.reset.as_ref();
        if action.is_some_and(|action| !allows(&action.allowed, reset)) {
            let said = format!("it does not offer {}", reset.as_str());
            return Err(Error { op: op.0, harmless: op.1, class: Class::Refused { status: 400, said } });
        }
        let target = action.map_or_else(usual, |action| action.target.clone());
        let body = json!({"ResetType": reset.as_str()});
        self.call(&op, Method::POST, &target, Some(&body), None).await.map(drop)
    }

    /// Makes a system boot from the network once.
    ///
    /// # Errors
    /// When the BMC does not take it.
    pub async fn boot_from_network_once(&self, system: &str) -> Result<(), Error> {
        let op = Op("boot_from_network_once", true);
        let (found, answer) = self.read(op.0, system).await?;
        let body = json!({
            "Boot": {"BootSourceOverrideEnabled": "Once", "BootSourceOverrideTarget": "Pxe"},
        });
        // Some BMCs take a change only together with the version that it changes.
        self.call(&op, Method::PATCH, &found.path, Some(&body), answer.etag.as_ref()).await.map(drop)
    }

    async fn members(&self, name: &'static str) -> Result<Vec<String>, Error> {
        #[derive(Deserialize)]
        struct Members {
            #[serde(rename = "Members")]
            members: Vec<Member>,
        }
        #[derive(Deserialize)]
        struct Member {
            #[serde(rename = "@odata.id")]
            path: String,
        }
        let op = Op(name, true);
        let answer = self.call(&op, Method::GET, SYSTEMS, None, None).await?;
        let members: Members = understood(&op, &answer)?;
        Ok(members.members.into_iter().map(|member| member.path).collect())
    }

    async fn read(&self, name: &'static str, system: &str) -> Result<(System, Answer), Error> {
        let op = Op(name, true);
        let path = if system.starts_with('/') { system.to_owned() } else { format!("{SYSTEMS}/{system}") };
        let answer = self.call(&op, Method::GET, &path, None, None).await?;
        Ok((understood(&op, &answer)?, answer))
    }
}

/// A BMC that names no values has the usual ones.
fn allows(allowed: &[String], reset: Reset) -> bool {
    allowed.is_empty() || allowed.iter().any(|name| name == reset.as_str())
}

fn understood<T: DeserializeOwned>(op: &Op, answer: &Answer) -> Result<T, Error> {
    serde_json::from_slice(&answer.body).map_err(|cause| Error {
        op: op.0,
        harmless: op.1,
        class: Class::Unreadable(reply::malformed(&cause)),
    })
}

fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}
