//! The classes of failures, their retries, and the result when retries are spent.

use jiff::SignedDuration;

use super::{Event, plan::Stage};
use crate::names::names;

names! {
    /// Why an attempt of a stage failed.
    pub enum Class {
        /// Something outside did not work this time; a repeat is safe and may well succeed.
        Retryable = "retryable",
        /// MAAS or a BMC could not be asked, so nothing is known of the machine; forgotten with the next answer.
        Unanswered = "unanswered",
        /// The deployed system did not find its data source; bounded rounds of releasing and deploying again.
        Datasource = "datasource",
        /// A password was refused; every further try brings the account closer to being locked.
        Credentials = "credentials",
        /// The stage took longer than its patience.
        Overdue = "overdue",
        /// The stage, or the server that executed it, came down in the middle of it.
        Crashed = "crashed",
        /// A setting of the site or the node is missing or does not fit the machine.
        Settings = "settings",
        /// The observed state was not caused by the run, and automation does not adopt it.
        Disagreement = "disagreement",
        /// The deployed system cannot enrol or does not report: only another deployment helps.
        Redeploy = "redeploy",
        /// No agent of the node can carry the stage out; a person has to skip it, with a reason.
        NoAgent = "no_agent",
        /// Only a person can decide how to go on.
        Manual = "manual",
    }
}

/// The least time that a stage waits for a busy MAAS before a person has to look.
pub const BUSY: SignedDuration = SignedDuration::from_hours(1);

impl Stage {
    /// How many failures of a class the stage bears; the one after that stops the run.
    #[must_use]
    pub const fn budget(self, class: Class) -> u32 {
        match class {
            Class::Retryable => self.repeats(),
            // Longer than a restart takes: about a quarter of an hour.
            Class::Unanswered => 9,
            Class::Datasource => 2,
            // The password is tried twice.
            Class::Credentials => 1,
            Class::Crashed => 4,
            // MAAS may take a moment to show the options of the deployment.
            Class::Redeploy if matches!(self, Self::EnsureHardwareSyncConfigured) => self.repeats(),
            Class::Redeploy
            | Class::Overdue
            | Class::Settings
            | Class::Disagreement
            | Class::NoAgent
            | Class::Manual => 0,
        }
    }

    /// Returns the event when a budget is spent: a retry is safe, or a person has to look first.
    #[must_use]
    pub const fn when_spent(self, class: Class) -> Event {
        match class {
            Class::Unanswered => Event::SpendBudget,
            Class::Retryable | Class::Overdue if !self.is_verdict() => Event::SpendBudget,
            Class::Retryable
            | Class::Overdue
            | Class::Datasource
            | Class::Credentials
            | Class::Crashed
            | Class::Settings
            | Class::Disagreement
            | Class::Redeploy
            | Class::NoAgent
            | Class::Manual => Event::NeedOperator,
        }
    }

    /// Stages that wait for an external event, with full patience at every retry.
    #[must_use]
    pub const fn waits_anew(self) -> bool {
        matches!(self, Self::WaitForHardwareSyncHealthy)
    }

    const fn repeats(self) -> u32 {
        if matches!(self, Self::WaitForReady | Self::WaitForDeployed | Self::ReleaseMaasNode) {
            // MAAS's verdict on the machine is asked for once more, not five times.
            1
        } else if matches!(
            self,
            Self::ScrubGpu | Self::WaitForHardwareSyncHealthy | Self::EnsureHardwareSyncConfigured
        ) {
            2
        } else {
            5
        }
    }

    /// Stages whose repeated failure is caused by the machine, so that retries do not help.
    const fn is_verdict(self) -> bool {
        matches!(
            self,
            Self::ResolvePowerCredentials
                | Self::WaitForReady
                | Self::WaitForDeployed
                | Self::EnsureHardwareSyncConfigured
                | Self::WaitForHardwareSyncHealthy
                | Self::ScrubGpu
                | Self::ReleaseMaasNode
                | Self::PowerOffMaasNode
        )
    }
}
