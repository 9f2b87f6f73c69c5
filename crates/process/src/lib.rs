//! A container runtime that runs containers as processes of the host.
//!
//! [`ContainerRuntime`] is the port: the kubelet passes a complete [`ContainerConfig`] and reads the [`RunState`].
//! Each run has a supervisor process (containerd's shim) that outlives the server: it writes the log, enforces
//! limits, waits, and writes the exit record. A restarted server restores everything from the run directories.
//!
//! ```text
//! server ── ProcessRuntime ─┬─ thread per run: waits for the locks
//!                           └─ directory per run: config, log, exit record
//! supervisor (__supervise)  writes the log, enforces limits, writes the exit record
//!   └─ init process (__inside)  namespaces, rootfs, limits; then PID 1 of the container
//!        └─ the command
//! ```
//!
//! # Guarantees
//!
//! - A run is started at most once: its directory is created before its process.
//! - An exit is recorded before it can be observed; a run without an exit record is reported as [`ExitReason::Lost`].
//! - When a supervisor exits, for whatever reason, no process of its container is left.
//!
//! # Deliberately absent
//!
//! Kubernetes: restarts, probe schedules and grace periods are the kubelet's. Images: a command is a program of the
//! host, unless a [`ContainerEngine`] is configured, which then runs the image.

mod cgroup;
mod cleanup;
mod clock;
pub mod container_config;
mod engine;
mod exec_process;
mod exec_session;
mod host_support;
mod host_usage;
mod init_process;
pub mod logs;
pub mod pod_dirs;
pub mod pod_registry;
pub mod prober;
mod process_runtime;
mod run_files;
pub mod runtime;
mod subcommands;
mod supervisor;
mod system;
#[cfg(test)]
mod testing;

pub use container_config::{ContainerConfig, ImagePullPolicy, Isolation, Mount, ResourceLimits, RunAs};
pub use engine::ContainerEngine;
pub use host_support::namespaces_missing;
pub use host_usage::node_usage;
pub use logs::{LogOptions, LogReader};
pub use pod_dirs::{PodDirs, RunId};
pub use pod_registry::{PodRegistry, RegisteredPod};
pub use process_runtime::ProcessRuntime;
pub use runtime::{
    AttachSession, ContainerRuntime, ContainerUsage, ExecOptions, ExecSession, ExitReason, ExitRecord,
    IsolationFeature, OnStateChange, RunState,
};
pub use subcommands::run as run_hidden_command;
pub use system::confine::disk_bytes;
