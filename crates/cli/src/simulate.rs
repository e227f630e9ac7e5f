//! Simulated devices that put load on a server: a TLS connection with a key of its own for each poll.

use std::{net::IpAddr, sync::Arc, time::Duration};

use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use tokio::{sync::Semaphore, task::JoinSet};

mod device;
mod link;
mod tally;

pub(crate) use tally::Seen;
use tally::Tally;

/// What is simulated.
#[derive(Debug)]
pub(crate) struct Options {
    pub(crate) count: usize,
    pub(crate) seed: u64,
    /// Where the server listens for devices.
    pub(crate) agents: String,
    pub(crate) token: String,
    pub(crate) interval: Duration,
    /// Percent of updates that fail.
    pub(crate) failures: u8,
    /// Where connections come from; the system chooses when there is none.
    pub(crate) from: Vec<IpAddr>,
    /// How long, once all devices are enrolled; until Ctrl-C when there is none.
    pub(crate) length: Option<Duration>,
}

/// What all devices share.
struct World {
    options: Arc<Options>,
    place: link::Place,
    tally: Tally,
    /// So many enrol at a time.
    gate: Semaphore,
}

/// How many devices enrol at a time.
const ENROLLING: usize = 32;

/// Simulates until the end, and returns what the devices saw.
pub(crate) async fn run(options: Arc<Options>, authority: &[u8]) -> anyhow::Result<Seen> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(authority) {
        roots.add(certificate?)?;
    }
    let place = link::Place::find(&options.agents, roots).await?;
    let tally = Tally::new();
    let world =
        Arc::new(World { options: Arc::clone(&options), place, tally, gate: Semaphore::new(ENROLLING) });
    let mut devices = JoinSet::new();
    for number in 0..options.count {
        devices.spawn(device::live(Arc::clone(&world), number));
    }
    let end = async {
        world.tally.enrolled(options.count).await;
        match options.length {
            Some(length) => tokio::time::sleep(length).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        () = end => {}
        _ = tokio::signal::ctrl_c() => {}
        // A device never ends by itself.
        Some(ended) = devices.join_next() => ended??,
    }
    Ok(world.tally.seen(options.count))
}
