//! Problems that only devices have.

use crate::platform::http::error::{Class, class};

#[rustfmt::skip]
pub(super) const PROBLEMS: &[Class] = &[
    class("enrollment_token_spent", 409, "The enrolment token is used up", "As many devices as the token is for have used it. An operator creates another."),
    class("device_decommissioned",  409, "The device is out of service", "The device is being decommissioned, or was: nothing about it changes any more. Delete it once it is not needed."),
];
