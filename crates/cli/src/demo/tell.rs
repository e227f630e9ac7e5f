//! What the demo says.

use std::{fmt::Write as _, path::Path, time::Duration};

use wardroom_api::token::LoginLink;
use wardroom_core::tone::Tone;

use super::{
    adapter,
    folder::Folder,
    plan::Plan,
    settings::{self, DEPLOY_PATIENCE},
    world::{Addresses, World},
};
use crate::{colour, output};

/// Up to how many members all are there at once.
const FAST: usize = 500;

/// A closed output does not stop the demo.
fn say(text: &str) {
    let _ = output::print(text);
}

fn done(what: &str, took: Duration) {
    let mark = colour::of_output().toned(Tone::Good, &Tone::Good.mark().to_string());
    say(&format!("{mark} {what:<86} {:>5.1} s\n", took.as_secs_f64()));
}

/// The server has a store.
pub(super) fn store(folder: &Folder, took: Duration) {
    let kind = if folder.is_kept() { "a store in" } else { "a temporary store in" };
    done(&format!("{kind} {}; fakes of MAAS, Redfish, Harbor and SPIRE", folder.path().display()), took);
}

/// The members are there, or on their way.
pub(super) fn members(world: &World, all: bool, took: Duration) {
    let Plan { devices, gpu_nodes, nodes, clusters, satellites, .. } = world.plan;
    let mut said = format!(
        "{} simulated members: {devices} devices, {gpu_nodes} GPU nodes, {nodes} nodes, {clusters} clusters, {satellites} satellites",
        world.plan.members()
    );
    if !all {
        let _ = write!(said, "; {} are there, the others are joining", world.joined());
    }
    done(&said, took);
}

/// What there is to try.
pub(super) fn try_this(world: &World, folder: &Folder, addresses: &Addresses, link: &LoginLink) {
    let (plan, paint) = (&world.plan, colour::of_output());
    let token = folder.path().join("admin.token");
    let export = format!(
        "export WARDROOM_SERVER_URL={} WARDROOM_TOKEN_FILE={}",
        addresses.server,
        quoted(&token.display().to_string())
    );
    let mute = quoted(&adapter::token_file(world, plan.mute).display().to_string());
    let things = [
        ("wardroom get --needs-attention".to_owned(), "what is wrong, and since when"),
        (
            format!("wardroom why gpu-node {}", Plan::gpu_node(plan.hanging)),
            "its deployment hangs: paste what stands behind Next",
        ),
        (format!("wardroom why node {}", Plan::node(plan.failing)), "its installation failed three times"),
        (
            format!("wardroom why fleet {}", plan.broken),
            "its new template breaks devices: bring the earlier one back",
        ),
        (
            format!("wardroom why satellite {}", Plan::satellite(plan.revoked)),
            "it is revoked and keeps asking",
        ),
        (
            format!("wardroom why adapter {}", plan.mute),
            "it lost its token: put the new one into the file below",
        ),
    ];
    let console = format!("{}{}", addresses.server, link.path);
    let mut said = format!(
        "\n  Console   {}   {}\n  Commands  {}\n\n",
        paint.bold(&console),
        paint.toned(Tone::Over, "logs you in once, within 10 minutes"),
        paint.bold(&export)
    );
    let soon = if plan.members() <= FAST { "within 30 seconds" } else { "once all members are there" };
    let _ = writeln!(said, "  Six things are wrong on purpose; all of them are seen {soon}. Try:");
    for (number, (command, what)) in things.iter().enumerate() {
        let _ = writeln!(said, "    {}  {command:<44} {}", number + 1, paint.toned(Tone::Over, what));
    }
    let _ =
        writeln!(said, "       wardroom token create {0}-2 --role adapter --adapter {0} > {mute}", plan.mute);
    let interval = plan.interval().as_secs();
    let _ = writeln!(
        said,
        "\n  The sixth problem is zone {}: it falls silent for two minutes now and then, and returns (wardroom liveness).\n  \
         Patience is short here: {DEPLOY_PATIENCE} s for a deployment, {} s for an adapter, {} s for a member.\n  \
         The server's log is {}. Ctrl-C ends it{}.",
        plan.dark_zone,
        settings::adapter_patience(plan),
        interval * 3,
        folder.log().display(),
        if folder.is_kept() { "; the folder is kept" } else { " and leaves nothing behind" },
    );
    say(&said);
}

/// The demo is over, and its folder is kept or gone.
pub(super) fn end(folder: &Path, is_kept: bool) {
    let path = folder.display();
    if is_kept {
        say(&format!("kept in {path}; look at it with: wardroom serve --data-dir {path}\n"));
    } else if folder.exists() {
        say(&format!("the demo is over; {path} could not be removed, and is by the next demo\n"));
    } else {
        say("the demo is over; nothing is left of it\n");
    }
}

/// A path as a shell takes it.
fn quoted(path: &str) -> String {
    let is_plain =
        path.chars().all(|character| character.is_ascii_alphanumeric() || "-_./".contains(character));
    if is_plain { path.to_owned() } else { format!("'{}'", path.replace('\'', r"'\''")) }
}
