//! Discovery: a machine that nobody knows boots or reports, and is registered to await approval.
//!
//! Anybody on the network can pretend to be a new machine, so this is limited in rate and in number, and can
//! be turned off.

use wardroom_store::{Error as StoreError, Resource};

use crate::{
    app::App,
    auth::Caller,
    error::Error,
    node::document::KIND,
    report::{self, Hardware},
};

/// Registers an unknown machine as `discovered`; another request may have done so in the same moment.
pub(crate) async fn discover(
    app: &App,
    caller: &Caller,
    mac: &str,
    hardware: &Hardware,
) -> Result<Resource, Error> {
    let settings = app.config.discovery;
    if !settings.enabled {
        return Err(Error::not_found("node", mac));
    }
    app.limiter.check_discovery()?;
    let waiting = app.store.count_by_state().await?;
    let waiting = waiting.iter().find(|count| count.kind == KIND && count.state == "discovered");
    if waiting.is_some_and(|count| count.count >= settings.max) {
        return Err(Error::Unavailable(
            "too many discovered nodes await approval: approve or retire some first",
        ));
    }
    let content = report::discovered(mac, hardware)?;
    match app.create(content, report::by_report(app, caller, "registered", serde_json::Value::Null)).await {
        Ok(resource) => Ok(resource),
        Err(StoreError::KeyTaken { .. }) => app
            .store
            .get_by_key(KIND, mac)
            .await?
            .ok_or(Error::Unavailable("the node is being registered: repeat")),
        Err(error) => Err(error.into()),
    }
}
