//! What a booting machine says: asking for its boot script, and reporting.

use super::{Client, Error, accepted};
use crate::{
    Envelope,
    node::{Node, NodeReport},
};

impl Client {
    /// Returns the boot script of the machine with this MAC.
    ///
    /// # Errors
    /// As for every call.
    pub async fn boot_script(&self, mac: &str) -> Result<String, Error> {
        let request = self.http.get(self.url(&["boot"], &[("mac", Some(mac))]));
        let response = accepted(request.timeout(self.timeout)).await?;
        response.text().await.map_err(|error| Error::network(&error))
    }

    /// Reports the installation of a machine, or its hardware.
    ///
    /// # Errors
    /// As for every call.
    pub async fn report_node(&self, report: &NodeReport) -> Result<Node, Error> {
        self.tell::<Envelope<_>>(&["report"], report).await.map(|answer| answer.data)
    }
}
