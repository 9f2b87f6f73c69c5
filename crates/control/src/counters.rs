//! What a loop counts: for metrics, and for tests that say how many calls a scenario may take.

use std::collections::BTreeMap;

use muster_api::port::{Act, Call};
use muster_tree::Text;

/// Counts since the loop began.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// Keys planned.
    pub plans: u64,
    /// Calls sent.
    pub calls: u64,
    /// Calls that write, Events included.
    pub writes: u64,
    /// Calls that write an Event.
    pub events: u64,
    /// Events not written because their object had too many.
    pub events_dropped: u64,
    /// Refusals received.
    pub refusals: u64,
    /// Calls sent again because their reply was lost.
    pub repeats: u64,
    /// Writes by each writer.
    pub writes_by: BTreeMap<Text, u64>,
    /// Keys ready to be planned, now.
    pub queue_len: u64,
    /// Calls without a reply, now.
    pub in_flight: u64,
}

impl Counters {
    /// Counts a call that is sent.
    pub fn sent(&mut self, call: &Call) {
        self.calls += 1;
        if matches!(call.act, Act::Get) {
            return;
        }
        self.writes += 1;
        *self.writes_by.entry(call.by.clone()).or_default() += 1;
        if call.on.kind.plural == "events" {
            self.events += 1;
        }
    }
}
