//! `wardroom liveness`.

use clap::Args;
use wardroom_api::liveness::{Guard, Liveness as Shown};

use crate::{
    connection::Connection,
    output::{self, Format},
    table::{Heads, Writer, or_none},
    text::time,
};

/// Shows whether the server hears its members, and which silent members its guards hold back.
#[derive(Args)]
pub(crate) struct Liveness {
    /// The output format.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
    #[command(flatten)]
    connection: Connection,
}

impl Liveness {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let liveness = self.connection.client()?.liveness().await?;
        match self.output {
            Format::Json => output::json(&liveness),
            Format::Yaml => output::yaml(&liveness),
            Format::Table | Format::Wide | Format::Name => {
                Writer::start(&["WHAT", "IS"], &facts(&liveness), Heads::Shown)?;
                let heads = ["GUARD", "PHASE", "SINCE", "WATCHED", "SILENT", "DUE", "INCIDENT"];
                let zones = liveness.zones.iter().map(|(zone, guard)| row(zone, guard));
                let rows: Vec<_> =
                    [row("the whole fleet", &liveness.fleet)].into_iter().chain(zones).collect();
                output::line("")?;
                Writer::start(&heads, &rows, Heads::Shown).map(drop)
            }
        }
    }
}

fn facts(shown: &Shown) -> Vec<Vec<String>> {
    let fact = |what: &str, is: String| vec![what.to_owned(), is];
    let hears = match &shown.listening.deaf {
        Some(cause) => format!("no: {cause}"),
        None => format!("since {}", time(shown.listening.since)),
    };
    let sweeps = match shown.sweeper.since {
        Some(since) if shown.sweeper.this_server => format!("this server, since {}", time(since)),
        Some(_) | None => "another server".to_owned(),
    };
    let mut facts = vec![fact("listening", hears), fact("sweeping", sweeps)];
    facts.extend(
        shown.members.iter().map(|(kind, count)| fact(&format!("watched {kind}s"), count.to_string())),
    );
    let counts = [("silent", shown.silent), ("due", shown.due), ("held back", shown.suspected)];
    facts.extend(counts.map(|(what, count)| fact(what, count.to_string())));
    facts
}

fn row(name: &str, guard: &Guard) -> Vec<String> {
    let counts = [guard.watched, guard.silent, guard.due].map(|count| count.to_string());
    let since = or_none(guard.since.map(time).as_deref());
    let words = [name.to_owned(), guard.phase.clone(), since];
    words.into_iter().chain(counts).chain([or_none(guard.incident.as_deref())]).collect()
}
