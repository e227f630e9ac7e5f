//! The state of the fake.

use std::collections::BTreeMap;

use super::{
    Config, Effects, Fault,
    auth::Nonces,
    changes::Seed,
    clock::{self, Now},
    event::Pen,
    limit::Limit,
    machine::{Interface, Machine},
    route::Op,
};

/// A recorded request, for tests of the client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// The method.
    pub method: String,
    /// The path below the API's version.
    pub path: String,
    /// The names of its parameters.
    pub query: Vec<String>,
    /// The names of the fields of its body.
    pub fields: Vec<String>,
    /// The type of its body.
    pub content_type: String,
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) config: Config,
    pub(super) machines: BTreeMap<String, Machine>,
    pub(super) tags: BTreeMap<String, String>,
    pub(super) subnets: Vec<Subnet>,
    pub(super) faults: Vec<Fault>,
    pub(super) nonces: Nonces,
    pub(super) limit: Limit,
    pub(super) recorded: Vec<Recorded>,
    pub(super) requests: BTreeMap<&'static str, u64>,
    pub(super) ids: Ids,
    effects: BTreeMap<String, BTreeMap<&'static str, u64>>,
}

/// A subnet and the VLAN of the same number.
#[derive(Debug)]
pub(super) struct Subnet {
    pub(super) id: u64,
    pub(super) name: &'static str,
    /// The first two bytes of its addresses.
    pub(super) prefix: &'static str,
    pub(super) fabric: &'static str,
    pub(super) mtu: u32,
    pub(super) next: u32,
}

/// The last id of each kind.
#[derive(Debug, Default)]
pub(super) struct Ids {
    machine: u64,
    pub(super) interface: u64,
    pub(super) disk: u64,
    pub(super) link: u64,
    pub(super) partition: u64,
    pub(super) set: u64,
    pub(super) event: u64,
}

/// Takes the next id of a kind.
pub(super) fn next(id: &mut u64) -> u64 {
    *id += 1;
    *id
}

impl World {
    pub(super) fn new(config: Config) -> Self {
        let subnet = |id, name, prefix, fabric, mtu| Subnet { id, name, prefix, fabric, mtu, next: 10 };
        let mut world = Self {
            machines: BTreeMap::new(),
            tags: BTreeMap::new(),
            subnets: vec![
                subnet(1, "provisioning", "10.20", "fabric-1", 1500),
                subnet(2, "roce", "10.30", "fabric-2", 9000),
            ],
            faults: Vec::new(),
            nonces: Nonces::default(),
            limit: Limit::default(),
            recorded: Vec::new(),
            requests: BTreeMap::new(),
            ids: Ids { machine: config.first_id, ..Ids::default() },
            effects: BTreeMap::new(),
            config,
        };
        let now = clock::now();
        for _ in 0..world.config.machines {
            world.seed(&Seed::default(), now);
        }
        world
    }

    pub(super) fn effects(&self) -> Effects {
        let owned = |ops: &BTreeMap<&str, u64>| ops.iter().map(|(op, n)| ((*op).to_owned(), *n)).collect();
        self.effects.iter().map(|(id, ops)| (id.clone(), owned(ops))).collect()
    }

    /// Returns the id of a machine, given its id or hostname.
    pub(super) fn named(&self, called: &str) -> Option<String> {
        let fits = |(id, machine): &(&String, &Machine)| *id == called || machine.hostname == called;
        self.machines.iter().find(fits).map(|(id, _)| id.clone())
    }

    /// Counts an effect of an operation.
    pub(super) fn count(&mut self, id: &str, op: Op) {
        *self.effects.entry(id.to_owned()).or_default().entry(op.name()).or_default() += 1;
    }

    /// A new id, of six characters as MAAS's are.
    pub(super) fn new_system_id(&mut self) -> String {
        const LETTERS: &[u8; 24] = b"abcdefghkmnpqrstwxy34678";
        let mut number = next(&mut self.ids.machine);
        let mut id = [b'm'; 6];
        for place in id.iter_mut().skip(1).rev() {
            *place = LETTERS[usize::try_from(number % 24).unwrap_or_default()];
            number /= 24;
        }
        String::from_utf8_lossy(&id).into_owned()
    }

    pub(super) fn new_interfaces<'a>(&mut self, macs: impl Iterator<Item = &'a str>) -> Vec<Interface> {
        macs.enumerate()
            .map(|(number, mac)| Interface {
                id: next(&mut self.ids.interface),
                name: format!("eth{number}"),
                mac: mac.to_ascii_lowercase(),
                mtu: None,
                vlan: None,
                links: Vec::new(),
            })
            .collect()
    }

    /// A machine together with the writer of its events.
    pub(super) fn with_pen(&mut self, id: &str, now: Now) -> Option<(&mut Machine, Pen<'_>)> {
        let pen = Pen { next: &mut self.ids.event, at: now.wall, user: &self.config.user };
        self.machines.get_mut(id).map(|machine| (machine, pen))
    }
}
