//! `wardroom summary`.

use clap::{Args, ValueEnum as _};

use crate::{
    connection::Connection,
    kind::Kind,
    output::{self, Format},
    table::{Heads, Writer},
};

/// Counts resources by kind and state.
#[derive(Args)]
pub(crate) struct Summary {
    /// The output format.
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    output: Format,
    #[command(flatten)]
    connection: Connection,
}

impl Summary {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let summary = self.connection.client()?.summary().await?;
        match self.output {
            Format::Json => output::json(&summary),
            Format::Yaml => output::yaml(&summary),
            Format::Table | Format::Wide | Format::Name => {
                // Internal kinds of the server cannot be read as resources.
                let known = summary.kinds.iter().filter(|(kind, _)| Kind::from_str(kind, false).is_ok());
                let counts = known.flat_map(|(kind, states)| {
                    states.iter().map(|(state, count)| vec![kind.clone(), state.clone(), count.to_string()])
                });
                let rows: Vec<_> = counts.collect();
                Writer::start(&["KIND", "STATE", "COUNT"], &rows, Heads::Shown).map(drop)
            }
        }
    }
}
