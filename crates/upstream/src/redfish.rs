//! A client of Redfish, as far as we need a BMC: does the password work, is the machine on, and turn it on or off.
//!
//! A BMC locks an account after a few wrong passwords, so a wrong password is a class of its own and never
//! repeated here. Paths that a BMC names are followed only within its own Redfish tree.

mod call;
mod error;
mod system;
mod trust;

pub use call::{Redfish, Settings};
pub use error::{Class, Error, Repeat};
pub use system::{Override, PowerState, Reset, System};
pub use trust::{Password, Trust};
