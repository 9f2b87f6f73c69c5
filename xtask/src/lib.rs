//! What `xtask` and `codegen` share: the workspace's folders and running other programs.

pub mod process;
