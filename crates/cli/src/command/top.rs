//! `wardroom top`.

use std::{collections::BTreeMap, io::IsTerminal as _, time::Duration};

use clap::{Args, ValueEnum as _};
use wardroom_api::{
    client::{Client, RunQuery, Summary},
    run::Run,
};
use wardroom_core::{
    Named as _,
    run::State,
    tone::{self, Tone},
};
use wardroom_server::platform::clock::Clock;

use crate::{
    bar, colour,
    follow::Follower,
    kind::Kind,
    output, progress,
    text::{self, age},
};

/// The most runs that are shown.
const RUNS: usize = 10;

/// Shows counts by state, changes per second and open runs, again and again until Ctrl-C; without a terminal once. For example:
/// wardroom top --every 5
#[derive(Args)]
pub(crate) struct Top {
    /// The time between two looks.
    #[arg(long, value_name = "SECONDS", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=3600))]
    every: u64,
    #[command(flatten)]
    connection: crate::connection::Connection,
}

impl Top {
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let client = self.connection.client()?;
        let mut follower = Follower::start(&client, None).await?;
        let every = Duration::from_secs(self.every);
        let is_live = std::io::stdout().is_terminal();
        loop {
            let changes = counted(&mut follower, every).await?;
            let lines = look(&client, &changes, every).await?;
            if !is_live {
                return lines.iter().try_for_each(|line| output::line(line));
            }
            output::print(&screen(&lines))?;
        }
    }
}

/// The changes of each kind, within a time.
async fn counted(follower: &mut Follower, within: Duration) -> anyhow::Result<BTreeMap<String, u32>> {
    let mut changes = BTreeMap::new();
    let end = tokio::time::Instant::now() + within;
    while let Ok(rows) = tokio::time::timeout_at(end, follower.together()).await {
        for row in rows? {
            *changes.entry(row.kind).or_default() += 1;
        }
    }
    Ok(changes)
}

/// A screen with these lines and nothing else.
fn screen(lines: &[String]) -> String {
    let height =
        rustix::termios::tcgetwinsize(std::io::stdout()).map_or(24, |size| usize::from(size.ws_row).max(4));
    let shown = lines.iter().take(height - 1).map(|line| format!("{line}\x1b[K\n"));
    format!("\x1b[H{}\x1b[J", shown.collect::<String>())
}

async fn look(
    client: &Client,
    changes: &BTreeMap<String, u32>,
    within: Duration,
) -> anyhow::Result<Vec<String>> {
    let summary = client.summary().await?;
    let mut lines = vec![format!("{:<20} {:>8} {:>9}  STATES", "KIND", "COUNT", "CHANGES/S")];
    lines.extend(counts(&summary, changes, within));
    let mut open = Vec::new();
    for state in State::ALL.iter().filter(|state| state.is_open()) {
        let query = RunQuery { state: Some(state.to_string()), limit: Some(RUNS), ..RunQuery::default() };
        match client.runs(&query).await {
            Ok(page) => open.extend(page.data),
            // A token may cover other kinds only.
            Err(error) if error.status() == Some(403) => break,
            Err(error) => return Err(error.into()),
        }
    }
    if !open.is_empty() {
        lines.push(String::new());
        lines.extend(open.iter().take(RUNS).map(run));
        if open.len() > RUNS {
            lines.push("more: wardroom get runs".to_owned());
        }
    }
    let width = if std::io::stdout().is_terminal() { bar::width_of(&std::io::stdout()) } else { usize::MAX };
    let paint = colour::of_output();
    Ok(lines
        .iter()
        .enumerate()
        .map(|(number, line)| (number, bar::cut(&text::clean(line), width)))
        .map(|(number, line)| if number == 0 { paint.bold(&line) } else { line })
        .collect())
}

/// A line for each kind that people read: how many there are, how many changes a second, and the states, the worst first.
fn counts(summary: &Summary, changes: &BTreeMap<String, u32>, within: Duration) -> Vec<String> {
    let known = summary.kinds.iter().filter(|(kind, _)| Kind::from_str(kind, false).is_ok());
    known
        .map(|(kind, states)| {
            let count: i64 = states.values().sum();
            let rate = f64::from(changes.get(kind).copied().unwrap_or_default()) / within.as_secs_f64();
            let mut states: Vec<_> = states.iter().filter(|(_, count)| **count > 0).collect();
            states.sort_by_key(|(state, _)| (urgency(tone::of(kind, state)), (*state).clone()));
            let states = states
                .iter()
                .map(|(state, count)| format!("{} {state} {count}", tone::of(kind, state).mark()));
            format!("{kind:<20} {count:>8} {rate:>9.1}  {}", states.collect::<Vec<_>>().join("  "))
        })
        .collect()
}

const fn urgency(tone: Tone) -> u8 {
    match tone {
        Tone::Bad => 0,
        Tone::Warn => 1,
        Tone::Wait => 2,
        Tone::Work => 3,
        Tone::Held => 4,
        Tone::Good => 5,
        Tone::Over | Tone::Unknown => 6,
    }
}

fn run(run: &Run) -> String {
    let name = run.hostname.as_deref().unwrap_or(&run.id);
    format!("{}  {}  {}", progress::sketch(run, name), run.state, age(run.created_at, Clock.now()))
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, time::Duration};

    use wardroom_api::client::Summary;

    use super::counts;

    #[test]
    fn what_is_bad_comes_first() {
        let states = [("active", 90), ("install_failed", 2), ("retired", 0)];
        let states: BTreeMap<_, _> = states.map(|(state, count)| (state.to_owned(), count)).into();
        let kinds = [("node".to_owned(), states), ("session".to_owned(), BTreeMap::new())].into();
        let changes = [("node".to_owned(), 3)].into();
        let lines = counts(&Summary { kinds }, &changes, Duration::from_secs(2));
        assert_eq!(lines.len(), 1, "sessions are the server's own: {lines:?}");
        let words: Vec<_> = lines[0].split_whitespace().collect();
        assert_eq!(words[..3], ["node", "92", "1.5"]);
        let place = |state: &str| words.iter().position(|word| *word == state);
        assert!(place("install_failed") < place("active") && place("retired").is_none(), "{words:?}");
    }
}
