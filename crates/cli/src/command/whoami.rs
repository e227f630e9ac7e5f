//! `wardroom whoami`.

use clap::Args;

use crate::{
    connection::Connection,
    output::{self, Whole},
    text::{self, time},
};

/// Shows which token commands use, what it may do, and where it comes from. For example: wardroom whoami
#[derive(Args)]
pub(crate) struct Whoami {
    /// Print the identity as JSON or YAML.
    #[arg(short, long, value_enum, value_name = "FORMAT")]
    output: Option<Whole>,
    #[command(flatten)]
    connection: Connection,
}

impl Whoami {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let me = self.connection.client()?.whoami().await?;
        if let Some(format) = self.output {
            return format.write(&me);
        }
        let (url, source) = self.connection.place()?;
        let kinds = if me.kinds.is_empty() { "all".to_owned() } else { me.kinds.join(", ") };
        let facts = [
            ("Name", Some(me.name)),
            ("Role", Some(me.role)),
            ("Kinds", Some(kinds)),
            ("Adapter", me.adapter),
            ("Group", me.group_id),
            ("Expires", Some(time(me.expires_at))),
            ("Server", Some(url)),
            ("Token from", Some(source)),
        ];
        for (name, value) in facts {
            if let Some(value) = value {
                output::line(&format!("{name:<12}{}", text::clean(&value)))?;
            }
        }
        Ok(())
    }
}
