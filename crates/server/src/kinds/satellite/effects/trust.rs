//! The trust bundle that SPIRE rotates, and the files of the server's own certificate.

use std::{future::ready, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;

use super::{Upstream, Worker, configured};
use crate::kinds::satellite::settings::Settings;
use crate::platform::{
    app::App,
    identity::{certificate::Trust, spiffe},
    work::schedule::{Failed, Job, Next, Task},
};

const PERIOD: Duration = Duration::from_secs(30);

/// How often SPIRE is asked while it has not given a bundle.
const SOON: Duration = Duration::from_secs(2);

/// The jobs that keep trust up to date.
pub(super) fn jobs(worker: &Arc<Worker>, trust: &Arc<Trust>) -> Vec<Job> {
    let Some(settings) = &Settings::of(&worker.app.config).spiffe else { return Vec::new() };
    let mut jobs = vec![Job::of("certificate files", PERIOD, Files(Arc::clone(trust))).at_once()];
    if settings.bundle.is_none() && worker.upstreams.spire.is_some() {
        let bundle = Bundle { worker: Arc::clone(worker), trust: Arc::clone(trust), known: None };
        jobs.push(Job::of("trust bundle", SOON, bundle).at_once());
    }
    jobs
}

/// Reads the files again; the previous ones stay in force while the new ones are not valid.
struct Files(Arc<Trust>);

impl Task for Files {
    fn run<'a>(&'a mut self, app: &'a App) -> BoxFuture<'a, Result<Next, Failed>> {
        let Some(settings) = &Settings::of(&app.config).spiffe else {
            return Box::pin(ready(Ok(Next::Never)));
        };
        let read = spiffe::reload(&self.0, settings);
        Box::pin(ready(
            read.map(|()| Next::Period).map_err(|error| Failed::Other(format!("[spiffe]: {error}"))),
        ))
    }
}

/// Follows the bundle of SPIRE.
struct Bundle {
    worker: Arc<Worker>,
    trust: Arc<Trust>,
    /// The roots that are in force.
    known: Option<Vec<Vec<u8>>>,
}

impl Task for Bundle {
    fn run<'a>(&'a mut self, app: &'a App) -> BoxFuture<'a, Result<Next, Failed>> {
        Box::pin(async move {
            let Some(settings) = &Settings::of(&app.config).spiffe else { return Ok(Next::Never) };
            let failed = |error: String| Err(Failed::Other(error));
            let spire =
                configured(self.worker.upstreams.spire.as_ref()).map_err(|it| it.of(Upstream::Spire))?;
            let bundle = match spire.bundle().await {
                Ok(bundle) => bundle,
                Err(error) => return failed(format!("SPIRE does not give its trust bundle: {error}")),
            };
            if bundle.trust_domain != settings.trust_domain {
                let (domain, expected) = (&bundle.trust_domain, &settings.trust_domain);
                return failed(format!(
                    "SPIRE has the trust domain {domain}, and [spiffe] expects {expected}"
                ));
            }
            if self.known.as_ref() != Some(&bundle.roots) {
                let roots = bundle.roots.iter().cloned().map(Into::into).collect();
                if let Err(error) = self.trust.set_roots(roots) {
                    return failed(format!("the trust bundle of SPIRE cannot be used: {error}"));
                }
                self.known = Some(bundle.roots);
            }
            Ok(Next::After(PERIOD))
        })
    }
}
