//! Machines: found, made, moved through their life, powered and removed.

use reqwest::Method;
use serde::Deserialize;
use wardroom_core::gpu_node::maas::Power;

use super::{
    Effect::{Declares, Once},
    Error, Maas, Machine, Secret,
    call::Op,
    form::Form,
    machine::power,
};

/// Which machines; several values in one field mean any of them, several fields mean all.
#[derive(Debug, Clone, Default)]
pub struct Filter<'a> {
    /// MAAS's ids.
    pub ids: &'a [&'a str],
    /// MACs of any interface.
    pub macs: &'a [&'a str],
    /// Names without their domain.
    pub hostnames: &'a [&'a str],
    /// A resource pool.
    pub pool: Option<&'a str>,
    /// A zone.
    pub zone: Option<&'a str>,
    /// Tags, all of them.
    pub tags: &'a [&'a str],
}

/// How MAAS powers a machine.
#[derive(Debug, Clone)]
pub enum PowerDriver<'a> {
    /// People do.
    Manual,
    /// Redfish.
    Redfish {
        /// Where the BMC is.
        address: &'a str,
        /// The user.
        user: &'a str,
        /// The password.
        password: &'a Secret,
        /// Which system of the BMC.
        node_id: &'a str,
    },
    /// IPMI.
    Ipmi {
        /// Where the BMC is.
        address: &'a str,
        /// The user.
        user: &'a str,
        /// The password.
        password: &'a Secret,
    },
}

/// A machine to create. It is never commissioned in the same request: that is a stage of its own.
#[derive(Debug, Clone)]
pub struct NewMachine<'a> {
    /// The name.
    pub hostname: &'a str,
    /// Such as `amd64/generic`.
    pub architecture: &'a str,
    /// The MACs; the first is the one it boots from.
    pub macs: &'a [&'a str],
    /// How it is powered.
    pub power: PowerDriver<'a>,
    /// A text for people.
    pub description: &'a str,
}

/// Changes to a machine.
#[derive(Debug, Clone, Default)]
pub struct Update<'a> {
    /// The name.
    pub hostname: Option<&'a str>,
    /// The text for people.
    pub description: Option<&'a str>,
    /// The resource pool.
    pub pool: Option<&'a str>,
    /// The zone.
    pub zone: Option<&'a str>,
    /// How it is powered.
    pub power: Option<PowerDriver<'a>>,
}

/// How to commission. All options are sent, because MAAS would otherwise reset the BMC, storage and network.
#[derive(Debug, Clone, Default)]
pub struct Commission<'a> {
    /// Scripts to run besides MAAS's own; none means none.
    pub scripts: &'a [&'a str],
    /// Tests to run; none means none.
    pub testing_scripts: &'a [&'a str],
    /// Whether to keep the storage settings.
    pub keep_storage: bool,
    /// Whether to keep the network settings.
    pub keep_networking: bool,
}

/// A deployment.
#[derive(Debug, Clone)]
pub struct Deploy<'a> {
    /// The release of the operating system.
    pub distro_series: &'a str,
    /// The user data for cloud-init, already in base64; it contains a token.
    pub user_data: &'a Secret,
    /// Whether the system reports its hardware afterwards.
    pub enable_hw_sync: bool,
    /// Whose machine it is.
    pub agent_name: &'a str,
    /// For the log of MAAS: the id of the run.
    pub comment: &'a str,
}

/// How thoroughly the disks are erased at a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Erase {
    /// Not at all.
    No,
    /// Only their beginning and end.
    Quick,
    /// By the disks' own erase function, or entirely where there is none.
    Secure,
    /// By the disks' own erase function, or quickly where there is none.
    SecureOrQuick,
    /// Entirely, which takes hours.
    Full,
}

/// How to release.
#[derive(Debug, Clone, Copy)]
pub struct Release<'a> {
    /// How the disks are erased.
    pub erase: Erase,
    /// For the log of MAAS.
    pub comment: &'a str,
}

/// How to power off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopMode {
    /// The system is asked to shut down.
    Soft,
    /// The power is cut.
    Hard,
}

/// How many machines are asked for in one request: an address has a length that proxies allow.
const BATCH: usize = 100;

impl Maas {
    /// One machine; [`Class::Gone`](super::Class::Gone) when MAAS does not have it.
    ///
    /// # Errors
    /// When MAAS does not answer with it.
    pub async fn machine(&self, id: &str) -> Result<Machine, Error> {
        self.get("read", &["machines", id, ""], &[]).await
    }

    /// Machines by id, a hundred in a request. Unknown ones are missing from the answer.
    ///
    /// # Errors
    /// When MAAS does not answer with them; then none of them is observed.
    pub async fn machines(&self, ids: &[&str]) -> Result<Vec<Machine>, Error> {
        let mut machines = Vec::with_capacity(ids.len());
        for ids in ids.chunks(BATCH) {
            machines.extend(self.find(&Filter { ids, ..Filter::default() }).await?);
        }
        Ok(machines)
    }

