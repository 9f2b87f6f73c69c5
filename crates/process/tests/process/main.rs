//! The process runtime as the kubelet uses it: through [`muster_process::ContainerRuntime`], with real supervisors.

#![allow(clippy::unwrap_used, reason = "a test may give up")]

mod adopt;
mod engine;
mod exec;
mod life;
mod limits;
mod logs;
mod ordinary;
mod rootfs;
mod world;
