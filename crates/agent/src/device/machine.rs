//! The machine of an update: which step comes next. Pure: progress goes in, a step comes out.
//!
//! States and events are those of `update::TABLE`, hooks those of [`hook::HOOKS`]; this file adds only what an agent does
//! inside a state. Progress is stored after each step, so that a restart continues at the step that was interrupted. Every
//! step can therefore run twice, and must give the same result both times.

use serde::{Deserialize, Serialize};
use wardroom_core::device::{
    hook::{self, Called, Failure},
    update::{
        Event::{self, *},
        State::{self, *},
        TABLE,
    },
};

/// What the agent does inside a state, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// Waits until no resource is critical.
    AwaitResources,
    /// Waits for the window in which the device may download.
    AwaitDownloadWindow,
    /// Validates the spec and compares it with the device; changes nothing.
    Plan,
    /// Waits for the window in which the device may change.
    AwaitUpdateWindow,
    /// Writes new files beside their targets and keeps the old ones.
    StageFiles,
    /// Puts the new files in place, and takes removed ones away.
    PutFiles,
    /// Puts the old files back.
    RestoreFiles,
    /// Puts the old files back in the root of the old image, which may have its own copy of them.
    RestoreFilesAgain,
    /// Removes what was kept for a rollback.
    Clean,
    /// Work on the operating system.
    Os(OsWork),
}

/// What the agent does with the operating system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OsWork {
    /// Makes the new image the one to boot.
    Stage,
    /// Reboots into the new image.
    Reboot,
    /// Checks that the new image runs and is healthy.
    CheckBoot,
    /// Makes the old image the one to boot.
    Restore,
    /// Reboots into the old image, if the new one runs.
    RebootBack,
}

use Work::*;

/// The work of each state. Work on the operating system is left out of an update that does not change it.
const WORK: [(State, &[Work]); 8] = [
    (Preparing, &[AwaitResources, AwaitDownloadWindow, Plan]),
    // The window may open hours later: the device is compared anew, right before the first change.
    (ReadyToUpdate, &[AwaitUpdateWindow, Plan]),
    (ApplyingUpdate, &[StageFiles, PutFiles, Os(OsWork::Stage)]),
    (Rebooting, &[Os(OsWork::Reboot), Os(OsWork::CheckBoot)]),
    (ActivatingConfig, &[]),
    (RollingBack, &[RestoreFiles, Os(OsWork::Restore), Os(OsWork::RebootBack), RestoreFilesAgain]),
    (Updated, &[Clean]),
    (Error, &[Clean]),
];

/// How far an update is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Progress {
    pub(crate) state: State,
    /// How much of the work of this state is done.
    pub(crate) done: usize,
    /// Whether the hook of this state has run.
    pub(crate) hooked: bool,
    /// The event of the table that a failure leads to.
    pub(crate) lead: Option<Event>,
    /// Why the update failed: its first failure.
    pub(crate) cause: Option<String>,
    /// Failures that change nothing: those of `afterRebooting` hooks.
    pub(crate) notes: Vec<String>,
    /// Whether new files may be in place.
    pub(crate) put: bool,
    /// Whether the new image may be the one to boot.
    pub(crate) staged_os: bool,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Work(Work),
    Hook(Called),
    Move(Event),
    End,
}

impl Default for Progress {
    fn default() -> Self {
        Self {
            state: Preparing,
            done: 0,
            hooked: false,
            lead: None,
            cause: None,
            notes: Vec::new(),
            put: false,
            staged_os: false,
        }
    }
}

impl Progress {
    /// Returns the next step. `new_os` says whether the update changes the operating system.
    pub(crate) fn next(&self, new_os: bool) -> Step {
        if let Some(event) = self.lead {
            return Step::Move(event);
        }
        if let Some(&work) = work(self.state, new_os).get(self.done) {
            return Step::Work(work);
        }
        let Some(event) = success(self.state, new_os) else { return Step::End };
        match hook::at(self.state, event) {
            Some(called) if !self.hooked => Step::Hook(called),
            Some(_) | None => Step::Move(event),
        }
    }

