//! The same random clusters and pods for kube-scheduler on the real plane and for ours: both place, or both refuse
//! with the same words.
//!
//! Pods come one by one. The real scheduler decides first; ours is fed the objects as the real server shows them,
//! decides, and is then told what the real one did, so that both stand before the same cluster again. Which of
//! equally good nodes is taken may differ: that the other's node is as good as the best is what is checked.
//!
//! # Invariants
//!
//! - A cluster is a function of its seed: one that showed a difference shows it again.
//! - Nothing is left behind: the next cluster finds no nodes and no pods.

mod cluster;
mod pods;
mod referee;

pub use cluster::Cluster;
pub use referee::{Referee, Report};
