//! The scheduler: runs every job again and again until the server stops.
//!
//! A job is data: a name, a period and a task. Each kind lists its own, and `serve.rs` collects them. A task that fails is
//! retried after its period; the failure is logged once, not every time. A job under a lease runs on one replica at a
//! time: the lease is renewed while the task runs, and the task is dropped as soon as the lease is lost.

use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::{sync::watch, task::JoinSet};
use wardroom_store::{Fence, Lease};

use crate::platform::{app::App, http::error::Error};

/// One thing that the server does in the background.
pub(crate) struct Job {
    name: &'static str,
    work: Work,
}

enum Work {
    Periodic(Box<Periodic>),
    Service(Box<dyn FnOnce(watch::Receiver<bool>) -> BoxFuture<'static, ()> + Send>),
}

struct Periodic {
    task: Box<dyn Task>,
    period: Duration,
    /// Whether the first run is at the start instead of a period later.
    at_once: bool,
    /// Whether a stop ends the task in the middle of a run.
    interruptible: bool,
    lease: Option<Claim>,
    wake: Option<Wake>,
}

/// Wakes a job before its period is over.
struct Wake {
    hint: watch::Receiver<u64>,
    gather: Duration,
}

/// The lease that a job needs to run.
struct Claim {
    name: &'static str,
    holder: String,
    length: Duration,
    held: Option<Lease>,
}

/// The work of a job, with its state between runs.
pub(crate) trait Task: Send + 'static {
    /// Runs once, and says when to run again.
    fn run<'a>(&'a mut self, app: &'a App) -> BoxFuture<'a, Result<Next, Failed>>;

    /// Takes the precondition of changes under the lease of the job, before it runs.
    fn fenced(&mut self, _: Fence) {}
}

/// When a task runs again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    Period,
    After(Duration),
    /// After this time, with the lease free for other replicas meanwhile.
    Yield(Duration),
    /// Never: its work is done.
    Never,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Failed {
    /// The database, or something else on our side.
    #[error("{0}")]
    Own(#[from] Error),
    /// An upstream, or the settings.
    #[error("{0}")]
    Other(String),
    /// Another replica took the lease over.
    #[error("the lease {0} was lost while the job ran")]
    LeaseLost(&'static str),
}

impl From<wardroom_store::Error> for Failed {
    fn from(error: wardroom_store::Error) -> Self {
        Self::Own(error.into())
    }
}

/// A task without a state.
type Plain = for<'a> fn(&'a App) -> BoxFuture<'a, Result<(), Error>>;

struct Every(Plain);

impl Task for Every {
    fn run<'a>(&'a mut self, app: &'a App) -> BoxFuture<'a, Result<Next, Failed>> {
        Box::pin(async move { Ok((self.0)(app).await.map(|()| Next::Period)?) })
    }
}

struct Once(Plain);

impl Task for Once {
    fn run<'a>(&'a mut self, app: &'a App) -> BoxFuture<'a, Result<Next, Failed>> {
        Box::pin(async move { Ok((self.0)(app).await.map(|()| Next::Never)?) })
    }
}

impl Job {
    /// Runs a function every period; for the first time a period after the start.
    pub(crate) fn every(name: &'static str, period: Duration, run: Plain) -> Self {
        Self::of(name, period, Every(run))
    }

    /// Runs a function at the start, and again every period until it succeeds.
    pub(crate) fn once(name: &'static str, period: Duration, run: Plain) -> Self {
        Self::of(name, period, Once(run)).at_once()
    }

    /// Runs a task with a state every period; for the first time a period after the start.
    pub(crate) fn of(name: &'static str, period: Duration, task: impl Task) -> Self {
        let task = Box::new(task);
        let periodic =
            Periodic { task, period, at_once: false, interruptible: false, lease: None, wake: None };
        Self { name, work: Work::Periodic(Box::new(periodic)) }
    }

    /// Runs something that is not periodic and ends by itself when the server stops.
    pub(crate) fn service<F: Future<Output = ()> + Send + 'static>(
        name: &'static str,
        run: impl FnOnce(watch::Receiver<bool>) -> F + Send + 'static,
    ) -> Self {
        Self { name, work: Work::Service(Box::new(move |stop| Box::pin(run(stop)))) }
    }

    /// Also runs at the start.
    pub(crate) fn at_once(self) -> Self {
        self.with(|periodic| periodic.at_once = true)
    }

    /// A stop of the server ends a run in the middle, which loses nothing.
    pub(crate) fn interruptible(self) -> Self {
        self.with(|periodic| periodic.interruptible = true)
    }

    /// Runs only while this replica holds a lease.
    pub(crate) fn under(self, name: &'static str, holder: &str, length: Duration) -> Self {
        let lease = Claim { name, holder: holder.to_owned(), length, held: None };
        self.with(|periodic| periodic.lease = Some(lease))
    }

    /// Also runs soon after a hint, gathering further hints for a moment. A job that failed waits for its
    /// period.
    pub(crate) fn woken_by(self, hint: watch::Receiver<u64>, gather: Duration) -> Self {
        self.with(|periodic| periodic.wake = Some(Wake { hint, gather }))
    }

    fn with(mut self, set: impl FnOnce(&mut Periodic)) -> Self {
        if let Work::Periodic(periodic) = &mut self.work {
            set(periodic);
        }
        self
    }

    /// Runs until `stop` says so, or until the work is done.
    pub(crate) async fn run(self, app: App, stop: watch::Receiver<bool>) {
        match self.work {
            Work::Periodic(periodic) => periodic.run(self.name, &app, stop).await,
            Work::Service(run) => run(stop).await,
        }
    }
}

