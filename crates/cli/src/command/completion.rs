//! `wardroom completion`.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::{arguments::Arguments, output};

/// Writes the completion script of a shell, e.g. for bash: source <(wardroom completion bash).
#[derive(Args)]
pub(crate) struct Completion {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

impl Completion {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "wardroom", &mut script);
        output::print(&String::from_utf8_lossy(&script))
    }
}