    /// Returns the progress after a step that succeeded.
    pub(crate) fn succeeded(&self, step: Step, new_os: bool) -> Self {
        let mut after = self.clone();
        match step {
            Step::Work(work) => {
                after.done += 1;
                // Noted before the step that they speak of begins: it may be interrupted.
                after.put |= work == StageFiles;
                after.staged_os |= work == PutFiles && new_os;
            }
            Step::Hook(_) => after.hooked = true,
            Step::Move(event) => {
                if let Some(row) = TABLE.find(self.state, event) {
                    (after.state, after.done, after.hooked, after.lead) = (row.to, 0, false, None);
                }
            }
            Step::End => {}
        }
        after
    }

    /// Returns the progress after a step that failed; nothing if the step has to be repeated until it succeeds.
    pub(crate) fn failed(&self, step: Step, cause: &str) -> Option<Self> {
        let mut after = self.clone();
        match step {
            Step::Hook(Called { failure: Failure::Continue, .. }) => {
                after.hooked = true;
                after.notes.push(cause.to_owned());
                return Some(after);
            }
            Step::Hook(Called { failure: Failure::Instead(event), .. }) => after.lead = Some(event),
            // The update has ended: what is left over must not hide how.
            Step::Work(Clean) => {
                after.done += 1;
                return Some(after);
            }
            // `None` while rolling back: half a rollback is no state to stay in.
            Step::Work(_) => after.lead = Some(failure(self.state)?),
            Step::Move(_) | Step::End => return None,
        }
        after.cause.get_or_insert_with(|| cause.to_owned());
        Some(after)
    }

    /// Returns the progress of an update that cannot go on, because its progress cannot be stored; nothing if it has to
    /// wait until it can.
    pub(crate) fn abandoned(&self, cause: &str) -> Option<Self> {
        let lead = Some(failure(self.state)?);
        let cause = self.cause.clone().or_else(|| Some(cause.to_owned()));
        Some(Self { lead, cause, ..self.clone() })
    }
}

/// Returns the work of a state.
pub(crate) fn work(state: State, new_os: bool) -> Vec<Work> {
    let of = WORK.iter().find(|(of, _)| *of == state).map_or(&[][..], |(_, work)| *work);
    let is_os = |work: Work| matches!(work, Os(_) | RestoreFilesAgain);
    of.iter().copied().filter(|&work| new_os || !is_os(work)).collect()
}

/// Returns the event at the end of a state whose work is done.
const fn success(state: State, new_os: bool) -> Option<Event> {
    match state {
        Preparing => Some(Prepared),
        ReadyToUpdate => Some(Started),
        ApplyingUpdate if new_os => Some(RebootNeeded),
        ApplyingUpdate => Some(NoRebootNeeded),
        Rebooting => Some(Booted),
        ActivatingConfig => Some(Activated),
        RollingBack => Some(RolledBack),
        Updated | Error => None,
    }
}

/// Returns the event of work that failed.
const fn failure(state: State) -> Option<Event> {
    match state {
        Preparing => Some(PreparationFailed),
        ReadyToUpdate => Some(Aborted),
        ApplyingUpdate => Some(ApplyFailed),
        Rebooting => Some(BootFailed),
        ActivatingConfig => Some(ActivationFailed),
        RollingBack | Updated | Error => None,
    }
}

#[cfg(test)]
mod tests {
    use wardroom_core::device::hook::Hook;

    use super::*;

    /// Returns which files a hook sees while it runs: the new ones or the old ones.
    const fn sees_new_files(hook: Hook) -> bool {
        match hook {
            Hook::BeforeUpdating => false,
            Hook::BeforeRebooting | Hook::AfterRebooting | Hook::AfterUpdating => true,
        }
    }

    /// Runs an update in which the steps that `fails` names fail, and returns its steps.
    fn course(new_os: bool, fails: impl Fn(Step) -> bool) -> (Vec<Step>, Progress) {
        let (mut progress, mut steps) = (Progress::default(), Vec::new());
        loop {
            let step = progress.next(new_os);
            steps.push(step);
            if step == Step::End {
                return (steps, progress);
            }
            progress = match fails(step) {
                true => progress.failed(step, "broken").unwrap(),
                false => progress.succeeded(step, new_os),
            };
            assert!(steps.len() < 50, "an update ends: {steps:?}");
        }
    }

    fn all_steps() -> Vec<Step> {
        let (steps, _) = course(true, |_| false);
        steps.into_iter().filter(|step| matches!(step, Step::Work(_) | Step::Hook(_))).collect()
    }

