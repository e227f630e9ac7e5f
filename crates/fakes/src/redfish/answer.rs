//! Answers of the BMC.

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http_body_util::Full;
use hyper::{Method, Response, body::Bytes};
use serde_json::{Value, json};

use super::{Bmc, Fault, System, lock};
use crate::wire::{Reply, Request, answer, with};

const RESETS: [&str; 5] = ["On", "ForceOff", "GracefulShutdown", "GracefulRestart", "ForceRestart"];

type Answer = Response<Full<Bytes>>;

pub(super) async fn handle(bmc: Arc<Mutex<Bmc>>, request: Request) -> Reply {
    if let Some(path) = request.path.strip_prefix("/_fake/") {
        return Reply::Answer(control(&mut lock(&bmc), path, &request));
    }
    let fault = {
        let mut bmc = lock(&bmc);
        (!bmc.faults.is_empty()).then(|| bmc.faults.remove(0))
    };
    match fault {
        Some(Fault::Status(status)) => return Reply::Answer(problem(status, "ordered to fail")),
        Some(Fault::Silence) => return Reply::Silence,
        Some(Fault::Slow(milliseconds)) => tokio::time::sleep(Duration::from_millis(milliseconds)).await,
        Some(Fault::LostReply | Fault::Late(_)) | None => {}
    }
    let right = respond(&mut lock(&bmc), &request);
    if let Some(Fault::Late(milliseconds)) = fault {
        tokio::time::sleep(Duration::from_millis(milliseconds)).await;
    }
    if fault == Some(Fault::LostReply) { Reply::HangUp } else { Reply::Answer(right) }
}

fn respond(bmc: &mut Bmc, request: &Request) -> Answer {
    bmc.settle(request.received);
    let path = request.path.trim_end_matches('/');
    if path == "/redfish/v1" {
        let root = json!({"@odata.id": "/redfish/v1/", "Systems": {"@odata.id": "/redfish/v1/Systems"}});
        return shown(&root);
    }
    if !bmc.admits(request) {
        let refused = problem(401, "Authorization failed");
        return with(refused, "www-authenticate", "Basic realm=\"bmc\"");
    }
    let Some(rest) = path.strip_prefix("/redfish/v1/Systems") else { return problem(404, "not here") };
    let parts: Vec<_> = rest.split('/').filter(|part| !part.is_empty()).collect();
    let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
    let delay = bmc.config.delay;
    match (&request.method, &parts[..]) {
        (&Method::GET, []) => {
            let member = |id: &String| json!({"@odata.id": format!("/redfish/v1/Systems/{id}")});
            let members: Vec<_> = bmc.systems.keys().map(member).collect();
            shown(&json!({
                "@odata.id": "/redfish/v1/Systems",
                "Members@odata.count": members.len(),
                "Members": members,
            }))
        }
        (method, [id, rest @ ..]) => match (bmc.systems.get_mut(*id), method, rest) {
            (None, ..) => problem(404, "there is no such system"),
            (Some(system), &Method::GET, []) => shown(&view(id, system)),
            (Some(system), &Method::PATCH, []) => set_boot(system, &body["Boot"]),
            (Some(system), &Method::POST, ["Actions", "ComputerSystem.Reset"]) => {
                reset(system, body["ResetType"].as_str().unwrap_or_default(), request.received + delay)
            }
            _ => problem(405, "not like this"),
        },
        _ => problem(405, "not like this"),
    }
}

impl Bmc {
    /// Checks the password; wrong ones in a row lock the account.
    fn admits(&mut self, request: &Request) -> bool {
        let expected = BASE64_STANDARD.encode(format!("{}:{}", self.config.user, self.config.password));
        let right = request.header("authorization").strip_prefix("Basic ") == Some(expected.as_str());
        let locked = self.config.lock_after.is_some_and(|most| self.wrong_passwords >= most);
        if right && !locked {
            self.wrong_passwords = 0;
        } else if !right {
            self.wrong_passwords += 1;
        }
        right && !locked
    }
}

fn set_boot(system: &mut System, boot: &Value) -> Answer {
    let target = boot["BootSourceOverrideTarget"].as_str().unwrap_or("None");
    match boot["BootSourceOverrideEnabled"].as_str() {
        Some("Once") => system.boot_once = Some(target.to_owned()),
        Some("Disabled") => system.boot_once = None,
        _ => return problem(400, "only once, or not at all"),
    }
    answer(204, "application/json", "")
}

fn reset(system: &mut System, kind: &str, due: Instant) -> Answer {
    let on = match kind {
        "On" => true,
        "ForceOff" | "GracefulShutdown" => false,
        "ForceRestart" | "GracefulRestart" => {
            system.on = false;
            true
        }
        _ => return problem(501, "this reset is not offered"),
    };
    *system.resets.entry(kind.to_owned()).or_default() += 1;
    system.pending = Some((due, on));
    answer(204, "application/json", "")
}

fn view(id: &str, system: &System) -> Value {
    let path = format!("/redfish/v1/Systems/{id}");
    let enabled = if system.boot_once.is_some() { "Once" } else { "Disabled" };
    json!({
        "@odata.type": "#ComputerSystem.v1_1_0.ComputerSystem",
        "@odata.id": path,
        "Id": id,
        "Name": format!("system {id}"),
        "UUID": format!("00000000-0000-4000-8000-{id:0>12}"),
        "SerialNumber": format!("SN{id}"),
        "Manufacturer": "Wardroom",
        "Model": "Fake",
        "PowerState": if system.on { "On" } else { "Off" },
        "Boot": {
            "BootSourceOverrideEnabled": enabled,
            "BootSourceOverrideTarget": system.boot_once.as_deref().unwrap_or("None"),
            "BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Pxe", "Hdd"],
        },
        "Actions": {"#ComputerSystem.Reset": {
            "target": format!("{path}/Actions/ComputerSystem.Reset"),
            "ResetType@Redfish.AllowableValues": RESETS,
        }},
    })
}

fn control(bmc: &mut Bmc, path: &str, request: &Request) -> Answer {
    bmc.settle(request.received);
    match (&request.method, path.trim_end_matches('/')) {
        (&Method::GET, "systems") => shown(&json!(bmc.systems)),
        (&Method::POST, "faults") => match serde_json::from_slice(&request.body) {
            Ok(fault) => {
                bmc.faults.push(fault);
                shown(&json!({}))
            }
            Err(error) => answer(400, "text/plain", error.to_string()),
        },
        _ => answer(404, "text/plain", "There is no such call"),
    }
}

fn shown(value: &Value) -> Answer {
    answer(200, "application/json", value.to_string())
}

fn problem(status: u16, why: &str) -> Answer {
    let body = json!({"error": {"code": "Base.1.0.GeneralError", "message": why}});
    answer(status, "application/json", body.to_string())
}
