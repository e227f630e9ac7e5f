//! Zones by number: a seat has room for a number, not for a name.

use std::{
    collections::HashMap,
    sync::{PoisonError, RwLock},
};

use wardroom_core::liveness::Zone;

/// Every zone that ever had a member; zone 0 is that of members without one.
#[derive(Debug)]
pub(super) struct Zones(RwLock<Known>);

#[derive(Debug)]
struct Known {
    names: Vec<Zone>,
    numbers: HashMap<String, u32>,
}

impl Default for Zones {
    fn default() -> Self {
        Self(RwLock::new(Known { names: vec![None], numbers: HashMap::new() }))
    }
}

impl Zones {
    pub(super) fn number(&self, zone: Option<&str>) -> u32 {
        let Some(zone) = zone else { return 0 };
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).numbers.get(zone).copied();
        known.unwrap_or_else(|| {
            let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
            let Known { names, numbers } = &mut *known;
            *numbers.entry(zone.to_owned()).or_insert_with(|| {
                names.push(Some(zone.to_owned()));
                u32::try_from(names.len() - 1).unwrap_or(0)
            })
        })
    }

    pub(super) fn name(&self, number: u32) -> Zone {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.names.get(number as usize).cloned().flatten()
    }

    pub(super) fn names(&self) -> Vec<Zone> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).names.clone()
    }
}
