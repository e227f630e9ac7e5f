//! The boot script: what a machine does when it boots over the network, by the state of its node.

use std::fmt::Write as _;

use axum::{
    Extension,
    extract::State,
    http::{HeaderValue, header},
    response::{IntoResponse as _, Response},
};
use jiff::SignedDuration;
use serde::Deserialize;
use utoipa::IntoParams;
use wardroom_api::workflow::Workflow;
use wardroom_core::node::State as NodeState;
use wardroom_store::Resource;

use crate::kinds::node::settings::Settings;
use crate::{
    kinds::{
        node::{
            self,
            document::{self, Document},
        },
        node::{
            boots::{self, Script},
            discovery, install_token,
            report::Hardware,
            workflow,
        },
    },
    platform::{
        app::App,
        http::{error::Error, list::ListQuery, problems::Problems, text},
        identity::auth::Caller,
    },
};

/// The booting machine and its hardware.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct BootQuery {
    /// With colons or hyphens, in any case.
    mac: Option<String>,
    /// The manufacturer.
    vendor: Option<String>,
    /// Which model it is.
    model: Option<String>,
    /// Its serial number.
    serial: Option<String>,
    /// The UUID of its firmware.
    uuid: Option<String>,
}

/// The iPXE script that fits the node's state: install in `pending` and `installing`, otherwise the local disk.
#[utoipa::path(
    get, path = "/api/v1/boot", params(BootQuery), security(()),
    responses((status = 200, content_type = "text/plain", body = String), Problems)
)]
pub(crate) async fn script(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    ListQuery(query): ListQuery<BootQuery>,
) -> Result<Response, Error> {
    let mac = query
        .mac
        .as_deref()
        .ok_or_else(|| Error::invalid("mac", "is missing: boot?mac=52:54:00:12:34:56"))?;
    let mac = text::mac("mac", mac)?;
    let node = match node::find_by_mac(&app, &mac).await? {
        Some(node) => Some(node),
        None => {
            let hardware = Hardware {
                ip_address: Some(caller.address.to_string()),
                vendor: query.vendor,
                model: query.model,
                serial_number: query.serial,
                system_uuid: query.uuid,
                hostname: None,
            };
            match discovery::discover(&app, &caller, &mac, &hardware).await {
                Ok(node) => Some(node),
                // The machine must boot even if it cannot be registered.
                Err(error) => {
                    tracing::info!(mac, %error, "boot of an unknown machine: not registered");
                    None
                }
            }
        }
    };
    let script = match node {
        Some(node) => {
            let (given, script) = for_node(&app, &node).await?;
            // The machine must boot even if that cannot be recorded.
            if let Err(error) = boots::note(&app, &node, given).await {
                tracing::warn!(id = node.content.id, %error, "boot not recorded in the node's record; its boot script was served");
            }
            script
        }
        None => local("This machine is not registered."),
    };
    let mut response = script.into_response();
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    Ok(response)
}

async fn for_node(app: &App, node: &Resource) -> Result<(Script, String), Error> {
    let state = document::state(node)?;
    let other = |script| Ok((Script::Other, script));
    if !matches!(state, NodeState::Pending | NodeState::Installing) {
        return other(local(&format!("Node {} is {state}: booting from the local disk.", node.content.id)));
    }
    let document = Document::of(node)?;
    let Some(id) = &document.workflow_id else {
        return other(failing(&format!(
            "Node {} is {state}, but no workflow is assigned to it.",
            node.content.id
        )));
    };
    match workflow::find(app, id).await? {
        Some(workflow) => Ok((Script::Install, install(app, node, &document, &workflow))),
        None => other(failing(&format!("The workflow {id} of node {} does not exist.", node.content.id))),
    }
}

/// Attempts two and three get the script again: the machine reboots until its installation completes or is
/// given up.
fn install(app: &App, node: &Resource, document: &Document, workflow: &Workflow) -> String {
    let lifetime =
        SignedDuration::try_from(Settings::of(&app.config).install_token).unwrap_or(SignedDuration::MAX);
    let token = install_token::issue(&app.key, &node.content.id, document.install_round, app.now(), lifetime);
    let (base, id) = (Settings::of(&app.config).url.as_deref().unwrap_or_default(), &node.content.id);
    let mut script = format!("#!ipxe\necho Wardroom: installing {} on node {id}\n", workflow.name);
    let mut arguments = format!(
        "{} wardroom.report={base}/api/v1/report wardroom.node={id} wardroom.mac={} wardroom.token={token}",
        workflow.arguments, document.mac_address
    );
    if let Some(image) = &workflow.image {
        arguments += &format!(" wardroom.image={image}");
    }
    // A kernel that is started as a UEFI program loads only the RAM disks that its command line names.
    for number in 0..workflow.initrd.len() {
        arguments += &format!(" initrd=initrd{number}");
    }
    // Writing to a string does not fail.
    let mut step = |what: &str, command: &str| {
        let _ = writeln!(script, "set failed {what}\n{command} || goto failed");
    };
    step("loading the kernel", &format!("kernel {} {}", workflow.kernel, arguments.trim()));
    for (number, initrd) in workflow.initrd.iter().enumerate() {
        step(&format!("loading RAM disk {number}"), &format!("initrd --name initrd{number} {initrd}"));
    }
    step("starting the kernel", "boot");
    // Fetch a new script: an operator may have corrected the workflow, and the token expires.
    let mac = &document.mac_address;
    let _ = write!(
        script,
        ":failed\necho Wardroom: ${{failed}} did not work on node {id}; trying again in 30 seconds\nsleep 30\nimgfree\n\
         chain --replace --autofree {base}/api/v1/boot?mac={mac} || goto failed\n"
    );
    script
}

fn local(words: &str) -> String {
    format!("#!ipxe\necho Wardroom: {words}\nsanboot --no-describe --drive 0x80 || exit\n")
}

/// Shows the error for long enough to read it, then boots from the local disk.
fn failing(words: &str) -> String {
    format!("#!ipxe\necho Wardroom: {words}\nsleep 30\nsanboot --no-describe --drive 0x80 || exit\n")
}
