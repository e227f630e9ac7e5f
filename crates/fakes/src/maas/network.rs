//! Interfaces and their links. A second link like the first is a second link.

use serde_json::json;

use super::{
    body::Fields,
    clock::Now,
    handle::Answer,
    machine::Link,
    route::Op,
    rules, view,
    world::{World, next},
};

impl World {
    pub(super) fn interfaces(&self, id: &str) -> Answer {
        let Some(machine) = self.machines.get(id) else { return Answer::not_found("Machine") };
        let shown: Vec<_> = machine.interfaces.iter().map(|found| view::interface(self, id, found)).collect();
        Answer::json(&json!(shown))
    }

    /// An operation on one interface.
    pub(super) fn interface(
        &mut self,
        op: Op,
        id: &str,
        interface: &str,
        fields: &Fields,
        now: Now,
    ) -> Answer {
        self.settle(id, now);
        let Some(machine) = self.machines.get(id) else { return Answer::not_found("Machine") };
        let Some(at) = machine.interfaces.iter().position(|found| found.id.to_string() == interface) else {
            return Answer::not_found("Interface");
        };
        if op != Op::Interface {
            if rules::find(op, machine.status).is_none() {
                return Answer::refusal(rules::refusal(op, machine.status, id));
            }
            if let Err(refused) = self.change_interface(op, id, at, fields) {
                return refused;
            }
            self.count(id, op);
        }
        let found = self.machines.get(id).and_then(|machine| machine.interfaces.get(at));
        found.map_or_else(
            || Answer::not_found("Interface"),
            |found| Answer::json(&view::interface(self, id, found)),
        )
    }

    fn change_interface(&mut self, op: Op, id: &str, at: usize, fields: &Fields) -> Result<(), Answer> {
        let known: Vec<_> = self.subnets.iter().map(|subnet| subnet.id).collect();
        let numbered = |name: &str| fields.text(name).parse::<u64>().ok().filter(|id| known.contains(id));
        let found = self.machines.get_mut(id).and_then(|machine| machine.interfaces.get_mut(at));
        let Some(interface) = found else { return Err(Answer::not_found("Interface")) };
        #[expect(clippy::wildcard_enum_match_arm, reason = "only these concern an interface")]
        match op {
            Op::UpdateInterface => {
                if fields.get("vlan").is_some() {
                    let missing = || Answer::refused(&json!({"vlan": ["Select a valid choice."]}));
                    interface.vlan = Some(numbered("vlan").ok_or_else(missing)?);
                }
                if let Ok(mtu) = fields.text("mtu").parse() {
                    interface.mtu = Some(mtu);
                }
            }
            Op::LinkSubnet => {
                let subnet = numbered("subnet").ok_or_else(|| {
                    let none = format!("None found with id={}.", fields.text("subnet"));
                    Answer::refused(&json!({"subnet": [none, "This field is required."]}))
                })?;
                let mode = fields.text("mode").to_ascii_lowercase();
                let address = fields.get("ip_address").map(str::to_owned);
                interface.links.push(Link { id: next(&mut self.ids.link), mode, subnet, address });
            }
            Op::UnlinkSubnet => {
                let before = interface.links.len();
                interface.links.retain(|link| link.id.to_string() != fields.text("id"));
                if before == interface.links.len() {
                    let wrong = "Select a valid choice. That choice is not one of the available choices.";
                    return Err(Answer::refused(&json!({"id": [wrong]})));
                }
            }
            Op::Disconnect => {
                interface.links.clear();
                interface.vlan = None;
            }
            _ => {}
        }
        Ok(())
    }
}
