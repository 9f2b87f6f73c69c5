//! What this crate asks of the operating system beyond what the standard library has.
//!
//! Everything that only Linux does is in this folder, one file per matter; the rest of the crate is plain Rust. Another
//! system must provide the same items:
//!
//! | file | what | without it |
//! |---|---|---|
//! | `channel` | messages with open files between parent and child | nothing works |
//! | `signals` | signals as something to wait for, and sending them | nothing works |
//! | `processes` | telling processes from their namesakes, finding descendants | no adoption, no watchdog |
//! | `terminal` | pseudo terminals | no `tty: true` |
//! | `namespaces` | own users, mounts, processes, host name | only [`crate::Isolation::None`] |
//! | `mounts` | the container's view of the file system | only [`crate::Isolation::None`] |
//! | `confine` | limits, no new privileges, Landlock, identities | weaker limits; [`crate::Containers::applied`] says so |

pub mod channel;
pub mod confine;
pub mod mounts;
pub mod namespaces;
pub mod processes;
pub mod signals;
pub mod terminal;
