//! The fields of a machine in MAAS that we use. Unknown fields are ignored, missing ones have a default.

use std::collections::BTreeMap;

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use serde::{Deserialize, Deserializer};
use wardroom_core::{
    Named as _,
    gpu_node::maas::{Observed, Power, Status},
};

/// One machine. `error_description` is left out on purpose: it stays after recovery and proves nothing.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Machine {
    /// MAAS's id.
    pub system_id: String,
    /// The name without its domain.
    #[serde(default)]
    pub hostname: String,
    /// The status; decisions read this one.
    pub status: Status,
    /// MAAS's label of the status, for people.
    #[serde(default)]
    pub status_name: String,
    /// The last event that mattered, for people.
    #[serde(default)]
    pub status_message: Option<String>,
    /// The type of the last event.
    #[serde(default)]
    pub status_action: Option<String>,
    /// The power as MAAS saw it last.
    #[serde(default = "unknown", deserialize_with = "power")]
    pub power_state: Power,
    /// The driver that powers it.
    #[serde(default, deserialize_with = "or_default")]
    pub power_type: String,
    /// Such as `amd64/generic`.
    #[serde(default, deserialize_with = "or_default")]
    pub architecture: String,
    /// The text that people wrote.
    #[serde(default, deserialize_with = "or_default")]
    pub description: String,
    /// The id of the results of its last commissioning; a new commissioning has a new id.
    #[serde(default, rename = "current_commissioning_result_id")]
    pub commissioning: Option<i64>,
    /// The interface it boots from.
    #[serde(default)]
    pub boot_interface: Option<Interface>,
    /// Every interface.
    #[serde(default, rename = "interface_set")]
    pub interfaces: Vec<Interface>,
    /// The resource pool.
    #[serde(default)]
    pub pool: Option<Named>,
    /// The zone.
    #[serde(default)]
    pub zone: Option<Named>,
    /// The tags.
    #[serde(default, rename = "tag_names")]
    pub tags: Vec<String>,
    /// Its owner; none unless it is worked on or deployed.
    #[serde(default)]
    pub owner: Option<String>,
    /// Notes of its owner; deleted with the release.
    #[serde(default)]
    pub owner_data: BTreeMap<String, String>,
    /// Whether it boots from the network the next time.
    #[serde(default)]
    pub netboot: bool,
    /// Whether MAAS refuses its release and deletion.
    #[serde(default)]
    pub locked: bool,
    /// The operating system it gets or has.
    #[serde(default, deserialize_with = "or_default")]
    pub osystem: String,
    /// The release of that system.
    #[serde(default, deserialize_with = "or_default")]
    pub distro_series: String,
    /// The UUID in the firmware.
    #[serde(default)]
    pub hardware_uuid: Option<String>,
    /// The disks.
    #[serde(default, rename = "physicalblockdevice_set")]
    pub block_devices: Vec<BlockDevice>,
    /// The disk it boots from.
    #[serde(default)]
    pub boot_disk: Option<BlockDevice>,
    /// Whether the deployed system reports its hardware.
    #[serde(default)]
    pub enable_hw_sync: bool,
    /// How often it should, in seconds.
    #[serde(default)]
    pub sync_interval: Option<u64>,
    /// When it last reported. MAAS itself sets it once at the end of a deployment.
    #[serde(default, deserialize_with = "time")]
    pub last_sync: Option<Timestamp>,
    /// When it should the next time.
    #[serde(default, deserialize_with = "time")]
    pub next_sync: Option<Timestamp>,
}

impl Machine {
    /// The observation that the core decides by.
    #[must_use]
    pub const fn observed(&self) -> Observed {
        Observed::Present { status: self.status, power: self.power_state }
    }

    /// Whether it carries a tag.
    #[must_use]
    pub fn has_tag(&self, name: &str) -> bool {
        self.tags.iter().any(|tag| tag == name)
    }
}