    #[test]
    fn an_update_without_an_image_runs_two_hooks_and_no_reboot() {
        let (steps, end) = course(false, |_| false);
        let hooks = |called: Called| Step::Hook(called);
        let before = hook::at(ReadyToUpdate, Started).unwrap();
        let after = hook::at(ActivatingConfig, Activated).unwrap();
        let expected = [
            Step::Work(AwaitResources),
            Step::Work(AwaitDownloadWindow),
            Step::Work(Plan),
            Step::Move(Prepared),
            Step::Work(AwaitUpdateWindow),
            Step::Work(Plan),
            hooks(before),
            Step::Move(Started),
            Step::Work(StageFiles),
            Step::Work(PutFiles),
            Step::Move(NoRebootNeeded),
            hooks(after),
            Step::Move(Activated),
            Step::Work(Clean),
            Step::End,
        ];
        assert_eq!(steps, expected);
        assert_eq!((end.state, end.cause), (Updated, None));
    }

    #[test]
    fn every_move_is_a_row_and_every_row_is_taken() {
        let mut taken = Vec::new();
        for new_os in [false, true] {
            let mut failing: Vec<_> = all_steps().into_iter().map(Some).collect();
            failing.push(None);
            for failing in failing {
                let mut state = Preparing;
                for step in course(new_os, |step| Some(step) == failing && state_can_fail(step)).0 {
                    if let Step::Move(event) = step {
                        let row = TABLE.find(state, event).unwrap();
                        state = row.to;
                        taken.push(*row);
                    }
                }
                assert!(state.is_terminal());
            }
        }
        for row in TABLE.0 {
            assert!(taken.contains(row), "{} on {}", row.from, row.on);
        }
    }

    /// Work of a rollback is repeated, so it never ends in a failure.
    fn state_can_fail(step: Step) -> bool {
        !matches!(
            step,
            Step::Work(RestoreFiles | Os(OsWork::Restore | OsWork::RebootBack) | RestoreFilesAgain)
        )
    }

    #[test]
    fn a_failure_before_the_first_change_needs_no_rollback_and_a_later_one_does() {
        for failing in all_steps() {
            let (steps, end) = course(true, |step| step == failing);
            let rolled_back = steps.contains(&Step::Work(RestoreFiles));
            let touched = steps.contains(&Step::Work(StageFiles));
            let changes_nothing = match failing {
                Step::Work(Clean) => true,
                Step::Hook(called) => called.failure == Failure::Continue,
                Step::Work(_) | Step::Move(_) | Step::End => false,
            };
            if changes_nothing {
                assert_eq!((end.state, rolled_back), (Updated, false), "{failing:?}");
            } else {
                assert_eq!((end.state, rolled_back), (Error, touched), "{failing:?}");
                assert_eq!(end.cause.as_deref(), Some("broken"), "{failing:?}");
            }
        }
    }

    #[test]
    fn a_rollback_is_repeated_until_it_succeeds() {
        let mut progress = Progress { state: RollingBack, ..Progress::default() };
        for work in [RestoreFiles, Os(OsWork::Restore), Os(OsWork::RebootBack), RestoreFilesAgain] {
            let step = progress.next(true);
            assert_eq!(step, Step::Work(work));
            assert_eq!(progress.failed(step, "broken"), None);
            progress = progress.succeeded(step, true);
        }
        assert_eq!(progress.next(true), Step::Move(RolledBack));
    }

    /// What a rollback has to undo is noted before it begins.
    #[test]
    fn what_may_have_changed_is_noted_before() {
        let mut progress = Progress::default();
        loop {
            let step = progress.next(true);
            match step {
                Step::Work(PutFiles) => assert!(progress.put),
                Step::Work(Os(OsWork::Stage)) => assert!(progress.staged_os),
                Step::Work(StageFiles) => assert!(!progress.put),
                Step::End => break,
                Step::Hook(called) => assert_eq!(progress.put, sees_new_files(called.hook)),
                Step::Work(_) | Step::Move(_) => {}
            }
            progress = progress.succeeded(step, true);
        }
    }

    #[test]
    fn progress_survives_being_stored() {
        let progress = Progress { state: RollingBack, cause: Some("x".to_owned()), ..Progress::default() };
        let text = serde_json::to_string(&progress).unwrap();
        assert_eq!(serde_json::from_str::<Progress>(&text).unwrap(), progress);
    }
}
