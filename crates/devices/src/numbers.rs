//! Numbers of devices: what is looked up all the time is an index into an array.
//!
//! # Invariants
//!
//! - A device has one number while somebody uses it (a slice that lists it, a claim that holds it).
//! - What is remembered of a number is forgotten when the slice that lists the device changes.

use std::collections::HashMap;

use crate::facts::DeviceId;

/// A device, as the number of its row.
pub type Number = u32;

/// What an expression said of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    Yes,
    No,
    /// It came to no answer.
    Error(String),
}

#[derive(Debug)]
struct Row {
    id: DeviceId,
    users: u32,
    /// Claims that hold it.
    holders: u32,
    /// Verdicts by number of the expression.
    verdicts: Vec<(u32, Verdict)>,
}

/// Numbers of devices.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    index: HashMap<DeviceId, Number>,
    rows: Vec<Option<Row>>,
    free: Vec<Number>,
}

impl Numbers {
    /// The number of a device, with one user more.
    pub(crate) fn hire(&mut self, id: &DeviceId) -> Number {
        if let Some(number) = self.index.get(id).copied() {
            self.row_mut(number).users += 1;
            return number;
        }
        let row = Row { id: id.clone(), users: 1, holders: 0, verdicts: Vec::new() };
        let number = self.free.pop().unwrap_or_else(|| {
            self.rows.push(None);
            Number::try_from(self.rows.len() - 1).expect("fewer devices than 2^32")
        });
        self.rows[number as usize] = Some(row);
        self.index.insert(id.clone(), number);
        number
    }

    /// One user less.
    pub(crate) fn release(&mut self, number: Number) {
        let row = self.row_mut(number);
        row.users -= 1;
        if row.users == 0 {
            let row = self.rows[number as usize].take().expect("a numbered device exists");
            self.index.remove(&row.id);
            self.free.push(number);
        }
    }

    /// One holder more, or less.
    pub(crate) fn hold(&mut self, number: Number, sign: i32) {
        let row = self.row_mut(number);
        row.holders = row.holders.checked_add_signed(sign).expect("a device is given back once");
    }

    /// Whether a claim holds it.
    pub(crate) fn is_held(&self, number: Number) -> bool {
        self.row(number).holders > 0
    }

    /// How many claims hold it.
    pub(crate) fn holders(&self, id: &DeviceId) -> u32 {
        self.index.get(id).map_or(0, |number| self.row(*number).holders)
    }

    /// How many devices are held.
    pub(crate) fn held(&self) -> usize {
        self.rows.iter().flatten().filter(|row| row.holders > 0).count()
    }

    /// What an expression said of it.
    pub(crate) fn verdict(&self, number: Number, expression: u32) -> Option<&Verdict> {
        self.row(number).verdicts.iter().find(|(it, _)| *it == expression).map(|(_, verdict)| verdict)
    }

    /// Remembers what an expression says of it.
    pub(crate) fn remember(&mut self, number: Number, expression: u32, verdict: Verdict) {
        self.row_mut(number).verdicts.push((expression, verdict));
    }

    /// Forgets what was said of it.
    pub(crate) fn forget(&mut self, number: Number) {
        self.row_mut(number).verdicts = Vec::new();
    }

    /// Forgets everything that was said.
    pub(crate) fn forget_all(&mut self) {
        self.rows.iter_mut().flatten().for_each(|row| row.verdicts = Vec::new());
    }

    fn row(&self, number: Number) -> &Row {
        self.rows[number as usize].as_ref().expect("a numbered device exists")
    }

    fn row_mut(&mut self, number: Number) -> &mut Row {
        self.rows[number as usize].as_mut().expect("a numbered device exists")
    }
}
