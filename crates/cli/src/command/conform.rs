//! `wardroom conform`.

use clap::{Args, Subcommand};
use wardroom_api::cluster::Exact;

use crate::{
    conform::{Subject, adapter},
    document,
    exit::{Code, failure},
};

/// Drives a program of yours through its contract, and writes a score card, rule by rule.
///
/// It runs beside a server in a temporary folder that is gone afterwards. Fails with code 1 unless every rule holds.
#[derive(Subcommand)]
pub(crate) enum Conform {
    /// Judges an adapter of clusters: reports, generations, finalization, an absent server, its end. For example: wardroom conform
    /// adapter dns --spec spec.yaml -- ./dns-adapter --server {server} --token-file {token_file}
    Adapter(Adapter),
}

#[derive(Args)]
pub(crate) struct Adapter {
    /// The name under which it reports.
    name: String,
    /// The spec of the clusters that it is shown, as YAML or JSON; default: empty.
    #[arg(long, value_name = "FILE")]
    spec: Option<String>,
    #[command(flatten)]
    subject: Subject,
}

impl Conform {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let Self::Adapter(Adapter { name, spec, subject }) = self;
        let spec = match spec {
            Some(file) => Exact::of(&document::settings(&file)?)
                .map_err(|_| failure(Code::Usage, format!("{file}: a spec is an object")))?,
            None => Exact::default(),
        };
        let adapter = adapter::Adapter { name, spec, subject };
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let judged = runtime.block_on(adapter.judge());
        // Work of the server that was cut off does not hold up the end.
        runtime.shutdown_background();
        judged
    }
}
