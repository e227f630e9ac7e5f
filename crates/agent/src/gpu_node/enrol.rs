//! Enrolment: a one-time token is exchanged for the credential of the node, once.

use std::path::Path;

use anyhow::Context as _;
use wardroom_api::gpu_node::agent::Enroll;

use super::{
    Options, PAUSE, client, is_final, is_unreadable,
    keep::{Keeper, Kept},
};

/// The prefix of tokens to enrol with.
const TOKEN: &str = "wrb_";

/// Exchanges the token, and retries until the server answers.
pub(super) async fn enrol(options: &Options, keeper: &Keeper) -> anyhow::Result<Kept> {
    let file = options.token_file.as_ref();
    let file = file
        .context("the agent has not enrolled yet: give --token-file with the one-time token of its node")?;
    let client = client(options, None)?;
    loop {
        let token = read_token(file)?;
        let token_end = end(&token);
        let enroll = Enroll {
            token,
            exchange: Some(keeper.installation()?),
            hostname: hostname(),
            serial_number: None,
            model: None,
        };
        match client.enroll_gpu_node(&enroll).await {
            Ok(enrolled) => {
                let kept = Kept { node: enrolled.node, credential: enrolled.credential, token_end };
                keeper.keep_credential(&kept)?;
                tracing::info!(node = kept.node, "enrolled");
                return Ok(kept);
            }
            Err(error) if is_final(&error) => {
                return Err(error).with_context(|| {
                    let file = file.display();
                    format!("the server refused the token in {file}: it works once and expires; `wardroom gpu-node resume` issues another")
                });
            }
            // A retry would get the same answer.
            Err(error) if is_unreadable(&error) => {
                return Err(error).context(
                    "the server does not understand this agent's enrolment: is --server a Wardroom server, and is it as \
                     new as the agent?",
                );
            }
            Err(error) => {
                tracing::warn!(%error, "the server did not enrol this agent; retrying");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Returns the warning for an enrolled agent that is given another token, which it does not use.
pub(super) fn other_token_warning(options: &Options, kept: &Kept) -> Option<String> {
    let file = options.token_file.as_ref()?;
    let token = read_token(file).ok()?;
    let differs = kept.token_end != end(&token);
    let (file, folder, node) = (file.display(), options.state_dir.display(), &kept.node);
    differs.then(|| {
        format!(
            "this agent is enrolled as node {node} and ignores the other token in {file}; to enrol with it, stop the \
             agent and remove {folder}"
        )
    })
}

/// Returns the last letters of a token: too few to help guessing it.
fn end(token: &str) -> String {
    token.chars().rev().take(6).collect::<Vec<_>>().into_iter().rev().collect()
}

/// The one-time token of the node.
fn read_token(file: &Path) -> anyhow::Result<String> {
    let shown = file.display();
    let token = std::fs::read_to_string(file).with_context(|| {
        format!("cannot read --token-file {shown}, which holds the one-time token that `wardroom gpu-node create` wrote")
    })?;
    let token = token.trim();
    let fits = token.starts_with(TOKEN) && !token.contains(char::is_whitespace);
    anyhow::ensure!(
        fits,
        "--token-file {shown} holds no one-time token: it is one line that starts with {TOKEN}, as `wardroom gpu-node \
         create` wrote it"
    );
    Ok(token.to_owned())
}

fn hostname() -> Option<String> {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}
