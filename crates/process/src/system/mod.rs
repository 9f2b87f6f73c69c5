//! System calls beyond the standard library.
//!
//! Everything specific to Linux is in this directory, one file per topic. A port to another system must provide the
//! same items:
//!
//! | file | purpose | without it |
//! |---|---|---|
//! | `channel` | messages with file descriptors between parent and child | nothing works |
//! | `signals` | signalfd and kill | nothing works |
//! | `processes` | /proc, pidfds, process trees | no adoption, no watchdog |
//! | `terminal` | pseudo-terminals | no `tty: true` |
//! | `namespaces` | unshare, setns, ID maps | only [`crate::Isolation::None`] |
//! | `mounts` | bind mounts, tmpfs, pivot_root | only [`crate::Isolation::None`] |
//! | `confine` | rlimits, no_new_privs, Landlock, UIDs | weaker isolation, see [`crate::ContainerRuntime::isolation_features`] |

pub mod channel;
pub mod confine;
pub mod mounts;
pub mod namespaces;
pub mod processes;
pub mod signals;
pub mod terminal;
