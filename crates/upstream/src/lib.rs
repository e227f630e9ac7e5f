//! Clients of the systems Wardroom drives: each one knows a wire format and the classes of its errors, and decides nothing.

#[cfg(any(feature = "harbor", feature = "registry"))]
mod exchange;
#[cfg(any(feature = "harbor", feature = "kubernetes", feature = "registry", feature = "spire"))]
mod failure;
#[cfg(any(feature = "maas", feature = "redfish"))]
mod gate;
#[cfg(feature = "harbor")]
pub mod harbor;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
#[cfg(feature = "maas")]
pub mod maas;
#[cfg(any(feature = "artifact", feature = "harbor"))]
mod name;
#[cfg(feature = "redfish")]
pub mod redfish;
#[cfg(feature = "artifact")]
pub mod registry;
#[cfg(any(feature = "maas", feature = "redfish"))]
mod reply;
#[cfg(any(feature = "harbor", feature = "registry", feature = "spire"))]
mod secret;
#[cfg(feature = "spire")]
pub mod spire;

#[cfg(any(feature = "harbor", feature = "kubernetes", feature = "registry", feature = "spire"))]
pub use failure::{Failure, Repeat};
#[cfg(any(feature = "maas", feature = "redfish"))]
pub use gate::{Gate, Refused};
#[cfg(any(feature = "harbor", feature = "registry", feature = "spire"))]
pub use secret::Secret;
