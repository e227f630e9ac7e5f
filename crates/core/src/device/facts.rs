//! Facts: all that the statuses of a device depend on, borrowed from what the store holds.
//!
//! The helper definitions of the design document are the methods of [`Facts`], each by its own name. A text
//! that is empty counts as unset everywhere, as in those definitions.

use jiff::{SignedDuration, Timestamp};

use super::{
    applications::Application,
    condition::{Condition, Conditions, Status},
    lifecycle,
    resource::Resources,
    update,
};

/// How long a device may be silent when its fleet says nothing else.
pub const DEFAULT_TIMEOUT: SignedDuration = SignedDuration::from_mins(5);

/// How long a device may be silent: what its fleet says, but at least three of the intervals in force, so
/// that no fleet can be configured into reporting every device as lost between two beats.
#[must_use]
pub fn disconnection_timeout(fleet: Option<SignedDuration>, interval: SignedDuration) -> SignedDuration {
    fleet.unwrap_or(DEFAULT_TIMEOUT).max(interval.saturating_mul(3))
}

/// What is known of one device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts<'a> {
    /// When we last received anything from the agent, by our clock; nothing if never.
    pub last_seen: Option<Timestamp>,
    /// How long it may be silent, from [`disconnection_timeout`].
    pub timeout: SignedDuration,
    /// How long since then the server did not listen: that time does not count as silence.
    pub excused: SignedDuration,
    /// The agent's last report; nothing if it never sent one.
    pub report: Option<Report<'a>>,
    /// The version of the spec that the server rendered for the device.
    pub rendered_version: Option<&'a str>,
    /// The version of the fleet's template that the rendered spec was made from.
    pub template_version: Option<&'a str>,
    /// Why the last attempt to roll the fleet's template out to this device failed, if it did.
    pub last_rollout_error: Option<&'a str>,
    /// The name of the fleet that owns the device.
    pub owner: Option<&'a str>,
    /// The owner as the store holds it; nothing when there is no fleet of that name.
    pub fleet: Option<Fleet<'a>>,
    /// Whether an enrolment request for the device was approved and completed.
    pub enrolled: bool,
    /// Whether a user requested the device to be decommissioned.
    pub decommission_requested: bool,
    /// The furthest lifecycle status the device has had.
    pub reached: lifecycle::Status,
}

impl Default for Facts<'_> {
    /// A device of which nothing is known yet.
    fn default() -> Self {
        Self {
            last_seen: None,
            timeout: DEFAULT_TIMEOUT,
            excused: SignedDuration::ZERO,
            report: None,
            rendered_version: None,
            template_version: None,
            last_rollout_error: None,
            owner: None,
            fleet: None,
            enrolled: false,
            decommission_requested: false,
            reached: lifecycle::Status::Unknown,
        }
    }
}

/// What a device's fleet says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fleet<'a> {
    /// The version of its template that members should be at.
    pub template_version: Option<&'a str>,
}

/// What the agent says about its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report<'a> {
    /// The health of its hardware.
    pub resources: Resources,
    /// The conditions that the agent owns.
    pub conditions: Conditions<'a>,
    /// The version of the spec it runs.
    pub rendered_version: Option<&'a str>,
    /// Its applications.
    pub applications: &'a [Application<'a>],
}

impl<'a> Facts<'a> {
    /// `deviceIsDisconnected`: it was silent for longer than its timeout while we listened, or was never heard.
    ///
    /// Compares durations: `last_seen + timeout` could leave the range of a timestamp, a difference cannot.
    #[must_use]
    pub fn is_disconnected(&self, now: Timestamp) -> bool {
        let allowed = self.timeout.saturating_add(self.excused);
        self.last_seen.is_none_or(|seen| allowed < now.duration_since(seen))
    }

    /// `deviceIsNotManaged`: no fleet owns it.
    #[must_use]
    pub fn is_not_managed(&self) -> bool {
        given(self.owner).is_none()
    }

    /// `deviceIsRebooting`: the agent says so, by a condition of its own or as a state of its update.
    #[must_use]
    pub fn is_rebooting(&self) -> bool {
        let conditions = self.conditions();
        conditions.rebooting.is_some_and(|condition| condition.is_true()) || self.is_rebooting_to_update()
    }

    /// `deviceIsUpdating`: the agent says that it works on an update.
    #[must_use]
    pub fn is_updating(&self) -> bool {
        self.conditions().updating.is_some_and(|condition| condition.is_true())
    }

    /// `deviceIsUpdatedToDeviceSpec`: it runs the version that was rendered for it.
    ///
    /// Two unset versions are equal: where nothing was rendered there is nothing to update to.
    #[must_use]
    pub fn is_updated_to_device_spec(&self) -> bool {
        self.running_version() == given(self.rendered_version)
    }

    /// `deviceIsUpdatedToFleetSpec`: it runs its spec, and that was made from its fleet's current template.
    ///
    /// A fleet or a template version that is missing cannot be matched.
    #[must_use]
    pub fn is_updated_to_fleet_spec(&self) -> bool {
        let wanted = self.fleet.and_then(|fleet| given(fleet.template_version));
        self.is_updated_to_device_spec() && wanted.is_some() && wanted == given(self.template_version)
    }

    /// No rollout can reach it: the last one failed, or its fleet or the fleet's template version is missing.
    pub(super) fn is_out_of_reach(&self) -> bool {
        let has_template = self.fleet.and_then(|fleet| given(fleet.template_version)).is_some();
        given(self.last_rollout_error).is_some() || !(self.is_not_managed() || has_template)
    }

    /// The agent's conditions; none before its first report.
    pub(super) fn conditions(&self) -> Conditions<'a> {
        self.report.map(|report| report.conditions).unwrap_or_default()
    }

    /// The version of the spec that the agent reports as running.
    pub(super) fn running_version(&self) -> Option<&'a str> {
        self.report.and_then(|report| given(report.rendered_version))
    }

    /// The reboot is a step of an update.
    pub(super) fn is_rebooting_to_update(&self) -> bool {
        let rebooting = update::State::Rebooting.as_str();
        self.conditions()
            .updating
            .is_some_and(|condition| condition.is_true() && condition.reason == rebooting)
    }

    /// The agent's last update failed and no other has begun.
    pub(super) fn update_error(&self) -> Option<Condition<'a>> {
        let error = update::State::Error.as_str();
        let failed =
            |condition: &Condition<'_>| condition.status == Status::False && condition.reason == error;
        self.conditions().updating.filter(failed)
    }
}

/// A text that says something; an empty one counts as unset.
pub(super) fn given(text: Option<&str>) -> Option<&str> {
    text.filter(|text| !text.is_empty())
}
