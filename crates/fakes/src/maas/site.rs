//! Collections: machines found and made, tags, events, results.

use serde_json::{Value, json};

use super::{
    body::Fields,
    changes::usual_disks,
    clock::Now,
    event::Level,
    handle::Answer,
    machine::{Commissioning, Machine},
    route::Op,
    storage::invalid,
    view,
    world::World,
};

impl World {
    pub(super) fn list(&mut self, query: &Fields, now: Now) -> Answer {
        let ids: Vec<_> = query.all("id").map(str::to_owned).collect();
        // Most lists name their machines; looking only at those keeps a large site fast.
        let candidates: Vec<_> = if ids.is_empty() {
            self.machines.keys().cloned().collect()
        } else {
            ids.into_iter().filter(|id| self.machines.contains_key(id)).collect()
        };
        // Written one by one: a thousand machines as values take ten times the memory of their text.
        let mut shown = String::from("[");
        for id in candidates {
            if !self.machines.get(&id).is_some_and(|machine| fits(machine, query)) {
                continue;
            }
            self.settle(&id, now);
            if let Some(machine) = self.machines.get(&id) {
                if shown.len() > 1 {
                    shown.push_str(", ");
                }
                shown.push_str(&view::machine(self, &id, machine).to_string());
            }
        }
        shown.push(']');
        Answer::written(shown)
    }

    pub(super) fn is_registered(&self, query: &Fields) -> Answer {
        let mac = query.text("mac_address");
        Answer::json(&json!(self.machines.values().any(|machine| machine.has_mac(mac))))
    }

    pub(super) fn create(&mut self, fields: &Fields, now: Now) -> Answer {
        let wrong = self.wrong_with(fields);
        if wrong.as_object().is_some_and(|wrong| !wrong.is_empty()) {
            return Answer::refused(&wrong);
        }
        let id = self.new_system_id();
        let interfaces = self.new_interfaces(fields.all("mac_addresses"));
        let hostname = fields.get("hostname").filter(|name| !name.is_empty()).unwrap_or(&id).to_owned();
        let mut machine = Machine::new(hostname, interfaces);
        machine.architecture = fields.text("architecture").to_owned();
        machine.hardware = usual_disks(&id);
        machine.take(fields);
        self.machines.insert(id.clone(), machine);
        self.count(&id, Op::Create);
        // By default a machine of an administrator is commissioned at once.
        if fields.get("commission").is_none() || fields.is_set("commission") {
            return self.operate(Op::Commission, &id, fields, now);
        }
        self.show(&id)
    }

    fn wrong_with(&self, fields: &Fields) -> Value {
        let mut wrong = json!({});
        let macs: Vec<_> = fields.all("mac_addresses").collect();
        let architecture = fields.text("architecture");
        if macs.is_empty() {
            wrong["mac_addresses"] = json!(["This field is required."]);
        } else if !architecture.starts_with("amd64") {
            wrong["architecture"] = json!([invalid(architecture, "architecture", &["amd64/generic"])]);
        } else if matches!(fields.text("power_type"), "redfish" | "ipmi")
            && fields.get("power_parameters_power_address").is_none()
        {
            wrong["power_parameters"] = json!(["This field is required."]);
        }
        let taken: Vec<_> = macs
            .iter()
            .filter_map(|mac| {
                let holder = self.machines.values().find(|machine| machine.has_mac(mac))?;
                Some(format!("MAC address {mac} already in use on {}.", holder.hostname))
            })
            .collect();
        if !taken.is_empty() {
            wrong["mac_addresses"] = json!(taken);
            if fields.text("power_type") == "manual" {
                wrong["power_type"] = json!(["Can't set power type to manual without network interfaces"]);
            }
        }
        let name = fields.text("hostname");
        if !name.is_empty() && self.machines.values().any(|machine| machine.hostname == name) {
            wrong["hostname"] = json!(["Node with this Hostname already exists."]);
        }
        wrong
    }

    pub(super) fn update(&mut self, id: &str, fields: &Fields, now: Now) -> Answer {
        self.settle(id, now);
        let Some(machine) = self.machines.get_mut(id) else { return Answer::not_found("Machine") };
        machine.take(fields);
        if let Some(name) = fields.get("hostname") {
            name.clone_into(&mut machine.hostname);
        }
        self.count(id, Op::Update);
        self.show(id)
    }

    pub(super) fn power_parameters(&self, id: &str) -> Answer {
        self.machines.get(id).map_or_else(
            || Answer::not_found("Machine"),
            |machine| Answer::json(&json!(machine.power_parameters)),
        )
    }

    pub(super) fn set_owner_data(&mut self, id: &str, fields: &Fields, now: Now) -> Answer {
        self.settle(id, now);
        let Some(machine) = self.machines.get_mut(id) else { return Answer::not_found("Machine") };
        for (name, value) in &fields.0 {
            if value.is_empty() {
                machine.owner_data.remove(name);
            } else {
                machine.owner_data.insert(name.clone(), value.clone());
            }
        }
        self.count(id, Op::SetOwnerData);
        self.show(id)
    }

