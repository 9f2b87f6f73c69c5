//! Queueing scenarios for plain pods (`tests/queues`), run on the embedded server and on a real one with an installed operator.
//!
//! Scenarios consist of the steps of [`lifecycle`](crate::lifecycle), most of them in shorthand. Each has its own namespace, LocalQueue,
//! ClusterQueue and ResourceFlavor, so that all run in parallel.
//!
//! # Invariants
//!
//! - Cluster-scoped objects are not shared: they have the name of the scenario's namespace.
//! - Effects of timers are waited for, never assumed.

mod scenario;
mod shorthand;
mod tenants;

use std::path::{Path, PathBuf};

pub use scenario::load;
pub use tenants::TenantNamespace;

use crate::scenario_runner::Dialect;

/// Steps act on the LocalQueue of the scenario unless they name another object.
pub const DIALECT: Dialect = Dialect { subject: ("LocalQueue", "q"), space: "queue" };
/// The directory of the scenarios.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("queues")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_are_valid_and_have_unique_names() {
        let all = load(&folder()).unwrap();
        let names: std::collections::BTreeSet<&str> = all.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names.len(), all.len());
    }
}
