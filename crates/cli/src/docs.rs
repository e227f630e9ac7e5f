//! `docs/cli.md` is generated from the commands; this test compares, and with `WARDROOM_BLESS=1` rewrites.

use std::{fmt::Write as _, path::Path};

use clap::{Arg, Command, CommandFactory as _};

use crate::arguments::Arguments;

#[test]
fn the_page_says_what_the_commands_take() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    let page = page();
    if std::env::var_os("WARDROOM_BLESS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == page,
        "docs/cli.md differs from the commands: run `./dev bless` and look at the change"
    );
}

#[test]
fn the_commands_are_consistent() {
    Arguments::command().debug_assert();
}

fn page() -> String {
    let mut command = Arguments::command();
    command.build();
    let mut page = String::from(
        "# The command line\n\nGenerated from the commands in `crates/cli` by `./dev bless`; do not edit.\n",
    );
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    writeln!(page, "\n```text\n{after}\n```").unwrap();
    for command in
        command.get_subcommands().filter(|command| command.get_name() != "help" && !command.is_hide_set())
    {
        write_command(&mut page, command);
    }
    page
}

fn write_command(page: &mut String, command: &Command) {
    let name = command.get_bin_name().unwrap_or_default();
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    let line = command.get_about().map(ToString::to_string).unwrap_or_default();
    assert!(!line.ends_with('.'), "{name}: no other line of help ends with a full stop");
    writeln!(page, "\n## `{name}`\n\n{}.", about.trim_end_matches('.')).unwrap();
    let children: Vec<_> = command.get_subcommands().filter(|child| child.get_name() != "help").collect();
    if !children.is_empty() {
        children.into_iter().for_each(|child| write_command(page, child));
        return;
    }
    let usage = command.clone().render_usage().to_string();
    writeln!(page, "\n```text\n{}\n```", usage.trim_start_matches("Usage: ")).unwrap();
    let shown = |argument: &&Arg| {
        !argument.is_hide_set() && !matches!(argument.get_id().as_str(), "help" | "version")
    };
    let arguments: Vec<_> = command.get_arguments().filter(shown).collect();
    if !arguments.is_empty() {
        page.push_str("\n| Argument | Meaning |\n|---|---|\n");
    }
    for argument in arguments {
        let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
        let text = format!("{help}.{}{}", values(argument), default(argument)).replace('|', "\\|");
        let short = argument.get_short().map_or_else(String::new, |short| format!("-{short}, "));
        writeln!(page, "| `{short}{}` | {text} |", argument.to_string().replace('|', "\\|")).unwrap();
    }
}

fn values(argument: &Arg) -> String {
    let values: Vec<_> =
        argument.get_possible_values().iter().map(|value| format!("`{}`", value.get_name())).collect();
    let is_flag = !argument.get_action().takes_values();
    if values.is_empty() || is_flag { String::new() } else { format!(" One of {}.", values.join(", ")) }
}

fn default(argument: &Arg) -> String {
    let default: Vec<_> = argument.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let environment = argument.get_env().map(|name| format!(" From `{}`.", name.to_string_lossy()));
    let default = match default.join(" ") {
        default if default.is_empty() || default == "false" => String::new(),
        default => format!(" Default: `{default}`."),
    };
    environment.unwrap_or_default() + &default
}
