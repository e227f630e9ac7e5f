//! The network of a machine. Links accumulate, so existing ones are checked first.

use wardroom_core::{
    gpu_node::maas::{Observed, Status},
    run::adopt,
};
use wardroom_upstream::maas::{Class, Error as MaasError, Interface, LinkMode, Machine, NewLink, Subnet};

use super::{
    StageError, StageResult, Try, Workers, disagrees, done, is_past_preparation, needs_person, wrong_settings,
};
use crate::kinds::gpu_node::{
    data::{Link, Linking},
    upstream::Session,
};

impl Workers {
    /// Applies the site's settings to the fabric interfaces that lack them.
    pub(super) async fn apply_fabric(&self, attempt: &mut Try<'_>) -> StageResult {
        let (site, session) = self.site(attempt)?;
        if site.settings.fabric.is_empty() {
            return done(attempt);
        }
        let id = self.system_id(attempt).await?;
        let machine = self.observe(attempt, &session, &id).await?;
        if is_past_preparation(attempt, &machine) {
            return done(attempt);
        }
        editable(attempt, &machine)?;
        let subnets = session.subnets().await?;
        for wanted in &site.settings.fabric {
            let interface = machine.interfaces.iter().find(|found| found.name == wanted.interface);
            let interface = interface.ok_or_else(|| {
                wrong_settings(format!("the machine has no interface {}", wanted.interface))
            })?;
            let subnet = wanted.subnet.as_deref().map(|name| find(&subnets, name)).transpose()?;
            let vlan = subnet.and_then(|subnet| subnet.vlan.as_ref()).map(|vlan| vlan.id);
            let vlan = vlan.filter(|vlan| interface.vlan.as_ref().is_none_or(|has| has.id != *vlan));
            let mtu = wanted.mtu.filter(|mtu| interface.effective_mtu != *mtu);
            if vlan.is_some() || mtu.is_some() {
                session.turn().await.update_interface(&id, interface.id, vlan, mtu).await?;
            }
            if let Some(subnet) = subnet {
                link(attempt, &session, &id, interface, subnet).await?;
            }
        }
        done(attempt)
    }

    /// Makes sure that the boot interface has exactly one automatic link, to the provisioning subnet.
    pub(super) async fn ensure_pxe(&self, attempt: &mut Try<'_>) -> StageResult {
        let (_, session) = self.site(attempt)?;
        let id = self.system_id(attempt).await?;
        let machine = self.observe(attempt, &session, &id).await?;
        if is_past_preparation(attempt, &machine) {
            return done(attempt);
        }
        editable(attempt, &machine)?;
        self.link_pxe(attempt, &machine).await?;
        done(attempt)
    }

    /// Links the boot interface if it has no link.
    pub(super) async fn link_pxe(&self, attempt: &mut Try<'_>, machine: &Machine) -> Result<(), StageError> {
        let (site, session) = self.site(attempt)?;
        let boot = machine.boot_interface.as_ref();
        let boot = boot.ok_or_else(|| needs_person("MAAS has no boot interface for the machine"))?;
        // The machine's own list has the links.
        let interface = machine.interfaces.iter().find(|found| found.id == boot.id).unwrap_or(boot);
        let subnets = session.subnets().await?;
        let subnet = find(&subnets, &site.settings.provisioning_subnet)?;
        let foreign = interface.links.iter().find(|link| {
            let elsewhere = link.subnet.as_ref().is_some_and(|linked| linked.id != subnet.id);
            elsewhere || link.mode == "static"
        });
        if let Some(link) = foreign {
            return Err(needs_person(format!(
                "the boot interface {} has a {} link that is not of the provisioning subnet: remove it in MAAS",
                interface.name, link.mode
            )));
        }
        let vlan = subnet.vlan.as_ref().map(|vlan| vlan.id);
        let has = interface.vlan.as_ref().map(|vlan| vlan.id);
        if has.is_some() && vlan.is_some() && has != vlan {
            return Err(wrong_settings(format!(
                "the boot interface {} is in another VLAN than the provisioning subnet {}",
                interface.name, subnet.name
            )));
        }
        let automatic = interface.links.iter().filter(|link| link.mode == "auto");
        for link in automatic.skip(1) {
            // A repeated request made two equal links.
            session.turn().await.unlink_subnet(&machine.system_id, interface.id, link.id).await?;
            attempt.data.links.retain(|made| made.link != link.id);
        }
        link(attempt, &session, &machine.system_id, interface, subnet).await
    }

