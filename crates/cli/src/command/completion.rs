//! `wardroom completion`, and the completion of one command line.

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use crate::{
    arguments::Arguments,
    complete,
    exit::{Code, failure},
    output,
};

/// Readline takes the part of a word behind a colon or an equals sign as a word of its own.
const BASH: &str = r#"_wardroom() {
  local line="${COMP_LINE:0:$COMP_POINT}" word found IFS=$'\n'
  word="${line##*[[:space:]]}"
  found=($(wardroom __complete -- "$line" 2>/dev/null))
  COMPREPLY=("${found[@]#"${word%"${word##*[:=]}"}"}")
}
complete -o bashdefault -o default -F _wardroom wardroom
"#;

const ZSH: &str = r#"#compdef wardroom
_wardroom() {
  local -a found
  found=(${(f)"$(wardroom __complete -- "${words[1,CURRENT-1]} $PREFIX" 2>/dev/null)"})
  if (( $#found )); then compadd -- $found; else _files; fi
}
if [[ "$funcstack[1]" = _wardroom ]]; then _wardroom "$@"; else compdef _wardroom wardroom; fi
"#;

const FISH: &str = "complete -c wardroom -f -a '(wardroom __complete -- (commandline -cp | string collect) 2>/dev/null; \
                    or __fish_complete_path (commandline -ct))'\n";

/// Writes the completion script of a shell, e.g. for bash: source <(wardroom completion bash). In bash, zsh and fish it completes
/// names, states and stages too, and asks the server of the command line for names.
#[derive(Args)]
pub(crate) struct Completion {
    /// The shell.
    #[arg(value_enum)]
    shell: Shell,
}

impl Completion {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let own = [(Shell::Bash, BASH), (Shell::Zsh, ZSH), (Shell::Fish, FISH)];
        if let Some((_, script)) = own.iter().find(|(shell, _)| *shell == self.shell) {
            return output::print(script);
        }
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "wardroom", &mut script);
        output::print(&String::from_utf8_lossy(&script))
    }
}

/// Completes a command line, for the scripts of shells.
#[derive(Args)]
pub(crate) struct Complete {
    /// The line up to the cursor.
    #[arg(allow_hyphen_values = true)]
    line: String,
}

impl Complete {
    /// Fails without a candidate, so that the shell offers files.
    pub(crate) async fn run(self) -> anyhow::Result<()> {
        let candidates = complete::candidates(&self.line).await;
        if candidates.is_empty() {
            return Err(failure(Code::Failed, "nothing completes this line"));
        }
        candidates.iter().try_for_each(|word| output::line(word))
    }
}
