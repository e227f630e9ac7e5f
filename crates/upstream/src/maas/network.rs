//! Network of a machine: interfaces, their VLAN and MTU, and their links. Links add up: look before linking.

use super::{
    Effect::{Declares, Once},
    Error, Interface, Maas, Subnet,
    call::Op,
    form::Form,
};

/// How an interface gets its address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkMode {
    /// MAAS chooses one and the system keeps it.
    Auto,
    /// By DHCP.
    Dhcp,
    /// A fixed one, which MAAS chooses unless it is given.
    Static,
    /// None.
    LinkUp,
}

/// A link to make.
#[derive(Debug, Clone, Copy)]
pub struct NewLink<'a> {
    /// How the address is found.
    pub mode: LinkMode,
    /// The subnet, by MAAS's id.
    pub subnet: i64,
    /// The address, for a static link.
    pub ip_address: Option<&'a str>,
}

impl Maas {
    /// The interfaces of a machine.
    ///
    /// # Errors
    /// When MAAS does not answer with them.
    pub async fn interfaces(&self, id: &str) -> Result<Vec<Interface>, Error> {
        self.get("interfaces", &["nodes", id, "interfaces", ""], &[]).await
    }

    /// One interface.
    ///
    /// # Errors
    /// When MAAS does not answer with it.
    pub async fn interface(&self, id: &str, interface: i64) -> Result<Interface, Error> {
        self.get("interface", &["nodes", id, "interfaces", &interface.to_string(), ""], &[]).await
    }

    /// Every subnet that MAAS knows.
    ///
    /// # Errors
    /// When MAAS does not answer with them.
    pub async fn subnets(&self) -> Result<Vec<Subnet>, Error> {
        self.get("subnets", &["subnets", ""], &[]).await
    }

    /// Puts an interface into a VLAN, or gives it an MTU.
    ///
    /// # Errors
    /// When MAAS does not take it.
    pub async fn update_interface(
        &self,
        id: &str,
        interface: i64,
        vlan: Option<i64>,
        mtu: Option<u32>,
    ) -> Result<Interface, Error> {
        let path = ["nodes", id, "interfaces", &interface.to_string(), ""];
        let form = Form::default().maybe("vlan", vlan).maybe("mtu", mtu);
        self.put(Op("update_interface", Declares), &path, form).await
    }

    /// Adds a link, even if an equal one exists.
    ///
    /// # Errors
    /// When MAAS does not make it.
    pub async fn link_subnet(&self, id: &str, interface: i64, link: NewLink<'_>) -> Result<Interface, Error> {
        let mode = match link.mode {
            LinkMode::Auto => "AUTO",
            LinkMode::Dhcp => "DHCP",
            LinkMode::Static => "STATIC",
            LinkMode::LinkUp => "LINK_UP",
        };
        let form =
            Form::default().set("mode", mode).set("subnet", link.subnet).maybe("ip_address", link.ip_address);
        let path = ["nodes", id, "interfaces", &interface.to_string(), "op-link_subnet"];
        self.post(Op("link_subnet", Once), &path, form).await
    }

    /// Removes one link.
    ///
    /// # Errors
    /// When MAAS does not.
    pub async fn unlink_subnet(&self, id: &str, interface: i64, link: i64) -> Result<Interface, Error> {
        let path = ["nodes", id, "interfaces", &interface.to_string(), "op-unlink_subnet"];
        self.post(Op("unlink_subnet", Once), &path, Form::default().set("id", link)).await
    }

    /// Removes every link and the VLAN of an interface.
    ///
    /// # Errors
    /// When MAAS does not.
    pub async fn disconnect(&self, id: &str, interface: i64) -> Result<Interface, Error> {
        let path = ["nodes", id, "interfaces", &interface.to_string(), "op-disconnect"];
        self.post(Op("disconnect", Declares), &path, Form::default()).await
    }
}