    pub(super) fn create_tag(&mut self, fields: &Fields) -> Answer {
        let (name, comment) = (fields.text("name"), fields.text("comment"));
        if self.tags.contains_key(name) {
            return Answer::refused(&json!({"name": ["Tag with this Name already exists."]}));
        }
        self.tags.insert(name.to_owned(), comment.to_owned());
        self.count("", Op::CreateTag);
        Answer::json(&json!({
            "name": name, "definition": "", "comment": comment, "kernel_opts": "",
            "resource_uri": format!("/MAAS/api/2.0/tags/{name}/"),
        }))
    }

    pub(super) fn tag(&mut self, name: &str, fields: &Fields) -> Answer {
        if !self.tags.contains_key(name) {
            return Answer::not_found("Tag");
        }
        let named = |list: &str| fields.all(list).map(str::to_owned).collect::<Vec<_>>();
        let (add, remove) = (named("add"), named("remove"));
        let mut changed = [0, 0];
        for (at, ids) in [add, remove].iter().enumerate() {
            for id in ids {
                let Some(machine) = self.machines.get_mut(id) else { continue };
                if at == 0 {
                    machine.tags.insert(name.to_owned());
                } else {
                    machine.tags.remove(name);
                }
                changed[at] += 1;
                self.count(id, Op::Tag);
            }
        }
        Answer::json(&json!({"added": changed[0], "removed": changed[1]}))
    }

    pub(super) fn event_page(&self, query: &Fields, asked: &str) -> Answer {
        let limit = query.text("limit").parse().unwrap_or(100);
        let after = query.text("after").parse().unwrap_or_default();
        let level = Level::parse(query.get("level").unwrap_or("INFO"));
        let mut events: Vec<_> = query
            .all("id")
            .filter_map(|id| Some((id, self.machines.get(id)?)))
            .flat_map(|(id, machine)| machine.events.page(level, after, limit, id, &machine.hostname))
            .collect();
        events.sort_by_key(|event| std::cmp::Reverse(event["id"].as_u64()));
        events.truncate(limit);
        let edge = |event: Option<&Value>, name: &str| {
            let id = event.and_then(|event| event["id"].as_u64())?;
            Some(format!("/MAAS/api/2.0/events/?{asked}&{name}={id}"))
        };
        let next = edge(events.first(), "after").unwrap_or_else(|| format!("/MAAS/api/2.0/events/?{asked}"));
        let previous = edge(events.last(), "before");
        Answer::json(
            &json!({"count": events.len(), "events": events, "next_uri": next, "prev_uri": previous}),
        )
    }

    /// The result of the last commissioning, as one set with one script.
    pub(super) fn results(&self, id: &str) -> Answer {
        let Some(machine) = self.machines.get(id) else { return Answer::not_found("Machine") };
        let Some(set) = machine.commissioning_set else { return Answer::json(&json!([])) };
        let aborted = machine.commissioning == Commissioning::Aborted;
        let (status, name) = if aborted { (5, "Aborted") } else { machine.commissioning.shown() };
        Answer::json(&json!([{
            "id": set, "type": 0, "type_name": "Commissioning", "status": status, "status_name": name,
            "system_id": id, "started": null, "ended": null, "last_ping": null, "runtime": "",
            "results": [{
                "id": set, "name": "20-maas-03-machine-resources", "status": status, "status_name": name,
                "exit_status": null, "started": null, "ended": null, "runtime": "", "starttime": "",
                "endtime": "", "estimated_runtime": "0:00:30", "parameters": {}, "script_id": 3,
                "script_revision_id": null, "suppressed": false, "created": "", "updated": "",
            }],
            "resource_uri": format!("/MAAS/api/2.0/nodes/{id}/results/{set}/"),
        }]))
    }
}

fn fits(machine: &Machine, query: &Fields) -> bool {
    let any = |name: &str, test: &dyn Fn(&str) -> bool| {
        let mut values = query.all(name).peekable();
        values.peek().is_none() || values.any(test)
    };
    any("mac_address", &|mac| machine.has_mac(mac))
        && any("hostname", &|name| machine.hostname == name)
        && any("pool", &|name| machine.pool == name)
        && any("zone", &|name| machine.zone == name)
        && query.all("tags").all(|tag| machine.tags.contains(tag))
}

impl Machine {
    /// Applies the fields of a create or an update.
    fn take(&mut self, fields: &Fields) {
        for (name, value) in &fields.0 {
            match name.as_str() {
                "description" => value.clone_into(&mut self.description),
                "power_type" => value.clone_into(&mut self.power_type),
                "pool" => value.clone_into(&mut self.pool),
                "zone" => value.clone_into(&mut self.zone),
                other => {
                    if let Some(parameter) = other.strip_prefix("power_parameters_") {
                        self.power_parameters.insert(parameter.to_owned(), value.clone());
                    }
                }
            }
        }
    }
}
