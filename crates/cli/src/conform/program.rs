//! The program that is judged: started once, its output kept, ended at the end.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::Context as _;
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

/// How long a program may take to end.
const END: Duration = Duration::from_secs(10);

/// The program, and how patient its judge is.
#[derive(Args)]
pub(crate) struct Subject {
    /// The longest time for each rule.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = crate::progress::length)]
    pub(crate) patience: Duration,
    /// Write the score card as JSON.
    #[arg(long)]
    pub(crate) json: bool,
    /// The program and its arguments. {server}, {token_file} and {name} are filled in; the same is in WARDROOM_SERVER_URL,
    /// WARDROOM_TOKEN_FILE and WARDROOM_NAME.
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// A program that runs; it is killed when this is dropped.
pub(super) struct Running {
    child: Child,
    output: PathBuf,
}

impl Subject {
    /// Starts the program.
    pub(super) fn start(&self, server: &str, token_file: &Path, name: &str) -> anyhow::Result<Running> {
        let file = token_file.display().to_string();
        let filled = |word: &String| {
            word.replace("{server}", server).replace("{token_file}", &file).replace("{name}", name)
        };
        let words: Vec<_> = self.command.iter().map(filled).collect();
        let (program, arguments) = words.split_first().context("no program was given")?;
        let output = token_file.with_extension("output");
        let log = File::create(&output)?;
        let mut command = Command::new(program);
        command.args(arguments).env("WARDROOM_SERVER_URL", server).env("WARDROOM_TOKEN_FILE", &file);
        command.env("WARDROOM_NAME", name).env_remove("WARDROOM_TOKEN");
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
        let child = command.spawn().with_context(|| format!("cannot start {program}"))?;
        Ok(Running { child, output })
    }
}

impl Running {
    /// Refuses a program that has ended.
    pub(super) fn still_runs(&mut self) -> Result<(), String> {
        match self.child.try_wait() {
            Ok(Some(status)) => Err(format!("it ended by itself: {status}; it said: {}", self.last_words())),
            Ok(None) | Err(_) => Ok(()),
        }
    }

    /// Asks the program to end, as a service manager does.
    pub(super) async fn ends(&mut self) -> Result<String, String> {
        self.still_runs()?;
        let id = self.child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let id = id.ok_or_else(|| "it has no process".to_owned())?;
        kill_process(id, Signal::TERM).map_err(|error| error.to_string())?;
        let began = tokio::time::Instant::now();
        match tokio::time::timeout(END, self.child.wait()).await {
            Ok(_) => Ok(format!("after {} ms", began.elapsed().as_millis())),
            Err(_) => Err(format!("it runs {}s after SIGTERM", END.as_secs())),
        }
    }

    /// Whether a secret is in what it wrote.
    pub(super) fn keeps(&self, secret: &str) -> Result<String, String> {
        let said = fs::read(&self.output).map_err(|error| error.to_string())?;
        match String::from_utf8_lossy(&said).contains(secret) {
            true => Err("its output has the token".to_owned()),
            false => Ok(format!("{} bytes of output", said.len())),
        }
    }

    fn last_words(&self) -> String {
        let said = fs::read(&self.output).unwrap_or_default();
        String::from_utf8_lossy(&said).lines().last().unwrap_or("nothing").chars().take(200).collect()
    }
}
