//! Stateful fakes of the systems Wardroom drives, held to recorded behaviour, with faults to order.

#[cfg(any(feature = "harbor", feature = "spire"))]
pub mod fault;
#[cfg(feature = "harbor")]
pub mod harbor;
#[cfg(feature = "spire")]
pub mod spire;
