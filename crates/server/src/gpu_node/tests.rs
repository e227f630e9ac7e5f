//! GPU nodes from end to end, in one process: the API, the engine, and fakes of MAAS and of a BMC.

mod actions;
mod agents;
mod crash;
mod decommission;
mod onboarding;
mod rig;
mod trouble;