/// Starts jobs; each ends when `stop` says so.
pub(crate) fn start(app: &App, jobs: Vec<Job>, stop: &watch::Receiver<bool>, tasks: &mut JoinSet<()>) {
    for job in jobs {
        tasks.spawn(job.run(app.clone(), stop.clone()));
    }
}

impl Periodic {
    async fn run(mut self: Box<Self>, name: &'static str, app: &App, mut stop: watch::Receiver<bool>) {
        let mut outcomes = Outcomes::of(name);
        let mut pause = if self.at_once { Duration::ZERO } else { self.period };
        loop {
            tokio::select! {
                biased;
                _ = stop.wait_for(|stop| *stop) => break,
                () = rest(pause, &mut self.wake, outcomes.last.is_none()) => {}
            }
            let interruptible = self.interruptible;
            let result = tokio::select! {
                result = self.turn(app) => result,
                _ = stop.wait_for(|stop| *stop), if interruptible => break,
            };
            outcomes.note(app, result.as_ref().err());
            pause = match result {
                Ok(Next::Period) | Err(_) => self.period,
                Ok(Next::After(pause)) => pause,
                Ok(Next::Yield(pause)) => {
                    self.release(name, app).await;
                    pause
                }
                Ok(Next::Never) => break,
            };
        }
        self.release(name, app).await;
    }

    /// Runs the task once, if no other replica holds the lease.
    async fn turn(&mut self, app: &App) -> Result<Next, Failed> {
        let Some(claim) = &mut self.lease else { return self.task.run(app).await };
        claim.held = claim.acquire(app).await?;
        let Some(lease) = &claim.held else { return Ok(Next::Period) };
        self.task.fenced(lease.fence());
        let lost = tokio::select! {
            result = self.task.run(app) => return result,
            () = claim.keep(app) => Failed::LeaseLost(claim.name),
        };
        claim.held = None;
        Err(lost)
    }

    /// Frees the lease, so that another replica need not wait until it expires.
    async fn release(&mut self, job: &str, app: &App) {
        let Some(lease) = self.lease.as_mut().and_then(|claim| claim.held.take()) else { return };
        if let Err(error) = app.store.release_lease(&lease).await {
            tracing::info!(job, lease = lease.name, %error, "lease not released; it expires by itself");
        }
    }
}

