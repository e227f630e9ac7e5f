//! A fleet to try everything on: a server over a temporary store, fakes of the systems it drives, and members that live.
//!
//! Members speak to the server over HTTP as real ones do; nothing is written into its store. What is planted to be wrong
//! is wrong in a fake or in a member, and is over once the server carries out the cure.

mod adapter;
mod clock;
pub(crate) mod device;
mod domain;
mod fleet;
mod folder;
mod gpu_node;
mod life;
mod node;
mod plan;
mod planted;
pub(crate) mod random;
mod rollout;
mod satellite;
mod settings;
mod tell;
mod upstreams;
mod world;

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use tokio::{sync::watch, task::JoinSet, time::Instant};
use tracing_subscriber::{EnvFilter, fmt};
use wardroom_server::{
    platform::{
        config,
        log::{LastLines, Log},
    },
    serve::Server,
};

pub(crate) use plan::{FEWEST, MOST};

use folder::Folder;
use plan::Plan;
use upstreams::Upstreams;
use world::World;

/// How long the last requests may take when the demo ends; a store that is kept is closed in good order.
const END: Duration = Duration::from_millis(500);
const END_OF_KEPT: Duration = Duration::from_secs(4);

/// How long the start waits for all members, before it says what there is to try.
const JOINING: Duration = Duration::from_secs(4);

/// What the demo is like.
#[derive(Debug)]
pub(crate) struct Options {
    /// Decides where problems are planted.
    pub(crate) seed: u64,
    /// How many members there are.
    pub(crate) members: usize,
    /// Where the server listens.
    pub(crate) listen: SocketAddr,
    /// The folder that is kept; a temporary one when absent.
    pub(crate) keep: Option<PathBuf>,
}

/// Runs the demo until it is told to stop.
pub(crate) async fn run(options: Options) -> anyhow::Result<()> {
    let mut stopped = Box::pin(stop_signal()?);
    let began = Instant::now();
    let folder = Folder::make(options.keep.as_deref())?;
    let _last_lines = log_to(&folder)?;
    more_files();
    let plan = Plan::of(options.seed, options.members);
    let upstreams = Upstreams::start(folder.path()).await?;
    let flags = settings::flags(&plan, folder.path(), options.listen, &upstreams);
    let sources = config::Sources { flags, ..config::Sources::default() };
    let server = Server::start(config::resolve(&sources, wardroom_server::KINDS)?).await?;
    tell::store(&folder, began.elapsed());
    let addresses = world::Addresses::of(&server)?;
    let (stop, stopping) = watch::channel(false);
    let mut serving = tokio::spawn(server.run(stopping));

    let mut members = JoinSet::new();
    let lives = async {
        let world = Arc::new(World::new(plan, upstreams, folder.path(), addresses.clone()).await?);
        fleet::populate(&world, &mut members).await?;
        let joined = tokio::time::timeout(JOINING, world.all_there()).await.is_ok();
        tell::members(&world, joined, began.elapsed());
        let link = world.admin.create_login_link().await?;
        tell::try_this(&world, &folder, &addresses, &link);
        while let Some(ended) = members.join_next().await {
            // Members never end; one that panicked ends the demo, so that the mistake is seen.
            ended??;
        }
        std::future::pending::<anyhow::Result<()>>().await
    };
    let ended = tokio::select! {
        ended = lives => ended,
        _ = &mut serving => Err(anyhow::anyhow!("the server ended by itself: its log is in {}", folder.log().display())),
        () = &mut stopped => Ok(()),
    };
    members.abort_all();
    stop.send_replace(true);
    // Streams of people may be open; they are cut off.
    let end = if folder.is_kept() { END_OF_KEPT } else { END };
    if tokio::time::timeout(end, &mut serving).await.is_err() {
        serving.abort();
    }
    let (path, is_kept) = (folder.path().to_owned(), folder.is_kept());
    drop(folder);
    tell::end(&path, is_kept);
    ended
}

/// Ends at the first signal to stop. A second one ends the process at once.
fn stop_signal() -> anyhow::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hangup = signal(SignalKind::hangup())?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
            _ = hangup.recv() => {}
        }
    })
}

/// The log of the server goes to a file: the terminal is for what there is to try.
fn log_to(folder: &Folder) -> anyhow::Result<LastLines> {
    let (log, last_lines) = Log::to(std::fs::File::create(folder.log())?)?;
    let builder = fmt().with_env_filter(EnvFilter::new("info")).with_ansi(false);
    builder.with_writer(move || log.clone()).log_internal_errors(false).init();
    Ok(last_lines)
}

/// Members and server share one process, and each connection takes two files of it.
fn more_files() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let wanted = maximum.unwrap_or(65_536).min(65_536);
    if current.is_some_and(|current| current < wanted) {
        // With fewer files some members wait longer for their turn.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
    }
}
