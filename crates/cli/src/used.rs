//! Translates the fields in a refusal of the API into the options of the command that is being run.

use std::sync::OnceLock;

use clap::{Arg, ArgMatches, Command, parser::ValueSource};

use crate::suggest::kebab;

/// Fields whose option has another name. The longest match counts; of several options, the first that the
/// command takes.
const OPTIONS: &[(&str, &str)] = &[
    ("artifacts", "artifact"),
    ("attestation_method", "method"),
    ("bmc.address", "bmc"),
    ("bmc.credential", "bmc-credential"),
    ("bmc.system", "bmc-system"),
    ("config", "settings"),
    ("config_name", "config"),
    ("config_name", "name"),
    ("expected_observation_digest", "digest"),
    ("expires_at", "expires"),
    ("fieldSelector", "field-selector"),
    ("group", "name"),
    ("group_id", "group"),
    ("groups", "group"),
    ("kinds", "kind"),
    ("labelSelector", "selector"),
    ("labels", "label"),
    ("mac_address", "mac"),
    ("macs", "mac"),
    ("parent_agent_id", "parent"),
    ("parent_id", "parent"),
    ("satellite_name", "name"),
    ("selectors", "selector"),
    ("settings.bmc_credentials", "bmc-credential"),
    ("settings.bmc_networks", "bmc-network"),
    ("settings.boot_disk", "boot-disk-model"),
    ("settings.provisioning_subnet", "subnet"),
    // The target state. The selector `--state` comes second.
    ("state", "to"),
    ("status", "state"),
    ("ttl_seconds", "ttl"),
    ("workflow_id", "workflow"),
];

/// The options and the names of the other arguments.
#[derive(Debug, Default)]
struct Used {
    options: Vec<String>,
    names: Vec<String>,
}

static USED: OnceLock<Used> = OnceLock::new();

/// Notes the arguments of the command; none if the resource is described in a file, which has fields, not options.
pub(crate) fn remember(mut command: &Command, mut matches: &ArgMatches) {
    while let Some((name, given)) = matches.subcommand() {
        let Some(child) = command.find_subcommand(name) else { break };
        (command, matches) = (child, given);
    }
    let from_file = command.get_arguments().any(|argument| {
        argument.get_id() == "file" && matches.value_source("file") == Some(ValueSource::CommandLine)
    });
    let _ = USED.set(if from_file { Used::default() } else { Used::of(command) });
}

/// Returns the option for a field, or the field if there is none.
pub(crate) fn argument(field: &str) -> String {
    USED.get().map_or_else(|| field.to_owned(), |used| used.argument(field))
}

impl Used {
    fn of(command: &Command) -> Self {
        let name = |argument: &Arg| argument.get_id().to_string();
        Self {
            options: command.get_arguments().filter_map(Arg::get_long).map(str::to_owned).collect(),
            names: command.get_positionals().map(name).collect(),
        }
    }

    fn argument(&self, field: &str) -> String {
        // The index in a list does not matter: the message names the value.
        let plain: String = field.split('[').map(|part| part.rsplit(']').next().unwrap_or(part)).collect();
        let fits = |(name, _): &&(&str, &str)| {
            plain.strip_prefix(*name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let mut listed: Vec<_> = OPTIONS.iter().filter(fits).collect();
        listed.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        let setting = plain.strip_prefix("settings.");
        let first = plain.split('.').next().unwrap_or_default();
        let listed = listed.into_iter().map(|(_, option)| (*option).to_owned());
        for guess in listed.chain(setting.map(kebab)).chain([kebab(first)]) {
            if self.options.contains(&guess) {
                return format!("--{guess}");
            }
            if self.names.contains(&guess) {
                return guess.to_uppercase();
            }
        }
        match setting.filter(|_| self.options.iter().any(|option| option == "set")) {
            Some(setting) => format!("--set {setting}"),
            None => field.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::Used;
    use crate::arguments::Arguments;

    fn check(path: &[&str], field: &str, expected: &str) {
        let mut command = Arguments::command();
        command.build();
        let found = path.iter().fold(&command, |command, name| command.find_subcommand(name).unwrap());
        assert_eq!(Used::of(found).argument(field), expected, "{path:?}");
    }

    #[test]
    fn fields_are_called_as_options_are() {
        check(&["node", "create"], "mac_address", "--mac");
        check(&["node", "create"], "labels.rack", "--label");
        check(&["gpu-node", "create"], "macs[1]", "--mac");
        check(&["gpu-node", "create"], "bmc.address", "--bmc");
        check(&["gpu-node", "create"], "hostname", "HOSTNAME");
        check(&["gpu-node", "retire"], "skip[0].stage", "--skip");
        check(&["create", "site"], "settings.url", "--url");
        check(&["create", "site"], "settings.bmc_networks[1]", "--bmc-network");
        check(&["create", "site"], "settings.boot_disk", "--boot-disk-model");
        check(&["create", "site"], "settings.provisioning_subnet", "--subnet");
        check(&["create", "site"], "settings.poll_millis", "--set poll_millis");
        check(&["create", "site"], "name", "NAME");
        check(&["get"], "fieldSelector", "--field-selector");
        check(&["get"], "state", "--state");
        check(&["node", "move"], "state", "--to");
        check(&["satellite", "create"], "groups", "--group");
        check(&["satellite", "create"], "config_name", "--config");
        check(&["create", "satellite-config"], "config_name", "NAME");
        check(&["create", "satellite-config"], "config", "--settings");
        check(&["satellite", "create"], "groups[0]", "--group");
        check(&["satellite", "join-token"], "satellite_name", "NAME");
        check(&["satellite", "join-token"], "parent_agent_id", "--parent");
        check(&["apply"], "settings.url", "settings.url");
        check(&["run", "adopt-observed-state"], "expected_observation_digest", "--digest");
    }
}
