//! The configuration of a client: a kubeconfig file, or the service account of a pod.

use std::{error::Error, time::Duration};

use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};

use super::Source;
use crate::{Failure, failure::fit};

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(5);

pub(super) async fn client(source: &Source) -> Result<Client, Failure> {
    let mut config = match source {
        Source::Environment => Config::infer().await.map_err(|error| unusable(&error))?,
        Source::File(path) => {
            let file = Kubeconfig::read_from(path).map_err(|error| unusable(&error))?;
            let options = KubeConfigOptions::default();
            Config::from_custom_kubeconfig(file, &options).await.map_err(|error| unusable(&error))?
        }
    };
    config.connect_timeout = Some(CONNECT);
    // A watch is silent for long; every other call has a limit of its own.
    config.read_timeout = None;
    // Attempts are counted by the caller.
    config.default_retry = false;
    Client::try_from(config).map_err(|error| unusable(&error))
}

fn unusable(error: &dyn Error) -> Failure {
    Failure::Setup(fit(&format!("the Kubernetes configuration cannot be used: {}", causes(error)), &[]))
}

/// Returns an error with those of its causes that say more.
pub(super) fn causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        let said = next.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        cause = next.source();
    }
    text
}
