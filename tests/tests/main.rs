//! Black-box tests: unmodified clients against a running `muster up`.
//!
//! One server in memory serves all tests that do not kill theirs; each test works in a namespace of its own.

#![allow(clippy::unwrap_used, reason = "a test may give up")]

mod admin_server;
mod admission;
mod agent;
mod certificates;
mod corpus;
mod differential;
mod examples;
mod failover;
mod fleet;
mod gang_api;
mod gang_cluster;
mod gang_examples;
mod gang_soak;
mod image;
mod install;
mod jobset_examples;
mod jobsets;
mod kill;
mod known_differences;
mod kubectl_apply;
mod kubectl_create;
mod kubectl_debug;
mod kubectl_delete;
mod kubectl_get;
mod kubectl_patch;
mod kubectl_top;
mod local;
mod metrics;
mod node;
mod operator;
mod outages;
mod pages;
mod port;
mod programs;
mod pulls;
mod queue_cluster;
mod queue_reasons;
mod queue_scenarios;
mod queue_visibility;
mod queues;
mod quickstart;
mod real_planes;
mod run;
mod snapshot;
mod streams;
mod takeover;
mod tenants;
mod train_cluster;
mod train_examples;
mod train_queue;
mod train_reports;
mod train_run;
mod train_scenarios;
mod train_sdk;
mod train_ttl_deadline;
mod train_versions;
mod training_plane;
