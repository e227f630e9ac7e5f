//! Problems that only devices have.

use crate::platform::http::error::{Class, class};

#[rustfmt::skip]
pub(super) const PROBLEMS: &[Class] = &[
    class("enrollment_token_spent", 409, "The enrolment token is used up", "As many devices as the token is for have used it. An operator creates another."),
    class("managed_by_fleet",       409, "The spec comes from a fleet", "The device belongs to a fleet, whose template is its spec. Change the template of the fleet, or the labels of the device so that the fleet no longer selects it."),
    class("no_earlier_template",    409, "There is no earlier template", "The fleet has had one template only, so that there is none to bring back. Give it another template instead."),
    class("device_decommissioned",  409, "The device is out of service", "The device is being decommissioned, or was: nothing about it changes any more. Delete it once it is not needed."),
];
