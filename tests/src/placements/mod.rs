//! Compares our scheduler with kube-scheduler on random clusters: both bind a pod, or both reject it with the same message.
//!
//! Pods are created one by one. kube-scheduler decides first; ours gets the objects from the real server, decides, and then applies
//! kube-scheduler's decision, so that both continue from the same state. They may choose different nodes with equal scores: checked is
//! that kube-scheduler's node has our highest score.
//!
//! # Invariants
//!
//! - A cluster is a function of its seed, so a difference is reproducible.
//! - All nodes and pods are deleted before the next cluster.

mod cluster;
mod comparison;
mod pods;

pub use cluster::RandomCluster;
pub use comparison::{PlacementComparison, PlacementReport};
