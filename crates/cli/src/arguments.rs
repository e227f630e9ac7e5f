//! Every command, in one place.

use clap::{Parser, Subcommand};

use crate::command;

/// A fleet lifecycle control plane: the server and its command line.
#[derive(Parser)]
#[command(name = "wardroom", version, propagate_version = true, after_help = crate::exit::HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Lists resources, or shows one.
    Get(command::get::Get),
    /// Shows one resource with its explanation and its last history.
    Describe(command::describe::Describe),
    /// Explains the state of a resource, and gives the next step.
    Why(command::why::Explain),
    /// Shows changes with their time, actor and reason, newest first.
    History(command::history::History),
    /// Shows the feed of changes, oldest first, and follows it.
    Events(command::events::Events),
    /// Counts resources by kind and state.
    Summary(command::summary::Summary),
    /// Shows counts, rates and open runs, again and again.
    Top(command::top::Top),
    /// Shows whether the server hears its members, and which silent members its guards hold back.
    Liveness(command::liveness::Liveness),
    /// Waits until resources are in a state, have a condition, their run has ended, or they are deleted.
    Wait(command::wait::Wait),
    /// Explains the fields of a kind, or a state.
    Explain(command::explain::Explain),
    /// Shows the states of every kind and the moves between them.
    Lifecycles(command::lifecycles::Lifecycles),
    /// Registers, moves and changes nodes.
    #[command(subcommand)]
    Node(command::node::Node),
    /// Registers, onboards, decommissions and recovers GPU nodes.
    #[command(subcommand)]
    GpuNode(command::gpu_node::GpuNode),
    /// Acts on runs; repeating an action has no further effect.
    #[command(subcommand)]
    Run(command::run::Run),
    /// Creates, assigns, revokes and re-enables satellites.
    #[command(subcommand)]
    Satellite(command::satellite::Satellite),
    /// Approves, revokes, reboots and decommissions devices, and waits for them.
    #[command(subcommand)]
    Device(command::device::Device),
    /// Pauses, resumes and rolls back the rollouts of fleets, and waits for them.
    #[command(subcommand)]
    Fleet(command::fleet::Fleet),
    /// Shows what adapters say of clusters.
    #[command(subcommand)]
    Cluster(command::cluster::Cluster),
    /// Creates a resource.
    #[command(subcommand)]
    Create(command::create::Create),
    /// Creates or changes the resources that a file describes.
    Apply(command::apply::Apply),
    /// Shows what applying a file would change.
    Diff(command::diff::Diff),
    /// Opens one resource in an editor, and applies what was written.
    Edit(command::edit::Edit),
    /// Deletes resources.
    Delete(command::delete::Delete),
    /// Creates, lists and revokes API tokens.
    #[command(subcommand)]
    Token(command::token::Token),
    /// Checks a token at a server, and keeps both for other commands.
    Login(command::login::Login),
    /// Shows the servers that you logged in to, and chooses the one that commands use.
    #[command(subcommand)]
    Context(command::context::Context),
    /// Shows which token commands use, and what it may do.
    Whoami(command::whoami::Whoami),
    /// Prints a link that logs you in to the console once.
    Console(command::console::Console),
    /// Drives a program of yours through its contract, and writes a score card.
    #[command(subcommand)]
    Conform(command::conform::Conform),
    /// Runs a fleet to try everything on, with some things wrong.
    Demo(command::demo::Demo),
    /// Puts load on a server, to see what it bears.
    #[command(subcommand)]
    Simulate(command::simulate::Simulate),
    /// Runs the server.
    Serve(command::serve::Serve),
    /// Checks and shows the configuration of the server.
    #[command(subcommand)]
    Config(command::config::Config),
    /// Verifies history, and exports its checkpoints.
    #[command(subcommand)]
    Audit(command::audit::Audit),
    /// Writes a backup to one file, also while servers run.
    Backup(command::backup::Backup),
    /// Restores a backup into an empty store.
    Restore(command::restore::Restore),
    /// Writes the completion script of a shell.
    Completion(command::completion::Completion),
    /// Writes the manual pages.
    Man(command::man::Man),
    /// Completes a command line, for the scripts of shells.
    #[command(name = "__complete", hide = true)]
    Complete(command::completion::Complete),
    /// Shows the version.
    Version,
}

impl Command {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        match self {
            Self::Get(command) => wait(command.run()),
            Self::Describe(command) => wait(command.run()),
            Self::Why(command) => wait(command.run()),
            Self::History(command) => wait(command.run()),
            Self::Events(command) => wait(command.run()),
            Self::Summary(command) => wait(command.run()),
            Self::Top(command) => wait(command.run()),
            Self::Liveness(command) => wait(command.run()),
            Self::Wait(command) => wait(command.run()),
            Self::Explain(command) => command.run(),
            Self::Lifecycles(command) => command.run(),
            Self::Node(command) => wait(command.run()),
            Self::GpuNode(command) => wait(command.run()),
            Self::Run(command) => wait(command.run()),
            Self::Satellite(command) => wait(command.run()),
            Self::Device(command) => wait(command.run()),
            Self::Fleet(command) => wait(command.run()),
            Self::Cluster(command) => wait(command.run()),
            Self::Create(command) => wait(command.run()),
            Self::Apply(command) => wait(command.run()),
            Self::Diff(command) => wait(command.run()),
            Self::Edit(command) => wait(command.run()),
            Self::Delete(command) => wait(command.run()),
            Self::Token(command) => wait(command.run()),
            Self::Login(command) => wait(command.run()),
            Self::Context(command) => command.run(),
            Self::Whoami(command) => wait(command.run()),
            Self::Console(command) => wait(command.run()),
            Self::Conform(command) => command.run(),
            Self::Demo(command) => command.run(),
            Self::Simulate(command) => command.run(),
            Self::Serve(command) => command.run(),
            Self::Config(command) => command.run(),
            Self::Audit(command) => wait(command.run()),
            Self::Backup(command) => wait(command.run()),
            Self::Restore(command) => wait(command.run()),
            Self::Completion(command) => command.run(),
            Self::Man(command) => command.run(),
            Self::Complete(command) => wait(command.run()),
            Self::Version => crate::output::line(concat!("wardroom ", env!("CARGO_PKG_VERSION"))),
        }
    }
}

/// Runs a command on one thread; only the server needs more.
fn wait(command: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(command)
}
