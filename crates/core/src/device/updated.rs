//! Updated: whether a device runs what its spec and its fleet want.

use jiff::Timestamp;

use super::{Derived, Facts, facts::given, text::Quoted, update};
use crate::{Named, names::names};

/// The first rule that holds wins: an update whose device was lost may have ended either way, and an update
/// under way says more than a comparison of versions.
#[must_use]
pub fn derive(facts: &Facts<'_>, now: Timestamp) -> Derived<Status> {
    if facts.last_seen.is_none() || facts.report.is_none() {
        Derived::new(Status::Unknown, "Its agent never reported; what it runs is known when it does.")
    } else if facts.is_updating() && facts.is_disconnected(now) {
        lost(facts)
    } else if facts.is_updating() {
        updating(facts)
    } else if facts.is_updated_to_device_spec()
        && (facts.is_not_managed() || facts.is_updated_to_fleet_spec())
    {
        up_to_date(facts, now)
    } else {
        out_of_date(facts, now)
    }
}

names! {
    /// How the running version of a device compares with the wanted one.
    pub enum Status {
        /// It runs the spec rendered for it, made from the current template of its fleet if it has one.
        UpToDate = "UpToDate",
        /// Its agent works on an update.
        Updating = "Updating",
        /// It runs something else than it should, and no update is under way.
        OutOfDate = "OutOfDate",
        /// Its agent never reported, or was lost in the middle of an update.
        Unknown = "Unknown",
    }
}

fn lost(facts: &Facts<'_>) -> Derived<Status> {
    let seen = facts.last_seen.map(|seen| format!(", last heard at {seen:.0}")).unwrap_or_default();
    let reason = facts.conditions().updating.and_then(|updating| given(Some(updating.reason)));
    let state = reason.map(|reason| format!(" in {}", Quoted(reason))).unwrap_or_default();
    let info =
        format!("Lost during an update{seen}{state}; how it ended is known when the device is heard again.");
    Derived::new(Status::Unknown, info)
}

/// The agent's own words, or what the state of its update means when it gives none.
fn updating(facts: &Facts<'_>) -> Derived<Status> {
    let condition = facts.conditions().updating;
    let reason = condition.and_then(|updating| given(Some(updating.reason)));
    let message = condition.and_then(|updating| given(Some(updating.message)));
    let known = update::State::ALL.iter().find(|state| Some(state.as_str()) == reason);

    match (reason, message, known) {
        (Some(reason), Some(message), _) => {
            Derived::new(Status::Updating, format!("{}: {}.", Quoted(reason), Quoted(message)))
        }
        (None, Some(message), _) => Derived::new(Status::Updating, format!("{}.", Quoted(message))),
        (_, None, Some(state)) => Derived::new(Status::Updating, state.meaning()),
        (_, None, None) => Derived::new(Status::Updating, "Its agent works on an update and says no more."),
    }
}

fn up_to_date(facts: &Facts<'_>, now: Timestamp) -> Derived<Status> {
    let info = match (facts.is_disconnected(now), facts.is_not_managed()) {
        (true, _) => "Ran what it should when it was last heard.",
        (false, true) => "Runs the spec rendered for it.",
        (false, false) => "Runs the spec rendered for it from the current template of its fleet.",
    };
    Derived::new(Status::UpToDate, info)
}

/// Lists every reason with the one who has to act: a reason left out would only be found after the others.
fn out_of_date(facts: &Facts<'_>, now: Timestamp) -> Derived<Status> {
    let offline =
        facts.is_disconnected(now).then(|| "Offline: nothing changes before it is heard again.".into());
    let reasons = [rollout_error(facts), update_error(facts), device_spec(facts), fleet_spec(facts), offline];
    Derived::new(Status::OutOfDate, reasons.into_iter().flatten().collect::<Vec<_>>().join(" "))
}

fn rollout_error(facts: &Facts<'_>) -> Option<String> {
    let error = Quoted(given(facts.last_rollout_error)?);
    Some(format!("The rollout to it failed: {error}."))
}

fn update_error(facts: &Facts<'_>) -> Option<String> {
    let message = Quoted(given(Some(facts.update_error()?.message)).unwrap_or("no message"));
    Some(format!(
        "Its agent gave up the last update: {message}. It does not repeat it: a new version is needed."
    ))
}

fn device_spec(facts: &Facts<'_>) -> Option<String> {
    match (facts.running_version(), given(facts.rendered_version)) {
        (None, None) => None,
        (Some(running), Some(wanted)) if running == wanted => None,
        (Some(running), Some(wanted)) => {
            let running = Quoted(running);
            Some(format!("Runs version {running}, should run {wanted}: its agent has to apply it."))
        }
        (None, Some(wanted)) => {
            Some(format!("Reports no version, should run {wanted}: its agent has to apply it."))
        }
        (Some(running), None) => {
            let running = Quoted(running);
            Some(format!("Runs version {running}, but none is rendered for it: the server has to."))
        }
    }
}

fn fleet_spec(facts: &Facts<'_>) -> Option<String> {
    let owner = given(facts.owner)?;
    let Some(fleet) = facts.fleet else {
        return Some(format!("Its fleet {owner} does not exist: create it, or change the owner."));
    };
    let Some(wanted) = given(fleet.template_version) else {
        return Some(format!("Its fleet {owner} has no template version yet: the server has to make one."));
    };
    match given(facts.template_version) {
        Some(at) if at == wanted => None,
        Some(at) => {
            Some(format!("Is at template version {at}, {owner} is at {wanted}: the rollout has to reach it."))
        }
        None => {
            Some(format!("Is at no template version, {owner} is at {wanted}: the rollout has to reach it."))
        }
    }
}
