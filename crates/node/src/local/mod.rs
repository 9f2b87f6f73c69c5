//! The node that is this machine: pods as processes.

pub mod dress;
