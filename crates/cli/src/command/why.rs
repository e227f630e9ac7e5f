//! `wardroom why`.

use clap::{Args, builder::NonEmptyStringValueParser};
use wardroom_api::{
    action::Action,
    client::{Brief, Client, Explained, Why},
};

use crate::{
    brief,
    connection::Connection,
    exit::{Code, failure},
    kind::{Kind, with_type},
    locate::Among,
    output::{self, Format},
    suggest, text,
    view::{Resource, find},
};

/// Explains the state of a resource in ten lines: what is in the way, what is fine, and the next step.
#[derive(Args)]
pub(crate) struct Explain {
    /// The kind of the resource.
    #[arg(value_enum)]
    kind: Kind,
    /// Its name, its id or the start of its id; of a node also its MAC, of a run the name of its node.
    #[arg(value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    name: String,
    /// Show every cause and every way out.
    #[arg(long)]
    all: bool,
    /// The output format.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
    #[command(flatten)]
    connection: Connection,
}

impl Explain {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let client = self.connection.client()?;
        with_type!(self.kind, T => self.explain::<T>(&client).await)
    }

    async fn explain<T: Resource>(&self, client: &Client) -> anyhow::Result<()> {
        let kind = T::KIND.as_str();
        if !T::EXPLAINED {
            let message =
                format!("{kind}s have no lifecycle: `wardroom describe {kind} {}` shows it", self.name);
            return Err(failure(Code::Usage, message));
        }
        let item: T = find(client, &self.name, Among::All).await?;
        match self.output {
            Format::Json => output::json(&client.why(kind, item.id()).await?.data),
            Format::Yaml => output::yaml(&client.why(kind, item.id()).await?.data),
            Format::Table | Format::Wide | Format::Name => {
                let Explained { data, mut brief, .. } = client.why(kind, item.id()).await?;
                if self.all {
                    brief.blockers = data
                        .iter()
                        .flat_map(|why| &why.blockers)
                        .map(|blocker| blocker.what.clone())
                        .collect();
                    (brief.more_blockers, brief.ways) = (0, 0);
                }
                show(&item, &brief)?;
                if self.all { exits(&data) } else { Ok(()) }
            }
        }
    }
}

/// Writes the short explanation of a resource.
pub(crate) fn show<T: Resource>(item: &T, brief: &Brief) -> anyhow::Result<()> {
    // A run is named as its node is.
    if let Some(run) = item.run() {
        suggest::remember(run, &suggest::typed(item.id()));
    }
    brief::print(brief, T::KIND.as_str())
}

/// Writes every way out.
fn exits(explanations: &[Why]) -> anyhow::Result<()> {
    for Why { about, state, exits, .. } in explanations.iter().filter(|why| !why.exits.is_empty()) {
        let of = if matches!(about.as_str(), "state") { String::new() } else { format!("{about} ") };
        output::line(&format!("\nEvery way out of {of}{state}:"))?;
        for exit in exits {
            output::line(&text::clean(&format!("  - to {}, by {}: {}", exit.to, exit.by, exit.when)))?;
            if let Some(action) = &exit.call {
                output::line(&text::clean(&format!("    {}", shown(action))))?;
            }
        }
    }
    Ok(())
}

/// The command for an action, and why it is of no use now.
fn shown(action: &Action) -> String {
    let command = suggest::command(action);
    match action.reason.as_ref().filter(|_| !action.possible) {
        Some(reason) => format!("{command} (not now: {reason})"),
        None => command,
    }
}
