//! Dense indexes of devices, so that the allocator reads arrays instead of hashing names.
//!
//! # Invariants
//!
//! - A device keeps its index while a ResourceSlice lists it or a claim holds it.
//! - Cached selector results are dropped when the slice that lists the device changes.

use std::collections::HashMap;

use crate::facts::DeviceId;

/// Index of a device.
pub type DeviceIndex = u32;

/// The result of a CEL selector for a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Yes,
    No,
    Error(String),
}

#[derive(Debug)]
struct Row {
    id: DeviceId,
    users: u32,
    /// Number of claims that hold it.
    holders: u32,
    /// Cached results by expression index.
    verdicts: Vec<(u32, Verdict)>,
}

#[derive(Debug, Default)]
pub(crate) struct Numbers {
    index: HashMap<DeviceId, DeviceIndex>,
    rows: Vec<Option<Row>>,
    free: Vec<DeviceIndex>,
}

impl Numbers {
    /// The index of a device, with one more user.
    pub(crate) fn hire(&mut self, id: &DeviceId) -> DeviceIndex {
        if let Some(number) = self.index.get(id).copied() {
            self.row_mut(number).users += 1;
            return number;
        }
        let row = Row { id: id.clone(), users: 1, holders: 0, verdicts: Vec::new() };
        let number = self.free.pop().unwrap_or_else(|| {
            self.rows.push(None);
            DeviceIndex::try_from(self.rows.len() - 1).expect("fewer devices than 2^32")
        });
        self.rows[number as usize] = Some(row);
        self.index.insert(id.clone(), number);
        number
    }

    pub(crate) fn release(&mut self, number: DeviceIndex) {
        let row = self.row_mut(number);
        row.users -= 1;
        if row.users == 0 {
            let row = self.rows[number as usize].take().expect("a numbered device exists");
            self.index.remove(&row.id);
            self.free.push(number);
        }
    }

    pub(crate) fn hold(&mut self, number: DeviceIndex, sign: i32) {
        let row = self.row_mut(number);
        row.holders = row.holders.checked_add_signed(sign).expect("a device is given back once");
    }

    pub(crate) fn is_held(&self, number: DeviceIndex) -> bool {
        self.row(number).holders > 0
    }

    pub(crate) fn holders(&self, id: &DeviceId) -> u32 {
        self.index.get(id).map_or(0, |number| self.row(*number).holders)
    }

    pub(crate) fn held(&self) -> usize {
        self.rows.iter().flatten().filter(|row| row.holders > 0).count()
    }

    /// The cached result of an expression.
    pub(crate) fn verdict(&self, number: DeviceIndex, expression: u32) -> Option<&Verdict> {
        self.row(number).verdicts.iter().find(|(it, _)| *it == expression).map(|(_, verdict)| verdict)
    }

    /// Caches the result of an expression.
    pub(crate) fn remember(&mut self, number: DeviceIndex, expression: u32, verdict: Verdict) {
        self.row_mut(number).verdicts.push((expression, verdict));
    }

    /// Drops the cached results of a device.
    pub(crate) fn forget(&mut self, number: DeviceIndex) {
        self.row_mut(number).verdicts = Vec::new();
    }

    /// Drops all cached results.
    pub(crate) fn forget_all(&mut self) {
        self.rows.iter_mut().flatten().for_each(|row| row.verdicts = Vec::new());
    }

    fn row(&self, number: DeviceIndex) -> &Row {
        self.rows[number as usize].as_ref().expect("a numbered device exists")
    }

    fn row_mut(&mut self, number: DeviceIndex) -> &mut Row {
        self.rows[number as usize].as_mut().expect("a numbered device exists")
    }
}