    /// Every machine that fits, in one request; without a filter, all that MAAS has.
    ///
    /// # Errors
    /// When MAAS does not answer with them.
    pub async fn find(&self, filter: &Filter<'_>) -> Result<Vec<Machine>, Error> {
        let mut query = Vec::new();
        let lists = [
            ("id", filter.ids),
            ("mac_address", filter.macs),
            ("hostname", filter.hostnames),
            ("tags", filter.tags),
        ];
        for (name, values) in lists {
            query.extend(values.iter().map(|value| (name, (*value).to_owned())));
        }
        for (name, value) in [("pool", filter.pool), ("zone", filter.zone)] {
            query.extend(value.map(|value| (name, value.to_owned())));
        }
        self.get("list", &["machines", ""], &query).await
    }

    /// Creates a machine in `New`. A refusal that [`Error::is_taken`] may be the echo of a create whose reply was lost.
    ///
    /// # Errors
    /// When MAAS does not answer with the machine.
    pub async fn create(&self, new: &NewMachine<'_>) -> Result<Machine, Error> {
        let form = Form::default()
            .set("hostname", new.hostname)
            .set("architecture", new.architecture)
            .all("mac_addresses", new.macs)
            .set("description", new.description)
            .set("commission", false);
        self.post(Op("create", Once), &["machines", ""], new.power.put_into(form)).await
    }

    /// Changes a machine; MAAS takes that in every status.
    ///
    /// # Errors
    /// When MAAS does not answer with the machine.
    pub async fn update(&self, id: &str, update: &Update<'_>) -> Result<Machine, Error> {
        let mut form = Form::default()
            .maybe("hostname", update.hostname)
            .maybe("description", update.description)
            .maybe("pool", update.pool)
            .maybe("zone", update.zone);
        if let Some(power) = &update.power {
            form = power.put_into(form);
        }
        self.put(Op("update", Declares), &["machines", id, ""], form).await
    }

    /// Starts commissioning, without a change of the BMC's users.
    ///
    /// # Errors
    /// When MAAS does not start it.
    pub async fn commission(&self, id: &str, how: &Commission<'_>) -> Result<Machine, Error> {
        let mut form = Form::default()
            .set("testing_scripts", scripts_or_none(how.testing_scripts))
            .set("skip_bmc_config", 1)
            .set("skip_storage", u8::from(how.keep_storage))
            .set("skip_networking", u8::from(how.keep_networking))
            .set("enable_ssh", 0);
        if !how.scripts.is_empty() {
            form = form.set("commissioning_scripts", how.scripts.join(","));
        }
        self.post(Op("commission", Once), &["machines", id, "op-commission"], form).await
    }

    /// Aborts commissioning, deploying, erasing or testing. The answer still shows the old status.
    ///
    /// # Errors
    /// When MAAS does not stop it.
    pub async fn abort(&self, id: &str, comment: &str) -> Result<Machine, Error> {
        self.act("abort", "op-abort", id, Form::default().set("comment", comment)).await
    }

    /// Takes a machine that is `Ready`.
    ///
    /// # Errors
    /// When MAAS does not give it.
    pub async fn allocate(&self, id: &str, agent_name: &str, comment: &str) -> Result<Machine, Error> {
        let form = Form::default().set("system_id", id).set("agent_name", agent_name).set("comment", comment);
        self.post(Op("allocate", Once), &["machines", "op-allocate"], form).await
    }

    /// Starts a deployment; a machine that is `Ready` is allocated on the way.
    ///
    /// # Errors
    /// When MAAS does not start it.
    pub async fn deploy(&self, id: &str, what: &Deploy<'_>) -> Result<Machine, Error> {
        let form = Form::default()
            .set("distro_series", what.distro_series)
            .secret("user_data", what.user_data)
            .set("enable_hw_sync", what.enable_hw_sync)
            .set("agent_name", what.agent_name)
            .set("comment", what.comment);
        self.act("deploy", "op-deploy", id, form).await
    }

    /// Gives a machine back. It ends in `Ready`, or in `New` when its last commissioning did not pass.
    ///
    /// # Errors
    /// When MAAS does not take it back.
    pub async fn release(&self, id: &str, how: &Release<'_>) -> Result<Machine, Error> {
        let (erase, secure, quick) = match how.erase {
            Erase::No => (false, false, false),
            Erase::Quick => (true, false, true),
            Erase::Secure => (true, true, false),
            Erase::SecureOrQuick => (true, true, true),
            Erase::Full => (true, false, false),
        };
        let form = Form::default()
            .set("erase", erase)
            .set("secure_erase", secure)
            .set("quick_erase", quick)
            .set("comment", how.comment);
        self.act("release", "op-release", id, form).await
    }

