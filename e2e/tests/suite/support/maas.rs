//! A fake of MAAS, as the process it would be.

use std::{
    fs,
    io::{BufRead as _, BufReader},
    process::{Child, Command, Stdio},
};

use serde_json::{Value, json};

use super::{Api, Site, site::fakes};

/// The fake of MAAS as a process of its own.
pub(crate) struct Maas {
    child: Child,
    pub(crate) api: Api,
}

impl Maas {
    pub(crate) fn start() -> Self {
        let mut child =
            Command::new(fakes()).args(["maas", "--pace", "50"]).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().trim_start_matches("http://").trim_end_matches("/MAAS");
        Self { child, api: Api::new(address.parse().unwrap(), None) }
    }

    /// How often something was done to a machine, or to any.
    pub(crate) fn did(&self, machine: Option<&str>, op: &str) -> u64 {
        let effects = self.api.get("/_fake/effects").expect(200);
        let of = |ops: &Value| ops[op].as_u64().unwrap_or(0);
        match machine {
            Some(machine) => of(&effects[machine]),
            None => effects.as_object().unwrap().values().map(of).sum(),
        }
    }
}

impl Maas {
    /// Makes it the MAAS of a site, with some settings.
    pub(crate) fn serves(&self, site: &Site, name: &str, settings: &Value) {
        for index in 0..site.servers.len() {
            fs::write(site.data_dir(index).join("secrets/maas"), "consumer:token:secret").unwrap();
        }
        site.admin().post("/api/v1/sites", &self.spec(name, settings)).expect(201);
    }

    /// A site that has it, with some settings.
    pub(crate) fn spec(&self, name: &str, settings: &Value) -> Value {
        let mut all = json!({
            "url": format!("http://{}/MAAS", self.api.address), "key": "file:maas",
            "provisioning_subnet": "provisioning", "boot_disk": {"model": "BOSS"}, "hardware_sync": false,
            "bmc_networks": ["127.0.0.0/8"], "bmc_credentials": ["file:bmc/*"],
            "deploys_per_minute": 1000.0, "user_data": "{{token}}",
        });
        all.as_object_mut().unwrap().extend(settings.as_object().unwrap().clone());
        json!({"name": name, "settings": all})
    }

    /// How many requests it has answered.
    pub(crate) fn answered(&self) -> u64 {
        let requests = self.api.get("/_fake/requests").expect(200);
        requests.as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum()
    }
}

impl Drop for Maas {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
