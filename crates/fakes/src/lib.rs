//! Stateful fakes of the systems Wardroom drives, held to recorded behaviour, with faults to order.

#[cfg(any(feature = "harbor", feature = "kubernetes", feature = "spire"))]
pub mod fault;
#[cfg(feature = "harbor")]
pub mod harbor;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
#[cfg(feature = "maas")]
pub mod maas;
#[cfg(feature = "redfish")]
pub mod redfish;
#[cfg(feature = "spire")]
pub mod spire;
#[cfg(any(feature = "maas", feature = "redfish"))]
mod wire;
