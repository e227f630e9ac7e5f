//! The settings of the demo's server: ordinary ones, with short patience so that there is something to see at once.

use std::{net::SocketAddr, path::Path};

use super::{
    plan::{ADAPTERS, Plan},
    upstreams::Upstreams,
};

/// How long a deployment may take before it counts as stuck, in seconds.
pub(super) const DEPLOY_PATIENCE: u32 = 10;

/// How long an adapter may be silent about a cluster, in seconds.
pub(super) fn adapter_patience(plan: &Plan) -> u64 {
    plan.report_interval().as_secs() * 4
}

/// The settings, by their keys in the configuration. The environment is left alone: a database of the user is not for this.
pub(super) fn flags(
    plan: &Plan,
    folder: &Path,
    listen: SocketAddr,
    upstreams: &Upstreams,
) -> Vec<(&'static str, String)> {
    let interval = plan.interval().as_secs();
    let many = "1000000".to_owned();
    let own = vec![
        ("server.listen", listen.to_string()),
        ("server.data_dir", folder.display().to_string()),
        ("server.shutdown_seconds", "1".to_owned()),
        ("boot.listen", "127.0.0.1:0".to_owned()),
        ("devices.listen", "127.0.0.1:0".to_owned()),
        ("devices.interval_seconds", interval.to_string()),
        ("devices.disconnection_seconds", (interval * 3).to_string()),
        ("liveness.default_interval_seconds", interval.to_string()),
        ("liveness.grace_seconds", interval.to_string()),
        ("clusters.required_adapters", ADAPTERS.join(",")),
        ("clusters.adapter_patience_seconds", adapter_patience(plan).to_string()),
        ("gpu_nodes.allow_local_addresses", "true".to_owned()),
        ("harbor.url", upstreams.harbor.url()),
        ("harbor.username", upstreams.harbor_user.clone()),
        ("harbor.password", upstreams.harbor_password.clone()),
        // All members have the address of this machine.
        ("limits.anonymous", many.clone()),
        ("limits.report", many),
    ];
    own.into_iter().chain(upstreams.domain.flags()).collect()
}