/// Something with an id and a name: a pool or a zone.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Named {
    /// The id.
    pub id: i64,
    /// The name.
    pub name: String,
}

/// A disk.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct BlockDevice {
    /// The id, which storage calls take.
    pub id: i64,
    /// The name, which may change with each boot.
    #[serde(default)]
    pub name: String,
    /// The model.
    #[serde(default, deserialize_with = "or_default")]
    pub model: String,
    /// Its serial number.
    #[serde(default, deserialize_with = "or_default")]
    pub serial: String,
    /// Its size in bytes.
    #[serde(default)]
    pub size: u64,
    /// Its use in MAAS, for display.
    #[serde(default)]
    pub used_for: String,
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Interface {
    /// The id, which network calls take.
    pub id: i64,
    /// The name.
    #[serde(default)]
    pub name: String,
    /// The MAC.
    #[serde(default, deserialize_with = "or_default")]
    pub mac_address: String,
    /// Such as `physical` or `bond`.
    #[serde(default, rename = "type")]
    pub kind: String,
    /// The MTU in effect.
    #[serde(default)]
    pub effective_mtu: u32,
    /// The VLAN it is in.
    #[serde(default)]
    pub vlan: Option<Vlan>,
    /// Its links to subnets. Linking twice makes two.
    #[serde(default)]
    pub links: Vec<Link>,
}

/// A link between an interface and a subnet.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Link {
    /// The id, which unlinking takes.
    pub id: i64,
    /// How it gets its address: `auto`, `dhcp`, `static` or `link_up`.
    #[serde(default)]
    pub mode: String,
    /// The subnet.
    #[serde(default)]
    pub subnet: Option<Subnet>,
    /// The address, once there is one.
    #[serde(default)]
    pub ip_address: Option<String>,
}

/// A subnet.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Subnet {
    /// The id.
    pub id: i64,
    /// The name.
    #[serde(default)]
    pub name: String,
    /// The network.
    #[serde(default)]
    pub cidr: String,
    /// The VLAN it is in.
    #[serde(default)]
    pub vlan: Option<Vlan>,
}

/// A VLAN.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Vlan {
    /// The id, which network calls take.
    pub id: i64,
    /// The number on the wire.
    #[serde(default)]
    pub vid: u32,
    /// The MTU.
    #[serde(default)]
    pub mtu: u32,
    /// The fabric it belongs to.
    #[serde(default)]
    pub fabric: String,
}

const fn unknown() -> Power {
    Power::Unknown
}

/// A power state that a newer MAAS knows and we do not is not known to be off.
pub(super) fn power<'de, D: Deserializer<'de>>(from: D) -> Result<Power, D::Error> {
    let name = Option::<String>::deserialize(from)?.unwrap_or_default();
    Ok(Power::ALL.iter().copied().find(|power| power.as_str() == name).unwrap_or(Power::Unknown))
}

fn or_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

/// MAAS writes times without a zone and means UTC; a time in another form is no time.
fn time<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    Ok(text.and_then(|text| {
        let zoned = text.parse::<Timestamp>().ok();
        zoned.or_else(|| {
            let local: DateTime = text.parse().ok()?;
            TimeZone::UTC.to_timestamp(local).ok()
        })
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(text: &str) -> Machine {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_newer_maas_is_still_understood() {
        let machine = machine(
            r#"{"system_id":"x","status":77,"power_state":"napping","architecture":null,"new":{"a":[1]}}"#,
        );
        assert_eq!(machine.status, Status::Unknown(77));
        assert_eq!(machine.power_state, Power::Unknown);
        assert_eq!(machine.architecture, "");
    }

    #[test]
    fn times_are_utc() {
        let machine =
            machine(r#"{"system_id":"x","status":6,"last_sync":"2026-11-15T08:57:31.722","next_sync":"?"}"#);
        assert_eq!(machine.last_sync, Some("2026-11-15T08:57:31.722Z".parse().unwrap()));
        assert_eq!(machine.next_sync, None);
    }
}
