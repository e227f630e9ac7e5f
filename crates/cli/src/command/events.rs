//! `wardroom events`.

use clap::Args;

use crate::{
    connection::Connection,
    follow::Follower,
    output,
    view::{
        Mode, Printer, Shape,
        history::{Names, Told},
    },
};

/// Shows the feed of changes, oldest first: one page of it, or with -w all that comes.
#[derive(Args)]
pub(crate) struct Events {
    /// Follow the feed; after a cut it goes on behind the last change that was shown.
    #[arg(short, long)]
    watch: bool,
    /// Show what came after this cursor; `start` for everything. With -w: from now on unless told.
    #[arg(long, value_name = "CURSOR")]
    after: Option<String>,
    /// How many at most in a page.
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
        let mut names = Names::new(&client, self.shape.output);
        if !self.watch {
            let after = self.after.as_deref().unwrap_or("start");
            let page = client.events(Some(after), Some(self.limit as usize)).await?;
            Printer::start(self.shape, Mode::Whole, &names.tell(page.data).await)?;
            if let Some(next) = page.next {
                output::note(&format!("go on with --after {next}"));
            }
            return Ok(());
        }
        let mut follower = Follower::start(&client, self.after.as_deref()).await?;
        let first: &[Told] = &[];
        let mut printer = Printer::start(self.shape, Mode::Stream, first)?;
        loop {
            let told = names.tell(output::while_read(follower.together()).await?).await;
            told.iter().try_for_each(|row| printer.add(row))?;
        }
    }
}