/// Waits for a time, or until a hint wakes the job.
async fn rest(pause: Duration, wake: &mut Option<Wake>, may_wake: bool) {
    let Some(Wake { hint, gather }) = wake.as_mut().filter(|_| may_wake) else {
        return tokio::time::sleep(pause).await;
    };
    if let Ok(Ok(())) = tokio::time::timeout(pause, hint.changed()).await {
        tokio::time::sleep(*gather).await;
    }
    hint.mark_unchanged();
}

impl Claim {
    async fn acquire(&self, app: &App) -> Result<Option<Lease>, wardroom_store::Error> {
        app.store.acquire_lease(self.name, &self.holder, self.length).await
    }

    /// Renews the lease again and again, and ends when it is lost or about to expire.
    async fn keep(&self, app: &App) {
        let every = self.length / 3;
        let mut renewed_at = app.clock.instant();
        while app.clock.instant().saturating_duration_since(renewed_at) < every * 2 {
            tokio::time::sleep(every).await;
            let asked = app.clock.instant();
            match tokio::time::timeout(every, self.acquire(app)).await {
                Ok(Ok(Some(_))) => renewed_at = asked,
                Ok(Ok(None)) => return,
                // The lease lasts long enough for another attempt.
                Ok(Err(_)) | Err(_) => {}
            }
        }
    }
}

/// Logs the first of several failures in a row, and the success that ends them.
struct Outcomes {
    job: &'static str,
    last: Option<String>,
}

impl Outcomes {
    fn of(job: &'static str) -> Self {
        Self { job, last: None }
    }

