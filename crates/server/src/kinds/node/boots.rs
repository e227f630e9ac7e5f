//! Boots over the network: when a machine last asked for its script, and how many install scripts it was handed.
//!
//! Boots are observations, so they are in no history and change no version. A boot itself writes nothing,
//! because many machines may boot at once; the buffer of last reports writes them in batches. With several
//! servers, two boots of one machine within one flush may count once.

use std::{collections::HashMap, sync::Arc};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use wardroom_api::node::Node;
use wardroom_core::node::Handed;
use wardroom_store::Resource;

use super::{
    document::{Document, KIND},
    settings::Settings,
};
use crate::platform::{
    app::App,
    http::error::Error,
    observed::{Buffer, Report},
};

pub(crate) struct Boots(pub(crate) Arc<Buffer<Boot>>);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Boot {
    /// The round of installing that the count is about; it begins with the approval.
    round: u64,
    /// Install scripts that were handed out in this round.
    scripts: u32,
    at: Timestamp,
}

impl Report for Boot {
    const KIND: &'static str = KIND;
    const SOURCE: &'static str = "boot";
    const KEEPS_BRIEF: bool = false;
    type Brief = ();
    type Stored = Self;

    fn is_empty(&self) -> bool {
        false
    }

    fn size(&self) -> usize {
        100
    }

    fn over(self, _: &Self) -> Self {
        self
    }

    fn is_whole(&self) -> bool {
        false
    }

    fn brief(&self, (): &()) {}

    fn differs((): &(), (): &()) -> bool {
        true
    }

    fn take_numbers((): &mut (), (): &()) {}

    /// Another server may have counted further meanwhile.
    fn stored(said: Option<Self>, (): &(), written: Option<Self>, _: Timestamp) -> Option<Self> {
        let Some(said) = said else { return written };
        let before = written.filter(|written| written.round == said.round);
        let before = before.map_or(0, |written| written.scripts);
        Some(Self { scripts: said.scripts.max(before), ..said })
    }
}

/// The script that a machine got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Script {
    Install,
    Other,
}

pub(crate) async fn note(app: &App, node: &Resource, given: Script) -> Result<(), Error> {
    let (id, round) = (&node.content.id, Document::of(node)?.install_round);
    let before = of_all(app, &[id]).await?.remove(id).filter(|before| before.round == round);
    let before = before.map_or(0, |before| before.scripts);
    let scripts = before.saturating_add(u32::from(given == Script::Install));
    app.part::<Boots>().0.keep(id, Boot { round, scripts, at: app.now() }, app.now());
    Ok(())
}

/// The last boots of nodes, by their ids.
async fn of_all(app: &App, ids: &[&str]) -> Result<HashMap<String, Boot>, Error> {
    app.part::<Boots>().0.latest(&app.store, ids).await
}

/// Adds the last boots to shown nodes.
pub(crate) async fn show(app: &App, nodes: &[Resource], shown: &mut [Node]) -> Result<(), Error> {
    let ids: Vec<_> = nodes.iter().map(|node| node.content.id.as_str()).collect();
    let boots = of_all(app, &ids).await?;
    for (node, shown) in nodes.iter().zip(shown) {
        let Some(boot) = boots.get(&node.content.id) else { continue };
        shown.last_boot_at = Some(boot.at);
        if boot.round == Document::of(node)?.install_round {
            shown.boot_scripts = boot.scripts;
        }
    }
    Ok(())
}

/// Returns the install scripts that a node got since its approval.
pub(crate) async fn handed(app: &App, node: &Resource) -> Result<Option<Handed>, Error> {
    let (id, round) = (&node.content.id, Document::of(node)?.install_round);
    let boot = of_all(app, &[id]).await?.remove(id).filter(|boot| boot.round == round && boot.scripts > 0);
    let most = Settings::of(&app.config).boots_without_report;
    Ok(boot.map(|Boot { scripts, at, .. }| Handed { scripts, last: at, most }))
}

#[cfg(test)]
mod tests {
    use super::{Boot, Report as _};

    #[test]
    fn the_further_count_of_one_round_counts() {
        let boot = |round, scripts| Boot { round, scripts, at: jiff::Timestamp::UNIX_EPOCH };
        let stored = |said, written| Boot::stored(said, &(), written, jiff::Timestamp::UNIX_EPOCH);
        for (said, written, expected) in [
            (boot(1, 2), None, boot(1, 2)),
            (boot(1, 2), Some(boot(1, 5)), boot(1, 5)),
            (boot(1, 6), Some(boot(1, 5)), boot(1, 6)),
            (boot(2, 1), Some(boot(1, 5)), boot(2, 1)),
        ] {
            assert_eq!(stored(Some(said.clone()), written.clone()), Some(expected), "{said:?} {written:?}");
        }
        assert_eq!(stored(None, Some(boot(1, 5))), Some(boot(1, 5)));
    }
}
