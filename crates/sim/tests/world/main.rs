//! The simulated world and what is checked on it.

#![allow(clippy::unwrap_used, reason = "a test may give up")]

mod budget;
mod crowd;
mod devices;
mod edits;
mod gangs;
mod garbage;
mod jobsets;
mod kubelet;
mod lasting;
mod makers;
mod nodes;
mod play;
mod policies;
mod processes;
mod queues;
mod scenario;
mod seeds;
mod training;
mod urgent;
mod volumes;
mod words;
mod worlds;