    fn note(&mut self, app: &App, failed: Option<&Failed>) {
        let job = self.job;
        let Some(failed) = failed else {
            if self.last.take().is_some() {
                tracing::info!(job, "job works again");
            }
            return;
        };
        let error = failed.to_string();
        if self.last.as_ref() != Some(&error) {
            tracing::warn!(job, error, "job failed; retrying");
        }
        self.last = Some(error);
        // While the database takes no writes, members cannot report either. Other failures, such as
        // conflicts, do not affect them.
        if matches!(failed, Failed::Own(Error::Unavailable(_) | Error::ReadOnly)) {
            app.was_deaf();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    };

    use super::*;
    use crate::platform::bare::{self, Lines};

    const MOMENT: Duration = Duration::from_millis(1);

    /// Fails as often as it is told to, and then is done.
    struct Failing(Vec<&'static str>);

    impl Task for Failing {
        fn run<'a>(&'a mut self, _: &'a App) -> BoxFuture<'a, Result<Next, Failed>> {
            let failure = self.0.pop();
            Box::pin(async move {
                match failure {
                    Some("") => Ok(Next::Period),
                    Some(text) => Err(Failed::Other(text.to_owned())),
                    None => Ok(Next::Never),
                }
            })
        }
    }

    #[tokio::test]
    async fn a_failure_is_logged_once_and_so_is_its_end() {
        let dir = tempfile::tempdir().unwrap();
        let app = bare::app(&dir).await;
        let (lines, _listening) = Lines::listen();
        let (_running, stop) = watch::channel(false);
        let failures = vec!["again", "", "other", "same", "same", "same"];
        Job::of("test", MOMENT, Failing(failures)).run(app, stop).await;
        let errors: Vec<_> = lines.with("job failed; retrying");
        let errors: Vec<_> = errors.iter().map(|line| line["fields"]["error"].as_str().unwrap()).collect();
        assert_eq!(errors, ["same", "other", "again"]);
        assert_eq!(lines.with("job works again").len(), 2);
    }

    /// A database that takes nothing is not heard by, a conflict with another server keeps no machine from its report.
    #[tokio::test]
    async fn a_conflict_does_not_make_the_server_deaf() {
        use wardroom_store::Error as Store;
        let dir = tempfile::tempdir().unwrap();
        let app = bare::app(&dir).await;
        let mut outcomes = Outcomes::of("test");
        for (failure, is_deaf) in [
            (Store::Conflict, false),
            (Store::Fenced { lease: "run".to_owned() }, false),
            (Store::Unavailable("gone".to_owned()), true),
        ] {
            let before = app.listening_since();
            tokio::time::sleep(MOMENT * 5).await;
            outcomes.note(&app, Some(&Failed::Own(failure.into())));
            assert_eq!(app.listening_since() > before, is_deaf);
        }
    }

    /// Counts its runs, each of which takes a while.
    struct Counting(Arc<AtomicUsize>, Duration);

    impl Task for Counting {
        fn run<'a>(&'a mut self, _: &'a App) -> BoxFuture<'a, Result<Next, Failed>> {
            Box::pin(async move {
                tokio::time::sleep(self.1).await;
                self.0.fetch_add(1, Relaxed);
                Ok(Next::Never)
            })
        }
    }

    #[tokio::test]
    async fn a_job_under_a_lease_waits_for_it_renews_it_and_frees_it() {
        let dir = tempfile::tempdir().unwrap();
        let app = bare::app(&dir).await;
        let (_running, stop) = watch::channel(false);
        let length = Duration::from_millis(300);
        let other = app.store.acquire_lease("test", "other", Duration::from_secs(60)).await.unwrap().unwrap();
        let runs = Arc::new(AtomicUsize::new(0));
        let task = Counting(Arc::clone(&runs), length * 3);
        let job = Job::of("test", MOMENT, task).under("test", "this", length);
        let mut tasks = JoinSet::new();
        start(&app, vec![job], &stop, &mut tasks);
        tokio::time::sleep(MOMENT * 50).await;
        assert_eq!(app.store.lease("test").await.unwrap().unwrap().holder, "other");
        app.store.release_lease(&other).await.unwrap();
        tasks.join_next().await.unwrap().unwrap();
        assert_eq!(runs.load(Relaxed), 1, "it ran for longer than the lease, which was renewed");
        assert!(app.store.acquire_lease("test", "other", length).await.unwrap().is_some(), "it is free");
    }

    #[tokio::test]
    async fn a_task_whose_lease_is_lost_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let app = bare::app(&dir).await;
        let (running, stop) = watch::channel(false);
        let (lines, _listening) = Lines::listen();
        let runs = Arc::new(AtomicUsize::new(0));
        let task = Counting(Arc::clone(&runs), Duration::from_secs(3600));
        let job = Job::of("test", MOMENT, task).under("test", "this", MOMENT * 60);
        let taken = async {
            while app.store.lease("test").await.unwrap().is_none() {
                tokio::time::sleep(MOMENT).await;
            }
            app.store.void_lease("test").await.unwrap();
            let other = app.store.acquire_lease("test", "other", Duration::from_secs(60)).await.unwrap();
            assert!(other.is_some());
            while lines.with("job failed; retrying").is_empty() {
                tokio::time::sleep(MOMENT).await;
            }
            running.send_replace(true);
        };
        tokio::join!(job.run(app.clone(), stop), taken);
        assert_eq!(runs.load(Relaxed), 0);
        assert_eq!(app.store.lease("test").await.unwrap().unwrap().holder, "other");
    }

    #[tokio::test]
    async fn a_stop_waits_for_a_run_unless_that_may_be_interrupted() {
        let dir = tempfile::tempdir().unwrap();
        let app = bare::app(&dir).await;
        for (interruptible, expected) in [(false, 1), (true, 0)] {
            let (running, stop) = watch::channel(false);
            let runs = Arc::new(AtomicUsize::new(0));
            let job = Job::of("test", MOMENT, Counting(Arc::clone(&runs), MOMENT * 200)).at_once();
            let job = if interruptible { job.interruptible() } else { job };
            let stopping = async {
                tokio::time::sleep(MOMENT * 50).await;
                running.send_replace(true);
            };
            tokio::join!(job.run(app.clone(), stop), stopping);
            assert_eq!(runs.load(Relaxed), expected);
        }
    }
}
