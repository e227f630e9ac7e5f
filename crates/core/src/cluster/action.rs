//! What people can ask of a cluster.

use crate::action::Call;

/// Reads a cluster.
pub const READ: Call = Call::read("cluster", "/api/hyperfleet/v1/clusters/{id}");

/// Requests the deletion of a cluster and its node pools.
pub const DELETE: Call = Call::new("cluster", "delete", "DELETE", "/api/hyperfleet/v1/clusters/{id}");

/// Removes a cluster and its node pools without waiting for their adapters.
pub const FORCE_DELETE: Call =
    Call::new("cluster", "force_delete", "POST", "/api/hyperfleet/v1/clusters/{id}/force-delete")
        .needing(&["reason"])
        .when("The deletion of the cluster was requested.");