    /// Locks a machine: MAAS then refuses its release and deletion by any user.
    ///
    /// # Errors
    /// When MAAS does not lock it.
    pub async fn lock(&self, id: &str, comment: &str) -> Result<Machine, Error> {
        let form = Form::default().set("comment", comment);
        self.post(Op("lock", Declares), &["machines", id, "op-lock"], form).await
    }

    /// Lifts the lock.
    ///
    /// # Errors
    /// When MAAS does not lift it.
    pub async fn unlock(&self, id: &str, comment: &str) -> Result<Machine, Error> {
        let form = Form::default().set("comment", comment);
        self.post(Op("unlock", Declares), &["machines", id, "op-unlock"], form).await
    }

    /// Marks a machine as broken.
    ///
    /// # Errors
    /// When MAAS does not.
    pub async fn mark_broken(&self, id: &str, comment: &str) -> Result<Machine, Error> {
        self.act("mark_broken", "op-mark_broken", id, Form::default().set("comment", comment)).await
    }

    /// Marks a broken machine as fixed.
    ///
    /// # Errors
    /// When MAAS does not.
    pub async fn mark_fixed(&self, id: &str, comment: &str) -> Result<Machine, Error> {
        self.act("mark_fixed", "op-mark_fixed", id, Form::default().set("comment", comment)).await
    }

    /// Accepts a machine whose tests failed.
    ///
    /// # Errors
    /// When MAAS does not.
    pub async fn override_failed_testing(&self, id: &str, comment: &str) -> Result<Machine, Error> {
        let form = Form::default().set("comment", comment);
        self.act("override_failed_testing", "op-override_failed_testing", id, form).await
    }

    /// Asks the BMC, which can take most of a minute.
    ///
    /// # Errors
    /// When MAAS does not answer; a BMC that does not is [`Power::Error`] or [`Power::Unknown`].
    pub async fn query_power(&self, id: &str) -> Result<Power, Error> {
        #[derive(Deserialize)]
        struct Answer {
            #[serde(deserialize_with = "power")]
            state: Power,
        }
        let answer: Answer =
            self.get("query_power_state", &["machines", id, "op-query_power_state"], &[]).await?;
        Ok(answer.state)
    }

    /// Powers on. An allocated machine starts to deploy by this.
    ///
    /// # Errors
    /// When MAAS does not.
    pub async fn power_on(&self, id: &str, comment: &str) -> Result<Machine, Error> {
        self.act("power_on", "op-power_on", id, Form::default().set("comment", comment)).await
    }

    /// Powers off; the answer still shows the power from before.
    ///
    /// # Errors
    /// When MAAS does not.
    pub async fn power_off(&self, id: &str, mode: StopMode, comment: &str) -> Result<Machine, Error> {
        let mode = match mode {
            StopMode::Soft => "soft",
            StopMode::Hard => "hard",
        };
        let form = Form::default().set("stop_mode", mode).set("comment", comment);
        self.post(Op("power_off", Declares), &["machines", id, "op-power_off"], form).await
    }

    /// Notes of the owner, until the release; an empty value removes one.
    ///
    /// # Errors
    /// When MAAS does not take them.
    pub async fn set_owner_data(&self, id: &str, data: &[(&str, &str)]) -> Result<Machine, Error> {
        let form = data.iter().fold(Form::default(), |form, (name, value)| form.set(name, value));
        let path = ["machines", id, "op-set_workload_annotations"];
        self.post(Op("set_workload_annotations", Declares), &path, form).await
    }

    /// Deletes a machine. MAAS checks only the lock and also deletes deployed machines, so observe first
    /// before you retry.
    ///
    /// # Errors
    /// When MAAS does not; [`Class::Gone`](super::Class::Gone) when it was deleted before.
    pub async fn delete(&self, id: &str) -> Result<(), Error> {
        self.call(&Op("delete", Once), Method::DELETE, &["machines", id, ""], &[], None).await.map(drop)
    }

    async fn act(&self, name: &'static str, op: &str, id: &str, form: Form) -> Result<Machine, Error> {
        self.post(Op(name, Once), &["machines", id, op], form).await
    }
}

impl PowerDriver<'_> {
    fn put_into(&self, form: Form) -> Form {
        match self {
            Self::Manual => form.set("power_type", "manual"),
            Self::Redfish { address, user, password, node_id } => form
                .set("power_type", "redfish")
                .set("power_parameters_power_address", address)
                .set("power_parameters_power_user", user)
                .secret("power_parameters_power_pass", password)
                .set("power_parameters_node_id", node_id),
            Self::Ipmi { address, user, password } => form
                .set("power_type", "ipmi")
                .set("power_parameters_power_address", address)
                .set("power_parameters_power_user", user)
                .secret("power_parameters_power_pass", password),
        }
    }
}

fn scripts_or_none(scripts: &[&str]) -> String {
    if scripts.is_empty() { "none".to_owned() } else { scripts.join(",") }
}
