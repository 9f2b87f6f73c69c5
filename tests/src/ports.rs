//! Allocates ports for servers that need one before they start.
//!
//! # Guarantees
//!
//! - A port is below the kernel's ephemeral range, so that no outgoing connection takes it before its server does, and is returned once
//!   per process. Parallel processes start at different offsets.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU16, Ordering};

/// Range of allocated ports; Linux uses 32768 and above for outgoing connections.
const FIRST: u16 = 16_000;
const COUNT: u16 = 16_000;
/// Offset between processes with consecutive ids.
const APART: u32 = 997;

/// Returns a port on which no server listens.
///
/// # Panics
/// All of them are in use.
#[must_use]
pub fn free() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id().wrapping_mul(APART) % u32::from(COUNT)) as u16;
    let candidates = (0..COUNT).map(|_| {
        let next = NEXT.fetch_add(1, Ordering::Relaxed) % COUNT;
        FIRST + (start + next) % COUNT
    });
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    { candidates }.find(is_free).expect("a machine has a free port")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_unique_and_not_in_use() {
        let first = free();
        let _server = TcpListener::bind(("127.0.0.1", first)).unwrap();
        let others: std::collections::BTreeSet<u16> = (0..100).map(|_| free()).collect();
        assert_eq!(others.len(), 100);
        assert!(!others.contains(&first));
        assert!(others.iter().all(|port| (FIRST..FIRST + COUNT).contains(port)));
    }
}
