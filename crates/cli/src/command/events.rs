//! `wardroom events`.

use clap::Args;

use crate::{
    connection::Connection,
    follow::Follower,
    output,
    view::{
        Event, Mode, Printer, Shape,
        history::{NamedRow, Names},
    },
};

/// Shows the feed of changes, oldest first: one page, or with -w all changes as they happen.
#[derive(Args)]
pub(crate) struct Events {
    /// Follow the feed; after a lost connection it continues after the last change shown.
    #[arg(short, long)]
    watch: bool,
    /// Show changes after this cursor; `start` for all. Default with -w: from now on.
    #[arg(long = "continue", value_name = "CURSOR")]
    cursor: Option<String>,
    /// The most changes in a page.
    #[arg(long, value_name = "N", default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
    #[command(flatten)]
    shape: Shape,
    #[command(flatten)]
    connection: Connection,
}

impl Events {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let client = self.connection.client()?;
        let mut names = Names::new(&client, self.shape.is_table());
        if !self.watch {
            let cursor = self.cursor.as_deref().unwrap_or("start");
            let page = client.events(Some(cursor), Some(self.limit as usize)).await?;
            Printer::whole(&self.shape, &names.name_rows(page.data).await)?;
            if let Some(next) = page.next {
                output::note(&format!("more with --continue {next}"));
            }
            return Ok(());
        }
        let mut follower = Follower::start(&client, self.cursor.as_deref()).await?;
        let first: &[NamedRow] = &[];
        let mut printer = Printer::new(&self.shape, Mode::Stream);
        printer.page(first)?;
        loop {
            let named = names.name_rows(output::while_read(follower.together()).await?).await;
            named.iter().try_for_each(|row| printer.add(row, Event::Added))?;
        }
    }
}
