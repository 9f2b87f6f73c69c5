//! Which devices a claim can have on which node.
//!
//! [`Inventory`] is fed slices and classes as they change, and told which devices are taken. [`Inventory::find`]
//! searches devices for claims on one node, in the order of the real allocator: pools, slices and devices by name,
//! claims and requests as they stand, the first whole solution.
//!
//! # Invariants
//!
//! - Same feed, same answer. A search takes at most [`STEPS_MAX`] steps, whatever the clock says.
//! - A device that is taken is not given again, except to administrators.
//! - Expressions are compiled once, and asked once per device.
//!
//! # Deliberately absent
//!
//! Devices that share counters, that several claims may have, or whose binding somebody else must allow: they are
//! passed over. Who holds what and since when: that is the scheduler's book.

mod allocation;
mod claim;
mod facts;
mod inventory;
mod numbers;
mod search;
mod select;

pub use allocation::{Allocation, Held, held};
pub use claim::{Ask, Claim, Constraint, Request};
pub use facts::{Class, Device, DeviceId, Place, PoolId, Slice};
pub use inventory::Inventory;
pub use numbers::Number;
pub use search::{RESULTS_MAX, STEPS_MAX, Trouble};
