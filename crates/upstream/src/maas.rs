//! A client of MAAS's API 2.0, the only one of its interfaces that can drive a machine.
//!
//! Every call is one request with a time limit and a limit on its answer. Nothing is retried here: an
//! [`Error`] says whether a blind repeat is safe or an observation must come first, and the caller decides.
//! The body of a 401 is never read, because MAAS writes the expected secret into it.

mod call;
mod error;
mod form;
mod key;
mod machine;
mod machines;
mod network;
mod site;
mod storage;

pub use call::{Effect, Maas, Settings};
pub use error::{Class, Error, Repeat};
pub use form::Secret;
pub use key::{Key, KeyError};
pub use machine::{BlockDevice, Interface, Link, Machine, Named, Subnet, Vlan};
pub use machines::{Commission, Deploy, Erase, Filter, NewMachine, PowerDriver, Release, StopMode, Update};
pub use network::{LinkMode, NewLink};
pub use site::{Event, Events, Level, ResultSet, ScriptResult, Tagged, User, Version};
pub use storage::{Layout, LayoutKind};
