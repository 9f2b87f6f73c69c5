//! The structured-parameters allocator of Dynamic Resource Allocation (DRA): which devices a ResourceClaim gets on a node.
//!
//! [`Inventory`] receives ResourceSlices and DeviceClasses as they change, and which devices are allocated.
//! [`Inventory::allocate`] allocates claims on one node in the order of the upstream allocator: pools, slices and devices
//! by name, claims and requests as listed, the first complete solution.
//!
//! # Guarantees
//!
//! - Deterministic: the same objects give the same allocation. An allocation takes at most [`STEPS_MAX`] steps,
//!   independent of the clock.
//! - An allocated device is not allocated again, except for requests with `adminAccess`.
//! - A CEL selector is compiled once and evaluated once per device.
//!
//! # Deliberately absent
//!
//! Partitionable devices (shared counters), devices with `allowMultipleAllocations`, and binding conditions: such devices
//! are skipped. The assume cache of claims is in the scheduler.

mod allocation;
mod allocator;
mod cel;
mod claim;
mod device_table;
mod facts;
mod inventory;

pub use allocation::{AllocatedDevices, Allocation, allocated_devices};
pub use allocator::{AllocationError, RESULTS_MAX, STEPS_MAX};
pub use claim::{Claim, Constraint, DeviceAlternative, DeviceRequest};
pub use device_table::DeviceIndex;
pub use facts::{Device, DeviceClassFacts, DeviceId, NodeAvailability, PoolId, SliceFacts};
pub use inventory::Inventory;