    pub(super) async fn undo_links(&self, attempt: &mut Try<'_>) -> StageResult {
        let Some((_, session)) = self.site_to_undo(attempt)? else { return done(attempt) };
        let Some(machine) = attempt.data.machine.clone() else { return done(attempt) };
        let seen = match session.turn().await.machine(&machine.system_id).await {
            Ok(seen) => seen,
            Err(MaasError { class: Class::Gone, .. }) => return done(attempt),
            Err(error) => return Err(error.into()),
        };
        if let Some(linking) = attempt.data.linking.take() {
            attempt.data.links.extend(made(&linking, &seen.interfaces));
        }
        // The machine is in use by others now, who need its links.
        if adopt::is_in_use(Observed::Present { status: seen.status, power: seen.power_state }) {
            attempt.data.links.clear();
        }
        for made in attempt.data.links.clone() {
            let there = seen.interfaces.iter().any(|interface| {
                interface.id == made.interface && interface.links.iter().any(|link| link.id == made.link)
            });
            if there {
                session.turn().await.unlink_subnet(&machine.system_id, made.interface, made.link).await?;
            }
        }
        attempt.data.links.clear();
        done(attempt)
    }
}

/// Links can be changed only in some statuses.
fn editable(attempt: &Try<'_>, machine: &Machine) -> Result<(), StageError> {
    let editable = matches!(machine.status, Status::Ready | Status::Allocated | Status::New | Status::Broken);
    if editable { Ok(()) } else { Err(disagrees(attempt.stage, machine)) }
}

fn find<'a>(subnets: &'a [Subnet], name: &str) -> Result<&'a Subnet, StageError> {
    let found = subnets.iter().find(|subnet| subnet.name == name || subnet.cidr == name);
    found.ok_or_else(|| wrong_settings(format!("MAAS has no subnet {name:?}")))
}

/// Links an interface to a subnet, unless it is linked; a link whose answer was lost is found among the new
/// ones.
async fn link(
    attempt: &mut Try<'_>,
    session: &Session,
    id: &str,
    interface: &Interface,
    subnet: &Subnet,
) -> Result<(), StageError> {
    if let Some(linking) = attempt.data.linking.take_if(|linking| linking.interface == interface.id) {
        attempt.data.links.extend(made(&linking, std::slice::from_ref(interface)));
    }
    let is_linked = |interface: &Interface| {
        let to = |link: &&wardroom_upstream::maas::Link| {
            link.mode == "auto" && link.subnet.as_ref().is_some_and(|linked| linked.id == subnet.id)
        };
        interface.links.iter().find(to).map(|link| link.id)
    };
    if is_linked(interface).is_some() {
        return Ok(());
    }
    let known = interface.links.iter().map(|link| link.id).collect();
    let linking = Linking { interface: interface.id, subnet: subnet.id, known };
    attempt.data.linking = Some(linking.clone());
    attempt.save().await?;
    let new = NewLink { mode: LinkMode::Auto, subnet: subnet.id, ip_address: None };
    let linked = session.turn().await.link_subnet(id, interface.id, new).await?;
    attempt.data.links.extend(made(&linking, std::slice::from_ref(&linked)));
    attempt.data.linking = None;
    attempt.save().await?;
    if is_linked(&linked).is_none() {
        return Err(needs_person(format!("MAAS did not link {} to {}", interface.name, subnet.name)));
    }
    Ok(())
}

/// The links that are new.
fn made(linking: &Linking, interfaces: &[Interface]) -> Vec<Link> {
    let Linking { interface, subnet, known } = linking;
    let of = interfaces.iter().filter(|found| found.id == *interface).flat_map(|found| &found.links);
    let new = of.filter(|link| {
        !known.contains(&link.id) && link.subnet.as_ref().is_some_and(|linked| linked.id == *subnet)
    });
    new.map(|link| Link { interface: *interface, link: link.id }).collect()
}
