//! Problems that only GPU nodes and their runs have.

use crate::platform::http::error::{Class, class};

#[rustfmt::skip]
pub(super) const PROBLEMS: &[Class] = &[
    class("run_is_over",       409, "The state does not allow it", "The run is over; start a new one."),
    class("nothing_failed",    409, "The state does not allow it", "Nothing has failed; the run is in progress."),
    class("being_undone",      409, "The state does not allow it", "The run is being undone, or failed while it was; retry the undo, or abandon the run."),
    class("being_cancelled",   409, "The state does not allow it", "The run is being cancelled; start a new one afterwards."),
    class("nothing_observed",  409, "There is nothing to adopt", "There is no observation to adopt; wait for the next one."),
    class("machine_in_use",    409, "The machine is in use", "The machine is in use in MAAS for something else; release it there, then rerun the run."),
    class("observation_outdated", 409, "There is a newer observation", "There is a newer observation; read the run again."),
    class("not_frozen",        409, "The state does not allow it", "Only a run that was frozen for manual intervention can be abandoned; mark it first."),
    class("run_open",          409, "A run works on the node", "Another run is open on the node, or owns the state it is in; `detail` names it."),
    class("identity_gone",     409, "There is no identity to reactivate", "The agent was uninstalled, its system released or its credential revoked; reimage the machine, or register the node again."),
    class("not_proven",        409, "The node is not proven healthy", "A healthy heartbeat since the quarantine is needed, and nothing in MAAS that would set the node aside again; to reactivate, MAAS must have the machine deployed."),
    class("no_site",           409, "No site manages the node", "This needs a machine in MAAS; a node without one is retired and removed."),
    class("task_lost",         409, "The task no longer belongs to this agent", "The lease of the task expired, or its run withdrew it; claim again."),
];
