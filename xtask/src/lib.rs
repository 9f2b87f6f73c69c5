//! Shared by `xtask` and `codegen`: workspace directories and child processes.

pub mod process;
